"""Tables: CSV and TSV, Parquet, Arrow IPC, and tables that are already in memory.

Whatever the types of a table, its columns become those of `data.columns`: text, categories, booleans and dates are
symbols, numbers are numbers, lists of text are bags. CSV goes through pyarrow a chunk of whole lines at a time; where
pyarrow finds something wrong, the chunk is looked at again, slowly, for the line, the column and the text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from chainfold.errors import BadFile, BadLines, ChainfoldError
from chainfold.readers.columns import BAG, NO_COLUMN, NUMBER, SYMBOL, VALUES_SUFFIX, Choice, Stretch
from chainfold.readers.inputs import (
    Chunk,
    RawFields,
    RawRows,
    Stream,
    TableKind,
    after_last_line,
    count_of,
    ends_of_plain_rows,
    unreadable,
)
from chainfold.readers.table_sizes import CheckedStream, check_blocks, check_cells, rows_at_once
from chainfold.readers.text import Taken, TextReader, counted, first_no_number, surely_no_numbers
from chainfold.readers.text_kernels import quoted_rows

ROWS = 65536
CSV_CHUNK = 1 << 20
TABLE = "the table"
_ONE_LINE = "a row that is followed is one line"
_BLOCK = 1 << 20
_QUOTE, _NO_QUOTE = ord('"'), -1
_ARROW_MAGIC = b"ARROW1"
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


class CsvReader(TextReader):
    """Rows of fields; what the first rows of the first input look like holds for all that follow.

    Of an input that is still being written, a row is a line, and every column that is not of symbols is of numbers,
    whatever its first rows look like; where the input goes on in another file, the header may be there again.
    """

    def __init__(
        self,
        delimiter: str,
        columns: tuple[str, ...] | None = None,
        header: bool | None = None,
        symbols: Choice = NO_COLUMN,
        chunk: int = CSV_CHUNK,
        live: bool = False,
    ) -> None:
        super().__init__(chunk)
        self._delimiter = delimiter
        self._quotes = delimiter == ","  # in files with tabs a quote is a letter like any other
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

    def go_on(self) -> None:
        self._begun = False

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
        rows = chunk
        if not self._begun and chunk.data.strip(b"\r\n"):
            rows, self._begun = self._begin(chunk, source), True
        begin = len(chunk.data) - len(rows.data)
        header = tuple(self._names) if begin else ()
        raw = RawFields(source, chunk, self._delimiter, self._quotes, header, begin)
        if not rows.data.strip(b"\r\n"):
            return Taken([], raw)
        lines = self._lines(rows, source)
        self._types = self._types or self._types_of(rows, lines, source)
        fresh, self._fresh = self._fresh, False
        return Taken(list(_cut_up(self._table(rows, lines, source), lines, source, fresh)), raw)

    def _cut(self, data: bytes) -> int:
        if self._quotes and b'"' in data:
            return int(self._rows(data, 1)[1])
        return after_last_line(data)

    def _rows(self, data: bytes, line: int) -> tuple[NDArray[np.int64], int]:
        """The line of every row, and where the last whole row ends."""
        lines = np.empty(count_of(b"\n", data) + count_of(b"\r", data), np.int64)
        quote = _QUOTE if self._quotes else _NO_QUOTE
        rows, end = quoted_rows(np.frombuffer(data, np.uint8), ord(self._delimiter), quote, line, lines)
        return lines[:rows], end

    def _lines(self, chunk: Chunk, source: str) -> NDArray[np.int64]:
        data = chunk.data
        plain = ends_of_plain_rows(data, self._quotes)
        if plain is not None:
            return np.arange(chunk.line, chunk.line + plain.size)
        lines, end = self._rows(data, chunk.line)
        if end < len(data):
            line = chunk.line + data.count(b"\n", 0, end)
            closed = f"not closed on it; {_ONE_LINE}" if self._live else "never closed"
            problem = f"a quote is opened in the row that begins on line {line}, but {closed}."
            raise BadLines(source, problem, lambda: self._unclosed(chunk))
        if self._live and np.unique(lines).size < sum(bool(line.strip(b"\r")) for line in data.split(b"\n")):
            problem = f"a quoted field spans lines from line {chunk.line} on; {_ONE_LINE}."
            raise BadLines(source, problem, lambda: self._unclosed(chunk))
        return lines

    def _unclosed(self, chunk: Chunk) -> NDArray[np.int64]:
        """The lines on which a quote is opened and not closed."""
        lines = [line + b"\n" for line in chunk.data.removesuffix(b"\n").split(b"\n")]
        return np.array(
            [
                number
                for number, line in enumerate(lines, chunk.line)
                if b'"' in line and self._rows(line, number)[1] < len(line)
            ],
            np.int64,
        )

    def _begin(self, chunk: Chunk, source: str) -> Chunk:
        """Look at the first row of an input; give the rows that follow its header."""
        row, rest = self._first_row(chunk, source)
        again = self._live and self._first is not None
        if self._first is None:
            self._header = _looks_like_names(row) if self._header is None else self._header
            self._names = self._named(row, source)
            self._first = source, row
        first, names = self._first
        if self._header and row != names:
            if again:
                return chunk
            raise BadFile(source, f"its columns are {_listed(row)}, but those of {first} are {_listed(names)}.")
        return rest if self._header else chunk

    def _first_row(self, chunk: Chunk, source: str) -> tuple[list[str], Chunk]:
        decoded = chunk.data.decode()
        text = io.StringIO(decoded, newline="")
        csv.field_size_limit(max(csv.field_size_limit(), len(decoded)))
        quoting: Any = csv.QUOTE_MINIMAL if self._quotes else csv.QUOTE_NONE
        try:
            row = next(row for row in csv.reader(text, delimiter=self._delimiter, quoting=quoting) if row)
        except (csv.Error, StopIteration) as error:
            raise BadFile(source, f"line {chunk.line} cannot be read: {error}.") from None
        end = len(decoded[: text.tell()].encode())
        return row, chunk._replace(data=chunk.data[end:], line=chunk.line + chunk.data.count(b"\n", 0, end))

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
            return self._parsed(chunk.data, self._types, _BLOCK, True, [])
        except pa.ArrowInvalid:
            return self._table_slowly(chunk, lines, source)

    def _table_slowly(self, chunk: Chunk, lines: NDArray[np.int64], source: str) -> Any:
        """The table if its rows were only too long, else a sentence."""
        ragged: list[Any] = []
        try:
            return self._parsed(chunk.data, self._types, len(chunk.data) + 1, False, ragged)
        except pa.ArrowInvalid as error:
            if ragged:
                raise self._ragged(ragged[0], chunk, lines, source) from None
            table = self._parsed(chunk.data, {}, len(chunk.data) + 1, False, [])
            raise self._no_number(table, lines, source, error) from None

    def _parsed(
        self, data: bytes, types: dict[str, Any], block: int, threads: bool, ragged: list[Any], go_on: bool = False
    ) -> Any:
        """The rows of a chunk; columns without a type are symbols, and a row of another width is put into `ragged`."""

        def note(row: Any) -> str:
            ragged.append(row)
            return "skip" if go_on else "error"

        quoted = self._quotes and b'"' in data
        return pa_csv.read_csv(
            pa.py_buffer(data),
            pa_csv.ReadOptions(column_names=self._names, block_size=block, use_threads=threads),
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

    def _ragged(self, row: Any, chunk: Chunk, lines: NDArray[np.int64], source: str) -> BadFile:
        found, expected = counted(row.actual_columns, "field"), counted(row.expected_columns, "column")
        remedy = "quote a field that has a comma in it." if self._quotes else "is a tab missing, or one too many?"
        problem = f"line {lines[row.number - 1]} has {found}, but the first line has {expected}; {remedy}"
        return BadLines(source, problem, lambda: lines[self._all_ragged(chunk)])

    def _all_ragged(self, chunk: Chunk) -> list[int]:
        """The rows of another width."""
        ragged: list[Any] = []
        self._parsed(chunk.data, {}, len(chunk.data) + 1, False, ragged, go_on=True)
        return [row.number - 1 for row in ragged]

    def _no_number(self, table: Any, lines: NDArray[np.int64], source: str, error: Exception) -> BadFile:
        """The first field that should be a number but is not; `table` has symbols only."""
        found = [
            (row, name, text)
            for name in self._names
            if self._types.get(name) == NUMBER
            for row, text in _first_word(table.column(name))
        ]
        if not found:
            return BadFile(source, f"lines {lines[0]} to {lines[-1]} cannot be read: {_first_line(error)}.")
        row, name, text = min(found)
        problem = f"line {lines[row]}, column {name!r}: {text!r} is not a number, as those before it are"
        problem = f"{problem}; correct it, or read the column with --symbols."
        return BadLines(source, problem, lambda: lines[self._no_numbers(table)])

    def _no_numbers(self, table: Any) -> NDArray[np.bool_]:
        """The rows with a field that should be a number and is certainly none."""
        wrong = np.zeros(table.num_rows, np.bool_)
        for name in self._names:
            if self._types.get(name) == NUMBER:
                texts = _one_array(table.column(name))
                codes = texts.indices.fill_null(-1).to_numpy(zero_copy_only=False)
                wrong |= np.append(surely_no_numbers(_trimmed(texts.dictionary)), False)[codes]
        return wrong


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
    return any(len(part) for part in parts) and all(first_no_number(part) is None for part in parts)


def _first_word(column: Any) -> Iterator[tuple[int, str]]:
    """The first row of a column of symbols that is not a number, and its text, if there is one."""
    texts = _one_array(column)
    code = first_no_number(_trimmed(texts.dictionary))
    if code is not None:
        yield pc.index(texts.indices, pa.scalar(code, pa.int32())).as_py(), texts.dictionary[code].as_py()


def _one_array(column: Any) -> Any:
    texts = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return texts.chunk(0) if isinstance(texts, pa.ChunkedArray) else texts


def _listed(names: list[str]) -> str:
    return ", ".join(names)


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(". ")


@contextmanager
def _in_one_sentence(name: str, what: str) -> Iterator[None]:
    """Whatever pyarrow and Python may raise."""
    try:
        yield
    except (ChainfoldError, MemoryError):
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # it is the system that cannot read it
            raise unreadable(name, error) from None
        raise BadFile(name, f"{what}: {_first_line(error)}.") from None


class ParquetReader:
    """Parquet, a row group at a time."""

    def __init__(self, columns: tuple[str, ...] | None = None, symbols: Choice = NO_COLUMN) -> None:
        self._columns, self._symbols = columns, symbols

    def read(self, stream: Stream) -> Iterator[Stretch]:
        where = _to_seek_in(stream, "Parquet")
        with _in_one_sentence(stream.name, "cannot be read as Parquet"):
            file = pq.ParquetFile(where, pre_buffer=False)
            schema = file.schema_arrow
            _check_types(schema, self._columns, self._symbols, stream.name)
            texts = [field.name for field in schema if _is_text(field.type)]
            file = pq.ParquetFile(where, pre_buffer=False, read_dictionary=texts)
            rows = max(file.metadata.num_rows, 1)
            batches = _kept(_batches_of_groups(file, where, stream.name), TableKind.PARQUET, schema, stream)
            for stretch in _stretches(batches, self._columns, self._symbols, stream.name):
                yield stretch
                stream.reached(int(stretch.lines[-1]) / rows)


def _batches_of_groups(file: Any, where: Any, name: str) -> Iterator[Any]:
    """A Parquet file in batches that take little memory; its row groups as one where they are small."""
    with open(where, "rb") if isinstance(where, Path) else nullcontext(where) as raw:  # noqa: PTH123
        sizes = rows_at_once(raw, file.schema, ROWS, name)
        if len(sizes) != file.num_row_groups:
            raise BadFile(name, "cannot be read as Parquet: its footer is damaged; fetch the file again.")
        for size, groups in groupby(range(file.num_row_groups), key=sizes.__getitem__):
            yield from file.iter_batches(batch_size=size, row_groups=list(groups))


class ArrowReader:
    """Arrow IPC, files and streams, a record batch at a time."""

    def __init__(self, columns: tuple[str, ...] | None = None, symbols: Choice = NO_COLUMN) -> None:
        self._columns, self._symbols = columns, symbols

    def read(self, stream: Stream) -> Iterator[Stretch]:
        is_file = stream.peek(len(_ARROW_MAGIC)) == _ARROW_MAGIC
        batches = _batches_of_file(stream) if is_file else _batches_of_stream(stream)
        with _in_one_sentence(stream.name, "cannot be read as Arrow IPC, or is cut short"):
            yield from _stretches(batches, self._columns, self._symbols, stream.name)


def _kept(batches: Any, kind: TableKind, schema: Any, stream: Stream) -> Iterator[Any]:
    for batch in batches:
        stream.keep(RawRows(stream.name, kind, batch, schema))
        yield batch


def _batches_of_stream(stream: Stream) -> Iterator[Any]:
    checked = CheckedStream(stream, stream.compression is not None, stream.name)
    reader = pa.ipc.open_stream(pa.PythonFile(checked, mode="r"))
    _check_no_chain(reader.schema, stream)
    yield from _kept(reader, TableKind.ARROW_STREAM, reader.schema, stream)


def _batches_of_file(stream: Stream) -> Iterator[Any]:
    where = _to_seek_in(stream, "an Arrow file")
    with open(where, "rb") if isinstance(where, Path) else nullcontext(where) as raw:  # noqa: PTH123
        check_blocks(raw, stream.name)
    with pa.OSFile(str(where)) if isinstance(where, Path) else pa.PythonFile(where, mode="r") as source:
        reader = pa.ipc.open_file(source)
        _check_no_chain(reader.schema, stream)
        batches = (reader.get_batch(k) for k in range(reader.num_record_batches))
        for k, batch in enumerate(_kept(batches, TableKind.ARROW_FILE, reader.schema, stream)):
            yield batch
            stream.reached((k + 1) / reader.num_record_batches)


def _check_no_chain(schema: Any, stream: Stream) -> None:
    if b"chainfold" in (schema.metadata or {}):
        raise BadFile(stream.name, "is a chain, encoded already; give one chain alone, by its name, or raw files.")


def _to_seek_in(stream: Stream, what: str) -> Any:
    """The path or the file behind a stream, for a format whose index is at the end."""
    if stream.compression:
        raise BadFile(stream.name, f"is {what} inside {stream.compression} data; decompress it first.")
    where = stream.path or stream.input.file
    if where is None:
        raise BadFile(stream.name, f"{what} cannot be read from a pipe, as its index is at the end; name the file.")
    return where


def read_memory(table: object, columns: tuple[str, ...] | None, symbols: Choice) -> Iterator[Stretch]:
    """Arrow, pandas and polars tables, and NumPy arrays."""
    with _in_one_sentence(TABLE, f"this {type(table).__name__} cannot be read as a table"):
        yield from _stretches(_batches(table), columns, symbols, TABLE)


def _batches(table: Any) -> Iterator[Any]:
    if isinstance(table, np.ndarray):
        return _array_batches(table)
    if isinstance(table, pa.RecordBatch):
        return iter([table])
    if hasattr(table, "__arrow_c_stream__"):
        return iter(pa.RecordBatchReader.from_stream(table))
    raise TypeError("give an Arrow, pandas or polars table, or a NumPy array of two dimensions or with named fields")


def _array_batches(array: NDArray[Any]) -> Iterator[Any]:
    if array.dtype.names is None and array.ndim != 2:
        raise TypeError(f"it has {counted(array.ndim, 'dimension')}; give it two, or named fields")
    for low in range(0, len(array), ROWS):
        part = array[low : low + ROWS]
        named = {name: part[name] for name in array.dtype.names or ()}
        columns = named or {str(k): part[:, k] for k in range(part.shape[1])}
        yield pa.RecordBatch.from_pydict({name: pa.array(column) for name, column in columns.items()})


def _check_types(schema: Any, names: tuple[str, ...] | None, symbols: Choice, source: str) -> None:
    """Raise if a column can be nothing of ours, before any of it is read."""
    nothing = _named(pa.RecordBatch.from_pylist([], schema=schema), names, source)
    _normal(nothing, symbols, np.empty(0, np.int64), source)


def _stretches(batches: Any, names: tuple[str, ...] | None, symbols: Choice, source: str) -> Iterator[Stretch]:
    row = 1
    for batch in batches:
        for low in range(0, batch.num_rows, ROWS):
            part = _named(batch.slice(low, ROWS), names, source)
            lines = np.arange(row, row + part.num_rows)
            starts = np.zeros(part.num_rows, np.bool_)
            starts[0] = row == 1
            part.validate(full=True)  # nothing is looked at before it is known to be sound
            check_cells(part, lines, source)
            yield Stretch(_normal(part, symbols, lines, source), starts, lines, source, "row")
            row += part.num_rows


def _named(batch: Any, names: tuple[str, ...] | None, source: str) -> Any:
    """The batch without an index of pandas, its columns called as the user says."""
    batch = _without_index(batch)
    if names is None:
        return batch
    if len(names) != batch.num_columns:
        raise BadFile(source, f"has {counted(batch.num_columns, 'column')}, but there are names for {len(names)}.")
    return batch.rename_columns(list(names))


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


def _without_index(batch: Any) -> Any:
    """The batch without the index that pandas adds to the columns of a table."""
    return batch.select([k for k, name in enumerate(batch.schema.names) if not _PANDAS_INDEX.fullmatch(name)])


def _normal(batch: Any, symbols: Choice, lines: NDArray[np.int64], source: str) -> Any:
    """The batch with our types of columns."""
    names = batch.schema.names
    as_symbols = symbols(names)
    columns = {}
    for name, column in zip(names, batch.columns, strict=True):
        if name in columns:
            raise BadFile(source, f"two columns are called {name!r}; name the columns yourself.")
        owner = name.removesuffix(VALUES_SUFFIX)
        try:
            if owner != name and owner in names:
                columns[name] = _list_of(column, pc.list_flatten(column).cast(NUMBER, safe=False))
            else:
                columns[name] = _column(column, name in as_symbols)
        except (pa.ArrowException, TypeError):
            problem = f"column {name!r} is of type {column.type}, which is neither text nor numbers nor lists of text"
            raise BadFile(source, f"{problem}; leave it out or convert it.") from None
    for name in names:
        if pa.types.is_large_list(columns[name].type):
            _check_bag(columns, name, lines, source)
    return pa.RecordBatch.from_pydict(columns)


def _column(column: Any, as_symbols: bool) -> Any:
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _column(column.storage, as_symbols)
    if _is_list(kind):
        entries = pc.list_flatten(column)
        if not (_is_text(entries.type) or pa.types.is_dictionary(entries.type) or pa.types.is_null(entries.type)):
            raise TypeError(kind)
        return _list_of(column, _as_symbols(entries))
    if _is_number_type(kind) and not as_symbols:
        return column.cast(NUMBER, safe=False)
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
    if _is_number_type(kind) or _is_text(kind) or _is_word(kind):
        return _as_symbols(column)
    raise TypeError(kind)


def _is_list(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number_type(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_word(kind: Any) -> bool:
    """Something else that is written as one word."""
    types = pa.types
    dates = types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind)
    return bool(types.is_dictionary(kind) or types.is_boolean(kind) or types.is_null(kind) or dates)


def _as_symbols(column: Any) -> Any:
    if not pa.types.is_dictionary(column.type):
        return column.cast(pa.string()).dictionary_encode()
    used = tidy(column)
    strings = used.dictionary.cast(pa.string())
    if strings.null_count:
        return strings.take(used.indices).dictionary_encode()
    return pa.DictionaryArray.from_arrays(used.indices.cast(pa.int32()), strings)


def tidy(column: Any) -> Any:
    """The same symbols, their dictionary only of what occurs, in order of first appearance."""
    used = pc.unique(column.indices.drop_null())
    if len(used) == len(column.dictionary) and (used.to_numpy() == np.arange(len(used))).all():
        return column
    place = np.zeros(len(column.dictionary), np.int32)
    place[used.to_numpy()] = np.arange(len(used))
    entries = column.dictionary
    entries = entries.cast(pa.string()) if pa.types.is_string_view(entries.type) else entries
    return pa.DictionaryArray.from_arrays(pa.array(place).take(column.indices), entries.take(used))


def _list_of(lists: Any, entries: Any) -> Any:
    """Large lists with these entries, of the lengths of other lists; a missing list is empty."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return pa.LargeListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])), entries)


def _check_bag(columns: dict[str, Any], name: str, lines: NDArray[np.int64], source: str) -> None:
    """No entry may be missing, and a bag has as many values as attributes."""
    bag = columns[name]
    offsets = bag.offsets.to_numpy()
    if bag.values.null_count:
        entry = np.argmax(bag.values.is_null().to_numpy(zero_copy_only=False))
        row = lines[np.searchsorted(offsets, entry, side="right") - 1]
        raise BadFile(source, f"row {row}, column {name!r}: an entry of the list is missing.")
    values = columns.get(name + VALUES_SUFFIX)
    if values is not None and not np.isfinite(values.values.to_numpy(zero_copy_only=False)).all():
        entry = np.argmin(np.isfinite(values.values.to_numpy(zero_copy_only=False)))
        row = lines[np.searchsorted(values.offsets.to_numpy(), entry, side="right") - 1]
        raise BadFile(source, f"row {row}, column {name + VALUES_SUFFIX!r}: a value is not a finite number.")
    if bag.type == BAG and values is not None and (offsets != values.offsets.to_numpy()).any():
        row = lines[np.argmax(offsets[1:] != values.offsets.to_numpy()[1:])]
        raise BadFile(source, f"row {row}, column {name!r}: there are not as many values as attributes.")
