"""The weights of a model by the names of attributes and labels."""

from __future__ import annotations

import numpy as np

from chainfold.chain.vocabulary import label_names
from chainfold.model.model import Model


def attribute_names(model: Model) -> list[str]:
    """The names of the attributes, in the order of their numbers; `attribute 7` where they have none."""
    names = None if model.vocabulary is None else model.vocabulary.attributes
    if names is None:
        return [f"attribute {number}" for number in range(model.layout.n_attributes)]
    listed: list[str] = names.to_pylist()
    return listed


def state_weights(model: Model) -> dict[tuple[str, str], float]:
    """The weights that are not zero: {(attribute, label): weight}."""
    layout, attributes = model.layout, attribute_names(model)
    labels = label_names(model.vocabulary, layout.n_labels)
    weights = model.weights[: layout.n_state]
    places = np.flatnonzero(weights)
    rows = np.searchsorted(layout.features.begin, places, side="right") - 1
    of = zip(rows.tolist(), layout.features.label[places].tolist(), weights[places].tolist(), strict=True)
    return {(attributes[row], labels[label]): weight for row, label, weight in of}


def transition_weights(model: Model) -> dict[tuple[str, str], float]:
    """The weights that are not zero, -inf for forbidden transitions: {(from, to): weight}."""
    layout = model.layout
    labels = label_names(model.vocabulary, layout.n_labels)
    pairs = model.weights[layout.n_state :][: layout.n_labels**2].reshape(layout.n_labels, -1)
    rows, columns = np.nonzero(pairs)
    of = zip(rows.tolist(), columns.tolist(), pairs[rows, columns].tolist(), strict=True)
    return {(labels[i], labels[j]): weight for i, j, weight in of}
