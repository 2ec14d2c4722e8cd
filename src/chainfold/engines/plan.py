"""Which engine, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from chainfold.engines import ENGINES
from chainfold.engines.engine import Cost
from chainfold.engines.settings import Settings, Shape

_MOST_LOSS = 0.1  # of the time of one thread, to cuts that only more threads profit from


class Choice(NamedTuple):
    """The planner's answer."""

    engine: str
    reason: str
    costs: dict[str, Cost]


def choose(shape: Shape, settings: Settings) -> Choice:
    """The quickest engine that keeps within the memory allowed, with one sentence of reason.

    The number of threads does not matter: engines differ in their last bits, and an answer must not depend on it.
    """
    costs = {name: engine.cost(shape, settings) for name, engine in ENGINES.items()}
    fits = {name: cost for name, cost in costs.items() if settings.memory is None or cost.memory <= settings.memory}
    if not fits:
        least = min(costs, key=lambda name: costs[name].memory)
        reason = (
            f"no engine keeps within the memory allowed; this one needs the least, {costs[least].memory:,.0f} bytes."
        )
        return Choice(least, reason, costs)
    if "parallel" in fits and _gains(shape, settings):
        return Choice(
            "parallel", "the chain is long enough to be cut where certified, for any number of threads.", costs
        )
    if "stream" in fits:
        why = "several threads would need more memory than is allowed"
        if not _gains(shape, replace(settings, memory=None)):
            why = "the chain is too short, compared with the model, for several threads"
        return Choice("stream", f"one pass, in memory that does not depend on the length; {why}.", costs)
    name = min(fits, key=lambda name: fits[name].time)
    return Choice(name, "the quickest of the engines that keep within the memory allowed.", costs)


def _gains(shape: Shape, settings: Settings) -> bool:
    """Would two threads be quicker than one, and one hardly slower than without cuts?"""
    one, two = (ENGINES["parallel"].cost(shape, replace(settings, threads=threads)).time for threads in (1, 2))
    alone = ENGINES["stream"].cost(shape, settings).time
    return two < alone and one <= (1.0 + _MOST_LOSS) * alone
