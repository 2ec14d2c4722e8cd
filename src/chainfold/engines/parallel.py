"""`stream` on many stretches of the chain at once.

The chain is cut at places fixed by its length and the size of the model. Where a sequence starts nearby, the cut is
made there, and its two sides are independent. Elsewhere a cut holds if both sides of it are certified
(`engines.stretch`).

Between two cuts that hold, a stretch has all that it needs and is streamed on its own. A cut that does not hold is no
cut: its two sides are one stretch, streamed in order. Tallies are added in a tree over the places (`engines.sums`), so
the gradient is the same to the last bit for any number of threads, and any run of stretches can be summed elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise, starmap
from typing import Any, NamedTuple, TypeVar

import numpy as np

from chainfold.core.slots import WIDTH, is_few
from chainfold.engines.belief import Belief
from chainfold.engines.engine import Engine, Report
from chainfold.engines.halo import HALO, HALO_OF_FEW, future_of, past_of
from chainfold.engines.problem import Problem
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.stream import StreamEvents, StreamPass
from chainfold.engines.stream import memory as stream_memory
from chainfold.engines.sums import Node, StretchSums, SumTree
from chainfold.engines.tally import Tally
from chainfold.engines.weight_scores import WeightSource
from chainfold.errors import ScoreNotFinite, ZeroProbability
from chainfold.model.layout import Floats

STRETCHES = 16
"""A chain is cut into at most this many, for any number of threads, unless they would be long."""

LONG = 1 << 21
"""Positions in a stretch, at most, where the chain has more than 16 times as many."""

MOST = 1 << 16
"""Stretches at most: a header may state any number of positions."""

NEAR = 256
"""Positions after a place in which a start mark is looked for."""

_LEAST_STRETCH, _LEAST_STRETCH_OF_FEW = 4096, 131072  # positions; with few labels they take less time than a tally does
_LEAST_CERTIFIED = 65536  # positions of up to eight labels between two certificates, each of which costs thousands
_LEAST_STRETCH_A_LABEL = 256  # a certificate costs N³ a position of its halo, the stretch N² a position
_WEIGHTS_A_POSITION = 24  # each stretch has counts of its own, to be made and added
_AHEAD = 2  # stretches begun for each thread: one may be done long before the one before it
_CLOSED = 1 / 2  # of a tally, once its levels are added


Result = TypeVar("Result")


class Cut(NamedTuple):
    """A place where the chain may be cut, with what each side needs to know; nothing where a sequence starts."""

    position: int
    before: Belief | None = None  # α of the position before the cut
    posterior: Floats | None = None  # γ of the position before the cut


def run(problem: Problem) -> tuple[Tally, Report]:
    places = cut_places(problem.shape, problem.settings)
    if places:  # a source that must find its way to the last cut does so here, where it can be interrupted
        problem.source.block(places[-1] - 1, places[-1])
    tree, events = run_leaves(problem, 0, len(places) + 1)
    tally = Tally(problem, tree.root)
    return tally, report_of(problem, tally, events)


def report_of(problem: Problem, tally: Tally, events: StreamEvents) -> Report:
    """The report of a run; events: those of all its stretches."""
    return events.report(problem, tally, halo=2 * HALO.last if events.cuts else 0)


def run_leaves(problem: Problem, first: int, last: int) -> tuple[SumTree, StreamEvents]:
    """The sums over the stretches that begin in leaves first … last-1; leaf k begins at the k-th place."""
    source = WeightSource(problem)
    tree, events, stride = SumTree(), StreamEvents(), _stride(problem.shape, problem.settings)
    count = at_once(problem.shape, problem.settings)
    with ThreadPoolExecutor(count) as pool:
        threads = pool if count > 1 else None
        try:
            cuts = _cuts(source, first, last, threads)
            jobs = ((source, left, right) for left, right in pairwise(filter(None, cuts)))
            results = in_order(threads, stretch, jobs, _AHEAD * count)
            for leaf, cut in enumerate(cuts[: last - first], first):
                sums = None
                if cut is not None:
                    sums, stream_events = next(results)
                    events.add(stream_events)
                    events.cuts += cut.before is not None
                events.in_order += cut is None and leaf % stride == 0
                tree.add(Node(leaf, 1, sums))
        except BaseException:  # an interrupt too: stop the threads before the end of their stretches
            problem.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return tree, events


def _cuts(source: WeightSource, first: int, last: int, threads: ThreadPoolExecutor | None) -> list[Cut | None]:
    """The cuts at places first … last, None where one does not hold, and those after them up to one that holds."""
    problem = source.problem
    places = [0, *cut_places(problem.shape, problem.settings), problem.positions]
    stride = _stride(problem.shape, problem.settings)

    def cut(place: int) -> Cut | None:
        if place in (0, len(places) - 1):  # where the chain begins and ends
            return Cut(places[place])
        return start_near(problem, places[place]) or (None if place % stride else certify(source, places[place]))

    cuts = list(in_order(threads, cut, ((place,) for place in range(first, last + 1)), len(places)))
    while cuts[-1] is None:
        cuts.append(cut(first + len(cuts)))
    return cuts


def _stride(shape: Shape, settings: Settings) -> int:
    """One in how many places is certified where no sequence starts near it; a power of two."""
    count, stride = leaves(shape, settings), 1
    if shape.n_labels <= WIDTH and settings.block is None:
        while stride < count and shape.positions * stride < _LEAST_CERTIFIED * count:
            stride *= 2
    return stride


def in_order(
    threads: ThreadPoolExecutor | None, work: Callable[..., Result], jobs: Iterable[tuple[Any, ...]], ahead: int
) -> Iterator[Result]:
    """Results in the order of the jobs, of which `ahead` are begun at a time; without threads, by the caller's own."""
    if threads is None:
        yield from starmap(work, jobs)
        return
    jobs = iter(jobs)
    begun = deque(threads.submit(work, *job) for job in islice(jobs, ahead))
    while begun:
        result = begun.popleft().result()
        begun.extend(threads.submit(work, *job) for job in islice(jobs, 1))
        yield result


def leaves(shape: Shape, settings: Settings) -> int:
    """Leaves of the tree, a power of two: threads that come in twos have equal shares; its sums fit the memory."""
    least = _LEAST_STRETCH_OF_FEW if is_few(shape.n_labels) else _LEAST_STRETCH
    sizes = (least, _LEAST_STRETCH_A_LABEL * shape.n_labels, shape.weights // _WEIGHTS_A_POSITION)
    most = max(1, shape.positions // (settings.block or max(sizes)))
    wanted = min(max(STRETCHES, -(-shape.positions // LONG)), MOST)
    count = min(1 << (wanted - 1).bit_length(), 1 << most.bit_length() - 1)
    while settings.memory is not None and count > 1 and _memory(shape, settings, 1, count) > settings.memory:
        count //= 2
    return count


def cut_places(shape: Shape, settings: Settings) -> list[int]:
    """Where to try: evenly spaced, and independent of the number of threads."""
    count = leaves(shape, settings)
    return [shape.positions * k // count for k in range(1, count)]


def stretch(source: WeightSource, left: Cut, right: Cut) -> tuple[StretchSums, StreamEvents]:
    """Stream the positions between two cuts."""
    tally = Tally(source.problem)
    stream = StreamPass(source, tally)
    stream.run(left.position, right.position, left.before, right.posterior)
    return tally.sums(), stream.events


def start_near(problem: Problem, position: int) -> Cut | None:
    """The cut at the first start of a sequence near `position`, or None if there is none."""
    near = problem.source.block(position, min(position + NEAR, problem.positions)).starts
    return Cut(position + int(np.argmax(near))) if near.any() else None


def certify(source: WeightSource, position: int) -> Cut | None:
    """The cut before `position`, or None if the chain does not forget within the halos allowed."""
    try:
        halo = HALO_OF_FEW if source.transitions.few else HALO
        past = past_of(source, position, halo)
        if not past.known or past.value is None:
            return None
        future = future_of(source, position, past.value, halo)
    except (ZeroProbability, ScoreNotFinite):  # a stretch will meet it too, and name the first one
        return None
    return Cut(position, past.value, future.value) if future.known else None


def memory(shape: Shape, settings: Settings) -> float:
    return _memory(shape, settings, at_once(shape, settings), leaves(shape, settings))


def at_once(shape: Shape, settings: Settings) -> int:
    """Stretches on which threads work at a time: fewer than there are threads where the memory is too small."""
    pieces = leaves(shape, settings)
    count = min(settings.threads, pieces)
    while settings.memory is not None and count > 1 and _memory(shape, settings, count, pieces) > settings.memory:
        count -= 1
    return count


def _memory(shape: Shape, settings: Settings, count: int, pieces: int) -> float:
    """Of `count` stretches at a time: their passes and tallies, and the sums of those done and of the tree."""
    done = _AHEAD * count - count if count > 1 else 0
    levels = pieces.bit_length() - 1
    tallies = count - 1 + (done + levels) * _CLOSED
    return count * stream_memory(shape, settings) + tallies * shape.tally_bytes


ENGINES = {"parallel": Engine(run, memory)}
