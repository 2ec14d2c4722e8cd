"""Counts of right and wrong positions, sequences, labels and spans, taken stretch by stretch.

    Count       takes gold and predicted labels as they come, in memory that does not depend on how many
    Scores      what has been counted, and every figure that follows from it
    Quality     gold, found and correct of one label, of one type of span or of all spans

Spans are counted by the rules of the Perl script conlleval. The tag of a label is what stands before its first hyphen,
the type what stands after it. Between two neighbours of one sequence

    a span ends     after [ or ]; from B or I to B or O; from E to E, I or O; where the type changes after a tag
                    other than O or a full stop
    a span starts   at [ or ]; at B after B, I or O; at I or E after O or E; where the type changes before a tag other
                    than O or a full stop

and beyond a sequence everything is O. A span is correct if gold and predicted start it together, with the same type,
and end it together. The script knows neither S nor B beside E, so that IOBES needs a little more: S starts and ends a
span, B starts one after E and S too, I and E start one after S, and E ends one whatever follows. L counts as E and U as
S, for BILOU.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.errors import BadChain, ChainfoldError, LabelOutOfRange

Labels = NDArray[np.int32]
Counts = NDArray[np.int64]

_UNKNOWN = -1
_AT_ONCE = 1 << 17  # positions
_CHUNK_PREFIXES = ("B-", "I-", "E-", "S-", "L-", "U-")
_SAME_TAG = {"L": "E", "U": "S"}
_NO_SPAN = ("O", ".")
_ENDS_BETWEEN = {tuple(pair) for pair in ("BB", "BS", "BO", "IB", "IS", "IO")}  # tag before, tag after
_ENDS_AFTER = tuple("ES[]")
_STARTS_BETWEEN = {tuple(pair) for pair in ("BB", "IB", "OB", "EB", "SB", "OI", "EI", "SI", "OE", "EE", "SE")}
_STARTS_AT = tuple("S[]")
_START, _END = 1, 2


@dataclass(frozen=True)
class Quality:
    """Precision, recall and F1 of something; a ratio with nothing below the line is 0."""

    gold: int  # how many there are
    found: int  # how many were predicted
    correct: int  # how many of these are right

    @property
    def precision(self) -> float:
        return _ratio(self.correct, self.found)

    @property
    def recall(self) -> float:
        return _ratio(self.correct, self.gold)

    @property
    def f1(self) -> float:
        return _ratio(2 * self.correct, self.gold + self.found)

    @property
    def support(self) -> int:
        return self.gold

    def to_json(self) -> dict[str, Any]:
        ratios = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return ratios | {"support": self.gold, "found": self.found, "correct": self.correct}


class Average(NamedTuple):
    """Means over the labels that occur, in gold or predicted."""

    precision: float
    recall: float
    f1: float


class Confusion(NamedTuple):
    """The number of positions with one label predicted where another, or the same, is right."""

    gold: str
    predicted: str
    positions: int


@dataclass(frozen=True, eq=False)
class Scores:
    """Counts of a tagging, and the figures that follow from them; `Count.scores` and `evaluate` return one.

    Positions with an unknown gold label are counted in `unknown` alone.

    >>> import numpy as np
    >>> count = Count(["A", "B"])
    >>> count.add(np.array([0, 1, 1]), np.array([0, 1, 0]), np.array([True, False, False]))
    >>> scores = count.scores()
    >>> scores.correct, scores.tokens, scores.per_label["B"].recall
    (2, 3, 0.5)
    """

    labels: tuple[str, ...]
    confusion: Counts = field(repr=False)  # [N, N] positions, by gold and predicted label
    unknown: int  # positions with an unknown gold label
    sequences: int  # with a known label somewhere
    sequences_correct: int  # of these, with every known label right
    spans: dict[str, Quality] | None = field(repr=False)  # by type; None where labels are not chunk tags

    @cached_property
    def tokens(self) -> int:
        return int(self.confusion.sum())

    @cached_property
    def correct(self) -> int:
        return int(self.confusion.trace())

    @property
    def accuracy(self) -> float:
        return _ratio(self.correct, self.tokens)

    @property
    def sequence_accuracy(self) -> float:
        return _ratio(self.sequences_correct, self.sequences)

    @cached_property
    def per_label(self) -> dict[str, Quality]:
        counts = zip(self.confusion.sum(axis=1), self.confusion.sum(axis=0), self.confusion.diagonal(), strict=True)
        qualities = (Quality(int(gold), int(found), int(correct)) for gold, found, correct in counts)
        return dict(zip(self.labels, qualities, strict=True))

    @property
    def macro(self) -> Average:
        """The plain mean over the labels that occur."""
        return _average([(quality, 1) for quality in self._occurring])

    @property
    def weighted(self) -> Average:
        """The mean over the labels, each weighted with its support."""
        return _average([(quality, quality.support) for quality in self._occurring])

    @property
    def spans_overall(self) -> Quality | None:
        """All types of spans together."""
        if self.spans is None:
            return None
        counts = [(quality.gold, quality.found, quality.correct) for quality in self.spans.values()]
        return Quality(*(sum(column) for column in zip(*counts, strict=True))) if counts else Quality(0, 0, 0)

    def confusions(self, top: int | None = None) -> list[Confusion]:
        """The mistakes by label, the most frequent first."""
        wrong = self.confusion.copy()
        np.fill_diagonal(wrong, 0)
        return self._named(wrong, top)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON can hold it; the confusion matrix as the cells that are not zero."""
        return {
            "tokens": self.tokens,
            "correct": self.correct,
            "accuracy": self.accuracy,
            "unknown": self.unknown,
            "sequences": self.sequences,
            "sequences_correct": self.sequences_correct,
            "sequence_accuracy": self.sequence_accuracy,
            "labels": [{"label": label} | quality.to_json() for label, quality in self.per_label.items()],
            "macro": self.macro._asdict(),
            "weighted": self.weighted._asdict(),
            "confusion": [cell._asdict() for cell in self._named(self.confusion, None)],
            "spans": None if self.spans_overall is None else self.spans_overall.to_json(),
            "span_types": None
            if self.spans is None
            else [{"type": kind} | quality.to_json() for kind, quality in self.spans.items()],
        }

    @property
    def _occurring(self) -> list[Quality]:
        return [quality for quality in self.per_label.values() if quality.gold or quality.found]

    def _named(self, matrix: Counts, top: int | None) -> list[Confusion]:
        """Cells of a matrix by labels, the largest first, those of zero left out."""
        cells = np.flatnonzero(matrix)
        cells = cells[np.argsort(-matrix.flat[cells], kind="stable")][:top]
        golds, predictions = np.divmod(cells, len(self.labels))
        return [
            Confusion(self.labels[gold], self.labels[predicted], int(matrix[gold, predicted]))
            for gold, predicted in zip(golds, predictions, strict=True)
        ]


def joined_scores(scores: Sequence[Scores]) -> Scores:
    """The scores of several taggings by one model together; labels that only some have come after those of the first.

    >>> import numpy as np
    >>> counts = [Count(["A", "B"]), Count(["A", "B", "C"])]
    >>> for count in counts:
    ...     count.add(np.array([0, len(count.scores().labels) - 1]), np.array([0, 1]), np.array([True, False]))
    >>> joined = joined_scores([count.scores() for count in counts])
    >>> joined.labels, joined.correct, joined.tokens
    (('A', 'B', 'C'), 3, 4)
    """
    labels = tuple(dict.fromkeys(label for one in scores for label in one.labels))
    numbers = {label: number for number, label in enumerate(labels)}
    confusion = np.zeros((len(labels), len(labels)), np.int64)
    spans: dict[str, Quality] = {}
    for one in scores:
        places = [numbers[label] for label in one.labels]
        confusion[np.ix_(places, places)] += one.confusion
        for kind, quality in (one.spans or {}).items():
            before = spans.get(kind, Quality(0, 0, 0))
            sums = (getattr(before, name) + getattr(quality, name) for name in ("gold", "found", "correct"))
            spans[kind] = Quality(*sums)
    return Scores(
        labels=labels,
        confusion=confusion,
        unknown=sum(one.unknown for one in scores),
        sequences=sum(one.sequences for one in scores),
        sequences_correct=sum(one.sequences_correct for one in scores),
        spans=None if any(one.spans is None for one in scores) else dict(sorted(spans.items())),
    )


class Count:
    """Compare taggings stretch by stretch; sequences and spans may go across the borders of stretches.

    labels    the names of the numbers: those of the model, and beyond them any others that gold has
    spans     count spans too; unless given, if every label is O or a tag such as B-NP or I-NP, with B, I, E, S, L or U

    Raises `ChainfoldError` where a label is given twice.

    >>> import numpy as np
    >>> count = Count(["O", "B-X", "I-X"])
    >>> count.add(np.array([1, 2, 0]), np.array([1, 2, 0]), np.array([True, False, False]))
    >>> count.scores().spans_overall.f1
    1.0
    """

    def __init__(self, labels: Sequence[str], spans: bool | None = None) -> None:
        self._labels = tuple(labels)
        if len(set(self._labels)) < len(self._labels):
            twice = next(label for label in self._labels if self._labels.count(label) > 1)
            raise ChainfoldError(f"label {twice!r} is there twice; give each label once.")
        self._confusion = np.zeros(len(self._labels) ** 2, np.int64)
        self._positions = self._unknown = 0
        self._sequences = _Sequences()
        self._spans = _Spans(self._labels) if (are_chunk_tags(labels) if spans is None else spans) else None

    def add(self, gold: Labels, predicted: Labels, starts: NDArray[np.bool_]) -> None:
        """The next positions: gold labels, -1 where unknown, predicted ones, and where sequences start.

        A position without a gold label is left out of every count; spans break there, as they do between sequences.
        """
        if not gold.size == predicted.size == starts.size:
            raise BadChain(
                f"there are {gold.size} gold labels, {predicted.size} predicted ones and {starts.size} start marks; "
                f"each position needs one of each."
            )
        for low in range(0, gold.size, _AT_ONCE):
            here = slice(low, low + _AT_ONCE)
            self._add(gold[here], predicted[here], starts[here])

    def extend(self, labels: Sequence[str]) -> None:
        """Further labels that gold has, numbered after the others."""
        if not labels:
            return
        old, self._labels = len(self._labels), (*self._labels, *labels)
        confusion = np.zeros((len(self._labels), len(self._labels)), np.int64)
        confusion[:old, :old] = self._confusion.reshape(old, old)
        self._confusion = confusion.ravel()
        self._spans = None if self._spans is None else self._spans.extended(self._labels)

    def scores(self) -> Scores:
        """The scores so far, as if the last sequence ended here; counting may go on."""
        sequences, correct = self._sequences.closed()
        size = len(self._labels)
        return Scores(
            labels=self._labels,
            confusion=self._confusion.reshape(size, size).copy(),
            unknown=self._unknown,
            sequences=sequences,
            sequences_correct=correct,
            spans=None if self._spans is None else self._spans.closed(),
        )

    def _add(self, gold: Labels, predicted: Labels, starts: NDArray[np.bool_]) -> None:
        size = len(self._labels)
        if (wrong := _outside(gold, _UNKNOWN, size)) is not None:
            raise LabelOutOfRange(self._positions + wrong, int(gold[wrong]), size)
        if (wrong := _outside(predicted, 0, size)) is not None:
            raise BadChain(
                f"position {self._positions + wrong} has the predicted label {predicted[wrong]}, but predicted labels "
                f"go from 0 to {size - 1}."
            )
        known = gold != _UNKNOWN
        np.add.at(self._confusion, (gold.astype(np.int64) * size + predicted)[known], 1)
        self._positions += gold.size
        self._unknown += int(np.count_nonzero(~known))
        first = np.flatnonzero(starts)
        self._sequences.add(known, known & (gold != predicted), first)
        if self._spans is not None:
            gold, predicted = np.where(known, gold, size), np.where(known, predicted, size)
            self._spans.add(np.insert(gold, first, size), np.insert(predicted, first, size))


def are_chunk_tags(labels: Sequence[str]) -> bool:
    """Whether every label is O or a tag such as B-NP, and one at least the latter."""
    tags = [label for label in labels if label != "O"]
    return bool(tags) and all(label.startswith(_CHUNK_PREFIXES) for label in tags)


class _Sequences:
    """Sequences with a known label, and those of them without a mistake."""

    def __init__(self) -> None:
        self._counted = self._correct = 0
        self._known = self._wrong = False  # in the sequence that is still open

    def add(self, known: NDArray[np.bool_], wrong: NDArray[np.bool_], first: NDArray[np.int64]) -> None:
        """Known and wrong positions, and where sequences start; what comes before belongs to the open one."""
        end = int(first[0]) if first.size else known.size
        self._known |= bool(known[:end].any())
        self._wrong |= bool(wrong[:end].any())
        if first.size:
            any_known = np.concatenate([[self._known], np.logical_or.reduceat(known, first)])
            any_wrong = np.concatenate([[self._wrong], np.logical_or.reduceat(wrong, first)])
            self._counted += int(np.count_nonzero(any_known[:-1]))
            self._correct += int(np.count_nonzero(any_known[:-1] & ~any_wrong[:-1]))
            self._known, self._wrong = bool(any_known[-1]), bool(any_wrong[-1])

    def closed(self) -> tuple[int, int]:
        """Counted and correct, the open one among them."""
        return self._counted + self._known, self._correct + (self._known and not self._wrong)


class _Spans:
    """Spans in gold, found and correct, by type. Label N is a break: what stands between two sequences."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        tagged = [_tag_and_type(label) for label in (*labels, "O")]
        self._kinds = sorted({kind for _, kind in tagged})
        self._shown = {kind for tag, kind in tagged if tag not in _NO_SPAN}
        self._kind_of = np.array([self._kinds.index(kind) for _, kind in tagged], np.int32)
        self._moves = _moves([tag for tag, _ in tagged], self._kind_of)
        self._gold, self._found, self._correct = np.zeros((3, len(self._kinds)), np.int64)
        self._last = np.array([len(labels)] * 2, np.int32)  # gold, predicted
        self._open = False  # has a span started in both, alike until now?

    def add(self, gold: Labels, predicted: Labels) -> None:
        """The next labels, breaks among them."""
        last_gold, last_predicted = self._last
        gold_move, gold_kind = self._followed(last_gold, gold)
        predicted_move, predicted_kind = self._followed(last_predicted, predicted)
        self._gold += self._by_kind(gold_kind[gold_move & _START != 0])
        self._found += self._by_kind(predicted_kind[predicted_move & _START != 0])
        differ = gold_kind != predicted_kind
        both = gold_move & predicted_move
        opens = (both & _START != 0) & ~differ
        events = np.flatnonzero(opens | differ | ((gold_move | predicted_move) & _END != 0))
        # whatever happens to an open span ends it, unless another opens at once; it is correct if both ended there
        was_open = np.concatenate([[self._open], opens[events]])
        right = events[was_open[:-1] & (both[events] & _END != 0)]
        before = np.where(right > 0, gold_kind[right - 1], self._kind_of[last_gold])
        self._correct += self._by_kind(before)
        self._open = bool(was_open[-1])
        self._last = np.array([gold[-1], predicted[-1]], np.int32)

    def extended(self, labels: tuple[str, ...]) -> _Spans:
        """A copy of the counts for more labels."""
        more = _Spans(labels)
        places = [more._kinds.index(kind) for kind in self._kinds]
        for name in ("_gold", "_found", "_correct"):
            getattr(more, name)[places] = getattr(self, name)
        more._last = np.where(self._last == self._kind_of.size - 1, len(labels), self._last).astype(np.int32)
        more._open = self._open
        return more

    def closed(self) -> dict[str, Quality]:
        """The counts with everything ended here."""
        ended = deepcopy(self)
        end = np.array([self._kind_of.size - 1], np.int32)
        ended.add(end, end)
        ended._correct[self._kind_of[-1]] += ended._open  # by the rules a tag that is none of theirs may stay open
        counts = zip(self._kinds, ended._gold, ended._found, ended._correct, strict=True)
        return {
            kind: Quality(int(gold), int(found), int(correct))
            for kind, gold, found, correct in counts
            if kind in self._shown
        }

    def _followed(self, last: np.int32, labels: Labels) -> tuple[NDArray[np.uint8], Labels]:
        """The ends and starts of spans before each label, and the number of its type."""
        before = np.concatenate([[last], labels[:-1]]).astype(np.int64)
        return self._moves.take(before * self._kind_of.size + labels), self._kind_of.take(labels)

    def _by_kind(self, kinds: Labels) -> Counts:
        return np.bincount(kinds, minlength=len(self._kinds))


def _tag_and_type(label: str) -> tuple[str, str]:
    tag, _, kind = label.partition("-")
    return _SAME_TAG.get(tag, tag), kind


def _moves(tags: Sequence[str], kind_of: Labels) -> NDArray[np.uint8]:
    """[N · N] What happens between two neighbours by their labels: a span ends, a span starts, both or nothing."""
    names = sorted(set(tags))
    tag_of = np.array([names.index(tag) for tag in tags])
    by_tags = np.array([[_move(before, after) for after in names] for before in names], np.uint8)
    inside = np.array([tag not in _NO_SPAN for tag in tags])
    if_changed = np.where(inside[:, None], _END, 0) | np.where(inside[None, :], _START, 0)
    changed = kind_of[:, None] != kind_of[None, :]
    return np.ravel(by_tags[tag_of[:, None], tag_of[None, :]] | np.where(changed, if_changed, 0)).astype(np.uint8)


def _move(before: str, after: str) -> int:
    """The end and start of a span between two neighbours of the same type, by their tags alone."""
    ends = (before, after) in _ENDS_BETWEEN or before in _ENDS_AFTER
    starts = (before, after) in _STARTS_BETWEEN or after in _STARTS_AT
    return _START * starts | _END * ends


def _outside(labels: Labels, least: int, size: int) -> int | None:
    """The place of the first label that is not from the least one to the last."""
    if labels.min() >= least and labels.max() < size:
        return None
    return int(np.flatnonzero((labels < least) | (labels >= size))[0])


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _average(weighted: Sequence[tuple[Quality, int]]) -> Average:
    total = sum(weight for _, weight in weighted)
    rows = [(weight * each.precision, weight * each.recall, weight * each.f1) for each, weight in weighted]
    return Average(*(sum(column) / total for column in zip(*rows, strict=True))) if total else Average(0.0, 0.0, 0.0)
