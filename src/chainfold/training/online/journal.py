"""Rows that have arrived and are in no saved state as yet, in a file: a killed run can train on them again.

Each record is handed to the operating system, at once, before its rows are trained on. It is

    head     the length of the body, a checksum of the body, a checksum of these two, and a mark
    body     JSON (the first row, the names of all labels, how many rows are settled, the sizes of the arrays), the
             arrays of the rows one after another, and a mark at the end

Rows that wait for what follows them come after those that are settled, as they are if nothing follows. They count if
the next record begins after them, or if there is none; where it begins with the first of them, they are in it.

The length of a record is certain once its head is. So a record that was not written to its end differs from one that
was damaged later: the file ends with it or, where the power went, has only zeros from some place in it on, where a mark
should be. It is cut off when the journal is next written to. Damage is a sentence, and the file stays as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np

from chainfold.chain.block import Block, frozen
from chainfold.errors import BadChain, BadFile, ChainfoldError
from chainfold.training.online.row_arrays import KINDS, arrays_of, block_of
from chainfold.training.online.share import NOTHING

_MARK, _END = b"cfrows.2", b"end.rows"  # no bit that flips makes one of these bytes zero
_LENGTH, _DIGEST = 8, 16  # bytes
_HEAD = len(_MARK) + _LENGTH + 2 * _DIGEST
_PIECE = 1 << 20


class Record(NamedTuple):
    """Rows that came at once."""

    first: int  # how many rows had come before
    labels: list[str]  # the names of all labels known by then
    block: Block
    waiting: Block = NOTHING  # rows after those, which wait for what follows them, as they are if nothing does

    @property
    def settled(self) -> int:
        """How many rows have come once those of the block have."""
        return self.first + self.block.labels.size

    @property
    def end(self) -> int:
        """How many have if those that wait are the last of their sequence."""
        return self.settled + self.waiting.labels.size


class Journal:
    """The end of a journal, to write to; there is no file before there are rows."""

    def __init__(self, path: Path, size: int = 0) -> None:
        """size: bytes of records that are there already; anything after them is cut off."""
        self._path, self.size = path, size
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, record: Record) -> None:
        """Rows, if there are any."""
        if record.end == record.first:
            return
        arrays = arrays_of(record.block, record.waiting)
        about = {
            "first": record.first,
            "settled": record.block.labels.size,
            "labels": record.labels,
            "sizes": [array.size for array in arrays.values()],
        }
        text = json.dumps(about).encode()
        body = b"".join([_number(len(text)), text, *(array.tobytes() for array in arrays.values()), _END])
        head = _number(len(body)) + _digest(body)
        try:
            file, rest = self._opened(), memoryview(head + _digest(head) + _MARK + body)
            self.size += len(rest)
            while rest:
                rest = rest[file.write(rest) :]
        except OSError as error:
            raise BadFile(self._path, f"cannot be written: {error.strerror or error}.") from None

    def clear(self) -> None:
        """What was in it is in a saved state."""
        self.size = 0
        try:
            if self._file is not None or self._path.exists():
                self._opened().truncate(0)
        except OSError as error:
            raise BadFile(self._path, f"cannot be written: {error.strerror or error}.") from None

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            self._file = self._path.open("ab", buffering=0)
            self._file.truncate(self.size)
        return self._file


class JournalReader:
    """What a journal holds."""

    def __init__(self, path: Path, n_attributes: int, labels: Sequence[str] = ()) -> None:
        """labels: the names of those that were known before."""
        self._path, self._n_attributes = path, n_attributes
        self._before = list(labels)
        self.labels = self._before  # the names of all, once it has been read
        self.whole = 0  # bytes of whole records, likewise
        self.torn = 0  # bytes of a record after them that was not written to its end

    def records(self) -> Iterator[Record]:
        """The rows that count, all of them settled; raises `BadFile` at the first record that is damaged."""
        last: Record | None = None
        for record in self._all():
            if last is not None:
                yield _settled(last, record.first == last.end)
            last = record
        if last is not None:
            yield _settled(last, True)

    def _all(self) -> Iterator[Record]:
        """The records as they were written."""
        self.labels, self.whole, self.torn = self._before, 0, 0
        if not self._path.exists():
            return
        count, before, last = 0, 0, None
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                while self.whole < size:
                    file.seek(self.whole)
                    body = _body(file, size)
                    if body is None:
                        self.torn = size - self.whole
                        return
                    record = self._record(body, last)
                    yield record
                    before = record.first if last is None else before
                    self.whole, count, last = self.whole + _HEAD + len(body), count + 1, record
        except BadChain as error:
            rows = 0 if last is None else last.end - before
            raise BadFile(
                self._path,
                f"record {count + 1:,}, from byte {self.whole:,} on, {error}; restore the file, or cut it there "
                f"(truncate -s {self.whole}) to go on with its {rows:,} rows before that, or discard the run with "
                f"`fresh`.",
            ) from None
        except OSError as error:
            raise BadFile(self._path, f"cannot be read: {error.strerror or error}.") from None

    def _record(self, body: bytes, last: Record | None) -> Record:
        """A record with a body that is as it was written, by whomever."""
        begin = _LENGTH + int.from_bytes(body[:_LENGTH], "little")
        try:
            about = json.loads(body[_LENGTH:begin])
            first, settled, labels, sizes = (about[name] for name in ("first", "settled", "labels", "sizes"))
        except (ValueError, LookupError, TypeError, RecursionError):
            raise BadChain("is invalid") from None
        self._check(first, settled, labels, sizes, len(body) - begin - len(_END))
        arrays = {}
        for (name, kind), size in zip(KINDS.items(), sizes, strict=True):
            arrays[name] = frozen(np.frombuffer(body, kind, size, begin), kind)
            begin += arrays[name].nbytes
        try:
            rows = block_of(arrays, self._n_attributes, len(labels))
        except ChainfoldError as error:
            raise BadChain(f"is invalid: {str(error).rstrip('.')}") from None
        if settled > rows.labels.size:
            raise BadChain("is invalid: it has fewer rows than it says")
        if last is not None and first not in (last.settled, last.end):
            raise BadChain(f"begins with row {first + 1:,}, which does not follow on those before it")
        self.labels = max(self.labels, labels, key=len)
        block = NOTHING if not settled else rows.part(0, settled)
        waiting = NOTHING if settled == rows.labels.size else rows.part(settled, rows.labels.size)
        return Record(first, labels, block, waiting)

    def _check(self, first: Any, settled: Any, labels: Any, sizes: Any, room: int) -> None:
        """Raise unless they are what they should be, and the arrays fill the room for them."""
        numbers = [first, settled, *sizes] if isinstance(sizes, list) else []
        if len(numbers) != 2 + len(KINDS) or not all(type(one) is int and 0 <= one < 2**62 for one in numbers):
            raise BadChain("is invalid: its sizes are missing")
        if room != sum(size * kind.itemsize for size, kind in zip(sizes, KINDS.values(), strict=True)):
            raise BadChain("is invalid: its sizes are not those of its rows")
        if not isinstance(labels, list) or not all(isinstance(one, str) for one in labels):
            raise BadChain("is invalid: its labels have no names")
        common = min(len(labels), len(self.labels))
        if labels[:common] != self.labels[:common] or len(set(labels)) < len(labels):
            raise BadChain("has other labels than the run before it")


def _settled(record: Record, whole: bool) -> Record:
    """The rows of it that count: with those that wait, or without."""
    if not whole or not record.waiting.labels.size:
        return record._replace(waiting=NOTHING)
    rows = NOTHING._replace(**arrays_of(record.block, record.waiting))
    return record._replace(block=rows, waiting=NOTHING)


def _body(file: IO[bytes], size: int) -> bytes | None:
    """The body of the record that begins here, as it was written; None if it was not written to its end."""
    begin = file.tell()
    head = file.read(_HEAD)
    if len(head) < _HEAD:
        return None
    sizes, check = head[: _LENGTH + _DIGEST], _digest(head[: _LENGTH + _DIGEST])
    if head != sizes + check + _MARK:
        _check_never_written(file, begin + _HEAD)
        return None
    length = int.from_bytes(sizes[:_LENGTH], "little")
    if length > size - begin - _HEAD:
        return None
    body = file.read(length)
    if _digest(body) != sizes[_LENGTH:]:
        _check_never_written(file, begin + _HEAD + length)
        return None
    return body


def _check_never_written(file: IO[bytes], end: int) -> None:
    """Raise unless the file has only zeros from the last byte before `end` on."""
    file.seek(end - 1)
    if any(piece.strip(b"\0") for piece in iter(lambda: file.read(_PIECE), b"")):
        raise BadChain("is damaged")


def _number(value: int) -> bytes:
    return value.to_bytes(_LENGTH, "little")


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()
