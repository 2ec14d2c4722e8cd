"""Seconds and bytes: sides interleaved round by round, ratios within a round, commands in fresh processes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from experiments import ROOT

Run = Callable[[], object]
Times = dict[str, list[float]]


def timed(run: Run) -> float:
    """Seconds that it takes."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def interleaved(runs: Mapping[str, Run], rounds: int, warm: bool = True) -> Times:
    """Seconds of each run in each round; a first round, not counted, compiles and warms."""
    times: Times = {name: [] for name in runs}
    for round_ in range(-1 if warm else 0, rounds):
        for name, run in runs.items():
            seconds = timed(run)
            if round_ >= 0:
                times[name].append(seconds)
    return times


def ratios(times: Times, slow: str, fast: str) -> list[float]:
    """Time of `slow` as a multiple of that of `fast`, round by round.

    Empty where one of them was not measured, or too short for its clock.
    """
    if slow not in times or fast not in times or 0.0 in times[fast]:
        return []
    return [a / b for a, b in zip(times[slow], times[fast], strict=True)]


def each(values: list[float], factor: float) -> list[float]:
    return [value * factor for value in values]


def median(values: list[float]) -> float:
    return statistics.median(values)


def fresh(*command: str, environment: Mapping[str, str] | None = None) -> tuple[float, str]:
    """Seconds that a command takes in a process of its own, and what it prints."""
    begin = time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, **(environment or {})}
    )
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return seconds, done.stdout


def python(*arguments: str, environment: Mapping[str, str] | None = None) -> tuple[float, str]:
    """Another Python process."""
    return fresh(sys.executable, *arguments, environment=environment)


def told(*arguments: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Facts that a Python process prints in JSON, and `wall`, the seconds that it took from outside."""
    wall, text = python("-m", *arguments, environment=environment)
    facts: dict[str, Any] = json.loads(text)
    return {**facts, "wall": wall}


def chainfold(*arguments: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A verb of the command line, in a fresh process."""
    return told("chainfold", *arguments, "--json", environment=environment)
