"""Interning: strings and pairs of numbers to codes 0, 1, 2 … in order of first appearance.

A table of strings is one run of bytes, where each string ends in it, each string's hash, and open addressing:

    slot(h), slot(h)+1, …   the code of the string with hash h, or -1 where the search may stop

A table of pairs is the same with the pair itself, packed into 64 bits, in place of the bytes. Kernels stop early when a
table is full; the caller enlarges it and calls again from there. The hash never changes: hashed attributes on disk
depend on it.

The search is written out in both kernels, on the arrays themselves: numba counts a reference each time that an array is
taken out of its tuple or handed to a function, which takes longer than the search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.jit.decorator import STRICT, kernel
from chainfold.jit.intrinsics import WORD, prefetch, put_word, word

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_NEAR = 1 << 15  # slots of a table that is near anyway
_BATCH = 32  # strings that are looked for at once, so that they wait for memory together


class StringArrays(NamedTuple):
    """What `intern_strings` works on."""

    blob: NDArray[np.uint8]
    ends: NDArray[np.int64]  # [capacity + 1]: string c is blob[ends[c] : ends[c + 1]]
    hashes: NDArray[np.uint64]  # [capacity]
    slots: NDArray[np.int32]  # [a power of two, at least twice the capacity]
    used: NDArray[np.int64]  # [1]: how many codes there are


class PairArrays(NamedTuple):
    """What `intern_pairs` works on."""

    pairs: NDArray[np.int64]  # [capacity]
    slots: NDArray[np.int32]
    used: NDArray[np.int64]  # [1]: how many codes there are


@kernel(fastmath=STRICT, inline=True)
def mixed(number: Any) -> Any:
    """All bits of the number in the upper half and in the lower."""
    number = number * _MIX
    return number ^ (number >> _HALF)


@kernel(fastmath=STRICT, inline=True)
def hashed(buffer: Any, low: Any, high: Any) -> Any:
    """h ← mixed(h xor word), from the size on, over the words of the string; the last one is filled up with zeros."""
    state = mixed(np.uint64(high - low))
    k = low
    while k + WORD <= high:
        state = mixed(state ^ word(buffer, k))
        k += WORD
    last = np.uint64(0)
    if k < high and high >= WORD:  # the upper bytes of the word that ends where the string ends
        last = word(buffer, high - WORD) >> np.uint64(8 * (WORD - (high - k)))
    else:
        for j in range(k, high):
            last |= np.uint64(buffer[j]) << np.uint64(8 * (j - k))
    return mixed(state ^ last)


@kernel(fastmath=STRICT, inline=True)
def equal(a: Any, i: Any, b: Any, j: Any, size: Any) -> Any:
    """Are a[i : i + size] and b[j : j + size] the same?"""
    k = 0
    while k + WORD <= size:
        if word(a, i + k) != word(b, j + k):
            return False
        k += WORD
    if k > 0:  # the last word overlaps the one before it
        return word(a, i + size - WORD) == word(b, j + size - WORD)
    if size > 0 and i + WORD <= a.size and j + WORD <= b.size:  # what follows the strings is shifted out
        return (word(a, i) ^ word(b, j)) << np.uint64(8 * (WORD - size)) == 0
    while k < size and a[i + k] == b[j + k]:
        k += 1
    return k == size


@kernel(fastmath=STRICT, inline=True)
def copied(source: Any, i: Any, target: Any, j: Any, size: Any) -> None:
    """target[j : j + size] = source[i : i + size]."""
    k = 0
    while k + WORD <= size:
        put_word(target, j + k, word(source, i + k))
        k += WORD
    if k > 0:  # the last word overlaps the one before it
        put_word(target, j + size - WORD, word(source, i + size - WORD))
        k = size
    while k < size:
        target[j + k] = source[i + k]
        k += 1


@kernel(fastmath=STRICT)
def hash_pairs(pairs: Any, out: Any) -> None:
    """out[i] = the hash of a packed pair."""
    for i in range(out.size):
        out[i] = mixed(np.uint64(pairs[i]))


@kernel(fastmath=STRICT)
def hash_strings(buffer: Any, begins: Any, ends: Any, out: Any) -> None:
    """out[i] = the hash of buffer[begins[i] : ends[i]]."""
    for i in range(begins.size):
        out[i] = hashed(buffer, begins[i], ends[i])


@kernel(fastmath=STRICT)
def approach(buffer: Any, begins: Any, ends: Any, low: Any, high: Any, table: Any, states: Any) -> None:
    """The hashes of the strings low … high-1; what a search for them looks at first is brought near, all at once."""
    blob, limits, hashes, slots, _ = table
    mask = np.uint64(slots.size - 1)
    for i in range(low, high):
        state = hashed(buffer, begins[i], ends[i])
        prefetch(slots, np.int64(state & mask))
        states[i - low] = state
    for i in range(high - low):
        code = slots[np.int64(states[i] & mask)]
        if code >= 0:
            prefetch(hashes, code)
            prefetch(limits, code)
    for i in range(high - low):
        code = slots[np.int64(states[i] & mask)]
        if code >= 0 and hashes[code] == states[i]:
            prefetch(blob, limits[code])


@kernel(fastmath=STRICT)
def find_strings(buffer: Any, begins: Any, ends: Any, table: Any, out: Any) -> None:
    """out[i] = the code of buffer[begins[i] : ends[i]], or -1 where it has none."""
    blob, limits, hashes, slots, _ = table
    mask = np.uint64(slots.size - 1)
    far, states = slots.size > _NEAR, np.empty(_BATCH, np.uint64)
    for i in range(begins.size):
        low, size = begins[i], ends[i] - begins[i]
        turn = i % _BATCH
        if far and turn == 0:
            approach(buffer, begins, ends, i, min(i + _BATCH, begins.size), table, states)
        state = states[turn] if far else hashed(buffer, low, ends[i])
        slot = np.int64(state & mask)
        code = slots[slot]
        while code >= 0:
            if hashes[code] == state:
                begin = limits[code]
                if limits[code + 1] - begin == size and equal(blob, begin, buffer, low, size):
                    break
            slot = np.int64((slot + 1) & (slots.size - 1))
            code = slots[slot]
        out[i] = code


@kernel(fastmath=STRICT)
def intern_strings(buffer: Any, begins: Any, ends: Any, first: Any, table: Any, out: Any) -> Any:
    """out[i] = the code of buffer[begins[i] : ends[i]], from i = first on; returns the i at which the table is full."""
    blob, limits, hashes, slots, used = table
    mask = np.uint64(slots.size - 1)
    far, states = slots.size > _NEAR, np.empty(_BATCH, np.uint64)
    for i in range(first, begins.size):
        low, size = begins[i], ends[i] - begins[i]
        turn = (i - first) % _BATCH
        if far and turn == 0:
            approach(buffer, begins, ends, i, min(i + _BATCH, begins.size), table, states)
        state = states[turn] if far else hashed(buffer, low, ends[i])
        slot = np.int64(state & mask)
        code = slots[slot]
        while code >= 0:
            if hashes[code] == state:
                begin = limits[code]
                if limits[code + 1] - begin == size and equal(blob, begin, buffer, low, size):
                    break
            slot = np.int64((slot + 1) & (slots.size - 1))
            code = slots[slot]
        if code < 0:
            count = used[0]
            begin = limits[count]
            if count == hashes.size or begin + size > blob.size:
                return i
            copied(buffer, low, blob, begin, size)
            limits[count + 1] = begin + size
            hashes[count] = state
            slots[slot] = count
            used[0] = count + 1
            code = count
        out[i] = code
    return begins.size


@kernel(fastmath=STRICT)
def place(hashes: Any, count: Any, slots: Any) -> None:
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
    pairs, slots, used = table
    mask = slots.size - 1
    for i in range(first, left.size):
        if left[i] < 0 or right[i] < 0:
            out[i] = -1
            continue
        pair = (np.int64(left[i]) << 32) | np.int64(right[i])
        slot = np.int64(mixed(np.uint64(pair)) & np.uint64(mask))
        code = slots[slot]
        while code >= 0 and pairs[code] != pair:
            slot = (slot + 1) & mask
            code = slots[slot]
        if code < 0:
            count = used[0]
            if count == pairs.size:
                return i
            pairs[count] = pair
            slots[slot] = count
            used[0] = count + 1
            code = count
        out[i] = code
    return left.size


@kernel(fastmath=STRICT)
def paste(blob: Any, ends: Any, codes: Any, buffer: Any, at: Any) -> None:
    """Copy string codes[i] to buffer[at[i]], and move at[i] behind it."""
    for i in range(codes.size):
        begin, size = ends[codes[i]], ends[codes[i] + 1] - ends[codes[i]]
        copied(blob, begin, buffer, at[i], size)
        at[i] += size
