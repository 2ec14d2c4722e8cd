"""Further input for a model: read as the input was that the model was made of, with the model's numbers.

    known_blocks, known_sequences    a forward stream of blocks; attributes that the model does not know are left out
    grown, grown_sequences           a chain in which whatever is new has numbers after those that the model has

The template, its bins and scales, the names of the columns and where sequences end are the model's. Nothing is looked
at twice, and the memory does not grow with the input.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain as chained
from typing import Any, NamedTuple, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from chainfold.data.ahead import read_ahead
from chainfold.data.attributes import Entries
from chainfold.data.chain import Block, Chain, Source, frozen, vocabulary_of
from chainfold.data.columns import Columns, Stretch, kinds_of
from chainfold.data.encode import ReadOptions, check_options, rows_of
from chainfold.data.encoder import Arrived, Lexicon, Numbered, Numberer, Progress, spooled
from chainfold.data.reading import Reading, by_name, format_called
from chainfold.data.roles import Encoding, Roles, Rows
from chainfold.data.sequences import LABEL, WEIGHT, stretches_of
from chainfold.data.spool import SpooledChain
from chainfold.data.store import joined
from chainfold.data.tables import TABLE
from chainfold.data.template import Template, every_column
from chainfold.data.text_formats import ATTRIBUTES, EDGE
from chainfold.data.vocabulary import Vocabulary
from chainfold.errors import BadFile, EmptyChain
from chainfold.kernels.scores import NO_LABEL

T = TypeVar("T")


class KnownOptions(ReadOptions, total=False):
    """How to read an input for a model; what is not given is as it was when the model was made."""

    labels: bool | None  # True: there must be labels; False: they are not looked at. Taken if they are there, else
    one_sequence: bool | None  # True: nothing starts a new sequence; False: the input says where, and no group
    weight: str | None  # a column of weights; where a vocabulary grows, the one from before if it is there


class KnownBlock(NamedTuple):
    """Positions as the model sees them."""

    block: Block  # its labels are those that the model knows, else -1
    gold: NDArray[np.int32]  # [B] all labels: those that the model never saw come after its own, -1 is unknown
    ended: bool = False  # is it known that the sequence ends with the last position, or has ended before?


def known_blocks(inputs: Any, vocabulary: Vocabulary, **options: Unpack[KnownOptions]) -> Known:
    """Files or a table, as `encode` takes them, in blocks with the numbers of a model; read once, in order.

    The column of labels may be missing, unless they are asked for. Columns without names have those that they had when
    the model was made. `Inputs` that were opened already will do as well.
    """
    check_options(options, KnownOptions)
    plan = Plan(vocabulary, options)
    return Known(plan, map(Arrived, plan.stretches(inputs)))


def known_sequences(sequences: Iterable[Any], labels: Iterable[Any] | None, vocabulary: Vocabulary) -> Known:
    """Sequences, as `Chain.from_sequences` takes them, in blocks with the numbers of a model."""
    return Known(_plan_of_sequences(vocabulary, labels), map(Arrived, stretches_of(sequences, labels)), ahead=False)


def grown(inputs: Any, vocabulary: Vocabulary, **options: Unpack[KnownOptions]) -> AbstractContextManager[SpooledChain]:
    """Files or a table as a chain, like `spooled`, in which all that the vocabulary knows keeps its number.

    The chain's own vocabulary has the names of both; how often attributes occur, and with which labels, is said of
    this input alone.
    """
    check_options(options, KnownOptions)
    plan = Plan(vocabulary, options)
    return plan.grown(plan.stretches(inputs))


def grown_sequences(
    sequences: Iterable[Any],
    labels: Iterable[Any] | None,
    vocabulary: Vocabulary,
    weights: Iterable[float] | None = None,
) -> AbstractContextManager[SpooledChain]:
    """The same of sequences."""
    return _plan_of_sequences(vocabulary, labels, weights).grown(stretches_of(sequences, labels, weights))


def gathered(known: Iterable[KnownBlock], like: Source) -> Chain:
    """All of an input in memory, as a chain with the numbers of another."""
    blocks = [one.block for one in known]
    if not blocks:
        raise EmptyChain
    block = joined(blocks)
    return Chain(*block, like.n_labels, like.n_attributes, like.n_edge_attributes, vocabulary_of(like))


class Known:
    """An input in blocks with the numbers of a model; it can be gone through once."""

    def __init__(
        self, plan: Plan, rows: Iterator[Arrived], ahead: bool = True, stop: Callable[[], None] = lambda: None
    ) -> None:
        """ahead: is it worth a thread to make the next rows while these are used? stop: nobody wants more of them."""
        self._ahead = ahead
        self._finalizer = weakref.finalize(self, stop)
        first, self._rows = first_of(read_ahead(rows) if ahead else rows)
        self._maker = KnownMaker(plan, first.stretch)
        self._progress = plan.progress
        self._taken = self._given = 0  # rows
        self.columns = tuple(self._maker.roles.kinds)
        self.labelled = self._maker.roles.label is not None

    def __iter__(self) -> Iterator[KnownBlock]:
        made = self._maker.numberer.numbered_as_they_come(self._counted(), self._ahead)
        made = read_ahead(made) if self._ahead else made  # let go of after those who make it are told to stop
        try:
            for numbered in made:
                if numbered.block.labels.size or numbered.ended:
                    self._given += numbered.block.labels.size
                    self._progress.positions(numbered.block.labels.size)
                    yield self._maker.known(numbered)
        finally:
            self._finalizer()

    def _counted(self) -> Iterator[Arrived]:
        for arrived in self._rows:
            self._taken += arrived.stretch.lines.size
            yield arrived

    def held(self) -> int:
        """Rows that were read and not given: most wait for those that the template looks ahead to.

        Where the iteration was left in the middle, these are still counted.
        """
        return self._taken - self._given

    @property
    def unseen(self) -> tuple[str, ...]:
        """The labels that the model never saw, as far as the input has been gone through."""
        return self._maker.unseen


class KnownMaker:
    """Rows with certain columns to blocks with the numbers of a model."""

    def __init__(self, plan: Plan, first: Stretch) -> None:
        """first: rows with these columns."""
        encoding = plan.encoding(first)
        self.roles = Roles.of(kinds_of(first.batch), encoding, first.source)
        self._lexicon = Lexicon.known(plan.vocabulary, encoding.unknown)
        self._n_labels = len(plan.vocabulary.labels)
        self.numberer = Numberer(self.roles.template(encoding), self.roles, encoding.one_sequence, self._lexicon)

    @property
    def nothing(self) -> Block:
        """A block without positions."""
        return self.known(self._lexicon.numbered(Rows.none(), *2 * (Entries.none(),))).block

    def known(self, numbered: Numbered) -> KnownBlock:
        block = numbered.block
        gold = frozen(block.labels, np.int32)
        labels = np.where(gold < self._n_labels, gold, np.int32(NO_LABEL))
        edges: tuple[Any, Any, Any] = (None, None, None)
        if len(self._lexicon.edge_names):
            edges = block.edge_offsets, block.edge_ids, block.edge_values
        return KnownBlock(
            Block(
                frozen(labels, np.int32),
                frozen(block.starts, np.bool_),
                frozen(block.offsets, np.int64),
                frozen(block.ids, np.int32),
                frozen(block.values, np.float64),
                frozen(edges[0], np.int64),
                frozen(edges[1], np.int32),
                frozen(edges[2], np.float64),
                frozen(block.weights, np.float64),
            ),
            gold,
            numbered.ended,
        )

    @property
    def unseen(self) -> tuple[str, ...]:
        """The labels that the model never saw, as far as rows have come."""
        return tuple(self._lexicon.labels.names[self._n_labels :])


class Plan:
    """How an input is read for a model."""

    def __init__(self, vocabulary: Vocabulary, options: KnownOptions) -> None:
        self.vocabulary, self._options = vocabulary, options
        self.progress = options.get("progress") or Progress()
        self._before = Columns({}) if vocabulary.columns is None else Columns.from_json(vocabulary.columns)
        self.label = vocabulary.label or LABEL
        bags = {ATTRIBUTES: "bag", EDGE: "bag"}
        self._template = every_column(bags) if vocabulary.template is None else Template.from_json(vocabulary.template)

    def stretches(self, inputs: Any) -> Iterator[Stretch]:
        """The rows of files or a table, their columns named as they were before."""
        rows = rows_of(inputs, self.reading(), self._options)
        self.progress.phase("reading", None)
        return map(self.renamed, rows)

    @property
    def kinds(self) -> dict[str, str]:
        """What the columns held that the model was made of; bags where it was made of no columns."""
        return self._before.kinds or {self.label: "symbol", ATTRIBUTES: "bag", EDGE: "bag"}

    def needed(self, labels: bool) -> dict[str, str]:
        """What the columns hold that the model looks at, and the label if it is wanted."""
        looked_at = {str(column) for feature in self._template.features for column in feature.columns} - {EDGE}
        wanted = looked_at | {self.label} if labels else looked_at
        numbers = looked_at - self.texts(list(self.kinds))
        return {
            name: kind if kind == "bag" else "number" if name in numbers else "symbol"
            for name, kind in self.kinds.items()
            if name in wanted
        }

    def reading(self, live: bool = False) -> Reading:
        """How to read an input; live: one that is still being written."""
        columns, header = self._options.get("columns"), self._options.get("header")
        return Reading(
            format=format_called(self._options.get("format")),
            columns=None if columns is None else tuple(map(str, columns)),
            header=self._before.header if header is None else header,
            symbols=self.texts,
            live=live,
            known=frozenset(name for name, kind in self.kinds.items() if kind != "bag" and not name.isdecimal()),
            comments=self._options.get("comments"),
            known_comments=self._before.comments,
        )

    def renamed(self, stretch: Stretch) -> Stretch:
        """The rows with the names that their columns had before."""
        given = stretch.batch.schema.names
        names = self.names(given)
        if names is None:
            before = self._before.kinds
            told = self._options.get("format") or by_name(stretch.source) or stretch.source == TABLE
            remedy = "" if told else ", or say --format if it was recognised wrongly"
            raise BadFile(
                stretch.source,
                f"has {len(given)} columns without names, but the model was made of {len(before)}, "
                f"{', '.join(before)}; name them with --columns{remedy}.",
            )
        return stretch if names == given else stretch._replace(batch=stretch.batch.rename_columns(names))

    def names(self, given: Sequence[str]) -> list[str] | None:
        """The names of columns that have none, from before, perhaps without label and weight; None: none fit."""
        before, numbers = list(self._before.kinds), [str(k) for k in range(len(given))]
        listed = "bag" in self._before.kinds.values()  # such columns have names in any format
        if not before or listed or self._options.get("columns") is not None or list(given) != numbers:
            return list(given)
        label, weight = self.label, self._before.weight
        some = ((weight,), (label,)) if self._options.get("labels") else ((label,), (weight,))
        for missing in ((), *some, (label, weight)):
            names = [name for name in before if name not in missing]
            if len(names) == len(given):
                return names
        return None

    def texts(self, given: Sequence[str]) -> frozenset[str]:
        """The columns to read as texts: all but those that the model looks at, and that were numbers before."""
        names, kinds = self.names(given) or given, self._before.kinds
        looked_at = {column for feature in self._template.features for column in feature.columns}
        numbers = looked_at & {name for name in names if kinds.get(name) == "number"}
        if not kinds:  # nothing is known of them
            numbers = looked_at - self._template.texts(names)
        texts = {own for own, name in zip(given, names, strict=True) if name not in numbers}
        return frozenset(texts.union(self._options.get("symbols", ())))

    def encoding(self, first: Stretch) -> Encoding:
        """What to make of the columns that there are."""
        kinds, options, before = kinds_of(first.batch), self._options, self._before
        labels = self.label in kinds if options.get("labels") is None else bool(options.get("labels"))
        if labels and self.label not in kinds:
            raise BadFile(
                first.source,
                f"there is no label column {self.label!r}, and labels are needed here; the columns are "
                f"{', '.join(kinds)}.",
            )
        group, one_sequence, unknown = options.get("group"), options.get("one_sequence"), options.get("unknown")
        if group is None and one_sequence is None:
            group, one_sequence = before.group, before.one_sequence
        returns = options.get("groups_return")
        return Encoding(
            template=self._fitting(kinds, first.source),
            label=self.label if labels else None,
            labels=labels,
            unknown=before.unknown if unknown is None else unknown,
            group=group,
            groups_return=before.groups_return if returns is None else returns,
            weight=options.get("weight"),
            one_sequence=bool(one_sequence),
            min_count=self.vocabulary.min_count,
            hash_bits=self.vocabulary.hash_bits,
        )

    def _fitting(self, kinds: dict[str, str], source: str) -> Template:
        """The template, if it fits the columns; edge attributes may be missing altogether."""
        features = tuple(
            f for f in self._template.features if not (f.edge and f.columns == (EDGE,) and EDGE not in kinds)
        )
        for column in (str(column) for feature in features for column in feature.columns):
            if column not in kinds:
                raise BadFile(
                    source,
                    f"there is no column {column!r}, which the model looks at; the columns are {', '.join(kinds)}.",
                )
            was = self._before.kinds.get(column, kinds[column])
            if (kinds[column] == "bag") != (was == "bag"):
                raise BadFile(source, f"column {column!r} holds a {kinds[column]}, but held a {was} for the model.")
        return Template(features, self._template.border)

    def grown(self, rows: Iterator[Stretch]) -> AbstractContextManager[SpooledChain]:
        first, rows = first_of(read_ahead(rows))
        encoding = self.encoding(first)
        if encoding.weight is None and self._before.weight in first.batch.schema.names:
            encoding = replace(encoding, weight=self._before.weight)
        return spooled(rows, encoding, known=self.vocabulary, progress=self.progress)


def _plan_of_sequences(
    vocabulary: Vocabulary, labels: Iterable[Any] | None, weights: Iterable[float] | None = None
) -> Plan:
    weight = None if weights is None else WEIGHT
    return Plan(vocabulary, KnownOptions(labels=labels is not None, one_sequence=False, weight=weight))


def first_of(rows: Iterator[T]) -> tuple[T, Iterator[T]]:
    """The first of the rows, and all of them."""
    first = next(rows, None)
    if first is None:
        raise EmptyChain
    return first, chained([first], rows)
