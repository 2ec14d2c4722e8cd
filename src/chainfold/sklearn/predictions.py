"""Results of the tagger by sequence, as scikit-learn users expect them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chainfold.chain.block import checked_weights
from chainfold.errors import BadChain
from chainfold.jit.marginal_kernels import fill
from chainfold.model.layout import Floats
from chainfold.sklearn.crf_inputs import Lengths

Objects = NDArray[np.object_]


def dicts(labels: list[Any], marginals: Floats) -> list[dict[Any, float]]:
    """The probability of each label, for each row of marginals: [T, N]."""
    rows: list[Any] = [None] * len(marginals)
    like, addresses = dict.fromkeys(labels), np.array([id(label) for label in labels], np.int64)
    table = np.ascontiguousarray(marginals, np.float64).reshape(len(rows), len(labels))
    if not fill(id(rows), id(like), addresses, table):
        raise MemoryError
    return rows


class Predictions:
    """The tagger's results for some sequences, cut back into these sequences."""

    def __init__(self, names: list[Any], tagged: list[Any], gold: NDArray[np.int32], lengths: Lengths | None) -> None:
        self.names, self.gold = names, gold
        self._tagged = tagged
        self._begins = np.flatnonzero(self.each("starts")).tolist()
        found = [len(piece) for piece in self.pieces(gold)]
        self._counts = found if lengths is None else lengths.counts
        if [count for count in self._counts if count] != found:
            raise BadChain("the sequences were changed while they were read; give a copy that no other thread changes.")

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

    def aligned(self, of_sequences: Iterable[Any], empty: Callable[[], Any]) -> Objects:
        """Values of sequences; `empty` gives that of a sequence without positions."""
        each, array = iter(of_sequences), np.empty(len(self._counts), object)
        for k, count in enumerate(self._counts):
            array[k] = next(each) if count else empty()
        return array

    def weights(self, of_sequences: ArrayLike | None) -> Floats:
        """The weight of each position: that of its sequence."""
        if of_sequences is None:
            return np.ones(self.gold.size)
        return np.repeat(checked_weights(of_sequences, "sequence", len(self._counts)), self._counts)
