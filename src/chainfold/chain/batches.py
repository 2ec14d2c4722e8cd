"""Chains on disk and in pipes, read batch by batch: what is read is checked, and only few batches are held.

    ChainReader     what all of them state: sizes and the vocabulary
    ChainFile       an open file: its messages, as long as it stays as it is
    StoredChain     a chain in a file
    PipedChain      a chain in a pipe

A batch carries a checksum of its numbers. When it is first read it is checked, and so is everything that kernels rely
on: whoever made the file, they see no number out of its range. Files are read batch by batch and never mapped: one that
is changed meanwhile ends in a sentence. Blocks are views of a batch in memory, of which each thread holds the latest
few, so that the memory of a reader stays small however large the file is; only a block that spans batches is copied.
Threads and forked processes share no lock and no position.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import weakref
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.arrow_messages import FILE, MessageFile, MessageStream
from chainfold.chain.block import NO_LABEL, Block, check_block, frozen, join_blocks
from chainfold.chain.header import EDGE, STATE, VERSION, Header, OtherVersion, counts_of, digest, digest_of, header_of
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadChain, BadFile, ChainfoldError
from chainfold.system.storage import is_uri, shown

CHECKSUM = b"crc32"  # the key of a batch's checksum among its metadata
NO_CHAIN = "this is not a chain written by chainfold, or it is cut short or damaged"
_LEAST_HELD = 2  # batches, by each thread: a block may lie in two, and be read forward or backward
_MOST_HELD, _HELD_BYTES = 16, 1 << 24  # for blocks at random
_IN_THIS_THREAD = pa.ipc.IpcReadOptions(use_threads=False)  # there is nothing to unpack
_OF_THE_FILE = (None, errno.EINVAL, errno.EOVERFLOW, errno.ESPIPE)  # errors that come of what is in it


def check_machine() -> None:
    if sys.byteorder != "little":
        raise ChainfoldError("chains are stored little-endian, and this machine is not; use one that is.")


def checksum(batch: Any, digest: bytes, k: int) -> int:
    """Of all numbers of batch k, so that it is not taken for another batch or for one of another file."""
    total = zlib.crc32(digest + k.to_bytes(8, "little"))
    for column in batch.columns:
        if pa.types.is_large_list(column.type):
            total = zlib.crc32(raw_numbers(column.offsets).data, total)
            column = column.values
        total = zlib.crc32(raw_numbers(column).data, total)
    return total


def raw_numbers(column: Any) -> NDArray[Any]:
    """The numbers of a column as they lie in memory; of names, their ids."""
    numbers: NDArray[Any] = (column.indices if pa.types.is_dictionary(column.type) else column).to_numpy()
    return numbers


@contextmanager
def damage(path: object, sentence: str) -> Iterator[None]:
    """Whatever reading the file may end in, as one sentence."""
    try:
        yield
    except (ChainfoldError, MemoryError):  # of Arrow too
        raise
    except FileNotFoundError:
        raise BadFile(path, "there is no such file.") from None
    except OtherVersion as error:
        raise BadFile(path, f"its version is {error}, and this chainfold reads {VERSION}; encode it anew.") from None
    except OSError as error:
        problem = sentence if error.errno in _OF_THE_FILE else f"cannot be read: {os.strerror(error.errno or 0)}"
        raise BadFile(path, f"{problem}.") from None
    except (pa.ArrowException, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise BadFile(path, f"{sentence}.") from None


class ChainReader(ABC):
    """What a chain on disk states: sizes, and a vocabulary that is read when it is needed."""

    def __init__(self, path: str | Path, schema: Any) -> None:
        check_machine()
        self.path, self._called = path, shown(path)
        self._metadata: dict[bytes, bytes] = schema.metadata or {}
        self.header = header = header_of(self._metadata)
        self._digest = digest(self._metadata)
        if not schema.equals(header.schema):
            raise BadFile(path, f"{NO_CHAIN}.")
        self.positions, self.entries, self.sequences = header.positions, header.entries, header.sequences
        self.n_labels, self.n_attributes = header.n_labels, header.n_attributes
        self.n_edge_attributes = header.n_edge_attributes
        self.active, self.labelled, self.batch = header.active, header.labelled, header.batch
        self.valued, self.edge_valued, self.weighted = header.valued, header.edge_valued, header.weighted
        self._names: dict[str, Any] = {}

    @property
    def digest(self) -> str:
        """sha256 of the header and the vocabulary's counts, in hex."""
        return self._digest.hex()

    @abstractmethod
    def block(self, low: int, high: int) -> Block:
        """Positions low … high-1."""

    def _check_range(self, low: int, high: int) -> None:
        if not 0 <= low < high <= self.positions:
            raise BadChain(f"positions {low} to {high - 1} are not in the chain, which has {self.positions}.")

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """What the numbers stand for; None where that was not known."""
        header = self.header
        if header.vocabulary is None:
            return None
        with damage(self._called, "its vocabulary is damaged"):
            if not self._names and (header.named or (header.edge_named and header.n_edge_attributes)):
                self._read_names()
            for names in self._names.values():
                names.validate(full=True)
                if names.null_count:
                    raise BadFile(self._called, "its vocabulary is damaged.")
            nothing = pa.array([], pa.large_string())
            counts, marks = counts_of(header, self._metadata)
            found = Vocabulary(
                labels=tuple(header.labels or ()),
                attributes=self._names[STATE] if header.named else None,
                edge_attributes=self._names.get(EDGE, nothing) if header.edge_named else None,
                counts=counts,
                marks=marks,
                label=header.label,
                hash_bits=header.hash_bits,
                min_count=header.min_count,
                template=header.template,
                columns=header.columns,
            )
            if digest_of(found) != header.vocabulary:
                raise BadFile(self._called, "its vocabulary is damaged.")
        return found

    @abstractmethod
    def _read_names(self) -> None:
        """Take the names of attributes from the first batch."""

    def _take_names(self, batch: Any) -> None:
        """Keep the names that come with a batch, if there are as many as there should be."""
        names = {prefix: batch.column(f"{prefix}ids").values.dictionary for prefix in self.header.sizes}
        if {prefix: len(some) for prefix, some in names.items()} != self.header.sizes:
            raise BadFile(self._called, "its vocabulary is damaged.")
        self._names = self._names or names


class _Batches(ChainReader):
    """What a chain in a file and a chain in a pipe have in common: blocks that are cut from batches."""

    def block(self, low: int, high: int) -> Block:
        self._check_range(low, high)
        with damage(self._called, f"positions {low} to {high - 1} are damaged"):
            first, last = low // self.batch, (high - 1) // self.batch
            pieces = _Pieces(self._wholes(first, last), first * self.batch, self.batch, low, high)
            return next(iter(pieces)) if first == last else join_blocks(pieces)

    @abstractmethod
    def _wholes(self, first: int, last: int) -> Iterable[Block]:
        """The batches first … last, as blocks, as often as one likes."""

    def _checked(self, k: int, batch: Any, metadata: Any) -> Block:
        """The batch as a block, if it is undamaged and safe for kernels."""
        begin = k * self.batch
        end = min(begin + self.batch, self.positions)
        batch.validate()  # nothing looks at its numbers before its buffers
        columns = [*batch.columns, *(column.values for column in batch.columns if hasattr(column, "values"))]
        if (
            batch.num_rows != end - begin
            or any(column.null_count for column in columns)
            or checksum(batch, self._digest, k) != int(metadata[CHECKSUM])
        ):
            raise BadFile(self._called, f"positions {begin} to {end - 1} are damaged.")
        block = _block(batch)
        problem = _problem(batch, block, self.labelled)
        if problem:
            raise BadFile(self._called, f"positions {begin} to {end - 1} have {problem}.")
        try:
            first = self.header.first or 0
            check_block(block, first + begin, first + end, self.n_labels, self.n_attributes, self.n_edge_attributes)
        except BadChain as error:
            raise BadFile(self._called, str(error)) from None
        return block


class ChainFile:
    """An Arrow file that is a chain's, opened for reading; it must stay as it is."""

    def __init__(self, path: str | Path, called: object) -> None:
        """called: the name of the file in sentences."""
        self._called = called
        self._file = file = Path(path).open("rb", buffering=0)  # noqa: SIM115  (closed when this is freed)
        weakref.finalize(self, file.close)
        about = os.fstat(file.fileno())
        self.seen = about.st_size, about.st_mtime_ns
        self.messages = MessageFile(file)
        self.schema = pa.ipc.read_schema(pa.py_buffer(self.messages.schema()))

    def check(self, header: Header, batches: int) -> None:
        """Raise unless there are as many batches and names as there should be."""
        if len(self.messages.batches) != batches:
            raise BadFile(self._called, f"{NO_CHAIN}.")
        if [self.messages.names(place) for place in self.messages.dictionaries] != [*header.sizes.values()]:
            raise BadFile(self._called, "its vocabulary is damaged.")

    def batch(self, begin: bytes, k: int) -> Any:
        """Batch k and its metadata; begin: the schema to read it by."""
        return self._first_batch(begin, self.messages.batches[k])

    def named_batch(self) -> Any:
        """The first batch with all names."""
        messages = self.messages
        batch, _ = self._first_batch(messages.schema(), *messages.dictionaries, messages.batches[0])
        batch.validate()
        return batch

    def _first_batch(self, begin: bytes, *places: Any) -> Any:
        try:
            data = self.messages.stream(begin, *places)
        finally:
            about = os.fstat(self._file.fileno())
            if (about.st_size, about.st_mtime_ns) != self.seen:
                raise BadFile(self._called, "was changed while it was read; try again when nothing writes to it.")
        reader = pa.ipc.open_stream(pa.py_buffer(data), options=_IN_THIS_THREAD)
        return reader.read_next_batch_with_custom_metadata()


class StoredChain(_Batches):
    """A chain in a file, read as needed; each thread keeps the latest batches. `open_chain` makes one.

    Raises `ChainfoldError` (`BadFile`) where the file is no chain or is damaged.

    >>> from chainfold import SyntheticChain, write_chain
    >>> write_chain("example.chain", SyntheticChain(1000, 2, 6, 3))
    >>> StoredChain("example.chain").block(998, 1000).labels.size
    2
    """

    def __init__(self, path: str | Path) -> None:
        with damage(path, NO_CHAIN):
            file = ChainFile(path, path)
        self._take(file, path)
        if self.header.first is not None:
            raise BadFile(path, "is a part of a chain; name the folder that it is in.")

    def _take(self, file: ChainFile, called: str | Path) -> None:
        """Read from this file."""
        self._file = file
        with damage(called, NO_CHAIN):
            super().__init__(called, self._file.schema)
            self._file.check(self.header, self.header.batches)
            bare = replace(self.header, named=False, edge_named=False)  # a batch in itself has ids and no names
            self._begin = bare.schema.serialize().to_pybytes()
        self._safe = np.zeros(self.header.batches, np.bool_)  # batches that were looked at
        self._held = threading.local()

    def __reduce__(self) -> Any:
        return reopened, (type(self), absolute(self.path), self.digest)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._file.seen[0]

    def release(self) -> None:
        """Free the batches that threads hold; they are read again where they are needed."""
        self._held = threading.local()

    def _wholes(self, first: int, last: int) -> Iterable[Block]:
        return _Wholes(self._whole, first, last)

    def _whole(self, k: int) -> Block:
        held: dict[int, Block] = self._held.__dict__.setdefault("batches", {})
        block = held.pop(k, None)
        if block is None:
            block = self._read(k)
            while len(held) >= _LEAST_HELD and (
                len(held) >= _MOST_HELD or sum(one.nbytes for one in (block, *held.values())) > _HELD_BYTES
            ):
                del held[next(iter(held))]
        held[k] = block  # the latest is the last
        return block

    def _read(self, k: int) -> Block:
        batch, metadata = self._file.batch(self._begin, k)
        if self._safe[k]:
            return _block(batch)
        block = self._checked(k, batch, metadata)
        self._safe[k] = True
        return block

    def _read_names(self) -> None:
        self._take_names(self._file.named_batch())


def absolute(path: str | Path) -> str:
    """The path for a process that runs in another folder; a URI stays as it is."""
    return str(path) if is_uri(path) else str(Path(path).absolute())


def reopened(kind: type[Any], path: str, digest: str) -> Any:
    """The chain at a path, if it is still the one that it was."""
    chain = kind(path)
    if chain.digest != digest:
        raise BadFile(shown(path), "is another chain than the one that was opened; open it anew.")
    return chain


class _Wholes:
    """Batches one after another: they are not all in memory at once."""

    def __init__(self, whole: Callable[[int], Block], first: int, last: int) -> None:
        self._whole, self._numbers = whole, range(first, last + 1)

    def __iter__(self) -> Iterator[Block]:
        return map(self._whole, self._numbers)


class _Pieces:
    """What of the batches is in low … high-1."""

    def __init__(self, wholes: Iterable[Block], begin: int, size: int, low: int, high: int) -> None:
        self._wholes, self._begin, self._size, self._low, self._high = wholes, begin, size, low, high

    def __iter__(self) -> Iterator[Block]:
        for begin, whole in zip(range(self._begin, self._high, self._size), self._wholes, strict=True):
            yield whole.part(max(self._low - begin, 0), min(self._high - begin, self._size))


class PipedChain(_Batches):
    """A source that is read forward, once; the batches of the latest block and the one before are held."""

    def __init__(self, file: Any, path: str | Path = "standard input") -> None:
        if hasattr(file, "peek") and file.peek(len(FILE))[: len(FILE)] == FILE:
            raise BadFile(path, "a chain in a file cannot be read through a pipe; name the file.")
        with damage(path, NO_CHAIN):
            self._reader = pa.ipc.open_stream(pa.PythonFile(MessageStream(file), "r"))
            super().__init__(path, self._reader.schema)
        self._held: deque[Block] = deque()
        self._next = 0  # the batch that comes next
        self._lock = threading.Lock()

    def _wholes(self, first: int, last: int) -> list[Block]:
        with self._lock:
            if first < self._oldest:
                raise ChainfoldError(
                    "the chain comes through a pipe and can be read only once; use `engine='stream'`, or store it in a "
                    "file first."
                )
            self._drop(first - 1)
            while self._next <= last:
                self._held.append(self._read())
                self._next += 1
                self._drop(first - 1)
            return list(self._held)[first - self._oldest : last + 1 - self._oldest]

    @property
    def _oldest(self) -> int:
        """The first batch that is held."""
        return self._next - len(self._held)

    def _drop(self, first: int) -> None:
        """Hold no batch before the one given."""
        while self._held and self._oldest < first:
            self._held.popleft()

    def _read(self) -> Block:
        try:
            batch, metadata = self._reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            raise BadFile(
                self._called, f"ends after {self._next * self.batch} of {self.positions} positions."
            ) from None
        block = self._checked(self._next, batch, metadata)
        self._take_names(batch)
        return block

    def _read_names(self) -> None:
        self._wholes(0, 0)


def _block(batch: Any) -> Block:
    """A batch as a block of views."""

    def lists(prefix: str) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        if f"{prefix}ids" not in batch.schema.names:
            return frozen(None, np.int64), frozen(None, np.int32), frozen(None, np.float64)
        ids, values = batch.column(f"{prefix}ids"), None
        if f"{prefix}values" in batch.schema.names:
            values = raw_numbers(batch.column(f"{prefix}values").values)
        return (
            frozen(ids.offsets.to_numpy(), np.int64),
            frozen(raw_numbers(ids.values), np.int32),
            frozen(values, float),
        )

    return Block(
        frozen(raw_numbers(batch.column("label")), np.int32),
        frozen(raw_numbers(batch.column("start")).view(np.bool_), np.bool_),
        *lists(STATE),
        *lists(EDGE),
        frozen(raw_numbers(batch.column("weight")) if "weight" in batch.schema.names else None, np.float64),
    )


def _problem(batch: Any, block: Block, labelled: bool) -> str | None:
    """What is wrong with numbers that `check_block` does not look at, because nobody else could write them."""
    if raw_numbers(batch.column("start")).max() > 1:
        return "start marks that are neither 0 nor 1"
    if not ((block.weights >= 0.0) & (block.weights < np.inf)).all():
        return "weights that are negative or not finite"
    if labelled and block.labels.min() == NO_LABEL:
        return "unknown labels, and the chain says that all are known"
    for prefix, values in ((STATE, block.values), (EDGE, block.edge_values)):
        if f"{prefix}values" not in batch.schema.names:
            continue
        ids, lists = batch.column(f"{prefix}ids"), batch.column(f"{prefix}values")
        if len(lists.values) != len(ids.values) or not ids.offsets.equals(lists.offsets):
            return "ids and values that do not belong together"
        if not np.isfinite(values).all():
            return "values that are not finite numbers"
    return None
