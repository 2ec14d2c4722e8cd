"""Rows that a program has, one or many at a time, as blocks with a model's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL, Block, join_blocks
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadFile
from chainfold.features.encoder import Numbered
from chainfold.features.for_model import BlockMaker, ModelInput
from chainfold.features.item_ids import ItemIds
from chainfold.features.row_columns import PROGRAM, RowColumns
from chainfold.features.spec import InputSpec
from chainfold.readers.columns import Stretch
from chainfold.readers.sequences import stretches_of
from chainfold.readers.tables import read_memory
from chainfold.system.validate import MOST, Arrays


class RowEncoder:
    """Rows that a program has, one or many at a time, as blocks with a model's numbers.

    A row is of the kind that the model was trained on. Of columns: a mapping from names to texts, numbers or None,
    which may have other names too, or a list of the values in the order of the model's columns, without the label. Of
    sequences: an item, as `chain_from_sequences` takes it. Where a row is wrong, nothing is changed.
    """

    def __init__(self, vocabulary: Vocabulary, labels: bool = False) -> None:
        """labels: rows have labels: mappings and lists as a column, items in a pair (item, label)."""
        self._input = ModelInput(vocabulary, InputSpec(labels=labels, one_sequence=False))
        self._labels = labels
        self._columns = RowColumns(self._input, labels)
        self._items = self._columns.items
        self._ids = ItemIds.of(vocabulary) if self._items and not labels else None
        self._begin()
        self._nothing = self._maker.nothing

    def _begin(self) -> None:
        self._rows = 0
        self._maker = BlockMaker(self._input, self._no_rows())

    @property
    def right_context(self) -> int:
        """How many rows the template looks ahead; as many wait until more arrive or their sequence ends."""
        return self._maker.numberer.right

    @property
    def held(self) -> int:
        """Rows that wait: the first of what is given when they need not wait any longer."""
        return self._maker.numberer.held

    def push(self, rows: Any, start: bool = False, end: bool = False) -> Block:
        """One row, a list of rows or a table; gives the positions that can be done now, perhaps none.

        start: the first of them starts a sequence, as the very first row does, and one after an end; end: the last of
        them ends its sequence.
        """
        block = self._block_of_items(rows, start, end)
        if block is not None:
            return block
        stretches = self._stretches(rows)
        for stretch in stretches:
            stretch.starts[:] = False
        for stretch in stretches[:1]:
            stretch.starts[0] = start
        if not stretches:
            stretches = [self._no_rows()]
        numbered_rows = []
        for index, stretch in enumerate(stretches, 1):
            numbered_rows += self._maker.numberer.push(stretch, end and index == len(stretches))
            self._rows += stretch.lines.size
        return self._joined(numbered_rows)

    def finish(self) -> Block:
        """The sequence has ended: the rows still waiting."""
        return self._joined(self._maker.numberer.finish())

    def state(self) -> dict[str, NDArray[Any]]:
        """All that another encoder for the same model needs to continue from here."""
        return self._maker.numberer.state() | {"pushed": np.array([self._rows])}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from the state of another encoder."""
        given = Arrays(state)
        (rows,) = given.counts("pushed", MOST)
        self._begin()
        self._maker.numberer.restore(given.rest())
        self._rows = rows

    def _block_of_items(self, rows: Any, start: bool, end: bool) -> Block | None:
        """The positions of items that need neither columns nor other rows; None of any other rows."""
        if self._ids is None or type(rows) not in (dict, list):
            return None
        entries = self._ids.entries(self._several(rows))
        if entries is None:
            return None
        count = entries.offsets.size - 1
        labels, starts = np.full(count, NO_LABEL, np.int32), np.zeros(count, np.bool_)
        starts[0] = start or not self._maker.numberer.begun
        self._maker.numberer.begun = not end
        self._rows += count
        for array in (labels, starts, *entries):
            array.flags.writeable = False
        return self._nothing._replace(labels=labels, starts=starts, **entries._asdict())

    def _joined(self, numbered_rows: list[Numbered]) -> Block:
        blocks = [self._maker.block(numbered).block for numbered in numbered_rows if numbered.block.labels.size]
        if len(blocks) == 1:
            return blocks[0]
        return join_blocks(blocks) if blocks else self._maker.nothing

    def _stretches(self, rows: Any) -> list[Stretch]:
        """The rows as stretches, each with at least one row."""
        if hasattr(rows, "__arrow_c_stream__") or isinstance(rows, (pa.RecordBatch, np.ndarray)):
            stretches = [self._input.renamed(stretch) for stretch in read_memory(rows, None, self._input.texts)]
            for stretch in stretches:
                self._columns.check_names(stretch.batch.schema.names)
            return stretches
        several = self._several(rows)
        if not several:
            return []
        if self._items:
            items, labels = zip(*several, strict=True) if self._labels else (several, None)
            return list(stretches_of([items], None if labels is None else [labels]))
        lines = np.arange(self._rows + 1, self._rows + 1 + len(several))
        batch = self._columns.batch(several, lambda number: f"row {lines[number]}")
        return [Stretch(batch, np.zeros(len(several), np.bool_), lines, PROGRAM, "row")]

    def _several(self, rows: Any) -> list[Any]:
        """The rows as a list."""
        single = isinstance(rows, Mapping) or (self._labels and self._items and isinstance(rows, tuple))
        if not (single or isinstance(rows, (list, tuple, set, frozenset))):
            given = type(rows).__name__
            raise BadFile(
                PROGRAM, f"an object of type {given} is not a row; give a dict or a list, a list of those, or a table."
            )
        if single or not isinstance(rows, (list, tuple)):
            return [rows]
        if not rows and self._items and not self._labels:
            raise BadFile(
                PROGRAM,
                "an empty list may be one row without attributes, or no rows; push {} or [[]] for the one row, and "
                "leave the call out where there are no rows.",
            )
        inner = (Mapping, list, tuple, set, frozenset) if self._items else (Mapping, list, tuple)
        return list(rows) if all(isinstance(row, inner) for row in rows) else [rows]

    def _no_rows(self) -> Stretch:
        """The columns that are used, without rows."""
        return Stretch(self._columns.no_rows(), np.empty(0, np.bool_), np.empty(0, np.int64), PROGRAM, "row")
