"""`StreamTagger`: rows of any kind in, the labels of the whole stream out; saved, loaded, refused where it must be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chainfold import CRF, Chain, ChainfoldError, Layout, Model, StreamTagger, Training, encode, marginals, tag, train
from chainfold.chain.chain import gather
from chainfold.chain.renumbered import Renumbered
from chainfold.inference.result import Tagged
from tolerances import ORACLE
from verbs import conll, sentences

ROWS = sentences(25, seed=7, noise=0.4)


class Columns:
    """A model of columns, whose template looks both ways, and its own labels for some rows."""

    def __init__(self, folder: Path) -> None:
        options: Any = {"columns": ["word", "shape", "tag"], "attributes": "word[-1] word word[1]|shape"}
        self.model = train(encode(conll(folder / "train.txt", 60), folder / "train.chain", **options))
        assert self.model.vocabulary is not None
        chain = encode(conll(folder / "test.txt", 25, seed=7, noise=0.4), folder / "test.chain", **options)
        self.chain = gather(Renumbered(chain, self.model.vocabulary))
        self.labels = [self.model.vocabulary.labels[label] for label in tag(self.model, self.chain)]
        self.marginals = marginals(self.model, self.chain)


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Columns:
    return Columns(tmp_path_factory.mktemp("columns"))


def row_of(fields: tuple[str, str, str]) -> dict[str, str]:
    return {"word": fields[0], "shape": fields[1]}


def pushed(tagger: StreamTagger, size: int) -> list[Tagged]:
    """All rows, so many at a time."""
    found = []
    for rows in ROWS:
        for low in range(0, len(rows), size):
            part = [row_of(fields) for fields in rows[low : low + size]]
            found.append(tagger.push(part, start=low == 0, end=False))
    return [*found, tagger.flush()]


def check(columns: Columns, found: list[Tagged]) -> None:
    assert [label for one in found for label in one] == columns.labels
    posteriors = np.concatenate([one.posteriors for one in found])
    np.testing.assert_allclose(posteriors, columns.marginals, rtol=0, atol=ORACLE)
    numbers = np.concatenate([one.labels for one in found])
    probabilities = np.concatenate([one.probabilities for one in found])
    np.testing.assert_array_equal(probabilities, posteriors[np.arange(numbers.size), numbers])


@pytest.mark.parametrize("size", [1, 2, 100])
def test_rows_of_columns(columns: Columns, size: int) -> None:
    tagger = StreamTagger(columns.model, marginals=True)
    assert tagger.right_context == 1
    check(columns, pushed(tagger, size))
    assert (tagger.waiting, tagger.unproven) == (0, 0)


def test_one_row_alone_and_values_in_order(columns: Columns) -> None:
    tagger, found = StreamTagger(columns.model, marginals=True), []
    for rows in ROWS:
        for word, shape, _ in rows[:-1]:
            found.append(tagger.push({"word": word, "shape": shape}))
        found.append(tagger.push((rows[-1][0], rows[-1][1]), end=True))
        assert tagger.waiting == 0
    check(columns, found)


def test_the_end_of_a_sequence_settles_it(columns: Columns) -> None:
    tagger = StreamTagger(columns.model)
    given = [row_of(fields) for fields in ROWS[0]]
    assert len(tagger.push(given[:-1])) < len(given)
    assert [*tagger.push(given[-1:], end=True)][-1] == columns.labels[len(given) - 1]
    assert len(tagger.flush()) == 0


def test_a_chain_with_the_numbers_of_the_model(columns: Columns) -> None:
    tagger = StreamTagger(columns.model, marginals=True)
    check(columns, [tagger.push(columns.chain, end=True)])
    tagger = StreamTagger(columns.model, marginals=True)
    blocks = [columns.chain.block(low, low + 1) for low in range(columns.chain.positions)]
    check(columns, [*map(tagger.push, blocks), tagger.flush()])


def test_items_as_the_estimator_takes_them() -> None:
    X = [[{"w": word, "s": shape} for word, shape, _ in rows] for rows in ROWS]  # noqa: N806
    crf = CRF(max_iterations=20).fit(X, [[tag for *_, tag in rows] for rows in ROWS])
    tagger = StreamTagger(crf.model_)
    found = [label for rows in X for k, item in enumerate(rows) for label in tagger.push(item, start=k == 0)]
    assert [*found, *tagger.flush()] == [label for labels in crf.predict(X) for label in labels]


SAVED: dict[str, dict[str, Any]] = {
    "labels": {},
    "sums": {"marginals": True, "quantities": True},
    "a bounded wait": {"marginals": True, "max_lag": 1},
}


@pytest.mark.parametrize("name", SAVED)
def test_saved_at_thirty_points_and_continued_elsewhere(name: str, columns: Columns, tmp_path: Path) -> None:
    rows = [(row_of(fields), k == 0) for sentence in ROWS for k, fields in enumerate(sentence)]
    tagger, found = StreamTagger(columns.model, **SAVED[name]), []
    points = {int(k): tmp_path / f"{k}" for k in np.random.default_rng(3).choice(len(rows), 30, replace=False)}
    for k, (row, start) in enumerate(rows):
        if k in points:
            tagger.save(points[k])
        found.append(tagger.push(row, start=start))
    found.append(tagger.flush())
    if name == "sums":
        check(columns, found)
        assert (tagger.quantities().positions, tagger.quantities().sequences) == (len(rows), len(ROWS))
    for k, path in points.items():
        other = StreamTagger.load(path, columns.model)
        again = [*(other.push(row, start=start) for row, start in rows[k:]), other.flush()]
        for one, two in zip(found[k:], again, strict=True):
            assert (one.low, [*one]) == (two.low, [*two])
            for column in ("posteriors", "proven", "lag"):
                np.testing.assert_array_equal(getattr(one, column), getattr(two, column))
        if name == "sums":
            assert repr(other.quantities()) == repr(tagger.quantities())


def test_a_wrong_row_changes_nothing(columns: Columns) -> None:
    tagger, found = StreamTagger(columns.model, marginals=True), []
    for rows in ROWS:
        for k, fields in enumerate(rows):
            with pytest.raises(ChainfoldError, match="'word'"):
                tagger.push({"shape": "x"}, start=k == 0, end=k == 1)
            found.append(tagger.push(row_of(fields), start=k == 0))
    check(columns, [*found, tagger.flush()])


def test_settings_may_be_numbers_of_numpy(columns: Columns, tmp_path: Path) -> None:
    StreamTagger(columns.model, max_lag=np.int64(3), memory=np.int64(10**6)).save(tmp_path / "state")  # type: ignore[arg-type]
    assert StreamTagger.load(tmp_path / "state", columns.model)._settings["max_lag"] == 3


def test_bad_input_is_one_sentence(columns: Columns, tmp_path: Path) -> None:
    tagger = StreamTagger(columns.model)
    for row in ({"shape": "x"}, pa.table({"shape": ["x"]})):
        with pytest.raises(ChainfoldError, match="'word'"):
            tagger.push(row)
    wrong: Any
    for wrong in (None, 3, "ab", range(2), [None], float("nan")):
        with pytest.raises(ChainfoldError):
            tagger.push(wrong)
    with pytest.raises(ChainfoldError, match="marginals"):
        _ = tagger.push(row_of(ROWS[0][0])).probabilities
    tagger.save(tmp_path / "state")
    other = train(
        encode(conll(tmp_path / "other", 20, seed=3), tmp_path / "c"), Training(options={"max_iterations": 3})
    )
    with pytest.raises(ChainfoldError, match="another model"):
        StreamTagger.load(tmp_path / "state", other)
    with pytest.raises(ChainfoldError, match="no such file"):
        StreamTagger.load(tmp_path / "nowhere", columns.model)
    (tmp_path / "cut").write_bytes((tmp_path / "state").read_bytes()[:-9])
    with pytest.raises(ChainfoldError, match="cut short or damaged"):
        StreamTagger.load(tmp_path / "cut", columns.model)
    plain = Chain.from_arrays(offsets=[0, 1], ids=[0], n_labels=2, n_attributes=1)
    unnamed = StreamTagger(Model.random(Layout.full(2, 1)))
    with pytest.raises(ChainfoldError, match="by number alone"):
        unnamed.push(["w=the"])
    assert len(unnamed.push(plain, end=True)) == 1


def test_an_empty_list_is_no_rows_of_columns_and_ambiguous_for_items(columns: Columns) -> None:
    tagger = StreamTagger(columns.model)
    assert len(tagger.push([])) == tagger.waiting == 0
    items: Any = [[["w=a"], [], ["w=b"]], [[], ["w=a"]]]
    tagger = StreamTagger(CRF(max_iterations=20).fit(items, [["A", "N", "B"], ["N", "A"]]).model_)
    empty: Any
    for empty in ([], ()):
        with pytest.raises(ChainfoldError, match=r"an empty list may be one row .* push \{\} or \[\[\]\] for the one"):
            tagger.push(empty)
    assert len(tagger.flush()) == 0  # nothing was taken
    for empty in ({}, [[]], [{}], [()], set(), pa.table({"attributes": pa.array([[]], pa.list_(pa.string()))})):
        found = [tagger.push(["w=a"]), tagger.push(empty), tagger.push(["w=b"]), tagger.flush()]
        assert [label for final in found for label in final] == ["A", "N", "B"]
    assert len(tagger.push([[], ["w=a"]], end=True)) == 2
