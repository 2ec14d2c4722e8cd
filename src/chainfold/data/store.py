"""The chain on disk: one Arrow IPC file, memory-mapped.

A record batch holds a stretch of positions, a column each for label, start mark, attribute ids, their values (left out
where all are one), edge attribute ids and their values. Blocks are views of the mapped file: nothing is copied unless a
block spans two batches. Pages that have been read are let go of now and then, so that the resident memory of a reader
stays small however large the file is. The file is written under a temporary name and renamed when it is whole.
"""

from __future__ import annotations

import json
import mmap
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.data.chain import Block, Source, frozen
from chainfold.errors import BadFile
from chainfold.files import written_whole

_KEY = b"chainfold"
_VERSION = 1
_BATCH = 65536
_LET_GO_EVERY = 32 << 20  # bytes read


def write_chain(path: str | Path, source: Source) -> None:
    """Store a source; `open_chain` reads it back."""
    about = {
        "version": _VERSION,
        "positions": source.positions,
        "n_labels": source.n_labels,
        "n_attributes": source.n_attributes,
        "n_edge_attributes": source.n_edge_attributes,
        "active": source.active,
        "labelled": source.labelled,
    }
    with written_whole(path) as file:
        _write_batches(file, source, {_KEY: json.dumps(about).encode()})


def _write_batches(file: Any, source: Source, metadata: dict[bytes, bytes]) -> None:
    writer = None
    for low in range(0, source.positions, _BATCH):
        batch = _batch(source.block(low, min(low + _BATCH, source.positions)))
        if writer is None:
            writer = pa.ipc.new_file(file, batch.schema.with_metadata(metadata))
        writer.write_batch(batch.replace_schema_metadata(metadata))
    assert writer is not None, "a source has at least one position"
    writer.close()


def _batch(block: Block) -> Any:
    columns = {"label": pa.array(block.labels), "start": pa.array(block.starts.view(np.uint8))}
    for prefix, offsets, ids, values in (
        ("", block.offsets, block.ids, block.values),
        ("edge_", block.edge_offsets, block.edge_ids, block.edge_values),
    ):
        if offsets.size:
            ends, part = pa.array(offsets - offsets[0]), slice(offsets[0], offsets[-1])
            columns[f"{prefix}ids"] = pa.LargeListArray.from_arrays(ends, pa.array(ids[part]))
            if values.size:
                columns[f"{prefix}values"] = pa.LargeListArray.from_arrays(ends, pa.array(values[part]))
    return pa.RecordBatch.from_pydict(columns)


@contextmanager
def _damage(path: str | Path, sentence: str) -> Iterator[None]:
    """Whatever reading the file may end in, as one sentence."""
    try:
        yield
    except BadFile:
        raise
    except FileNotFoundError:
        raise BadFile(path, "there is no such file.") from None
    except IsADirectoryError:
        raise BadFile(path, "cannot be read: Is a directory.") from None
    except PermissionError:
        raise BadFile(path, "cannot be read: Permission denied.") from None
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError):
        raise BadFile(path, f"{sentence}.") from None


class StoredChain:
    """A source whose blocks are views of a memory-mapped file."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._bytes_read = 0
        with _damage(path, "this is not a chain written by chainfold, or it is cut short"):
            with Path(path).open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._reader = pa.ipc.open_file(pa.py_buffer(self._map))
            about = json.loads((self._reader.schema.metadata or {})[_KEY])
            if about["version"] != _VERSION:
                raise BadFile(path, f"its version is {about['version']}, and this chainfold reads {_VERSION}.")
            self.positions, self.n_labels = int(about["positions"]), int(about["n_labels"])
            self.n_attributes, self.n_edge_attributes = int(about["n_attributes"]), int(about["n_edge_attributes"])
            self.active, self.labelled = float(about["active"]), bool(about["labelled"])
            self._begins = range(0, self.positions, _BATCH)

    def block(self, low: int, high: int) -> Block:
        parts = []
        with _damage(self._path, f"positions {low} to {high - 1} are damaged"):
            for k in range(bisect_right(self._begins, low) - 1, bisect_right(self._begins, high - 1)):
                begin = self._begins[k]
                columns = self._reader.get_batch(k)
                parts.append(_cut(columns, max(low - begin, 0), min(high - begin, columns.num_rows)))
            block = parts[0] if len(parts) == 1 else _join(parts)
        self._let_go(block.nbytes)
        return block

    def _let_go(self, read: int) -> None:
        """Give the pages back once in a while; whoever still looks at one gets it again from the file."""
        self._bytes_read += read
        if self._bytes_read >= _LET_GO_EVERY and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
            self._bytes_read = 0


def open_chain(path: str | Path) -> StoredChain:
    """A chain that `write_chain` has stored; nothing is read until blocks are asked for."""
    return StoredChain(path)


def _cut(columns: Any, low: int, high: int) -> Block:
    """Rows low … high-1 of a batch, as views."""

    def numbers(name: str) -> NDArray[Any]:
        return frozen(columns.column(name).to_numpy(), None)

    def lists(prefix: str) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        if f"{prefix}ids" not in columns.schema.names:
            return frozen(None, np.int64), frozen(None, np.int32), frozen(None, np.float64)
        ids = columns.column(f"{prefix}ids")
        offsets = frozen(ids.offsets.to_numpy(), np.int64)[low : high + 1]
        values = None
        if f"{prefix}values" in columns.schema.names:
            values = columns.column(f"{prefix}values").values.to_numpy()
        return offsets, frozen(ids.values.to_numpy(), np.int32), frozen(values, np.float64)

    return Block(numbers("label")[low:high], numbers("start").view(np.bool_)[low:high], *lists(""), *lists("edge_"))


def _join(parts: list[Block]) -> Block:
    """One block of several, copied."""

    def lists(offsets: str, ids: str, values: str) -> list[NDArray[Any]]:
        counts = np.concatenate([np.diff(getattr(part, offsets)) for part in parts])
        if not counts.size:
            return [frozen(None, np.int64), frozen(None, np.int32), frozen(None, np.float64)]
        spans = [slice(getattr(part, offsets)[0], getattr(part, offsets)[-1]) for part in parts]

        def entries(name: str, dtype: Any) -> NDArray[Any]:
            return frozen(np.concatenate([getattr(p, name)[s] for p, s in zip(parts, spans, strict=True)]), dtype)

        ends = frozen(np.concatenate([[0], np.cumsum(counts)]), np.int64)
        return [ends, entries(ids, np.int32), entries(values, np.float64)]

    return Block(
        frozen(np.concatenate([part.labels for part in parts]), np.int32),
        frozen(np.concatenate([part.starts for part in parts]), np.bool_),
        *lists("offsets", "ids", "values"),
        *lists("edge_offsets", "edge_ids", "edge_values"),
    )
