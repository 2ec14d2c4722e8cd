"""The paper's Algorithm 2: one forward pass over the log-domain expectation semiring (EMP).

Memory O(N² + NM), for any length; time N²T(M + A).
"""

from __future__ import annotations

from chainfold.engines.engine import Report
from chainfold.engines.problem import Problem
from chainfold.engines.published.log_domain import carry_forward, carry_memory
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally


def run(problem: Problem) -> tuple[Tally, Report]:
    return carry_forward(problem, places=1)


def memory(shape: Shape, settings: Settings) -> float:
    return carry_memory(shape, settings, places=1)
