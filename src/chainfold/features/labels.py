"""The labels of rows, where sequences start, and the weights of sequences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL
from chainfold.chain.strings import PairTable, StringTable
from chainfold.errors import BadFile, BadLines
from chainfold.features.attributes import symbol_codes
from chainfold.features.numbers import weights_of
from chainfold.features.schema import Schema
from chainfold.readers.columns import Stretch

_MOST_LABELS = 10_000  # there is a weight for each pair of labels
_MOST_GROUPS = 1 << 24  # a quarter of a gigabyte
_LOWER = (1 << 32) - 1
_HALF = np.uint64((1 << 31) - 1)


class Labels:
    """The labels so far, the given ones first."""

    def __init__(self, unknown: str | None, before: Iterable[str] = ()) -> None:
        self._table = StringTable()
        self._known = np.empty(0, np.int32)  # the number of each text, -1 for that of an unknown label
        self._unknown = unknown
        self.names: list[str] = []
        self._stripped: dict[str, str] = {}
        for label in before:
            self.add(label)

    def numbers(self, stretch: Stretch, column: str) -> NDArray[np.int32]:
        """The number of each row's label; where one cannot be a label, those after it stay unknown to the table."""
        codes = symbol_codes(stretch.batch.column(column), self._table)
        for text in self._table.strings(self._known.size).to_pylist():
            try:
                self._add(text, stretch, column, codes)
            except BadFile:
                self._forget_new()
                raise
        return np.where(codes >= 0, self._known[codes], np.int32(NO_LABEL)) if self._known.size else codes

    def add(self, text: str) -> None:
        """Add a label without checks."""
        self._table.code(text)
        self._known = np.append(self._known, np.int32(NO_LABEL if text == self._unknown else len(self.names)))
        self._stripped[text.strip()] = text
        self.names.append(text)

    def _forget_new(self) -> None:
        """Free the texts that have no number."""
        texts, self._table = self._table.strings()[: self._known.size], StringTable()
        self._table.codes_of(texts)

    def _add(self, text: str, stretch: Stretch, column: str, codes: NDArray[np.int32]) -> None:
        if text in ("", self._unknown):
            self._known = np.append(self._known, np.int32(NO_LABEL))
            return
        other = self._stripped.get(text.strip())
        if other is not None or any(ord(letter) < 32 for letter in text):
            row = int(np.flatnonzero(codes == self._known.size)[0])
            why = "has a stray tab or control character" if other is None else f"is {other!r} but for white space"
            problem = f"{stretch.place(row)}, column {column!r}: the label {text!r} {why}; correct it."
            raise BadLines(stretch.source, problem, lambda: stretch.lines[self._no_labels(stretch, column)])
        self._check_size(stretch.source, column)
        self.add(text)

    def merge(self, names: Iterable[str], source: str, column: str) -> NDArray[np.int32]:
        """The numbers of the labels of the next part of the input, in which they are known to be labels."""
        known = {name: number for number, name in enumerate(self.names)}
        for text in (name for name in names if name not in known):
            if (other := self._stripped.get(text.strip())) is not None:
                problem = f"column {column!r}: the label {text!r} is {other!r} but for white space; correct it."
                raise BadFile(source, problem)
            self._check_size(source, column)
            known[text] = len(self.names)
            self.add(text)
        return np.array([known[name] for name in names], np.int32)

    def _check_size(self, source: str, column: str) -> None:
        if len(self.names) == _MOST_LABELS:
            problem = f"column {column!r} has more than {_MOST_LABELS:,} labels; set `label` to the right one."
            raise BadFile(source, problem)

    def _no_labels(self, stretch: Stretch, column: str) -> NDArray[np.bool_]:
        """The rows with what cannot be a label, as far as others are known."""
        texts = StringTable()
        codes = symbol_codes(stretch.batch.column(column), texts)
        known = {"", self._unknown, *self.names}
        wrong = [
            text not in known and (text.strip() in self._stripped or any(ord(letter) < 32 for letter in text))
            for text in texts.strings().to_pylist()
        ]
        return np.array([*wrong, False])[codes]


class Targets(NamedTuple):
    """The labels, sequence starts and weights of rows."""

    labels: NDArray[np.int32]
    starts: NDArray[np.bool_]
    weights: NDArray[np.float64]  # or empty: all ones

    @classmethod
    def none(cls) -> Self:
        return cls(np.empty(0, np.int32), np.empty(0, np.bool_), np.empty(0))

    def then(self, more: Targets) -> Targets:
        """These rows and further ones."""
        return Targets(
            np.concatenate([self.labels, more.labels]),
            np.concatenate([self.starts, more.starts]),
            np.concatenate([self.weights, more.weights]),
        )

    def split(self, count: int) -> tuple[Targets, Targets]:
        """The first rows, and the others."""
        return (
            Targets(self.labels[:count], self.starts[:count], self.weights[:count]),
            Targets(self.labels[count:], self.starts[count:], self.weights[count:]),
        )


class TargetReader:
    """Finds labels, start marks and weights in stretches that follow one another."""

    def __init__(self, schema: Schema, labels: Labels) -> None:
        self._schema, self._labels = schema, labels
        self._seen = None if schema.groups_return else SeenGroups()
        self._last_group: str | None = None
        self._last_weight: float | None = None
        self._begun = False
        self.marked = schema.group is None and not schema.one_sequence  # whether the input marks sequences

    @property
    def state(self) -> tuple[bool, str | None, float | None]:
        """Whether a sequence has begun that may continue, the last group and the last weight."""
        return self._begun, self._last_group, self._last_weight

    @state.setter
    def state(self, state: tuple[bool, str | None, float | None]) -> None:
        self._begun, self._last_group, self._last_weight = state

    def end(self) -> None:
        """End the sequence: the next row starts another."""
        self._begun = False

    def check(self, stretch: Stretch) -> None:
        """Raise what `read` would raise."""
        self._values(stretch)

    def read(self, stretch: Stretch) -> Targets:
        labels, weights = self._values(stretch)
        starts = self._starts(stretch)
        if self._schema.weight is not None:
            self._check_weights(stretch, self._schema.weight, starts, weights)
        return Targets(labels, starts, weights)

    def _values(self, stretch: Stretch) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        if self._schema.label is None:
            labels = np.full(stretch.starts.size, NO_LABEL, np.int32)
        else:
            labels = self._labels.numbers(stretch, self._schema.label)
        return labels, np.empty(0) if self._schema.weight is None else weights_of(stretch, self._schema.weight)

    def context(self, stretches: Iterable[Stretch]) -> NDArray[np.bool_]:
        """The start marks of rows that are there for others only; their labels and groups are not counted."""
        seen, self._seen = self._seen, None
        starts = []
        for stretch in stretches:
            if stretch.starts.size:
                starts.append(self._starts(stretch))
                if self._schema.weight is not None:
                    self._last_weight = float(weights_of(stretch, self._schema.weight)[-1])
        self._seen = seen
        return np.concatenate([np.empty(0, np.bool_), *starts])

    @property
    def groups(self) -> NDArray[np.int64]:
        """The groups that have begun, as numbers in their order; none where they may occur again."""
        return np.empty(0, np.int64) if self._seen is None else self._seen.begun

    def _check_weights(
        self, stretch: Stretch, column: str, starts: NDArray[np.bool_], weights: NDArray[np.float64]
    ) -> None:
        """Raise unless all rows of a sequence have one weight."""
        before = np.append(weights[0] if self._last_weight is None else self._last_weight, weights[:-1])
        self._last_weight = float(weights[-1])
        wrong = np.flatnonzero((weights != before) & ~starts)
        if wrong.size:
            row = int(wrong[0])
            raise BadFile(
                stretch.source,
                f"{stretch.place(row)}, column {column!r}: the weight is {weights[row]}, but that of the row before it "
                f"in its sequence is {before[row]}; give all rows of a sequence one weight.",
            )

    def _starts(self, stretch: Stretch) -> NDArray[np.bool_]:
        if self._schema.group is not None:
            starts = self._group_starts(stretch, self._schema.group)
        elif self._schema.one_sequence:
            starts = np.zeros(stretch.starts.size, np.bool_)
        else:
            starts = stretch.starts.copy()
        starts[0] |= not self._begun
        self._begun = True
        return starts

    def _group_starts(self, stretch: Stretch, column: str) -> NDArray[np.bool_]:
        """Where the column differs from the row before; raises where a group occurs again, if it may not."""
        texts = StringTable()
        last = -1 if self._last_group is None else texts.code(self._last_group)
        groups = symbol_codes(stretch.batch.column(column), texts)
        self._last_group = None if groups[-1] < 0 else texts.text(int(groups[-1]))
        starts: NDArray[np.bool_] = np.concatenate([[last], groups[:-1]]) != groups
        if self._seen is not None:
            begins = np.flatnonzero(starts | (np.arange(starts.size) == 0) & (not self._begun))
            self._seen.check(stretch, column, begins, groups[begins], texts)
        return starts


class SeenGroups:
    """The groups that have begun so far, by 62 bits of their hashes: about 16 bytes each."""

    def __init__(self) -> None:
        self._table = PairTable()

    def check(
        self, stretch: Stretch, column: str, begins: NDArray[np.int64], groups: NDArray[np.int32], texts: StringTable
    ) -> None:
        """Raise if one of the groups that begin at these rows has begun before; -1 is a missing one."""
        before = len(self._table)
        again = np.flatnonzero(self._numbers(groups, texts) != before + np.arange(groups.size))
        if again.size:
            code, row = int(groups[again[0]]), int(begins[again[0]])
            group = "the missing group" if code < 0 else f"group {texts.text(code)!r}"
            raise BadFile(
                stretch.source,
                f"{stretch.place(row)}, column {column!r}: {group} comes again after another; sort the rows by group, "
                f"or set `groups_return` if each of its runs is a sequence.",
            )
        self._check_size(stretch.source, column)

    @property
    def begun(self) -> NDArray[np.int64]:
        """The groups in their order."""
        return self._table.arrays.pairs[: len(self._table)]

    def merge(self, begun: NDArray[np.int64], source: str, column: str) -> None:
        """Add the groups that begin in the next part of the input; raises if one of them has begun before."""
        before = len(self._table)
        numbers = self._table.codes((begun >> 32).astype(np.int32), (begun & _LOWER).astype(np.int32))
        if (numbers != before + np.arange(begun.size)).any():
            raise BadFile(
                source,
                f"column {column!r}: one of its groups has begun before and comes again after another; sort the rows "
                f"by group, or set `groups_return` if each of its runs is a sequence.",
            )
        self._check_size(source, column)

    def _check_size(self, source: str, column: str) -> None:
        if len(self._table) > _MOST_GROUPS:
            raise BadFile(
                source,
                f"column {column!r} has more than {_MOST_GROUPS:,} groups, too many to check that none occurs again; "
                f"set `groups_return`.",
            )

    def _numbers(self, groups: NDArray[np.int32], texts: StringTable) -> NDArray[np.int32]:
        """A number for each group, in order of first appearance."""
        hashes = np.append(texts.arrays.hashes[: len(texts)], np.uint64(0))[groups]  # the last one is that of -1
        upper, lower = (hashes >> np.uint64(33)).astype(np.int32), (hashes & _HALF).astype(np.int32)
        return self._table.codes(upper, lower)
