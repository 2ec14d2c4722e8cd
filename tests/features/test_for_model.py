"""Further input for a model: the same numbers as when it was encoded, whatever is missing or new."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainfold as cf
from chainfold.chain.block import check_block, join_blocks
from chainfold.chain.builder import KnownNames
from chainfold.chain.chain import Chain, gather
from chainfold.chain.stored import write_chain
from chainfold.chain.vocabulary import Vocabulary
from chainfold.features.for_model import (
    ChainBlocks,
    ModelBlocks,
    blocks_for_model,
    extended_chain,
    extended_sequences,
    sequences_for_model,
)
from chainfold.features.spec import InputSpec
from chainfold.features.template import parse_attributes
from chainfold.readers.inputs import Inputs
from rows import attributes_of
from rows import encoded as encoded_rows

CONLL = "the DT B\ncat NN I\n\nsat VB O\n\n\non IN O\na DT B\n"
TEMPLATE = {"attributes": "word[-1] word|pos lower(word)[1]"}
NAMES = ["word", "pos", "chunk"]


def encoded(tmp_path: Path, text: str = CONLL, name: str = "train.txt", **options: Any) -> Chain:
    (tmp_path / name).write_text(text)
    return gather(cf.encode(tmp_path / name, tmp_path / "out.chain", **options))


def meaning(chain: Chain | cf.StoredChain) -> Vocabulary:
    assert chain.vocabulary is not None
    return chain.vocabulary


def together(known: ModelBlocks | ChainBlocks, vocabulary: Vocabulary) -> tuple[Chain, list[int]]:
    """All blocks as one chain, each of them as kernels need it, and all labels."""
    n_edge = 0 if vocabulary.edge_attributes is None else len(vocabulary.edge_attributes)
    sizes = len(vocabulary.labels), vocabulary.counts.size, n_edge
    blocks, low = list(known), 0
    for block, gold, _ in blocks:
        check_block(block, low, low + gold.size, *sizes)
        assert all(not array.flags.writeable for array in block)
        assert n_edge or not block.edge_offsets.size or vocabulary.edge_attributes is None
        low += gold.size
    chain = Chain(*join_blocks([known.block for known in blocks]), *sizes, vocabulary)
    return chain, np.concatenate([gold for _, gold, _ in blocks]).tolist()


def read(inputs: Any, vocabulary: Vocabulary, **options: Any) -> tuple[Chain, list[int]]:
    return together(blocks_for_model(inputs, vocabulary, **options), vocabulary)


def same(found: Chain, expected: Chain) -> None:
    for name in ("labels", "starts", "offsets", "ids", "values", "edge_offsets", "edge_ids", "edge_values"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)


CSV = "time,port,bytes,label\n1,http,10,ok\n2,http,20,ok\n2,ftp,,bad\n5,http,1000,ok\n"


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("train.txt", CONLL, {"columns": NAMES, **TEMPLATE}),
        ("train.txt", CONLL, {}),
        ("train.txt", CONLL, {"columns": NAMES, **TEMPLATE, "hash_bits": 10}),
        ("train.txt", CONLL, {"one_sequence": True, "attributes": "0[-1]"}),
        ("train.txt", CONLL, {"unknown": "O"}),
        ("train.txt", CONLL, {"label": "1"}),
        ("log.csv", CSV, {}),
        ("log.csv", "x,y,label\n1.0,01,A\n2,1e3,B\n", {"numbers": "symbol", "symbols": ["y"]}),
        ("log.csv", CSV, {"numbers": "standard", "group": "port", "groups_return": True}),
        ("log.csv", "tcp,http,ok\nudp,dns,bad\n", {"header": False}),
        ("lines.crfsuite", "A\tx:2\ty\n\nB\ty\t@edge\tjoin\n", {}),
        ("lines.crfsuite", "A\tx:2\ty\n\nB\ty\t@edge\tjoin\n", {"hash_bits": 4}),
        ("lines.crfsuite", "A\tx:2\ty\n\nB\ty\n", {"hash_bits": 4}),
    ],
)
def test_the_input_of_the_model_has_the_same_numbers_again(
    tmp_path: Path, name: str, text: str, options: dict[str, Any]
) -> None:
    """Only what is not said of the model is said again, which is nothing here."""
    chain = encoded(tmp_path, text, name, **options)
    vocabulary = meaning(chain)
    known = blocks_for_model(tmp_path / name, vocabulary)
    assert known.labelled
    if vocabulary.edge_attributes is None:
        np.testing.assert_array_equal(np.concatenate([block.edge_ids for block, *_ in known]), chain.edge_ids)
    else:
        found, gold = together(known, vocabulary)
        same(found, chain)
        assert gold == chain.labels.tolist()
    assert known.unseen == ()


def test_what_the_model_does_not_know(tmp_path: Path) -> None:
    vocabulary = meaning(encoded(tmp_path, columns=NAMES, attributes="word pos", border="crfpp"))
    (tmp_path / "new.txt").write_text("the DT B\ndog NN X\n\nowl UH \na DT I\n".replace(" \n", " Y\n"))
    known = blocks_for_model(tmp_path / "new.txt", vocabulary)
    chain, gold = together(known, vocabulary)
    assert attributes_of(chain) == [["word=the", "pos=DT"], ["pos=NN"], [], ["word=a", "pos=DT"]]
    assert gold == [0, 3, 4, 1]
    assert chain.labels.tolist() == [0, -1, -1, 1]
    assert known.unseen == ("X", "Y")


def test_a_label_of_the_model_may_stand_for_an_unknown_one(tmp_path: Path) -> None:
    vocabulary = meaning(encoded(tmp_path))
    assert read(tmp_path / "train.txt", vocabulary, unknown="I")[1] == [0, -1, 2, 2, 0]


def test_attributes_too_rare_to_be_in_the_model_are_left_out(tmp_path: Path) -> None:
    chain = encoded(tmp_path, columns=NAMES, attributes="word pos", min_count=2, border="crfpp")
    found, _ = read(tmp_path / "train.txt", meaning(chain))
    same(found, chain)
    assert attributes_of(found)[:2] == [["pos=DT"], []]


@pytest.mark.parametrize("names", [NAMES, None])
@pytest.mark.parametrize("label", [0, 1, 2])
def test_the_column_of_labels_may_be_missing(tmp_path: Path, names: list[str] | None, label: int) -> None:
    options: dict[str, Any] = {"columns": names, "label": (names or ["0", "1", "2"])[label]}
    chain = encoded(tmp_path, **options)
    rows = [" ".join(word for k, word in enumerate(line.split()) if k != label) for line in CONLL.split("\n")]
    (tmp_path / "new.txt").write_text("\n".join(rows))
    known = blocks_for_model(tmp_path / "new.txt", meaning(chain))
    assert not known.labelled
    found, gold = together(known, meaning(chain))
    assert gold == found.labels.tolist() == [-1] * 5
    same(found, cf.Chain.from_arrays(offsets=chain.offsets, ids=chain.ids, starts=chain.starts, n_labels=3))
    with pytest.raises(cf.ChainfoldError, match=r"new\.txt: there is no label column .* the columns are"):
        blocks_for_model(tmp_path / "new.txt", meaning(chain), labels=True)


def test_labels_that_are_not_looked_at_may_be_anything(tmp_path: Path) -> None:
    vocabulary = meaning(encoded(tmp_path))
    (tmp_path / "new.txt").write_text("a\tDT\tB\t\n".replace("\t\n", "\n") + "a\tDT\tB \n")
    with pytest.raises(cf.ChainfoldError, match="'B ' is 'B' but for white space"):
        read(tmp_path / "new.txt", vocabulary)
    assert read(tmp_path / "new.txt", vocabulary, labels=False)[1] == [-1, -1]


def test_tables_and_pipes_and_files_that_are_open(tmp_path: Path) -> None:
    chain = encoded(tmp_path, CSV, "log.csv")
    vocabulary = meaning(chain)
    table = pa.table({"bytes": [10, 20, None, 1000], "port": ["http", "http", "ftp", "http"], "time": [1, 2, 2, 5]})
    found, gold = read(table, vocabulary)
    assert attributes_of(found) == attributes_of(chain), "whatever the order of the columns"
    assert gold == [-1] * 4
    same(read(io.BytesIO(CSV.encode()), vocabulary)[0], chain)
    same(read(Inputs([tmp_path / "log.csv"]), vocabulary)[0], chain)
    rows = np.array([line.split(",") for line in CSV.splitlines()[1:]])
    assert read(rows[:2], vocabulary)[0].ids.tolist() == chain.ids[: chain.offsets[2]].tolist()
    assert read(rows[:2, :3], vocabulary)[1] == [-1, -1]


def test_a_column_that_nobody_looks_at_may_be_anything(tmp_path: Path) -> None:
    chain = encoded(tmp_path, "x,y,label\n1,a,A\n2,b,B\n", "log.csv", attributes="y")
    (tmp_path / "new.csv").write_text("x,y\n" + "1,a\n" * 400_000 + "none,b\n")
    found, _ = read(tmp_path / "new.csv", meaning(chain))
    assert attributes_of(found)[-1] == ["y=b", "__EOS__"]


@pytest.mark.parametrize(
    ("name", "text", "options", "sentence"),
    [
        ("new.csv", "word,label\na,X\n", {}, r"new\.csv: there is no column 'pos', which the model uses; .*word, "),
        (
            "new.txt",
            "a b c d\n",
            {},
            r"4 columns without names, .* made of 3, word, pos, chunk; name them with `columns`, or",
        ),
        ("new.conll", "a b c d\n", {}, r"chunk; name them with `columns`\.$"),
        ("new.txt", "a\n", {}, "1 column without names"),
        ("new.txt", "a b c\n", {"columns": ["word", "x", "chunk"]}, "no column 'pos'.*word, x, chunk"),
        ("new.txt", "a b c\n", {"group": "session"}, "no group column 'session'"),
        ("new.txt", "", {}, "is empty"),
        ("new.crfsuite", "A\tx\n", {}, "no column 'word'.*label, attributes, edge"),
        ("new.txt", "a b c\n", {"template": "x"}, "there is no option 'template'; the options are format"),
    ],
)
def test_input_that_does_not_fit(tmp_path: Path, name: str, text: str, options: dict[str, Any], sentence: str) -> None:
    vocabulary = meaning(encoded(tmp_path, columns=NAMES, attributes="word pos"))
    (tmp_path / name).write_text(text)
    with pytest.raises(cf.ChainfoldError, match=sentence):
        blocks_for_model(tmp_path / name, vocabulary, **options)


def test_groups_and_sequences_are_those_of_the_model_unless_told(tmp_path: Path) -> None:
    chain = encoded(tmp_path, "s,w,label\n1,a,X\n1,b,X\n2,c,X\n", "log.csv", group="s")
    assert read(tmp_path / "log.csv", meaning(chain))[0].starts.tolist() == [True, False, True]
    for options, starts in (({"one_sequence": True}, [1, 0, 0]), ({"one_sequence": False}, [1, 0, 0])):
        assert read(tmp_path / "log.csv", meaning(chain), **options)[0].starts.tolist() == starts
    assert read(tmp_path / "log.csv", meaning(chain), group="w")[0].starts.all()
    (tmp_path / "new.csv").write_text("w\na\n")
    with pytest.raises(cf.ChainfoldError, match="no group column 's'"):
        blocks_for_model(tmp_path / "new.csv", meaning(chain))


X = [[{"word": "a", "upper": True, "size": 2.5}, ["p", "q"]], [{"word": "b"}]]
Y = [["A", "B"], ["A"]]


def test_sequences(tmp_path: Path) -> None:
    chain = cf.chain_from_sequences(X, Y)
    found, gold = together(sequences_for_model(iter(X), iter(Y), meaning(chain)), meaning(chain))
    same(found, chain)
    assert gold == chain.labels.tolist()
    new, gold = together(
        sequences_for_model([[["p", "new"], {"word": "c"}]], [["C", None]], meaning(chain)), meaning(chain)
    )
    assert attributes_of(new) == [["p"], []]
    assert gold == [2, -1]
    unlabelled = sequences_for_model(X, None, meaning(chain))
    assert not unlabelled.labelled
    same(together(unlabelled, meaning(chain))[0], cf.chain_from_sequences(X, [[None, None], [None]]))


def test_attribute_lines_for_a_model_of_sequences_and_the_other_way_round(tmp_path: Path) -> None:
    chain = cf.chain_from_sequences(X, Y)
    (tmp_path / "lines.crfsuite").write_text("A\tword\\:a\tupper\tsize:2.5\nB\tp\tq\t@edge\tx\n\nA\tword\\:b\n")
    same(read(tmp_path / "lines.crfsuite", meaning(chain))[0], chain)
    other = meaning(encoded(tmp_path, (tmp_path / "lines.crfsuite").read_text(), "lines.crfsuite", one_sequence=True))
    assert len(other.edge_attributes) == 1
    found, gold = together(sequences_for_model(X, Y, other), other)
    assert gold == [0, 1, 0]
    assert found.starts.tolist() == [True, False, True]
    assert attributes_of(found) == attributes_of(chain)
    assert found.edge_offsets.tolist() == [0, 0, 0, 0]


def test_columns_without_names_are_no_lists_of_attributes(tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("a X\n")
    with pytest.raises(cf.ChainfoldError, match="no column 'attributes', which the model uses; the columns are 0, 1"):
        blocks_for_model(tmp_path / "new.txt", meaning(cf.chain_from_sequences(X, Y)))
    table = pa.table({"attributes": ["word:a"]})
    with pytest.raises(cf.ChainfoldError, match="column 'attributes' holds a symbol, but held a bag for the model"):
        blocks_for_model(table, meaning(cf.chain_from_sequences(X, Y)))


def test_a_vocabulary_that_knows_nothing_of_its_columns(tmp_path: Path) -> None:
    names = pa.array(["x", "y"], pa.large_string())
    vocabulary = Vocabulary(("A", "B"), names, None, np.ones(2, np.int64), np.zeros((2, 1), np.uint64))
    (tmp_path / "lines.crfsuite").write_text("B\ty:2\tz\nC\tx\n")
    found, gold = read(tmp_path / "lines.crfsuite", vocabulary)
    assert attributes_of(found) == [["y"], ["x"]]
    assert found.values.tolist() == [2.0, 1.0]
    assert gold == [1, 2]
    matrix = cf.chain_from_matrix(np.eye(2), ["A", "B"])
    with pytest.raises(cf.ChainfoldError, match="have no names"):
        blocks_for_model(tmp_path / "lines.crfsuite", meaning(matrix))


words = st.sampled_from(["a", "b", "c", "ü", "dd"])
sentences = st.lists(st.lists(st.tuples(words, words, words), min_size=1, max_size=5), min_size=1, max_size=6)


def text_of(rows: list[list[tuple[str, str, str]]]) -> io.BytesIO:
    return io.BytesIO("\n".join("".join(" ".join(row) + "\n" for row in sentence) for sentence in rows).encode())


@given(sentences, sentences, st.sampled_from([None, 6]))
@settings(max_examples=25, deadline=None)
def test_against_encoding_both_at_once(train: Any, test: Any, bits: int | None) -> None:
    """Labels, and the attributes of new sentences that occur in the others, are as when all are encoded together."""
    encoding = InputSpec(template=parse_attributes("w[-1] w|pos pos[1]"), hash_bits=bits)
    before, both = (encoded_rows(rows, ("w", "pos", "label"), encoding) for rows in (train, train + test))
    known = blocks_for_model(text_of(test), meaning(before), format="conll")
    found, gold = together(known, meaning(before))
    skipped = sum(len(sentence) for sentence in train)
    names = (*meaning(before).labels, *known.unseen)
    assert [names[label] for label in gold] == [meaning(both).labels[label] for label in both.labels[skipped:]]
    assert found.labels.tolist() == [label if label < found.n_labels else -1 for label in gold]
    assert found.starts.tolist() == both.starts[skipped:].tolist()
    if bits is None:
        learnt = set(meaning(before).attributes.to_pylist())
        expected = [[name for name in row if name in learnt] for row in attributes_of(both)[skipped:]]
        assert attributes_of(found) == expected
    else:
        assert found.ids.tolist() == both.ids[both.offsets[skipped] :].tolist()


def test_tables_that_are_let_go_of_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = [f"w{rng.integers(999)} p{rng.integers(9)} L{rng.integers(3)}\n" for _ in range(60_000)]
    chain = encoded(tmp_path, "".join(rows), attributes="0[-1] 0|1[1] lower(0)", border="crfpp")
    monkeypatch.setattr(KnownNames, "__init__", _forgetful)
    same(read(tmp_path / "train.txt", meaning(chain))[0], chain)


_known_init = KnownNames.__init__


def _forgetful(self: KnownNames, strings: Any) -> None:
    _known_init(self, strings)
    self.most_cached = 0


@pytest.mark.parametrize("bits", [None, 6])
def test_growing_keeps_numbers_and_adds_others_after_them(tmp_path: Path, bits: int | None) -> None:
    before = meaning(encoded(tmp_path, columns=NAMES, attributes="word pos", border="crfpp", hash_bits=bits))
    (tmp_path / "new.txt").write_text("dog NN X\nowl NN B\nowl UH X\nthe DT B\n")
    with extended_chain(tmp_path / "new.txt", before) as source:
        chain = gather(source)
    now = meaning(chain)
    assert now.labels == ("B", "I", "O", "X")
    assert chain.labels.tolist() == [3, 0, 3, 0]
    assert (now.template, now.columns, now.label) == (before.template, before.columns, before.label)
    if bits is not None:
        assert now.counts.size == before.counts.size == 64
        assert now.counts.sum() == 8
        return
    size = len(before.attributes)
    assert now.attributes[:size].equals(before.attributes)
    assert now.attributes[size:].to_pylist() == ["word=owl", "word=dog", "pos=UH"]
    assert attributes_of(chain)[0] == ["word=dog", "pos=NN"]
    counts = dict(zip(now.attributes.to_pylist(), now.counts.tolist(), strict=True))
    assert (counts["pos=NN"], counts["word=owl"], counts["word=the"], counts["word=sat"]) == (2, 2, 1, 0)
    offsets, labels = now.pairs()
    found = dict(zip(now.attributes.to_pylist(), np.split(labels, offsets[1:-1]), strict=True))
    assert (found["pos=NN"].tolist(), found["word=sat"].tolist()) == ([0, 3], [])


def test_growing_keeps_to_the_least_count_and_goes_to_disk(tmp_path: Path) -> None:
    before = meaning(encoded(tmp_path, columns=NAMES, attributes="word pos", border="crfpp", min_count=2))
    (tmp_path / "new.txt").write_text("owl NN B\nowl NN B\ndog UH B\n")
    with extended_chain(tmp_path / "new.txt", before) as source:
        write_chain(tmp_path / "grown.chain", source)
    stored = gather(cf.StoredChain(tmp_path / "grown.chain"))
    assert meaning(stored).attributes.to_pylist() == ["pos=DT", "word=owl", "pos=NN"]
    assert attributes_of(stored) == [["word=owl", "pos=NN"], ["word=owl", "pos=NN"], []]


def test_weights_are_looked_at_where_a_vocabulary_grows(tmp_path: Path) -> None:
    vocabulary = meaning(encoded(tmp_path, "a X 1\nb Y 1\n", weight="2"))
    for text, labels, weights in (("a X 3\n", [0], [3.0]), ("a X\n", [0], []), ("a\n", [-1], [])):
        (tmp_path / "new.txt").write_text(text)
        options: Any = {"labels": True if labels == [0] else None}
        found, gold = read(tmp_path / "new.txt", vocabulary, **options)
        assert (found.weights.size, gold) == (0, labels)
        assert attributes_of(found) == [["0=a"]]
        with extended_chain(tmp_path / "new.txt", vocabulary, **options) as source:
            assert gather(source).weights.tolist() == weights
    (tmp_path / "new.txt").write_text("a 3\n")
    weighed = next(iter(blocks_for_model(tmp_path / "new.txt", vocabulary, weight="2")))
    assert (weighed.block.weights.tolist(), weighed.gold.tolist()) == ([3.0], [-1])
    with extended_sequences(X, Y, meaning(cf.chain_from_sequences(X, Y)), weights=[2, 3]) as source:
        assert gather(source).weights.tolist() == [2.0, 2.0, 3.0]


def test_a_model_grown_from_edges_that_it_did_not_have(tmp_path: Path) -> None:
    before = meaning(encoded(tmp_path, "A\tx\n", "a.crfsuite", hash_bits=3))
    assert len(before.edge_attributes) == 0
    (tmp_path / "b.crfsuite").write_text("A\tx\t@edge\ty\n")
    assert read(tmp_path / "b.crfsuite", before)[0].edge_ids.size == 0
    with extended_chain(tmp_path / "b.crfsuite", before) as source:
        chain = gather(source)
    assert chain.n_edge_attributes == 8
    assert meaning(chain).edge_attributes is None
    with extended_chain(tmp_path / "a.crfsuite", meaning(chain)) as source:
        assert gather(source).n_edge_attributes == 8
