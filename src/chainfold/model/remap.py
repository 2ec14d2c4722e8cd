"""Weights moved to another layout: to other numbers of labels and attributes, or to fewer of them.

Correspondence     the old number of each label, attribute and edge attribute
by_name            the correspondence of a model and a chain: what has the same name
continued          the correspondence of a layout and one that keeps its numbers and adds others
moved              the weights of one layout in the order of another
without_zeros      a model without the weights that are zero
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.block import Source, vocabulary_of
from chainfold.chain.strings import numbers_among
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import ChainfoldError, ModelMismatch
from chainfold.model.layout import Floats, Layout
from chainfold.model.model import Model

Ids = NDArray[np.int64]


class Correspondence(NamedTuple):
    """The old number of everything that the new layout has, -1 where it is new."""

    labels: Ids
    attributes: Ids
    edge_attributes: Ids


def by_name(model: Model, source: Source) -> Correspondence:
    """The correspondence of a model and a source by name or, where one of them has no names, by number.

    Raises `ChainfoldError` where attributes are known in different ways, `ModelMismatch` where sizes differ and there
    are no names.
    """
    sizes = source.n_labels, source.n_attributes, source.n_edge_attributes
    old_sizes = model.layout.n_labels, model.layout.n_attributes, model.layout.n_edge_attributes
    old, new = model.vocabulary, vocabulary_of(source)
    if old is None or new is None:
        for what, ours, theirs in zip(("labels", "attributes", "edge attributes"), sizes, old_sizes, strict=True):
            if ours != theirs:
                raise ModelMismatch(what, ours, theirs)
        return Correspondence(*(np.arange(size) for size in sizes))
    if old.kind != new.kind:
        raise ChainfoldError(f"the start model has {old.kind} and the data {new.kind}; encode the data as the model's.")
    numbers = {name: number for number, name in enumerate(old.labels)}
    return Correspondence(
        np.array([numbers.get(name, -1) for name in new.labels], np.int64),
        _by_name(new.attributes, old.attributes, sizes[1], old_sizes[1]),
        _by_name(new.edge_attributes, old.edge_attributes, sizes[2], old_sizes[2]),
    )


def _by_name(names: Any, old: Any, size: int, old_size: int) -> Ids:
    """The old number of each name; hashed attributes keep their numbers."""
    if names is None or old is None:
        return _kept(old_size, size)
    return numbers_among(names, old).astype(np.int64)


def continued(old: Layout, new: Layout) -> Correspondence:
    """The correspondence where all numbers are kept, and new ones follow them."""
    return Correspondence(
        _kept(old.n_labels, new.n_labels),
        _kept(old.n_attributes, new.n_attributes),
        _kept(old.n_edge_attributes, new.n_edge_attributes),
    )


def _kept(old_size: int, size: int) -> Ids:
    numbers = np.arange(size)
    return np.where(numbers < old_size, numbers, -1)


def moved(values: Floats, old: Layout, new: Layout, numbers: Correspondence) -> Floats:
    """[M] a value for each weight of the new layout: the old one's where it has the weight, else zero."""
    labels, attributes, edges = numbers
    row = np.repeat(attributes, np.diff(new.features.begin))
    state = _state(values, old, row, labels[new.features.label])
    tables = values[old.n_state :].reshape(1 + old.n_edge_attributes, old.n_labels, old.n_labels)
    table = np.concatenate([[0], np.where(edges >= 0, edges + 1, -1)])
    i, j = labels[:, None], labels[None, :]
    known = (table >= 0)[:, None, None] & (i >= 0) & (j >= 0)
    return np.concatenate([state, np.where(known, tables[table[:, None, None], i, j], 0.0).ravel()])


def _state(values: Floats, old: Layout, row: Ids, column: Ids) -> Floats:
    """The values of (attribute, label) pairs, zero where there is none."""
    begin, label = old.features.begin, old.features.label
    keys = np.repeat(np.arange(old.n_attributes) * old.n_labels, np.diff(begin)) + label  # ascending
    if not keys.size:
        return np.zeros(row.size)
    wanted = row * old.n_labels + column
    place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.where((row >= 0) & (column >= 0) & (keys[place] == wanted), values[: old.n_state][place], 0.0)


def without_zeros(model: Model) -> Model:
    """The model without weights of zero, and without attributes that have no other weight.

    Attributes without names stay, as they are known by number alone; so do all transitions, and weights of -inf. Every
    chain scores the same as before, except for attributes that are no longer in the vocabulary.
    """
    layout, vocabulary = model.layout, model.vocabulary
    state, transitions, edges = np.split(model.weights, [layout.n_state, layout.n_state + layout.n_labels**2])
    edges = edges.reshape(layout.n_edge_attributes, layout.n_labels**2)
    nonzero = state != 0.0
    ends = np.concatenate([[0], np.cumsum(nonzero)])[layout.features.begin]
    filled, edge_filled = np.diff(ends) > 0, (edges != 0.0).any(axis=1)
    if vocabulary is None or vocabulary.attributes is None:
        filled[:] = True
    if vocabulary is None or vocabulary.edge_attributes is None:
        edge_filled[:] = True
    offsets: NDArray[np.int64] | None = np.concatenate([[0], ends[1:][filled]])
    labels: NDArray[np.int32] | None = layout.features.label[nonzero]
    weights = state[nonzero]
    attributes = int(filled.sum())
    if layout.row_offsets is None and _row_bytes(weights.size, attributes) >= attributes * layout.n_labels * 8:
        offsets, labels, weights = None, None, state.reshape(-1, layout.n_labels)[filled].ravel()
    return replace(
        model,
        layout=Layout(layout.n_labels, attributes, int(edge_filled.sum()), offsets, labels),
        weights=np.concatenate([weights, transitions, edges[edge_filled].ravel()]),
        vocabulary=None if vocabulary is None else _part(vocabulary, filled, edge_filled),
    )


def _row_bytes(weights: int, attributes: int) -> int:
    """Bytes of weights in rows: each with its label, and where each row begins."""
    return weights * (8 + 4) + (attributes + 1) * 8


def _part(vocabulary: Vocabulary, filled: NDArray[np.bool_], edge_filled: NDArray[np.bool_]) -> Vocabulary:
    """The vocabulary of some of the attributes."""
    names, edge_names = vocabulary.attributes, vocabulary.edge_attributes
    return replace(
        vocabulary,
        attributes=None if names is None else names.filter(pa.array(filled)),
        edge_attributes=None if edge_names is None else edge_names.filter(pa.array(edge_filled)),
        counts=vocabulary.counts[filled],
        marks=vocabulary.marks[filled],
    )
