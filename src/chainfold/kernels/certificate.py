"""The certificate: what the future can still change.

Let Q(i | f) = Pr(y_b = i | y_{b+L} = f, x up to b+L), the posterior of the boundary label i given the label f that the
future might pin L positions later. It starts as the identity and grows to the right, one position at a time:

    Q'(i | g) = Σ_f Q(i | f) · Pr(y_t = f | y_{t+1} = g, x up to t+1)

Whatever the future holds, the true posterior γ_b is a convex combination of the columns Q(· | f). So once they agree
to within a relative ε in every row, γ_b is known to within ε before the future is read; each posterior inside the
block is a combination of the γ_b(i) with non-negative coefficients, and so known to within ε too. At a start mark the
future is independent of the past, and the combination is known exactly: the weights are α.

The same agreement read the other way says what the past can still change. Start with any α_b that gives each possible
label i some weight. Pr(f | i) = Q(i | f) α_{b+L}(f) / α_b(i); so where the columns agree in every row, so do the rows
Pr(· | i), and α_{b+L} is within ε of the forward vector of any past. From there on it stays so.

All numbers are probabilities: nothing overflows, and rounding alone (about L · 1e-16) keeps the columns apart.

`look_ahead` grows Q to the right, over positions as they come. `last_certified` grows it to the left, from the head of
a stream, and finds the last position that is certified.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.core.slots import WIDTH
from chainfold.jit.decorator import CONTRACT, STRICT, kernel
from chainfold.kernels.lattice import end_posterior, transfer, transfer_real
from chainfold.kernels.simd import fma, load, number, place, splat, store
from chainfold.kernels.wide import real

NEGLIGIBLE = 1e-200
"""A posterior that is this small for any future counts as zero; products of it would underflow."""

SUBNORMAL = 1e-290  # numbers near the end of the range have too few digits left to agree or not


@kernel(fastmath=CONTRACT, inline=True)
def multiply(left: Any, right: Any, n_labels: Any, width: Any, out: Any) -> None:
    """out = left · right, four rows at a time, from place to place; left and out: [width, width], right: [N, width]."""
    for i in range(0, n_labels, 4):
        for c in range(0, width, WIDTH):
            sum0, sum1, sum2, sum3 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
            at = i * width
            for f in range(n_labels):
                row = load(right, f * width + c)
                sum0 = fma(splat(number(left, at + f)), row, sum0)
                sum1 = fma(splat(number(left, at + width + f)), row, sum1)
                sum2 = fma(splat(number(left, at + 2 * width + f)), row, sum2)
                sum3 = fma(splat(number(left, at + 3 * width + f)), row, sum3)
            at += c
            store(out, at, sum0)
            store(out, at + width, sum1)
            store(out, at + 2 * width, sum2)
            store(out, at + 3 * width, sum3)


@kernel(fastmath=STRICT, inline=True)
def row_agrees(row: Any, ignore: Any, alpha: Any, n_labels: Any, tolerance: Any) -> Any:
    """Do the columns agree in this row, those of impossible labels f left out? Rows below `ignore` need not."""
    low, high = np.inf, 0.0
    for f in range(n_labels):
        if number(alpha, f) > 0.0:  # of a wide number the first part: it may matter where a double would underflow
            x = number(row, f)
            low, high = min(low, x), max(high, x)
    return high < ignore or (low > SUBNORMAL and high - low <= tolerance * low)


@kernel(fastmath=STRICT, inline=True)
def disagreeing(q: Any, doubtful: Any, ignore: Any, alpha: Any, n_labels: Any, width: Any, tolerance: Any) -> Any:
    """A row of q whose columns do not agree, the doubtful one asked first; -1 if there is none."""
    for k in range(-1, n_labels):
        i = doubtful if k < 0 else k
        if not row_agrees(place(q, i * width), number(ignore, i), alpha, n_labels, tolerance):
            return i
    return -1


@kernel(fastmath=STRICT, inline=True)
def mix(q: Any, weight: Any, n_labels: Any, gamma: Any) -> None:
    """gamma(i) = Σ_f Q(i | f) weight(f), normalised; zero where all are."""
    total = 0.0
    for i in range(n_labels):
        gamma[i] = 0.0
        for f in range(n_labels):
            gamma[i] += q[i, f] * weight[f]
        total += gamma[i]
    for i in range(n_labels):
        gamma[i] /= total if total > 0.0 else 1.0


@kernel(fastmath=STRICT, inline=True)
def transfer_at(alpha: Any, predicted: Any, edge: Any, entry: Any, t: Any, wide: Any, n_labels: Any, out: Any) -> None:
    """out[i, j] = Pr(y_{t-1} = i | y_t = j, x up to t)."""
    at, width = 0 if edge.shape[0] == 1 else t, out.shape[1]
    if wide:
        transfer(alpha[t - 1] if t > 0 else entry, predicted[t], edge[at], True, n_labels, out)
    else:
        before = place(alpha, (t - 1) * width) if t > 0 else place(entry, 0)
        move = place(edge, at * n_labels * width)
        transfer_real(before, place(predicted, t * width), move, n_labels, width, place(out, 0))


@kernel(fastmath=STRICT)
def look_ahead(lattice: Any, tolerance: Any, ignore: Any, q: Any, scratch: Any, gamma: Any) -> Any:
    """Extend Q over one block; scratch: [2, width, width]. Returns (certified, positions looked at).

    q holds Q on entry and, where the block did not settle it, on return; where it did, gamma is the posterior of the
    boundary. ignore: [width], for each row how small it must be to count as zero.
    """
    starts, alpha, wide, n_labels, width = lattice.starts, lattice.alpha, lattice.wide, lattice.n_labels, q.shape[1]
    predicted, edge, entry = lattice.predicted, lattice.edge, lattice.entry
    columns, weight, joint = alpha.shape[1], np.zeros(width), scratch[0]
    doubtful = 0  # the row that disagreed last is asked first
    for t in range(alpha.shape[0]):
        if number(starts, t):
            previous = alpha[t - 1] if t > 0 else entry
            for f in range(n_labels):
                weight[f] = real(previous, f, wide)
            mix(q, weight, n_labels, gamma)
            return True, t
        transfer_at(alpha, predicted, edge, entry, t, wide, n_labels, joint)
        multiply(place(q, 0), place(scratch, 0), n_labels, width, place(scratch, width * width))
        for c in range(0, q.size, WIDTH):
            store(q, c, load(scratch, width * width + c))
        row = disagreeing(q, doubtful, ignore, place(alpha, t * columns), n_labels, width, tolerance)
        if row < 0:
            for f in range(n_labels):
                weight[f] = real(alpha[t], f, wide)
            mix(q, weight, n_labels, gamma)
            return True, t + 1
        doubtful = row
    return False, alpha.shape[0]


@kernel(fastmath=STRICT)
def last_certified(lattice: Any, tolerance: Any, ignore: Any, q: Any, scratch: Any, gamma: Any) -> Any:
    """The last position whose posterior is the same, to within the tolerance, for any label pinned at the head.

        Q_t(i | f) = Pr(y_t = i | y_head = f, x) = Σ_k Pr(y_t = i | y_{t+1} = k) Q_{t+1}(k | f)

    from the head back. The boundary t = -1 is the entry of the lattice. Returns t and gamma, its posterior, or -2; q is
    Q_{t+1}, from which the next call continues. Before a start mark the posterior is α.
    """
    starts, alpha, wide, n_labels, width = lattice.starts, lattice.alpha, lattice.wide, lattice.n_labels, q.shape[1]
    predicted, edge, entry = lattice.predicted, lattice.edge, lattice.entry
    head, weight, joint, product = alpha.shape[0] - 1, np.zeros(width), scratch[0], scratch[1]
    doubtful = 0
    for i in range(width):
        for f in range(width):
            q[i, f] = 1.0 if i == f else 0.0
    for t in range(head, -1, -1):
        if number(starts, t):
            end_posterior(alpha[t - 1] if t > 0 else entry, wide, n_labels, gamma)
            return t - 1
        transfer_at(alpha, predicted, edge, entry, t, wide, n_labels, joint)
        multiply(place(scratch, 0), place(q, 0), n_labels, width, place(scratch, width * width))
        row = disagreeing(product, doubtful, ignore, place(alpha, head * alpha.shape[1]), n_labels, width, tolerance)
        if row < 0:
            for f in range(n_labels):
                weight[f] = real(alpha[head], f, wide)
            mix(product, weight, n_labels, gamma)
            return t - 1
        doubtful = row
        if t > 0:
            for c in range(0, q.size, WIDTH):
                store(q, c, load(product, c))
    return -2
