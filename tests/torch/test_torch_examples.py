"""The examples run, on a little of their data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("CHAINFOLD_DATA", ROOT.parent / "shared" / "data"))
RUNS = {
    "conll2000_bilstm_crf.py conll2000 --epochs 1 --sentences 100 --threads 1": "epoch 1: F1 ",
    "ecoli_streaming.py ecoli_k12 --positions 20000 --piece 4096 --steps 1": "step 1: log likelihood -1.",
}


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("line", RUNS)
def test_an_example_runs(line: str) -> None:
    script, folder, *options = line.split()
    if not (DATA / folder).exists():
        pytest.skip(f"{DATA / folder} does not exist; set CHAINFOLD_DATA")
    command = [sys.executable, "-W", "ignore", str(ROOT / "examples" / script), str(DATA / folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(RUNS[line])
