"""What a stored chain says of itself: sizes, what its columns are, its vocabulary but for the names."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.block import MOST_IDS, MOST_LABELS
from chainfold.chain.builder import MOST_HASH_BITS
from chainfold.chain.strings import spans
from chainfold.chain.vocabulary import MARKS, Vocabulary
from chainfold.errors import BadChain

VERSION = 4
ABOUT = b"chainfold"  # the key of the header among the schema's metadata
MOST_ROWS = 65536  # in a batch
STATE, EDGE = "", "edge_"  # prefixes of columns
_COUNTS, _MARKS, _DIGEST = b"counts", b"marks", b"digest"
_CODEC, _MOST_PACKED = "lz4", 256  # of counts and marks, which are mostly alike; how many times smaller they can get
_MOST_METADATA = 1 << 30  # bytes: Arrow counts them in 32 bits
_MOST = 2**53  # positions and entries; their mean is a double


class OtherVersion(Exception):
    """A chain of another version, which is its argument."""


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
    origin: str | None = None  # a text about the input
    appended: tuple[str, ...] = ()  # the digests of what was appended, one after another
    first: int | None = None  # of a part: the position of the chain at which it begins

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
            (STATE, True, self.named, self.valued),
            (EDGE, self.n_edge_attributes > 0, self.edge_named, self.edge_valued),
        ):
            if there:
                ids = pa.dictionary(pa.int32(), pa.large_string()) if named else pa.int32()
                columns[f"{prefix}ids"] = pa.large_list(ids)
                if valued:
                    columns[f"{prefix}values"] = pa.large_list(pa.float64())
        return pa.schema(columns)

    @property
    def sizes(self) -> dict[str, int]:
        """How many names there are of each kind of attributes that has any."""
        kinds = ((STATE, self.named, self.n_attributes), (EDGE, self.edge_named, self.n_edge_attributes))
        return {prefix: size for prefix, named, size in kinds if named and (size or prefix == STATE)}


def packed(header: Header, vocabulary: Vocabulary | None) -> dict[bytes, bytes]:
    """The metadata of the schema: the header, counts and marks, and a digest of them."""
    about = {"version": VERSION, **asdict(header)}
    if header.first is None:
        del about["first"]
    metadata = {ABOUT: json.dumps(about).encode()}
    if vocabulary is not None:
        metadata[_COUNTS] = pa.compress(vocabulary.counts.astype("<i8").tobytes(), _CODEC, asbytes=True)
        metadata[_MARKS] = pa.compress(vocabulary.marks.astype("<u8").tobytes(), _CODEC, asbytes=True)
        size = sum(map(len, metadata.values()))
        if size > _MOST_METADATA:
            raise BadChain(
                f"its vocabulary needs {size / 1e9:.1f} GB beside the names, more than a stored chain can have; raise "
                f"`min_count` or lower `hash_bits`."
            )
    metadata[_DIGEST] = digest(metadata)
    return metadata


def digest(metadata: dict[bytes, bytes]) -> bytes:
    """sha256 of all metadata but the digest itself."""
    state = hashlib.sha256()
    for key in (ABOUT, _COUNTS, _MARKS):
        value = metadata.get(key, b"")
        state.update(len(value).to_bytes(8, "little"))
        state.update(value)
    return state.digest()


def header_of(metadata: dict[bytes, bytes]) -> Header:
    """The header, if the metadata are whole and it makes sense; else one of the errors that readers know."""
    about = json.loads(metadata[ABOUT])
    if _whole(about["version"]) != VERSION:
        raise OtherVersion(about["version"])
    values = {field.name: about[field.name] for field in fields(Header) if field.name != "first"}
    values["first"] = about.get("first")
    if digest(metadata) != metadata[_DIGEST]:
        raise ValueError("the digest is another")
    if values["labels"] is not None:
        values["labels"] = tuple(_text(name) for name in _list(values["labels"]))
    values["appended"] = tuple(_text(name) for name in _list(values["appended"]))
    header = Header(**values)
    _check(header)
    return header


def _check(header: Header) -> None:
    """Raise unless each number is in its range and they fit together."""
    least_starts = 1 if not header.first else 0  # a sequence may run across a part
    for number, least, most in (
        (header.positions, 1, _MOST),
        (header.entries, 0, _MOST),
        (0 if header.first is None else header.first, 0, _MOST),
        (header.sequences, least_starts, header.positions),
        (header.n_labels, 0, MOST_LABELS),
        (header.n_attributes, 0, MOST_IDS),
        (header.n_edge_attributes, 0, MOST_IDS),
        (header.batch, 1, MOST_ROWS),
        (header.min_count, 1, _MOST),
        (header.words, 1, -(-MOST_LABELS // MARKS)),
        (1 if header.hash_bits is None else header.hash_bits, 1, MOST_HASH_BITS),
    ):
        if not least <= _whole(number) <= most:
            raise ValueError("a number out of its range")
    for flag in ("labelled", "valued", "edge_valued", "weighted", "named", "edge_named"):
        if type(getattr(header, flag)) is not bool:
            raise TypeError(flag)
    for name in ("label", "template", "columns", "vocabulary", "origin"):
        if getattr(header, name) is not None:
            _text(getattr(header, name))
    if header.active != header.entries / header.positions or (header.labelled and not header.n_labels):
        raise ValueError("numbers that do not fit together")
    if header.vocabulary is not None:
        _check_vocabulary(header)
    elif header.named or header.edge_named:
        raise ValueError("names without a vocabulary")


def _check_vocabulary(header: Header) -> None:
    labels = header.labels or ()
    if not len(labels) == len(set(labels)) == header.n_labels <= header.words * MARKS:
        raise ValueError("labels that do not fit together")
    nameless = [
        size
        for size, named in ((header.n_attributes, header.named), (header.n_edge_attributes, header.edge_named))
        if not named
    ]
    if header.hash_bits is not None and any(size > 1 << header.hash_bits for size in nameless):
        raise ValueError("more attributes than hashes")
    if header.hash_bits is None and header.template is not None and any(nameless):
        raise ValueError("attributes of a template without names")


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("not a whole number")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("not a text")
    value.encode()  # half a pair of surrogates is no text
    return value


def _list(values: Any) -> list[Any]:
    if type(values) is not list:
        raise TypeError("not a list")
    return values


def counts_of(header: Header, metadata: dict[bytes, bytes]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Counts and marks of the attributes."""
    counts = _unpacked(metadata[_COUNTS], "<i8", header.n_attributes)
    marks = _unpacked(metadata[_MARKS], "<u8", header.n_attributes * header.words).reshape(-1, header.words)
    beyond = header.n_labels // MARKS  # the first word in which a bit may be that of no label
    last = marks[:, beyond : beyond + 1] >> np.uint64(header.n_labels % MARKS)
    if (counts < 0).any() or last.any() or marks[:, beyond + 1 :].any():
        raise ValueError("counts below zero, or marks of labels that are not there")
    return counts, marks


def _unpacked(data: bytes, kind: str, count: int) -> NDArray[Any]:
    size = count * np.dtype(kind).itemsize
    if size > _MOST_PACKED * len(data):
        raise ValueError("more numbers than can have been packed")
    return np.frombuffer(pa.decompress(data, size, _CODEC, asbytes=True), kind)


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
