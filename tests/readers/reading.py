"""Rows that readers give, as Python's lists."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest

from chainfold.errors import BadFile
from chainfold.readers.columns import Stretch
from chainfold.readers.inputs import Inputs


def stretches(reader: Any, data: bytes, chunk: int | None = None) -> list[Stretch]:
    """All stretches of an input, read in chunks of a size."""
    reader.chunk_size = chunk or reader.chunk_size
    return list(reader.read(next(iter(Inputs(io.BytesIO(data)))).open()))


def everything(found: Sequence[Stretch]) -> tuple[dict[str, list[Any]], list[bool], list[int]]:
    """The columns of all stretches, start marks and lines."""
    columns: dict[str, list[Any]] = {}
    for stretch in found:
        assert stretch.batch.num_rows == stretch.lines.size == stretch.starts.size > 0
        stretch.batch.validate(full=True)
        for name, values in stretch.batch.to_pydict().items():
            columns.setdefault(name, []).extend(values)
    starts = [bool(start) for stretch in found for start in stretch.starts]
    return columns, starts, [int(line) for stretch in found for line in stretch.lines]


def columns_of(found: Sequence[Stretch]) -> dict[str, list[Any]]:
    """The columns of one sequence."""
    columns, starts, _ = everything(found)
    assert starts == [True] + [False] * (len(starts) - 1)
    return columns


def problem_of(reader: Any, data: bytes, chunk: int | None = None) -> str:
    """The sentence with which an input is refused."""
    with pytest.raises(BadFile) as caught:
        stretches(reader, data, chunk)
    return str(caught.value).removeprefix("the open file: ")
