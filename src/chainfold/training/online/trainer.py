"""Learning as data arrives: one pass, in memory that does not depend on how much there is.

Blocks of any size come in; they are cut into batches anew. A batch ends before the last start mark in reach or, where
there is none, in the midst of a sequence. It is trained on when enough is known of what follows: nothing, where a
sequence ends with it; else as much as the certificate asks for, up to 4096 positions. The same goes for what comes
before it, of which as much is kept. So its gradient is its share in that of the whole sequence, at the weights of the
moment. Where a chain does not forget within those positions the share is approximate, and that is counted.

What is learnt depends on the rows alone, not on the blocks in which they came.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from chainfold import __version__
from chainfold.chain.block import Block, join_blocks
from chainfold.chain.vocabulary import MARKS, Vocabulary
from chainfold.engines.stretch import HALO
from chainfold.errors import ChainfoldError
from chainfold.model.layout import Layout
from chainfold.model.model import Model
from chainfold.system.archive import Tensors
from chainfold.system.validate import MOST, Arrays, finite, need, under
from chainfold.training.online.adagrad import OnlineSettings, OnlineWeights
from chainfold.training.online.row_arrays import arrays_of, block_of
from chainfold.training.online.share import NOTHING, Renumbering, TrainingWindow, WindowShare, share_in


class BatchResult(NamedTuple):
    """A batch that was trained on, and how it was tagged before."""

    positions: int
    right: int
    loss: float


@dataclass
class OnlineTotals:
    """What has happened so far."""

    batches: int = 0
    right: int = 0  # positions that were tagged right before they were trained on
    loss: float = 0.0  # the sum of what the labels were worth before that, as -log likelihood
    approximate: int = 0  # batches whose share is not exact: the chain did not forget


class OnlineTrainer:
    """Weights, and the rows that are still needed."""

    def __init__(self, n_attributes: int, settings: OnlineSettings | None = None) -> None:
        self.settings = settings or OnlineSettings()
        self.weights = OnlineWeights(n_attributes, 0, self.settings)
        self.totals = OnlineTotals()
        self.rows = 0  # that have come
        self._renumbering = Renumbering(n_attributes)
        self._held = NOTHING  # those before the next batch, and those that are to be trained on
        self._past = 0  # how many of them are before it
        self._new: list[Block] = []  # what has come since they were put together
        self._coming = 0  # positions in these
        self._needed = self.settings.batch + 1  # positions that must have come before anything can be done

    @property
    def positions(self) -> int:
        """Positions that were trained on."""
        return self.weights.time

    def add(self, block: Block) -> None:
        """Append rows; they are trained on by `learn`."""
        if block.labels.size:
            self.check(block)
            self.rows += block.labels.size
            edges = {name: getattr(NOTHING, name) for name in ("edge_offsets", "edge_ids", "edge_values")}
            self._new.append(block._replace(**edges))  # of which there are none
            self._coming += block.labels.size

    def learn(self, ended: bool = False) -> Iterator[BatchResult]:
        """Learn from what has come, a batch at a time, as far as enough is known of what follows.

        With `ended` from all of it: nothing more is known.
        """
        if not ended and self._held.labels.size - self._past + self._coming < self._needed:
            return
        self._gather()
        while (high := self._batch_end(ended)) > self._past:
            share = self._share(high, ended)
            if share is None:
                break
            yield self._step(high, share)
        self._gather()

    def _gather(self) -> None:
        """Join the new rows, and free those that are not needed any more."""
        kept = max(0, self._past - HALO.last)
        self._held = join_blocks([self._held.part(kept, self._held.labels.size), *self._new])
        self._past, self._new, self._coming = self._past - kept, [], 0

    def check(self, block: Block, after: int = 0) -> None:
        """Raise unless the rows can be trained on; they come after `after` others."""
        if block.edge_ids.size:
            raise ChainfoldError("online training does not support edge attributes; leave them out.")
        if block.weights.size:
            raise ChainfoldError("online training does not support position weights; leave out `weight`.")
        unknown = np.flatnonzero(block.labels < 0)
        if unknown.size:
            row = self.rows + after + int(unknown[0]) + 1
            raise ChainfoldError(f"row {row:,} has no label, and all are needed to learn online; leave such rows out.")

    def _batch_end(self, ended: bool) -> int:
        """Where the next batch ends; where it begins, if that is not known yet."""
        low, size, batch = self._past, self._held.labels.size, self.settings.batch
        self._needed = batch + 1
        if size - low <= batch and not ended:
            return low
        marks = np.flatnonzero(self._held.starts[low + 1 : low + batch + 1])
        if marks.size and size - low > batch:
            return low + 1 + int(marks[-1])
        return min(low + batch, size)

    def _share(self, high: int, ended: bool) -> WindowShare | None:
        """That of the batch which ends before `high`, from a window that grows until it is exact; None: too early."""
        low, size, starts = self._past, self._held.labels.size, self._held.starts
        self.weights.grow(int(self._held.labels[low:high].max()) + 1)
        before = after = HALO.first
        while True:
            begin = self._begin(low - min(before, low), low)
            marks = np.flatnonzero(starts[high : high + after])
            closed = bool(marks.size)
            end = high + int(marks[0]) if closed else high + after
            if end > size:
                if not ended:
                    self._needed = end - low
                    return None
                end, closed = size, True
            elif end == size and ended:
                closed = True
            window = TrainingWindow(self._held.part(begin, end), low - begin, high - begin, bool(starts[begin]), closed)
            share = share_in(window, self._renumbering, self.weights.current, self.weights.transitions)
            more_before = not share.past_known and before < HALO.last and begin > 0
            more_after = not share.future_known and after < HALO.last
            if not (more_before or more_after):
                self.totals.approximate += not (share.past_known and share.future_known)
                return share
            before, after = before << more_before, after << more_after

    def _begin(self, begin: int, low: int) -> int:
        """The last start before a batch, if the window reaches it."""
        marks = np.flatnonzero(self._held.starts[begin : low + 1])
        return begin + int(marks[-1]) if marks.size else begin

    def _step(self, high: int, share: WindowShare) -> BatchResult:
        """Follow the gradient of a batch."""
        batch = self._held.part(self._past, high)
        rows = f"rows {self.positions + 1:,} to {self.positions + batch.labels.size:,}"
        remedy = "take a smaller rate, or rescale the values"
        if not math.isfinite(share.loss):
            raise ChainfoldError(f"the likelihood of {rows} is not finite: the weights have grown too large; {remedy}.")
        ids, labels = batch.ids[batch.offsets[0] : batch.offsets[-1]], np.repeat(batch.labels, np.diff(batch.offsets))
        self.weights.note(ids, labels)
        try:
            self.weights.step(share.ids, share.rows, share.transitions, batch.labels.size)
        except OverflowError:
            raise ChainfoldError(f"the gradient of {rows} leads to weights that are too large; {remedy}.") from None
        self._past = high
        right = int(np.count_nonzero(share.labels == batch.labels))
        totals = self.totals
        totals.batches, totals.right, totals.loss = totals.batches + 1, totals.right + right, totals.loss + share.loss
        return BatchResult(batch.labels.size, right, share.loss)

    def model(self, vocabulary: Vocabulary, n_labels: int = 0) -> Model:
        """The model as it is by now; the vocabulary has the names of the labels, and all else but the counts.

        It has at least `n_labels` labels: weights of those not trained on yet are zero.
        """
        weights = copy.copy(self.weights)
        weights.grow(n_labels)  # in arrays of its own
        n = weights.n_labels
        order = np.argsort(weights.ids)
        ids, size = weights.ids[order], weights.size
        begins = np.zeros(size + 1, np.int64)
        begins[ids + 1] = n
        offsets = np.cumsum(begins)
        layout = Layout(n, size, 0, offsets, np.tile(np.arange(n, dtype=np.int32), ids.size))
        counts, marks = np.zeros(size, np.int64), np.zeros((size, -(-n // MARKS)), np.uint64)
        counts[ids] = weights.counts[order]
        bits = np.zeros((ids.size, marks.shape[1] * MARKS), np.uint8)
        bits[:, :n] = weights.seen[order]
        marks[ids] = np.packbits(bits, axis=1, bitorder="little").view("<u8")
        return Model(
            layout,
            np.concatenate([weights.current(ids).ravel(), weights.transitions.ravel()]),
            replace(vocabulary, labels=vocabulary.labels[:n], counts=counts, marks=marks),
            training=self.record(),
        )

    def record(self) -> dict[str, Any]:
        """What was done, as JSON has it."""
        return {
            "chainfold": __version__,
            "algorithm": "adagrad",
            "online": True,
            **asdict(self.settings),
            "positions": self.positions,
            "batches": self.totals.batches,
            "approximate": self.totals.approximate,
            "accuracy": self.totals.right / max(self.positions, 1),
            "loss": self.totals.loss / max(self.positions, 1),
        }

    def state(self) -> Tensors:
        """All that is needed to go on, as arrays."""
        self._gather()
        counts = np.array([self._past, self.rows, self.totals.batches, self.totals.right, self.totals.approximate])
        return {
            **under("weights", self.weights.state()),
            **under("held", arrays_of(self._held)),
            "counts": counts,
            "loss": np.array(self.totals.loss),
        }

    @classmethod
    def of_state(cls, state: Tensors, n_attributes: int, n_labels: int, settings: OnlineSettings) -> Self:
        """The trainer whose state it was; n_labels: those that rows may have."""
        given = Arrays(state)
        made = cls(n_attributes, settings)
        made._held = block_of(given.under("held"), n_attributes, n_labels)
        size = made._held.labels.size
        made.weights = OnlineWeights.of_state(given.under("weights"), n_attributes, settings)
        time = made.weights.time
        need(made.weights.n_labels <= n_labels, "it has weights of labels without a name")
        made._past, made.rows, *totals = given.counts("counts", size, MOST, time, time, time)
        need(made.rows - time == size - made._past, "it was trained on other rows than have come")
        loss = given.take("loss", np.float64)
        finite("loss", loss)
        given.check_empty()
        batches, right, approximate = totals
        made.totals = OnlineTotals(batches, right, float(loss), approximate)
        return made
