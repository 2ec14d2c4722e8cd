"""The counts of the observed labels, which no weight of the model changes: one pass over the chain.

They are added in the tree of `engines.sums`, over the places where `parallel` tries to cut. The label before a place is
known, so every place is a cut.
"""

from __future__ import annotations

from chainfold.chain.block import Source
from chainfold.engines.parallel import cut_places
from chainfold.engines.problem import Problem
from chainfold.engines.ranges import Ranges
from chainfold.engines.settings import Settings
from chainfold.engines.sums import Node, StretchSums, SumTree
from chainfold.engines.tally import Tally
from chainfold.model.layout import Floats
from chainfold.model.model import Model


def count_observed(model: Model, chain: Source) -> Floats:
    """The counts [M] of the observed labels, each of which must be known and allowed by the model."""
    problem = Problem(model, model.aligned(chain, labels_needed=True), Settings())
    places = cut_places(problem.shape, problem.settings)
    return model.layout.unpack(count_leaves(problem, 0, len(places) + 1).root.expected)


def count_leaves(problem: Problem, first: int, last: int) -> SumTree:
    """The counts of the labels in leaves first … last-1, as sums without log Z."""
    borders = [0, *cut_places(problem.shape, problem.settings), problem.positions]
    tree, block = SumTree(), problem.shape.block(problem.settings)
    for leaf in range(first, last):
        tally = Tally(problem)
        for low, high in Ranges(borders[leaf], borders[leaf + 1], block):
            tally.observe(low, problem.read(low, high))
        assert tally.observed is not None, "only the labels of a labelled chain can be counted"
        tally.expected.release()
        tree.add(Node(leaf, 1, StretchSums([], tally.observed.closed(), None, problem.pool)))
    return tree
