"""Arrow's messages, looked at before Arrow reads them.

Arrow allocates whatever size a message states, and unpacks compressed buffers however large they become. A chain is
written without compression, little-endian, with each dictionary once; here everything else is refused, and sizes are
compared with those of the file. What is wrong is a ValueError: whoever reads knows the sentence for it.

    MessageFile     the messages of an Arrow file, by the table at its end
    MessageStream   the messages of a stream, passed on as they come
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.flatbuffer import BATCHES, DICTIONARIES, PLACE, FlatTable
from chainfold.system.machine import read_at, read_into

FILE, STREAM = b"ARROW1", b"\xff\xff\xff\xff"  # how an Arrow file begins and ends, and a message
_SCHEMA = 1  # a kind of message
_AT_ONCE = 1 << 24  # bytes of a stream: what it states may never come
_MOST_DICTIONARIES = 2
_FIRST = 8  # where the first message of a file begins
_TAIL = 4 + len(FILE)  # bytes after the table: its size, and the mark


def _body_size(metadata: bytes) -> int:
    """The bytes that follow the metadata of a message, if it is one that a chain can have."""
    try:
        message = FlatTable.root(metadata)
        kind, size = message.number(1, "<B"), message.number(3, "<q")
        header = _there(message.table(2))
        if kind == _SCHEMA:
            _check_order(header)
            return size
        if kind == DICTIONARIES:
            if header.number(2, "<B"):
                raise ValueError("a part of a dictionary")
            header = _there(header.table(1))
        if kind not in (DICTIONARIES, BATCHES) or header.table(3) is not None:
            raise ValueError("a message of another kind, or a compressed one")
    except struct.error:
        raise ValueError("a message that is cut short") from None
    return size


def _there(table: FlatTable | None) -> FlatTable:
    if table is None:
        raise ValueError("a message without a header")
    return table


def _check_order(schema: FlatTable) -> None:
    if schema.number(0, "<h"):
        raise ValueError("big-endian numbers")


class MessageFile:
    """Where the messages of an open Arrow file are; the caller closes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file.fileno()
        size = os.fstat(self._file).st_size
        tail = self._read(size - _TAIL, _TAIL)
        self._end = end = size - _TAIL - int.from_bytes(tail[:4], "little")
        if tail[4:] != FILE or end < len(FILE):
            raise ValueError("not an Arrow file")
        try:
            table = FlatTable.root(self._read(end, size - _TAIL - end))
            _check_order(_there(table.table(1)))
            self.dictionaries, self.batches = table.records(DICTIONARIES, PLACE), table.records(BATCHES, PLACE)
        except struct.error:
            raise ValueError("a table that is cut short") from None
        if len(self.dictionaries) > _MOST_DICTIONARIES:
            raise ValueError("more dictionaries than a chain has")
        for places in (self.dictionaries, self.batches):
            if any((places[name] < 0).any() for name in ("offset", "metadata", "body")):
                raise ValueError("a place before the beginning")
            if (places["body"] > end).any() or (places["offset"] > end - places["body"] - places["metadata"]).any():
                raise ValueError("a place after the end")

    def names(self, place: Any) -> int:
        """How many names the dictionary there says that it has."""
        data = self._read(int(place["offset"]), int(place["metadata"]))
        _check(data, place)
        try:
            return _there(_there(FlatTable.root(data[8:]).table(2)).table(1)).number(0, "<q")
        except struct.error:
            raise ValueError("a dictionary that is cut short") from None

    def schema(self) -> bytes:
        """The message that comes first."""
        begin = self._read(_FIRST, 8)
        size = int.from_bytes(begin[4:], "little")
        if begin[:4] != STREAM or size > self._end:
            raise ValueError("a file without a schema")
        data = self._read(_FIRST, 8 + size)
        _body_size(data[8:])
        return data

    def stream(self, begin: bytes, *places: Any) -> NDArray[np.uint8]:
        """A stream of these bytes and the messages there, if a chain can have them; read by place, so by anybody."""
        data = np.empty(len(begin) + sum(int(place["metadata"] + place["body"]) for place in places), np.uint8)
        data[: len(begin)] = np.frombuffer(begin, np.uint8)
        low = len(begin)
        for place in places:
            high, at = low + int(place["metadata"] + place["body"]), int(place["offset"])
            rest = data[low:high].data
            while rest:
                count = read_into(self._file, rest, at)
                if not count:
                    raise ValueError("the file ends before that")
                at, rest = at + count, rest[count:]
            _check(data[low : low + int(place["metadata"])].tobytes(), place)
            low = high
        return data

    def _read(self, begin: int, size: int) -> bytes:
        data = read_at(self._file, size, begin) if begin >= 0 else b""
        if len(data) != size:
            raise ValueError("the file ends before that")
        return data


def _check(data: bytes, place: Any) -> None:
    """Raise unless this begins a message that a chain can have, of the size that the table says."""
    if data[:4] != STREAM or _body_size(data[8:]) != place["body"]:
        raise ValueError("a message of another size")


class MessageStream:
    """A file that Arrow can read a stream from: each message is looked at before it is passed on."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._ready = b""  # of the message at hand, to be passed on
        self._body = 0  # bytes that follow it

    def read(self, size: int) -> bytes:
        """Read this number of bytes, or fewer at the end."""
        if not self._ready and not self._body:
            self._next()
        if self._ready:
            passed, self._ready = self._ready[:size], self._ready[size:]
            return passed
        passed = self._taken(min(size, self._body))
        self._body -= len(passed)
        return passed

    def close(self) -> None:
        """Nothing: the caller closes the file."""

    def _next(self) -> None:
        begin = self._taken(8)
        size = int.from_bytes(begin[4:], "little")
        if begin[:4] != STREAM[: len(begin)]:
            raise ValueError("not a message of Arrow")
        metadata = self._taken(size)
        if size and len(metadata) == size:
            self._body = _body_size(metadata)
        if self._body < 0:
            raise ValueError("a message of a negative size")
        self._ready = begin + metadata

    def _taken(self, size: int) -> bytes:
        """The next bytes; where more are stated than come, no more memory is taken than for what comes."""
        data = self._file.read(min(size, _AT_ONCE))
        if len(data) == size or not data:
            return data
        parts = [data]
        size -= len(data)
        while size and (data := self._file.read(min(size, _AT_ONCE))):
            parts.append(data)
            size -= len(data)
        return b"".join(parts)


def begins_with(path: Path, mark: bytes) -> bool:
    """Does the file begin with these bytes?"""
    with path.open("rb") as file:
        return file.read(len(mark)) == mark
