"""Peak memory against the length of one sequence, each figure from a fresh process."""

from __future__ import annotations

import math
from typing import NamedTuple

from experiments.bench.findings import Cell, Chart, Curve, ResultTable, SectionResults, Target
from experiments.bench.peers import CRFSUITE, ONE_SEQUENCE, has, missing
from experiments.bench.section import Context, Section
from experiments.bench.timing import chainfold, told

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


def lattice_bytes(labels: int) -> int:
    """That CRFsuite keeps for each position of the longest sequence."""
    return 44 * labels + 8


def run(context: Context) -> SectionResults:
    rows: list[list[Cell]] = []
    curves: list[Curve] = []
    bars: list[Target] = []
    for shape in _SHAPES:
        ours = _ours(context, shape)
        curves.append(Curve(f"chainfold stream, {shape.title}", ours))
        rows += [["chainfold stream", shape.title, round(positions), peak] for positions, peak in ours]
        peaks = [peak for _, peak in ours]
        until = f"10^{round(math.log10(ours[-1][0]))}"
        spread = [max(peaks) - min(peaks)]
        bars.append(Target(f"stream, {shape.title}: MB more or less up to {until} positions", spread, _FLAT, "at most"))
        if has(CRFSUITE):
            theirs = _theirs(context, shape)
            curves.append(Curve(f"{CRFSUITE.package}, {shape.title}", theirs))
            rows += [[CRFSUITE.package, shape.title, round(positions), peak] for positions, peak in theirs]
            least = [(positions, positions * lattice_bytes(shape.labels) / 1e6) for positions, _ in theirs + ours]
            name = f"44 · {shape.labels} + 8 bytes a position, calculated"
            curves.append(Curve(name, sorted(least), dashed=True))
    chart = Chart("memory", "Peak memory against the length of one sequence", "positions", "peak memory, MB", curves)
    columns = ["program", "chain", "positions", "peak MB"]
    return SectionResults(
        [ResultTable("Peak memory of a process", columns, rows)], bars, [] if has(CRFSUITE) else missing()[:1], [chart]
    )


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
    "CRFsuite's own tables for the longest sequence, 44 · labels + 8 bytes a position, are drawn beside it. What each "
    "program takes to train on CoNLL-2000 stands under training.",
    2.0,
    run,
)
