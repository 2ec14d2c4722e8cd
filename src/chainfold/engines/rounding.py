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

from chainfold.data.chain import Block
from chainfold.errors import ScoreNotFinite
from chainfold.kernels.scores import Slots, edge_scores, state_scores
from chainfold.model import Floats, Layout

UNIT = 2.0**-53
"""u, the relative error of one rounding."""

_MOST_SCORE = 1e300  # a sum that stays below it does not overflow on the way
_LEAST_EXPONENT = 750.0  # a double has underflowed at e^-750
_WIDE_ROUNDINGS = 5e-6  # of e^x as a wide number, for each unit of x
_LOCAL = 8  # roundings of a step beside sums and scores: of exponentials, products and quotients
_NORMALISED = 32  # positions after which a posterior is made to add up to one


class Extent(NamedTuple):
    """The most that a position has: attributes, and size of a value. None: all values are one."""

    attributes: int = 0
    value: float | None = None
    edge_attributes: int = 0
    edge_value: float | None = None

    @classmethod
    def of(cls, block: Block) -> Extent:
        state = _extent(block.offsets, block.values)
        edge = _extent(block.edge_offsets, block.edge_values) if block.edge_offsets.size else (0, None)
        return cls(*state, *edge)

    def joined(self, other: Extent) -> Extent:
        """Of two blocks together."""
        return Extent(
            max(self.attributes, other.attributes),
            _larger(self.value, other.value),
            max(self.edge_attributes, other.edge_attributes),
            _larger(self.edge_value, other.edge_value),
        )

    def state(self) -> Floats:
        return np.array([np.nan if number is None else number for number in self])

    @classmethod
    def restored(cls, state: Floats) -> Extent:
        attributes, value, edge_attributes, edge_value = (None if np.isnan(x) else x for x in state.tolist())
        return cls(int(attributes or 0), value, int(edge_attributes or 0), edge_value)


def _extent(offsets: NDArray[np.int64], values: Floats) -> tuple[int, float | None]:
    attributes = int(np.diff(offsets).max(initial=0))
    own = values[offsets[0] : offsets[-1]] if values.size else values
    return attributes, max(float(own.max()), -float(own.min())) if own.size else None


def _larger(a: float | None, b: float | None) -> float | None:
    return a if b is None else b if a is None else max(a, b)


def _largest(weights: Floats) -> tuple[float, bool]:
    """The size of the largest finite weight, 0 if there is none; are there weights of -inf?"""
    low = float(weights.min(initial=0.0))
    forbidding = low == -np.inf
    if forbidding:
        low = float(weights.min(initial=0.0, where=weights > -np.inf))
    return max(float(weights.max(initial=0.0)), -low), forbidding


class ScoreSizes:
    """The finite weights of a model, by their size."""

    def __init__(self, layout: Layout, weights: Floats) -> None:
        state, transition, edge = np.split(weights, [layout.n_state, layout.n_state + layout.n_labels**2])
        self.n_labels = layout.n_labels
        self.state, self.forbids_states = _largest(state)
        self.transition, forbids_transitions = _largest(transition)
        self.edge, _ = _largest(edge)
        self.all_allowed = not forbids_transitions
        self.range = float(transition.max()) - float(transition.min())  # R, where all are allowed

    def states(self, extent: Extent) -> float:
        """Σ |x| |w| at most, of a state score."""
        return extent.attributes * (1.0 if extent.value is None else extent.value) * self.state

    def edges(self, extent: Extent) -> float:
        """The same of an edge score."""
        value = 1.0 if extent.edge_value is None else extent.edge_value
        return self.transition + extent.edge_attributes * value * self.edge

    def may_overflow(self, extent: Extent) -> bool:
        return not max(self.states(extent), self.edges(extent)) < _MOST_SCORE

    def roundings(self, extent: Extent) -> float:
        """ρ: the roundings that a component of a forward vector gains in one step."""
        state, edge = self.states(extent), self.edges(extent)
        state_terms = max(extent.attributes - (extent.value is None), 0)
        edge_terms = extent.edge_attributes + (extent.edge_value is not None)
        scores = state_terms * state + edge_terms * edge + _WIDE_ROUNDINGS * (state + edge)
        scores += min(2.0 * state, _LEAST_EXPONENT) + min(2.0 * edge, _LEAST_EXPONENT)
        return self.n_labels + _LOCAL + scores

    def memory(self, span: float, extent: Extent) -> float:
        """The steps whose rounding adds up, if the chain is known to forget after `span` positions."""
        if extent.edge_attributes or not self.all_allowed:
            return span
        return min(span, (1.0 + math.exp(min(self.range, 700.0))) / 2.0)


def check_scores(layout: Layout, weights: Slots, low: int, block: Block) -> None:
    """Raise where the finite part of a score overflows: it would look like a label that is forbidden.

    low   the position of the block
    """
    finite = Slots(*(np.where(part > -np.inf, part, 0.0) for part in weights))
    states = np.empty((block.labels.size, layout.width))
    state_scores(layout.find_rows(block), layout.rows, finite, layout.blank, states)
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
    tolerance: float = 0.0  # that certificates leave in a posterior
    log_z: float = 0.0  # and in log Z
    logs: float = 0.0  # the largest logarithm whose rounding is that of a number; the engines of the paper have such


def error_bounds(
    sizes: ScoreSizes, extent: Extent, positions: int, log_z: float, promise: Promise
) -> tuple[float, float]:
    """(relative error of every posterior, hence of counts of one sign; absolute error of log Z)."""
    roundings = sizes.roundings(extent) + promise.logs
    memory = promise.span if promise.logs else sizes.memory(promise.span, extent)
    spread = 2.0 * (2.0 * roundings + 4.0) * UNIT * memory
    sums = (_NORMALISED * (sizes.n_labels + _LOCAL) + promise.terms) * UNIT
    relative = math.expm1(min(spread, 700.0)) + promise.tolerance + sums
    steps = positions * (roundings + sizes.transition) + 4.0 * abs(log_z)
    return relative, steps * UNIT + promise.log_z
