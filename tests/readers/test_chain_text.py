"""A stored chain as text and in numbers: `decode`, and the verb `data`."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainfold import Chain, SyntheticChain, errors
from chainfold.chain.stored import write_chain
from chainfold.chain.vocabulary import Vocabulary
from chainfold.features.template import parse_attributes
from chainfold.readers import chain_text as decoding
from chainfold.readers.chain_text import write_lines
from chainfold.readers.columns import VALUES_SUFFIX
from chainfold.readers.formats import Format, InputReader
from chainfold.readers.inputs import Inputs
from verbs import failed, succeeded

TEMPLATE = parse_attributes("w[-1] w|p").to_json()


def texts(strings: list[str]) -> Any:
    return pa.array(strings, pa.large_string())


def named(
    labels: list[int],
    attributes: list[list[int]],
    names: list[str],
    values: list[float] | None = None,
    edges: list[list[int]] | None = None,
    edge_names: list[str] | None = None,
    starts: list[bool] | None = None,
    label_names: tuple[str, ...] = ("A", "B"),
) -> Chain:
    def lists(rows: list[list[int]]) -> tuple[Any, Any]:
        return np.concatenate([[0], np.cumsum([len(row) for row in rows])]), [k for row in rows for k in row]

    offsets, ids = lists(attributes)
    edge_offsets, edge_ids = (None, None) if edges is None else lists(edges)
    chain = Chain.from_arrays(
        offsets=offsets,
        ids=ids,
        values=values,
        labels=labels,
        starts=starts,
        edge_offsets=edge_offsets,
        edge_ids=edge_ids,
        n_labels=len(label_names),
        n_attributes=len(names),
        n_edge_attributes=len(edge_names or []) or None,
    )
    marks = np.zeros((len(names), 1), np.uint64)
    for label, row in zip(labels, attributes, strict=True):
        for attribute in row if label >= 0 else []:
            marks[attribute, 0] |= np.uint64(1 << label)
    counts = np.bincount(ids, minlength=len(names)).astype(np.int64)
    vocabulary = Vocabulary(label_names, texts(names), texts(edge_names or []), counts, marks, template=TEMPLATE)
    return dataclasses.replace(chain, vocabulary=vocabulary)


def decoded(chain: Any) -> str:
    out = io.BytesIO()
    write_lines(chain, out)
    return out.getvalue().decode()


def test_labels_attributes_and_sequences() -> None:
    chain = named([0, 1, -1], [[0, 1], [], [1]], ["w=the", "w=ü"], starts=[True, False, True])
    assert decoded(chain) == "A\tw=the\tw=ü\nB\n\n\tw=ü\n"
    out = io.StringIO()
    write_lines(chain, out)
    assert out.getvalue() == decoded(chain)


def test_names_values_and_edge_attributes() -> None:
    names = ["a:b", "c\\d", "@edge", "a@b"]
    values = [1.0, 0.1, -2.0, 1 / 3]
    chain = named([0, 1, -1, -1], [[0, 1, 2, 3], [], [], []], names, values, [[], [0, 1], [1], []], ["e:", "f"])
    first = "A\ta\\:b\tc\\\\d:0.1\t\\@edge:-2\ta@b:0.3333333333333333\n"
    assert decoded(chain) == first + "B\t@edge\te\\:\tf\n\t@edge\tf\n\t@edge\n"


def test_what_has_no_name_is_a_number() -> None:
    chain = Chain.from_arrays(offsets=[0, 2], ids=[7, 0], labels=[1], edge_offsets=[0, 1], edge_ids=[3])
    assert decoded(chain) == "1\t7\t0\t@edge\t3\n"


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\r", "", "  "])
def test_names_that_cannot_be_written(name: str) -> None:
    with pytest.raises(errors.BadChain, match=r"attribute .* cannot be written in lines of attributes"):
        decoded(named([0], [[0, 1]], ["fine", name]))
    for label in (name, "@weight"):
        with pytest.raises(errors.BadChain, match=r"label .* cannot be written in lines of attributes"):
            decoded(named([0], [[0]], ["fine"], label_names=("A", label)))


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_text_does_not_depend_on_how_it_is_cut(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SyntheticChain(200, 3, 20, 4, mean_length=5, n_edge_attributes=2)
    whole = decoded(source)
    monkeypatch.setattr(decoding, "_ENTRIES_AT_ONCE", at_once)
    assert decoded(source) == whole
    assert whole.count("\n\n") == source.block(0, 200).starts[1:].sum()


TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\t\n\r\x00"), min_size=1, max_size=6)
NAMES = st.lists(TEXT.filter(lambda name: name.strip(" ") != ""), min_size=1, max_size=6, unique=True)


def rows(batch: Any, column: str) -> list[list[tuple[str, float]]]:
    """Each row's attributes and values, as the reader gave them."""
    if column not in batch.schema.names:
        return [[] for _ in range(batch.num_rows)]
    names = batch.column(column).to_pylist()
    if column + VALUES_SUFFIX not in batch.schema.names:
        return [[(name, 1.0) for name in row] for row in names]
    values = batch.column(column + VALUES_SUFFIX).to_pylist()
    return [list(zip(*pair, strict=True)) for pair in zip(names, values, strict=True)]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), names=NAMES, edge_names=NAMES, values=st.booleans(), seed=st.integers(0, 10**6))
def test_the_reader_gives_the_same_chain(
    data: st.DataObject, names: list[str], edge_names: list[str], values: bool, seed: int
) -> None:
    random, positions = np.random.default_rng(seed), data.draw(st.integers(1, 8))
    attributes = [random.integers(0, len(names), random.integers(0, 4)).tolist() for _ in range(positions)]
    edges = [random.integers(0, len(edge_names), random.integers(0, 3)).tolist() for _ in range(positions)]
    count = sum(len(row) for row in attributes)
    chain = named(
        random.integers(-1, 2, positions).tolist(),
        attributes,
        names,
        (random.normal(size=count) * 10.0 ** random.integers(-300, 300, count)).tolist() if values else None,
        edges,
        edge_names,
        (random.random(positions) < 0.3).tolist(),
    )
    out = io.BytesIO()
    write_lines(chain, out)
    out.seek(0)
    (stretch,) = InputReader(Format.CRFSUITE).read(Inputs(out))
    assert stretch.starts.tolist() == chain.starts.tolist()
    labels = [None if label < 0 else "AB"[label] for label in chain.labels]
    assert stretch.batch.column("label").to_pylist() == labels
    pairs = [(names[k], v) for k, v in zip(chain.ids, chain.values if values else np.ones(count), strict=True)]
    assert [pair for row in rows(stretch.batch, "attributes") for pair in row] == pairs
    assert [len(row) for row in rows(stretch.batch, "attributes")] == [len(row) for row in attributes]
    assert [[name for name, _ in row] for row in rows(stretch.batch, "edge")] == [
        [edge_names[k] for k in row] for row in edges
    ]


def printed(*arguments: Any, given: bytes = b"") -> str:
    return succeeded("data", *arguments, given=given).decode()


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    labels = [0, 1, 1, -1, 0]
    attributes = [[0, 1], [1], [1], [0], []]
    starts = [True, False, False, True, False]
    write_chain(tmp_path / "chain", named(labels, attributes, ["word[-1]=a", "[bold]"], starts=starts))
    return tmp_path / "chain"


def test_facts_as_json(stored: Path) -> None:
    facts = json.loads(printed(stored, "--json"))
    size = stored.stat().st_size
    assert facts.pop("vocabulary")
    assert facts == {
        "chain": str(stored),
        "version": 4,
        "bytes": size,
        "bytes_a_position": size / 5,
        "positions": 5,
        "sequences": 2,
        "mean_length": 2.5,
        "longest": 3,
        "labels": [{"label": "A", "count": 2, "share": 0.4}, {"label": "B", "count": 2, "share": 0.4}],
        "unknown_labels": 1,
        "attributes": 2,
        "attributes_a_position": 1.0,
        "pairs": 3,
        "top": [{"attribute": "[bold]", "count": 3}, {"attribute": "word[-1]=a", "count": 2}],
        "values": False,
        "edge_attributes": 0,
        "edge_values": False,
        "weights": False,
        "template": ["w[-1]=…", "w|p=…|…"],
        "hash_bits": None,
        "min_count": 1,
        "parts": None,
    }


def test_facts_as_tables(stored: Path) -> None:
    output = printed(stored, "--top", "1")
    for text in ("positions", "mean length", "2.5", "40.00%", "unknown labels", "[bold]"):
        assert text in output
    assert "word[-1]=a" not in output


def test_a_chain_without_a_vocabulary_and_with_many_labels(tmp_path: Path) -> None:
    write_chain(tmp_path / "chain", SyntheticChain(100_000, 50, 60, 2, mean_length=30))
    output = printed(tmp_path / "chain")
    assert "and 10 more labels" in output
    assert "vocabulary" not in output
    facts = json.loads(printed(tmp_path / "chain", "--json"))
    assert sum(label["count"] for label in facts["labels"]) == 100_000
    chain = SyntheticChain(100_000, 50, 60, 2, mean_length=30).block(0, 100_000)
    lengths = np.diff(np.append(np.flatnonzero(chain.starts), 100_000))
    assert facts["longest"] == lengths.max()
    assert facts["sequences"] == lengths.size
    assert facts["top"] is None


def test_a_chain_from_standard_input_and_as_text(stored: Path) -> None:
    text = "A\tword[-1]=a\t[bold]\nB\t[bold]\nB\t[bold]\n\n\tword[-1]=a\nA\n"
    assert printed(stored, "--decode") == text
    stream = stored.with_name("stream")
    with stream.open("wb") as file:
        write_chain(file, named([0], [[0]], ["w"]))
    assert printed("-", "--decode", given=stream.read_bytes()) == "A\tw\n"
    facts = json.loads(printed("-", "--json", given=stream.read_bytes()))
    assert (facts["chain"], facts["bytes"], facts["positions"]) == ("standard input", None, 1)


def test_bad_input_is_one_sentence(stored: Path) -> None:
    assert failed("data", "missing") == "missing: there is no such file."
    assert failed("data", stored, "--top", "-1") == "--top is -1, but must be at least 0."
