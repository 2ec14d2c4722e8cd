"""AdaGrad with weight decay and forgetting; the cost of a step depends on the attributes that occur in it.

A step over n positions with the gradient g of their negative log likelihood changes every weight w and its sum q:

    q ← q · 2^(-n / forget) + g²
    w ← w · e^(-c2 · n / 10⁶) - rate · g / √(q + least)

`least` is 0.1 with `forget`, and nearly zero without: once q has forgotten all larger gradients, one near zero would
otherwise cause a large step.

Where g is zero, only decay changes w and q. It is not applied at once: each row of weights has the time of its last
step, and the decay since then is applied when the row is read. Rows exist only for attributes that have occurred.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import MOST_LABELS
from chainfold.errors import BadSetting
from chainfold.model.layout import Floats
from chainfold.system.validate import LARGEST, MOST, Arrays, finite, need, within
from chainfold.training.optimisers.base import check_not_negative, check_whole

_LEAST_SUM, _LEAST_FORGETTING_SUM = 1e-16, 0.1
_LARGEST_WEIGHT = 1e100  # sums of products of weights and values stay finite
_FIRST_ROWS = 1024
_PENALTY_SPAN = 1e6  # positions over which c2 is measured

Ids = NDArray[np.int32]


@dataclass(frozen=True)
class OnlineSettings:
    """Settings of online training."""

    rate: float = 0.3  # learning rate
    batch: int = 256  # largest number of positions in a step
    c2: float = 0.0  # weights shrink by e^-c2 over a million positions
    forget: float | None = None  # positions after which a gradient counts half in AdaGrad's sums; None: always fully

    def __post_init__(self) -> None:
        check_not_negative((name, getattr(self, name)) for name in ("rate", "c2"))
        check_whole("batch", self.batch, 1)
        for name in ("rate", "forget"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and 0.0 < value < math.inf):
                raise BadSetting(name, value, "a finite number above zero")

    @property
    def weight_decay(self) -> float:
        """Decrease of the logarithm of a weight per position."""
        return self.c2 / _PENALTY_SPAN

    @property
    def sum_decay(self) -> float:
        """Decrease of the logarithm of a sum per position."""
        return 0.0 if self.forget is None else math.log(2.0) / self.forget

    @property
    def least_sum(self) -> float:
        """Number added to each sum of squared gradients."""
        return _LEAST_SUM if self.forget is None else _LEAST_FORGETTING_SUM


class OnlineWeights:
    """Rows of weights for the attributes that have occurred, and transitions; time is counted in positions."""

    def __init__(self, size: int, n_labels: int, settings: OnlineSettings) -> None:
        """size: the number of possible attributes."""
        self.size, self.n_labels, self.settings = size, n_labels, settings
        self.time = 0
        self._place = np.full(size, -1, np.int32)  # [size]  the row of each attribute; -1: none
        self._used = 0  # rows
        self._rows = _rows(_FIRST_ROWS, n_labels)
        self.transitions, self.transition_sums = np.zeros((2, n_labels, n_labels))

    @property
    def ids(self) -> Ids:
        """[rows] attributes in order of their first occurrence."""
        return self._rows["ids"][: self._used]

    @property
    def counts(self) -> NDArray[np.int64]:
        """[rows] number of occurrences."""
        return self._rows["counts"][: self._used]

    @property
    def seen(self) -> NDArray[np.bool_]:
        """[rows, N] labels with which each attribute has occurred."""
        return self._rows["seen"][: self._used]

    def current(self, ids: Ids) -> Floats:
        """[ids, N] weights at the present time; zero for attributes without a row."""
        places = self._place[ids]
        found: Floats = self._rows["weights"][places]
        found *= self._left(places, self.settings.weight_decay, self.time)
        found[places < 0] = 0.0
        return found

    def step(self, ids: Ids, gradient: Floats, transitions: Floats, positions: int) -> None:
        """Take a step; `ids` are distinct, `gradient` has their rows, `transitions` is the gradient of transitions.

        Raises `OverflowError`, and changes nothing, if numbers become too large.
        """
        settings, rows, time = self.settings, self._rows, self.time + positions
        places = self._place[ids]
        weights = rows["weights"][places] * self._left(places, settings.weight_decay, time)
        sums = rows["sums"][places] * self._left(places, settings.sum_decay, time)
        _descend(weights, sums, gradient, settings)
        between = self.transitions * math.exp(-settings.weight_decay * positions)
        between_sums = self.transition_sums * math.exp(-settings.sum_decay * positions)
        _descend(between, between_sums, transitions, settings)
        rows["weights"][places], rows["sums"][places], rows["stamps"][places] = weights, sums, time
        self.transitions, self.transition_sums, self.time = between, between_sums, time

    def grow(self, n_labels: int) -> None:
        """Extend to at least `n_labels` labels, with weights of zero."""
        self._make_room(self._used, n_labels)

    def note(self, ids: Ids, labels: NDArray[np.int32]) -> None:
        """Count attributes that occur with these labels; new ones get a row."""
        new = np.unique(ids[self._place[ids] < 0])
        high = self._used + new.size
        self._make_room(high, self.n_labels)
        self._place[new] = np.arange(self._used, high)
        self._rows["ids"][self._used : high] = new
        self._rows["stamps"][self._used : high] = self.time
        self._used = high
        places = self._place[ids]
        np.add.at(self._rows["counts"], places, 1)
        self._rows["seen"][places, labels] = True

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `of_state` continues."""
        return {
            **{name: array[: self._used] for name, array in self._rows.items()},
            "transitions": self.transitions,
            "transition_sums": self.transition_sums,
            "time": np.array(self.time),
        }

    @classmethod
    def of_state(cls, state: dict[str, NDArray[Any]], size: int, settings: OnlineSettings) -> Self:
        """Continue from a state; raises for arrays that `state` cannot have given."""
        given = Arrays(state)
        labels, used = (len(state[name]) for name in ("transitions", "ids"))
        need(labels <= MOST_LABELS, f"it has more than {MOST_LABELS} labels")
        rows = {name: given.take(name, like.dtype, used, *like.shape[1:]) for name, like in _rows(0, labels).items()}
        within("ids", rows["ids"], 0, size - 1)
        need(np.unique(rows["ids"]).size == used, "it has an attribute twice")
        tables = [given.take(name, np.float64, labels, labels) for name in ("transitions", "transition_sums")]
        for numbers, sums in ((rows["weights"], rows["sums"]), tables):
            finite("weights", numbers)
            within("sums", sums, 0.0, LARGEST)
        time = int(given.take("time", np.int64))
        need(0 <= time <= MOST, "its time is out of range")
        within("stamps", rows["stamps"], 0, time)
        within("counts", rows["counts"], 0, MOST)
        given.check_empty()
        made = cls(size, labels, settings)
        made._rows, made._used, made.time = rows, used, time
        made._place[rows["ids"]] = np.arange(used)
        made.transitions, made.transition_sums = tables
        made._make_room(1, labels)  # `current` reads a row for attributes without one
        return made

    def _left(self, places: NDArray[np.int32], decay: float, time: int) -> Any:
        """Factor by which rows have decayed since their last step."""
        return np.exp(-decay * (time - self._rows["stamps"][places]))[:, None] if decay else 1.0

    def _make_room(self, used: int, n_labels: int) -> None:
        """Extend the arrays to at least `used` rows and `n_labels` labels."""
        room, more = self._rows["ids"].size, n_labels - self.n_labels
        if more > 0:
            self.transitions, self.transition_sums = (
                np.pad(table, (0, more)) for table in (self.transitions, self.transition_sums)
            )
            self.n_labels = n_labels
        elif used <= room:
            return
        rows = _rows(max(room, 1 << (used - 1).bit_length()), self.n_labels)
        for name, before in self._rows.items():
            rows[name][tuple(map(slice, before.shape))] = before
        self._rows = rows


def _rows(room: int, n_labels: int) -> dict[str, NDArray[Any]]:
    return {
        "ids": np.zeros(room, np.int32),
        "weights": np.zeros((room, n_labels)),
        "sums": np.zeros((room, n_labels)),
        "stamps": np.zeros(room, np.int64),  # time of the last step
        "counts": np.zeros(room, np.int64),
        "seen": np.zeros((room, n_labels), np.bool_),
    }


def _descend(weights: Floats, sums: Floats, gradient: Floats, settings: OnlineSettings) -> None:
    """Add a gradient to the sums and subtract the step from the weights, in place."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums += gradient * gradient
        weights -= settings.rate * gradient / np.sqrt(sums + settings.least_sum)
    largest = max(weights.max(initial=0.0), -weights.min(initial=0.0))
    if not (sums.max(initial=0.0) <= LARGEST and largest <= _LARGEST_WEIGHT):
        raise OverflowError
