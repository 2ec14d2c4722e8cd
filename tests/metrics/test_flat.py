"""Scores of lists of label sequences: those of sklearn-crfsuite, and errors where it would be silent."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn_crfsuite import metrics as peer

from chainfold import metrics, scorers
from chainfold.errors import BadChain, ChainfoldError

pytestmark = pytest.mark.quick


def labels(seed: int, kind: str = "text") -> list[list[Any]]:
    random = np.random.default_rng(seed)
    lengths = np.random.default_rng(0).integers(0, 6, 30)
    names: Any = {"text": ["A", "B", "C"], "int": [1, 2, 3]}[kind]
    return [[names[number] for number in random.integers(0, 3, length)] for length in lengths]


@pytest.mark.parametrize("kind", ["text", "int"])
def test_scores_are_those_of_sklearn_crfsuite(kind: str) -> None:
    gold, predicted = labels(1, kind), labels(2, kind)
    some = sorted({label for sequence in gold for label in sequence})[:2]
    assert metrics.flat_accuracy_score(gold, predicted) == peer.flat_accuracy_score(gold, predicted)
    options: dict[str, Any]
    for options in ({"average": "weighted"}, {"average": "macro", "labels": some}, {"average": None}):
        for name in ("precision", "recall", "f1"):
            ours, theirs = (getattr(module, f"flat_{name}_score") for module in (metrics, peer))
            assert np.array_equal(ours(gold, predicted, **options), theirs(gold, predicted, **options))
        ours = metrics.flat_fbeta_score(gold, predicted, beta=0.5, **options)
        assert np.array_equal(ours, peer.flat_fbeta_score(gold, predicted, beta=0.5, **options))
    more: list[dict[str, Any]] = [{}, {"labels": some, "digits": 3}]
    for options in more:
        report = metrics.flat_classification_report(gold, predicted, **options)
        assert report == peer.flat_classification_report(gold, predicted, **options)


def test_sequence_accuracy() -> None:
    assert metrics.sequence_accuracy_score([[1, 2], [3], [4]], [[1, 2], [4], [4]]) == 2 / 3
    assert metrics.sequence_accuracy_score([], []) == 0
    array = np.empty(2, object)
    array[:] = [["A", "B"], ["C", "D"]]
    assert metrics.sequence_accuracy_score(array, [["A", "B"], ["C", "C"]]) == 0.5
    assert metrics.sequence_accuracy_score([["A"]], [["A", "A"]]) == 0


def test_sequences_that_do_not_fit() -> None:
    with pytest.raises(BadChain, match="y_true has 2 sequences, but y_pred 1"):
        metrics.sequence_accuracy_score([["A"], ["B"]], [["A"]])
    with pytest.raises(BadChain, match="sequence 0 has 1 labels in y_true, but 2 in y_pred"):
        metrics.flat_accuracy_score([["A"], ["B", "C"]], [["A", "B"], ["C"]])  # as many in all


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ChainfoldError, match=r"flat_f1_score needs the package 'sklearn'.*pip install '\.\[sklearn\]'"):
        metrics.flat_f1_score([["A"]], [["A"]])


def test_scorers_score_estimators() -> None:
    class Constant(BaseEstimator):  # type: ignore[misc]
        def predict(self, sequences: list[list[str]]) -> list[list[str]]:
            return [["A"] * len(items) for items in sequences]

        def fit(self) -> None: ...

    gold = [["A", "B"], ["A"]]
    assert scorers.flat_accuracy(Constant(), gold, gold) == 2 / 3
    assert scorers.sequence_accuracy(Constant(), gold, gold) == 0.5
