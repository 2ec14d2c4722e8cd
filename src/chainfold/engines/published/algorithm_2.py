"""The paper's Algorithm 2, and the older one-pass algorithm with which it is compared: one forward pass.

emp            the log-domain expectation semiring, memory O(N² + NM) for any length, time N²T(M + A)
forward-only   the slow baseline of the paper (Churbanov and Winters-Hilt; Miklós and Meyer): each weight has a
               recursion of its own for each label after which its feature was seen, memory O(N²M), time N³MT. The
               paper says N⁴MT, for features that may be active on any pair of labels; ours each know the label
               they go with.
"""

from __future__ import annotations

import numpy as np

from chainfold.core import carry_expectations, log_total
from chainfold.core.faults import check
from chainfold.engines.engine import Engine, Report
from chainfold.engines.problem import Problem
from chainfold.engines.published.log_domain import before_the_chain, close, log_scores, promise
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally


def _carry_forward(problem: Problem, places: int) -> tuple[Tally, Report]:
    """One forward pass with an expectation for each weight, each of `places` and each end label."""
    tally = Tally(problem)
    layout = problem.model.layout
    z = before_the_chain(layout.n_labels)
    h = np.full((layout.size, places, layout.n_labels), -np.inf)
    sign = np.zeros(h.shape, np.int8)
    blocks = 0
    for low, high in problem.blocks():
        blocks += 1
        block = problem.read(low, high)
        status, fault = carry_expectations(block, *log_scores(problem, low, block), layout.features, z, h, sign)
        check(status, low + fault)
        tally.observe(low, block)
        problem.settings.progress(high - low)
    close(tally, log_total(z), h, sign)
    return tally, Report.of(problem, tally, promise(problem), blocks=blocks)


def _memory(shape: Shape, settings: Settings, places: int) -> float:
    state = shape.weights * places * shape.n_labels * 9
    return state + shape.block(settings) * (shape.row_bytes + shape.edge_bytes)


ENGINES = {
    "emp": Engine(lambda problem: _carry_forward(problem, 1), lambda shape, settings: _memory(shape, settings, 1)),
    "forward-only": Engine(
        lambda problem: _carry_forward(problem, problem.model.layout.n_labels),
        lambda shape, settings: _memory(shape, settings, shape.n_labels),
    ),
}
