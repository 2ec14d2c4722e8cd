"""What an engine adds up: log Z and expected counts, the score and the counts of the observed labels."""

from __future__ import annotations

import numpy as np

from chainfold.chain.block import NO_LABEL, Block
from chainfold.core import PORTION, fold, observe
from chainfold.core.slots import Slots
from chainfold.engines.pool import ArrayPool
from chainfold.engines.problem import Problem
from chainfold.engines.sums import StretchSums, exact_sum, shortened
from chainfold.errors import ForbiddenLabel
from chainfold.model.layout import Floats, Layout

_FOLD_EVERY = 16384  # positions after which the recent sums are added to the totals, so that rounding stays small
_SLOTS_A_POSITION = 8  # …unless adding the sums would take longer than making them
_HOT = 4096  # sums of the most frequent attributes, which kernels add up in portions of their own


class Accumulator:
    """A vector of sums in levels: kernels add to `recent`, which is folded into `total` now and then.

    A million small terms added to one large number lose five digits to rounding; added in portions, hardly one. The
    sums of the most frequent attributes, which come first, have a level in between (`kernels.scores.fold`).
    """

    def __init__(self, layout: Layout, pool: ArrayPool, sums: Floats | None = None) -> None:
        """sums: [slots] what has been added up so far."""
        self.layout, self._pool = layout, pool
        self._recent = pool.zeros(layout.slots) if sums is None else sums
        self._total: Floats | None = None
        self._pending = 0
        self._hot = pool.zeros(min(_HOT, layout.dense * layout.width))
        self.slots: Slots = layout.view(self._recent)._replace(hot=self._hot)

    def added(self, positions: int) -> None:
        """Say that the sums over this many positions have been added to the slots."""
        before, self._pending = self._pending, self._pending + positions
        if positions <= PORTION and self._pending // PORTION > before // PORTION:  # else kernels do it
            fold(self.slots)
        if self._pending >= self._portion:
            self._take_hot()
            self.add(self._recent)
            self._recent[:] = 0.0
            self._pending = 0

    def add(self, slots: Floats) -> None:
        """Add to the totals."""
        if self._total is None:
            self._total = self._pool.take(slots.size)
            self._total[:] = slots
        else:
            self._total += slots

    def _take_hot(self) -> None:
        self._recent[: self._hot.size] += self._hot
        self._hot[:] = 0.0

    @property
    def _portion(self) -> int:
        """Positions after which sums are folded."""
        return max(_FOLD_EVERY, self._recent.size // _SLOTS_A_POSITION)

    def terms(self, positions: int) -> float:
        """The most terms that are added one after another on any level, beside those of one block."""
        return min(self._portion, positions) + positions / self._portion

    def result(self) -> Floats:
        """The sums, in slots; nothing can be added after that."""
        self._take_hot()
        if self._total is None:
            return self._recent
        self._recent += self._total
        self._pool.give(self._total)
        self._total = None
        return self._recent

    def closed(self) -> Floats:
        """The result, which belongs to the caller; the other arrays are given back."""
        sums = self.result()
        self._pool.give(self._hot)
        return sums

    def release(self) -> None:
        """Give back the arrays, the result included."""
        self._pool.give(self.result())
        self._pool.give(self._hot)


class Tally:
    """The sums of an engine over the blocks of a stretch of the chain, in order."""

    def __init__(self, problem: Problem, sums: StretchSums | None = None) -> None:
        """sums: those of all blocks, to which nothing is to be added."""
        layout = problem.model.layout
        self._problem = problem
        self.expected = Accumulator(layout, problem.pool, None if sums is None else sums.expected)
        observes = problem.source.labelled and problem.settings.observe
        observed = None if sums is None else sums.observed
        self.observed = Accumulator(layout, problem.pool, observed) if observes else None
        self._scales: list[float] = [] if sums is None else sums.scales
        self._previous = NO_LABEL

    @property
    def log_z(self) -> float:
        return exact_sum(self._scales)

    @property
    def score(self) -> float:
        """The score of the observed labels: their counts times the weights of the model."""
        assert self.observed is not None, "asked only where every label is known"
        counts = self.observed.result()
        counted = np.flatnonzero(counts)
        return float(np.sum(counts[counted] * self._problem.packed[counted]))

    def scale(self, log_scale: tuple[float, ...]) -> None:
        """Add a block's share of log Z, a sum."""
        self._scales = shortened([*self._scales, *log_scale])

    def observe(self, low: int, block: Block) -> None:
        """Count the block's own labels; blocks come in order."""
        if self.observed is None:
            return
        problem = self._problem
        before = problem.label_before(low) if self._previous == NO_LABEL else self._previous
        layout = problem.model.layout
        self._previous, forbidden = observe(
            block, layout.rows, problem.weights, before, problem.forbids_states, self.observed.slots
        )
        wrong = [forbidden, problem.masked_label(low, block) if problem.masked else -1]
        if max(wrong) >= 0:
            raise ForbiddenLabel(low + min(place for place in wrong if place >= 0))
        self.observed.added(block.labels.size)

    def sums(self) -> StretchSums:
        """What was added up, with its arrays; nothing can be added after that."""
        observed = None if self.observed is None else self.observed.closed()
        return StretchSums(self._scales, self.expected.closed(), observed, self._problem.pool)

    def forget_labels(self) -> None:
        """Stop counting the observed labels: one of them is unknown, and so are their sums."""
        if self.observed is not None:
            self.observed.release()
            self.observed = None

    def release(self) -> None:
        """Give back the arrays of the sums."""
        self.expected.release()
        if self.observed is not None:
            self.observed.release()
