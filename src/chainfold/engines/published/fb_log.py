"""The paper's Algorithm 1: forward-backward in the log domain, as published.

All local kernels u_t, forward and backward vectors are kept, O(N²T); the gradient is summed in logarithms. They are
used block by block, so that `table` may keep a part of them outside of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainfold.engines.engine import Report
from chainfold.engines.problem import Problem
from chainfold.engines.published.log_domain import LogScores, before_the_chain, close, promise
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally
from chainfold.kernels.expectation import backward_vectors, kernels_and_forward, signed_total, terminate
from chainfold.kernels.faults import check


def run(problem: Problem, table: Callable[[tuple[int, ...]], Any] = np.empty) -> tuple[Tally, Report]:
    tally = Tally(problem)
    layout = problem.model.layout
    positions, n_labels = problem.positions, layout.n_labels
    u = table((positions, n_labels, n_labels))
    alpha = table((positions, n_labels))
    beta = table((positions + 1, n_labels))
    beta[positions] = 0.0
    entry = before_the_chain(n_labels)
    scores = LogScores(problem)
    blocks = problem.blocks()
    for low, high in blocks:
        block = problem.read(low, high)
        previous = alpha[low - 1] if low else entry
        status, fault = kernels_and_forward(block, *scores.of(low, block), u[low:high], previous, alpha[low:high])
        check(status, low + fault)
        tally.observe(low, block)
        problem.settings.progress((high - low) // 2)
    for low, high in reversed(blocks):
        backward_vectors(u[low:high], beta[low : high + 1])
    log_z, _ = signed_total(alpha[-1], np.ones(n_labels, np.int8))
    gradient, sign = np.full(layout.size, -np.inf), np.zeros(layout.size, np.int8)
    for low, high in blocks:
        previous = alpha[low - 1] if low else entry
        vectors = (u[low:high], previous, alpha[low:high], beta[low : high + 1])
        terminate(problem.read(low, high), *vectors, layout.features, gradient, sign)
        problem.settings.progress(high - low - (high - low) // 2)
    close(tally, log_z, gradient, sign, layout.size)
    return tally, Report.of(problem, tally, promise(problem), blocks=len(blocks))


def memory(shape: Shape, settings: Settings) -> float:
    return shape.positions * 8 * (shape.n_labels**2 + 2 * shape.n_labels)
