"""Sentences of tokens, rows as Hugging Face's data sets have them, lazy tables, and rows for models of columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from chainfold import evaluate
from chainfold.errors import BadChain, BadFile, ChainfoldError
from chainfold.sklearn.estimator import CRF
from verbs import succeeded

pytestmark = pytest.mark.quick

TOKENS = [["the", "cat", "sat"], [], ["a", "dog", "ran", "far"], ["the", "dog", "sat"]]
TAGS = [["D", "N", "V"], [], ["D", "N", "V", "A"], ["D", "N", "V"]]
ROWS = [
    {
        "id": str(k),
        "tokens": tokens,
        "upper": [token.isupper() for token in tokens],
        "ner_tags": list(range(len(tokens))),
    }
    for k, tokens in enumerate(TOKENS)
]
CONTEXT = {"attributes": "tokens[-1] tokens tokens[1]"}

# Tokens


@pytest.mark.parametrize("encoding", [None, CONTEXT])
def test_tokens_are_a_table_with_one_column(encoding: dict[str, str] | None, tmp_path: Path) -> None:
    """The same model as of a file with the tokens and their labels."""
    text = "".join(
        "".join(f"{a} {b}\n" for a, b in zip(x, y, strict=True)) + "\n" for x, y in zip(TOKENS, TAGS, strict=True) if x
    )
    (tmp_path / "train.txt").write_text(text)
    crf = CRF(c2=0.1, encoding=encoding).fit(TOKENS, TAGS)
    columns = {"columns": ["tokens", "label"], **(encoding or {})}
    of_file = CRF(c2=0.1, encoding=columns).fit(tmp_path / "train.txt")
    assert crf.attributes_ == of_file.attributes_
    assert (crf.model_.weights == of_file.model_.weights).all()
    assert crf.predict(TOKENS).tolist() == TAGS
    assert crf.score(TOKENS, TAGS) == 1.0
    assert crf.predict_single(["the", "dog"]) == ["D", "N"]
    crf.save(tmp_path / "tokens.model")
    (tmp_path / "new.txt").write_text("the\ndog\n")
    assert b"dog N" in succeeded("tag", str(tmp_path / "tokens.model"), str(tmp_path / "new.txt")).replace(b"\t", b" ")


def test_labels_of_tokens_may_be_numbers_and_pieces_extend_the_model() -> None:
    flags = [[tag == "D" for tag in tags] for tags in TAGS]
    crf = CRF(c2=0.1).fit(TOKENS, flags)
    assert crf.predict(TOKENS).tolist() == flags
    assert crf.score(TOKENS, flags) == 1.0
    of_flags = CRF("adagrad").partial_fit(TOKENS[:1], [[True] * 3], classes=[True, False])
    assert of_flags.classes_ == [True, False]
    pieces = CRF("adagrad").partial_fit(TOKENS, TAGS)
    pieces.partial_fit([["new", "cat"]], [["X", "N"]], sample_weight=[2.0])
    assert pieces.classes_ == ["D", "N", "V", "A", "X"]
    assert "tokens=new" in pieces.attributes_
    dev = CRF(max_iterations=3).fit(TOKENS, TAGS, TOKENS, TAGS)
    assert dev.training_log_.iterations[-1]["dev_score"] > 0.0


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([["a", 1]], [["x", "y"]], "item 1 of sequence 0 is 1, but tokens are texts"),
        ([["a"], [["b"]]], [["x"], ["y"]], r"item 0 of sequence 1 is \['b'\], but tokens are texts"),
        (TOKENS, TAGS[:-1], "there are only 3 sequences of labels, but sequence 3 has tokens"),
        (TOKENS, [*TAGS, ["D"]], "more sequences of labels than sequences of tokens"),
        (TOKENS, [TAGS[0][:2], *TAGS[1:]], "sequence 0 has 3 tokens, but 2 labels"),
        (["the cat", "sat"], [["D"], ["N"]], "give a list of sequences, such as"),
    ],
)
def test_wrong_tokens(x: Any, y: Any, words: str) -> None:
    with pytest.raises(ChainfoldError, match=words):
        CRF().fit(x, y)


@pytest.mark.parametrize("given", ["cat", ["the", "cat"], ["-"], ["s3://x/y"], ("the",), np.array(["the", "cat"])])
def test_texts_are_no_names_of_files(given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("the", "cat"):
        (tmp_path / name).write_text("the D\n")
    crf = CRF(max_iterations=2).fit(TOKENS, TAGS)
    for use in (CRF().fit, CRF("adagrad").partial_fit, crf.predict, crf.predict_marginals, crf.score, crf.entropy):
        with pytest.raises(ChainfoldError, match=r'such as \[\["cat", "abc"\]\], and files as'):
            use(given)
    with pytest.raises(ChainfoldError, match="give a list of sequences"):
        CRF().fit(TOKENS, TAGS, X_dev=given)


def test_options_that_do_not_apply_to_sentences() -> None:
    with pytest.raises(ChainfoldError, match="`group` does not apply to sentences"):
        CRF(encoding={"group": "id"}).fit(TOKENS, TAGS)


def test_models_of_items_refuse_tokens_as_before() -> None:
    crf = CRF().fit([[["w=the"], ["w=cat"]]], [["D", "N"]])
    with pytest.raises(BadChain, match="item 0 of sequence 0 is 'w=the'; give a dict, or a list of strings"):
        crf.predict([["w=the"], ["w=cat"]])  # one sequence, given as several


# Rows with lists


def test_rows_of_a_data_set() -> None:
    crf = CRF(c2=0.1, encoding={"label": "ner_tags", **CONTEXT}).fit(ROWS)
    assert crf.predict(ROWS).tolist() == [row["ner_tags"] for row in ROWS]
    assert crf.score(ROWS) == 1.0
    assert crf.predict([{"tokens": ["the", "cat"]}])[0] == [0, 1]
    assert crf.predict([["the", "cat"]])[0] == [0, 1]
    again = CRF(c2=0.1, encoding=CONTEXT).fit(ROWS)  # the only column that ends in _tags
    assert (again.model_.weights == crf.model_.weights).all()
    beside = CRF(c2=0.1, encoding=CONTEXT).fit(ROWS, [row["ner_tags"] for row in ROWS])
    assert (beside.model_.weights == crf.model_.weights).all()
    plain = CRF(c2=0.1).fit([{"tokens": row["tokens"], "tags": row["ner_tags"]} for row in ROWS])
    assert set(plain.attributes_) == {f"tokens={token}" for token in ("the", "dog", "sat", "cat", "a", "ran", "far")}


def test_other_columns_of_a_data_set_are_there_for_templates() -> None:
    crf = CRF(c2=0.1, encoding={"attributes": "tokens upper[1]"}).fit(ROWS)
    assert {"upper[1]=false"} <= set(crf.attributes_)
    with pytest.raises(BadFile, match="item 0 of sequence 1 has no column 'upper', which the model uses"):
        crf.predict([ROWS[0], {"tokens": ["the"]}])
    with pytest.raises(BadChain, match="the columns of sequence 0 have different numbers of values: 2 in 'tokens'"):
        crf.predict([{"tokens": ["the", "cat"], "upper": [True]}])


class DataSet:
    """Rows as a data set has them."""

    def __len__(self) -> int:
        return len(ROWS)

    def __getitem__(self, number: int) -> dict[str, Any]:
        return ROWS[number]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(ROWS)


def test_a_data_set_is_not_a_list_and_iterators_are_read_once() -> None:
    crf = CRF(c2=0.1).fit(DataSet())
    assert crf.predict(DataSet()).tolist() == [row["ner_tags"] for row in ROWS]

    class Once:
        def __init__(self) -> None:
            self._rest = iter([[{"a": 1}], [{"b": 1}]])

        def __iter__(self) -> Any:
            return self._rest

    assert CRF().fit(Once(), [["A"], ["B"]]).attributes_ == ["a", "b"]


def test_rows_without_tokens_or_labels() -> None:
    with pytest.raises(ChainfoldError, match=r"sequence 0 has no column of labels; name the column as encoding="):
        CRF().fit([{"tokens": ["a"], "a_tags": [1], "b_tags": [1]}])
    with pytest.raises(BadChain, match="sequence 0 has no list 'tokens'; its columns are words, tags"):
        CRF().fit([{"words": ["a"], "tags": [1]}])


# Lazy tables


def test_a_lazy_table_of_polars() -> None:
    table = pl.DataFrame({"s": [1, 1, 2, 2], "word": list("abab"), "label": list("xyxy")})
    lazy = CRF(encoding={"group": "s"}).fit(table.lazy())
    assert (lazy.model_.weights == CRF(encoding={"group": "s"}).fit(table).model_.weights).all()
    assert lazy.predict(table.lazy().drop("label")).tolist() == [["x", "y"]] * 2


# Rows for a model of columns

TRAIN = "the DT B-NP\ncat NN I-NP\nsat VBD B-VP\n\nit PRP B-NP\nslept VBD B-VP\n" * 3
TEST = "the DT B-NP\ndog NN I-NP\nslept VBD B-VP\n\nit PRP B-NP\nsat VBD O\n"
TEST_ROWS = [
    [dict(zip(("word", "pos"), line.split(), strict=False)) for line in part.split("\n") if line]
    for part in TEST.split("\n\n")
]
TEST_LABELS = [[line.split()[2] for line in part.split("\n") if line] for part in TEST.split("\n\n")]


@pytest.fixture
def of_columns(tmp_path: Path) -> CRF:
    (tmp_path / "train.txt").write_text(TRAIN)
    (tmp_path / "test.txt").write_text(TEST)
    succeeded(
        *("train", str(tmp_path / "train.txt"), "-o", str(tmp_path / "np.model"), "--columns", "word,pos,chunk"),
        *("--attributes", "word[-1] word pos[1] pos shape(word)"),
    )
    return CRF.load(tmp_path / "np.model")


def test_rows_get_the_template_of_the_model(of_columns: CRF, tmp_path: Path) -> None:
    expected = [list(labels) for labels in of_columns.predict(tmp_path / "test.txt")]
    full = [
        [{**row, "chunk": label, "more": 1} for row, label in zip(*pair, strict=True)]
        for pair in zip(TEST_ROWS, TEST_LABELS, strict=True)
    ]
    lists = [[list(row.values()) for row in rows] for rows in TEST_ROWS]
    columns = [{name: [row[name] for row in rows] for name in ("word", "pos")} for rows in TEST_ROWS]
    for rows in (TEST_ROWS, full, lists, columns, iter(TEST_ROWS), [[tuple(row) for row in part] for part in lists]):
        assert of_columns.predict(rows).tolist() == expected
    assert of_columns.predict_single(TEST_ROWS[0]) == expected[0]
    assert of_columns.predict_marginals(TEST_ROWS)[1] == of_columns.predict_marginals(tmp_path / "test.txt")[1]
    assert list(of_columns.predict([[], TEST_ROWS[0], []])) == [[], expected[0], []]
    assert list(of_columns.predict([])) == []
    scores = evaluate(of_columns.model_, str(tmp_path / "test.txt"))
    assert of_columns.score(TEST_ROWS, TEST_LABELS) == scores.accuracy == of_columns.score(full)
    assert of_columns.tagger_.tag(TEST_ROWS[0]) == expected[0]
    given = of_columns.log_probability(TEST_ROWS, TEST_LABELS)
    assert given.tolist() == of_columns.log_probability(tmp_path / "test.txt").tolist()


def test_labels_that_the_model_does_not_have_are_wrong(of_columns: CRF) -> None:
    changed = [["NEW", *TEST_LABELS[0][1:]], TEST_LABELS[1]]
    before = of_columns.score(TEST_ROWS, TEST_LABELS)
    assert of_columns.score(TEST_ROWS, changed) == pytest.approx(before - 0.2)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([TEST_ROWS[0], [{"word": "the"}]], "item 0 of sequence 1 has no column 'pos', which the model uses"),
        ([[["the"]]], "item 0 of sequence 0 has 1 values, but the columns are word, pos"),
        ([["the", "cat"]], "item 0 of sequence 0 is 'the'; give a dict with the columns word, pos"),
        ([TEST_ROWS[0], "the"], "sequence 1 is 'the'; give a list of rows or a dict of columns"),
        ([[{"word": ["a"], "pos": "DT"}]], r"item 0 of sequence 0, column 'word': \['a'\] is no text"),
    ],
)
def test_wrong_rows(of_columns: CRF, rows: Any, words: str) -> None:
    with pytest.raises(ChainfoldError, match=words):
        of_columns.predict(rows)


def test_labels_that_do_not_fit_the_rows(of_columns: CRF) -> None:
    with pytest.raises(BadChain, match="sequence 0 has 3 items, but 2 labels"):
        of_columns.score(TEST_ROWS, [TEST_LABELS[0][:2], TEST_LABELS[1]])
    for labels in (TEST_LABELS[:1], [*TEST_LABELS, ["O"]]):
        with pytest.raises(BadChain, match="there are only"):
            of_columns.score(TEST_ROWS, labels)


def test_many_rows_come_in_several_stretches(of_columns: CRF, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = of_columns.predict(TEST_ROWS * 5)
    monkeypatch.setattr("chainfold.features.item_blocks._ROWS", 4)
    assert (of_columns.predict(TEST_ROWS * 5) == expected).all()
    with pytest.raises(BadFile, match="item 1 of sequence 7 has no column 'pos'"):
        of_columns.predict([*TEST_ROWS * 3, TEST_ROWS[0], [*TEST_ROWS[0][:1], {"word": "x"}]])


def test_numbers_of_rows(tmp_path: Path) -> None:
    table = pl.DataFrame(
        {"bytes": [1.0, 200.0, 1.0, 300.0] * 3, "service": list("abab") * 3, "label": list("xyxy") * 3}
    )
    crf = CRF(c2=0.1, encoding={"attributes": "log(bytes) service"}).fit(table)
    rows: list[dict[str, Any]] = [{"bytes": 1.0, "service": "a"}, {"bytes": "250", "service": None}]
    expected = crf.predict(pl.DataFrame({"bytes": [1.0, 250.0], "service": ["a", None]}))
    assert (crf.predict([rows]) == expected).all()
    with pytest.raises(BadFile, match="item 1 of sequence 0, column 'bytes': 'many' is no number"):
        crf.predict([[rows[0], {**rows[1], "bytes": "many"}]])
    assert np.isfinite(crf.entropy([rows])).all()
