"""A seeded chain of any length that needs no storage.

Its labels are a random walk on a circle of N labels and its attributes are drawn given the label, so that the labels,
given the attributes, are a sample of a CRF whose weights are known: `true_weights`. A model trained on the chain can be
compared with the truth. That the walk's steps depend on the difference of labels alone makes every label equally
likely at a start, and every edge attribute's normaliser the same for each label; so no weight is missing from the CRF.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import MOST_IDS, MOST_LABELS, Block, frozen
from chainfold.errors import BadSetting
from chainfold.jit.synthetic_kernels import SHARPNESS, SyntheticRecipe, synthesise, walk

_PITCH = 4096  # positions between two remembered labels
_RECENT = 64  # blocks whose last label is remembered beside


class SyntheticChain:
    """A random chain that is generated block by block, for tests and benchmarks.

    positions, n_labels, n_attributes, n_edge_attributes   its sizes
    active       attributes of each position
    sticky       the probability that a label follows itself (1: the chain never forgets its first label)
    informative  how much of an attribute depends on the label, 0 to 1
    mean_length  of the sequences; None for one sequence
    seed         of the random numbers

    Raises `ChainfoldError` for settings out of range.

    >>> chain = SyntheticChain(1_000_000, n_labels=3, n_attributes=100, active=5, seed=1)
    >>> chain.positions, chain.block(0, 4).ids.size
    (1000000, 20)
    """

    labelled = True

    def __init__(
        self,
        positions: int,
        n_labels: int,
        n_attributes: int,
        active: int,
        *,
        sticky: float = 0.8,
        informative: float = 0.25,
        mean_length: float | None = None,
        n_edge_attributes: int = 0,
        seed: int = 0,
    ) -> None:
        for name, value, least in (
            ("seed", seed, 0),
            ("positions", positions, 1),
            ("n_labels", n_labels, 1),
            ("active", active, 0),
            ("n_attributes", n_attributes, max(active, 1)),
            ("n_edge_attributes", n_edge_attributes, 0),
        ):
            if value < least:
                raise BadSetting(name, value, f"at least {least}")
        for name, value, most in (
            ("n_labels", n_labels, MOST_LABELS),
            ("n_attributes", n_attributes, MOST_IDS),
            ("n_edge_attributes", n_edge_attributes, MOST_IDS),
        ):
            if value > most:
                raise BadSetting(name, value, f"at most {most}")
        if positions * (active + 3) >= 2**63:
            raise BadSetting("positions", positions, "fewer than 2⁶³ draws of random numbers")
        for name, share in (("sticky", sticky), ("informative", informative)):
            if not 0.0 <= share <= 1.0:
                raise BadSetting(name, share, "between 0 and 1")
        if mean_length is not None and not mean_length >= 1.0:
            raise BadSetting("mean_length", mean_length, "at least 1")
        self.positions, self.n_labels, self.n_attributes = positions, n_labels, n_attributes
        self.n_edge_attributes, self.active = n_edge_attributes, float(active)
        random = np.random.default_rng(seed)
        self._step_logs = _step_logs(random, n_labels, n_edge_attributes, sticky)
        self._recipe = _recipe(self, active, informative, mean_length, self._step_logs, random)
        self._anchors: list[int] = [0]  # the label before every _PITCH-th position, as far as they are known
        self._ends: dict[int, int] = {}  # the label before the end of each of the latest blocks, where a reader goes on
        self._lock = threading.Lock()

    def block(self, low: int, high: int) -> Block:
        size, active = high - low, self._recipe.active
        labels, starts = np.empty(size, np.int32), np.empty(size, np.bool_)
        ids = np.empty(size * active, np.int32)
        edge_ids = np.empty(size if self.n_edge_attributes else 0, np.int32)
        synthesise(self._recipe, low, self._label_before(low), labels, starts, ids, edge_ids)
        self._remember(high, int(labels[-1]))
        return Block(
            frozen(labels, np.int32),
            frozen(starts, np.bool_),
            frozen(np.arange(size + 1) * active, np.int64),
            frozen(ids, np.int32),
            frozen(None, np.float64),
            frozen(np.arange(size + 1) if self.n_edge_attributes else None, np.int64),
            frozen(edge_ids, np.int32),
            frozen(None, np.float64),
        )

    def true_weights(self) -> NDArray[np.float64]:
        """The weights from which the labels are sampled, in the order of `Layout.full`."""
        n, recipe = self.n_labels, self._recipe
        state = np.zeros((self.n_attributes, n))
        sharpness = recipe.sharpness / SHARPNESS
        with np.errstate(divide="ignore"):
            for k in range(recipe.active):
                rows = state[k :: recipe.active]  # attribute ids are rank · A + k
                p = _ranks(len(rows))
                for label in range(n):
                    shifted = np.roll(p, label * len(rows) // n)
                    rows[:, label] = np.log((1.0 - sharpness) * p + sharpness * shifted)
        step = (np.arange(n)[None, :] - np.arange(n)[:, None]) % n  # [i, j]  from i to j
        logs = self._step_logs[:, step]
        with np.errstate(invalid="ignore"):  # -inf - -inf: forbidden by the transition, with any edge attribute
            edges = logs[1:] - logs[:1] if self.n_edge_attributes else logs[:0]
        return np.concatenate([state.ravel(), logs[0].ravel(), np.nan_to_num(edges, nan=0.0).ravel()])

    def _remember(self, high: int, label: int) -> None:
        with self._lock:
            self._ends[high] = label
            if len(self._ends) > _RECENT:
                del self._ends[next(iter(self._ends))]

    def _label_before(self, low: int) -> int:
        with self._lock:
            if low in self._ends:
                return self._ends[low]
            while len(self._anchors) <= low // _PITCH:
                begin = (len(self._anchors) - 1) * _PITCH
                self._anchors.append(walk(self._recipe, begin, begin + _PITCH, self._anchors[-1]))
        anchor = low // _PITCH
        return int(walk(self._recipe, anchor * _PITCH, low, self._anchors[anchor]))


def _ranks(count: int) -> NDArray[np.float64]:
    """Zipf's law: rank r has probability proportional to 1 / (r + 1)."""
    p = 1.0 / np.arange(1.0, count + 1.0)
    return np.asarray(p / p.sum())


def _step_logs(
    random: np.random.Generator, n_labels: int, n_edge_attributes: int, sticky: float
) -> NDArray[np.float64]:
    """[1 + K, N]: log of the distribution of the step d, without an edge attribute and, unnormalised, with each."""
    q = np.concatenate([[0.0], random.uniform(0.5, 1.5, n_labels - 1)])
    q = (1.0 - sticky) * q / max(q.sum(), 1.0 if n_labels == 1 else 0.0)
    q[0] = sticky if n_labels > 1 else 1.0
    tilt = np.concatenate([np.zeros((1, n_labels)), random.normal(0.0, 0.5, (n_edge_attributes, n_labels))])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(q) + tilt)


def _recipe(
    chain: SyntheticChain,
    active: int,
    informative: float,
    mean_length: float | None,
    step_logs: NDArray[np.float64],
    random: np.random.Generator,
) -> SyntheticRecipe:
    steps = np.exp(step_logs[1:] if chain.n_edge_attributes else step_logs)
    shortest = chain.n_attributes // max(active, 1)
    tables = [_alias(_ranks(shortest)), _alias(_ranks(shortest + 1))]
    return SyntheticRecipe(
        key=np.uint64(random.integers(2**63)),
        n_labels=chain.n_labels,
        n_attributes=chain.n_attributes,
        active=active,
        start_probability=0.0 if mean_length is None else 1.0 / mean_length,
        steps=np.cumsum(steps / steps.sum(axis=1, keepdims=True), axis=1),
        n_edge_attributes=chain.n_edge_attributes,
        sharpness=round(informative * SHARPNESS),
        chance=np.array([np.append(tables[0][0], 1.0), tables[1][0]]),
        alias=np.array([np.append(tables[0][1], 0), tables[1][1]]),
    )


def _alias(p: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Walker's alias method: rank r is kept with chance[r], otherwise it becomes alias[r]."""
    chance, alias = p * p.size, np.arange(p.size)
    small, large = [int(r) for r in np.flatnonzero(chance < 1.0)], [int(r) for r in np.flatnonzero(chance >= 1.0)]
    while small and large:
        less, more = small.pop(), large.pop()
        alias[less] = more
        chance[more] -= 1.0 - chance[less]
        (small if chance[more] < 1.0 else large).append(more)
    chance[small + large] = 1.0
    return chance, alias
