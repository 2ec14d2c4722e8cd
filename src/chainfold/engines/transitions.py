"""The scores of transitions as kernels take them, and exp of them."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from chainfold.core import EDGE_RANGE, exponentiate_edges
from chainfold.core.slots import aligned, is_few
from chainfold.model.layout import Floats


class Transitions:
    """The scores of transitions as kernels take them.

    scores      [1, N · width]  V
    edge        [1, N · width]  E = exp(V - shift)
    edge_t      [N, width]  E transposed
    only_wide   transition scores span more than a double allows
    watch       forward vectors may leave the range of a double
    few         whether there are so few labels that a row is half a vector
    """

    def __init__(self, scores: Floats, n_labels: int, restricted: bool, has_edges: bool) -> None:
        """restricted: labels may be forbidden by state scores; has_edges: each position has a matrix of its own."""
        self.scores, self.n_labels = scores, n_labels
        self.width: int = scores.shape[1] // n_labels
        self.few = is_few(n_labels)
        self.edge, self.edge_t = aligned(*scores.shape), aligned(n_labels, self.width)
        self.edge[:] = scores
        self.shift = np.zeros(1)
        widest = exponentiate_edges(self.edge, self.shift)
        square = self.edge.reshape(n_labels, self.width)[:, :n_labels]
        self.edge_t[:, :n_labels] = square.T
        self.only_wide = bool(widest > EDGE_RANGE) and not has_edges
        some_forbidden = bool(np.count_nonzero(square) < square.size)  # or too rare: then only_wide is set
        self.watch = has_edges or restricted or some_forbidden

    @cached_property
    def log_edge(self) -> Floats:
        """[N · width]  log E, 0 where E is zero."""
        with np.errstate(over="ignore"):  # where the difference leaves the range, the edge is zero
            return np.where(self.edge > 0.0, self.scores - self.shift, 0.0).ravel()
