"""Attributes made of columns: against a plain Python loop, by hand at borders, and whatever the cuts of the input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainfold.chain.builder import HashedNames
from chainfold.chain.strings import hashes, spans
from chainfold.features.spec import InputSpec
from chainfold.features.template import Border, parse_attributes, parse_template
from rows import CHUNKING_EXPRESSIONS, Sentences, attributes_of, chunking_attributes, encoded

pytestmark = pytest.mark.quick

WORDS, TAGS = ["the", "cat", "sat", "on", "a", "mat", "ü", "_B-1"], ["DT", "NN", "VB", "IN"]
sentences_strategy = st.lists(
    st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(TAGS), st.sampled_from("OBI")), min_size=1, max_size=6),
    min_size=1,
    max_size=6,
)


@given(sentences_strategy, st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_the_chunking_attributes_equal_a_plain_loop(sentences: Sentences, size: int) -> None:
    encoding = InputSpec(template=parse_attributes(CHUNKING_EXPRESSIONS))
    chain = encoded(sentences, ("w", "pos", "label"), encoding, size)
    found = attributes_of(chain)
    expected = [here for sentence in sentences for here in chunking_attributes(sentence)]
    assert [set(here) for here in found] == expected
    assert [len(here) for here in found] == [len(here) for here in expected], "nothing twice"
    assert chain.vocabulary is not None
    labels = [row[2] for sentence in sentences for row in sentence]
    assert [chain.vocabulary.labels[label] for label in chain.labels] == labels
    assert chain.starts.tolist() == [t == 0 for sentence in sentences for t in range(len(sentence))]


@given(sentences_strategy, st.integers(1, 9))
@settings(max_examples=30, deadline=None)
def test_the_cuts_of_the_input_change_nothing(sentences: Sentences, size: int) -> None:
    encoding = InputSpec(template=parse_attributes("w[-3] w|pos[2] lower(w)[1] suffix(w,2)", Border.CRFPP))
    whole = encoded(sentences, ("w", "pos", "label"), encoding)
    cut = encoded(sentences, ("w", "pos", "label"), encoding, size)
    for name in ("labels", "starts", "offsets", "ids", "values"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(cut, name))
    assert whole.vocabulary is not None
    assert cut.vocabulary is not None
    assert whole.vocabulary.attributes.equals(cut.vocabulary.attributes)
    np.testing.assert_array_equal(whole.vocabulary.marks, cut.vocabulary.marks)


SENTENCE = [("a", "X", "O"), ("b", "Y", "B"), ("c", "Z", "I")]


def test_a_crfpp_template_at_the_borders() -> None:
    text = "U00:%x[-2,0]\nU01:%x[-1,0]/%x[0,1]\nU02:%x[2,1]\nU:%x[0,0]\nU:%x[1,0]\n\n# comment\nB\nB01:%x[-1,0]\n"
    template = parse_template(text, "template")
    chain = encoded([SENTENCE, SENTENCE[:1]], ("0", "1", "2"), InputSpec(template=template))
    assert attributes_of(chain) == [
        ["U00:_B-2", "U01:_B-1/X", "U02:Z", "U:a", "U:b"],
        ["U00:_B-1", "U01:a/Y", "U02:_B+1", "U:b", "U:c"],
        ["U00:a", "U01:b/Z", "U02:_B+2", "U:c", "U:_B+1"],
        ["U00:_B-2", "U01:_B-1/X", "U02:_B+2", "U:a", "U:_B+1"],
    ]
    assert attributes_of(chain, edge=True) == [["B01:_B-1"], ["B01:a"], ["B01:b"], ["B01:_B-1"]]


def test_a_wapiti_template_at_the_borders() -> None:
    text = 'u:w=%X[0,0]\n*t:%t[1,0,"^b"]\nb:%m[0,1,"."]\nb\n'
    rows = [("A", "Xx", "O"), ("b", "Yy", "B")]
    chain = encoded([rows], ("0", "1", "2"), InputSpec(template=parse_template(text, "template")))
    assert attributes_of(chain) == [["u:w=a", "*t:true"], ["u:w=b", "*t:false"]]
    assert attributes_of(chain, edge=True) == [["*t:true", "b:X"], ["*t:false", "b:Y"]]


def test_one_name_from_two_lines_is_one_attribute() -> None:
    template = parse_template("U:%x[0,0]\nU:%x[1,0]\n", "template")
    chain = encoded([[("a", "O"), ("a", "O")]], ("0", "1"), InputSpec(template=template))
    assert chain.vocabulary is not None
    assert chain.vocabulary.attributes.to_pylist() == ["U:a", "U:_B+1"]
    assert chain.vocabulary.counts.tolist() == [3, 1]


def test_ids_fall_with_frequency_and_equals_keep_their_order() -> None:
    words = ["x", "y", "y", "z", "z", "q"]
    chain = encoded(
        [[(word, "O") for word in words]], ("w", "label"), InputSpec(template=parse_attributes("w", Border.CRFPP))
    )
    assert chain.vocabulary is not None
    assert chain.vocabulary.attributes.to_pylist() == ["w=y", "w=z", "w=x", "w=q"]


def test_marks_tell_which_labels_an_attribute_meets_beyond_64_labels() -> None:
    rows = [(f"w{t % 3}", f"L{t}") for t in range(150)] + [("w0", "L149")]
    chain = encoded([rows], ("w", "label"), InputSpec(template=parse_attributes("w", Border.CRFPP)), size=40)
    assert chain.vocabulary is not None
    offsets, labels = chain.vocabulary.pairs()
    names = chain.vocabulary.attributes.to_pylist()
    found = {(names[a], chain.vocabulary.labels[y]) for a in range(3) for y in labels[offsets[a] : offsets[a + 1]]}
    assert found == {(f"w={word}", label) for word, label in rows}


def test_missing_values_have_no_attribute() -> None:
    rows = [("a", "x", "O"), (None, "y", "O"), ("b", None, None)]
    template = parse_attributes("w w|p p[1]", Border.CRFPP)
    chain = encoded([rows], ("w", "p", "label"), InputSpec(template=template))  # type: ignore[list-item]
    assert attributes_of(chain) == [["w=a", "w|p=a|x", "p[1]=y"], [], ["w=b", "p[1]=_B+1"]]
    assert chain.labels.tolist() == [0, 0, -1]


def test_a_column_may_be_missing_altogether() -> None:
    template = parse_attributes("lower(w)[-1]|p suffix(w,1)", Border.CRFPP)
    rows: Any = [(None, "x", "O")] * 3
    assert attributes_of(encoded([rows], ("w", "p", "label"), InputSpec(template=template), size=2)) == [
        ["lower(w)[-1]|p=_b-1|x"],
        [],
        [],
    ]


@pytest.mark.parametrize("size", [7, 1000])
def test_hashed_attributes_are_the_same_when_tables_are_let_go_of(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    sentences = [[(f"w{rng.integers(99)}", str(rng.integers(9)), "O") for _ in range(12)] for _ in range(9)]
    encoding = InputSpec(template=parse_attributes("w[-2] w|p[1] lower(w)", Border.CRFPP), hash_bits=12)
    kept = encoded(sentences, ("w", "p", "label"), encoding, size)
    monkeypatch.setattr(HashedNames, "most_cached", 0)
    forgotten = encoded(sentences, ("w", "p", "label"), encoding, size)
    np.testing.assert_array_equal(kept.ids, forgotten.ids)
    assert kept.n_attributes == 4096
    assert kept.vocabulary is not None
    assert kept.vocabulary.attributes is None


@pytest.mark.parametrize("text", ["", "a", "cats", "w=über1", "12345678", "a longer one of 27 letters…"])
def test_the_hash_never_changes(text: str) -> None:
    """Written out here in plain Python: files on disk depend on it."""

    def mixed(number: int) -> int:
        number = number * 0x9E3779B97F4A7C15 % 2**64
        return number ^ (number >> 32)

    data = text.encode()
    state = mixed(len(data))
    for low in range(0, len(data) + 1, 8):
        state = mixed(state ^ int.from_bytes(data[low : low + 8], "little"))
    assert hashes(*spans(pa.array([text])))[0] == state
    assert hashes(*spans(pa.array(["something before it", text, "and after it"])))[1] == state
