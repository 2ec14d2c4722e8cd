"""From columns to a chain: attributes and labels are numbered and counted in one pass, and spilled to disk; then the
numbers become final, attributes by falling frequency.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain as chained
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL, Block, Source, frozen, vocabulary_of
from chainfold.chain.builder import Census, ExactNames, HashedNames, KnownNames, Names, by_falling_count
from chainfold.chain.strings import spans
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadFile, ChainfoldError, EmptyChain
from chainfold.features.attributes import Attributes, Entries, FeatureBatch, FeatureIds
from chainfold.features.labels import Labels, TargetReader, Targets
from chainfold.features.numbers import fit, needs_fit
from chainfold.features.row_spool import RowSpool
from chainfold.features.schema import Schema
from chainfold.features.spool import Numbering, Spool, SpooledChain
from chainfold.jit.attribute_kernels import unseen
from chainfold.readers.columns import BAG_VALUES, NUMBER, VALUES_SUFFIX, Arrived, Stretch
from chainfold.readers.pieces import last_rows
from chainfold.readers.progress import InputProgress
from chainfold.system.prefetch import read_ahead
from chainfold.system.validate import LARGEST, MOST_WEIGHT, Arrays, is_text, mapping, need, within

T = TypeVar("T")

_BLOCK = 65536
_KINDS = (False, True)  # of attributes: state, edge
_NAMES: WeakKeyDictionary[Vocabulary, tuple[Names, ...]] = WeakKeyDictionary()  # of models in use


@contextmanager
def spooled(
    stretches: Iterable[Stretch],
    schema_of: Callable[[Stretch], Schema],
    *,
    before: Source | None = None,
    extends: Vocabulary | None = None,
    folder: Path | None = None,
    progress: InputProgress | None = None,
) -> Iterator[SpooledChain]:
    """All stretches as a chain with its final numbers, in unnamed temporary files in the folder.

    `schema_of` gives the schema for the first rows. `before` is a chain with a vocabulary that the stretches continue.
    Names in the vocabulary `extends` keep their numbers; new ones get those that follow.
    """
    progress = progress or InputProgress()
    progress.phase("encoding", None)
    first, rows = first_of(read_ahead(stretches))
    schema = schema_of(first)
    with ExitStack() as stack:
        if needs_fit(schema.template):
            progress.phase("looking at numbers", None)
            kept = stack.enter_context(RowSpool(folder))
            schema = replace(schema, template=fit(schema.template, kept.keeping(rows, progress.positions)))
            progress.phase("encoding", kept.rows)
            rows = read_ahead(kept)
        encoder = Encoder(schema, stack.enter_context(Spool(folder)), extends)
        for numbered in encoder.numbered_chain(before) if before is not None else ():
            encoder.keep(numbered)
        for numbered in read_ahead(encoder.numberer.numbered(rows)):
            progress.positions(encoder.keep(numbered))
        source = encoder.finish(progress.positions)
        progress.phase("writing", source.positions)
        yield source


def first_of(rows: Iterator[T]) -> tuple[T, Iterator[T]]:
    """The first of the rows, and all of them; raises `EmptyChain` if there are none."""
    first = next(rows, None)
    if first is None:
        raise EmptyChain
    return first, chained([first], rows)


class Numbered(NamedTuple):
    """Positions with provisional numbers, and how many of each there were by then."""

    block: Block
    n_labels: int
    n_attributes: int
    n_edge_attributes: int
    ended: bool = False  # whether a sequence is known to end with the last of them


class Lexicon(NamedTuple):
    """The numbers of labels, attributes and edge attributes."""

    labels: Labels
    names: Names
    edge_names: Names

    @classmethod
    def new(cls, schema: Schema) -> Lexicon:
        """Names get numbers in order of appearance."""
        bits = schema.hash_bits
        names, edge_names = (ExactNames() if bits is None else HashedNames(bits) for _ in range(2))
        return cls(Labels(schema.unknown), names, edge_names)

    @classmethod
    def fixed(cls, vocabulary: Vocabulary, unknown: str | None) -> Lexicon:
        """The numbers of a vocabulary; other attributes have none, other labels get those that follow."""
        return cls(Labels(unknown, vocabulary.labels), *known_names(vocabulary))

    @classmethod
    def extending(cls, vocabulary: Vocabulary, unknown: str | None) -> Lexicon:
        """The numbers of a vocabulary; other names get those that follow."""
        bits = vocabulary.hash_bits
        names = [_names_of(vocabulary, edge, ExactNames) for edge in _KINDS]
        hashed = [HashedNames(bits) if bits is not None and known.exact else known for known in names]  # of a new kind
        return cls(Labels(unknown, vocabulary.labels), *hashed)

    def numbered(self, rows: Targets, state: Entries, edge: Entries, ended: bool = False) -> Numbered:
        block = Block(rows.labels, rows.starts, *state, *edge, rows.weights)
        return Numbered(block, len(self.labels.names), len(self.names), len(self.edge_names), ended)


def known_names(vocabulary: Vocabulary) -> tuple[Names, ...]:
    """The attributes and edge attributes of a vocabulary with their numbers; kept as long as the vocabulary is."""
    names = _NAMES.get(vocabulary)
    if names is None:
        names = _NAMES[vocabulary] = tuple(_names_of(vocabulary, edge, KnownNames) for edge in _KINDS)
    return names


def ids_fit(vocabulary: Vocabulary, n_attributes: int, n_edge_attributes: int) -> bool:
    """Whether the numbers that a vocabulary gives to attributes and edge attributes are below these."""
    names, edge_names = known_names(vocabulary)
    return len(names) <= n_attributes and len(edge_names) <= n_edge_attributes


def _names_of(vocabulary: Vocabulary, edge: bool, kind: Callable[[Any], Names]) -> Names:
    """The attributes of a vocabulary, of one kind, with the numbers that they have."""
    strings, bits = vocabulary.edge_attributes if edge else vocabulary.attributes, vocabulary.hash_bits
    if strings is None and bits is not None and (edge or vocabulary.counts.size):
        return HashedNames(bits, settled=True)
    if strings is None and vocabulary.counts.size and not edge:
        raise ChainfoldError("the attributes of the model have no names; give it rows of numbers.")
    return kind(pa.array([], pa.large_string()) if strings is None else strings)


class _ReadyRows(NamedTuple):
    """Rows that are complete."""

    rows: Targets
    state: FeatureBatch
    edge: FeatureBatch
    ended: bool


class Numberer:
    """Numbers what is in the stretches: all of them, or as they arrive."""

    def __init__(self, schema: Schema, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._reader = TargetReader(schema, lexicon.labels)
        self._attributes = Attributes(schema.template, schema.kinds, lexicon.names.most_cached)
        used = schema.template.columns
        self._kinds = {name: kind for name, kind in schema.kinds.items() if name in used}
        self._features, self._edge_features = FeatureIds(lexicon.names), FeatureIds(lexicon.edge_names)
        self._waiting = Targets.none()
        self._at_hand: deque[Any] = deque()  # the batches of the rows that are context of others, or wait
        self.left, self.right = self._attributes.left, self._attributes.right  # rows of context
        self.marked = self._reader.marked  # whether the input marks sequences

    def numbered(self, stretches: Iterable[Stretch], ahead: bool = True) -> Iterator[Numbered]:
        """The rows of the stretches, as soon as what comes after them is known; made ahead in a thread, or not."""
        return self.numbered_as_they_come(map(Arrived, stretches), ahead)

    def numbered_as_they_come(self, arrivals: Iterable[Arrived], ahead: bool = True) -> Iterator[Numbered]:
        """The rows that arrive, as `numbered`; of some it is known that a sequence ends with them."""
        ready = self._all_found(arrivals)
        return map(self._numbered, read_ahead(ready) if ahead else ready)

    def push(self, stretch: Stretch, ended: bool = False) -> list[Numbered]:
        """The rows that are complete with these; where one of these is wrong, nothing is changed."""
        return [self._numbered(ready) for ready in self._found(stretch, ended)]

    def finish(self) -> list[Numbered]:
        """The rows still waiting: their sequence has ended, and what comes next starts another."""
        return [self._numbered(self._end())]

    def _begin_after(self, stretches: Sequence[Stretch]) -> None:
        starts = self._reader.context(stretches)
        if self.left:
            kept = last_rows(stretches, self.left)
            self._attributes.restore(kept, starts[-self.left :], min(self.left, starts.size))

    def numbered_between(
        self, before: Sequence[Stretch], stretches: Iterable[Stretch], after: Callable[[], Sequence[Stretch]]
    ) -> Iterator[Numbered]:
        """The rows of the stretches; others come before and after them, and are context alone. This numberer is new."""
        self._begin_after(before)
        return map(self._numbered, read_ahead(self._found_before(stretches, after)))

    def _found_before(
        self, stretches: Iterable[Stretch], after: Callable[[], Sequence[Stretch]]
    ) -> Iterator[_ReadyRows]:
        for stretch in stretches:
            yield from self._found(stretch, ended=False)
        if self._waiting.labels.size:
            follow = after()
            state, edge = self._attributes.finish_before(follow, self._reader.context(follow))
            yield self._ready(state, edge, ended=False)

    @property
    def groups(self) -> NDArray[np.int64]:
        """The groups that have begun, as numbers in their order."""
        return self._reader.groups

    def foreseen(self) -> Numbered:
        """The rows still waiting, as `finish` would give them; for hashed attributes, which get no new numbers."""
        return self._numbered(_ReadyRows(self._waiting, *self._attributes.foreseen(), ended=True))

    @property
    def begun(self) -> bool:
        """Whether a sequence has begun that the next row may continue."""
        return self._reader.state[0]

    @begun.setter
    def begun(self, begun: bool) -> None:
        self._reader.state = begun, *self._reader.state[1:]

    def check(self, stretch: Stretch) -> None:
        """Raise if a row is wrong; nothing is changed but for the labels that are known."""
        self._attributes.check(stretch)
        self._reader.check(stretch)

    def _all_found(self, arrivals: Iterable[Arrived]) -> Iterator[_ReadyRows]:
        for stretch, ended in arrivals:
            yield from self._found(stretch, ended)
        if self._waiting.labels.size:
            yield self._end()

    def _found(self, stretch: Stretch, ended: bool) -> list[_ReadyRows]:
        if not stretch.starts.size:
            return [self._end()] if ended else []
        before = self._reader.state
        rows = self._reader.read(stretch)
        try:
            state, edge = self._attributes.add(stretch, rows.starts, ended)
        except BadFile:
            self._reader.state = before
            raise
        self._waiting = self._waiting.then(rows)
        self._at_hand.append(stretch.batch)
        if ended:
            self._reader.end()
        return [self._ready(state, edge, ended)]

    def _end(self) -> _ReadyRows:
        self._reader.end()
        return self._ready(*self._attributes.finish(), ended=True)

    def _ready(self, state: FeatureBatch, edge: FeatureBatch, ended: bool) -> _ReadyRows:
        """Attributes with the labels, start marks and weights of their rows."""
        rows, self._waiting = self._waiting.split(state.rows)
        needed = self._attributes.at_hand[0].size
        kept = sum(batch.num_rows for batch in self._at_hand)
        while self._at_hand and kept - self._at_hand[0].num_rows >= needed:
            kept -= self._at_hand.popleft().num_rows
        return _ReadyRows(rows, state, edge, ended)

    def _numbered(self, ready: _ReadyRows) -> Numbered:
        entries, edges = self._features.entries(ready.state), self._edge_features.entries(ready.edge)
        return self._lexicon.numbered(ready.rows, entries, edges, ready.ended)

    @property
    def held(self) -> int:
        """Targets that wait for what comes after them."""
        return self._waiting.labels.size

    def state(self) -> dict[str, NDArray[Any]]:
        """All that a new numberer of the same schema needs to continue from here."""
        starts, done = self._attributes.at_hand
        surplus = sum(batch.num_rows for batch in self._at_hand) - starts.size
        rows = []
        for batch in self._at_hand:
            part = batch.slice(surplus)
            surplus = 0  # only the first has more rows than are needed
            rows.append({name: part.column(name).to_pylist() for name in batch.schema.names if name in self._columns})
        begun, group, _ = self._reader.state
        texts = json.dumps({"group": group, "labels": self._lexicon.labels.names, "rows": rows}).encode()
        return {
            "starts": starts,
            "done": np.array([done]),
            "begun": np.array([begun]),
            "texts": np.frombuffer(texts, np.uint8),
            "labels": self._waiting.labels,
            "weights": self._waiting.weights,
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from the state of another numberer of the same template; this one is new."""
        given = Arrays(state)
        starts = given.take("starts", np.bool_, None)
        (done,) = given.counts("done", min(starts.size, self.left))
        (begun,) = given.flags("begun", 1)
        waiting = starts[done:]
        need(waiting.size <= self.right, "it has more rows that wait than the template looks ahead")
        cut_off = done == self.left  # by then, what is before the first row may be gone
        need(cut_off or not starts.size or starts[0], "its first row starts no sequence")
        texts = mapping("texts", json.loads(given.take("texts", np.uint8, None).tobytes()), ("group", "labels", "rows"))
        names = self._lexicon.labels.names
        need(all(map(is_text, texts["labels"])), "its labels are no texts")
        need(len(set(texts["labels"])) == len(texts["labels"]), "two of its labels have the same name")
        need(texts["labels"][: len(names)] == names, "its labels are not the model's")
        labels = given.take("labels", np.int32, waiting.size)
        within("labels", labels, NO_LABEL, len(texts["labels"]) - 1)
        weights = given.take_or_none("weights", np.float64, waiting.size)
        within("weights", weights, 0.0, MOST_WEIGHT)
        given.check_empty()
        need(texts["group"] is None or is_text(texts["group"]), "its last group is no text")
        self._at_hand.extend(self._batch(columns) for columns in texts["rows"])
        need(sum(batch.num_rows for batch in self._at_hand) == starts.size, f"it has not {starts.size} rows")
        nowhere = np.empty(0, np.int64)
        stretches = (Stretch(batch, np.zeros(batch.num_rows, np.bool_), nowhere, "") for batch in self._at_hand)
        self._attributes.restore(stretches, starts, done)
        self._reader.state = begun, texts["group"], None
        for label in texts["labels"][len(names) :]:
            self._lexicon.labels.add(label)
        self._waiting = Targets(frozen(labels, np.int32), frozen(waiting, np.bool_), frozen(weights, np.float64))

    @property
    def _columns(self) -> dict[str, str]:
        """The kinds of the columns that are used, those of the values of bags included."""
        values = {f"{name}{VALUES_SUFFIX}": "values" for name, kind in self._kinds.items() if kind == "bag"}
        return self._kinds | values

    def _batch(self, given: Any) -> Any:
        """Targets of a state with the types of a stretch."""
        columns = self._columns
        need(type(given) is dict and self._kinds.keys() <= given.keys() <= columns.keys(), "its rows lack columns")
        arrays = {name: _column(values, columns[name]) for name, values in given.items()}
        need(len(set(map(len, arrays.values()))) <= 1, "its columns are not of one length")
        for name in columns.keys() & given.keys() - self._kinds.keys():
            bags, values = arrays[name.removesuffix(VALUES_SUFFIX)], arrays[name]
            same = pc.list_value_length(bags).fill_null(0).equals(pc.list_value_length(values).fill_null(0))
            need(same and values.flatten().null_count == 0, "its attributes lack values")
            within("values", values.flatten().to_numpy(), -LARGEST, LARGEST)
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _column(values: list[Any], kind: str) -> Any:
    """A column of a stretch; that of a symbol may have numbers, and the other way round."""
    if kind == "values":
        return pa.array(values, BAG_VALUES)
    if kind == "bag":
        bags = pa.array(values, pa.large_list(pa.string()))
        need(bags.flatten().null_count == 0, "its attributes lack names")
        return pa.LargeListArray.from_arrays(bags.offsets, bags.values.dictionary_encode())
    empty = all(value is None for value in values)
    if any(type(value) is str for value in values) or (kind == "symbol" and empty):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, NUMBER)


class AttributeCounts:
    """How often each attribute of either kind occurs, and with which labels."""

    def __init__(self) -> None:
        self.state, self.edge = Census(), Census()

    def add(self, numbered: Numbered) -> None:
        """Count the attributes of further positions."""
        block = numbered.block
        self.state.add(block.labels, block.offsets, block.ids, numbered.n_attributes, numbered.n_labels)
        if block.edge_ids.size:
            entries = block.edge_offsets, block.edge_ids
            self.edge.add(block.labels, *entries, numbered.n_edge_attributes, numbered.n_labels)


class Encoder:
    """Numbers and counts what is in the stretches, and spills it."""

    def __init__(self, schema: Schema, spool: Spool, extends: Vocabulary | None = None) -> None:
        self._schema, self._spool, self._extends = schema, spool, extends
        self._lexicon = Lexicon.new(schema) if extends is None else Lexicon.extending(extends, schema.unknown)
        self.numberer = Numberer(schema, self._lexicon)
        self._counts = AttributeCounts()

    def numbered_chain(self, source: Source) -> Iterator[Numbered]:
        """Positions that were encoded before, with their vocabulary."""
        vocabulary = vocabulary_of(source)
        assert vocabulary is not None, "only a chain with a vocabulary can be continued"
        for label in vocabulary.labels:
            self._lexicon.labels.add(label)
        state = _Renaming(vocabulary.attributes, source.n_attributes, self._lexicon.names)
        edge = _Renaming(vocabulary.edge_attributes, source.n_edge_attributes, self._lexicon.edge_names)
        for low in range(0, source.positions, _BLOCK):
            block = source.block(low, min(low + _BLOCK, source.positions))
            entries = state.entries(block.offsets, block.ids, block.values)
            edges = edge.entries(block.edge_offsets, block.edge_ids, block.edge_values)
            yield self._lexicon.numbered(Targets(block.labels, block.starts, block.weights), entries, edges)

    def keep(self, numbered: Numbered) -> int:
        """Count and spill the attributes of the positions; returns the number of positions."""
        self._counts.add(numbered)
        self._spool.append(numbered.block)
        return numbered.block.labels.size

    def finish(self, given: Callable[[int], None]) -> SpooledChain:
        """The chain with its final numbers, which calls `given` with the positions read."""
        del self.numberer  # frees its tables
        names, edge_names = self._lexicon.names, self._lexicon.edge_names
        state = final_names(names, self._counts.state, self._spool.state.ids.size, self._schema.min_count)
        edge = final_names(edge_names, self._counts.edge, self._spool.edge.ids.size, self._schema.min_count)
        vocabulary = vocabulary_of_names(self._schema, self._lexicon.labels.names, state, edge)
        if self._extends is not None:
            same: Any = {name: getattr(self._extends, name) for name in ("label", "template", "columns")}
            vocabulary = replace(vocabulary, **same)
        return SpooledChain(self._spool, vocabulary, state.numbering, edge.numbering, given)


class FinalNames(NamedTuple):
    """The attributes of one kind with their final ids."""

    numbering: Numbering
    names: Any  # in the order of their ids; None where they have none
    counts: NDArray[np.int64]
    marks: NDArray[np.uint64]


def final_names(names: Names, census: Census, entries: int, min_count: int) -> FinalNames:
    """Final ids, by falling frequency; those of hashes stay."""
    if not names.exact:
        size = len(names) if entries else names.settled
        return FinalNames(Numbering(size, entries, None), None, *census.totals(size))
    counts, marks = census.totals(len(names))
    order = by_falling_count(counts, min_count, names.settled)
    ids = np.full(len(names), -1, np.int32)
    ids[order] = np.arange(order.size)
    counts, marks = counts[order], marks[order]
    return FinalNames(Numbering(order.size, int(counts.sum()), ids), names.strings().take(order), counts, marks)


def vocabulary_of_names(schema: Schema, labels: Sequence[str], state: FinalNames, edge: FinalNames) -> Vocabulary:
    """The vocabulary of a chain of this schema."""
    return Vocabulary(
        labels=tuple(labels),
        label=schema.label,
        attributes=state.names,
        edge_attributes=edge.names if edge.numbering.size else pa.array([], pa.large_string()),
        counts=state.counts,
        marks=state.marks,
        hash_bits=schema.hash_bits,
        min_count=schema.min_count,
        template=schema.template.to_json(),
        columns=schema.columns_json(),
    )


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
