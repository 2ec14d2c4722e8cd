"""Sums over consecutive stretches of a chain, added in a tree whose shape depends on the number of stretches only.

    leaf k of the tree    stretch k
    node                  2^j leaves, of which the first is a multiple of 2^j: its left half + its right half

A run of consecutive leaves is held as the largest nodes that it contains. Any part of the tree can therefore be summed
on its own, on any thread or machine, and joined to what comes before it with the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from chainfold.engines.pool import ArrayPool
from chainfold.model.layout import Floats

MOST_TERMS = 64  # of a sum that is added up exactly, after which there are two


@dataclass(eq=False)
class StretchSums:
    """What consecutive positions add to log Z and the counts."""

    scales: list[float]  # terms of log Z
    expected: Floats
    observed: Floats | None
    pool: ArrayPool  # where the arrays go when they are no longer needed

    def add(self, other: StretchSums) -> None:
        """Add the sums over the positions that come next, which are used up."""
        self.scales = shortened(self.scales + other.scales)
        self.expected += other.expected
        self.pool.give(other.expected)
        if self.observed is not None and other.observed is not None:
            self.observed += other.observed
            self.pool.give(other.observed)

    @property
    def log_z(self) -> float:
        return exact_sum(self.scales)


class Node(NamedTuple):
    """Leaves first … first + leaves - 1."""

    first: int
    leaves: int
    sums: StretchSums | None  # None: no stretch begins there

    def is_left_of(self, other: Node) -> bool:
        """Are the two the halves of a larger node?"""
        adjacent = self.leaves == other.leaves and self.first + self.leaves == other.first
        return adjacent and self.first % (2 * self.leaves) == 0

    def joined(self, other: Node) -> Node:
        left, right = self.sums, other.sums
        if left is not None and right is not None:
            left.add(right)
        return Node(self.first, 2 * self.leaves, right if left is None else left)


class SumTree:
    """The sums over a run of leaves that grows at its end.

    >>> tree = SumTree()
    >>> for leaf in range(6):
    ...     tree.add(Node(leaf, 1, None))
    >>> [(node.first, node.leaves) for node in tree.nodes]
    [(0, 4), (4, 2)]
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, node: Node) -> None:
        """Add the node of the leaves that come next."""
        while self.nodes and self.nodes[-1].is_left_of(node):
            node = self.nodes.pop().joined(node)
        self.nodes.append(node)

    def extend(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self.add(node)

    @property
    def root(self) -> StretchSums:
        """The sums over all leaves, once they are all there."""
        (node,) = self.nodes
        assert node.sums is not None, "a chain has at least one stretch"
        return node.sums


def shortened(terms: list[float]) -> list[float]:
    """The same sum in two numbers, so that what is kept does not grow with the chain."""
    if len(terms) < MOST_TERMS:
        return terms
    total = exact_sum(terms)
    return [total, exact_sum([*terms, -total])] if math.isfinite(total) else [total]


def exact_sum(terms: list[float]) -> float:
    """Exact, or not a number where it leaves the range of a double."""
    try:
        return math.fsum(terms)
    except (OverflowError, ValueError):
        return math.nan
