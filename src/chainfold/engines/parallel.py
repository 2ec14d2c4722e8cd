"""`stream` on many stretches of the chain at once.

The chain is cut at places fixed by its length and the size of the model. Where a sequence starts nearby, the cut is
made there, and its two sides are independent. Elsewhere a cut holds if both sides of it are certified
(`engines.stretch`).

Between two cuts that hold, a stretch has all that it needs and is streamed on its own. A cut that does not hold is no
cut: its two sides are one stretch, streamed in order. Tallies are added in the order of the chain, so the gradient is
the same to the last bit for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap
from typing import Any, NamedTuple, TypeVar

import numpy as np

from chainfold.engines.belief import Belief
from chainfold.engines.engine import Cost, Engine, Report
from chainfold.engines.potentials import Potentials
from chainfold.engines.problem import Problem
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.stream import StreamEvents, StreamPass
from chainfold.engines.stream import cost as stream_cost
from chainfold.engines.stretch import HALO, HALO_OF_FEW, future_of, past_of
from chainfold.engines.tally import Tally
from chainfold.errors import ScoreNotFinite, ZeroProbability
from chainfold.kernels.slots import WIDTH
from chainfold.model.layout import Floats

STRETCHES = 16
"""A chain is cut into at most this many, for any number of threads."""

_LEAST_STRETCH, _LEAST_STRETCH_OF_FEW = 4096, 65536  # positions; with few labels they take less time than a cut does
_LEAST_STRETCH_A_LABEL = 256  # a certificate costs N³ a position of its halo, the stretch N² a position
_WEIGHTS_A_POSITION = 24  # each stretch has counts of its own, to be made and added
_NEAR = 256  # positions
_CUT = 125_000  # time of a cut beside its certificates, in multiply-adds


Result = TypeVar("Result")


class Cut(NamedTuple):
    """A place where the chain may be cut, with what each side needs to know; nothing where a sequence starts."""

    position: int
    before: Belief | None = None  # α of the position before the cut
    posterior: Floats | None = None  # γ of the position before the cut


def run(problem: Problem) -> tuple[Tally, Report]:
    potentials = Potentials.of(problem)
    events = StreamEvents()
    total: Tally | None = None
    places = cut_places(problem.shape, problem.settings)
    if places:  # a source that must find its way to the last cut does so here, where it can be interrupted
        problem.source.block(places[-1] - 1, places[-1])
    count = at_once(problem.shape, problem.settings)
    with ThreadPoolExecutor(count) as pool:
        threads = pool if count > 1 else None
        try:
            cuts = list(in_order(threads, certify, ((problem, potentials, place) for place in places)))
            held = [cut for cut in cuts if cut is not None]
            jobs = ((problem, potentials, left, right) for left, right in stretches(held))
            for tally, stretch_events in in_order(threads, stretch, jobs):
                events.add(stretch_events)
                if total is None:
                    total = tally
                else:
                    total.add(tally)
        except BaseException:  # an interrupt too: stop the threads before the end of their stretches
            problem.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    assert total is not None, "a chain has at least one position"
    certified = sum(cut.before is not None for cut in held)
    order = len(places) - len(held)
    return total, events.report(problem, total, in_order=order, cuts=certified, halo=2 * HALO.last if certified else 0)


def in_order(
    threads: ThreadPoolExecutor | None, work: Callable[..., Result], jobs: Iterable[tuple[Any, ...]]
) -> Iterator[Result]:
    """Results in the order of the jobs, each freed once it is used; without threads, by the caller's own."""
    if threads is None:
        yield from starmap(work, jobs)
        return
    futures = [threads.submit(work, *job) for job in jobs]
    futures.reverse()
    while futures:
        yield futures.pop().result()


def cut_places(shape: Shape, settings: Settings) -> list[int]:
    """Where to try: evenly spaced, and independent of the number of threads."""
    least = _LEAST_STRETCH_OF_FEW if shape.n_labels <= WIDTH else _LEAST_STRETCH
    sizes = (least, _LEAST_STRETCH_A_LABEL * shape.n_labels, shape.weights // _WEIGHTS_A_POSITION)
    most = max(1, min(STRETCHES, shape.positions // (settings.block or max(sizes))))
    count = 1 << most.bit_length() - 1  # a power of two: threads that come in twos have equal shares
    return [shape.positions * k // count for k in range(1, count)]


def stretches(cuts: list[Cut]) -> Iterator[tuple[Cut | None, Cut | None]]:
    return zip([None, *cuts], [*cuts, None], strict=True)


def stretch(
    problem: Problem, potentials: Potentials, left: Cut | None, right: Cut | None
) -> tuple[Tally, StreamEvents]:
    """Stream the positions between two cuts."""
    tally = Tally(problem)
    stream = StreamPass(problem, potentials, tally)
    low = left.position if left else 0
    high = right.position if right else problem.positions
    stream.run(low, high, left.before if left else None, right.posterior if right else None)
    return tally, stream.events


def certify(problem: Problem, potentials: Potentials, position: int) -> Cut | None:
    """The cut before `position` or a start near it, or None if the chain does not forget within the halos allowed."""
    near = problem.source.block(position, min(position + _NEAR, problem.positions)).starts
    if near.any():
        return Cut(position + int(np.argmax(near)))
    try:
        halo = HALO_OF_FEW if potentials.few else HALO
        past = past_of(problem, potentials, position, halo)
        if not past.known or past.value is None:
            return None
        future = future_of(problem, potentials, position, past.value, halo)
    except (ZeroProbability, ScoreNotFinite):  # a stretch will meet it too, and name the first one
        return None
    return Cut(position, past.value, future.value) if future.known else None


def cost(shape: Shape, settings: Settings) -> Cost:
    memory, time = stream_cost(shape, settings)
    count, cuts = at_once(shape, settings), len(cut_places(shape, settings))
    memory = count * memory + (count - 1) * shape.tally_bytes
    time += cuts * (_CUT + 2 * HALO.first * shape.n_labels**3)
    return Cost(memory, time / count + (cuts + 1) * shape.bookkeeping)


def at_once(shape: Shape, settings: Settings) -> int:
    """Stretches on which threads work at a time: fewer than there are threads where the memory is too small."""
    count = min(settings.threads, len(cut_places(shape, settings)) + 1)
    if settings.memory is not None:
        each, tally = stream_cost(shape, settings).memory, shape.tally_bytes
        count = min(count, max(int((settings.memory + tally) // (each + tally)), 1))
    return count


ENGINE = Engine("parallel", "`stream` on stretches cut by certificate", "O(M + NB)", "N²T + NTA", "once", run, cost)
