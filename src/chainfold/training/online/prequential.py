"""Accuracy and loss of each interval of positions, tagged before training on them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from chainfold.errors import BadFile
from chainfold.system.files import written_whole
from chainfold.system.validate import Arrays, finite, need
from chainfold.training.online.trainer import BatchResult

INTERVAL = 10_000  # least number of positions

_LINE = re.compile(r"[0-9]{1,18}(,-?[0-9]+\.[0-9]{6}){3}\n")


class Interval(NamedTuple):
    """Consecutive batches."""

    positions: int  # trained on by its end
    accuracy: float  # in the interval
    running_accuracy: float  # over all positions by its end
    loss: float  # mean negative log likelihood per position of the interval


class Prequential:
    """Divides batches into intervals; `tell` is called with each."""

    def __init__(self, tell: Callable[[Interval], None], interval: int = INTERVAL) -> None:
        self._tell, self._interval = tell, interval
        self._counts = [0, 0, 0, 0]  # positions, and positions tagged right: of all, and of this interval
        self._loss = 0.0  # of this interval

    @property
    def told(self) -> int:
        """Number of positions in complete intervals."""
        return self._counts[0] - self._counts[2]

    def add(self, batch: BatchResult) -> None:
        for k, count in enumerate((batch.positions, batch.right) * 2):
            self._counts[k] += count
        self._loss += batch.loss
        if self._counts[2] >= self._interval:
            self.close()

    def close(self) -> None:
        """End the interval, unless it is empty."""
        positions, right, recent, recent_right = self._counts
        if recent:
            self._tell(Interval(positions, recent_right / recent, right / positions, self._loss / recent))
        self._counts[2:], self._loss = [0, 0], 0.0

    def state(self) -> dict[str, Any]:
        """Arrays from which `restore` continues."""
        return {"counts": np.array(self._counts), "loss": np.array(self._loss)}

    def restore(self, state: dict[str, Any], positions: int) -> None:
        """Continue from a state after `positions` positions; raises for arrays that `state` cannot have given."""
        given = Arrays(state)
        counts, loss = given.counts("counts", *[positions] * 4), given.take("loss", np.float64)
        given.check_empty()
        need(counts[0] == positions and counts[3] <= counts[2], "its counts are those of other rows")
        finite("loss", loss)
        self._counts, self._loss = counts, float(loss)


class IntervalTable:
    """A CSV file with a line for each interval, written when the interval ends."""

    def __init__(self, path: Path, positions: int) -> None:
        """Begin a file or, after `positions` positions, continue one; lines of later intervals are removed."""
        kept: list[str] = []
        if positions and path.is_file():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
            kept = [line for line in lines if _LINE.fullmatch(line) and int(line.split(",")[0]) <= positions]
        with written_whole(path) as file:
            file.write("".join([f"{','.join(Interval._fields)}\n", *kept]).encode())
        try:
            self._file = path.open("a", newline="", encoding="utf-8")
        except OSError as error:
            raise BadFile(path, f"cannot be written: {error.strerror or error}.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, interval: Interval) -> None:
        self._file.write(f"{interval.positions},{','.join(f'{value:.6f}' for value in interval[1:])}\n")
        self._file.flush()
