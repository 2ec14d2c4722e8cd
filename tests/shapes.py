"""Awkward chains, small enough to enumerate: each is a name and a function of a random generator."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from chainfold import Chain, Layout, Model

Case = tuple[Model, Chain]


def chain(
    random: np.random.Generator,
    positions: int,
    n_labels: int,
    n_attributes: int = 4,
    *,
    most: int = 3,
    values: str = "real",
    starts: Any = None,
    n_edge_attributes: int = 0,
    labels: Any = "random",
) -> Chain:
    """A chain with up to `most` attributes a position, none at some positions."""
    counts = random.integers(0, most + 1, positions) if most else np.zeros(positions, int)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    ids = random.integers(0, n_attributes, offsets[-1])
    numbers = {
        "one": None,
        "real": random.normal(size=offsets[-1]),
        "huge": random.normal(size=offsets[-1]) * 10.0 ** random.integers(-3, 4, offsets[-1]),
        "positive": random.uniform(0.1, 2.0, offsets[-1]),
        "sometimes zero": random.integers(0, 2, offsets[-1]).astype(float),
    }[values]
    edges: dict[str, Any] = {}
    if n_edge_attributes:
        edge_counts = random.integers(0, 3, positions)
        edge_offsets = np.concatenate([[0], np.cumsum(edge_counts)])
        edges = {
            "edge_offsets": edge_offsets,
            "edge_ids": random.integers(0, n_edge_attributes, edge_offsets[-1]),
            "edge_values": None if values == "one" else random.normal(size=edge_offsets[-1]),
            "n_edge_attributes": n_edge_attributes,
        }
    return Chain.from_arrays(
        offsets=offsets,
        ids=ids,
        values=numbers,
        labels=random.integers(0, n_labels, positions) if isinstance(labels, str) else labels,
        starts=starts,
        n_labels=n_labels,
        n_attributes=n_attributes,
        **edges,
    )


def model(random: np.random.Generator, source: Chain, scale: float = 1.0, layout: Layout | None = None) -> Model:
    layout = layout or Layout.full(source.n_labels, source.n_attributes, source.n_edge_attributes)
    return Model(layout, random.normal(0.0, scale, layout.size))


def plain(positions: int, n_labels: int, scale: float = 1.0, **options: Any) -> Callable[[np.random.Generator], Case]:
    def make(random: np.random.Generator) -> Case:
        source = chain(random, positions, n_labels, **options)
        return model(random, source, scale), source

    return make


def every(mark: Callable[[int], bool], positions: int = 7) -> list[bool]:
    return [mark(t) for t in range(positions)]


def forbidding(
    transitions: bool, labels: bool, scale: float = 1.0, **options: Any
) -> Callable[[np.random.Generator], Case]:
    """Some transitions and labels have a weight of -inf, but never all at once."""

    def make(random: np.random.Generator) -> Case:
        source = chain(random, 6, 3, 6, values="positive", labels=np.zeros(6, int), **options)
        base = model(random, source, scale)
        weights = base.weights.copy()
        n = base.layout.n_state
        if labels:  # label 0 is always allowed
            rows = weights[:n].reshape(-1, 3)
            rows[random.random(rows.shape) < 0.4] = -np.inf
            rows[:, 0] = random.normal(size=len(rows))
        if transitions:  # 0 to 0 is always allowed
            pairs = weights[n : n + 9]
            pairs[[1, 3, 5, 8]] = -np.inf
        return Model(base.layout, weights), source

    return make


def transitions(table: Any, scale: float = 0.0, positions: int = 8) -> Callable[[np.random.Generator], Case]:
    """Given transition scores over state scores of the given scale."""

    def make(random: np.random.Generator) -> Case:
        scores = np.array(table, float)
        source = chain(random, positions, len(scores), labels=None, values="positive")
        base = model(random, source, scale)
        weights = base.weights.copy()
        weights[base.layout.n_state :] = scores.ravel()
        return Model(base.layout, weights), source

    return make


def sparse_layout(random: np.random.Generator) -> Case:
    """Only the pairs that occur have weights; the dense prefix and the sparse tail are both in use."""
    source = chain(random, 6, 4, 12, most=5)
    layout = Layout.observed(source)
    return model(random, source, layout=layout), source


def rows_without_weights(random: np.random.Generator) -> Case:
    """Attributes 2 and 3 occur but have no weights at all; nothing after the padded rows."""
    source = chain(random, 6, 3, 4, most=4)
    layout = Layout(3, 4, 0, np.array([0, 3, 6, 6, 6], np.int64), np.array([0, 1, 2, 0, 1, 2], np.int32))
    return model(random, source, layout=layout), source


def late_reversal(n_labels: int, positions: int) -> Callable[[np.random.Generator], Case]:
    """Labels that never change: the first half favours one by e^600 at least, beyond the range of a double; the second
    half takes it all back. Only logarithms keep the loser's account."""

    def make(random: np.random.Generator) -> Case:
        half = positions // 2
        source = Chain.from_arrays(
            offsets=np.arange(positions + 1),
            ids=np.zeros(positions, int),
            values=np.array([200.0] * half + [-200.0] * half),
            labels=np.zeros(positions, int),
            n_labels=n_labels,
            n_attributes=1,
        )
        stay = np.where(np.eye(n_labels) > 0.0, 0.0, -np.inf)
        return Model(Layout.full(n_labels, 1), np.concatenate([np.linspace(1.0, -1.0, n_labels), stay.ravel()])), source

    return make


_INF = np.inf
CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "one position": plain(1, 3),
    "one label": plain(6, 1),
    "one position, one label": plain(1, 1),
    **{f"{n} labels": plain(t, n) for n, t in ((2, 10), (3, 7), (4, 6), (5, 5), (6, 4), (7, 4))},
    "nine labels, more than a vector": plain(3, 9),
    "all values one": plain(7, 3, values="one"),
    "values zero here and there": plain(7, 3, values="sometimes zero"),
    "no attributes anywhere": plain(6, 3, most=0),
    "start marks everywhere": plain(7, 3, starts=every(lambda t: True)),
    "start marks at the ends": plain(7, 3, starts=every(lambda t: t in (0, 6))),
    "a start mark in the middle": plain(7, 3, starts=every(lambda t: t == 3)),
    "start marks in pairs": plain(7, 3, starts=every(lambda t: t in (2, 3, 5))),
    "labels unknown": plain(6, 3, labels=None),
    "one label unknown": plain(6, 3, labels=[0, 1, -1, 2, 0, 1]),
    "huge and negative values": plain(6, 3, values="huge"),
    "weights of 50": plain(6, 3, scale=50.0),
    "weights of 1000": plain(6, 3, scale=1000.0, values="one"),
    "weights of 1000, start marks": plain(7, 2, scale=1000.0, values="one", starts=every(lambda t: t % 3 == 0)),
    "weights of 1000, edge attributes": plain(5, 3, scale=1000.0, values="one", n_edge_attributes=2),
    "edge attributes": plain(6, 3, n_edge_attributes=3),
    "edge attributes, one label": plain(5, 1, n_edge_attributes=2),
    "edge attributes, start marks": plain(7, 2, n_edge_attributes=2, starts=every(lambda t: t in (1, 4))),
    "edge attributes, all values one": plain(6, 3, n_edge_attributes=3, values="one"),
    "forbidden transitions": forbidding(True, False),
    "forbidden labels": forbidding(False, True),
    "forbidden transitions and labels": forbidding(True, True),
    "forbidden transitions, weights of 300": forbidding(True, False, scale=300.0),
    "forbidden labels, weights of 1000": forbidding(False, True, scale=1000.0),
    "forbidden transitions, start marks": forbidding(True, True, starts=every(lambda t: t in (2, 3), 6)),
    "forbidden transitions, edge attributes": forbidding(True, True, n_edge_attributes=2),
    "sparse layout": sparse_layout,
    "rows without weights": rows_without_weights,
    "a deterministic cycle": transitions([[-_INF, 0, -_INF], [-_INF, -_INF, 0], [0, -_INF, -_INF]]),
    "a cycle with scores": transitions([[-_INF, 0, -_INF], [-_INF, -_INF, 0], [0, -_INF, -_INF]], scale=1.0),
    "identity, flat": transitions([[0, -_INF], [-_INF, 0]]),
    "nearly identity, flat": transitions([[0, -30], [-30, 0]]),
    "block-diagonal": transitions([[0, 1, -_INF], [2, 0, -_INF], [-_INF, -_INF, 0.5]], scale=1.0),
    "late reversal": late_reversal(2, 8),
    "late reversal, five labels": late_reversal(5, 6),
    "five labels, start marks": plain(6, 5, starts=every(lambda t: t in (2, 3), 6)),
    "five labels, all values one": plain(5, 5, values="one"),
    "five labels, small weights": plain(6, 5, scale=0.01),
    "block-diagonal, five labels": transitions(
        np.where(np.arange(5) // 2 == np.arange(5)[:, None] // 2, 0.5, -_INF), scale=1.0, positions=5
    ),
}


def generator(name: str) -> np.random.Generator:
    """The random numbers of a case: always the same."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def case(name: str) -> Case:
    """The model and the chain of a case."""
    return CASES[name](generator(name))
