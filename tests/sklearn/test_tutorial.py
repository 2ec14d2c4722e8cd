"""sklearn-crfsuite's tutorial on CoNLL-2000: the program runs with its imports changed, and ends with the same F1."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

DATA = Path(os.environ.get("CHAINFOLD_DATA", Path(__file__).parents[3] / "shared" / "data"))
pytestmark = [
    pytest.mark.data,
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.exists(), reason=f"the real data sets are not in {DATA}; set CHAINFOLD_DATA"),
]

THEIRS = "import sklearn_crfsuite\nfrom sklearn_crfsuite import metrics, scorers\n"
OURS = "import chainfold as sklearn_crfsuite\nfrom chainfold import metrics, scorers\n"
PROGRAM = """
from collections import Counter

import scipy.stats
from sklearn.metrics import make_scorer
from sklearn.model_selection import RandomizedSearchCV, cross_val_score


def word2features(sent, i):
    features = {"bias": 1.0, "BOS": i == 0, "EOS": i == len(sent) - 1}
    for offset in (-1, 0, 1):
        if 0 <= i + offset < len(sent):
            word, postag, _ = sent[i + offset]
            features |= {
                f"{offset}:word.lower()": word.lower(),
                f"{offset}:word.istitle()": word.istitle(),
                f"{offset}:word.isupper()": word.isupper(),
                f"{offset}:postag": postag,
                f"{offset}:postag[:2]": postag[:2],
            }
    word = sent[i][0]
    return features | {"word[-3:]": word[-3:], "word[-2:]": word[-2:], "word.isdigit()": word.isdigit()}


def sent2features(sent):
    return [word2features(sent, i) for i in range(len(sent))]


def sent2labels(sent):
    return [label for _, _, label in sent]


X_train, y_train = [sent2features(s) for s in train_sents], [sent2labels(s) for s in train_sents]
X_test, y_test = [sent2features(s) for s in test_sents], [sent2labels(s) for s in test_sents]

crf = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True)
crf.fit(X_train, y_train)
labels = list(crf.classes_)
labels.remove("O")
y_pred = crf.predict(X_test)
f1 = metrics.flat_f1_score(y_test, y_pred, average="weighted", labels=labels)
sequence_accuracy = scorers.sequence_accuracy(crf, X_test, y_test)
sorted_labels = sorted(labels, key=lambda name: (name[1:], name[0]))
report = metrics.flat_classification_report(y_test, y_pred, labels=sorted_labels, digits=3, zero_division=0)

search = RandomizedSearchCV(
    sklearn_crfsuite.CRF(algorithm="lbfgs", max_iterations=100, all_possible_transitions=True),
    {"c1": scipy.stats.expon(scale=0.5), "c2": scipy.stats.expon(scale=0.05)},
    cv=3,
    n_iter=3,
    random_state=0,
    scoring=make_scorer(metrics.flat_f1_score, average="weighted", labels=labels, zero_division=0),
)
search.fit(X_train[:few], y_train[:few])
best = search.best_estimator_
best_f1 = metrics.flat_f1_score(y_test, best.predict(X_test), average="weighted", labels=labels, zero_division=0)
transitions = Counter(best.transition_features_).most_common(20)
states = Counter(best.state_features_).most_common(30)
"""


def sentences(name: str, most: int) -> list[list[tuple[str, ...]]]:
    with gzip.open(DATA / "conll2000" / f"{name}.txt.gz", "rt", encoding="utf-8") as file:
        parts = file.read().strip().split("\n\n")[:most]
    return [[tuple(line.split()) for line in part.splitlines()] for part in parts]


def run(imports: str, train: int, test: int, few: int) -> dict[str, Any]:
    """The names that the program ends with."""
    names = {"train_sents": sentences("train", train), "test_sents": sentences("test", test), "few": few}
    exec(imports + PROGRAM, names)
    return names


def test_the_tutorial_ends_with_the_same_f1() -> None:
    ours, theirs = (run(imports, 600, 300, 200) for imports in (OURS, THEIRS))
    assert ours["f1"] > 0.8
    assert ours["f1"] == pytest.approx(theirs["f1"], abs=0.005)
    assert ours["sequence_accuracy"] == pytest.approx(theirs["sequence_accuracy"], abs=0.02)
    assert ours["report"].splitlines()[0] == theirs["report"].splitlines()[0]
    assert ours["search"].best_params_ == theirs["search"].best_params_
    assert ours["search"].best_score_ == pytest.approx(theirs["search"].best_score_, abs=0.005)
    assert ours["best_f1"] == pytest.approx(theirs["best_f1"], abs=0.005)
    for name in ("transitions", "states"):
        strongest, expected = dict(ours[name]), dict(theirs[name])
        assert len(strongest.keys() & expected.keys()) >= 0.8 * len(expected)
    assert ours["best"].size_ > 0
