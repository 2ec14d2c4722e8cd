"""The paper's Case II: forward-backward in the log domain, the local kernels computed again on the way back.

Of the two ways in its section III the better one: backward vectors are used as soon as they are there, so that forward
vectors alone are kept, O(NT), and a kernel is computed twice.
"""

from __future__ import annotations

from chainfold.engines.engine import Report
from chainfold.engines.problem import Problem
from chainfold.engines.published.log_domain import forward_and_back, forward_and_back_memory
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally
from chainfold.model.layout import Floats


class LogVectors:
    """Keeps the forward vectors in memory."""

    def __init__(self) -> None:
        self._kept: list[Floats] = []

    def push(self, vectors: Floats) -> None:
        self._kept.append(vectors)

    def pop(self, rows: int) -> Floats:
        return self._kept.pop()


def run(problem: Problem) -> tuple[Tally, Report]:
    return forward_and_back(problem, LogVectors())


def memory(shape: Shape, settings: Settings) -> float:
    return forward_and_back_memory(shape, settings) + 8 * shape.positions * shape.n_labels
