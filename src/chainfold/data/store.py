"""The chain on disk: one Arrow IPC file, memory-mapped; or the same as an Arrow IPC stream, through a pipe.

A record batch holds a stretch of positions, all batches but the last equally many:

    label        int32, -1 where unknown
    start        uint8, 1 where a sequence starts
    weight       float64; left out where all are one
    ids          large_list of attribute ids: a dictionary of their names, or int32 where they have none
    values       large_list of float64; left out where all are one
    edge_ids     like ids, edge_values like values; left out where there are no edge attributes

The sizes and the vocabulary stand in the schema's metadata, under a digest that is checked when the chain is opened. A
batch carries a checksum of its numbers, checked when it is first read. Blocks are views of the mapped file: nothing is
copied unless a block spans two batches. Pages that have been read are let go of now and then, so that the resident
memory of a reader stays small however large the file is. The file is written under a temporary name and renamed when it
is whole.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import threading
import weakref
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import chain as one_after_another
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.data.ahead import read_ahead
from chainfold.data.chain import Block, Source, check_block, frozen, vocabulary_of
from chainfold.data.interning import spans
from chainfold.data.vocabulary import Vocabulary
from chainfold.errors import BadChain, BadFile, ChainfoldError, EmptyChain
from chainfold.files import written_whole
from chainfold.kernels.scores import NO_LABEL

VERSION = 4
_CODEC = "lz4"  # of counts and marks, which are mostly alike
_ABOUT, _COUNTS, _MARKS, _DIGEST, _CHECKSUM = b"chainfold", b"counts", b"marks", b"digest", b"crc32"
_MOST_ROWS = 65536  # in a batch
_MOST_ENTRIES = 1 << 20  # in a batch, or so
_MOST_METADATA = 1 << 30  # bytes: Arrow counts them in 32 bits
_BLOCKS_AHEAD = 1
_LET_GO_EVERY = 8 << 20  # bytes read
ARROW_STREAM, _FILE = b"\xff\xff\xff\xff", b"ARROW1"  # how an Arrow stream begins, and a file
_NO_CHAIN = "this is not a chain written by chainfold, or it is cut short or damaged"
_STATE, _EDGE = "", "edge_"  # prefixes of columns
_EXTRAS = ("valued", "edge_valued", "weighted")  # what a chain may have; its column is left out otherwise


@dataclass(frozen=True)
class Header:
    """What a stored chain says of itself; kept as JSON."""

    positions: int
    entries: int
    sequences: int
    n_labels: int
    n_attributes: int
    n_edge_attributes: int
    active: float
    labelled: bool
    valued: bool
    edge_valued: bool
    weighted: bool
    named: bool
    edge_named: bool
    batch: int
    labels: tuple[str, ...] | None = None
    label: str | None = None
    hash_bits: int | None = None
    min_count: int = 1
    template: str | None = None
    columns: str | None = None
    words: int = 1  # of marks, for each attribute
    vocabulary: str | None = None  # its sha256
    origin: str | None = None  # what it was made of, in the words of whoever made it
    appended: tuple[str, ...] = ()  # the digests of what was appended, one after another

    @property
    def batches(self) -> int:
        return -(-self.positions // self.batch)

    @property
    def schema(self) -> Any:
        """The columns of each batch."""
        columns = {"label": pa.int32(), "start": pa.uint8()}
        if self.weighted:
            columns["weight"] = pa.float64()
        for prefix, there, named, valued in (
            (_STATE, True, self.named, self.valued),
            (_EDGE, self.n_edge_attributes > 0, self.edge_named, self.edge_valued),
        ):
            if there:
                ids = pa.dictionary(pa.int32(), pa.large_string()) if named else pa.int32()
                columns[f"{prefix}ids"] = pa.large_list(ids)
                if valued:
                    columns[f"{prefix}values"] = pa.large_list(pa.float64())
        return pa.schema(columns)


def write_chain(
    target: str | Path | BinaryIO, source: Source, origin: str | None = None, appended: tuple[str, ...] = ()
) -> None:
    """Store a source in a file, or send it through an open one; `open_chain` reads it back.

    `origin` is kept in the header, and says what the source was made of; `appended` has a digest of each part that was
    appended.

    A source that has `sequences`, their number, is read once and in order. It may then also say whether it is `valued`
    and `edge_valued`, has values other than one, and `weighted`; otherwise its first block says so.
    """
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


def _write(
    new_writer: Callable[..., Any], file: Any, source: Source, origin: str | None, appended: tuple[str, ...]
) -> None:
    header, blocks = _surveyed(source)
    header = replace(header, origin=origin, appended=appended)
    blocks = read_ahead(blocks, _BLOCKS_AHEAD)
    vocabulary = vocabulary_of(source)
    names = {} if vocabulary is None else _names_to_write(header, vocabulary)
    metadata = _metadata(header, vocabulary)
    schema = header.schema.with_metadata(metadata)
    writer = new_writer(file, schema)
    sequences, entries, unknown = 0, 0, 0
    for k, block in enumerate(blocks):
        batch = _batch(block, schema, names)
        checksum = _checksum(batch, metadata[_DIGEST], k)
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
    rows = min(
        1 << int(max(math.log2(_MOST_ENTRIES / max(source.active, 1.0)), 0)), _MOST_ROWS
    )  # blocks of engines fit
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


def _metadata(header: Header, vocabulary: Vocabulary | None) -> dict[bytes, bytes]:
    metadata = {_ABOUT: json.dumps({"version": VERSION, **asdict(header)}).encode()}
    if vocabulary is not None:
        metadata[_COUNTS] = pa.compress(vocabulary.counts.astype("<i8").tobytes(), _CODEC, asbytes=True)
        metadata[_MARKS] = pa.compress(vocabulary.marks.astype("<u8").tobytes(), _CODEC, asbytes=True)
        size = sum(map(len, metadata.values()))
        if size > _MOST_METADATA:
            raise BadChain(
                f"its vocabulary needs {size / 1e9:.1f} GB beside the names, more than a stored chain can have; raise "
                f"--min-count or lower --hash-bits."
            )
    metadata[_DIGEST] = _digest(metadata)
    return metadata


def _digest(metadata: dict[bytes, bytes]) -> bytes:
    """sha256 of all metadata but the digest itself."""
    state = hashlib.sha256()
    for key in (_ABOUT, _COUNTS, _MARKS):
        value = metadata.get(key, b"")
        state.update(len(value).to_bytes(8, "little"))
        state.update(value)
    return state.digest()


def digest_of(vocabulary: Vocabulary) -> str:
    """sha256 of what gives ids their meaning: two chains with the same digest can be read by the same model."""
    all_names = (vocabulary.attributes, vocabulary.edge_attributes)
    sizes = [None if names is None else len(names) for names in all_names]
    about = [vocabulary.labels, vocabulary.hash_bits, vocabulary.template, sizes, vocabulary.marks.shape]
    state = hashlib.sha256(json.dumps(about).encode())
    for names in all_names:
        if names is not None and len(names):
            blob, begins, ends = spans(names)
            state.update(np.ascontiguousarray(ends - begins[0], "<i8").data)
            state.update(blob[begins[0] : ends[-1]].data)
    state.update(np.ascontiguousarray(vocabulary.counts, "<i8").data)
    state.update(np.ascontiguousarray(vocabulary.marks, "<u8").data)
    return state.hexdigest()


def _names_to_write(header: Header, vocabulary: Vocabulary) -> dict[str, Any]:
    """The dictionary of each kind of ids, one and the same array for all batches; raises unless all sizes agree."""
    names = {_STATE: vocabulary.attributes, _EDGE: vocabulary.edge_attributes}
    names = {prefix: array for prefix, array in names.items() if array is not None}
    for array in names.values():
        array.validate(full=True)
        if array.null_count:
            raise BadChain("its vocabulary has attributes without a name.")
    for what, count, found in (
        ("labels", header.n_labels, len(vocabulary.labels)),
        ("attributes", header.n_attributes, vocabulary.counts.size),
        ("attributes", header.n_attributes, len(vocabulary.marks)),
        ("attributes", header.n_attributes, len(names.get(_STATE, vocabulary.counts))),
        ("edge attributes", header.n_edge_attributes, len(names.get(_EDGE, range(header.n_edge_attributes)))),
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
        (_STATE, block.offsets, block.ids, block.values),
        (_EDGE, block.edge_offsets, block.edge_ids, block.edge_values),
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
    except ChainfoldError:
        raise
    except FileNotFoundError:
        raise BadFile(path, "there is no such file.") from None
    except IsADirectoryError:
        raise BadFile(path, "cannot be read: Is a directory.") from None
    except PermissionError:
        raise BadFile(path, "cannot be read: Permission denied.") from None
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ):
        raise BadFile(path, f"{sentence}.") from None


def _header_of(path: object, metadata: dict[bytes, bytes]) -> Header:
    """The header of a chain, if its metadata are whole."""
    about = json.loads(metadata[_ABOUT])
    if about["version"] != VERSION:
        raise BadFile(path, f"its version is {about['version']}, and this chainfold reads {VERSION}.")
    header = Header(**{field.name: about[field.name] for field in fields(Header)})
    header = replace(header, appended=tuple(header.appended))
    if _digest(metadata) != metadata[_DIGEST] or header.positions < 1 or header.batch < 1:
        raise BadFile(path, f"{_NO_CHAIN}.")
    return header


class _Batches(ABC):
    """What a chain in a file and a chain in a pipe have in common: sizes, and blocks that are cut from batches."""

    def __init__(self, path: str | Path, schema: Any) -> None:
        self.path = path
        self._metadata: dict[bytes, bytes] = schema.metadata or {}
        self.header = header = _header_of(path, self._metadata)
        if not schema.equals(header.schema):
            raise BadFile(path, f"{_NO_CHAIN}.")
        self.positions, self.entries, self.sequences = header.positions, header.entries, header.sequences
        self.n_labels, self.n_attributes = header.n_labels, header.n_attributes
        self.n_edge_attributes = header.n_edge_attributes
        self.active, self.labelled, self.batch = header.active, header.labelled, header.batch
        self.valued, self.edge_valued, self.weighted = header.valued, header.edge_valued, header.weighted
        self._names: dict[str, Any] = {}
        self._lock = threading.Lock()

    def block(self, low: int, high: int) -> Block:
        if not 0 <= low < high <= self.positions:
            raise BadChain(f"positions {low} to {high - 1} are not in the chain, which has {self.positions}.")
        with _damage(self.path, f"positions {low} to {high - 1} are damaged"):
            first, last = low // self.batch, (high - 1) // self.batch
            parts = [
                whole.part(max(low - begin, 0), min(high - begin, self.batch))
                for begin, whole in zip(
                    range(first * self.batch, high, self.batch), self._wholes(first, last), strict=True
                )
            ]
            return parts[0] if len(parts) == 1 else joined(parts)

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """What the numbers stand for; None where that was not known."""
        header = self.header
        if header.vocabulary is None:
            return None
        with _damage(self.path, "its vocabulary is damaged"):
            if not self._names and (header.named or (header.edge_named and header.n_edge_attributes)):
                self._wholes(0, 0)
            nothing = pa.array([], pa.large_string())
            found = Vocabulary(
                labels=tuple(header.labels or ()),
                attributes=self._names[_STATE] if header.named else None,
                edge_attributes=self._names.get(_EDGE, nothing) if header.edge_named else None,
                counts=self._unpacked(_COUNTS, np.int64, header.n_attributes),
                marks=self._unpacked(_MARKS, np.uint64, header.n_attributes * header.words).reshape(-1, header.words),
                label=header.label,
                hash_bits=header.hash_bits,
                min_count=header.min_count,
                template=header.template,
                columns=header.columns,
            )
            if digest_of(found) != header.vocabulary:
                raise BadFile(self.path, "its vocabulary is damaged.")
        return found

    def _unpacked(self, key: bytes, kind: type[np.generic], count: int) -> NDArray[Any]:
        """Numbers of the vocabulary, from the metadata."""
        size = count * np.dtype(kind).itemsize
        return np.frombuffer(pa.decompress(self._metadata[key], size, _CODEC, asbytes=True), kind)

    @abstractmethod
    def _wholes(self, first: int, last: int) -> list[Block]:
        """The batches first … last, as blocks."""

    def _check(self, k: int, batch: Any, checksum: bytes) -> None:
        """Raise unless the batch is as it was written; nothing looks at its numbers before its buffers have."""
        batch.validate()
        rows = min(self.batch, self.positions - k * self.batch)
        if batch.num_rows != rows or _checksum(batch, self._metadata[_DIGEST], k) != int(checksum):
            begin = k * self.batch
            raise BadFile(self.path, f"positions {begin} to {begin + rows - 1} are damaged.")
        if not self._names:
            self._names = {
                prefix: batch.column(f"{prefix}ids").values.dictionary
                for prefix, named in ((_STATE, self.header.named), (_EDGE, self.header.edge_named))
                if named and f"{prefix}ids" in batch.schema.names
            }


class StoredChain(_Batches):
    """A source whose blocks are views of a memory-mapped file."""

    def __init__(self, path: str | Path) -> None:
        with _damage(path, _NO_CHAIN):
            with Path(path).open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._reader = pa.ipc.open_file(pa.py_buffer(self._map))
            super().__init__(path, self._reader.schema)
            if self._reader.num_record_batches != self.header.batches:
                raise BadFile(path, f"{_NO_CHAIN}.")
        self._checked: set[int] = set()
        self._bytes_read = 0

    def block(self, low: int, high: int) -> Block:
        block = super().block(low, high)
        self._let_go(block.nbytes)
        return block

    def _wholes(self, first: int, last: int) -> list[Block]:
        return [self._whole(k) for k in range(first, last + 1)]

    def _whole(self, k: int) -> Block:
        with self._lock:
            batch, metadata = self._reader.get_batch_with_custom_metadata(k)
        if k in self._checked:
            return _block(batch)
        self._check(k, batch, metadata[_CHECKSUM])
        self._checked.add(k)
        whole = _block(batch)
        self._let_go(whole.nbytes)
        return whole

    def _let_go(self, read: int) -> None:
        """Give the pages back once in a while."""
        self._bytes_read += read
        if self._bytes_read >= _LET_GO_EVERY:
            self.let_go()

    def let_go(self) -> None:
        """Give all pages back; whoever still looks at one gets it again from the file."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
        self._bytes_read = 0


class PipedChain(_Batches):
    """A source that is read forward, once; the batches of the latest block and the one before are held."""

    def __init__(self, file: Any, path: str | Path = "standard input") -> None:
        if hasattr(file, "peek") and file.peek(len(_FILE))[: len(_FILE)] == _FILE:
            raise BadFile(path, "a chain in a file cannot be read through a pipe; name the file.")
        with _damage(path, _NO_CHAIN):
            self._reader = pa.ipc.open_stream(file)
            super().__init__(path, self._reader.schema)
        self._held: deque[Block] = deque()
        self._next = 0  # the batch that comes next

    def _wholes(self, first: int, last: int) -> list[Block]:
        with self._lock:
            if first < self._oldest:
                raise ChainfoldError(
                    "the chain comes through a pipe and can be read only once; take --engine stream, or store it in a "
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
        self._check(self._next, batch, metadata[_CHECKSUM])
        return _block(batch)


def open_chain(source: str | Path | BinaryIO) -> StoredChain | PipedChain:
    """A chain that `write_chain` has stored, or that comes through a pipe; only its header is read as yet."""
    if not isinstance(source, str | Path):
        return PipedChain(source)
    with _damage(source, _NO_CHAIN):
        if _is_stream(Path(source)):
            return _piped(Path(source))
    return StoredChain(source)


def is_chain(inputs: Any) -> bool:
    """Is this the name of one stored chain, and not of any other file?"""
    if isinstance(inputs, (list, tuple)) and len(inputs) == 1:
        inputs = inputs[0]
    if not isinstance(inputs, (str, Path)) or not Path(inputs).is_file():
        return False
    with suppress(OSError, ValueError, pa.ArrowException), Path(inputs).open("rb") as file:
        if file.read(len(_FILE)) == _FILE:
            return _ABOUT in (pa.ipc.open_file(str(inputs)).schema.metadata or {})
        file.seek(0)
        if file.read(len(ARROW_STREAM)) == ARROW_STREAM:
            file.seek(0)
            return _ABOUT in (pa.ipc.open_stream(file).schema.metadata or {})
    return False


def _is_stream(path: Path) -> bool:
    if path.is_fifo():
        return True
    with path.open("rb") as file:
        return file.read(len(ARROW_STREAM)) == ARROW_STREAM


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
        *lists(_STATE),
        *lists(_EDGE),
        frozen(_numbers(batch.column("weight")) if "weight" in batch.schema.names else None, np.float64),
    )


def joined(parts: list[Block]) -> Block:
    """One block of several, copied."""

    def lists(offsets: str, ids: str, values: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        counts = np.concatenate([np.diff(getattr(part, offsets)) for part in parts])
        if not any(getattr(part, offsets).size for part in parts):
            return frozen(None, np.int64), frozen(None, np.int32), frozen(None, np.float64)
        spans = [slice(getattr(part, offsets)[0], getattr(part, offsets)[-1]) for part in parts]
        valued = any(getattr(part, values).size for part in parts)

        def entries(name: str, dtype: Any) -> NDArray[Any]:
            found = [getattr(part, name)[span] for part, span in zip(parts, spans, strict=True)]
            if name == values and valued:  # where a part has none, they are ones
                sizes = [span.stop - span.start for span in spans]
                found = [some if some.size else np.ones(size) for some, size in zip(found, sizes, strict=True)]
            return frozen(np.concatenate(found), dtype)

        ends = frozen(np.concatenate([[0], np.cumsum(counts)]), np.int64)
        return ends, entries(ids, np.int32), entries(values, np.float64)

    return Block(
        frozen(np.concatenate([part.labels for part in parts]), np.int32),
        frozen(np.concatenate([part.starts for part in parts]), np.bool_),
        *lists("offsets", "ids", "values"),
        *lists("edge_offsets", "edge_ids", "edge_values"),
        frozen(np.concatenate([part.weights for part in parts]), np.float64),
    )
