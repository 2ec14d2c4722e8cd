"""The truth, slowly: every path is enumerated, in extended precision, by code that shares nothing with the engines."""

from __future__ import annotations

import itertools
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from chainfold import Chain, Layout, Model
from tolerances import FLOOR, ORACLE

Long = np.longdouble
NEVER = Long(-np.inf)


@dataclass(frozen=True)
class Truth:
    """What enumeration finds."""

    log_z: float
    log_likelihood: float | None
    expected: NDArray[np.float64]
    observed: NDArray[np.float64]
    magnitude: NDArray[np.float64]  # of the terms of each count: what its rounding error is relative to

    def check(self, log_z: float, log_likelihood: float | None, expected: NDArray[np.float64]) -> None:
        scale = max(1.0, abs(self.log_z))
        assert abs(log_z - self.log_z) <= ORACLE * scale, (log_z, self.log_z)
        if self.log_likelihood is None:
            assert log_likelihood is None
        else:
            assert log_likelihood is not None
            assert abs(log_likelihood - self.log_likelihood) <= ORACLE * scale, (log_likelihood, self.log_likelihood)
        error = np.abs(expected - self.expected)
        wrong = np.flatnonzero(~(error <= ORACLE * self.magnitude + FLOOR))
        assert wrong.size == 0, (wrong, expected[wrong], self.expected[wrong])


def index_of(layout: Layout, attribute: int, label: int) -> int | None:
    """The weight of (attribute, label), or None if there is none."""
    if layout.row_offsets is None or layout.row_labels is None:
        return attribute * layout.n_labels + label
    low, high = layout.row_offsets[attribute], layout.row_offsets[attribute + 1]
    found = np.flatnonzero(layout.row_labels[low:high] == label)
    return int(low + found[0]) if found.size else None


def features(chain: Chain, layout: Layout, t: int, previous: int | None, label: int) -> list[tuple[int, float]]:
    """The active features (weight, value) of one position of one path."""
    active = []
    for k in range(chain.offsets[t], chain.offsets[t + 1]):
        m = index_of(layout, int(chain.ids[k]), label)
        if m is not None:
            active.append((m, float(chain.values[k]) if chain.values.size else 1.0))
    if previous is not None:
        pair = previous * layout.n_labels + label
        active.append((layout.n_state + pair, 1.0))
        if chain.n_edge_attributes:
            for k in range(chain.edge_offsets[t], chain.edge_offsets[t + 1]):
                m = layout.n_state + (1 + int(chain.edge_ids[k])) * layout.n_labels**2 + pair
                active.append((m, float(chain.edge_values[k]) if chain.edge_values.size else 1.0))
    return active


def score(active: list[tuple[int, float]], weights: NDArray[np.float64]) -> Long:
    """Σ f_m θ_m, a value of zero counting nothing even beside a weight of -inf."""
    return sum((Long(value) * Long(weights[m]) for m, value in active if value != 0.0), Long(0.0))


def possible(model: Model, chain: Chain, t: int, label: int) -> bool:
    """May the label stand where it does, as far as beginning and ending a sequence goes?"""
    ends = t + 1 == chain.positions or chain.starts[t + 1]
    begins_well = model.first is None or not chain.starts[t] or model.first[label]
    return bool(begins_well and (model.last is None or not ends or model.last[label]))


def enumerate_sequences(model: Model, chain: Chain) -> Truth:
    """Each sequence by itself, every number times its weight."""
    low, total = np.flatnonzero(chain.starts), Truth(0.0, 0.0, *(np.zeros(model.layout.size) for _ in range(3)))
    for begin, end in zip(low, [*low[1:], chain.positions], strict=True):
        block = chain.block(int(begin), int(end))._replace(weights=np.empty(0))
        one = enumerate_paths(model, Chain(*block, chain.n_labels, chain.n_attributes, chain.n_edge_attributes))
        pairs = zip(astuple(total), astuple(one), strict=True)
        total = Truth(*(sums + chain.weights[begin] * terms for sums, terms in pairs))
    return total


def enumerate_paths(model: Model, chain: Chain) -> Truth:
    layout, positions = model.layout, chain.positions
    n = layout.n_labels
    lists: dict[tuple[int, int | None, int], list[tuple[int, float]]] = {}
    scores: dict[tuple[int, int | None, int], Long] = {}
    for t in range(positions):
        for previous in (None,) if chain.starts[t] else range(n):
            for label in range(n):
                active = features(chain, layout, t, previous, label)
                lists[t, previous, label] = active
                scores[t, previous, label] = score(active, model.weights) if possible(model, chain, t, label) else NEVER

    def steps(path: tuple[int, ...]) -> list[tuple[int, int | None, int]]:
        return [(t, None if chain.starts[t] else path[t - 1], path[t]) for t in range(positions)]

    paths = [steps(path) for path in itertools.product(range(n), repeat=positions)]
    totals = np.array([sum(scores[step] for step in path) for path in paths], Long)
    peak = totals.max()
    weights = np.exp(totals - peak)
    z = weights.sum()
    mass: dict[tuple[int, int | None, int], Long] = dict.fromkeys(scores, Long(0.0))
    for path, weight in zip(paths, weights, strict=True):
        if weight > 0.0:
            for step in path:
                mass[step] += weight / z
    expected, magnitude, observed = (np.zeros(layout.size, Long) for _ in range(3))
    for step, probability in mass.items():
        for m, value in lists[step]:
            expected[m] += Long(value) * probability
            magnitude[m] += abs(Long(value)) * probability
    log_z = float(peak + np.log(z))
    likelihood = None
    if chain.labelled:
        gold = steps(tuple(int(label) for label in chain.labels))
        likelihood = float(sum(scores[step] for step in gold) - (peak + np.log(z)))
        for step in gold:
            for m, value in lists[step]:
                observed[m] += value
    return Truth(
        log_z,
        likelihood,
        expected.astype(float),
        observed.astype(float),
        magnitude.astype(float),
    )
