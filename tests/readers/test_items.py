"""Items to attributes: the compiled way and the one that goes item by item give the same, errors included."""

from __future__ import annotations

import enum
from collections import OrderedDict, UserDict
from collections.abc import Iterator
from itertools import chain, pairwise, repeat
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chainfold.errors import BadChain
from chainfold.jit import objects
from chainfold.readers import sequences
from chainfold.readers.columns import ATTRIBUTES, LABEL, VALUES_SUFFIX, WEIGHT
from chainfold.readers.items import ItemReader
from chainfold.readers.sequences import stretches_of

pytestmark = pytest.mark.quick


class Loud(str):
    """A text that is formatted as another."""

    def __format__(self, how: str) -> str:
        return self.upper()


class Colour(enum.StrEnum):
    RED = "red"


TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["a", "b", "a:b", "", "é", "\U0001f600", "\ud800", "x" * 300]))
NUMBERS = st.one_of(
    st.sampled_from([True, False, 0, 1, -1, 1.0, 0.0, -0.0, 2.5, 1e300, 2**31 - 1, -(2**31), 2**31, 2**70, 10**400]),
    st.floats(),
    st.integers(),
)
ODD = st.sampled_from(
    [
        None,
        b"bytes",
        b"\xff",
        Loud("low"),
        Colour.RED,
        np.float64(2.5),
        np.float32(0.5),
        np.int64(3),
        np.bool_(True),
        np.str_("numpy"),
        bytearray(b"ab"),
        1j,
        object,
        float("nan"),
        float("inf"),
        (1, 2),
        frozenset({"one"}),
    ]
)
LEAVES = st.one_of(TEXTS, TEXTS, NUMBERS, ODD)
MANY = st.one_of(
    st.lists(TEXTS, max_size=3), st.tuples(TEXTS, TEXTS), st.sets(st.sampled_from("pqr"), max_size=1), st.lists(LEAVES)
)
KEYS = st.one_of(TEXTS, TEXTS, TEXTS, st.sampled_from([1, b"key", Loud("key"), None, True, 2.5]))
DICTS = st.recursive(
    st.dictionaries(KEYS, st.one_of(LEAVES, MANY), max_size=4),
    lambda inner: st.dictionaries(
        KEYS, st.one_of(LEAVES, inner, inner.map(OrderedDict), inner.map(UserDict)), max_size=3
    ),
    max_leaves=6,
)
ITEMS = st.one_of(DICTS, DICTS, DICTS, st.lists(TEXTS, max_size=3), MANY, LEAVES)
USUAL = st.one_of(
    st.dictionaries(
        st.text("abé:", max_size=3), st.one_of(st.text("xyü", max_size=9), st.booleans(), st.integers(-9, 9))
    ),
    st.lists(st.text("xyü", max_size=9), max_size=5),
)
SEQUENCES = st.one_of(
    st.lists(st.one_of(st.lists(ITEMS, max_size=3), st.tuples(ITEMS)), max_size=3),
    st.lists(st.lists(USUAL, max_size=5), max_size=5),
)


def attributes(prefix: str, item: Any) -> Iterator[tuple[str, float]]:
    """The attributes of an item of usual types, from their definition."""
    if isinstance(item, (list, tuple)):
        yield from ((prefix + text, 1.0) for text in item)
        return
    for key, value in item.items():
        if isinstance(value, str):
            yield f"{prefix}{key}:{value}", 1.0
        elif isinstance(value, (dict, list, tuple)):
            yield from attributes(f"{prefix}{key}:", value)
        else:
            yield f"{prefix}{key}", float(value)


def outcome(xs: Any, y: Any = None, weights: Any = None) -> Any:
    """The columns of all stretches, or the error."""
    found: dict[str, list[Any]] = {}
    try:
        for stretch in stretches_of(xs, y, weights):
            columns = stretch.batch.to_pydict() | {"starts": stretch.starts.tolist(), "lines": stretch.lines.tolist()}
            values = columns.pop(ATTRIBUTES + VALUES_SUFFIX, [[1.0] * len(names) for names in columns[ATTRIBUTES]])
            columns[VALUES_SUFFIX] = [value.hex() for value in chain.from_iterable(values)]  # a zero has a sign
            for name, column in columns.items():
                found.setdefault(name, []).extend(column)
    except BadChain as error:
        return str(error)
    return found


def item_by_item(xs: Any, y: Any = None, weights: Any = None) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequences, "are_readable", lambda: False)
        return outcome(xs, y, weights)


@settings(max_examples=400, deadline=None)
@given(SEQUENCES)
@example([[{"a": "x"}], [{"a": np.float64(2.0)}], [{"a": "y"}]])
@example([[{"k": b"12345678"}, {"k": np.float64(2.5)}]])
@example([[{"k": {"l": ["m", "n"]}, "o": ("p",)}] * 3])
@example([[{"k": {"k" * 2000: "v"}}]])
@example([[{Colour.RED: "x", "y": Colour.RED}]])
def test_both_ways_give_the_same(xs: Any) -> None:
    assert outcome(xs) == item_by_item(xs)
    assert outcome(iter(xs)) == item_by_item(xs)


@settings(max_examples=100, deadline=None)
@given(SEQUENCES, st.integers(1, 4), st.integers(1, 4))
def test_room_and_batches_of_any_size_give_the_same(xs: Any, count: int, attributes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequences, "_ITEMS", count)
        patch.setattr(sequences, "_ATTRIBUTES", attributes)
        found = outcome(xs)
    assert found == item_by_item(xs)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.recursive(USUAL, lambda inner: st.dictionaries(st.text("mn"), inner, max_size=2)))))
def test_attributes_are_those_of_the_definition(xs: Any) -> None:
    expected = [list(attributes("", item)) for sequence in xs for item in sequence]
    reader = ItemReader(1024)
    reader.begin(xs)
    texts = reader.read()
    assert reader.place == (len(xs), 0), "these are types that the kernel knows"
    data, offsets, ends = texts.text.tobytes(), texts.offsets.tolist(), [0, *texts.ends.tolist()]
    found = [
        (data[low:high].decode(), value) for low, high, value in zip(offsets, offsets[1:], texts.values, strict=False)
    ]
    assert [found[low:high] for low, high in pairwise(ends)] == expected


def test_what_is_nested_too_deeply_or_shared_is_left_to_the_other_way() -> None:
    deep: dict[str, Any] = {"end": "x"}
    for _ in range(40):
        deep = {"k": deep}
    shared = ["p", "q"]
    xs = [[deep, {"a": shared, "b": shared}], [{"w": "one"}] * 3, [{"a": "n" * 3000, "b" * 3000: {"c": "d"}}]]
    assert outcome(xs) == item_by_item(xs)
    assert len(outcome(xs)["starts"]) == 6
    once, name = {"first": "x", "l": shared}, "a name".upper()
    assert outcome([[once, {name: "y"}, {name: "z", "first": name}]])[ATTRIBUTES] == [
        ["first:x", "l:p", "l:q"],
        ["A NAME:y"],
        ["A NAME:z", "first:A NAME"],
    ]


@pytest.mark.parametrize(("rows", "entries"), [(3, 1000), (1000, 5), (2, 4)])
def test_stretches_of_bounded_size_have_all_items(rows: int, entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    xs = [[{f"k{j}": f"{i}" for j in range((i + k) % 4)} for k in range(i % 6)] for i in range(20)]
    y, weights = [[f"L{k}" for k in range(len(items))] for items in xs], [1.0 + k for k in range(20)]
    whole = outcome(xs, y, weights)
    assert whole[LABEL] == list(chain.from_iterable(y))
    assert whole["starts"] == [k == 0 for items in xs for k in range(len(items))]
    assert whole[WEIGHT] == [weight for weight, items in zip(weights, xs, strict=True) for _ in items]
    monkeypatch.setattr(sequences, "_ROWS", rows)
    monkeypatch.setattr(sequences, "_ENTRIES", entries)
    assert max(stretch.lines.size for stretch in stretches_of(iter(xs), y, weights)) <= rows + 5
    assert outcome(iter(xs), y, weights) == item_by_item(xs, y, weights) == whole


def test_a_python_whose_objects_are_elsewhere_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert objects.are_readable()
    objects.are_readable.cache_clear()
    monkeypatch.setattr(objects, "_TYPE", 0)  # where the count of references is
    assert not objects.are_readable()
    monkeypatch.undo()
    objects.are_readable.cache_clear()
    assert objects.are_readable()


def test_sequences_may_be_made_of_the_same_list_again_and_again() -> None:
    buffer: list[dict[str, Any]] = [{}, {}]

    def made() -> Iterator[Any]:
        for k in range(5):
            for place, item in enumerate(buffer):
                item.clear()
                item[f"k{place}"] = "np" if k % 2 else np.float64(k)
            yield buffer

    def of_items() -> Iterator[Any]:
        item: dict[str, str] = {}
        for k in range(3):
            item["k"] = str(k)
            yield item

    assert outcome(made()) == item_by_item(made())
    assert outcome([of_items()])[ATTRIBUTES] == [["k:0"], ["k:1"], ["k:2"]]


def test_labels_come_from_anything_and_may_be_taken_out_of_the_items() -> None:
    def xs() -> Any:
        return [[{"w": f"{k}", "label": f"L{k % 2}"} for k in range(3)] for _ in range(4)]

    def labels(given: Any) -> Any:
        return ([item.pop("label") for item in sequence] for sequence in given)

    ours, theirs = xs(), xs()
    found = outcome(ours, labels(ours))
    assert found == item_by_item(theirs, labels(theirs))
    assert found[ATTRIBUTES][0] == ["w:0"]
    for y in (
        [None, float("nan"), b"A"],
        np.array(["A", "B", "A"]),
        (1, 2.5, True),
        iter("ABC"),
        {"A": 1, "B": 2, "C": 3},
    ):
        copies = [list(y)] * 2 if isinstance(y, Iterator) else [y] * 2
        assert outcome(xs()[:1], [copies[0]]) == item_by_item(xs()[:1], [copies[1]])


BAD = [
    ([[{"a": "b"}], [{"a": None}], [{"c": "d"}]], [["A"], ["A"]]),  # item before labels
    ([[{"a": "b"}, {"a": "c"}]], [["A"]]),
    ([[{"a": "b"}, {"a": None}]], [["A"]]),
    ([[{"a": "b"}]], [repeat("A")]),
    ([[{"a": "b"}]], [iter("")]),
    ([[{"a": "b"}]], [None]),
    ([[{"a": "b"}]], ["A"]),
    ([[{"a": "b"}]], [7]),
    ([[{"a": float("nan")}]], None),
    ([[{"a": "\udcff"}]], None),
    ([["a", "b"]], None),
    ([[["a", 1]]], None),
    ([{"a": "b"}], None),
    ([[[{"a": "b"}]]], None),
    ("text", None),
    ([7], None),
    ([None], None),
]


@pytest.mark.parametrize(("xs", "y"), BAD)
def test_errors_are_the_same(xs: Any, y: Any) -> None:
    expected = item_by_item(xs, y)
    assert outcome(xs, y) == expected
    assert isinstance(expected, str) or y == [None]


def test_items_that_contain_themselves_and_integers_too_long_to_print() -> None:
    itself: dict[str, Any] = {}
    itself["a"] = itself
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for item in (itself, deep, {"a": deep}):
        with pytest.raises(BadChain, match="item 1 of sequence 0 is nested too deeply, or contains itself"):
            list(stretches_of([[{"a": 1.0}, item]], None))
    with pytest.raises(BadChain, match="the value of 'a' is <int object"):
        list(stretches_of([[{"a": 10**6000}]], None))
