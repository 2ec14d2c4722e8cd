"""The paper's Algorithm 1: forward-backward in the log domain, as published; the gradient is summed in logarithms.

fb-log             all local kernels u_t, forward and backward vectors are kept, O(N²T)
fb-log-recompute   Case II, of the two ways in section III the better one: backward vectors are used as soon as they
                   are there, so that forward vectors alone are kept, O(NT), and a kernel is computed twice
fb-log-spill       Case IV: the forward vectors are kept on disk
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from chainfold.core import backward_vectors, kernels_and_forward, local_kernels, log_total, terminate
from chainfold.core.faults import check
from chainfold.engines.engine import Engine, Report
from chainfold.engines.problem import Problem
from chainfold.engines.published.log_domain import before_the_chain, close, log_scores, promise
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally
from chainfold.model.layout import Floats
from chainfold.system.spill import SpillFile


def keep_all(problem: Problem, table: Callable[[tuple[int, ...]], Any] = np.empty) -> tuple[Tally, Report]:
    """Case I; what is kept is used block by block, so that `table` may keep a part of it outside of memory."""
    tally = Tally(problem)
    layout = problem.model.layout
    positions, n_labels = problem.positions, layout.n_labels
    u = table((positions, n_labels, n_labels))
    alpha = table((positions, n_labels))
    beta = table((positions + 1, n_labels))
    beta[positions] = 0.0
    entry = before_the_chain(n_labels)
    blocks = problem.blocks()
    for low, high in blocks:
        block = problem.read(low, high)
        previous = alpha[low - 1] if low else entry
        status, fault = kernels_and_forward(
            block, *log_scores(problem, low, block), u[low:high], previous, alpha[low:high]
        )
        check(status, low + fault)
        tally.observe(low, block)
        problem.settings.progress((high - low) // 2)
    for low, high in reversed(blocks):
        backward_vectors(u[low:high], beta[low : high + 1])
    log_z = log_total(alpha[-1])
    gradient, sign = np.full(layout.size, -np.inf), np.zeros(layout.size, np.int8)
    for low, high in blocks:
        previous = alpha[low - 1] if low else entry
        vectors = (u[low:high], previous, alpha[low:high], beta[low : high + 1])
        terminate(problem.read(low, high), *vectors, layout.features, gradient, sign)
        problem.settings.progress(high - low - (high - low) // 2)
    close(tally, log_z, gradient, sign)
    return tally, Report.of(problem, tally, promise(problem), blocks=len(blocks))


class VectorStack(Protocol):
    """A stack of forward vectors, block by block, each block with the one before it as its first row: [1 + B, N]."""

    def push(self, vectors: Floats) -> None:
        """Keep a block."""
        ...

    def pop(self, rows: int) -> Floats:
        """The last block pushed and not yet popped."""
        ...


class LogVectors:
    """Keeps the forward vectors in memory."""

    def __init__(self) -> None:
        self._kept: list[Floats] = []

    def push(self, vectors: Floats) -> None:
        self._kept.append(vectors)

    def pop(self, rows: int) -> Floats:
        return self._kept.pop()


class LogVectorFile:
    """Keeps the forward vectors in a file."""

    def __init__(self, n_labels: int, file: SpillFile) -> None:
        self._n_labels, self._file = n_labels, file

    def push(self, vectors: Floats) -> None:
        self._file.append(vectors)

    def pop(self, rows: int) -> Floats:
        return self._file.read_back(rows * self._n_labels).reshape(rows, self._n_labels)


def forward_and_back(problem: Problem, keeper: VectorStack) -> tuple[Tally, Report]:
    """Cases II and IV: nothing is kept but the forward vectors.

    The local kernels are computed again on the way back, where each backward vector is used as soon as it is there.
    """
    tally = Tally(problem)
    layout = problem.model.layout
    n_labels = layout.n_labels
    blocks = problem.blocks()
    _, longest = next(iter(blocks))
    u = np.empty((longest, n_labels, n_labels))
    previous = before_the_chain(n_labels)
    for low, high in blocks:
        block = problem.read(low, high)
        vectors = np.empty((1 + high - low, n_labels))
        vectors[0] = previous
        status, fault = kernels_and_forward(block, *log_scores(problem, low, block), u, vectors[0], vectors[1:])
        check(status, low + fault)
        previous = vectors[-1].copy()
        keeper.push(vectors)
        tally.observe(low, block)
        problem.settings.progress((high - low) // 2)
    log_z = log_total(previous)
    gradient, sign = np.full(layout.size, -np.inf), np.zeros(layout.size, np.int8)
    beta = np.zeros((1 + longest, n_labels))
    for low, high in reversed(blocks):
        block, size = problem.read(low, high), high - low
        vectors = keeper.pop(1 + size)
        beta[size] = beta[0]
        local_kernels(block, *log_scores(problem, low, block), u)
        backward_vectors(u[:size], beta[: 1 + size])
        terminate(block, u, vectors[0], vectors[1:], beta, layout.features, gradient, sign)
        problem.settings.progress(size - size // 2)
    close(tally, log_z, gradient, sign)
    return tally, Report.of(problem, tally, promise(problem), blocks=len(blocks))


def _keep_vectors(problem: Problem) -> tuple[Tally, Report]:
    return forward_and_back(problem, LogVectors())


def _spill_vectors(problem: Problem) -> tuple[Tally, Report]:
    with SpillFile(np.float64) as file:
        return forward_and_back(problem, LogVectorFile(problem.model.layout.n_labels, file))


def _all_memory(shape: Shape, settings: Settings) -> float:
    return shape.positions * 8 * (shape.n_labels**2 + 2 * shape.n_labels)


def _block_memory(shape: Shape, settings: Settings) -> float:
    """Bytes of a block with its matrices and scores; the stack comes on top."""
    vector = 8 * shape.n_labels
    return shape.block(settings) * (shape.row_bytes + shape.edge_bytes + (shape.n_labels + 2) * vector)


def _vectors_memory(shape: Shape, settings: Settings) -> float:
    return _block_memory(shape, settings) + 8 * shape.positions * shape.n_labels


ENGINES = {
    "fb-log": Engine(keep_all, _all_memory),
    "fb-log-recompute": Engine(_keep_vectors, _vectors_memory),
    "fb-log-spill": Engine(_spill_vectors, _block_memory),
}
