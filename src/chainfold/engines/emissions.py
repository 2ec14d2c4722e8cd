"""Dense scores: log Z, gradients and tags of sequences whose scores are an array, as encoders make them.

A batch is a source of scores, and its gradient a sink (`emissions.hpp`). Sequences are worked on in doubles with one
matrix of transitions, long ones in parts: the places where they may be cut depend on the lengths and the number of
labels alone, and a cut holds where both sides of it are certified (`stretch`). A cut that does not hold is no cut. A
sequence whose numbers leave the range of a double, or whose positions have transitions of their own, is one block pass.

    Rows               where the sequences of a batch are
    EmissionBatch      their scores
    EmissionGradient   sums, while they are added up
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL, Block, frozen
from chainfold.core import (
    backward_emissions,
    backward_parts,
    count_tags,
    emission_edges,
    emission_scores,
    forward_parts,
    score_tags,
)
from chainfold.core.faults import OK, check_memory
from chainfold.core.slots import Emissions, Lattice, Moves, padded
from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import BlockPass
from chainfold.engines.halo import Halo, future_of, past_of
from chainfold.engines.pool import ArrayPool
from chainfold.engines.transitions import Transitions
from chainfold.errors import ScoreNotFinite, ZeroProbability
from chainfold.model.layout import Floats

Numbers = NDArray[Any]  # float32 or float64

TOLERANCE = 1e-13  # relative, of a cut

_TASK = 4096  # positions of short sequences that a thread takes at a time
_MOST_PARTS = 16  # of a sequence
_LEAST_PART = 4096  # positions
_LEAST_PART_A_LABEL = 256  # a certificate costs N³ a position of its halo, the part N² a position
_HALO, _SHARE = Halo(64, 4096), 4  # a part is at least 4 N times as long as its halo

Result = TypeVar("Result")


class Parts(NamedTuple):
    """Sequences, and ranges of long ones, that are worked on on their own."""

    cuts: NDArray[np.int64]  # [K + 1] where they begin and end
    sequence: NDArray[np.int64] | None  # [K] to which each belongs; None: each is a sequence
    tasks: list[tuple[int, int]]  # ranges of parts that are worked on together

    def of_sequences(self, values: NDArray[Any]) -> NDArray[Any]:
        """[K] from [S]: what holds for a sequence."""
        return values if self.sequence is None else values[self.sequence]

    def summed(self, values: Floats, count: int) -> Floats:
        """[S] from [K]: sums over the parts of each sequence, in their order."""
        return values if self.sequence is None else np.bincount(self.sequence, values, count).astype(np.float64)

    @property
    def inner(self) -> NDArray[np.int64]:
        """Parts that do not begin their sequence."""
        if self.sequence is None:
            return np.empty(0, np.int64)
        return np.flatnonzero(np.diff(self.sequence) == 0) + 1

    def without(self, dropped: NDArray[np.int64]) -> Parts:
        """With the cuts before some inner parts left out: these then belong to the part before them."""
        if not dropped.size:
            return self
        assert self.sequence is not None
        return _parts(np.delete(self.cuts, dropped), np.delete(self.sequence, dropped))


@dataclass(frozen=True, eq=False)
class Rows:
    """The sequences of a batch."""

    rows: NDArray[np.int64]  # [P] the row of each position among the flattened emissions
    offsets: NDArray[np.int64]  # [S + 1] where sequences begin and end
    starts: NDArray[np.bool_]  # [P]
    whole: Parts  # the sequences
    parts: Parts  # of sequences, with all cuts that may be tried

    @classmethod
    def of(cls, rows: NDArray[np.int64], offsets: NDArray[np.int64], n_labels: int) -> Rows:
        starts, lengths = np.zeros(rows.size, np.bool_), np.diff(offsets)
        starts[offsets[:-1][lengths > 0]] = True
        least, whole = max(_LEAST_PART, _LEAST_PART_A_LABEL * n_labels), _parts(offsets, None)
        if rows.size < 2 * least or lengths.max() < 2 * least:
            return cls(rows, offsets, starts, whole, whole)
        counts = np.clip(lengths // least, 1, _MOST_PARTS)
        counts = 1 << np.log2(counts).astype(np.int64)  # a power of two: threads that come in twos have equal shares
        inside = [
            low + length * np.arange(count) // count
            for low, length, count in zip(offsets[:-1], lengths, counts, strict=True)
        ]
        cuts = np.concatenate([*inside, offsets[-1:]])
        return cls(rows, offsets, starts, whole, _parts(cuts, np.repeat(np.arange(lengths.size), counts)))

    @classmethod
    def of_table(cls, sequences: int, length: int, n_labels: int, by_position: bool = False) -> Rows:
        """All rows of a table [sequences, length], or [length, sequences] if `by_position`."""
        rows = np.arange(sequences * length)
        if by_position:
            rows = np.ascontiguousarray(rows.reshape(length, sequences).T).ravel()
        return cls.of(rows, np.arange(sequences + 1) * length, n_labels)

    @classmethod
    def of_mask(cls, mask: NDArray[np.bool_], n_labels: int, by_position: bool = False) -> Rows:
        """The rows that a mask of the table leaves."""
        rows = np.arange(mask.size).reshape(mask.shape)
        rows, mask = (rows.T, mask.T) if by_position else (rows, mask)
        offsets = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
        return cls.of(rows[mask], offsets, n_labels)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)


class EmissionBatch:
    """Scores of sequences: a source for block passes."""

    own_edges: bool
    masked = False  # what may not start or end a sequence has scores of -inf
    tolerance = TOLERANCE

    def __init__(
        self,
        emissions: Numbers,
        transitions: NDArray[Any],
        start: NDArray[Any],
        end: NDArray[Any],
        layout: Rows,
        allowed: NDArray[np.bool_] | None = None,
        edges: Numbers | None = None,
        threads: Threads | None = None,
    ) -> None:
        """emissions: [R, N]; transitions: [N, N]; start, end: [N]; allowed: [R, N], or all labels; edges: [R, N, N],
        added to the transitions."""
        n = emissions.shape[1]
        self.n_labels, self.width, self.layout = n, padded(n), layout
        self.threads = threads or Threads()
        self.edges = np.empty((0, 0, 0), emissions.dtype) if edges is None else edges
        self.own_edges, self.pool = self.edges.size > 0, ArrayPool()
        none = np.empty((0, 0), np.bool_)
        ends = np.stack([start, end]).astype(np.float64)
        self.emissions = Emissions(
            emissions, ends[0], ends[1], none if allowed is None else allowed, layout.rows, layout.starts
        )
        scores = np.full((n, self.width), -np.inf)
        scores[:, :n] = transitions
        restricted = allowed is not None or bool((ends == -np.inf).any())
        self.transitions = p = Transitions(scores.reshape(1, -1), n, restricted, self.own_edges)
        self.moves = Moves(p.edge, p.edge_t, p.shift, p.watch)

    @property
    def positions(self) -> int:
        return self.layout.rows.size

    def read(self, low: int, high: int) -> Block:
        """Positions low … high-1, without attributes."""
        size, none = high - low, frozen(None, np.int64)
        labels, ids, values = np.full(size, NO_LABEL, np.int32), frozen(None, np.int32), frozen(None, np.float64)
        offsets = np.zeros(size + 1, np.int64)
        return Block(labels, self.layout.starts[low:high], offsets, ids, values, none, ids, values)

    def scores(self) -> _EmissionScores:
        return _EmissionScores(self)

    def states(self, low: int, high: int) -> Floats:
        """[positions, width]  the state scores of positions low … high-1."""
        out = np.empty((high - low, self.width))
        emission_scores(self.emissions, low, high, out)
        return out

    def edge_scores(self, low: int, high: int) -> Floats | None:
        """[positions, N · width]  the edge scores of positions low … high-1, or None where all share one matrix."""
        if not self.own_edges:
            return None
        out = np.empty((high - low, self.n_labels * self.width))
        emission_edges(self.edges, self.layout.rows[low:high], self.transitions.scores[0], out)
        return out


class _EmissionScores:
    """The scores of a range of a batch; what comes back is their gradient."""

    def __init__(self, batch: EmissionBatch) -> None:
        self._batch, self._low = batch, 0

    def give(self, low: int, block: Block) -> None:
        self._low = low

    def release(self) -> None:
        return

    def fill(self, states: Floats, edges: Floats | None, masked: bool) -> None:
        batch, low = self._batch, self._low
        high = low + len(states)
        emission_scores(batch.emissions, low, high, states)
        if edges is not None:
            emission_edges(batch.edges, batch.layout.rows[low:high], batch.transitions.scores[0], edges)

    def back(self, lattice: Lattice, gamma: Floats, sink: ScaledGradient) -> None:
        sums = sink.sums
        check_memory(
            backward_emissions(
                self._batch.emissions,
                lattice,
                self._low,
                gamma,
                sink.factor,
                sums.emissions,
                sums.pairs,
                sums.ends,
                sums.edges,
            )
        )


class Threads:
    """Work on several threads; without any, on the caller's own."""

    def __init__(self, count: int = 1, pool: ThreadPoolExecutor | None = None) -> None:
        self.count, self._pool = count, pool

    def run(self, work: Callable[..., Result], jobs: Sequence[tuple[Any, ...]]) -> list[Result]:
        """Call `work` with each job; results in the order of the jobs."""
        if self.count == 1 or len(jobs) < 2:
            return [work(*job) for job in jobs]
        if self._pool is None:
            with ThreadPoolExecutor(self.count) as pool:
                return [future.result() for future in [pool.submit(work, *job) for job in jobs]]
        return [future.result() for future in [self._pool.submit(work, *job) for job in jobs]]


class EmissionGradient(NamedTuple):
    """A gradient while it is added up."""

    emissions: Numbers  # [R, N]
    edges: Numbers  # [R, N, N], or empty
    pairs: Floats  # [N, width]  by the transitions
    ends: Floats  # [2, width]  by the start and end scores

    @classmethod
    def of(cls, batch: EmissionBatch) -> EmissionGradient:
        """Zeros."""
        n, width, kind = batch.n_labels, batch.width, batch.emissions.scores.dtype
        edges = np.zeros(batch.edges.shape, kind)
        return cls(np.zeros(batch.emissions.scores.shape, kind), edges, np.zeros((n, width)), np.zeros((2, width)))


class ScaledGradient(NamedTuple):
    """A sink: factor times what comes back is added to the sums."""

    sums: EmissionGradient
    factor: float


def log_partitions(batch: EmissionBatch, alpha: Floats) -> Floats:
    """[S] log Z of each sequence: not a number where a score is none, -inf where there is no labelling.

    alpha: [P, width], the forward vectors out, not a number at the start of a sequence that has none.
    """
    layout = batch.layout
    count = layout.offsets.size - 1
    if batch.own_edges or batch.transitions.only_wide:
        log_z, failed = np.zeros(count), np.flatnonzero(layout.lengths)
    else:
        parts, pasts = _cut(batch, lambda place, most: _past(batch, place, most), 0)
        values, status = np.empty(parts.cuts.size - 1), np.empty(parts.cuts.size - 1, np.int8)
        arguments = batch.emissions, batch.moves, parts.cuts, pasts

        def work(low: int, high: int) -> None:
            check_memory(forward_parts(*arguments, low, high, alpha, values, status))

        batch.threads.run(work, parts.tasks)
        log_z = parts.summed(values, count)
        failed = np.flatnonzero(status != OK)
        if parts.sequence is not None:
            failed = np.unique(parts.sequence[failed])
    for s in failed.tolist():
        log_z[s] = _whole(batch, s)[1]
        alpha[layout.offsets[s] : layout.offsets[s + 1], 0] = np.nan
    return log_z


def tag_scores(batch: EmissionBatch, tags: NDArray[np.int64]) -> Floats:
    """[S] the score of each sequence's tags; tags: [R]"""
    layout = batch.layout
    score = np.empty(layout.parts.cuts.size - 1)
    arguments = batch.emissions, layout.parts.cuts, batch.transitions.scores, batch.edges, tags
    batch.threads.run(lambda low, high: score_tags(*arguments, low, high, score), layout.parts.tasks)
    return layout.parts.summed(score, layout.offsets.size - 1)


def add_gradients(
    batch: EmissionBatch, alpha: Floats, factor: Floats, total: EmissionGradient, tags: NDArray[np.int64] | None = None
) -> None:
    """Add factor[s] times the gradient of each log Z, and take off that of the tags' scores.

    alpha: of `log_partitions`
    """
    layout = batch.layout
    parts, futures = _cut(batch, lambda place, most: _future(batch, alpha, place, most), 1)
    shares = parts.of_sequences(factor)
    arguments = batch.emissions, batch.moves, parts.cuts, futures

    def work(low: int, high: int) -> tuple[Floats, Floats]:
        pairs, ends = np.zeros_like(total.pairs), np.zeros_like(total.ends)
        check_memory(backward_parts(*arguments, low, high, alpha, shares, total.emissions, pairs, ends))
        if tags is not None:
            count_tags(batch.emissions, parts.cuts, tags, low, high, -shares, total.emissions, pairs, ends, total.edges)
        return pairs, ends

    for pairs, ends in batch.threads.run(work, parts.tasks):
        total.pairs[:] += pairs
        total.ends[:] += ends
    present = np.flatnonzero(layout.lengths)
    for s in present[np.isnan(alpha[layout.offsets[present], 0])].tolist():
        _add_sequence(batch, s, float(factor[s]), total)


def _whole(batch: EmissionBatch, s: int) -> tuple[BlockPass | None, float]:
    """One sequence after the forward pass, and its log Z; None where a score is not a number or all are forbidden."""
    low, high = batch.layout.offsets[s : s + 2].tolist()
    block_pass = BlockPass(batch)
    try:
        block_pass.forward(low, batch.read(low, high), None)
    except ScoreNotFinite:
        return None, np.nan
    except ZeroProbability:
        return None, -np.inf
    return block_pass, sum(block_pass.passed.log_scale)


def _add_sequence(batch: EmissionBatch, s: int, factor: float, total: EmissionGradient) -> None:
    """Add factor times the gradient of the log Z of a sequence."""
    block_pass, _ = _whole(batch, s)
    if block_pass is None:  # not a number, as the likelihood
        low, high = batch.layout.offsets[s : s + 2]
        total.emissions[batch.layout.rows[low:high]] = np.nan
        total.pairs[:], total.ends[:] = np.nan, np.nan
        return
    gamma = block_pass.passed.exit.posterior()
    total.ends[1] += factor * gamma
    block_pass.backward(gamma, ScaledGradient(total, factor))


def _cut(batch: EmissionBatch, find: Callable[[int, int], Floats | None], earlier: int) -> tuple[Parts, Floats]:
    """Parts whose cuts hold, each with the forward vector before it, or the posterior of its last position.

    find: the vector of a cut, from a halo of some size at most; it belongs to the part after the cut, or to the earlier
    one.
    """
    parts = batch.layout.parts
    inner, cuts = parts.inner, parts.cuts
    if not inner.size:
        return parts, np.empty((0, batch.width))
    lengths = np.minimum(np.diff(cuts)[inner - 1], np.diff(cuts)[inner])
    most = (lengths // (_SHARE * batch.n_labels)).clip(_HALO.first, _HALO.last)
    found = batch.threads.run(find, list(zip(cuts[inner].tolist(), most.tolist(), strict=True)))
    vectors = np.zeros((cuts.size - 1, batch.width))
    for k, vector in zip(inner - earlier, found, strict=True):
        if vector is not None:
            vectors[k] = vector
    dropped = inner[[vector is None for vector in found]]
    return parts.without(dropped), np.ascontiguousarray(np.delete(vectors, dropped - earlier, axis=0))


def _past(batch: EmissionBatch, position: int, most: int) -> Floats | None:
    """The forward vector of the position before `position`, or None if it depends on what is before the halo."""
    try:
        side = past_of(batch, position, Halo(_HALO.first, most))
    except (ScoreNotFinite, ZeroProbability):  # a part will meet it too
        return None
    known = side.value.real() if side.known and side.value is not None else None
    return None if known is None else known


def _future(batch: EmissionBatch, alpha: Floats, position: int, most: int) -> Floats | None:
    """The posterior of the position before `position`, or None if it depends on what is after the halo."""
    if np.isnan(alpha[position, 0]):
        return None
    before, _ = Belief(alpha[position - 1]).normalised()
    side = future_of(batch, position, before, Halo(_HALO.first, most))
    return side.value if side.known else None


def _parts(cuts: NDArray[np.int64], sequence: NDArray[np.int64] | None) -> Parts:
    tasks, low, count = [], 0, cuts.size - 1
    if count and cuts[-1] <= _TASK:
        return Parts(cuts, sequence, [(0, count)])
    while low < count:  # fixed by the lengths, so that sums have one order for any number of threads
        high = max(low + 1, int(np.searchsorted(cuts, cuts[low] + _TASK, side="right")) - 1)
        tasks.append((low, high))
        low = high
    return Parts(cuts, sequence, tasks)
