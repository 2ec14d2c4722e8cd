"""Peak memory against the length of one sequence, each figure from a fresh process."""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from experiments.bench.findings import Cell, ResultTable, SectionResults, Target
from experiments.bench.peers import CRFSUITE, ONE_SEQUENCE, has, missing
from experiments.bench.section import Context, Section
from experiments.bench.timing import chainfold, python, told

_FLAT = 5.0  # MB


class ChainShape(NamedTuple):
    labels: int
    attributes: int
    active: int
    longest: int  # power of ten, for chainfold

    @property
    def title(self) -> str:
        return f"{self.labels} labels, {self.active} attributes a position"

    def sizes(self, positions: int) -> list[str]:
        return [str(size) for size in (positions, self.labels, self.attributes, self.active)]


_SHAPES = (ChainShape(5, 100, 8, 8), ChainShape(23, 532, 41, 7))
_SHORTEST = 5  # power of ten
_THEIR_POWERS, _QUICK_POWERS = (4, 5, 6), (3, 4)


_STEPS = (
    ("Python", "import json"),
    ("typer, rich", "import chainfold.cli; sys.meta_path.insert(0, chainfold.cli._Unused())"),
    ("NumPy", "import numpy"),
    ("Arrow", "import pyarrow, pyarrow.compute"),
    ("numba and LLVM", "import numba"),
    (
        "pages of libraries, returned",
        "from chainfold.system.machine import give_back_memory; give_back_memory()",
    ),
    ("chainfold", "import chainfold.features.encode, chainfold.training.loop, chainfold.inference.tag_files"),
    ("some kernels, compiled before", "from chainfold.cli.warm_steps import columns, run_step; run_step(columns)"),
)
_KINDS = ("VmHWM", "VmRSS", "RssAnon", "RssFile")  # the peak; then, in all, of the process's own, of files
_TELL = f"""
from chainfold.system.machine import resident
print(json.dumps({{name: resident(name) / 1e6 for name in {_KINDS}}}))
"""
_VERB = f"""
import atexit, json
from chainfold.system.machine import resident
atexit.register(lambda: print("\\n" + json.dumps({{name: resident(name) / 1e6 for name in {_KINDS}}})))
from chainfold.__main__ import main
main()
"""
_AS_THE_COMMAND = {"OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
_TRAINING, _TAGGING = "`chainfold train` of CoNLL-2000, 20 iterations", "`chainfold tag` of CoNLL-2000's test file"
_MOST = {_TRAINING: 300.0, _TAGGING: 200.0}  # MB


def run(context: Context) -> SectionResults:
    rows: list[list[Cell]] = []
    bars: list[Target] = []
    for shape in _SHAPES:
        ours = _ours(context, shape)
        rows += [["chainfold stream", shape.title, round(positions), peak] for positions, peak in ours]
        peaks = [peak for _, peak in ours]
        until = f"10^{round(math.log10(ours[-1][0]))}"
        spread = [max(peaks) - min(peaks)]
        bars.append(Target(f"stream, {shape.title}: MB more or less up to {until} positions", spread, _FLAT, "at most"))
        if has(CRFSUITE):
            theirs = _theirs(context, shape)
            rows += [[CRFSUITE.package, shape.title, round(positions), peak] for positions, peak in theirs]
    parts = _parts(context)
    verbs, most = _verbs(context)
    bars += [Target(f"{name}: peak MB", [most[name]], bar, "at most") for name, bar in _MOST.items()]
    columns = ["program", "chain", "positions", "peak MB"]
    what = ["what", "MB more", "MB in all", "of its own", "of files"]
    tables = [
        ResultTable("Peak memory of a process", columns, rows),
        ResultTable("What a process takes before it has data, one after another", what, parts),
        ResultTable("Verbs, kernels compiled before", ["what", "peak MB", "MB at its end, its own", "of files"], verbs),
    ]
    return SectionResults(tables, bars, [] if has(CRFSUITE) else missing()[:1])


def _parts(context: Context) -> list[list[Cell]]:
    """Memory that each library adds, in a fresh process with it and those before it."""
    rows: list[list[Cell]] = []
    before, code = 0.0, "import sys"
    for name, more in _STEPS:
        context.say(f"memory: {name}")
        code = f"{code}\n{more}"
        runs = [json.loads(python("-c", code + _TELL, environment=_AS_THE_COMMAND)[1]) for _ in range(2)]
        total, own, files = (round(runs[-1][kind], 1) for kind in _KINDS[1:])
        rows.append([name, round(total - before, 1), total, own, files])
        before = total
    return rows


def _verbs(context: Context) -> tuple[list[list[Cell]], dict[str, float]]:
    """Training and tagging; the first run of each, not counted, compiles."""
    corpus = context.corpora.chunks()
    rows: list[list[Cell]] = []
    peaks: dict[str, float] = {}
    with TemporaryDirectory(dir=context.folder) as folder:
        model = f"{folder}/model"
        training = ["train", str(corpus.train), "-o", model, *corpus.flags, "--max-iterations", "20", "--fresh"]
        tagging = ["tag", model, str(corpus.test), "-o", f"{folder}/tagged"]
        for name, arguments in ((_TRAINING, training), (_TAGGING, tagging)):
            for threads in (["--threads", "1"], ["--threads", "2"]) if name is _TRAINING else ([],):
                context.say(f"memory: {name} {' '.join(threads)}")
                for _ in range(2):
                    Path(f"{model}.chain").unlink(missing_ok=True)
                    text = python("-c", _VERB, *arguments, *threads)[1]
                facts = json.loads(text.strip().rpartition("\n")[2])
                peaks[name] = peak = round(facts["VmHWM"], 1)
                title = f"{name}, {threads[1]} threads" if threads else name
                rows.append([title, peak, round(facts["RssAnon"], 1), round(facts["RssFile"], 1)])
    return rows, peaks


def _ours(context: Context, shape: ChainShape) -> list[tuple[float, float]]:
    """`chainfold gradient` on a chain that is made on the fly."""
    found = []
    for power in _QUICK_POWERS if context.quick else range(_SHORTEST, shape.longest + 1):
        context.say(f"chainfold stream, {shape.title}: 10^{power} positions")
        facts = chainfold("gradient", "--synthetic", ":".join(shape.sizes(10**power)), "--engine", "stream")
        found.append((10.0**power, round(facts["peak_rss_mb"], 1)))
    return found


def _theirs(context: Context, shape: ChainShape) -> list[tuple[float, float]]:
    found = []
    for power in _QUICK_POWERS if context.quick else _THEIR_POWERS:
        context.say(f"{CRFSUITE.package}, {shape.title}: 10^{power} positions")
        facts = told("experiments.bench.peers", ONE_SEQUENCE, *shape.sizes(10**power))
        found.append((10.0**power, round(facts["peak_rss_mb"], 1)))
    return found


SECTION = Section(
    "memory",
    "Memory",
    "The largest resident set of a fresh process, Python and its libraries included. chainfold evaluates the gradient "
    "with `stream` on a chain that is made on the fly; python-crfsuite trains on one sequence of as many positions. "
    "CRFsuite's own tables for the longest sequence take 44 · labels + 8 bytes a position. The second table begins "
    "with Python and adds what the command line loads; processes share the pages of files. What each program takes to "
    "train on CoNLL-2000 stands under training.",
    run,
)
