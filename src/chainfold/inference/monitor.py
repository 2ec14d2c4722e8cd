"""What a person would want to see of a stream: how it is now, how it was over time, and alarms.

A monitor takes blocks and looks at each row when it is final: its label, the entropy of its posterior and its surprise,
−log of the posterior of the label that it came with, or of the predicted one where it has none that the model knows.
It keeps the last window of rows, the means of the windows before, and what is summed up over the whole stream: memory
that does not grow. What it says does not depend, beyond rounding, on how the rows were cut into blocks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block
from chainfold.engines.ranges import Ranges
from chainfold.errors import BadSetting, ChainfoldError
from chainfold.inference.buffer import Buffer, Columns
from chainfold.inference.decoder import Labels
from chainfold.inference.quantities import Quantities
from chainfold.inference.result import Tagged
from chainfold.inference.stream_window import StreamWindow
from chainfold.model.layout import Floats
from chainfold.model.model import Model, vocabulary_of_model

DEFAULT_WINDOW = 1000

_SURPRISE, _ENTROPY = "surprise", "entropy"
_PAST_WINDOWS, _PAST_ALARMS = 240, 20  # what is remembered
_AT_ONCE = 1024  # rows whose logarithms stay in the cache
_LEAST = np.finfo(np.float64).tiny  # a smaller probability is taken for this one: no surprise is above 708.4


@dataclass(frozen=True)
class AlarmRule:
    """When to raise an alarm."""

    text: str
    name: str  # surprise, entropy, or the label that is meant
    number: int | None  # that of the label
    share: bool  # of the last window; else the posterior of the label
    above: bool
    threshold: float

    @classmethod
    def parse(cls, text: str, labels: Sequence[str]) -> AlarmRule:
        """From NAME>NUMBER or NAME<NUMBER; NAME is a label, share(LABEL), surprise or entropy."""
        at = max(text.rfind(">"), text.rfind("<"))
        name = text[: max(at, 0)].strip()
        try:
            threshold = float(text[at + 1 :]) if at >= 0 else math.nan
        except ValueError:
            threshold = math.nan
        if not name or not math.isfinite(threshold):
            raise ChainfoldError(
                f"cannot read {text!r} as an alarm; write NAME>NUMBER or NAME<NUMBER, for instance "
                f"{labels[-1]}>0.9, share({labels[-1]})>0.5, {_SURPRISE}>5 or {_ENTROPY}>1."
            )
        share = name not in labels and name.startswith("share(") and name.endswith(")")
        name = name.removeprefix("share(").removesuffix(")").strip() if share else name
        if name not in labels and (share or name not in (_SURPRISE, _ENTROPY)):
            raise ChainfoldError(
                f"there is no {name!r} to raise the alarm {text!r}; choose {_SURPRISE}, {_ENTROPY}, or a label or its "
                f"share(LABEL), one of {', '.join(labels)}."
            )
        number = labels.index(name) if name in labels else None
        above = text[at] == ">"
        if number is not None and (threshold >= 1.0 if above else threshold <= 0.0):
            kind = "a share" if share else "the probability of a label"
            raise ChainfoldError(f"the alarm {text!r} can never be raised: {kind} is between 0 and 1.")
        return cls(text, name, number, share, above, threshold)


@dataclass(frozen=True)
class Alarm:
    """A rule has turned true at a row; and if it is over, how long it held."""

    rule: str
    row: int  # from 1
    label: str  # predicted there
    value: float
    rows: int | None = None  # for which the rule held; None: it still does

    @property
    def at(self) -> int:
        """The row, from 1, with which this was known."""
        return self.row if self.rows is None else self.row + self.rows


@dataclass(frozen=True, eq=False)
class Status:
    """How a stream is now. Means and shares are those of the last window of final rows, None before there are any."""

    rows: int  # pushed so far
    waiting: int  # of them, not final
    unproven: int  # given before that was proven
    window: int  # rows in the last window
    shares: Floats  # [N] of the predicted labels
    entropy: float | None
    surprise: float | None
    accuracy: float | None  # None: no row of the window has a label
    entropies: tuple[float, ...]  # means of whole windows, one after another, the last ones
    surprises: tuple[float, ...]
    given: int  # rows of which the surprise is that of the label given
    predicted: int  # or predicted
    accuracy_of_all: float | None
    quantities: Quantities  # exact, of all rows pushed so far
    raised: dict[str, int]  # by rule
    lasted: dict[str, int]  # rows, by rule
    on: tuple[Alarm, ...]  # those that hold now
    over: tuple[Alarm, ...]  # the last ones that are over, in that order


class Monitor:
    """A model that watches a stream."""

    def __init__(
        self,
        model: Model,
        *,
        window: int = DEFAULT_WINDOW,
        alarms: Sequence[str] = (),
        max_lag: int | None = None,
        memory: int | None = None,
    ) -> None:
        """window: rows; alarms: rules, see `AlarmRule.parse`; max_lag, memory: see `StreamWindow`."""
        if window < 1:
            raise BadSetting("window", window, "at least 1")
        self.labels = vocabulary_of_model(model).labels
        self._size = window
        self._watches = [_Watch(AlarmRule.parse(text, self.labels)) for text in dict.fromkeys(alarms)]
        self._window = StreamWindow(model, posteriors=True, quantities=True, max_lag=max_lag, memory=memory)
        self._gold = Buffer({"gold": np.empty(0, np.int32)})  # of the rows that wait
        self._last = Buffer(_columns(np.empty(0, np.int32), np.empty(0), np.empty(0), np.empty(0, np.int8)))
        self._counts = np.zeros(len(self.labels), np.int64)  # of the labels in the last window
        self._past: deque[tuple[float, float]] = deque(maxlen=_PAST_WINDOWS)
        self._rows = self._given = self._known = self._right = 0
        self._over: deque[Alarm] = deque(maxlen=_PAST_ALARMS)

    def push(self, block: Block, gold: Labels, ended: bool = False) -> list[Alarm]:
        """Take further rows; what is raised or over now. gold: their labels, some perhaps unknown to the model.

        `ended`: their sequence ends with the last of them.
        """
        self._gold.add({"gold": gold})
        return self._look(self._window.push(block, ended))

    def end(self) -> list[Alarm]:
        """The sequence ends here."""
        return self._look(self._window.end())

    @property
    def positions(self) -> int:
        """Rows pushed so far."""
        return self._window.positions

    def status(self) -> Status:
        """How the stream is now."""
        window, last = self._window, self._last.arrays
        known = last["right"][last["right"] >= 0]
        return Status(
            rows=window.positions,
            waiting=window.waiting,
            unproven=window.unproven,
            window=len(self._last),
            shares=self._counts / max(len(self._last), 1),
            entropy=_mean(last["entropy"]),
            surprise=_mean(last["surprise"]),
            accuracy=_mean(known),
            entropies=tuple(entropy for entropy, _ in self._past),
            surprises=tuple(surprise for _, surprise in self._past),
            given=self._given,
            predicted=self._rows - self._given,
            accuracy_of_all=self._right / self._known if self._known else None,
            quantities=window.quantities(),
            raised={watch.rule.text: watch.raised for watch in self._watches},
            lasted={watch.rule.text: watch.lasted for watch in self._watches},
            on=tuple(watch.on for watch in self._watches if watch.on is not None),
            over=tuple(self._over),
        )

    def _look(self, final: Tagged) -> list[Alarm]:
        """At rows that are final."""
        count = len(final)
        if not count:
            return []
        gold = self._gold["gold"][:count]
        assert final.posteriors is not None, "they were wanted"
        entropy, surprise = _entropies(final.posteriors), _surprises(final)
        right = np.where(gold >= 0, gold == final.labels, np.int8(-1)).astype(np.int8)
        self._given += int(np.count_nonzero(final.given >= 0))
        self._known += int(np.count_nonzero(right >= 0))
        self._right += int(np.count_nonzero(right == 1))
        self._gold.drop(count)
        self._last.add(_columns(final.labels, entropy, surprise, right))
        raised: list[Alarm] = []
        for watch in self._watches:
            raised += watch.look(self._values(watch.rule, final), final, self.labels)
        raised.sort(key=lambda alarm: alarm.at)
        self._over.extend(alarm for alarm in raised if alarm.rows is not None)
        self._end_windows(count)
        self._rows += count
        self._slide(count)
        return raised

    def _values(self, rule: AlarmRule, final: Tagged) -> Floats:
        """What a rule looks at, for each new row."""
        new = len(final)
        if rule.number is None:
            values: Floats = self._last[rule.name][-new:]
            return values
        if not rule.share:
            assert final.posteriors is not None, "they were wanted"
            return final.posteriors[:, rule.number]
        change = (final.labels == rule.number).astype(np.int64)
        gap = self._gap(new)
        change[gap:] -= self._last["label"][: max(new - gap, 0)] == rule.number
        shares: Floats = (self._counts[rule.number] + np.cumsum(change)) / self._size
        shares[: max(gap - 1, 0)] = np.nan  # the first window is not whole: no rule holds
        return shares

    def _gap(self, new: int) -> int:
        """How many of the new rows come before the last window is full."""
        return self._size - (len(self._last) - new)

    def _end_windows(self, new: int) -> None:
        """The means of windows that end in the new rows; windows follow one another from the first row on."""
        size, begin = self._size, self._rows + new - len(self._last)  # the number of the first row at hand
        first, last = self._rows // size, (self._rows + new) // size
        first = max(first, last - _PAST_WINDOWS)
        if last > first:
            rows = slice(first * size - begin, last * size - begin)
            means = [self._last[name][rows].reshape(-1, size).mean(axis=1) for name in (_ENTROPY, _SURPRISE)]
            self._past.extend(zip(*(some.tolist() for some in means), strict=True))

    def _slide(self, new: int) -> None:
        """Drop all but the last window."""
        gone = max(new - self._gap(new), 0)
        labels, n = self._last["label"], self._counts.size
        self._counts += np.bincount(labels[-new:], minlength=n) - np.bincount(labels[:gone], minlength=n)
        self._last.drop(gone)


class _Watch:
    """A rule as the rows go by."""

    def __init__(self, rule: AlarmRule) -> None:
        self.rule = rule
        self.raised = self.lasted = 0
        self.on: Alarm | None = None

    def look(self, values: Floats, final: Tagged, labels: Sequence[str]) -> list[Alarm]:
        """What is raised or over in the next rows."""
        true = values > self.rule.threshold if self.rule.above else values < self.rule.threshold
        self.lasted += int(np.count_nonzero(true))
        before = np.append(self.on is not None, true[:-1])
        changes = []
        for k in np.flatnonzero(true != before).tolist():
            if self.on is None:
                self.on = Alarm(self.rule.text, final.low + k + 1, labels[final.labels[k]], float(values[k]))
                self.raised += 1
                changes.append(self.on)
            else:
                changes.append(replace(self.on, rows=final.low + k + 1 - self.on.row))
                self.on = None
        return changes


def _columns(label: Labels, entropy: Floats, surprise: Floats, right: NDArray[np.int8]) -> Columns:
    """What is kept of a row; right: 1, 0 for wrong, -1 where its label is not known."""
    return {"label": label, _ENTROPY: entropy, _SURPRISE: surprise, "right": right}


def _entropies(posteriors: Floats) -> Floats:
    values = np.empty(len(posteriors))
    for begin, end in Ranges(0, len(posteriors), _AT_ONCE):
        part = posteriors[begin:end]
        logs = np.maximum(part, _LEAST)
        np.log(logs, out=logs)
        np.einsum("ij,ij->i", part, logs, out=values[begin:end])
    return np.maximum(-values, 0.0)


def _surprises(final: Tagged) -> Floats:
    assert final.posteriors is not None, "they were wanted"
    labels = np.where(final.given >= 0, final.given, final.labels)
    chosen = final.posteriors[np.arange(labels.size), labels]
    values: Floats = np.maximum(-np.log(np.maximum(chosen, _LEAST)), 0.0)
    return values


def _mean(values: NDArray[Any]) -> float | None:
    return float(np.mean(values)) if values.size else None
