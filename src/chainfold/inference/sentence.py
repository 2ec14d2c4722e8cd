"""One sequence of items at a time, without blocks: for programs that label a sentence as it comes.

Everything that a model needs is prepared once. A call writes to arrays of its own, and kernels run without the
interpreter lock, so any number of threads may share a `SentenceTagger`. Results are those of `Tagger`, to the last bit.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL, frozen
from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import lattice_of
from chainfold.features.item_ids import ItemIds
from chainfold.inference.decoder import Labels, Scorer, posteriors_of
from chainfold.inference.sentence_kernels import item_scores
from chainfold.kernels.faults import OK
from chainfold.kernels.forward import forward
from chainfold.kernels.viterbi import trace, viterbi
from chainfold.model.layout import Floats


class SentenceTagger:
    """A model ready to label one sequence of items after the other.

    Sequences that it cannot take, or whose numbers leave the range of a double, are for `Tagger`: the answer is None.
    """

    def __init__(self, scorer: Scorer, ids: ItemIds, longest: int) -> None:
        """longest: positions of a sequence."""
        self._ids, self._longest = ids, longest
        self._potentials = p = scorer.potentials
        self._pointer = np.uint8 if p.n_labels <= 256 else np.uint16
        self._fixed = (p.layout.rows, p.weights, p.layout.blank, scorer.most_summed, p.never_first, p.never_last)
        self._entry = np.zeros(p.width)

    @classmethod
    def of(cls, scorer: Scorer, vocabulary: Any, longest: int) -> Self | None:
        """None where the model has other attributes than those of items."""
        ids = None if scorer.potentials.layout.n_edge_attributes else ItemIds.of(vocabulary)
        return None if ids is None else cls(scorer, ids, longest)

    def labels(self, items: Any) -> Labels | None:
        """The best label of each item."""
        scores = self._scores(items)
        if scores is None:
            return None
        starts, ends = _marks(len(scores))
        p = self._potentials
        back, labels = np.empty((len(scores), p.n_labels), self._pointer), np.empty(len(scores), np.int32)
        finals = np.empty(1, np.int64)
        delta, total, best = np.zeros(p.width), np.zeros(2), np.empty(1)
        status, _ = viterbi(starts, ends, scores, p.scores, delta, total, back, finals, best)
        if status != OK:
            return None
        trace(back, int(finals[0]), labels)
        return labels

    def posteriors(self, items: Any) -> Floats | None:
        """The probability of each label of each item: [T, N]."""
        p = self._potentials
        scores = None if p.only_wide else self._scores(items)
        if scores is None:
            return None
        starts, _ = _marks(len(scores))
        ahead = np.empty_like(scores)
        status, _ = forward(
            starts, scores, ahead, p.edge, p.shift, self._entry, p.n_labels, p.watch, p.layout.rows.tiles
        )
        if status != OK:
            return None
        labels = frozen(np.full(len(scores), NO_LABEL, np.int32), np.int32)
        lattice = lattice_of(starts, labels, scores, ahead, p.edge, Belief(self._entry))
        _, gammas = posteriors_of(p, lattice, Belief(scores[-1]).posterior())
        return gammas[:, : p.n_labels]

    def _scores(self, items: Any) -> Floats | None:
        if type(items) in (list, tuple) and len(items) > self._longest:
            return None
        status, scores = self._ids.read(items, item_scores, *self._fixed) or (None, None)
        return scores if status == OK else None


def _marks(size: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where a sequence of this size starts, and where it ends."""
    starts, ends = np.zeros((2, size), np.bool_)
    starts[0] = ends[-1] = True
    starts.flags.writeable = False
    return starts, ends
