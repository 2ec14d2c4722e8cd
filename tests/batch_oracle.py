"""The truth for small batches: every labelling of every sequence, in plain Python and doubles."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass
class Batch:
    """A batch as plain arrays, batch first."""

    emissions: Floats  # [B, T, N]
    transitions: Floats
    start: Floats
    end: Floats
    mask: NDArray[np.bool_]  # [B, T]
    tags: NDArray[np.int64]  # [B, T], -100 where unknown
    edges: Floats | None = None  # [B, T, N, N]
    allowed: NDArray[np.bool_] | None = None


@dataclass
class Truth:
    """What enumeration finds for each sequence."""

    log_z: list[float] = field(default_factory=list)
    log_likelihood: list[float] = field(default_factory=list)
    best: list[list[int]] = field(default_factory=list)
    scores: list[list[float]] = field(default_factory=list)  # of all possible labellings, best first
    entropy: list[float] = field(default_factory=list)
    marginals: Floats = field(default_factory=lambda: np.empty(0))  # [B, T, N]


def enumerate_batch(batch: Batch) -> Truth:
    truth = Truth(marginals=np.zeros_like(batch.emissions))
    n = batch.emissions.shape[-1]
    for s in range(len(batch.emissions)):
        places = np.flatnonzero(batch.mask[s])
        paths = list(itertools.product(range(n), repeat=places.size))
        scores = np.array([_score(batch, s, places, path) for path in paths])
        total = _log_sum(scores)
        order = sorted(range(len(paths)), key=lambda k: -scores[k])
        truth.log_z.append(total)
        truth.best.append(list(paths[order[0]]))
        truth.scores.append([float(scores[k]) for k in order if scores[k] > -math.inf])
        agree = [k for k, path in enumerate(paths) if _agrees(batch, s, places, path)]
        truth.log_likelihood.append(_log_sum(scores[agree]) - total if total > -math.inf else math.nan)
        shares = np.exp(scores - total) if total > -math.inf else np.full(len(paths), math.nan)
        truth.entropy.append(float(-sum(p * math.log(p) for p in shares if p > 0.0)))
        for path, share in zip(paths, shares, strict=True):
            for place, label in zip(places, path, strict=True):
                truth.marginals[s, place, label] += share
    return truth


def _agrees(batch: Batch, s: int, places: NDArray[np.int64], path: tuple[int, ...]) -> bool:
    tags = batch.tags[s, places]
    fits = all(tag in (-100, label) for tag, label in zip(tags, path, strict=True))
    if batch.allowed is None:
        return fits
    return fits and all(batch.allowed[s, place, label] for place, label in zip(places, path, strict=True))


def _score(batch: Batch, s: int, places: NDArray[np.int64], path: tuple[int, ...]) -> float:
    if not path:
        return 0.0
    score = float(batch.start[path[0]] + batch.end[path[-1]])
    for k, (place, label) in enumerate(zip(places, path, strict=True)):
        score += float(batch.emissions[s, place, label])
        if k > 0:
            score += float(batch.transitions[path[k - 1], label])
            if batch.edges is not None:
                score += float(batch.edges[s, place, path[k - 1], label])
    return score


def _log_sum(scores: Floats) -> float:
    if scores.size == 0 or scores.max() == -math.inf:
        return -math.inf
    return float(scores.max() + math.log(np.exp(scores - scores.max()).sum()))
