"""Properties of the X and y of `fit` that a model keeps beside their names.

Models name labels by texts: `label_type` is `int` or `bool` where all labels were such. `n_features` is the number of
columns where X was arrays. Both are part of the model's record of training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from chainfold.sklearn.arrays import are_arrays
from chainfold.system.validate import is_count

_LABEL_TYPE, _N_FEATURES = "label_type", "n_features"
_MOST_FEATURES = 2**31 - 1
_TYPES: dict[str, tuple[type, ...]] = {"bool": (bool, np.bool_), "int": (int, np.integer)}


class LabelTypes:
    """Notes the types of labels as they go by."""

    def __init__(self) -> None:
        self._types: set[type] = set()

    def noting(self, labels: Any) -> Any:
        """Note the types of the labels of sequences; returns the labels, those of iterators as lists."""
        if not isinstance(labels, Iterable) or isinstance(labels, (str, bytes)):
            return labels
        kept = (list, tuple, np.ndarray, str, bytes)
        listed = [each if isinstance(each, kept) or not isinstance(each, Iterable) else list(each) for each in labels]
        for sequence in listed:
            self.note(sequence)
        return listed

    def note(self, labels: Any) -> None:
        """Note some labels."""
        if isinstance(labels, np.ndarray) and labels.dtype != object:
            self._types.add(labels.dtype.type)
        elif isinstance(labels, Iterable):
            self._types.update(map(type, labels))

    @property
    def name(self) -> str | None:
        """`int` or `bool` where all labels are; None otherwise."""
        types = self._types - {type(None)}
        for name, wanted in _TYPES.items():
            if types and all(issubclass(each, wanted) and (name == "bool" or each is not bool) for each in types):
                return name
        return None

    def with_past(self, training: Mapping[str, Any]) -> str | None:
        """`int` or `bool` where all labels are, also those of an earlier training, whose record may be empty."""
        past = training.get(_LABEL_TYPE)
        return past if not self._types else self.name if not training or past == self.name else None


def n_features(inputs: Any) -> int | None:
    """The columns of arrays; None for other inputs."""
    return int(next(iter(inputs)).shape[1]) if are_arrays(inputs) else None


def recorded(training: Mapping[str, Any], label_type: str | None, features: int | None) -> dict[str, Any]:
    """The record of training with what is to be remembered."""
    given = {_LABEL_TYPE: label_type, _N_FEATURES: features}
    rest = {name: value for name, value in training.items() if name not in given}
    return rest | {name: value for name, value in given.items() if value is not None}


def recorded_features(training: Mapping[str, Any]) -> int | None:
    """The columns of the arrays that a model was trained on, if it was."""
    features = training.get(_N_FEATURES)
    return features if is_count(features, 0, _MOST_FEATURES) else None


def typed_labels(names: Sequence[str], training: Mapping[str, Any]) -> list[Any]:
    """The labels as they were given to `fit`."""
    name = training.get(_LABEL_TYPE)
    try:
        if name == "int":
            return [int(label) for label in names]
    except ValueError:  # a label that was added since is no number
        return list(names)
    if name == "bool" and {label.lower() for label in names} <= {"true", "false"}:
        return [label.lower() == "true" for label in names]
    return list(names)
