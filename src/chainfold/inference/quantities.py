"""Sums over a stream: log likelihood, entropy, and expected counts of labels, transitions and segments.

The sums go forward with the rows, so that they have a value at any prefix: that of the chain which ends there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL
from chainfold.core import count_pairs, entropy, given_probability
from chainfold.core.faults import check_memory
from chainfold.core.slots import Lattice
from chainfold.engines.belief import Belief
from chainfold.engines.potentials import Potentials
from chainfold.model.layout import Floats
from chainfold.system.validate import Arrays, finite, need, within

_FOLD_EVERY = 8192  # rows after which the recent sums are added to the totals, so that rounding stays small


@dataclass(frozen=True, eq=False)
class Quantities:
    """Sums over all rows of a stream so far, as if it ended with the last one; logarithms are natural ones.

    positions        rows
    sequences        sequences
    unproven         rows that were settled before they were proven; with any, expected counts are not exact
    log_z            log Z
    log_likelihood   of the labels that the rows came with; None unless all have one
    entropy          of the labelling
    labels           [N]  expected number of each label
    transitions      [N, N]  expected number of each label followed by each other

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(1000, 3, 10, 2)
    >>> tagger = cf.StreamTagger(cf.Model(cf.Layout.full(3, 10), chain.true_weights()), quantities=True)
    >>> _ = tagger.push(chain)
    >>> tagger.quantities().positions
    1000
    """

    positions: int
    sequences: int
    unproven: int
    log_z: float
    log_likelihood: float | None
    entropy: float
    labels: Floats
    transitions: Floats

    @property
    def segments(self) -> Floats:
        """[N] the expected number of runs of each label: wherever it stands and did not stand one row before."""
        return np.maximum(self.labels - np.diagonal(self.transitions), 0.0)


class Sums:
    """Follows a stream forward; asked about the posteriors of rows when they are final."""

    def __init__(self, potentials: Potentials) -> None:
        n, width = potentials.n_labels, potentials.width
        self._potentials = potentials
        self._counts = np.zeros(3, np.int64)  # positions, sequences, rows in the recent sums
        self._closed = np.zeros((3, 2))  # log Z, log likelihood, entropy of what has ended, each in two numbers
        self._before = np.array(NO_LABEL)
        self._given, self._entropy, self._entropies = np.zeros(2), np.zeros(2), np.zeros(width)
        self._labels, self._pairs = np.zeros((2, n)), np.zeros((2, n, width))  # recent, total

    def forward(self, lattice: Lattice, log_scale: tuple[float, ...]) -> None:
        """Further rows, none of which is known to end its sequence but by the next one's start mark."""
        starts = lattice.starts
        ends = np.append(starts[1:], False)
        for part in log_scale:
            self._add(0, part)
        given, entropies = np.empty((2, np.count_nonzero(ends)))
        given_probability(lattice, ends, int(self._before), self._given, given)
        self._before[...] = lattice.labels[-1]
        log_edge = self._potentials.log_edge if lattice.edge is self._potentials.edge else np.empty(0)
        check_memory(entropy(lattice, ends, log_edge, self._entropies, self._entropy, entropies))
        for which, values in ((1, given), (2, entropies)):
            for value in values.tolist():
                self._add(which, value)
        self._counts[:2] += np.array([starts.size, np.count_nonzero(starts)])

    def close(self, belief: Belief, log_kept: float) -> None:
        """The sequence has ended with the last row; log_kept: the share of its labels that may end one."""
        self._add(0, log_kept)
        for which, value in enumerate(self._open(belief), 1):
            self._add(which, value)

    def settle(self, lattice: Lattice, posteriors: Floats) -> None:
        """The posteriors of the next rows."""
        self._count(lattice, posteriors, self._labels[0], self._pairs[0])
        self._counts[2] += lattice.starts.size
        if self._counts[2] >= _FOLD_EVERY:
            for sums in (self._labels, self._pairs):
                sums[1] += sums[0]
                sums[0] = 0.0
            self._counts[2] = 0

    def now(
        self,
        lattice: Lattice,
        posteriors: Floats,
        unproven: int,
        belief: Belief | None = None,
        log_kept: float = 0.0,
    ) -> Quantities:
        """The sums up to the head; the lattice has the rows that are not settled, the posteriors are as of now.

        belief, log_kept: as `close` would have them, where the sequence at the head is open.
        """
        labels, pairs = self._labels.sum(axis=0), self._pairs.sum(axis=0)
        self._count(lattice, posteriors, labels, pairs)
        log_z, likelihood, entropy = self._closed.sum(axis=1).tolist()
        if belief is not None:
            given, rest = self._open(belief)
            log_z, likelihood, entropy = log_z + log_kept, likelihood + given, entropy + rest
        return Quantities(
            positions=int(self._counts[0]),
            sequences=int(self._counts[1]),
            unproven=unproven,
            log_z=log_z,
            log_likelihood=None if np.isnan(likelihood) else likelihood,
            entropy=max(entropy, 0.0),
            labels=labels,
            transitions=pairs[:, : labels.size].copy(),
        )

    def state(self) -> dict[str, NDArray[np.generic]]:
        return {name.removeprefix("_"): getattr(self, name) for name in self._arrays}

    def restore(self, state: dict[str, NDArray[Any]], positions: int) -> None:
        """Continue from a state that was saved after this many positions."""
        given, shapes = Arrays(state), {name.removeprefix("_"): getattr(self, name) for name in self._arrays}
        arrays = {name: given.take(name, array.dtype, *array.shape) for name, array in shapes.items()}
        given.check_empty()
        there, sequences, recent = arrays["counts"].tolist()
        need(there == positions and 0 <= sequences <= there, "its sums are those of other rows")
        need(0 <= recent < _FOLD_EVERY, "its sums are of more rows than they can be")
        within("before", arrays["before"], NO_LABEL, self._potentials.n_labels - 1)
        for name in ("entropy", "entropies", "labels", "pairs"):
            finite(name, arrays[name])
        finite("closed", arrays["closed"][[0, 2]])  # but log likelihoods, which need not be known
        for name, array in arrays.items():
            shapes[name][...] = array

    _arrays = ("_counts", "_closed", "_before", "_given", "_entropy", "_entropies", "_labels", "_pairs")

    def _add(self, which: int, value: float) -> None:
        total, rest = self._closed[which].tolist()
        both = total + value
        virtual = both - total
        if np.isfinite(both):  # Knuth's two-sum
            rest += (total - (both - virtual)) + (value - virtual)
        self._closed[which] = both, rest

    def _open(self, belief: Belief) -> tuple[float, float]:
        """Log likelihood and entropy of the sequence at the head, if it ends there."""
        n, label = self._potentials.n_labels, int(self._before)
        gamma = belief.posterior()[:n]
        with np.errstate(divide="ignore", over="ignore"):  # what was restored may be too large to be added up
            logs = belief.logs()[:n] if belief.wide else np.log(gamma)
            likelihood = float(self._given.sum() + logs[label]) if label >= 0 else float("nan")
        there = gamma > 0.0
        rest = float(np.sum(gamma[there] * (self._entropies[:n][there] - logs[there])))
        return likelihood, max(float(self._entropy.sum()) + rest, 0.0)

    def _count(self, lattice: Lattice, posteriors: Floats, labels: Floats, pairs: Floats) -> None:
        labels += posteriors[:, : labels.size].sum(axis=0)
        if lattice.starts.size:
            check_memory(count_pairs(lattice, posteriors, pairs))
