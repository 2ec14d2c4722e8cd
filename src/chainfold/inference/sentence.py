"""One sequence of items at a time, without blocks: for programs that label a sentence as it comes.

Everything that a model needs is prepared once. A call writes to arrays of its own, and kernels run without the
interpreter lock, so any number of threads may share a `SentenceTagger`. Results are those of `Tagger`, to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.chain.block import NO_LABEL, Entries, frozen
from chainfold.chain.vocabulary import Vocabulary
from chainfold.core import forward, label_sequence, score_sequence
from chainfold.core.faults import OK, check_memory
from chainfold.engines.belief import Belief
from chainfold.engines.forward_pass import lattice_of
from chainfold.features.encoder import ids_fit
from chainfold.features.item_ids import ItemIds
from chainfold.inference.decoder import Labels, Scorer, posteriors_of
from chainfold.model.layout import Floats


class SentenceTagger:
    """A model ready to label one sequence of items after the other.

    Sequences that it cannot take, or whose numbers leave the range of a double, are for `Tagger`: the answer is None.
    So is every sequence where the model has other attributes than those of items, or fewer than its vocabulary.
    """

    def __init__(self, scorer: Scorer, vocabulary: Vocabulary | None, longest: int) -> None:
        """longest: positions of a sequence."""
        self._potentials = p = scorer.potentials
        fits = vocabulary is not None and ids_fit(vocabulary, p.layout.n_attributes, 0)
        self._ids = ItemIds.of(vocabulary) if fits and not p.layout.n_edge_attributes else None
        self._longest = longest
        self._pointer = np.uint8 if p.n_labels <= 256 else np.uint16
        rows, weights = p.layout.rows, p.weights
        self._fixed = rows, weights, p.layout.blank, scorer.most_summed, p.never_first, p.never_last
        self._entry = np.zeros(p.width)
        starts = np.zeros(longest, np.bool_)
        starts[0] = True
        self._starts = frozen(starts, np.bool_)
        self._unknown = frozen(np.full(longest, NO_LABEL), np.int32)

    def labels(self, items: Any) -> Labels | None:
        """The best label of each item."""
        items, p = self._held(items), self._potentials
        entries = self._entries(items)
        if entries is None:
            return None
        (offsets, ids, values), size = entries, len(items)
        back, labels = np.empty((size, p.n_labels), self._pointer), np.empty(size, np.int32)
        status = label_sequence(offsets, ids, values, *self._fixed, p.scores, back, labels)
        check_memory(status)
        return labels if status == OK else None

    def posteriors(self, items: Any) -> Floats | None:
        """The probability of each label of each item: [T, N]."""
        items, p = self._held(items), self._potentials
        entries = None if p.only_wide else self._entries(items)
        if entries is None:
            return None
        (offsets, ids, values), size = entries, len(items)
        starts, scores, ahead = self._starts[:size], np.empty((size, p.width)), np.empty((size, p.width))
        status = score_sequence(offsets, ids, values, *self._fixed, scores)
        if status == OK:
            status, _ = forward(starts, scores, ahead, p.edge, p.shift, self._entry, p.n_labels, p.watch)
        check_memory(status)
        if status != OK:
            return None
        lattice = lattice_of(starts, self._unknown[:size], scores, ahead, p.edge, Belief(self._entry))
        _, gammas = posteriors_of(p, lattice, Belief(scores[-1]).posterior())
        return gammas[:, : p.n_labels]

    def _entries(self, items: tuple[Any, ...]) -> Entries | None:
        """The attributes of a sequence; None where the items cannot be read."""
        return self._ids.entries(items) if self._ids is not None and items else None

    def _held(self, items: Any) -> tuple[Any, ...]:
        """A list or tuple of items, which no other thread can change; empty where it is something else or too long."""
        held = tuple(items) if type(items) in (list, tuple) else ()
        return held if len(held) <= self._longest else ()
