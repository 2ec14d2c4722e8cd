"""Log likelihoods of a batch and their gradients, on the host: its tensors as arrays (`engines.emissions`)."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import torch
from chainfold.engines.emissions import (
    EmissionBatch,
    EmissionGradient,
    Numbers,
    Rows,
    Threads,
    add_gradients,
    log_partitions,
    tag_scores,
)
from chainfold.errors import BadSetting, ChainfoldError
from chainfold.model.layout import Floats
from chainfold.torch.arguments import UNKNOWN, Arguments
from torch import Tensor

_MOST_KEPT = 1 << 16  # positions of a batch without a mask whose layout is kept for the next one
_NUMPY_TYPES = torch.float32, torch.float64


def log_likelihoods(inputs: Arguments, tags: Tensor | None, alpha: Floats) -> tuple[Floats, bool]:
    """[S] log likelihoods, or log Z without tags; whether all tags are known.

    alpha: [P, width], the forward vectors out, not a number at the start of a sequence that has none.
    """
    if tags is None:
        return log_partitions(batch_of(inputs), alpha), True
    batch, flat = batch_of(inputs._replace(allowed=None)), _flat(tags)
    known = _check_tags(inputs, flat[batch.layout.rows], batch.layout.rows) and inputs.allowed is None
    log_z = log_partitions(batch, alpha)
    if known:
        score = tag_scores(batch, flat)
    else:
        score = log_partitions(batch_of(_allowing(inputs, flat)), np.empty_like(alpha))
    with np.errstate(invalid="ignore"):  # -inf - -inf: there is no labelling at all
        return score - log_z, known


def gradients(
    inputs: Arguments, tags: Tensor | None, known: bool, alpha: Floats, factor: Floats
) -> tuple[NDArray[Any], ...]:
    """The gradient of Σ_s factor[s] · (log likelihood of sequence s, or its log Z without tags).

    Derivatives by the emissions [R, N], the transitions [N, N], start and end scores [N], and edges [R, N, N] or empty.
    """
    if tags is None:
        batch = batch_of(inputs)
        total = EmissionGradient.of(batch)
        add_gradients(batch, alpha, factor, total)
    else:
        batch, flat = batch_of(inputs._replace(allowed=None)), _flat(tags)
        total = EmissionGradient.of(batch)
        add_gradients(batch, alpha, -factor, total, flat if known else None)
        if not known:
            partial, again = batch_of(_allowing(inputs, flat)), np.empty_like(alpha)
            log_partitions(partial, again)
            add_gradients(partial, again, factor, total)
    n = batch.n_labels
    return total.emissions, total.pairs[:, :n].copy(), total.ends[0, :n].copy(), total.ends[1, :n].copy(), total.edges


def batch_of(inputs: Arguments) -> EmissionBatch:
    """The arrays of a batch."""
    n = inputs.n_labels
    return EmissionBatch(
        numbers(inputs.emissions).reshape(-1, n),
        numbers(inputs.transitions),
        numbers(inputs.start),
        numbers(inputs.end),
        _rows(inputs),
        None if inputs.allowed is None else np.ascontiguousarray(inputs.allowed.numpy() != 0).reshape(-1, n),
        None if inputs.edges is None else numbers(inputs.edges).reshape(-1, n, n),
        threads(),
    )


def numbers(tensor: Tensor) -> Numbers:
    """The numbers of a tensor, in float32 unless they are in float64."""
    if tensor.dtype not in _NUMPY_TYPES:
        tensor = tensor.float()
    array: Numbers = tensor.detach().contiguous().numpy()
    return array


def doubles(tensor: Tensor) -> Floats:
    array: Floats = tensor.detach().double().contiguous().numpy()
    return array


def threads() -> Threads:
    """As many threads as torch uses itself."""
    count = torch.get_num_threads()
    return Threads(count, _pool(count) if count > 1 else None)


@cache
def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="chainfold")


os.register_at_fork(after_in_child=_pool.cache_clear)


def _rows(inputs: Arguments) -> Rows:
    """The sequences of a batch."""
    n, by_position = inputs.n_labels, not inputs.batch_first
    if inputs.cu_seqlens is not None:
        offsets = inputs.cu_seqlens.numpy().astype(np.int64)
        if offsets[0] != 0 or offsets[-1] != inputs.positions or (np.diff(offsets) < 0).any():
            asked = f"from 0 to {inputs.positions}, the number of rows, in ascending order"
            raise BadSetting("cu_seqlens", offsets, asked)
        return Rows.of(np.arange(inputs.positions), offsets, n)
    if inputs.mask is not None:
        return Rows.of_mask(inputs.mask.numpy() != 0, n, by_position)
    length = inputs.emissions.shape[1 if inputs.batch_first else 0]
    make = _kept if inputs.positions <= _MOST_KEPT else Rows.of_table
    return make(inputs.n_sequences, length, n, by_position)


_kept = lru_cache(maxsize=32)(Rows.of_table)


def _flat(tags: Tensor) -> NDArray[np.int64]:
    """[R]"""
    flat: NDArray[np.int64] = np.ascontiguousarray(tags.long().numpy()).reshape(-1)
    return flat


def _check_tags(inputs: Arguments, tags: NDArray[np.int64], rows: NDArray[np.int64]) -> bool:
    """Whether all tags are known; raises where one is no label. tags: [P]"""
    if not tags.size or (tags.min() >= 0 and tags.max() < inputs.n_labels):
        return True
    unknown = tags == UNKNOWN
    wrong = np.flatnonzero(~unknown & ((tags < 0) | (tags >= inputs.n_labels)))
    if wrong.size:
        raise ChainfoldError(
            f"the tag at {inputs.place(int(rows[wrong[0]]))} is {int(tags[wrong[0]])}, but tags go from 0 to "
            f"{inputs.n_labels - 1} ({UNKNOWN} for an unknown one)."
        )
    return not unknown.any()


def _allowing(inputs: Arguments, tags: NDArray[np.int64]) -> Arguments:
    """A copy of the batch that allows only labels that agree with the tags."""
    allowed = np.arange(inputs.n_labels) == tags[:, None]
    allowed[tags == UNKNOWN] = True
    if inputs.allowed is not None:
        allowed &= inputs.allowed.numpy().reshape(allowed.shape) != 0
    return inputs._replace(allowed=torch.from_numpy(allowed.reshape(inputs.emissions.shape)))
