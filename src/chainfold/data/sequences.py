"""Python's own objects as columns: sequences of items as sklearn-crfsuite takes them.

An item is a dict or a collection of strings. {"word": "the", "upper": False, "length": 3.0} has the attributes
`word:the` with value 1, `upper` with value 0 and `length` with value 3; a list or set under a key has one attribute for
each element, a dict under a key is taken apart in the same way, its names behind `key:`. Sequences come from any
iterable and are never held whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from chainfold.data.columns import SYMBOL, VALUES_SUFFIX, Stretch
from chainfold.errors import BadChain

_ROWS, _ENTRIES = 65536, 1 << 20  # after so many a stretch ends, at the next end of a sequence


def stretches_of(sequences: Iterable[Any], labels: Iterable[Any] | None) -> Iterator[Stretch]:
    """Stretches with the columns `label`, `attributes` and their values."""
    gathered = _Gathered()
    theirs = None if labels is None else iter(labels)
    for index, items in enumerate(sequences):
        gathered.add(index, items, None if theirs is None else _next_labels(theirs, index))
        if len(gathered.labels) >= _ROWS or len(gathered.names) >= _ENTRIES:
            yield gathered.stretch()
            gathered = _Gathered()
    if theirs is not None and next(theirs, _NONE) is not _NONE:
        raise BadChain(f"there are more sequences of labels than the {index + 1} sequences of items.")
    if gathered.labels:
        yield gathered.stretch()


_NONE = object()


def _next_labels(labels: Iterator[Any], index: int) -> list[Any]:
    found = next(labels, _NONE)
    if found is _NONE:
        raise BadChain(f"there are only {index} sequences of labels, but sequence {index} has items.")
    return list(found)  # type: ignore[call-overload, no-any-return]


class _Gathered:
    """Items of some sequences, as flat lists."""

    def __init__(self) -> None:
        self.labels: list[str | None] = []
        self.names: list[str] = []
        self._values: list[float] = []
        self._ends = [0]
        self._starts: list[bool] = []

    def add(self, index: int, items: Any, labels: list[Any] | None) -> None:
        count = len(self._starts)
        for place, item in enumerate(items):
            self._flatten("", item, index, place)
            self._ends.append(len(self.names))
            self._starts.append(place == 0)
        count = len(self._starts) - count
        if labels is not None and len(labels) != count:
            raise BadChain(f"sequence {index} has {count} items, but {len(labels)} labels.")
        self.labels += [None] * count if labels is None else [None if y is None else str(y) for y in labels]

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
        columns = {
            "label": pa.array(self.labels, pa.string()).dictionary_encode().cast(SYMBOL),
            "attributes": pa.LargeListArray.from_arrays(ends, pa.array(self.names, pa.string()).dictionary_encode()),
        }
        values = np.array(self._values)
        if (values != 1.0).any():
            columns["attributes" + VALUES_SUFFIX] = pa.LargeListArray.from_arrays(ends, pa.array(values))
        rows = np.arange(len(self.labels), dtype=np.int64)
        return Stretch(pa.RecordBatch.from_pydict(columns), np.array(self._starts, np.bool_), rows, "the sequences")


def _number(value: Any, name: str, index: int, place: int) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise BadChain(
            f"item {place} of sequence {index}: the value of {name!r} is {value!r}; give a string, a finite number, a "
            f"bool, or a collection of these."
        )
    return number
