"""Arrays as input of the estimator: dense and sparse, by sequence and one after another; the same model as of dicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import cross_val_score

from chainfold.errors import BadChain, BadSetting, ChainfoldError
from chainfold.sklearn.estimator import CRF

pytestmark = pytest.mark.quick

LENGTHS = [5, 0, 7, 1, 9, 4]
D = 4


def arrays(seed: int = 0) -> tuple[list[Any], list[Any]]:
    random = np.random.default_rng(seed)
    labels = [random.integers(0, 3, length) for length in LENGTHS]
    rows = [np.eye(D)[each] + np.where(random.random((each.size, D)) < 0.5, 0.0, 0.4) for each in labels]
    return rows, labels


X, Y = arrays()
NEW, NEW_Y = arrays(1)


def as_items(rows: list[Any]) -> list[list[dict[str, float]]]:
    return [[{str(k): value for k, value in enumerate(row) if value} for row in each.tolist()] for each in rows]


@pytest.fixture(scope="module")
def fitted() -> CRF:
    return CRF(c2=0.1, epsilon=1e-9).fit(X, Y)


def test_arrays_train_the_model_that_dicts_of_their_columns_train(fitted: CRF) -> None:
    items = CRF(c2=0.1, epsilon=1e-9).fit(as_items(X), Y)
    assert fitted.attributes_ == [str(k) for k in range(D)]
    assert fitted.classes_ == items.classes_
    assert fitted.state_features_ == pytest.approx(items.state_features_, abs=1e-6)
    assert fitted.transition_features_ == pytest.approx(items.transition_features_, abs=1e-6)
    assert (fitted.predict(NEW) == items.predict(as_items(NEW))).all()
    assert fitted.score(NEW, NEW_Y) == items.score(as_items(NEW), NEW_Y)


def test_all_forms_of_arrays_are_the_same(fitted: CRF) -> None:
    matrices = [sparse.csr_matrix(each) for each in X]
    forms: list[tuple[Any, Any, Any]] = [
        (matrices, Y, None),
        ([each.tocoo() for each in matrices], [each.tolist() for each in Y], None),
        ([X[0], *matrices[1:]], Y, None),
        (np.concatenate(X), np.concatenate(Y), LENGTHS),
        (sparse.vstack(matrices), np.concatenate(Y), np.array(LENGTHS)),
        (np.concatenate(X), list(np.concatenate(Y)), LENGTHS),
    ]
    for x, y, lengths in forms:
        other = CRF(c2=0.1, epsilon=1e-9).fit(x, y, lengths=lengths)
        assert (other.model_.weights == fitted.model_.weights).all()
        assert (other.predict(x, lengths=lengths) == fitted.predict(X)).all()
        assert other.score(x, y, lengths=lengths) == fitted.score(X, Y)
    cube = np.stack([each[:4] for each in X if len(each) >= 4])
    assert len(CRF(c2=0.1).fit(cube, [each[:4] for each in Y if len(each) >= 4]).predict(cube)) == len(cube)


def test_results_are_by_sequence_and_labels_are_numbers(fitted: CRF) -> None:
    long = np.concatenate(NEW)
    assert [len(labels) for labels in fitted.predict(long, lengths=LENGTHS)] == LENGTHS
    assert all(type(label) is int for labels in fitted.predict(NEW) for label in labels)
    assert fitted.predict_single(NEW[0]) == fitted.predict(NEW)[0]
    marginals = fitted.predict_marginals(long, lengths=LENGTHS)
    assert [len(each) for each in marginals] == LENGTHS
    assert marginals[0][0] == fitted.predict_marginals_single(NEW[0])[0]
    assert fitted.entropy(long, lengths=LENGTHS).tolist() == fitted.entropy(NEW).tolist()
    given = fitted.log_probability(long, np.concatenate(NEW_Y), lengths=LENGTHS)
    assert given.tolist() == fitted.log_probability(NEW, NEW_Y).tolist()
    assert len(fitted.predict_nbest(long, k=2, lengths=LENGTHS)) == len(LENGTHS)
    assert [list(labels) for labels in fitted.predict([X[1], X[1]])] == [[], []]


def test_a_saved_model_of_arrays(fitted: CRF) -> None:
    again = CRF.load(fitted.dumps())
    assert (again.predict(NEW) == fitted.predict(NEW)).all()
    with pytest.raises(BadChain, match="sequence 0 has 3 columns, but the training data had 4"):
        again.predict([each[:, :3] for each in NEW])


def test_weights_development_sets_pieces_and_cross_validation() -> None:
    plain = CRF(c2=0.1, epsilon=1e-9).fit([*X, X[0]], [*Y, Y[0]])
    weighted = CRF(c2=0.1, epsilon=1e-9).fit(X, Y, sample_weight=[2.0, *np.ones(len(X) - 1)])
    assert weighted.state_features_ == pytest.approx(plain.state_features_, abs=1e-6)
    dev = CRF(max_iterations=5).fit(X, Y, NEW, NEW_Y)
    assert all(0.0 <= iteration["dev_score"] <= 1.0 for iteration in dev.training_log_.iterations)
    pieces = CRF("adagrad").partial_fit(X[:3], Y[:3], classes=[0, 1, 2])
    assert pieces.partial_fit(X[3:], Y[3:]).score(X, Y) > 0.5
    with pytest.raises(BadChain, match="5 columns, but the training data had 4"):
        pieces.partial_fit([np.zeros((2, 5))], [[0, 1]])
    assert np.isfinite(cross_val_score(CRF(), X, Y, cv=2, error_score="raise")).all()


@pytest.mark.parametrize(
    ("x", "y", "lengths", "words"),
    [
        ([X[0], X[2][:, :2]], Y[:2], None, "sequence 1 has 2 columns, but sequence 0 had 4"),
        ([X[0], [{"a": 1}]], Y[:2], None, "sequence 1 is no array of numbers"),
        (X, Y[:-1], None, "there are 6 sequences, but 5 sequences of labels"),
        (X, [Y[0][:-1], *Y[1:]], None, "sequence 0 has 5 rows, but 4 labels"),
        (X, None, None, "training on sequences requires their labels"),
        (np.concatenate(X), np.concatenate(Y), [3, 4], "the sum of lengths is 7, but X has 26 rows"),
        (np.concatenate(X), np.concatenate(Y)[1:], LENGTHS, "the sum of lengths is 26, but y has 25 rows"),
        (np.concatenate(X), np.concatenate(Y), [-1, 27], "lengths is"),
        (np.concatenate(X), np.concatenate(Y), None, "give `lengths` if X is the rows of all sequences"),
        ([np.full((2, 2), np.nan)], [[0, 1]], None, "nan"),
    ],
)
def test_wrong_arrays(x: Any, y: Any, lengths: Any, words: str) -> None:
    with pytest.raises((ChainfoldError, BadSetting), match=words):
        CRF().fit(x, y, lengths=lengths)


def test_arrays_where_the_model_was_not_trained_on_arrays() -> None:
    items = CRF().fit([[{"0": 1.0}, {"1": 1.0}]], [["A", "B"]])
    with pytest.raises(ChainfoldError, match="not trained on arrays"):
        items.predict([np.eye(2)])
    with pytest.raises(ChainfoldError, match="`min_freq` does not apply to arrays"):
        CRF(min_freq=2).fit(X, Y)
