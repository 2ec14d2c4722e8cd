"""Learning from pieces that come one after another: the model grows by what is new in each, and keeps what it has.

    Learnt         a model, and what its optimiser keeps beside the weights
    learn          one pass over a piece
    learn_online   likewise in order and in constant memory, by AdaGrad on hashed attributes

A piece continues the numbers of the model: what it knows keeps its number, what is new has those that follow. So each
weight has its place among more of them, and so has what the optimiser keeps of it: the moments of AdaGrad and Adam, the
averages of the perceptron, the variances of AROW. New weights begin as those of a new model do. What a model forbids
stays forbidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import chainfold
from chainfold.constraints import Constraints
from chainfold.data.chain import Chain, frozen
from chainfold.data.vocabulary import MARKS, Vocabulary
from chainfold.model import Floats, Layout, Model
from chainfold.objective import Bools, Space
from chainfold.online.trainer import OnlineTrainer
from chainfold.online.weights import OnlineSettings
from chainfold.optimize.base import Optimiser, Step, norm
from chainfold.optimize.descent import ALGORITHMS as DESCENT
from chainfold.training import Training


@dataclass(frozen=True, eq=False)
class Learnt:
    """What is known after some pieces."""

    model: Model
    algorithm: str | None = None  # that of the vectors
    vectors: dict[str, Floats] = field(default_factory=dict)  # [M] each: what the optimiser keeps, by weight
    passes: int = 0
    steps: int = 0  # batches of descent, or pieces of a chain that were learnt from, in all passes


def learn(
    piece: Chain, training: Training, before: Learnt | None = None, constraints: Constraints | None = None
) -> tuple[Learnt, Step]:
    """Go once over a piece whose numbers continue those of the model before, by any algorithm but L-BFGS."""
    assert piece.vocabulary is not None, "pieces are held together by names"
    if before is not None:
        piece = piece.with_vocabulary(_merged(piece.vocabulary, before.model))
    passes = 0 if before is None else before.passes
    space, start = _space(piece, training, before, constraints)
    once = {"max_iterations": None if training.algorithm in DESCENT else passes + 1}
    optimiser = replace(training, options={**training.options, **once}).optimiser(space, start, {})
    if before is not None and before.algorithm == training.algorithm:
        _restore(optimiser, space, training, before)
    step = None
    while step is None:
        step = optimiser.advance()
    record = {
        "chainfold": chainfold.__version__,
        **training.record(),
        "max_iterations": None,
        "passes": passes + 1,
        "objective": [step.value],
        "positions": piece.positions,
    }
    model = space.model(_finite(optimiser.point), record)
    vectors, steps = _kept(optimiser, space.layout, training)
    return Learnt(model, training.algorithm, vectors, passes + 1, steps), step


def learn_online(
    piece: Chain, training: Training, before: Learnt | None, trainer: OnlineTrainer | None, continues: bool
) -> tuple[Learnt, Step, OnlineTrainer]:
    """Go once over a piece with hashed attributes; its first sequence may continue the last of the piece before.

    At the end of a piece what follows is not known, so it is learnt from as if its last sequence ended there.
    """
    vocabulary = piece.vocabulary
    assert vocabulary is not None, "pieces are held together by names"
    assert vocabulary.hash_bits is not None, "attributes are hashed"
    if trainer is None:
        options = {name: value for name, value in training.options.items() if name in ("rate", "batch", "c2")}
        trainer = OnlineTrainer(1 << vocabulary.hash_bits, OnlineSettings(**options))
    trainer.weights.grow(len(vocabulary.labels))
    block = piece.block(0, piece.positions)
    if continues and trainer.rows:
        starts = block.starts.copy()
        starts[0] = False
        block = block._replace(starts=frozen(starts, np.bool_))
    trainer.add(block)
    batches = list(trainer.learn(ended=True))
    loss, passes = sum(batch.loss for batch in batches), 1 if before is None else before.passes + 1
    model = trainer.model(vocabulary)
    record = {**model.training, "passes": passes, "objective": [loss]}
    weights = model.weights
    point_norm, active = norm(weights), int(np.count_nonzero(weights))
    step = Step(passes, loss, math.nan, point_norm, trainer.settings.rate, len(batches), active)
    return Learnt(replace(model, training=record), training.algorithm, {}, passes, 0), step, trainer


def _space(
    piece: Chain, training: Training, before: Learnt | None, constraints: Constraints | None
) -> tuple[Space, Floats]:
    """All weights of the model and of the piece, and where they begin."""
    space = Space.of(
        piece,
        constraints=constraints,
        all_possible_states=training.all_possible_states,
        all_possible_transitions=training.all_possible_transitions,
    )
    start = np.zeros(space.layout.size)
    if before is None:
        return space, start
    model = before.model
    start[_places(model.layout, space.layout)] = model.weights
    forbidden = space.forbidden | (start == -np.inf)
    start[forbidden] = 0.0
    held = (space.held & (start == 0.0)) | forbidden
    first, last = _both(space.first, model.first, piece.n_labels), _both(space.last, model.last, piece.n_labels)
    return replace(space, forbidden=forbidden, held=held, first=first, last=last), start


def _both(mask: Bools | None, before: Bools | None, n_labels: int) -> Bools | None:
    """What a mask and one of the first labels let through."""
    if before is None:
        return mask
    found = np.ones(n_labels, bool) if mask is None else mask.copy()
    found[: before.size] &= before
    return found


def _places(old: Layout, new: Layout) -> NDArray[np.int64]:
    """[M] the place of each weight of a layout in one that continues its numbers and has all of its pairs."""
    state = np.searchsorted(_keys(new, new.n_labels), _keys(old, new.n_labels))
    tables = np.arange(1 + old.n_edge_attributes)[:, None, None] * new.n_labels**2
    i, j = np.ogrid[: old.n_labels, : old.n_labels]
    return np.concatenate([state, (new.n_state + tables + i * new.n_labels + j).ravel()])


def _keys(layout: Layout, n_labels: int) -> NDArray[np.int64]:
    """A number for each pair of attribute and label, ascending."""
    begin, label = layout.features.begin, layout.features.label
    return np.repeat(np.arange(layout.n_attributes) * n_labels, np.diff(begin)) + label


def _merged(vocabulary: Vocabulary, model: Model) -> Vocabulary:
    """The vocabulary of a piece with the counts, and the pairs, of the model before it as well."""
    assert model.vocabulary is not None, "pieces are held together by names"
    before, layout = model.vocabulary, model.layout
    counts = vocabulary.counts.copy()
    counts[: before.counts.size] += before.counts
    marks = np.zeros((counts.size, -(-len(vocabulary.labels) // MARKS)), np.uint64)
    for some in (vocabulary.marks, before.marks):
        marks[: len(some), : some.shape[1]] |= some
    row = np.repeat(np.arange(layout.n_attributes), np.diff(layout.features.begin))
    word, bit = np.divmod(layout.features.label, MARKS)
    np.bitwise_or.at(marks, (row, word), np.left_shift(np.uint64(1), bit.astype(np.uint64)))
    return replace(vocabulary, counts=counts, marks=marks)


def _kept(optimiser: Optimiser, layout: Layout, training: Training) -> tuple[dict[str, Floats], int]:
    """What the optimiser keeps beside the weights, in their order, less what it begins with; and its steps so far."""
    state = optimiser.state()
    if training.algorithm in DESCENT:
        return {str(k): moment.copy() for k, moment in enumerate(state["moments"])}, int(state["steps"])
    vectors = {"weights": _finite(layout.unpack(state["weights"]))}
    if state["second"].size:
        vectors["second"] = layout.unpack(state["second"]) - _beginning(training)
    return vectors, int(state["counters"][2])


def _restore(optimiser: Optimiser, space: Space, training: Training, before: Learnt) -> None:
    """Go on with what was kept, where a new pass begins."""
    places, vectors = _places(before.model.layout, space.layout), dict[str, Floats]()
    for name, vector in before.vectors.items():
        vectors[name] = np.zeros(space.layout.size)
        vectors[name][places] = vector
    state: dict[str, NDArray[Any]] = dict(optimiser.state())
    if training.algorithm in DESCENT:
        batches = int(state["batches"])
        state["steps"] = np.array(-(-before.steps // batches) * batches)
        if vectors:
            state["moments"] = np.stack([vectors[str(k)] for k in range(len(vectors))])
    else:
        layout = space.layout
        state["weights"] = layout.pack(space.model(vectors["weights"]).weights)
        state["counters"] = np.array([before.passes, 0, before.steps, 0, False], np.int64)
        if "second" in vectors and state["second"].size:
            state["second"] = state["second"] + layout.pack(vectors["second"], padding=0.0)
    optimiser.restore(state)


def _beginning(training: Training) -> float:
    """What every number beside a weight begins with."""
    return float(training.options.get("variance", 1.0)) if training.algorithm == "arow" else 0.0


def _finite(weights: Floats) -> Floats:
    """Weights without those that forbid, which their space puts back."""
    return np.where(weights == -np.inf, 0.0, weights)
