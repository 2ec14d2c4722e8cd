"""Scores of lists of label sequences by scikit-learn's functions, under the names that sklearn-crfsuite gives them.

`y_true` and `y_pred` are lists with a list of labels for each sequence, as `CRF.predict` returns them. A `flat_*`
function puts the labels of all sequences one after another and passes them, with all further keywords, to the function
of `sklearn.metrics` of that name. All raise `BadChain` where the sequences differ in number or, but for
`sequence_accuracy_score`, in length, and `MissingPackage` where scikit-learn is not installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.errors import BadChain, require

Labellings = Sequence[Any] | NDArray[np.object_]
"""A list of labels for each sequence."""


def flat_accuracy_score(y_true: Labellings, y_pred: Labellings, **options: Any) -> float:
    """The share of labels that are right.

    >>> flat_accuracy_score([["A", "B"], ["A"]], [["A", "A"], ["A"]]) == 2 / 3
    True
    """
    return float(_flat_score("accuracy_score", y_true, y_pred, options))


def flat_precision_score(y_true: Labellings, y_pred: Labellings, **options: Any) -> Any:
    """The precision of labels; `average` and `labels` are those of `sklearn.metrics.precision_score`.

    >>> flat_precision_score([["A", "B"], ["A"]], [["A", "A"], ["A"]], average="micro", labels=["A"]) == 2 / 3
    True
    """
    return _flat_score("precision_score", y_true, y_pred, options)


def flat_recall_score(y_true: Labellings, y_pred: Labellings, **options: Any) -> Any:
    """The recall of labels; `average` and `labels` are those of `sklearn.metrics.recall_score`.

    >>> float(flat_recall_score([["A", "B"], ["A"]], [["A", "A"], ["A"]], average="micro", labels=["B"]))
    0.0
    """
    return _flat_score("recall_score", y_true, y_pred, options)


def flat_f1_score(y_true: Labellings, y_pred: Labellings, **options: Any) -> Any:
    """The F1 of labels; `average` and `labels` are those of `sklearn.metrics.f1_score`.

    >>> float(flat_f1_score([["A", "B"], ["A"]], [["A", "A"], ["A"]], average="micro", labels=["A"]))
    0.8
    """
    return _flat_score("f1_score", y_true, y_pred, options)


def flat_fbeta_score(y_true: Labellings, y_pred: Labellings, beta: float, **options: Any) -> Any:
    """The F-beta of labels; the keywords are those of `sklearn.metrics.fbeta_score`.

    >>> float(flat_fbeta_score([["A", "B"], ["A"]], [["A", "A"], ["A"]], 1.0, average="micro", labels=["A"]))
    0.8
    """
    return _flat_score("fbeta_score", y_true, y_pred, {"beta": beta, **options})


def flat_classification_report(
    y_true: Labellings, y_pred: Labellings, labels: Sequence[Any] | None = None, **options: Any
) -> Any:
    """A table of precision, recall and F1; the keywords are those of `sklearn.metrics.classification_report`.

    >>> flat_classification_report([["A", "B"]], [["A", "B"]], output_dict=True)["accuracy"]
    1.0
    """
    return _flat_score("classification_report", y_true, y_pred, {"labels": labels, **options})


def sequence_accuracy_score(y_true: Labellings, y_pred: Labellings) -> float:
    """The share of sequences with every label right; 0 where there are no sequences.

    >>> sequence_accuracy_score([["A", "B"], ["A"]], [["A", "A"], ["A"]])
    0.5
    """
    _check_number(y_true, y_pred)
    right = sum(list(gold) == list(predicted) for gold, predicted in zip(y_true, y_pred, strict=True))
    return right / len(y_true) if len(y_true) else 0.0


def _flat_score(name: str, y_true: Labellings, y_pred: Labellings, options: dict[str, Any]) -> Any:
    """The result of the function of `sklearn.metrics` of this name on the labels of all sequences."""
    require("sklearn", f"flat_{name}")
    from sklearn import metrics

    _check_number(y_true, y_pred)
    for index, (gold, predicted) in enumerate(zip(y_true, y_pred, strict=True)):
        if len(gold) != len(predicted):
            raise BadChain(
                f"sequence {index} has {len(gold)} labels in y_true, but {len(predicted)} in y_pred; give one label "
                f"for each item in both."
            )
    score = getattr(metrics, name)
    return score(list(chain.from_iterable(y_true)), list(chain.from_iterable(y_pred)), **options)


def _check_number(y_true: Labellings, y_pred: Labellings) -> None:
    if len(y_true) != len(y_pred):
        raise BadChain(f"y_true has {len(y_true)} sequences, but y_pred {len(y_pred)}; give the same number.")
