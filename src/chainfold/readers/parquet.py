"""Parquet, a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from chainfold.errors import BadFile
from chainfold.readers.columns import NO_COLUMN, Choice, Stretch
from chainfold.readers.inputs import Stream, TableKind
from chainfold.readers.table_sizes import rows_at_once
from chainfold.readers.tables import ROWS, check_types, is_text, keeping, one_sentence, seekable, stretches_of_batches


class ParquetReader:
    """Parquet, a row group at a time."""

    def __init__(self, columns: Sequence[str] | None = None, symbols: Choice = NO_COLUMN) -> None:
        self._columns, self._symbols = columns, symbols

    def read(self, stream: Stream) -> Iterator[Stretch]:
        return self.groups(stream, 0, None)

    def groups(self, stream: Stream, low: int, high: int | None) -> Iterator[Stretch]:
        """The rows of some row groups; high: None for the end."""
        where = seekable(stream, "Parquet")
        with one_sentence(stream.name, "cannot be read as Parquet"):
            file = pq.ParquetFile(where, pre_buffer=False)
            schema = file.schema_arrow
            check_types(schema, self._columns, self._symbols, stream.name)
            texts = [field.name for field in schema if is_text(field.type)]
            file = pq.ParquetFile(where, pre_buffer=False, read_dictionary=texts)
            rows = max(file.metadata.num_rows, 1)
            some = range(low, file.num_row_groups if high is None else high)
            batches = keeping(_batches_of_groups(file, where, stream.name, some), TableKind.PARQUET, schema, stream)
            first = 1 + sum(file.metadata.row_group(group).num_rows for group in range(low))
            for stretch in stretches_of_batches(batches, self._columns, self._symbols, stream.name, first):
                yield stretch
                stream.reached(int(stretch.lines[-1]) / rows)


def group_sizes(stream: Stream) -> list[int]:
    """The bytes of each row group, as they lie in the file."""
    where = seekable(stream, "Parquet")
    with one_sentence(stream.name, "cannot be read as Parquet"):
        about = pq.ParquetFile(where, pre_buffer=False).metadata
        groups = [about.row_group(k) for k in range(about.num_row_groups)]
        return [sum(group.column(k).total_compressed_size for k in range(group.num_columns)) for group in groups]


def _batches_of_groups(file: Any, where: Any, name: str, some: range) -> Iterator[Any]:
    """Row groups of a Parquet file in batches that take little memory; its row groups as one where they are small."""
    if not file.metadata.num_rows:
        return
    with open(where, "rb") if isinstance(where, Path) else nullcontext(where) as raw:  # noqa: PTH123
        sizes = rows_at_once(raw, file.schema, ROWS, name, some)
        if len(sizes) != file.num_row_groups:
            raise BadFile(name, "cannot be read as Parquet: its footer is damaged; fetch the file again.")
        for size, groups in groupby(some, key=sizes.__getitem__):
            yield from file.iter_batches(batch_size=size, row_groups=list(groups))
