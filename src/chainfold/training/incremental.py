"""Training on pieces that come one after another: the model grows by the new labels and attributes of each.

    IncrementalState   a model, and the vectors that its optimiser keeps beside the weights
    learn              one pass over a piece
    learn_online       one pass in order and in constant memory, by AdaGrad on hashed attributes
    online_trainer     the trainer that goes from one such pass to the next

A piece continues the numbers of the model: what it knows keeps its number, what is new has those that follow. So each
weight has its place among more of them, and so has what the optimiser keeps of it: the moments of AdaGrad and Adam, the
averages of the perceptron, the variances of AROW. New weights begin as those of a new model do. What a model forbids
stays forbidden.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold import __version__
from chainfold.chain.block import frozen
from chainfold.chain.chain import Chain
from chainfold.chain.vocabulary import MARKS, Vocabulary
from chainfold.errors import ChainfoldError
from chainfold.model.constraints import Constraints, both_allow
from chainfold.model.layout import Floats, Layout
from chainfold.model.model import Model
from chainfold.model.remap import continued, moved
from chainfold.training.loop import Training
from chainfold.training.objective import Bools, WeightSpace, finite_weights
from chainfold.training.online.adagrad import OnlineSettings
from chainfold.training.online.trainer import OnlineTrainer
from chainfold.training.optimisers.base import Iteration, Optimiser, norm
from chainfold.training.optimisers.descent import ALGORITHMS as DESCENT


@dataclass(frozen=True, eq=False)
class IncrementalState:
    """The result of training on some pieces."""

    model: Model
    algorithm: str | None = None  # that of the vectors
    vectors: dict[str, Floats] = field(default_factory=dict)  # [M] each: what the optimiser keeps, by weight
    passes: int = 0
    steps: int = 0  # batches of descent, or pieces of a chain that were trained on, in all passes
    goes_on: bool = False  # whether the last sequence is unfinished, and continues with the next row


def learn(
    piece: Chain, training: Training, before: IncrementalState | None = None, constraints: Constraints | None = None
) -> tuple[IncrementalState, Iteration]:
    """Go once over a piece whose numbers continue those of the model before, by any algorithm but L-BFGS."""
    assert piece.vocabulary is not None, "pieces are held together by names"
    if before is not None:
        piece = piece.with_vocabulary(_merged(piece.vocabulary, before.model))
    passes = 0 if before is None else before.passes
    space, start = _space(piece, training, before, constraints)
    once = {"max_iterations": None if training.algorithm in DESCENT else passes + 1}
    optimiser = replace(training, options={**training.options, **once}).optimiser(space, start)
    if before is not None and before.algorithm == training.algorithm:
        _restore(optimiser, space, training, before)
    step = None
    while step is None:
        step = optimiser.advance()
    record = {
        "chainfold": __version__,
        **training.record(),
        "max_iterations": None,
        "passes": passes + 1,
        "objective": [step.value],
        "positions": piece.positions,
    }
    model = space.model(finite_weights(optimiser.point), record)
    vectors, steps = _kept(optimiser, space.layout, training)
    return IncrementalState(model, training.algorithm, vectors, passes + 1, steps), step


def learn_online(
    piece: Chain | None,
    vocabulary: Vocabulary,
    trainer: OnlineTrainer,
    before: IncrementalState | None,
    lengths: Sequence[int],
    unfinished: bool,
) -> tuple[IncrementalState, Iteration]:
    """Go once over a piece with hashed attributes, in order; its first sequence goes on with an unfinished one.

    piece        None where it is empty
    vocabulary   all names by now
    lengths      of the sequences, where some may be empty; none otherwise. An empty one at the beginning ends what was
                 unfinished; where one at the end is unfinished, the next piece begins a new sequence
    unfinished   the last sequence will go on: rows are held until enough is known of what follows them
    """
    goes_on = before is not None and before.goes_on and not (len(lengths) > 1 and lengths[0] == 0)
    if piece is not None:
        block = piece.block(0, piece.positions)
        starts = block.starts.copy()
        starts[0] = not goes_on
        trainer.add(block._replace(starts=frozen(starts, np.bool_)))
        goes_on = not lengths or lengths[-1] > 0
    batches = list(trainer.learn(ended=not unfinished))
    loss, passes = sum((batch.loss for batch in batches), 0.0), 1 if before is None else before.passes + 1
    model = trainer.model(vocabulary, len(vocabulary.labels))
    model = replace(model, training={**model.training, "passes": passes, "objective": [loss]})
    point_norm, active = norm(model.weights), int(np.count_nonzero(model.weights))
    step = Iteration(passes, loss, math.nan, point_norm, trainer.settings.rate, len(batches), active)
    return IncrementalState(model, model.training["algorithm"], {}, passes, 0, goes_on and unfinished), step


def online_trainer(training: Training, vocabulary: Vocabulary, forget: float | None) -> OnlineTrainer:
    """A new trainer."""
    if vocabulary.hash_bits is None:
        raise ChainfoldError("the attributes of this chain are not hashed, as hash_bits asks; encode it with these.")
    options = {name: value for name, value in training.options.items() if name in ("rate", "batch", "c2")}
    return OnlineTrainer(1 << vocabulary.hash_bits, OnlineSettings(**options, forget=forget))


def _space(
    piece: Chain, training: Training, before: IncrementalState | None, constraints: Constraints | None
) -> tuple[WeightSpace, Floats]:
    """All weights of the model and of the piece, and where they begin."""
    space = WeightSpace.of(
        piece,
        constraints=constraints,
        all_possible_states=training.all_possible_states,
        all_possible_transitions=training.all_possible_transitions,
    )
    if before is None:
        return space, np.zeros(space.layout.size)
    model = before.model
    start = moved(model.weights, model.layout, space.layout, continued(model.layout, space.layout))
    forbidden = space.forbidden | (start == -np.inf)
    start[forbidden] = 0.0
    held = (space.held & (start == 0.0)) | forbidden
    first, last = (_both(*masks, piece.n_labels) for masks in ((space.first, model.first), (space.last, model.last)))
    return replace(space, forbidden=forbidden, held=held, first=first, last=last), start


def _both(mask: Bools | None, before: Bools | None, n_labels: int) -> Bools | None:
    if mask is None and before is None:
        return None
    return both_allow(np.ones(n_labels, bool) if mask is None else mask, before)


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
    """The vectors of the optimiser, in the order of the weights, minus their initial value; and its steps so far."""
    state = optimiser.state()
    if training.algorithm in DESCENT:
        return {str(k): moment.copy() for k, moment in enumerate(state["moments"])}, int(state["steps"])
    vectors = {"weights": finite_weights(layout.unpack(state["weights"]))}
    if state["second"].size:
        vectors["second"] = layout.unpack(state["second"]) - _beginning(training)
    return vectors, int(state["counters"][2])


def _restore(optimiser: Optimiser, space: WeightSpace, training: Training, before: IncrementalState) -> None:
    """Go on with what was kept, where a new pass begins."""
    old, new = before.model.layout, space.layout
    numbers = continued(old, new)
    vectors = {name: moved(vector, old, new, numbers) for name, vector in before.vectors.items()}
    state: dict[str, NDArray[Any]] = dict(optimiser.state())
    if training.algorithm in DESCENT:
        batches = int(state["batches"])
        state["steps"] = np.array(-(-before.steps // batches) * batches)
        if vectors:
            state["moments"] = np.stack([vectors[str(k)] for k in range(len(vectors))])
    else:
        layout = space.layout
        state["weights"] = layout.pack(space.nameless(vectors["weights"]).weights)
        state["counters"] = np.array([before.passes, 0, before.steps, 0, False], np.int64)
        if "second" in vectors and state["second"].size:
            state["second"] = state["second"] + layout.pack(vectors["second"], padding=0.0)
    optimiser.restore(state)


def _beginning(training: Training) -> float:
    """The initial value of the vector beside the weights."""
    return float(training.options.get("variance", 1.0)) if training.algorithm == "arow" else 0.0
