"""Forward vectors of a block, in doubles or in wide numbers; `kernels.lattice` has the recursion.

A kernel that works in doubles reports UNSAFE where numbers come near the end of the range; the block is then done again
in wide numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import overload

from chainfold.core.faults import NOT_FINITE, OK, UNSAFE, ZERO
from chainfold.core.slots import LINE, WIDTH
from chainfold.jit.decorator import CONTRACT, STRICT, kernel
from chainfold.kernels.lattice import LEAST_ALPHA, LEAST_STATE_SCORE, row_sum, two_sum
from chainfold.kernels.scores import sizes
from chainfold.kernels.simd import (
    exp,
    fma,
    load,
    load_tile,
    max_lanes,
    maximum,
    min_lanes,
    minimum,
    number,
    place,
    set_number,
    splat,
    spread,
    store,
    sum_lanes,
    where_positive,
    zeros,
)
from chainfold.kernels.wide import LN2_HIGH, LN2_LOW, normal, power, wide_exp

LEAST_SUM, MOST_SUM = 1e-20, 1e20  # a forward vector is scaled to sum to one when its sum leaves this range
_AHEAD = 4  # positions from a step to the one whose exponentials are taken meanwhile: they wait for nothing
_SHORT = 24  # numbers in a row that is better spread from a register than read one by one


@kernel(fastmath=CONTRACT)
def exponentiate_edges(edge: Any, shift: Any) -> Any:
    """e_t becomes E_t in place, shift[t] its maximum; returns the widest range of finite scores in a position."""
    widest = 0.0
    for t in range(edge.shape[0]):
        high, low = -np.inf, np.inf
        for k in range(edge.shape[1]):
            value = edge[t, k]
            if not value < np.inf:
                return np.inf
            high = max(high, value)
            if value > -np.inf:
                low = min(low, value)
        shift[t] = high if high > -np.inf else 0.0
        widest = max(widest, high - low)
        for c in range(0, edge.shape[1], WIDTH):
            at = t * edge.shape[1] + c
            store(edge, at, exp(load(edge, at) - splat(shift[t])))
    return widest


def by_tiles(matrix: Any, n_labels: Any, tiles: Any) -> Any:
    """The matrix [N · width] with all rows of the first tile first, then those of the next, as steps read it.

    A matrix that is larger than the first cache is read from the next one, which is up to twice as fast in order.
    """
    raise NotImplementedError


@overload(by_tiles, strict=False)
def _choose_by_tiles(matrix: Any, n_labels: Any, tiles: Any) -> Any:
    if tiles[1].count == 1:
        return lambda matrix, n_labels, tiles: matrix
    return lambda matrix, n_labels, tiles: _arranged(matrix, n_labels, tiles)


@kernel(fastmath=STRICT)
def _arranged(matrix: Any, n_labels: Any, tiles: Any) -> Any:
    """A copy of the matrix, tile by tile, that begins a line of the cache."""
    tile, columns, width = sizes(tiles)
    memory = np.empty(n_labels * width + WIDTH)
    skip = -place(memory, 0) % LINE // 8
    arranged = memory[skip : skip + n_labels * width]
    for c in range(0, width, columns):
        for i in range(n_labels):
            store(arranged, c * n_labels + i * columns, load_tile(matrix, i * width + c, tile))
    return arranged.reshape((1, n_labels * width))


@kernel(fastmath=CONTRACT, inline=True)
def step_row(vector: Any, held: Any, matrix: Any, at: Any, stride: Any, n_labels: Any, tiles: Any) -> Any:
    """Σ_i vector(i) M(i, ·), a tile of it; that of row i begins at matrix[at + i · stride].

    held: the vector in registers, where it is short: a step then does not wait for memory.

    The even and the odd labels have sums of their own, which need not wait for one another.
    """
    tile, _, width = sizes(tiles)
    if width <= _SHORT:
        return spread(held, matrix, at, n_labels)
    even, odd = zeros(tile), zeros(tile)
    for i in range(0, n_labels - 1, 2):
        even = fma(splat(number(vector, i)), load_tile(matrix, at, tile), even)
        odd = fma(splat(number(vector, i + 1)), load_tile(matrix, at + stride, tile), odd)
        at += 2 * stride
    if n_labels % 2:
        even = fma(splat(number(vector, n_labels - 1)), load_tile(matrix, at, tile), even)
    return even + odd


@kernel(fastmath=CONTRACT, inline=True)
def exponentiate(alpha: Any, predicted: Any, t: Any, watch: Any, tiles: Any) -> Any:
    """alpha[t] becomes b_t, predicted[t, 0] its maximum max s_t; returns the least finite s_t - max s_t, if watched."""
    tile, columns, width = sizes(tiles)
    row = t * width
    top, zero = load_tile(alpha, row, tile), zeros(tile)
    for c in range(columns, width, columns):
        top = maximum(top, load_tile(alpha, row + c, tile))
    peak, least = max_lanes(top), zero
    for c in range(0, width, columns):
        score = load_tile(alpha, row + c, tile) - splat(peak)
        store(alpha, row + c, exp(score))
        if watch:  # score + inf is inf for a finite score and not a number for -inf, a true zero
            least = minimum(least, where_positive(score + splat(np.inf), score, zero))
    set_number(predicted, row, peak)
    return least


@kernel(fastmath=CONTRACT)
def forward(
    starts: Any, alpha: Any, predicted: Any, edge: Any, shift: Any, entry: Any, n_labels: Any, watch: Any, tiles: Any
) -> Any:
    """alpha: [B, width], state scores in, forward vectors out. edge: [B or 1, N · width] with its shift.

    Returns (status, log of the scale in two numbers, the logarithm of the last vector's sum included).
    """
    tile, columns, width = sizes(tiles)
    step, matrix, ahead_by, stride = 1, edge, 1, width  # of a tile: the begin of the next one, and of its next row
    if edge.shape[0] == 1:
        step, matrix, ahead_by, stride = 0, by_tiles(edge, n_labels, tiles), n_labels, columns
    previous, held = place(entry, 0), load_tile(entry, 0, tile)
    total, compensation, moves = 0.0, 0.0, 0
    zero = zeros(tile)
    one = zero + splat(1.0)
    least, least_score = one, zero
    for ahead_of in range(alpha.shape[0] + _AHEAD):
        if ahead_of < alpha.shape[0]:
            least_score = minimum(least_score, exponentiate(alpha, predicted, ahead_of, watch, tiles))
        t = ahead_of - _AHEAD
        if t < 0:
            continue
        row = t * width
        peak, start = number(predicted, row), number(starts, t)
        if start and t > 0:
            scale = 0.0
            for j in range(n_labels):
                scale += number(previous, j)
            total, compensation = two_sum(total, compensation, math.log(scale))
        if not start:
            if step:
                total, compensation = two_sum(total, compensation, shift[t])
            else:
                moves += 1
        lane_sum, current = zero, zero
        for c in range(0, width, columns):
            ahead = one
            if not start:
                at = t * step * n_labels * width + c * ahead_by
                ahead = step_row(previous, held, matrix, at, stride, n_labels, tiles)
            store(predicted, row + c, ahead)
            current = load_tile(alpha, row + c, tile) * ahead
            store(alpha, row + c, current)
            lane_sum = lane_sum + current
            if watch:
                least = minimum(least, where_positive(current, current, one))
        total, compensation = two_sum(total, compensation, peak)
        scale = sum_lanes(lane_sum)
        if not (scale > LEAST_SUM and scale < MOST_SUM):
            if not (scale > 0.0 and scale < np.inf):
                return UNSAFE, (0.0, 0.0)
            total, compensation = two_sum(total, compensation, math.log(scale))
            for c in range(0, width, columns):
                store(alpha, row + c, load_tile(alpha, row + c, tile) / splat(scale))
            current = current / splat(scale)
        previous, held = place(alpha, row), current
    if watch and (min_lanes(least) < LEAST_ALPHA * MOST_SUM or min_lanes(least_score) < LEAST_STATE_SCORE):
        return UNSAFE, (0.0, 0.0)
    scale = 0.0
    for j in range(n_labels):
        scale += number(previous, j)
    total, compensation = two_sum(total, compensation, math.log(scale) + moves * (0.0 if step else shift[0]))
    return OK if abs(total) < np.inf else UNSAFE, (total, compensation)


@kernel(fastmath=CONTRACT)
def predict(starts: Any, alpha: Any, edge: Any, entry: Any, n_labels: Any, tiles: Any, predicted: Any) -> None:
    """The predictions again, from the forward vectors: predicted_t = Σ_i α_{t-1}(i) E_t(i, ·)."""
    tile, columns, width = sizes(tiles)
    step = 1 if edge.shape[0] > 1 else 0
    for t in range(alpha.shape[0]):
        previous = place(alpha, (t - 1) * width) if t > 0 else place(entry, 0)
        for c in range(0, width, columns):
            ahead = zeros(tile) + splat(1.0)
            if not starts[t]:
                held = load_tile(previous, 0, tile)
                at = t * step * n_labels * width + c
                ahead = step_row(previous, held, edge, at, width, n_labels, tiles)
            store(predicted, t * width + c, ahead)


@kernel(fastmath=STRICT)
def forward_wide(starts: Any, scores: Any, edge: Any, entry: Any, n_labels: Any, alpha: Any, predicted: Any) -> Any:
    """The forward pass in wide numbers, the largest k of each α_t being zero. scores: [B, width], edge: e_t.

    Each α and prediction is a sum of N products, with a relative error of N + 4 roundings and of what its scores have.
    Returns (status, log of the scale as in `forward`, position of the fault).
    """
    width = scores.shape[1]
    step = 1 if edge.shape[0] > 1 else 0
    moves, powers = np.zeros(n_labels * width), np.zeros(n_labels * width)
    previous, known = entry, False
    total, compensation = 0.0, 0.0
    for t in range(scores.shape[0]):
        ahead, row = predicted[t], alpha[t]
        if starts[t] and t > 0:
            total, compensation = two_sum(total, compensation, math.log(row_sum(previous, True, n_labels)))
        if not (starts[t] or known):
            for k in range(n_labels * width):
                if not edge[t * step, k] < np.inf:
                    return NOT_FINITE, (0.0, 0.0), t
                moves[k], powers[k] = wide_exp(edge[t * step, k])
            known = step == 0
        top = -np.inf
        for j in range(width):
            if starts[t] and j < n_labels:
                ahead[j], ahead[width + j] = 0.5, 1.0
            elif j < n_labels:
                ahead[j], ahead[width + j] = predict_wide(previous, moves, powers, j, n_labels, width)
            else:
                ahead[j], ahead[width + j] = 0.0, -np.inf
            score = scores[t, j] if j < n_labels else -np.inf
            m, k = wide_exp(score)
            row[j], row[width + j] = normal(ahead[j] * m, ahead[width + j] + k)
            if not score < np.inf or (row[j] > 0.0 and not abs(row[width + j]) < np.inf):
                return NOT_FINITE, (0.0, 0.0), t
            top = max(top, row[width + j])
        if top == -np.inf:
            return ZERO, (0.0, 0.0), t
        for j in range(width):
            row[width + j] -= top
        total, compensation = two_sum(total, compensation, top * LN2_HIGH)
        total, compensation = two_sum(total, compensation, top * LN2_LOW)
        previous = row
    total, compensation = two_sum(total, compensation, math.log(row_sum(previous, True, n_labels)))
    return OK if abs(total) < np.inf else NOT_FINITE, (total, compensation), scores.shape[0] - 1


@kernel(fastmath=STRICT, inline=True)
def predict_wide(previous: Any, moves: Any, powers: Any, j: Any, n_labels: Any, width: Any) -> Any:
    """Σ_i α(i) E(i,j), at the largest k of its terms; E(i,j) is moves · 2^powers. Where a k overflows, it is inf."""
    top, sum_ = -np.inf, 0.0
    for i in range(n_labels):
        if previous[i] > 0.0 and moves[i * width + j] > 0.0:
            k = previous[width + i] + powers[i * width + j]
            top = max(top, k if k > -np.inf else np.inf)
    if top == np.inf:
        return 0.5, top
    if top > -np.inf:
        for i in range(n_labels):
            k = previous[width + i] + powers[i * width + j]
            sum_ += previous[i] * moves[i * width + j] * power(k - top)
    return normal(sum_, top)
