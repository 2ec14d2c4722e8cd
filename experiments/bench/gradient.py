"""An evaluation of the objective and its gradient, and an iteration of L-BFGS, beside CRFsuite's iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from chainfold import SyntheticChain
from chainfold.chain.block import Source
from chainfold.chain.chain import gather
from chainfold.training.objective import Objective, WeightSpace
from chainfold.training.optimisers.lbfgs_owlqn import Lbfgs, LbfgsSettings
from chainfold.training.passes import LocalPasses
from experiments.bench.findings import Cell, ResultTable, SectionResults, Target
from experiments.bench.peers import CRFSUITE, has, iterations_between, missing
from experiments.bench.section import Context, Section
from experiments.bench.timing import Times, each, ratios, timed

ONE, TWO, ITERATION = "gradient, 1 thread", "gradient, 2 threads", "iteration, 2 threads"
PEER = f"{CRFSUITE.package}, iteration"
AIM = 10.0

_POSITIONS = {
    2: 400_000,
    3: 300_000,
    4: 300_000,
    5: 250_000,
    8: 200_000,
    9: 150_000,
    16: 100_000,
    23: 80_000,
    32: 60_000,
    64: 20_000,
    128: 10_000,
    256: 6_000,
}  # by labels
_QUICK_POSITIONS = {2: 4_000, 8: 4_000, 32: 2_000}
_ATTRIBUTES, _ACTIVE, _MEAN_LENGTH = 200, 4, 20.0
_STRETCH = 400_000  # bases
_AHEAD = 3  # iterations before the first that counts

Sides = dict[str, Callable[[], float]]  # the seconds of one run of each


class Ours:
    """chainfold on a chain: its space of weights, and a run of L-BFGS whose points everything is evaluated at."""

    def __init__(self, source: Source) -> None:
        self.space = WeightSpace.of(source)
        one, two = (
            Objective(replace(self.space, passes=LocalPasses(source, threads=threads)), c2=1.0, threads=threads)
            for threads in (1, 2)
        )
        never = LbfgsSettings(epsilon=0.0, period=0)
        self._lbfgs = Lbfgs(two, np.zeros(self.space.layout.size), never, threads=2)
        for _ in range(_AHEAD):
            self._lbfgs.advance()
        one(self._lbfgs.point)
        self.sides: Sides = {
            ONE: lambda: timed(lambda: one(self._lbfgs.point)),
            TWO: lambda: timed(lambda: two(self._lbfgs.point)),
            ITERATION: self._iteration,
        }

    @property
    def point(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return self._lbfgs.point.copy()

    def _iteration(self) -> float:
        """Seconds of the next iteration that evaluates the objective once."""
        evaluations = 0

        def advance() -> None:
            nonlocal evaluations
            step = self._lbfgs.advance()
            assert step is not None, "nothing stops it"
            evaluations = step.evaluations

        while True:
            seconds = timed(advance)
            if evaluations == 1:
                return seconds


def beside_crfsuite(source: Source, sides: Sides, rounds: int) -> Times:
    """Seconds of each side and, where it is installed, of CRFsuite's iterations, taken in turn."""
    times: Times = {name: [] for name in sides}

    def work() -> None:
        for name, run in sides.items():
            times[name].append(run())

    if has(CRFSUITE):
        times[PEER] = iterations_between(source, work, rounds)
    else:
        for _ in range(rounds):
            work()
    return times


def cases(context: Context) -> Iterator[tuple[str, Source]]:
    corpora = context.corpora
    genomes = (corpora.ecoli(_STRETCH, n_labels) for n_labels in ((8,) if context.quick else (2, 4, 8)))
    for corpus in (corpora.chunks(), corpora.tags("upos"), corpora.tags("xpos"), *genomes):
        yield corpus.name, context.encoded(corpus)
    for n_labels, positions in (_QUICK_POSITIONS if context.quick else _POSITIONS).items():
        chain = SyntheticChain(positions, n_labels, _ATTRIBUTES, _ACTIVE, mean_length=_MEAN_LENGTH, seed=1)
        yield f"synthetic, {n_labels} labels", gather(chain)


def run(context: Context) -> SectionResults:
    measured: dict[str, Times] = {}
    sizes: dict[str, list[Cell]] = {}
    for name, source in cases(context):
        context.say(f"{name}: {source.positions:,} positions")
        ours = Ours(source)
        measured[name] = beside_crfsuite(source, ours.sides, context.rounds)
        layout = ours.space.layout
        sizes[name] = [source.positions, layout.n_labels, round(source.active, 1), layout.size]
    columns = [PEER, ONE, TWO, ITERATION]
    shape = ["data", "positions", "labels", "attributes a position", "weights"]
    nanoseconds: list[list[Cell]] = [
        [name, *sizes[name], *(each(times.get(column, []), 1e9 / float(str(sizes[name][0]))) for column in columns)]
        for name, times in measured.items()
    ]
    speeds: list[list[Cell]] = [
        [name, *(ratios(times, PEER, column) for column in columns[1:])] for name, times in measured.items()
    ]
    chunks, _, xpos = (measured[name] for name in list(measured)[:3])
    names = list(measured)
    few = [name for name in names if name.startswith(("E. coli", "synthetic"))]
    bars = [
        Target(f"{names[0]}: times as fast, gradient on 2 threads", ratios(chunks, PEER, TWO), 5.0, aim=AIM),
        Target(f"{names[0]}: times as fast, gradient on 1 thread", ratios(chunks, PEER, ONE), 2.5),
        Target(f"{names[2]}: times as fast, gradient on 2 threads", ratios(xpos, PEER, TWO), 5.0, aim=AIM),
        *(
            Target(f"{name}: times as fast, gradient on 1 thread", ratios(measured[name], PEER, ONE), 5.0)
            for name in few
        ),
    ]
    tables = [ResultTable("Nanoseconds a position", [*shape, *columns], nanoseconds)]
    if has(CRFSUITE):
        tables.append(
            ResultTable(f"{CRFSUITE.package}'s iteration as a multiple of ours", ["data", *columns[1:]], speeds)
        )
    return SectionResults(tables, bars, missing()[:1] if not has(CRFSUITE) else [])


SECTION = Section(
    "gradient",
    "The gradient",
    "python-crfsuite trains with L-BFGS, c2 = 1 and a weight for every two labels; its iterations are timed by its own "
    "clock, and only those count that evaluate the objective once. Between two of them chainfold evaluates the same "
    "objective and its gradient on the same attributes, on one thread and on two, at points of the same range of "
    "iterations, and makes one whole L-BFGS iteration of its own on two threads. CRFsuite has one thread. Its clock "
    "counts processor time and ours wall time, so that a busy machine counts against chainfold alone. The next section "
    "has the same for one long sequence.",
    run,
)
