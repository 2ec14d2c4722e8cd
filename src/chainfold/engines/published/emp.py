"""The paper's Algorithm 2: one forward pass over the log-domain expectation semiring (EMP).

Memory O(N² + NM), for any length; time N²T(M + A).
"""

from __future__ import annotations

from chainfold.engines.engine import Cost, Engine, Report
from chainfold.engines.problem import Problem
from chainfold.engines.published.log_domain import carry_cost, carry_forward
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally


def run(problem: Problem) -> tuple[Tally, Report]:
    return carry_forward(problem, places=1)


def cost(shape: Shape, settings: Settings) -> Cost:
    return carry_cost(shape, settings, places=1)


ENGINE = Engine(
    "emp", "Algorithm 2 as published, log domain", "O(N² + NM)", "N²T(M + A)", "once", run, cost, published=True
)
