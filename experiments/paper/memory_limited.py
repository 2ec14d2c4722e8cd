"""The algorithms of the paper within a memory limit: the same engines on tables, files and sequences of a pager.

What grows with the chain counts, wherever it is: the sequence, the matrices and vectors of forward-backward. What a
process takes whatever it does, and what an engine needs for one block, comes on top.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from chainfold.chain.batches import StoredChain
from chainfold.chain.block import Block, Source
from chainfold.engines.engine import Report
from chainfold.engines.log_likelihood import Evaluation, evaluation_of
from chainfold.engines.problem import Problem
from chainfold.engines.published.algorithm_1 import LogVectorFile, forward_and_back, keep_all
from chainfold.engines.registry import engine_named
from chainfold.engines.settings import Settings
from chainfold.engines.tally import Tally
from chainfold.model.layout import Floats
from chainfold.model.model import Model
from chainfold.system.spill import SpillFile
from experiments.paper.paging import Pager
from experiments.paper.prefix import Prefix, fill, frozen_all

_SPILL_UNIT = 1 << 20  # bytes that are written at once
_BESIDE = 1 << 16  # bytes on either side of a batch that are read with it
_ENDS = 1 << 20  # bytes at either end of a stored chain that are looked at for every batch


def evaluate_limited(pager: Pager, model: Model, source: Source, engine: str, block: int | None = None) -> Evaluation:
    """log Z and ∇Z / Z of `log_likelihood`, to the bit, with everything that the engine keeps in the pager's."""
    problem = Problem(model, source, Settings(block=block, observe=False))
    run = _RUNS.get(engine)
    tally, report = run(problem, pager) if run else engine_named(engine).run(problem)
    return evaluation_of(engine, problem, tally, report)


def _everything(problem: Problem, pager: Pager) -> tuple[Tally, Report]:
    return keep_all(problem, pager.table)


def _vectors(problem: Problem, pager: Pager) -> tuple[Tally, Report]:
    return forward_and_back(problem, PagedVectors(problem, pager))


def _spilled(problem: Problem, pager: Pager) -> tuple[Tally, Report]:
    with SpillFile(np.float64) as spill:
        file = spill.file
        pager.watch(file.fileno())
        done = forward_and_back(problem, UncachedSpill(problem.model.layout.n_labels, spill, pager))
        pager.unwatch(file.fileno())
    return done


_RUNS: dict[str, Callable[[Problem, Pager], tuple[Tally, Report]]] = {
    "fb-log": _everything,
    "fb-log-recompute": _vectors,
    "fb-log-spill": _spilled,
}


class PagedVectors:
    """Keeps the forward vectors in a table."""

    def __init__(self, problem: Problem, pager: Pager) -> None:
        rows = problem.positions + len(problem.blocks())
        self._table, self._end = pager.table((rows, problem.model.layout.n_labels)), 0

    def push(self, vectors: Floats) -> None:
        self._table[self._end : self._end + len(vectors)] = vectors
        self._end += len(vectors)

    def pop(self, rows: int) -> Floats:
        self._end -= rows
        return self._table[self._end : self._end + rows]


class UncachedSpill(LogVectorFile):
    """Keeps the forward vectors in a file, and nothing of it in the system's cache."""

    def __init__(self, n_labels: int, file: SpillFile, pager: Pager) -> None:
        super().__init__(n_labels, file)
        self._pager, self._end, self._dropped = pager, 0, 0
        os.posix_fadvise(file.file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # going back, nothing ahead is needed

    def push(self, vectors: Floats) -> None:
        super().push(vectors)
        self._end += vectors.nbytes
        if self._end - self._dropped >= _SPILL_UNIT:
            self._drop(self._dropped // _SPILL_UNIT * _SPILL_UNIT, self._end - self._dropped)
            self._dropped = self._end

    def pop(self, rows: int) -> Floats:
        vectors = super().pop(rows)
        self._end -= vectors.nbytes
        self._drop(self._end, vectors.nbytes)
        return vectors

    def _drop(self, low: int, size: int) -> None:
        """All from there on."""
        self._file.file.flush()
        self._pager.drop(self._file.file.fileno(), low)
        self._pager.moved(size)


class UncachedChain(Prefix):
    """The first positions of a stored chain, batch by batch: before one is read, everything else is dropped.

    A batch is asked for as a whole, or else the system would read further ahead, for nothing. Where it begins in the
    file is told from the size of a position; if that is not quite so, a little more is read.
    """

    def __init__(self, source: StoredChain, positions: int, pager: Pager) -> None:
        super().__init__(source, positions)
        self._chain, self._pager = source, pager
        self._length, self._at = Path(source.path).stat().st_size, -1
        self._batch_size = round(self._length / source.positions * source.batch)
        self._file = pager.read(source.path, 2 * self._batch_size)
        self._drop()

    def block(self, low: int, high: int) -> Block:
        batch = low // self._chain.batch
        if batch != self._at:
            self._next(batch)
        return super().block(low, high)

    def _next(self, batch: int) -> None:
        self._drop()
        self._pager.moved(self._batch_size if self._at >= 0 else 0)
        begin = max(batch * self._batch_size - _BESIDE, 0)
        os.posix_fadvise(self._file, begin, self._batch_size + 2 * _BESIDE, os.POSIX_FADV_WILLNEED)
        self._at = batch

    def _drop(self) -> None:
        if self._length > 2 * _ENDS:
            self._pager.drop(self._file, _ENDS, self._length - 2 * _ENDS)


class PagedChain(Prefix):
    """The first positions of a source in tables."""

    def __init__(self, source: Source, positions: int, pager: Pager) -> None:
        super().__init__(source, positions)
        self._arrays = fill(source, positions, pager.table)
        self._whole = source.block(0, 1)._replace(**frozen_all(self._arrays))
        self.nbytes = self._whole.nbytes
        pager.write_back()

    def block(self, low: int, high: int) -> Block:
        for name in ("labels", "starts"):
            self._arrays[name].touch(slice(low, high))
        self._arrays["offsets"].touch(slice(low, high + 1))
        entries = slice(int(self._whole.offsets[low]), int(self._whole.offsets[high]))
        for name in self._arrays.keys() & {"ids", "values"}:
            self._arrays[name].touch(entries)
        return self._whole.part(low, high)
