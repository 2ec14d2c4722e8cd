"""A chain in parts: a folder of files with one vocabulary, read like a single chain.

    index.json                  the names and checksums of the other files, and the sizes of parts; it is written last
    vocabulary-DIGEST.arrow     the header and the vocabulary of a single chain, without positions
    part-000000-DIGEST.arrow    positions, as in a single chain; their header has no vocabulary
    ...

Parts are opened when a block needs them; each thread holds few open, and data of two. What was checked of a part is
known to all threads.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.batches import NO_CHAIN, ChainFile, ChainReader, StoredChain, absolute, damage, reopened
from chainfold.chain.block import Block, join_blocks
from chainfold.chain.header import Header
from chainfold.chain.part_index import INDEX, Part, WholeFile, index_of, parts_of
from chainfold.errors import BadFile
from chainfold.system.storage import storage_of

_NO_INDEX = "this is not the index of a chain in parts, or it is cut short or damaged"
_MOST_OPEN = 16  # parts, by each thread


class StoredPart(StoredChain):
    """One part, whose positions count from its own first."""

    def __init__(self, file: ChainFile, called: str, expected: Header) -> None:
        """expected: the header that it must have, but for what a part may choose."""
        self._take(file, called)
        chosen = {name: getattr(self.header, name) for name in ("batch", "labelled")}
        if self.header != replace(expected, **chosen):
            raise BadFile(called, "is a part of another chain; encode the chain anew.")

    @property
    def seen(self) -> tuple[int, int]:
        """Size and time of the file."""
        return self._file.seen

    def known_as(self, safe: NDArray[np.bool_]) -> None:
        """Batches that another object has checked need not be checked again."""
        self._safe = safe


class ChainInParts(ChainReader):
    """A chain in a folder of parts, read as needed. `open_chain` makes one.

    folder   a path, or a URI that pyarrow's file systems know
    cache    where parts of a remote chain are kept; default: the folder that CHAINFOLD_CACHE names, or
             ~/.cache/chainfold/parts

    Raises `ChainfoldError` (`BadFile`) where the folder holds no chain, and where a part is missing or damaged. `parts`
    are the `Part`s in their order.

    >>> import tempfile, chainfold
    >>> folder = tempfile.mkdtemp()
    >>> with open(f"{folder}/train.txt", "w") as file:
    ...     _ = file.write("the D\\ncat N\\n\\nit P\\n")
    >>> chain = chainfold.encode_in_parts(f"{folder}/train.txt", f"{folder}/chain", part_size=5)
    >>> len(chain.parts), chain.block(0, 3).labels.tolist()
    (3, [0, 1, 2])
    """

    def __init__(self, folder: str | Path, cache: str | Path | None = None) -> None:
        self._storage, self._cache = storage_of(folder, cache), cache
        called = self._storage.called(INDEX)
        with damage(called, _NO_INDEX), self._storage.fetched(INDEX) as path:
            self._index = index_of(path.read_bytes())
        self._file = self._opened_file(self._index.vocabulary)
        with damage(self._storage.called(self._index.vocabulary.name), NO_CHAIN):
            super().__init__(folder, self._file.schema)
            self._file.check(self.header, 1)
        with damage(called, _NO_INDEX):
            self.parts = parts_of(self.header, self._index.parts)
        self._firsts = [part.first for part in self.parts]
        self._known: dict[int, tuple[tuple[int, int], NDArray[np.bool_]]] = {}  # what was seen of parts
        self._held = threading.local()

    def __reduce__(self) -> Any:
        return reopened, (ChainInParts, absolute(self.path), self.digest)

    @property
    def digest(self) -> str:
        """sha256 of the index, which has the checksums of all files."""
        return self._index.sha256

    @property
    def size(self) -> int:
        """Bytes of the parts and the vocabulary."""
        return self._index.vocabulary.size + sum(part.size for part in self.parts)

    def part_of(self, position: int) -> int:
        """The number of the part in which a position lies."""
        return bisect_right(self._firsts, position) - 1

    def block(self, low: int, high: int) -> Block:
        self._check_range(low, high)
        first, last = self.part_of(low), self.part_of(high - 1)
        pieces = _Pieces(self, first, last, low, high)
        return next(iter(pieces)) if first == last else join_blocks(pieces)

    def release(self) -> None:
        """Free the parts that threads hold, and the vocabulary; they are read again where they are needed."""
        self._held = threading.local()
        self._forget_names()

    def part(self, k: int) -> StoredPart:
        """Part k, open; each thread has its own."""
        held: dict[int, StoredPart] = self._held.__dict__.setdefault("parts", {})
        part = held.pop(k, None)
        if part is None:
            part = self._opened(k)
            for before in list(held.values())[:-1]:
                before.release()
            if len(held) >= _MOST_OPEN:
                del held[next(iter(held))]
        held[k] = part  # the latest is the last
        return part

    def _opened(self, k: int) -> StoredPart:
        about = self.parts[k]
        called = self._storage.called(about.name)
        part = StoredPart(self._opened_file(about), called, part_header(self.header, about))
        seen, safe = self._known.setdefault(k, (part.seen, np.zeros(part.header.batches, np.bool_)))
        if part.seen != seen or safe.size != part.header.batches:
            raise BadFile(called, "was changed while the chain was read; open it anew.")
        part.known_as(safe)
        return part

    def _opened_file(self, about: Part | WholeFile) -> ChainFile:
        called = self._storage.called(about.name)
        with damage(called, NO_CHAIN):
            file = ChainFile(self._storage.path(about.name, about.sha256), called)
            if file.seen[0] != about.size:
                raise BadFile(called, f"has {file.seen[0]:,} bytes, but was written with {about.size:,}.")
        return file

    def _read_names(self) -> None:
        self._take_names(self._file.named_batch())


def part_header(header: Header, part: Part) -> Header:
    """The header of a part of the chain with this one; it has no vocabulary, and the digest of one as its origin."""
    return replace(
        header,
        positions=part.positions,
        entries=part.entries,
        sequences=part.sequences,
        active=part.entries / part.positions,
        named=False,
        edge_named=False,
        labels=None,
        label=None,
        hash_bits=None,
        min_count=1,
        template=None,
        columns=None,
        words=1,
        vocabulary=None,
        origin=header.vocabulary,
        appended=(),
        first=part.first,
    )


class _Pieces:
    """The blocks of the parts in low … high-1; can be iterated over several times."""

    def __init__(self, chain: ChainInParts, first: int, last: int, low: int, high: int) -> None:
        self._chain, self._numbers, self._low, self._high = chain, range(first, last + 1), low, high

    def __iter__(self) -> Iterator[Block]:
        for k in self._numbers:
            about = self._chain.parts[k]
            low, high = max(self._low - about.first, 0), min(self._high - about.first, about.positions)
            yield self._chain.part(k).block(low, high)
