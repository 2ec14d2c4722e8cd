"""(d) Where `emp` and `stream` stand as the weights grow, and what more labels cost.

Synthetic chains with few labels and many, and so many attributes that the number of weights M = N·V + N² goes up by
decades. `emp` moves every one of its M components at every position; `stream` meets those of the active attributes.

Where there are many weights, the chain on which `emp` can be timed is too short for most of them to have occurred. A
component that has not yet occurred is -∞, and ⊕ with -∞ takes neither exponential nor logarithm: there a position of
`emp` is cheaper than on a long chain, and what is measured is a lower bound. `seen` is the share that has occurred.

What the labels cost is measured with few attributes, all of which occur at once: `emp` beside the older `forward-only`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainfold.chain.synthetic import SyntheticChain
from experiments.ledger import Result, RunPiece
from experiments.paper import measurement
from experiments.paper.run_plan import RunPlan

if TYPE_CHECKING:
    from experiments.paper.corpus import Corpus

ACTIVE = 5  # attributes a position
ENGINES = ("emp", "stream")
FORWARD = ("emp", "forward-only")

_NUMBERS, _QUICK_NUMBERS, _ATTRIBUTES = (2, 4, 8, 16), (4, 8, 16), 20  # of labels, and of attributes with them
_LABELS, _QUICK_LABELS = (2, 5, 22), (2, 5)
_FEWEST = 20  # weights, or as few as the labels allow
_STEP, _QUICK_STEP = 10, 100  # from one number of weights to the next
_LOG_ADDITION = 30e-9  # seconds of one ⊕, at most
_EMP_SECONDS, _QUICK_EMP_SECONDS = 2.0, 1.0  # at most, as far as the length can be chosen
_EMP_POSITIONS = 4, 100_000
_SETTLED = 100  # positions at least, to tell what labels cost: at first most of what is carried is nothing
_STREAM_POSITIONS = 2_000_000  # a few hundred nanoseconds each
_SHORT = 5.0  # seconds; a longer one is measured once
_LOOKED = 100_000  # positions, to see what has occurred


class Size(NamedTuple):
    """The labels and attributes of a synthetic chain."""

    n_labels: int
    n_attributes: int

    @property
    def weights(self) -> int:
        return self.n_labels * self.n_attributes + self.n_labels**2

    @property
    def additions(self) -> int:
        """⊕ a position."""
        return self.n_labels**2 * (self.weights + ACTIVE)


def pieces(plan: RunPlan, corpus: Corpus) -> list[RunPiece]:
    """One for each size and engine; the chains are made up, and nothing is wanted of the corpus."""
    of_labels = [Size(n_labels, _ATTRIBUTES) for n_labels in (_QUICK_NUMBERS if plan.quick else _NUMBERS)]
    return [
        *(_piece(plan, "weights", size, engine) for size in sizes(plan) for engine in ENGINES),
        *(_piece(plan, "labels", size, engine) for size in of_labels for engine in FORWARD),
    ]


def sizes(plan: RunPlan) -> Iterator[Size]:
    """For each number of labels, weights by decades up to the most, from as few as there can be; quickly, by two."""
    wanted, step = [plan.most_weights], _QUICK_STEP if plan.quick else _STEP
    while wanted[-1] >= step * _FEWEST:
        wanted.append(wanted[-1] // step)
    for n_labels in _QUICK_LABELS if plan.quick else _LABELS:
        attributes = {max(ACTIVE, round((weights - n_labels**2) / n_labels)) for weights in wanted}
        yield from (Size(n_labels, each) for each in sorted(attributes))


def _piece(plan: RunPlan, kind: str, size: Size, engine: str) -> RunPiece:
    positions = _length(plan, size, engine, _SETTLED if kind == "labels" else _EMP_POSITIONS[0])
    return RunPiece(
        key=f"{kind}/{size.n_labels}/{size.weights}/{engine}",
        title=f"{engine} with {size.n_labels} labels and {size.weights:,} weights",
        run=partial(_measured, plan, size, engine, positions),
    )


def _length(plan: RunPlan, size: Size, engine: str, least: int) -> int:
    """Positions that take about the seconds that there are."""
    if engine == "stream":
        return _STREAM_POSITIONS
    one = size.additions * (size.n_labels if engine == "forward-only" else 1) * _LOG_ADDITION
    return min(max(round((_QUICK_EMP_SECONDS if plan.quick else _EMP_SECONDS) / one), least), _EMP_POSITIONS[1])


def _measured(plan: RunPlan, size: Size, engine: str, positions: int, done: Mapping[str, Result]) -> Result:
    """The chain is held in memory, made before the clock starts: of `stream`'s time it would be a good part."""
    what = measurement.Point(engine=engine, positions=positions, held="memory", synthetic=(*size, ACTIVE))
    rounds = [measurement.measure(what)]
    if rounds[0]["outcome"] == "measured" and rounds[0]["seconds"] < _SHORT:
        rounds += [measurement.measure(what) for _ in range(plan.rounds - 1)]
    measured = [each for each in rounds if each["outcome"] == "measured"]
    seconds = [each["seconds"] for each in measured]
    return {
        "labels": size.n_labels,
        "attributes": size.n_attributes,
        "active": ACTIVE,
        "weights": size.weights,
        "engine": engine,
        "positions": positions,
        "seconds": seconds,
        "nanoseconds": median(seconds) / positions * 1e9 if seconds else None,
        "peak_rss": max((each["peak_rss"] for each in measured), default=None),
        "seen": _seen(size, positions),
    }


def _seen(size: Size, positions: int) -> float:
    """The share of the attributes that occur in the first positions."""
    block = SyntheticChain(positions, *size, ACTIVE, seed=measurement.SEED).block(0, min(positions, _LOOKED))
    return int(np.unique(block.ids).size) / size.n_attributes
