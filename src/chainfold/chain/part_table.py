"""The table of parts in the index of a chain in parts: JSON with a list for each column."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from chainfold.chain.header import Header

INDEX = "index.arrow"
PART_NAME = re.compile(r"part-(\d{6,})-([0-9a-f]{16})\.arrow")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COLUMNS = ("name", "positions", "entries", "sequences", "size", "sha256")
_MOST_BYTES = 2**62


class Part(NamedTuple):
    """One file of a chain in parts.

    >>> from chainfold import open_chain
    >>> def sizes(folder: str) -> list[int]:
    ...     return [part.size for part in open_chain(folder).parts]
    """

    name: str  # of the file in the folder
    first: int  # its first position in the chain
    positions: int
    entries: int
    sequences: int  # that begin in it
    size: int  # bytes
    sha256: str  # of the file


def part_name(number: int, sha256: str) -> str:
    """The name of a part: no other content has it, so that a chain can be replaced while it is read."""
    return f"part-{number:06}-{sha256[:16]}.arrow"


def packed_parts(parts: Sequence[Part]) -> bytes:
    """The table as it is stored."""
    return json.dumps({name: [getattr(part, name) for part in parts] for name in _COLUMNS}).encode()


def parts_of(header: Header, data: bytes) -> tuple[Part, ...]:
    """The parts, if they make up the chain; else one of the errors that readers of chains know."""
    table = json.loads(data)
    columns = [table[name] for name in _COLUMNS]
    if any(type(column) is not list for column in columns):
        raise TypeError("not a list")
    parts: list[Part] = []
    first = 0
    for name, positions, entries, sequences, size, sha256 in zip(*columns, strict=True):
        matched = PART_NAME.fullmatch(name)
        if matched is None or not _SHA256.fullmatch(sha256) or matched[2] != sha256[:16]:
            raise ValueError("a part of another name")
        for number, least, most in (
            (positions, 1, header.positions),
            (entries, 0, header.entries),
            (sequences, 0 if parts else 1, positions),
            (size, 1, _MOST_BYTES),
        ):
            _check_between(number, least, most)
        parts.append(Part(name, first, positions, entries, sequences, size, sha256))
        first += positions
    totals = first, sum(part.entries for part in parts), sum(part.sequences for part in parts)
    if totals != (header.positions, header.entries, header.sequences):
        raise ValueError("parts of another chain")
    return tuple(parts)


def _check_between(number: Any, least: int, most: int) -> None:
    if type(number) is not int or not least <= number <= most:
        raise ValueError("a number out of its range")
