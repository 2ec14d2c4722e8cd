"""Feature functions: what the paper's algorithms read of a model and a chain.

    f_m(y', y, x, k)                                      feature m at position k with y_k = y after y_{k-1} = y'
    𝒜_k(y', y) = {m : f_m(y', y, x, k) ≠ 0}               the active ones, equation (43)
    u_k(y', y) = Σ_{m ∈ 𝒜_k(y', y)} θ_m f_m(y', y, x, k)  the local kernels, equation (29); ψ in section IV

A feature of a model belongs to an attribute of the position and to y; to the transition (y', y); or to an edge
attribute of the position and to (y', y). At a start mark only the first kind is active: u_k(y', y) is the same for all
y', which is all that it takes to cut the chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chainfold.errors import ChainfoldError, ScoreNotFinite
from chainfold.reference.semirings import Floats

if TYPE_CHECKING:
    from chainfold.chain.block import Source
    from chainfold.model.model import Model

ACTIVE = np.dtype([("m", np.int64), ("origin", np.int64), ("label", np.int64), ("f", np.float64)])
"""An active feature: its number m, its y', its y and the value of f_m(y', y, x, k), of either sign."""

ActiveFeatures = NDArray[Any]  # [entries] of `ACTIVE`: one for each (y', y) and each m in 𝒜_k(y', y)

_AT_ONCE = 1024  # positions that are read


def local_kernels(
    theta: Floats, features: Iterable[ActiveFeatures], n_labels: int
) -> Iterator[tuple[Floats, ActiveFeatures]]:
    """u_k [N, N] and 𝒜_k of each position. Raises `ScoreNotFinite` where a kernel is nan or +inf."""
    for position, active in enumerate(features):
        u = np.zeros((n_labels, n_labels))
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.at(u, (active["origin"], active["label"]), theta[active["m"]] * active["f"])
        if not (u < np.inf).all():
            raise ScoreNotFinite(position)
        yield u, active


def features_of(model: Model, chain: Source) -> Iterator[ActiveFeatures]:
    """The active features of each position of a chain under a model, position by position."""
    if model.first is not None or model.last is not None or chain.block(0, 1).weights.size:
        raise ChainfoldError(
            "the paper knows no weights of sequences, and no labels that may not start or end one; take an engine."
        )
    layout, n = model.layout, model.layout.n_labels
    source = model.aligned(chain)
    for low in range(0, source.positions, _AT_ONCE):
        block = source.block(low, min(low + _AT_ONCE, source.positions))
        for t, start in enumerate(block.starts):
            active = []  # (m, y', y, f)
            for attribute, value in _entries(block.offsets, block.ids, block.values, t):
                numbers = [(layout.index(attribute, y), y) for y in range(n)]
                active += [(m, origin, y, value) for m, y in numbers if m is not None for origin in range(n)]
            if not start:
                edges = [
                    (1 + b, value) for b, value in _entries(block.edge_offsets, block.edge_ids, block.edge_values, t)
                ]
                pairs = [(origin, y) for origin in range(n) for y in range(n)]
                for edge, value in [(0, 1.0), *edges]:
                    first = layout.n_state + edge * n * n
                    active += [(first + origin * n + y, origin, y, value) for origin, y in pairs]
            yield np.array([entry for entry in active if entry[3] != 0.0], ACTIVE)


def _entries(offsets: Any, ids: Any, values: Any, t: int) -> list[tuple[int, float]]:
    """(number, value) of each attribute of a position; a chain without values has ones."""
    if not offsets.size:
        return []
    own = slice(offsets[t], offsets[t + 1])
    numbers = ids[own].tolist()
    return list(zip(numbers, values[own].tolist() if values.size else [1.0] * len(numbers), strict=True))


def one_state(n_labels: int) -> Floats:
    """log α_0 [N] of a chain that starts in one state, where the paper sums over a free y_0."""
    alpha = np.full(n_labels, -np.inf)
    alpha[0] = 0.0
    return alpha
