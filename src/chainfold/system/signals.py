"""Signals that stop the command, Ctrl-C, SIGTERM, SIGHUP: one line, exit code 128 + the signal, nothing half written.

    listen           handle the signals from now on
    in_verb          while a verb runs, a signal raises KeyboardInterrupt
    interruptible    while a step must not be left unfinished, the step asks whether a signal has come

Outside of a verb there is nothing to clean up, and the process ends at once; so it does after a second signal.

Only the standard library is imported here: this module is imported before anything slow.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_SAME = 0.5  # seconds; a signal this soon after another is the same one, sent to a process group and to each process
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class _State:
    """The signals of a verb."""

    in_verb: bool = False
    number: int = signal.SIGINT
    first: float | None = None  # when the first came
    request: Callable[[], None] | None = None  # instead of KeyboardInterrupt
    reported: bool = False


_state = _State()


def listen() -> None:
    """Handle Ctrl-C, SIGTERM and SIGHUP, except those that the parent process has set to be ignored."""
    for number in _install():
        atexit.register(signal.signal, number, signal.SIG_IGN)  # last of all: the exit code is known


@contextmanager
def in_verb() -> Iterator[None]:
    """While a verb runs."""
    global _state
    _state = _State()
    _state.in_verb = True
    try:
        yield
    finally:
        _state.in_verb = False


@contextmanager
def interruptible(requested: Callable[[], None] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether a signal has come; until the end of the context none raises anything.

    `requested` is called at the first one, and may raise where nothing would be left unfinished.
    """
    state, state.request = _state, requested
    before = _install()
    try:
        yield lambda: state.first is not None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        state.request = None


def exit_code() -> int:
    """The exit code after a signal."""
    return 128 + _state.number


def report_interrupt() -> int:
    """Write a line about the signal, once; return the exit code."""
    if not _state.reported and sys.stderr is not None:
        with suppress(OSError):
            print(_line(), file=sys.stderr, flush=True)
    _state.reported = True
    return exit_code()


def _install() -> dict[int, Any]:
    """Set the handler; returns those before. Outside the main thread Python handles no signals."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    heard = [number for number in _SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    return {number: signal.signal(number, _handle) for number in heard}


def _line() -> str:
    number = _state.number
    return f"chainfold: {'interrupted' if number == signal.SIGINT else f'ended by {signal.Signals(number).name}'}."


def _handle(number: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    if _state.first is None:
        _state.first, _state.number = now, number
        if _state.request is not None:
            _state.request()
            return
        if _state.in_verb:
            raise KeyboardInterrupt
    elif now - _state.first < _SAME:
        return
    if not _state.reported:
        with suppress(OSError):
            os.write(2, f"{_line()}\n".encode())
    os._exit(exit_code())
