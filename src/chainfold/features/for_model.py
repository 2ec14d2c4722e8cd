"""Further input for a model: read as the model's own input was, with the model's numbers.

    blocks_for_model, sequences_for_model    blocks in order; attributes that the model does not have are left out
    extended_chain, extended_sequences       a chain; new labels and attributes get the numbers after the model's

The template with its bins and scales, the names of columns and where sequences end are those of the model. An input is
read once, in bounded memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from chainfold.chain.any_chain import is_chain, open_chain
from chainfold.chain.batches import ChainReader
from chainfold.chain.block import NO_LABEL, Block, KnownBlock, Source, frozen, join_blocks, vocabulary_of
from chainfold.chain.chain import Chain
from chainfold.chain.renumbered import Renumbered
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadFile, ChainfoldError, EmptyChain
from chainfold.features.attributes import Entries
from chainfold.features.encoder import Lexicon, Numbered, Numberer, first_of, spooled
from chainfold.features.labels import Targets
from chainfold.features.schema import Schema, check_roles
from chainfold.features.spec import InputSpec
from chainfold.features.spool import SpooledChain, frozen_block
from chainfold.features.template import Template
from chainfold.readers.columns import ATTRIBUTES, EDGE, LABEL, VALUES_SUFFIX, WEIGHT, Arrived, Stretch, kinds_of
from chainfold.readers.formats import Format, InputReader, are_files, by_name
from chainfold.readers.inputs import UTF8, Inputs, Raw
from chainfold.readers.progress import InputProgress
from chainfold.readers.sequences import stretches_of
from chainfold.readers.tables import TABLE
from chainfold.readers.text import counted
from chainfold.system.prefetch import read_ahead

_BLOCK = 65536


def blocks_for_model(
    inputs: Any,
    vocabulary: Vocabulary,
    *,
    keep: Callable[[Raw], None] | None = None,
    progress: InputProgress | None = None,
    empty: bool = False,
    **options: Any,
) -> ModelBlocks | ChainBlocks:
    """Files, a table or a stored chain in blocks with the numbers of a model.

    inputs       what `encode` takes, the path of a chain, or `Inputs` that are open
    vocabulary   of the model
    keep         called with what is read of files, as it is
    empty        whether files may have no rows; where none has any, `EmptyChain` is raised
    options      the fields of `InputSpec` named in `spec.FOR_MODEL`; default: as for the model

    The label column may be missing, unless `labels` is True. Columns without names have those of the model.
    """
    spec = InputSpec.for_model(**options)
    if is_chain(inputs):
        path = inputs[0] if isinstance(inputs, (list, tuple)) else inputs
        return ChainBlocks(open_chain(path), vocabulary, bool(spec.labels))
    model_input = ModelInput(vocabulary, spec, progress, empty)
    if are_files(inputs) and not isinstance(inputs, Inputs):
        inputs = Inputs(inputs, model_input.encoding, model_input.progress.read, keep)
    return ModelBlocks(model_input, map(Arrived, model_input.stretches(inputs)))


def sequences_for_model(sequences: Iterable[Any], labels: Iterable[Any] | None, vocabulary: Vocabulary) -> ModelBlocks:
    """Sequences, as `chain_from_sequences` takes them, in blocks with the numbers of a model."""
    model_input = _sequence_input(vocabulary, labels)
    return ModelBlocks(model_input, map(Arrived, stretches_of(sequences, labels)), ahead=False)


def extended_chain(
    inputs: Any, vocabulary: Vocabulary, *, progress: InputProgress | None = None, **options: Any
) -> AbstractContextManager[SpooledChain]:
    """Files or a table as a chain that extends a vocabulary: its labels and attributes keep their numbers.

    The vocabulary of the chain has the names of both; its counts are those of this input alone.
    """
    model_input = ModelInput(vocabulary, InputSpec.for_model(**options), progress)
    return model_input.extended(model_input.stretches(inputs))


def extended_sequences(
    sequences: Iterable[Any],
    labels: Iterable[Any] | None,
    vocabulary: Vocabulary,
    weights: Iterable[float] | None = None,
) -> AbstractContextManager[SpooledChain]:
    """Sequences as a chain that extends a vocabulary, as `extended_chain` gives it."""
    return _sequence_input(vocabulary, labels, weights).extended(stretches_of(sequences, labels, weights))


def _sequence_input(
    vocabulary: Vocabulary, labels: Iterable[Any] | None, weights: Iterable[float] | None = None
) -> ModelInput:
    weight = None if weights is None else WEIGHT
    return ModelInput(vocabulary, InputSpec(labels=labels is not None, one_sequence=False, weight=weight))


def gather_blocks(blocks: Iterable[KnownBlock], like: Source) -> Chain:
    """All blocks in memory, as a chain with the numbers of another."""
    parts = [known.block for known in blocks]
    if not parts:
        raise EmptyChain
    return Chain(*join_blocks(parts), like.n_labels, like.n_attributes, like.n_edge_attributes, vocabulary_of(like))


class ModelBlocks:
    """An input in blocks with the numbers of a model; an iterator that can be read once."""

    def __init__(
        self,
        model_input: ModelInput,
        rows: Iterator[Arrived],
        ahead: bool = True,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        """ahead: make the next rows in a thread; stop: called when no more rows are wanted."""
        self._ahead = ahead
        self._finalizer = weakref.finalize(self, stop)
        first, self._rows = first_of(read_ahead(rows) if ahead else rows)
        self._maker = BlockMaker(model_input, first.stretch)
        self._progress = model_input.progress
        self._taken = self._given = 0  # rows
        self.labelled = self._maker.schema.label is not None

    def __iter__(self) -> Iterator[KnownBlock]:
        made = self._maker.numberer.numbered_as_they_come(self._counted(), self._ahead)
        made = read_ahead(made) if self._ahead else made  # freed after the finalizer has stopped its makers
        try:
            for numbered in made:
                if numbered.block.labels.size or numbered.ended:
                    self._given += numbered.block.labels.size
                    self._progress.positions(numbered.block.labels.size)
                    yield self._maker.block(numbered)
        finally:
            self._finalizer()

    def _counted(self) -> Iterator[Arrived]:
        for arrived in self._rows:
            self._taken += arrived.stretch.lines.size
            yield arrived

    def held(self) -> int:
        """Rows that were read but not given: most wait for rows that the template looks ahead to.

        They are still counted after the iteration was stopped.
        """
        return self._taken - self._given

    @property
    def unseen(self) -> tuple[str, ...]:
        """The labels so far that the model does not have."""
        return self._maker.unseen


class ChainBlocks:
    """A stored or piped chain in blocks with the numbers of a model, by its names."""

    def __init__(self, chain: ChainReader, vocabulary: Vocabulary, labels: bool) -> None:
        """labels: they are required."""
        own, path = vocabulary_of(chain), chain.path
        if own is None:
            raise BadFile(path, "has no names for its attributes, so the model cannot know them; give the raw file.")
        if labels and not own.labels:
            raise BadFile(path, "has no labels, and labels are needed here.")
        try:
            self._chain = Renumbered(chain, vocabulary)
        except ChainfoldError as error:  # vocabularies of different kinds
            raise BadFile(path, str(error)) from None
        self.labelled = bool(own.labels)
        self.unseen = self._chain.unseen
        self._low, self._high = 0, chain.positions

    def between(self, low: int, high: int) -> Self:
        """Positions low … high-1 alone."""
        part = copy(self)
        part._low, part._high = low, high
        return part

    def held(self) -> int:
        """Zero: no row waits for others."""
        return 0

    def __iter__(self) -> Iterator[KnownBlock]:
        begins = range(self._low, self._high, _BLOCK)
        return (self._chain.known(low, min(low + _BLOCK, self._high)) for low in begins)


class BlockMaker:
    """Rows of one schema to blocks with the numbers of a model."""

    def __init__(self, model_input: ModelInput, first: Stretch) -> None:
        """first: rows with the columns of all that follow."""
        self.schema = model_input.schema(first)
        self._lexicon = Lexicon.fixed(model_input.vocabulary, self.schema.unknown)
        self._n_labels = len(model_input.vocabulary.labels)
        self.numberer = Numberer(self.schema, self._lexicon)

    @property
    def nothing(self) -> Block:
        """A block without positions."""
        return self.block(self._lexicon.numbered(Targets.none(), *2 * (Entries.none(),))).block

    def block(self, numbered: Numbered) -> KnownBlock:
        """The block with labels of the model; its gold labels may be others."""
        block, gold = numbered.block, frozen(numbered.block.labels, np.int32)
        if not len(self._lexicon.edge_names):  # there are none at any row
            block = block._replace(edge_offsets=np.empty(0, np.int64))
        labels = np.where(gold < self._n_labels, gold, np.int32(NO_LABEL))
        return KnownBlock(frozen_block(*block._replace(labels=labels)), gold, numbered.ended)

    @property
    def unseen(self) -> tuple[str, ...]:
        """The labels so far that the model does not have."""
        return tuple(self._lexicon.labels.names[self._n_labels :])


class ModelInput:
    """The options of an input and the schema of a model: how to read the input, and its own schema."""

    def __init__(
        self, vocabulary: Vocabulary, spec: InputSpec, progress: InputProgress | None = None, empty: bool = False
    ) -> None:
        """empty: whether files may have no rows."""
        self.vocabulary, self.spec, self._empty = vocabulary, spec, empty
        self.progress = progress or InputProgress()
        self.model = Schema.of_vocabulary(vocabulary)
        self.label = self.model.label or LABEL

    def stretches(self, inputs: Any) -> Iterator[Stretch]:
        """The rows of files or a table, their columns named as for the model."""
        rows = self.reader().rows(inputs, self.encoding, self.progress)
        self.progress.phase("reading", None)
        return map(self.renamed, rows)

    @property
    def encoding(self) -> str:
        """The encoding of text: as given, as it was for the model, or UTF-8."""
        return self.spec.encoding or self.model.encoding or UTF8

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds of the model's columns; bags if the model was made from no columns."""
        return self.model.kinds or {self.label: "symbol", ATTRIBUTES: "bag", EDGE: "bag"}

    def needed(self, labels: bool) -> dict[str, str]:
        """The kinds of the columns that the template uses, and of the label if it is wanted."""
        used = self.model.template.columns - {EDGE}
        wanted = used | {self.label} if labels else used
        numbers = used - self.texts(list(self.kinds))
        return {
            name: kind if kind == "bag" else "number" if name in numbers else "symbol"
            for name, kind in self.kinds.items()
            if name in wanted
        }

    def reader(self, live: bool = False) -> InputReader:
        """A reader of the input; live: the input is still being written."""
        spec = self.spec
        return InputReader(
            format=None if spec.format is None else Format(spec.format),
            columns=spec.columns,
            header=self.model.header if spec.header is None else spec.header,
            symbols=self.texts,
            comments=spec.comments,
            delimiter=spec.delimiter,
            live=live,
            empty=self._empty,
            model_columns=frozenset(
                name for name, kind in self.kinds.items() if kind != "bag" and not name.isdecimal()
            ),
            fields=self._fields(),
            model_delimiter=self.model.delimiter,
            model_comments=self.model.comments,
        )

    def _fields(self) -> frozenset[str]:
        """The fields of JSON lines that the model and the options name."""
        names = {*self.kinds, self.label, self.spec.group, self.spec.weight, self.model.group, self.model.weight}
        return frozenset(name for name in names if name is not None) | {
            f"{name}{VALUES_SUFFIX}" for name, kind in self.kinds.items() if kind == "bag"
        }

    def renamed(self, stretch: Stretch) -> Stretch:
        """The rows with the column names of the model."""
        given = stretch.batch.schema.names
        names = self.names(given)
        if names is None:
            kinds = self.model.kinds
            certain = self.spec.format or by_name(stretch.source) or stretch.source == TABLE
            remedy = "" if certain else ", or set `format` if it was not recognised"
            raise BadFile(
                stretch.source,
                f"has {counted(len(given), 'column')} without names, but the model was made of {len(kinds)}, "
                f"{', '.join(kinds)}; name them with `columns`{remedy}.",
            )
        return stretch if names == given else stretch._replace(batch=stretch.batch.rename_columns(names))

    def names(self, given: Sequence[str]) -> list[str] | None:
        """Names of columns that have none, from the model, perhaps without label and weight; None if none fit.

        A model that has columns and no label column uses the first columns; the last of any others has the labels.
        """
        names, numbers = list(self.model.kinds), [str(k) for k in range(len(given))]
        bags = "bag" in self.model.kinds.values()  # such columns have names in any format
        if not names or bags or self.spec.columns is not None or list(given) != numbers:
            return list(given)
        if self.model.label is None and len(given) > len(names):  # of another program, which knows those that it uses
            return [*names, *numbers[len(names) : -1], LABEL]
        label, weight = self.label, self.model.weight
        either = ((weight,), (label,)) if self.spec.labels else ((label,), (weight,))
        for missing in ((), *either, (label, weight)):
            present = [name for name in names if name not in missing]
            if len(present) == len(given):
                return present
        return None

    def texts(self, given: Sequence[str]) -> frozenset[str]:
        """The columns to read as texts: all but those that the template uses and that were numbers for the model."""
        names, kinds, template = self.names(given) or given, self.model.kinds, self.model.template
        numbers = template.columns & {name for name in names if kinds.get(name) == "number"}
        if not kinds:
            numbers = template.columns - template.texts(names)
        texts = {own for own, name in zip(given, names, strict=True) if name not in numbers}
        return frozenset(texts.union(self.spec.symbols or ()))

    def schema(self, first: Stretch, extends: bool = False) -> Schema:
        """The schema of the input, which begins with these rows; what is not given is as for the model.

        extends: the model's weight column is used if it is there and no other is given.
        """
        kinds, spec, model = kinds_of(first.batch), self.spec, self.model
        weight = model.weight if extends and spec.weight is None and model.weight in kinds else spec.weight
        labels = self.label in kinds if spec.labels is None else spec.labels
        if labels and self.label not in kinds:
            raise BadFile(
                first.source,
                f"there is no label column {self.label!r}, and labels are needed here; the columns are "
                f"{', '.join(kinds)}.",
            )
        group, one_sequence = spec.group, spec.one_sequence
        if group is None and one_sequence is None:
            group, one_sequence = model.group, model.one_sequence
        label = self.label if labels else None
        template = self._fitting(kinds, first.source)
        check_roles(kinds, first.source, label=label, group=group, weight=weight)
        return replace(
            model,
            kinds=kinds,
            label=label,
            template=template.resolved(list(kinds)),
            group=group,
            weight=weight,
            unknown=model.unknown if spec.unknown is None else spec.unknown,
            one_sequence=bool(one_sequence),
            groups_return=model.groups_return if spec.groups_return is None else spec.groups_return,
        )

    def _fitting(self, kinds: dict[str, str], source: str) -> Template:
        """The template, if it fits the columns; edge attributes may be missing."""
        template = self.model.template
        features = tuple(f for f in template.features if not (f.edge and f.columns == (EDGE,) and EDGE not in kinds))
        for column in (str(column) for feature in features for column in feature.columns):
            if column not in kinds:
                raise BadFile(
                    source, f"there is no column {column!r}, which the model uses; the columns are {', '.join(kinds)}."
                )
            kind, before = kinds[column], self.model.kinds.get(column, kinds[column])
            if (kind == "bag") != (before == "bag"):
                raise BadFile(source, f"column {column!r} holds a {kind}, but held a {before} for the model.")
        return Template(features, template.border)

    def extended(self, rows: Iterator[Stretch]) -> AbstractContextManager[SpooledChain]:
        """The rows as a chain that extends the vocabulary of the model."""
        return spooled(rows, partial(self.schema, extends=True), extends=self.vocabulary, progress=self.progress)
