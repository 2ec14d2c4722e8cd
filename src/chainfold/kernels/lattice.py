"""A block of the lattice: what the forward pass leaves, and the probabilities that follow from it.

The production kernels, in the scaled real domain. With b_t(j) = exp(s_t(j) - max s_t) and E_t(i,j) = exp(e_t(i,j) -
max e_t), up to one common factor a position whose logarithm goes into log Z:

    predicted_t(j) = Σ_i α_{t-1}(i) E_t(i,j)                     at a start mark: 1
    α_t(j)         = b_t(j) · predicted_t(j)

    v_t(j)         = γ_t(j) / predicted_t(j)                     γ_t: the posterior of position t
    γ_{t-1}(i)     = α_{t-1}(i) · Σ_j E_t(i,j) v_t(j)            before a start mark: α_{t-1}, normalised
    ξ_t(i,j)       = α_{t-1}(i) · E_t(i,j) · v_t(j)              the posterior of the edge into t

All of it is linear in γ. Where sequences have weights, the way back begins at the end of each sequence with its weight
times the posterior: γ adds up to w, and so do all counts.

The way back needs α and the predictions alone: no scale, no state score. A posterior is a number in [0, 1], so nothing
overflows, and a label that cannot be reached has α = 0 and stays out of the way.

α is a product over the whole past and may leave the range of a double. Where every transition is allowed and the
scores of transitions span at most EDGE_RANGE, one step forward or back changes the odds between two labels by at most
e^150: a label whose α underflows has a posterior below 1e-150, and nothing is lost. Elsewhere the forward kernel
watches: if a positive number comes near the end of the range, it reports UNSAFE and the block is done again by the
second set of kernels, in wide numbers, whose range has no end (`wide`). alpha, predicted and entry then hold wide
numbers, and edge the scores e_t.

Rounding. What is known of γ_t is kept: it adds up to one, or to w, and is made to do so again every few positions. Sums
over many positions are taken in portions, each of which is added to the next larger one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainfold.core.slots import WIDTH
from chainfold.jit.decorator import STRICT, kernel
from chainfold.kernels.simd import load, maximum, number, place, splat, store
from chainfold.kernels.wide import LN2_HIGH, LN2_LOW, MOST_EXACT, power, real, wide_exp

# Three factors meet in α_t: the last α, an edge and a state potential. While each stays above its bound, a product is
# zero only if a factor is. (α is bounded after scaling; before it, by as much more as scaling may take away.)
LEAST_ALPHA = 1e-150
LEAST_STATE_SCORE = -195.0
EDGE_RANGE = 150.0

TINY = 1e-300
"""A divisor that is zero is replaced by this; what it divides is zero too."""


@kernel(fastmath=STRICT, inline=True)
def two_sum(total: Any, compensation: Any, term: Any) -> Any:
    """Knuth: total + compensation is the sum so far, as if in twice the precision."""
    s = total + term
    virtual = s - total
    return s, compensation + ((total - (s - virtual)) + (term - virtual))


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
            inverse = 1.0 / max(total, TINY)
            for i in range(n_labels):
                out[i, j] *= inverse
    else:
        transfer_real(place(previous, 0), place(predicted, 0), place(edge, 0), n_labels, width, place(out, 0))


@kernel(fastmath=STRICT, inline=True)
def transfer_real(previous: Any, predicted: Any, edge: Any, n_labels: Any, width: Any, out: Any) -> None:
    """`transfer` in doubles, from place to place."""
    for c in range(0, width, WIDTH):
        inverse = splat(1.0) / maximum(load(predicted, c), splat(TINY))
        for i in range(n_labels):
            store(out, i * width + c, splat(number(previous, i)) * load(edge, i * width + c) * inverse)


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
    scale = max(row_sum(row, wide, n_labels), TINY)
    for i in range(n_labels):
        gamma[i] = real(row, i, wide) / scale
