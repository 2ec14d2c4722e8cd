"""Forward and back where there are up to four labels; `kernels.lattice` has the recursion.

The same as `forward` and `backward`, for one transition matrix. What does not depend on the step before,
the exponentials above all, is done for several positions in one register, and the matrix stays in registers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainfold.core.faults import OK, UNSAFE
from chainfold.core.slots import WIDTH
from chainfold.jit.decorator import CONTRACT, STRICT, kernel
from chainfold.kernels.backward import TILE, count_edges
from chainfold.kernels.certificate import SUBNORMAL, mix
from chainfold.kernels.forward import LEAST_SUM, MOST_SUM
from chainfold.kernels.lattice import LEAST_ALPHA, LEAST_STATE_SCORE, TINY, two_sum
from chainfold.kernels.rows_of_few import (
    columns_agree,
    lane,
    load_few,
    load_packed,
    load_square,
    max_of_parts,
    product,
    scaled,
    spread_few,
    store_few,
    store_packed,
    store_square,
    times,
)
from chainfold.kernels.scores import AHEAD, PORTION, fold, prefetch_short_rows, short_entries
from chainfold.kernels.simd import (
    exp,
    fma,
    maximum,
    min_lanes,
    minimum,
    number,
    place,
    set_number,
    splat,
    store,
    sum_lanes,
    where_positive,
)


@kernel(fastmath=CONTRACT)
def forward_few(
    starts: Any, alpha: Any, predicted: Any, edge: Any, shift: Any, entry: Any, n_labels: Any, watch: Any, tiles: Any
) -> Any:
    """`forward` for few labels."""
    few = tiles[2]
    group, last = WIDTH // len(few), alpha.shape[0] - 1
    square, one, previous = load_square(edge, n_labels, few), spread_few(1.0, few), load_few(entry, 0, few)
    total, compensation, moves = 0.0, 0.0, 0
    peaks, peaks_rest = splat(0.0), splat(0.0)
    least, least_score = one, splat(0.0)
    for ahead_of in range(0, alpha.shape[0] + group, group):
        if ahead_of <= last:
            score = load_packed(alpha, ahead_of, last, few)
            peak = max_of_parts(score, few)
            score = score - peak
            store_packed(alpha, ahead_of, last, exp(score), few)
            if watch:
                least_score = minimum(least_score, where_positive(score + splat(np.inf), score, splat(0.0)))
            if ahead_of + group - 1 <= last:
                peaks, peaks_rest = two_sums(peaks, peaks_rest, peak)
            else:
                for k in range(last + 1 - ahead_of):
                    total, compensation = two_sum(total, compensation, lane(peak, k * len(few)))
        for t in range(max(ahead_of - group, 0), min(ahead_of, alpha.shape[0])):
            ahead = one
            if not number(starts, t):
                ahead = product(previous, square)
                moves += 1
            elif t > 0:
                scale = row_sum(place(alpha, (t - 1) * WIDTH), n_labels)
                total, compensation = two_sum(total, compensation, math.log(scale))
            store_few(predicted, t * WIDTH, ahead)
            current = load_few(alpha, t * WIDTH, few) * ahead
            if watch:
                least = minimum(least, where_positive(current, current, one))
            scale = sum_lanes(current)
            if not (scale > LEAST_SUM and scale < MOST_SUM):
                if not (scale > 0.0 and scale < np.inf):
                    return UNSAFE, (0.0, 0.0)
                total, compensation = two_sum(total, compensation, math.log(scale))
                current = current / spread_few(scale, few)
            store_few(alpha, t * WIDTH, current)
            previous = current
    if watch and (min_lanes(least) < LEAST_ALPHA * MOST_SUM or min_lanes(least_score) < LEAST_STATE_SCORE):
        return UNSAFE, (0.0, 0.0)
    for k in range(0, WIDTH, len(few)):
        total, compensation = two_sum(total, compensation, lane(peaks, k))
        compensation += lane(peaks_rest, k)
    scale = row_sum(place(alpha, last * WIDTH), n_labels)
    total, compensation = two_sum(total, compensation, math.log(scale) + moves * shift[0])
    return OK if abs(total) < np.inf else UNSAFE, (total, compensation)


@kernel(fastmath=STRICT, inline=True)
def row_sum(row: Any, n_labels: Any) -> Any:
    """Σ_i row(i), in order."""
    sum_ = 0.0
    for i in range(n_labels):
        sum_ += number(row, i)
    return sum_


@kernel(fastmath=STRICT, inline=True)
def two_sums(total: Any, compensation: Any, terms: Any) -> Any:
    """`two_sum` in each lane."""
    s = total + terms
    virtual = s - total
    return s, compensation + ((total - (s - virtual)) + (terms - virtual))


@kernel(fastmath=CONTRACT, inline=True)
def scatter_few(block_rows: Any, rows: Any, t: Any, posterior: Any, gamma: Any, counts: Any) -> None:
    """The expected counts of position t's attributes; gamma has the posterior, too."""
    few = rows.tiles[2]
    low, turn, high = number(block_rows.begin, t), number(block_rows.turn, t), number(block_rows.begin, t + 1)
    plain = block_rows.value.size == 0
    prefetch_short_rows(block_rows, rows, max(t - AHEAD, 0), counts.sparse)
    if plain:
        for k in range(low, turn):
            slot = number(block_rows.row, k)
            store(counts.dense, slot, load_few(counts.dense, slot, few) + posterior)
    else:
        for k in range(low, turn):
            slot = number(block_rows.row, k)
            value = spread_few(number(block_rows.value, k), few)
            store(counts.dense, slot, fma(value, posterior, load_few(counts.dense, slot, few)))
    for k in range(turn, high):
        value_of_short = 1.0 if plain else number(block_rows.value, k)
        first, count = short_entries(block_rows, k)
        for entry in range(first, first + count):
            share = value_of_short * number(gamma, number(rows.label, entry))
            set_number(counts.sparse, entry, number(counts.sparse, entry) + share)


@kernel(fastmath=CONTRACT)
def backward_few(block_rows: Any, lattice: Any, edge_t: Any, gamma: Any, rows: Any, pairs: Any, counts: Any) -> None:
    """`backward` for few labels."""
    alpha, predicted, entry, n_labels = lattice.alpha, lattice.predicted, lattice.entry, lattice.n_labels
    few, starts, high = rows.tiles[2], lattice.starts, alpha.shape[0]
    weights, weighted = lattice.weights, lattice.weights.size > 0
    zero, one, tiny = spread_few(0.0, few), spread_few(1.0, few), spread_few(TINY, few)
    square, held = load_square(edge_t, n_labels, few), load_few(gamma, 0, few)
    for t in range(alpha.shape[0] - 1, -1, -1):
        scatter_few(block_rows, rows, t, held, gamma, counts)
        before = place(alpha, (t - 1) * WIDTH) if t > 0 else place(entry, 0)
        previous = load_few(before, 0, few)
        if number(starts, t):
            store_few(predicted, t * WIDTH, zero)
            weight = number(weights, t - 1) if weighted and t > 0 else 1.0
            held = spread_few(weight, few) * (previous / spread_few(max(row_sum(before, n_labels), TINY), few))
        else:
            held = held * (one / maximum(load_few(predicted, t * WIDTH, few), tiny))
            store_few(predicted, t * WIDTH, held)
            held = previous * product(held, square)
        if t > 0 and (high - t == TILE or t == 1):
            count_edges(alpha, predicted, t, high, n_labels, rows.tiles, pairs)
            high = t
            total = sum_lanes(held)
            if total > 0.0:
                held = held / spread_few(total, few)
            if weighted:
                held = spread_few(number(weights, t - 1), few) * held
            if (alpha.shape[0] - t) % PORTION == 0:
                fold(counts)
        store_few(gamma, 0, held)
    for i in range(n_labels):
        at = i * WIDTH
        store_few(pairs, at, fma(spread_few(entry[i], few), load_few(predicted, 0, few), load_few(pairs, at, few)))


@kernel(fastmath=STRICT)
def look_ahead_few(lattice: Any, tolerance: Any, ignore: Any, q: Any, gamma: Any, few: Any) -> Any:
    """`certificate.look_ahead` for few labels, in doubles and for one transition matrix: Q stays in registers."""
    starts, alpha, predicted, entry, n_labels = (
        lattice.starts,
        lattice.alpha,
        lattice.predicted,
        lattice.entry,
        lattice.n_labels,
    )
    one, tiny, ignored = spread_few(1.0, few), spread_few(TINY, few), load_few(ignore, 0, few)
    edge, square = load_square(lattice.edge, n_labels, few), load_square(q, n_labels, few)
    row, certified, looked = place(entry, 0), False, alpha.shape[0]
    for t in range(alpha.shape[0]):
        before = place(alpha, (t - 1) * WIDTH) if t > 0 else place(entry, 0)
        if number(starts, t):
            row, certified, looked = before, True, t
            break
        inverse = one / maximum(load_few(predicted, t * WIDTH, few), tiny)
        square = times(square, scaled(load_few(before, 0, few), edge, inverse))
        row = place(alpha, t * WIDTH)
        if columns_agree(square, load_few(row, 0, few), ignored, tolerance, SUBNORMAL):
            certified, looked = True, t + 1
            break
    store_square(q, square)
    if certified:
        weight = np.zeros(q.shape[1])
        for f in range(n_labels):
            weight[f] = number(row, f)
        mix(q, weight, n_labels, gamma)
    return certified, looked
