"""Sequences of Python's objects, in blocks with the numbers of a model, whatever the model was trained on.

A model that was trained on items gets items. One that was trained on columns, of files or tables or sentences, gets
rows: each sequence is a list of rows, as `RowColumns` takes them, or a mapping with a list of values for each column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain as chained
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa

from chainfold.chain.block import KnownBlock
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadChain
from chainfold.features.for_model import ModelBlocks, ModelInput, sequences_for_model
from chainfold.features.item_ids import ItemIds
from chainfold.features.row_columns import PROGRAM, RowColumns, symbols
from chainfold.features.spec import InputSpec
from chainfold.features.spool import SpooledChain
from chainfold.readers.columns import Arrived, Stretch

_ROWS = 65536  # in a stretch, but for the last sequence
_NONE = object()


def made_of_columns(vocabulary: Vocabulary) -> bool:
    """Whether the model was trained on columns, and not on items."""
    return not RowColumns(ModelInput(vocabulary, InputSpec()), False).items


def extended_items(
    sequences: Iterable[Any], labels: Iterable[Any] | None, vocabulary: Vocabulary
) -> AbstractContextManager[SpooledChain]:
    """Rows for a model of columns as a chain that extends its vocabulary, as `extended_sequences` does with items."""
    rows = _SequencesOfRows(vocabulary, sequences, labels)
    return rows.model_input.extended(rows.stretches())


def blocks_of_items(
    sequences: Iterable[Any], labels: Iterable[Any] | None, vocabulary: Vocabulary
) -> Iterable[KnownBlock]:
    """The sequences in blocks with the numbers of a model.

    Where no labels are given, rows may have the label column themselves. Raises `ChainfoldError` where a sequence is
    not of the kind that the model was trained on, and `EmptyChain` where there are no items but labels.
    """
    if not made_of_columns(vocabulary):
        ids = ItemIds.of(vocabulary) if labels is None else None
        return sequences_for_model(sequences, labels, vocabulary) if ids is None else ids.blocks(sequences)
    rows = _SequencesOfRows(vocabulary, sequences, labels)
    return ModelBlocks(rows.model_input, map(Arrived, rows.stretches()), ahead=False)


class _SequencesOfRows:
    """Sequences of rows as columns."""

    def __init__(self, vocabulary: Vocabulary, sequences: Iterable[Any], labels: Iterable[Any] | None) -> None:
        model = ModelInput(vocabulary, InputSpec())
        self._label, self._beside = model.label, labels is not None
        self._pairs = _paired(sequences, labels, model.label)
        self._before = 0  # rows of earlier stretches
        self._first = next(self._pairs, ([], None))
        within = not self._beside and all(isinstance(row, Mapping) and model.label in row for row in self._first[0][:1])
        labelled = self._beside or (within and bool(self._first[0]))
        self.model_input = ModelInput(vocabulary, InputSpec(labels=labelled, one_sequence=False))
        self._columns = RowColumns(self.model_input, labelled and not self._beside)

    def stretches(self) -> Iterator[Stretch]:
        gathered: list[tuple[int, list[Any], Any]] = []
        size = 0
        for number, (rows, labels) in enumerate(chained([self._first], self._pairs)):
            if rows:
                gathered.append((number, rows, labels))
                size += len(rows)
            if size >= _ROWS:
                yield self._stretch(gathered)
                gathered, size = [], 0
        if gathered:
            yield self._stretch(gathered)

    def _stretch(self, gathered: list[tuple[int, list[Any], Any]]) -> Stretch:
        """The rows of some sequences, one after another."""
        rows = [row for _, theirs, _ in gathered for row in theirs]
        begins = np.cumsum([0, *(len(theirs) for _, theirs, _ in gathered)])

        def place(number: int) -> str:
            among = int(np.searchsorted(begins, number, side="right")) - 1
            return f"item {number - begins[among]} of sequence {gathered[among][0]}"

        batch = self._columns.batch(rows, place)
        if self._beside:
            given = symbols([label for _, _, theirs in gathered for label in theirs or ()])
            batch = pa.RecordBatch.from_arrays([*batch.columns, given], names=[*batch.schema.names, self._label])
        starts = np.zeros(len(rows), np.bool_)
        starts[begins[:-1]] = True
        lines = np.arange(self._before, self._before + len(rows))
        self._before += len(rows)
        return Stretch(batch, starts, lines, PROGRAM, "item")


def _paired(
    sequences: Iterable[Any], labels: Iterable[Any] | None, label: str
) -> Iterator[tuple[list[Any], list[Any] | None]]:
    """The rows of each sequence with its labels."""
    each = zip_longest(sequences, [] if labels is None else labels, fillvalue=_NONE)
    for number, (sequence, theirs) in enumerate(each):
        if labels is not None and (sequence is _NONE or theirs is _NONE):
            less, more = ("sequences of labels", "sequences") if theirs is _NONE else ("sequences", "lists of labels")
            raise BadChain(f"there are only {number} {less}, but more {more}.")
        rows = _rows(sequence, number)
        if labels is None:
            yield rows, None
            continue
        given: list[Any] = list(theirs)  # type: ignore[call-overload]
        if len(given) != len(rows):
            raise BadChain(f"sequence {number} has {len(rows)} items, but {len(given)} labels.")
        yield rows, given


def _rows(sequence: Any, number: int) -> list[Any]:
    """The rows of a sequence."""
    if isinstance(sequence, Mapping):
        lists = lists_of_columns(sequence, number)
        return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    if isinstance(sequence, str) or not isinstance(sequence, Iterable):
        raise BadChain(f"sequence {number} is {sequence!r}; give a list of rows or a dict of columns.")
    return list(sequence)


def lists_of_columns(columns: Mapping[str, Any], number: int) -> dict[str, list[Any]]:
    """The columns of a sequence as lists of one length; values that are no lists, such as an id, are left out."""
    lists = {name: list(values) for name, values in columns.items() if _is_list(values)}
    sizes = {name: len(values) for name, values in lists.items()}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{size} in {name!r}" for name, size in sizes.items())
        raise BadChain(f"the columns of sequence {number} have different numbers of values: {shown}.")
    return lists


def _is_list(values: Any) -> bool:
    return isinstance(values, (Sequence, np.ndarray)) and not isinstance(values, (str, bytes))
