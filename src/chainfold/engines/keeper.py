"""Forward over the blocks, then back over them: the frame of the engines that read the data twice.

They are one algorithm and differ in a `Keeper` alone: what is kept of a block on the way out, and how its sweep is had
again on the way back. `fb` keeps all of it, `fb-recompute` the forward vectors, `fb-spill` the forward vectors on disk,
`checkpoint` nothing but the vector before the block.
"""

from __future__ import annotations

from typing import Protocol

from chainfold.chain.block import Block
from chainfold.engines.block_pass import Belief, Sweep, last_posterior
from chainfold.engines.problem import Problem, Report, Tally
from chainfold.engines.rounding import Promise, Runs


class Keeper(Protocol):
    """A stack of blocks."""

    def next_sweep(self) -> Sweep:
        """The sweep to use for the next block on the way out."""
        ...

    def push(self, sweep: Sweep) -> None:
        """Keep what is kept of the block that this sweep has just gone forward over."""
        ...

    def pop(self, low: int, block: Block) -> Sweep:
        """The sweep of the last block pushed and not yet popped, as it was then."""
        ...


def there_and_back(problem: Problem, keeper: Keeper, block_size: int | None = None) -> tuple[Tally, Report]:
    tally = Tally(problem)
    blocks = problem.blocks(block_size)
    belief: Belief | None = None
    wide, runs = 0, Runs()
    for low, high in blocks:
        block = problem.read(low, high)
        sweep = keeper.next_sweep()
        belief = sweep.forward(low, block, belief)
        keeper.push(sweep)
        tally.scale(sweep.log_scale, sweep.likelihood)
        tally.observe(low, block)
        runs.add(block.starts)
        wide += sweep.wide
        problem.settings.progress((high - low) // 2)
    assert belief is not None, "a chain has at least one position"
    gamma = last_posterior(problem, problem.positions, belief, tally)
    for low, high in reversed(blocks):
        sweep = keeper.pop(low, problem.read(low, high))
        gamma = sweep.backward(gamma, tally.expected.slots)
        tally.expected.added(high - low)
        problem.settings.progress(high - low - (high - low) // 2)
    promise = Promise(span=runs.longest, terms=max(high - low for low, high in blocks))
    return tally, problem.report(tally, promise, blocks=len(blocks), wide_blocks=wide)
