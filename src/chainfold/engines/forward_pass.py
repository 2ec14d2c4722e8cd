"""Forward over scored positions: in doubles where they have the range, in wide numbers where they have not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import frozen
from chainfold.core import EDGE_RANGE, exponentiate_edges, forward, forward_wide
from chainfold.core.faults import OK, check, check_memory
from chainfold.core.slots import Lattice
from chainfold.engines.belief import Belief
from chainfold.engines.transitions import Transitions
from chainfold.model.layout import Floats

_NO_WEIGHTS = frozen(None, np.float64)


class Passed(NamedTuple):
    """A block after the forward pass."""

    alpha: Floats  # [B, width], wide: [B, 2 · width]
    predicted: Floats  # the same
    edge: Floats  # [B or 1, N · width]  E_t, wide: e_t
    shift: Floats  # [B or 1]  what was taken out of e_t; zero where numbers are wide
    entry: Belief  # the forward vector before the block, wide where the others are
    exit: Belief  # the forward vector of its last position
    log_scale: tuple[float, ...]  # a sum: the block's share of log Z, each sequence times its weight

    @property
    def wide(self) -> bool:
        return self.entry.wide


def forward_pass(
    transitions: Transitions,
    low: int,
    starts: NDArray[np.bool_],
    states: Floats,
    edges: Floats | None,
    entry: Belief,
    score_again: Callable[[], None],
    *,
    predicted: Floats | None = None,
    shift: Floats | None = None,
    weights: Floats = _NO_WEIGHTS,
    watch: bool = False,
    wide: bool = False,
) -> Passed:
    """Forward over the block that begins at position `low`: in doubles where they have the range, else in wide numbers.

    states       [B, width]  the state scores, which the forward vectors replace
    edges        [B, N · width]  the edge scores, likewise, or None where all positions share one matrix
    entry        the forward vector before the block
    score_again  computes states and edges once more, in place
    predicted, shift   arrays for the results, [B, width] and [B]
    weights      [B] of the positions' sequences, or empty
    watch        forward vectors of all labels matter, however improbable they are
    wide         use wide numbers
    """
    p = transitions
    real = None if wide or (p.only_wide and edges is None) else entry.real()
    if real is not None:
        ahead = np.empty_like(states) if predicted is None else predicted
        moved = np.empty(starts.size) if shift is None and edges is not None else shift
        passed = _in_doubles(p, starts, states, edges, Belief(real), ahead, moved, weights, watch)
        if passed is not None:
            return passed
        score_again()
    return _in_wide_numbers(p, low, starts, states, p.scores if edges is None else edges, entry, weights)


def _in_doubles(
    p: Transitions,
    starts: NDArray[np.bool_],
    states: Floats,
    edges: Floats | None,
    entry: Belief,
    predicted: Floats,
    shift: Floats | None,
    weights: Floats,
    watch: bool,
) -> Passed | None:
    """None where doubles do not have the range."""
    edge, moved = p.edge, p.shift
    if edges is not None and shift is not None:
        edge, moved = edges, shift
        if not exponentiate_edges(edge, moved) <= EDGE_RANGE:
            return None
    log_scale, before = [], entry.values
    for rows, weight in _rows_by_weight(weights, starts.size):
        own = slice(None) if edges is None else rows
        arrays = starts[rows], states[rows], predicted[rows], edge[own], moved[own]
        status, scale = forward(*arrays, before, p.n_labels, watch or p.watch or edges is not None)
        check_memory(status)
        if status != OK:
            return None
        log_scale += [weight * part for part in scale]
        before = states[rows.stop - 1]
    leaving, _ = Belief(states[-1]).normalised()
    return Passed(states, predicted, edge, moved, entry, leaving, tuple(log_scale))


def _in_wide_numbers(
    p: Transitions,
    low: int,
    starts: NDArray[np.bool_],
    states: Floats,
    edge: Floats,
    entry: Belief,
    weights: Floats,
) -> Passed:
    widened = Belief(entry.widened(), wide=True)
    alpha, predicted = np.empty((2, starts.size, 2 * p.width))
    log_scale, before = [], widened.values
    for rows, weight in _rows_by_weight(weights, starts.size):
        own = slice(None) if edge is p.scores else rows
        status, scale, fault = forward_wide(
            starts[rows], states[rows], edge[own], before, p.n_labels, alpha[rows], predicted[rows]
        )
        check(status, low + rows.start + fault)
        log_scale += [weight * part for part in scale]
        before = alpha[rows.stop - 1]
    leaving, _ = Belief(alpha[-1], wide=True).normalised()
    return Passed(alpha, predicted, edge, np.zeros(1), widened, leaving, tuple(log_scale))


def _rows_by_weight(weights: Floats, size: int) -> list[tuple[slice, float]]:
    """The rows of one weight after another; a new weight comes with a new sequence."""
    if not weights.size:
        return [(slice(0, size), 1.0)]
    borders = [0, *(np.flatnonzero(weights[1:] != weights[:-1]) + 1).tolist(), size]
    return [(slice(low, high), float(weights[low])) for low, high in pairwise(borders)]


def lattice_of(
    starts: NDArray[np.bool_],
    labels: NDArray[np.int32],
    alpha: Floats,
    predicted: Floats,
    edge: Floats,
    entry: Belief,
    weights: Floats = _NO_WEIGHTS,
) -> Lattice:
    """Positions after the forward pass, as kernels take them."""
    n_labels = edge.shape[1] // entry.parts.size
    return Lattice(starts, alpha, predicted, edge, entry.values, labels, weights, entry.wide, n_labels)
