"""Python's own objects as columns: sequences of items as sklearn-crfsuite takes them.

An item is a dict or a collection of strings. {"word": "the", "upper": False, "length": 3.0} has the attributes
`word:the` with value 1, `upper` with value 0 and `length` with value 3; a list or set under a key has one attribute for
each element, a dict under a key is taken apart in the same way, its names behind `key:`. Sequences come from any
iterable and are never held whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa

from chainfold.data.columns import SYMBOL, VALUES_SUFFIX, Stretch
from chainfold.errors import BadChain

LABEL, _ATTRIBUTES = "label", "attributes"
_ROWS, _ENTRIES = 65536, 1 << 20  # after so many a stretch ends


def stretches_of(sequences: Iterable[Any], labels: Iterable[Any] | None) -> Iterator[Stretch]:
    """Stretches with the columns `attributes`, their values, and `label` if there are labels."""
    gathered = _Gathered(0, labels is not None)
    for index, items, theirs in _paired(sequences, labels):
        for place, (item, label) in enumerate(_paired_items(items, theirs, index)):
            gathered.add(item, label, index, place)
            if len(gathered.labels) >= _ROWS or len(gathered.names) >= _ENTRIES:
                yield gathered.stretch()
                gathered = _Gathered(gathered.after, labels is not None)
    if gathered.labels:
        yield gathered.stretch()


_NONE = object()


def _paired(sequences: Iterable[Any], labels: Iterable[Any] | None) -> Iterator[tuple[int, Any, Any]]:
    """Each sequence with its number and its labels, None where there are none."""
    pairs = zip_longest(_iterated(sequences, "the sequences"), _iterated(labels, "the labels"), fillvalue=_NONE)
    for index, (items, theirs) in enumerate(pairs):
        if items is _NONE and labels is not None:
            raise BadChain(f"there are more sequences of labels than the {index} sequences of items.")
        if theirs is _NONE and labels is not None:
            raise BadChain(f"there are only {index} sequences of labels, but sequence {index} has items.")
        yield index, items, None if labels is None else theirs


def _paired_items(items: Any, labels: Any, index: int) -> Iterator[tuple[Any, Any]]:
    """Each item of a sequence with its label, None where it is not known."""
    if isinstance(items, (str, Mapping)) or isinstance(labels, str):
        raise BadChain(
            f"sequence {index} is no sequence of items and labels; give a list of items and a list of labels."
        )
    each, theirs = _iterated(items, f"sequence {index}"), _iterated(labels, f"the labels of sequence {index}")
    for place, (item, label) in enumerate(zip_longest(each, theirs, fillvalue=_NONE)):
        if labels is not None and (item is _NONE or label is _NONE):
            least, more, less = (place, "labels", "items") if item is _NONE else (place, "items", "labels")
            raise BadChain(f"sequence {index} has {least} {less}, but more {more}.")
        yield item, None if label is _NONE else label


def _iterated(things: Any, what: str) -> Iterator[Any]:
    if things is None:
        return iter(())
    if not isinstance(things, Iterable):
        raise BadChain(f"{what} are {things!r}, which cannot be gone through; give lists of lists.")
    return iter(things)


class _Gathered:
    """Items one after another, as flat lists."""

    def __init__(self, before: int, labelled: bool) -> None:
        self._before, self._labelled = before, labelled  # items that came before; do items have labels?
        self.labels: list[str | None] = []
        self.names: list[str] = []
        self._values: list[float] = []
        self._ends = [0]
        self._starts: list[bool] = []

    @property
    def after(self) -> int:
        return self._before + len(self.labels)

    def add(self, item: Any, label: Any, index: int, place: int) -> None:
        self._flatten("", item, index, place)
        self._ends.append(len(self.names))
        self._starts.append(place == 0)
        self.labels.append(None if label is None else str(label))

    def _flatten(self, prefix: str, item: Any, index: int, place: int) -> None:
        if isinstance(item, str) or not isinstance(item, Iterable):
            raise BadChain(f"item {place} of sequence {index} is {item!r}; give a dict, or a list of strings.")
        if not isinstance(item, Mapping):
            for name in item:
                if not isinstance(name, str):
                    raise BadChain(f"item {place} of sequence {index} has {name!r}; attributes are strings.")
                self.names.append(prefix + name)
                self._values.append(1.0)
            return
        for key, value in item.items():
            name = f"{prefix}{key}"
            if isinstance(value, str):
                self.names.append(f"{name}:{value}")
                self._values.append(1.0)
            elif isinstance(value, Iterable):
                self._flatten(f"{name}:", value, index, place)
            else:
                self.names.append(name)
                self._values.append(_number(value, name, index, place))

    def stretch(self) -> Stretch:
        ends = pa.array(self._ends, pa.int64())
        columns = {_ATTRIBUTES: pa.LargeListArray.from_arrays(ends, _symbols(self.names))}
        if self._labelled:
            columns[LABEL] = _symbols(self.labels)
        values = np.array(self._values)
        if (values != 1.0).any():
            columns[_ATTRIBUTES + VALUES_SUFFIX] = pa.LargeListArray.from_arrays(ends, pa.array(values))
        items = np.arange(self._before, self.after, dtype=np.int64)
        starts = np.array(self._starts, np.bool_)
        return Stretch(pa.RecordBatch.from_pydict(columns), starts, items, "the sequences", "item")


def _symbols(texts: Sequence[str | None]) -> Any:
    try:
        return pa.array(texts, pa.string()).dictionary_encode().cast(SYMBOL)
    except UnicodeEncodeError as error:
        raise BadChain(f"the text {error.object!r} has half of a character in it and cannot be stored.") from None


def _number(value: Any, name: str, index: int, place: int) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BadChain(
            f"item {place} of sequence {index}: the value of {name!r} is {value!r}; give a string, a finite number, a "
            f"bool, or a collection of these."
        )
    return number
