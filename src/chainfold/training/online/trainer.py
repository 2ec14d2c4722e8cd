"""Training on blocks of rows as they come, one batch at a time.

A batch ends before the last sequence start in reach or, where there is none, inside a sequence. Its gradient is its
part of the gradient of the whole sequence at the present weights: positions after the batch are awaited, and positions
before it kept, as far as the certificate needs them, up to 4096 on either side. Where the chain does not forget within
these, the gradient is approximate, and the batch is counted as such.

The result depends on the rows alone, not on the blocks in which they come.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from chainfold import __version__
from chainfold.chain.block import Block, frozen, join_blocks
from chainfold.chain.vocabulary import MARKS, Vocabulary
from chainfold.engines.halo import HALO
from chainfold.errors import ChainfoldError
from chainfold.model.layout import Layout
from chainfold.model.model import Model
from chainfold.system.archive import Tensors
from chainfold.system.validate import LARGEST, MOST, Arrays, ascending, finite, need, under, within
from chainfold.training.online.adagrad import OnlineSettings, OnlineWeights
from chainfold.training.online.share import NOTHING, TrainingWindow, WindowShare, share_in

_KEPT = Block._fields[:5]  # arrays of a block in a state; edge attributes and weights are not supported


class BatchResult(NamedTuple):
    """A batch, and how it was tagged before its step."""

    positions: int
    right: int
    loss: float


@dataclass
class OnlineTotals:
    """Sums over all batches."""

    batches: int = 0
    right: int = 0  # positions tagged right before the step on them
    loss: float = 0.0  # negative log likelihood before the step
    approximate: int = 0  # batches with an approximate gradient


class OnlineTrainer:
    """Weights, and the rows that are still needed."""

    def __init__(self, n_attributes: int, settings: OnlineSettings | None = None) -> None:
        self.settings = settings or OnlineSettings()
        self.weights = OnlineWeights(n_attributes, 0, self.settings)
        self.totals = OnlineTotals()
        self.rows = 0  # added so far
        self._held = NOTHING  # rows before the next batch, and rows to train on
        self._past = 0  # number of rows before the next batch
        self._new: list[Block] = []  # blocks that are not in `_held` yet
        self._coming = 0  # positions of these
        self._needed = self.settings.batch + 1  # rows after `_past` without which there is no next batch

    @property
    def positions(self) -> int:
        """Number of positions trained on."""
        return self.weights.time

    def add(self, block: Block) -> None:
        """Append rows; `learn` trains on them."""
        self.check(block)
        if block.labels.size:
            self.rows += block.labels.size
            self._new.append(NOTHING._replace(**{name: getattr(block, name) for name in _KEPT}))
            self._coming += block.labels.size

    def check(self, block: Block) -> None:
        """Raise unless the rows, which would be added next, can be trained on."""
        if block.edge_ids.size:
            raise ChainfoldError("online training does not support edge attributes; leave them out.")
        if block.weights.size:
            raise ChainfoldError("online training does not support weights of sequences; leave out `weight`.")
        unknown = np.flatnonzero(block.labels < 0)
        if unknown.size:
            row = self.rows + int(unknown[0]) + 1
            raise ChainfoldError(f"row {row:,} has no label, and all are needed to learn online; leave such rows out.")

    def learn(self, ended: bool = False) -> Iterator[BatchResult]:
        """Train on the rows added, batch by batch, as far as enough rows after them are known.

        ended: no more rows follow, so that all are trained on.
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
        """Append the new blocks to the rows held, and free rows that are no longer needed."""
        kept = max(0, self._past - HALO.last)
        self._held = join_blocks([self._held.part(kept, self._held.labels.size), *self._new])
        self._past, self._new, self._coming = self._past - kept, [], 0

    def _batch_end(self, ended: bool) -> int:
        """The end of the next batch; its begin, if the end is not known yet."""
        low, size, batch = self._past, self._held.labels.size, self.settings.batch
        self._needed = batch + 1
        if size - low <= batch and not ended:
            return low
        marks = np.flatnonzero(self._held.starts[low + 1 : low + batch + 1])
        if marks.size and size - low > batch:
            return low + 1 + int(marks[-1])
        return min(low + batch, size)

    def _share(self, high: int, ended: bool) -> WindowShare | None:
        """The gradient of the batch that ends before `high`; None if more rows must be known first.

        The window grows until the gradient is exact.
        """
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
            share = share_in(window, self.weights)
            more_before = not share.past_known and before < HALO.last and begin > 0
            more_after = not share.future_known and after < HALO.last
            if not (more_before or more_after):
                self.totals.approximate += not (share.past_known and share.future_known)
                return share
            before, after = before << more_before, after << more_after

    def _begin(self, begin: int, low: int) -> int:
        """The last start of a sequence from `begin` to `low`; `begin` if there is none."""
        marks = np.flatnonzero(self._held.starts[begin : low + 1])
        return begin + int(marks[-1]) if marks.size else begin

    def _step(self, high: int, share: WindowShare) -> BatchResult:
        """Follow the gradient of the batch that ends before `high`."""
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
        """The present model, with the names of the vocabulary and the counts of the trainer.

        n_labels: the least number of labels; those not trained on yet have weights of zero.
        """
        weights = copy.copy(self.weights)
        weights.grow(n_labels)  # makes new arrays
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
        """The training record of the model."""
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
        """Arrays from which `of_state` continues."""
        self._gather()
        counts = np.array([self._past, self.rows, self.totals.batches, self.totals.right, self.totals.approximate])
        return {
            **under("weights", self.weights.state()),
            **under("held", {name: getattr(self._held, name) for name in _KEPT}),
            "counts": counts,
            "loss": np.array(self.totals.loss),
        }

    @classmethod
    def of_state(cls, state: Tensors, n_attributes: int, n_labels: int, settings: OnlineSettings) -> Self:
        """Continue from a state, with labels below `n_labels`; raises for arrays that `state` cannot have given."""
        given = Arrays(state)
        made = cls(n_attributes, settings)
        made._held = _block_of(Arrays(given.under("held")), n_attributes, n_labels)
        size = made._held.labels.size
        made.weights = OnlineWeights.of_state(given.under("weights"), n_attributes, settings)
        time = made.weights.time
        need(made.weights.n_labels <= n_labels, "it has weights of labels without a name")
        made._past, made.rows, *totals = given.counts("counts", size, MOST, time, time, time)
        need(made.rows - time == size - made._past, "it was trained on other rows than it has")
        loss = given.take("loss", np.float64)
        finite("loss", loss)
        given.check_empty()
        batches, right, approximate = totals
        made.totals = OnlineTotals(batches, right, float(loss), approximate)
        return made


def _block_of(given: Arrays, n_attributes: int, n_labels: int) -> Block:
    """The rows of a state, checked."""
    kinds = {name: getattr(NOTHING, name).dtype for name in _KEPT}
    block = NOTHING._replace(**{name: frozen(given.take(name, kind, None), kind) for name, kind in kinds.items()})
    given.check_empty()
    within("starts", block.starts.view(np.uint8), 0, 1)
    size = block.labels.size
    need(block.starts.size == size and block.offsets.size == size + 1, "its rows are not all there")
    ascending("offsets", block.offsets, block.ids.size)
    need(block.values.size in (0, block.ids.size), "its values are not those of its attributes")
    within("labels", block.labels, 0, n_labels - 1)
    within("ids", block.ids, 0, n_attributes - 1)
    within("values", block.values, -LARGEST, LARGEST)
    return block
