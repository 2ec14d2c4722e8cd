"""`chainfold warm`, and the process that compiles beside a verb."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chainfold.cli import warm_steps
from chainfold.cli.warm import one_of_each_width, parse_widths
from chainfold.jit import kernel_cache
from verbs import conll, failed, run, succeeded


@pytest.mark.parametrize(("text", "numbers"), [("2", [2]), ("9, 3-4,4", [3, 4, 9]), ("1024", [1024]), ("7-7", [7])])
def test_widths_are_numbers_and_ranges(text: str, numbers: list[int]) -> None:
    assert parse_widths(text) == numbers


@pytest.mark.parametrize("text", ["", "1", "0-4", "4-2", "2-", "-2", "2..4", "two", "2,", "1025", "2-99999", "²"])
def test_widths_that_are_none(text: str) -> None:
    said = failed("warm", "--widths", text)
    assert said == f"--widths is {text!r}, but must be numbers from 2 to 1024 and ranges of them, for instance 2-16,40."


def test_every_step_of_warm_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(warm_steps, "_in_a_process", steps.append)
    monkeypatch.setenv("CHAINFOLD_CACHE", str(tmp_path / "new" / "kept"))
    facts = json.loads(succeeded("warm", "--widths", "2-3,20", "--json"))
    assert facts["folder"] == str(tmp_path / "new" / "kept")
    assert (facts["kernels"], facts["bytes"]) == (0, 0)
    assert set(steps) == {"formats", *(f"labels:{number}" for number in one_of_each_width([2, 3, 20]))}


def test_a_step_that_fails_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_steps, "STEPS", {})
    monkeypatch.setattr(warm_steps, "__name__", "chainfold.nothing")
    done = run("warm", "--widths", 2)
    assert done.exit_code == 2
    assert done.stderr.startswith("chainfold: a process that compiles kernels failed: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("free", "started"), [(2, 1), (1, 0)])
def test_a_second_process_is_started_where_there_is_a_core(
    free: int, started: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[Any] = []
    stopped: list[str] = []

    class Process:
        def __init__(self, command: Any, **_: Any) -> None:
            commands.append(command)

        def kill(self) -> None:
            stopped.append("killed")

        def wait(self) -> None:
            stopped.append("waited for")

    monkeypatch.setattr(kernel_cache, "compiling", [])
    monkeypatch.setattr(warm_steps, "cores", lambda: free)
    monkeypatch.setattr(subprocess, "Popen", Process)
    with warm_steps.stopped_with_verb():
        warm_steps.compile_beside("names")
        assert not commands, "nothing has to be compiled yet"
        kernel_cache.compiling.pop()()
        assert len(commands) == started
        assert all(command[1:] == ["-m", "chainfold.cli.warm_steps", "names"] for command in commands)
        warm_steps.compile_beside("decode:3")
        assert not stopped
    assert not kernel_cache.compiling, "the next verb compiles something else"
    assert stopped == ["killed", "waited for"] * started


COUNT = """
import atexit, sys
from numba.core import event
from chainfold.__main__ import main
recorder = event.RecordingListener()
event.register("numba:compile", recorder)
atexit.register(lambda: print("compiled:", len(recorder.buffer), file=sys.stderr))
main()
"""


@pytest.mark.slow
def test_after_warm_nothing_is_compiled(tmp_path: Path) -> None:
    environment = {**os.environ, "CHAINFOLD_CACHE": str(tmp_path / "kept")}

    def compiled(*arguments: object) -> int:
        command = [sys.executable, "-c", COUNT, *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return int(done.stderr.rpartition("compiled: ")[2])

    rows, model = conll(tmp_path / "rows.txt"), tmp_path / "model"
    subprocess.run([sys.executable, "-m", "chainfold", "warm", "--widths", "3"], env=environment, check=True)
    before = sorted((tmp_path / "kept").rglob("*"))
    for options in ([], ["--c1", 0.1, "--c2", 0], ["--algorithm", "arow"], ["--threads", 1, "--scheme", "BIO"]):
        assert compiled("train", rows, "-o", model, "--max-iterations", 2, "--fresh", *options) == 0
    for options in ([], ["--all-marginals"], ["--nbest", 2], ["--samples", 2]):
        assert compiled("tag", model, rows, "-o", tmp_path / "tagged", *options) == 0
    assert compiled("eval", model, rows) == 0
    assert compiled("learn", rows, "-o", tmp_path / "learnt", "--hash-bits", 10) == 0
    assert sorted((tmp_path / "kept").rglob("*")) == before
