"""Chains that somebody has changed, digests and checksums included."""

from __future__ import annotations

import io
import json
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from chainfold.chain import batches as store
from chainfold.chain import header as headers
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import ChainfoldError

Arrays = dict[str, Any]


@dataclass
class Forgery:
    """A stored chain in pieces, to be changed and put together again."""

    about: dict[str, Any]  # the header
    names: dict[str, Any]  # Arrow arrays by prefix of columns
    counts: Any  # arrays, or None
    marks: Any
    batches: list[Arrays]  # label, start, weight, offsets, ids, value_offsets, values, and those of edges
    compression: str | None = None
    digest: bytes | None = None  # a wrong one
    checksum: bytes | None = None  # likewise

    @classmethod
    def of(cls, path: Path) -> Forgery:
        """Take a whole chain to pieces."""
        reader = pa.ipc.open_file(path.read_bytes())
        metadata = reader.schema.metadata
        chain = store.StoredChain(path)
        counts = marks = None
        if chain.vocabulary is not None:
            counts, marks = chain.vocabulary.counts.copy(), chain.vocabulary.marks.copy()
        names, batches = {}, []
        for k in range(reader.num_record_batches):
            batch, arrays = reader.get_batch(k), {}
            for name in batch.schema.names:
                column = batch.column(name)
                if pa.types.is_large_list(column.type):
                    arrays[f"{name}:offsets"] = column.offsets.to_numpy().copy()
                    column = column.values
                if pa.types.is_dictionary(column.type):
                    names[name.removesuffix("ids")] = column.dictionary
                    column = column.indices
                arrays[name] = column.to_numpy().copy()
            batches.append(arrays)
        return cls(json.loads(metadata[b"chainfold"]), names, counts, marks, batches)

    def stored(self, path: Path) -> Path:
        path.write_bytes(self.file())
        return path

    def file(self) -> bytes:
        return self._made(pa.ipc.new_file)

    def stream(self) -> bytes:
        return self._made(pa.ipc.new_stream)

    def _made(self, new: Any) -> bytes:
        try:
            return self._written(new)
        except (pa.ArrowException, OverflowError, AttributeError, ValueError, TypeError):
            raise ChainfoldError("this cannot be forged.") from None

    def _written(self, new: Any) -> bytes:
        patches: list[tuple[bytes, bytes]] = []
        batches = [self._batch(arrays, patches) for arrays in self.batches]
        metadata = self._metadata()
        schema = (batches[0].schema if batches else pa.schema({"label": pa.int32()})).with_metadata(metadata)
        sink = io.BytesIO()
        with new(sink, schema, options=pa.ipc.IpcWriteOptions(compression=self.compression)) as writer:
            for k, batch in enumerate(batches):
                checksum = self.checksum
                if checksum is None:
                    checksum = b"0"
                    with suppress(Exception):  # whatever cannot be summed has no sum
                        checksum = b"%d" % _sum(self.batches[k], batch, headers.digest(metadata), k)
                with suppress(pa.ArrowException):  # a batch of other columns
                    writer.write_batch(batch, custom_metadata={b"crc32": checksum})
        data = sink.getvalue()
        for old, new in patches:
            data = data.replace(old, new, 1)
        return data

    def _metadata(self) -> dict[bytes, bytes]:
        about = dict(self.about)
        if self.counts is not None:
            with suppress(Exception):  # of what is no vocabulary
                about["vocabulary"] = headers.digest_of(
                    Vocabulary(
                        labels=about["labels"],
                        attributes=self.names.get("") if about["named"] else None,
                        edge_attributes=self.names.get("edge_", pa.array([], pa.large_string()))
                        if about["edge_named"]
                        else None,
                        counts=self.counts,
                        marks=self.marks,
                        hash_bits=about["hash_bits"],
                        template=about["template"],
                    )
                )
        metadata = {b"chainfold": json.dumps(about).encode()}
        for key, array in ((b"counts", self.counts), (b"marks", self.marks)):
            if array is not None:
                metadata[key] = pa.compress(array.tobytes(), "lz4", asbytes=True)
        metadata[b"digest"] = headers.digest(metadata) if self.digest is None else self.digest
        return metadata

    def _batch(self, arrays: Arrays, patches: list[tuple[bytes, bytes]]) -> Any:
        columns = {}
        for name, array in arrays.items():
            if name.endswith(":offsets"):
                continue
            column = array if isinstance(array, pa.Array) else pa.array(array)
            prefix = name.removesuffix("ids")
            if name.endswith("ids") and prefix in self.names and column.type == pa.int32():
                column = pa.DictionaryArray.from_arrays(column, self.names[prefix], safe=False)
            if f"{name}:offsets" in arrays:
                offsets = arrays[f"{name}:offsets"]
                if offsets[-1] > len(column):  # Arrow would not write it
                    lied, offsets = offsets, np.minimum.accumulate(np.clip(offsets, 0, len(column))[::-1])[::-1]
                    patches.append((offsets.tobytes(), lied.tobytes()))
                buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int64))]
                kind = pa.large_list(column.type)
                column = pa.Array.from_buffers(kind, max(offsets.size - 1, 0), buffers, children=[column])
            columns[name] = column
        rows = len(next(iter(columns.values()), []))
        kept = {name: column for name, column in columns.items() if len(column) == rows}
        return pa.RecordBatch.from_arrays(list(kept.values()), names=list(kept))


def _sum(arrays: Arrays, batch: Any, digest: bytes, k: int) -> int:
    """The checksum, over offsets as they are to be."""
    total = zlib.crc32(digest + k.to_bytes(8, "little"))
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_large_list(column.type):
            total = zlib.crc32(arrays[f"{name}:offsets"].tobytes(), total)
            column = column.values
        total = zlib.crc32(store.raw_numbers(column).tobytes(), total)
    return total
