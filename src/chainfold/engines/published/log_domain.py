"""Scores, the beginning and the end of a run of the engines that follow the paper to the letter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block
from chainfold.core import edge_scores, quotients, state_scores
from chainfold.engines.problem import Problem
from chainfold.engines.rounding import Promise, check_scores
from chainfold.engines.tally import Tally
from chainfold.model.block_rows import find_block_rows
from chainfold.model.layout import Floats


def log_scores(problem: Problem, low: int, block: Block) -> tuple[Floats, Floats]:
    """State and edge scores of a block: s [B, width], e [B or 1, N · width]; low: the position of the block."""
    layout, weights = problem.model.layout, problem.weights
    block_rows = find_block_rows(layout, block)
    if problem.may_overflow(block):
        check_scores(layout, weights, low, block, block_rows)
    state = np.empty((block.labels.size, layout.width))
    state_scores(block_rows, layout.rows, weights, layout.blank, state)
    if not problem.has_edges:
        return state, weights.transition.reshape(1, -1)
    edge = np.empty((block.labels.size, weights.transition.size))
    edge_scores(block, weights, edge)
    return state, edge


def before_the_chain(n_labels: int) -> Floats:
    """log α before the first position: one state, where the paper sums over a free y_0."""
    z = np.full(n_labels, -np.inf)
    z[0] = 0.0
    return z


def close(tally: Tally, log_z: float, logs: Floats, signs: NDArray[np.int8]) -> None:
    """log Z, and the expected counts ∇_m Z / Z = ± exp(ln|∇_m Z| - ln Z), from one signed logarithm or more each."""
    tally.scale((log_z,))
    layout = tally.expected.layout
    expected = np.empty(layout.size)
    quotients(logs.reshape(layout.size, -1), signs.reshape(layout.size, -1), log_z, expected)
    tally.expected.add(layout.pack(expected, padding=0.0))


def promise(problem: Problem) -> Promise:
    """Logarithms of sums over the whole chain are rounded as large numbers are, several at each step."""
    positions, n_labels = problem.positions, problem.model.layout.n_labels
    logs = (2 * n_labels + 2) * positions * problem.most_score
    return Promise(span=positions, terms=positions, logs=logs)
