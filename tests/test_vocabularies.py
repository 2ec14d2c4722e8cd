"""Chains whose names are numbered otherwise than the model's: every door gives the answer that the names ask for."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import chainfold as cf
from chainfold import errors
from chainfold.chain.block import Source
from chainfold.chain.renumbered import Renumbered
from chainfold.chain.vocabulary import Vocabulary
from chainfold.engines.observed import count_observed
from chainfold.training.objective import Objective, WeightSpace
from chainfold.training.passes import LocalPasses
from chainfold.training.perceptron import PerceptronSettings, PerceptronTrainer
from tolerances import ORACLE
from verbs import conll, failed, succeeded

pytestmark = pytest.mark.quick

Items = list[list[dict[str, str]]]
LABELS = {"a": "A", "b": "B", "c": "C"}
ALL_ENGINES = ("stream", "fb", "checkpoint", "parallel", "emp")


def made(*words: str) -> cf.Chain:
    """A chain of letters, each with its label, a sequence for each word; numbers by first appearance."""
    items: Items = [[{"w": letter} for letter in word] for word in words]
    return cf.chain_from_sequences(items, [[LABELS.get(letter, letter) for letter in word] for word in words])


@cache
def model() -> cf.Model:
    return cf.train(made("abc", "acb", "bac", "aabbcc"), cf.Training(options={"c2": 0.1}))


@cache
def asked() -> cf.Chain:
    """Attributes are numbered by how often they occur, labels as they come: none has the number of the model."""
    return made("cbaa")


@cache
def answer() -> cf.Chain:
    """The same under the numbers of the model, put together by hand."""
    numbers = np.array([2, 1, 0, 0], np.int32)
    return replace(asked(), labels=numbers, ids=numbers, vocabulary=model().vocabulary)


def names(labels: Any) -> list[str]:
    vocabulary = model().vocabulary
    assert vocabulary is not None
    return [vocabulary.labels[label] for label in labels]


def test_the_example_is_one() -> None:
    assert asked().labels.tolist() == [0, 1, 2, 2]
    assert asked().ids.tolist() == [1, 2, 0, 0]
    assert made("cba").ids.tolist() == made("cba").labels.tolist() == made("abc").ids.tolist() == [0, 1, 2]


def pushed(chain: Source) -> list[Any]:
    tagger = cf.StreamTagger(model(), marginals=True, quantities=True)
    found = tagger.push(chain, end=True)
    return [found.labels, found.posteriors, found.given, tagger.quantities().log_likelihood]


def in_pieces(chain: Source) -> list[Any]:
    pieces = cf.PiecewiseGradient(model())
    pieces.add(chain)
    pieces.add(chain)
    return evaluated(pieces.finish())


def evaluated(found: cf.Evaluation) -> list[Any]:
    return [found.log_z, found.log_likelihood, found.expected, found.gradient]


def ranked(chain: Source) -> list[Any]:
    (best,) = cf.nbest(model(), chain, 5)
    return [best.labels, best.log_probabilities]


def stretches(chain: Source) -> list[Any]:
    (found,) = cf.Tagger(model()).run(chain, cf.Want(posteriors=True, given=True))
    (viterbi,) = cf.Tagger(model()).run(chain)
    return [found.labels, found.posteriors, found.given, found.sequences.given, viterbi.labels]


def learnt(chain: Source) -> list[Any]:
    mistakes = PerceptronTrainer(model(), chain, PerceptronSettings(max_iterations=1))
    mistakes.advance()
    return [mistakes.point]


def dev_scores(chain: Source) -> list[Any]:
    source = made("abc", "acb", "bac", "aabbcc")
    return [cf.train(source, dev=chain).training["development"]]


def by_estimator(chain: Source) -> list[Any]:
    crf = cf.CRF(c2=0.1).fit(made("abc", "acb", "bac", "aabbcc"), X_dev=chain)
    (found,), (posteriors,) = crf.predict(chain), crf.predict_marginals(chain)
    return [np.array([LABELS[label.lower()] for label in found]), [list(one.values()) for one in posteriors]]


DOORS: dict[str, Callable[[Source], list[Any]]] = {
    "tag": lambda chain: [cf.tag(model(), chain)],
    "marginals": lambda chain: [cf.marginals(model(), chain)],
    "log_probabilities": lambda chain: [cf.log_probabilities(model(), chain)],
    "entropies": lambda chain: [cf.entropies(model(), chain)],
    "nbest": ranked,
    "sample": lambda chain: [cf.sample(model(), chain, 20, seed=3)],
    "Tagger": stretches,
    "StreamTagger": pushed,
    "PiecewiseGradient": in_pieces,
    "count_observed": lambda chain: [count_observed(model(), chain)],
    "perceptron": learnt,
    "dev": dev_scores,
    "CRF": by_estimator,
    **{name: lambda chain, name=name: evaluated(cf.log_likelihood(model(), chain, name)) for name in ALL_ENGINES},  # type: ignore[misc]
}


@pytest.mark.parametrize("door", DOORS)
def test_names_and_not_numbers_are_compared(door: str) -> None:
    for found, expected in zip(DOORS[door](asked()), DOORS[door](answer()), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_the_answers_are() -> None:
    chain = made("cba")
    assert names(cf.tag(model(), chain)) == ["C", "B", "A"]
    assert cf.marginals(model(), chain)[0].argmax() == 2
    assert cf.log_probabilities(model(), chain)[0] > np.log(0.5)
    assert dev_scores(asked())[0][-1] == 1.0
    assert names(pushed(chain)[0]) == ["C", "B", "A"]
    given = cf.log_probabilities(model(), chain, [2, 1, 0])  # numbers of the model
    np.testing.assert_array_equal(given, cf.log_probabilities(model(), chain))


def test_a_stored_chain(tmp_path: Path) -> None:
    cf.write_chain(tmp_path / "chain", asked())
    stored = cf.open_chain(tmp_path / "chain")
    assert names(cf.tag(model(), stored)) == ["C", "B", "A", "A"]
    assert cf.log_likelihood(model(), stored).log_z == cf.log_likelihood(model(), answer()).log_z


def test_the_command_line(tmp_path: Path) -> None:
    arguments = ("gradient", tmp_path / "chain", "--model", tmp_path / "model", "--json")
    cf.save_model(tmp_path / "model", model())
    cf.write_chain(tmp_path / "chain", asked())
    found = json.loads(succeeded(*arguments))
    assert (found["labels"], found["log_likelihood"]) == (3, cf.log_likelihood(model(), answer()).log_likelihood)
    cf.write_chain(tmp_path / "chain", made("cbx"))
    assert failed(*arguments).startswith("position 2 has label 'x', which the model has never seen")


# Equal numbers


def test_equal_vocabularies_leave_the_chain_as_it_is() -> None:
    same = made("abc")
    assert same.vocabulary is not model().vocabulary
    assert model().aligned(same) is same
    assert model().aligned(answer()) is answer()
    assert isinstance(model().aligned(asked()), Renumbered)


def test_training_compares_no_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Evaluations are of models without names, so that a stored chain need not hold its own."""
    cf.write_chain(tmp_path / "chain", made("abc", "acb"))
    same: list[bool] = []
    monkeypatch.setattr(Vocabulary, "same_numbers", lambda self, other: same.append(self is other) or True)  # type: ignore[func-returns-value]
    for source in (made("abc", "acb"), cf.open_chain(tmp_path / "chain")):
        space = WeightSpace.of(source)
        for objective in (
            Objective(space),
            Objective(replace(space, passes=LocalPasses(space.source, engine="stream", memory=1 << 30))),
        ):
            objective(np.zeros(space.layout.size))
    assert not same


def test_blocks_are_renumbered_one_by_one() -> None:
    chain = made(*["cbaxab"] * 50)
    source = model().aligned(chain)
    for low in range(0, 300, 7):
        block = source.block(low, min(low + 7, 300))
        assert block.ids.size <= 7


# Names that one side does not have


def test_attributes_that_the_model_has_never_seen_have_no_weight() -> None:
    items: list[list[list[str]]] = [[["w:c", "new"], ["w:b"], ["other"], ["w:a"]]]
    chain = cf.chain_from_sequences(items, [["C", "B", "B", "A"]])
    less = cf.chain_from_sequences([[["w:c"], ["w:b"], [], ["w:a"]]], [["C", "B", "B", "A"]])
    for door in ("tag", "marginals", "log_probabilities", "StreamTagger", "stream", "PiecewiseGradient"):
        for found, expected in zip(DOORS[door](chain), DOORS[door](less), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_labels_that_the_model_has_never_seen_are_unknown_where_none_is_needed() -> None:
    chain = made("cb", "ax", "x", "ba")
    assert names(cf.tag(model(), chain)[:2]) == ["C", "B"]
    assert np.isnan(cf.log_probabilities(model(), chain)).tolist() == [False, True, True, False]
    assert pushed(chain)[2].tolist() == [2, 1, 0, -1, -1, 1, 0]
    assert cf.log_likelihood(model(), chain, observe=False).log_likelihood is None


@pytest.mark.parametrize("door", ["stream", "parallel", "fb", "PiecewiseGradient", "count_observed", "perceptron"])
def test_and_refused_where_they_are_needed(door: str) -> None:
    with pytest.raises(errors.UnseenLabel, match="position 3 has label 'x', which the model has never seen, so the "):
        DOORS[door](made("cb", "ax", "ba"))


def test_the_position_of_a_refused_label_is_that_in_the_chain() -> None:
    source = model().aligned(made("cb", "ax"), labels_needed=True)
    assert source.block(0, 3).labels.tolist() == [2, 1, 0]
    with pytest.raises(errors.UnseenLabel, match="position 3 has label 'x'"):
        source.block(2, 4)


def test_labels_alone_may_have_other_numbers() -> None:
    ours, theirs = (cf.chain_from_sequences([[["x"], ["x"]]], [list(labels)]) for labels in ("AB", "BA"))
    found = cf.log_probabilities(cf.train(ours), theirs)
    assert found == cf.log_probabilities(cf.train(ours), ours, [1, 0])
    assert found < cf.log_probabilities(cf.train(ours), ours)


def test_a_label_that_does_not_occur_need_not_be_known() -> None:
    chain = asked()
    assert chain.vocabulary is not None
    marks = chain.vocabulary.marks
    more = replace(chain.vocabulary, labels=(*chain.vocabulary.labels, "Z"), marks=marks)
    wider = replace(chain, n_labels=4, vocabulary=more)
    assert cf.log_likelihood(model(), wider).log_likelihood == cf.log_likelihood(model(), answer()).log_likelihood


def test_a_chain_with_some_labels_missing_has_no_likelihood_and_needs_no_labels() -> None:
    chain = made("cb", "ax")
    partly = replace(chain, labels=np.array([0, -1, 2, 3], np.int32))
    assert cf.log_likelihood(model(), partly).log_likelihood is None
    assert cf.log_likelihood(model(), partly).log_z == cf.log_likelihood(model(), chain, observe=False).log_z


def test_development_labels_that_were_never_seen_are_wrong() -> None:
    source = made("abc", "acb", "bac", "aabbcc")
    (scores,) = [cf.train(source, dev=made("cbax")).training["development"]]
    assert scores[-1] == 0.75


def test_a_chain_without_labels() -> None:
    chain = cf.chain_from_sequences([[{"w": letter} for letter in "cbaa"]])
    assert names(cf.tag(model(), chain)) == ["C", "B", "A", "A"]
    assert cf.log_likelihood(model(), chain).log_z == cf.log_likelihood(model(), answer()).log_z


# Names that cannot be compared


def test_other_hashing_is_refused() -> None:
    items: Items = [[{"w": letter} for letter in "cba"]]
    four, five = (cf.chain_from_sequences(items, [["C", "B", "A"]], hash_bits=bits) for bits in (4, 5))
    hashed = cf.train(four)
    other = cf.chain_from_sequences([[{"w": "a"}, {"w": "c"}]], [["A", "C"]], hash_bits=4)
    assert hashed.vocabulary is not None
    assert [hashed.vocabulary.labels[label] for label in cf.tag(hashed, other)] == ["A", "C"]
    for chain in (five, asked()):
        for door in (cf.tag, cf.log_likelihood):
            with pytest.raises(errors.ChainfoldError, match="and the model attributes hashed to 4 bits; encode it as"):
                door(hashed, chain)
    with pytest.raises(errors.ChainfoldError, match="attributes hashed to 4 bits and the model attributes with names"):
        cf.tag(model(), four)


def test_other_scales_are_refused_though_they_have_the_same_names() -> None:
    few, many = ([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0])
    tables = (pa.table({"x": x, "label": ["A", "B", "A", "B"]}) for x in (few, many))
    chain, other = (cf.chain_from_table(table, numbers="standard") for table in tables)
    assert chain.vocabulary is not None
    assert other.vocabulary is not None
    assert chain.vocabulary.attributes.equals(other.vocabulary.attributes)
    for door in (cf.tag, cf.log_likelihood):
        with pytest.raises(errors.ChainfoldError, match="another template, or other bins of numbers, than the model"):
            door(cf.train(chain), other)


def test_edge_attributes_are_known_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.crfsuite").write_text("A\tx\nA\tx\t@edge\tstay\nB\tx\t@edge\tmove\nB\tx\t@edge\tstay\n")
    (tmp_path / "b.crfsuite").write_text("A\tx\nB\tx\t@edge\tmove\nB\tx\t@edge\tstay\nA\tx\t@edge\tmove\n")
    a, b = (cf.chain_from_table(tmp_path / f"{name}.crfsuite") for name in "ab")
    trained = cf.train(a)
    assert b.edge_ids.tolist() == [0, 1, 0]
    turned = replace(b, edge_ids=np.array([1, 0, 1], np.int32), vocabulary=trained.vocabulary)
    assert cf.log_likelihood(trained, b).log_z == cf.log_likelihood(trained, turned).log_z
    np.testing.assert_array_equal(cf.marginals(trained, b), cf.marginals(trained, turned))


def test_columns_of_a_matrix_are_known_by_their_number() -> None:
    rows = np.eye(3)
    trained = cf.train(cf.chain_from_matrix(np.tile(rows, (4, 1)), ["A", "B", "C"] * 4, starts=np.arange(12)))
    assert trained.vocabulary is not None
    turned = cf.chain_from_matrix(rows[::-1], ["C", "B", "A"], starts=np.arange(3))
    assert [trained.vocabulary.labels[label] for label in cf.tag(trained, turned)] == ["C", "B", "A"]
    assert np.isfinite(cf.log_probabilities(trained, turned)).all()
    with pytest.raises(errors.ModelMismatch, match="the chain has 4 attributes, but the model knows 3"):
        cf.tag(trained, cf.chain_from_matrix(np.eye(4), ["C", "B", "A", "A"]))
    with pytest.raises(errors.ChainfoldError, match="attributes with names and the model attributes without names"):
        cf.tag(trained, asked())
    with pytest.raises(errors.ChainfoldError, match="has attributes without names and the data attributes with names"):
        cf.train(asked(), start=trained)


def test_without_names_numbers_are_those_of_the_model() -> None:
    nameless = replace(asked(), vocabulary=None)
    assert model().aligned(nameless) is nameless
    assert names(cf.tag(model(), nameless)) == ["B", "C", "A", "A"]
    numbers = replace(model(), vocabulary=None)
    assert numbers.aligned(asked()) is asked()
    with pytest.raises(errors.ModelMismatch, match="the chain has 4 labels, but the model knows 3"):
        cf.tag(numbers, made("abcd"))


# At random, against the raw sequences


def test_many_words_in_any_order() -> None:
    random = np.random.default_rng(0)
    words = [f"w{k}" for k in range(200)]

    def drawn(count: int, first: int) -> tuple[Any, Any]:
        lengths = random.integers(1, 12, count)
        items = [[[words[k], f"p{k % 7}"] for k in random.integers(first, 200, length)] for length in lengths]
        return items, [[f"L{int(item[0][1:]) % 5}" for item in sequence] for sequence in items]

    crf = cf.CRF(max_iterations=30, c1=0.05).fit(*drawn(150, 20))
    trained = crf.model_
    assert trained.vocabulary is not None
    items, labels = drawn(60, 0)
    chain = cf.chain_from_sequences(items[::-1], labels[::-1])
    expected = [label for sequence in crf.predict(items)[::-1] for label in sequence]
    assert [trained.vocabulary.labels[label] for label in cf.tag(trained, chain)] == expected
    posteriors = [list(one.values()) for sequence in crf.predict_marginals(items)[::-1] for one in sequence]
    np.testing.assert_allclose(cf.marginals(trained, chain), posteriors, rtol=0, atol=ORACLE)


def test_an_encoded_file_is_tagged_as_the_file_itself(tmp_path: Path) -> None:
    train, test = (conll(tmp_path / f"{seed}.txt", 60, seed) for seed in (1, 2))
    trained = cf.train(cf.encode(train, tmp_path / "train.chain"))
    stored = cf.encode(test, tmp_path / "test.chain")
    assert trained.vocabulary is not None
    assert stored.vocabulary is not None
    assert trained.vocabulary.attributes.to_pylist() != stored.vocabulary.attributes.to_pylist()
    sink = io.BytesIO()
    cf.tag_to(sink, trained, test)
    expected = [line.split()[-1] for line in sink.getvalue().decode().splitlines() if line]
    assert [trained.vocabulary.labels[label] for label in cf.tag(trained, stored)] == expected
