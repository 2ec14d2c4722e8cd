"""A chain under the numbers of a vocabulary that is not its own: what has the same name has the same number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL, Block, KnownBlock, Source, frozen, vocabulary_of
from chainfold.chain.builder import Census
from chainfold.chain.chain import Chain, gather
from chainfold.chain.entries import without_gaps
from chainfold.chain.strings import StringTable, spans
from chainfold.chain.views import View
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import ChainfoldError, UnseenLabel

Numbers = NDArray[np.int32]
Entries = tuple[NDArray[np.int64], Numbers, NDArray[np.float64]]  # offsets, ids, values


class Renumbered(View):
    """A source with the numbers of a vocabulary. Attributes that are not in it are left out.

    Labels that are not in it are unknown or, where labels are needed, refused by the block that has one.
    """

    def __init__(self, source: Source, vocabulary: Vocabulary, *, labels_needed: bool = False) -> None:
        own = vocabulary_of(source)
        assert own is not None, "only names can be compared"
        _check_names(own, vocabulary)
        super().__init__(source)
        self.vocabulary = vocabulary
        self.n_labels = len(vocabulary.labels)
        named = vocabulary.attributes is not None
        self.n_attributes = vocabulary.counts.size if named else max(vocabulary.counts.size, source.n_attributes)
        self._ids = _found(own.attributes, vocabulary.attributes)
        self._edge_ids = _found(own.edge_attributes, vocabulary.edge_attributes)
        edges = vocabulary.edge_attributes
        self.n_edge_attributes = source.n_edge_attributes if edges is None else len(edges)
        self._labels = _labels(own.labels, vocabulary.labels)
        known = set(vocabulary.labels)
        self.unseen = tuple(label for label in own.labels if label not in known)
        self._labels_needed = labels_needed
        self.labelled = source.labelled and (labels_needed or not self.unseen)

    def block(self, low: int, high: int) -> Block:
        block, gold, _ = self.known(low, high)
        if self._labels_needed and self.unseen and (wrong := np.flatnonzero(gold >= self.n_labels)).size:
            raise UnseenLabel(low + int(wrong[0]), self.unseen[gold[wrong[0]] - self.n_labels])
        return block

    def known(self, low: int, high: int) -> KnownBlock:
        """The block, and all labels: those that the vocabulary does not have come after its own."""
        block = self._source.block(low, high)
        gold = self._labels[block.labels]
        offsets, ids, values = _entries(block.offsets, block.ids, block.values, self._ids)
        edges: Entries = frozen(None, np.int64), frozen(None, np.int32), frozen(None, np.float64)
        if self.n_edge_attributes:
            edges = _entries(block.edge_offsets, block.edge_ids, block.edge_values, self._edge_ids)
        labels = frozen(np.where(gold < self.n_labels, gold, np.int32(NO_LABEL)), np.int32)
        found = Block(labels, block.starts, offsets, ids, values, *edges, block.weights)
        return KnownBlock(found, frozen(gold, np.int32))


def grown_chain(source: Source, vocabulary: Vocabulary) -> Chain:
    """A source in memory, in which all that the vocabulary knows has its number, and what is new those that follow.

    Its own vocabulary has the names of both; how often attributes occur, and with which labels, is said of it alone.
    """
    own = vocabulary_of(source)
    assert own is not None, "only names can be compared"
    _check_names(own, vocabulary)
    names = _union(vocabulary.attributes, own.attributes)
    size = max(vocabulary.counts.size, own.counts.size) if names is None else len(names)
    grown = replace(
        vocabulary,
        labels=tuple(dict.fromkeys([*vocabulary.labels, *own.labels])),
        attributes=names,
        edge_attributes=_union(vocabulary.edge_attributes, own.edge_attributes),
        counts=np.zeros(size, np.int64),
    )
    chain = gather(Renumbered(source, grown))
    census = Census()
    census.add(chain.labels, chain.offsets, chain.ids, size, chain.n_labels)
    counts, marks = census.totals(size)
    return chain.with_vocabulary(replace(grown, counts=counts, marks=marks))


def _check_names(own: Vocabulary, vocabulary: Vocabulary) -> None:
    """Raise unless the same name means the same in both."""
    if own.kind != vocabulary.kind:
        raise ChainfoldError(f"the chain has {own.kind} and the model {vocabulary.kind}; encode it as the model was.")
    if own.template != vocabulary.template:
        raise ChainfoldError(
            "the chain was encoded with another template, or other bins of numbers, than the model; give what it "
            "was made of."
        )


def _union(names: Any, others: Any) -> Any:
    """The names of both, those of the first in their order; None where they have none."""
    if names is None or others is None:
        return None
    table = StringTable()
    for some in (names, others):
        if len(some):
            table.codes_of(some)
    return table.strings() if len(table) else pa.array([], pa.large_string())


def _found(own: Any, names: Any) -> Numbers | None:
    """The number of each of our names, -1 for those that are not there; None where all numbers stay what they are."""
    if own is None or names is None or own.equals(names):
        return None
    if not len(own) or not len(names):
        return np.full(len(own), -1, np.int32)
    return StringTable.of(names).found(*spans(own))


def _labels(own: tuple[str, ...], names: tuple[str, ...]) -> Numbers:
    """The number of each of our labels, those of new ones after the others, and behind all that of an unknown one."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys([*names, *own]))}
    return np.array([*(numbers[name] for name in own), NO_LABEL], np.int32)


def _entries(offsets: NDArray[np.int64], ids: Numbers, values: NDArray[np.float64], numbers: Numbers | None) -> Entries:
    if numbers is None or not offsets.size:
        return offsets, ids, values
    part = slice(offsets[0], offsets[-1])
    begins, ids, values = without_gaps(offsets - offsets[0], numbers[ids[part]], values[part])
    return frozen(begins, np.int64), frozen(ids, np.int32), frozen(values, np.float64)
