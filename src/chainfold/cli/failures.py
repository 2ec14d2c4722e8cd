"""Failures of a verb as one sentence and an exit code: its own, and those of memory, libraries and the system."""

from __future__ import annotations

import errno
import functools
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from chainfold.cli.console import abandon, complain, notice
from chainfold.cli.options import holding
from chainfold.cli.parameters import Verb, flags_of
from chainfold.errors import ChainfoldError, ChainfoldWarning
from chainfold.system import signals

FAILURES = (ImportError, MemoryError, OSError, RuntimeError)  # of libraries and the system
_WRITING = frozenset({errno.EAGAIN, errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EINVAL, errno.EIO, errno.ENOSPC})
_MOST_SHOWN = 200  # characters of a library's message


def guarded(verb: Verb) -> Verb:
    """A verb whose failures are sentences and exit codes."""

    @functools.wraps(verb)
    def run(*arguments: Any, **values: Any) -> None:
        with flags_of(verb):
            try:
                with signals.in_verb(), _warnings_as_notices(), holding():
                    verb(*arguments, **values)
                    if sys.stdout is not None:
                        sys.stdout.flush()
            except ChainfoldError as error:
                complain(error)
                raise typer.Exit(2) from None
            except KeyboardInterrupt:
                raise typer.Exit(signals.report_interrupt()) from None
            except SystemExit as exited:  # rich does so if nobody reads the output any more
                raise typer.Exit(0) from exited
            except FAILURES as error:
                raise typer.Exit(report_failure(error)) from None

    return run


def report_failure(error: Exception) -> int:
    """Write a sentence about a failure of memory, a library or the system; return the exit code.

    What standard output does not take is discarded.
    """
    if isinstance(error, BrokenPipeError):  # nobody reads any more
        abandon(sys.stdout)
        return 0
    sentence = _sentence(error)
    if sentence is None:
        raise error
    if _output_fails():
        abandon(sys.stdout)
    complain(sentence)
    return 2


def _sentence(error: Exception) -> str | None:
    """The sentence of an error; None if only a mistake in chainfold raises it."""
    if isinstance(error, MemoryError):
        cause = f": {_short(error)}" if str(error) else ""
        return f"not enough memory{cause}; use a smaller input or model, or a machine with more memory."
    if isinstance(error, ImportError) or (isinstance(error, OSError) and error.errno is None):
        if not any(suffix in str(error) for suffix in (".so", ".dll", ".dylib")):
            return None
        return f"a library cannot be loaded: {_short(error)}; install chainfold again, or give it more memory."
    if "can't start new thread" in str(error):
        return "the operating system refuses another thread; raise the limit (ulimit -u)."
    return _sentence_of_system(error) if isinstance(error, OSError) else None


def _sentence_of_system(error: OSError) -> str:
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {reason}."
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{reason}; close some, or raise the limit (ulimit -n)."
    if error.errno == errno.ENOMEM:
        return f"not enough memory: {reason}."
    if error.errno in _WRITING or _output_fails():  # errors of named files have a filename
        return f"cannot write to standard output: {reason}."
    return f"the operating system refuses a request: {reason}."


def _output_fails() -> bool:
    """Whether standard output refuses the rest of its buffer."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        return True
    return False


def _short(error: Exception) -> str:
    """The last line of a library's message, which may be a page."""
    return str(error).strip().rpartition("\n")[2].strip()[:_MOST_SHOWN].rstrip(".")


@contextmanager
def _warnings_as_notices() -> Iterator[None]:
    """Warnings of chainfold are always shown, as sentences on standard error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=ChainfoldWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if issubclass(category, ChainfoldWarning):
                notice(message)
            else:
                usual(message, category, *place)

        warnings.showwarning = show  # type: ignore[assignment]
        yield
