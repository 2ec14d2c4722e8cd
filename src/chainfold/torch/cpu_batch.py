"""A batch in the host's memory, as numba kernels take it."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import torch
from chainfold.core.slots import padded, tiles_of
from chainfold.engines.transitions import Transitions
from chainfold.errors import BadSetting
from chainfold.model.layout import Floats
from chainfold.torch.arguments import Arguments
from chainfold.torch.batch_kernels import pad_scores, place_positions, score_edges, score_states
from torch import Tensor

_TASK = 4096  # positions of short sequences that a thread takes at a time
_MOST_STRETCHES = 16  # of a sequence
_LEAST_STRETCH = 4096  # positions
_LEAST_STRETCH_A_LABEL = 256  # a certificate costs N³ a position of its halo, the stretch N² a position
_MOST_KEPT = 1 << 16  # positions of a batch without a mask whose layout is kept for the next one

_NUMPY_TYPES = torch.float32, torch.float64
_NO_TABLE = np.empty((0, 0), np.bool_)
_NO_EDGES = np.empty((0, 0, 0))


class Stretches(NamedTuple):
    """Sequences, and parts of long ones, that are worked on on their own."""

    cuts: NDArray[np.int64]  # [K + 1] where they begin and end
    sequence: NDArray[np.int64] | None  # [K] whose part each is; None: each is a sequence
    tasks: list[tuple[int, int]]  # ranges of stretches that are worked on together

    def of_sequences(self, values: NDArray[Any]) -> NDArray[Any]:
        """[K] from [S]: what holds for a sequence."""
        return values if self.sequence is None else values[self.sequence]

    def summed(self, values: Floats, count: int) -> Floats:
        """[S] from [K]: sums over the stretches of each sequence, in their order."""
        return values if self.sequence is None else np.bincount(self.sequence, values, count).astype(np.float64)

    @property
    def inner(self) -> NDArray[np.int64]:
        """Stretches that do not begin their sequence."""
        if self.sequence is None:
            return np.empty(0, np.int64)
        return np.flatnonzero(np.diff(self.sequence) == 0) + 1

    def without(self, dropped: NDArray[np.int64]) -> Stretches:
        """With the cuts before some inner stretches left out: these are then part of the stretch before them."""
        if not dropped.size:
            return self
        assert self.sequence is not None
        return _stretches(np.delete(self.cuts, dropped), np.delete(self.sequence, dropped))


class Rows(NamedTuple):
    """The sequences of a batch."""

    rows: NDArray[np.int64]  # [P] the row of each position among the flattened emissions
    offsets: NDArray[np.int64]  # [S + 1] where sequences begin and end
    starts: NDArray[np.bool_]  # [P]
    whole: Stretches  # the sequences
    stretches: Stretches  # of sequences, with all cuts that may be tried

    def places(self, stretches: Stretches) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
        """Arguments `places` of kernels."""
        return self.rows, self.starts, stretches.cuts


class CpuBatch:
    """The arrays of a batch, and its transitions."""

    def __init__(self, inputs: Arguments) -> None:
        n = inputs.n_labels
        self.inputs, self.n_labels, self.width = inputs, n, padded(n)
        self.emissions = numbers(inputs.emissions).reshape(-1, n)
        self.allowed = _NO_TABLE
        if inputs.allowed is not None:
            self.allowed = np.ascontiguousarray(inputs.allowed.numpy() != 0).reshape(-1, n)
        self.edges = _NO_EDGES
        if inputs.edges is not None:
            self.edges = numbers(inputs.edges).reshape(-1, n, n)
        scores, ends = np.empty((n, self.width)), np.empty((2, n))
        restricted = pad_scores(numbers(inputs.transitions), numbers(inputs.start), numbers(inputs.end), scores, ends)
        self.start, self.end = ends
        self.transitions = transitions = Transitions(
            scores.reshape(1, -1), n, tiles_of(n), bool(restricted) or self.allowed.size > 0, self.own_edges
        )
        self.scores = self.emissions, self.start, self.end, self.allowed  # as kernels take them
        self.steps = transitions.edge, transitions.edge_t, transitions.shift, transitions.watch, transitions.tiles

    @property
    def own_edges(self) -> bool:
        """Whether each position has a transition matrix of its own"""
        return self.edges.size > 0

    @cached_property
    def layout(self) -> Rows:
        inputs = self.inputs
        if inputs.cu_seqlens is not None:
            return _packed(inputs)
        if inputs.mask is not None:
            return _masked(inputs)
        first, second, _ = inputs.emissions.shape
        return _unmasked(first, second, self.n_labels, inputs.batch_first)

    def states(self, first: int, last: int) -> Floats:
        """[positions, width]  the state scores of positions first … last-1."""
        out = np.empty((last - first, self.width))
        score_states(self.scores, self.layout.places(self.layout.stretches), first, last, out)
        return out

    def edge_scores(self, first: int, last: int) -> Floats | None:
        """[positions, N · width]  the edge scores of positions first … last-1, or None where all share one matrix."""
        if not self.own_edges:
            return None
        out = np.empty((last - first, self.n_labels * self.width))
        score_edges(self.edges, self.layout.rows[first:last], self.transitions.scores[0], out)
        return out


def numbers(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor, in float32 unless they are in float64."""
    if tensor.dtype not in _NUMPY_TYPES:
        tensor = tensor.float()
    array: NDArray[Any] = tensor.detach().contiguous().numpy()
    return array


def numpy_type(tensor: Tensor) -> type[np.float32] | type[np.float64]:
    """Type of its `numbers`."""
    return np.float64 if tensor.dtype == torch.float64 else np.float32


def doubles(tensor: Tensor) -> Floats:
    array: Floats = tensor.detach().double().contiguous().numpy()
    return array


def _unmasked(first: int, second: int, n_labels: int, batch_first: bool) -> Rows:
    make = _kept if first * second <= _MOST_KEPT else _made
    return make(first, second, n_labels, batch_first)


def _made(first: int, second: int, n_labels: int, batch_first: bool) -> Rows:
    rows = np.arange(first * second)
    size, length = (first, second) if batch_first else (second, first)
    if not batch_first:
        rows = np.ascontiguousarray(rows.reshape(first, second).T).ravel()
    offsets = np.arange(size + 1) * length
    return _of(rows, offsets, _starts(rows.size, offsets), n_labels)


_kept = lru_cache(maxsize=32)(_made)


def _masked(inputs: Arguments) -> Rows:
    assert inputs.mask is not None
    mask = np.ascontiguousarray(inputs.mask.numpy() != 0)
    rows, starts = np.empty(mask.size, np.int64), np.empty(mask.size, np.bool_)
    offsets = np.empty(inputs.n_sequences + 1, np.int64)
    place_positions(mask, inputs.batch_first, rows, starts, offsets)
    size = offsets[-1]
    return _of(rows[:size], offsets, starts[:size], inputs.n_labels)


def _packed(inputs: Arguments) -> Rows:
    assert inputs.cu_seqlens is not None
    offsets = inputs.cu_seqlens.numpy().astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != inputs.positions or (np.diff(offsets) < 0).any():
        raise BadSetting("cu_seqlens", offsets, f"from 0 to {inputs.positions}, the number of rows, in ascending order")
    return _of(np.arange(inputs.positions), offsets, _starts(inputs.positions, offsets), inputs.n_labels)


def _starts(size: int, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    starts = np.zeros(size, np.bool_)
    starts[offsets[:-1][np.diff(offsets) > 0]] = True
    return starts


def _of(rows: NDArray[np.int64], offsets: NDArray[np.int64], starts: NDArray[np.bool_], n_labels: int) -> Rows:
    least = max(_LEAST_STRETCH, _LEAST_STRETCH_A_LABEL * n_labels)
    lengths, whole = np.diff(offsets), _stretches(offsets, None)
    if rows.size < 2 * least or lengths.max() < 2 * least:
        return Rows(rows, offsets, starts, whole, whole)
    counts = np.clip(lengths // least, 1, _MOST_STRETCHES)
    counts = 1 << np.log2(counts).astype(np.int64)  # a power of two: threads that come in twos have equal shares
    inside = [
        low + length * np.arange(count) // count
        for low, length, count in zip(offsets[:-1], lengths, counts, strict=True)
    ]
    cuts = np.concatenate([*inside, offsets[-1:]])
    return Rows(rows, offsets, starts, whole, _stretches(cuts, np.repeat(np.arange(lengths.size), counts)))


def _stretches(cuts: NDArray[np.int64], sequence: NDArray[np.int64] | None) -> Stretches:
    tasks, low, count = [], 0, cuts.size - 1
    if count and cuts[-1] <= _TASK:
        return Stretches(cuts, sequence, [(0, count)])
    while low < count:  # fixed by the lengths, so that sums have one order for any number of threads
        high = max(low + 1, int(np.searchsorted(cuts, cuts[low] + _TASK, side="right")) - 1)
        tasks.append((low, high))
        low = high
    return Stretches(cuts, sequence, tasks)
