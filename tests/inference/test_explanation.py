"""Explanations against the enumeration of all labellings: the other labelling, the difference and its terms."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chainfold as cf
from chainfold.errors import BadSetting
from chainfold.inference.explanation import explanations
from oracle import features, possible
from oracle import score as score_of
from shapes import CASES, case
from tolerances import ORACLE

LONGEST = 2000  # labellings to enumerate


def scores_of(model: cf.Model, chain: cf.Chain, low: int, high: int) -> dict[tuple[int, ...], float]:
    """The score of every labelling of a sequence."""
    scores = {}
    for path in itertools.product(range(model.layout.n_labels), repeat=high - low):
        score = 0.0
        for t, label in enumerate(path, low):
            if not possible(model, chain, t, label):
                score = -math.inf
                break
            previous = path[t - low - 1] if t > low else None
            score += float(score_of(features(chain, model.layout, t, previous, label), model.weights))
        scores[path] = score
    return scores


def bounds(chain: cf.Chain) -> list[tuple[int, int]]:
    begins = np.flatnonzero(chain.starts).tolist()
    return list(zip(begins, [*begins[1:], chain.positions], strict=True))


@pytest.mark.parametrize("name", CASES)
def test_the_difference_is_that_of_enumeration_and_the_sum_of_its_terms(name: str) -> None:
    model, chain = case(name)
    explained = cf.explain(model, chain)
    assert [explanation.position for explanation in explained] == list(range(chain.positions))
    best_labels = cf.tag(model, chain).tolist()
    for low, high in bounds(chain):
        if model.layout.n_labels ** (high - low) > LONGEST:
            continue
        scores = scores_of(model, chain, low, high)
        best = max(scores.values())
        scale = max(1.0, *(abs(score) for score in scores.values() if score > -math.inf))
        for t in range(low, high):
            explanation = explained[t]
            assert explanation.start == low
            assert explanation.label == str(best_labels[t])
            others = {path: score for path, score in scores.items() if path[t - low] != best_labels[t]}
            other = max(others.values(), default=-math.inf)
            if other == -math.inf:
                assert explanation.other is None
                assert explanation.difference == math.inf
                assert explanation.terms == ()
                assert explanation.to_json()["difference"] is None
                continue
            assert explanation.difference == pytest.approx(best - other, abs=ORACLE * scale)
            total = math.fsum(term.contribution for term in explanation.terms)
            assert total == pytest.approx(explanation.difference, abs=ORACLE * scale)
            first, last = explanation.changed
            path = [*best_labels[low:first], *map(int, explanation.other_labels), *best_labels[last + 1 : high]]
            assert scores[tuple(path)] == pytest.approx(other, abs=ORACLE * scale)
            assert path[t - low] == int(explanation.other or "")
            assert list(map(int, explanation.labels)) == best_labels[first : last + 1]


def test_terms_are_those_of_the_two_labellings() -> None:
    """By hand: two positions, one attribute each."""
    layout = cf.Layout.full(2, 2, 1)
    weights = np.zeros(layout.size)
    for (attribute, label), weight in {(0, 0): 2.0, (0, 1): 0.5, (1, 1): -1.0}.items():
        weights[layout.index(attribute, label)] = weight
    weights[layout.n_state + 1] = 3.0  # transition 0 to 1
    weights[layout.n_state + 4 + 1] = 0.25  # the edge attribute with it
    chain = cf.Chain.from_arrays(
        offsets=[0, 1, 2], ids=[0, 1], values=[1.0, 2.0], n_labels=2, n_attributes=2,
        edge_offsets=[0, 0, 1], edge_ids=[0], edge_values=[2.0], n_edge_attributes=1,
    )  # fmt: skip
    explanation = cf.explain(cf.Model(layout, weights), chain, [1])[0]
    assert (explanation.label, explanation.other, explanation.changed) == ("1", "0", (1, 1))
    terms = [(term.kind, term.name, term.labels, term.other_labels, term.contribution) for term in explanation.terms]
    assert terms == [
        ("attribute", "attribute 1", ("1",), ("0",), -2.0),
        ("transition", "", ("0", "1"), ("0", "0"), 3.0),
        ("edge attribute", "edge attribute 0", ("0", "1"), ("0", "0"), 0.5),
    ]
    assert explanation.difference == 1.5
    assert [term.contribution for term in explanation.strongest(2)] == [3.0, -2.0]
    assert explanation.to_json()["terms"][1]["contribution"] == 3.0


def test_the_other_labelling_may_change_neighbours() -> None:
    """O may not precede I: another label than B at the first position changes the second one too."""
    model = cf.CRF(scheme="BIO", c2=0.01).fit([[["a"], ["b"], ["c"]]] * 3, [["B", "I", "O"]] * 3)
    explanation = model.explain([["a"], ["b"], ["c"]])[0]
    assert explanation.changed == (0, 1)
    assert explanation.labels == ("B", "I")
    assert explanation.other_labels[0] == "O"
    positions = [term.position for term in explanation.terms]
    assert positions[0] == 0
    assert set(positions) == {0, 1, 2}


def test_blocks_may_be_cut_anywhere() -> None:
    model, chain = case("edge attributes, start marks")
    whole = cf.explain(model, chain)
    cuts = [chain.block(t, t + 1) for t in range(chain.positions)]
    assert list(explanations(model, cuts)) == whole
    assert list(explanations(model, cuts, {1})) == whole[1:2]


def test_a_long_sequence_is_explained_where_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = cf.SyntheticChain(5000, 4, 20, 3)
    model = cf.Model(cf.Layout.full(4, 20), chain.true_weights())
    some = cf.explain(model, chain, [0, 2047, 2048, 4999])
    labels = cf.tag(model, chain)
    for explanation in some:
        assert explanation.label == str(labels[explanation.position])
        assert explanation.difference > 0.0
        log_odds = _log_odds(model, chain, explanation)
        assert explanation.difference == pytest.approx(log_odds, abs=1e-9)


def _log_odds(model: cf.Model, chain: Any, explanation: cf.Explanation) -> float:
    """By the log probabilities of both labellings."""
    labels = cf.tag(model, chain)
    other = labels.copy()
    low, high = explanation.changed
    other[low : high + 1] = [int(label) for label in explanation.other_labels]
    one, two = (float(cf.log_probabilities(model, chain, path)[0]) for path in (labels, other))
    return one - two


def test_positions_that_are_not_there_are_named() -> None:
    model, chain = case("all values one")
    with pytest.raises(BadSetting, match=f"from 0 to {chain.positions - 1}"):
        cf.explain(model, chain, [chain.positions])
    with pytest.raises(BadSetting, match="-1"):
        cf.explain(model, chain, [-1])


def test_an_estimator_explains_one_sequence() -> None:
    X: list[list[dict[str, Any]]] = [[{"w": "the", "n": 2.0}, {"w": "cat"}], [{"w": "it"}]]  # noqa: N806
    crf = cf.CRF().fit(X, [["D", "N"], ["P"]])
    explained = crf.explain(X[0])
    assert [explanation.label for explanation in explained] == crf.predict_single(X[0])
    assert {term.name for term in explained[0].terms if term.kind == "attribute"} == {"w:the", "n"}
    assert next(term.value for term in explained[0].terms if term.name == "n") == 2.0
    assert crf.explain([]) == []


def test_observed_layouts_have_weights_for_some_labels_only() -> None:
    layout = replace(cf.Layout.full(3, 2), row_offsets=np.array([0, 2, 3]), row_labels=np.array([0, 2, 1], np.int32))
    assert [layout.index(0, label) for label in range(3)] == [0, None, 1]
    assert [layout.index(1, label) for label in range(3)] == [None, 2, None]
