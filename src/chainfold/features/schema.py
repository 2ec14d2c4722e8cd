"""Which column is what, and what rows have besides their attributes: labels, where sequences start, weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL
from chainfold.chain.strings import StringTable
from chainfold.errors import BadFile, BadLines, BadSetting, ChainfoldError
from chainfold.features.attributes import symbol_codes
from chainfold.features.groups import SeenGroups
from chainfold.features.numbers import weights_of
from chainfold.features.template import WAYS_OF_NUMBERS, Template, every_column
from chainfold.readers.columns import Columns, Stretch
from chainfold.readers.text import CONLLU_COLUMNS

_MOST_LABELS = 10_000  # there are as many weights as pairs of labels


@dataclass(frozen=True)
class Encoding:
    """What to make of the columns."""

    template: Template | None = None  # None: every column as it is
    numbers: str | None = None  # what becomes of numbers then: one of WAYS_OF_NUMBERS, quantiles unless given
    symbols: frozenset[str] = frozenset()  # columns that are texts even if they look like numbers
    label: str | None = None  # the column of labels; None: the one called "label", else the last
    labels: bool = True  # are there labels at all?
    unknown: str | None = None  # what stands for an unknown label, beside a missing one
    group: str | None = None  # a new sequence starts where this column changes
    groups_return: bool = False  # may a group come again after another?
    weight: str | None = None  # the column of the weights of positions
    one_sequence: bool = False  # nothing starts a new sequence
    min_count: int = 1  # attributes that occur less often are left out
    hash_bits: int | None = None  # hash attributes to so many bits instead of naming them
    header: bool | None = None  # whether CSV has one, for whoever reads more of the same
    comments: str | None = None  # what comments begin with, likewise

    def __post_init__(self) -> None:
        if self.numbers is not None and self.numbers not in WAYS_OF_NUMBERS:
            raise BadSetting("numbers", self.numbers, f"one of {', '.join(WAYS_OF_NUMBERS)}")
        if not isinstance(self.min_count, int) or self.min_count < 1:
            raise BadSetting("min_count", self.min_count, "a whole number, at least 1")
        for wrong, sentence in (
            (self.numbers and self.template, "a template says itself what becomes of numbers: leave out --numbers."),
            (self.label and not self.labels, "there are labels or none: give --label or --no-labels, not both."),
            (
                self.hash_bits is not None and self.min_count > 1,
                "hashed attributes are not left out by count: give --min-count or --hash-bits, not both.",
            ),
            (
                self.group is not None and self.one_sequence,
                "sequences end where a group does, or nowhere: give --group or --one-sequence, not both.",
            ),
            (
                self.weight is not None and self.weight in (self.label, self.group),
                f"column {self.weight!r} cannot be that of the weights and of something else.",
            ),
        ):
            if wrong:
                raise ChainfoldError(sentence)

    def label_of(self, columns: Sequence[str]) -> str | None:
        """The column of labels."""
        if not self.labels or self.label is not None:
            return self.label
        others = [name for name in columns if name not in (self.group, self.weight)]
        usual = "upos" if tuple(columns) == CONLLU_COLUMNS else "label"
        return usual if usual in others else others[-1] if others else None

    def texts(self, columns: Sequence[str]) -> frozenset[str]:
        """The columns that are read as texts whatever they look like."""
        roles = frozenset(column for column in (self.label_of(columns), self.group) if column is not None)
        return self.symbols | roles | (frozenset() if self.template is None else self.template.texts(columns))


@dataclass(frozen=True)
class Roles:
    """Which column is what."""

    kinds: dict[str, str]
    label: str | None
    group: str | None
    weight: str | None
    groups_return: bool = False

    @classmethod
    def of(cls, kinds: dict[str, str], encoding: Encoding, source: str) -> Roles:
        for role, column in (("label", encoding.label), ("group", encoding.group), ("weight", encoding.weight)):
            if column is not None and column not in kinds:
                raise BadFile(source, f"there is no {role} column {column!r}; the columns are {', '.join(kinds)}.")
        label = encoding.label_of(list(kinds))
        if encoding.labels and (label is None or kinds[label] == "bag"):
            raise BadFile(source, "there is no column of labels; name it with --label, or say --no-labels.")
        for what, column in (("weights", encoding.weight), ("groups", encoding.group)):
            if column is not None and kinds[column] == "bag":
                raise BadFile(source, f"column {column!r} holds lists of attributes, which are no {what}.")
        return cls(kinds, label, encoding.group, encoding.weight, encoding.groups_return)

    def columns(self, encoding: Encoding) -> Columns:
        """What is to be kept of the columns."""
        return Columns(
            self.kinds,
            self.group,
            self.weight,
            encoding.unknown,
            encoding.one_sequence,
            encoding.header,
            encoding.comments,
            self.groups_return,
        )

    def template(self, encoding: Encoding) -> Template:
        """The template over the columns that there are.

        By default each column that is not the label, the group or the weight; of CoNLL-U, whose other columns are
        annotation too, the form alone.
        """
        if encoding.template is not None:
            return encoding.template.resolved(list(self.kinds))
        names = ("form",) if tuple(self.kinds) == CONLLU_COLUMNS else tuple(self.kinds)
        others = {name: self.kinds[name] for name in names if name not in (self.label, self.group, self.weight)}
        if not others:
            raise ChainfoldError(
                f"column {self.label!r} is that of the labels, and nothing is left for attributes; say --no-labels if "
                f"it is not a label."
            )
        return every_column(others, encoding.numbers or WAYS_OF_NUMBERS[0])


class Labels:
    """The labels seen so far, those known from before first."""

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
        """A label that is known to be one."""
        self._table.code(text)
        self._known = np.append(self._known, np.int32(NO_LABEL if text == self._unknown else len(self.names)))
        self._stripped[text.strip()] = text
        self.names.append(text)

    def _forget_new(self) -> None:
        """Let go of the texts that have no number."""
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
        if len(self.names) == _MOST_LABELS:
            raise BadFile(
                stretch.source,
                f"column {column!r} has more than {_MOST_LABELS:,} labels; name the right one with --label.",
            )
        self.add(text)

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


class Rows(NamedTuple):
    """What rows have besides attributes."""

    labels: NDArray[np.int32]
    starts: NDArray[np.bool_]
    weights: NDArray[np.float64]  # or empty: all ones

    @classmethod
    def none(cls) -> Self:
        return cls(np.empty(0, np.int32), np.empty(0, np.bool_), np.empty(0))

    def then(self, more: Rows) -> Rows:
        """These rows and further ones."""
        return Rows(
            np.concatenate([self.labels, more.labels]),
            np.concatenate([self.starts, more.starts]),
            np.concatenate([self.weights, more.weights]),
        )

    def split(self, count: int) -> tuple[Rows, Rows]:
        """The first rows, and the others."""
        return (
            Rows(self.labels[:count], self.starts[:count], self.weights[:count]),
            Rows(self.labels[count:], self.starts[count:], self.weights[count:]),
        )


class RowReader:
    """Finds labels, start marks and weights in stretches that follow one another."""

    def __init__(self, roles: Roles, labels: Labels, one_sequence: bool) -> None:
        self._roles, self._labels, self._one_sequence = roles, labels, one_sequence
        self._seen = None if roles.groups_return else SeenGroups()
        self._last_group: str | None = None
        self._begun = False

    @property
    def marked(self) -> bool:
        """Do sequences end where the input says so?"""
        return self._roles.group is None and not self._one_sequence

    @property
    def state(self) -> tuple[bool, str | None]:
        """Has a sequence begun that goes on, and the last group."""
        return self._begun, self._last_group

    @state.setter
    def state(self, state: tuple[bool, str | None]) -> None:
        self._begun, self._last_group = state

    def end(self) -> None:
        """The sequence has ended: what comes next starts another."""
        self._begun = False

    def check(self, stretch: Stretch) -> None:
        """Raise what `read` would raise."""
        self._values(stretch)

    def read(self, stretch: Stretch) -> Rows:
        labels, weights = self._values(stretch)
        return Rows(labels, self._starts(stretch), weights)

    def _values(self, stretch: Stretch) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        if self._roles.label is None:
            labels = np.full(stretch.starts.size, NO_LABEL, np.int32)
        else:
            labels = self._labels.numbers(stretch, self._roles.label)
        return labels, np.empty(0) if self._roles.weight is None else weights_of(stretch, self._roles.weight)

    def _starts(self, stretch: Stretch) -> NDArray[np.bool_]:
        if self._roles.group is not None:
            starts = self._group_starts(stretch, self._roles.group)
        elif self._one_sequence:
            starts = np.zeros(stretch.starts.size, np.bool_)
        else:
            starts = stretch.starts.copy()
        starts[0] |= not self._begun
        self._begun = True
        return starts

    def _group_starts(self, stretch: Stretch, column: str) -> NDArray[np.bool_]:
        """Where the column differs from the row before; raises where a group comes again, if it may not."""
        texts = StringTable()
        last = -1 if self._last_group is None else texts.code(self._last_group)
        groups = symbol_codes(stretch.batch.column(column), texts)
        self._last_group = None if groups[-1] < 0 else texts.text(int(groups[-1]))
        starts: NDArray[np.bool_] = np.concatenate([[last], groups[:-1]]) != groups
        if self._seen is not None:
            begins = np.flatnonzero(starts | (np.arange(starts.size) == 0) & (not self._begun))
            self._seen.check(stretch, column, begins, groups[begins], texts)
        return starts
