"""Memory of the layer on the host, each figure measured in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="the system does not say what a process held at most"
)

ROOT = Path(__file__).parents[2]
FLAT_MB = 10.0
_STREAM = """
import torch
from pathlib import Path
from chainfold.system.machine import resident
from chainfold.torch import CRF

crf = CRF(4)


def pieces(count):
    for _ in range(count):
        yield torch.randn(1 << 14, 4, requires_grad=True), torch.randint(4, (1 << 14,))


list(crf.stream(pieces(4)))
for count in (4, 40):
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    list(crf.stream(pieces(count)))
    print(resident() - before)
"""


@pytest.mark.parametrize("labels", [8, 9])
def test_a_step_keeps_one_forward_vector_a_position(labels: int) -> None:
    command = [sys.executable, "-m", "experiments.bench.torch_layer", "memory", "1", "500000", str(labels)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    vector = 8 * (labels + -labels % 8)  # in doubles, padded to whole registers
    rows = 9  # where each position is, and whether a sequence starts there
    assert vector < json.loads(done.stdout)["bytes_a_position"] < 1.1 * (vector + rows)


def test_the_memory_of_a_stream_does_not_grow_with_its_length() -> None:
    command = [sys.executable, "-W", "ignore", "-c", _STREAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    short, long = (float(line) / 1e6 for line in done.stdout.split())
    assert long - short < FLAT_MB
