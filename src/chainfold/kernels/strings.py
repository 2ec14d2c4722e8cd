"""Interning: strings and pairs of numbers to codes 0, 1, 2 … in order of first appearance.

A table of strings is one run of bytes, where each string ends in it, each string's hash, and open addressing:

    slot(h), slot(h)+1, …   the code of the string with hash h, or -1 where the search may stop

A table of pairs is the same with the pair itself, packed into 64 bits, in place of the bytes. Kernels stop early when a
table is full; the caller enlarges it and calls again from there. The hash is FNV-1a with a final mix and never changes:
hashed attributes on disk depend on it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.kernels.jit import STRICT, kernel

_BASIS = np.uint64(14695981039346656037)
_PRIME = np.uint64(1099511628211)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


class StringArrays(NamedTuple):
    """What `intern_strings` works on."""

    blob: NDArray[np.uint8]
    ends: NDArray[np.int64]  # [capacity + 1]: string c is blob[ends[c] : ends[c + 1]]
    hashes: NDArray[np.uint64]  # [capacity]
    slots: NDArray[np.int32]  # [a power of two, at least twice the capacity]
    count: NDArray[np.int64]  # [1]


class PairArrays(NamedTuple):
    """What `intern_pairs` works on."""

    pairs: NDArray[np.int64]  # [capacity]
    slots: NDArray[np.int32]
    count: NDArray[np.int64]  # [1]


@kernel(fastmath=STRICT, inline=True)
def mixed(number: Any) -> Any:
    """All bits of the number in the upper half and in the lower."""
    number = number * _MIX
    return number ^ (number >> _HALF)


@kernel(fastmath=STRICT, inline=True)
def hashed(buffer: Any, low: Any, high: Any) -> Any:
    """h ← (h xor byte) · prime, then mixed."""
    state = _BASIS
    for k in range(low, high):
        state = (state ^ np.uint64(buffer[k])) * _PRIME
    return mixed(state)


@kernel(fastmath=STRICT)
def hash_strings(buffer: Any, begins: Any, ends: Any, out: Any) -> None:
    """out[i] = the hash of buffer[begins[i] : ends[i]]."""
    for i in range(begins.size):
        out[i] = hashed(buffer, begins[i], ends[i])


@kernel(fastmath=STRICT)
def intern_strings(buffer: Any, begins: Any, ends: Any, first: Any, table: Any, out: Any) -> Any:
    """out[i] = the code of buffer[begins[i] : ends[i]], from i = first on; returns the i at which the table is full."""
    mask = table.slots.size - 1
    for i in range(first, begins.size):
        low, size = begins[i], ends[i] - begins[i]
        state = hashed(buffer, low, ends[i])
        slot = np.int64(state & np.uint64(mask))
        code = table.slots[slot]
        while code >= 0:
            if table.hashes[code] == state and table.ends[code + 1] - table.ends[code] == size:
                begin = table.ends[code]
                same = True
                for k in range(size):
                    if table.blob[begin + k] != buffer[low + k]:
                        same = False
                        break
                if same:
                    break
            slot = (slot + 1) & mask
            code = table.slots[slot]
        if code < 0:
            count = table.count[0]
            begin = table.ends[count]
            if count == table.hashes.size or begin + size > table.blob.size:
                return i
            for k in range(size):
                table.blob[begin + k] = buffer[low + k]
            table.ends[count + 1] = begin + size
            table.hashes[count] = state
            table.slots[slot] = count
            table.count[0] = count + 1
            code = count
        out[i] = code
    return begins.size


@kernel(fastmath=STRICT)
def place_strings(hashes: Any, count: Any, slots: Any) -> None:
    """Enter the codes 0 … count-1 into empty slots."""
    mask = slots.size - 1
    for code in range(count):
        slot = np.int64(hashes[code] & np.uint64(mask))
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = code


@kernel(fastmath=STRICT)
def intern_pairs(left: Any, right: Any, first: Any, table: Any, out: Any) -> Any:
    """out[i] = the code of (left[i], right[i]), or -1 where either is -1; returns the i at which the table is full."""
    mask = table.slots.size - 1
    for i in range(first, left.size):
        if left[i] < 0 or right[i] < 0:
            out[i] = -1
            continue
        pair = (np.int64(left[i]) << 32) | np.int64(right[i])
        slot = np.int64(mixed(np.uint64(pair)) & np.uint64(mask))
        code = table.slots[slot]
        while code >= 0 and table.pairs[code] != pair:
            slot = (slot + 1) & mask
            code = table.slots[slot]
        if code < 0:
            count = table.count[0]
            if count == table.pairs.size:
                return i
            table.pairs[count] = pair
            table.slots[slot] = count
            table.count[0] = count + 1
            code = count
        out[i] = code
    return left.size


@kernel(fastmath=STRICT)
def place_pairs(pairs: Any, count: Any, slots: Any) -> None:
    """Enter the codes 0 … count-1 into empty slots."""
    mask = slots.size - 1
    for code in range(count):
        slot = np.int64(mixed(np.uint64(pairs[code])) & np.uint64(mask))
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = code


@kernel(fastmath=STRICT)
def paste(blob: Any, ends: Any, codes: Any, buffer: Any, at: Any) -> None:
    """Copy string codes[i] to buffer[at[i]], and move at[i] behind it."""
    for i in range(codes.size):
        begin, size, target = ends[codes[i]], ends[codes[i] + 1] - ends[codes[i]], at[i]
        for k in range(size):
            buffer[target + k] = blob[begin + k]
        at[i] = target + size
