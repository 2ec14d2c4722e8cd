"""Working files of an encoding in parts: rows of arrays in an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain as chained
from typing import IO, Any

import numpy as np
import pyarrow as pa

from chainfold.errors import BadFile
from chainfold.system.storage import Storage

NAMES = pa.large_string()


def write_arrays(file: IO[bytes], rows: Iterator[dict[str, Any]]) -> None:
    """Write rows of arrays of the same names and types, which may be none."""
    batches = (pa.RecordBatch.from_pydict({name: _list(values) for name, values in row.items()}) for row in rows)
    first = next(batches, None)
    with pa.ipc.new_stream(file, pa.schema([]) if first is None else first.schema) as writer:
        for batch in () if first is None else chained([first], batches):
            writer.write_batch(batch)


def read_arrays(storage: Storage, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a file; names as Arrow arrays, numbers as NumPy arrays, and flags as bytes."""
    try:
        with storage.fetched(name) as path, closing(pa.OSFile(str(path))) as file:
            for batch in pa.ipc.open_stream(file):
                columns = zip(batch.schema.names, batch.columns, strict=True)
                lists = ((name, column.values) for name, column in columns)
                yield {name: values if values.type == NAMES else values.to_numpy() for name, values in lists}
    except (OSError, pa.ArrowException) as error:
        problem = "there is no such file" if isinstance(error, FileNotFoundError) else "is damaged"
        raise BadFile(storage.called(name), f"{problem}; encode the files again.") from None


def _list(values: Any) -> Any:
    """An array as a column of one row."""
    if isinstance(values, np.ndarray):
        values = pa.array(values.view(np.uint8) if values.dtype == bool else values)
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
