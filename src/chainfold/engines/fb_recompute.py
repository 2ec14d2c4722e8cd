"""Forward-backward that keeps the forward vectors and recomputes the rest: the paper's Case II.

Transition matrices are computed again on the way back, and so are the predictions, Σ_i α_{t-1}(i) E_t(i, ·): the way
back never needs the state scores, so that N² a position replaces the second scoring of the attributes.
"""

from __future__ import annotations

from chainfold.chain.block import Block
from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import BlockPass
from chainfold.engines.engine import Report
from chainfold.engines.keeper import forward_and_back
from chainfold.engines.potentials import Potentials
from chainfold.engines.problem import Problem
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally
from chainfold.model.layout import Floats


class KeptVectors:
    """Keeps the forward vectors of each block."""

    def __init__(self, problem: Problem) -> None:
        self._pass = BlockPass(problem, Potentials.of(problem))
        self._kept: list[tuple[Belief, Floats | None]] = []

    def next_pass(self) -> BlockPass:
        return self._pass

    def push(self, block_pass: BlockPass) -> None:
        self._kept.append((block_pass.entry, None if block_pass.passed.wide else block_pass.passed.alpha.copy()))

    def pop(self, low: int, block: Block) -> BlockPass:
        self._pass.restore(low, block, *self._kept.pop())
        return self._pass


def run(problem: Problem) -> tuple[Tally, Report]:
    return forward_and_back(problem, KeptVectors(problem))


def memory(shape: Shape, settings: Settings) -> float:
    return shape.positions * shape.row_bytes + shape.block(settings) * shape.pass_bytes
