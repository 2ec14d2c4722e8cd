"""A tagging in the input's own format: everything that was read, as it was, with new columns after the others.

    with Annotator(sink, {"predicted": labels, "probability": None}) as annotator:
        for stretch in read(Inputs(what, keep=annotator.keep), reading):
            ...                                     # later, for the rows whose labels are known
            annotator.add(codes, probabilities)

The input is read once: what a reader keeps waits in memory until its rows have their new fields, so that the memory is
bounded by how far the fields lag behind. `keep` may be called in another thread, but always before the rows that it
brings are added to. Where nothing is to be added, nothing is changed: comments, blank lines and line ends stay.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.block import frozen
from chainfold.errors import BadFile, ChainfoldError
from chainfold.jit.digit_kernels import LONGEST, number_texts
from chainfold.jit.splice_kernels import SPACE, Fields, Places, line_places, splice
from chainfold.readers.columns import NUMBER, SYMBOL
from chainfold.readers.inputs import (
    Raw,
    RawFields,
    RawLines,
    RawObjects,
    RawRows,
    TableKind,
    count_of,
)
from chainfold.readers.text import rows_of_fields

Values = NDArray[Any]
"""A new column at some rows: numbers of labels, or numbers to be shown."""

_DOCSTART = b"-DOCSTART-"
_TO_QUOTE = frozenset('",\r\n')


class Labelling(NamedTuple):
    """One of the best labellings of a sequence."""

    probability: float
    columns: Sequence[Values]


class Annotator:
    """Writes the inputs again, with new columns; `columns` gives each its labels, or None where it holds numbers."""

    def __init__(
        self, sink: IO[bytes], columns: Mapping[str, Sequence[str] | None], piped: bool = False, live: bool = False
    ) -> None:
        """`piped`: the sink is not a file but standard output; `live`: after `add` only whole lines are written."""
        self._sink = sink
        self._columns = [
            _Numbers(name) if labels is None else _Labels(name, labels) for name, labels in columns.items()
        ]
        self._piped, self._live = piped, live
        self._writer: _Writer | None = None
        self._first = ""

    def keep(self, raw: Raw) -> None:
        """Hold what a reader has just read until its rows are added to."""
        kind = _KINDS[type(raw)]
        if self._writer is None:
            self._writer, self._first = kind(self._sink, self._columns, self._piped, self._live), raw.source
        if not isinstance(self._writer, kind):
            raise BadFile(
                raw.source, f"is {kind.what}, but {self._first} is {self._writer.what}; tag them one at a time."
            )
        self._writer.keep(raw)

    def add(self, *values: Values) -> None:
        """The new columns at the rows that come next."""
        assert self._writer is not None, "rows are read before they are added to"
        self._writer.add(values)

    def add_sequence(self, best: Sequence[Labelling]) -> None:
        """The sequence that comes next, once for each of its best labellings, with a line that gives its rank."""
        assert self._writer is not None, "rows are read before they are added to"
        self._writer.add_sequence(best)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._writer is not None and error is None:
            self._writer.finish()
        elif self._writer is not None:
            self._writer.abandon()


class _Column(ABC):
    """A new column: how it is written as text and in tables."""

    type: Any
    of_document_start = b"1"  # its field on a line that is no row but begins a document

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def texts(self, values: Values, quotes: bool) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
        """Some text, and where in it that of each value begins and ends."""

    @abstractmethod
    def json(self, values: Values) -> list[str]: ...
    @abstractmethod
    def array(self, values: Values) -> Any: ...


class _Labels(_Column):
    type = SYMBOL
    of_document_start = b"O"

    def __init__(self, name: str, labels: Sequence[str]) -> None:
        super().__init__(name)
        self.labels = labels
        self._names = pa.array(labels, pa.string())
        self._json = [json.dumps(label, ensure_ascii=False) for label in labels]
        self._texts = {quotes: _run_together([_field(label, quotes) for label in labels]) for quotes in (False, True)}

    def texts(self, values: Values, quotes: bool) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
        text, ends = self._texts[quotes]
        return text, ends[values], ends[values + 1]

    def json(self, values: Values) -> list[str]:
        return [self._json[code] for code in values.tolist()]

    def array(self, values: Values) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), self._names)


class _Numbers(_Column):
    type = NUMBER

    def texts(self, values: Values, quotes: bool) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
        begins, ends = np.empty(values.size, np.int64), np.empty(values.size, np.int64)
        out = np.empty(values.size * LONGEST, np.uint8)
        size = number_texts(frozen(values, np.float64), out, begins, ends)
        left = np.flatnonzero(begins == ends)
        text, others = _run_together([f"{value:.6g}" for value in values[left].tolist()])
        begins[left], ends[left] = others[:-1] + size, others[1:] + size
        return out[:size].tobytes() + text, begins, ends

    def json(self, values: Values) -> list[str]:
        return [f"{value:.6g}" for value in values.tolist()]

    def array(self, values: Values) -> Any:
        return pa.array(values, NUMBER)


def _run_together(texts: Sequence[str]) -> tuple[bytes, NDArray[np.int64]]:
    encoded = [text.encode() for text in texts]
    return b"".join(encoded), np.cumsum([0, *map(len, encoded)], dtype=np.int64)


def _field(text: str, quotes: bool) -> str:
    """A text as a field, in quotes where it has to be."""
    return '"' + text.replace('"', '""') + '"' if quotes and not _TO_QUOTE.isdisjoint(text) else text


class _Writer(ABC):
    what: str  # it writes

    def __init__(self, sink: IO[bytes], columns: Sequence[_Column], piped: bool, live: bool) -> None:
        self._sink, self._columns, self._piped, self._live = sink, columns, piped, live
        self._begin()

    @abstractmethod
    def _begin(self) -> None: ...
    @abstractmethod
    def keep(self, raw: Any) -> None: ...
    @abstractmethod
    def add(self, values: Sequence[Values]) -> None: ...
    @abstractmethod
    def add_sequence(self, best: Sequence[Labelling]) -> None: ...
    @abstractmethod
    def finish(self) -> None: ...

    def abandon(self) -> None:  # noqa: B027  most writers have nothing to close
        """Close what was opened for the sink after an error elsewhere; the content is discarded."""


class _Piece:
    """Some text, where the new fields of its rows go, and how far it is written."""

    def __init__(self, text: bytes, size: int, places: Places, quotes: bool = False, lines: bool = True) -> None:
        self.text = text
        self.size = size  # what follows was not in the input
        self.places = places
        self.quotes = quotes
        self.lines = lines  # is every row a line?
        self.row = 0
        self.at = 0

    @property
    def left(self) -> int:
        """The rows that are not yet written."""
        return self.places.begins.size - self.row

    def upto(self, end: int) -> bytes:
        """The text that is not yet written, up to a place, unchanged."""
        begin, self.at = self.at, end
        return self.text[begin:end]

    @property
    def line_end(self) -> int:
        """Where the line ends whose new fields were written last."""
        end = self.at + (2 if self.text.startswith(b"\r\n", self.at) else 1)
        return min(end, self.size)

    def rows(self, columns: Sequence[_Column], values: Sequence[Values]) -> NDArray[np.uint8]:
        """The text that is not yet written, up to and with the new fields of its next rows."""
        rows = slice(self.row, self.row + values[0].size)
        places = Places(self.places.begins[rows], self.places.ends[rows], self.places.separators[rows])
        fields = _fields(columns, values, self.quotes)
        most = int(places.ends[-1]) - self.at + int((fields.ends - fields.begins + 1).sum())
        out = np.empty(most, np.uint8)
        size = splice(np.frombuffer(self.text, np.uint8), self.at, places, fields, out)
        self.row, self.at = rows.stop, int(places.ends[-1])
        return out[:size]


def _fields(columns: Sequence[_Column], values: Sequence[Values], quotes: bool) -> Fields:
    texts, begins, ends, size = [], [], [], 0
    for column, part in zip(columns, values, strict=True):
        text, low, high = column.texts(part, quotes)
        texts.append(text)
        begins.append(low + size)
        ends.append(high + size)
        size += len(text)
    return Fields(np.frombuffer(b"".join(texts), np.uint8), np.stack(begins), np.stack(ends))


def _room(rows: int) -> Places:
    return Places(np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.uint8))


_NO_ROWS = _room(0)


class _Text(_Writer):
    """Text, row by row."""

    what = "text"

    def _begin(self) -> None:
        self._pieces: deque[_Piece] = deque()
        self._has_header = False
        self._open_line = False  # is a line end missing between the inputs?
        self._has_sequence = False

    def keep(self, raw: RawLines | RawFields) -> None:
        if self._open_line:
            self._pieces.append(_Piece(b"\n", 1, _NO_ROWS))
        self._open_line = raw.chunk.added > 0
        self._pieces.append(self._lines(raw) if isinstance(raw, RawLines) else self._table(raw))

    def _lines(self, raw: RawLines) -> _Piece:
        data, places = raw.chunk.data, _room(raw.lines.size)
        if _DOCSTART in data and not raw.attributes:
            data = self._document_starts(data, raw)
        line_places(np.frombuffer(data, np.uint8), raw.lines - raw.chunk.line, raw.attributes, places)
        self._check_labels(raw.source, " \t\r\n" if (places.separators == SPACE).any() else "\t\r\n")
        return _Piece(data, len(data) - raw.chunk.added, places)

    def _document_starts(self, data: bytes, raw: RawLines) -> bytes:
        """The text with all columns on lines that begin documents, label O: conlleval wants as many on each line."""
        lines, rows = data.split(b"\n"), set((raw.lines - raw.chunk.line).tolist())
        for number, line in enumerate(lines):
            if number not in rows and line.lstrip(b" \t").startswith(_DOCSTART):
                body, line_end = (line[:-1], b"\r") if line.endswith(b"\r") else (line, b"")
                fields = body.split(b"\t") if b"\t" in body else [field for field in body.split(b" ") if field]
                missing = raw.width - len(fields)
                new = [*[b"-X-"] * (missing - 1), b"O"] if missing > 0 else []
                new += [column.of_document_start for column in self._columns]
                between = b"\t" if raw.tabs or b"\t" in body else b" "
                lines[number] = between.join([body, *new]) + line_end
        return b"\n".join(lines)

    def _table(self, raw: RawFields) -> _Piece:
        data = raw.blotted or raw.chunk.data
        _, ends, _ = rows_of_fields(data, raw.begin, raw.delimiter, raw.quotes)
        places = Places(ends, ends, np.full(ends.size, ord(raw.delimiter), np.uint8))
        if not raw.quotes:
            self._check_labels(raw.source, "\t\r\n")
        piece = _Piece(raw.chunk.data, len(data) - raw.chunk.added, places, raw.quotes, lines=False)
        if raw.header:
            self._header(raw)
            piece.at = raw.begin
        return piece

    def _header(self, raw: RawFields) -> None:
        """The names of the columns, once for all inputs."""
        _check_names(self._columns, raw.header, raw.source)
        if not self._has_header:
            head = raw.chunk.data[: raw.begin]
            names = head.rstrip(b"\r\n")
            added = [_field(column.name, raw.quotes) for column in self._columns]
            text = names + raw.delimiter.join(["", *added]).encode() + head[len(names) :]
            self._pieces.append(_Piece(text, len(text), _NO_ROWS))
            self._has_header = True

    def _check_labels(self, source: str, forbidden: str) -> None:
        for column in self._columns:
            for label in column.labels if isinstance(column, _Labels) else ():
                if any(letter in label for letter in forbidden):
                    problem = "white space" if " " in forbidden else "a tab or a line end"
                    raise BadFile(source, f"label {label!r} has {problem} in it, and cannot be a field of this format.")

    def add(self, values: Sequence[Values]) -> None:
        done, rows = 0, values[0].size
        while done < rows:
            piece = self._pieces[0]
            size = min(piece.left, rows - done)
            if size:
                self._sink.write(piece.rows(self._columns, [part[done : done + size] for part in values]).data)
                done += size
            if not piece.left:
                self._sink.write(self._pieces.popleft().upto(piece.size))
            elif self._live and size:
                self._sink.write(piece.upto(piece.line_end))
        while self._live and self._pieces and not self._pieces[0].left:  # what is known to follow the last row
            self._sink.write(self._pieces[0].upto(self._pieces.popleft().size))

    def add_sequence(self, best: Sequence[Labelling]) -> None:
        rows = best[0].columns[0].size
        piece = self._whole(rows)
        first, text, places = piece.row, piece.text, piece.places
        low = max(piece.at, text.rfind(b"\n", 0, int(places.begins[first])) + 1)
        high = min(text.find(b"\n", int(places.ends[first + rows - 1])) + 1, piece.size)
        line_end = text[int(places.ends[first]) : text.find(b"\n", int(places.ends[first])) + 1]
        before = piece.upto(low)
        self._sink.write(line_end if not before and self._has_sequence else before)
        self._has_sequence = True
        for rank, labelling in enumerate(best):
            piece.row, piece.at = first, low
            self._sink.write(b"# %d %.6g" % (rank, labelling.probability) + line_end)
            self._sink.write(piece.rows(self._columns, labelling.columns).data)
            self._sink.write(piece.upto(high) if rank + 1 == len(best) else line_end + line_end)

    def _whole(self, rows: int) -> _Piece:
        """The next piece, joined with those that follow until it has this many rows."""
        parts = [self._pieces.popleft()]
        while sum(part.left for part in parts) < rows:
            parts.append(self._pieces.popleft())
        piece = parts[0] if len(parts) == 1 else _joined(parts)
        if not piece.lines:
            raise ChainfoldError("several labellings of a sequence can be written only as CoNLL or CRFsuite lines.")
        self._pieces.appendleft(piece)
        return piece

    def finish(self) -> None:
        for piece in self._pieces:
            assert not piece.left, "every row is added to"
            self._sink.write(piece.upto(piece.size))


def _joined(parts: Sequence[_Piece]) -> _Piece:
    """The rest of some pieces as one piece."""
    texts = [part.text[part.at : part.size] for part in parts[:-1]] + [parts[-1].text[parts[-1].at :]]
    shifts = np.cumsum([0, *map(len, texts[:-1])]) - [part.at for part in parts]
    begins = np.concatenate([part.places.begins[part.row :] + shift for part, shift in zip(parts, shifts, strict=True)])
    ends = np.concatenate([part.places.ends[part.row :] + shift for part, shift in zip(parts, shifts, strict=True)])
    separators = np.concatenate([part.places.separators[part.row :] for part in parts])
    size = sum(map(len, texts)) - (len(parts[-1].text) - parts[-1].size)
    return _Piece(b"".join(texts), size, Places(begins, ends, separators), lines=all(part.lines for part in parts))


class _Table(_Writer):
    """Parquet and Arrow, a batch at a time."""

    what = "a table"

    def _begin(self) -> None:
        self._waiting: deque[RawRows] = deque()
        self._values: list[Sequence[Values]] = []  # those of the batch that waits first
        self._there = 0  # how many rows they are of
        self._first: RawRows | None = None
        self._schema: Any = None
        self._to: Any = None

    def keep(self, raw: RawRows) -> None:
        if self._first is None:
            self._open(raw)
            self._first = raw._replace(batch=None)
        names, expected = raw.schema.names, self._first.schema.names
        if names != expected:
            problem = f"its columns are {', '.join(names)}, but those of {self._first.source} are {', '.join(expected)}"
            raise BadFile(raw.source, f"{problem}; tag them one at a time.")
        if raw.batch.num_rows:
            self._waiting.append(raw)

    def _open(self, raw: RawRows) -> None:
        _check_names(self._columns, raw.schema.names, raw.source)
        self._schema = raw.schema
        for column in self._columns:
            self._schema = self._schema.append(pa.field(column.name, column.type))
        if raw.kind is TableKind.PARQUET:
            if self._piped:
                raise BadFile(raw.source, "is Parquet, which cannot go to standard output; write it to a file.")
            import pyarrow.parquet as pq

            self._to = pq.ParquetWriter(self._sink, self._schema)
        elif raw.kind is TableKind.ARROW_FILE and not self._piped:
            self._to = pa.ipc.new_file(self._sink, self._schema)
        else:
            self._to = pa.ipc.new_stream(self._sink, self._schema)

    def add(self, values: Sequence[Values]) -> None:
        self._values.append(values)
        self._there += values[0].size
        if self._waiting and self._there >= self._waiting[0].batch.num_rows:
            self._write_whole([np.concatenate(parts) for parts in zip(*self._values, strict=True)])

    def _write_whole(self, columns: Sequence[Values]) -> None:
        """Write the batches that have all their values, and keep the values that are left over."""
        low = 0
        while self._waiting and self._there - low >= (rows := self._waiting[0].batch.num_rows):
            self._write(self._waiting.popleft(), [column[low : low + rows] for column in columns])
            low += rows
        self._values, self._there = [[column[low:] for column in columns]], self._there - low

    def add_sequence(self, best: Sequence[Labelling]) -> None:
        raise ChainfoldError(
            "several labellings of a sequence cannot be written as a table; ask for the best one only."
        )

    def _write(self, raw: RawRows, values: Sequence[Values]) -> None:
        try:
            old = [_of_type(column, kind) for column, kind in zip(raw.batch.columns, self._schema.types, strict=False)]
            new = [column.array(part) for column, part in zip(self._columns, values, strict=True)]
            self._to.write_batch(pa.RecordBatch.from_arrays([*old, *new], schema=self._schema))
        except pa.ArrowException as error:
            problem = f"cannot be written behind the rows before it: {str(error).splitlines()[0].rstrip('. ')}"
            raise BadFile(raw.source, f"{problem}; tag it on its own.") from None

    def finish(self) -> None:
        assert not self._waiting, "every row is added to"
        self._to.close()

    def abandon(self) -> None:
        with suppress(OSError, pa.ArrowException):
            if self._to is not None:
                self._to.close()


class _Objects(_Writer):
    """JSON lines: new fields before the closing brace of each object."""

    what = "JSON lines"

    def _begin(self) -> None:
        self._waiting: deque[RawObjects] = deque()
        self._done = 0  # objects of the first that are written
        self._at = 0  # what of its text is written
        self._values: list[list[str]] = [[] for _ in self._columns]  # the values that were not written yet, as JSON
        self._open_line = False  # is a line end missing between the inputs?

    def keep(self, raw: RawObjects) -> None:
        for column in self._columns:
            self._check_new(raw, column.name)
        chunk = raw.chunk
        if self._open_line:
            raw = raw._replace(chunk=chunk._replace(data=b"\n" + chunk.data), ends=raw.ends + 1)
        self._open_line = chunk.added > 0
        self._waiting.append(raw)

    def _check_new(self, raw: RawObjects, name: str) -> None:
        """Raise if an object has a field of this name."""
        data, quoted = raw.chunk.data, json.dumps(name, ensure_ascii=False).encode()
        at = data.find(quoted)
        while at >= 0:
            begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
            if name in json.loads(data[begin:end]):
                line = raw.chunk.line + count_of(b"\n", data[:begin])
                raise BadFile(
                    raw.source, f"line {line} has a field {name!r} already, as the new one is called; rename it."
                )
            at = data.find(quoted, end)

    def add(self, values: Sequence[Values]) -> None:
        for waiting, column, part in zip(self._values, self._columns, values, strict=True):
            waiting += column.json(part)
        self._write_whole()

    def _write_whole(self) -> None:
        """Write the objects that have all their values."""
        low, there = 0, len(self._values[0])
        while self._waiting:
            raw = self._waiting[0]
            counts = (
                raw.counts[self._done :] if raw.counts is not None else np.ones(raw.ends.size - self._done, np.int64)
            )
            ready = int(np.searchsorted(np.cumsum(counts), there - low, side="right"))
            low = self._write(raw, counts[:ready], low)
            if self._done < raw.ends.size:
                break
            self._write_rest(self._waiting.popleft())
        self._values = [values[low:] for values in self._values]

    def _write(self, raw: RawObjects, counts: NDArray[np.int64], low: int) -> int:
        """The next objects, whose values begin at `low`; returns where those after them begin."""
        data, parts, ends = raw.chunk.data, [], raw.ends[self._done : self._done + counts.size].tolist()
        names = [f", {json.dumps(column.name, ensure_ascii=False)}: " for column in self._columns]
        for end, count in zip(ends, counts.tolist(), strict=True):
            fields = [values[low : low + count] for values in self._values]
            low += count
            texts = [part[0] if raw.counts is None else f"[{', '.join(part)}]" for part in fields]
            parts += [data[self._at : end], "".join(map(str.__add__, names, texts)).encode()]
            self._at = end
        self._done += counts.size
        if self._live and counts.size:  # only whole lines
            end = data.find(b"\n", self._at) + 1
            parts.append(data[self._at : end])
            self._at = end
        self._sink.write(b"".join(parts))
        return low

    def _write_rest(self, raw: RawObjects) -> None:
        self._sink.write(raw.chunk.data[self._at : len(raw.chunk.data) - raw.chunk.added])
        self._done = self._at = 0

    def add_sequence(self, best: Sequence[Labelling]) -> None:
        raise ChainfoldError("several labellings of a sequence can be written only as CoNLL or CRFsuite lines.")

    def finish(self) -> None:
        self._write_whole()
        assert not self._waiting, "every row is added to"


_KINDS: dict[type, type[_Writer]] = {RawLines: _Text, RawFields: _Text, RawRows: _Table, RawObjects: _Objects}


def _of_type(column: Any, kind: Any) -> Any:
    """A column in the type that it has in the file."""
    if column.type == kind:
        return column
    if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    return column.cast(kind)


def _check_names(columns: Sequence[_Column], names: Sequence[str], source: str) -> None:
    for column in columns:
        if column.name in names:
            raise BadFile(source, f"has a column {column.name!r} already, as the new one is called; rename it.")
