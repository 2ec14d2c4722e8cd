"""Forward-backward with everything in memory: the paper's Case I, in the scaled domain.

Every forward vector, prediction and, with edge attributes, transition matrix is kept.
"""

from __future__ import annotations

from chainfold.chain.block import Block
from chainfold.engines.block_pass import BlockPass
from chainfold.engines.engine import Report
from chainfold.engines.keeper import forward_and_back
from chainfold.engines.potentials import Potentials
from chainfold.engines.problem import Problem
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally

_BLOCK = 65536  # nothing is used again while it is in the cache, so the fewer and larger allocations the better


class Everything:
    """Keeps whole passes; the data alone is read again."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._potentials = problem, Potentials.of(problem)
        self._passes: list[BlockPass] = []

    def next_pass(self) -> BlockPass:
        return BlockPass(self._problem, self._potentials)

    def push(self, block_pass: BlockPass) -> None:
        block_pass.release_block()
        self._passes.append(block_pass)

    def pop(self, low: int, block: Block) -> BlockPass:
        block_pass = self._passes.pop()
        block_pass.give(low, block)
        return block_pass


def run(problem: Problem) -> tuple[Tally, Report]:
    return forward_and_back(problem, Everything(problem), problem.settings.block or _BLOCK)


def memory(shape: Shape, settings: Settings) -> float:
    return shape.positions * shape.pass_bytes
