"""Bytes of an input that is still being written, as they arrive: a file that grows, or a pipe.

A file is read by polling, for as long as it is the same file and is only added to. A file that is replaced, cut, or
removed raises an error when all that was added before is read: rows of another text, or from its middle, are worse than
none.
"""

from __future__ import annotations

import io
import os
import select
import shlex
import threading
from collections.abc import Callable, Iterator
from typing import Any

from chainfold.errors import BadFile
from chainfold.readers.inputs import Input, count_of, unreadable

_READ = 1 << 16  # bytes per system call, as many as a pipe usually holds
_MOMENT = 0.002  # seconds
_MOST_BYTES, _MOST_LINES = 1 << 21, 16384  # in one piece: smaller ones cost more per row, larger ones more memory
_TAIL = 256  # bytes before the end of what was read, which change if the file is rewritten


class GrowingFile:
    """The bytes of a file, then those added to it; endless until it is replaced, cut or removed."""

    def __init__(self, source: Input, poll: float, stopped: threading.Event) -> None:
        """poll: seconds between two looks; stopped: set when no more is wanted."""
        assert source.path is not None, "a regular file has a path"
        self._input, self._path, self._poll, self._stopped = source, source.path, poll, stopped
        self._file = _opened(source)
        self._at, self._tail = 0, b""
        self._problem = ""

    def __iter__(self) -> Iterator[bytes]:
        try:
            with self._file:
                while not self._stopped.is_set():
                    if piece := _gathered(self._added, b""):
                        self._input.progress(len(piece))
                        yield piece
                    elif self._problem:
                        raise self._error()
                    else:
                        self._look_at_name()
        except OSError as error:
            raise unreadable(self._input.name, error) from None

    def _added(self, last: bytes) -> bytes:
        """The next bytes; none if there are none yet, or if what was read before is no longer there."""
        self._file.seek(self._at - len(self._tail))
        data = self._file.read(len(self._tail) + _READ)
        if not data.startswith(self._tail):
            self._problem = "was cut short or rewritten"
            return b""
        added: bytes = data[len(self._tail) :]
        self._at, self._tail = self._at + len(added), data[-_TAIL:]
        return added

    def _look_at_name(self) -> None:
        """Wait for more, unless the name is no longer that of this file."""
        try:
            if os.path.samestat(self._path.stat(), os.fstat(self._file.fileno())):
                self._stopped.wait(self._poll)
            else:
                self._problem = "was replaced by another file"
        except FileNotFoundError:
            self._problem = "was removed or renamed"

    def _error(self) -> BadFile:
        name = self._input.name
        pipe = f"`tail -F -n +1 {shlex.quote(name)} | chainfold tag MODEL - --follow`"
        return BadFile(name, f"{self._problem}, which ends the run; to read a log that is rotated, use a pipe: {pipe}.")


class PipeReader:
    """The bytes of a pipe as they arrive, until it is closed."""

    def __init__(self, source: Input, poll: float, stopped: threading.Event) -> None:
        self._input, self._poll, self._stopped = source, poll, stopped
        self._file = _opened(source)
        self._read: Callable[[int], bytes | None] = getattr(self._file, "read1", self._file.read)
        self._ready = select.poll() if isinstance(self._file, io.FileIO) else None  # others have buffers of their own
        if self._ready is not None:
            self._ready.register(self._file, select.POLLIN)

    def __iter__(self) -> Iterator[bytes]:
        try:
            while not self._stopped.is_set():
                if self._is_ready(self._poll) and (piece := self._available()) is not None:
                    if not piece:
                        return
                    self._input.progress(len(piece))
                    yield piece
        finally:
            if self._input.source.owned:
                self._file.close()

    def _available(self) -> bytes | None:
        """All that has arrived, up to a limit; b"" at the end, None if nothing has arrived."""
        try:
            first = self._read(_READ)
            return _gathered(self._more, first) if first and self._ready is not None else first
        except (OSError, ValueError) as error:
            raise unreadable(self._input.name, error) from None

    def _more(self, last: bytes) -> bytes | None:
        """Further bytes that have arrived; a writer that has filled the pipe is given a moment."""
        return self._read(_READ) if self._is_ready(_MOMENT if len(last) == _READ else 0.0) else None

    def _is_ready(self, seconds: float) -> bool:
        return self._ready is None or bool(self._ready.poll(1000 * seconds))


class PieceFile(io.RawIOBase):
    """A file that gives one piece after another."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._left = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        self._left = self._left or memoryview(next(self._pieces, b""))
        size = min(len(target), len(self._left))
        target[:size], self._left = self._left[:size], self._left[size:]
        return size


def _opened(source: Input) -> Any:
    try:
        return source.source.open()
    except (OSError, ValueError) as error:
        raise unreadable(source.name, error) from None


def _gathered(more: Callable[[bytes], bytes | None], first: bytes) -> bytes:
    """All bytes that are there, up to a limit of bytes and lines; `more` gets those that came last."""
    parts, size, lines = [first], len(first), count_of(b"\n", first)
    while size < _MOST_BYTES and lines < _MOST_LINES and (part := more(parts[-1])):
        parts.append(part)
        size, lines = size + len(part), lines + count_of(b"\n", part)
    return b"".join(parts)
