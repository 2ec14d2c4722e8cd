"""Forward-backward that keeps the forward vectors and recomputes the rest: the paper's Case II.

Transition matrices are computed again on the way back, and so are the predictions, Σ_i α_{t-1}(i) E_t(i, ·): the way
back never needs the state scores, so that N² a position replaces the second scoring of the attributes.
"""

from __future__ import annotations

from chainfold.chain.block import Block
from chainfold.engines.block_pass import Belief, Potentials, Sweep
from chainfold.engines.keeper import there_and_back
from chainfold.engines.problem import Cost, Engine, Problem, Report, Settings, Shape, Tally
from chainfold.model.layout import Floats


class Vectors:
    """Keeps the forward vectors of each block."""

    def __init__(self, problem: Problem) -> None:
        self._sweep = Sweep(problem, Potentials.of(problem))
        self._kept: list[tuple[Belief, Floats | None]] = []

    def next_sweep(self) -> Sweep:
        return self._sweep

    def push(self, sweep: Sweep) -> None:
        self._kept.append((sweep.entry, None if sweep.wide else sweep.alpha.copy()))

    def pop(self, low: int, block: Block) -> Sweep:
        self._sweep.restore(low, block, *self._kept.pop())
        return self._sweep


def run(problem: Problem) -> tuple[Tally, Report]:
    return there_and_back(problem, Vectors(problem))


def cost(shape: Shape, settings: Settings) -> Cost:
    memory = shape.positions * shape.row_bytes + shape.block(settings) * shape.sweep_bytes
    return Cost(memory, shape.scoring + shape.messages + shape.recursion)


ENGINE = Engine(
    name="fb-recompute",
    summary="forward vectors in memory: Case II",
    keeps="O(NT), half",
    time="N²T + NTA",
    reads="twice",
    run=run,
    cost=cost,
)
