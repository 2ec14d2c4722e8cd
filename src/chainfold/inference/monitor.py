"""The state of a stream and alarms on its rows, each looked at once, when it is final.

The surprise of a row is −log of the posterior of its label: the given one, or the predicted one where the model knows
no given label. Its entropy is that of its posterior. Results do not depend, beyond rounding, on how rows are cut into
blocks; memory is that of one window.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chainfold.chain.block import Block
from chainfold.errors import BadSetting, ChainfoldError
from chainfold.inference.buffer import Buffer
from chainfold.inference.quantities import Quantities
from chainfold.inference.result import Tagged
from chainfold.inference.stream_window import StreamWindow
from chainfold.model.layout import Floats
from chainfold.model.model import Model, vocabulary_of_model

_MEANS = ("entropy", "surprise")
_PAST_WINDOWS, _PAST_ALARMS = 120, 6  # in a status
_LEAST = np.finfo(np.float64).tiny  # stands for smaller probabilities: no surprise is above 708.4


class AlarmRule(NamedTuple):
    """A condition on a row: NAME>NUMBER or NAME<NUMBER; NAME is a label, share(LABEL), surprise or entropy."""

    text: str
    name: str
    label: int | None  # the number of the label, where NAME has one
    above: bool
    threshold: float

    @classmethod
    def parse(cls, text: str, labels: Sequence[str]) -> AlarmRule:
        name, sign, given = text.strip(), "", ""
        if written := re.fullmatch(r"(.+)([<>])(.*)", name, re.DOTALL):
            name, sign, given = written[1].strip(), written[2], written[3]
        try:
            threshold = float(given)
        except ValueError:
            threshold = math.nan
        if not name or not math.isfinite(threshold):
            raise ChainfoldError(
                f"cannot read {text!r} as an alarm; write NAME>NUMBER or NAME<NUMBER, for instance "
                f"{labels[-1]}>0.9, share({labels[-1]})>0.5, surprise>5 or entropy>1."
            )
        known = {f"share({label})": k for k, label in enumerate(labels)} | {label: k for k, label in enumerate(labels)}
        if name not in known and name not in _MEANS:
            raise ChainfoldError(
                f"there is no {name!r} to raise the alarm {text!r}; choose surprise, entropy, or a label or its "
                f"share(LABEL), one of {', '.join(labels)}."
            )
        if name in known and (threshold >= 1.0 if sign == ">" else threshold <= 0.0):
            kind = "the probability of a label" if name in labels else "a share"
            raise ChainfoldError(f"the alarm {text!r} can never be raised: {kind} is between 0 and 1.")
        return cls(text, name, known.get(name), sign == ">", threshold)


class Alarm(NamedTuple):
    """A row at which a rule turned true; with `rows`, the rule is false again after that many rows."""

    rule: str
    row: int  # from 1
    label: str  # predicted there
    value: float
    rows: int | None = None

    @property
    def at(self) -> int:
        """The row, from 1, at which the alarm was raised or was over."""
        return self.row + (self.rows or 0)


class Status(NamedTuple):
    """The state of a stream."""

    window: int  # rows in the last window of final rows
    waiting: int  # rows that are not final
    shares: Floats  # [N] of the predicted labels in the last window
    means: dict[str, tuple[float, list[float]]]  # of entropy and surprise: in the last window, in earlier whole ones
    quantities: Quantities  # exact, of all rows so far
    raised: dict[str, int]  # number of alarms, by rule
    alarms: list[Alarm]  # the latest first: all that are on, then the last that are over


class Monitor:
    """The state of a stream under a model, and its alarms.

    window     rows in a window
    alarms     rules, see `AlarmRule`
    max_lag    see `StreamTagger`
    """

    def __init__(
        self, model: Model, *, window: int = 1000, alarms: Sequence[str] = (), max_lag: int | None = None
    ) -> None:
        if window < 1:
            raise BadSetting("window", window, "at least 1")
        self.labels = vocabulary_of_model(model).labels
        self._size = window
        self._rules = {text: AlarmRule.parse(text, self.labels) for text in alarms}
        self._stream = StreamWindow(model, posteriors=True, quantities=True, max_lag=max_lag)
        means = {name: np.empty(0) for name in _MEANS}
        self._last = Buffer({"label": np.empty(0, np.int32)} | means)  # the last window
        self._rest = Buffer(means)  # rows since the last whole window
        self._past: dict[str, deque[float]] = {name: deque(maxlen=_PAST_WINDOWS) for name in _MEANS}
        self._raised = dict.fromkeys(self._rules, 0)
        self._on: dict[str, Alarm] = {}
        self._over: deque[Alarm] = deque(maxlen=_PAST_ALARMS)

    def push(self, block: Block, ended: bool = False) -> list[Alarm]:
        """Take further rows, which may end a sequence; return the alarms that are raised or over, in order of rows."""
        return self._look(self._stream.push(block, ended))

    def end(self) -> list[Alarm]:
        """End the sequence; return the alarms of the rows that have waited."""
        return self._look(self._stream.end())

    def status(self) -> Status:
        size = max(len(self._last), 1)
        return Status(
            window=len(self._last),
            waiting=self._stream.waiting,
            shares=np.bincount(self._last["label"], minlength=len(self.labels)) / size,
            means={name: (float(self._last[name].sum() / size), list(self._past[name])) for name in _MEANS},
            quantities=self._stream.quantities(),
            raised=dict(self._raised),
            alarms=[*sorted(self._on.values(), key=lambda alarm: -alarm.row), *reversed(self._over)],
        )

    def _look(self, final: Tagged) -> list[Alarm]:
        """Look at rows that are final."""
        if not len(final):
            return []
        assert final.posteriors is not None, "they were wanted"
        logs = np.log(np.maximum(final.posteriors, _LEAST))
        labels = np.where(final.given >= 0, final.given, final.labels)
        means = {
            "entropy": np.maximum(-np.einsum("ij,ij->i", final.posteriors, logs), 0.0),
            "surprise": np.maximum(-logs[np.arange(labels.size), labels], 0.0),
        }
        self._last.add({"label": final.labels} | means)
        changes = [change for rule in self._rules.values() for change in self._changes(rule, final)]
        changes.sort(key=lambda alarm: alarm.at)
        self._over.extend(alarm for alarm in changes if alarm.rows is not None)
        self._last.drop(max(len(self._last) - self._size, 0))
        self._end_windows(means)
        return changes

    def _changes(self, rule: AlarmRule, final: Tagged) -> list[Alarm]:
        """The alarms of a rule that are raised or over at new rows."""
        assert final.posteriors is not None, "they were wanted"
        values = self._values(rule, final.posteriors)
        true = values > rule.threshold if rule.above else values < rule.threshold
        before = np.append(rule.text in self._on, true[:-1])
        changes = []
        for k in np.flatnonzero(true != before).tolist():
            row = final.low + k + 1
            if on := self._on.pop(rule.text, None):
                changes.append(on._replace(rows=row - on.row))
            else:
                self._on[rule.text] = Alarm(rule.text, row, self.labels[final.labels[k]], float(values[k]))
                self._raised[rule.text] += 1
                changes.append(self._on[rule.text])
        return changes

    def _values(self, rule: AlarmRule, posteriors: Floats) -> Floats:
        """The values that a rule compares, at each new row."""
        new, label = len(posteriors), rule.label
        if label is None:
            values: Floats = self._last[rule.name][-new:]
            return values
        if rule.name == self.labels[label]:
            return posteriors[:, label]
        counts = np.cumsum(np.append(0, self._last["label"] == label))  # up to each row of the window
        shares = np.full(new, np.nan)  # no rule holds before the first window is whole
        whole = (counts[self._size :] - counts[: -self._size])[-new:] / self._size
        shares[new - whole.size :] = whole
        return shares

    def _end_windows(self, means: dict[str, Floats]) -> None:
        """Keep the means of whole windows, which follow one another from the first row."""
        self._rest.add(means)
        whole = len(self._rest) // self._size * self._size
        for name, past in self._past.items():
            past.extend(self._rest[name][:whole].reshape(-1, self._size).mean(axis=1).tolist())
        self._rest.drop(whole)
