"""The memory of workers and client does not grow with the number of parts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MOST_GROWTH = 30e6  # bytes, where there are ten times as many parts
_ROWS = 40_000  # of a file

_SCRIPT = """
import json, sys
from chainfold import Training
from chainfold.dask import encode, train
from chainfold.dask.connection import connected
from chainfold.system.machine import resident

if __name__ == "__main__":
    files, out = sys.argv[2:], sys.argv[1]
    with connected("local:2") as client:
        chain = encode(client, files, out, part_size=1 << 19, columns=["word", "shape", "label"])
        train(client, chain, Training(options={"max_iterations": 2}), memory=64 << 20)
        workers = client.run(resident)
        print(json.dumps({"parts": len(chain.parts), "client": resident(), "worker": max(workers.values())}))
"""


def measured(folder: Path, files: int) -> dict[str, int]:
    """Parts, and the largest resident sets of the client and of a worker, in processes of their own."""
    folder.mkdir()
    rows = "".join(f"w{k * k % 997} s{k % 7} {'AB'[k % 3 == 0]}\n" + "\n" * (k % 20 == 19) for k in range(_ROWS))
    paths = [folder / f"rows-{number:03}.txt" for number in range(files)]
    for path in paths:
        path.write_text(rows)
    script = folder / "script.py"
    script.write_text(_SCRIPT)
    command = [sys.executable, str(script), str(folder / "chain"), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_ten_times_as_many_parts(tmp_path: Path) -> None:
    few, many = measured(tmp_path / "few", 4), measured(tmp_path / "many", 40)
    assert many["parts"] == 10 * few["parts"]
    assert many["client"] - few["client"] < MOST_GROWTH
    assert many["worker"] - few["worker"] < MOST_GROWTH
