"""One block of the lattice: forward over it, back over it.

All production engines are made of these two movements and differ in what they keep in between. A sweep holds the
forward vectors and predictions of its block, in real numbers where they have the range and in wide ones where they have
not (`kernels.wide`); whoever calls it need not know which.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block
from chainfold.engines.problem import NOTHING_BEFORE, Problem, Tally
from chainfold.engines.rounding import check_scores
from chainfold.errors import ScoreNotFinite, ZeroProbability
from chainfold.kernels import messages
from chainfold.kernels.certificate import NEGLIGIBLE, look_ahead
from chainfold.kernels.scores import Found, Slots, edge_scores, state_scores
from chainfold.kernels.simd import aligned
from chainfold.kernels.wide import LN2_HIGH, LN2_LOW
from chainfold.model.layout import Floats, Layout

_ROOM, _LEAST_ROOM = 256 << 10, 512  # for whole sequences: bytes, a share of the cache, but so many positions at least
_MOST, _MOST_PLACES = 16384, 16 << 20  # positions that are looked through for whole sequences, bytes of their rows
_LEAST_LOG = -300.0  # of what an observed label is worth; below it, real numbers may not have the range


class Belief(NamedTuple):
    """A forward vector that sums to one: what a block hands to the next."""

    values: Floats  # [width], wide: [2 · width]
    wide: bool = False

    def normalised(self) -> tuple[Belief, float]:
        """Any vector as one that sums to one, and the logarithm of its sum; -inf if all of it is zero."""
        values, top = self.values.copy(), 0.0
        if self.wide:
            powers = values.reshape(2, -1)[1]
            top = max(float(powers.max()), -sys.float_info.max)
            powers -= top
        same = Belief(values, self.wide)
        total = float(same.doubles().sum())
        if total > 0.0:
            same.parts[:] /= total
        return same, top * math.log(2.0) + math.log(total) if total > 0.0 else -math.inf

    @property
    def parts(self) -> Floats:
        """[width], zero where the label has no probability: the numbers, of wide ones the m."""
        return self.values.reshape(2, -1)[0] if self.wide else self.values

    def doubles(self) -> Floats:
        """In real numbers, those that are too small for them zero."""
        if not self.wide:
            return self.values
        m, k = self.values.reshape(2, -1)
        return np.ldexp(m, np.maximum(k, -2000.0).astype(np.int64))

    def real(self) -> Floats | None:
        """In real numbers, or None where they do not have the range."""
        values = self.doubles()
        return values if not self.wide or (values[self.possible()] >= messages.LEAST_ALPHA).all() else None

    def widened(self) -> Floats:
        """In wide numbers."""
        return self.values if self.wide else widened(self.values)

    def logs(self) -> Floats:
        m, k = self.widened().reshape(2, -1)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(m) + k * np.log(2.0))

    def possible(self) -> NDArray[np.bool_]:
        """Which labels have a probability above zero, however small."""
        return np.asarray(self.parts > 0.0)

    def posterior(self, weight: float = 1.0) -> Floats:
        """The posterior of the position where nothing follows, its forward vector; times its weight."""
        values = self.doubles()
        return np.asarray(weight * (values / values.sum()))


def widened(values: Floats, shift: Floats | float = 0.0) -> Floats:
    """Real numbers, times e^shift, as wide ones, in rows twice as long."""
    power = np.rint(np.divide(shift, math.log(2.0)))
    m, k = np.frexp(values * np.exp((shift - power * LN2_HIGH) - power * LN2_LOW))
    return np.concatenate([m, np.where(m > 0.0, k + power, -np.inf)], axis=-1)


def last_posterior(problem: Problem, high: int, belief: Belief, tally: Tally) -> Floats:
    """The posterior of a sequence's last position, high-1; times its weight, where there are any, its label counted."""
    if not problem.weighted:
        return belief.posterior()
    last = problem.before(high)
    if last.weight > 0.0:
        tally.scale((), last.weight * float(belief.logs()[last.label]))
    return belief.posterior(last.weight)


class Flow(NamedTuple):
    """What the weights of a block's positions do on the way back; see `kernels.messages`. Empty: there are none."""

    change: Floats  # [B]  w_t - w_{t-1}, at a start mark w_{t-1}
    totals: Floats  # [B]  w_{t-1}


NO_FLOW = Flow(np.empty(0), np.empty(0))


class Potentials:
    """exp of the transition scores, and how carefully the forward vectors must be watched."""

    def __init__(self, layout: Layout, weights: Slots, has_edges: bool = False, masked: bool = False) -> None:
        self.n_labels, self.width, self.tiles = layout.n_labels, layout.width, layout.rows.tiles
        self.scores = weights.transition.reshape(1, -1)  # [1, N · width]  V
        self.edge = aligned(*self.scores.shape)  # [1, N · width]  E = exp(V - shift)
        self.edge[:] = self.scores
        self.shift = np.zeros(1)
        widest = messages.exponentiate_edges(self.edge, self.shift)
        square = slice(None), slice(self.n_labels)
        self.edge_t = aligned(self.n_labels, self.width)  # [N, width]  E transposed
        self.edge_t[square] = self.edge.reshape(self.n_labels, self.width)[square].T
        all_allowed = bool((self.scores.reshape(self.n_labels, self.width)[square] > -np.inf).all())
        self.only_wide = bool(widest > messages.EDGE_RANGE) and not has_edges
        self.watch = has_edges or masked or not all_allowed

    @classmethod
    def of(cls, problem: Problem) -> Potentials:
        return cls(problem.model.layout, problem.weights, problem.has_edges, problem.masked)


class Horizon:
    """How far the certificate of one boundary has been taken; see `kernels.collapse`."""

    def __init__(self, width: int, ignore: Floats | None = None) -> None:
        self.blocks = 0  # blocks looked at
        self.positions = 0
        self.certified = False
        self.q = np.eye(width)  # [width, width]  Pr(boundary label | label at the horizon)
        self.gamma = np.zeros(width)  # the posterior of the boundary, once certified
        self.last = 0  # positions looked at in the last of the blocks
        self.ignore = np.full(width, NEGLIGIBLE) if ignore is None else ignore
        self.scratch = np.zeros((2, width, width))

    def mixed(self, belief: Belief) -> Floats:
        """The posterior of the boundary if the sequence ends here; belief: the forward vector of the last position."""
        gamma = (self.q * belief.posterior()).sum(axis=1)
        return np.asarray(gamma / gamma.sum())


class Sweep:
    """Forward and back over one block; the buffers are kept from one block to the next."""

    def __init__(self, problem: Problem, potentials: Potentials) -> None:
        self._problem, self._potentials = problem, potentials
        self._rows = 0  # positions for which there is room
        self._lent: list[Floats] = []  # alpha, predicted, edge, shift
        self._found: Found | None = None
        self._places: Found | None = None  # the room in which they are

    @property
    def width(self) -> int:
        return self._potentials.width

    def forward(self, low: int, block: Block, entry: Belief | None, masked: bool = True) -> Belief:
        """Forward vectors of the block that begins at position `low`, from the one before it.

        Labels that may not start or end a sequence are kept from it where one does, unless told not to.
        """
        self._masked = masked and self._problem.masked
        self._begin(low, block, entry)
        real = self.entry.real()
        if real is None or not self._forward_real(real) or not self._weigh():
            self._forward_wide()
            self._weigh()
        return self.exit

    def backward(self, gamma: Floats, counts: Slots, keep: bool = False, flow: Flow | None = None) -> Floats:
        """Add the block's expected counts, given the posterior of its last position.

        Returns the posterior of the position before the block. Unless told to keep them, it uses up the predictions.
        Where positions have weights it is the flow that goes in and comes out, and `flow` takes the place of theirs.
        """
        p = self._potentials
        gamma, given = aligned(p.width), gamma
        gamma[:] = given
        lattice = self._lattice()
        if keep:
            lattice = lattice._replace(predicted=self.predicted.copy())
        if flow is not None:
            lattice = lattice._replace(change=flow.change, totals=flow.totals)
        rows = self._problem.model.layout.rows
        if self.wide or self._problem.has_edges:
            scratch = np.empty((2, p.n_labels, p.width))
            messages.backward_general(self.block, self._found, lattice, gamma, rows, scratch, counts)
        else:
            pairs = aligned(p.width, p.width)
            messages.backward(self._found, lattice, p.edge_t, gamma, rows, pairs, counts)
            counts.transition[:] += p.edge[0] * pairs[: p.n_labels].ravel()
        if self._problem.weighted:
            return gamma
        total = gamma.sum()
        return gamma / total if total > 0.0 else gamma

    def flow_back(self, gamma: Floats, size: int) -> None:
        """The flow of position size-1 of the block becomes that of the position before it."""
        p = self._potentials
        messages.flow_back(self._lattice(), size, gamma, np.empty((p.n_labels, p.width)))

    def head(self, size: int) -> tuple[Belief, float]:
        """The forward vector and the weight of position size-1, of the one before the block if that is none."""
        if size:
            return Belief(self.alpha[size - 1], self.wide), float(self.block.weights[size - 1])
        return self.entry, self.before.weight

    def own_flow(self) -> tuple[Flow, Flow]:
        """What the weights in the block ask for by themselves, and what a label pinned at its end does.

        Of the weights, what the future would ask of the block is left out: that of its last position. Before the last
        start mark there is none of it, and the pinned label asks for nothing.
        """
        marks = np.flatnonzero(self.block.starts)
        first = int(marks[-1]) + 1 if marks.size else 0
        totals, change = self._flow.totals.copy(), np.zeros(self.size)
        totals[first:] -= self.block.weights[-1]
        pinned = np.zeros(self.size)
        pinned[first:] = 1.0
        return Flow(self._flow.change, totals), Flow(change, pinned)

    def give(self, low: int, block: Block) -> None:
        """The data of the block."""
        self.block = block
        self._found, self._places = self._problem.find_rows(low, block, self._places)

    def release_block(self) -> None:
        """Let go of the data, to be given again before the way back."""
        del self.block
        self._found = self._places = None

    def release(self) -> None:
        """Give back the room; nothing that was in it is needed any more."""
        for array in self._lent:
            self._problem.room.give(array)
        self._rows, self._lent = 0, []

    def restore(self, low: int, block: Block, entry: Belief, alpha: Floats | None) -> None:
        """The state after `forward`, from its forward vectors: transition matrices and predictions are recomputed.

        Without them, where they were wide, the block goes forward once more.
        """
        if alpha is None:
            self.forward(low, block, entry)
            return
        self._begin(low, block, entry)
        p = self._potentials
        self.wide = False
        self.alpha[:] = alpha
        real = self.entry.real()
        assert real is not None, "a block of real numbers was entered by one"
        self._entry = real
        if self._problem.has_edges:
            self._score_edges()
            messages.exponentiate_edges(self._edges(), self._shift)
        messages.predict(block.starts, self.alpha, self._edges(), real, p.n_labels, p.tiles, self.predicted)

    def look_ahead(self, horizon: Horizon) -> None:
        """Carry the certificate of an earlier boundary over this block."""
        tolerance = self._problem.settings.tolerance
        horizon.certified, horizon.last = look_ahead(
            self._lattice(), tolerance, horizon.ignore, horizon.q, horizon.scratch, horizon.gamma
        )
        horizon.blocks += 1
        horizon.positions += horizon.last

    def _begin(self, low: int, block: Block, entry: Belief | None) -> None:
        self.low, self.size = low, block.labels.size
        self.give(low, block)
        self.entry = entry or Belief(np.zeros(self._potentials.width))
        if self._rows < self.size:
            self.release()
            self._rows, width = 1 << (self.size - 1).bit_length(), self._potentials.width  # of few different sizes
            edges = (self._potentials.scores.size, 1) if self._problem.has_edges else (0, 0)
            self._lent = [self._problem.room.take(self._rows * columns) for columns in (width, width, *edges)]
        self.alpha, self.predicted, self._edge = (
            array.reshape(self._rows, -1)[: self.size] for array in self._lent[:3]
        )
        self._shift = self._lent[3][: self.size]
        self._flow, self.before = NO_FLOW, NOTHING_BEFORE  # what is before matters where there are weights
        if self._problem.weighted:
            self.before = NOTHING_BEFORE if entry is None else self._problem.before(low)
            earlier = np.concatenate([[self.before.weight], block.weights[:-1]])
            self._flow = Flow(np.where(block.starts, earlier, block.weights - earlier), earlier)

    def _lattice(self) -> messages.Lattice:
        return messages.Lattice(
            self.block.starts,
            self.alpha,
            self.predicted,
            self._edges(),
            self._entry,
            self.block.labels,
            self.block.weights,
            *self._flow,
            self.wide,
            self._potentials.n_labels,
        )

    def _edges(self) -> Floats:
        """[B or 1, N · width]: E_t, or e_t where the numbers are wide."""
        if self._problem.has_edges:
            return self._edge
        return self._potentials.scores if self.wide else self._potentials.edge

    def _score_edges(self) -> None:
        edge_scores(self.block, self._problem.weights, self._edge)

    def _score_states(self) -> None:
        layout, weights = self._problem.model.layout, self._problem.weights
        if self._problem.may_overflow(self.block):
            check_scores(layout, weights, self.low, self.block)
        state_scores(self._found, layout.rows, weights, layout.blank, self.alpha)
        if self._masked:
            self._problem.mask(self.low, self.block, self.alpha)

    def _forward_real(self, entry: Floats) -> bool:
        """False where the numbers do not have the range."""
        p = self._potentials
        self.wide = False
        if p.only_wide:
            return False
        shift = p.shift
        if self._problem.has_edges:
            shift = self._shift
            self._score_edges()
            if not messages.exponentiate_edges(self._edges(), shift) <= messages.EDGE_RANGE:
                return False
        self._score_states()
        self._entry = entry
        status, self.log_scale = messages.forward(
            self.block.starts, self.alpha, self.predicted, self._edges(), shift, entry, p.n_labels, p.watch, p.tiles
        )
        last = self.alpha[-1]
        self.exit = Belief(last / last.sum()) if status == messages.OK else self.entry
        return bool(status == messages.OK)

    def _weigh(self) -> bool:
        """What the labels up to the block are worth, by their weights; False where real numbers do not have the range.

        The last label's worth is not known before the next block.
        """
        self.likelihood = 0.0
        if not self._problem.weighted:
            return True
        self.likelihood, least = messages.path_likelihood(self._lattice(), *self.before)
        return bool(min(least, self.exit.logs()[self.block.labels[-1]]) > _LEAST_LOG)

    def _forward_wide(self) -> None:
        self.wide = True
        if self._problem.has_edges:
            self._score_edges()
        self._score_states()
        self._entry, scores = self.entry.widened(), self.alpha
        self.alpha, self.predicted = np.empty((2, self.size, 2 * self._potentials.width))
        status, self.log_scale, fault = messages.forward_wide(
            self.block.starts, scores, self._edges(), self._entry, self._potentials.n_labels, self.alpha, self.predicted
        )
        if status == messages.ZERO:
            raise ZeroProbability(self.low + fault)
        if status == messages.NOT_FINITE:
            raise ScoreNotFinite(self.low + fault)
        self.exit, _ = Belief(self.alpha[-1], wide=True).normalised()


def boundary_flow(sweeps: Sequence[Sweep], last: int) -> Floats:
    """The flow of the position before some blocks, as if the sequence ended after `last` positions of the last one."""
    belief, weight = sweeps[-1].head(last)
    gamma = belief.posterior(weight)
    for sweep in reversed(sweeps):
        sweep.flow_back(gamma, last if sweep is sweeps[-1] else sweep.size)
    return gamma


class Sequences:
    """Whole sequences, there and back in one go: all that is between fits into the cache."""

    def __init__(self, problem: Problem, potentials: Potentials) -> None:
        self._problem, self._potentials = problem, potentials
        width = potentials.width
        self.most = self.most_of(problem)
        self.rows = max(_ROOM // (16 * width), _LEAST_ROOM)
        self._entry = aligned(width)
        self._lent: list[Floats] = []
        self._places: Found | None = None

    @staticmethod
    def most_of(problem: Problem) -> int:
        """Positions that are looked through at once."""
        return max(min(_MOST, int(_MOST_PLACES // (8 * problem.source.active + 16))), 2 * _LEAST_ROOM)

    @staticmethod
    def suit(problem: Problem, potentials: Potentials) -> bool:
        """Not where there are edge attributes, masks or weights, a size of block, or less memory than it takes."""
        plain = not (problem.has_edges or problem.masked or problem.weighted or potentials.only_wide)
        memory, shape = problem.settings.memory, problem.shape
        fits = memory is None or Sequences.most_of(problem) * shape.pending_bytes + _ROOM <= memory / 4
        return plain and fits and problem.settings.block is None

    def reach(self, low: int, high: int, closed: bool) -> int:
        """The positions from `low` on, before `high`, of sequences that begin and end there and fit into the room.

        closed   a sequence ends with position high-1, even if no start mark says so
        """
        marks = np.flatnonzero(self._problem.source.block(low, high).starts)
        if closed:
            marks = np.append(marks, high - low)
        if not marks.size or marks[0] > 0:
            return 0
        long = np.flatnonzero(np.diff(marks) > self.rows)
        return int(marks[long[0] if long.size else -1])

    def there_and_back(self, low: int, block: Block, counts: Slots) -> tuple[int, tuple[float, float]]:
        """Add the expected counts of the sequences of a block; returns (positions done, their scale)."""
        p, layout = self._potentials, self._problem.model.layout
        alpha, predicted = self._room()
        lattice = messages.Lattice(
            block.starts,
            alpha,
            predicted,
            p.edge,
            self._entry,
            block.labels,
            block.weights,
            *NO_FLOW,
            False,
            p.n_labels,
        )
        pairs = aligned(p.width, p.width)
        found, self._places = self._problem.find_rows(low, block, self._places)
        done, log_scale = messages.whole_sequences(
            found,
            lattice,
            layout.rows,
            self._problem.weights,
            layout.blank,
            p.edge_t,
            p.shift,
            p.watch,
            aligned(p.width),
            pairs,
            counts,
        )
        counts.transition[:] += p.edge[0] * pairs[: p.n_labels].ravel()
        return done, log_scale

    def _room(self) -> list[Floats]:
        """For the forward vectors and predictions of a few sequences."""
        if not self._lent:
            self._lent = [self._problem.room.take(self.rows * self._potentials.width) for _ in range(2)]
        return [array.reshape(self.rows, -1) for array in self._lent]

    def release(self) -> None:
        """Give back the room."""
        for array in self._lent:
            self._problem.room.give(array)
        self._lent = []
