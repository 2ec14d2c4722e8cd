"""Start-up: imports, help, training and tagging of a small file, compiled or not."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.bench.findings import Cell, ResultTable, SectionResults, Target
from experiments.bench.section import Context, Section
from experiments.bench.timing import fresh, python

_LINES = 300
_IMPORT, _HELP = '`python -c "import chainfold"`', "`chainfold --help`"
_TRAIN, _TAG = f"`chainfold train` of {_LINES} lines", f"`chainfold tag` of {_LINES} lines"
_NOTHING, _ONE_CORE, _COMPILED = ", nothing compiled", ", nothing compiled, on one core", ", compiled before"
_WARM = "`chainfold warm`, nothing compiled"
_BARS = {
    _IMPORT: 0.3,
    _HELP: 0.5,
    _TRAIN + _NOTHING: 8.0,
    _TAG + _NOTHING: 5.0,
    _TRAIN + _COMPILED: 2.0,
    _TAG + _COMPILED: 0.7,
}


def _small_file(path: Path) -> None:
    words = "the DT B-NP\ncat NN I-NP\nsat VBD B-VP\nhere RB B-ADVP\n\n"
    path.write_text(words * (_LINES // 5))


class _Runs:
    """Verbs on the small file, each in a fresh process with a folder of kernels."""

    def __init__(self, folder: Path, text: Path) -> None:
        self._folder, self._text, self._model = folder, text, folder / "small.model"

    def train(self, kernels: Path, *prefix: str) -> float:
        (self._folder / "small.model.chain").unlink(missing_ok=True)
        return self._run(kernels, prefix, "train", str(self._text), "-o", str(self._model))

    def tag(self, kernels: Path, *prefix: str) -> float:
        return self._run(kernels, prefix, "tag", str(self._model), str(self._text), "-o", str(self._folder / "tagged"))

    def warm(self, kernels: Path) -> float:
        return self._run(kernels, (), "warm")

    def _run(self, kernels: Path, prefix: tuple[str, ...], *arguments: str) -> float:
        environment = {"CHAINFOLD_CACHE": str(kernels), "PYTHONDONTWRITEBYTECODE": ""}  # as a user has it
        return fresh(*prefix, sys.executable, "-m", "chainfold", *arguments, environment=environment)[0]


def run(context: Context) -> SectionResults:
    text = context.folder / "small.txt"
    _small_file(text)
    names = [_IMPORT, _HELP]
    names += [verb + state for state in (_NOTHING, _ONE_CORE, _COMPILED) for verb in (_TRAIN, _TAG)]
    found: dict[str, list[float]] = {name: [] for name in [*names, _WARM]}
    python("-c", "import chainfold")  # the files of Python itself are read once
    for round_ in range(context.rounds):
        context.say(f"round {round_ + 1} of {context.rounds}")
        found[_IMPORT].append(python("-c", "import chainfold")[0])
        found[_HELP].append(python("-m", "chainfold", "--help")[0])
    compiling = context.fewer(context.sized(2, 1))
    for round_ in range(compiling):
        context.say(f"nothing compiled, round {round_ + 1} of {compiling}")
        with TemporaryDirectory(dir=context.folder) as name:
            _measure(_Runs(Path(name), text), Path(name), found)
    with TemporaryDirectory(dir=context.folder) as name:
        context.say("nothing compiled, on one core; in advance")
        _measure_once(_Runs(Path(name), text), Path(name), found)
    rows: list[list[Cell]] = [[name, seconds] for name, seconds in found.items() if seconds]
    bars = [Target(f"{name}, seconds", found[name], bar, "at most") for name, bar in _BARS.items()]
    return SectionResults([ResultTable("Fresh processes", ["what", "seconds"], rows)], bars)


def _measure(runs: _Runs, folder: Path, found: dict[str, list[float]]) -> None:
    """Train first: tagging needs its model."""
    for verb, measure in ((_TRAIN, runs.train), (_TAG, runs.tag)):
        found[verb + _NOTHING].append(measure(folder / verb))
        found[verb + _COMPILED] += [measure(folder / verb) for _ in range(3)]


def _measure_once(runs: _Runs, folder: Path, found: dict[str, list[float]]) -> None:
    if shutil.which("taskset"):
        core = "taskset", "-c", str(min(os.sched_getaffinity(0)))
        found[_TRAIN + _ONE_CORE].append(runs.train(folder / "one core", *core))
        found[_TAG + _ONE_CORE].append(runs.tag(folder / "one core too", *core))
    found[_WARM].append(runs.warm(folder / "warm"))


SECTION = Section(
    "startup",
    "Start-up",
    "Each in a fresh process, by the wall clock, with Python's own compiled files in place. Numba compiles chainfold's "
    "kernels, which read input, when they are first used, and they are kept. `chainfold warm` compiles them in "
    "advance.",
    run,
)
