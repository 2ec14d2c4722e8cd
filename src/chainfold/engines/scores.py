"""Sources of scores, and what a pass over the lattice gives back.

A pass asks a source for the scores of a range of positions and hands it what comes back, for a sink:

    WeightSource              the weights of a block's attributes    counts, as `Slots`
    emissions.EmissionBatch   dense emissions of an array            their gradient

Block pass, certificates, stretches and the memory cases know neither.
"""

from __future__ import annotations

from typing import Any, Protocol

from chainfold.chain.block import Block
from chainfold.core.slots import Lattice
from chainfold.engines.pool import ArrayPool
from chainfold.engines.transitions import Transitions
from chainfold.model.layout import Floats


class ScoreView(Protocol):
    """The scores of a range of positions, and of another one after that."""

    def give(self, low: int, block: Block) -> None:
        """The range that is meant from now on: the positions of a block that begins at position `low`."""
        ...

    def release(self) -> None:
        """Free what is held of the range, which is given again before the way back."""
        ...

    def fill(self, states: Floats, edges: Floats | None, masked: bool) -> None:
        """State scores [B, width] and, where each position has its own, edge scores [B, N · width].

        masked: labels that may not start or end a sequence are kept from it where one does.
        """
        ...

    def back(self, lattice: Lattice, gamma: Floats, sink: Any) -> None:
        """Back over the range, adding to the sink what comes of it.

        gamma: [width], the posterior of the last position in, of the position before the range out. The predictions of
        the lattice are used up.
        """
        ...


class ScoreSource(Protocol):
    """Positions with scores."""

    @property
    def positions(self) -> int: ...
    @property
    def transitions(self) -> Transitions: ...
    @property
    def own_edges(self) -> bool:
        """Whether each position has a matrix of edge scores of its own."""
        ...

    @property
    def masked(self) -> bool:
        """Whether some labels may not start or end a sequence."""
        ...

    @property
    def pool(self) -> ArrayPool: ...
    @property
    def tolerance(self) -> float:
        """Relative error that a certificate may leave."""
        ...

    def read(self, low: int, high: int) -> Block:
        """Positions low … high-1."""
        ...

    def scores(self) -> ScoreView:
        """A view of the scores for one pass."""
        ...
