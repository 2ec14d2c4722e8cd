"""Parquet, a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from chainfold.readers.columns import NO_COLUMN, Choice, Stretch
from chainfold.readers.inputs import Stream, TableKind
from chainfold.readers.tables import ROWS, check_types, is_text, keeping, one_sentence, seekable, stretches_of_batches

_AT_ONCE = 128 << 20  # bytes of a batch, about


class ParquetReader:
    """Parquet, a row group at a time, in batches of bounded size."""

    def __init__(self, columns: Sequence[str] | None = None, symbols: Choice = NO_COLUMN) -> None:
        self._columns, self._symbols = columns, symbols

    def read(self, stream: Stream) -> Iterator[Stretch]:
        return self.groups(stream, 0, None)

    def groups(self, stream: Stream, low: int, high: int | None) -> Iterator[Stretch]:
        """The rows of some row groups; high: None for the end."""
        with one_sentence(stream.name, "cannot be read as Parquet"):
            file = _opened(stream)
            schema = file.schema_arrow
            check_types(schema, self._columns, self._symbols, stream.name)
            texts = [field.name for field in schema if is_text(field.type)]
            file = _opened(stream, read_dictionary=texts)
            rows = max(file.metadata.num_rows, 1)
            some = range(low, file.num_row_groups if high is None else high)
            batches = keeping(_batches(file, some), TableKind.PARQUET, schema, stream)
            first = 1 + sum(file.metadata.row_group(group).num_rows for group in range(low))
            for stretch in stretches_of_batches(batches, self._columns, self._symbols, stream.name, first):
                yield stretch
                stream.reached(int(stretch.lines[-1]) / rows)


def group_sizes(stream: Stream, size: int) -> list[int]:
    """About the bytes of each row group in a file of this size.

    The metadata of columns would say it exactly, but where these are damaged pyarrow ends the process.
    """
    with one_sentence(stream.name, "cannot be read as Parquet"):
        about = _opened(stream).metadata
        sizes = [max(about.row_group(k).total_byte_size, 1) for k in range(about.num_row_groups)]
        return [each * size // sum(sizes) for each in sizes]


def _opened(stream: Stream, **options: Any) -> Any:
    import pyarrow.parquet as pq  # with file systems, TLS and encryption: other formats do without

    return pq.ParquetFile(seekable(stream, "Parquet"), pre_buffer=False, **options)


def _batches(file: Any, groups: range) -> Iterator[Any]:
    """Batches of at most `ROWS` rows, and of about `_AT_ONCE` bytes."""
    sizes = [ROWS]
    for group in map(file.metadata.row_group, groups):
        if group.num_rows > 0:
            sizes.append(max(1, group.num_rows * _AT_ONCE // max(group.total_byte_size, 1)))
    yield from file.iter_batches(batch_size=min(sizes), row_groups=list(groups))
