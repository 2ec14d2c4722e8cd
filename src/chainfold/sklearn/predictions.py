"""Results of the tagger by sequence, as scikit-learn users expect them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chainfold.chain.block import checked_weights
from chainfold.model.layout import Floats
from chainfold.sklearn.crf_inputs import Lengths
from chainfold.sklearn.marginal_kernels import fill

Objects = NDArray[np.object_]


def dicts(labels: list[Any], marginals: Floats) -> list[dict[Any, float]]:
    """The probability of each label, for each row of marginals: [T, N]."""
    rows: list[Any] = [None] * len(marginals)
    like, addresses = dict.fromkeys(labels), np.array([id(label) for label in labels], np.int64)
    table = np.ascontiguousarray(marginals, np.float64).reshape(len(rows), len(labels))
    if not fill(id(rows), id(like), addresses, table):
        raise MemoryError
    return rows


class LabelLists(np.ndarray):
    """An array of lists of labels, one for each sequence, which compares lists as a whole.

    `==` with a list that has a list for each sequence compares one by one; a single list of labels is compared with
    that of every sequence. The result is an array of booleans.

    >>> predicted = np.array([None, None], object).view(LabelLists)
    >>> predicted[:] = [["A"], ["B", "A"]]
    >>> (predicted == [["A"], ["B", "B"]]).tolist()
    [True, False]
    """

    def __eq__(self, other: Any) -> Any:
        if self.ndim != 1 or not isinstance(other, (list, tuple, np.ndarray)):
            return super().__eq__(other)
        several = len(other) == 0 or any(isinstance(labels, (list, tuple, np.ndarray)) for labels in other)
        given = list(other) if several else [list(other)] * len(self)
        if len(given) != len(self):
            raise ValueError(f"{len(self)} sequences cannot be compared with {len(given)}.")
        return np.array([mine == list(theirs) for mine, theirs in zip(self, given, strict=True)], np.bool_)

    def __ne__(self, other: Any) -> Any:
        return ~(self == other)

    __hash__ = None


class Predictions:
    """The tagger's results for some sequences, cut back into these sequences."""

    def __init__(self, names: list[Any], tagged: list[Any], gold: NDArray[np.int32], lengths: Lengths | None) -> None:
        self.names, self.gold = names, gold
        self._tagged, self._lengths = tagged, lengths
        self._begins = np.flatnonzero(self.each("starts")).tolist()

    def each(self, name: str, axis: int = 0) -> NDArray[Any]:
        """An attribute of all positions."""
        parts = [getattr(part, name) for part in self._tagged]
        return np.concatenate(parts, axis) if parts else np.empty((0,) * (1 + axis), np.int32)

    def whole(self, name: str) -> NDArray[Any]:
        """An attribute of all sequences that have positions."""
        parts = [getattr(part.sequences, name) for part in self._tagged]
        return np.concatenate(parts) if parts else np.empty((0, 0))

    def named(self, labels: NDArray[np.int32]) -> list[str]:
        named: list[str] = np.array([*self.names, ""], object)[labels].tolist()
        return named

    def pieces(self, values: Any) -> list[Any]:
        """Values of positions, by sequence."""
        ends = [*self._begins[1:], len(values)]
        return [values[begin:end] for begin, end in zip(self._begins, ends, strict=True)] if self._begins else []

    def lists(self, values: list[Any]) -> Objects:
        return self.aligned(self.pieces(values), list).view(LabelLists)

    def aligned(self, of_sequences: Iterable[Any], empty: Callable[[], Any]) -> Objects:
        """Values of sequences; `empty` gives that of a sequence without positions."""
        each = iter(of_sequences)
        values = list(each) if self._lengths is None else [next(each) if n else empty() for n in self._lengths.counts]
        array = np.empty(len(values), object)
        for k, value in enumerate(values):
            array[k] = value
        return array

    def weights(self, of_sequences: ArrayLike | None) -> Floats:
        """The weight of each position: that of its sequence."""
        lengths = [len(piece) for piece in self.pieces(self.gold)] if self._lengths is None else self._lengths.counts
        if of_sequences is None:
            return np.ones(self.gold.size)
        return np.repeat(checked_weights(of_sequences, "sequence", len(lengths)), lengths)
