"""Columns: what every reader gives, for any format.

A reader turns its input into stretches, each a bounded number of consecutive rows. A column of a stretch is one of

    dictionary<int32, string>               a symbol at each row (null: missing)
    float64                                 a number at each row (null: missing)
    large_list<dictionary<int32, string>>   a bag of attributes at each row; `values`, if the bag has them, is the
                                            sibling column `<name>:values`, a large_list<float64>

The dictionary of a stretch has only values that occur in it; a stretch in which all values of a bag are one may come
without the column of values. A row's line is where it stood in its file, for error messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SYMBOL = pa.dictionary(pa.int32(), pa.string())
NUMBER = pa.float64()
BAG = pa.large_list(SYMBOL)
BAG_VALUES = pa.large_list(pa.float64())
VALUES_SUFFIX = ":values"
LABEL, WEIGHT, ATTRIBUTES, EDGE = "label", "weight", "attributes", "edge"  # columns of items and CRFsuite's lines


Choice = Callable[[Sequence[str]], frozenset[str]]
"""Some of the columns, once their names are known."""


def chosen(*names: str) -> Choice:
    """These columns."""
    return lambda columns: frozenset(names)


NO_COLUMN = chosen()


class Stretch(NamedTuple):
    """Consecutive rows of one input."""

    batch: Any  # pa.RecordBatch of the column types above
    starts: NDArray[np.bool_]  # [rows]: does a sequence start here? The first row of an input always says so
    lines: NDArray[np.int64]  # [rows]: the line of each row, from 1
    source: str  # the name of the input, for messages
    unit: str = "line"  # what `lines` counts

    def rows(self, low: int, high: int) -> Stretch:
        """Rows low … high-1."""
        return self._replace(
            batch=self.batch.slice(low, high - low), starts=self.starts[low:high], lines=self.lines[low:high]
        )

    def place(self, row: int) -> str:
        """Where a row stood, for messages."""
        return f"{self.unit} {self.lines[row]}"


class Arrived(NamedTuple):
    """Rows that follow those before, perhaps none."""

    stretch: Stretch
    ended: bool = False  # is it known that the sequence ends with the last of them?


def kinds_of(batch: Any) -> dict[str, str]:
    """The kind of each column of a stretch: "symbol", "number" or "bag"."""
    names = {SYMBOL: "symbol", NUMBER: "number", BAG: "bag"}
    return {field.name: names[field.type] for field in batch.schema if field.type != BAG_VALUES}
