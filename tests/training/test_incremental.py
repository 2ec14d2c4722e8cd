"""Learning from pieces: the same steps as by hand, and as if everything had been known from the start."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from chainfold import Chain, ChainfoldError, Model
from chainfold.chain.chain import gather
from chainfold.features.encode import chain_from_sequences
from chainfold.features.for_model import extended_sequences
from chainfold.model.constraints import Constraints
from chainfold.model.named_weights import state_weights, transition_weights
from chainfold.training.incremental import IncrementalState, learn
from chainfold.training.loop import Training, train

Piece = tuple[list[list[list[str]]], list[list[str]]]
Weights = dict[Any, float]

FIRST: Piece = ([[["a"], ["b", "x"]], [["b"], ["a"], ["a", "x"]]], [["A", "B"], ["B", "A", "A"]])
SECOND: Piece = ([[["c", "x"], ["a"]], [["c"], ["d"], ["b"]]], [["B", "A"], ["C", "B", "B"]])
THIRD: Piece = ([[["d"], ["a", "x"], ["e"]]], [["A", "A", "C"]])
PIECES = (FIRST, SECOND, THIRD)
ALL: dict[str, Any] = {"all_possible_states": True}


def chain_of(piece: Piece, before: IncrementalState | None) -> Chain:
    if before is None:
        return chain_from_sequences(*piece)
    assert before.model.vocabulary is not None
    with extended_sequences(*piece, before.model.vocabulary) as spooled:
        return gather(spooled)


def learnt_from(pieces: tuple[Piece, ...], training: Training) -> IncrementalState:
    before = None
    for piece in pieces:
        before, _ = learn(chain_of(piece, before), training, before)
    assert before is not None
    return before


def by_name(model: Model) -> Weights:
    """The weights, those of zero left out."""
    return {**state_weights(model), **{(None, *pair): weight for pair, weight in transition_weights(model).items()}}


def features(items: list[list[str]], labels: tuple[str, ...]) -> list[Any]:
    state = [(name, label) for item, label in zip(items, labels, strict=True) for name in item]
    return [*state, *((None, i, j) for i, j in itertools.pairwise(labels))]


def gradient(weights: Weights, piece: Piece, labels: list[str]) -> Weights:
    """Of the negative log likelihood, by every path."""
    found: Weights = defaultdict(float)
    for items, gold in zip(*piece, strict=True):
        paths = [features(items, path) for path in itertools.product(labels, repeat=len(items))]
        scores = [sum(weights.get(key, 0.0) for key in path) for path in paths]
        total = math.fsum(math.exp(score) for score in scores)
        for path, score in zip(paths, scores, strict=True):
            for key in path:
                found[key] += math.exp(score) / total
        for key in features(items, tuple(gold)):
            found[key] -= 1.0
    return found


@pytest.mark.parametrize("algorithm", ["sgd", "adagrad", "adam"])
def test_descent_takes_the_steps_that_it_takes_by_hand(algorithm: str) -> None:
    """One batch a piece, and labels and attributes that come one after another."""
    rate = 0.1
    weights: Weights = {}
    p: Weights = defaultdict(float)
    q: Weights = defaultdict(float)
    labels: list[str] = []
    for step, piece in enumerate(PIECES):
        labels += sorted({label for gold in piece[1] for label in gold} - set(labels))
        g = gradient(weights, piece, labels)
        for key in {*weights, *p, *g}:
            here = g.get(key, 0.0)
            if algorithm == "adam":
                p[key], q[key] = 0.9 * p[key] + 0.1 * here, 0.999 * q[key] + 0.001 * here**2
                move = p[key] / (1 - 0.9 ** (step + 1)) / (math.sqrt(q[key] / (1 - 0.999 ** (step + 1))) + 1e-8)
            else:
                q[key] += here**2
                move = here if algorithm == "sgd" else here / (math.sqrt(q[key]) + 1e-8)
            weights[key] = weights.get(key, 0.0) - rate * move
    learnt = learnt_from(PIECES, Training(algorithm, {"rate": rate, "decay": 0.0, "c2": 0.0}, **ALL))
    found = by_name(learnt.model)
    assert learnt.passes == learnt.steps == 3
    for key in {*found, *weights}:
        assert found.get(key, 0.0) == pytest.approx(weights.get(key, 0.0), abs=1e-7), key


ALGORITHMS: dict[str, dict[str, Any]] = {
    "sgd": {"batch": 2, "c2": 0.0},
    "adagrad": {"batch": 2, "c2": 0.0},
    "adam": {"batch": 2, "c2": 0.0, "decay": 0.0},
    "ap": {},
    "pa": {"averaging": False},
    "arow": {"variance": 2.0},
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("every", [False, True])
def test_attributes_that_come_later_might_have_been_known_all_along(algorithm: str, every: bool) -> None:
    """Where labels and their pairs with known attributes are the same, new attributes change nothing before."""
    training = Training(algorithm, ALGORITHMS[algorithm], all_possible_states=every)
    labels = [["A", "B", "A"], ["B", "A", "B"]]
    pieces = [([[[f"{name}{k}", name] for k in range(3)]] * 2, labels) for name in "pqpr"]
    everything = chain_from_sequences(*[[*itertools.chain(*part)] for part in zip(*pieces, strict=True)])
    assert everything.vocabulary is not None
    late: IncrementalState | None = None
    early: IncrementalState | None = None
    for piece in pieces:
        late, step = learn(chain_of(piece, late), training, late)
        with extended_sequences(*piece, everything.vocabulary) as spooled:
            early, same = learn(gather(spooled), training, early)
        assert step.value == pytest.approx(same.value)
    assert late is not None
    assert early is not None
    assert by_name(late.model) == pytest.approx(by_name(early.model), abs=1e-12)
    assert late.model.layout.n_attributes == early.model.layout.n_attributes


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_same_piece_again_is_another_epoch(algorithm: str) -> None:
    training = Training(algorithm, {**ALGORITHMS[algorithm], "seed": 3})
    twice = [*FIRST[0], *SECOND[0]] * 2, [*FIRST[1], *SECOND[1], *SECOND[1], *FIRST[1][:1], ["A", "A", "A"]]
    whole = train(chain_from_sequences(*twice), Training(algorithm, {**training.options, "max_iterations": 3}))
    assert by_name(learnt_from((twice,) * 3, training).model) == pytest.approx(by_name(whole), abs=1e-12)


def test_the_vocabulary_counts_all_pieces() -> None:
    learnt = learnt_from(PIECES, Training("adagrad", {"c2": 0.0}))
    together = chain_from_sequences(
        [items for piece in PIECES for items in piece[0]], [labels for piece in PIECES for labels in piece[1]]
    )
    ours, whole = learnt.model.vocabulary, together.vocabulary
    assert ours is not None
    assert whole is not None
    counts = dict(zip(ours.attributes.to_pylist(), ours.counts.tolist(), strict=True))
    assert counts == dict(zip(whole.attributes.to_pylist(), whole.counts.tolist(), strict=True))
    assert np.bitwise_count(ours.marks).sum() == np.bitwise_count(whole.marks).sum()
    assert learnt.model.layout.n_state == whole.pairs()[0][-1]


def test_more_labels_than_a_word_of_marks() -> None:
    training = Training("adagrad", {"c2": 0.0})
    pieces = [
        ([[[f"w{k}"] for k in range(low, high)]], [[str(k) for k in range(low, high)]])
        for low, high in ((0, 40), (30, 90))
    ]
    learnt = learnt_from((*pieces,), training)
    assert learnt.model.layout.n_labels == learnt.model.layout.n_attributes == 90
    found = by_name(learnt.model)
    assert all(found[f"w{k}", str(k)] > 0 for k in range(90))


def test_weights_stay_where_a_piece_has_nothing_to_say_of_them() -> None:
    training = Training("adagrad", {"c2": 0.0}, all_possible_transitions=False)
    first, _ = learn(chain_of(FIRST, None), training)
    before = by_name(first.model)
    second, _ = learn(chain_of(([[["z"]]], [["B"]]), first), training, first)
    after = by_name(second.model)
    assert {key: after[key] for key in before} == before
    assert (None, "A", "B") in before
    assert (None, "B", "B") not in after, "a transition that has not occurred is not learnt"
    third, _ = learn(chain_of(([[["a"], ["a"]]], [["A", "A"]]), second), training, second)
    assert by_name(third.model)[None, "A", "B"] < after[None, "A", "B"], "one that has occurred is learnt further"


def test_what_a_model_forbids_stays_forbidden() -> None:
    training = Training("adagrad", {"c2": 0.0})
    chain = chain_of(([[["a"], ["b"]]], [["A", "B"]]), None)
    first, _ = learn(chain, training, None, Constraints.of(["A", "B"], forbid=["B>A", "^>B", "A>$"]))
    second, _ = learn(chain_of(([[["a"], ["c"]]], [["A", "C"]]), first), training, first)
    model = second.model
    assert model.first is not None
    assert model.last is not None
    assert (model.first.tolist(), model.last.tolist()) == ([True, False, True], [False, True, True])
    forbidden = np.isneginf(model.weights[model.layout.n_state :].reshape(3, 3))
    assert np.argwhere(forbidden).tolist() == [[1, 0]]
    third, _ = learn(
        chain_of(([[["a"], ["c"]]], [["A", "C"]]), second), training, second, Constraints.of("ABC", forbid=["C>C"])
    )
    assert np.isneginf(third.model.weights).sum() == 2
    with pytest.raises(ChainfoldError, match="forbidden"):
        learn(chain_of(([[["b"], ["a"]]], [["B", "A"]]), third), training, third)


def test_another_algorithm_goes_on_from_the_weights_alone() -> None:
    first = learnt_from((FIRST,), Training("adam", {"c2": 0.0}))
    second, _ = learn(chain_of(FIRST, first), Training("ap"), first)
    assert second.algorithm == "ap"
    assert set(second.vectors) == {"weights", "second"}
    third, _ = learn(chain_of(FIRST, second), Training("ap", {"averaging": False}), second)
    assert set(third.vectors) == {"weights"}
