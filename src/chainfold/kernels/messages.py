"""Forward vectors and posteriors of a block.

The production kernels, in the scaled real domain. With b_t(j) = exp(s_t(j) - max s_t) and E_t(i,j) = exp(e_t(i,j) -
max e_t), up to one common factor a position whose logarithm goes into log Z:

    predicted_t(j) = Σ_i α_{t-1}(i) E_t(i,j)                     at a start mark: 1
    α_t(j)         = b_t(j) · predicted_t(j)

    v_t(j)         = γ_t(j) / predicted_t(j)                     γ_t: the posterior of position t
    γ_{t-1}(i)     = α_{t-1}(i) · Σ_j E_t(i,j) v_t(j)            before a start mark: α_{t-1}, normalised
    ξ_t(i,j)       = α_{t-1}(i) · E_t(i,j) · v_t(j)              the posterior of the edge into t

Where positions have weights w_t, γ_t is not a posterior but the flow Σ_{u >= t} of what each later term of the log
likelihood, w_u log p(y_u | y_{u+1}, x up to u), asks of position t. It adds up to w_t: the observed label of t takes
w_t - w_{t-1} out of it on the way to t-1, and before a start mark it is w_{t-1} α_{t-1}. All of it is linear in γ. A
large weight that is taken out leaves the rounding of a large number behind. What of that adds up to zero is forgotten
on the way back as the future is; the rest is not, and so the known total is restored at each position.

The way back needs α and the predictions alone: no scale, no state score. A posterior is a number in [0, 1], so nothing
overflows, and a label that cannot be reached has α = 0 and stays out of the way.

α is a product over the whole past and may leave the range of a double. Where every transition is allowed and the
scores of transitions span at most EDGE_RANGE, one step forward or back changes the odds between two labels by at most
e^150: a label whose α underflows has a posterior below 1e-150, and nothing is lost. Elsewhere the forward kernel
watches: if a positive number comes near the end of the range, it reports UNSAFE and the block is done again by the
second set of kernels, in wide numbers, whose range has no end (`wide`). alpha, predicted and entry then hold wide
numbers, and edge the scores e_t.

Rounding. What is known of γ_t is kept: it adds up to one, or to w_t, and is made to do so again every few positions, or
at each. Sums over many positions are taken in portions, each of which is added to the next larger one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.kernels.scores import (
    AHEAD,
    COUNT,
    COUNT_BITS,
    PORTION,
    Found,
    fold,
    prefetch_short_rows,
    sizes,
    state_scores,
)
from chainfold.kernels.simd import (
    WIDTH,
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
    splat,
    spread,
    store,
    sum_lanes,
    where_positive,
    zeros,
)
from chainfold.kernels.wide import LN2_HIGH, LN2_LOW, MOST_EXACT, log_share, normal, power, real, wide_exp
from chainfold.system.jit import CONTRACT, STRICT, kernel

OK, UNSAFE, ZERO, NOT_FINITE = 0, 1, 2, 3


class Lattice(NamedTuple):
    """A block after the forward pass."""

    starts: NDArray[np.bool_]  # [B]
    alpha: NDArray[np.float64]  # [B, width], wide: [B, 2 · width]
    predicted: NDArray[np.float64]  # the same
    edge: NDArray[np.float64]  # [B or 1, N · width]  E_t, wide: e_t
    entry: NDArray[np.float64]  # [width], wide: [2 · width]  α of the position before the block
    labels: NDArray[np.int32]  # [B]
    weights: NDArray[np.float64]  # [B], or empty: all ones
    change: NDArray[np.float64]  # [B]  w_t - w_{t-1}, at a start mark w_{t-1}; or empty
    totals: NDArray[np.float64]  # [B]  w_{t-1}, what the flow before t adds up to; or empty
    wide: bool  # whether alpha, predicted and entry are wide numbers
    n_labels: int


# Three factors meet in α_t: the last α, an edge and a state potential. While each stays above its bound, a product is
# zero only if a factor is. (α is bounded after scaling; before it, by as much more as scaling may take away.)
LEAST_ALPHA = 1e-150
LEAST_STATE_SCORE = -195.0
EDGE_RANGE = 150.0

_LEAST_SUM, _MOST_SUM = 1e-20, 1e20  # a forward vector is scaled to sum to one when its sum leaves this range
_TINY = 1e-300
_SHORT = 24  # numbers in a row that is better spread from a register than read one by one
_TILE = 32  # positions whose edges are counted together, so that a count is loaded once for all of them


@kernel(fastmath=STRICT, inline=True)
def two_sum(total: Any, compensation: Any, term: Any) -> Any:
    """Knuth: total + compensation is the sum so far, as if in twice the precision."""
    s = total + term
    virtual = s - total
    return s, compensation + ((total - (s - virtual)) + (term - virtual))


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


@kernel(fastmath=CONTRACT, inline=True)
def step_row(vector: Any, matrix: Any, base: Any, n_labels: Any, c: Any, tiles: Any) -> Any:
    """Σ_i vector(i) M(i, ·), a tile of it from column c on; the matrix begins at matrix[base].

    The even and the odd labels have sums of their own, which need not wait for one another.
    """
    tile, _, width = sizes(tiles)
    if width <= _SHORT:
        return spread(load_tile(vector, 0, tile), matrix, base, n_labels)
    even, odd = zeros(tile), zeros(tile)
    at = base + c
    for i in range(0, n_labels - 1, 2):
        even = fma(splat(number(vector, i)), load_tile(matrix, at, tile), even)
        odd = fma(splat(number(vector, i + 1)), load_tile(matrix, at + width, tile), odd)
        at += 2 * width
    if n_labels % 2:
        even = fma(splat(number(vector, n_labels - 1)), load_tile(matrix, at, tile), even)
    return even + odd


@kernel(fastmath=CONTRACT)
def forward(
    starts: Any, alpha: Any, predicted: Any, edge: Any, shift: Any, entry: Any, n_labels: Any, watch: Any, tiles: Any
) -> Any:
    """alpha: [B, width], state scores in, forward vectors out. edge: [B or 1, N · width] with its shift.

    Returns (status, log of the scale in two numbers, the logarithm of the last vector's sum included).
    """
    tile, columns, width = sizes(tiles)
    step = 1 if edge.shape[0] > 1 else 0
    previous = place(entry, 0)
    total, compensation, moves = 0.0, 0.0, 0
    zero = zeros(tile)
    one = zero + splat(1.0)
    least, least_score = one, zero
    for t in range(alpha.shape[0]):
        row = t * width
        top = load_tile(alpha, row, tile)
        for c in range(columns, width, columns):
            top = maximum(top, load_tile(alpha, row + c, tile))
        peak = max_lanes(top)
        floor = splat(peak)
        if starts[t] and t > 0:
            scale = 0.0
            for j in range(n_labels):
                scale += number(previous, j)
            total, compensation = two_sum(total, compensation, math.log(scale))
        if not starts[t]:
            if step:
                total, compensation = two_sum(total, compensation, shift[t])
            else:
                moves += 1
        lane_sum = zero
        for c in range(0, width, columns):
            ahead = one
            if not starts[t]:
                ahead = step_row(previous, edge, t * step * n_labels * width, n_labels, c, tiles)
            store(predicted, row + c, ahead)
            score = load_tile(alpha, row + c, tile) - floor
            a = exp(score) * ahead
            store(alpha, row + c, a)
            lane_sum = lane_sum + a
            if watch:  # score + inf is inf for a finite score and not a number for -inf, a true zero
                least = minimum(least, where_positive(a, a, one))
                least_score = minimum(least_score, where_positive(score + splat(np.inf), score, zero))
        total, compensation = two_sum(total, compensation, peak)
        scale = sum_lanes(lane_sum)
        if not (scale > _LEAST_SUM and scale < _MOST_SUM):
            if not (scale > 0.0 and scale < np.inf):
                return UNSAFE, (0.0, 0.0)
            total, compensation = two_sum(total, compensation, math.log(scale))
            for c in range(0, width, columns):
                store(alpha, row + c, load_tile(alpha, row + c, tile) / splat(scale))
        previous = place(alpha, row)
    if watch and (min_lanes(least) < LEAST_ALPHA * _MOST_SUM or min_lanes(least_score) < LEAST_STATE_SCORE):
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
                ahead = step_row(previous, edge, t * step * n_labels * width, n_labels, c, tiles)
            store(predicted, t * width + c, ahead)


@kernel(fastmath=CONTRACT, inline=True)
def scatter(found: Any, rows: Any, t: Any, gamma: Any, counts: Any) -> None:
    """The expected counts of position t's attributes: counts[a, j] += x_t(a) γ_t(j)."""
    tile, columns, width = sizes(rows.tiles)
    low, turn, high = found.begin[t], found.turn[t], found.begin[t + 1]
    plain = found.value.size == 0
    prefetch_short_rows(found, rows, max(t - AHEAD, 0), counts.sparse)
    for c in range(0, width, columns):
        posterior = load_tile(gamma, c, tile)
        if plain:
            for k in range(low, turn):
                slot = found.row[k] + c
                store(counts.dense, slot, load_tile(counts.dense, slot, tile) + posterior)
        else:
            for k in range(low, turn):
                slot = found.row[k] + c
                value = splat(found.value[k])
                store(counts.dense, slot, fma(value, posterior, load_tile(counts.dense, slot, tile)))
    for k in range(turn, high):
        value = 1.0 if plain else found.value[k]
        first = found.row[k] >> COUNT_BITS
        for entry in range(first, first + (found.row[k] & COUNT)):
            counts.sparse[entry] += value * gamma[rows.label[entry]]


@kernel(fastmath=CONTRACT, inline=True)
def count_edges(alpha: Any, v: Any, low: Any, high: Any, n_labels: Any, tiles: Any, pairs: Any) -> None:
    """pairs[i, j] += Σ_{low <= t < high} α_{t-1}(i) v_t(j), four labels i at a time or two; low > 0."""
    tile, columns, width = sizes(tiles)
    zero = zeros(tile)
    for c in range(0, width, columns):
        if len(tile) <= 6:
            for i in range(0, n_labels, 4):
                sum0, sum1, sum2, sum3 = zero, zero, zero, zero
                for t in range(low, high):
                    right = load_tile(v, t * width + c, tile)
                    left = (t - 1) * width + i
                    sum0 = fma(splat(number(alpha, left)), right, sum0)
                    sum1 = fma(splat(number(alpha, left + 1)), right, sum1)
                    sum2 = fma(splat(number(alpha, left + 2)), right, sum2)
                    sum3 = fma(splat(number(alpha, left + 3)), right, sum3)
                at = i * width + c
                add_to(pairs, at, sum0, tile)
                add_to(pairs, at + width, sum1, tile)
                add_to(pairs, at + 2 * width, sum2, tile)
                add_to(pairs, at + 3 * width, sum3, tile)
        else:
            for i in range(0, n_labels, 2):
                sum0, sum1 = zero, zero
                for t in range(low, high):
                    right = load_tile(v, t * width + c, tile)
                    left = (t - 1) * width + i
                    sum0 = fma(splat(number(alpha, left)), right, sum0)
                    sum1 = fma(splat(number(alpha, left + 1)), right, sum1)
                at = i * width + c
                add_to(pairs, at, sum0, tile)
                add_to(pairs, at + width, sum1, tile)


@kernel(fastmath=CONTRACT, inline=True)
def add_to(sums: Any, at: Any, terms: Any, tile: Any) -> None:
    store(sums, at, load_tile(sums, at, tile) + terms)


@kernel(fastmath=CONTRACT, inline=True)
def normalise(gamma: Any, tiles: Any) -> None:
    """γ / Σ γ; as it is if it adds up to nothing."""
    tile, columns, width = sizes(tiles)
    lane_sum = zeros(tile)
    for c in range(0, width, columns):
        lane_sum = lane_sum + load_tile(gamma, c, tile)
    total = sum_lanes(lane_sum)
    if total > 0.0:
        for c in range(0, width, columns):
            store(gamma, c, load_tile(gamma, c, tile) / splat(total))


@kernel(fastmath=STRICT, inline=True)
def take_out(gamma: Any, label: Any, change: Any, total: Any, n_labels: Any) -> None:
    """The observed label takes its change of weight out of the flow; the largest part makes up for the rounding."""
    gamma[label] -= change
    sum_, largest = 0.0, 0
    for j in range(n_labels):
        sum_ += gamma[j]
        if abs(gamma[j]) > abs(gamma[largest]):
            largest = j
    gamma[largest] += total - sum_


@kernel(fastmath=CONTRACT)
def backward(found: Any, lattice: Any, edge_t: Any, gamma: Any, rows: Any, pairs: Any, counts: Any) -> None:
    """The fast way back, one transition matrix for all positions; edge_t: [N, width], E transposed.

    gamma: [width], the posterior of the last position in, of the position before the block out. predicted becomes v.
    pairs: [width, width], Σ α_{t-1}(i) v_t(j), still to be multiplied by E.
    """
    alpha, predicted, entry, n_labels = lattice.alpha, lattice.predicted, lattice.entry, lattice.n_labels
    tile, columns, width = sizes(rows.tiles)
    weighted = lattice.change.size > 0
    high = alpha.shape[0]
    for t in range(alpha.shape[0] - 1, -1, -1):
        scatter(found, rows, t, gamma, counts)
        previous = place(alpha, (t - 1) * width) if t > 0 else place(entry, 0)
        if lattice.starts[t]:
            scale = 0.0
            for i in range(n_labels):
                scale += number(previous, i)
            scale = max(scale, _TINY)  # the entry of a block that begins the chain is all zeros
            weight = lattice.change[t] if weighted else 1.0
            for c in range(0, width, columns):
                store(predicted, t * width + c, zeros(tile))
                store(gamma, c, splat(weight) * (load_tile(previous, c, tile) / splat(scale)))
        else:
            if weighted:
                take_out(gamma, lattice.labels[t], lattice.change[t], lattice.totals[t], n_labels)
            for c in range(0, width, columns):
                at = t * width + c
                inverse = splat(1.0) / maximum(load_tile(predicted, at, tile), splat(_TINY))  # γ need not be waited for
                store(predicted, at, load_tile(gamma, c, tile) * inverse)
            v = place(predicted, t * width)
            for c in range(0, width, columns):
                store(gamma, c, load_tile(previous, c, tile) * step_row(v, edge_t, 0, n_labels, c, rows.tiles))
        if t > 0 and (high - t == _TILE or t == 1):
            count_edges(alpha, predicted, t, high, n_labels, rows.tiles, pairs)
            high = t
            if not weighted:
                normalise(gamma, rows.tiles)
            if (alpha.shape[0] - t) % PORTION == 0:
                fold(counts)
    for i in range(n_labels):
        for c in range(0, width, columns):
            at = i * width + c
            store(pairs, at, fma(splat(entry[i]), load_tile(predicted, c, tile), load_tile(pairs, at, tile)))


@kernel(fastmath=CONTRACT)
def whole_sequences(
    found: Any,
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
    it.
    """
    starts, n_labels = lattice.starts, lattice.n_labels
    total, compensation, low, folded = 0.0, 0.0, 0, 0
    while low < starts.size:
        high = min(low + lattice.alpha.shape[0], starts.size)
        while high > low and high < starts.size and not starts[high]:
            high -= 1
        if high == low:
            break
        size = high - low
        here = Found(found.begin[low : high + 1], found.turn[low:high], found.row, found.value)
        part = Lattice(
            starts[low:high],
            lattice.alpha[:size],
            lattice.predicted[:size],
            lattice.edge,
            lattice.entry,
            lattice.labels,
            lattice.weights,
            lattice.change,
            lattice.totals,
            False,
            n_labels,
        )
        state_scores(here, rows, weights, blank, part.alpha)
        status, scale = forward(
            part.starts, part.alpha, part.predicted, part.edge, shift, part.entry, n_labels, watch, rows.tiles
        )
        if status != OK:
            break
        total, compensation = two_sum(total, compensation, scale[0])
        compensation += scale[1]
        last, sum_ = part.alpha[size - 1], 0.0
        for j in range(n_labels):
            sum_ += last[j]
        for j in range(gamma.size):
            gamma[j] = last[j] / sum_
        backward(here, part, edge_t, gamma, rows, pairs, counts)
        low = high
        if low - folded >= PORTION:
            fold(counts)
            folded = low
    return low, (total, compensation)


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


@kernel(fastmath=STRICT, inline=True)
def row_sum(row: Any, wide: Any, n_labels: Any) -> Any:
    """Σ_i row(i)."""
    sum_ = 0.0
    for i in range(n_labels):
        sum_ += real(row, i, wide)
    return sum_


@kernel(fastmath=STRICT, inline=True)
def transfer(previous: Any, predicted: Any, edge: Any, wide: Any, n_labels: Any, out: Any) -> None:
    """out[i, j] = Pr(y_{t-1} = i | y_t = j, x up to t) = α_{t-1}(i) E_t(i,j) / predicted_t(j); 0 where j cannot be."""
    width = out.shape[1]
    if wide:
        for i in range(n_labels):
            for j in range(n_labels):
                out[i, j] = 0.0
                if previous[i] > 0.0 and predicted[j] > 0.0:
                    k, score = previous[width + i] - predicted[width + j], edge[i * width + j]
                    if abs(score) < MOST_EXACT:
                        out[i, j] = previous[i] * math.exp((score + k * LN2_HIGH) + k * LN2_LOW)
                    else:
                        m, more = wide_exp(score)
                        out[i, j] = previous[i] * m * power(k + more)
        for j in range(n_labels):  # the sum is predicted(j), but for the rounding of k where scores are large
            total = 0.0
            for i in range(n_labels):
                total += out[i, j]
            inverse = 1.0 / max(total, _TINY)
            for i in range(n_labels):
                out[i, j] *= inverse
    else:
        for c in range(0, width, WIDTH):
            inverse = splat(1.0) / maximum(load(predicted, c), splat(_TINY))
            for i in range(n_labels):
                store(out, i * width + c, splat(previous[i]) * load(edge, i * width + c) * inverse)


@kernel(fastmath=STRICT, inline=True)
def log_conditional(previous: Any, predicted: Any, edge: Any, i: Any, j: Any, wide: Any) -> Any:
    """log Pr(i | j)."""
    if previous[i] <= 0.0 or predicted[j] <= 0.0:
        return -np.inf
    if wide:
        width = predicted.size // 2
        m, k = wide_exp(edge[i * width + j])
        k += previous[width + i] - predicted[width + j]
        return k * LN2_HIGH + (k * LN2_LOW + math.log(previous[i] * m / predicted[j])) if m > 0.0 else -np.inf
    joint = previous[i] * edge[i * predicted.size + j]
    return math.log(joint / predicted[j]) if joint > 0.0 else -np.inf


@kernel(fastmath=STRICT, inline=True)
def end_posterior(row: Any, wide: Any, n_labels: Any, gamma: Any) -> None:
    """γ of a position where a sequence ends: its α, normalised; zero where there is none."""
    scale = max(row_sum(row, wide, n_labels), _TINY)
    for i in range(n_labels):
        gamma[i] = real(row, i, wide) / scale


@kernel(fastmath=STRICT)
def backward_general(block: Any, found: Any, lattice: Any, gamma: Any, rows: Any, scratch: Any, counts: Any) -> None:
    """The way back for edges that differ from position to position, or in wide numbers.

    ξ_t(i,j) = Pr(i | j) γ_t(j) is formed outright and counted for the transition and each edge attribute of t.
    scratch: [2, N, width].
    """
    width, n_labels = scratch.shape[2], lattice.n_labels
    weighted = lattice.change.size > 0
    joint, pairs = scratch[0], scratch[1]
    pairs[:] = 0.0
    for t in range(lattice.starts.size - 1, -1, -1):
        scatter(found, rows, t, gamma, counts)
        step_back(lattice, t, gamma, joint)
        if not weighted and t % _TILE == 0:
            normalise(gamma, rows.tiles)
        if not lattice.starts[t]:
            for i in range(n_labels):
                for j in range(n_labels):
                    pairs[i, j] += joint[i, j]
            if block.edge_offsets.size:
                for k in range(block.edge_offsets[t], block.edge_offsets[t + 1]):
                    value = 1.0 if block.edge_values.size == 0 else block.edge_values[k]
                    base = block.edge_ids[k] * n_labels * width
                    for i in range(n_labels):
                        for j in range(n_labels):
                            counts.edge[base + i * width + j] += value * joint[i, j]
        if t % PORTION == 0:
            fold(counts)
            for i in range(n_labels):
                for j in range(n_labels):
                    counts.transition[i * width + j] += pairs[i, j]
                    pairs[i, j] = 0.0


@kernel(fastmath=STRICT, inline=True)
def step_back(lattice: Any, t: Any, gamma: Any, joint: Any) -> None:
    """γ_t becomes γ_{t-1}; joint: [N, width], ξ_t(i,j) out, not set at a start mark."""
    n_labels, wide = lattice.n_labels, lattice.wide
    weighted = lattice.change.size > 0
    edge = lattice.edge[t if lattice.edge.shape[0] > 1 else 0]
    previous = lattice.alpha[t - 1] if t > 0 else lattice.entry
    if lattice.starts[t]:
        end_posterior(previous, wide, n_labels, gamma)
        if weighted:
            for i in range(n_labels):
                gamma[i] *= lattice.change[t]
        return
    if weighted:
        take_out(gamma, lattice.labels[t], lattice.change[t], lattice.totals[t], n_labels)
    transfer(previous, lattice.predicted[t], edge, wide, n_labels, joint)
    for i in range(n_labels):
        for j in range(n_labels):
            joint[i, j] *= gamma[j]
    for i in range(n_labels):
        gamma[i] = 0.0
        for j in range(n_labels):
            gamma[i] += joint[i, j]


@kernel(fastmath=STRICT)
def flow_back(lattice: Any, size: Any, gamma: Any, scratch: Any) -> None:
    """The flow of position size-1 of a block becomes that of the position before the block; scratch: [N, width]."""
    for t in range(size - 1, -1, -1):
        step_back(lattice, t, gamma, scratch)


@kernel(fastmath=STRICT)
def path_likelihood(lattice: Any, label: Any, weight: Any) -> Any:
    """Σ_t w_{t-1} log p(y_{t-1} | y_t, x up to t) over the block; label and weight: y and w before it.

    p(i | j) = α_{t-1}(i) E_t(i,j) / predicted_t(j), and before a start mark α_{t-1}(i) / Σ α_{t-1}. Returns the sum and
    the smallest of the logarithms that count.
    """
    alpha, edge, wide, n_labels = lattice.alpha, lattice.edge, lattice.wide, lattice.n_labels
    step = 1 if edge.shape[0] > 1 else 0
    total, compensation, least = 0.0, 0.0, 0.0
    for t in range(alpha.shape[0]):
        previous = alpha[t - 1] if t > 0 else lattice.entry
        if weight > 0.0:
            if lattice.starts[t]:
                term = log_share(previous, label, wide, row_sum(previous, wide, n_labels))
            else:
                term = log_conditional(previous, lattice.predicted[t], edge[t * step], label, lattice.labels[t], wide)
            least = min(least, term)
            total, compensation = two_sum(total, compensation, weight * term)
        label, weight = lattice.labels[t], lattice.weights[t]
    return total + compensation, least
