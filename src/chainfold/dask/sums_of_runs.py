"""Sums of runs of stretches as they travel: plain arrays, sparse where most counts are zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import MOST_IDS
from chainfold.engines.pool import ArrayPool
from chainfold.engines.sums import Node, StretchSums, SumTree
from chainfold.model.layout import Floats, Layout

_SPARSE = 1 / 2  # of the counts are not zero, at most, where places and counts are sent


class SentCounts(NamedTuple):
    """A vector of counts, or its numbers that are not zero and their places."""

    size: int
    values: Floats
    places: NDArray[np.integer[Any]] | None

    @classmethod
    def of(cls, counts: Floats) -> SentCounts:
        places = np.flatnonzero(counts)
        if places.size > _SPARSE * counts.size:
            return cls(counts.size, counts, None)
        return cls(counts.size, counts[places], places.astype(np.int32 if counts.size <= MOST_IDS else np.int64))

    def dense(self) -> Floats:
        """An array of the caller's own."""
        if self.places is None:
            return self.values if self.values.flags.writeable else self.values.copy()
        counts = np.zeros(self.size)
        counts[self.places] = self.values
        return counts


class SentNode(NamedTuple):
    """A node of the tree of sums, its counts in the order of the weights."""

    first: int
    leaves: int
    scales: list[float]
    expected: SentCounts | None  # None where no stretch begins
    observed: SentCounts | None

    @classmethod
    def of(cls, node: Node, layout: Layout | None) -> SentNode:
        """layout: of the slots, where the counts are not yet in the order of the weights. The arrays are used up."""
        sums = node.sums
        if sums is None:
            return cls(node.first, node.leaves, [], None, None)

        def sent(slots: Floats) -> SentCounts:
            counts = SentCounts.of(slots if layout is None else layout.unpack(slots))
            sums.pool.give(slots)
            return counts

        observed = None if sums.observed is None else sent(sums.observed)
        return cls(node.first, node.leaves, sums.scales, sent(sums.expected), observed)

    def node(self, pool: ArrayPool) -> Node:
        if self.expected is None:
            return Node(self.first, self.leaves, None)
        observed = None if self.observed is None else self.observed.dense()
        sums = StretchSums(list(self.scales), self.expected.dense(), observed, pool)
        return Node(self.first, self.leaves, sums)


def tree_of(runs: Iterable[list[SentNode]]) -> SumTree:
    """The tree of consecutive runs, in the order of the chain."""
    tree, pool = SumTree(), ArrayPool()
    for run in runs:
        tree.extend(sent.node(pool) for sent in run)
    return tree
