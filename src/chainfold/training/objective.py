"""What training minimises: the negative log likelihood of a chain, and a penalty on the weights.

    J(θ) = -Σ w log p(y | x; θ) + c2 · ‖θ‖²

as CRFsuite has it; w is the weight of a sequence. (c1 · ‖θ‖₁ has no gradient at zero; the optimiser adds it itself.)
The observed counts do not depend on θ and are taken once, so that an evaluation is log Z and its gradient.

    WeightSpace            which weights there are, and which of them training may move
    Objective        J and its gradient, over the whole chain
    BatchObjective   the same share by share, over consecutive positions
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold import core
from chainfold.chain.block import Source, vocabulary_of
from chainfold.chain.vocabulary import label_names
from chainfold.engines.problem import Problem
from chainfold.engines.settings import Settings
from chainfold.engines.stretch import share
from chainfold.engines.weight_scores import WeightSource
from chainfold.engines.workspace import Workspace
from chainfold.errors import BadSetting, ChainfoldError, ForbiddenLabel, ScoreNotFinite
from chainfold.model.constraints import Constraints
from chainfold.model.layout import Floats, Layout
from chainfold.model.model import Model
from chainfold.model.remap import by_name, moved
from chainfold.training.optimisers.vector_threads import VectorThreads
from chainfold.training.passes import ChainPasses, LocalPasses

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class WeightSpace:
    """The weights of a chain's model. Training sees a finite number for each; those held stay at zero."""

    layout: Layout
    source: Source
    passes: ChainPasses  # over the source
    forbidden: Bools  # [M]  weights of -inf
    held: Bools  # [M]  weights that do not move: those forbidden, and those that are left out
    first: Bools | None = None
    last: Bools | None = None

    @classmethod
    def of(
        cls,
        source: Source,
        *,
        passes: ChainPasses | None = None,
        constraints: Constraints | None = None,
        all_possible_states: bool = False,
        all_possible_transitions: bool = True,
    ) -> WeightSpace:
        """The weights for a labelled chain.

        passes                     who passes over it; this process unless given
        all_possible_states        a weight for every attribute with every label, not only for pairs that occur
        all_possible_transitions   a weight for every pair of labels, not only for those that follow one another
        """
        if not source.labelled:
            raise ChainfoldError("training needs a label at every position; some are unknown.")
        sizes = source.n_labels, source.n_attributes, source.n_edge_attributes
        layout = Layout.full(*sizes) if all_possible_states else Layout.observed(source)
        forbidden = np.zeros(layout.size, bool)
        first = last = None
        if constraints is not None and constraints.forbidden:
            if constraints.first.size != source.n_labels:
                raise BadSetting("constraints", constraints.first.size, f"on the {source.n_labels} labels of the chain")
            pairs = slice(layout.n_state, layout.n_state + layout.n_labels**2)
            forbidden[pairs] = ~constraints.allowed.ravel()
            first = None if constraints.first.all() else constraints.first
            last = None if constraints.last.all() else constraints.last
        passes = passes or LocalPasses(source)
        space = cls(layout, source, passes, forbidden, forbidden, first, last)
        if all_possible_transitions and constraints is None:
            return space
        unseen = space.observed() == 0.0
        if all_possible_transitions:
            return space
        unseen[: layout.n_state] = False
        return cls(layout, source, passes, forbidden, forbidden | unseen, first, last)

    @cached_property
    def _forbidden_places(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.forbidden)

    @cached_property
    def held_places(self) -> NDArray[np.int64]:
        """The few weights, or none, that do not move."""
        return np.flatnonzero(self.held)

    def observed(self) -> Floats:
        """[M] the counts of the observed labels, which the constraints must allow."""
        try:
            return self.passes.observed(self.nameless(np.zeros(self.layout.size)))
        except ForbiddenLabel as error:
            raise ChainfoldError(self._forbidden_at(error.position)) from None

    def _forbidden_at(self, position: int) -> str:
        """The transition into a position, or from it to the end of its sequence, that the constraints forbid."""
        vocabulary = vocabulary_of(self.source)
        names = label_names(vocabulary, self.layout.n_labels)
        block = self.source.block(max(position - 1, 0), position + 1)
        before, label = block.labels[0], block.labels[-1]
        pair = self.layout.n_state + before * self.layout.n_labels + label
        if block.starts[-1] and self.first is not None and not self.first[label]:
            move = f"^>{names[label]}"
        elif not block.starts[-1] and self.forbidden[pair]:
            move = f"{names[before]}>{names[label]}"
        else:
            move = f"{names[label]}>$"
        what = f"position {position} has the transition {move!r}"
        return f"{what}, which is forbidden; correct its label, or allow {move!r}."

    def start(self, model: Model) -> Floats:
        """[M] finite initial weights: the model's where it has the names, else zero, as are those held."""
        point = moved(finite_weights(model.weights), model.layout, self.layout, by_name(model, self.source))
        point[self.held] = 0.0
        return point

    def model(self, point: Floats, training: dict[str, Any]) -> Model:
        """The model that a point of the optimiser stands for, with its names and record."""
        return replace(self.nameless(point), vocabulary=vocabulary_of(self.source), training=training)

    def nameless(self, point: Floats) -> Model:
        """A model for this source alone; it may hold the point itself, not a copy."""
        weights = point
        if self._forbidden_places.size:
            weights = point.copy()
            weights[self._forbidden_places] = -np.inf
        return Model(self.layout, weights, None, self.first, self.last)


class Objective:
    """J(θ) and its gradient."""

    def __init__(self, space: WeightSpace, *, c2: float = 0.0, threads: int = 1) -> None:
        self._space, self._c2 = space, c2
        self._threads = VectorThreads(threads)
        self._observed = space.observed()
        self._begun = False

    def __call__(self, point: Floats) -> tuple[float, Floats]:
        """Infinity where scores leave the range of numbers, unless that is so at the first point."""
        try:
            evaluation = self._space.passes.evaluate(self._space.nameless(point))
        except ScoreNotFinite:
            if not self._begun:
                raise
            return math.inf, np.zeros(point.size)
        self._begun = True
        gradient = evaluation.expected
        how = (gradient, self._observed, point, self._c2)
        square, score = self._threads.run(core.penalise, point.size, 2, *how).tolist()
        gradient[self._space.held_places] = 0.0
        return self._c2 * square - (score - evaluation.log_z), gradient


class BatchObjective:
    """The negative log likelihood of each of a number of stretches, and its gradient.

    A stretch that begins or ends inside a sequence is not cut off from it: what comes before and after is looked at, as
    far as it matters, and the stretches add up to the whole. (Where a chain does not forget within the positions that
    are looked at, the share is approximate.)
    """

    def __init__(self, space: WeightSpace, positions: int) -> None:
        self._space = space
        self._workspace = Workspace(space.layout, space.source)
        self._borders = borders(space.source, positions)

    @property
    def batches(self) -> int:
        return self._borders.size - 1

    def __call__(self, batch: int, point: Floats) -> tuple[float, Floats]:
        low, high = (int(border) for border in self._borders[batch : batch + 2])
        problem = Problem(self._space.nameless(point), self._space.source, Settings(), self._workspace)
        tally = share(WeightSource(problem), low, high).tally
        assert tally.observed is not None, "a training chain is labelled"
        likelihood = tally.score - tally.log_z
        layout = self._space.layout
        gradient = layout.unpack(tally.expected.result()) - layout.unpack(tally.observed.result())
        tally.release()
        problem.release()
        gradient[self._space.held_places] = 0.0
        if not math.isfinite(likelihood):
            raise ChainfoldError(
                f"the likelihood of positions {low} to {high - 1} is {likelihood}: the weights have grown too large; "
                f"take a smaller rate, or more c2."
            )
        return -likelihood, gradient


def finite_weights(weights: Floats) -> Floats:
    """Weights with zeros for those that forbid, which their space puts back."""
    return np.where(weights == -np.inf, 0.0, weights)


def borders(source: Source, size: int) -> NDArray[np.int64]:
    """Where stretches of at most `size` positions begin and end.

    A stretch ends before the last start that is in reach or, where there is none, in the midst of a sequence.
    """
    found = [0]
    while found[-1] < source.positions:
        low = found[-1]
        high = min(low + size, source.positions)
        ends = np.flatnonzero(source.block(low, min(high + 1, source.positions)).starts[1:]) + 1
        found.append(low + int(ends[-1]) if ends.size and high < source.positions else high)
    return np.array(found, np.int64)
