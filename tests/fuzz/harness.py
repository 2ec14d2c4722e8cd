"""Targets are run input by input in processes of their own, which are watched and started again when they die."""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import importlib.util
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
_STATE = struct.Struct("<4q")  # the number of the input at work, how many are done, refused and failed


def targets() -> dict[str, Target]:
    """All of them by name."""
    found: dict[str, Target] = {}
    for name in MODULES:
        if importlib.util.find_spec(f"fuzz.{name}"):
            found |= importlib.import_module(f"fuzz.{name}").TARGETS
    return found


def target_called(name: str) -> Target:
    """One of them; no more is loaded than is needed for it."""
    for module in MODULES:
        if importlib.util.find_spec(f"fuzz.{module}"):
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
        _empty(folder)
    return True


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@dataclass
class Found:
    """What came of the inputs of one target."""

    target: str
    seconds: float = 0.0
    inputs: int = 0
    refused: int = 0
    failures: dict[int, str] = field(default_factory=dict)  # by number of the input


# The process that is watched.


def serve(name: str, seed: int, numbers: range, board: Path) -> None:
    """Run the inputs of these numbers; the board says where it stands, and failures are written beside it."""
    faulthandler.enable()
    for alarm in (signal.SIGALRM, signal.SIGPROF):
        faulthandler.register(alarm, all_threads=True, chain=True)  # told, then dead
    warnings.simplefilter("error")
    target = target_called(name)
    done = refused = failed = 0
    limit = 0
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-", dir=board.parent) as folder,
        board.open("wb", buffering=0) as shown,
        board.with_suffix(".failures").open("a", buffering=1) as failures,
    ):
        for number in numbers:
            os.pwrite(shown.fileno(), _STATE.pack(number, done, refused, failed), 0)
            signal.setitimer(signal.ITIMER_PROF, SECONDS_AN_INPUT if done >= _FIRST else 0.0)
            signal.setitimer(signal.ITIMER_REAL, _SECONDS_WAITING)
            try:
                refused += not tried(target, dice_of(name, seed, number), Path(folder))
                if limit and _peak() > limit:
                    limit = _peak() + MEMORY
                    raise MemoryError("more than 1 GB of memory")
            except BaseException:  # whatever it is
                failed += 1
                failures.write(json.dumps({"number": number, "problem": traceback.format_exc()}) + "\n")
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            done += 1
            if done == _FIRST:
                limit = _peak() + MEMORY
                used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (used + _ADDRESSES, resource.RLIM_INFINITY))
        os.pwrite(shown.fileno(), _STATE.pack(-1, done, refused, failed), 0)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# The one that watches.


class Worker:
    """Every so-manieth input of a target, in one process after another."""

    def __init__(self, found: Found, seed: int, numbers: range, folder: Path) -> None:
        self._found, self._seed, self._left, self._folder = found, seed, numbers, folder
        self._starts = 0
        self._start()

    def _start(self) -> None:
        self._starts += 1
        self._board = self._folder / f"{self._left.start}-{self._starts}.board"
        self._board.write_bytes(_STATE.pack(-1, 0, 0, 0))
        self._errors = self._board.with_suffix(".stderr")
        numbers = [str(number) for number in (self._left.start, self._left.stop, self._left.step)]
        command = [sys.executable, "-m", "tests.fuzz", "--serve", *numbers, "--board", str(self._board)]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [*command, "--seed", str(self._seed), self._found.target], stdout=errors, stderr=errors, cwd=_ROOT
            )

    @property
    def begun(self) -> bool:
        """Has it done an input?"""
        return self._starts > 1 or _STATE.unpack(self._board.read_bytes())[1] > 0

    def goes_on(self) -> bool:
        """Look whether it is at work; one that died is started again behind the input that it died of."""
        if self._process.poll() is None:
            return True
        number = self._account()
        if number is None:
            if self._process.returncode == 0:
                return False
            raise SystemExit(f"a worker cannot start:\n{self._errors.read_text()}")
        end = f"the process ended with {self._process.returncode}: "
        self._found.failures[number] = end + self._errors.read_text(errors="replace")[-4000:]
        self._found.inputs += 1
        self._left = range(number + self._left.step, self._left.stop, self._left.step)
        if not self._left:
            return False
        self._start()
        return True

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
            self._account()

    def _account(self) -> int | None:
        """Add up what this process has done; the number that it was at."""
        number, done, refused, _ = _STATE.unpack(self._board.read_bytes())
        self._found.inputs += done
        self._found.refused += refused
        failures = self._board.with_suffix(".failures")
        for line in failures.read_text().splitlines() if failures.exists() else ():
            failure = json.loads(line)
            self._found.failures[failure["number"]] = failure["problem"]
        return number if number >= 0 else None


def watched(name: str, inputs: int, seed: int, workers: int, seconds: float | None = None) -> Found:
    """Run inputs of a target in so many processes, until all are done or the time is over.

    The time begins with the first input that is done: modules are loaded and kernels compiled before.
    """
    found, begin = Found(name), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_fast_folder()) as folder:
        team = [Worker(found, seed, range(k, inputs, workers), Path(folder)) for k in range(min(workers, inputs))]
        try:
            while team and (seconds is None or time.monotonic() - begin < seconds):
                if not found.inputs and not any(worker.begun for worker in team):
                    begin = time.monotonic()
                team = [worker for worker in team if worker.goes_on()]
                time.sleep(0.05)
        finally:
            for worker in team:
                worker.stop()
    found.seconds = time.monotonic() - begin
    return found


def _fast_folder() -> str | None:
    """Files in memory, where there are such."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextmanager
def own_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_fast_folder()) as folder:
        yield Path(folder)


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
    parser.add_argument("--seconds", type=float, help="at most, for each target, from its first input on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run this input alone, in this process")
    parser.add_argument("--serve", type=int, nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--board", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    names = given.targets or list(targets())
    if given.serve:
        serve(names[0], given.seed, range(*given.serve), given.board)
        return 0
    if given.only is not None:
        faulthandler.enable()
        warnings.simplefilter("error")
        with own_folder() as folder:
            accepted = tried(target_called(names[0]), dice_of(names[0], given.seed, given.only), folder)
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
