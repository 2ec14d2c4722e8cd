"""A model at work: the same answers however the input is cut, and every constraint kept."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chainfold import Chain, Layout, Model
from chainfold.errors import ChainfoldError
from chainfold.features.encode import chain_from_sequences, encode
from chainfold.features.for_model import blocks_for_model
from chainfold.inference import tagger, whole_chain
from chainfold.inference.tag_files import evaluate, tag_to
from chainfold.model.constraints import constrained
from chainfold.training.loop import Training, train
from verbs import conll

LABELS = ("O", "B-X", "I-X")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("model")
    chain = encode(conll(folder / "t", 40), folder / "c", columns=["word", "shape", "tag"])
    return train(chain, Training("lbfgs", {"c2": 0.1, "max_iterations": 20}))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return conll(tmp_path / "text", 25, seed=2, noise=0.5)


@pytest.fixture(params=[3, 8192])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Stretches that cut sequences, and one that holds all of them."""
    monkeypatch.setattr(tagger, "BLOCK", request.param)
    return int(request.param)


def tagged(model: Model, inputs: Any, **options: Any) -> str:
    out = io.BytesIO()
    tag_to(out, model, inputs, **options)
    return out.getvalue().decode()


def blocks(text: str) -> list[list[list[str]]]:
    """The fields of the lines of each sequence."""
    return [[line.split() for line in part.splitlines()] for part in text.strip("\n").split("\n\n")]


# Constraints


def random_model(seed: int, edges: int = 0) -> Model:
    dice = np.random.default_rng(seed)
    chain = chain_from_sequences([[["a"], ["b"], ["c"]]], [list(LABELS)])
    layout = Layout.full(3, 3, edges)
    weights = dice.normal(0.0, 1.0, layout.size)
    first = np.array([True, True, False]) if seed % 2 else None
    return Model(layout, weights, vocabulary=chain.vocabulary, first=first)


@pytest.mark.parametrize("edges", [0, 2])
@pytest.mark.parametrize("seed", range(4))
def test_constraints_are_added_to_those_of_the_model(seed: int, edges: int) -> None:
    model = random_model(seed, edges)
    before = model.weights.copy()
    bound = constrained(model, "BIO", ["B-X>$", "O>O"])
    np.testing.assert_array_equal(model.weights, before)
    changed = bound.weights != before
    pairs = changed[9:18].reshape(3, 3)
    assert [(LABELS[i], LABELS[j]) for i, j in np.argwhere(pairs)] == [("O", "O"), ("O", "I-X")]
    assert changed.sum() == 2
    assert np.isneginf(bound.weights[changed]).all()
    masks = [np.asarray(mask).tolist() for mask in (bound.first, bound.last)]
    assert masks == [[True, True, False], [True, False, True]]
    again = constrained(bound, None, ["^>O"])
    assert [np.asarray(mask).tolist() for mask in (again.first, again.last)] == [[False, True, False], masks[1]]
    freed = constrained(bound, None, allow=["O>I-X", "^>I-X"])  # what a model forbids stays forbidden
    assert np.array_equal(freed.weights, bound.weights)
    assert np.asarray(freed.first).tolist() == masks[0]


def test_no_constraints_change_nothing() -> None:
    model = random_model(0)
    assert constrained(model, None) is model
    with pytest.raises(ChainfoldError, match="no names"):
        constrained(replace(model, vocabulary=None), "BIO")


# Scores


def test_scores_are_those_of_a_plain_count(model: Model, text: Path, block: int) -> None:
    content = text.read_text().replace("I-X\n", "I-Y\n", 3)  # one that the model never saw
    text.write_text(content)
    gold = [[row[-1] for row in rows] for rows in blocks(content)]
    found = [[row[-1] for row in rows] for rows in blocks(tagged(model, text))]
    scores = evaluate(model, text)
    pairs = [pair for g, f in zip(gold, found, strict=True) for pair in zip(g, f, strict=True)]
    assert scores.labels[:3] == model.vocabulary.labels  # type: ignore[union-attr]
    assert scores.labels[3:] == ("I-Y",)
    assert scores.tokens == len(pairs)
    for i, one in enumerate(scores.labels):
        for j, other in enumerate(scores.labels):
            assert scores.confusion[i, j] == pairs.count((one, other))
    assert scores.sequences == len(gold)
    assert scores.sequences_correct == sum(g == f for g, f in zip(gold, found, strict=True))
    assert scores.per_label["I-Y"].recall == 0.0


def test_scores_of_files_chains_and_tables_agree(model: Model, text: Path, tmp_path: Path) -> None:
    rows = [(*row, number) for number, rows in enumerate(blocks(text.read_text())) for row in rows]
    table = pa.table(dict(zip(("word", "shape", "tag", "n"), zip(*rows, strict=True), strict=True)))
    encode(text, tmp_path / "c", columns=["word", "shape", "tag"])
    expected = evaluate(model, text).to_json()
    for path in (tmp_path / "c", str(tmp_path / "c"), [tmp_path / "c"], (str(tmp_path / "c"),)):
        assert evaluate(model, path).to_json() == expected
    assert evaluate(model, table, group="n").to_json() == expected
    assert evaluate(model, [text], memory=1).to_json() == expected
    with text.open("rb") as file:
        assert evaluate(model, file).to_json() == expected


def test_nothing_to_compare_with(model: Model) -> None:
    for tag in (["", ""], [None, None]):
        table = pa.table({"word": ["b1", "b2"], "shape": ["x", "x"], "tag": pa.array(tag, pa.string())})
        with pytest.raises(ChainfoldError, match="no position has a known label"):
            evaluate(model, table)


# What is written


def test_new_columns_however_the_input_is_cut(model: Model, text: Path, block: int) -> None:
    found = blocks(tagged(model, text, marginals=True, all_marginals=True, samples=2, seed=3))
    assert [[row[:3] for row in rows] for rows in found] == blocks(text.read_text())
    flat = [row for rows in found for row in rows]
    names = model.vocabulary.labels  # type: ignore[union-attr]
    chain = one_chain(model, text)
    assert [row[3] for row in flat] == [names[label] for label in whole_chain.tag(model, chain)]
    posteriors = np.array([[float(field) for field in row[5:8]] for row in flat])
    np.testing.assert_allclose(posteriors, whole_chain.marginals(model, chain), rtol=1e-5)
    best = [names.index(row[3]) for row in flat]
    np.testing.assert_allclose([float(row[4]) for row in flat], posteriors[np.arange(len(flat)), best])
    drawn = whole_chain.sample(model, chain, 2, 3)
    assert [[row[8 + k] for row in flat] for k in range(2)] == [[names[label] for label in one] for one in drawn]


def one_chain(model: Model, text: Path) -> Chain:
    """What the model sees of a text."""
    from chainfold.features.for_model import gather_blocks

    assert model.vocabulary is not None
    like = Chain.from_arrays(offsets=[0, 0], ids=[], n_labels=3, n_attributes=model.layout.n_attributes)
    return gather_blocks(blocks_for_model(text, model.vocabulary, labels=True), like)


def test_sequences_however_the_input_is_cut(model: Model, text: Path, block: int) -> None:
    out = io.BytesIO()
    for options in ({}, {"nbest": 2}):
        out.seek(0)
        tagged(model, text, sequences=out, **options)
        rows = list(csv.reader(out.getvalue().decode().splitlines()))
        assert rows[0] == ["sequence", "positions", "log_probability", "entropy"]
        numbers = np.array(rows[1:], float)
        lengths = [len(rows) for rows in blocks(text.read_text())]
        np.testing.assert_array_equal(numbers[:, :2], list(enumerate(lengths)))
        chain = one_chain(model, text)
        best = replace(chain, labels=whole_chain.tag(model, chain))
        np.testing.assert_allclose(numbers[:, 2], whole_chain.log_probabilities(model, best), rtol=1e-8)
        np.testing.assert_allclose(numbers[:, 3], whole_chain.entropies(model, chain), rtol=1e-8)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_the_best_labellings_however_the_input_is_cut(model: Model, text: Path, block: int, k: int) -> None:
    names = model.vocabulary.labels  # type: ignore[union-attr]
    found = iter(blocks(tagged(model, text, nbest=k)))
    sentences_of_text = blocks(text.read_text())
    for rows, best in zip(sentences_of_text, whole_chain.nbest(model, one_chain(model, text), k), strict=True):
        assert len(best.labels) == min(k, 3 ** len(rows))
        for rank, labels in enumerate(best.labels):
            head, *lines = next(found)
            assert head[:2] == ["#", str(rank)]
            assert float(head[2]) == pytest.approx(np.exp(best.log_probabilities[rank]), rel=1e-5)
            assert lines == [[*row, names[label]] for row, label in zip(rows, labels, strict=True)]
    assert next(found, None) is None


def test_a_chain_is_tagged_line_by_line(model: Model, text: Path, tmp_path: Path, block: int) -> None:
    encode(text, tmp_path / "c", columns=["word", "shape", "tag"])
    for options in ({}, {"marginals": True, "samples": 1}, {"nbest": 3}):
        of_text, of_chain = tagged(model, text, **options), tagged(model, tmp_path / "c", **options)
        heads = [line for line in of_text.splitlines() if line.startswith("#")]
        assert [line for line in of_chain.splitlines() if line.startswith("#")] == heads
        bare = [[row if row[0] == "#" else row[3:] for row in rows] for rows in blocks(of_text)]
        assert blocks(of_chain) == bare
        assert of_chain.count("\n") == of_text.count("\n")


def test_constraints_are_kept_by_everything_that_is_written(model: Model, text: Path) -> None:
    bound = constrained(model, "BIO", ["^>O"])
    names = list(bound.vocabulary.labels)  # type: ignore[union-attr]
    for rows in blocks(tagged(bound, text, samples=3, all_marginals=True)):
        for column in (3, 7, 8, 9):
            labels = [row[column] for row in rows]
            assert labels[0] == "B-X"
            assert all(one != "I-X" or before != "O" for before, one in pairwise(labels))
        starts = np.array([float(field) for field in rows[0][4:7]])
        assert starts[names.index("B-X")] == 1.0
    for head, first, *_ in blocks(tagged(bound, text, nbest=4)):
        assert head[0] == "#"
        assert first[-1] == "B-X"


def test_best_labellings_of_a_table_are_refused_before_it_is_read(model: Model, tmp_path: Path) -> None:
    rows = "b1,x,O\n" * 200_000
    (tmp_path / "t.csv").write_text(f"word,shape,tag\n{rows}nothing\n")  # the last row would be refused as well
    with pytest.raises(ChainfoldError, match="only as CoNLL or CRFsuite lines"):
        tagged(model, tmp_path / "t.csv", nbest=2)


def test_options_that_do_not_exist(model: Model, text: Path, tmp_path: Path) -> None:
    encode(text, tmp_path / "c", columns=["word", "shape", "tag"])
    for path in (text, tmp_path / "c"):
        with pytest.raises(ChainfoldError, match="there is no option 'colums'"):
            evaluate(model, path, colums=["a"])
