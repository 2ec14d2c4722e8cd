"""The algorithms that carry expectations in the log domain, as published.

A signed logarithm is a pair (l, σ), σ in {-1, 0, +1}, for the number σ · e^l: feature values may be negative, for
which the paper's ln f has no meaning. ⊕ adds two such numbers.

u_t(i,j) = e_t(i,j) + s_t(j) are the paper's local kernels; at a start mark u_t(i,j) = s_t(j), the same for each i,
which is all that it takes to cut the chain: the recursions below need no other rule for it. Before the first position
the chain is in one state only (label 0 by convention), where the paper sums over a free y_0.

Feature m is active on (i, j) at t when it belongs to an attribute of t and the label j, to the transition (i, j), or to
an edge attribute of t and (i, j); `FeatureIndex` numbers them in the order of the weights.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainfold.core.faults import NOT_FINITE, OK, ZERO
from chainfold.system.jit import STRICT, kernel


@kernel(fastmath=STRICT, inline=True)
def signed_add(a: Any, sign_a: Any, b: Any, sign_b: Any) -> Any:
    """(a, σ_a) ⊕ (b, σ_b), from the larger of the two, so that nothing overflows."""
    if sign_b == 0 or b == -np.inf:
        return a, sign_a
    if sign_a == 0 or a == -np.inf:
        return b, sign_b
    if a < b:
        a, b = b, a
        sign_a, sign_b = sign_b, sign_a
    if sign_a == sign_b:
        return a + math.log1p(math.exp(b - a)), sign_a
    if a == b:
        return -np.inf, 0
    return a + math.log1p(-math.exp(b - a)), sign_a


@kernel(fastmath=STRICT)
def signed_total(logs: Any, signs: Any) -> Any:
    """⊕ of everything in a vector."""
    total, sign = -np.inf, 0
    for k in range(logs.size):
        total, sign = signed_add(total, sign, logs[k], signs[k])
    return total, sign


@kernel(fastmath=STRICT, inline=True)
def local_kernel(block: Any, scores: Any, edge: Any, t: Any, n_labels: Any, out: Any) -> None:
    """out[i, j] = u_t(i, j)."""
    width = scores.shape[1]
    step = 1 if edge.shape[0] > 1 else 0
    for i in range(n_labels):
        for j in range(n_labels):
            out[i, j] = scores[t, j] + (0.0 if block.starts[t] else edge[t * step, i * width + j])


@kernel(fastmath=STRICT)
def active(block: Any, features: Any, t: Any, feature: Any, label: Any, origin: Any, value: Any) -> Any:
    """List the features active at t: their number m, their label j, their i or -1 for any, their value."""
    n_labels = features.n_labels
    count = 0
    for k in range(block.offsets[t], block.offsets[t + 1]):
        for m in range(features.begin[block.ids[k]], features.begin[block.ids[k] + 1]):
            feature[count], label[count], origin[count] = m, features.label[m], -1
            value[count] = 1.0 if block.values.size == 0 else block.values[k]
            count += 1
    if not block.starts[t]:
        base = features.label.size
        for pair in range(n_labels * n_labels):
            feature[count], label[count], origin[count] = base + pair, pair % n_labels, pair // n_labels
            value[count] = 1.0
            count += 1
        if block.edge_offsets.size:
            for k in range(block.edge_offsets[t], block.edge_offsets[t + 1]):
                base = features.label.size + (block.edge_ids[k] + 1) * n_labels * n_labels
                for pair in range(n_labels * n_labels):
                    feature[count], label[count], origin[count] = base + pair, pair % n_labels, pair // n_labels
                    value[count] = 1.0 if block.edge_values.size == 0 else block.edge_values[k]
                    count += 1
    return count


@kernel(fastmath=STRICT)
def most_active(block: Any, features: Any) -> Any:
    """Room for the longest list of active features in the block."""
    most = 0
    for t in range(block.labels.size):
        count = features.n_labels * features.n_labels
        for k in range(block.offsets[t], block.offsets[t + 1]):
            count += features.begin[block.ids[k] + 1] - features.begin[block.ids[k]]
        if block.edge_offsets.size:
            count += (block.edge_offsets[t + 1] - block.edge_offsets[t]) * features.n_labels * features.n_labels
        most = max(most, count)
    return most


@kernel(fastmath=STRICT, inline=True)
def forward_z(z: Any, u: Any, n_labels: Any, out: Any) -> Any:
    """out(j) = ⊕_i u(i, j) + z(i); returns their maximum, -inf where no label is possible, nan for a bad score."""
    peak = -np.inf
    for j in range(n_labels):
        total, sign = -np.inf, 0
        for i in range(n_labels):
            if not u[i, j] < np.inf:
                return np.nan
            total, sign = signed_add(total, sign, u[i, j] + z[i], 1)
        if not total < np.inf:
            return np.nan
        out[j] = total
        peak = max(peak, total)
    return peak


@kernel(fastmath=STRICT)
def carry_expectations(block: Any, scores: Any, edge: Any, features: Any, z: Any, h: Any, sign: Any) -> Any:
    """Algorithm 2, the forward pass over the log-domain expectation semiring, over one block.

        ẑ(j)   = ⊕_i u_t(i,j) + z(i)
        ĥ_m(j) = ⊕_i u_t(i,j) + h_m(i)   ⊕   ⊕_i u_t(i,j) + z(i) + ln f_m(i, j, x, t)

    z: [N], log α^(z). h and sign: [M, 1, N], signed log α^(h). With [M, N, N] it is the older forward-only algorithm:
    each label i after which a feature was seen has a recursion of its own, and they are summed at the very end; that
    their sum obeys the same recursion is the step from there to here.

    Returns (status, position of the fault).
    """
    n_labels, places = features.n_labels, h.shape[1]
    u = np.empty((n_labels, n_labels))
    z_hat, h_hat, sign_hat = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels, np.int8)
    room = most_active(block, features)
    feature, label, origin = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    value = np.empty(room)
    for t in range(block.labels.size):
        local_kernel(block, scores, edge, t, n_labels, u)
        peak = forward_z(z, u, n_labels, z_hat)
        if not peak > -np.inf:
            return ZERO if peak == -np.inf else NOT_FINITE, t
        for m in range(h.shape[0]):
            for place in range(places):
                old, old_sign = h[m, place], sign[m, place]
                for j in range(n_labels):
                    h_hat[j], sign_hat[j] = -np.inf, 0
                    for i in range(n_labels):
                        h_hat[j], sign_hat[j] = signed_add(h_hat[j], sign_hat[j], u[i, j] + old[i], old_sign[i])
                for j in range(n_labels):
                    old[j], old_sign[j] = h_hat[j], sign_hat[j]
        for k in range(active(block, features, t, feature, label, origin, value)):
            m, j = feature[k], label[k]
            if value[k] == 0.0:
                continue
            ln_f = math.log(abs(value[k]))
            sign_f = 1 if value[k] > 0.0 else -1
            for i in range(n_labels):
                if origin[k] == i or origin[k] < 0:
                    place = i if places > 1 else 0
                    term = u[i, j] + z[i] + ln_f
                    h[m, place, j], sign[m, place, j] = signed_add(h[m, place, j], sign[m, place, j], term, sign_f)
        for j in range(n_labels):
            z[j] = z_hat[j]
    return OK, 0


@kernel(fastmath=STRICT)
def kernels_and_forward(block: Any, scores: Any, edge: Any, u: Any, entry: Any, alpha: Any) -> Any:
    """Algorithm 1, first half: u[t] = u_t and α_t(j) = ⊕_i u_t(i,j) + α_{t-1}(i). u: [B, N, N], alpha: [B, N].

    Returns (status, position of the fault).
    """
    n_labels = alpha.shape[1]
    previous = entry
    for t in range(block.labels.size):
        local_kernel(block, scores, edge, t, n_labels, u[t])
        peak = forward_z(previous, u[t], n_labels, alpha[t])
        if not peak > -np.inf:
            return ZERO if peak == -np.inf else NOT_FINITE, t
        previous = alpha[t]
    return OK, 0


@kernel(fastmath=STRICT)
def local_kernels(block: Any, scores: Any, edge: Any, u: Any) -> None:
    """Algorithm 1, where they are not kept: u[t] = u_t once more. u: [B, N, N]."""
    for t in range(block.labels.size):
        local_kernel(block, scores, edge, t, u.shape[1], u[t])


@kernel(fastmath=STRICT)
def backward_vectors(u: Any, beta: Any) -> None:
    """Algorithm 1: β_{t-1}(i) = ⊕_j u_t(i,j) + β_t(j); beta: [B + 1, N], its last row given."""
    n_labels = beta.shape[1]
    for t in range(u.shape[0] - 1, -1, -1):
        for i in range(n_labels):
            total, sign = -np.inf, 0
            for j in range(n_labels):
                total, sign = signed_add(total, sign, u[t, i, j] + beta[t + 1, j], 1)
            beta[t, i] = total


@kernel(fastmath=STRICT)
def terminate(block: Any, u: Any, entry: Any, alpha: Any, beta: Any, features: Any, gradient: Any, sign: Any) -> None:
    """Algorithm 1, termination: ln ∇_m ⊕= α_{t-1}(i) + u_t(i,j) + β_t(j) + ln f_m(i, j, x, t)."""
    n_labels = features.n_labels
    room = most_active(block, features)
    feature, label, origin = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    value = np.empty(room)
    for t in range(block.labels.size):
        previous = alpha[t - 1] if t > 0 else entry
        for k in range(active(block, features, t, feature, label, origin, value)):
            m, j = feature[k], label[k]
            if value[k] == 0.0:
                continue
            ln_f = math.log(abs(value[k]))
            sign_f = 1 if value[k] > 0.0 else -1
            for i in range(n_labels):
                if origin[k] == i or origin[k] < 0:
                    v = previous[i] + u[t, i, j] + beta[t + 1, j]
                    gradient[m], sign[m] = signed_add(gradient[m], sign[m], v + ln_f, sign_f)
