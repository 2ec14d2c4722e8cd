"""Which engine, and why."""

from __future__ import annotations

from typing import NamedTuple

from chainfold.engines import ENGINES
from chainfold.engines.base import Cost, Settings, Shape


class Choice(NamedTuple):
    """The planner's answer."""

    engine: str
    reason: str
    costs: dict[str, Cost]


_SHORT = 32768  # positions below which threads do not pay


def choose(shape: Shape, settings: Settings) -> Choice:
    """The quickest engine that keeps within the memory allowed, with one sentence of reason."""
    costs = {name: engine.cost(shape, settings) for name, engine in ENGINES.items()}
    fits = {name: cost for name, cost in costs.items() if settings.memory is None or cost.memory <= settings.memory}
    threads = f"{settings.threads} threads"
    if settings.threads > 1 and shape.positions >= _SHORT and "parallel" in fits:
        return Choice("parallel", f"{threads}, and the chain is long enough to be cut where certified.", costs)
    if not fits:
        least = min(costs, key=lambda name: costs[name].memory)
        reason = (
            f"no engine keeps within the memory allowed; this one needs the least, {costs[least].memory:,.0f} bytes."
        )
        return Choice(least, reason, costs)
    if "stream" in fits:
        why = "only one thread is asked for" if settings.threads == 1 else f"the chain is too short for {threads}"
        if settings.threads > 1 and shape.positions >= _SHORT:
            why = f"{threads} would need more memory than is allowed"
        reason = f"one pass, in memory that does not depend on the length; {why}."
        return Choice("stream", reason, costs)
    name = min(fits, key=lambda name: fits[name].time)
    return Choice(name, "the quickest of the engines that keep within the memory allowed.", costs)
