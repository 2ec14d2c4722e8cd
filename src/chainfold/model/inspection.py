"""Facts about a model as plain data: sizes, constraints, transitions, and the strongest attributes of each label.

Everything is made of lists, dicts, texts and numbers, as JSON has them. A weight of -inf, which forbids, is None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from chainfold.chain.vocabulary import label_names, names_of
from chainfold.errors import ChainfoldError
from chainfold.features.template import Template
from chainfold.model.layout import Floats
from chainfold.model.model import Model
from chainfold.system.validate import is_number

_MOST_LABELS = 20  # named in a sentence
_MOST_TEXT = 200  # characters of an entry of a training record
_MOST_NUMBERS = 3  # of a training record, in one line

Places = NDArray[np.int64]
Row = dict[str, Any]


def inspect(model: Model, top: int = 20, labels: Sequence[str] | None = None) -> Row:
    """All facts, with the `top` strongest weights of each kind; attributes for the labels given, or for all."""
    found, vocabulary = _Findings(model), model.vocabulary
    forbidden = np.isneginf(found.transitions)
    template = None if vocabulary is None else vocabulary.template
    return {
        "sizes": _sizes(model),
        "labels": found.labels,
        "label_column": None if vocabulary is None else vocabulary.label,
        "template": None
        if template is None
        else [feature.outline for feature in Template.from_json(template).features],
        "hash_bits": None if vocabulary is None else vocabulary.hash_bits,
        "min_count": None if vocabulary is None else vocabulary.min_count,
        "training": dict(model.training),
        "first": found.allowed(model.first),
        "last": found.allowed(model.last),
        "forbidden_transitions": found.transition_rows(np.flatnonzero(forbidden)),
        "transitions": [
            [_number(weight) for weight in row] for row in found.transitions.reshape(found.size, -1).tolist()
        ],
        "strongest_transitions": _sides(np.where(forbidden, 0.0, found.transitions), top, found.transition_rows),
        "strongest_attributes": found.by_label(top, found.numbers_of(labels)),
        "strongest_edge_attributes": _sides(found.edges, top, found.edge_rows),
    }


def matching(model: Model, text: str) -> list[Row]:
    """All weights of the attributes whose name contains a text, or whose number it is where they have no names."""
    found, layout = _Findings(model), model.layout
    state = _containing(found.names, layout.n_attributes, text)
    edge = _containing(found.edge_names, layout.n_edge_attributes, text)
    places = np.flatnonzero(np.repeat(state, np.diff(layout.features.begin)))
    return found.state_rows(places) + found.edge_rows(np.flatnonzero(np.repeat(edge, layout.n_labels**2)))


def strongest(model: Model, most: int) -> list[Row]:
    """The weights of state attributes that say most, for or against, strongest first."""
    found = _Findings(model)
    size = np.abs(found.state)
    places = _largest(size, most)
    return found.state_rows(places[size[places] > 0.0])


def summary(facts: Row, most: int) -> list[tuple[str, str]]:
    """The facts but transitions and attributes, as pairs of a name and a text; `most` names in one text."""
    sizes, record = facts["sizes"], facts["training"]
    zeros = sizes["weights"] - sizes["nonzero_weights"]
    lines = [
        ("labels", f"{sizes['labels']:,}: {_listed(facts['labels'], most)}"),
        ("attributes", f"{sizes['attributes']:,}"),
        ("edge attributes", f"{sizes['edge_attributes']:,}"),
        ("weights", f"{sizes['weights']:,}, {zeros:,} of them zero, {sizes['forbidding_weights']:,} forbidding"),
        ("may begin a sequence", "any label" if facts["first"] is None else _listed(facts["first"], most)),
        ("may end a sequence", "any label" if facts["last"] is None else _listed(facts["last"], most)),
    ]
    if facts["forbidden_transitions"]:
        pairs = [f"{row['from']} → {row['to']}" for row in facts["forbidden_transitions"]]
        lines.append(("forbidden transitions", f"{len(pairs):,}: {_listed(pairs, most)}"))
    for name in ("label_column", "hash_bits", "min_count"):
        if facts[name] is not None:
            lines.append((name.replace("_", " "), str(facts[name])))
    if facts["template"] is not None:
        lines.append(("template", _listed(facts["template"], most, " ")))
    return lines + [(f"training: {name.replace('_', ' ')}", _short(value)) for name, value in record.items()]


def _listed(names: Sequence[str], most: int, between: str = ", ") -> str:
    return between.join([*names[:most], *(["…"] if len(names) > most else [])]) or "none"


def _short(value: Any) -> str:
    """An entry of a training record, in one line; the ends of a long list of numbers."""
    if isinstance(value, list) and len(value) > _MOST_NUMBERS and all(map(is_number, value)):
        return f"{value[0]:,.6g} … {value[-1]:,.6g}, {len(value):,} values"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _sizes(model: Model) -> dict[str, int]:
    layout = model.layout
    return {
        "labels": layout.n_labels,
        "attributes": layout.n_attributes,
        "edge_attributes": layout.n_edge_attributes,
        "weights": layout.size,
        "attribute_weights": layout.n_state,
        "nonzero_weights": int(np.count_nonzero(model.weights)),
        "forbidding_weights": int(np.count_nonzero(np.isneginf(model.weights))),
    }


class _Findings:
    """The weights of a model by what they belong to, and rows that say what they are."""

    def __init__(self, model: Model) -> None:
        layout, vocabulary = model.layout, model.vocabulary
        self.size = layout.n_labels
        self.state, self.transitions, self.edges = np.split(
            model.weights, [layout.n_state, layout.n_state + self.size**2]
        )
        self.labels = list(label_names(vocabulary, self.size))
        self.names = None if vocabulary is None else vocabulary.attributes
        self.edge_names = None if vocabulary is None else vocabulary.edge_attributes
        self._counts = None if vocabulary is None else vocabulary.counts
        self._features = layout.features

    def numbers_of(self, labels: Sequence[str] | None) -> Sequence[int]:
        """The numbers of some labels, or of all."""
        if labels is None:
            return range(self.size)
        for label in labels:
            if label not in self.labels:
                known = _listed(self.labels, _MOST_LABELS)
                raise ChainfoldError(f"there is no label {label!r} in the model; its labels are {known}.")
        return [self.labels.index(label) for label in labels]

    def allowed(self, mask: NDArray[np.bool_] | None) -> list[str] | None:
        """The labels that a mask lets through; None where there is none, and all may pass."""
        return None if mask is None else [self.labels[j] for j in np.flatnonzero(mask)]

    def by_label(self, top: int, numbers: Sequence[int]) -> list[Row]:
        """For each label the attributes that speak most for it, and most against it."""
        label = self._features.label
        order = np.argsort(label.astype(np.uint16) if self.size <= 1 << 16 else label, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(label, minlength=self.size))])
        found = []
        for j in numbers:
            places = order[ends[j] : ends[j + 1]]
            strongest = _strongest(self.state[places], top)
            sides = {side: self.state_rows(places[some]) for side, some in strongest.items()}
            found.append({"label": self.labels[j], **sides})
        return found

    def state_rows(self, places: Places) -> list[Row]:
        attributes = np.searchsorted(self._features.begin, places, side="right") - 1
        names = names_of(self.names, attributes, "attribute")
        counts = [None] * len(names) if self._counts is None else self._counts[attributes].tolist()
        labels = self._features.label[places].tolist()
        return [
            {"attribute": name, "label": self.labels[label], "weight": _number(weight), "count": count}
            for name, label, weight, count in zip(names, labels, self.state[places].tolist(), counts, strict=True)
        ]

    def transition_rows(self, places: Places) -> list[Row]:
        weights = self.transitions[places].tolist()
        return [self._pair(pair, weight) for pair, weight in zip(places.tolist(), weights, strict=True)]

    def edge_rows(self, places: Places) -> list[Row]:
        attributes, pairs = np.divmod(places, self.size**2)
        names = names_of(self.edge_names, attributes, "edge attribute")
        weights = self.edges[places].tolist()
        return [
            {"edge_attribute": name, **self._pair(pair, weight)}
            for name, pair, weight in zip(names, pairs.tolist(), weights, strict=True)
        ]

    def _pair(self, pair: int, weight: float) -> Row:
        i, j = divmod(pair, self.size)
        return {"from": self.labels[i], "to": self.labels[j], "weight": _number(weight)}


def _sides(weights: Floats, top: int, rows: Callable[[Places], list[Row]]) -> dict[str, list[Row]]:
    """Rows of the weights that speak most for something, and most against it."""
    return {side: rows(places) for side, places in _strongest(weights, top).items()}


def _strongest(weights: Floats, top: int) -> dict[str, Places]:
    """The places of the largest and of the smallest weights, zeros left out."""
    most, least = _largest(weights, top), _largest(-weights, top)
    return {"for": most[weights[most] > 0.0], "against": least[weights[least] < 0.0]}


def _largest(weights: Floats, most: int) -> Places:
    """The places of the largest, largest first; of equals, the first ones."""
    places = np.arange(weights.size if most else 0)
    if 0 < most < weights.size:
        places = np.flatnonzero(weights >= np.partition(weights, -most)[-most])
    return places[np.argsort(-weights[places], kind="stable")[:most]]


def _containing(names: Any, size: int, text: str) -> NDArray[np.bool_]:
    """Which attributes have a name that contains a text, or are of that number where they have none."""
    if names is None:
        number = int(text) if re.fullmatch(r"[0-9]{1,10}", text) else -1
        return np.equal(np.arange(size), number)
    found: NDArray[np.bool_] = pc.match_substring(names, text).to_numpy(zero_copy_only=False)
    return found


def _number(weight: float) -> float | None:
    """A weight as JSON can have it."""
    return None if weight == -np.inf else weight
