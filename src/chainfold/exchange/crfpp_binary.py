"""CRF++'s binary models, as crf_learn writes them.

    u32 version, i32 type 0, f64 cost factor, u32 M, u32 columns, u32 bytes of the trie
    u32 size, the labels with a NUL after each
    u32 size, the patterns with a NUL after each, filled up with NULs
    the trie, then M weights as float32

The trie is a double array of (i32 base, u32 check). From a node with base b, the byte c of a key leads to unit
b + c + 1, if its check is b. A key ends where unit b has check b and a base below zero: its ID is -base - 1. The root
is unit 0.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from chainfold.exchange.crfpp import VERSIONS, Content, assembled
from chainfold.exchange.foreign import Ids
from chainfold.model.model import Model
from chainfold.system.validate import need

_HEAD = struct.Struct("<IidIII")
_UNIT = np.dtype([("base", "<i4"), ("check", "<u4")])
_MOST_TEXT = 16  # bytes of keys for each byte of the trie
_LEAST_TEXT = 1 << 26
_CODES = 257  # a byte, or the end of a key
_BYTES = [bytes([letter]) for letter in range(256)]


def begins_so(head: bytes) -> bool:
    """Whether a file that begins so can be a binary model; one of chainfold has a brace after eight bytes."""
    first = struct.Struct("<Ii")
    return len(head) > first.size and head[8:9] != b"{" and first.unpack_from(head) in {(v, 0) for v in VERSIONS}


def read(content: bytes, encoding: str) -> Model:
    """The model that a file contains."""
    need(len(content) >= _HEAD.size, "it is cut short")
    _, _, factor, n_weights, n_columns, trie = _HEAD.unpack_from(content)
    at = _HEAD.size
    lists: list[list[bytes]] = []
    for what in ("labels", "patterns"):
        need(at + 4 <= len(content), "it is cut short")
        size = int.from_bytes(content[at : at + 4], "little")
        need(at + 4 + size <= len(content), f"its {what} lie beyond its end")
        lists.append([text for text in content[at + 4 : at + 4 + size].split(b"\0") if text])
        at += 4 + size
    need(
        trie % _UNIT.itemsize == 0 and at + trie + 4 * n_weights == len(content), "its parts do not add up to its size"
    )
    keys, ids = keys_of(np.frombuffer(content, _UNIT, trie // _UNIT.itemsize, at))
    weights = np.frombuffer(content, "<f4", n_weights, at + trie).astype(np.float64)
    return assembled(Content(factor, n_columns, lists[0], lists[1], keys, ids, weights), len(content), encoding)


def keys_of(units: NDArray[np.void]) -> tuple[list[bytes], Ids]:
    """The keys of a trie, and their IDs.

    The nodes at the same depth are followed at once: a unit p is a child of the node whose base is check[p]. In a trie
    each unit is the child of one node.
    """
    base, check = units["base"].astype(np.int64), units["check"].astype(np.int64)
    by_parent = np.argsort(check, kind="stable")
    parents = check[by_parent]
    need(base.size > 0 and base[0] > 0, "its trie has no root")
    keys, ids, size = [], [], 0
    bases, texts, seen = base[:1], [b""], np.zeros(base.size, np.bool_)
    while bases.size:
        low, high = (np.searchsorted(parents, bases, side=side) for side in ("left", "right"))
        need((high - low).sum() <= base.size, "its trie is damaged")
        owner = np.repeat(np.arange(bases.size), high - low)
        places = np.arange(owner.size) - np.repeat(np.cumsum(high - low) - (high - low), high - low) + low[owner]
        units_here = by_parent[places]
        code = units_here - bases[owner]
        good = (code >= 0) & (code < _CODES) & (units_here > 0)
        owner, units_here, code = owner[good], units_here[good], code[good]
        need(not seen[units_here].any() and np.unique(units_here).size == units_here.size, "its trie is damaged")
        seen[units_here] = True
        ending = (code == 0) & (base[units_here] < 0)
        keys += [texts[k] for k in owner[ending].tolist()]
        ids += (-base[units_here[ending]] - 1).tolist()
        further = (code > 0) & (base[units_here] > 0)
        texts = [texts[k] + _BYTES[c - 1] for k, c in zip(owner[further].tolist(), code[further].tolist(), strict=True)]
        bases = base[units_here[further]]
        size += sum(map(len, texts))
        need(size <= max(_LEAST_TEXT, _MOST_TEXT * 8 * base.size), "its trie makes longer texts than it can contain")
    return keys, np.array(ids, np.int64)
