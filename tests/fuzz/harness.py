"""Targets are run input by input in processes of their own, which are watched and started again when they die."""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from chainfold.errors import ChainfoldError

Target = Callable[[random.Random, Path], None]

MODULES = ("chains", "texts", "tables", "templates", "objects", "states", "foreign")
SECONDS_AN_INPUT = 10.0  # of the processor: a busy machine is no hang
_SECONDS_WAITING = 300.0  # by the clock; the first inputs wait for compiled kernels
MEMORY = 1 << 30  # bytes beyond those of the first inputs
_ADDRESSES = 6 << 30  # bytes of addresses beyond those: a larger allocation fails at once
_FIRST = 20  # inputs in which modules are loaded and kernels compiled
_MOST_SHOWN = 20  # kinds of failures of a target
_ROOT = Path(__file__).parents[2]


def targets() -> dict[str, Target]:
    """All of them by name."""
    found: dict[str, Target] = {}
    for name in MODULES:
        found |= importlib.import_module(f"fuzz.{name}").TARGETS
    return found


def target_called(name: str) -> Target:
    """One of them; no more is loaded than is needed for it."""
    for module in MODULES:
        found: dict[str, Target] = importlib.import_module(f"fuzz.{module}").TARGETS
        if name in found:
            return found[name]
    raise SystemExit(f"there is no target {name!r}; there are {', '.join(targets())}")


def dice_of(target: str, seed: int, number: int) -> random.Random:
    """What decides the input of that number."""
    return random.Random(f"{target} {seed} {number}")


def tried(target: Target, dice: random.Random, folder: Path) -> bool:
    """Run one input in this process; was it accepted? Raises whatever is a failure."""
    try:
        target(dice, folder)
    except ChainfoldError as error:
        sentence = str(error)
        assert sentence.endswith((".", "?")), f"this is no sentence: {sentence!r}"
        assert "\n" not in sentence, f"this is more than a line: {sentence!r}"
        return False
    finally:
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    return True


@dataclass
class Found:
    """What came of the inputs of one target."""

    target: str
    seconds: float = 0.0
    inputs: int = 0
    refused: int = 0
    failures: dict[int, str] = field(default_factory=dict)  # by number of the input


# The process that is watched.


def serve(name: str, seed: int, numbers: range, until: float) -> None:
    """Run the inputs of these numbers, or those that can be begun in time; a line of JSON for each: was it refused,
    and what was wrong. The time begins with the first that is done."""
    faulthandler.enable()
    for alarm in (signal.SIGALRM, signal.SIGPROF):
        faulthandler.register(alarm, all_threads=True, chain=True)  # told, then dead
    warnings.simplefilter("error")
    target, limit, begin = target_called(name), 0, time.monotonic()
    said = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    said.write("ready\n")
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_fast_folder()) as folder:
        for done, number in enumerate(numbers, 1):
            refused, problem = False, None
            signal.setitimer(signal.ITIMER_PROF, SECONDS_AN_INPUT if done > _FIRST else 0.0)
            signal.setitimer(signal.ITIMER_REAL, _SECONDS_WAITING)
            try:
                refused = not tried(target, dice_of(name, seed, number), Path(folder))
                if limit and _peak() > limit:
                    limit = _peak() + MEMORY
                    raise MemoryError("more than 1 GB of memory")
            except KeyboardInterrupt:
                raise
            except BaseException:  # whatever it is
                problem = traceback.format_exc()
            said.write(json.dumps([refused, problem]) + "\n")
            begin = time.monotonic() if done == 1 else begin
            if done == _FIRST:
                limit = _peak() + MEMORY
                used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (used + _ADDRESSES, resource.RLIM_INFINITY))
            if time.monotonic() - begin > until:
                break
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0.0)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# The one that watches.


def _share(name: str, seed: int, seconds: float, numbers: range) -> Found:
    """Run these inputs in one process after another: where one dies, the next goes on behind that input."""
    found = Found(name)
    while numbers and seconds > 0.0:
        order = [numbers.start, numbers.stop, numbers.step, "--seed", seed, "--seconds", seconds, name]
        line, begin = [sys.executable, "-m", "tests.fuzz", "--serve", *map(str, order)], time.monotonic()
        done = subprocess.run(line, capture_output=True, text=True, errors="replace", cwd=_ROOT)
        seconds -= time.monotonic() - begin
        if not done.stdout:
            raise SystemExit(f"a worker cannot start:\n{done.stderr}")
        told = [json.loads(text) for text in done.stdout.splitlines()[1:]]
        found.inputs += len(told)
        found.refused += sum(refused for refused, _ in told)
        found.failures |= {number: problem for number, (_, problem) in zip(numbers, told, strict=False) if problem}
        if done.returncode in (0, -signal.SIGINT):
            break
        found.failures[numbers[len(told)]] = f"the process ended with {done.returncode}: {done.stderr[-4000:]}"
        found.inputs += 1
        numbers = numbers[len(told) + 1 :]
    return found


def watched(name: str, inputs: int, seed: int, workers: int, seconds: float = math.inf) -> Found:
    """Run inputs of a target in so many processes, until all are done or the time is over.

    The time begins with the first input that is done: modules are loaded and kernels compiled before.
    """
    whole, begin = Found(name), time.monotonic()
    with ThreadPoolExecutor(workers) as pool:
        shares = [range(k, inputs, workers) for k in range(min(workers, inputs))]
        for found in pool.map(partial(_share, name, seed, seconds), shares):
            whole.inputs += found.inputs
            whole.refused += found.refused
            whole.failures |= found.failures
    whole.seconds = time.monotonic() - begin
    return whole


def _fast_folder() -> str | None:
    """Files in memory, where there are such."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def told(all_found: list[Found], seed: int, console: Console) -> None:
    """The table, and below it how each failure is repeated."""
    table = Table("target", *("inputs", "a second", "refused", "accepted", "failures"))
    for found in all_found:
        accepted = found.inputs - found.refused - len(found.failures)
        rate = found.inputs / max(found.seconds, 1e-9)
        figures = (found.inputs, round(rate), found.refused, accepted, len(found.failures))
        table.add_row(found.target, *(f"{figure:,}" for figure in figures))
    for column in table.columns[1:]:
        column.justify = "right"
    console.print(table)
    for found in all_found:
        alike: dict[str, list[int]] = {}
        for number, problem in sorted(found.failures.items()):
            last = (problem.strip().splitlines() or [""])[-1][:300]
            alike.setdefault(re.sub(r"/dev/shm/\S*/|[0-9]+", "…", last), []).append(number)
        for problem, numbers in list(alike.items())[:_MOST_SHOWN]:
            console.print(f"{len(numbers)} × {problem}", markup=False, highlight=False, soft_wrap=True)
            console.print(f"    python -m tests.fuzz {found.target} --seed {seed} --only {numbers[0]}", style="bold")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all of them, if none is named")
    parser.add_argument("--inputs", type=int, default=40_000, help="of each target")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="at most, for each target, from its first input on"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run this input alone, in this process")
    parser.add_argument("--serve", type=int, nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    names = given.targets or list(targets())
    if given.serve:
        serve(names[0], given.seed, range(*given.serve), given.seconds)
        return 0
    if given.only is not None:
        faulthandler.enable()
        warnings.simplefilter("error")
        with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_fast_folder()) as folder:
            accepted = tried(target_called(names[0]), dice_of(names[0], given.seed, given.only), Path(folder))
        Console().print("accepted" if accepted else "refused")
        return 0
    for name in names:
        target_called(name)
    console, all_found = Console(), []
    for name in names:
        all_found.append(watched(name, given.inputs, given.seed, given.workers, given.seconds))
        console.print(f"{name}: {all_found[-1].inputs:,} inputs, {len(all_found[-1].failures)} failures", style="dim")
    told(all_found, given.seed, console)
    return int(any(found.failures or not found.inputs for found in all_found))
