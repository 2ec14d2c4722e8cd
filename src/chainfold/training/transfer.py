"""Weights of one model as a start for another: those whose attribute and labels have the same names."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import vocabulary_of
from chainfold.chain.strings import StringTable, spans
from chainfold.errors import ChainfoldError, ModelMismatch
from chainfold.model.layout import Floats, Layout
from chainfold.model.model import Model
from chainfold.training.objective import Space

Ids = NDArray[np.int64]
_SIZES = ("n_attributes", "n_edge_attributes")


def carried_over(model: Model, space: Space) -> Floats:
    """A finite weight for each of the space: the model's where it has one; zero elsewhere, and where nothing moves."""
    old, new = model.layout, space.layout
    labels, attributes, edges = _correspondence(model, space)
    weights = np.where(model.weights > -np.inf, model.weights, 0.0)
    row = np.repeat(attributes, np.diff(new.features.begin))
    column = labels[new.features.label]
    state = _looked_up(old, weights, row, column)
    pairs = (labels[:, None] >= 0) & (labels[None, :] >= 0)
    tables = weights[old.n_state :].reshape(1 + old.n_edge_attributes, old.n_labels, old.n_labels)
    taken = tables[:, labels[:, None], labels[None, :]] * pairs
    known = np.concatenate([[0], np.where(edges >= 0, edges + 1, 0)])
    present = np.concatenate([[True], edges >= 0])
    found = np.concatenate([state, (taken[known] * present[:, None, None]).ravel()])
    found[space.held] = 0.0
    return found


def _looked_up(layout: Layout, weights: Floats, row: Ids, column: Ids) -> Floats:
    """The state weights of (attribute, label) pairs, zero where there is none."""
    begin, label = layout.features.begin, layout.features.label
    keys = np.repeat(np.arange(layout.n_attributes) * layout.n_labels, np.diff(begin)) + label  # ascending
    wanted = row * layout.n_labels + column
    place = np.minimum(np.searchsorted(keys, wanted), max(keys.size - 1, 0))
    if not keys.size:
        return np.zeros(wanted.size)
    return np.where((row >= 0) & (column >= 0) & (keys[place] == wanted), weights[: layout.n_state][place], 0.0)


def _correspondence(model: Model, space: Space) -> tuple[Ids, Ids, Ids]:
    """The model's number of each label, attribute and edge attribute of the space, -1 where it has none."""
    old, new = model.vocabulary, vocabulary_of(space.source)
    if old is None or new is None:
        same = []
        for what in ("labels", "attributes", "edge_attributes"):
            ours, theirs = getattr(space.layout, f"n_{what}"), getattr(model.layout, f"n_{what}")
            if ours != theirs:
                raise ModelMismatch(what.replace("_", " "), ours, theirs)
            same.append(np.arange(ours))
        return same[0], same[1], same[2]
    if old.kind != new.kind:
        raise ChainfoldError(
            f"the model to begin with has {old.kind} and the data {new.kind}; encode the data as the model's was."
        )
    numbers = {name: number for number, name in enumerate(old.labels)}
    labels = np.array([numbers.get(name, -1) for name in new.labels], np.int64)
    sizes = [(getattr(model.layout, name), getattr(space.layout, name)) for name in _SIZES]
    attributes = _named(old.attributes, new.attributes, *sizes[0])
    edges = _named(old.edge_attributes, new.edge_attributes, *sizes[1])
    return labels, attributes, edges


def _named(old: Any, new: Any, old_size: int, size: int) -> Ids:
    """By name; hashed attributes are the same where their numbers are."""
    if old is None or new is None:
        numbers = np.arange(size)
        return np.where(numbers < old_size, numbers, -1)
    if not len(old) or not len(new):
        return np.full(size, -1)
    table = StringTable()
    table.codes_of(old)
    return table.found(*spans(new)).astype(np.int64)
