"""How the command stops when it is asked to: one line, the exit code of the signal, nothing half done.

Before a verb has begun there is nothing to clean up, and the process ends at once. In a verb the request is an
exception, raised where it can be one: not in the middle of an import, which packages do not expect, and not in a
callback, where Python would print and forget it. A second request ends the process at once.

Only the standard library is imported here: this has to be there before anything slow is.
"""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

SAME = 0.5  # seconds; a request so soon after another is the same one, sent to a group of processes and to each
_PAUSE = 0.02  # seconds until a request that came at a bad moment is made again
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


_MAIN = threading.main_thread().ident or 0


class _Requests:
    """What was asked, and what became of it."""

    in_verb: bool = False
    number: int = signal.SIGINT
    short_of_memory: bool = False
    first: float | None = None  # when
    again: bool = False  # the next is the first one, made again
    raised: bool = False
    told: bool = False


_requests = _Requests()


def in_main_thread() -> bool:
    """Elsewhere Python lets nobody hear of signals."""
    return threading.current_thread() is threading.main_thread()


def listen() -> None:
    """Hear of Ctrl-C, SIGTERM and SIGHUP from now on, but for what whoever started the process wants to be ignored."""
    if not in_main_thread():
        return
    for number in SIGNALS:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _heard)
            atexit.register(signal.signal, number, signal.SIG_IGN)  # the last thing of all: the exit code is known
    sys.unraisablehook = _not_raised


@contextmanager
def in_verb() -> Iterator[None]:
    """While something is done that has to be told."""
    global _requests
    _requests = _Requests()
    _requests.in_verb = True
    try:
        yield
    finally:
        _requests.in_verb = False


def asked_by(number: int) -> None:
    """Whoever hears of requests instead has heard of this one."""
    _requests.number = number


def code() -> int:
    """The exit code after a request."""
    return 128 + _requests.number


def interrupted() -> int:
    """Say so, once; the exit code."""
    if not _requests.told and sys.stderr is not None:
        with suppress(OSError):
            print(_line(), file=sys.stderr, flush=True)
    _requests.told = True
    return code()


def _line() -> str:
    number = _requests.number
    return f"chainfold: {'interrupted' if number == signal.SIGINT else f'ended by {signal.Signals(number).name}'}."


def raise_if_short_of_memory() -> None:
    """For whoever hears of a request: was it made because a thread could not begin?"""
    if _requests.short_of_memory:
        _requests.short_of_memory = False
        raise MemoryError("a thread could not be started")


def _heard(number: int, frame: FrameType | None) -> None:
    raise_if_short_of_memory()
    now, again = time.monotonic(), _requests.again
    _requests.again = False
    if _requests.first is None:
        _requests.first, _requests.number = now, number
    second = not again and now - _requests.first > SAME
    if second or not _requests.in_verb:
        if not _requests.told:
            with suppress(OSError):
                os.write(2, f"{_line()}\n".encode())
        os._exit(code())
    if _requests.raised:
        return
    if _importing(frame):
        _ask_again(number)
        return
    _requests.raised = True
    raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _ask_again(number: int) -> None:
    """Soon, and such that a wait for input ends too. A bare thread: this must not wait for a lock."""

    def ask() -> None:
        time.sleep(_PAUSE)
        _requests.again = True
        signal.pthread_kill(_MAIN, number)

    _thread.start_new_thread(ask, ())


def _not_raised(what: Any) -> None:
    """An exception that Python cannot raise, in a callback or before a thread has begun.

    A request to stop is made again. Whoever waits for a thread that had no memory to begin would wait for ever: the
    main thread is woken, and told, until it has heard; a signal that comes just before it waits does not wake it.
    """
    if issubclass(what.exc_type, KeyboardInterrupt):
        _requests.raised = False
        _ask_again(_requests.number)
    elif issubclass(what.exc_type, MemoryError) and _requests.in_verb:
        _requests.short_of_memory = not in_main_thread()
        while _requests.short_of_memory:
            signal.pthread_kill(_MAIN, signal.SIGTERM)
            time.sleep(_PAUSE)
    else:
        sys.__unraisablehook__(what)
