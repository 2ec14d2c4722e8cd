"""Memory, each figure measured in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from chainfold import SyntheticChain, write_chain
from chainfold.engines.registry import engine_named
from chainfold.engines.settings import Settings, Shape

FLAT_MB = 5.0
FLAT_ENCODING_MB = 10.0
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": "131072"}  # what is freed leaves the process: what it holds is measured
SLOPE = 0.15


def measured(sizes: str, engine: str, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "chainfold", "gradient", "--synthetic", sizes, "--engine", engine, "--json"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def test_resident_memory_does_not_depend_on_the_size_of_a_stored_chain(tmp_path: Path) -> None:
    peaks = []
    for positions in (10**6, 4 * 10**6):
        path = tmp_path / f"{positions}.arrow"
        write_chain(path, SyntheticChain(positions, 5, 100, 8))
        command = [sys.executable, "-m", "chainfold", "gradient", str(path), "--engine", "stream", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(float(json.loads(done.stdout)["peak_rss_mb"]))
    assert path.stat().st_size > 150e6
    assert abs(peaks[1] - peaks[0]) <= FLAT_MB, peaks


def encoding_peak(path: Path, *options: str) -> float:
    command = [sys.executable, "-m", "chainfold", "encode", str(path), "-o", f"{path}.chain", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **GIVEN_BACK})
    return float(json.loads(done.stdout)["peak_rss_mb"])


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ("word{k} tag{m} L{m}\n", ("--hash-bits", "20")),  # never stops inventing words
        ("word{m} tag{m} L{m}\n", ("--attributes", "0[-1] 0 0|1[1]", "--border", "crfpp")),
        ("{k},{m},{m},L{m}\n", ("--format", "csv")),
    ],
    ids=["new words, hashed", "expressions", "numbers"],
)
def test_encoding_a_longer_file_takes_no_more_memory(tmp_path: Path, row: str, options: tuple[str, ...]) -> None:
    peaks = []
    for rows in (400_000, 2_500_000):
        path = tmp_path / f"{rows}"
        with path.open("w") as file:
            file.writelines(row.format(k=k, m=k % 7) for k in range(rows))
        peaks.append(median(encoding_peak(path, *options) for _ in range(3)))  # the first may compile
    assert peaks[1] - peaks[0] <= FLAT_ENCODING_MB, peaks


VERB = """
import atexit, sys
from chainfold.system.machine import resident
atexit.register(lambda: print(resident(), file=sys.stderr))
from chainfold.__main__ import main
main()
"""


def peak_of(*command: object) -> float:
    """Peak resident memory in MB of a verb in a fresh process, of which this one is no part."""
    arguments = [sys.executable, "-c", VERB, *map(str, command)]
    done = subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    return int(done.stderr.split()[-1]) / 1e6


@pytest.mark.parametrize(("rows", "training", "tagging"), [(300, 165.0, 160.0), (60_000, 240.0, 205.0)])
def test_small_jobs_take_little_memory(tmp_path: Path, rows: int, training: float, tagging: float) -> None:
    """What libraries take, and arrays: 213,000 weights of 60,000 rows."""
    text, model = tmp_path / "text", tmp_path / "model"
    lines = (f"w{k * k % 49_999} t{k * 7 % 41} L{(k * k + k // 3) % 7}\n" for k in range(rows))
    text.write_text("".join(line + "\n" * (k % 20 == 19) for k, line in enumerate(lines)))
    attributes = "0[-1] 0 0[1] 0[-1]|0 0|0[1] 1[-1] 1 1[1] 1[-1]|1 1|1[1]"
    train = "train", text, "-o", model, "--attributes", attributes, "--max-iterations", 8, "--threads", 1
    tag = "tag", model, text, "-o", tmp_path / "tagged"
    for verb, most in ((train, training), (tag, tagging)):
        peak_of(*verb)  # compiles
        (tmp_path / "model.chain").unlink(missing_ok=True)
        assert peak_of(*verb) <= most


FOLLOWED = "w{k} t{m} L{m}\n"


def followed_peak(model: Path, rows: int, *options: str) -> float:
    """Peak resident memory in MB of `tag --follow` on so many rows through a pipe, all of one sequence."""
    text = "".join(FOLLOWED.format(k=k % 97, m=k // 5 % 7) for k in range(100_000)).encode()
    command = [sys.executable, "-m", "chainfold", "tag", str(model), "-", "--follow", *options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    for _ in range(rows // 100_000):
        process.stdin.write(text)
    process.stdin.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_maxrss * 1024 / 1e6


@pytest.mark.parametrize(
    ("options", "longer"),
    [((), 4), pytest.param((), 10, marks=pytest.mark.slow), pytest.param(("--marginals",), 10, marks=pytest.mark.slow)],
    ids=["labels", "labels, ten million rows", "marginals, ten million rows"],
)
def test_following_a_longer_stream_takes_no_more_memory(tmp_path: Path, options: tuple[str, ...], longer: int) -> None:
    text, model = tmp_path / "text", tmp_path / "model"
    text.write_text("".join(FOLLOWED.format(k=k % 97, m=k // 5 % 7) for k in range(5_000)))
    command = [sys.executable, "-m", "chainfold", "train", str(text), "-o", str(model), "--max-iterations", "5"]
    subprocess.run([*command, "--one-sequence", "--attributes", "0[-1] 0 1"], capture_output=True, check=True)
    followed_peak(model, 100_000, *options)  # compiles
    short, long = (followed_peak(model, rows, *options) for rows in (10**6, longer * 10**6))
    assert abs(long - short) <= FLAT_MB, (short, long)


def peak(sizes: str, engine: str, *options: str) -> float:
    """Peak resident memory in MB; the first run compiles, and is not the one that counts."""
    return float(measured(sizes, engine, *options)["peak_rss_mb"])


def predicted_mb(positions: int, engine: str) -> float:
    shape = Shape(positions, n_labels=5, weights=175, active=3.0, n_edge_attributes=0)
    return engine_named(engine).memory(shape, Settings()) / 1e6


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    for engine in ("stream", "emp", "fb", "checkpoint", "parallel"):
        measured("20000:2:2:1", engine)


@pytest.mark.parametrize(
    ("engine", "sizes", "first", "last"),
    [
        ("stream", "5:30:3", 10**5, 10**7),
        ("emp", "2:2:1", 10**5, 10**7),
        ("parallel", "5:30:3", 10**6, 10**7),
        pytest.param("stream", "5:100:8", 10**6, 10**8, marks=pytest.mark.slow),
    ],
)
def test_memory_does_not_depend_on_the_length(engine: str, sizes: str, first: int, last: int) -> None:
    short, long = (peak(f"{positions}:{sizes}", engine, "--threads", "2") for positions in (first, last))
    assert abs(long - short) <= FLAT_MB, (short, long)


def test_fb_grows_as_predicted() -> None:
    low, high = 10**6, 4 * 10**6
    growth = peak(f"{high}:5:30:3", "fb") - peak(f"{low}:5:30:3", "fb")
    assert growth == pytest.approx(predicted_mb(high, "fb") - predicted_mb(low, "fb"), rel=SLOPE)


def test_checkpoint_grows_as_the_root() -> None:
    """From T to 16 T it may grow by a factor of four, and what it had was small."""
    low, high = 10**6, 16 * 10**6
    growth = peak(f"{high}:5:30:3", "checkpoint") - peak(f"{low}:5:30:3", "checkpoint")
    assert growth <= predicted_mb(high, "checkpoint") - predicted_mb(low, "checkpoint") + FLAT_MB
