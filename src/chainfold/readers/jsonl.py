"""JSON lines: an object a line, which is a row or a sequence.

The first object tells which. Without a list it is a row, and a blank line ends a sequence; with a list it is a
sequence, its lists are the columns, and its other fields are no columns.

    {"word": "the", "pos": "DT", "label": "B-NP"}
    {"tokens": ["the", "cat"], "tags": ["B-NP", "I-NP"]}

pyarrow parses a chunk of whole lines at a time; where it fails, the chunk is read again, slowly, for the line and the
field.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
from numpy.typing import NDArray

from chainfold.errors import BadFile, BadLines
from chainfold.readers.columns import NO_COLUMN, NUMBER, Choice, Stretch
from chainfold.readers.inputs import Chunk, RawObjects, line_ends
from chainfold.readers.tables import ROWS, first_line, normal, one_array
from chainfold.readers.text import Taken, TextReader

_BLANKS = b" \t\r"
_SHOWN = 40  # letters of a value
_MOST_WHOLE = 2**63 - 1
_TEXT, _NUMBER, _WHOLE, _BOOL = "text", "a number", "a whole number", "true or false"
_ARROW = {_TEXT: pa.string(), _NUMBER: NUMBER, _WHOLE: pa.int64(), _BOOL: pa.bool_()}


class JsonLinesReader(TextReader):
    """Objects, one a line; the fields of the first object, and their types in the first chunk, hold for all others."""

    chunk_size = 1 << 20

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        symbols: Choice = NO_COLUMN,
        fields: Collection[str] | None = None,
    ) -> None:
        """columns: the fields to read; fields: those that may be read if the first object has them. None: all."""
        self._columns, self._symbols, self._fields = columns, symbols, fields
        self._names: list[str] = []
        self._lists = False  # is an object a sequence?
        self._types: dict[str, Any] = {}  # of Arrow, as they are parsed
        self._fresh = True  # does the next row start a sequence?

    def begin(self) -> None:
        self._fresh = True

    def begin_within(self) -> None:
        self._fresh = False

    @property
    def stand_in(self) -> bytes:
        raise NotImplementedError("a line that is no object is no row")

    @property
    def between(self) -> bool:
        return self._fresh or self._lists

    def state(self) -> Any:
        return self._names, self._lists, self._types, self._fresh

    def restore(self, state: Any) -> None:
        self._names, self._lists, self._types, self._fresh = state

    def take(self, chunk: Chunk, source: str) -> Taken:
        lines = _Lines(chunk)
        if not lines.objects.size:
            self._fresh |= bool(lines.blank.size)
            return Taken([], RawObjects(source, chunk, lines.ends, None))
        if not self._names:
            self._begin(lines, source)
        table = self._table(lines, source)
        numbers, starts, counts = chunk.line + lines.objects, self._starts(lines), None
        if self._lists:
            table, counts = self._flat(table, lines, source)
            starts = np.zeros(table.num_rows, np.bool_)
            starts[(np.cumsum(counts) - counts)[counts > 0]] = True
            numbers = np.repeat(numbers, counts)
        raw = RawObjects(source, chunk, lines.ends, counts)
        return Taken(list(self._stretches(table, starts, numbers, source)), raw)

    def _starts(self, lines: _Lines) -> NDArray[np.bool_]:
        """Which rows follow a blank line."""
        starts = np.diff(lines.objects, prepend=-1) > 1
        starts[0] = self._fresh or lines.objects[0] > 0
        self._fresh = bool(lines.objects[-1] + 1 < lines.count)
        return starts

    def _begin(self, lines: _Lines, source: str) -> None:
        """Take the fields of the first object."""
        first = lines.parsed(0, source)
        names = list(first) if self._columns is None else list(self._columns)
        self._lists = any(isinstance(first.get(name), list) for name in names)
        if self._columns is None and self._lists:
            names = [name for name in names if isinstance(first[name], list)]
        if self._columns is None and self._fields is not None:
            names = [name for name in names if name in self._fields]
        if not names:
            wanted = (
                "" if self._fields is None else f" that the model uses; these are {', '.join(sorted(self._fields))}"
            )
            raise BadFile(source, f"line {lines.number(0)} has no field{wanted}.")
        self._names = names

    @property
    def _ignores(self) -> bool:
        """Whether objects may have other fields."""
        return self._lists or self._columns is not None or self._fields is not None

    def _table(self, lines: _Lines, source: str) -> Any:
        try:
            if not lines.plain:
                raise ValueError("a line is not one object")
            types = self._types or self._types_of(lines)
            table = self._parsed(lines.chunk.data, types, "ignore" if self._ignores else "error")
            if table.num_rows != lines.objects.size:
                raise ValueError("a line has several objects")
            if not self._lists and lines.has_empty(table):
                raise ValueError("an object has no fields")
        except (ValueError, pa.ArrowNotImplementedError) as error:
            raise self._wrong(lines, source, error) from None
        self._types = types
        return table

    def _parsed(self, data: bytes, types: dict[str, Any], others: str) -> Any:
        """The objects of a chunk; `others`: what becomes of fields without a type."""
        return pa_json.read_json(
            io.BytesIO(data),
            pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pa_json.ParseOptions(explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior=others),
        ).select(list(types))

    def _types_of(self, lines: _Lines) -> dict[str, Any]:
        """The types of the fields, from the objects of the first chunk."""
        checker = self._checker()
        for index in range(lines.objects.size):
            if (problem := checker.problem(lines, index)) is not None:
                raise ValueError(problem)
        types = {name: _ARROW[checker.kinds.get(name, _TEXT)] for name in self._names}
        if self._lists:
            nested = {name for name, lists in checker.nested.items() if lists}
            types = {name: pa.list_(pa.list_(kind) if name in nested else kind) for name, kind in types.items()}
        return types

    def _checker(self) -> _Checker:
        kinds = {name: _kind_of(kind) for name, kind in self._types.items()}
        nested = {name: pa.types.is_list(kind.value_type) for name, kind in self._types.items()} if self._lists else {}
        numeric = frozenset(self._names) - self._symbols(self._names)
        return _Checker(self._names, self._lists, self._ignores, numeric, kinds, nested)

    def _flat(self, table: Any, lines: _Lines, source: str) -> tuple[Any, NDArray[np.int64]]:
        """The rows of sequences, and how many each has."""
        columns = {name: one_array(table.column(name)) for name in self._names}
        counts = {name: pc.list_value_length(column).fill_null(-1).to_numpy() for name, column in columns.items()}
        first = counts[self._names[0]]
        if any((count != first).any() for count in counts.values()) or (first < 0).any():
            raise self._wrong(lines, source, ValueError("lists are missing or differ in length"))
        flat = {name: column.flatten() for name, column in columns.items()}
        return pa.table(flat), first.astype(np.int64)

    def _stretches(
        self, table: Any, starts: NDArray[np.bool_], lines: NDArray[np.int64], source: str
    ) -> Iterator[Stretch]:
        low = 0
        for batch in table.combine_chunks().to_batches(max_chunksize=ROWS):
            rows = slice(low, low + batch.num_rows)
            yield Stretch(normal(batch, self._symbols, lines[rows], source), starts[rows], lines[rows], source)
            low = rows.stop

    def _wrong(self, lines: _Lines, source: str, error: Exception) -> BadFile:
        """The error for the first wrong line of a chunk."""

        def problems() -> Iterator[tuple[int, str]]:
            checker = self._checker()
            for index in range(lines.objects.size):
                if (problem := checker.problem(lines, index)) is not None:
                    yield lines.number(index), problem

        first = next(problems(), None)
        if first is None:
            low, high = lines.number(0), lines.number(lines.objects.size - 1)
            return BadFile(source, f"lines {low} to {high} cannot be read: {first_line(error)}.")
        sentence = f"line {first[0]}{first[1]}"
        return BadLines(source, sentence, lambda: np.array([line for line, _ in problems()], np.int64))


class _Lines:
    """The lines of a chunk: which are blank, and where the objects of the others end."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        data = np.frombuffer(chunk.data, np.uint8)
        ends = line_ends(chunk.data)
        begins = np.append(0, ends[:-1] + 1)
        last = ends - 1
        for _ in range(2):  # white space is rare; a longer run of it is found below
            last -= _is_blank(data, last, begins)
        self.count = ends.size
        open_begin, closed = data[begins] == ord("{"), (last >= begins) & (data[np.maximum(last, 0)] == ord("}"))
        for line in np.flatnonzero(~(open_begin & closed)).tolist():
            text = chunk.data[begins[line] : ends[line]]
            begins[line] += len(text) - len(text.lstrip(_BLANKS))
            last[line] = ends[line] - 1 - (len(text) - len(text.rstrip(_BLANKS)))
        blank = last < begins
        self.blank, self.objects = np.flatnonzero(blank), np.flatnonzero(~blank)
        self._begins, self.ends = begins[self.objects], last[self.objects]
        self.plain = bool(((data[self._begins] == ord("{")) & (data[self.ends] == ord("}"))).all())

    def has_empty(self, table: Any) -> bool:
        """Whether an object has no fields; the table has a row for each."""
        missing = np.ones(table.num_rows, np.bool_)
        for column in table.columns:
            if not column.null_count:
                return False
            missing &= column.is_null().to_numpy()
        return any(not self.text(index)[1:-1].strip() for index in np.flatnonzero(missing).tolist())

    def number(self, index: int) -> int:
        """The line of an object."""
        return self.chunk.line + int(self.objects[index])

    def text(self, index: int) -> str:
        return self.chunk.data[self._begins[index] : self.ends[index] + 1].decode()

    def parsed(self, index: int, source: str) -> dict[str, Any]:
        """An object, or a sentence."""
        try:
            return parsed_object(self.text(index))
        except ValueError as error:
            raise BadLines(
                source, f"line {self.number(index)} {error}", lambda: np.array([self.number(index)])
            ) from None


def _is_blank(data: NDArray[np.uint8], places: NDArray[np.int64], begins: NDArray[np.int64]) -> NDArray[np.bool_]:
    bytes_there = data[np.maximum(places, 0)]
    blank: NDArray[np.bool_] = (places >= begins) & np.isin(bytes_there, np.frombuffer(_BLANKS, np.uint8))
    return blank


def parsed_object(text: str) -> dict[str, Any]:
    """An object of JSON; a ValueError says what the text is instead."""
    try:
        value = json.loads(text, object_pairs_hook=_without_repetition)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} at character {error.colno}.") from None
    except RecursionError:
        raise ValueError("is not read: it is nested too deeply.") from None
    if not isinstance(value, dict):
        raise ValueError(f"is {_described(value)}; JSON lines have an object on each line.")
    return value


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"has the field {next(name for name in names if names.count(name) > 1)!r} twice.")
    return fields


class _Checker:
    """Objects one by one, with Python's parser: the kinds of their fields, and the first thing that is wrong."""

    def __init__(
        self,
        names: Sequence[str],
        lists: bool,
        ignores: bool,
        numeric: Collection[str],
        kinds: dict[str, str],
        nested: dict[str, bool],
    ) -> None:
        """kinds, nested: what is known of the fields so far; numeric: those whose numbers are numbers, not symbols."""
        self._names, self._lists, self._ignores, self._numeric = names, lists, ignores, numeric
        self.kinds, self.nested = kinds, nested

    def problem(self, lines: _Lines, index: int) -> str | None:
        """The problem of an object, to follow its line; None if there is none."""
        try:
            fields = parsed_object(lines.text(index))
        except ValueError as error:
            return f" {error}"
        if not self._ignores:
            for name in fields.keys() - set(self._names):
                remedy = "name the fields to read in `columns`, or give it to the first line too, as null"
                return f" has a field {name!r} that the first line does not have; {remedy}."
        if not fields:
            return " has an object without fields; write null for values that are missing."
        return self._of_sequence(fields) if self._lists else self._of_row(fields)

    def _of_row(self, fields: dict[str, Any]) -> str | None:
        return next(filter(None, (self._value(name, fields.get(name)) for name in self._names)), None)

    def _of_sequence(self, fields: dict[str, Any]) -> str | None:
        for name in self._names:
            if not isinstance(fields.get(name), list):
                return f", field {name!r}: there is {_described(fields.get(name))}, but a list on the first line."
        first = self._names[0]
        for name in self._names:
            if len(fields[name]) != len(fields[first]):
                return (
                    f": field {name!r} has {len(fields[name])} entries, but field {first!r} has {len(fields[first])}."
                )
        entries = ((name, entry) for name in self._names for entry in fields[name])
        return next(filter(None, (self._entry(name, entry) for name, entry in entries)), None)

    def _entry(self, name: str, entry: Any) -> str | None:
        """The problem of an entry of a list, which may be a list of attributes."""
        if entry is None:
            return None
        if isinstance(entry, list) != self.nested.setdefault(name, isinstance(entry, list)):
            before = "lists" if self.nested[name] else "no lists"
            return f", field {name!r}: an entry is {_described(entry)}, but those before it are {before}."
        values = entry if isinstance(entry, list) else [entry]
        return next(filter(None, (self._value(name, value) for value in values)), None)

    def _value(self, name: str, value: Any) -> str | None:
        if value is None:
            return None
        kind = _kind(value)
        if kind is None:
            remedy = "name the fields to read in `columns`, without this one"
            return f", field {name!r} is {_described(value)}, which is neither text nor a number; {remedy}."
        if kind == _WHOLE and (name in self._numeric or self.kinds.get(name) == _NUMBER):
            kind = _NUMBER
        if kind == _WHOLE and abs(value) > _MOST_WHOLE:
            return f", field {name!r}: {_described(value)} is too large."
        before = self.kinds.setdefault(name, kind)
        if kind != before:
            return f", field {name!r}: {_described(value)} is {kind}, but those before it are {before}."
        if kind == _TEXT and any("\ud800" <= letter <= "\udfff" for letter in value):
            return f", field {name!r}: half of a surrogate pair is no text."
        return None


def _kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return _BOOL
    if isinstance(value, int):
        return _WHOLE
    return _NUMBER if isinstance(value, float) else _TEXT if isinstance(value, str) else None


def _kind_of(arrow: Any) -> str:
    while pa.types.is_list(arrow):
        arrow = arrow.value_type
    return next(kind for kind, own in _ARROW.items() if own == arrow)


def _described(value: Any) -> str:
    """A value in a sentence."""
    if value is None:
        return "null"
    if isinstance(value, (list, dict)):
        return "an array" if isinstance(value, list) else "an object"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
