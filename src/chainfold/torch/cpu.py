"""Log likelihoods of a batch and their gradients, on the host with numba kernels.

A sequence is worked on in doubles with one matrix of transitions (`batch_kernels`). One whose numbers leave the range
of a double, or whose positions have weights or transitions of their own, takes the general way:
`engines.block_pass` and `backward_general`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import NO_FLOW, Flow, Passed, forward_pass, lattice_of
from chainfold.errors import ChainfoldError, ScoreNotFinite, ZeroProbability
from chainfold.kernels.backward import path_likelihood
from chainfold.kernels.faults import OK
from chainfold.kernels.lattice import Lattice
from chainfold.model.layout import Floats
from chainfold.torch.arguments import UNKNOWN, Arguments
from chainfold.torch.batch_kernels import (
    backward_general,
    backward_sequences,
    count_tags,
    forward_sequences,
    score_tags,
)
from chainfold.torch.cpu_batch import CpuBatch, numbers
from torch import Tensor

_NO_NUMBERS = np.empty(0)


class Gradients(NamedTuple):
    """Derivatives by the emissions, the transitions, start and end scores, and the edges of positions."""

    emissions: NDArray[np.float32] | Floats  # [R, N]
    transitions: Floats  # [N, N]
    start: Floats  # [N]
    end: Floats  # [N]
    edges: NDArray[np.float32] | Floats  # [R, N, N], or empty


class Observed(NamedTuple):
    """The tags of a batch: a set of allowed labels where some are unknown."""

    tags: NDArray[np.int64]  # [R]
    weights: Floats  # [R], or empty: all ones
    known: bool


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="chainfold")


os.register_at_fork(after_in_child=_pool.cache_clear)


def run_tasks(work: Callable[[int, int], None], batch: CpuBatch) -> None:
    """Call `work` with each range of sequences, on several threads where there are several ranges."""
    tasks = batch.layout.tasks
    if len(tasks) == 1 or (os.cpu_count() or 1) == 1:
        for task in tasks:
            work(*task)
    else:
        for done in [_pool().submit(work, *task) for task in tasks]:
            done.result()


def observed(inputs: Arguments, tags: Tensor, weights: Tensor | None) -> Observed:
    """The tags, checked; raises where one is no label."""
    flat = np.ascontiguousarray(tags.numpy().reshape(-1).astype(np.int64))
    batch_mask = None if inputs.mask is None else inputs.mask.numpy().reshape(-1) != 0
    wrong = (flat >= inputs.n_labels) | ((flat < 0) & (flat != UNKNOWN))
    unknown = flat == UNKNOWN
    if batch_mask is not None:
        wrong &= batch_mask
        unknown &= batch_mask
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ChainfoldError(
            f"the tag at {inputs.place(row)} is {int(flat[row])}, but tags go from 0 to {inputs.n_labels - 1} "
            f"({UNKNOWN} for an unknown one)."
        )
    own = _NO_NUMBERS
    if weights is not None:
        own = np.ascontiguousarray(weights.detach().double().numpy().reshape(-1))
        if not (np.isfinite(own) & (own >= 0.0)).all():
            raise ChainfoldError("weights must be finite numbers from 0 up.")
        if unknown.any() or inputs.allowed is not None:
            raise ChainfoldError("weights require known tags: remove `weights`, or tags of -100 and `allowed`.")
    return Observed(flat, own, not unknown.any() and inputs.allowed is None)


def allowing(inputs: Arguments, seen: Observed) -> Arguments:
    """The same batch with the labels that agree with the tags."""
    unknown = seen.tags == UNKNOWN
    allowed = np.arange(inputs.n_labels) == seen.tags[:, None]
    allowed[unknown] = True
    if inputs.allowed is not None:
        allowed &= inputs.allowed.numpy().reshape(allowed.shape) != 0
    return inputs._replace(allowed=_tensor(allowed.reshape(inputs.emissions.shape)))


def _tensor(array: NDArray[np.bool_]) -> Tensor:
    import torch

    return torch.from_numpy(array)


def log_partitions(batch: CpuBatch, alpha: Floats) -> Floats:
    """[S] log Z of each sequence; alpha: [P, width], the forward vectors out, not a number where there are none."""
    layout = batch.layout
    log_z, status = np.zeros((2, layout.offsets.size - 1))
    transitions = batch.transitions

    def work(low: int, high: int) -> None:
        batch.states(low, high, alpha[layout.offsets[low] :])
        forward_sequences(
            layout.offsets, low, high, layout.starts, alpha, transitions.edge, transitions.shift, transitions.watch,
            transitions.tiles, log_z, status,
        )  # fmt: skip

    if batch.own_edges or transitions.only_wide:
        status[:] = layout.offsets[:-1] < layout.offsets[1:]
    else:
        run_tasks(work, batch)
    for s in np.flatnonzero(status != OK):
        log_z[s] = _passed(batch, int(s))[1]
        alpha[layout.offsets[s]] = np.nan
    return log_z


def weighted_likelihoods(batch: CpuBatch, seen: Observed, alpha: Floats) -> Floats:
    """[S] Σ_t w_t log p(y_t | y_{t+1}, x up to t) of each sequence."""
    offsets = batch.layout.offsets
    values = np.zeros(offsets.size - 1)
    alpha[:] = np.nan
    for s in np.flatnonzero(np.diff(offsets)):
        passed, _ = _passed(batch, int(s))
        values[s] = np.nan if passed is None else _weighted(batch, seen, int(s), passed)
    return values


def _weighted(batch: CpuBatch, seen: Observed, s: int, passed: Passed) -> float:
    rows = _rows(batch, s)
    lattice = _lattice(batch, s, passed, seen)
    total, _ = path_likelihood(lattice, 0, 0.0)
    last = float(passed.exit.logs()[seen.tags[rows[-1]]]) * seen.weights[rows[-1]] if seen.weights[rows[-1]] else 0.0
    return float(total + last)


def tag_scores(batch: CpuBatch, seen: Observed) -> Floats:
    """[S] the score of each sequence's tags."""
    layout, score = batch.layout, np.zeros(batch.layout.offsets.size - 1)
    run_tasks(
        lambda low, high: score_tags(
            batch.emissions, layout.rows, layout.offsets, seen.tags, batch.start, batch.end,
            batch.transitions.scores[0], batch.edges, low, high, score,
        ),
        batch,
    )  # fmt: skip
    return score


def log_likelihoods(
    inputs: Arguments, tags: Tensor | None, weights: Tensor | None, alpha: Floats
) -> tuple[Floats, bool]:
    """[S] log likelihoods, or log Z without tags; whether all tags are known."""
    if tags is None:
        return log_partitions(CpuBatch(inputs), alpha), True
    seen = observed(inputs, tags, weights)
    batch = CpuBatch(inputs._replace(allowed=None))
    if seen.weights.size:
        return weighted_likelihoods(batch, seen, alpha), True
    log_z = log_partitions(batch, alpha)
    if seen.known:
        score = tag_scores(batch, seen)
    else:
        score = log_partitions(CpuBatch(allowing(inputs, seen)), np.empty_like(alpha))
    with np.errstate(invalid="ignore"):  # -inf - -inf: there is no labelling at all
        return score - log_z, seen.known


def gradients(
    inputs: Arguments,
    tags: Tensor | None,
    known: bool,
    weights: Tensor | None,
    alpha: Floats,
    factor: Floats,
) -> Gradients:
    """The gradient of Σ_s factor[s] · (log likelihood of sequence s, or its log Z without tags)."""
    if tags is None:
        batch = CpuBatch(inputs)
        total = _zeros(batch)
        add_gradients(batch, alpha, factor, total)
        return total
    seen = observed(inputs, tags, weights)
    batch = CpuBatch(inputs._replace(allowed=None))
    total = _zeros(batch)
    add_gradients(batch, alpha, -factor, total, seen)
    if known:
        layout = batch.layout
        ends = np.zeros((2, batch.n_labels))
        count_tags(
            layout.rows, layout.offsets, seen.tags, seen.weights, 0, layout.offsets.size - 1, factor,
            total.emissions, total.transitions, ends, total.edges,
        )  # fmt: skip
        total.start[:] += ends[0]
        total.end[:] += ends[1]
    else:
        partial = CpuBatch(allowing(inputs, seen))
        again = np.empty_like(alpha)
        log_partitions(partial, again)
        add_gradients(partial, again, factor, total)
    return total


def add_gradients(
    batch: CpuBatch, alpha: Floats, factor: Floats, total: Gradients, seen: Observed | None = None
) -> None:
    """Add the gradient of Σ_s factor[s] log Z(s), or of its weighted flow; alpha: of `log_partitions`."""
    layout, n, transitions = batch.layout, batch.n_labels, batch.transitions
    shares = {low: (np.zeros((n, batch.width)), np.zeros((2, batch.width))) for low, _ in layout.tasks}

    def work(low: int, high: int) -> None:
        backward_sequences(
            layout.offsets, low, high, layout.starts, alpha, transitions.edge, transitions.edge_t, transitions.tiles,
            factor, layout.rows, total.emissions, *shares[low],
        )  # fmt: skip

    run_tasks(work, batch)
    present = np.flatnonzero(np.diff(layout.offsets))
    general = present[np.isnan(alpha[layout.offsets[present], 0])]
    shares[-1] = np.zeros((n, batch.width)), np.zeros((2, batch.width))
    for s in general:
        _add_general(batch, int(s), float(factor[s]), total, *shares[-1], seen)
    for pairs, ends in shares.values():
        total.transitions[:] += pairs[:, :n]
        total.start[:] += ends[0, :n]
        total.end[:] += ends[1, :n]


def _add_general(
    batch: CpuBatch,
    s: int,
    factor: float,
    total: Gradients,
    pairs: Floats,
    ends: Floats,
    seen: Observed | None,
) -> None:
    """One sequence of any kind."""
    n, rows = batch.n_labels, _rows(batch, s)
    passed, _ = _passed(batch, s)
    if passed is None:  # not a number, as the likelihood
        total.emissions[rows] = np.nan
        pairs[:], ends[:] = np.nan, np.nan
        return
    weight = 1.0
    if seen is not None and seen.weights.size:
        weight = float(seen.weights[rows[-1]])
    lattice = _lattice(batch, s, passed, seen)
    gamma = passed.exit.posterior(weight)
    ends[1] += factor * gamma
    out = np.zeros((rows.size, n))
    edges = np.zeros((rows.size, n, n)) if batch.own_edges else NO_EDGES_OUT
    backward_general(lattice, gamma, factor, out, pairs, edges)
    ends[0, :n] += out[0]
    total.emissions[rows] += out
    if batch.own_edges:
        total.edges[rows] += edges


NO_EDGES_OUT = np.empty((0, 0, 0))


def _rows(batch: CpuBatch, s: int) -> NDArray[np.int64]:
    return batch.layout.rows[slice(*batch.layout.offsets[s : s + 2])]


def _passed(batch: CpuBatch, s: int) -> tuple[Passed | None, float]:
    """One sequence after the forward pass, and its log Z; None where a score is not a number or all are forbidden."""
    low, high = batch.layout.offsets[s : s + 2]
    states = np.empty((high - low, batch.width))
    edges = batch.edge_scores(low, high)

    def score() -> None:
        batch.states(s, s + 1, states)
        if edges is not None:
            edges[:] = batch.edge_scores(low, high)

    score()
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
    tags, weights, flow = np.zeros(rows.size, np.int32), _NO_NUMBERS, NO_FLOW
    if seen is not None and seen.weights.size:
        tags, weights = seen.tags[rows].astype(np.int32), seen.weights[rows]
        earlier = np.concatenate([[0.0], weights[:-1]])
        flow = Flow(np.where(starts, earlier, weights - earlier), earlier)
    return lattice_of(starts, tags, passed.alpha, passed.predicted, passed.edge, passed.entry, weights, flow)


def _zeros(batch: CpuBatch) -> Gradients:
    n = batch.n_labels
    return Gradients(
        np.zeros_like(batch.emissions), np.zeros((n, n)), np.zeros(n), np.zeros(n), np.zeros_like(batch.edges)
    )


__all__ = ["Gradients", "gradients", "log_likelihoods", "numbers"]
