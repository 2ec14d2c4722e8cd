"""What the engines that follow the paper to the letter share: local kernels in logarithms, and how a run ends."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block
from chainfold.engines.engine import Report
from chainfold.engines.problem import Problem
from chainfold.engines.rounding import Promise, check_scores
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally
from chainfold.kernels.expectation import (
    backward_vectors,
    carry_expectations,
    kernels_and_forward,
    local_kernels,
    signed_total,
    terminate,
)
from chainfold.kernels.faults import check
from chainfold.kernels.scores import edge_scores, state_scores
from chainfold.model.block_rows import find_block_rows
from chainfold.model.layout import Floats


class LogScores:
    """State and edge scores of a block."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def of(self, low: int, block: Block) -> tuple[Floats, Floats]:
        """s: [B, width], e: [B or 1, N · width]; low: the position of the block."""
        problem, layout = self._problem, self._problem.model.layout
        block_rows = find_block_rows(layout, block)
        if problem.may_overflow(block):
            check_scores(layout, problem.weights, low, block, block_rows)
        state = np.empty((block.labels.size, layout.width))
        state_scores(block_rows, layout.rows, problem.weights, layout.blank, state)
        if not problem.has_edges:
            return state, problem.weights.transition.reshape(1, -1)
        edge = np.empty((block.labels.size, problem.weights.transition.size))
        edge_scores(block, problem.weights, edge)
        return state, edge


def before_the_chain(n_labels: int) -> Floats:
    """log α before the first position: one state, where the paper sums over a free y_0."""
    z = np.full(n_labels, -np.inf)
    z[0] = 0.0
    return z


def close(tally: Tally, log_z: float, logs: Floats, signs: NDArray[np.int8], n_weights: int) -> None:
    """log Z, and the expected counts ∇_m Z / Z = ± exp(ln|∇_m Z| - ln Z), from one signed logarithm or more each."""
    tally.scale((log_z,))
    logs, signs = logs.reshape(n_weights, -1), signs.reshape(n_weights, -1)
    totals = [signed_total(logs[m], signs[m]) for m in range(n_weights)]
    with np.errstate(over="ignore"):  # the caller checks the counts
        expected = np.array([sign * np.exp(total - log_z) for total, sign in totals])
    layout = tally.expected.layout
    tally.expected.add(layout.pack(expected, padding=0.0))


def promise(problem: Problem) -> Promise:
    """Logarithms of sums over the whole chain are rounded as large numbers are, several at each step."""
    positions, n_labels = problem.positions, problem.model.layout.n_labels
    logs = (2 * n_labels + 2) * positions * problem.most_score
    return Promise(span=positions, terms=positions, logs=logs)


class VectorStack(Protocol):
    """A stack of forward vectors, block by block, each block with the one before it as its first row: [1 + B, N]."""

    def push(self, vectors: Floats) -> None:
        """Keep a block."""
        ...

    def pop(self, rows: int) -> Floats:
        """The last block pushed and not yet popped."""
        ...


def forward_and_back(problem: Problem, keeper: VectorStack) -> tuple[Tally, Report]:
    """Algorithm 1 with nothing kept but the forward vectors.

    The local kernels are computed again on the way back, where each backward vector is used as soon as it is there.
    """
    tally = Tally(problem)
    layout = problem.model.layout
    n_labels, scores = layout.n_labels, LogScores(problem)
    blocks = problem.blocks()
    _, longest = next(iter(blocks))
    u = np.empty((longest, n_labels, n_labels))
    previous = before_the_chain(n_labels)
    for low, high in blocks:
        block = problem.read(low, high)
        vectors = np.empty((1 + high - low, n_labels))
        vectors[0] = previous
        status, fault = kernels_and_forward(block, *scores.of(low, block), u, vectors[0], vectors[1:])
        check(status, low + fault)
        previous = vectors[-1].copy()
        keeper.push(vectors)
        tally.observe(low, block)
        problem.settings.progress((high - low) // 2)
    log_z, _ = signed_total(previous, np.ones(n_labels, np.int8))
    gradient, sign = np.full(layout.size, -np.inf), np.zeros(layout.size, np.int8)
    beta = np.zeros((1 + longest, n_labels))
    for low, high in reversed(blocks):
        block, size = problem.read(low, high), high - low
        vectors = keeper.pop(1 + size)
        beta[size] = beta[0]
        local_kernels(block, *scores.of(low, block), u)
        backward_vectors(u[:size], beta[: 1 + size])
        terminate(block, u, vectors[0], vectors[1:], beta, layout.features, gradient, sign)
        problem.settings.progress(size - size // 2)
    close(tally, log_z, gradient, sign, layout.size)
    return tally, Report.of(problem, tally, promise(problem), blocks=len(blocks))


def forward_and_back_memory(shape: Shape, settings: Settings) -> float:
    """Bytes of a block with its matrices and scores; the stack comes on top."""
    vector = 8 * shape.n_labels
    return shape.block(settings) * (shape.row_bytes + shape.edge_bytes + (shape.n_labels + 2) * vector)


def carry_forward(problem: Problem, places: int) -> tuple[Tally, Report]:
    """One forward pass with an expectation for each weight, each of `places` and each end label."""
    tally = Tally(problem)
    layout = problem.model.layout
    scores = LogScores(problem)
    z = before_the_chain(layout.n_labels)
    h = np.full((layout.size, places, layout.n_labels), -np.inf)
    sign = np.zeros(h.shape, np.int8)
    blocks = 0
    for low, high in problem.blocks():
        blocks += 1
        block = problem.read(low, high)
        status, fault = carry_expectations(block, *scores.of(low, block), layout.features, z, h, sign)
        check(status, low + fault)
        tally.observe(low, block)
        problem.settings.progress(high - low)
    log_z, _ = signed_total(z, np.ones(z.size, np.int8))
    close(tally, log_z, h, sign, layout.size)
    return tally, Report.of(problem, tally, promise(problem), blocks=blocks)


def carry_memory(shape: Shape, settings: Settings, places: int) -> float:
    state = shape.weights * places * shape.n_labels * 9
    return state + shape.block(settings) * (shape.row_bytes + shape.edge_bytes)
