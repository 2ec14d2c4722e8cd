"""Forward over the blocks, then back over them: the frame of the engines that read the data twice.

They are one algorithm and differ in a `Keeper` alone: what is kept of a block on the way out, and how its pass is had
again on the way back. `fb` keeps all of it, `fb-recompute` the forward vectors, `fb-spill` the forward vectors on disk,
`checkpoint` nothing but the vector before the block.
"""

from __future__ import annotations

from typing import Protocol

from chainfold.chain.block import Block
from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import BlockPass
from chainfold.engines.engine import Report
from chainfold.engines.problem import Problem
from chainfold.engines.rounding import Promise, Runs
from chainfold.engines.tally import Tally


class Keeper(Protocol):
    """A stack of blocks."""

    def next_pass(self) -> BlockPass:
        """The pass to use for the next block on the way out."""
        ...

    def push(self, block_pass: BlockPass) -> None:
        """Keep what is kept of the block that this pass has just gone forward over."""
        ...

    def pop(self, low: int, block: Block) -> BlockPass:
        """The pass of the last block pushed and not yet popped, as it was then."""
        ...


def forward_and_back(problem: Problem, keeper: Keeper, block_size: int | None = None) -> tuple[Tally, Report]:
    tally = Tally(problem)
    blocks = problem.blocks(block_size)
    belief: Belief | None = None
    wide, runs = 0, Runs()
    for low, high in blocks:
        block = problem.read(low, high)
        block_pass = keeper.next_pass()
        belief = block_pass.forward(low, block, belief)
        keeper.push(block_pass)
        tally.scale(block_pass.passed.log_scale)
        tally.observe(low, block)
        runs.add(block.starts)
        wide += block_pass.passed.wide
        problem.settings.progress((high - low) // 2)
    assert belief is not None, "a chain has at least one position"
    gamma = belief.posterior()
    for low, high in reversed(blocks):
        block_pass = keeper.pop(low, problem.read(low, high))
        gamma = block_pass.backward(gamma, tally.expected.slots)
        tally.expected.added(high - low)
        problem.settings.progress(high - low - (high - low) // 2)
    promise = Promise(span=runs.longest, terms=max(high - low for low, high in blocks))
    return tally, Report.of(problem, tally, promise, blocks=len(blocks), wide_blocks=wide)
