"""Settings of an engine, and the sizes that decide how much memory it needs.

Settings   threads, memory, tolerance, sizes of blocks
Shape      positions, labels, weights, attributes of a chain under a layout
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from chainfold.chain.block import Source
from chainfold.core.slots import padded
from chainfold.errors import BadSetting, ToleranceTooSmall
from chainfold.model.layout import Layout

LEAST_TOLERANCE, MOST_TOLERANCE = 1e-14, 1e-2
DEFAULT_TOLERANCE = 1e-12
DEFAULT_LOOKAHEAD = 4096

_LEAST_BLOCK = 256  # positions: with smaller blocks nearly all the time would be Python's


@dataclass(frozen=True)
class Settings:
    """How to compute log Z and its gradient."""

    threads: int = 1
    memory: int | None = None  # bytes of working memory, the weights and their counts not included
    tolerance: float = DEFAULT_TOLERANCE  # relative error that a certificate may leave
    block: int | None = None  # positions in a block; None: chosen from the number of labels and the memory
    lookahead: int | None = None  # positions that `stream` may look ahead before it carries a block
    observe: bool = True  # count the observed labels too
    progress: Callable[[int], None] = field(default=lambda positions: None)

    def __post_init__(self) -> None:
        for name in ("threads", "memory", "block", "lookahead"):
            value = getattr(self, name)
            if value is not None and not (
                isinstance(value, (int, float, np.integer)) and value >= 1 and value == int(value)
            ):
                raise BadSetting(name, value, "a whole number, at least 1")
            object.__setattr__(self, name, None if value is None else int(value))
        if not self.tolerance >= LEAST_TOLERANCE:
            raise ToleranceTooSmall(self.tolerance, LEAST_TOLERANCE)
        if not self.tolerance <= MOST_TOLERANCE:
            raise BadSetting("tolerance", self.tolerance, f"at most {MOST_TOLERANCE:g}")


class Shape(NamedTuple):
    """Sizes from which an engine's memory follows."""

    positions: int
    n_labels: int
    weights: int  # M
    active: float  # A, state attributes a position
    n_edge_attributes: int

    @classmethod
    def of(cls, layout: Layout, source: Source) -> Shape:
        return cls(source.positions, layout.n_labels, layout.size, source.active, source.n_edge_attributes)

    @property
    def width(self) -> int:
        return padded(self.n_labels)

    @property
    def row_bytes(self) -> int:
        """A forward vector."""
        return 8 * self.width

    @property
    def edge_bytes(self) -> int:
        """The transition matrix of one position; nothing where all positions share one."""
        return 8 * self.n_labels * self.width if self.n_edge_attributes else 0

    @property
    def pass_bytes(self) -> int:
        """A position in a block pass: forward vector, prediction, transition matrix."""
        return 2 * self.row_bytes + self.edge_bytes

    @property
    def pending_bytes(self) -> float:
        """A position of a pending block: its pass, and where the rows of its attributes are."""
        return self.pass_bytes + 8 * self.active + 16

    @property
    def tally_bytes(self) -> float:
        """Expected and observed counts of a stretch, in two levels each, padded."""
        return 4 * 8.0 * self.weights * self.width / self.n_labels

    @property
    def certificate_bytes(self) -> int:
        """Q and its scratch matrices."""
        return 4 * self.width * self.row_bytes

    def block(self, settings: Settings) -> int:
        """Positions in a block.

        Large enough that Python's share of the time is small, and that of the certificate, which costs N³ a position
        looked at against N² a position done; small enough for the cache and the memory allowed.
        """
        if settings.block is not None:
            return settings.block
        if self.n_edge_attributes:
            block = min(max((4 << 20) // self.pass_bytes, 64), 8192)
        else:
            block = max(min((3 << 19) // self.pass_bytes, 8192), 128 * self.n_labels, 4096)
        if settings.memory is not None:
            fitting = int((settings.memory - self.certificate_bytes) // (4 * self.pending_bytes))
            block = min(block, max(fitting, _LEAST_BLOCK))
        return min(block, self.positions)

    def window(self, settings: Settings) -> int:
        """Blocks that may be pending at once: the lookahead, as far as the memory allows."""
        block = self.block(settings)
        window = 1 + -(-min(settings.lookahead or DEFAULT_LOOKAHEAD, self.positions) // block)
        if settings.memory is not None:
            fitting = int((settings.memory - self.certificate_bytes) // (block * self.pending_bytes))
            window = min(window, max(fitting - 1, 1))
        return window
