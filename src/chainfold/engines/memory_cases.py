"""Forward over the blocks, then back over them: the paper's cases of memory, in the scaled domain.

One algorithm, which differs in a `Keeper` alone: what is kept of a block on the way out, and how its pass is had again
on the way back.

    fb             Case I: every forward vector, prediction and, with edge attributes, transition matrix
    fb-recompute   Case II: the forward vectors
    fb-spill       Case IV: the forward vectors, on disk
    checkpoint     the vector before each block, one in √T (Grice et al., Tarnas and Hughey); each block goes forward
                   once more

Where forward vectors alone are kept, transition matrices are computed again on the way back, and so are the
predictions, Σ_i α_{t-1}(i) E_t(i, ·): the way back never needs the state scores, so that N² a position replaces the
second scoring of the attributes.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from chainfold.chain.block import Block
from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import BlockPass
from chainfold.engines.engine import Engine, Report
from chainfold.engines.problem import Problem
from chainfold.engines.rounding import Promise, Runs
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally
from chainfold.engines.weight_scores import WeightSource
from chainfold.model.layout import Floats
from chainfold.system.spill import SpillFile

_BLOCK = (
    65536  # of `fb`: nothing is used again while it is in the cache, so the fewer and larger allocations the better
)
_PYTHON_BYTES = 200  # of a checkpoint, beside its vector


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


class Everything:
    """Keeps whole passes; the data alone is read again."""

    def __init__(self, problem: Problem) -> None:
        self._source = WeightSource(problem)
        self._passes: list[BlockPass] = []

    def next_pass(self) -> BlockPass:
        return BlockPass(self._source)

    def push(self, block_pass: BlockPass) -> None:
        block_pass.release_block()
        self._passes.append(block_pass)

    def pop(self, low: int, block: Block) -> BlockPass:
        block_pass = self._passes.pop()
        block_pass.give(low, block)
        return block_pass


class _OnePass:
    """One pass for all blocks."""

    def __init__(self, problem: Problem) -> None:
        self._pass = BlockPass(WeightSource(problem))

    def next_pass(self) -> BlockPass:
        return self._pass


class KeptVectors(_OnePass):
    """Keeps the forward vectors of each block."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._kept: list[tuple[Belief, Floats | None]] = []

    def push(self, block_pass: BlockPass) -> None:
        self._kept.append((block_pass.entry, None if block_pass.passed.wide else block_pass.passed.alpha.copy()))

    def pop(self, low: int, block: Block) -> BlockPass:
        self._pass.restore(low, block, *self._kept.pop())
        return self._pass


class VectorFile(_OnePass):
    """Keeps forward vectors in a file, unless they are wide; in memory, what is before each block."""

    def __init__(self, problem: Problem, file: SpillFile) -> None:
        super().__init__(problem)
        self._file = file
        self._kept: list[tuple[Belief, bool]] = []

    def push(self, block_pass: BlockPass) -> None:
        if not block_pass.passed.wide:
            self._file.append(block_pass.passed.alpha)
        self._kept.append((block_pass.entry, block_pass.passed.wide))

    def pop(self, low: int, block: Block) -> BlockPass:
        entry, wide = self._kept.pop()
        rows, width = block.labels.size, self._pass.width
        alpha = None if wide else self._file.read_back(rows * width).reshape(rows, width)
        self._pass.restore(low, block, entry, alpha)
        return self._pass


class Checkpoints(_OnePass):
    """Keeps the vector before each block."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._entries: list[Belief] = []

    def push(self, block_pass: BlockPass) -> None:
        self._entries.append(block_pass.entry)

    def pop(self, low: int, block: Block) -> BlockPass:
        self._pass.forward(low, block, self._entries.pop())
        return self._pass


def _keep_everything(problem: Problem) -> tuple[Tally, Report]:
    return forward_and_back(problem, Everything(problem), problem.settings.block or _BLOCK)


def _keep_vectors(problem: Problem) -> tuple[Tally, Report]:
    return forward_and_back(problem, KeptVectors(problem))


def _spill_vectors(problem: Problem) -> tuple[Tally, Report]:
    """The file has no name: the operating system removes it with the process, however it ends."""
    with SpillFile(np.float64) as file:
        return forward_and_back(problem, VectorFile(problem, file))


def _keep_checkpoints(problem: Problem) -> tuple[Tally, Report]:
    return forward_and_back(problem, Checkpoints(problem), _between_checkpoints(problem.shape, problem.settings))


def _between_checkpoints(shape: Shape, settings: Settings) -> int:
    """√T, weighed by what a position costs in a block and as a checkpoint."""
    return settings.block or max(1, math.isqrt(shape.positions * _checkpoint_bytes(shape) // shape.pass_bytes))


def _checkpoint_bytes(shape: Shape) -> int:
    return shape.row_bytes + _PYTHON_BYTES


def _checkpoint_memory(shape: Shape, settings: Settings) -> float:
    block = _between_checkpoints(shape, settings)
    return block * shape.pass_bytes + shape.positions / block * _checkpoint_bytes(shape)


ENGINES = {
    "checkpoint": Engine(_keep_checkpoints, _checkpoint_memory),
    "fb": Engine(_keep_everything, lambda shape, settings: shape.positions * shape.pass_bytes),
    "fb-recompute": Engine(
        _keep_vectors,
        lambda shape, settings: shape.positions * shape.row_bytes + shape.block(settings) * shape.pass_bytes,
    ),
    "fb-spill": Engine(
        _spill_vectors, lambda shape, settings: shape.block(settings) * (shape.pass_bytes + shape.row_bytes)
    ),
}
