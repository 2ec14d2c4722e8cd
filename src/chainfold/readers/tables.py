"""Tables in memory, and what all tables have in common: their types become those of `readers.columns`.

Text, categories, booleans and dates are symbols, numbers are numbers, lists of text are bags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chainfold.errors import BadFile, ChainfoldError
from chainfold.readers.columns import BAG, NUMBER, SYMBOL, VALUES_SUFFIX, Choice, Stretch
from chainfold.readers.inputs import LONGEST_LINE, RawRows, Stream, TableKind, unreadable
from chainfold.readers.text import counted

ROWS = 65536
TABLE = "the table"
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def read_memory(table: object, columns: Sequence[str] | None, symbols: Choice) -> Iterator[Stretch]:
    """Arrow, pandas and polars tables, and NumPy arrays."""
    with one_sentence(TABLE, f"this {type(table).__name__} cannot be read as a table"):
        yield from stretches_of_batches(_batches(table), columns, symbols, TABLE)


def _batches(table: Any) -> Iterator[Any]:
    if isinstance(table, np.ndarray):
        return _array_batches(table)
    if isinstance(table, pa.RecordBatch):
        return iter([table])
    if is_lazy(table):
        table = table.collect()
    if hasattr(table, "__arrow_c_stream__"):
        return iter(pa.RecordBatchReader.from_stream(table))
    raise TypeError("give an Arrow, pandas or polars table, or a NumPy array of two dimensions or with named fields")


def is_lazy(table: Any) -> bool:
    """Whether it is a query of polars that has not run."""
    return callable(getattr(table, "collect", None)) and callable(getattr(table, "collect_schema", None))


def _array_batches(array: NDArray[Any]) -> Iterator[Any]:
    if array.dtype.names is None and array.ndim != 2:
        raise TypeError(f"it has {counted(array.ndim, 'dimension')}; give it two, or named fields")
    for low in range(0, len(array), ROWS):
        part = array[low : low + ROWS]
        named = {name: part[name] for name in array.dtype.names or ()}
        columns = named or {str(k): part[:, k] for k in range(part.shape[1])}
        yield pa.RecordBatch.from_pydict({name: pa.array(column) for name, column in columns.items()})


def check_types(schema: Any, names: Sequence[str] | None, symbols: Choice, source: str) -> None:
    """Raise if a column can be nothing of ours, before any of it is read."""
    nothing = _named(pa.RecordBatch.from_pylist([], schema=schema), names, source)
    normal(nothing, symbols, np.empty(0, np.int64), source)


def stretches_of_batches(
    batches: Any, names: Sequence[str] | None, symbols: Choice, source: str, row: int = 1
) -> Iterator[Stretch]:
    """row: the number of the first, from 1."""
    for batch in batches:
        for low in range(0, batch.num_rows, ROWS):
            part = _named(batch.slice(low, ROWS), names, source)
            lines = np.arange(row, row + part.num_rows)
            starts = np.zeros(part.num_rows, np.bool_)
            starts[0] = row == 1
            part.validate(full=True)  # before any value is read
            rows = normal(part, symbols, lines, source)
            _check_cells(rows, lines, source)
            yield Stretch(rows, starts, lines, source, "row")
            row += part.num_rows


def _check_cells(batch: Any, lines: NDArray[np.int64], source: str) -> None:
    """Raise if a text is longer than a line may be."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        texts = column.values if column.type == BAG else column
        if texts.type == SYMBOL and (pc.max(pc.binary_length(texts.dictionary)).as_py() or 0) > LONGEST_LINE:
            where = f"rows {lines[0]} to {lines[-1]}, column {name!r}"
            problem = f"a cell has more than {LONGEST_LINE >> 20} MB; shorten it, or leave the column out"
            raise BadFile(source, f"{where}: {problem}.")


def _named(batch: Any, names: Sequence[str] | None, source: str) -> Any:
    """The batch without an index of pandas, its columns called as the user says."""
    batch = batch.select([k for k, name in enumerate(batch.schema.names) if not _PANDAS_INDEX.fullmatch(name)])
    if names is None:
        return batch
    if len(names) != batch.num_columns:
        raise BadFile(source, f"has {counted(batch.num_columns, 'column')}, but there are names for {len(names)}.")
    return batch.rename_columns(list(names))


def normal(batch: Any, symbols: Choice, lines: NDArray[np.int64], source: str) -> Any:
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


def one_array(column: Any) -> Any:
    """A column in one piece."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.chunk(0) if isinstance(array, pa.ChunkedArray) else array


def _column(column: Any, as_symbols: bool) -> Any:
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _column(column.storage, as_symbols)
    if _is_list(kind):
        entries = pc.list_flatten(column)
        if not (is_text(entries.type) or pa.types.is_dictionary(entries.type) or pa.types.is_null(entries.type)):
            raise TypeError(kind)
        return _list_of(column, _as_symbols(entries))
    if _is_number_type(kind) and not as_symbols:
        return column.cast(NUMBER, safe=False)
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
    if _is_number_type(kind) or is_text(kind) or _is_word(kind):
        return _as_symbols(column)
    raise TypeError(kind)


def _is_list(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number_type(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_text(kind: Any) -> bool:
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
    """The symbols with a dictionary only of those that occur, in order of first appearance."""
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


def keeping(batches: Any, kind: TableKind, schema: Any, stream: Stream) -> Iterator[Any]:
    empty = True
    for batch in batches:
        empty = False
        stream.keep(RawRows(stream.name, kind, batch, schema))
        yield batch
    if empty:
        stream.keep(RawRows(stream.name, kind, pa.RecordBatch.from_pylist([], schema=schema), schema))


def seekable(stream: Stream, format_name: str) -> Any:
    """The path or the file behind a stream, for a format whose index is at the end."""
    if stream.compression:
        raise BadFile(stream.name, f"is {format_name} inside {stream.compression} data; decompress it first.")
    source = stream.input.source
    if source.size is None:
        raise BadFile(stream.name, f"{format_name} cannot be read from a pipe: its index is at the end; name the file.")
    return source.path or source.open()


@contextmanager
def one_sentence(name: str, problem: str) -> Iterator[None]:
    """Errors of pyarrow and Python as one `BadFile`."""
    try:
        yield
    except (ChainfoldError, MemoryError):
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # it is the system that cannot read it
            raise unreadable(name, error) from None
        raise BadFile(name, f"{problem}: {first_line(error)}.") from None


def first_line(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(". ")
