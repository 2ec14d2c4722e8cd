"""`stream` on many stretches of the chain at once.

The chain is cut at places fixed by its length and the size of the model. Where a sequence starts nearby, the cut is
made there, and its two sides know nothing of one another. Elsewhere a cut holds if both sides of it are certified:

    the past     where the chain forgets within a halo before the cut, α is known
    the future   where it forgets within a halo after the cut, γ is known

Between two cuts that hold, a stretch has all that it needs and is streamed on its own. A cut that does not hold is no
cut: its two sides are one stretch, streamed in order. Tallies are added in the order of the chain, so the gradient is
the same to the last bit for any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from chainfold.chain.block import frozen
from chainfold.engines.block_pass import Belief, Horizon, Potentials, Sweep, boundary_flow
from chainfold.engines.problem import Cost, Engine, Problem, Report, Settings, Shape, Tally
from chainfold.engines.stream import Doings, Stream
from chainfold.engines.stream import cost as stream_cost
from chainfold.errors import ScoreNotFinite, ZeroProbability
from chainfold.model.layout import Floats

STRETCHES = 16
"""A chain is cut into so many, however many threads there are."""

_LEAST_STRETCH = 4096  # positions
_LEAST_STRETCH_A_LABEL = 256  # a certificate costs N³ a position of its halo, the stretch N² a position
_WEIGHTS_A_POSITION = 24  # each stretch has counts of its own, to be made and added
_FIRST_HALO, _LAST_HALO = 64, 4096
_NEAR = 256  # positions
_CUT = 125_000  # time of a cut beside its certificates, in multiply-adds


class Cut(NamedTuple):
    """A place where the chain may be cut, with what each side needs to know; nothing where a sequence starts."""

    position: int
    before: Belief | None = None  # α of the position before the cut
    posterior: Floats | None = None  # γ of the position before the cut


def run(problem: Problem) -> tuple[Tally, Report]:
    potentials = Potentials.of(problem)
    doings = Doings()
    total: Tally | None = None
    places = cut_places(problem.shape, problem.settings)
    if places:  # a source that must find its way to the last cut does so here, where it can be interrupted
        problem.source.block(places[-1] - 1, places[-1])
    with ThreadPoolExecutor(at_once(problem.shape, problem.settings)) as pool:
        try:
            cuts = list(pool.map(lambda place: certify(problem, potentials, place), places))
            held = [cut for cut in cuts if cut is not None]
            jobs = [pool.submit(stretch, problem, potentials, left, right) for left, right in stretches(held)]
            for tally, done in in_order(jobs):
                doings.add(done)
                if total is None:
                    total = tally
                else:
                    total.add(tally)
        except BaseException:  # an interrupt too: let no thread go on to the end of its stretch
            problem.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    assert total is not None, "a chain has at least one position"
    certified = sum(cut.before is not None for cut in held)
    order = len(places) - len(held)
    return total, doings.report(problem, total, in_order=order, cuts=certified, halo=2 * _LAST_HALO if certified else 0)


def in_order(jobs: list[Future[tuple[Tally, Doings]]]) -> Iterator[tuple[Tally, Doings]]:
    """Results in the order of the chain, each let go of once it is used."""
    jobs.reverse()
    while jobs:
        yield jobs.pop().result()


def cut_places(shape: Shape, settings: Settings) -> list[int]:
    """Where to try: as even as can be; it must not depend on the number of threads."""
    sizes = (_LEAST_STRETCH, _LEAST_STRETCH_A_LABEL * shape.n_labels, shape.weights // _WEIGHTS_A_POSITION)
    most = max(1, min(STRETCHES, shape.positions // (settings.block or max(sizes))))
    count = 1 << most.bit_length() - 1  # a power of two: threads that come in twos have equal shares
    return [shape.positions * k // count for k in range(1, count)]


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
    """The cut before `position` or a start near it, or None if the chain does not forget within the halos allowed."""
    near = problem.source.block(position, min(position + _NEAR, problem.positions)).starts
    if near.any():
        return Cut(position + int(np.argmax(near)))
    try:
        before = certify_past(problem, potentials, position)
        if before is None:
            return None
        posterior = certify_future(problem, potentials, position, before)
    except (ZeroProbability, ScoreNotFinite):  # a stretch will meet it too, and name the first one
        return None
    return None if posterior is None else Cut(position, before, posterior)


def share(problem: Problem, low: int, high: int) -> Tally:
    """What the positions low … high-1 add to log Z and to the counts; over a whole chain, these shares add up.

    Where the chain does not forget within the halos allowed, the past and the future beyond them are left out.
    """
    tally, potentials = Tally(problem), Potentials.of(problem)
    entry = None if starts_at(problem, low) else certify_past(problem, potentials, low, anyway=True)
    posterior = None
    if not starts_at(problem, high):
        sweep = Sweep(problem, potentials)
        before = sweep.forward(low, problem.read(low, high), entry)
        posterior = certify_future(problem, potentials, high, before, anyway=True)
    Stream(problem, potentials, tally).run(low, high, entry, posterior)
    return tally


def starts_at(problem: Problem, position: int) -> bool:
    """Does a sequence start there, or the chain end before it?"""
    return position == problem.positions or bool(problem.source.block(position, position + 1).starts[0])


def certify_past(problem: Problem, potentials: Potentials, position: int, anyway: bool = False) -> Belief | None:
    """α of the position before the cut, from a halo that grows until its beginning no longer matters.

    None if it still matters at the last, or the best that is known, if that will do anyway.
    """
    halo = _FIRST_HALO
    belief = None
    while halo <= _LAST_HALO:
        low = max(0, position - halo)
        first = problem.read(low, low + 1)
        begun = first._replace(starts=frozen([True], np.bool_))  # here any label may stand, whatever may start
        belief = Sweep(problem, potentials).forward(low, begun, None, masked=bool(first.starts[0]))
        if position == 1:  # there is nothing before it but the beginning of the chain
            return belief
        sweep = Sweep(problem, potentials)
        horizon = Horizon(potentials.width, ignore=np.where(belief.possible(), 0.0, np.inf))
        belief = sweep.forward(low + 1, problem.read(low + 1, position), belief)
        sweep.look_ahead(horizon)
        if horizon.certified or first.starts[0]:
            return belief
        halo *= 2
    return belief if anyway else None


def certify_future(
    problem: Problem, potentials: Potentials, position: int, before: Belief, anyway: bool = False
) -> Floats | None:
    """γ of the position before the cut, from a lookahead that grows until the future no longer matters.

    None if it still matters at the last, or the best that is known, if that will do anyway.
    """
    horizon = Horizon(potentials.width)
    low, halo = position, _FIRST_HALO
    belief, sweeps = before, list[Sweep]()
    while low - position < _LAST_HALO:
        high = min(low + halo, problem.positions)
        sweeps.append(Sweep(problem, potentials))
        belief = sweeps[-1].forward(low, problem.read(low, high), belief)
        sweeps[-1].look_ahead(horizon)
        if horizon.certified or high == problem.positions or (anyway and high - position >= _LAST_HALO):
            if problem.weighted:
                return boundary_flow(sweeps, horizon.last)
            return horizon.gamma if horizon.certified else horizon.mixed(belief)
        low, halo = high, 2 * halo
    return None


def cost(shape: Shape, settings: Settings) -> Cost:
    memory, time = stream_cost(shape, settings)
    count, cuts = at_once(shape, settings), len(cut_places(shape, settings))
    memory = count * memory + (count - 1) * shape.tally_bytes
    time += cuts * (_CUT + 2 * _FIRST_HALO * shape.n_labels**3)
    return Cost(memory, time / count + (cuts + 1) * shape.bookkeeping)


def at_once(shape: Shape, settings: Settings) -> int:
    """Stretches on which threads work at a time: fewer than there are threads where the memory is too small."""
    count = min(settings.threads, len(cut_places(shape, settings)) + 1)
    if settings.memory is not None:
        each, tally = stream_cost(shape, settings).memory, shape.tally_bytes
        count = min(count, max(int((settings.memory + tally) // (each + tally)), 1))
    return count


ENGINE = Engine(
    name="parallel",
    summary="`stream` on stretches cut by certificate",
    keeps="O(M + NB)",
    time="N²T + NTA",
    reads="once",
    run=run,
    cost=cost,
)
