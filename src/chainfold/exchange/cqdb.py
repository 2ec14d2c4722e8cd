"""CQDB, CRFsuite's constant database of names: each name has a number, and each number a name.

All numbers are little-endian u32, and offsets count from the beginning of the database:

    CQDB, size, flag, byte order, N, offset of the backward array       the head
    256 × (offset, slots) of a hash table                               0, 0 for an empty one
    N × (number, bytes of the name with its NUL, the name with its NUL) the records
    the hash tables, slots of (hash, offset of the record)              offset 0: an empty slot
    N × offset of the record of that number                             the backward array

A name with hash h (Bob Jenkins' lookup3 of the name with its NUL) is in table h % 256. That table has n slots, twice as
many as names, and the name is in slot (h >> 8) % n or in the next one that was free.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from chainfold.system.validate import need

_MAGIC, _BYTE_ORDER = b"CQDB", 0x62445371
_HEAD = struct.Struct("<4s5I")
_TABLES = 256
_RECORDS = _HEAD.size + 8 * _TABLES  # where the records begin
_WORDS = 3  # words of 32 bits that lookup3 mixes at once

Words = NDArray[np.uint32]


def read_names(data: memoryview, begin: int, count: int, what: str) -> list[bytes]:
    """The `count` names of the database at `begin`, by number."""
    need(begin + _RECORDS <= len(data), f"its {what} lie beyond its end")
    magic, size, _, order, found, backward = _HEAD.unpack_from(data, begin)
    need(magic == _MAGIC and order == _BYTE_ORDER, f"its {what} are no little-endian CQDB")
    need(_RECORDS <= size <= len(data) - begin, f"its {what} lie beyond its end")
    need(found == count, f"it has {count} {what}, but names for {found}")
    if not count:
        return []
    database = np.frombuffer(data[begin : begin + size], np.uint8)
    need(backward + 4 * count <= size, f"the index of its {what} lies beyond its end")
    places = database[backward : backward + 4 * count].view("<u4").astype(np.int64)
    need(((places >= _RECORDS) & (places + 8 <= size)).all(), f"the names of its {what} lie beyond its end")
    numbers, lengths = (_words_at(database, places + shift) for shift in (0, 4))
    ends = places + 8 + lengths
    need((numbers == np.arange(count)).all(), f"the index of its {what} is not in order")
    need(((lengths >= 1) & (ends <= size)).all(), f"the names of its {what} lie beyond its end")
    need(int(lengths.sum()) <= size and not database[ends - 1].any(), f"the names of its {what} do not end")
    base = begin + 8
    names = [
        bytes(data[base + low : begin + high - 1]) for low, high in zip(places.tolist(), ends.tolist(), strict=True)
    ]
    need(not any(b"\0" in name for name in names), f"the names of its {what} contain a NUL")
    return names


def _words_at(database: NDArray[np.uint8], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The u32 that begin at these places."""
    found: NDArray[np.int64] = database[places[:, None] + np.arange(4)].view("<u4").ravel().astype(np.int64)
    return found


def database_of(names: list[bytes]) -> bytes:
    """A database in which each name has its place in the list as its number."""
    keys = [name + b"\0" for name in names]
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    ends = _RECORDS + np.cumsum(8 + lengths)
    places = (ends - 8 - lengths).tolist()
    records = b"".join(struct.pack("<2I", k, len(key)) + key for k, key in enumerate(keys))
    tables: list[list[tuple[int, int]]] = [[] for _ in range(_TABLES)]
    for value, place in zip(lookup3(keys).tolist(), places, strict=True):
        tables[value % _TABLES].append((value, place))
    at = _RECORDS + len(records)
    references, buckets = [], []
    for entries in tables:
        references += [at if entries else 0, 2 * len(entries)]
        buckets.append(_table(entries))
        at += buckets[-1].nbytes
    backward = np.array(places, "<u4").tobytes()
    head = _HEAD.pack(_MAGIC, at + len(backward), 0, _BYTE_ORDER, len(keys), at if keys else 0)
    return b"".join([head, np.array(references, "<u4").tobytes(), records, *(b.tobytes() for b in buckets), backward])


def _table(entries: list[tuple[int, int]]) -> NDArray[np.uint32]:
    """[2n, 2] a hash table, half of it empty."""
    size = 2 * len(entries)
    slots = np.zeros((size, 2), "<u4")
    taken = [False] * size
    for value, place in entries:
        slot = (value >> 8) % size
        while taken[slot]:
            slot = (slot + 1) % size
        taken[slot] = True
        slots[slot] = value, place
    return slots


def lookup3(keys: list[bytes]) -> Words:
    """Bob Jenkins' hash of each key, with the initial value 0.

    A key is read as triples (a, b, c) of words of 32 bits, the last one filled up with zeros. Each triple is added to
    the state, which begins as 0xdeadbeef + length three times; `_mix` follows each but the last, and `_final` the last.
    """
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    triples = -(-lengths // (4 * _WORDS))
    found = np.empty(len(keys), np.uint32)
    for count in np.unique(triples).tolist():
        rows = np.flatnonzero(triples == count)
        text = b"".join(keys[row].ljust(4 * _WORDS * count, b"\0") for row in rows.tolist())
        words = np.frombuffer(text, "<u4").reshape(rows.size, count, _WORDS)
        state = np.repeat((0xDEADBEEF + lengths[rows]).astype(np.uint32)[:, None], _WORDS, axis=1)
        a, b, c = (state[:, k].copy() for k in range(_WORDS))
        for k in range(count):
            a, b, c = a + words[:, k, 0], b + words[:, k, 1], c + words[:, k, 2]
            a, b, c = _mix(a, b, c) if k < count - 1 else _final(a, b, c)
        found[rows] = c
    return found


def _turned(word: Words, bits: int) -> Words:
    """The word with its bits rotated to the left."""
    return (word << np.uint32(bits)) | (word >> np.uint32(32 - bits))


def _mix(a: Words, b: Words, c: Words) -> tuple[Words, Words, Words]:
    for bits in (4, 6, 8, 16, 19, 4):
        a, c = (a - c) ^ _turned(c, bits), c + b
        a, b, c = b, c, a
    return a, b, c


def _final(a: Words, b: Words, c: Words) -> tuple[Words, Words, Words]:
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _turned(b, bits)
        a, b, c = b, c, a
    return c, a, b  # seven steps leave each word one place too far to the left
