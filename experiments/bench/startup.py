"""How long it takes until something happens: imports, help, a first and a second training of a small file."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.bench.findings import Cell, ResultTable, SectionResults, Target
from experiments.bench.section import Context, Section
from experiments.bench.timing import python

_LINES = 300
_IMPORT, _HELP = '`python -c "import chainfold"`', "`chainfold --help`"
_FIRST = f"first `chainfold train` of {_LINES} lines, nothing compiled"
_SECOND = f"`chainfold train` of {_LINES} lines, compiled before"
_BARS = {_IMPORT: 0.3, _HELP: 0.5, _FIRST: 15.0, _SECOND: 2.0}


def _small_file(path: Path) -> None:
    words = "the DT B-NP\ncat NN I-NP\nsat VBD B-VP\nhere RB B-ADVP\n\n"
    path.write_text(words * (_LINES // 5))


def run(context: Context) -> SectionResults:
    text = context.folder / "small.txt"
    _small_file(text)
    found: dict[str, list[float]] = {name: [] for name in _BARS}

    def train(cache: Path, folder: Path) -> float:
        arguments = "-m", "chainfold", "train", str(text), "-o", str(folder / "small.model")
        (folder / "small.model.chain").unlink(missing_ok=True)
        return python(*arguments, environment={"NUMBA_CACHE_DIR": str(cache)})[0]

    python("-c", "import chainfold")  # the files of Python itself are read once
    for round_ in range(context.rounds):
        context.say(f"round {round_ + 1} of {context.rounds}")
        found[_IMPORT].append(python("-c", "import chainfold")[0])
        found[_HELP].append(python("-m", "chainfold", "--help")[0])
    compiling = context.fewer(context.sized(3, 1))
    for round_ in range(compiling):
        context.say(f"nothing compiled, round {round_ + 1} of {compiling}")
        with TemporaryDirectory(dir=context.folder) as name:
            folder = Path(name)
            found[_FIRST].append(train(folder / "cache", folder))
            found[_SECOND].append(train(folder / "cache", folder))
    rows: list[list[Cell]] = [[name, seconds] for name, seconds in found.items()]
    bars = [Target(f"{name}, seconds", seconds, _BARS[name], "at most") for name, seconds in found.items()]
    return SectionResults([ResultTable("Fresh processes", ["what", "seconds"], rows)], bars)


SECTION = Section(
    "startup",
    "Start-up",
    "Each in a fresh process, by the wall clock. Numba compiles chainfold's kernels when they are first used and keeps "
    "them; the third row has an empty cache, the fourth the one that the third has filled.",
    2.5,
    run,
)
