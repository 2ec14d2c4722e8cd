"""The forward-only algorithm (Churbanov and Winters-Hilt; Miklós and Meyer), the slow baseline of the paper.

Each weight has a recursion of its own for each label after which its feature was seen: memory O(N²M), time N³MT. The
paper says N⁴MT, for features that may be active on any pair of labels; ours each know the label they go with.
"""

from __future__ import annotations

from chainfold.engines.engine import Report
from chainfold.engines.problem import Problem
from chainfold.engines.published.log_domain import carry_forward, carry_memory
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally


def run(problem: Problem) -> tuple[Tally, Report]:
    return carry_forward(problem, places=problem.model.layout.n_labels)


def memory(shape: Shape, settings: Settings) -> float:
    return carry_memory(shape, settings, places=shape.n_labels)
