"""One sequence of items at a time, without blocks: for programs that label a sentence as it comes.

Everything that a model needs is prepared once. A call writes to arrays of its own, and kernels run without the
interpreter lock, so any number of threads may share a `SentenceTagger`. Results are those of `Tagger`, to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.chain.block import NO_LABEL, frozen
from chainfold.chain.vocabulary import Vocabulary
from chainfold.core import forward
from chainfold.core.faults import OK
from chainfold.engines.belief import Belief
from chainfold.engines.forward_pass import lattice_of
from chainfold.features.encoder import ids_fit
from chainfold.features.item_ids import ItemIds
from chainfold.inference.decoder import Labels, Scorer, posteriors_of
from chainfold.kernels.viterbi import trace, viterbi
from chainfold.model.block_rows import rows_of_entries
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
        self._most = scorer.most_summed
        self._entry = np.zeros(p.width)
        starts, ends = np.zeros((2, longest), np.bool_)
        starts[0] = ends[-1] = True
        self._starts, self._ends = frozen(starts, np.bool_), ends  # those of a sequence are their first and last ones
        self._unknown = frozen(np.full(longest, NO_LABEL), np.int32)

    def labels(self, items: Any) -> Labels | None:
        """The best label of each item."""
        items, p = self._held(items), self._potentials
        scores = self._scores(items)
        if scores is None:
            return None
        size = len(items)
        back, delta, total = np.empty((size, p.n_labels), self._pointer), np.zeros(p.width), np.zeros(2)
        finals, best, labels = np.empty(1, np.int64), np.empty(1), np.empty(size, np.int32)
        marks = self._starts[:size], self._ends[-size:]
        status, _ = viterbi(*marks, scores, p.scores, delta, total, back, finals, best)
        if status != OK:
            return None
        trace(back, finals[0], labels)
        return labels

    def posteriors(self, items: Any) -> Floats | None:
        """The probability of each label of each item: [T, N]."""
        items, p = self._held(items), self._potentials
        scores = None if p.only_wide else self._scores(items)
        if scores is None:
            return None
        size = len(items)
        starts, ahead = self._starts[:size], np.empty_like(scores)
        status, _ = forward(starts, scores, ahead, p.edge, p.shift, self._entry, p.n_labels, p.watch)
        if status != OK:
            return None
        lattice = lattice_of(starts, self._unknown[:size], scores, ahead, p.edge, Belief(self._entry))
        _, gammas = posteriors_of(p, lattice, Belief(scores[-1]).posterior())
        return gammas[:, : p.n_labels]

    def _scores(self, items: tuple[Any, ...]) -> Floats | None:
        """The state scores of a sequence, [T, width]; None where the items cannot be read, or a score may overflow."""
        entries, p = None if self._ids is None else self._ids.entries(items), self._potentials
        if entries is None:
            return None
        offsets, ids, values = entries
        size, largest = len(items), max(float(values.max()), -float(values.min())) if values.size else 1.0
        if not ids.size * largest < self._most and not int(np.diff(offsets).max()) * largest < self._most:
            return None
        out = np.empty((size, p.width))
        p.score_states(rows_of_entries(p.layout, entries), out)
        p.mask(self._starts[:size], self._ends[-size:], out)
        return out

    def _held(self, items: Any) -> tuple[Any, ...]:
        """A list or tuple of items, which no other thread can change; empty where it is something else or too long."""
        held = tuple(items) if type(items) in (list, tuple) else ()
        return held if len(held) <= self._longest else ()
