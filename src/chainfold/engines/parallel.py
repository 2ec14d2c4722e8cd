"""`stream` on many stretches of the chain at once.

The chain is cut at places fixed by its length alone. A cut holds if both sides of it are certified:

    the past     N forward passes over a halo before the cut, one from each label: where they agree, α is known
    the future   the lookahead of `stream` over a halo after it: where the columns agree, γ is known

Between two cuts that hold, a stretch has all that it needs and is streamed on its own. A cut that does not hold is no
cut: its two sides are one stretch, streamed in order. Tallies are added in the order of the chain, so the gradient is
the same to the last bit for any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from chainfold.engines.base import Cost, Engine, Problem, Report, Settings, Shape, Tally
from chainfold.engines.stream import Doings, Horizon, Stream
from chainfold.engines.stream import cost as stream_cost
from chainfold.engines.sweep import Belief, Potentials, Sweep
from chainfold.errors import ZeroProbability
from chainfold.model import Floats

STRETCHES = 16
"""A chain is cut into so many, however many threads there are."""

_LEAST_STRETCH = 2048  # positions
_FIRST_HALO, _LAST_HALO = 32, 2048


class Cut(NamedTuple):
    """A place where the chain may be cut, with what each side needs to know."""

    position: int
    before: Belief  # α of the position before the cut
    posterior: Floats  # γ of the position before the cut


def run(problem: Problem) -> tuple[Tally, Report]:
    potentials = Potentials(problem)
    doings = Doings()
    total: Tally | None = None
    places = cut_places(problem)
    with ThreadPoolExecutor(problem.settings.threads) as pool:
        cuts = list(pool.map(lambda place: certify(problem, potentials, place), places))
        held = [cut for cut in cuts if cut is not None]
        jobs = [pool.submit(stretch, problem, potentials, left, right) for left, right in stretches(held)]
        for tally, done in finished(jobs):
            doings.add(done)
            if total is None:
                total = tally
            else:
                total.add(tally)
    assert total is not None, "a chain has at least one position"
    return total, doings.report(problem, in_order=len(places) - len(held))


def finished(jobs: list[Future[tuple[Tally, Doings]]]) -> Iterator[tuple[Tally, Doings]]:
    """Results in the order of the chain, each let go of once it is used; a failure stops what has not begun."""
    jobs.reverse()
    try:
        while jobs:
            yield jobs.pop().result()
    finally:
        for job in jobs:
            job.cancel()


def cut_places(problem: Problem) -> list[int]:
    """Where to try: as even as can be, from the length of the chain and the settings that shape blocks alone."""
    least = problem.settings.block or _LEAST_STRETCH
    count = max(1, min(STRETCHES, problem.positions // least))
    return [problem.positions * k // count for k in range(1, count)]


def stretches(cuts: list[Cut]) -> Iterator[tuple[Cut | None, Cut | None]]:
    return zip([None, *cuts], [*cuts, None], strict=True)


def stretch(problem: Problem, potentials: Potentials, left: Cut | None, right: Cut | None) -> tuple[Tally, Doings]:
    """Stream the positions between two cuts."""
    tally = Tally(problem)
    stream = Stream(problem, potentials, tally)
    low = left.position if left else 0
    high = right.position if right else problem.positions
    stream.run(low, high, left.before if left else None, right.posterior if right else None)
    return tally, stream.doings


def certify(problem: Problem, potentials: Potentials, position: int) -> Cut | None:
    """The cut before `position`, or None if the chain does not forget within the halos allowed."""
    before = certify_past(problem, potentials, position)
    if before is None:
        return None
    posterior = certify_future(problem, potentials, position, before)
    return None if posterior is None else Cut(position, before, posterior)


def certify_past(problem: Problem, potentials: Potentials, position: int) -> Belief | None:
    """α of the position before the cut, from N passes over a halo that grows until they agree."""
    halo = _FIRST_HALO
    while halo <= _LAST_HALO:
        low = max(0, position - halo)
        block = problem.read(low, position)
        if low == 0 or block.starts.any():
            first = int(np.flatnonzero(block.starts)[-1])  # the past ends at the last start mark
            return Sweep(problem, potentials).forward(low + first, problem.read(low + first, position), None)
        beliefs = []
        for label in range(potentials.n_labels):
            try:
                beliefs.append(Sweep(problem, potentials).forward(low, block, pinned(label, potentials.width)))
            except ZeroProbability:  # this label cannot stand before the halo
                continue
        if beliefs and agree(beliefs, problem.settings.tolerance):
            return beliefs[0]
        halo *= 2
    return None


def certify_future(problem: Problem, potentials: Potentials, position: int, before: Belief) -> Floats | None:
    """γ of the position before the cut, from a lookahead that grows until its columns agree."""
    horizon = Horizon(potentials.width)
    scratch = np.zeros((2, potentials.width, potentials.width))
    low, halo = position, _FIRST_HALO
    belief = before
    while low - position < _LAST_HALO:
        high = min(low + halo, problem.positions)
        sweep = Sweep(problem, potentials)
        belief = sweep.forward(low, problem.read(low, high), belief)
        horizon.extend(sweep, scratch)
        if horizon.certified:
            return horizon.gamma
        if high == problem.positions:
            gamma = horizon.q @ belief.posterior()
            return np.asarray(gamma / gamma.sum())
        low, halo = high, 2 * halo
    return None


def pinned(label: int, width: int) -> Belief:
    """Certainty of one label."""
    values = np.zeros(width)
    values[label] = 1.0
    return Belief(values, in_logs=False)


def agree(beliefs: list[Belief], tolerance: float) -> bool:
    """Do they agree in each component to within a relative tolerance? However small it is, the future may raise it."""
    if any(belief.in_logs for belief in beliefs):
        logs = np.array([belief.logs() for belief in beliefs])
        possible = logs > -np.inf
        if not (possible == possible[0]).all():
            return False
        logs = logs[:, possible[0]]
        return bool((logs.max(axis=0) - logs.min(axis=0) <= tolerance).all())
    vectors = np.array([belief.values for belief in beliefs])
    low, high = vectors.min(axis=0), vectors.max(axis=0)
    return bool((high - low <= tolerance * low).all())


def cost(shape: Shape, settings: Settings) -> Cost:
    memory, time = stream_cost(shape, settings)
    tallies = 3 * 8 * shape.weights * shape.width / shape.n_labels
    return Cost(settings.threads * memory + (settings.threads + 1) * tallies, time / settings.threads)


ENGINE = Engine("parallel", "`stream` on many stretches at once, cut where certified", "stretches, any order", run, cost)
