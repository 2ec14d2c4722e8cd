"""A chain under the numbers of another vocabulary: equal names have equal numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL, Block, Entries, KnownBlock, Source, entries_of, frozen, vocabulary_of
from chainfold.chain.builder import Census
from chainfold.chain.chain import Chain, gather
from chainfold.chain.entries import without_gaps
from chainfold.chain.strings import StringTable, numbers_among
from chainfold.chain.views import View
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import ChainfoldError, UnseenLabel

Numbers = NDArray[np.int32]


class Renumbered(View):
    """A source with the numbers of a vocabulary, without attributes that are not in it.

    Labels that are not in it are unknown or, with `labels_needed`, raise `UnseenLabel` when their block is read.
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
        self._ids = _numbers(own.attributes, vocabulary.attributes)
        self._edge_ids = _numbers(own.edge_attributes, vocabulary.edge_attributes)
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
        """The block, and all labels: those that are not in the vocabulary have the numbers after its own."""
        block = self._source.block(low, high)
        gold = self._labels[block.labels]
        state, edge = entries_of(block)
        edges: Entries = frozen(None, np.int64), frozen(None, np.int32), frozen(None, np.float64)
        if self.n_edge_attributes:
            edges = _renumbered(edge, self._edge_ids)
        labels = frozen(np.where(gold < self.n_labels, gold, np.int32(NO_LABEL)), np.int32)
        renumbered = Block(labels, block.starts, *_renumbered(state, self._ids), *edges, block.weights)
        return KnownBlock(renumbered, frozen(gold, np.int32))


def grown_chain(source: Source, vocabulary: Vocabulary) -> Chain:
    """A source in memory, with the numbers of a vocabulary; what is new has the numbers that follow.

    The vocabulary of the result has the names of both; its counts and marks are those of the source alone.
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
            "the chain was encoded with another template, or other bins of numbers, than the model; give the files "
            "that it was encoded from."
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


def _numbers(own: Any, names: Any) -> Numbers | None:
    """The new number of each name, -1 for those that are not there; None where all numbers stay the same."""
    return None if own is None or names is None or own.equals(names) else numbers_among(own, names)


def _labels(own: tuple[str, ...], names: tuple[str, ...]) -> Numbers:
    """The new number of each label, new labels after the others; the last entry is that of an unknown label."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys([*names, *own]))}
    return np.array([*(numbers[name] for name in own), NO_LABEL], np.int32)


def _renumbered(entries: Entries, numbers: Numbers | None) -> Entries:
    offsets, ids, values = entries
    if numbers is None or not offsets.size:
        return entries
    part = slice(offsets[0], offsets[-1])
    begins, ids, values = without_gaps(offsets - offsets[0], numbers[ids[part]], values[part])
    return frozen(begins, np.int64), frozen(ids, np.int32), frozen(values, np.float64)
