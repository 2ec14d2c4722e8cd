"""AdaGrad's online state: weights with decay, where a step costs what occurs in it.

One step over n positions, with the gradient g of their negative log likelihood, is

    q ← q · 2^(-n / forget) + g²
    w ← w · e^(-c2 · n / 10⁶) - rate · g / √(q + least)

for every weight. `least` is a tenth of an error where sums forget, and next to nothing elsewhere: else a gradient of
nearly zero would be followed, once q has forgotten all larger ones, as if it were large.

Most attributes do not occur in a step, and there g is zero: such a row is left as it is, with the time of its last step
beside it, and what it has lost since then is made up when it is looked at. So the result is that of the recursion
above, and no step looks at more rows than it needs. Rows have a place only once they have occurred.
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
_LARGEST_WEIGHT = 1e100  # sums of its products with values are numbers, too
_FIRST_ROWS = 1024
_PENALTY_SPAN = 1e6  # positions over which c2 is measured

Ids = NDArray[np.int32]


@dataclass(frozen=True)
class OnlineSettings:
    """Settings of online training."""

    rate: float = 0.3  # of learning
    batch: int = 256  # positions in a step, at most
    c2: float = 0.0  # every weight shrinks by e^-c2 over a million positions
    forget: float | None = None  # positions after which a gradient counts half in AdaGrad's sums; None: never less

    def __post_init__(self) -> None:
        check_not_negative((name, getattr(self, name)) for name in ("rate", "c2"))
        check_whole("batch", self.batch, 1)
        for name in ("rate", "forget"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and 0.0 < value < math.inf):
                raise BadSetting(name, value, "a finite number above zero")

    @property
    def shrinking(self) -> float:
        """What is lost of the logarithm of a weight with each position."""
        return self.c2 / _PENALTY_SPAN

    @property
    def forgetting(self) -> float:
        """What is lost of the logarithm of a sum with each position."""
        return 0.0 if self.forget is None else math.log(2.0) / self.forget

    @property
    def least_sum(self) -> float:
        """What a sum of squared gradients counts as, at least."""
        return _LEAST_SUM if self.forget is None else _LEAST_FORGETTING_SUM


class OnlineWeights:
    """Rows of weights for the attributes that have occurred, and transitions; time is counted in positions."""

    def __init__(self, size: int, n_labels: int, settings: OnlineSettings) -> None:
        """size: how many attributes there may be."""
        self.size, self.n_labels, self.settings = size, n_labels, settings
        self.time = 0
        self._place = np.full(size, -1, np.int32)  # of each attribute among the rows
        self._used = 0
        self._rows = _rows(_FIRST_ROWS, n_labels)
        self.transitions, self.transition_sums = np.zeros((2, n_labels, n_labels))

    @property
    def ids(self) -> Ids:
        """The attributes that have occurred, in the order in which they did."""
        return self._rows["ids"][: self._used]

    @property
    def counts(self) -> NDArray[np.int64]:
        """How often each of them has."""
        return self._rows["counts"][: self._used]

    @property
    def seen(self) -> NDArray[np.bool_]:
        """[rows, N] and with which labels."""
        return self._rows["seen"][: self._used]

    def current(self, ids: Ids) -> Floats:
        """[ids, N] the weights as they are by now."""
        places = self._place[ids]
        found: Floats = self._rows["weights"][places]
        found *= self._left(places, self.settings.shrinking, self.time)
        found[places < 0] = 0.0
        return found

    def step(self, ids: Ids, gradient: Floats, transitions: Floats, positions: int) -> None:
        """Follow a gradient: that of the rows of distinct attributes, and that of the transitions.

        Raises `OverflowError`, and changes nothing, if numbers become too large.
        """
        settings, rows, time = self.settings, self._rows, self.time + positions
        places = self._place[ids]
        weights = rows["weights"][places] * self._left(places, settings.shrinking, time)
        sums = rows["sums"][places] * self._left(places, settings.forgetting, time)
        _descend(weights, sums, gradient, settings)
        between = self.transitions * math.exp(-settings.shrinking * positions)
        between_sums = self.transition_sums * math.exp(-settings.forgetting * positions)
        _descend(between, between_sums, transitions, settings)
        rows["weights"][places], rows["sums"][places], rows["stamps"][places] = weights, sums, time
        self.transitions, self.transition_sums, self.time = between, between_sums, time

    def grow(self, n_labels: int) -> None:
        """Have at least `n_labels` labels; weights of new ones are zero."""
        self._make_room(self._used, n_labels)

    def note(self, ids: Ids, labels: NDArray[np.int32]) -> None:
        """Attributes that occur with labels; those that are new get a row."""
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
        """All there is to know, as arrays."""
        rows = {name: array[: self._used] for name, array in self._rows.items()}
        return {
            **rows,
            "transitions": self.transitions,
            "transition_sums": self.transition_sums,
            "time": np.array(self.time),
        }

    @classmethod
    def of_state(cls, state: dict[str, NDArray[Any]], size: int, settings: OnlineSettings) -> Self:
        """The weights whose state it was."""
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
        need(0 <= time <= MOST, "its time cannot be")
        within("stamps", rows["stamps"], 0, time)
        within("counts", rows["counts"], 0, MOST)
        given.check_empty()
        made = cls(size, labels, settings)
        made._used, made.time = used, time
        made._make_room(used, labels)
        for name, array in made._rows.items():
            array[:used] = rows[name]
        made._place[rows["ids"]] = np.arange(used)
        made.transitions[:], made.transition_sums[:] = tables
        return made

    def _left(self, places: NDArray[np.int32], lost: float, time: int) -> Any:
        """What is left of rows, by the time that has gone by since their last step."""
        return np.exp(-lost * (time - self._rows["stamps"][places]))[:, None] if lost else 1.0

    def _make_room(self, used: int, n_labels: int) -> None:
        room = self._rows["ids"].size
        if n_labels > self.n_labels:
            for name in ("transitions", "transition_sums"):
                before = getattr(self, name)
                setattr(self, name, np.pad(before, (0, n_labels - self.n_labels)))
            self.n_labels = n_labels
        elif used <= room:
            return
        rows = _rows(max(room, 1 << (used - 1).bit_length()), self.n_labels)
        for name, before in self._rows.items():
            part = tuple(slice(length) for length in before.shape)
            rows[name][part] = before
        self._rows = rows


def _rows(room: int, n_labels: int) -> dict[str, NDArray[Any]]:
    return {
        "ids": np.zeros(room, np.int32),
        "weights": np.zeros((room, n_labels)),
        "sums": np.zeros((room, n_labels)),
        "stamps": np.zeros(room, np.int64),
        "counts": np.zeros(room, np.int64),
        "seen": np.zeros((room, n_labels), np.bool_),
    }


def _descend(weights: Floats, sums: Floats, gradient: Floats, settings: OnlineSettings) -> None:
    """One step of AdaGrad, in place."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums += gradient * gradient
        weights -= settings.rate * gradient / np.sqrt(sums + settings.least_sum)
    largest = max(weights.max(initial=0.0), -weights.min(initial=0.0))
    if not (sums.max(initial=0.0) <= LARGEST and largest <= _LARGEST_WEIGHT):
        raise OverflowError
