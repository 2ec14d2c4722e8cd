"""From columns to a chain: attributes and labels are numbered and counted in one pass, and put aside on disk; then the
numbers become final, attributes by falling frequency.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain as chained
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.data.ahead import read_ahead
from chainfold.data.attributes import Attributes, Entries, Features, Findings, symbol_codes
from chainfold.data.chain import Block, Source, frozen, vocabulary_of
from chainfold.data.columns import Stretch, kinds_of
from chainfold.data.interning import StringTable, spans
from chainfold.data.keep import Kept
from chainfold.data.naming import Census, ExactNames, HashedNames, Names, by_falling_count
from chainfold.data.numbers import fit, needs_fit
from chainfold.data.spool import Numbering, Spool, SpooledChain
from chainfold.data.template import WAYS_OF_NUMBERS, Template, every_column
from chainfold.data.text_formats import CONLLU_COLUMNS
from chainfold.data.vocabulary import Vocabulary
from chainfold.errors import BadFile, BadSetting, ChainfoldError, EmptyChain
from chainfold.kernels.attributes import unseen

_BLOCK = 65536
_MOST_LABELS = 10_000  # there are as many weights as pairs of labels


@dataclass(frozen=True)
class Progress:
    """Who wants to know how far things are."""

    total: Callable[[int | None], None] = field(default=lambda size: None)  # bytes of the input, None if not known
    phase: Callable[[str, int | None], None] = field(default=lambda name, positions: None)
    """What is done from now on, and to how many positions; None while that is not known."""
    read: Callable[[int], None] = field(default=lambda size: None)  # bytes that were read
    positions: Callable[[int], None] = field(default=lambda count: None)  # positions that were done


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
    one_sequence: bool = False  # nothing starts a new sequence
    min_count: int = 1  # attributes that occur less often are left out
    hash_bits: int | None = None  # hash attributes to so many bits instead of naming them

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
        ):
            if wrong:
                raise ChainfoldError(sentence)

    def names(self) -> Names:
        return ExactNames() if self.hash_bits is None else HashedNames(self.hash_bits)

    def label_of(self, columns: Sequence[str]) -> str | None:
        """The column of labels."""
        if not self.labels or self.label is not None:
            return self.label
        others = [name for name in columns if name != self.group]
        usual = "upos" if tuple(columns) == CONLLU_COLUMNS else "label"
        return usual if usual in others else others[-1] if others else None

    def texts(self, columns: Sequence[str]) -> frozenset[str]:
        """The columns that are read as texts whatever they look like."""
        roles = frozenset(column for column in (self.label_of(columns), self.group) if column is not None)
        return self.symbols | roles | (frozenset() if self.template is None else self.template.texts(columns))


@contextmanager
def spooled(
    stretches: Iterable[Stretch],
    encoding: Encoding,
    *,
    before: Source | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Iterator[SpooledChain]:
    """All stretches as a chain with its final numbers, which lies in nameless files in the folder for so long.

    `before` is a chain with a vocabulary that the stretches continue.
    """
    progress = progress or Progress()
    progress.phase("encoding", None)
    rows = read_ahead(stretches)
    first = next(rows, None)
    if first is None:
        raise EmptyChain
    roles = Roles.of(kinds_of(first.batch), encoding, first.source)
    template = roles.template(encoding)
    rows = chained([first], rows)
    with ExitStack() as stack:
        if needs_fit(template):
            progress.phase("looking at numbers", None)
            kept = stack.enter_context(Kept(folder))
            template = fit(template, kept.keeping(rows, progress.positions))
            progress.phase("encoding", kept.rows)
            rows = read_ahead(kept)
        encoder = Encoder(template, roles, encoding, stack.enter_context(Spool(folder)))
        for numbered in encoder.numbered_chain(before) if before is not None else ():
            encoder.keep(numbered)
        for numbered in read_ahead(encoder.numbered(rows)):
            progress.positions(encoder.keep(numbered))
        source = encoder.finish(progress.positions)
        progress.phase("writing", source.positions)
        yield source


@dataclass(frozen=True)
class Roles:
    """Which column is what."""

    kinds: dict[str, str]
    label: str | None
    group: str | None

    @classmethod
    def of(cls, kinds: dict[str, str], encoding: Encoding, source: str) -> Roles:
        for role, column in (("label", encoding.label), ("group", encoding.group)):
            if column is not None and column not in kinds:
                raise BadFile(source, f"there is no {role} column {column!r}; the columns are {', '.join(kinds)}.")
        label = encoding.label_of(list(kinds))
        if encoding.labels and (label is None or kinds[label] == "bag"):
            raise BadFile(source, "there is no column of labels; name it with --label, or say --no-labels.")
        return cls(kinds, label, encoding.group)

    def template(self, encoding: Encoding) -> Template:
        """The template over the columns that there are.

        By default each column that is not the label or the group; of CoNLL-U, whose other columns are annotation too,
        the form alone.
        """
        if encoding.template is not None:
            return encoding.template.resolved(list(self.kinds))
        names = ("form",) if tuple(self.kinds) == CONLLU_COLUMNS else tuple(self.kinds)
        others = {name: self.kinds[name] for name in names if name not in (self.label, self.group)}
        if not others:
            raise ChainfoldError(
                f"the only column, {self.label!r}, is that of the labels, and nothing is left for attributes; say "
                f"--no-labels if it is not a label."
            )
        return every_column(others, encoding.numbers or WAYS_OF_NUMBERS[0])


class Labels:
    """The labels seen so far."""

    def __init__(self, unknown: str | None) -> None:
        self._table = StringTable()
        self._known = np.empty(0, np.int32)  # the number of each text, -1 for that of an unknown label
        self._unknown = unknown
        self.names: list[str] = []
        self._stripped: dict[str, str] = {}

    def numbers(self, stretch: Stretch, column: str) -> NDArray[np.int32]:
        codes = symbol_codes(stretch.batch.column(column), self._table)
        for text in self._table.strings(self._known.size).to_pylist():
            self._add(text, stretch, column, codes)
        return np.where(codes >= 0, self._known[codes], np.int32(-1)) if self._known.size else codes

    def add(self, text: str) -> None:
        """A label that is known to be one."""
        self._table.code(text)
        self._known = np.append(self._known, np.int32(len(self.names)))
        self._stripped[text.strip()] = text
        self.names.append(text)

    def _add(self, text: str, stretch: Stretch, column: str, codes: NDArray[np.int32]) -> None:
        if text in ("", self._unknown):
            self._known = np.append(self._known, np.int32(-1))
            return
        other = self._stripped.get(text.strip())
        if other is not None or any(ord(letter) < 32 for letter in text):
            row = int(np.flatnonzero(codes == self._known.size)[0])
            why = "has a stray tab or control character" if other is None else f"is {other!r} but for white space"
            raise BadFile(
                stretch.source, f"{stretch.place(row)}, column {column!r}: the label {text!r} {why}; correct it."
            )
        if len(self.names) == _MOST_LABELS:
            raise BadFile(
                stretch.source,
                f"column {column!r} has more than {_MOST_LABELS:,} labels; name the right one with --label.",
            )
        self.add(text)


class Numbered(NamedTuple):
    """Positions with provisional numbers, and how many of each there were by then."""

    block: Block
    n_labels: int
    n_attributes: int
    n_edge_attributes: int


_Found = tuple[NDArray[np.int32], NDArray[np.bool_], Findings, Findings]


class Encoder:
    """Gives numbers to what is in the stretches, counts it, and puts it aside."""

    def __init__(self, template: Template, roles: Roles, encoding: Encoding, spool: Spool) -> None:
        self._template, self._roles, self._encoding, self._spool = template, roles, encoding, spool
        self._names, self._edge_names = encoding.names(), encoding.names()
        self._attributes = Attributes(template, roles.kinds, bounded=not self._names.exact)
        self._features, self._edge_features = Features(self._names), Features(self._edge_names)
        self._census, self._edge_census = Census(), Census()
        self._labels = Labels(encoding.unknown)
        self._waiting_labels, self._waiting_starts = np.empty(0, np.int32), np.empty(0, np.bool_)
        self._last_group: str | None = None
        self._begun = False

    def numbered_chain(self, source: Source) -> Iterator[Numbered]:
        """Positions that were encoded before, with their vocabulary."""
        vocabulary = vocabulary_of(source)
        assert vocabulary is not None, "only a chain with a vocabulary can be continued"
        for label in vocabulary.labels:
            self._labels.add(label)
        state = _Renaming(vocabulary.attributes, source.n_attributes, self._names)
        edge = _Renaming(vocabulary.edge_attributes, source.n_edge_attributes, self._edge_names)
        for low in range(0, source.positions, _BLOCK):
            block = source.block(low, min(low + _BLOCK, source.positions))
            entries = state.entries(block.offsets, block.ids, block.values)
            edges = edge.entries(block.edge_offsets, block.edge_ids, block.edge_values)
            yield self._numbered(block.labels, block.starts, entries, edges)

    def numbered(self, stretches: Iterable[Stretch]) -> Iterator[Numbered]:
        """The rows of the stretches, as soon as what comes after them is known."""
        for labels, starts, state, edge in read_ahead(self._found(stretches)):
            yield self._numbered(labels, starts, self._features.entries(state), self._edge_features.entries(edge))

    def _found(self, stretches: Iterable[Stretch]) -> Iterator[_Found]:
        for stretch in stretches:
            starts = self._starts(stretch)
            if self._roles.label is None:
                labels = np.full(starts.size, -1, np.int32)
            else:
                labels = self._labels.numbers(stretch, self._roles.label)
            self._waiting_labels = np.concatenate([self._waiting_labels, labels])
            self._waiting_starts = np.concatenate([self._waiting_starts, starts])
            yield self._ready(*self._attributes.add(stretch, starts))
        yield self._ready(*self._attributes.finish())

    def _starts(self, stretch: Stretch) -> NDArray[np.bool_]:
        if self._roles.group is not None:
            starts = self._group_starts(stretch.batch.column(self._roles.group))
        elif self._encoding.one_sequence:
            starts = np.zeros(stretch.starts.size, np.bool_)
        else:
            starts = stretch.starts.copy()
        starts[0] |= not self._begun
        self._begun = True
        return starts

    def _group_starts(self, column: Any) -> NDArray[np.bool_]:
        """Where the column differs from the row before; only the last group is kept for what comes next."""
        texts = StringTable()
        last = -1 if self._last_group is None else texts.code(self._last_group)
        groups = symbol_codes(column, texts)
        self._last_group = None if groups[-1] < 0 else texts.text(int(groups[-1]))
        starts: NDArray[np.bool_] = np.concatenate([[last], groups[:-1]]) != groups
        return starts

    def _ready(self, state: Findings, edge: Findings) -> _Found:
        """What was found, with the labels and start marks of the same rows."""
        count = state.rows
        labels, self._waiting_labels = self._waiting_labels[:count], self._waiting_labels[count:]
        starts, self._waiting_starts = self._waiting_starts[:count], self._waiting_starts[count:]
        return labels, starts, state, edge

    def _numbered(
        self, labels: NDArray[np.int32], starts: NDArray[np.bool_], state: Entries, edge: Entries
    ) -> Numbered:
        block = Block(labels, starts, *state, *edge)
        return Numbered(block, len(self._labels.names), len(self._names), len(self._edge_names))

    def keep(self, numbered: Numbered) -> int:
        """Count what is in the positions and put them aside; returns how many there are."""
        block = numbered.block
        self._census.add(block.labels, block.offsets, block.ids, numbered.n_attributes, numbered.n_labels)
        if block.edge_ids.size:
            entries = block.edge_offsets, block.edge_ids
            self._edge_census.add(block.labels, *entries, numbered.n_edge_attributes, numbered.n_labels)
        self._spool.append(block)
        return block.labels.size

    def finish(self, given: Callable[[int], None]) -> SpooledChain:
        """The chain with its final numbers, which says how many positions it has given."""
        del self._attributes, self._features, self._edge_features  # their tables are not needed any more
        state, attributes, counts, marks = self._number(self._names, self._census, self._spool.state.ids.size)
        edge, edge_attributes, _, _ = self._number(self._edge_names, self._edge_census, self._spool.edge.ids.size)
        vocabulary = Vocabulary(
            labels=tuple(self._labels.names),
            label=self._roles.label,
            attributes=attributes,
            edge_attributes=edge_attributes,
            counts=counts,
            marks=marks,
            hash_bits=self._encoding.hash_bits,
            min_count=self._encoding.min_count,
            template=self._template.to_json(),
        )
        return SpooledChain(self._spool, vocabulary, state, edge, given)

    def _number(
        self, names: Names, census: Census, entries: int
    ) -> tuple[Numbering, Any, NDArray[np.int64], NDArray[np.uint64]]:
        """Final ids, the names in their order, counts and marks."""
        if not names.exact:
            size = len(names) if entries else 0
            return Numbering(size, entries, None), None, *census.totals(size)
        counts, marks = census.totals(len(names))
        order = by_falling_count(counts, self._encoding.min_count)
        ids = np.full(len(names), -1, np.int32)
        ids[order] = np.arange(order.size)
        counts, marks = counts[order], marks[order]
        return Numbering(order.size, int(counts.sum()), ids), names.strings().take(order), counts, marks


class _Renaming:
    """Ids of an earlier chain to those of the one that continues it, in order of appearance."""

    def __init__(self, names: Any, size: int, now: Names) -> None:
        self._names, self._now = names, now
        self._seen = np.zeros(size, np.bool_)
        self._ids = np.full(size, -1, np.int32)

    def entries(self, offsets: NDArray[np.int64], ids: NDArray[np.int32], values: NDArray[np.float64]) -> Entries:
        if not offsets.size:
            return Entries(offsets, ids, values)
        part = slice(offsets[0], offsets[-1])
        ids, values = ids[part], values[part]
        if self._names is not None:
            places = np.empty(min(ids.size, self._seen.size), np.int64)
            new = ids[places[: unseen(frozen(ids, np.int32), self._seen, places)]]
            self._ids[new] = self._now.ids(*spans(self._names.take(new)))
            ids = self._ids[ids]
        return Entries(offsets - offsets[0], ids, values)
