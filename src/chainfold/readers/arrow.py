"""Arrow IPC, files and streams, a record batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from chainfold.errors import BadFile
from chainfold.readers.columns import NO_COLUMN, Choice, Stretch
from chainfold.readers.inputs import Stream, TableKind
from chainfold.readers.tables import keeping, one_sentence, seekable, stretches_of_batches

_ARROW_MAGIC = b"ARROW1"


class ArrowReader:
    """Arrow IPC, files and streams, a record batch at a time."""

    def __init__(self, columns: Sequence[str] | None = None, symbols: Choice = NO_COLUMN) -> None:
        self._columns, self._symbols = columns, symbols

    def read(self, stream: Stream) -> Iterator[Stretch]:
        is_file = stream.peek(len(_ARROW_MAGIC)) == _ARROW_MAGIC
        batches = _batches_of_file(stream) if is_file else _batches_of_stream(stream)
        with one_sentence(stream.name, "cannot be read as Arrow IPC, or is cut short"):
            yield from stretches_of_batches(batches, self._columns, self._symbols, stream.name)


def _batches_of_stream(stream: Stream) -> Iterator[Any]:
    reader = pa.ipc.open_stream(pa.PythonFile(stream, mode="r"))
    _check_no_chain(reader.schema, stream)
    yield from keeping(reader, TableKind.ARROW_STREAM, reader.schema, stream)


def _batches_of_file(stream: Stream) -> Iterator[Any]:
    where = seekable(stream, "an Arrow file")
    with pa.OSFile(str(where)) if isinstance(where, Path) else pa.PythonFile(where, mode="r") as source:
        reader = pa.ipc.open_file(source)
        _check_no_chain(reader.schema, stream)
        batches = (reader.get_batch(k) for k in range(reader.num_record_batches))
        for k, batch in enumerate(keeping(batches, TableKind.ARROW_FILE, reader.schema, stream)):
            yield batch
            stream.reached((k + 1) / reader.num_record_batches)


def _check_no_chain(schema: Any, stream: Stream) -> None:
    if b"chainfold" in (schema.metadata or {}):
        raise BadFile(stream.name, "is a chain, encoded already; give one chain alone, by its name, or raw files.")
