"""Ctrl-C, and the polite way to end a process, while something is done that must not stop in the middle."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interruptible(
    waiting: Callable[[], bool] = lambda: False, leave: type[BaseException] = KeyboardInterrupt
) -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether it was asked to stop; where one only waits, `leave` is raised at once.

    A second request raises KeyboardInterrupt wherever it comes.
    """
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        if waiting():
            raise leave

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
