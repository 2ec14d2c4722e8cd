"""Callbacks for the progress of reading and encoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def ignore(*_: object) -> None:
    pass


@dataclass(frozen=True)
class InputProgress:
    """Functions that are called while an input is read and encoded."""

    total: Callable[[int | None], None] = ignore  # bytes of the input, None if unknown
    phase: Callable[[str, int | None], None] = ignore  # the phase that begins, and its positions, None if unknown
    read: Callable[[int], None] = ignore  # bytes that were read
    positions: Callable[[int], None] = ignore  # positions that were done
