"""Python's own objects as columns: sequences of items as sklearn-crfsuite takes them.

An item is a dict or a collection of strings. {"word": "the", "upper": False, "length": 3.0} has the attributes
`word:the` with value 1, `upper` with value 0 and `length` with value 3; a list or set under a key has one attribute for
each element, a dict under a key is taken apart in the same way, its names behind `key:`. Sequences come from any
iterable and are never held whole. A sequence may have a weight, which is that of each of its items.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa

from chainfold.errors import BadChain
from chainfold.readers.columns import ATTRIBUTES, LABEL, NUMBER, SYMBOL, VALUES_SUFFIX, WEIGHT, Stretch
from chainfold.system.validate import MOST_WEIGHT

_ROWS, _ENTRIES = 65536, 1 << 20  # the limits of a stretch


def stretches_of(
    sequences: Iterable[Any], labels: Iterable[Any] | None, weights: Iterable[Any] | None = None
) -> Iterator[Stretch]:
    """Stretches with the columns `attributes`, their values, and `label` and `weight` if there are any."""
    labelled, weighted = labels is not None, weights is not None
    gathered = _Gathered(0, labelled, weighted)
    for index, items, theirs, weight in _together(sequences, labels, weights):
        for place, (item, label) in enumerate(_paired_items(items, theirs, index)):
            gathered.add(item, label, weight, index, place)
            if len(gathered.labels) >= _ROWS or len(gathered.names) >= _ENTRIES:
                yield gathered.stretch()
                gathered = _Gathered(gathered.after, labelled, weighted)
    if gathered.labels:
        yield gathered.stretch()


_NONE = object()


def _together(
    sequences: Iterable[Any], labels: Iterable[Any] | None, weights: Iterable[Any] | None
) -> Iterator[tuple[int, Any, Any, float]]:
    """Each sequence with its number, its labels, None where there are none, and its weight."""
    each, theirs_each = _iterated(sequences, "the sequences"), _iterated(labels, "the labels")
    rows = zip_longest(each, theirs_each, _iterated(weights, "the weights"), fillvalue=_NONE)
    for index, (items, theirs, weight) in enumerate(rows):
        if items is _NONE and theirs is _NONE:
            raise BadChain(f"there are more weights than the {index} sequences.")
        if items is _NONE and labels is not None:
            raise BadChain(f"there are more sequences of labels than the {index} sequences of items.")
        if theirs is _NONE and labels is not None:
            raise BadChain(f"there are only {index} sequences of labels, but sequence {index} has items.")
        yield index, items, None if labels is None else theirs, 1.0 if weights is None else _weight(weight, index)


def _weight(weight: Any, index: int) -> float:
    if weight is _NONE:
        raise BadChain(f"there are only {index} weights, but sequence {index} has items.")
    try:
        number = float(weight)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0.0 <= number <= MOST_WEIGHT:
        raise BadChain(f"the weight of sequence {index} is {weight!r}; give a number from 0 to {MOST_WEIGHT}.")
    return number


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
        raise BadChain(f"{what} are {things!r}, which is not iterable; give lists of lists.")
    return iter(things)


class _Gathered:
    """Items one after another, as flat lists."""

    def __init__(self, before: int, labelled: bool, weighted: bool) -> None:
        self._before = before  # items that came before
        self._labelled, self._weighted = labelled, weighted
        self._weights: list[float] = []
        self.labels: list[str | None] = []
        self.names: list[str] = []
        self._values: list[float] = []
        self._ends = [0]
        self._starts: list[bool] = []

    @property
    def after(self) -> int:
        return self._before + len(self.labels)

    def add(self, item: Any, label: Any, weight: float, index: int, place: int) -> None:
        self._flatten("", item, index, place)
        self._ends.append(len(self.names))
        self._starts.append(place == 0)
        self._weights.append(weight)
        self.labels.append(_label(label))

    def _flatten(self, prefix: str, item: Any, index: int, place: int) -> None:
        if isinstance(item, (str, bytes)) or not isinstance(item, Iterable):
            raise BadChain(f"item {place} of sequence {index} is {item!r}; give a dict, or a list of strings.")
        if not isinstance(item, Mapping):
            for name in map(_text, item):
                if not isinstance(name, str):
                    raise BadChain(f"item {place} of sequence {index} has {name!r}; attributes are strings.")
                self.names.append(prefix + name)
                self._values.append(1.0)
            return
        for key, value in item.items():
            name, value = f"{prefix}{_text(key)}", _text(value)
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
        columns = {ATTRIBUTES: pa.LargeListArray.from_arrays(ends, _symbols(self.names))}
        if self._labelled:
            columns[LABEL] = _symbols(self.labels)
        if self._weighted:
            columns[WEIGHT] = pa.array(self._weights, NUMBER)
        values = np.array(self._values)
        if (values != 1.0).any():
            columns[ATTRIBUTES + VALUES_SUFFIX] = pa.LargeListArray.from_arrays(ends, pa.array(values))
        items = np.arange(self._before, self.after, dtype=np.int64)
        starts = np.array(self._starts, np.bool_)
        return Stretch(pa.RecordBatch.from_pydict(columns), starts, items, "the sequences", "item")


def _text(value: Any) -> Any:
    """Bytes as the text that they are; all else as it is."""
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else value


def _label(label: Any) -> str | None:
    """The name of a label; None, or what is not a number where numbers are, stands for an unknown one."""
    if label is None or (isinstance(label, float) and math.isnan(label)):
        return None
    return str(_text(label))


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
