"""How large scores can be, whether they overflow, and what an evaluation can promise in spite of rounding.

All numbers that are added are positive, so rounding acts as a factor near one on each of them. Let the *spread* of a
computed vector be the logarithm of the quotient of its largest and its smallest such factor, up to a common one that
cancels. One step forward or back adds at most 2ρu to it, u = 2^-53, where ρ counts the roundings of one component:

    N for the sum over labels, the roundings of exp and of products, those of the state score and of the edge score

and does not enlarge what is there: a mean of factors lies between them. Where all transitions are allowed and their
scores span R, a step shrinks the spread by tanh(R / 2) (Birkhoff), and it never exceeds 2ρu (1 + e^R) / 2. Otherwise it
grows until the chain is known to have forgotten: from one certified boundary to the next, or over a whole sequence.
docs/theory.md has the proof.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block
from chainfold.core import edge_scores, state_scores
from chainfold.core.slots import BlockRows, Slots
from chainfold.errors import ScoreNotFinite
from chainfold.model.layout import Floats, Layout

UNIT = 2.0**-53
"""u, the relative error of one rounding."""

_MOST_SCORE = 1e300  # a sum that stays below it does not overflow on the way
_LEAST_EXPONENT = 750.0  # a double has underflowed at e^-750
_WIDE_ROUNDINGS = 5e-6  # of e^x as a wide number, for each unit of x
_MOST_SPLIT = 1e11  # of x; above it, e^x is known no better than to the last digit of x
_LOCAL = 8  # roundings of a step beside sums and scores: of exponentials, products and quotients
_NORMALISED = 32  # positions after which a posterior is made to add up to one


class Extent(NamedTuple):
    """The most that a position has: attributes, size of a value, weight; are there values other than one?"""

    attributes: int = 0
    value: float = 0.0
    valued: bool = False
    edge_attributes: int = 0
    edge_value: float = 0.0
    edge_valued: bool = False
    weight: float = 0.0

    @classmethod
    def of(cls, block: Block) -> Extent:
        weight = float(block.weights.max()) if block.weights.size else 1.0
        return cls(*_extent(block.offsets, block.values), *_extent(block.edge_offsets, block.edge_values), weight)

    def joined(self, other: Extent) -> Extent:
        """Of two blocks together."""
        return Extent(*(max(mine, theirs) for mine, theirs in zip(self, other, strict=True)))  # type: ignore[arg-type]


def _extent(offsets: NDArray[np.int64], values: Floats) -> tuple[int, float, bool]:
    if not offsets.size:
        return 0, 0.0, False
    attributes, own = int((offsets[1:] - offsets[:-1]).max(initial=0)), values[offsets[0] : offsets[-1]]
    if not own.size:
        return attributes, float(attributes > 0), False
    return attributes, max(float(own.max()), -float(own.min())), True


class _Ends(NamedTuple):
    """The least and the greatest of some weights, -inf left out; is it there?"""

    low: float
    high: float
    forbidding: bool

    @classmethod
    def of(cls, weights: Floats) -> _Ends:
        if not weights.size:
            return cls(0.0, 0.0, False)
        low, high = float(weights.min()), float(weights.max())
        if low > -np.inf:
            return cls(low, high, False)
        finite = weights[weights > -np.inf]
        return cls(float(finite.min(initial=0.0)), float(finite.max(initial=0.0)), True)

    @property
    def size(self) -> float:
        return max(self.high, -self.low)


class ScoreSizes:
    """The finite weights of a model, by their size."""

    def __init__(self, layout: Layout, weights: Floats) -> None:
        begin, end = layout.n_state, layout.n_state + layout.n_labels**2
        state, transition, edge = (_Ends.of(part) for part in (weights[:begin], weights[begin:end], weights[end:]))
        self.n_labels = layout.n_labels
        self.state, self.transition, self.edge = state.size, transition.size, edge.size
        self.forbids_states, self.all_allowed = state.forbidding, not transition.forbidding
        self.range = transition.high - transition.low  # R

    def states(self, extent: Extent) -> float:
        """Σ |x| |w| at most, of a state score."""
        return extent.attributes * extent.value * self.state

    def edges(self, extent: Extent) -> float:
        """The same of an edge score."""
        return self.transition + extent.edge_attributes * extent.edge_value * self.edge

    @property
    def most_summed(self) -> float:
        """Attributes times the size of a value that a position may have before `may_overflow`; without edges."""
        if not self.transition < _MOST_SCORE:
            return 0.0
        return _MOST_SCORE / self.state if self.state > 0.0 else math.inf

    def may_overflow(self, extent: Extent) -> bool:
        return not max(self.states(extent), self.edges(extent)) < _MOST_SCORE

    def roundings(self, extent: Extent) -> float:
        """ρ: the roundings that a component of a forward vector gains in one step."""
        state, edge = self.states(extent), self.edges(extent)
        state_terms = max(extent.attributes - 1 + extent.valued, 0)
        edge_terms = extent.edge_attributes + extent.edge_valued
        scores = state_terms * state + edge_terms * edge
        scores += (_WIDE_ROUNDINGS if state + edge < _MOST_SPLIT else 2.0) * (state + edge)
        scores += min(2.0 * state, _LEAST_EXPONENT) + min(2.0 * edge, _LEAST_EXPONENT)
        return self.n_labels + _LOCAL + scores

    def memory(self, span: float, extent: Extent) -> float:
        """The steps whose rounding adds up, if the chain is known to forget after `span` positions."""
        if extent.edge_attributes or not self.all_allowed:
            return span
        return min(span, (1.0 + math.exp(min(self.range, 700.0))) / 2.0)


def check_scores(layout: Layout, weights: Slots, low: int, block: Block, block_rows: BlockRows) -> None:
    """Raise where the finite part of a score overflows: it would look like a label that is forbidden.

    low          the position of the block
    block_rows   those of its attributes
    """
    finite = Slots(*(np.where(part > -np.inf, part, 0.0) for part in weights))
    states = np.empty((block.labels.size, layout.width))
    state_scores(block_rows, layout.rows, finite, layout.blank, states)
    wrong = ~np.isfinite(states[:, : layout.n_labels]).all(axis=1)
    if block.edge_offsets.size:
        edges = np.empty((block.labels.size, finite.transition.size))
        edge_scores(block, finite, edges)
        wrong |= ~np.isfinite(edges).all(axis=1)
    if wrong.any():
        raise ScoreNotFinite(low + int(np.argmax(wrong)))


class Runs:
    """The longest sequence of a chain that comes in blocks."""

    def __init__(self) -> None:
        self.longest = self._open = 0

    def add(self, starts: NDArray[np.bool_]) -> None:
        marks = np.flatnonzero(starts)
        ends = np.append(marks, starts.size)
        lengths = np.diff(ends, prepend=0)
        lengths[0] += self._open
        self.longest, self._open = max(self.longest, int(lengths.max())), int(lengths[-1])


class Promise(NamedTuple):
    """What an engine did that bears on its error."""

    span: float  # positions after which errors are known to be forgotten: those of a sequence, or between certificates
    terms: float  # that are added one after another into one count, in the longest portion and of portions
    certificates: int = 0  # whose tolerance is in one posterior
    cuts: int = 0  # whose tolerance is in log Z
    logs: float = 0.0  # the largest logarithm whose rounding is that of a number; the engines of the paper have such


def error_bounds(
    sizes: ScoreSizes, extent: Extent, positions: int, log_z: float, promise: Promise, tolerance: float
) -> tuple[float, float]:
    """(relative error of every posterior, hence of counts of one sign; absolute error of log Z)."""
    n, roundings = sizes.n_labels, sizes.roundings(extent) + promise.logs
    memory = promise.span if promise.logs else sizes.memory(promise.span, extent)
    spread = 2.0 * (2.0 * roundings + n + 5.0) * UNIT * memory
    sums = (_NORMALISED * (n + _LOCAL) + promise.terms) * UNIT
    relative = math.expm1(min(spread + sums + promise.certificates * math.log1p(tolerance), 700.0))
    steps = extent.weight * positions * (roundings + 2.0 * n + sizes.transition) + 4.0 * abs(log_z)
    return relative, steps * UNIT + extent.weight * promise.cuts * (tolerance + spread)
