"""Scores as tables: totals, labels, spans, confusions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from chainfold.cli.console import table
from chainfold.escape import visible

if TYPE_CHECKING:
    from rich.console import Console

    from chainfold.metrics import Average, Quality, Scores

_MOST_ROWS = 40  # in a table
_MOST_CONFUSIONS = 10
_MOST_MATRIX = 30  # labels in a confusion matrix
_CORNER = "gold ↓ predicted →"
_RATIOS = ("precision %", "recall %", "F1 %")


def show(scores: Scores, console: Console, *, confusion: bool = False) -> None:
    """Print the scores; with `confusion` the whole matrix, too, unless there are too many labels for it."""
    console.print(_totals(scores), highlight=False)
    if not scores.tokens:
        return
    console.print(_labels(scores))
    if scores.spans and scores.spans_overall:
        console.print(_spans(scores.spans, scores.spans_overall))
    if scores.correct < scores.tokens:
        console.print(_confusions(scores))
    for part in _matrix(scores, console.width) if confusion else ():
        console.print(part)
    longest = max(len(_occurring(scores)), len(scores.spans or ()))
    if longest > _MOST_ROWS:
        console.print(f"Tables show {_MOST_ROWS} rows at most; --json has all {longest:,}.", highlight=False)


def _totals(scores: Scores) -> str:
    line = f"{scores.tokens:,} positions, {scores.accuracy:.2%} correct"
    if scores.sequences > 1:
        line += f"; {scores.sequences:,} sequences, {scores.sequence_accuracy:.2%} correct throughout"
    return f"{line}; {scores.unknown:,} positions without a known label left out." if scores.unknown else f"{line}."


def _labels(scores: Scores) -> Any:
    """The labels that occur, the most frequent first, and their means."""
    rows = [(label, *_ratios(quality), f"{quality.support:,}") for label, quality in _occurring(scores)]
    means = [
        ("macro average", *_ratios(scores.macro), ""),
        ("weighted average", *_ratios(scores.weighted), f"{scores.tokens:,}"),
    ]
    return table(("label", *_RATIOS, "support"), rows[:_MOST_ROWS] + means)


def _spans(spans: dict[str, Quality], overall: Quality) -> Any:
    """The types of spans, the most frequent first, and all of them together."""
    rows = [
        (kind, *_ratios(quality), f"{quality.gold:,}", f"{quality.found:,}", f"{quality.correct:,}")
        for kind, quality in [*_by_support(spans.items())[:_MOST_ROWS], ("all spans", overall)]
    ]
    return table(("span", *_RATIOS, "gold", "found", "correct"), rows)


def _confusions(scores: Scores) -> Any:
    rows = [(f"{gold} → {predicted}", f"{count:,}") for gold, predicted, count in scores.confusions(_MOST_CONFUSIONS)]
    return table(("most frequent mistakes: gold → predicted", "positions"), rows)


def _matrix(scores: Scores, width: int) -> list[Any]:
    """The confusion matrix, in one table or in several that fit the width."""
    size = len(scores.labels)
    if size > _MOST_MATRIX:
        return [f"The confusion matrix of {size:,} labels is too large for a terminal; --json has it."]
    counts = dict(zip(scores.labels, scores.confusion.tolist(), strict=True))
    return [
        table(
            (_CORNER, *(scores.labels[column] for column in columns)),
            [(label, *(f"{row[column]:,}" for column in columns)) for label, row in counts.items()],
        )
        for columns in _fitting(scores, width)
    ]


def _fitting(scores: Scores, width: int) -> list[list[int]]:
    """The columns of the confusion matrix in groups that fit the width."""
    shown = [visible(label) for label in scores.labels]
    left = max(len(_CORNER), *map(len, shown)) + 4
    groups: list[list[int]] = []
    taken = width
    for column, label in enumerate(shown):
        needed = 3 + max(len(label), len(f"{scores.confusion[:, column].max():,}"))
        if taken + needed > width:
            groups.append([])
            taken = left
        groups[-1].append(column)
        taken += needed
    return groups


def _occurring(scores: Scores) -> list[tuple[str, Quality]]:
    return _by_support((label, each) for label, each in scores.per_label.items() if each.gold or each.found)


def _by_support(named: Iterable[tuple[str, Quality]]) -> list[tuple[str, Quality]]:
    return sorted(named, key=lambda each: -each[1].support)


def _ratios(quality: Quality | Average) -> tuple[str, str, str]:
    return f"{100 * quality.precision:.2f}", f"{100 * quality.recall:.2f}", f"{100 * quality.f1:.2f}"
