"""Parser of the lines that CRFsuite, and `messages`, write while a model is trained.

Lines belong to events: `start`, `featgen_progress`, `featgen_end`, `prepared` or `prepare_error`, `iteration`,
`optimization_end`, `end`. A stage is a method that is given the next line; it names the event that the line ends, and
chooses the next stage.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

_NEXT_LINE_TELLS = ("prepared", "optimization_end")  # these events end before the line by which they are known
_PROGRESS = {*map(str, range(11)), "."}
_SCORE = r"(\d\.\d+)"
_HEAD = re.compile(r"\*{5} (?:Iteration|Epoch) #(\d+) \*{5}\n")
_SECONDS = re.compile(r"Seconds required: (\d+\.\d+)")
_TOTAL_SECONDS = re.compile(r"Total seconds required for training: (\d+\.\d+)")
_FEATURES = re.compile(r"Number of features: (\d+)")
_FIGURES: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
    ("loss", "Loss", float),
    ("feature_norm", "Feature norm", float),
    ("error_norm", "Error norm", float),
    ("active_features", "Active features", int),
    ("linesearch_trials", "Line search trials", int),
    ("linesearch_step", "Line search step", float),
    ("time", "Seconds required for this iteration", float),
)
_AVERAGES = re.compile(rf"Macro-average precision, recall, F1: \({_SCORE}, {_SCORE}, {_SCORE}\)")
_ACCURACY = re.compile(r"(Item|Instance) accuracy: (\d+) / (\d+)")
_LABEL = re.compile(
    r"    (?P<label>.+): \((?P<match>\d+), (?P<model>\d+), (?P<ref>\d+)\) "
    r"\((?:\*+, \*+, \*+|(?P<precision>\d\.\d+), (?P<recall>\d\.\d+), (?P<f1>\d\.\d+))\)"
)


class LabelScore(NamedTuple):
    """Counts and scores of one label; scores are None where it neither occurs nor was predicted."""

    match: int  # right
    model: int  # predicted
    ref: int  # in the data
    precision: float | None
    recall: float | None
    f1: float | None


class TrainLogParser:
    """Reads the lines of a training run one by one.

    >>> log = TrainLogParser()
    >>> for line in ["Feature generation\\n", "Number of features: 7\\n", "Seconds required: 0.5\\n"]:
    ...     event = log.feed(line)
    >>> event, log.featgen_num_features, log.featgen_seconds
    ('featgen_end', 7, 0.5)
    """

    def __init__(self) -> None:
        self.featgen_percent = -2
        self.featgen_num_features: int | None = None
        self.featgen_seconds: float | None = None
        self.training_seconds: float | None = None
        self.storing_seconds: float | None = None
        self.iterations: list[dict[str, Any]] = []
        self.log: list[str] = []
        self.events: list[tuple[str, int, int]] = []  # the name of each, and which lines are its own
        self._stage: Callable[[str], str | None] = self._start

    @property
    def last_iteration(self) -> dict[str, Any] | None:
        return self.iterations[-1] if self.iterations else None

    @property
    def last_log(self) -> str:
        """The text of the last event."""
        _, begin, end = self.events[-1]
        return "".join(self.log[begin:end])

    def feed(self, line: str) -> str | None:
        """Take the next line; returns the event that it ends, if any."""
        self.log.append(line)
        event = self._stage(line)
        if event is not None:
            begin = self.events[-1][2] if self.events else 0
            self.events.append((event, begin, len(self.log) - (event in _NEXT_LINE_TELLS)))
        return event

    # Stages

    def _start(self, line: str) -> str:
        self._stage = self._before_features
        self._before_features(line)
        return "start"

    def _before_features(self, line: str) -> None:
        if line.startswith("Feature generation"):
            self._stage = self._features

    def _features(self, line: str) -> str | None:
        if line in _PROGRESS:
            self.featgen_percent += 2
            return "featgen_progress"
        if match := _FEATURES.match(line):
            self.featgen_num_features = int(match[1])
        if match := _SECONDS.match(line):
            self.featgen_seconds = float(match[1])
            self._stage = self._before_iterations
            return "featgen_end"
        return None

    def _before_iterations(self, line: str) -> str | None:
        if _HEAD.match(line):
            self._stage = self._iteration
            self._iteration(line)
            return "prepared"
        if "terminated with error" in line:
            self._stage = self._after_iteration
            return "prepare_error"
        return None

    def _iteration(self, line: str) -> str | None:
        if line == "\n":
            self._stage = self._after_iteration
            return "iteration"
        if match := _HEAD.match(line):
            self.iterations.append({"num": int(match[1]), "scores": {}})
        else:
            _read_figures(line, self.iterations[-1])
        return None

    def _after_iteration(self, line: str) -> str | None:
        if _HEAD.match(line):
            self._stage = self._iteration
            return self._iteration(line)
        if match := _TOTAL_SECONDS.match(line):
            self.training_seconds = float(match[1])
        if line.startswith("Storing the model"):
            self._stage = self._storing
            return "optimization_end"
        return None

    def _storing(self, line: str) -> str | None:
        if match := _SECONDS.match(line):
            self.storing_seconds = float(match[1])
        return "end" if line == "\n" else None


def _read_figures(line: str, iteration: dict[str, Any]) -> None:
    """Add what one line of an iteration says."""
    title, _, rest = line.partition(": ")
    for name, words, kind in _FIGURES:
        if title == words:
            iteration[name] = kind(rest.strip())
    if match := _AVERAGES.match(line):
        iteration |= dict(zip(("avg_precision", "avg_recall", "avg_f1"), map(float, match.groups()), strict=True))
    if match := _ACCURACY.match(line):
        name, share = f"{match[1].lower()}_accuracy", Fraction(int(match[2]), int(match[3]))
        iteration |= {name: share, f"{name}_float": float(share)}
    if match := _LABEL.match(line):
        counts = [int(match[name]) for name in ("match", "model", "ref")]
        scores = [None if match[name] is None else float(match[name]) for name in ("precision", "recall", "f1")]
        iteration["scores"][match["label"]] = LabelScore(*counts, *scores)
