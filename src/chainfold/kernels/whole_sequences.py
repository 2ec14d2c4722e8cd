"""Whole sequences, forward and back a few at a time, so that what is between stays in the cache."""

from __future__ import annotations

from typing import Any

from numba.extending import overload

from chainfold.core.faults import OK
from chainfold.core.slots import Lattice
from chainfold.jit.decorator import CONTRACT, STRICT, kernel
from chainfold.kernels.backward import backward
from chainfold.kernels.few import backward_few, forward_few
from chainfold.kernels.forward import forward
from chainfold.kernels.lattice import two_sum
from chainfold.kernels.scores import PORTION, fold, rows_between, state_scores


def go_forward(lattice: Any, shift: Any, watch: Any, tiles: Any) -> Any:
    """`forward` or, where there are few labels, `forward_few`."""
    raise NotImplementedError


def go_back(block_rows: Any, lattice: Any, edge_t: Any, gamma: Any, rows: Any, pairs: Any, counts: Any) -> None:
    """`backward` or, where there are few labels, `backward_few`."""
    raise NotImplementedError


@overload(go_forward, strict=False)
def _choose_forward(lattice: Any, shift: Any, watch: Any, tiles: Any) -> Any:
    kernel = forward_few if tiles[2].count else forward
    return lambda lattice, shift, watch, tiles: kernel(
        lattice.starts,
        lattice.alpha,
        lattice.predicted,
        lattice.edge,
        shift,
        lattice.entry,
        lattice.n_labels,
        watch,
        tiles,
    )


@overload(go_back, strict=False)
def _choose_backward(block_rows: Any, lattice: Any, edge_t: Any, gamma: Any, rows: Any, pairs: Any, counts: Any) -> Any:
    kernel = backward_few if rows.types[rows.fields.index("tiles")][2].count else backward
    return lambda block_rows, lattice, edge_t, gamma, rows, pairs, counts: kernel(
        block_rows, lattice, edge_t, gamma, rows, pairs, counts
    )


@kernel(fastmath=STRICT, inline=True)
def next_end(starts: Any, weights: Any, low: Any, most: Any) -> Any:
    """The end of the last whole sequence of one weight among the next positions, `most` at most; `low` if none ends."""
    high = min(low + most, starts.size)
    if weights.size > 0:
        end = low + 1
        while end < high and weights[end] == weights[low]:
            end += 1
        high = end
    while high > low and high < starts.size and not starts[high]:
        high -= 1
    return high


@kernel(fastmath=CONTRACT)
def whole_sequences(
    block_rows: Any,
    lattice: Any,
    rows: Any,
    weights: Any,
    blank: Any,
    edge_t: Any,
    shift: Any,
    watch: Any,
    gamma: Any,
    pairs: Any,
    counts: Any,
) -> Any:
    """There and back over the sequences of a block, a few at a time, so that what is between stays in the cache.

    The block begins and ends with whole sequences; alpha and predicted are the room for a few. Returns (positions done,
    log of their scale in two numbers): a sequence that is longer than the room, or whose numbers leave the range, ends
    it. Those that are done together have one weight.
    """
    starts, n_labels, of_sequences = lattice.starts, lattice.n_labels, lattice.weights
    total, compensation, low, folded = 0.0, 0.0, 0, 0
    while low < starts.size:
        high = next_end(starts, of_sequences, low, lattice.alpha.shape[0])
        if high == low:
            break
        size = high - low
        weight = of_sequences[low] if of_sequences.size > 0 else 1.0
        here = rows_between(block_rows, low, high)
        part = Lattice(
            starts[low:high],
            lattice.alpha[:size],
            lattice.predicted[:size],
            lattice.edge,
            lattice.entry,
            lattice.labels,
            of_sequences[low:high],
            False,
            n_labels,
        )
        state_scores(here, rows, weights, blank, part.alpha)
        status, scale = go_forward(part, shift, watch, rows.tiles)
        if status != OK:
            break
        total, compensation = two_sum(total, compensation, weight * scale[0])
        compensation += weight * scale[1]
        last, sum_ = part.alpha[size - 1], 0.0
        for j in range(n_labels):
            sum_ += last[j]
        for j in range(gamma.size):
            gamma[j] = weight * (last[j] / sum_)
        go_back(here, part, edge_t, gamma, rows, pairs, counts)
        low = high
        if low - folded >= PORTION:
            fold(counts)
            folded = low
    return low, (total, compensation)
