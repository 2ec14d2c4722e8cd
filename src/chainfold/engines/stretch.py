"""A stretch of a chain with halos: what its positions add to log Z and the counts, from no more than it takes.

A stretch is a range of positions with the forward vector before its first position and the posterior of its last one.
Where a sequence starts, both are known. Elsewhere they are certified from halos (`halo`).
"""

from __future__ import annotations

from typing import NamedTuple

from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import BlockPass
from chainfold.engines.halo import HALO, Halo, Side, future_of, past_of
from chainfold.engines.problem import Problem
from chainfold.engines.stream import StreamPass
from chainfold.engines.tally import Tally
from chainfold.engines.weight_scores import WeightSource
from chainfold.model.layout import Floats


class Share(NamedTuple):
    """What some positions add to log Z and the counts."""

    tally: Tally
    past: Side[Belief]
    future: Side[Floats]


def share(source: WeightSource, low: int, high: int, halo: Halo = HALO) -> Share:
    """The share of positions low … high-1; over a whole chain, the shares add up.

    Where the chain does not forget within the halo, the past or the future beyond it is left out.
    """
    problem = source.problem
    tally, past, future = Tally(problem), Side[Belief](None), Side[Floats](None)
    if not _starts_at(problem, low):
        past = past_of(source, low, halo)
    if not _starts_at(problem, high):
        before = BlockPass(source).forward(low, problem.read(low, high), past.value)
        future = future_of(source, high, before, halo)
    StreamPass(source, tally).run(low, high, past.value, future.value)
    return Share(tally, past, future)


def _starts_at(problem: Problem, position: int) -> bool:
    """Whether a sequence starts there, or the chain ends before it."""
    return position == problem.positions or bool(problem.source.block(position, position + 1).starts[0])
