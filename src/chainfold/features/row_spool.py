"""Stretches spilled to disk while they are first read, so that they can be read again: an input is read once.

They are compressed in a file without a name, which is removed with the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from chainfold.readers.columns import Stretch
from chainfold.system.files import temporary_file_errors
from chainfold.system.spill import SpillFile

_SOURCE, _UNIT = b"source", b"unit"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class RowSpool:
    """Stretches to read twice."""

    def __init__(self, folder: Path | None) -> None:
        self._spill = SpillFile(folder=folder)
        self._count, self.rows = 0, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._spill.close()

    def keeping(self, stretches: Iterable[Stretch], kept: Callable[[int], None]) -> Iterator[Stretch]:
        """Keep each stretch before it is given; `kept` is called with its rows."""
        for stretch in stretches:
            batch = stretch.batch
            columns = [*batch.columns, pa.array(stretch.starts), pa.array(stretch.lines)]
            whole = pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "starts", "lines"])
            whole = whole.replace_schema_metadata({_SOURCE: stretch.source.encode(), _UNIT: stretch.unit.encode()})
            folder, file = self._spill.folder, self._spill.file
            with temporary_file_errors(folder), pa.ipc.new_stream(file, whole.schema, options=_OPTIONS) as writer:
                writer.write_batch(whole)
            self._count += 1
            self.rows += stretch.lines.size
            kept(stretch.lines.size)
            yield stretch

    def __iter__(self) -> Iterator[Stretch]:
        """Read all stretches that were kept."""
        self._spill.seek(0)
        for _ in range(self._count):
            with temporary_file_errors(self._spill.folder):
                (whole,) = pa.ipc.open_stream(self._spill.file)
            source, unit = (whole.schema.metadata[key].decode() for key in (_SOURCE, _UNIT))
            columns = range(whole.num_columns - 2)
            starts = whole.column(len(columns)).to_numpy(zero_copy_only=False)
            lines = whole.column(len(columns) + 1).to_numpy().astype(np.int64)
            yield Stretch(whole.select(list(columns)), starts, lines, source, unit)
