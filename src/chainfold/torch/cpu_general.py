"""Sequences of any kind, one at a time: wide numbers, weights of positions, transitions of positions' own.

`engines.block_pass` goes forward and `backward_general` back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import NO_FLOW, Flow, Passed, forward_pass, lattice_of
from chainfold.errors import ScoreNotFinite, ZeroProbability
from chainfold.kernels.backward import path_likelihood
from chainfold.kernels.lattice import Lattice
from chainfold.model.layout import Floats
from chainfold.torch.batch_kernels import backward_general
from chainfold.torch.cpu_batch import CpuBatch

NO_NUMBERS = np.empty(0)


class Observed(NamedTuple):
    """The tags of a batch."""

    tags: NDArray[np.int64]  # [R]
    weights: Floats  # [R], or empty: all ones
    known: bool  # else some positions have a set of labels


class GradientSums(NamedTuple):
    """A gradient while it is added up."""

    emissions: NDArray[np.float32] | Floats  # [R, N]
    edges: NDArray[np.float32] | Floats  # [R, N, N], or empty
    pairs: Floats  # [N, width]  by the transitions
    ends: Floats  # [2, width]  by the start and end scores

    @classmethod
    def of(cls, batch: CpuBatch) -> GradientSums:
        """Zeros."""
        n, width, kind = batch.n_labels, batch.width, batch.emissions.dtype
        edges = np.zeros(batch.edges.shape, kind)
        return cls(np.zeros(batch.emissions.shape, kind), edges, np.zeros((n, width)), np.zeros((2, width)))


def weighted_likelihoods(batch: CpuBatch, seen: Observed, alpha: Floats) -> Floats:
    """[S] Σ_t w_t log p(y_t | y_{t+1}, x up to t) of each sequence."""
    offsets = batch.layout.offsets
    values = np.zeros(offsets.size - 1)
    alpha[:] = np.nan
    for s in np.flatnonzero(np.diff(offsets)):
        passed, _ = passed_sequence(batch, int(s))
        values[s] = np.nan if passed is None else _weighted(batch, seen, int(s), passed)
    return values


def _weighted(batch: CpuBatch, seen: Observed, s: int, passed: Passed) -> float:
    rows = _rows(batch, s)
    lattice = _lattice(batch, s, passed, seen)
    total, _ = path_likelihood(lattice, 0, 0.0)
    last = float(passed.exit.logs()[seen.tags[rows[-1]]]) * seen.weights[rows[-1]] if seen.weights[rows[-1]] else 0.0
    return float(total + last)


def add_sequence(batch: CpuBatch, s: int, factor: float, total: GradientSums, seen: Observed | None) -> None:
    """Add factor times the gradient of the log Z of a sequence, or of its flow where positions have weights."""
    n, rows = batch.n_labels, _rows(batch, s)
    passed, _ = passed_sequence(batch, s)
    if passed is None:  # not a number, as the likelihood
        for sums in (total.pairs, total.ends):
            sums[:] = np.nan
        total.emissions[rows] = np.nan
        return
    weight = 1.0
    if seen is not None and seen.weights.size:
        weight = float(seen.weights[rows[-1]])
    lattice = _lattice(batch, s, passed, seen)
    gamma = passed.exit.posterior(weight)
    total.ends[1] += factor * gamma
    out = np.zeros((rows.size, n))
    edges = np.zeros((rows.size if batch.own_edges else 0, n, n))
    backward_general(lattice, gamma, factor, out, total.pairs, edges)
    total.ends[0, :n] += out[0]
    total.emissions[rows] += out
    if batch.own_edges:
        total.edges[rows] += edges


def _rows(batch: CpuBatch, s: int) -> NDArray[np.int64]:
    return batch.layout.rows[slice(*batch.layout.offsets[s : s + 2])]


def passed_sequence(batch: CpuBatch, s: int) -> tuple[Passed | None, float]:
    """One sequence after the forward pass, and its log Z; None where a score is not a number or all are forbidden."""
    low, high = batch.layout.offsets[s : s + 2]
    states, edges = batch.states(low, high), batch.edge_scores(low, high)

    def score() -> None:
        states[:] = batch.states(low, high)
        if edges is not None:
            edges[:] = batch.edge_scores(low, high)

    try:
        passed = forward_pass(
            batch.transitions, low, batch.layout.starts[low:high], states, edges, Belief(np.zeros(batch.width)), score
        )
    except ScoreNotFinite:
        return None, np.nan
    except ZeroProbability:
        return None, -np.inf
    return passed, sum(passed.log_scale)


def _lattice(batch: CpuBatch, s: int, passed: Passed, seen: Observed | None) -> Lattice:
    rows, starts = _rows(batch, s), batch.layout.starts[slice(*batch.layout.offsets[s : s + 2])]
    tags, weights, flow = np.zeros(rows.size, np.int32), NO_NUMBERS, NO_FLOW
    if seen is not None and seen.weights.size:
        tags, weights = seen.tags[rows].astype(np.int32), seen.weights[rows]
        earlier = np.concatenate([[0.0], weights[:-1]])
        flow = Flow(np.where(starts, earlier, weights - earlier), earlier)
    return lattice_of(starts, tags, passed.alpha, passed.predicted, passed.edge, passed.entry, weights, flow)
