"""Posteriors, drawn labellings, probabilities and entropy of sequences, and expected transitions.

They are computed from a block after the forward pass, in doubles or in wide numbers (`kernels.lattice`).

    Pr(i | j) = Pr(y_{t-1} = i | y_t = j, x up to t) = α_{t-1}(i) E_t(i,j) / predicted_t(j)

is all that probabilities and entropies need: it is local, so a sequence of any length loses no digits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainfold.core.slots import WIDTH
from chainfold.jit.decorator import CONTRACT, STRICT, kernel
from chainfold.kernels.lattice import TINY, end_posterior, log_conditional, row_sum, transfer, two_sum
from chainfold.kernels.simd import fma, load, maximum, splat, store
from chainfold.kernels.wide import log_share, power, wide_exp

_NORMALISED = 32  # positions after which a posterior is made to add up to one


@kernel(fastmath=CONTRACT)
def posteriors(lattice: Any, edge_t: Any, gamma: Any, out: Any) -> None:
    """γ_{t-1}(i) = α_{t-1}(i) Σ_j E_t(i,j) γ_t(j) / predicted_t(j); before a start mark α_{t-1}, normalised.

    gamma: [width], of the last position in, of the position before the block out. out: [B, width].
    edge_t: [N, width], E transposed, for a lattice of real numbers with one transition matrix; else empty.
    """
    alpha, predicted, edge, wide = lattice.alpha, lattice.predicted, lattice.edge, lattice.wide
    width, n_labels = out.shape[1], lattice.n_labels
    step = 1 if edge.shape[0] > 1 else 0
    scratch = np.zeros((n_labels, width))
    v = scratch[0]
    for t in range(alpha.shape[0] - 1, -1, -1):
        previous = alpha[t - 1] if t > 0 else lattice.entry
        for c in range(0, width, WIDTH):
            store(out, t * width + c, load(gamma, c))
        if lattice.starts[t]:
            end_posterior(previous, wide, n_labels, gamma)
        elif edge_t.size:
            for c in range(0, width, WIDTH):
                store(v, c, load(gamma, c) / maximum(load(predicted, t * width + c), splat(TINY)))
            for c in range(0, width, WIDTH):
                total = splat(0.0)
                for j in range(n_labels):
                    total = fma(splat(v[j]), load(edge_t, j * width + c), total)
                store(gamma, c, load(previous, c) * total)
        else:
            transfer(previous, predicted[t], edge[t * step], wide, n_labels, scratch)
            for i in range(n_labels):
                gamma[i] = 0.0
                for j in range(n_labels):
                    gamma[i] += scratch[i, j] * out[t, j]
        if t % _NORMALISED == 0:
            total = 0.0
            for i in range(n_labels):
                total += gamma[i]
            for i in range(n_labels):
                gamma[i] /= max(total, TINY)


@kernel(fastmath=STRICT)
def draw(lattice: Any, posterior: Any, uniforms: Any, labels: Any) -> None:
    """Pr(y_t = j | y_{t-1} = i, all x) ∝ E_t(i,j) v_t(j), v_t(j) = γ_t(j) / predicted_t(j); at a start mark γ_t(j).

    uniforms: [B, k], one number from [0, 1) for each label. labels: [1 + B, k], those before the block first.
    """
    predicted, edge, wide = lattice.predicted, lattice.edge, lattice.wide
    width, n_labels = posterior.shape[1], lattice.n_labels
    step = 1 if edge.shape[0] > 1 else 0
    v, weight, powers = np.empty(n_labels), np.empty(n_labels), np.zeros(n_labels)
    for t in range(posterior.shape[0]):
        start = lattice.starts[t]
        for j in range(n_labels):
            v[j] = posterior[t, j] if start else posterior[t, j] / max(predicted[t, j], TINY)
        for k in range(labels.shape[1]):
            base = labels[t, k] * width
            top, total = -np.inf, 0.0
            for j in range(n_labels):
                weight[j], powers[j] = v[j], 0.0
                if wide and not start:
                    m, powers[j] = wide_exp(edge[t * step, base + j])
                    weight[j] *= m
                    powers[j] -= predicted[t, width + j] if weight[j] > 0.0 else 0.0
                elif not start:
                    weight[j] *= edge[t * step, base + j]
                if weight[j] > 0.0:
                    top = max(top, powers[j])
            for j in range(n_labels):
                weight[j] = weight[j] * power(powers[j] - top) if weight[j] > 0.0 else 0.0
                total += weight[j]
            rest, label = uniforms[t, k] * total, 0
            for j in range(n_labels):
                if weight[j] > 0.0 and rest >= 0.0:
                    label = j
                    rest -= weight[j]
            labels[t + 1, k] = label


@kernel(fastmath=STRICT, inline=True)
def log_posterior(alpha: Any, label: Any, wide: Any, n_labels: Any) -> Any:
    """log γ(label) of a position where a sequence ends: its α, normalised."""
    return log_share(alpha, label, wide, row_sum(alpha, wide, n_labels))


@kernel(fastmath=STRICT)
def best_probability(lattice: Any, ends: Any, back: Any, finals: Any, logs: Any, total: Any, out: Any) -> None:
    """log p of the best labelling: l_t(j) = l_{t-1}(i) + log Pr(i | j) with i = back_t(j); at the end + log γ_T.

    logs: [N] and total: [2], what was taken out of them, are carried. out: for each sequence that ends here.
    """
    alpha, edge, wide, n_labels = lattice.alpha, lattice.edge, lattice.wide, lattice.n_labels
    step = 1 if edge.shape[0] > 1 else 0
    fresh = np.empty(n_labels)
    sequence = 0
    for t in range(alpha.shape[0]):
        previous = alpha[t - 1] if t > 0 else lattice.entry
        if lattice.starts[t]:
            for j in range(n_labels):
                logs[j] = 0.0
            total[0], total[1] = 0.0, 0.0
        else:
            high = -np.inf
            for j in range(n_labels):
                i = back[t, j]
                fresh[j] = logs[i] + log_conditional(previous, lattice.predicted[t], edge[t * step], i, j, wide)
                high = max(high, fresh[j])
            for j in range(n_labels):
                logs[j] = fresh[j] - high
            total[0], total[1] = two_sum(total[0], total[1], high)
        if ends[t]:
            label = finals[sequence]
            out[sequence] = total[0] + (total[1] + logs[label] + log_posterior(alpha[t], label, wide, n_labels))
            sequence += 1


@kernel(fastmath=STRICT)
def given_probability(lattice: Any, ends: Any, before: Any, total: Any, out: Any) -> None:
    """log p of the block's own labels: Σ_t log Pr(y_{t-1} | y_t) + log γ_T(y_T); not a number where a label is unknown.

    before: the label before the block. total: [2], the sum since the sequence began, carried.
    """
    alpha, edge, wide, n_labels = lattice.alpha, lattice.edge, lattice.wide, lattice.n_labels
    step = 1 if edge.shape[0] > 1 else 0
    sequence = 0
    for t in range(alpha.shape[0]):
        previous = alpha[t - 1] if t > 0 else lattice.entry
        label = lattice.labels[t]
        if lattice.starts[t]:
            total[0], total[1] = 0.0, 0.0
        term = 0.0
        if label < 0 or (before < 0 and not lattice.starts[t]):
            term = np.nan
        else:
            if not lattice.starts[t]:
                term = log_conditional(previous, lattice.predicted[t], edge[t * step], before, label, wide)
            if ends[t]:
                term += log_posterior(alpha[t], label, wide, n_labels)
        if term > -np.inf and total[0] > -np.inf:
            total[0], total[1] = two_sum(total[0], total[1], term)
        else:
            total[0], total[1] = total[0] + term, 0.0
        if ends[t]:
            out[sequence] = total[0] + total[1]
            sequence += 1
        before = label


@kernel(fastmath=STRICT)
def entropy(lattice: Any, ends: Any, log_edge: Any, given: Any, total: Any, out: Any) -> None:
    """h_t(j) = Σ_i Pr(i | j) (h_{t-1}(i) - log Pr(i | j)), the entropy of the labels up to t given the last one; at the
    end H = Σ_j γ(j) (h(j) - log γ(j)).

    given: [width], h, and total: [2], what was taken out of it, are carried. log_edge: [N · width], log E or 0 where E
    is zero, for a lattice of real numbers with one transition matrix.
    """
    alpha, edge, wide, n_labels = lattice.alpha, lattice.edge, lattice.wide, lattice.n_labels
    width = given.size
    step = 1 if edge.shape[0] > 1 else 0
    logs = log_edge if log_edge.size else np.zeros(n_labels * width)
    inverse, fresh = np.zeros(width), np.zeros(width)
    sequence = 0
    for t in range(alpha.shape[0]):
        previous = alpha[t - 1] if t > 0 else lattice.entry
        predicted = lattice.predicted[t]
        if lattice.starts[t]:
            for j in range(n_labels):
                given[j] = 0.0
            total[0], total[1] = 0.0, 0.0
        else:
            for j in range(n_labels):
                possible = predicted[j] > 0.0
                fresh[j] = math.log(predicted[j]) if possible and not wide else 0.0
                inverse[j] = 1.0 / predicted[j] if possible and not wide else 0.0
            if wide:
                for i in range(n_labels):
                    for j in range(n_labels):
                        term = log_conditional(previous, predicted, edge[t * step], i, j, wide)
                        if term > -np.inf:
                            fresh[j] += math.exp(term) * (given[i] - term)
            else:
                if log_edge.size == 0:
                    for k in range(logs.size):
                        logs[k] = math.log(edge[t * step, k]) if edge[t * step, k] > 0.0 else 0.0
                for i in range(n_labels):
                    if previous[i] > 0.0:
                        own = given[i] - math.log(previous[i])
                        for j in range(width):
                            share = previous[i] * edge[t * step, i * width + j] * inverse[j]
                            fresh[j] += share * (own - logs[i * width + j])
            high = -np.inf
            for j in range(n_labels):
                if predicted[j] > 0.0:
                    high = max(high, fresh[j])
            for j in range(n_labels):
                given[j] = fresh[j] - high if predicted[j] > 0.0 else 0.0
            total[0], total[1] = two_sum(total[0], total[1], high)
        if ends[t]:
            rest = 0.0
            for j in range(n_labels):
                log_gamma = log_posterior(alpha[t], j, wide, n_labels)
                if log_gamma > -np.inf:
                    rest += math.exp(log_gamma) * (given[j] - log_gamma)
            out[sequence] = max(total[0] + (total[1] + rest), 0.0)
            sequence += 1


@kernel(fastmath=CONTRACT)
def count_pairs(lattice: Any, posteriors: Any, pairs: Any) -> None:
    """pairs(i, j) += Σ_t ξ_t(i, j), ξ_t(i, j) = Pr(y_{t-1} = i | y_t = j) γ_t(j), but at start marks; [N, width]."""
    alpha, predicted, edge, wide = lattice.alpha, lattice.predicted, lattice.edge, lattice.wide
    width, n_labels = posteriors.shape[1], lattice.n_labels
    step = 1 if edge.shape[0] > 1 else 0
    scratch = np.zeros((n_labels, width))
    for t in range(alpha.shape[0]):
        if lattice.starts[t]:
            continue
        previous = alpha[t - 1] if t > 0 else lattice.entry
        if wide:
            transfer(previous, predicted[t], edge[t * step], wide, n_labels, scratch)
            for i in range(n_labels):
                for j in range(n_labels):
                    pairs[i, j] += scratch[i, j] * posteriors[t, j]
        else:
            base = t * step * n_labels * width
            for c in range(0, width, WIDTH):
                v = load(posteriors, t * width + c) / maximum(load(predicted, t * width + c), splat(TINY))
                for i in range(n_labels):
                    at = i * width + c
                    joint = splat(previous[i]) * load(edge, base + at)
                    store(pairs, at, fma(joint, v, load(pairs, at)))
