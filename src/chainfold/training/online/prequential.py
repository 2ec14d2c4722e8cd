"""How well each batch was tagged before it was trained on, by intervals."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from chainfold.errors import BadFile
from chainfold.system.files import written_whole
from chainfold.system.validate import is_count, is_number, need
from chainfold.training.online.trainer import BatchResult

INTERVAL = 10_000  # positions, at least

_HEADINGS = ("positions", "accuracy", "running_accuracy", "loss")
_LINE = re.compile(r"[0-9]{1,18}(,-?[0-9]+\.[0-9]{6}){3}\n")


class Interval(NamedTuple):
    """Some batches, and how it went until then."""

    positions: int  # trained on until then
    accuracy: float  # of the interval
    running_accuracy: float  # of all until then
    loss: float  # of the interval: the mean -log likelihood of a position


class Prequential:
    """Counts what was tagged right, and tells of each interval."""

    def __init__(self, tell: Callable[[Interval], None], interval: int = INTERVAL) -> None:
        self._tell, self._interval = tell, interval
        self.counts = [0, 0, 0, 0]  # positions and those right, of all and of this interval
        self.loss = 0.0  # of this interval

    def add(self, learnt: BatchResult) -> None:
        for k, count in enumerate((learnt.positions, learnt.right) * 2):
            self.counts[k] += count
        self.loss += learnt.loss
        if self.counts[2] >= self._interval:
            self.close()

    def restore(self, counts: Any, loss: Any, positions: int) -> None:
        """Continue counts over `positions` positions."""
        need(type(counts) is list and len(counts) == 4, "its counts are not four")
        need(all(is_count(one, 0, positions) for one in counts), "its counts are out of range")
        need(counts[0] == positions and counts[3] <= counts[2], "its counts are those of other rows")
        need(is_number(loss), "its loss is no number")
        self.counts, self.loss = counts, float(loss)

    def close(self) -> None:
        """Tell of the interval so far."""
        positions, right, recent, recent_right = self.counts
        if recent:
            self._tell(Interval(positions, recent_right / recent, right / positions, self.loss / recent))
        self.counts[2:], self.loss = [0, 0], 0.0


class IntervalTable:
    """Intervals as lines of CSV, each written when it is known."""

    def __init__(self, path: Path, positions: int) -> None:
        """Continue after `positions` positions: lines of later ones are written again."""
        kept = _lines_until(path, positions) if positions else []
        with written_whole(path) as file:  # lines of before are not lost, whenever this is killed
            file.write("".join([f"{','.join(_HEADINGS)}\n", *kept]).encode())
        try:
            self._file: IO[str] = path.open("a", newline="", encoding="utf-8")
        except OSError as error:
            raise BadFile(path, f"cannot be written: {error.strerror or error}.") from None
        self._writer = csv.writer(self._file, lineterminator="\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, interval: Interval) -> None:
        self._writer.writerow([interval.positions, *(f"{value:.6f}" for value in interval[1:])])
        self._file.flush()


def _lines_until(path: Path, positions: int) -> list[str]:
    """The lines that were written whole."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.splitlines(keepends=True)[1:] if _LINE.fullmatch(line)]
    return [line for line in lines if int(line.split(",")[0]) <= positions]
