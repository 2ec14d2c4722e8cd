"""The state of a stream and alarms on its rows, each looked at once, when it is final.

The surprise of a row is −log of the posterior of its label: the given one, or the predicted one where the model knows
no given label. Its entropy is that of its posterior. Results do not depend, beyond rounding, on how rows are cut into
blocks; memory is that of one window.
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
from chainfold.errors import BadSetting, ChainfoldError
from chainfold.inference.buffer import Buffer
from chainfold.inference.decoder import Labels
from chainfold.inference.quantities import Quantities
from chainfold.inference.result import Tagged
from chainfold.inference.stream_window import StreamWindow
from chainfold.model.layout import Floats
from chainfold.model.model import Model, vocabulary_of_model

_SURPRISE, _ENTROPY = "surprise", "entropy"
_PAST_WINDOWS, _PAST_ALARMS = 120, 6  # that a status tells of
_LEAST = np.finfo(np.float64).tiny  # stands for smaller probabilities: no surprise is above 708.4


@dataclass(frozen=True)
class AlarmRule:
    """A condition on a row: NAME>NUMBER or NAME<NUMBER; NAME is a label, share(LABEL), surprise or entropy."""

    text: str
    name: str  # surprise, entropy, or a label
    number: int | None  # of the label
    share: bool  # of the last window; else the posterior of the label
    above: bool
    threshold: float

    @classmethod
    def parse(cls, text: str, labels: Sequence[str]) -> AlarmRule:
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
    """A row at which a rule turned true; with `rows`, the rule is false again after that many rows."""

    rule: str
    row: int  # from 1
    label: str  # predicted there
    value: float
    rows: int | None = None

    @property
    def at(self) -> int:
        """The row, from 1, at which the alarm was raised or was over."""
        return self.row if self.rows is None else self.row + self.rows


@dataclass(frozen=True, eq=False)
class Status:
    """The state of a stream; means and shares are those of the last window of final rows, None before there are any."""

    window: int  # rows in the last window
    waiting: int  # rows that are not final
    shares: Floats  # [N] of the predicted labels
    entropy: float | None
    surprise: float | None
    accuracy: float | None  # None: no row of the window has a label
    accuracy_of_all: float | None
    entropies: tuple[float, ...]  # means of the last whole windows
    surprises: tuple[float, ...]
    quantities: Quantities  # exact, of all rows so far
    raised: dict[str, int]  # number of alarms, by rule
    on: tuple[Alarm, ...]  # alarms that are not over
    over: tuple[Alarm, ...]  # the last ones that are, oldest first


class Monitor:
    """The state of a stream under a model, and its alarms.

    window            rows in a window
    alarms            rules, see `AlarmRule`
    max_lag, memory   see `StreamTagger`
    """

    def __init__(
        self,
        model: Model,
        *,
        window: int = 1000,
        alarms: Sequence[str] = (),
        max_lag: int | None = None,
        memory: int | None = None,
    ) -> None:
        if window < 1:
            raise BadSetting("window", window, "at least 1")
        self.labels = vocabulary_of_model(model).labels
        self._size = window
        self._rules = {text: AlarmRule.parse(text, self.labels) for text in alarms}
        self._window = StreamWindow(model, posteriors=True, quantities=True, max_lag=max_lag, memory=memory)
        self._gold = Buffer({"gold": np.empty(0, np.int32)})  # of the rows that wait
        kinds = {"label": np.int32, _ENTROPY: np.float64, _SURPRISE: np.float64, "right": np.int8}
        self._last = Buffer({name: np.empty(0, kind) for name, kind in kinds.items()})  # the last window
        self._past: deque[tuple[float, float]] = deque(maxlen=_PAST_WINDOWS)
        self._known = self._right = 0  # rows with a label; of them, predicted rightly
        self._raised = dict.fromkeys(self._rules, 0)
        self._on: dict[str, Alarm] = {}
        self._over: deque[Alarm] = deque(maxlen=_PAST_ALARMS)

    def push(self, block: Block, gold: Labels, ended: bool = False) -> list[Alarm]:
        """Take further rows; return the alarms that are raised or over, in order of rows.

        gold: labels of the rows, -1 where there is none; labels that the model does not know count as wrong
        ended: whether their sequence ends with the last of them
        """
        self._gold.add({"gold": gold})
        return self._look(self._window.push(block, ended))

    def end(self) -> list[Alarm]:
        """End the sequence; return the alarms of the rows that have waited."""
        return self._look(self._window.end())

    @property
    def positions(self) -> int:
        """Rows pushed so far."""
        return self._window.positions

    def status(self) -> Status:
        last = self._last.arrays
        return Status(
            window=len(self._last),
            waiting=self._window.waiting,
            shares=np.bincount(last["label"], minlength=len(self.labels)) / max(len(self._last), 1),
            entropy=_mean(last[_ENTROPY]),
            surprise=_mean(last[_SURPRISE]),
            accuracy=_mean(last["right"][last["right"] >= 0]),
            accuracy_of_all=self._right / self._known if self._known else None,
            entropies=tuple(entropy for entropy, _ in self._past),
            surprises=tuple(surprise for _, surprise in self._past),
            quantities=self._window.quantities(),
            raised=dict(self._raised),
            on=tuple(self._on.values()),
            over=tuple(self._over),
        )

    def _look(self, final: Tagged) -> list[Alarm]:
        """Look at rows that are final."""
        if not len(final):
            return []
        assert final.posteriors is not None, "they were wanted"
        gold = self._gold["gold"][: len(final)]
        right = np.where(gold >= 0, gold == final.labels, np.int8(-1)).astype(np.int8)
        self._gold.drop(len(final))
        self._known += int(np.count_nonzero(right >= 0))
        self._right += int(np.count_nonzero(right == 1))
        logs = np.log(np.maximum(final.posteriors, _LEAST))
        entropy = np.maximum(-np.einsum("ij,ij->i", final.posteriors, logs), 0.0)
        labels = np.where(final.given >= 0, final.given, final.labels)
        surprise = np.maximum(-logs[np.arange(labels.size), labels], 0.0)
        self._last.add({"label": final.labels, _ENTROPY: entropy, _SURPRISE: surprise, "right": right})
        changes = [change for rule in self._rules.values() for change in self._changes(rule, final)]
        changes.sort(key=lambda alarm: alarm.at)
        self._over.extend(alarm for alarm in changes if alarm.rows is not None)
        self._end_windows(final.low, final.low + len(final))
        self._last.drop(max(len(self._last) - self._size, 0))
        return changes

    def _changes(self, rule: AlarmRule, final: Tagged) -> list[Alarm]:
        """The alarms of a rule that are raised or over at new rows."""
        values = self._values(rule, final)
        true = values > rule.threshold if rule.above else values < rule.threshold
        before = np.append(rule.text in self._on, true[:-1])
        changes = []
        for k in np.flatnonzero(true != before).tolist():
            row = final.low + k + 1
            if on := self._on.pop(rule.text, None):
                changes.append(replace(on, rows=row - on.row))
            else:
                self._on[rule.text] = Alarm(rule.text, row, self.labels[final.labels[k]], float(values[k]))
                self._raised[rule.text] += 1
                changes.append(self._on[rule.text])
        return changes

    def _values(self, rule: AlarmRule, final: Tagged) -> Floats:
        """The values that a rule compares, at each new row."""
        new = len(final)
        if rule.number is None:
            values: Floats = self._last[rule.name][-new:]
            return values
        if not rule.share:
            assert final.posteriors is not None, "they were wanted"
            return final.posteriors[:, rule.number]
        counts = np.cumsum(np.append(0, self._last["label"] == rule.number))  # up to each row of the window
        shares = np.full(new, np.nan)  # no rule holds before the first window is whole
        whole = (counts[self._size :] - counts[: -self._size])[-new:] / self._size
        shares[new - whole.size :] = whole
        return shares

    def _end_windows(self, low: int, high: int) -> None:
        """Keep the means of windows that end in rows low … high-1; windows follow one another from the first row."""
        size, begin = self._size, high - len(self._last)  # the first row at hand
        last = high // size
        first = max(low // size, last - _PAST_WINDOWS)
        if last > first:
            rows = slice(first * size - begin, last * size - begin)
            means = [self._last[name][rows].reshape(-1, size).mean(axis=1).tolist() for name in (_ENTROPY, _SURPRISE)]
            self._past.extend(zip(*means, strict=True))


def _mean(values: NDArray[Any]) -> float | None:
    return float(np.mean(values)) if values.size else None
