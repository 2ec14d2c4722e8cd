"""Rows that have arrived and are in no saved state as yet, in a file: whoever is killed can learn from them again.

Each record is handed to the operating system before its rows are learnt from. It has its length, a checksum, and

    JSON     the first row, the labels that are new in it, and the sizes of the arrays
    arrays   those of the block, one after another

A record that was cut short, because its writer was killed, is the end of the journal. Rows that wait for what follows
them are written as they are if nothing does; once something does, a record that begins with the same row takes the
place of theirs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, Self

import numpy as np

from chainfold.data.chain import Block, frozen
from chainfold.errors import BadFile
from chainfold.online.window import NOTHING

_LENGTH, _DIGEST = 8, 16  # bytes
_KEPT = Block._fields[:5]


class Record(NamedTuple):
    """Rows that came at once."""

    first: int  # how many rows had come before
    labels: list[str]  # the names of all labels known by then
    block: Block


class Journal:
    """The end of a journal, to write to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file: IO[bytes] = path.open("ab")
        except OSError as error:
            raise BadFile(path, f"cannot be written: {error.strerror or error}.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, record: Record) -> None:
        """Rows, if there are any."""
        if not record.block.labels.size:
            return
        arrays = [np.ascontiguousarray(getattr(record.block, name)) for name in _KEPT]
        about = {"first": record.first, "labels": record.labels, "sizes": [array.size for array in arrays]}
        head = json.dumps(about).encode()
        body = b"".join([len(head).to_bytes(_LENGTH, "little"), head, *(array.tobytes() for array in arrays)])
        try:
            self._file.write(len(body).to_bytes(_LENGTH, "little") + _digest(body) + body)
            self._file.flush()
        except OSError as error:
            raise BadFile(self._path, f"cannot be written: {error.strerror or error}.") from None

    @property
    def size(self) -> int:
        """Bytes."""
        return self._file.tell()

    def clear(self) -> None:
        """What was in it is in a saved state."""
        self._file.truncate(0)
        self._file.seek(0)


def records(path: Path) -> Iterator[Record]:
    """The records of a journal that count, as far as they are whole; what follows them is cut off."""
    if not path.exists():
        return
    whole, last = 0, None
    with path.open("rb") as file:
        while (body := _body(file)) is not None:
            whole, record = file.tell(), _record(body)
            if last is not None and last.first < record.first:
                yield last
            last = record
    if last is not None:
        yield last
    with path.open("r+b") as file:
        file.truncate(whole)


def _body(file: IO[bytes]) -> bytes | None:
    length, digest = file.read(_LENGTH), file.read(_DIGEST)
    if len(length) < _LENGTH or len(digest) < _DIGEST:
        return None
    size = int.from_bytes(length, "little")
    if size > Path(file.name).stat().st_size:
        return None
    body = file.read(size)
    return body if len(body) == size and _digest(body) == digest else None


def _record(body: bytes) -> Record:
    end = _LENGTH + int.from_bytes(body[:_LENGTH], "little")
    about = json.loads(body[_LENGTH:end])
    arrays = {}
    for name, size in zip(_KEPT, about["sizes"], strict=True):
        kind = getattr(NOTHING, name).dtype
        arrays[name] = frozen(np.frombuffer(body, kind, size, end), kind)
        end += arrays[name].nbytes
    return Record(about["first"], about["labels"], NOTHING._replace(**arrays))


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST).digest()
