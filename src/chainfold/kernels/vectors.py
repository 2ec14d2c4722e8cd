"""Passes over vectors as long as the model: each reads what it needs once and does with it all that there is to do.

Vectors are cut into chunks that stay in the cache from one loop to the next. A kernel works on the chunks first …
last-1 and leaves the sums of each in a row of its own, `sums[chunk]`: added in the order of the chunks, they do not
depend on which thread worked on which. A loop either sums or stores: where vectors lie close together in memory the
compiler's code stores element by element, and would sum so too, in another order.

    x point   g gradient   d direction   s, y a step and the change of the gradient   p, q moments
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainfold.jit.decorator import CONTRACT, kernel

CHUNK = 512
"""Elements. So few, that a chunk of every pair of L-BFGS, one after the other in memory, is read without a pause."""

SUMS = CONTRACT | {"reassoc"}
"""Sums may be taken in any order, as long as it is always the same: the compiler's, for chunks of a given length."""

BETA_1, BETA_2 = 0.9, 0.999  # how much of the means of g and g² Adam keeps
TINY = 1e-8  # keeps AdaGrad and Adam from dividing by zero


@kernel(fastmath=SUMS)
def penalise(first: int, last: int, sums: Any, g: Any, observed: Any, x: Any, c2: float) -> None:
    """g ← g - observed + 2 · c2 · x. Sums: x·x, observed·x."""
    for chunk in range(first, last):
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        gs, counts, xs = g[part], observed[part], x[part]
        square = score = 0.0
        for i in range(xs.size):
            square += xs[i] * xs[i]
            score += counts[i] * xs[i]
        for i in range(xs.size):
            gs[i] += 2.0 * c2 * xs[i] - counts[i]
        sums[chunk, 0], sums[chunk, 1] = square, score


@kernel(fastmath=SUMS)
def step_along(first: int, last: int, sums: Any, trial: Any, x: Any, step: float, d: Any) -> None:
    """trial ← x + step · d. No sums."""
    for chunk in range(first, last):
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        trials, xs, ds = trial[part], x[part], d[part]
        for i in range(xs.size):
            trials[i] = xs[i] + step * ds[i]


@kernel(fastmath=SUMS)
def step_within(first: int, last: int, sums: Any, trial: Any, x: Any, step: float, d: Any, downhill: Any) -> None:
    """trial ← x + step · d, zero where that leaves the orthant. Sums: (trial - x)·downhill, ‖trial‖₁.

    The orthant of a weight that is zero is the side on which the objective falls.
    """
    for chunk in range(first, last):
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        trials, xs, ds, downs = trial[part], x[part], d[part], downhill[part]
        for i in range(xs.size):
            z = xs[i] + step * ds[i]
            side = -downs[i] if xs[i] == 0.0 else xs[i]
            trials[i] = z if (z > 0.0 and side > 0.0) or (z < 0.0 and side < 0.0) else 0.0
        promised = size = 0.0
        for i in range(xs.size):
            promised += (trials[i] - xs[i]) * downs[i]
            size += abs(trials[i])
        sums[chunk, 0], sums[chunk, 1] = promised, size


@kernel(fastmath=SUMS)
def keep(first: int, last: int, sums: Any, kept: Any, g: Any, d: Any) -> None:
    """kept ← g. Sum: g·d."""
    for chunk in range(first, last):
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        copies, gs, ds = kept[part], g[part], d[part]
        slope = 0.0
        for i in range(gs.size):
            slope += gs[i] * ds[i]
        for i in range(gs.size):
            copies[i] = gs[i]
        sums[chunk, 0] = slope


@kernel(fastmath=SUMS)
def arrive(
    first: int,
    last: int,
    sums: Any,
    x: Any,
    x_before: Any,
    g: Any,
    g_before: Any,
    c1: float,
    downhill: Any,
    pairs: Any,
    new: int,
) -> None:
    """Pair `new` ← x - x_before, g - g_before, if it is not -1; downhill ← the pseudo-gradient if c1 > 0, else it is g.

    pairs[chunk] holds a chunk of each s, then of each y. Sums: s·s of the new pair, x·x, downhill·downhill, how many x
    are not zero; from 4 on, for each s and each y, its products with the new y and with downhill.
    """
    for chunk in range(first, last):
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        xs, xs_before, gs, gs_before, downs = x[part], x_before[part], g[part], g_before[part], downhill[part]
        rows = pairs[chunk]
        y = rows[rows.shape[0] // 2 + max(new, 0)]
        square = length = steepness = active = 0.0
        if new >= 0:
            s = rows[new]
            for i in range(xs.size):
                s[i] = xs[i] - xs_before[i]
            for i in range(xs.size):
                y[i] = gs[i] - gs_before[i]
            for i in range(xs.size):
                square += s[i] * s[i]
        if c1 > 0.0:
            for i in range(xs.size):
                low, high = gs[i] - c1, gs[i] + c1
                at_kink = low if low > 0.0 else (high if high < 0.0 else 0.0)
                downs[i] = high if xs[i] > 0.0 else (low if xs[i] < 0.0 else at_kink)
        for i in range(xs.size):
            length += xs[i] * xs[i]
            steepness += downs[i] * downs[i]
            active += 1.0 if xs[i] != 0.0 else 0.0
        sums[chunk, 0], sums[chunk, 1], sums[chunk, 2], sums[chunk, 3] = square, length, steepness, active
        for k in range(rows.shape[0]):
            row = rows[k]
            with_y = with_downhill = 0.0
            for i in range(xs.size):
                with_y += row[i] * y[i]
                with_downhill += row[i] * downs[i]
            sums[chunk, 4 + 2 * k], sums[chunk, 5 + 2 * k] = with_y, with_downhill


@kernel(fastmath=SUMS)
def combine(
    first: int, last: int, sums: Any, d: Any, scale: float, downhill: Any, shares: Any, pairs: Any, align: bool
) -> None:
    """d ← scale · downhill + Σ shares[k] · pairs[:, k]; aligned: zero where that is not against downhill.

    Sums: d·downhill, d·d.
    """
    for chunk in range(first, last):
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        ds, downs, rows = d[part], downhill[part], pairs[chunk]
        for i in range(ds.size):
            ds[i] = scale * downs[i]
        for k in range(rows.shape[0]):
            row, share = rows[k], shares[k]
            if share != 0.0:
                for i in range(ds.size):
                    ds[i] += share * row[i]
        if align:
            for i in range(ds.size):
                ds[i] = 0.0 if ds[i] * downs[i] >= 0.0 else ds[i]
        slope = square = 0.0
        for i in range(ds.size):
            slope += ds[i] * downs[i]
            square += ds[i] * ds[i]
        sums[chunk, 0], sums[chunk, 1] = slope, square


@kernel(fastmath=SUMS)
def sgd(
    first: int, last: int, sums: Any, x: Any, g: Any, shrink: float, total: Any, rate: float, steps: int, moments: Any
) -> None:
    """x ← x - rate · g, with shrink · x added to g, and g to the total. Sums, of what was before: g·g, x·x."""
    for chunk in range(first, last):
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        xs, gs, totals = x[part], g[part], total[part]
        square = length = 0.0
        for i in range(xs.size):
            square += gs[i] * gs[i]
            length += xs[i] * xs[i]
        for i in range(xs.size):
            whole = gs[i] + shrink * xs[i]
            totals[i] += whole
            xs[i] -= rate * whole
        sums[chunk, 0], sums[chunk, 1] = square, length


@kernel(fastmath=SUMS)
def adagrad(
    first: int, last: int, sums: Any, x: Any, g: Any, shrink: float, total: Any, rate: float, steps: int, moments: Any
) -> None:
    """As `sgd`, with q ← q + g² and x ← x - rate · g / (√q + ε)."""
    for chunk in range(first, last):
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        xs, gs, totals, qs = x[part], g[part], total[part], moments[0][part]
        square = length = 0.0
        for i in range(xs.size):
            square += gs[i] * gs[i]
            length += xs[i] * xs[i]
        for i in range(xs.size):
            whole = gs[i] + shrink * xs[i]
            totals[i] += whole
            q = qs[i] + whole * whole
            qs[i] = q
            xs[i] -= np.divide(rate * whole, math.sqrt(q) + TINY)
        sums[chunk, 0], sums[chunk, 1] = square, length


@kernel(fastmath=SUMS)
def adam(
    first: int, last: int, sums: Any, x: Any, g: Any, shrink: float, total: Any, rate: float, steps: int, moments: Any
) -> None:
    """As `sgd`, with p and q the means of g and g², and x ← x - rate · p̂ / (√q̂ + ε)."""
    short_p, short_q = 1.0 / (1.0 - BETA_1**steps), 1.0 / (1.0 - BETA_2**steps)
    for chunk in range(first, last):
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        xs, gs, totals, ps, qs = x[part], g[part], total[part], moments[0][part], moments[1][part]
        square = length = 0.0
        for i in range(xs.size):
            square += gs[i] * gs[i]
            length += xs[i] * xs[i]
        for i in range(xs.size):
            totals[i] += gs[i] + shrink * xs[i]
        for i in range(xs.size):
            whole = gs[i] + shrink * xs[i]
            ps[i] += (1.0 - BETA_1) * (whole - ps[i])
            qs[i] += (1.0 - BETA_2) * (whole * whole - qs[i])
        for i in range(xs.size):
            xs[i] -= np.divide(rate * short_p * ps[i], math.sqrt(short_q * qs[i]) + TINY)
        sums[chunk, 0], sums[chunk, 1] = square, length
