"""Chunks of text of which some lines cannot be read: the others alone, or with a row in the place of each of those."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chainfold.readers.columns import NUMBER, SYMBOL, Stretch
from chainfold.readers.inputs import Chunk, line_ends
from chainfold.readers.tables import tidy

_BLOT = b"x"


class LinesOf:
    """The lines of a chunk, counted from 0."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self._ends = line_ends(chunk.data) + 1
        self._begins = np.append(0, self._ends[:-1])

    def __len__(self) -> int:
        return self._ends.size

    def one(self, line: int) -> Chunk:
        """A line as a chunk."""
        text = self.chunk.data[self._begins[line] : self._ends[line]]
        return Chunk(text, self.chunk.line + int(line), self.chunk.added if line + 1 == len(self) else 0)

    def others(self, bad: NDArray[np.int64]) -> tuple[Chunk, NDArray[np.int64]]:
        """All but the bad lines as a chunk, and which lines these are; its own numbers have no gaps."""
        good = np.setdiff1d(np.arange(len(self)), bad)
        last = len(self) - 1 in good
        return Chunk(self._with(bad, [b""] * bad.size), self.chunk.line, self.chunk.added if last else 0), good

    def replaced(self, bad: NDArray[np.int64], by: list[bytes]) -> Chunk:
        """The chunk with other lines in the place of the bad ones."""
        return self.chunk._replace(data=self._with(bad, by))

    def blotted(self, bad: NDArray[np.int64]) -> bytes:
        """The text with nothing in the bad lines that would end a field or a row; all places stay as they are."""
        data = bytearray(self.chunk.data)
        for line in bad.tolist():
            begin, end = int(self._begins[line]), int(self._ends[line])
            size = len(data[begin:end].rstrip(b"\r\n"))
            data[begin : begin + size] = _BLOT * size
        return bytes(data)

    def _with(self, bad: NDArray[np.int64], texts: list[bytes]) -> bytes:
        data, parts, at = self.chunk.data, [], 0
        for begin, end, text in zip(self._begins[bad].tolist(), self._ends[bad].tolist(), texts, strict=True):
            parts += [data[at:begin], text]
            at = end
        return b"".join([*parts, data[at:]])


def blank_rows(
    stretch: Stretch, rows: NDArray[np.bool_], last: Stretch, group: str | None, weight: str | None
) -> Stretch:
    """The rows, some of them without known values, except that each belongs to the group of the row before it.

    last: the row before the first. The weights stay.
    """
    columns = []
    for name, column in zip(stretch.batch.schema.names, stretch.batch.columns, strict=True):
        if name == group:
            columns.append(_filled(column, rows, last.batch.column(name)))
        elif name != weight and column.type == SYMBOL:
            codes = pc.if_else(pa.array(rows), pa.scalar(None, pa.int32()), column.indices)
            columns.append(tidy(pa.DictionaryArray.from_arrays(codes, column.dictionary)))
        elif name != weight and column.type == NUMBER:
            columns.append(pc.if_else(pa.array(rows), pa.scalar(None, NUMBER), column))
        else:
            columns.append(column)
    return stretch._replace(batch=pa.RecordBatch.from_arrays(columns, names=stretch.batch.schema.names))


def _filled(column: Any, rows: NDArray[np.bool_], before: Any) -> Any:
    """The column, with the value of the last of the other rows at some."""
    places = np.maximum.accumulate(np.where(rows, 0, np.arange(1, rows.size + 1)))
    filled = pa.concat_arrays([before, column]).take(pa.array(places))
    return tidy(filled) if column.type == SYMBOL else filled
