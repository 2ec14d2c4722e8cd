"""Rows that a program has as columns of the kinds that a model uses.

A row is a mapping from names to texts, numbers or None, which may have other names too; or a list of the values in the
order of the model's columns, with or without the label; or a text, where the model uses a single column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from chainfold.errors import BadFile
from chainfold.features.for_model import ModelInput
from chainfold.readers.columns import BAG, NUMBER, SYMBOL

PROGRAM = "the rows"  # what messages call them
_KINDS = {"bag": "list of texts", "number": "number", "symbol": "text"}
_WRONG = (pa.ArrowException, TypeError, ValueError, OverflowError)  # what a value that does not fit raises

Place = Callable[[int], str]
"""Names a row in messages, by its number from 0."""


class RowColumns:
    """Makes the columns that a model uses of rows."""

    def __init__(self, model_input: ModelInput, labels: bool) -> None:
        """labels: rows have the label column, too."""
        self._input = model_input
        self._kinds = model_input.needed(labels)
        self._orders: dict[int, dict[str, int]] = {}  # by how many values there are

    @property
    def items(self) -> bool:
        """Whether the model was trained on items with attributes, and not on columns."""
        return all(kind == "bag" for kind in self._used.values())

    @property
    def _used(self) -> dict[str, str]:
        """The kinds of all columns but the label."""
        return {name: kind for name, kind in self._kinds.items() if name != self._input.label}

    def batch(self, rows: Sequence[Any], place: Place) -> Any:
        """The columns of some rows. Raises `BadFile` where a row lacks one, or a value is of another kind."""
        columns = {name: self._column(name, kind, rows, place) for name, kind in self._kinds.items()}
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def no_rows(self) -> Any:
        """The columns, without rows."""
        types = {"symbol": SYMBOL, "number": NUMBER, "bag": BAG}
        schema = pa.schema([(name, types[kind]) for name, kind in self._kinds.items()])
        return pa.RecordBatch.from_pylist([], schema=schema)

    def check_names(self, names: Sequence[str]) -> None:
        """Raise unless a table with these columns has all that are used."""
        for name in self._kinds.keys() - set(names):
            raise BadFile(PROGRAM, f"there is no column {name!r}, which the model uses.")

    def _column(self, name: str, kind: str, rows: Sequence[Any], place: Place) -> Any:
        values = [self._value(row, name, number, place) for number, row in enumerate(rows)]
        try:
            return _array(values, kind)
        except _WRONG:
            number, value = next((k, value) for k, value in enumerate(values) if not _fits(value, kind))
            raise BadFile(PROGRAM, f"{place(number)}, column {name!r}: {value!r} is no {_KINDS[kind]}.") from None

    def _value(self, row: Any, name: str, number: int, place: Place) -> Any:
        if isinstance(row, Mapping):
            if name in row:
                return row[name]
            problem = f"{place(number)} has no column {name!r}, which the model uses; give None if it is missing."
            raise BadFile(PROGRAM, problem)
        if isinstance(row, str) and list(self._kinds) == [name]:
            return row
        if not isinstance(row, (list, tuple)):
            used = ", ".join(self._used)
            raise BadFile(PROGRAM, f"{place(number)} is {row!r}; give a dict with the columns {used}.")
        index = self._places(len(row)).get(name)
        if index is None:
            expected = ", ".join(name for name in self._input.kinds if name != self._input.label)
            raise BadFile(PROGRAM, f"{place(number)} has {len(row)} values, but the columns are {expected}.")
        return row[index]

    def _places(self, width: int) -> dict[str, int]:
        """The place of each column in a list of `width` values."""
        if width not in self._orders:
            names = self._input.names([str(k) for k in range(width)]) or []
            self._orders[width] = {name: place for place, name in enumerate(names)}
        return self._orders[width]


def _array(values: list[Any], kind: str) -> Any:
    """A column of values; raises one of `_WRONG` where one does not fit."""
    if kind == "bag":
        entries = pa.array(values, pa.large_list(pa.string()))
        return pa.LargeListArray.from_arrays(entries.offsets, entries.values.dictionary_encode())
    if kind == "number":
        return pa.array([None if value is None or value == "" else float(value) for value in values], NUMBER)
    return symbols(values)


def symbols(values: Sequence[Any]) -> Any:
    """A column of symbols, spelled as in a table."""
    return pa.array(list(map(_spelt, values)), pa.string()).dictionary_encode()


def _fits(value: Any, kind: str) -> bool:
    try:
        _array([value], kind)
    except _WRONG:
        return False
    return True


def _spelt(value: Any) -> str | None:
    """A value as a symbol, spelt as in a table."""
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, float) and math.isnan(value):
        return None
    text: str = pa.scalar(value).cast(pa.string()).as_py()
    return text
