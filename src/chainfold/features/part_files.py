"""Working files of an encoding in parts: rows of arrays in an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.block import Block, frozen
from chainfold.errors import BadFile
from chainfold.system.storage import Storage

NAMES = pa.large_string()
_TYPES = {"f": pa.float64(), "l": pa.int64(), "i": pa.int32(), "u": pa.uint64(), "b": pa.uint8(), "s": NAMES}
BLOCK = dict(zip(Block._fields, "iblifliff", strict=True))
_DTYPES = {"f": np.float64, "l": np.int64, "i": np.int32, "b": np.bool_}


def write_arrays(file: IO[bytes], kinds: dict[str, str], rows: Iterator[dict[str, Any]]) -> None:
    """Write rows of arrays; kinds: the type of each, by letter."""
    schema = pa.schema({name: pa.large_list(_TYPES[kind]) for name, kind in kinds.items()})
    with pa.ipc.new_stream(file, schema) as writer:
        for row in rows:
            writer.write_batch(pa.RecordBatch.from_arrays([_list(row[name]) for name in kinds], schema=schema))


def read_arrays(storage: Storage, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a file; names as Arrow arrays, numbers as arrays."""
    try:
        with storage.fetched(name) as path, closing(pa.OSFile(str(path))) as file:
            for batch in pa.ipc.open_stream(file):
                columns = zip(batch.schema.names, batch.columns, strict=True)
                yield {name: _unlisted(column.values) for name, column in columns}
    except (OSError, pa.ArrowException) as error:
        problem = "there is no such file" if isinstance(error, FileNotFoundError) else "is damaged"
        raise BadFile(storage.called(name), f"{problem}; encode the files again.") from None


def arrays_of_block(block: Block) -> dict[str, Any]:
    """A block as a row of arrays."""
    return {name: getattr(block, name) for name in Block._fields}


def block_of_arrays(row: dict[str, Any]) -> Block:
    """The block that a row holds."""
    return Block(*(frozen(row[name].astype(_DTYPES[kind], copy=False), _DTYPES[kind]) for name, kind in BLOCK.items()))


def _list(values: Any) -> Any:
    """An array as a column of one row."""
    if isinstance(values, np.ndarray):
        values = pa.array(values.view(np.uint8) if values.dtype == bool else values)
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def _unlisted(values: Any) -> Any:
    if values.type == NAMES:
        return values
    numbers: NDArray[Any] = values.to_numpy()
    return numbers
