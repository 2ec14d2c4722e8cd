"""A model: a layout with weights, the names of its numbers and its training record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Source, vocabulary_of
from chainfold.chain.renumbered import Renumbered
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadSetting, ChainfoldError, ModelMismatch, WeightNotANumber, WeightShape
from chainfold.model.layout import Floats, Layout


@dataclass(frozen=True, eq=False)
class Model:
    """A layout with weights, and where known the names of its numbers and its training record.

    layout       which weights there are
    weights      [M] finite, or -inf to forbid a label or a transition
    vocabulary   names of labels and attributes
    first, last  [N] which labels may start and end a sequence; None: all
    training     the training record, as JSON has it

    Raises `ChainfoldError` where the weights do not fit the layout or are not numbers.

    >>> import numpy as np
    >>> model = Model(Layout.full(2, 3), np.zeros(10))
    >>> model.weights.size
    10
    """

    layout: Layout
    weights: Floats = field(repr=False)
    vocabulary: Vocabulary | None = None
    first: NDArray[np.bool_] | None = None  # [N]  which labels may start a sequence; None: all
    last: NDArray[np.bool_] | None = None  # [N]  which may end one
    training: Mapping[str, Any] = field(default_factory=dict)  # as JSON has it

    def __post_init__(self) -> None:
        """Check that the weights fit the layout and are numbers; -inf forbids."""
        array = np.ascontiguousarray(self.weights, np.float64)
        if array.shape != (self.layout.size,):
            raise WeightShape(array.shape, self.layout.size)
        if not array.max(initial=-np.inf) < np.inf:
            wrong = np.flatnonzero(~(array < np.inf))
            raise WeightNotANumber(int(wrong[0]), float(array[wrong[0]]), self.layout.name(int(wrong[0])))
        object.__setattr__(self, "weights", array)
        for name in ("first", "last"):
            mask = getattr(self, name)
            if mask is not None and np.shape(mask) != (self.layout.n_labels,):
                raise BadSetting(name, mask, f"a mark for each of the {self.layout.n_labels} labels")

    @classmethod
    def random(cls, layout: Layout, seed: int = 0, scale: float = 0.5) -> Model:
        """Weights drawn from a normal distribution."""
        return cls(layout, np.random.default_rng(seed).normal(0.0, scale, layout.size))

    def aligned(self, source: Source, *, labels_needed: bool = False) -> Source:
        """The source with the numbers of the model: itself where they are the same, else a view that renumbers by name.

        Attributes that the model has never seen are left out: they have no weight. A label that it has never seen
        becomes unknown or, where labels are needed, an error when its block is read. Raises where the names cannot
        mean the same, because of another template or other hashing. Where the model or the source has no names, only
        their sizes can be compared: its numbers are taken to be those of the model.
        """
        own = None if self.vocabulary is None else vocabulary_of(source)
        if self.vocabulary is not None and own is not None and not own.same_numbers(self.vocabulary):
            source = Renumbered(source, self.vocabulary, labels_needed=labels_needed)
        self._check_sizes(source)
        return source

    def _check_sizes(self, source: Source) -> None:
        """Raise unless every label and attribute of the source has its place in the layout."""
        for what, chain, model in (
            ("labels", source.n_labels, self.layout.n_labels),
            ("attributes", source.n_attributes, self.layout.n_attributes),
            ("edge attributes", source.n_edge_attributes, self.layout.n_edge_attributes),
        ):
            if chain > model:
                raise ModelMismatch(what, chain, model)


def vocabulary_of_model(model: Model) -> Vocabulary:
    """The vocabulary of a model that has one."""
    if model.vocabulary is None:
        raise ChainfoldError("the model has no names for its labels and attributes, so it can label chains alone.")
    return model.vocabulary
