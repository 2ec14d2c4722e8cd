"""CSV and TSV: the header, the types of columns, quoted fields, ragged lines.

pyarrow reads a chunk of whole lines at a time; where it fails, the chunk is read again, slowly, for the line, the
column and the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from chainfold.errors import BadFile, BadLines
from chainfold.readers.columns import NO_COLUMN, NUMBER, SYMBOL, Choice, Stretch
from chainfold.readers.inputs import (
    BOM,
    Chunk,
    RawFields,
    Stream,
    after_last_line,
    chunks,
    line_ends,
)
from chainfold.readers.tables import ROWS, first_line, one_array, tidy
from chainfold.readers.text import (
    Taken,
    TextReader,
    all_numbers,
    counted,
    not_numbers,
    rows_of_fields,
    without_comments,
)

_ONE_LINE = "a row that is followed is one line"
_ONE_LINE_BESIDE_COMMENTS = "with `comments`, a row is one line"
_BLOCK = 1 << 20


class CsvReader(TextReader):
    """Rows of fields; what the first rows of the first input look like holds for all that follow.

    Of an input that is still being written, a row is a line, and every column that is not of symbols is of numbers,
    even if its first rows look different.
    """

    chunk_size = 1 << 20

    def __init__(
        self,
        delimiter: str,
        quotes: bool,
        columns: Sequence[str] | None = None,
        header: bool | None = None,
        symbols: Choice = NO_COLUMN,
        live: bool = False,
        comments: str | None = None,
    ) -> None:
        """comments: what lines begin with that are no rows; a row is then one line."""
        self.comments = (comments or "").encode()
        self._one_line = _ONE_LINE if live else _ONE_LINE_BESIDE_COMMENTS if comments else None
        self._delimiter = delimiter
        self._quotes = quotes
        self._given = columns
        self._header = header
        self._symbols = symbols
        self._live = live
        self._first: tuple[str, list[str]] | None = None  # the name of the first input and its first row
        self._names: list[str] = []
        self._types: dict[str, Any] = {}
        self._begun = False  # was there a row, or a header, in this input?
        self._fresh = True  # does the next row start a sequence?

    def begin(self) -> None:
        self._begun, self._fresh = False, True

    def begin_within(self) -> None:
        self._begun, self._fresh = True, False

    @property
    def spans_lines(self) -> bool:
        return self._quotes and not self._one_line

    @property
    def has_header(self) -> bool:
        return self._header is not False

    @property
    def stand_in(self) -> bytes:
        return self._delimiter.join(["1"] * len(self._names)).encode() + b"\n"

    @property
    def between(self) -> bool:
        return self._fresh

    def state(self) -> Any:
        return self._begun, self._fresh, self._header, self._first, self._names, self._types

    def restore(self, state: Any) -> None:
        self._begun, self._fresh, self._header, self._first, self._names, self._types = state

    def take(self, chunk: Chunk, source: str) -> Taken:
        whole, blotted = chunk, None
        if self.comments:
            blotted = without_comments(chunk.data, self.comments)
            chunk = chunk._replace(data=blotted)
        rows = chunk
        if not self._begun and chunk.data.strip(b"\r\n"):
            rows, self._begun = self._begin(chunk, source), True
        begin = len(chunk.data) - len(rows.data)
        header = tuple(self._names) if begin else ()
        raw = RawFields(source, whole, self._delimiter, self._quotes, header, begin, blotted)
        if not rows.data.strip(b"\r\n"):
            return Taken([], raw)
        lines = self._lines(rows, source)
        self._types = self._types or self._types_of(rows, lines, source)
        fresh, self._fresh = self._fresh, False
        return Taken(list(_cut_up(self._table(rows, lines, source), lines, source, fresh)), raw)

    def _cut(self, data: bytes) -> int:
        if self._quotes and b'"' in data and not self.comments:
            return self._rows(data)[1]
        return after_last_line(data)

    def _rows(self, data: bytes) -> tuple[NDArray[np.int64], int]:
        """The line of every row, counted from 0, and where the last whole row ends."""
        begins, _, end = rows_of_fields(data, 0, self._delimiter, self._quotes)
        return np.searchsorted(line_ends(data), begins), end

    def row_places(self, stream: Stream) -> Iterator[NDArray[np.int64]]:
        """The bytes at which rows begin, a chunk at a time; the stream begins where the input does."""
        done = 0 if stream.peek(len(BOM)) != BOM else len(BOM)
        for chunk in chunks(stream, self.chunk_size, self._cut):
            lines = np.unique(self._rows(chunk.data)[0])
            yield done + np.append(0, line_ends(chunk.data) + 1)[lines]
            done += len(chunk.data)

    def _lines(self, chunk: Chunk, source: str) -> NDArray[np.int64]:
        data = chunk.data
        lines, end = self._rows(data)
        if end < len(data):
            line = chunk.line + data.count(b"\n", 0, end)
            closed = f"not closed on it; {self._one_line}" if self._one_line else "never closed"
            problem = f"a quote is opened in the row that begins on line {line}, but {closed}."
            raise BadLines(source, problem, lambda: self._unclosed(chunk))
        if self._one_line and np.unique(lines).size < sum(bool(line.strip(b"\r")) for line in data.split(b"\n")):
            problem = f"a quoted field spans lines from line {chunk.line} on; {self._one_line}."
            raise BadLines(source, problem, lambda: self._unclosed(chunk))
        return chunk.line + lines

    def _unclosed(self, chunk: Chunk) -> NDArray[np.int64]:
        """The lines on which a quote is opened and not closed."""
        lines = [line + b"\n" for line in chunk.data.removesuffix(b"\n").split(b"\n")]
        return np.array(
            [
                number
                for number, line in enumerate(lines, chunk.line)
                if b'"' in line and self._rows(line)[1] < len(line)
            ],
            np.int64,
        )

    def _begin(self, chunk: Chunk, source: str) -> Chunk:
        """Read the first row of an input; returns the rows after its header."""
        row, rest = self._first_row(chunk)
        if self._first is None:
            self._header = _looks_like_names(row) if self._header is None else self._header
            self._names = self._named(row, source)
            self._first = source, row
        first, names = self._first
        if self._header and row != names:
            raise BadFile(source, f"its columns are {', '.join(row)}, but those of {first} are {', '.join(names)}.")
        return rest if self._header else chunk

    def _first_row(self, chunk: Chunk) -> tuple[list[str], Chunk]:
        """The fields of the first row, and the rows after it.

        They are as Python's `csv` would read them; its limit of the size of a field belongs to the whole process.
        """
        text = chunk.data.decode()
        delimiter = re.escape(self._delimiter)
        rest = rf"([^{delimiter}\r\n]*)({delimiter}|\r?\n|\r|\Z)"
        field = re.compile(rf'(?:"([^"]*+(?:""[^"]*+)*+)"?)?{rest}' if self._quotes else f"(){rest}")
        row, ended, end = [], False, len(text) - len(text.lstrip("\r\n"))
        while not ended:
            found = field.match(text, end)
            assert found is not None, "a field may be empty"
            row.append((found[1] or "").replace('""', '"') + found[2])
            ended, end = found[3] != self._delimiter, found.end()
        size = len(text[:end].encode())
        return row, chunk._replace(data=chunk.data[size:], line=chunk.line + chunk.data.count(b"\n", 0, size))

    def _named(self, row: list[str], source: str) -> list[str]:
        names = row if self._header else [str(k) for k in range(len(row))]
        if self._given is not None:
            if len(self._given) != len(row):
                raise BadFile(source, f"has {counted(len(row), 'column')}, but there are names for {len(self._given)}.")
            names = list(self._given)
        for name in names:
            if names.count(name) > 1:
                raise BadFile(source, f"two columns are called {name!r}; name the columns yourself.")
        return names

    def _types_of(self, chunk: Chunk, lines: NDArray[np.int64], source: str) -> dict[str, Any]:
        """A column is of numbers if it has any, and nothing else."""
        symbols = self._symbols(self._names)
        if self._live:
            return {name: SYMBOL if name in symbols else NUMBER for name in self._names}
        table = self._table(chunk, lines, source)
        return {
            name: NUMBER if name not in symbols and _only_numbers(table.column(name)) else SYMBOL
            for name in self._names
        }

    def _table(self, chunk: Chunk, lines: NDArray[np.int64], source: str) -> Any:
        try:
            return self._parsed(chunk.data, self._types)
        except pa.ArrowInvalid as error:
            return self._table_slowly(chunk, lines, source, error)

    def _table_slowly(self, chunk: Chunk, lines: NDArray[np.int64], source: str, error: Exception) -> Any:
        """The table if its rows were only too long, else a sentence."""
        ragged: list[Any] = []
        symbols = self._parsed(chunk.data, {}, ragged)
        if ragged:
            raise self._ragged(ragged, lines, source) from None
        try:
            return self._parsed(chunk.data, self._types, ragged)
        except pa.ArrowInvalid:
            raise self._no_number(symbols, lines, source, error) from None

    def _parsed(self, data: bytes, types: dict[str, Any], ragged: list[Any] | None = None) -> Any:
        """The rows of a chunk; columns without a type are symbols.

        ragged: gets the rows of another width, which are left out; then rows may be of any length.
        """

        def note(row: Any) -> str:
            if ragged is None:
                return "error"
            ragged.append(row)
            return "skip"

        quoted = self._quotes and b'"' in data
        if data.startswith(BOM):  # pyarrow takes it for a mark, wherever in the input the chunk begins
            data = BOM + data
        return pa_csv.read_csv(
            pa.py_buffer(data),
            pa_csv.ReadOptions(
                column_names=self._names,
                block_size=_BLOCK if ragged is None else len(data) + 1,
                use_threads=ragged is None,
            ),
            pa_csv.ParseOptions(
                delimiter=self._delimiter,
                quote_char='"' if quoted else False,
                newlines_in_values=quoted,
                invalid_row_handler=note,
            ),
            pa_csv.ConvertOptions(
                column_types={name: types.get(name, SYMBOL) for name in self._names},
                null_values=[""],
                strings_can_be_null=True,
                check_utf8=False,
            ),
        )

    def _ragged(self, rows: list[Any], lines: NDArray[np.int64], source: str) -> BadFile:
        row = rows[0]
        fields, expected = counted(row.actual_columns, "field"), counted(row.expected_columns, "column")
        remedy = "quote a field that has a comma in it." if self._quotes else "is a tab missing, or one too many?"
        problem = f"line {lines[row.number - 1]} has {fields}, but the first line has {expected}; {remedy}"
        return BadLines(source, problem, lambda: lines[[row.number - 1 for row in rows]])

    def _no_number(self, table: Any, lines: NDArray[np.int64], source: str, error: Exception) -> BadFile:
        """The first field that should be a number but is not; `table` has symbols only."""
        numbers = sorted(name for name in self._names if self._types.get(name) == NUMBER)
        wrong = {name: _words(one_array(table.column(name))) for name in numbers}
        rows = np.unique(np.concatenate([np.empty(0, np.int64), *wrong.values()]))
        if not rows.size:
            return BadFile(source, f"lines {lines[0]} to {lines[-1]} cannot be read: {first_line(error)}.")
        name = next(name for name in numbers if rows[0] in wrong[name])
        text = table.column(name)[int(rows[0])].as_py()
        problem = f"line {lines[rows[0]]}, column {name!r}: {text!r} is not a number, as those before it are"
        return BadLines(source, f"{problem}; correct it, or name the column in `symbols`.", lambda: lines[rows])


def _looks_like_names(row: list[str]) -> bool:
    return len(set(row)) == len(row) and all(field and not _is_number(field) for field in row)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _trimmed(texts: Any) -> Any:
    return pc.utf8_trim(texts, " \t")


def _only_numbers(column: Any) -> bool:
    parts = [_trimmed(part.dictionary) for part in column.chunks]
    return any(len(part) for part in parts) and all(map(all_numbers, parts))


def _words(symbols: Any) -> NDArray[np.int64]:
    """The rows whose symbols are not numbers."""
    codes = symbols.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.append(not_numbers(_trimmed(symbols.dictionary)), False)[codes])


def _cut_up(table: Any, lines: NDArray[np.int64], source: str, fresh: bool) -> Iterator[Stretch]:
    """The stretches of a table whose columns have their types, as few as there may be."""
    low = 0
    for batch in table.unify_dictionaries().combine_chunks().to_batches(max_chunksize=ROWS):
        high = low + batch.num_rows
        columns = [tidy(column) if column.type == SYMBOL else column for column in batch.columns]
        starts = np.zeros(batch.num_rows, np.bool_)
        starts[:1] = fresh and low == 0
        yield Stretch(pa.RecordBatch.from_arrays(columns, names=batch.schema.names), starts, lines[low:high], source)
        low = high
