"""Ctrl-C, SIGTERM and SIGHUP while something is done that must not stop in the middle."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from chainfold import stopping


@contextmanager
def interruptible(heard: Callable[[], None] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether it was asked to stop.

    `heard` is called when it is, and raises where nothing would be left half done. A second request raises
    KeyboardInterrupt wherever it comes.
    """
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        stopping.raise_if_short_of_memory()
        if asked:
            raise KeyboardInterrupt
        asked = True
        stopping.asked_by(number)
        heard()

    heard_of = [number for number in stopping.SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, ask) for number in heard_of}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
