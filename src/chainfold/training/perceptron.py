"""Perceptrons: averaged perceptron, passive-aggressive and AROW, over blocks of a source.

    ap      averaged perceptron        each wrong path moves the weights by one feature count
    pa      passive-aggressive         …by just enough to put the labels ahead of it
    arow    adaptive regularisation    …and less where a weight has been seen often

They take the settings of CRFsuite's algorithms of the same names; `perceptron.hpp` has the formulas. They keep one
block and three numbers for each weight: itself, its part of the average or its variance, and room for a step.

Sequences are trained on as a whole; one of more than `longest` positions is cut into pieces of that length,
and where no sequence begins in a whole block it is cut at the block's end as well. The transition between two pieces
is not trained on. A piece with an unknown label is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold import core
from chainfold.chain.block import NO_LABEL, Block, Source, check_block
from chainfold.core.faults import check
from chainfold.core.slots import RowLayout, Slots, aligned
from chainfold.errors import (
    BadSetting,
    ChainfoldError,
    EmptyChain,
)
from chainfold.model.block_rows import find_block_rows
from chainfold.model.layout import Floats, Layout
from chainfold.model.model import Model
from chainfold.system.validate import LARGEST, MOST, below_infinity, finite, need, within
from chainfold.training.objective import borders
from chainfold.training.optimisers.base import (
    ENOUGH_ITERATIONS,
    Iteration,
    State,
    check_not_negative,
    check_whole,
    checked,
    frozen_view,
    norm,
)

SMALL_LOSS = "converged: the mean loss of an epoch is small"
ALGORITHMS = {"ap": core.PERCEPTRON, "pa": core.PASSIVE_AGGRESSIVE, "arow": core.AROW}
_OF_SOME = {"type": "pa", "c": "pa", "error_sensitive": "pa", "averaging": "ap pa", "variance": "arow", "gamma": "arow"}


class UpdateRule(NamedTuple):
    """Reach of a step."""

    algorithm: int  # core.PERCEPTRON, core.PASSIVE_AGGRESSIVE or core.AROW
    type: int  # of passive-aggressive: 0, 1 or 2
    c: float
    error_sensitive: bool
    averaging: bool
    gamma: float


class Learner(NamedTuple):
    """The weights in training, the model's shape, and the space to work in."""

    rows: RowLayout
    blank: NDArray[np.float64]  # [width]  0 for a label, -inf for padding
    first: NDArray[np.float64]  # [width]  -inf also for labels that may not begin a sequence
    last: NDArray[np.float64]  # [width]  …that may not end one
    exists: NDArray[np.bool_]  # [slots]  which slots are weights of the model; the others stay as they are
    weights: NDArray[np.float64]  # [slots]
    slots: Slots  # the same memory, by parts
    second: NDArray[np.float64]  # [slots]  u where averaged, Σ of AROW, else empty
    delta: NDArray[np.float64]  # [slots]  Δ while it is gathered, else zero
    edge: NDArray[np.float64]  # [N · width]  e_t of one position


class Scratch(NamedTuple):
    """Space for the longest piece of a block."""

    lattice: NDArray[np.float64]  # [longest, width]
    path: NDArray[np.int32]  # [longest]
    touched: NDArray[np.int64]  # [twice the features of a path]
    amount: NDArray[np.float64]  # likewise


@dataclass(frozen=True)
class PerceptronSettings:
    """Settings of the perceptrons."""

    algorithm: str = "ap"  # ap, pa or arow
    type: int = 1  # of pa: 0 as far as it takes, 1 at most c, 2 softened by c
    c: float = 1.0  # of pa: how far a step may go
    error_sensitive: bool = True  # of pa: the more labels are wrong, the further ahead the right ones must be
    averaging: bool = True  # of ap and pa: the answer is the average over all steps, not the last
    variance: float = 1.0  # of arow: of each weight at the start
    gamma: float = 1.0  # of arow: the larger, the smaller the steps
    max_iterations: int = 100  # epochs
    epsilon: float = 1e-5  # stop when the mean loss of an epoch is below it; arow also at it
    seed: int = 0  # of the order in which pieces are taken
    longest: int = 4096  # positions of a piece
    block: int = 65536  # positions read at once

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise BadSetting("algorithm", self.algorithm, f"one of {', '.join(ALGORITHMS)}")
        if self.type not in (0, 1, 2):
            raise BadSetting("type", self.type, "0, 1 or 2")
        for name in ("c", "variance", "gamma"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise BadSetting(name, getattr(self, name), "a number above 0")
        check_not_negative([("epsilon", self.epsilon)])
        for name, least in (("max_iterations", 1), ("seed", 0), ("longest", 1), ("block", 1)):
            check_whole(name, getattr(self, name), least)
            object.__setattr__(self, name, int(getattr(self, name)))


def perceptron_options(algorithm: str) -> set[str]:
    """The settings that mean something to one of the algorithms."""
    names = {one.name for one in fields(PerceptronSettings)} - {"algorithm", "block"}
    return {name for name in names if algorithm in _OF_SOME.get(name, algorithm).split()}


class PerceptronTrainer:
    """Trains the weights of a model on a source, one block at a time.

    Each epoch takes the blocks, and the pieces of each block, in a new random order. The value of its `Iteration` is
    the mean loss of a piece: the share of wrong labels for `ap`, the cost for `pa` and `arow`. `state` and `restore`
    carry everything from one process to another between any two blocks: the results have the same bits.
    """

    def __init__(
        self,
        model: Model,
        source: Source,
        settings: PerceptronSettings | None = None,
        held: NDArray[np.bool_] | None = None,
    ) -> None:
        """held: [M], weights that stay as they are."""
        if source.positions < 1:
            raise EmptyChain
        source = model.aligned(source, labels_needed=True)
        self._layout, self._source, self._settings = model.layout, source, settings or PerceptronSettings()
        self._rule = _rule(self._settings)
        self._learner = _learner(model, self._rule, self._settings.variance, held)
        self._borders, self._closed = _borders(source, self._settings.block)
        self._epoch = self._place = self._seen = self._pieces = 0
        self._loss = 0.0
        self._converged = False

    @property
    def point(self) -> Floats:
        """[M] the weights learnt so far, averaged where asked for; -inf where they were so at the start."""
        weights, second = self._learner.weights, self._learner.second
        return frozen_view(
            self._layout.unpack(weights - second / (self._seen + 1) if self._rule.averaging else weights)
        )

    @property
    def finished(self) -> str | None:
        if self._converged:
            return SMALL_LOSS
        return ENOUGH_ITERATIONS if self._epoch >= self._settings.max_iterations else None

    def advance(self) -> Iteration | None:
        """Learn from the next block; tells of the epoch if it was the last."""
        if self.finished:
            return None
        blocks = self._closed.size
        self._learn(int(self._shuffled(0, blocks)[self._place]))
        self._place += 1
        return self._end_epoch() if self._place == blocks else None

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that changes; weights in slots, of which later work changes the views given here."""
        return {
            "weights": frozen_view(self._learner.weights),
            "second": frozen_view(self._learner.second),
            "counters": np.array([self._epoch, self._place, self._seen, self._pieces, self._converged], np.int64),
            "loss": np.array([self._loss]),
        }

    def restore(self, state: State) -> None:
        """Go on from what `state` gave, with the same model, source and settings."""
        given = checked(state, self.state())
        below_infinity("weights", given["weights"])
        need(
            (np.isneginf(given["weights"]) == np.isneginf(self._learner.weights)).all(),
            "it has finite weights where the model forbids",
        )
        finite("second", given["second"])
        if self._rule.algorithm == core.AROW:
            within("second", given["second"], 0.0, LARGEST)  # variances
        epoch, place, seen, pieces, converged = given["counters"].tolist()
        most = MOST, self._closed.size - 1, MOST, MOST, 1
        for number, limit in zip((epoch, place, seen, pieces, converged), most, strict=True):
            need(0 <= number <= limit, "its counters are out of range")
        within("loss", given["loss"], 0.0, LARGEST)
        self._learner.weights[:] = given["weights"]
        self._learner.second[:] = given["second"]
        self._epoch, self._place, self._seen, self._pieces = epoch, place, seen, pieces
        self._converged = bool(converged)
        self._loss = float(given["loss"][0])

    def _learn(self, number: int) -> None:
        """From one block."""
        low, high = (int(border) for border in self._borders[number : number + 2])
        block = self._read(low, high)
        begins = _piece_begins(block, self._settings.longest)
        known = np.minimum.reduceat(block.labels, begins[:-1]) > NO_LABEL
        order = self._shuffled(1 + number, begins.size - 1)
        order = order[known[order]]
        status, fault, loss = core.learn_pieces(
            block,
            find_block_rows(self._layout, block),
            begins,
            order,
            bool(self._closed[number]),
            self._rule,
            self._learner,
            _scratch(block, begins, self._layout.width),
            self._seen,
        )
        check(status, low + fault)
        self._loss += loss
        self._seen += order.size
        self._pieces += order.size

    def _read(self, low: int, high: int) -> Block:
        block = self._source.block(low, high)
        check_block(block, low, high, self._layout.n_labels, self._layout.n_attributes, self._source.n_edge_attributes)
        return block

    def _shuffled(self, what: int, size: int) -> NDArray[np.int64]:
        """The order of this epoch's blocks, or of the pieces of a block."""
        return np.random.default_rng([self._settings.seed, self._epoch, what]).permutation(size)

    def _end_epoch(self) -> Iteration:
        if self._pieces == 0:
            raise ChainfoldError("every sequence has an unknown label, so there is nothing to learn from; label one.")
        value = self._loss / self._pieces
        self._epoch, self._place, self._pieces, self._loss = self._epoch + 1, 0, 0, 0.0
        epsilon, stops_at_it = self._settings.epsilon, self._settings.algorithm == "arow"  # as CRFsuite's do
        self._converged = value <= epsilon if stops_at_it else value < epsilon
        point = self.point
        return Iteration(
            iteration=self._epoch,
            value=value,
            gradient_norm=math.nan,
            point_norm=norm(point[np.isfinite(point)]),
            step=math.nan,
            evaluations=self._closed.size,
            active=int(np.count_nonzero(point)),
        )


def _rule(settings: PerceptronSettings) -> UpdateRule:
    algorithm = ALGORITHMS[settings.algorithm]
    return UpdateRule(
        algorithm,
        int(settings.type),
        float(settings.c),
        bool(settings.error_sensitive),
        bool(settings.averaging) and algorithm != core.AROW,
        float(settings.gamma),
    )


def _learner(model: Model, rule: UpdateRule, variance: float, held: NDArray[np.bool_] | None) -> Learner:
    layout = model.layout
    moves = np.ones(layout.size) if held is None else np.where(held, 0.0, 1.0)
    weights = layout.pack(model.weights)
    second = np.zeros(layout.slots if rule.averaging or rule.algorithm == core.AROW else 0)
    if rule.algorithm == core.AROW:
        second[:] = variance
    return Learner(
        layout.rows,
        layout.blank,
        _mask(layout, model.first),
        _mask(layout, model.last),
        layout.pack(moves, padding=0.0) == 1.0,
        weights,
        layout.view(weights),
        second,
        np.zeros(layout.slots),
        np.zeros(layout.n_labels * layout.width),
    )


def _mask(layout: Layout, allowed: NDArray[np.bool_] | None) -> Floats:
    """[width]: 0 for the labels allowed, -inf for the others."""
    mask = layout.blank.copy()
    if allowed is not None:
        mask[: layout.n_labels][~np.asarray(allowed, bool)] = -np.inf
    return mask


def _borders(source: Source, size: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The borders of blocks of at most `size` positions, and whether each block ends with a sequence."""
    found = borders(source, size)
    closed = [bool(source.block(end, end + 1).starts[0]) for end in found[1:-1].tolist()]
    return found, np.array([*closed, True])


def _piece_begins(block: Block, longest: int) -> NDArray[np.int64]:
    """The begin of each piece of a block, and the end of the block."""
    size = block.labels.size
    begins = np.union1d([0], np.flatnonzero(block.starts))
    lengths = np.diff(np.append(begins, size))
    pieces = -(-lengths // longest)
    before = np.repeat(np.cumsum(pieces) - pieces, pieces)
    cuts = np.repeat(begins, pieces) + longest * (np.arange(before.size) - before)
    return np.append(cuts, size).astype(np.int64)


def _scratch(block: Block, begins: NDArray[np.int64], width: int) -> Scratch:
    """Scratch space for any piece of the block: its two paths touch no more than twice the features of one."""
    lengths = np.diff(begins)
    features = lengths + np.diff(block.offsets[begins])
    if block.edge_offsets.size:
        features = features + np.diff(block.edge_offsets[begins])
    longest, most = int(lengths.max()), 2 * int(features.max())
    return Scratch(aligned(longest, width), np.empty(longest, np.int32), np.empty(most, np.int64), np.empty(most))
