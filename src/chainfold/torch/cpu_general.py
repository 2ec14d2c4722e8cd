"""Sequences of any kind, one at a time: wide numbers, transitions of positions' own.

`engines.forward_pass` goes forward and `backward_general` back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.engines.belief import Belief
from chainfold.engines.forward_pass import Passed, forward_pass, lattice_of
from chainfold.errors import ScoreNotFinite, ZeroProbability
from chainfold.model.layout import Floats
from chainfold.torch.batch_kernels import backward_general
from chainfold.torch.cpu_batch import CpuBatch


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


def add_sequence(batch: CpuBatch, s: int, factor: float, total: GradientSums) -> None:
    """Add factor times the gradient of the log Z of a sequence."""
    n, (low, high) = batch.n_labels, batch.layout.offsets[s : s + 2]
    rows, starts = batch.layout.rows[low:high], batch.layout.starts[low:high]
    passed, _ = passed_sequence(batch, s)
    if passed is None:  # not a number, as the likelihood
        for sums in (total.pairs, total.ends):
            sums[:] = np.nan
        total.emissions[rows] = np.nan
        return
    labels = np.zeros(rows.size, np.int32)
    lattice = lattice_of(starts, labels, passed.alpha, passed.predicted, passed.edge, passed.entry)
    gamma = passed.exit.posterior()
    total.ends[1] += factor * gamma
    out = np.zeros((rows.size, n))
    edges = np.zeros((rows.size if batch.own_edges else 0, n, n))
    backward_general(lattice, gamma, factor, out, total.pairs, edges)
    total.ends[0, :n] += out[0]
    total.emissions[rows] += out
    if batch.own_edges:
        total.edges[rows] += edges


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
