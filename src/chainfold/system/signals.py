"""How the command stops on Ctrl-C, SIGTERM and SIGHUP: one line, the exit code of the signal, nothing half done.

    listen           handle the signals from now on
    in_verb          while a verb runs, a signal raises KeyboardInterrupt
    interruptible    while a step must not be left unfinished, a signal is a request that the step asks about

Before a verb has begun there is nothing to clean up, and the process ends at once. In a verb the exception is raised
where it can be: not during an import, which packages do not expect, and not in a callback, where Python prints and
drops it. A second signal ends the process at once.

Only the standard library is imported here: this module is imported before anything slow.
"""

from __future__ import annotations

import _thread
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
_PAUSE = 0.02  # seconds until a signal that came at a bad moment is sent again
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_MAIN = threading.main_thread().ident or 0


class _Requests:
    """The signals of a verb."""

    in_verb: bool = False
    number: int = signal.SIGINT
    short_of_memory: bool = False
    first: float | None = None  # when the first came
    again: bool = False  # the next is the first one, sent again
    raised: bool = False
    reported: bool = False


_requests = _Requests()


def listen() -> None:
    """Handle Ctrl-C, SIGTERM and SIGHUP from now on, except those that the parent process has set to be ignored."""
    if not _in_main_thread():
        return
    for number in _SIGNALS:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _handle)
            atexit.register(signal.signal, number, signal.SIG_IGN)  # last of all: the exit code is known
    sys.unraisablehook = _handle_unraisable


@contextmanager
def in_verb() -> Iterator[None]:
    """While a verb runs."""
    global _requests
    _requests = _Requests()
    _requests.in_verb = True
    try:
        yield
    finally:
        _requests.in_verb = False


@contextmanager
def interruptible(requested: Callable[[], None] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether a signal has come.

    `requested` is called when it does, and may raise where nothing would be left unfinished. A second signal raises
    KeyboardInterrupt at any place, unless it comes so soon that it is the same one. Outside the main thread there are
    no signals.
    """
    first: float | None = None

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal first
        _raise_if_short_of_memory()
        if first is not None:
            if time.monotonic() - first > _SAME:
                raise KeyboardInterrupt
            return
        first, _requests.number = time.monotonic(), number
        requested()

    handled = [n for n in _SIGNALS if signal.getsignal(n) != signal.SIG_IGN] if _in_main_thread() else []
    before = {number: signal.signal(number, handle) for number in handled}
    try:
        yield lambda: first is not None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code() -> int:
    """The exit code after a signal."""
    return 128 + _requests.number


def report_interrupt() -> int:
    """Write a line about the signal, once; return the exit code."""
    if not _requests.reported and sys.stderr is not None:
        with suppress(OSError):
            print(_line(), file=sys.stderr, flush=True)
    _requests.reported = True
    return exit_code()


def _in_main_thread() -> bool:
    """Python handles signals in the main thread only."""
    return threading.current_thread() is threading.main_thread()


def _line() -> str:
    number = _requests.number
    return f"chainfold: {'interrupted' if number == signal.SIGINT else f'ended by {signal.Signals(number).name}'}."


def _raise_if_short_of_memory() -> None:
    """Raise if the signal was sent because a thread could not begin."""
    if _requests.short_of_memory:
        _requests.short_of_memory = False
        raise MemoryError("a thread could not be started")


def _handle(number: int, frame: FrameType | None) -> None:
    _raise_if_short_of_memory()
    now, again = time.monotonic(), _requests.again
    _requests.again = False
    if _requests.first is None:
        _requests.first, _requests.number = now, number
    second = not again and now - _requests.first > _SAME
    if second or not _requests.in_verb:
        if not _requests.reported:
            with suppress(OSError):
                os.write(2, f"{_line()}\n".encode())
        os._exit(exit_code())
    if _requests.raised:
        return
    if _importing(frame):
        _send_again(number)
        return
    _requests.raised = True
    raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> None:
    """Send a signal again soon, such that a wait for input ends, too. A bare thread: this must not wait for a lock."""

    def send() -> None:
        time.sleep(_PAUSE)
        _requests.again = True
        signal.pthread_kill(_MAIN, number)

    _thread.start_new_thread(send, ())


def _handle_unraisable(unraisable: Any) -> None:
    """An exception that Python cannot raise, in a callback or before a thread has begun.

    An interrupt is sent again. If a thread had no memory to begin, its starter would wait for ever: the main thread is
    sent a signal until it has handled one; a signal that comes just before it waits does not wake it.
    """
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _requests.raised = False
        _send_again(_requests.number)
    elif issubclass(unraisable.exc_type, MemoryError) and _requests.in_verb:
        _requests.short_of_memory = not _in_main_thread()
        while _requests.short_of_memory:
            signal.pthread_kill(_MAIN, signal.SIGTERM)
            time.sleep(_PAUSE)
    else:
        sys.__unraisablehook__(unraisable)
