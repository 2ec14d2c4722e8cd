"""What goes wrong outside of chainfold, in one sentence: memory, libraries, the operating system, standard output."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from chainfold.cli import show
from chainfold.errors import ChainfoldError, ChainfoldWarning
from chainfold.resident import address_room

_LEAST, _PER_CORE = 1000 << 20, 24 << 20  # bytes for libraries, compiler and blocks; for the threads' stacks
FAILURES = (ImportError, MemoryError, OSError, RuntimeError, SystemError)  # that may come from outside
_WRITING = frozenset({errno.EAGAIN, errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EINVAL, errno.EIO, errno.ENOSPC})
_RUNTIME = {
    "can't start new thread": "the operating system refuses another thread; take fewer --threads, or raise the limit.",
    "can't allocate": "not enough memory for what Python needs itself.",
}
_MOST_SHOWN = 200  # characters of what a library says
_REMEDIES = {
    "train": "take --engine stream, fewer --hash-bits or a higher --min-count",
    "gradient": "take --engine stream or a smaller model",
    "encode": "take fewer --hash-bits or a higher --min-count",
    "tag": "take a smaller model, or do without --nbest, --samples and --marginals",
    "evaluate": "take a smaller model",
    "watch": "take a smaller model, or a smaller --max-lag",
}


def check_room() -> None:
    """Raise if a limit on address space leaves too little: libraries end the process when they cannot get theirs."""
    room, need = address_room(), _LEAST + _PER_CORE * (os.cpu_count() or 1)
    if room is not None and room < need:
        raise ChainfoldError(
            f"a limit leaves this process {room >> 20:,} MB of address space, and a verb needs {need >> 20:,} MB, most "
            f"of it for libraries; raise the limit (ulimit -v)."
        )


def sentence_of(error: Exception, verb: str) -> str | None:
    """The sentence for an error that is not chainfold's own; None for one that only a mistake in chainfold raises."""
    if isinstance(error, MemoryError):
        what = f": {_short(error)}" if str(error) else ""
        return f"not enough memory{what}; {_REMEDIES.get(verb, 'take a smaller input, or a machine with more memory')}."
    if isinstance(error, ImportError) or (isinstance(error, OSError) and error.errno is None):
        if not _of_a_library(error):
            return None
        return f"a library cannot be loaded: {_short(error)}; install chainfold again, or give it more memory."
    if isinstance(error, SystemError):
        return f"Python itself has failed: {_short(error)}; that happens where there is not enough memory."
    if isinstance(error, RuntimeError):
        return next((sentence for words, sentence in _RUNTIME.items() if words in str(error)), None)
    if isinstance(error, OSError):
        return _of_the_system(error)
    return None


def _of_a_library(error: Exception) -> bool:
    """Is it a shared library that is missing or has no room, and not a name that some module does not have?"""
    return isinstance(error, OSError) or ".so" in str(error) or ".dll" in str(error) or ".dylib" in str(error)


def _of_the_system(error: OSError) -> str:
    why = error.strerror or str(error)
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {why}."
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{why}; close some, or raise the limit (ulimit -n)."
    if error.errno == errno.ENOMEM:
        return f"not enough memory: {why}."
    if error.errno in _WRITING or output_fails():  # files with a name have said so themselves
        return f"cannot write to standard output: {why}."
    return f"the operating system refuses what it was asked for: {why}."


def output_fails() -> bool:
    """Does standard output refuse what is left in its buffer?"""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        return True
    return False


def _short(error: Exception) -> str:
    """The last line of what a library says; it may be a page."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[-1][:_MOST_SHOWN].rstrip(".")


@contextmanager
def warnings_said() -> Iterator[None]:
    """Warnings of chainfold are sentences on standard error, whatever Python would do with them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=ChainfoldWarning)
        usual = warnings.showwarning

        def say(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, ChainfoldWarning):
                show.say(f"chainfold: {message}")
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = say
        yield
