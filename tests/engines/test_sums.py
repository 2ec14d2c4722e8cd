"""The tree of sums: any run of stretches can be summed on its own, and joined with the same bits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from chainfold import Layout, Model, SyntheticChain
from chainfold.chain.chain import gather
from chainfold.engines import parallel
from chainfold.engines.pool import ArrayPool
from chainfold.engines.problem import Problem
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.sums import Node, StretchSums, SumTree
from chainfold.engines.tally import Tally

SETTINGS = Settings(block=100)


def numbered(leaf: int) -> Node:
    return Node(leaf, 1, StretchSums([1.0], np.array([float(1 << leaf)]), None, ArrayPool()))


def sums_of(problem: Problem, runs: list[tuple[int, int]]) -> Tally:
    """Each run on its own, joined in order."""
    tree = SumTree()
    for first, last in runs:
        tree.extend(parallel.run_leaves(problem, first, last)[0].nodes)
    return Tally(problem, tree.root)


def test_a_run_is_held_as_the_largest_nodes() -> None:
    tree = SumTree()
    for leaf in range(3, 15):
        tree.add(numbered(leaf))
    assert [(node.first, node.leaves) for node in tree.nodes] == [(3, 1), (4, 4), (8, 4), (12, 2), (14, 1)]
    assert [node.sums.expected[0] for node in tree.nodes if node.sums] == [8.0, 240.0, 3840.0, 12288.0, 16384.0]


def test_a_leaf_where_no_stretch_begins_adds_nothing() -> None:
    tree = SumTree()
    tree.extend([numbered(0), Node(1, 1, None), Node(2, 1, None), Node(3, 1, None)])
    assert tree.root.expected.tolist() == [1.0]


@pytest.mark.parametrize("stay", [0.5, 40.0], ids=["forgets", "does not forget"])
@pytest.mark.parametrize("threads", [1, 3])
def test_any_division_into_runs_has_the_same_bits(stay: float, threads: int) -> None:
    chain = gather(SyntheticChain(6000, 3, 10, 2, seed=4))
    layout = Layout.full(3, 10)
    weights = np.concatenate([np.random.default_rng(0).normal(0, 0.3, 30), stay * np.eye(3).ravel()])
    settings = Settings(block=375, threads=threads)
    problem = Problem(Model(layout, weights), chain, settings)
    assert parallel.leaves(problem.shape, settings) == 16
    whole, report = parallel.run(problem)
    assert (report.in_order > 0) == (stay > 1)
    expected = whole.expected.result().copy()
    rng = np.random.default_rng(1)
    for _ in range(6):
        borders = [0, *sorted(rng.choice(np.arange(1, 16), rng.integers(1, 6), replace=False).tolist()), 16]
        tally = sums_of(problem, list(pairwise(borders)))
        assert tally.log_z == whole.log_z
        assert tally.score == whole.score
        assert tally.expected.result().tobytes() == expected.tobytes()


def test_the_number_of_leaves_depends_on_the_data_and_the_memory_alone() -> None:
    shape = Shape(positions=10**7, n_labels=23, weights=115_529, active=41.0, n_edge_attributes=0)
    counts = {threads: parallel.leaves(shape, Settings(threads=threads)) for threads in (1, 2, 7)}
    assert set(counts.values()) == {16}
    long = shape._replace(positions=10**11)
    assert parallel.leaves(long, Settings()) == 1 << 16
    assert long.positions / parallel.leaves(long, Settings()) <= parallel.LONG
    assert parallel.leaves(shape._replace(positions=2**62), Settings()) == parallel.MOST
    assert parallel.leaves(shape, Settings(memory=10**6)) < 16
