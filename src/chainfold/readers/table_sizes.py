"""What Parquet and Arrow IPC would take in memory, known before it is taken: by page headers and message headers.

A small file may hold a text of many gigabytes. As a line of text, a cell of a table may have 64 MB. Where a page or a
batch says that one of its cells has more, it is refused before it is read; other cells are checked when they are.
"""

from __future__ import annotations

import io
import struct
import sys
from collections.abc import Container, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chainfold.chain.flatbuffer import BATCHES, BUFFER, DICTIONARIES, PLACE, FlatTable
from chainfold.errors import BadFile
from chainfold.readers.inputs import LONGEST_LINE

_ANY_NUMBER = 1 << 62
MOST_AT_ONCE = 128 << 20  # bytes of Parquet that rows of a batch should take
_MOST_IN_BATCH = 512 << 20  # bytes of a compressed batch of Arrow
_SLACK = 1 << 20  # what a page has beside one cell
_MOST_IN_PAGE = 2 * MOST_AT_ONCE
_INDEX = 4  # bytes of an entry of a list, beside its text
_HEADER, _LONGEST_HEADER = 1 << 12, 1 << 24
_TEXT = 6  # a type of columns, by Parquet's numbers, as are these ways to compress
_CODECS = {0: "", 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_CELL = f"{LONGEST_LINE >> 20} MB"
_REMEDY = "shorten it, or leave the column out"


# Parquet


class _Page(NamedTuple):
    at: int  # where its data begins
    packed: int  # bytes of it, compressed
    size: int  # and uncompressed
    values: int
    dictionary: bool


class _Chunk(NamedTuple):
    """A column of a row group."""

    column: str
    text: bool  # of texts
    codec: str | None
    at: int  # where its pages begin
    size: int  # of them in the file


def rows_at_once(
    file: BinaryIO, schema: Any, most: int, name: str, some: Container[int] = range(sys.maxsize)
) -> list[int]:
    """How many rows of each row group to read at once, at most; raises if a cell in it is too large.

    file: a Parquet file; schema: of its columns; most: how many rows there may be in any case; some: the groups that
    are looked at.
    """
    sizes, before = [], 0
    for group, (count, chunks) in enumerate(_groups(file, name)):
        rows = [most]
        for k, chunk in enumerate(chunks if group in some else []):
            if schema.column(k).max_repetition_level:
                rows.append(_rows_of_lists(file, chunk, (before + 1, before + count), name))
            else:
                rows.append(_rows_of_cells(file, chunk, before + 1, name))
        sizes.append(min(rows))
        before += count
    return sizes


def _groups(file: BinaryIO, name: str) -> list[tuple[int, list[_Chunk]]]:
    """The row groups of a file, by its footer: how many rows, and the columns.

    pyarrow tells the same, and ends the process where a footer is damaged.
    """
    try:
        end = file.seek(-8, io.SEEK_END)
        file.seek(max(end - int.from_bytes(file.read(4), "little"), 0))
        footer = _Compact(file.read(end - file.tell())).struct()
        return [(_whole(group[3]), [_chunk(column[3]) for column in group[1]]) for group in footer[4]]
    except (OSError, LookupError, TypeError, ValueError, AttributeError):
        raise BadFile(name, "cannot be read as Parquet: its footer is damaged; fetch the file again.") from None


def _chunk(about: dict[int, Any]) -> _Chunk:
    at, dictionary = _whole(about[9]), _whole(about.get(11) or 0)  # a dictionary comes before the other pages
    column = about[3][0].decode(errors="replace")
    return _Chunk(column, about[1] == _TEXT, _CODECS.get(about[4]), min(at, dictionary or at), _whole(about[7]))


def _whole(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError
    return number


def _rows_of_cells(file: BinaryIO, chunk: _Chunk, row: int, name: str) -> int:
    """How many rows take as much as there should be at once, wherever they are in a column of a row group."""
    most = _ANY_NUMBER
    for page in _pages(file, chunk, name):
        rows = "" if page.dictionary else f"{_rows(row, row + page.values - 1)}, "
        where = f"{rows}column {chunk.column!r}"
        _check_page(page, page.size, where, name)
        if not page.dictionary:
            most, row = min(most, _share(page.values, page.size)), row + page.values
    return most


def _rows_of_lists(file: BinaryIO, chunk: _Chunk, rows: tuple[int, int], name: str) -> int:
    """The same of a column of lists, by how long they are on average."""
    where = f"{_rows(*rows)}, column {chunk.column!r}"
    entry, size = _INDEX, 0  # bytes of an entry: a text that is stored once is not when it is read
    for page in _pages(file, chunk, name):
        if page.dictionary and chunk.text:
            _check_page(page, page.size, where, name)
            entry += _longest_text(file, page, chunk.codec)
        _check_page(page, max(page.size, page.values * entry), where, name)
        size += max(page.size, page.values * entry)
    return _share(rows[1] - rows[0] + 1, size)


def _check_page(page: _Page, size: int, where: str, name: str) -> None:
    if page.size > LONGEST_LINE + _SLACK and page.values <= page.size // LONGEST_LINE:
        raise BadFile(name, f"{where}: a cell has more than {_CELL}; {_REMEDY}.")
    if size > _MOST_IN_PAGE:
        problem = f"{where}: a page with {page.values:,} values takes {size >> 20:,} MB in memory"
        raise BadFile(name, f"{problem}, more than {_MOST_IN_PAGE >> 20}; write the file with smaller pages.")


def _longest_text(file: BinaryIO, page: _Page, codec: str | None) -> int:
    """The bytes of the longest text of a dictionary; 0 where that cannot be told, or it is no plain dictionary."""
    file.seek(page.at)
    data, longest, at = file.read(page.packed), 0, 0
    if codec != "":
        try:
            data = pa.decompress(data, page.size, codec, asbytes=True)
        except (pa.ArrowException, ValueError, TypeError):  # its reader will say what is wrong
            return 0
    for _ in range(page.values):
        size = int.from_bytes(data[at : at + 4], "little")
        longest, at = max(longest, size), at + 4 + size
    return longest if at == len(data) else 0


def _share(rows: int, size: int) -> int:
    return max(1, rows * MOST_AT_ONCE // max(size, 1))


def _rows(first: int, last: int) -> str:
    return f"row {first}" if first == last else f"rows {first} to {last}"


def _pages(file: BinaryIO, chunk: _Chunk, name: str) -> Iterator[_Page]:
    """The pages of a column in a row group, by their headers."""
    at, end = chunk.at, chunk.at + chunk.size
    while at < end:
        header, size = _header(file, at, name)
        kind: dict[int, Any] = next((header[field] for field in (5, 7, 8) if isinstance(header.get(field), dict)), {})
        try:
            packed, unpacked, values = (_whole(number or 0) for number in (header.get(3), header.get(2), kind.get(1)))
        except ValueError:
            raise _damaged(name) from None
        yield _Page(at + size, packed, unpacked, values, 7 in header)
        at += size + packed


def _header(file: BinaryIO, at: int, name: str) -> tuple[dict[int, Any], int]:
    """The header of the page at a place, and its size."""
    room = _HEADER
    while room <= _LONGEST_HEADER:
        file.seek(at)
        data = file.read(room)
        try:
            compact = _Compact(data)
            return compact.struct(), compact.at
        except IndexError:
            if len(data) < room:
                break
            room *= 16
    raise _damaged(name)


def _damaged(name: str) -> BadFile:
    return BadFile(name, "cannot be read as Parquet: the header of a page is damaged; fetch the file again.")


class _Compact:
    """Thrift's compact protocol, as far as Parquet needs it; raises IndexError where there is no more data."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Fields by their numbers."""
        fields: dict[int, Any] = {}
        field = 0
        while kind := self._byte():
            field = field + (kind >> 4) if kind >> 4 else self._number()
            fields[field] = self._value(kind & 15, depth)
        return fields

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        value, shift = 0, 0
        while (byte := self._byte()) & 0x80:
            value, shift = value | (byte & 0x7F) << shift, shift + 7
            if shift > 70:
                raise IndexError
        return value | byte << shift

    def _number(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):  # true and false
            return kind == 1
        if kind in (4, 5, 6):
            return self._number()
        if kind == 12 and depth < 8:
            return self.struct(depth + 1)
        if kind in (9, 10) and depth < 8:
            return self._list(depth + 1)
        if kind not in (3, 7, 8):  # a byte, a double, a text
            raise IndexError
        size = {3: 1, 7: 8}.get(kind) or self._varint()
        self.at += size
        if self.at > len(self._data):
            raise IndexError
        return self._data[self.at - size : self.at]

    def _list(self, depth: int) -> list[Any]:
        about = self._byte()
        count = about >> 4 if about >> 4 < 15 else self._varint()
        kind = about & 15
        return [self._byte() == 1 if kind in (1, 2) else self._value(kind, depth) for _ in range(count)]


# Arrow IPC

_CONTINUED = b"\xff" * 4  # what messages begin with, but for old ones
_TAIL = struct.Struct("<i6s")


def check_blocks(file: BinaryIO, name: str) -> None:
    """Raise if a block of an Arrow file would take too much; what is damaged is left to its reader."""
    try:
        size = file.seek(-_TAIL.size, io.SEEK_END)
        length, _ = _TAIL.unpack(file.read(_TAIL.size))
        file.seek(max(size - length, 0))
        footer = FlatTable.root(file.read(length)) if 0 < length <= size else None
        kinds = () if footer is None else (DICTIONARIES, BATCHES)
        blocks = [block for kind in kinds if footer is not None for block in footer.records(kind, PLACE).tolist()]
    except (OSError, struct.error):
        return
    row = 1
    for offset, length, _, _ in blocks:
        try:
            file.seek(offset)
            data = file.read(min(length, _LONGEST_HEADER))
            begin = 8 if data.startswith(_CONTINUED) else 4
            row += _check_message(data[begin:], file, offset + length, row, name)
        except (OSError, ValueError, struct.error) as error:
            if isinstance(error, BadFile):
                raise
            return


def _batch_of(message: FlatTable) -> FlatTable | None:
    """The rows of a message, or the entries of a dictionary."""
    kind, header = message.number(1, "<B"), message.table(2)
    if kind == DICTIONARIES and header is not None:
        return header.table(1)
    return header if kind == BATCHES else None


def _check_message(data: bytes, file: BinaryIO, body: int, row: int, name: str) -> int:
    """Raise if a message would take too much; returns its rows, if it is a batch."""
    message = FlatTable.root(data)
    kind, batch = message.number(1, "<B"), _batch_of(message)
    if batch is None:
        return 0
    rows = batch.number(0, "<q")
    if batch.table(3) is not None:
        sizes = []
        for offset, length in batch.records(2, BUFFER).tolist():
            file.seek(body + offset)
            sizes.append(struct.unpack("<q", file.read(8))[0] if length >= 8 else 0)
        where = _rows(row, row + rows - 1) if kind == BATCHES else "a dictionary"
        if max(sizes, default=0) > LONGEST_LINE * max(rows, 1) + _SLACK:
            raise BadFile(name, f"{where}: a cell has more than {_CELL}; {_REMEDY}.")
        if sum(sizes) > _MOST_IN_BATCH:
            problem = f"{where}: a compressed batch of {sum(sizes) >> 20:,} MB, more than {_MOST_IN_BATCH >> 20} MB"
            raise BadFile(name, f"{problem}; write the file with fewer rows in a batch, or without compression.")
    return rows if kind == BATCHES else 0


class CheckedStream:
    """An Arrow stream, as far as pyarrow needs a file; raises before a message is given that would take too much."""

    closed = False

    def __init__(self, stream: Any, packed: bool, name: str) -> None:
        """packed: is the stream itself compressed?"""
        self._stream, self._packed, self._name = stream, packed, name
        self._looked_at = io.BytesIO()  # what is to be given next
        self._left = 0  # bytes that follow and need no check
        self._row = 1

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._looked_at.read(size - len(data))
            if not piece and self._left:
                piece = self._stream.read(min(size - len(data), self._left))
                self._left -= len(piece)
            elif not piece:
                self._look()
                piece = self._looked_at.read(size - len(data))
            if not piece:
                break
            data = data + piece if data else piece
        return data

    def _look(self) -> None:
        """Take the next message, with its body if that is compressed; what is damaged is left to its reader."""
        head = self._stream.read(8)
        size = int.from_bytes(head[4:], "little") if head.startswith(_CONTINUED) else 0
        data = self._stream.read(min(size, _LONGEST_HEADER))
        self._looked_at, self._left = io.BytesIO(head + data), 0 if not head else _ANY_NUMBER
        if not data:
            return
        try:
            message = FlatTable.root(data)
            length, batch = message.number(3, "<q"), _batch_of(message)
            compressed = batch is not None and batch.table(3) is not None
        except struct.error:
            return
        if length > _MOST_IN_BATCH and (compressed or self._packed):
            problem = f"from row {self._row} on: a batch of {length >> 20:,} MB, more than {_MOST_IN_BATCH >> 20} MB"
            raise BadFile(self._name, f"{problem}; write it with fewer rows in a batch, or without compression.")
        body = self._stream.read(length) if compressed else b""
        with suppress(struct.error):
            self._row += _check_message(data, io.BytesIO(body), 0, self._row, self._name)
        self._looked_at, self._left = io.BytesIO(head + data + body), max(length - len(body), 0)


# Cells


def check_cells(batch: Any, lines: NDArray[np.int64], name: str) -> None:
    """Raise if a cell of a batch is too large."""
    for column, values in zip(batch.schema.names, batch.columns, strict=True):
        if values.nbytes > LONGEST_LINE:
            sizes = _sizes(values)
            if sizes.size and sizes.max() > LONGEST_LINE:
                row = lines[int(np.argmax(sizes > LONGEST_LINE))]
                raise BadFile(name, f"row {row}, column {column!r}: the cell has more than {_CELL}; {_REMEDY}.")


def _sizes(values: Any) -> NDArray[np.int64]:
    """The bytes of each cell; a missing one has none. Entries of lists are told apart by one more each."""
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return _sizes(values.storage)
    if pa.types.is_dictionary(kind):
        codes = values.indices.fill_null(len(values.dictionary)).to_numpy(zero_copy_only=False)
        each: NDArray[np.int64] = np.append(_sizes(values.dictionary), 0)[codes]
        return each
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        ends = np.cumsum(lengths, dtype=np.int64)
        upto = np.append(0, np.cumsum(_sizes(pc.list_flatten(values)) + 1))
        whole: NDArray[np.int64] = upto[ends] - upto[ends - lengths]
        return whole
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        sizes: NDArray[np.int64] = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
        return sizes.astype(np.int64)
    return np.zeros(len(values), np.int64)
