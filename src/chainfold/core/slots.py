"""Weights in slots: the padded form that the core reads, and its shapes. Plain NumPy.

Rows of labels are padded to `width`, a multiple of the vector width; see `scores.hpp` for their use.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WIDTH = 8
"""Doubles in a vector; rows of labels are padded to a multiple of it, those of up to four labels to half of it."""

MOST_VECTORS = 8
"""Vectors in a tile at most: two rows of sums and what they are made of must find room in the registers."""

LINE = 64
"""Bytes in a line of the cache; a vector that lies across two of them takes two loads."""


def aligned(*shape: int) -> NDArray[np.float64]:
    """Zeros whose first number begins a line of the cache."""
    size = math.prod(shape)
    memory = np.zeros(size + LINE // 8)
    skip = -memory.ctypes.data % LINE // 8
    return memory[skip : skip + size].reshape(shape)


class RowLayout(NamedTuple):
    """The layout of the state weights that kernels see; `Slots` has the numbers."""

    dense: int  # attributes 0 … dense-1 have padded rows
    begin: NDArray[np.int64]  # [V - dense + 1]  where the entries of each later attribute begin
    label: NDArray[np.uint16]  # [entries]  their labels, ascending in each row
    width: int  # of a padded row


class Slots(NamedTuple):
    """One number for each weight, padding included: the weights themselves, or counts of the same shape."""

    dense: NDArray[np.float64]  # [dense · width]
    sparse: NDArray[np.float64]  # [entries]
    transition: NDArray[np.float64]  # [N · width]
    edge: NDArray[np.float64]  # [K · N · width]
    hot: NDArray[np.float64] = np.empty(0)  # of counts: what the first of the dense ones had before, a second level


class BlockRows(NamedTuple):
    """The rows of a block's state attributes, without those of value zero."""

    begin: NDArray[np.int64]  # [B + 1]
    turn: NDArray[np.int64]  # [B]  where, at each position, the entries of short rows begin
    row: NDArray[np.uint32]  # attributes with padded rows, then entries of short ones
    value: NDArray[np.float64]  # of each, or empty: all ones


class Lattice(NamedTuple):
    """A block after the forward pass."""

    starts: NDArray[np.bool_]  # [B]
    alpha: NDArray[np.float64]  # [B, width], wide: [B, 2 · width]
    predicted: NDArray[np.float64]  # the same
    edge: NDArray[np.float64]  # [B or 1, N · width]  E_t, wide: e_t
    entry: NDArray[np.float64]  # [width], wide: [2 · width]  α of the position before the block
    labels: NDArray[np.int32]  # [B]
    weights: NDArray[np.float64]  # [B]  the weight of each position's sequence, or empty: all ones
    wide: bool  # whether alpha, predicted and entry are wide numbers
    n_labels: int


class Emissions(NamedTuple):
    """Dense scores of a batch of sequences."""

    scores: NDArray[np.float32] | NDArray[np.float64]  # [R, N]
    start: NDArray[np.float64]  # [N]
    end: NDArray[np.float64]  # [N]
    allowed: NDArray[np.bool_]  # [R, N], or no rows: all labels
    rows: NDArray[np.int64]  # [P]  the row of each position
    starts: NDArray[np.bool_]  # [P]


class Moves(NamedTuple):
    """Transitions that all positions share, as steps take them."""

    edge: NDArray[np.float64]  # [1, N · width]  E
    edge_t: NDArray[np.float64]  # [N, width]  E transposed
    shift: NDArray[np.float64]  # [1]
    watch: bool  # forward vectors may leave the range of a double


class FeatureIndex(NamedTuple):
    """The weights in their own order: state rows, transitions, edge attributes."""

    begin: NDArray[np.int64]  # [V + 1]  the weights of attribute a are begin[a] … begin[a+1]-1
    label: NDArray[np.int32]  # [state weights]
    n_labels: int


def is_few(n_labels: int) -> bool:
    """Whether a row of labels is half a vector."""
    return n_labels <= WIDTH // 2


def padded(n_labels: int) -> int:
    """The width of a row of labels: half a vector, or vectors that make up tiles of one size (`shapes.hpp`)."""
    if is_few(n_labels):
        return WIDTH // 2
    vectors = -(-n_labels // WIDTH)
    if vectors > MOST_VECTORS:
        vectors = min(vectors + -vectors % tile for tile in range(MOST_VECTORS, MOST_VECTORS // 2, -1))
    return WIDTH * vectors
