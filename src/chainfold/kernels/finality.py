"""What is final of a stream: the positions behind its head that no future can change.

A window holds the positions that are not final yet, the head last. A label is final when the best paths to all labels
at the head go through it; a posterior when it is the same, to within the tolerance, whatever label the future pins at
the head. Both are asked in two steps. A guard follows the oldest position of the window and costs the same for every
position that comes, however long the window is:

    origin(j)  ← origin(back_t(j))            the label of the oldest position on the best path to label j at the head
    Q(i | g)   ← Σ_f Q(i | f) Pr(f | g)       its posterior, given the label at the head (`collapse.look_ahead`)

Only when it says that the oldest position is final, the window is searched from its head for the last one that is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.kernels.certificate import mix, multiply, row_agrees
from chainfold.kernels.messages import end_posterior, transfer
from chainfold.kernels.simd import WIDTH, fma, load, maximum, splat, store
from chainfold.kernels.wide import real
from chainfold.system.jit import CONTRACT, STRICT, kernel

_TINY = 1e-300


@kernel(fastmath=STRICT)
def follow(back: Any, heads: Any, origin: Any) -> Any:
    """Carry the origins over further positions; do those of all possible labels at the head agree?"""
    fresh = np.empty_like(origin)
    for t in range(back.shape[0]):
        for j in range(origin.size):
            fresh[j] = origin[back[t, j]]
        origin[:] = fresh
    same = True
    for k in range(1, heads.size):
        same = same and origin[heads[k]] == origin[heads[0]]
    return same


@kernel(fastmath=STRICT)
def coalesced(back: Any, heads: Any, origin: Any, labels: Any) -> Any:
    """The last position on which the best paths to all possible labels at the head agree, and the labels up to it.

    Returns how many positions that are. origin: [N], out: the label of the first position after them, for each label at
    the head.
    """
    path = heads.copy()
    for t in range(back.shape[0] - 1, -1, -1):
        same = True
        for k in range(1, path.size):
            same = same and path[k] == path[0]
        if same:
            label = path[0]
            for s in range(t, -1, -1):
                labels[s] = label
                label = back[s, label]
            return t + 1
        for k in range(path.size):
            origin[heads[k]] = path[k]
            path[k] = back[t, path[k]]
    return 0


@kernel(fastmath=STRICT)
def origins(back: Any, heads: Any, origin: Any) -> None:
    """origin(j): the label of the first position on the best path to j at the head."""
    for k in range(heads.size):
        label = heads[k]
        for t in range(back.shape[0] - 1, 0, -1):
            label = back[t, label]
        origin[heads[k]] = label


@kernel(fastmath=STRICT)
def last_certified(lattice: Any, tolerance: Any, ignore: Any, q: Any, scratch: Any, gamma: Any) -> Any:
    """The last position whose posterior is the same, to within the tolerance, whatever label is pinned at the head.

        Q_t(i | f) = Pr(y_t = i | y_head = f, x) = Σ_k Pr(y_t = i | y_{t+1} = k) Q_{t+1}(k | f)

    from the head back. The boundary t = -1 is the entry of the lattice. Returns t and gamma, its posterior, or -2; q is
    Q_{t+1}, for whoever goes on from there. Before a start mark the posterior is α.
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
                v = load(posteriors, t * width + c) / maximum(load(predicted, t * width + c), splat(_TINY))
                for i in range(n_labels):
                    at = i * width + c
                    joint = splat(previous[i]) * load(edge, base + at)
                    store(pairs, at, fma(joint, v, load(pairs, at)))
