"""What every engine is given, and what it gives back.

Problem   a model on a source, with the settings; reads blocks and counts what it reads
Tally     what an engine adds up: log Z and expected counts, the score and the counts of the observed labels
Report    what the engine did
Engine    a name, a sentence, `run(problem) -> (Tally, Report)`, and its cost for the planner
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL, Block, Source, check_block
from chainfold.engines.rounding import Extent, Promise, ScoreSizes, error_bounds
from chainfold.engines.workspace import Desk, Room
from chainfold.errors import BadSetting, ForbiddenLabel, ToleranceTooSmall
from chainfold.kernels.scores import PORTION, Found, Slots, fold, observe, padded
from chainfold.kernels.simd import WIDTH
from chainfold.model.layout import Floats, Layout, room_for
from chainfold.model.model import Model
from chainfold.system.validate import MOST, Arrays, below_infinity, finite, need

State = dict[str, NDArray[Any]]  # a state, by name, as a file may keep it

LEAST_TOLERANCE, MOST_TOLERANCE = 1e-14, 1e-2
DEFAULT_TOLERANCE = 1e-12
DEFAULT_LOOKAHEAD = 4096

LOG_ADDITION = 150.0
"""Time of one ⊕ in multiply-adds: it takes an exponential and a logarithm, and no vector."""

_LEAST_BLOCK = 256  # positions: with smaller ones nearly all the time would be Python's
_FOLD_EVERY = 16384  # positions: after so many the recent sums are added to the totals, so that rounding stays small
_SLOTS_A_POSITION = 8  # …unless there are so many sums that adding them all would take longer than making them
_MOST_TERMS = 64  # of a sum that is added up exactly, after which there are two
_HOT = 4096  # sums of the most frequent attributes, which kernels add up in portions of their own


@dataclass(frozen=True)
class Settings:
    """How to compute; never what."""

    threads: int = 1
    memory: int | None = None  # bytes of working memory, the weights and their counts not included
    tolerance: float = DEFAULT_TOLERANCE  # relative error that a certificate may leave
    block: int | None = None  # positions in a block; None: chosen from the number of labels and the memory
    lookahead: int | None = None  # positions that `stream` may look ahead before it carries a block
    observe: bool = True  # count the observed labels too
    progress: Callable[[int], None] = field(default=lambda positions: None)

    def __post_init__(self) -> None:
        for name in ("threads", "memory", "block", "lookahead"):
            value = getattr(self, name)
            if value is not None and not (
                isinstance(value, (int, float, np.integer)) and value >= 1 and value == int(value)
            ):
                raise BadSetting(name, value, "a whole number, at least 1")
            object.__setattr__(self, name, None if value is None else int(value))
        if not self.tolerance >= LEAST_TOLERANCE:
            raise ToleranceTooSmall(self.tolerance, LEAST_TOLERANCE)
        if not self.tolerance <= MOST_TOLERANCE:
            raise BadSetting("tolerance", self.tolerance, f"at most {MOST_TOLERANCE:g}")


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


class Shape(NamedTuple):
    """The sizes that decide what an engine costs."""

    positions: int
    n_labels: int
    weights: int  # M
    active: float  # A, state attributes a position
    n_edge_attributes: int

    @property
    def width(self) -> int:
        return padded(self.n_labels)

    @property
    def row_bytes(self) -> int:
        """A forward vector."""
        return 8 * self.width

    @property
    def edge_bytes(self) -> int:
        """The transition matrix of one position; nothing where all positions share one."""
        return 8 * self.n_labels * self.width if self.n_edge_attributes else 0

    @property
    def sweep_bytes(self) -> int:
        """A position in a block that is being worked on: forward vector, prediction, transition matrix."""
        return 2 * self.row_bytes + self.edge_bytes

    @property
    def pending_bytes(self) -> float:
        """A position that is worked on: its sweep, and where the rows of its attributes are."""
        return self.sweep_bytes + 8 * self.active + 16

    @property
    def tally_bytes(self) -> float:
        """Expected and observed counts of a stretch, in two levels each, padded."""
        return 4 * 8.0 * self.weights * self.width / self.n_labels

    @property
    def certificate_bytes(self) -> int:
        """Q and its scratch matrices."""
        return 4 * self.width * self.row_bytes

    @property
    def recursion(self) -> float:
        """Time: one step of the forward recursion at each position, and its transition matrix where it has one."""
        exponentials = 10 if self.n_edge_attributes else 0
        return float(self.positions * self.n_labels**2 * (1 + exponentials))

    @property
    def scoring(self) -> float:
        """Time: the state scores of each position."""
        return self.positions * self.n_labels * self.active

    @property
    def bookkeeping(self) -> float:
        """Time: making, folding and adding the counts of one stretch."""
        return 8.0 * self.weights

    @property
    def messages(self) -> float:
        """Time: forward, back, and the counts."""
        return 3 * self.recursion + self.scoring

    def block(self, settings: Settings) -> int:
        """Positions in a block.

        Large enough that Python's share of the time is small, and that of the certificate, which costs N³ a position
        looked at against N² a position done; small enough for the cache and the memory allowed.
        """
        if settings.block is not None:
            return settings.block
        if self.n_edge_attributes:
            block = min(max((4 << 20) // self.sweep_bytes, 64), 8192)
        else:
            block = max(min((3 << 19) // self.sweep_bytes, 8192), 128 * self.n_labels, 4096)
        if settings.memory is not None:
            room = int((settings.memory - self.certificate_bytes) // (4 * self.pending_bytes))
            block = min(block, max(room, _LEAST_BLOCK))
        return min(block, self.positions)

    def window(self, settings: Settings) -> int:
        """Blocks that may be pending at once: the lookahead, as far as the memory allows."""
        block = self.block(settings)
        window = 1 + -(-min(settings.lookahead or DEFAULT_LOOKAHEAD, self.positions) // block)
        if settings.memory is not None:
            room = int((settings.memory - self.certificate_bytes) // (block * self.pending_bytes))
            window = min(window, max(room - 1, 1))
        return window


class Cost(NamedTuple):
    """What an engine is predicted to need: working memory, and time in units of one multiply-add a position."""

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
    published: bool = False  # the paper's algorithm as it stands, which knows no weights of positions and no masks


class Accumulator:
    """A vector of sums in levels: kernels add to `recent`, which is folded into `total` now and then.

    A million small terms added to one large number lose five digits to rounding; added in portions, hardly one. The
    sums of the most frequent attributes, which come first, have a level in between (`kernels.scores.fold`).
    """

    def __init__(self, layout: Layout, room: Room) -> None:
        self.layout, self._room = layout, room
        self._recent = room.zeros(layout.slots)
        self._total: Floats | None = None
        self._pending = 0
        self._hot = room.zeros(min(_HOT, layout.dense * layout.width) // WIDTH * WIDTH)
        self.slots: Slots = layout.view(self._recent)._replace(hot=self._hot)

    def added(self, positions: int) -> None:
        """Say that the sums over so many positions have been added to the slots."""
        before, self._pending = self._pending, self._pending + positions
        if positions <= PORTION and self._pending // PORTION > before // PORTION:  # else kernels do it
            fold(self.slots)
        if self._pending >= self._portion:
            self._take_hot()
            self.add(self._recent)
            self._recent[:] = 0.0
            self._pending = 0

    def add(self, slots: Floats) -> None:
        """Add to the totals."""
        if self._total is None:
            self._total = self._room.take(slots.size)
            self._total[:] = slots
        else:
            self._total += slots

    def _take_hot(self) -> None:
        self._recent[: self._hot.size] += self._hot
        self._hot[:] = 0.0

    @property
    def _portion(self) -> int:
        """Positions after which sums are folded."""
        return max(_FOLD_EVERY, self._recent.size // _SLOTS_A_POSITION)

    def terms(self, positions: int) -> float:
        """That are added one after another on any level, at most, beside those of one block."""
        return min(self._portion, positions) + positions / self._portion

    def result(self) -> Floats:
        """The sums, in slots; nothing can be added after that."""
        self._take_hot()
        if self._total is None:
            return self._recent
        self._recent += self._total
        self._room.give(self._total)
        self._total = None
        return self._recent

    def release(self) -> None:
        """Give back the result, which nobody looks at any more."""
        self._room.give(self.result())
        self._room.give(self._hot)

    def state(self) -> State:
        """All levels, but for the hot one in the order of the weights: padding is always zero."""
        levels = {"recent": self._recent} if self._total is None else {"recent": self._recent, "total": self._total}
        unpacked = {name: self.layout.unpack(level) for name, level in levels.items()}
        return {"pending": np.array([self._pending]), "hot": self._hot, **unpacked}

    def restore(self, state: State) -> None:
        """Go on from there, to the bit."""
        given, size = Arrays(state), self.layout.size
        (pending,) = given.counts("pending", self._portion - 1)
        recent, hot = given.take("recent", np.float64, size), given.take("hot", np.float64, self._hot.size)
        total = given.take("total", np.float64, size) if "total" in given else None
        given.check_empty()
        for sums in (recent, hot, *([] if total is None else [total])):
            finite("sums", sums)
        self.layout.pack(recent, self._recent, padding=0.0)
        self._hot[:] = hot
        if total is not None:
            self._total = self.layout.pack(total, self._room.take(self._recent.size), padding=0.0)
        self._pending = pending


class Before(NamedTuple):
    """What was observed at the position before a block."""

    label: int
    weight: float


NOTHING_BEFORE = Before(NO_LABEL, 0.0)


class Tally:
    """What an engine adds up over the blocks of a stretch of the chain, in order."""

    def __init__(self, problem: Problem) -> None:
        layout = problem.model.layout
        self._problem = problem
        self.expected = Accumulator(layout, problem.room)
        observes = problem.source.labelled and problem.settings.observe
        self.observed = Accumulator(layout, problem.room) if observes else None
        self._scales: list[float] = []
        self._likelihoods: list[float] = []
        self._previous = NO_LABEL

    @property
    def log_z(self) -> float:
        return _sum(self._scales)

    @property
    def score(self) -> float:
        """The score of the observed labels: their counts times the weights."""
        assert self.observed is not None, "asked only where every label is known"
        counts = self.observed.result()
        counted = np.flatnonzero(counts)
        return float(np.sum(counts[counted] * self._problem.packed[counted]))

    @property
    def weighted_likelihood(self) -> float:
        """The log likelihood, where positions have weights."""
        return _sum(self._likelihoods)

    def scale(self, log_scale: tuple[float, ...], likelihood: float = 0.0) -> None:
        """Add a block's share of log Z, a sum, and of the likelihood where positions have weights."""
        self._scales = _shortened([*self._scales, *log_scale])
        self._likelihoods = _shortened([*self._likelihoods, likelihood])

    def observe(self, low: int, block: Block) -> None:
        """Count the block's own labels; blocks come in order, the first of a stretch knowing the label before it."""
        if self.observed is None:
            return
        problem = self._problem
        before = Before(self._previous, 1.0)
        if problem.weighted or self._previous == NO_LABEL:
            before = problem.before(low)
        layout = problem.model.layout
        self._previous, forbidden = observe(
            block, layout.rows, problem.weights, layout.width, *before, problem.forbids_states, self.observed.slots
        )
        wrong = [forbidden, problem.masked_label(low, block) if problem.masked else -1]
        if max(wrong) >= 0:
            raise ForbiddenLabel(low + min(place for place in wrong if place >= 0))
        self.observed.added(block.labels.size)

    def add(self, other: Tally) -> None:
        """Add the tally of the next stretch."""
        self._scales = _shortened(self._scales + other._scales)
        self._likelihoods = _shortened(self._likelihoods + other._likelihoods)
        self.expected.add(other.expected.result())
        if self.observed is not None and other.observed is not None:
            self.observed.add(other.observed.result())
        other.release()

    def forget_labels(self) -> None:
        """Count the observed labels no further: one of them is unknown, and so are their sums."""
        if self.observed is not None:
            self.observed.release()
            self.observed = None

    def state(self) -> State:
        """What has been added up, without the label before the next block: the source knows it."""
        observed = {} if self.observed is None else self.observed.state()
        return {
            "scales": np.array(self._scales),
            "likelihoods": np.array(self._likelihoods),
            **under("expected", self.expected.state()),
            **under("observed", observed),
        }

    def restore(self, state: State) -> None:
        """Go on from there, to the bit."""
        given = Arrays(state)
        scales, likelihoods = (given.take(name, np.float64, None) for name in ("scales", "likelihoods"))
        need(max(scales.size, likelihoods.size) < _MOST_TERMS, "it has more sums than it can have")
        finite("scales", scales)
        below_infinity("likelihoods", likelihoods)
        self.expected.restore(given.under("expected"))
        if self.observed is not None:
            self.observed.restore(given.under("observed"))
        given.check_empty()
        self._scales, self._likelihoods = scales.tolist(), likelihoods.tolist()

    def release(self) -> None:
        """Give back the room that the sums take."""
        self.expected.release()
        if self.observed is not None:
            self.observed.release()


def under(name: str, state: State) -> State:
    """The state of a part, as one of the whole."""
    return {f"{name}.{key}": array for key, array in state.items()}


def _shortened(terms: list[float]) -> list[float]:
    """The same sum in two numbers, so that what is kept does not grow with the chain."""
    if len(terms) < _MOST_TERMS:
        return terms
    total = _sum(terms)
    return [total, _sum([*terms, -total])] if math.isfinite(total) else [total]


def _sum(terms: list[float]) -> float:
    """Exact, or not a number where it leaves the range of a double."""
    try:
        return math.fsum(terms)
    except (OverflowError, ValueError):
        return math.nan


class Problem:
    """A model on a source, with the settings."""

    def __init__(self, model: Model, source: Source, settings: Settings, desk: Desk | None = None) -> None:
        if desk is not None:
            desk.check(model.layout, source)
        self.model = model
        self.source = source if desk is None else desk.source
        self.settings = settings
        self.room = Room() if desk is None else desk.room
        self._found = None if desk is None else desk.found
        self.packed: Floats = model.layout.pack(model.weights, self.room.take(model.layout.slots))
        self.weights: Slots = model.layout.view(self.packed)
        self._sizes = ScoreSizes(model.layout, model.weights)
        self._extent = Extent() if desk is None or desk.extent is None else desk.extent
        self._overflows = self._sizes.may_overflow(self._extent)  # could scores, as far as was read?
        self.has_edges = source.n_edge_attributes > 0
        self.masked = model.first is not None or model.last is not None
        self.stop = threading.Event()  # set when the run has failed or was interrupted: threads read no further
        self._lock = threading.Lock()
        self._positions_read = 0
        self._bytes_read = 0

    @property
    def positions(self) -> int:
        return self.source.positions

    @cached_property
    def weighted(self) -> bool:
        """Have positions weights that matter? They do where every label is known."""
        return self.source.labelled and self.source.block(0, 1).weights.size > 0

    @property
    def shape(self) -> Shape:
        return shape_of(self.model.layout, self.source)

    def blocks(self, size: int | None = None) -> Stretches:
        """The chain cut into blocks: (low, high) of each."""
        return cut(0, self.positions, size or self.shape.block(self.settings))

    def read(self, low: int, high: int) -> Block:
        block = self.source.block(low, high)
        layout = self.model.layout
        if self._found is None:  # else it has been looked at
            check_block(block, low, high, layout.n_labels, layout.n_attributes, self.source.n_edge_attributes)
            extent = Extent.of(block)
        with self._lock:
            self._positions_read += high - low
            self._bytes_read += block.nbytes
            if self._found is None:
                self._extent = self._extent.joined(extent)
                self._overflows = self._sizes.may_overflow(self._extent)
        return block

    @property
    def forbids_states(self) -> bool:
        """Is there an attribute with a weight of -inf?"""
        return self._sizes.forbids_states

    @property
    def most_score(self) -> float:
        """The size of what a position can add to the logarithm of a sum of scores times values."""
        sizes, extent = self._sizes, self._extent
        values = max(extent.value, extent.edge_value, 1.0)
        return sizes.states(extent) + sizes.edges(extent) + math.log(self.positions * sizes.n_labels * values)

    def may_overflow(self, block: Block) -> bool:
        """Are weights, and the values of a block that was read, so large that a score could be?"""
        return self._overflows and self._sizes.may_overflow(Extent.of(block))

    def put_back(self, block: Block) -> None:
        """Say that positions were read but not used; they will be read again."""
        with self._lock:
            self._positions_read -= block.labels.size
            self._bytes_read -= block.nbytes

    def find_rows(self, low: int, block: Block, room: Found | None) -> tuple[Found, Found | None]:
        """The rows of a block's attributes, and the room in which they are, unless they are known."""
        if self._found is None:
            room = room_for(block, room)
            return self.model.layout.find_rows(block, room), room
        begin, turn, row, value = self._found
        high = low + block.labels.size
        return Found(begin[low : high + 1], turn[low:high], row, value), room

    def before(self, low: int) -> Before:
        """The position before `low`; before the chain there is none, and it weighs nothing."""
        if low == 0:
            return NOTHING_BEFORE
        block = self.source.block(low - 1, low)
        return Before(int(block.labels[0]), float(block.weights[0]) if block.weights.size else 1.0)

    def mask(self, low: int, block: Block, scores: Floats) -> None:
        """Give -inf to the labels that may not start a sequence where one starts, or end one where one ends."""
        for mask, places in self._masks(low, block):
            scores[np.ix_(places, np.flatnonzero(~mask))] = -np.inf

    def masked_label(self, low: int, block: Block) -> int:
        """The first position of the block whose label starts or ends a sequence and may not; -1 if there is none."""
        wrong = [places[~mask[block.labels[places]]] for mask, places in self._masks(low, block)]
        first = int(np.concatenate(wrong).min(initial=block.labels.size))
        return first if first < block.labels.size else -1

    def _masks(self, low: int, block: Block) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.int64]]]:
        """Each mask with the places in the block to which it applies."""
        if self.model.first is not None:
            yield self.model.first, np.flatnonzero(block.starts)
        if self.model.last is not None:
            high = low + block.labels.size
            ends = high == self.positions or bool(self.source.block(high, high + 1).starts[0])
            yield self.model.last, np.flatnonzero(np.append(block.starts[1:], ends))

    def release(self) -> None:
        """Give back the room that the weights take."""
        self.room.give(self.packed)

    def state(self) -> State:
        """What was read."""
        return {
            "positions": np.array([self._positions_read]),
            "bytes": np.array([self._bytes_read]),
            "extent": self._extent.state(),
        }

    def restore(self, state: State) -> None:
        given = Arrays(state)
        (self._positions_read,), (self._bytes_read,) = given.counts("positions", MOST), given.counts("bytes", MOST)
        self._extent = Extent.restored(given.take("extent", np.float64, len(Extent._fields)))
        given.check_empty()
        self._overflows = self._sizes.may_overflow(self._extent)

    def report(self, tally: Tally, promise: Promise, **what_happened: int | float) -> Report:
        """The report of a run, with what was read and what it can promise filled in."""
        terms = promise.terms + tally.expected.terms(self.positions)
        promise, tolerance = promise._replace(terms=terms), self.settings.tolerance
        bounds = error_bounds(self._sizes, self._extent, self.positions, tally.log_z, promise, tolerance)
        return Report(
            passes=self._positions_read / self.positions,
            bytes_read=self._bytes_read,
            error_bound=bounds[0],
            log_z_error_bound=bounds[1],
            **what_happened,  # type: ignore[arg-type]
        )


def shape_of(layout: Layout, source: Source) -> Shape:
    return Shape(source.positions, layout.n_labels, layout.size, source.active, source.n_edge_attributes)


class Stretches:
    """(low, high) of each stretch of positions. None is stored: how many there are may be what a forged file says."""

    def __init__(self, low: int, high: int, size: int) -> None:
        self._begins, self._high, self._size = range(low, high, size), high, size

    def __len__(self) -> int:
        return len(self._begins)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return self._stretches(self._begins)

    def __reversed__(self) -> Iterator[tuple[int, int]]:
        return self._stretches(reversed(self._begins))

    def _stretches(self, begins: Iterable[int]) -> Iterator[tuple[int, int]]:
        return ((begin, min(begin + self._size, self._high)) for begin in begins)


def cut(low: int, high: int, size: int) -> Stretches:
    """The positions low … high-1 in stretches of `size`, the last one shorter."""
    return Stretches(low, high, size)
