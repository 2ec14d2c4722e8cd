"""The memory of a worker between tasks: open chains, layouts, and the positions of its stretches.

Any task may run on any worker: what is missing is opened or read again, and what is old is freed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from chainfold.chain.any_chain import open_chain
from chainfold.chain.batches import PipedChain, StoredChain, absolute
from chainfold.chain.block import Source
from chainfold.chain.parts import ChainInParts
from chainfold.dask.warm import warm_up
from chainfold.engines.pool import ArrayPool
from chainfold.engines.workspace import MOST_HELD, Workspace, held_bytes
from chainfold.errors import BadFile, ChainfoldError
from chainfold.model.layout import Layout

_MOST_CHAINS = 4  # open in a process


class ChainPlace(NamedTuple):
    """Where a stored chain is, and which one it is."""

    path: str
    digest: str

    @classmethod
    def of(cls, chain: Source) -> ChainPlace:
        if not isinstance(chain, StoredChain | ChainInParts):
            raise ChainfoldError(
                "the workers of a cluster open a chain by its path: write it with `write_chain` or `encode` to a "
                "folder that all of them can read, and give what `open_chain` returns."
            )
        return cls(absolute(chain.path), chain.digest)


class HeldStretch(NamedTuple):
    """Positions of a chain that a task evaluates, with the halos around them."""

    low: int
    high: int


@dataclass
class OpenChain:
    """A chain that is open in this process, with what tasks keep of it."""

    source: StoredChain | ChainInParts
    layouts: dict[bool, Layout] = field(default_factory=dict)
    pools: dict[bool, ArrayPool] = field(default_factory=dict)
    workspaces: OrderedDict[tuple[bool, HeldStretch], Workspace] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def layout(self, full: bool) -> Layout:
        """The weights of all pairs of attribute and label, or of those that occur."""
        with self.lock:
            if full not in self.layouts:
                sizes = self.source.n_labels, self.source.n_attributes, self.source.n_edge_attributes
                self.layouts[full] = Layout.full(*sizes) if full else Layout.observed(self.source)
                warm_up(self.source, self.layouts[full])
            return self.layouts[full]

    def workspace(self, full: bool, stretch: HeldStretch, hold: bool) -> Workspace:
        """A workspace that holds the stretch in memory if there is room; the least recently used make room."""
        layout = self.layout(full)
        with self.lock:
            workspace = self.workspaces.pop((full, stretch), None)
            if workspace is None:
                self._make_room(held_bytes(self.source, stretch.high - stretch.low))
                pool = self.pools.setdefault(full, ArrayPool())
                workspace = Workspace(layout, self.source, hold, low=stretch.low, high=stretch.high, pool=pool)
                self.source.release()
            self.workspaces[full, stretch] = workspace
            return workspace

    def _make_room(self, size: float) -> None:
        while self.workspaces and size + self._held() > MOST_HELD:
            self.workspaces.popitem(last=False)

    def _held(self) -> float:
        held = (workspace for workspace in self.workspaces.values() if workspace.block_rows is not None)
        return sum(held_bytes(self.source, workspace.high - workspace.low) for workspace in held)


_opened: OrderedDict[ChainPlace, OpenChain] = OrderedDict()
_lock = threading.Lock()


def opened(place: ChainPlace) -> OpenChain:
    """The chain at a place, which stays open for the next task."""
    with _lock:
        chain = _opened.pop(place, None)
        if chain is None:
            source = open_chain(place.path)
            if isinstance(source, PipedChain) or source.digest != place.digest:
                raise BadFile(place.path, "is not the chain that the client has there; all machines must see one file.")
            chain = OpenChain(source)
            while len(_opened) >= _MOST_CHAINS:
                _opened.popitem(last=False)
        _opened[place] = chain
        return chain
