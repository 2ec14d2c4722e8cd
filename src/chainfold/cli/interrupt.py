"""Ctrl-C, SIGTERM and SIGHUP while something is done that must not stop in the middle."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from chainfold.system import signals as stopping


@contextmanager
def interruptible(heard: Callable[[], None] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether it was asked to stop.

    `heard` is called when it is, and raises where nothing would be left half done. A second request raises
    KeyboardInterrupt wherever it comes, unless it comes so soon that it is the same one. Only the main thread is asked.
    """
    first: float | None = None  # when it was asked

    def ask(number: int, frame: Any) -> None:
        nonlocal first
        stopping.raise_if_short_of_memory()
        if first is not None:
            if time.monotonic() - first > stopping.SAME:
                raise KeyboardInterrupt
            return
        first = time.monotonic()
        stopping.asked_by(number)
        heard()

    heard_of = [number for number in stopping.SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    heard_of = heard_of if stopping.in_main_thread() else []
    before = {number: signal.signal(number, ask) for number in heard_of}
    try:
        yield lambda: first is not None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
