"""The tasks of a cluster: pure functions, which may run anywhere, twice, or again after a death, with the same bits.

evaluate_run   log Z and expected counts of the stretches that begin in a run of leaves
count_run      the counts of their observed labels
join_runs      consecutive runs as one
digest_piece   the digest of some positions
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chainfold.dask.chains import ChainPlace, HeldStretch, OpenChain, opened
from chainfold.dask.failure import Failure, returned
from chainfold.dask.sums_of_runs import SentNode, tree_of
from chainfold.engines.halo import HALO
from chainfold.engines.observed import count_leaves
from chainfold.engines.parallel import NEAR, cut_places, run_leaves
from chainfold.engines.problem import Problem, ReadSoFar
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.stream import StreamEvents
from chainfold.engines.sums import SumTree
from chainfold.model.layout import Floats
from chainfold.model.model import Model
from chainfold.training.passes import digest_of_piece

_HALO = HALO.last + NEAR  # positions around a stretch that its certificates may look at


class Asked(NamedTuple):
    """Arguments that are constant over the evaluations of a chain."""

    chain: ChainPlace
    full: bool  # a weight for every attribute with every label, not only for the pairs that occur
    first: list[bool] | None  # which labels may start a sequence
    last: list[bool] | None
    memory: int | None


class RunSums(NamedTuple):
    """The sums over the stretches that begin in a run of leaves."""

    nodes: list[SentNode]
    events: list[StreamEvents]
    read: list[ReadSoFar]


@returned
def evaluate_run(weights: Floats, asked: Asked, first: int, last: int) -> RunSums:
    """Leaves first … last-1, under the weights of a model of the chain."""
    settings = Settings(memory=asked.memory, observe=False)
    chain = opened(asked.chain)
    model = _model(asked, chain, weights)
    stretch = _stretch(Shape.of(model.layout, chain.source), settings, first, last)
    workspace = chain.workspace(asked.full, stretch, hold=asked.memory is None)
    problem = Problem(model, chain.source, settings, workspace)
    tree, events = run_leaves(problem, first, last)
    problem.release()
    return _sent(problem, tree, [events])


@returned
def evaluate_run_of_model(model: Model, place: ChainPlace, settings: Settings, first: int, last: int) -> RunSums:
    """Leaves first … last-1 under any model, whose names may have other numbers; observed labels are counted too."""
    source = opened(place).source
    problem = Problem(model, model.aligned(source, labels_needed=source.labelled), settings)
    tree, events = run_leaves(problem, first, last)
    return _sent(problem, tree, [events])


@returned
def count_run(weights: Floats, asked: Asked, first: int, last: int) -> RunSums:
    """The counts of the labels in leaves first … last-1, which the weights must allow."""
    chain = opened(asked.chain)
    problem = Problem(_model(asked, chain, weights), chain.source, Settings())
    return _sent(problem, count_leaves(problem, first, last), [])


def join_runs(*runs: RunSums | Failure) -> RunSums | Failure:
    """Consecutive runs as one, or the first failure."""
    done: list[RunSums] = []
    for run in runs:
        if isinstance(run, Failure):
            return run
        done.append(run)
    tree = tree_of(run.nodes for run in done)
    nodes = [SentNode.of(node, None) for node in tree.nodes]
    return RunSums(nodes, [one for run in done for one in run.events], [one for run in done for one in run.read])


@returned
def digest_piece(place: ChainPlace, low: int, high: int) -> str:
    return digest_of_piece(opened(place).source, low, high)


def _model(asked: Asked, chain: OpenChain, weights: Floats) -> Model:
    first, last = (None if mask is None else np.array(mask) for mask in (asked.first, asked.last))
    return Model(chain.layout(asked.full), weights, None, first, last)


def _stretch(shape: Shape, settings: Settings, first: int, last: int) -> HeldStretch:
    """The positions of leaves first … last-1 with the halos around them."""
    borders = [0, *cut_places(shape, settings), shape.positions]
    return HeldStretch(max(borders[first] - _HALO, 0), min(borders[last] + _HALO, shape.positions))


def _sent(problem: Problem, tree: SumTree, events: list[StreamEvents]) -> RunSums:
    layout = problem.model.layout
    return RunSums([SentNode.of(node, layout) for node in tree.nodes], events, [problem.read_so_far])
