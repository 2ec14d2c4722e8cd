"""The chain on disk: one Arrow IPC file; or the same as an Arrow IPC stream, through a pipe.

A record batch holds a stretch of positions, all batches but the last equally many:

    label        int32, -1 where unknown
    start        uint8, 1 where a sequence starts
    weight       float64; left out where all are one
    ids          large_list of attribute ids: a dictionary of their names, or int32 where they have none
    values       large_list of float64; left out where all are one
    edge_ids     like ids, edge_values like values; left out where there are no edge attributes

The sizes and the vocabulary stand in the schema's metadata, under a digest that is checked when the chain is opened. A
batch carries a checksum of its numbers. When it is first read it is checked, and so is everything that kernels rely on:
whoever made the file, they see no number out of its range. Files are read batch by batch and never mapped: one that is
changed meanwhile ends in a sentence. Blocks are views of a batch in memory, of which each thread holds the latest few,
so that the memory of a reader stays small however large the file is; only a block that spans batches is copied. Threads
and forked processes share no lock and no position. The file is written under a temporary name, and renamed when whole.
"""

from __future__ import annotations

import errno
import math
import os
import sys
import threading
import weakref
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from itertools import chain as one_after_another
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.arrow_messages import FILE, STREAM, MessageFile, MessageStream, begins_with
from chainfold.chain.block import NO_LABEL, Block, Source, check_block, frozen, join_blocks, vocabulary_of
from chainfold.chain.header import (
    ABOUT,
    EDGE,
    MOST_ROWS,
    STATE,
    VERSION,
    Header,
    OtherVersion,
    counts_of,
    digest,
    digest_of,
    header_of,
    packed,
)
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadChain, BadFile, ChainfoldError, EmptyChain
from chainfold.system.files import written_whole
from chainfold.system.prefetch import read_ahead

_CHECKSUM = b"crc32"
_MOST_ENTRIES = 1 << 20  # in a batch, or so
_BLOCKS_AHEAD = 1
_LEAST_HELD = 2  # batches, by each thread: a block may lie in two, and be read forward or backward
_MOST_HELD, _HELD_BYTES = 16, 1 << 24  # for blocks at random
_IN_THIS_THREAD = pa.ipc.IpcReadOptions(use_threads=False)  # there is nothing to unpack
_NO_CHAIN = "this is not a chain written by chainfold, or it is cut short or damaged"
_EXTRAS = ("valued", "edge_valued", "weighted")  # what a chain may have; its column is left out otherwise
_OF_THE_FILE = (None, errno.EINVAL, errno.EOVERFLOW, errno.ESPIPE)  # errors that come of what is in it


def write_chain(
    target: str | Path | BinaryIO, source: Source, origin: str | None = None, appended: tuple[str, ...] = ()
) -> None:
    """Write a source to a chain file or to an open binary file; `open_chain` reads it.

    target     a path, which appears complete or not at all, or an open file
    source     the chain
    origin     a text about the input, kept in the header
    appended   digests of the parts that were appended

    A source that has `sequences`, their number, is read once and in order; it may then state whether it is `valued`,
    `edge_valued` and `weighted`, else its first block shows it. Raises `ChainfoldError` (`BadFile`) where the file
    cannot be written.

    >>> from chainfold import SyntheticChain, open_chain
    >>> write_chain("example.chain", SyntheticChain(1000, 2, 6, 3))
    >>> open_chain("example.chain").positions
    1000
    """
    _check_machine()
    if isinstance(target, str | Path):
        with written_whole(target) as file:
            _write(pa.ipc.new_file, file, source, origin, appended)
        return
    try:
        _write(pa.ipc.new_stream, target, source, origin, appended)
        target.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BadFile("standard output", f"cannot be written: {error.strerror or error}.") from None


def _check_machine() -> None:
    if sys.byteorder != "little":
        raise ChainfoldError("chains are stored little-endian, and this machine is not; use one that is.")


def _write(
    new_writer: Callable[..., Any], file: Any, source: Source, origin: str | None, appended: tuple[str, ...]
) -> None:
    header, blocks = _surveyed(source)
    header = replace(header, origin=origin, appended=appended)
    blocks = read_ahead(blocks, _BLOCKS_AHEAD)
    vocabulary = vocabulary_of(source)
    names = {} if vocabulary is None else _names_to_write(header, vocabulary)
    metadata = packed(header, vocabulary)
    schema = header.schema.with_metadata(metadata)
    metadata_digest = digest(metadata)
    writer = new_writer(file, schema)
    sequences, entries, unknown = 0, 0, 0
    for k, block in enumerate(blocks):
        batch = _batch(block, schema, names)
        checksum = _checksum(batch, metadata_digest, k)
        writer.write_batch(batch, custom_metadata={_CHECKSUM: b"%d" % checksum})
        sequences += int(np.count_nonzero(block.starts))
        entries += int(block.offsets[-1] - block.offsets[0])
        unknown += int(np.count_nonzero(block.labels == NO_LABEL))
    if (sequences, entries) != (header.sequences, header.entries) or (header.labelled and unknown):
        raise BadChain(
            f"the source has {sequences} sequences, {entries} attributes in all and {unknown} unknown labels, and had "
            f"said otherwise."
        )
    writer.close()


def _surveyed(source: Source) -> tuple[Header, Iterable[Block]]:
    """What must be known before the first batch is written, and the blocks to write."""
    if source.positions < 1:
        raise EmptyChain
    rows = min(1 << int(max(math.log2(_MOST_ENTRIES / max(source.active, 1.0)), 0)), MOST_ROWS)  # blocks of engines fit
    blocks: Iterable[Block] = _checked_blocks(source, rows)
    if hasattr(source, "sequences"):
        first = next(iter(blocks))
        blocks = one_after_another([first], blocks)
        sequences, entries = int(source.sequences), round(source.active * source.positions)
        extras = {name for name in _EXTRAS if getattr(source, name, name in _extras_of(first))}
    else:
        sequences, entries, extras = 0, 0, set()
        for block in blocks:
            sequences += int(np.count_nonzero(block.starts))
            entries += int(block.offsets[-1] - block.offsets[0])
            extras |= _extras_of(block)
        blocks = _checked_blocks(source, rows)
    return _header(source, rows, sequences, entries, extras), blocks


def _extras_of(block: Block) -> set[str]:
    """Which of the columns that may be left out it needs."""
    arrays = (block.values, block.edge_values, block.weights)
    return {name for name, array in zip(_EXTRAS, arrays, strict=True) if array.size}


def _checked_blocks(source: Source, rows: int) -> Iterator[Block]:
    for low in range(0, source.positions, rows):
        high = min(low + rows, source.positions)
        block = source.block(low, high)
        check_block(block, low, high, source.n_labels, source.n_attributes, source.n_edge_attributes)
        yield block


def _header(source: Source, rows: int, sequences: int, entries: int, extras: set[str]) -> Header:
    vocabulary = vocabulary_of(source)
    meaning: dict[str, Any] = {}
    if vocabulary is not None:
        for name in ("labels", "label", "hash_bits", "min_count", "template", "columns"):
            meaning[name] = getattr(vocabulary, name)
        meaning["words"] = vocabulary.marks.shape[1]
        meaning["vocabulary"] = digest_of(vocabulary)
    return Header(
        positions=source.positions,
        entries=entries,
        sequences=sequences,
        n_labels=source.n_labels,
        n_attributes=source.n_attributes,
        n_edge_attributes=source.n_edge_attributes,
        active=entries / source.positions,
        labelled=bool(source.labelled),
        valued="valued" in extras,
        edge_valued="edge_valued" in extras,
        weighted="weighted" in extras,
        named=vocabulary is not None and vocabulary.attributes is not None,
        edge_named=vocabulary is not None and vocabulary.edge_attributes is not None,
        batch=rows,
        **meaning,
    )


def _names_to_write(header: Header, vocabulary: Vocabulary) -> dict[str, Any]:
    """The dictionary of each kind of ids, one and the same array for all batches; raises unless all sizes agree."""
    names = {STATE: vocabulary.attributes, EDGE: vocabulary.edge_attributes}
    names = {prefix: array for prefix, array in names.items() if array is not None}
    for array in names.values():
        array.validate(full=True)
        if array.null_count:
            raise BadChain("its vocabulary has attributes without a name.")
    for what, count, found in (
        ("labels", header.n_labels, len(vocabulary.labels)),
        ("attributes", header.n_attributes, vocabulary.counts.size),
        ("attributes", header.n_attributes, len(vocabulary.marks)),
        ("attributes", header.n_attributes, len(names.get(STATE, vocabulary.counts))),
        ("edge attributes", header.n_edge_attributes, len(names.get(EDGE, range(header.n_edge_attributes)))),
    ):
        if count != found:
            raise BadChain(f"it has {count} {what}, but its vocabulary knows {found}.")
    return names


def _batch(block: Block, schema: Any, names: dict[str, Any]) -> Any:
    columns = {"label": pa.array(block.labels), "start": pa.array(block.starts.view(np.uint8))}
    if "weight" in schema.names:
        columns["weight"] = pa.array(block.weights if block.weights.size else np.ones(block.labels.size))
    elif block.weights.size:
        raise BadChain("some of its positions have weights, and its first ones had none.")
    for prefix, offsets, ids, values in (
        (STATE, block.offsets, block.ids, block.values),
        (EDGE, block.edge_offsets, block.edge_ids, block.edge_values),
    ):
        if f"{prefix}ids" not in schema.names:
            continue
        ends, part = pa.array(offsets - offsets[0]), slice(offsets[0], offsets[-1])
        entries = pa.array(ids[part])
        if prefix in names:
            entries = pa.DictionaryArray.from_arrays(entries, names[prefix], safe=False)  # `check_block` has looked
        columns[f"{prefix}ids"] = pa.LargeListArray.from_arrays(ends, entries)
        if f"{prefix}values" in schema.names:
            numbers = values[part] if values.size else np.ones(len(entries))
            columns[f"{prefix}values"] = pa.LargeListArray.from_arrays(ends, pa.array(numbers))
        elif values.size:
            raise BadChain("some of its attributes have values, and its first ones had none.")
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _checksum(batch: Any, digest: bytes, k: int) -> int:
    """Of all numbers of batch k, so that it is not taken for another batch or for one of another file."""
    total = zlib.crc32(digest + k.to_bytes(8, "little"))
    for column in batch.columns:
        if pa.types.is_large_list(column.type):
            total = zlib.crc32(_numbers(column.offsets).data, total)
            column = column.values
        total = zlib.crc32(_numbers(column).data, total)
    return total


def _numbers(column: Any) -> NDArray[Any]:
    """The numbers of a column as they lie in memory; of names, their ids."""
    numbers: NDArray[Any] = (column.indices if pa.types.is_dictionary(column.type) else column).to_numpy()
    return numbers


@contextmanager
def _damage(path: object, sentence: str) -> Iterator[None]:
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


class _Batches(ABC):
    """What a chain in a file and a chain in a pipe have in common: sizes, and blocks that are cut from batches."""

    def __init__(self, path: str | Path, schema: Any) -> None:
        _check_machine()
        self.path = path
        self._metadata: dict[bytes, bytes] = schema.metadata or {}
        self.header = header = header_of(self._metadata)
        self._digest = digest(self._metadata)
        if not schema.equals(header.schema):
            raise BadFile(path, f"{_NO_CHAIN}.")
        self.positions, self.entries, self.sequences = header.positions, header.entries, header.sequences
        self.n_labels, self.n_attributes = header.n_labels, header.n_attributes
        self.n_edge_attributes = header.n_edge_attributes
        self.active, self.labelled, self.batch = header.active, header.labelled, header.batch
        self.valued, self.edge_valued, self.weighted = header.valued, header.edge_valued, header.weighted
        self._names: dict[str, Any] = {}

    @property
    def digest_hex(self) -> str:
        return self._digest.hex()

    def block(self, low: int, high: int) -> Block:
        if not 0 <= low < high <= self.positions:
            raise BadChain(f"positions {low} to {high - 1} are not in the chain, which has {self.positions}.")
        with _damage(self.path, f"positions {low} to {high - 1} are damaged"):
            first, last = low // self.batch, (high - 1) // self.batch
            parts = _Parts(self._wholes(first, last), first * self.batch, self.batch, low, high)
            return next(iter(parts)) if first == last else join_blocks(parts)

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """What the numbers stand for; None where that was not known."""
        header = self.header
        if header.vocabulary is None:
            return None
        with _damage(self.path, "its vocabulary is damaged"):
            if not self._names and (header.named or (header.edge_named and header.n_edge_attributes)):
                self._read_names()
            for names in self._names.values():
                names.validate(full=True)
                if names.null_count:
                    raise BadFile(self.path, "its vocabulary is damaged.")
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
                raise BadFile(self.path, "its vocabulary is damaged.")
        return found

    @abstractmethod
    def _wholes(self, first: int, last: int) -> Iterable[Block]:
        """The batches first … last, as blocks, as often as one likes."""

    @abstractmethod
    def _read_names(self) -> None:
        """Take the names of attributes from the first batch."""

    def _take_names(self, batch: Any) -> None:
        """Keep the names that come with a batch, if there are as many as there should be."""
        names = {prefix: batch.column(f"{prefix}ids").values.dictionary for prefix in self.header.sizes}
        if {prefix: len(some) for prefix, some in names.items()} != self.header.sizes:
            raise BadFile(self.path, "its vocabulary is damaged.")
        self._names = self._names or names

    def _checked(self, k: int, batch: Any, metadata: Any) -> Block:
        """The batch as a block, if it is undamaged and safe for kernels."""
        begin = k * self.batch
        end = min(begin + self.batch, self.positions)
        batch.validate()  # nothing looks at its numbers before its buffers
        columns = [*batch.columns, *(column.values for column in batch.columns if hasattr(column, "values"))]
        if (
            batch.num_rows != end - begin
            or any(column.null_count for column in columns)
            or _checksum(batch, self._digest, k) != int(metadata[_CHECKSUM])
        ):
            raise BadFile(self.path, f"positions {begin} to {end - 1} are damaged.")
        block = _block(batch)
        problem = _problem(batch, block, self.labelled)
        if problem:
            raise BadFile(self.path, f"positions {begin} to {end - 1} have {problem}.")
        try:
            check_block(block, begin, end, self.n_labels, self.n_attributes, self.n_edge_attributes)
        except BadChain as error:
            raise BadFile(self.path, str(error)) from None
        return block


class StoredChain(_Batches):
    """A chain in a file, read as needed; each thread keeps the latest batches. `open_chain` makes one.

    Raises `ChainfoldError` (`BadFile`) where the file is no chain or is damaged.

    >>> from chainfold import SyntheticChain, write_chain
    >>> write_chain("example.chain", SyntheticChain(1000, 2, 6, 3))
    >>> StoredChain("example.chain").block(998, 1000).labels.size
    2
    """

    def __init__(self, path: str | Path) -> None:
        with _damage(path, _NO_CHAIN):
            self._file = file = Path(path).open("rb", buffering=0)  # noqa: SIM115  (closed when this is freed)
            weakref.finalize(self, file.close)
            self._seen = _size_and_time(file)
            self._messages = MessageFile(file)
            super().__init__(path, pa.ipc.read_schema(pa.py_buffer(self._messages.schema())))
            if len(self._messages.batches) != self.header.batches:
                raise BadFile(path, f"{_NO_CHAIN}.")
            if [self._messages.names(place) for place in self._messages.dictionaries] != [*self.header.sizes.values()]:
                raise BadFile(path, "its vocabulary is damaged.")
            bare = replace(self.header, named=False, edge_named=False)  # a batch in itself has ids and no names
            self._begin = bare.schema.serialize().to_pybytes()
        self._safe: set[int] = set()  # batches that were looked at
        self._held = threading.local()

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
        with self._steady():
            data = self._messages.stream(self._begin, self._messages.batches[k])
        batch, metadata = _first_batch(data)
        if k in self._safe:
            return _block(batch)
        block = self._checked(k, batch, metadata)
        self._safe.add(k)
        return block

    def _read_names(self) -> None:
        messages = self._messages
        with self._steady():
            data = messages.stream(messages.schema(), *messages.dictionaries, messages.batches[0])
        batch, _ = _first_batch(data)
        batch.validate()
        self._take_names(batch)

    @contextmanager
    def _steady(self) -> Iterator[None]:
        """Reading from a file that must be as it was when it was opened."""
        try:
            yield
        finally:
            if _size_and_time(self._file) != self._seen:
                raise BadFile(self.path, "was changed while it was read; try again when nothing writes to it.")


def _first_batch(stream: NDArray[np.uint8]) -> Any:
    """With its metadata."""
    return pa.ipc.open_stream(pa.py_buffer(stream), options=_IN_THIS_THREAD).read_next_batch_with_custom_metadata()


def _size_and_time(file: BinaryIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


class _Wholes:
    """Batches one after another: they are not all in memory at once."""

    def __init__(self, whole: Callable[[int], Block], first: int, last: int) -> None:
        self._whole, self._numbers = whole, range(first, last + 1)

    def __iter__(self) -> Iterator[Block]:
        return map(self._whole, self._numbers)


class _Parts:
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
        with _damage(path, _NO_CHAIN):
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
            raise BadFile(self.path, f"ends after {self._next * self.batch} of {self.positions} positions.") from None
        block = self._checked(self._next, batch, metadata)
        self._take_names(batch)
        return block

    def _read_names(self) -> None:
        self._wholes(0, 0)


def open_chain(source: str | Path | BinaryIO) -> StoredChain | PipedChain:
    """Open a chain that `write_chain` or `encode` wrote; only its header is read at first.

    source   a path, a named pipe or an open binary file

    Returns a `StoredChain`, or a chain that can be read once for pipes and open files. Raises `ChainfoldError`
    (`BadFile`) where it is no chain.

    >>> from chainfold import SyntheticChain, write_chain
    >>> write_chain("example.chain", SyntheticChain(1000, 2, 6, 3))
    >>> open_chain("example.chain").n_labels
    2
    """
    if not isinstance(source, str | Path):
        return PipedChain(source)
    with _damage(source, _NO_CHAIN):
        if Path(source).is_fifo() or begins_with(Path(source), STREAM):
            return _piped(Path(source))
    return StoredChain(source)


def is_chain(inputs: Any) -> bool:
    """Is this the name of one stored chain, and not of any other file?"""
    if isinstance(inputs, (list, tuple)) and len(inputs) == 1:
        inputs = inputs[0]
    if not isinstance(inputs, (str, Path)) or not Path(inputs).is_file():
        return False
    with suppress(OSError, ValueError, pa.ArrowException), Path(inputs).open("rb") as file:
        if begins_with(Path(inputs), FILE):
            return ABOUT in (pa.ipc.read_schema(pa.py_buffer(MessageFile(file).schema())).metadata or {})
        if begins_with(Path(inputs), STREAM):
            return ABOUT in (pa.ipc.open_stream(pa.PythonFile(MessageStream(file), "r")).schema.metadata or {})
    return False


def _piped(path: Path) -> PipedChain:
    file = path.open("rb")
    try:
        chain = PipedChain(file, path)
    except BaseException:
        file.close()
        raise
    weakref.finalize(chain, file.close)
    return chain


def _block(batch: Any) -> Block:
    """A batch as a block of views."""

    def lists(prefix: str) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        if f"{prefix}ids" not in batch.schema.names:
            return frozen(None, np.int64), frozen(None, np.int32), frozen(None, np.float64)
        ids, values = batch.column(f"{prefix}ids"), None
        if f"{prefix}values" in batch.schema.names:
            values = _numbers(batch.column(f"{prefix}values").values)
        return frozen(ids.offsets.to_numpy(), np.int64), frozen(_numbers(ids.values), np.int32), frozen(values, float)

    return Block(
        frozen(_numbers(batch.column("label")), np.int32),
        frozen(_numbers(batch.column("start")).view(np.bool_), np.bool_),
        *lists(STATE),
        *lists(EDGE),
        frozen(_numbers(batch.column("weight")) if "weight" in batch.schema.names else None, np.float64),
    )


def _problem(batch: Any, block: Block, labelled: bool) -> str | None:
    """What is wrong with numbers that `check_block` does not look at, because nobody else could write them."""
    if _numbers(batch.column("start")).max() > 1:
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
