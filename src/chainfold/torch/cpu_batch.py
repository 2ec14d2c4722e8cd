"""A batch in the host's memory, as numba kernels take it."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import torch
from chainfold.engines.potentials import Transitions
from chainfold.errors import BadSetting
from chainfold.kernels.slots import padded, tiles_of
from chainfold.model.layout import Floats
from chainfold.torch.arguments import Arguments
from chainfold.torch.batch_kernels import score_edges, score_states
from torch import Tensor

_TASK = 4096  # positions of short sequences that a thread takes at a time

NO_TABLE = np.empty((0, 0), np.bool_)
NO_EDGES = np.empty((0, 0, 0))


class Rows(NamedTuple):
    """The sequences of a batch."""

    rows: NDArray[np.int64]  # [P] the row of each position among the flattened emissions
    offsets: NDArray[np.int64]  # [S + 1] where sequences begin and end
    starts: NDArray[np.bool_]  # [P]
    tasks: list[tuple[int, int]]  # ranges of sequences that are worked on together


class CpuBatch:
    """The arrays of a batch, and its transitions."""

    def __init__(self, inputs: Arguments) -> None:
        self.inputs = inputs
        self.n_labels = inputs.n_labels
        self.width = padded(self.n_labels)
        self.emissions = numbers(inputs.emissions).reshape(-1, self.n_labels)
        self.start, self.end = doubles(inputs.start), doubles(inputs.end)
        self.allowed = NO_TABLE
        if inputs.allowed is not None:
            self.allowed = np.ascontiguousarray(inputs.allowed.numpy() != 0).reshape(-1, self.n_labels)
        self.edges = NO_EDGES
        if inputs.edges is not None:
            self.edges = numbers(inputs.edges).reshape(-1, self.n_labels, self.n_labels)
        scores = np.full((self.n_labels, self.width), -np.inf)
        scores[:, : self.n_labels] = doubles(inputs.transitions)
        restricted = self.allowed.size > 0 or bool(np.isneginf(self.start).any() or np.isneginf(self.end).any())
        self.transitions = Transitions(
            scores.reshape(1, -1), self.n_labels, tiles_of(self.n_labels), restricted, self.own_edges
        )

    @property
    def own_edges(self) -> bool:
        """Has each position a transition matrix of its own?"""
        return self.edges.size > 0

    @cached_property
    def layout(self) -> Rows:
        inputs = self.inputs
        if inputs.cu_seqlens is not None:
            return _packed(inputs)
        if inputs.mask is not None:
            return _masked(inputs)
        return _unmasked(*inputs.emissions.shape[:2], inputs.batch_first)

    def states(self, low: int, high: int, out: Floats) -> None:
        """out: [P, width]  the state scores of sequences low … high-1."""
        layout = self.layout
        score_states(self.emissions, layout.rows, layout.offsets, low, high, self.start, self.end, self.allowed, out)

    def edge_scores(self, first: int, last: int) -> Floats | None:
        """[positions, N · width]  the edge scores of positions first … last-1, or None where all share one matrix."""
        if not self.own_edges:
            return None
        out = np.empty((last - first, self.n_labels * self.width))
        score_edges(self.edges, self.layout.rows[first:last], self.transitions.scores[0], out)
        return out


def numbers(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor, in float32 unless they are in float64."""
    tensor = tensor.detach()
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    return np.ascontiguousarray(tensor.numpy())


def doubles(tensor: Tensor) -> Floats:
    return np.ascontiguousarray(tensor.detach().double().numpy())


@lru_cache(maxsize=32)
def _unmasked(first: int, second: int, batch_first: bool) -> Rows:
    rows = np.arange(first * second)
    size, length = (first, second) if batch_first else (second, first)
    if not batch_first:
        rows = np.ascontiguousarray(rows.reshape(first, second).T).ravel()
    return _of(rows, np.arange(size + 1) * length)


def _masked(inputs: Arguments) -> Rows:
    assert inputs.mask is not None
    mask = inputs.mask.numpy() != 0
    if inputs.batch_first:
        rows = np.flatnonzero(mask)
        lengths = mask.sum(axis=1)
    else:
        sequence, position = np.nonzero(mask.T)
        rows = position * mask.shape[1] + sequence
        lengths = mask.sum(axis=0)
    return _of(rows, np.concatenate([[0], np.cumsum(lengths)]))


def _packed(inputs: Arguments) -> Rows:
    assert inputs.cu_seqlens is not None
    offsets = inputs.cu_seqlens.numpy().astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != inputs.positions or (np.diff(offsets) < 0).any():
        raise BadSetting("cu_seqlens", offsets, f"from 0 to {inputs.positions}, the number of rows, in ascending order")
    return _of(np.arange(inputs.positions), offsets)


def _of(rows: NDArray[np.int64], offsets: NDArray[np.int64]) -> Rows:
    starts = np.zeros(rows.size, np.bool_)
    starts[offsets[:-1][np.diff(offsets) > 0]] = True
    tasks, low, count = [], 0, offsets.size - 1
    while low < count:  # fixed by the lengths, so that sums have one order for any number of threads
        high = max(low + 1, int(np.searchsorted(offsets, offsets[low] + _TASK, side="right")) - 1)
        tasks.append((low, high))
        low = high
    return Rows(rows, offsets, starts, tasks)
