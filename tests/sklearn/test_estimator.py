"""The estimator: what sklearn-crfsuite's users and scikit-learn's tools expect of it, on every kind of input."""

from __future__ import annotations

import copy
import inspect
import io
import itertools
import math
import pickle
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn_crfsuite
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from chainfold import Chain, ChainfoldError, StreamTagger, encode, encode_sequences, write_chain
from chainfold.errors import NoModelFile
from chainfold.features.encode import chain_from_sequences
from chainfold.inference.whole_chain import tag
from chainfold.model.file import open_model
from chainfold.sklearn.estimator import CRF
from chainfold.training.online.share import WindowShare
from chainfold.training.online.trainer import OnlineTrainer
from verbs import succeeded

pytestmark = pytest.mark.quick

Sequences = tuple[list[list[dict[str, Any]]], list[list[str]]]

TIGHT: dict[str, Any] = {"c2": 0.3, "epsilon": 1e-10, "period": 0}
EVERY: dict[str, Any] = {"all_possible_states": True, "all_possible_transitions": True}


def corpus(sequences: int = 60, seed: int = 0, words: int = 30) -> Sequences:
    """Short sequences of words; a word usually has its own label, and labels like to stay."""
    random = np.random.default_rng(seed)
    items, labels = [], []
    for _ in range(sequences):
        label = int(random.integers(3))
        sequence, theirs = [], []
        for _ in range(int(random.integers(1, 9))):
            label = label if random.random() < 0.6 else int(random.integers(3))
            word = int(random.integers(words // 3)) * 3 + (label if random.random() < 0.8 else int(random.integers(3)))
            sequence.append({"word": f"w{word}", "length": float(word % 4), "upper": word % 5 == 0, "bias": 1.0})
            theirs.append("OBI"[label])
        items.append(sequence)
        labels.append(theirs)
    return items, labels


X, Y = corpus()
NEW, NEW_Y = corpus(20, seed=1, words=36)


@pytest.fixture(scope="module")
def fitted() -> CRF:
    return CRF(c2=0.1).fit(X, Y)


def listed(predicted: Any) -> list[list[Any]]:
    assert predicted.shape == (len(predicted),), "an array of lists, however long they are"
    return list(predicted)


# A drop-in


def test_its_parameters_are_those_of_sklearn_crfsuite() -> None:
    left_out = {f"calibration_{name}" for name in ("eta", "rate", "samples", "candidates", "max_trials")}
    ours = inspect.signature(CRF).parameters
    for name, parameter in inspect.signature(sklearn_crfsuite.CRF).parameters.items():
        assert (name in ours) != (name in left_out), name
        if name in ours:
            assert ours[name].default == parameter.default


@pytest.mark.parametrize("c1", [0.0, 0.2])
@pytest.mark.parametrize("all_possible_transitions", [True, None])
def test_it_learns_what_sklearn_crfsuite_learns(c1: float, all_possible_transitions: bool | None) -> None:
    settings: dict[str, Any] = {
        "c1": c1,
        "c2": 0.3,
        "epsilon": 1e-6,
        "delta": 1e-9,
        "all_possible_transitions": all_possible_transitions,
    }
    few = [["O", "B"] if k % 2 else ["I"] for k in range(10)]  # not every label follows every other
    items = [[{"word": label} for label in labels] for labels in few]
    for x, y, new in ((X, Y, NEW), (items, few, [[{"word": "O"}] * 4])):
        ours, reference = CRF(**settings).fit(x, y), sklearn_crfsuite.CRF(**settings).fit(x, y)
        assert listed(ours.predict(new)) == [list(labels) for labels in reference.predict(new)]
        assert ours.score(x, y) == reference.score(x, y)
        assert ours.classes_ == reference.classes_
        assert set(ours.attributes_) == set(reference.attributes_)
        for mine, other in zip(ours.predict_marginals(new), reference.predict_marginals(new), strict=True):
            for row, expected in zip(mine, other, strict=True):
                assert row == pytest.approx(expected, abs=2e-3)
        for name in ("state_features_", "transition_features_"):
            found, expected = getattr(ours, name), getattr(reference, name)
            assert {key for key, weight in found.items() if abs(weight) > 0.01} <= set(expected)
            for key, weight in expected.items():
                assert found.get(key, 0.0) == pytest.approx(weight, abs=0.02)


# scikit-learn's rules


def test_parameters_are_stored_as_they_are_and_looked_at_only_in_fit() -> None:
    forbid = ["O>I"]
    estimator = CRF(algorithm="newton", c2=-1.0, forbid=forbid, encoding={"label": "tag"})
    assert estimator.forbid is forbid
    copied = clone(estimator)
    assert copied.get_params() == estimator.get_params()
    assert copied.classes_ is None
    with pytest.raises(ChainfoldError, match="algorithm is 'newton'"):
        copied.fit(X, Y)
    with pytest.raises(ChainfoldError, match=r"c2 is -1\.0"):
        copied.set_params(algorithm="lbfgs").fit(X, Y)
    with pytest.raises(ValueError, match="`c1` does not apply to algorithm 'ap'"):
        CRF(algorithm="ap", c1=1.0).fit(X, Y)
    with pytest.raises(ValueError, match="`gamma` does not apply to algorithm 'ap'"):
        CRF(algorithm="ap", gamma=2.0).fit(X, Y)
    with pytest.raises(ChainfoldError, match="threads is 0"):
        CRF(threads=0).fit(X, Y)
    with pytest.raises(ChainfoldError, match="min_freq is nan"):
        CRF(min_freq=math.nan).fit(X, Y)
    assert set(CRF().get_params()) == set(inspect.signature(CRF).parameters)


@pytest.mark.parametrize("use", ["predict", "predict_marginals", "score", "entropy", "save", "dumps", "n_iter_"])
def test_what_is_not_fitted_says_so(use: str) -> None:
    estimator = CRF()
    with pytest.raises(NotFittedError):
        check_is_fitted(estimator)
    with pytest.raises(NotFittedError, match="this CRF is not fitted yet; call fit"):
        getattr(estimator, use)(*([X] if use != "dumps" and not use.endswith("_") else []))
    check_is_fitted(estimator.fit(X[:5], Y[:5]))


def test_cross_validation_and_pipelines() -> None:
    estimator = CRF(max_iterations=10)
    scores = cross_val_score(estimator, X, Y, cv=3, error_score="raise")
    assert (scores > 0.5).all()
    predicted = cross_val_predict(estimator, X, Y, cv=3)
    for train, test in KFold(3).split(X):
        expected = clone(estimator).fit([X[k] for k in train], [Y[k] for k in train]).predict([X[k] for k in test])
        assert list(predicted[test]) == list(expected)
    pipeline = Pipeline([("same", FunctionTransformer()), ("crf", estimator)]).fit(X, Y)
    assert pipeline.score(X, Y) == estimator.fit(X, Y).score(X, Y)


def test_a_grid_is_searched_by_two_processes() -> None:
    search = GridSearchCV(CRF(max_iterations=5, threads=1), {"c2": [0.1, 10.0]}, cv=2, n_jobs=2, error_score="raise")
    search.fit(X, Y)
    alone = GridSearchCV(CRF(max_iterations=5), {"c2": [0.1, 10.0]}, cv=2, error_score="raise").fit(X, Y)
    assert search.cv_results_["mean_test_score"].tolist() == alone.cv_results_["mean_test_score"].tolist()
    assert listed(search.predict(NEW)) == listed(alone.predict(NEW))


@pytest.mark.parametrize("by_pieces", [False, True])
def test_copies_predict_the_same(by_pieces: bool, tmp_path: Path) -> None:
    original = CRF(scheme=None, forbid=["O>I", "^>B"], algorithm="adam", rate=0.1)
    labels = _without(Y)
    original = original.partial_fit(X[:30], labels[:30]) if by_pieces else original.fit(X[:30], labels[:30])
    small = len(pickle.dumps(original))
    before = listed(original.predict(NEW))
    joblib.dump(original, tmp_path / "crf.joblib")
    copies = [pickle.loads(pickle.dumps(original)), copy.deepcopy(original), copy.copy(original)]
    for again in [*copies, joblib.load(tmp_path / "crf.joblib")]:
        assert listed(again.predict(NEW)) == before
        assert again.predict_marginals(NEW)[0] == original.predict_marginals(NEW)[0]
        assert again.get_params() == original.get_params()
        assert again.state_features_ == original.state_features_
        assert again.training_log_ == original.training_log_
    assert len(pickle.dumps(original)) == small, "what predicting has made is not kept"
    if by_pieces:
        for again in (*copies, original):
            again.partial_fit(X[30:], labels[30:])
            assert len(again.training_log_.iterations) == 2, "copies have nothing in common"
            assert again.state_features_ == copies[0].state_features_, "the optimiser goes on as well"


def _without(labels: list[list[str]]) -> list[list[str]]:
    """The same labels, but for those that are forbidden."""
    kept = []
    for sequence in labels:
        fixed = ["O" if sequence[0] == "B" else sequence[0]]
        for label in sequence[1:]:
            fixed.append("O" if fixed[-1] == "O" and label == "I" else label)
        kept.append(fixed)
    return kept


def test_a_model_file_and_back(fitted: CRF, tmp_path: Path) -> None:
    fitted.save(tmp_path / "crf.model")
    again = CRF.load(tmp_path / "crf.model")
    check_is_fitted(again)
    assert listed(again.predict(NEW)) == listed(fitted.predict(NEW))
    assert again.n_iter_ == fitted.n_iter_ == len(again.training_log_.iterations)
    assert again.training_log_.last_iteration == {
        "num": fitted.n_iter_,
        "loss": fitted.training_log_.iterations[-1]["loss"],
    }
    assert open_model(tmp_path / "crf.model").training["algorithm"] == "lbfgs"
    again.partial_fit(NEW, NEW_Y)


# Inputs


def test_iterators_are_read_once(fitted: CRF) -> None:
    def items() -> Iterator[Iterator[dict[str, Any]]]:
        return (iter(sequence) for sequence in X)

    again = CRF(c2=0.1).fit(items(), (iter(labels) for labels in Y))
    assert again.state_features_ == fitted.state_features_
    assert listed(again.predict(items())) == listed(fitted.predict(X))
    assert again.predict_single(iter(X[0])) == fitted.predict_single(X[0]) == fitted.predict(X)[0]
    assert again.score(items(), iter(Y)) == fitted.score(X, Y)


def test_arrays_and_series_of_sequences_are_sequences(fitted: CRF) -> None:
    pairs = [sequence[:2] for sequence in X if len(sequence) > 1]
    for some in (np.array(pairs, dtype=object), pd.Series(pairs), tuple(pairs)):
        assert listed(fitted.predict(some)) == listed(fitted.predict(pairs))
    assert listed(fitted.predict(np.array([*X, []], dtype=object)))[-1] == []


def test_empty_input_and_empty_sequences(fitted: CRF) -> None:
    one = X[0]
    assert listed(fitted.predict([])) == []
    assert listed(fitted.predict([[], one, [], []])) == [[], fitted.predict_single(one), [], []]
    assert listed(fitted.predict([iter([]), iter(one)])) == [[], fitted.predict_single(one)]
    assert listed(fitted.predict([[], []])) == listed(fitted.predict_marginals([[], []])) == [[], []]
    assert fitted.predict_single([]) == []
    assert fitted.entropy([[], one]).tolist() == [0.0, fitted.entropy([one])[0]]
    assert fitted.log_probability([[]], [[]]).tolist() == [0.0]
    assert listed(fitted.predict_nbest([[]])) == [[([], 1.0)]]
    again = CRF(c2=0.1).fit([[], *X, []], [[], *Y, []])
    assert again.state_features_ == fitted.state_features_
    with pytest.raises(ChainfoldError, match="no positions"):
        CRF().fit([], [])
    with pytest.raises(ChainfoldError, match="no position with a label"):
        fitted.score([], [])


def test_what_cannot_be_learnt_from(fitted: CRF) -> None:
    with pytest.raises(ChainfoldError, match="give them as y"):
        CRF().fit(X)
    with pytest.raises(ChainfoldError, match="only 59 sequences of labels"):
        CRF().fit(X, Y[:59])
    with pytest.raises(ChainfoldError, match="leave out `y`"):
        CRF().fit(chain_from_sequences(X, Y), Y)
    with pytest.raises(ChainfoldError, match="`y_dev` requires `X_dev`"):
        CRF().fit(X, Y, y_dev=Y)
    with pytest.raises(ChainfoldError, match="label at every position"):
        CRF().fit([[["a"], ["b"]]], [["A", None]])
    with pytest.raises(ChainfoldError, match="more items"):
        fitted.score(X[:1], [Y[0][:-1]])


def test_labels_that_are_numbers_or_booleans_come_back_as_such() -> None:
    numbers = [["OBI".index(label) for label in labels] for labels in Y]
    estimator = CRF(max_iterations=5).fit(X, numbers)
    for same in (estimator, CRF.load(estimator.dumps()), pickle.loads(pickle.dumps(estimator))):
        assert set(same.classes_) == {0, 1, 2}
        assert {label for labels in same.predict(X) for label in labels} <= {0, 1, 2}
        assert all(type(label) is int for label in same.predict_single(X[0]))
        assert set(same.predict_marginals_single(X[0])[0]) == {0, 1, 2}
        assert {label for pair in same.transition_features_ for label in pair} == {0, 1, 2}
        assert {label for _, label in same.state_features_} == {0, 1, 2}
        assert same.predict_nbest(X[:1], k=1)[0][0][0] == same.predict_single(X[0])
    assert estimator.score(X, numbers) > 0.6
    assert estimator.model_.vocabulary is not None
    assert set(estimator.model_.vocabulary.labels) == {"0", "1", "2"}
    flags = [[label == "O" for label in labels] for labels in Y]
    of_flags = CRF(max_iterations=5).fit(X, [np.array(labels) for labels in flags])
    assert set(of_flags.classes_) == {True, False}
    assert of_flags.score(X, flags) > 0.6
    once = CRF(max_iterations=5).fit(iter(X), (iter(labels) for labels in numbers))
    assert (once.predict(X) == estimator.predict(X)).all()
    mixed = [[str(label) if label == 2 else label for label in labels] for labels in numbers]
    assert set(CRF(max_iterations=5).fit(X, mixed).classes_) == {"0", "1", "2"}


def test_partial_fit_keeps_the_type_of_labels_as_long_as_all_have_it() -> None:
    numbers = [["OBI".index(label) for label in labels] for labels in Y]
    estimator = CRF("adagrad").partial_fit(X, numbers, classes=[3])
    assert set(estimator.classes_) == {0, 1, 2, 3}
    assert set(estimator.partial_fit(X, numbers).classes_) == {0, 1, 2, 3}
    assert set(estimator.partial_fit(X, Y).classes_) == {"0", "1", "2", "3", *"OBI"}
    assert set(estimator.partial_fit(X, numbers).classes_) == {"0", "1", "2", "3", *"OBI"}
    digits = [[str(label) for label in labels] for labels in numbers]
    assert set(CRF("adagrad").partial_fit(X, digits).partial_fit(X, numbers).classes_) == {"0", "1", "2"}


class Colour(str, Enum):  # noqa: UP042  # StrEnum shows its text, and not its name
    RED = "red"
    BLUE = "blue"
    GREEN = "green"


class Shouted(str):
    """A text that shows itself as another one."""

    def __str__(self) -> str:
        return self.upper()

    __repr__ = __format__ = __str__  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [Colour, Shouted, np.str_])
def test_a_text_is_its_characters_whatever_its_class(kind: Any) -> None:
    red, blue = kind("red"), kind("blue")
    items = [{"k": red, red: 2.0, "of": {red: [blue]}}, {blue: "v", "k": [red]}, [red]]
    plain = [{"k": "red", "red": 2.0, "of": {"red": ["blue"]}}, {"blue": "v", "k": ["red"]}, ["red"]]
    labels, texts = [red, blue, red], ["red", "blue", "red"]
    reference = CRF(c2=0.1).fit([plain], [texts])
    assert set(sklearn_crfsuite.CRF().fit([items], [texts]).attributes_) == set(reference.attributes_)
    estimator = CRF(c2=0.1).fit([items], [labels])
    assert estimator.attributes_ == reference.attributes_
    assert estimator.classes_ == reference.classes_ == ["red", "blue"]
    assert (estimator.log_probability([items], [labels]) == reference.log_probability([plain], [texts])).all()
    assert estimator.score([items], [labels]) == reference.score([plain], [texts])
    vocabulary = chain_from_sequences([items], [labels]).vocabulary
    assert vocabulary is not None
    assert vocabulary.labels == ("red", "blue")
    assert CRF("adagrad").partial_fit([plain], [texts], classes=[kind("green")]).classes_ == ["red", "blue", "green"]
    stream = StreamTagger(reference.model_, marginals=True)
    given = [stream.push(items), stream.flush()]
    expected = reference.predict_marginals([plain])[0]
    rows = [row for tagged in given if tagged.posteriors is not None for row in tagged.posteriors]
    assert np.allclose(rows, [[row["red"], row["blue"]] for row in expected], rtol=1e-9)
    for arrays in (CRF().fit([np.eye(3)], [labels]), CRF().fit([labels], [labels])):
        assert arrays.classes_ == ["red", "blue"]


class Emptying:
    """A sequence that empties another one when it is read, as another thread may."""

    def __init__(self, items: list[Any], other: list[Any]) -> None:
        self._items, self._other = items, other

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        self._other.clear()
        return iter(self._items)


@pytest.mark.parametrize("use", ["predict", "predict_marginals", "predict_nbest", "entropy"])
def test_a_sequence_that_changes_while_it_is_read(fitted: CRF, use: str) -> None:
    other = list(X[1])
    with pytest.raises(ChainfoldError, match="the sequences were changed while they were read"):
        getattr(fitted, use)([Emptying(X[0], other), other])


def test_what_only_sklearn_crfsuite_has(fitted: CRF) -> None:
    assert CRF(keep_tempfiles=True).fit(X[:5], Y[:5]).get_params()["keep_tempfiles"]
    for learn in (CRF(trainer_cls=object).fit, CRF(trainer_cls=object).partial_fit):
        with pytest.raises(ChainfoldError, match="`trainer_cls` is not supported; call that subclass"):
            learn(X, Y)
    for estimator in (CRF(), fitted):
        assert not hasattr(estimator, "modelfile")
        with pytest.raises(NoModelFile, match="`save` and `model_filename` write it"):
            _ = estimator.modelfile


def test_before_fit_attributes_are_none(fitted: CRF, tmp_path: Path) -> None:
    theirs = sklearn_crfsuite.CRF()
    for name in ("classes_", "attributes_", "size_", "state_features_", "tagger_", "training_log_"):
        assert getattr(CRF(), name) is getattr(theirs, name) is None
    fitted.save(tmp_path / "model")
    assert CRF(model_filename=tmp_path / "model").training_log_.iterations


@pytest.mark.parametrize("source", [3, None, ["names.model"]])
def test_what_is_no_file(source: Any) -> None:
    with pytest.raises(ChainfoldError, match="must be a path, the bytes of a file, or a file that is open for reading"):
        CRF.load(source)


def test_a_model_file_is_written_by_fit_and_read_without(tmp_path: Path) -> None:
    path = tmp_path / "names.model"
    first = CRF(model_filename=path, max_iterations=5)
    assert first.tagger_ is None
    with pytest.raises(NotFittedError):
        first.predict(X)
    first.fit(X, Y)
    assert path.read_bytes() == first.dumps()
    second = CRF(model_filename=str(path))
    check_is_fitted(second)
    assert (second.predict(NEW) == first.predict(NEW)).all()
    assert second.size_ == path.stat().st_size
    assert len(second.training_log_.iterations) == 5
    third = CRF("adagrad", model_filename=path).partial_fit(X, Y)
    assert open_model(path).weights.tolist() == third.model_.weights.tolist()
    assert (pickle.loads(pickle.dumps(second)).predict(NEW) == first.predict(NEW)).all()


def test_a_model_in_memory(fitted: CRF, tmp_path: Path) -> None:
    fitted.save(tmp_path / "a.model")
    assert fitted.dumps() == (tmp_path / "a.model").read_bytes()
    with (tmp_path / "a.model").open("rb") as file:
        for source in (fitted.dumps(), bytearray(fitted.dumps()), io.BytesIO(fitted.dumps()), file):
            assert (CRF.load(source).predict(NEW) == fitted.predict(NEW)).all()
    with pytest.raises(ChainfoldError, match="the bytes: "):
        CRF.load(b"lCRF" * 99)
    for wrong in (b"", fitted.dumps()[:-1], fitted.dumps()[:-1] + b"?"):
        with pytest.raises(ChainfoldError, match="the bytes: this is not a model"):
            CRF.load(wrong)
    with pytest.raises(ChainfoldError, match="open it in binary mode"):
        CRF.load(io.StringIO("text"))  # type: ignore[arg-type]


def test_the_tagger_of_python_crfsuite(fitted: CRF) -> None:
    tagger = fitted.tagger_
    assert tagger is not None
    assert tagger is fitted.tagger_
    assert tagger.labels() == fitted.classes_
    assert tagger.tag(X[0]) == fitted.predict_single(X[0])
    assert tagger.marginal("O", 0) == pytest.approx(fitted.predict_marginals_single(X[0])[0]["O"])
    assert tagger.probability(Y[0]) == pytest.approx(math.exp(fitted.log_probability(X[:1], Y[:1])[0]))


@pytest.mark.parametrize(("name", "alias"), [("ap", "averaged-perceptron"), ("pa", "passive-aggressive")])
def test_names_of_algorithms(name: str, alias: str) -> None:
    assert CRF(alias, max_iterations=3).fit(X, Y).dumps() == CRF(name, max_iterations=3).fit(X, Y).dumps()


@pytest.mark.parametrize("algorithm", ["ap", "pa"])
def test_perceptrons_go_on_after_an_epoch_without_errors_as_crfsuite_does(algorithm: str) -> None:
    x, y = [[{"word": "a"}, {"word": "b"}]], [["A", "B"]]
    assert CRF(algorithm).fit(x, y).n_iter_ == 100
    assert CRF(algorithm, epsilon=1e-5).fit(x, y).n_iter_ < 100


ROWS = [("the", "DT", "B"), ("cat", "NN", "I"), ("sat", "VB", "O"), ("a", "DT", "B"), ("cat", "NN", "I")]
TEXT = "".join("".join(" ".join(row) + "\n" for row in part) + "\n" for part in (ROWS[:3], ROWS[3:]) * 4)
READ: dict[str, Any] = {"columns": ["word", "pos", "tag"], "attributes": "word[-1] word pos"}


def test_files_and_stored_chains(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(TEXT)
    stored = encode(tmp_path / "train.txt", tmp_path / "train.chain", **READ)
    expected = CRF(c2=0.1).fit(stored)
    bare = "\n\n".join("\n".join(" ".join(row[:2]) for row in part) for part in (ROWS[:3], ROWS[3:]))
    (tmp_path / "new.txt").write_text(bare)
    wanted = [["B", "I", "O"], ["B", "I"]]
    for inputs in (tmp_path / "train.txt", [tmp_path / "train.txt"], tmp_path / "train.chain"):
        estimator = CRF(c2=0.1, encoding=READ).fit(inputs)
        assert estimator.state_features_ == expected.state_features_
        assert listed(estimator.predict(tmp_path / "new.txt")) == wanted
        assert listed(estimator.predict(inputs)) == wanted * 4
        assert estimator.score(inputs) == 1.0
        assert listed(pickle.loads(pickle.dumps(estimator)).predict([tmp_path / "new.txt"])) == wanted
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.txt", "train.chain", "train.txt"]
    with pytest.raises(ChainfoldError, match="there is no option 'colour'"):
        CRF(encoding={"colour": "red"}).fit(tmp_path / "train.txt")
    with pytest.raises(ChainfoldError, match="no such file"):
        CRF().fit(tmp_path / "none.txt")


def test_nothing_temporary_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    (tmp_path / "train.txt").write_text(TEXT)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    estimator = CRF(encoding=READ, max_iterations=3).fit(tmp_path / "train.txt")
    with pytest.raises(ChainfoldError):
        CRF(encoding=READ, c2=math.nan).fit(tmp_path / "train.txt")
    assert list(folder.iterdir()) == []
    assert "word=cat" in estimator.attributes_
    maps = Path("/proc/self/maps")
    assert not maps.exists() or str(folder) not in maps.read_text(), "no name is one of a file that is gone"


@pytest.mark.parametrize("kind", [pa.table, pd.DataFrame, pl.DataFrame, "batch", "array"])
def test_tables(kind: Any) -> None:
    columns = {"s": [1] * 3 + [2] * 2, **{name: [row[k] for row in ROWS] for k, name in enumerate(("w", "p", "tag"))}}
    if kind == "array":
        table: Any = np.array(list(zip(*columns.values(), strict=True)), dtype=object)
        options = {"columns": list(columns), "group": "s", "attributes": "w p"}
    else:
        table = pa.RecordBatch.from_pydict(columns) if kind == "batch" else kind(columns)
        options = {"label": "tag", "group": "s", "attributes": "w p"}
    estimator = CRF(c2=0.01, encoding=options).fit(table)
    assert listed(estimator.predict(table)) == [["B", "I", "O"], ["B", "I"]]
    assert estimator.score(table) == 1.0
    assert {"w=cat", "p=DT"} <= set(estimator.attributes_)


def test_chains_are_known_by_their_names(fitted: CRF, tmp_path: Path) -> None:
    chain = chain_from_sequences(X, Y)
    assert CRF(c2=0.1).fit(chain).state_features_ == fitted.state_features_
    other = chain_from_sequences([[{"new": "x"}], *NEW], [["Z"], *NEW_Y])
    write_chain(tmp_path / "other.chain", other)
    expected = listed(fitted.predict([[{"new": "x"}], *NEW]))
    assert listed(fitted.predict(other)) == listed(fitted.predict(tmp_path / "other.chain")) == expected
    assert fitted.score(other) == fitted.score([[{"new": "x"}], *NEW], [["Z"], *NEW_Y])
    assert fitted.log_probability(other)[0] == -math.inf
    np.testing.assert_allclose(fitted.log_probability(other)[1:], fitted.log_probability(NEW, NEW_Y))


def test_a_chain_of_numbers_has_labels_of_numbers() -> None:
    named = chain_from_sequences(X, Y)
    arrays = {name: getattr(named, name) for name in ("offsets", "ids", "values", "labels", "starts")}
    chain = Chain.from_arrays(**arrays)
    estimator = CRF(c2=0.1, forbid=["0>1"], algorithm="adagrad", batch=50)
    with pytest.raises(ChainfoldError, match="forbidden"):
        estimator.fit(chain)
    estimator.set_params(forbid=None).fit(chain)
    assert estimator.classes_ == ["0", "1", "2"]
    assert [int(label) for labels in estimator.predict(chain) for label in labels] == tag(
        estimator.model_, chain
    ).tolist()
    assert ("attribute 0", "0") in estimator.state_features_
    with pytest.raises(ChainfoldError, match="by number alone; give it a chain"):
        estimator.predict(X)
    with pytest.raises(ChainfoldError, match="by number alone"):
        estimator.partial_fit(X, Y)


def test_hashed_attributes() -> None:
    estimator = CRF(c2=0.1, hash_bits=12).fit(X, Y)
    assert estimator.num_attributes_ == 1 << 12
    assert estimator.score(NEW, NEW_Y) > 0.6
    assert listed(estimator.predict(chain_from_sequences(NEW, hash_bits=12))) == listed(estimator.predict(NEW))
    with pytest.raises(ChainfoldError, match="has attributes with names and the model attributes hashed to 12"):
        estimator.predict(chain_from_sequences(NEW, NEW_Y))


def test_rare_attributes_are_left_out() -> None:
    counts = Counter(f"word:{item['word']}" for sequence in X for item in sequence)
    attributes = set(CRF(max_iterations=2, min_freq=6.5).fit(X, Y).attributes_)
    assert {name for name in attributes if name.startswith("word:")} == {name for name in counts if counts[name] >= 7}


# Weights, development sets, constraints


def test_a_weight_of_two_is_a_copy_and_one_of_zero_is_none() -> None:
    weights = np.ones(len(X))
    weights[:20], weights[20:30] = 2.0, 0.0
    some = [*range(30, len(X)), *range(20), *range(20)]
    copies = CRF(**TIGHT, **EVERY).fit([X[k] for k in some], [Y[k] for k in some])
    for x, y, w in ((X, Y, weights), (chain_from_sequences(X, Y), None, weights)):
        weighted = CRF(**TIGHT, **EVERY).fit(x, y, sample_weight=w)
        for name in ("state_features_", "transition_features_"):
            found, expected = getattr(weighted, name), getattr(copies, name)
            for key in expected:
                assert found.get(key, 0.0) == pytest.approx(expected[key], abs=1e-6)
    assert CRF(**TIGHT, **EVERY).fit(iter(X), iter(Y), sample_weight=iter(weights)).predict_single(X[0]) is not None
    plain, even = CRF(c2=0.1).fit(X, Y), CRF(c2=0.1).fit(X, Y, sample_weight=[1] * len(X))
    assert even.state_features_ == pytest.approx(plain.state_features_, abs=1e-3)


def test_weights_that_do_not_fit(fitted: CRF) -> None:
    with pytest.raises(ChainfoldError, match="only 3 weights"):
        CRF().fit(X, Y, sample_weight=[1.0] * 3)
    with pytest.raises(ChainfoldError, match="there are 60 sequences, but 3 weights; give one for each sequence"):
        CRF().fit(chain_from_sequences(X, Y), sample_weight=[1.0] * 3)
    with pytest.raises(ChainfoldError, match="weight of sequence 0 is -1"):
        CRF().fit(X, Y, sample_weight=[-1.0] * len(X))
    with pytest.raises(ChainfoldError, match="has weight -1"):
        fitted.score(X, Y, sample_weight=[-1.0] * len(X))
    with pytest.raises(ChainfoldError, match="there are 60 sequences, but 2 weights; give one for each sequence"):
        fitted.score(X, Y, sample_weight=[1.0, 2.0])
    of_positions = [[1.0] * len(sequence) for sequence in X]
    for use in (
        lambda: CRF().fit(X, Y, sample_weight=of_positions),
        lambda: CRF().fit(chain_from_sequences(X, Y), sample_weight=of_positions),
        lambda: fitted.score(X, Y, sample_weight=of_positions),
    ):
        with pytest.raises(ChainfoldError, match=r"the weights? (are not numbers|of sequence 0 is \[1.0)"):
            use()
    with pytest.raises(ChainfoldError, match=r"there are 60 sequences, but \d+ weights; give one for each sequence"):
        CRF().fit(chain_from_sequences(X, Y), sample_weight=np.ones(sum(map(len, X))))


def test_scores_may_be_weighted(fitted: CRF) -> None:
    right = [np.equal(a, b).tolist() for a, b in zip(fitted.predict(NEW), NEW_Y, strict=True)]
    assert fitted.score(NEW, NEW_Y) == sum(map(sum, right)) / sum(map(len, right))
    weights = np.arange(len(NEW)) % 3
    total = sum(w * len(row) for w, row in zip(weights, right, strict=True))
    expected = sum(w * sum(row) for w, row in zip(weights, right, strict=True)) / total
    assert fitted.score(NEW, NEW_Y, sample_weight=weights) == pytest.approx(expected)
    assert fitted.score([X[0]], [["?"] * len(X[0])]) == 0.0, "labels that were never seen are wrong"
    assert fitted.score([X[0]], [[*fitted.predict_single(X[0])[:-1], None]]) == 1.0, "unknown ones are not looked at"


def test_a_development_set_stops_the_run() -> None:
    weak: dict[str, Any] = {"c2": 0.0, "epsilon": 1e-12, "period": 0, "patience": 2}
    chain = chain_from_sequences(NEW, NEW_Y)
    fits = [CRF(**weak).fit(X, Y, NEW, NEW_Y), CRF(**weak).fit(X, Y, chain)]
    for estimator in fits:
        scores = [seen["dev_score"] for seen in estimator.training_log_.iterations]
        assert estimator.n_iter_ == len(scores) == int(np.argmax(scores)) + 3
        assert estimator.score(NEW, NEW_Y) == pytest.approx(max(scores))
    assert fits[0].state_features_ == fits[1].state_features_


def test_constraints_hold() -> None:
    labels = [["B-X", "I-X", "O"], ["O", "B-X", "I-X"]] * 5
    items = [[[label] for label in sequence] for sequence in labels]
    estimator = CRF(scheme="BIO", forbid=["O>O"], allow=["^>I-X"]).fit(items, labels)
    (odd,) = estimator.predict([[["I-X"], ["O"], ["I-X"], ["O"]]])
    assert odd[0] == "I-X", "allowed"
    for before, after in itertools.pairwise(odd):
        assert (before, after) not in {("O", "I-X"), ("O", "O")}
    assert estimator.transition_features_["O", "I-X"] == -math.inf
    with pytest.raises(ChainfoldError, match="no label 'Q'"):
        CRF(forbid=["Q>O"]).fit(items, labels)


def test_threads_and_memory_change_nothing(fitted: CRF) -> None:
    various: list[dict[str, Any]] = [{"threads": 1}, {"threads": 3}, {"memory": 1 << 28}]
    for options in various:
        assert CRF(c2=0.1, **options).fit(X, Y).state_features_ == fitted.state_features_
    other = CRF(c2=0.1, engine="fb").fit(X, Y)
    assert other.state_features_ == pytest.approx(fitted.state_features_, abs=1e-6)


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", "adagrad", "adam", "ap", "pa", "arow"])
def test_every_algorithm_fits(algorithm: str) -> None:
    options: dict[str, Any] = {"batch": 50} if algorithm in ("l2sgd", "adagrad", "adam") else {}
    options |= {"pa_type": 2, "c": 0.5} if algorithm == "pa" else {}
    estimator = CRF(algorithm, max_iterations=20, **options).fit(X, Y)
    assert estimator.score(X, Y) > 0.7
    last = estimator.training_log_.last_iteration
    assert last is not None
    assert last["num"] == estimator.n_iter_ <= 20
    assert {"loss", "feature_norm", "active_features", "time"} <= last.keys()


# What else is asked


def test_the_best_labellings_probabilities_and_entropy_agree(fitted: CRF) -> None:
    short = [sequence for sequence in NEW if 1 < len(sequence) < 5][:3]
    for sequence, best in zip(short, fitted.predict_nbest(short, k=81), strict=True):
        assert len(best) == 3 ** len(sequence)
        chances = np.array([chance for _, chance in best])
        assert chances.sum() == pytest.approx(1.0)
        assert (np.diff(chances) <= 0).all()
        assert best[0][0] == fitted.predict_single(sequence)
        given = fitted.log_probability([sequence] * len(best), [labels for labels, _ in best])
        np.testing.assert_allclose(np.exp(given), chances, rtol=1e-9)
        assert fitted.entropy([sequence])[0] == pytest.approx(-np.sum(chances * np.log(chances)))
        for t, row in enumerate(fitted.predict_marginals_single(sequence)):
            for label, chance in row.items():
                assert chance == pytest.approx(sum(p for labels, p in best if labels[t] == label))
    with pytest.raises(ChainfoldError, match="k is 0"):
        fitted.predict_nbest(short, 0)


def test_iterations_are_shown_if_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    CRF(max_iterations=3).fit(X, Y).partial_fit(X, Y)
    assert capsys.readouterr() == ("", "")
    CRF(max_iterations=3, verbose=True).fit(X, Y, NEW, NEW_Y)
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert [line.split()[:2] for line in lines] == [["Iter", "1"], ["Iter", "2"], ["Iter", "3"]]
    assert all("loss=" in line and "active=" in line and "dev=" in line for line in lines)


# Pieces


@pytest.mark.parametrize("algorithm", [None, "hashed", "l2sgd", "adagrad", "adam", "ap", "pa", "arow"])
def test_pieces_are_learnt_from(algorithm: str | None) -> None:
    x, y = corpus(300)
    options: dict[str, Any] = {} if algorithm in ("ap", "pa", "arow") else {"batch": 20}
    options |= {"rate": 0.02} if algorithm == "l2sgd" else {}
    if algorithm == "hashed":  # online, in constant memory
        algorithm, options = None, {"batch": 20, "hash_bits": 12}
    estimator = CRF(algorithm, **options)
    for low in range(0, len(x), 100):
        estimator.partial_fit(x[low : low + 100], y[low : low + 100])
    assert estimator.n_iter_ == 3
    assert [seen["num"] for seen in estimator.training_log_.iterations] == [1, 2, 3]
    assert estimator.score(NEW, NEW_Y) > 0.65
    assert estimator.num_attributes_ == CRF(max_iterations=1, hash_bits=estimator.hash_bits).fit(x, y).num_attributes_
    assert estimator.model_.training.get("online", False) == (estimator.hash_bits is not None)


def test_what_is_new_is_added_and_what_is_known_is_kept() -> None:
    estimator = CRF(batch=10_000).partial_fit([[["a"], ["b"]]], [["A", "B"]], classes=["A", "B", "Q"])
    assert estimator.classes_ == ["A", "B", "Q"]
    before = estimator.state_features_
    estimator.partial_fit([[["c"], ["d"]]] * 3, [["C", "A"]] * 3)
    assert estimator.classes_ == ["A", "B", "Q", "C"]
    assert set(estimator.attributes_) == {"a", "b", "c", "d"}
    after = estimator.state_features_
    assert {key: after[key] for key in before} == before
    assert after["c", "C"] > 0
    estimator.partial_fit([[["e"]]], [["A"]], classes=["R"], sample_weight=[2.0])
    assert estimator.classes_ == ["A", "B", "Q", "C", "R"]
    assert listed(estimator.predict([[["c"], ["d"]]])) == [["C", "A"]]


def test_pieces_after_a_fit_go_on_from_it(fitted: CRF) -> None:
    estimator = copy.deepcopy(fitted).set_params(rate=0.01)
    estimator.partial_fit(NEW, NEW_Y)
    assert len(estimator.training_log_.iterations) == estimator.n_iter_ == 1
    before, after = fitted.state_features_, estimator.state_features_
    assert set(before) <= set(after)
    assert max(abs(after[key] - before[key]) for key in before) < 0.2
    assert np.mean(estimator.log_probability(NEW, NEW_Y)) > np.mean(fitted.log_probability(NEW, NEW_Y))
    estimator.fit(X, Y)
    assert estimator.n_iter_ > 1, "a fit begins anew"
    assert set(estimator.state_features_) == set(before)


def test_pieces_of_any_kind(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(TEXT)
    (tmp_path / "more.txt").write_text("dogs NN I\nbark VB O\n")
    estimator = CRF(encoding=READ).partial_fit(tmp_path / "train.txt").partial_fit(tmp_path / "more.txt")
    assert {"word=cat", "word=dogs"} <= set(estimator.attributes_)
    chain = encode(tmp_path / "more.txt", tmp_path / "more.chain", **READ)
    again = CRF(encoding=READ).partial_fit(tmp_path / "train.txt").partial_fit(chain)
    assert again.state_features_ == estimator.state_features_
    weighed = CRF(encoding=READ).partial_fit(chain, sample_weight=[0.0])
    assert weighed.state_features_ == {}
    with pytest.raises(ChainfoldError, match="a model grows by names"):
        CRF().partial_fit(Chain.from_arrays(offsets=[0, 1], ids=[0], labels=[0]))
    with pytest.raises(ChainfoldError, match="attributes of this chain are not hashed"):
        CRF(hash_bits=10).partial_fit(chain)


# Streams


ONLINE: dict[str, Any] = {"hash_bits": 10, "batch": 20, "c2": 3.0, "forget": 300.0}


def flat(x: list[list[Any]], y: list[list[str]]) -> list[tuple[Any, str, bool]]:
    """Rows: an item, its label, and whether a sequence starts there."""
    both = [list(zip(items, labels, strict=True)) for items, labels in zip(x, y, strict=True)]
    return [(item, label, t == 0) for sequence in both for t, (item, label) in enumerate(sequence)]


def pieces_of(x: list[list[Any]], y: list[list[str]], cuts: list[int], before: bool) -> Iterator[Sequences]:
    """Sequences cut before some rows. Where one ends there, an empty one says so, before the cut or after it."""
    rows = flat(x, y)
    for low, high in itertools.pairwise([0, *cuts, len(rows)]):
        piece: Sequences = [[]], [[]]
        for t, (item, label, starts) in enumerate(rows[low:high], low):
            if starts and (t > low or (low and not before)):
                piece[0].append([])
                piece[1].append([])
            piece[0][-1].append(item)
            piece[1][-1].append(label)
        if before and high < len(rows) and rows[high][2]:
            piece[0].append([])
            piece[1].append([])
        yield piece


def in_pieces(estimator: CRF, pieces: list[Sequences]) -> CRF:
    """All but the last are unfinished."""
    for items, labels in pieces[:-1]:
        estimator.partial_fit(items, labels, unfinished=True)
    return estimator.partial_fit(*pieces[-1])


def assert_same(one: CRF, other: CRF) -> None:
    """To the last bit."""
    assert one.classes_ == other.classes_
    assert one.model_.weights.tobytes() == other.model_.weights.tobytes()
    for name in ("batches", "positions", "loss", "accuracy"):
        assert one.model_.training[name] == other.model_.training[name]
    mine, theirs = one.model_.vocabulary, other.model_.vocabulary
    assert mine is not None
    assert theirs is not None
    assert np.array_equal(mine.counts, theirs.counts)
    assert np.array_equal(mine.marks, theirs.marks)


def streams() -> dict[str, Sequences]:
    """Sequences of all lengths; of one row each; and one alone. Labels come one after another."""
    x, y = corpus(70, seed=3)
    rows = flat(x, y)
    single: Sequences = [[item] for item, _, _ in rows], [[label] for _, label, _ in rows]
    one: Sequences = [[item for item, _, _ in rows]], [["late" if t > 250 else rows[t][1] for t in range(len(rows))]]
    return {"many": (x, y), "single rows": single, "one": one}


@pytest.mark.parametrize("name", ["many", "single rows", "one"])
def test_pieces_cut_anywhere_are_learnt_from_as_one(name: str) -> None:
    x, y = streams()[name]
    rows = flat(x, y)
    whole = CRF(**ONLINE).partial_fit(x, y)
    random = np.random.default_rng(0)
    for k in range(4):
        cuts = np.sort(random.choice(np.arange(1, len(rows)), (1, 5, 30, 5)[k], replace=False)).tolist()
        assert_same(in_pieces(CRF(**ONLINE), list(pieces_of(x, y, cuts, before=k % 2 == 0))), whole)
    ends = [t for t, (_, _, starts) in enumerate(rows) if t and starts][:60:3]
    for before in (False, True):
        assert_same(in_pieces(CRF(**ONLINE), list(pieces_of(x, y, ends, before))), whole)


def test_pieces_of_one_row_are_learnt_from_as_one() -> None:
    x, y = corpus(15, seed=4)
    cuts = list(range(1, len(flat(x, y))))
    for before in (False, True):
        assert_same(in_pieces(CRF(**ONLINE), list(pieces_of(x, y, cuts, before))), CRF(**ONLINE).partial_fit(x, y))


def test_pieces_are_learnt_from_as_the_command_line_does(tmp_path: Path) -> None:
    x, y = streams()["one"]
    chain = encode_sequences(x, y, tmp_path / "chain", hash_bits=10)
    options = ("--batch", 20, "--c2", 3.0, "--forget", 300.0)
    succeeded("learn", chain.path, *options, "-o", tmp_path / "m", "--json")
    pieces = list(pieces_of(x, y, [7, 100, 101, 260], before=True))
    estimator = in_pieces(CRF(**ONLINE), pieces)
    assert open_model(tmp_path / "m").weights.tobytes() == estimator.model_.weights.tobytes()
    assert_same(in_pieces(CRF(**ONLINE), pieces), CRF(**ONLINE).partial_fit(chain))


def test_lines_of_attributes_are_learnt_from_as_the_same_items_are(tmp_path: Path) -> None:
    x, y = corpus(70, seed=3)
    items = [[[f"w={item['word']}", f"i={t % 3}"] for t, item in enumerate(sequence)] for sequence in x]
    both = [zip(sequence, labels, strict=True) for sequence, labels in zip(items, y, strict=True)]
    text = "\n".join("".join("\t".join([label, *item]) + "\n" for item, label in rows) for rows in both)
    lines, model, options = tmp_path / "x.crfsuite", tmp_path / "m", ("--hash-bits", 10, "--batch", 20, "--json")
    lines.write_text(text)
    fitted = CRF(hash_bits=10, batch=20).partial_fit(items, y)
    succeeded("learn", lines, *options, "-o", model)
    assert open_model(model).weights.tobytes() == fitted.model_.weights.tobytes()
    succeeded("learn", "-", "--format", "crfsuite", *options, "-o", tmp_path / "p", given=text.encode())
    assert (tmp_path / "p").read_bytes() == model.read_bytes()
    predicted = [label for labels in fitted.predict(items) for label in labels]
    for arguments in ((lines,), ("-", "--follow"), ("-", "--format", "crfsuite")):
        tagged = succeeded("tag", model, *arguments, given=text.encode()).decode()
        assert [row.split("\t")[-1] for row in tagged.splitlines() if row] == predicted


def test_pieces_of_a_table_are_learnt_from_as_one() -> None:
    """Of attributes that see no other rows and no borders: a template does not see beyond its piece."""
    rows = flat(*corpus(40, seed=5))
    table = pd.DataFrame({"word": [item["word"] for item, _, _ in rows], "label": [label for _, label, _ in rows]})
    how = {**ONLINE, "encoding": {"attributes": "word", "border": "crfpp", "one_sequence": True}}
    estimator = CRF(**how)
    for low, high in itertools.pairwise([0, 1, 70, 71, 120]):
        estimator.partial_fit(table[low:high], unfinished=True)
    assert_same(estimator.partial_fit(table[120:]), CRF(**how).partial_fit(table))


def test_what_is_unfinished_has_copies() -> None:
    x, y = corpus(70, seed=3)
    whole = CRF(**ONLINE).partial_fit(x, y)
    *first, last = pieces_of(x, y, [1, 90, 91, 200], before=False)
    estimator = CRF(**ONLINE)
    for items, labels in first:
        estimator.partial_fit(items, labels, unfinished=True)
        estimator = pickle.loads(pickle.dumps(estimator))
    for again in (copy.copy(estimator), copy.deepcopy(estimator), estimator):
        assert_same(again.partial_fit(*last), whole)
    assert_same(in_pieces(clone(estimator), [*first, last]), whole)


def test_before_anything_is_learnt_labels_are_known() -> None:
    estimator = CRF(hash_bits=10).partial_fit([X[0][:1]], [Y[0][:1]], unfinished=True)
    (label,) = estimator.classes_
    assert estimator.predict_single(X[0]) == [label] * len(X[0])
    assert not estimator.model_.weights.any()
    estimator.partial_fit([X[0][1:], *X[1:20]], [Y[0][1:], *Y[1:20]], unfinished=True)
    assert set(estimator.classes_) == set("OBI")
    assert estimator.model_.training["positions"] == 0
    assert estimator.predict_marginals_single(X[0])[0] == pytest.approx(dict.fromkeys("OBI", 1 / 3))
    assert [seen["loss"] for seen in estimator.training_log_.iterations] == [0.0, 0.0]
    estimator.partial_fit([], [])
    assert estimator.model_.training["positions"] == sum(map(len, X[:20]))
    assert estimator.training_log_.iterations[-1]["loss"] > 0.0
    assert_same(estimator, CRF(hash_bits=10).partial_fit(X[:20], Y[:20]))


def test_announced_labels_are_learnt_from_before_they_come() -> None:
    x, y = streams()["one"]
    labels = np.array([*dict.fromkeys(y[0]), "never"])
    whole = CRF(**ONLINE).partial_fit(x, y, classes=labels)
    first, second = pieces_of(x, y, [200], before=True)
    estimator = CRF(**ONLINE).partial_fit(*first, classes=labels, unfinished=True)
    assert estimator.predict_marginals_single(x[0])[0]["never"] < 0.1
    assert_same(estimator.partial_fit(*second), whole)
    assert not np.array_equal(whole.model_.weights[-4:], CRF(**ONLINE).partial_fit(x, y).model_.weights[-4:])


def test_a_piece_that_is_refused_or_interrupted_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = corpus(70, seed=3)
    whole = CRF(**ONLINE).partial_fit(x, y)
    first, second = pieces_of(x, y, [90], before=False)
    estimator = CRF(**ONLINE).partial_fit(*first, unfinished=True)
    items: list[Any] = [[["a"], ["b"], ["c"]]]
    for labels, sentence in (
        (["New", "O", None], "row 93 has no label"),
        (["New", "O"], "more items"),
        (["New", "O", "O", "O"], "more labels"),
    ):
        for unfinished in (False, True):
            with pytest.raises(ChainfoldError, match=sentence):
                estimator.partial_fit(items, [labels], unfinished=unfinished)
    real, begun = OnlineTrainer._step, estimator.model_.training["batches"]

    def interrupted(trainer: OnlineTrainer, high: int, share: WindowShare) -> Any:
        if trainer.totals.batches == begun + 3:
            raise KeyboardInterrupt
        return real(trainer, high, share)

    with monkeypatch.context() as patched:
        patched.setattr(OnlineTrainer, "_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            estimator.partial_fit(x, y)
    with pytest.raises(ChainfoldError, match=r"cannot continue it; end it with partial_fit\(\[\], \[\]\)"):
        clone(estimator).set_params(forget=None).partial_fit(*first, unfinished=True).partial_fit(X, Y, None, [1.0])
    assert_same(estimator.partial_fit(*second), whole)


def test_what_is_only_for_learning_online() -> None:
    not_online: list[tuple[CRF, dict[str, Any]]] = [
        (CRF(), {}),
        (CRF("ap", hash_bits=10), {}),
        (CRF(hash_bits=10), {"sample_weight": [1.0]}),
        (CRF(hash_bits=10, forbid=["O>O"]), {}),
        (CRF(hash_bits=10, max_iterations=1).fit(X, Y), {}),
    ]
    for estimator, how in not_online:
        with pytest.raises(ChainfoldError, match="`unfinished` requires online training: set `hash_bits`"):
            estimator.partial_fit(X[:1], Y[:1], unfinished=True, **how)
        with pytest.raises(ChainfoldError, match="`forget` requires online training"):
            estimator.set_params(forget=100.0).partial_fit(X[:1], Y[:1], **how)
        with pytest.raises(ChainfoldError, match="`forget` requires partial_fit with `hash_bits`"):
            estimator.fit(X, Y)
    with pytest.raises(ChainfoldError, match="no positions"):
        CRF(hash_bits=10).partial_fit([], [])
    with pytest.raises(ChainfoldError, match="forget is 0"):
        CRF(hash_bits=10, forget=0).partial_fit(X, Y)


def test_what_is_forgotten() -> None:
    told = [CRF(hash_bits=10, batch=20, forget=forget).partial_fit(X, Y) for forget in (None, 50.0)]
    assert [one.model_.training["forget"] for one in told] == [None, 50.0]
    assert not np.array_equal(told[0].model_.weights, told[1].model_.weights)


@pytest.mark.parametrize("algorithm", ["lbfgs", "adagrad", "ap", "pa", "arow"])
def test_sequences_of_weight_zero_teach_nothing(algorithm: str) -> None:
    wrong = [["I" if label == "O" else "O" for label in labels] for labels in Y]
    weights = [1.0] * len(X) + [0.0] * len(X)
    estimator = CRF(algorithm, max_iterations=10).fit(X + X, Y + wrong, sample_weight=weights)
    assert estimator.score(X, Y) > 0.6


def test_a_development_set_may_only_report() -> None:
    weak: dict[str, Any] = {"c2": 0.0, "epsilon": 1e-12, "period": 0, "patience": 1, "max_iterations": 25}
    plain = CRF(**weak).fit(X, Y)
    reporting = CRF(**weak, early_stopping=False).fit(X, Y, X[:20], Y[:20])
    assert reporting.n_iter_ == 25 > CRF(**weak).fit(X, Y, X[:20], Y[:20]).n_iter_
    assert all("dev_score" in seen for seen in reporting.training_log_.iterations)
    assert reporting.model_.weights.tobytes() == plain.model_.weights.tobytes()


def test_a_single_label_is_named_where_all_data_is_there() -> None:
    with pytest.warns(UserWarning, match="every position has the same label, 'O'"):
        fitted = CRF().fit([[["a"], ["b"]]], [["O", "O"]])
    assert fitted.predict([[["a"], ["c"]]]).tolist() == [["O", "O"]]
    pieces = CRF().partial_fit([[["a"]]], [["O"]]).partial_fit([[["b"]]], [["B"]])  # others may come
    assert pieces.classes_ == ["O", "B"]


def test_labels_of_a_development_set_that_were_never_seen_are_wrong() -> None:
    items, labels = [[["a"], ["b"]]] * 2, [["x", "y"]] * 2
    chain = chain_from_sequences(items[:1], [["x", "never"]])
    for dev in (([[["a"], ["b"]]], [["x", "never"]]), (chain, None)):
        estimator = CRF(max_iterations=3).fit(items, labels, *dev)
        last = estimator.training_log_.last_iteration
        assert last is not None
        assert last["dev_score"] == 0.5
    with pytest.raises(ChainfoldError, match="the development set has no positions"):
        CRF().fit(items, labels, [], [])


def test_features_are_made_once_for_a_model() -> None:
    estimator = CRF(max_iterations=3).fit(X, Y)
    first = estimator.state_features_
    assert estimator.state_features_ is first
    assert estimator.transition_features_ is estimator.transition_features_
    estimator.fit(X, Y)
    assert estimator.state_features_ is not first


def test_a_loaded_estimator_has_the_settings_it_was_made_by(tmp_path: Path) -> None:
    CRF("pa", pa_type=2, c=0.5, max_iterations=3).fit(X, Y).save(tmp_path / "m")
    loaded = CRF.load(tmp_path / "m")
    found = {name: loaded.get_params()[name] for name in ("algorithm", "pa_type", "c", "max_iterations")}
    assert found == {"algorithm": "pa", "pa_type": 2, "c": 0.5, "max_iterations": 3}
    loaded.partial_fit(X, Y)
    assert loaded.model_.training["algorithm"] == "pa"
    CRF(hash_bits=9, max_iterations=3).fit(X, Y).save(tmp_path / "m")
    assert CRF.load(tmp_path / "m").hash_bits == 9


def test_bytes_are_texts_and_nan_is_no_label() -> None:
    items = [[{b"k": b"v"}, [b"w"]]]
    estimator = CRF(max_iterations=3).fit(items, [[b"q", "r"]])
    assert estimator.classes_ == ["q", "r"]
    assert set(estimator.attributes_) == {"k:v", "w"}
    with pytest.raises(ChainfoldError, match="some are unknown"):
        CRF().fit(items, [["q", float("nan")]])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"c2": "x"}, "c2 is 'x'"),
        ({"max_iterations": "5"}, "max_iterations is '5'"),
        ({"min_freq": "a"}, "min_freq is 'a'"),
        ({"memory": "1G"}, "memory is '1G'"),
        ({"encoding": {"template": "t"}}, "`template` applies only to files and tables"),
        ({"forbid": "O>O"}, "which is forbidden"),
    ],
)
def test_settings_that_make_no_sense(parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ChainfoldError, match=sentence):
        CRF(**parameters).fit(X, Y)


def test_without_scikit_learn_the_estimator_has_parameters_and_predicts() -> None:
    script = """
        import pickle, sys
        sys.modules["sklearn"] = None
        from chainfold import CRF
        crf = CRF(c2=0.5, max_iterations=3)
        assert crf.get_params()["c2"] == 0.5 and repr(crf.set_params(c1=0.1)) == "CRF(c1=0.1, c2=0.5, max_iterations=3)"
        try:
            crf.predict([["a"]])
        except ValueError as error:
            assert "not fitted" in str(error)
        try:
            crf.set_params(c3=1)
        except ValueError as error:
            assert "'c3'" in str(error)
        crf.fit([[["a"], ["b"]]], [["A", "B"]])
        assert list(pickle.loads(pickle.dumps(crf)).predict([[["b"], ["a"]]])[0]) == crf.predict([[["b"], ["a"]]])[0]
        print("fine")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert done.stdout == "fine\n", done.stderr
