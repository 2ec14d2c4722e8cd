"""The truth for sequences of any length in NumPy: logarithms in doubles, one position after another.

    alpha_t(j) = s_t(j) + log sum_i exp(alpha_{t-1}(i) + e_t(i, j))        beta_t(i) = log sum_j exp(e + s_{t+1} + beta)

each less its largest number.

Nothing is imported but NumPy, so that it runs where chainfold's kernels for the host do not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Chain(NamedTuple):
    """One sequence: scores of states [T, N] with those of start and end, and of edges [N, N] or [T, N, N]."""

    states: Floats
    edges: Floats

    def edge(self, t: int) -> Floats:
        """Into position t."""
        edge: Floats = self.edges if self.edges.ndim == 2 else self.edges[t]
        return edge


class Expected(NamedTuple):
    """log Z, posteriors [T, N], expected edges [T, N, N] (those of position 0 are zero), and the entropy."""

    log_z: float
    states: Floats
    edges: Floats
    entropy: float


def chain_of(batch: dict[str, Any], sequence: int, places: NDArray[np.int64], tags: bool = False) -> Chain:
    """A sequence of a batch of arrays [B, T, ...]; with `tags`, its labels agree with them (-100: any label)."""
    states = np.array(batch["emissions"][sequence, places], np.float64)
    edges = np.asarray(batch["transitions"], np.float64)
    if places.size:
        states[0] += batch["start"]
        states[-1] += batch["end"]
    if batch.get("edges") is not None:
        edges = edges + batch["edges"][sequence, places]
    if tags:
        own = batch["tags"][sequence, places]
        states[(own[:, None] != -100) & (own[:, None] != np.arange(states.shape[1]))] = -np.inf
    return Chain(states, edges)


def expected(chain: Chain, keep_edges: bool = True) -> Expected:
    """Forward and back."""
    states, (length, n) = chain.states, chain.states.shape
    if not length:
        return Expected(0.0, states, np.zeros((0, n, n)), 0.0)
    alpha, beta, total = np.empty_like(states), np.zeros_like(states), 0.0
    for t in range(length):
        now = states[t] if t == 0 else states[t] + _log_sum(alpha[t - 1][:, None] + chain.edge(t), 0)
        peak = _peak(now)
        alpha[t], total = now - peak, total + peak
    for t in range(length - 1, 0, -1):
        before = _log_sum(chain.edge(t) + states[t] + beta[t], 1)
        beta[t - 1] = before - _peak(before)
    log_z = total + float(_log_sum(alpha[-1], 0))
    with np.errstate(invalid="ignore"):
        posterior = _shares(alpha + beta)
        edges = np.zeros((length if keep_edges else 1, n, n))
        entropy = _entropy(posterior[0])
        for t in range(1, length):
            joint = _shares((alpha[t - 1][:, None] + chain.edge(t) + states[t] + beta[t]).reshape(1, -1)).reshape(n, n)
            edges[t if keep_edges else 0] += joint
            entropy += _entropy(joint) - _entropy(posterior[t - 1])
    return Expected(log_z, posterior, edges, entropy)


def best(chain: Chain) -> tuple[list[int], float]:
    """The best labels and their score."""
    states, length = chain.states, len(chain.states)
    if not length:
        return [], 0.0
    delta, back = states[0], np.zeros((length, states.shape[1]), np.int64)
    for t in range(1, length):
        reached = delta[:, None] + chain.edge(t)
        back[t] = reached.argmax(0)
        delta = states[t] + reached.max(0)
    labels = [int(delta.argmax())]
    for t in range(length - 1, 0, -1):
        labels.append(int(back[t, labels[-1]]))
    return labels[::-1], float(delta.max())


def _peak(x: Floats) -> float:
    """The largest number, which is taken out of logarithms so that they keep their digits."""
    peak = float(np.max(x))
    return 0.0 if np.isneginf(peak) else peak


def _shares(logs: Floats) -> Floats:
    """exp, so that each row adds up to one."""
    shares: Floats = np.exp(logs - _log_sum(logs, 1)[:, None])
    return shares


def _log_sum(x: Floats, axis: int) -> Floats:
    peak = np.max(x, axis=axis, keepdims=True)
    peak = np.where(np.isneginf(peak), 0.0, peak)
    with np.errstate(divide="ignore", invalid="ignore"):
        total: Floats = np.log(np.exp(x - peak).sum(axis=axis)) + np.squeeze(peak, axis)
    return total


def _entropy(shares: Floats) -> float:
    positive = shares[shares > 0.0]
    return float(-(positive * np.log(positive)).sum())
