"""The passes over a whole chain that training makes: its digest, the counts of its labels, log Z and its gradient.

    ChainPasses    what training asks for
    LocalPasses    the passes of this process

`chainfold.dask` makes the same passes on a cluster, with the same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Releasable, Source
from chainfold.engines.log_likelihood import Evaluation, run_engine
from chainfold.engines.observed import count_observed
from chainfold.engines.ranges import Ranges
from chainfold.engines.registry import PUBLISHED
from chainfold.engines.settings import Settings
from chainfold.engines.workspace import Workspace
from chainfold.model.layout import Floats, Layout
from chainfold.model.model import Model
from chainfold.system.machine import give_back_memory

_AT_ONCE = 65536  # positions that are looked at
_LARGE = 65536  # positions from which on memory is returned: that takes as long as training on a small chain
_PIECE = 64 * _AT_ONCE  # positions that have a digest of their own


class ChainPasses(Protocol):
    """Passes over a chain."""

    def digest(self) -> str:
        """A short name for all that is in the chain."""
        ...

    def observed(self, model: Model) -> Floats:
        """[M] the counts of the observed labels, which the model must allow."""
        ...

    def evaluate(self, model: Model) -> Evaluation:
        """log Z and expected counts; the observed labels are not counted."""
        ...


class LocalPasses:
    """Passes of this process. An evaluation keeps its arrays for the next one, if the layout is the same."""

    def __init__(
        self,
        source: Source,
        *,
        engine: str = "parallel",
        threads: int = 1,
        memory: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._source, self._engine = source, engine
        self._settings = Settings(threads, memory, observe=False, progress=progress or (lambda positions: None))
        self._workspace: Workspace | None = None

    def digest(self) -> str:
        return digest_of(digest_of_piece(self._source, low, high) for low, high in pieces(self._source))

    def observed(self, model: Model) -> Floats:
        return count_observed(model, self._source)

    def evaluate(self, model: Model) -> Evaluation:
        workspace = self._kept(model.layout)
        return run_engine(model, self._source, self._engine, self._settings, workspace)

    def _kept(self, layout: Layout) -> Workspace:
        if self._workspace is None or self._workspace.layout is not layout:
            large = self._source.positions >= _LARGE
            if large:
                give_back_memory()  # that encoding took
            ids = self._engine in PUBLISHED  # the others work on rows alone
            self._workspace = Workspace(layout, self._source, hold=self._settings.memory is None, ids=ids)
            if self._workspace.block_rows is not None and isinstance(self._source, Releasable):
                self._source.release()  # it is not read again
            if large:
                give_back_memory()
        return self._workspace


def pieces(source: Source) -> Ranges:
    """(low, high) of the pieces of which each has its digest."""
    return Ranges(0, source.positions, _PIECE)


def digest_of_piece(source: Source, low: int, high: int) -> str:
    return digest_of_arrays(_arrays(source, low, high))


def digest_of(digests: Iterable[str]) -> str:
    """The digest of a chain, by those of its pieces."""
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def digest_of_arrays(arrays: Iterable[NDArray[Any]]) -> str:
    """A short name for what is in the arrays."""
    state = hashlib.sha256()
    for array in arrays:
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()[:16]


def _arrays(source: Source, low: int, high: int) -> Iterator[NDArray[Any]]:
    """All that is in some positions, block by block."""
    for begin, end in Ranges(low, high, _AT_ONCE):
        block = source.block(begin, end)
        yield from (block.labels, block.starts, block.weights)
        for offsets, entries in (
            (block.offsets, (block.ids, block.values)),
            (block.edge_offsets, (block.edge_ids, block.edge_values)),
        ):
            if offsets.size:
                yield np.diff(offsets)
                yield from (array[offsets[0] : offsets[-1]] for array in entries)
