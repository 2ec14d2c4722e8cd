"""What an engine is: a name, `run(problem) -> (Tally, Report)`, and its cost for the planner."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from chainfold.engines.problem import Problem
from chainfold.engines.rounding import Promise
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally

LOG_ADDITION = 150.0
"""Time of one ⊕ in multiply-adds: it takes an exponential and a logarithm, and no vector."""


@dataclass(frozen=True)
class Report:
    """What an engine did."""

    blocks: int = 0
    passes: float = 0.0  # times the data was read
    bytes_read: int = 0
    wide_blocks: int = 0  # blocks whose numbers needed more than the range of a double
    lookahead_mean: float = 0.0  # positions looked at beyond a block until its end was certified
    lookahead_max: int = 0
    carried_blocks: int = 0  # blocks whose end did not certify, carried with one expectation for each end label
    in_order: int = 0  # cuts of `parallel` that did not certify, so that both sides were done in order
    error_bound: float = math.inf  # of every posterior above 1e-150, and of counts relative to the size of their terms
    log_z_error_bound: float = math.inf  # of log Z, absolute

    @classmethod
    def of(cls, problem: Problem, tally: Tally, promise: Promise, **events: int | float) -> Report:
        """The report of a run; events: the fields that the engine itself counts."""
        promise = promise._replace(terms=promise.terms + tally.expected.terms(problem.positions))
        error, log_z_error = problem.error_bounds(tally.log_z, promise)
        return cls(
            passes=problem.passes,
            bytes_read=problem.bytes_read,
            error_bound=error,
            log_z_error_bound=log_z_error,
            **events,  # type: ignore[arg-type]
        )


class Cost(NamedTuple):
    """What an engine is predicted to need: bytes of working memory, and time in multiply-adds."""

    memory: float
    time: float


@dataclass(frozen=True)
class Engine:
    """One algorithm."""

    name: str
    summary: str
    keeps: str
    time: str
    reads: str
    run: Callable[[Problem], tuple[Tally, Report]]
    cost: Callable[[Shape, Settings], Cost]
    published: bool = False  # the paper's algorithm as it stands, without weights of sequences and masks
