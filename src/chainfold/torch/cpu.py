"""Log likelihoods of a batch and their gradients, on the host with numba kernels.

A sequence is worked on in doubles with one matrix of transitions (`batch_kernels`), a long one in stretches
(`cpu_cuts`). One whose numbers leave the range of a double, or whose positions have transitions of their own, takes the
general way (`cpu_general`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import torch
from chainfold.core.faults import OK
from chainfold.errors import ChainfoldError
from chainfold.model.layout import Floats
from chainfold.torch.arguments import UNKNOWN, Arguments
from chainfold.torch.batch_kernels import (
    backward_stretches,
    check_tags,
    count_tags,
    forward_stretches,
    score_tags,
    take_sums,
)
from chainfold.torch.cpu_batch import CpuBatch, numpy_type
from chainfold.torch.cpu_cuts import cut_backward, cut_forward
from chainfold.torch.cpu_general import GradientSums, add_sequence, passed_sequence
from chainfold.torch.cpu_threads import run
from torch import Tensor


class Observed(NamedTuple):
    """The tags of a batch."""

    tags: NDArray[np.int64]  # [R]
    known: bool  # else some positions have a set of labels


class Gradients(NamedTuple):
    """Derivatives by the emissions, the transitions, start and end scores, and the edges of positions."""

    emissions: NDArray[np.float32] | Floats  # [R, N]
    transitions: NDArray[np.float32] | Floats  # [N, N]
    start: NDArray[np.float32] | Floats  # [N]
    end: NDArray[np.float32] | Floats  # [N]
    edges: NDArray[np.float32] | Floats  # [R, N, N], or empty


def log_likelihoods(inputs: Arguments, tags: Tensor | None, alpha: Floats) -> tuple[Floats, bool]:
    """[S] log likelihoods, or log Z without tags; whether all tags are known.

    alpha: [P, width], the forward vectors out, not a number at the start of a sequence that has none.
    """
    if tags is None:
        return _log_partitions(CpuBatch(inputs), alpha), True
    batch = CpuBatch(inputs._replace(allowed=None))
    seen = _observed(batch, inputs, tags)
    log_z = _log_partitions(batch, alpha)
    if seen.known:
        score = _tag_scores(batch, seen)
    else:
        score = _log_partitions(CpuBatch(_allowing(inputs, seen)), np.empty_like(alpha))
    with np.errstate(invalid="ignore"):  # -inf - -inf: there is no labelling at all
        return score - log_z, seen.known


def gradients(inputs: Arguments, tags: Tensor | None, known: bool, alpha: Floats, factor: Floats) -> Gradients:
    """The gradient of Σ_s factor[s] · (log likelihood of sequence s, or its log Z without tags)."""
    if tags is None:
        batch = CpuBatch(inputs)
        total = GradientSums.of(batch)
        _add_gradients(batch, alpha, factor, total)
    else:
        batch = CpuBatch(inputs._replace(allowed=None))
        seen, total = Observed(_flat(tags), known), GradientSums.of(batch)
        _add_gradients(batch, alpha, -factor, total, seen)
        if not known:
            partial, again = CpuBatch(_allowing(inputs, seen)), np.empty_like(alpha)
            _log_partitions(partial, again)
            _add_gradients(partial, again, factor, total)
    transitions, start, end = (
        np.empty(like.shape, numpy_type(like)) for like in (inputs.transitions, inputs.start, inputs.end)
    )
    take_sums(total.pairs, total.ends, transitions, start, end)
    return Gradients(total.emissions, transitions, start, end, total.edges)


def _flat(tags: Tensor) -> NDArray[np.int64]:
    """[R]"""
    flat: NDArray[np.int64] = np.ascontiguousarray(tags.long().numpy()).reshape(-1)
    return flat


def _observed(batch: CpuBatch, inputs: Arguments, tags: Tensor) -> Observed:
    """The tags, checked; raises where one is no label."""
    flat = _flat(tags)
    row, unknown = check_tags(batch.layout.rows, flat, inputs.n_labels, UNKNOWN)
    if row >= 0:
        raise ChainfoldError(
            f"the tag at {inputs.place(row)} is {int(flat[row])}, but tags go from 0 to {inputs.n_labels - 1} "
            f"({UNKNOWN} for an unknown one)."
        )
    return Observed(flat, not unknown and inputs.allowed is None)


def _allowing(inputs: Arguments, seen: Observed) -> Arguments:
    """A copy of the batch that allows only labels that agree with the tags."""
    allowed = np.arange(inputs.n_labels) == seen.tags[:, None]
    allowed[seen.tags == UNKNOWN] = True
    if inputs.allowed is not None:
        allowed &= inputs.allowed.numpy().reshape(allowed.shape) != 0
    return inputs._replace(allowed=torch.from_numpy(allowed.reshape(inputs.emissions.shape)))


def _log_partitions(batch: CpuBatch, alpha: Floats) -> Floats:
    """[S] log Z of each sequence; alpha: [P, width], the forward vectors out, not a number where there are none."""
    layout = batch.layout
    count = layout.offsets.size - 1
    if batch.own_edges or batch.transitions.only_wide:
        log_z, failed = np.zeros(count), np.flatnonzero(np.diff(layout.offsets))
    else:
        stretches, pasts = cut_forward(batch)
        places = layout.places(stretches)
        values, status = np.empty((2, stretches.cuts.size - 1))
        run(
            lambda low, high: forward_stretches(
                batch.scores, places, batch.steps, pasts, low, high, alpha, values, status
            ),
            stretches.tasks,
        )
        log_z = stretches.summed(values, count)
        failed = np.flatnonzero(status != OK)
        if stretches.sequence is not None:
            failed = np.unique(stretches.sequence[failed])
    for s in failed:
        log_z[s] = passed_sequence(batch, int(s))[1]
        alpha[layout.offsets[s] : layout.offsets[s + 1], 0] = np.nan
    return log_z


def _tag_scores(batch: CpuBatch, seen: Observed) -> Floats:
    """[S] the score of each sequence's tags."""
    layout = batch.layout
    places, score = layout.places(layout.stretches), np.empty(layout.stretches.cuts.size - 1)
    scores = batch.transitions.scores
    run(
        lambda low, high: score_tags(batch.scores, places, scores, batch.edges, seen.tags, low, high, score),
        layout.stretches.tasks,
    )
    return layout.stretches.summed(score, layout.offsets.size - 1)


def _add_gradients(
    batch: CpuBatch, alpha: Floats, factor: Floats, total: GradientSums, seen: Observed | None = None
) -> None:
    """Add factor times the gradient of log Z, and take off that of the tags' scores.

    alpha: of `_log_partitions`
    """
    layout = batch.layout
    stretches, futures = cut_backward(batch, alpha)
    places, shares = layout.places(stretches), stretches.of_sequences(factor)

    def work(low: int, high: int) -> tuple[Floats, Floats]:
        pairs, ends = np.zeros_like(total.pairs), np.zeros_like(total.ends)
        backward_stretches(places, batch.steps, futures, low, high, alpha, shares, total.emissions, pairs, ends)
        if seen is not None and seen.known:
            count_tags(places, seen.tags, low, high, -shares, total.emissions, pairs, ends, total.edges)
        return pairs, ends

    for pairs, ends in run(work, stretches.tasks):
        total.pairs[:] += pairs
        total.ends[:] += ends
    present = np.flatnonzero(np.diff(layout.offsets))
    for s in present[np.isnan(alpha[layout.offsets[present], 0])]:
        add_sequence(batch, int(s), float(factor[s]), total)
