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

from chainfold.kernels.lattice import end_posterior, transfer
from chainfold.kernels.simd import fma, load, splat, store
from chainfold.kernels.slots import WIDTH
from chainfold.kernels.wide import real
from chainfold.system.jit import CONTRACT, STRICT, kernel

NEGLIGIBLE = 1e-200
"""A posterior that is this small for any future counts as zero; products of it would underflow."""

_SUBNORMAL = 1e-290  # numbers near the end of the range have too few digits left to agree or not


@kernel(fastmath=CONTRACT)
def multiply(left: Any, right: Any, n_labels: Any, out: Any) -> None:
    """out = left · right, four rows at a time; left and out: [width, width], right: [N, width]."""
    width = out.shape[1]
    for i in range(0, n_labels, 4):
        for c in range(0, width, WIDTH):
            sum0, sum1, sum2, sum3 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
            for f in range(n_labels):
                row = load(right, f * width + c)
                sum0 = fma(splat(left[i, f]), row, sum0)
                sum1 = fma(splat(left[i + 1, f]), row, sum1)
                sum2 = fma(splat(left[i + 2, f]), row, sum2)
                sum3 = fma(splat(left[i + 3, f]), row, sum3)
            at = i * width + c
            store(out, at, sum0)
            store(out, at + width, sum1)
            store(out, at + 2 * width, sum2)
            store(out, at + 3 * width, sum3)


@kernel(fastmath=STRICT, inline=True)
def row_agrees(row: Any, ignore: Any, alpha: Any, n_labels: Any, tolerance: Any) -> Any:
    """Do the columns agree in this row, those of impossible labels f left out? Rows below `ignore` need not."""
    low, high = np.inf, 0.0
    for f in range(n_labels):
        if alpha[f] > 0.0:  # of a wide number the first part: it may still matter where a double would underflow
            low = min(low, row[f])
            high = max(high, row[f])
    return high < ignore or (low > _SUBNORMAL and high - low <= tolerance * low)


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


@kernel(fastmath=STRICT)
def look_ahead(lattice: Any, tolerance: Any, ignore: Any, q: Any, scratch: Any, gamma: Any) -> Any:
    """Extend Q over one block; scratch: [2, width, width]. Returns (certified, positions looked at).

    q holds Q on entry and, where the block did not settle it, on return; where it did, gamma is the posterior of the
    boundary. ignore: [width], for each row how small it must be to count as zero.
    """
    alpha, edge, wide, n_labels = lattice.alpha, lattice.edge, lattice.wide, lattice.n_labels
    step = 1 if edge.shape[0] > 1 else 0
    weight = np.zeros(q.shape[1])
    doubtful = 0  # the row that disagreed last is asked first
    for t in range(alpha.shape[0]):
        previous = alpha[t - 1] if t > 0 else lattice.entry
        if lattice.starts[t]:
            for f in range(n_labels):
                weight[f] = real(previous, f, wide)
            mix(q, weight, n_labels, gamma)
            return True, t
        transfer(previous, lattice.predicted[t], edge[t * step], wide, n_labels, scratch[0])
        multiply(q, scratch[0], n_labels, scratch[1])
        for c in range(0, q.size, WIDTH):
            store(q, c, load(scratch[1], c))
        if row_agrees(q[doubtful], ignore[doubtful], alpha[t], n_labels, tolerance):
            certified = True
            for i in range(n_labels):
                if not row_agrees(q[i], ignore[i], alpha[t], n_labels, tolerance):
                    certified, doubtful = False, i
                    break
            if certified:
                for f in range(n_labels):
                    weight[f] = real(alpha[t], f, wide)
                mix(q, weight, n_labels, gamma)
                return True, t + 1
    return False, alpha.shape[0]


@kernel(fastmath=STRICT)
def last_certified(lattice: Any, tolerance: Any, ignore: Any, q: Any, scratch: Any, gamma: Any) -> Any:
    """The last position whose posterior is the same, to within the tolerance, for any label pinned at the head.

        Q_t(i | f) = Pr(y_t = i | y_head = f, x) = Σ_k Pr(y_t = i | y_{t+1} = k) Q_{t+1}(k | f)

    from the head back. The boundary t = -1 is the entry of the lattice. Returns t and gamma, its posterior, or -2; q is
    Q_{t+1}, from which the next call continues. Before a start mark the posterior is α.
    """
    alpha, edge, wide, n_labels = lattice.alpha, lattice.edge, lattice.wide, lattice.n_labels
    width = q.shape[1]
    step = 1 if edge.shape[0] > 1 else 0
    head = alpha[alpha.shape[0] - 1]
    weight = np.zeros(width)
    doubtful = 0
    for i in range(width):
        for f in range(width):
            q[i, f] = 1.0 if i == f else 0.0
    for t in range(alpha.shape[0] - 1, -1, -1):
        previous = alpha[t - 1] if t > 0 else lattice.entry
        if lattice.starts[t]:
            end_posterior(previous, wide, n_labels, gamma)
            return t - 1
        transfer(previous, lattice.predicted[t], edge[t * step], wide, n_labels, scratch[0])
        multiply(scratch[0], q, n_labels, scratch[1])
        certified = row_agrees(scratch[1, doubtful], ignore[doubtful], head, n_labels, tolerance)
        if certified:
            for i in range(n_labels):
                if not row_agrees(scratch[1, i], ignore[i], head, n_labels, tolerance):
                    certified, doubtful = False, i
                    break
        if certified:
            for f in range(n_labels):
                weight[f] = real(head, f, wide)
            mix(scratch[1], weight, n_labels, gamma)
            return t - 1
        if t > 0:
            for c in range(0, q.size, WIDTH):
                store(q, c, load(scratch[1], c))
    return -2
