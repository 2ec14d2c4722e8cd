"""The index of a chain in parts: JSON with the file of the vocabulary and a table of parts, under a digest.

It is written last: a folder with an index holds a whole chain. The names of the other files have the beginnings of
their checksums, so that one chain can replace another while that is read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from chainfold.chain.header import Header

INDEX = "index.json"
SIGN = 16  # hex digits of a checksum in the name of a file
_VERSION = 1
_VOCABULARY = re.compile(rf"vocabulary-([0-9a-f]{{{SIGN}}})\.arrow")
_PART = re.compile(rf"part-[0-9]{{6,}}-([0-9a-f]{{{SIGN}}})\.arrow")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COLUMNS = ("name", "positions", "entries", "sequences", "size", "sha256")
_MOST_BYTES = 2**62


class WholeFile(NamedTuple):
    """A file that was written with this content."""

    name: str
    size: int  # bytes
    sha256: str


class Part(NamedTuple):
    """One file of a chain in parts.

    >>> from chainfold import ChainInParts
    >>> def largest(chain: ChainInParts) -> int:
    ...     return max(part.size for part in chain.parts)
    """

    name: str  # of the file in the folder
    first: int  # its first position in the chain
    positions: int
    entries: int  # attributes in all
    sequences: int  # that begin in it
    size: int  # bytes
    sha256: str  # of the file


class Index(NamedTuple):
    """The content of the index."""

    vocabulary: WholeFile
    parts: dict[str, list[Any]]  # columns of the table
    sha256: str  # of both


def vocabulary_name(sha256: str) -> str:
    return f"vocabulary-{sha256[:SIGN]}.arrow"


def part_name(number: int, sha256: str) -> str:
    return f"part-{number:06}-{sha256[:SIGN]}.arrow"


def is_ours(name: str) -> bool:
    """Whether this is the name of a file of a chain in parts."""
    return name == INDEX or any(kind.fullmatch(name) for kind in (_VOCABULARY, _PART))


def packed_index(vocabulary: WholeFile, parts: Sequence[Part]) -> bytes:
    """The index as it is stored."""
    table = {name: [getattr(part, name) for part in parts] for name in _COLUMNS}
    text = json.dumps({"version": _VERSION, "vocabulary": vocabulary, "parts": table})
    return json.dumps({"sha256": _digest(text), "chain": text}).encode()


def index_of(data: bytes) -> Index:
    """Read an index; raises ValueError, LookupError or TypeError where it is damaged."""
    whole = json.loads(data)
    if _digest(whole["chain"]) != whole["sha256"]:
        raise ValueError("the digest is another")
    about = json.loads(whole["chain"])
    if about["version"] != _VERSION:
        raise ValueError("another version")
    vocabulary = WholeFile(*about["vocabulary"])
    _check_file(vocabulary, _VOCABULARY)
    return Index(vocabulary, about["parts"], whole["sha256"])


def parts_of(header: Header, table: dict[str, list[Any]]) -> tuple[Part, ...]:
    """The parts, if they make up a chain with this header; raises like `index_of` otherwise."""
    parts: list[Part] = []
    first = 0
    for name, positions, entries, sequences, size, sha256 in zip(*(table[name] for name in _COLUMNS), strict=True):
        _check_file(WholeFile(name, size, sha256), _PART)
        _check_between(positions, 1, header.positions)
        _check_between(entries, 0, header.entries)
        _check_between(sequences, 0 if parts else 1, positions)
        parts.append(Part(name, first, positions, entries, sequences, size, sha256))
        first += positions
    totals = first, sum(part.entries for part in parts), sum(part.sequences for part in parts)
    if totals != (header.positions, header.entries, header.sequences):
        raise ValueError("parts of another chain")
    return tuple(parts)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _check_file(file: WholeFile, kind: re.Pattern[str]) -> None:
    named = kind.fullmatch(file.name)
    if named is None or not _SHA256.fullmatch(file.sha256) or named[1] != file.sha256[:SIGN]:
        raise ValueError("a file of another name")
    _check_between(file.size, 1, _MOST_BYTES)


def _check_between(number: Any, least: int, most: int) -> None:
    if type(number) is not int or not least <= number <= most:
        raise ValueError("a number out of its range")
