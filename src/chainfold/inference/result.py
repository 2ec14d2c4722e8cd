"""The result type of the tagger of chains and of the tagger of streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.errors import ChainfoldError
from chainfold.inference.decoder import Labels
from chainfold.model.layout import Floats


@dataclass(frozen=True, eq=False)
class SequenceResults:
    """The sequences that end in some positions, in order; logarithms are natural ones. None: not asked for."""

    ends: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # [S] their last positions
    score: Floats = field(default_factory=lambda: np.empty(0))  # [S] of the best labelling
    gaps: Floats | None = None  # [S, k] scores of the k best less that of the best; -inf where there are no more
    log_probability: Floats | None = None  # [S] of the best labelling
    given: Floats | None = None  # [S] log probability of the labels it came with; not a number where one is unknown
    entropy: Floats | None = None  # [S]

    @property
    def log_z(self) -> Floats:
        assert self.log_probability is not None, "known where Want.probability is"
        return self.score - self.log_probability


@dataclass(frozen=True, eq=False)
class Tagged:
    """The final results of the next positions. Iterating over it gives the names of their labels.

    low         the first position
    starts      [B] where a sequence starts
    given       [B] the labels that the positions came with, -1 where unknown
    labels      [B] the best labelling; empty where it was not asked for
    names       of the labels
    posteriors  [B, N] of every label, or None
    nbest       [k, B] the k best labellings, -1 where the sequence has fewer, or None
    samples     [k, B] drawn labellings, or None
    sequences   those that end here; of a stream, empty
    proven      [B] of a stream: False where the row has waited too long, and later rows might have changed it
    lag         [B] of a stream: how many rows had come after it

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(100, 3, 10, 2)
    >>> tagger = cf.Tagger(cf.Model(cf.Layout.full(3, 10), chain.true_weights()))
    >>> [(tagged.low, tagged.labels.size) for tagged in tagger.run(chain, cf.Want())]
    [(0, 100)]
    """

    low: int
    starts: NDArray[np.bool_]
    given: Labels
    labels: Labels
    names: Sequence[str]
    posteriors: Floats | None = None
    nbest: Labels | None = None
    samples: Labels | None = None
    sequences: SequenceResults = field(default_factory=SequenceResults)
    proven: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    lag: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return self.starts.size

    def __iter__(self) -> Iterator[str]:
        return (self.names[label] for label in self.labels.tolist())

    @property
    def probabilities(self) -> Floats:
        """[B] the posterior of each position's label."""
        if self.posteriors is None:
            raise ChainfoldError("there are no probabilities: set `marginals` or `Want.posteriors`.")
        return self.posteriors[np.arange(self.labels.size), self.labels]


def joined(parts: Sequence[Tagged]) -> Tagged:
    """Results of a stream that follow one another as one."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    columns: dict[str, Any] = {
        part.name: np.concatenate([getattr(result, part.name) for result in parts])
        for part in fields(Tagged)
        if isinstance(getattr(first, part.name), np.ndarray)
    }
    return Tagged(**{"low": first.low, "names": first.names, **columns})
