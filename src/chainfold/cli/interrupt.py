"""Ctrl-C, and the polite ways to end a process: what is half done is undone, or done first."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_POLITE = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Ended(KeyboardInterrupt):
    """The process was asked to end, otherwise than by Ctrl-C."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"ended by {signal.Signals(number).name}")


def hear_polite_requests() -> None:
    """From now on a request to end the process raises `Ended`, once, so that nothing half-written is left behind."""

    def end(number: int, frame: Any) -> None:
        for one in _POLITE:
            signal.signal(one, signal.SIG_IGN)  # what is being cleaned up is cleaned up
        raise Ended(number)

    for number in _POLITE:
        if signal.getsignal(number) == signal.SIG_DFL:  # not ignored, as by nohup
            signal.signal(number, end)


@contextmanager
def interruptible(heard: Callable[[], None] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether it was asked to stop.

    `heard` is called when it is, and raises where nothing would be left half done. A second request raises
    KeyboardInterrupt wherever it comes.
    """
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        heard()

    heard_of = [number for number in (signal.SIGINT, *_POLITE) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, ask) for number in heard_of}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
