"""The paper's Case IV: forward-backward in the log domain, the forward vectors on disk.

They go to an unnamed temporary file that the operating system removes with the process, and are read in reverse.
"""

from __future__ import annotations

import numpy as np

from chainfold.engines.engine import Report
from chainfold.engines.problem import Problem
from chainfold.engines.published.log_domain import forward_and_back, forward_and_back_memory
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally
from chainfold.model.layout import Floats
from chainfold.system.spill import SpillFile


class LogVectorFile:
    """Keeps the forward vectors in a file."""

    def __init__(self, n_labels: int, file: SpillFile) -> None:
        self._n_labels, self._file = n_labels, file

    def push(self, vectors: Floats) -> None:
        self._file.append(vectors)

    def pop(self, rows: int) -> Floats:
        return self._file.read_back(rows * self._n_labels).reshape(rows, self._n_labels)


def run(problem: Problem) -> tuple[Tally, Report]:
    with SpillFile(np.float64) as file:
        return forward_and_back(problem, LogVectorFile(problem.model.layout.n_labels, file))


def memory(shape: Shape, settings: Settings) -> float:
    return forward_and_back_memory(shape, settings)
