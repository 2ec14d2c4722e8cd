"""Forward-backward that keeps one forward vector in √T: checkpointing (Grice et al., Tarnas and Hughey).

On the way back each block goes forward once more from its checkpoint.
"""

from __future__ import annotations

import math

from chainfold.chain.block import Block
from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import BlockPass
from chainfold.engines.engine import Report
from chainfold.engines.keeper import forward_and_back
from chainfold.engines.potentials import Potentials
from chainfold.engines.problem import Problem
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally


class Checkpoints:
    """Keeps the vector before each block."""

    def __init__(self, problem: Problem) -> None:
        self._pass = BlockPass(problem, Potentials.of(problem))
        self._entries: list[Belief] = []

    def next_pass(self) -> BlockPass:
        return self._pass

    def push(self, block_pass: BlockPass) -> None:
        self._entries.append(block_pass.entry)

    def pop(self, low: int, block: Block) -> BlockPass:
        self._pass.forward(low, block, self._entries.pop())
        return self._pass


def run(problem: Problem) -> tuple[Tally, Report]:
    block = problem.settings.block or block_size(problem.shape)
    return forward_and_back(problem, Checkpoints(problem), block)


def block_size(shape: Shape) -> int:
    """√T, weighed by what a position costs in a block and as a checkpoint."""
    checkpoint_bytes = shape.row_bytes + 200  # with Python's own
    return max(1, math.isqrt(shape.positions * checkpoint_bytes // shape.pass_bytes))


def memory(shape: Shape, settings: Settings) -> float:
    block = settings.block or block_size(shape)
    return block * shape.pass_bytes + shape.positions / block * (shape.row_bytes + 200)
