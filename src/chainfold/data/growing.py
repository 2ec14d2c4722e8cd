"""Following a file that grows: what is added to it, the files that take its place, and what was cut off.

A file that is rotated away is read on for as long as it grows: its writer may not have noticed yet. Lines are given as
they come, those of an older file first where there are several. A file that was cut short has usually been copied
before (logrotate's `copytruncate`): what was not read of it yet is looked for in its copy.
"""

from __future__ import annotations

import io
import os
import re
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from chainfold.data.inotify import Watch
from chainfold.data.inputs import MAGIC_SIZE, Input, compression_of, count_of, unreadable

Notice = Callable[[str], None]

AT_ONCE = 1 << 16  # bytes that are read at once
_TOGETHER, _LINES_TOGETHER = 1 << 21, 16384  # bytes and lines that are handed on together
_PATIENCE = 60.0  # seconds without a word from a file that was rotated away, after which it is closed
_MOST_OPEN = 16  # files that are read at the same time
_KNOWN_BY = 256  # bytes by which a text is known again
_PACE = 10.0  # seconds over which the pace of a file is taken
_NUMBER = r"[-._]\d[-._:TZ\d]*"  # or a date: how the names of files that are rotated away differ


class Piece(NamedTuple):
    """Some bytes of one of the files that have come under a name."""

    data: bytes
    file: int = 0  # its number, in the order in which they came
    last: bool = False  # is a line that has no line end by now whole?


def chunk_of(first: bytes, more: Callable[[], bytes | None]) -> bytes:
    """What is there, until it is much: few lines would cost more each, and many more memory than they are worth."""
    parts, size, lines = [first], len(first), count_of(b"\n", first)
    while size < _TOGETHER and lines < _LINES_TOGETHER and (piece := more()):
        parts.append(piece)
        size, lines = size + len(piece), lines + count_of(b"\n", piece)
    return b"".join(parts)


class GrowingFile:
    """A file to its end, then whatever is added to it, and the files that take its place."""

    def __init__(self, one: Input, notice: Notice, poll: float, stopped: threading.Event) -> None:
        assert one.path is not None, "a regular file has a path"
        self._input, self._path, self._name = one, one.path, one.name
        self._notice, self._poll, self._stopped = notice, poll, stopped
        self._missing = False
        self._watch = Watch(one.path, stopped)
        self._count = 0
        self._since = 0  # when the file was written last that surely had the name
        self._seen: set[_Entry] = set()  # what was in the folder before
        self._files: list[_Followed] = []  # the oldest first; the last one has the name, as far as is known
        try:
            self._add(one.source.open())
            self._seen = set(_entries(self._path.parent))
        except OSError as error:
            self._watch.close()
            raise unreadable(one.name, error) from None

    def __iter__(self) -> Iterator[Piece]:
        try:
            while not self._stopped.is_set():
                yield from self._rest()
                if not self._has_changed():
                    self._watch.wait(self._poll)
                self._let_go()
        except OSError as error:
            raise unreadable(self._name, error) from None
        finally:
            for one in self._files:
                one.file.close()
            self._watch.close()

    def _add(self, file: io.FileIO) -> None:
        self._files.append(_Followed(file, self._count))
        self._count += 1
        self._watch.add(file.fileno())

    def _rest(self) -> Iterator[Piece]:
        """What is there of all files."""
        for place, one in enumerate(self._files):
            yield from self._given(one)
            if one.was_cut():
                yield from self._recovered(one)
                yield from self._given(one)
            if one.half and any(later.size for later in self._files[place + 1 :]):
                if one.quiet < self._poll:  # its line may be written to its end
                    break
                one.half = False
                yield Piece(b"", one.number, last=True)

    def _given(self, one: _Followed) -> Iterator[Piece]:
        while not self._stopped.is_set() and (first := one.read()):
            piece = chunk_of(first, one.read)
            self._input.progress(len(piece))
            yield Piece(piece, one.number)

    def _let_go(self) -> None:
        """Close old files that have not grown for long."""
        for one in self._files[:-1]:
            later = self._files[self._files.index(one) + 1 :]
            if len(later) >= _MOST_OPEN or (one.quiet > _PATIENCE and any(other.at for other in later)):
                self._files.remove(one)
                one.file.close()

    def _has_changed(self) -> bool:
        """Does the name stand for a file that is not read yet? It is, from now on."""
        before = self._files[-1]
        try:
            if os.path.samestat(self._path.stat(), os.fstat(before.file.fileno())):
                self._missing, self._since = False, before.changed
                self._watch.listen()
                self._watch.came = 0
                return False
            other = self._opened()
        except OSError as error:
            if not self._missing:
                self._notice(f"{self._name} is gone ({error.strerror}); waiting for it to come back.")
            self._missing = True
            return False
        came, self._watch.came, self._missing = self._watch.came, 0, False
        between = [] if came == 1 else self._others_since(self._since, other)
        for path in between:
            self._notice(f"{self._name} was another file for a moment, which is called {path.name} now and read too.")
            self._add(path.open("rb", buffering=0))
        if came > 1 + len(between):
            count = came - 1 - len(between)
            files = "a file" if count == 1 else f"{count} files"
            self._notice(f"{files} that had the name {self._name} for a moment cannot be found, and may be missing.")
        self._notice(f"{self._name} is another file now, which is read from its beginning.")
        self._add(other)
        return True

    def _opened(self) -> io.FileIO:
        """The file that has the name; none came to have it while it was opened."""
        while True:
            self._watch.listen()
            came, other = self._watch.came, self._path.open("rb", buffering=0)
            self._watch.listen()
            if self._watch.came == came:
                return other
            other.close()

    def _others_since(self, since: int, other: io.FileIO | None = None) -> list[Path]:
        """Files that were written later, and that have the name with a number behind it; in order."""
        stem, suffix = re.escape(self._path.stem), re.escape(self._path.suffix)
        numbered = re.compile(rf"{stem}(?:{suffix}{_NUMBER}|{_NUMBER}{suffix})")
        old = {_place(os.fstat(one.file.fileno())) for one in self._files}
        old |= {_place(os.fstat(other.fileno()))} if other is not None else set()
        entries, seen = _entries(self._path.parent), {entry[1:] for entry in self._seen}
        self._seen = set(entries)
        found = [
            entry
            for entry in entries
            if numbered.fullmatch(entry.path.name)
            and entry[1:] not in seen
            and entry.place not in old
            and entry.changed >= since
            and _is_text(entry.path)
            and not any(one.is_copied_in(entry.path) for one in self._files)
        ]
        return [entry.path for entry in sorted(found, key=lambda entry: entry.changed)]

    def _recovered(self, one: _Followed) -> Iterator[Piece]:
        """What had been added to a file before it was cut short, if there is a copy; then it begins anew."""
        copy = self._copy_of(one)
        if copy is None:
            seconds, size = one.unseen
            about = f"about {size:,} bytes at its pace before" if size else "an unknown number of bytes"
            self._notice(
                f"{self._name} was cut short; it is read from its beginning, and what was added in the {seconds:.2g} s "
                f"before may be missing, {about}."
            )
        else:
            since, read = copy.stat().st_mtime_ns, 0
            for data in _read(copy, one.at):
                read += len(data)
                yield Piece(data, one.number)
            rest = f"{read:,} bytes that were not read yet are taken" if read else "nothing is missing, as is known"
            self._notice(
                f"{self._name} was cut short; {rest} from its copy {copy.name}. It is read from its beginning."
            )
        yield Piece(b"", one.number, last=True)
        for path in [] if copy is None else self._others_since(since):
            self._notice(f"{self._name} was copied to {path.name} and cut short again; that is read too.")
            yield from (Piece(data, self._count) for data in _read(path))
            yield Piece(b"", self._count, last=True)
            self._count += 1
        one.begin_again(self._count)
        self._count += 1

    def _copy_of(self, one: _Followed) -> Path | None:
        """The newest file in the folder that begins with all that was read, as far as can be told."""
        begin = self._path.name.partition(".")[0]
        for entry in sorted(_entries(self._path.parent), key=lambda entry: -entry.changed):
            if entry.path.name.startswith(begin) and entry.changed >= one.changed and one.is_copied_in(entry.path):
                return entry.path
        return None


class _Followed:
    """An open file, how far it was read, and by what it is known again."""

    def __init__(self, file: io.FileIO, number: int) -> None:
        self.file = file
        self.begin_again(number)

    def begin_again(self, number: int) -> None:
        """The file is another text now."""
        self.number, self.at = number, 0
        self.half = False  # has the last line no line end?
        self._head, self._tail = b"", b""
        self._cut = False
        self.changed = 0  # when it was, by the clock of its file system, in nanoseconds
        self._looked = self._before = self._grown = time.monotonic()  # at this look, and at the one before
        self._pace: deque[tuple[float, int]] = deque([(self._looked, 0)])

    def read(self) -> bytes:
        """What comes next, if there is more; nothing once it was cut."""
        data = b"" if self._cut else os.pread(self.file.fileno(), AT_ONCE, self.at)
        self._looked = time.monotonic()
        if data and not self._is_as_read():
            self._cut = True
            if os.pread(self.file.fileno(), len(data), self.at) == data:  # what was there after the cut, not before
                return b""
        if data:
            self.at += len(data)
            self.half = not data.endswith(b"\n")
            self._head += data[: _KNOWN_BY - len(self._head)]
            self._tail = (self._tail + data[-_KNOWN_BY:])[-_KNOWN_BY:]
            self._grown = self._looked
            self._pace.append((self._grown, self.at))
            while len(self._pace) > 2 and self._grown - self._pace[0][0] > _PACE:
                self._pace.popleft()
        return data

    @property
    def size(self) -> int:
        return os.fstat(self.file.fileno()).st_size

    @property
    def quiet(self) -> float:
        """The seconds since it has grown."""
        return time.monotonic() - self._grown

    @property
    def unseen(self) -> tuple[float, int]:
        """The seconds since it was looked at before, and how many bytes that are at its pace."""
        (begin, before), (end, after) = self._pace[0], self._pace[-1]
        seconds = time.monotonic() - self._before
        return seconds, round(seconds * (after - before) / max(end - begin, 1e-3))

    def was_cut(self) -> bool:
        """Is it shorter than what was read of it, or another text?"""
        about = os.fstat(self.file.fileno())
        changed = about.st_mtime_ns != self.changed
        if self._cut or about.st_size < self.at or (changed and not self._is_as_read()):
            return True
        self.changed = about.st_mtime_ns
        self._before = self._looked
        return False

    def _is_as_read(self) -> bool:
        return os.pread(self.file.fileno(), len(self._tail), self.at - len(self._tail)) == self._tail

    def is_copied_in(self, path: Path) -> bool:
        """Does another file begin with what was read of this one, as far as can be told?"""
        try:
            with path.open("rb", buffering=0) as file:
                if not self.at or os.path.samestat(os.fstat(file.fileno()), os.fstat(self.file.fileno())):
                    return False
                tail = os.pread(file.fileno(), len(self._tail), self.at - len(self._tail))
                return (os.pread(file.fileno(), len(self._head), 0), tail) == (self._head, self._tail)
        except OSError:
            return False


class _Entry(NamedTuple):
    """A file in a folder."""

    path: Path
    place: tuple[int, int]
    changed: int


def _entries(folder: Path) -> list[_Entry]:
    """The regular files of a folder."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                about = entry.stat()
            except OSError:  # it is gone
                continue
            if stat.S_ISREG(about.st_mode):
                found.append(_Entry(Path(entry.path), _place(about), about.st_mtime_ns))
    return found


def _place(about: os.stat_result) -> tuple[int, int]:
    return about.st_dev, about.st_ino


def _read(path: Path, begin: int = 0) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        file.seek(begin)
        while data := file.read(AT_ONCE):
            yield data


def _is_text(path: Path) -> bool:
    try:
        with path.open("rb", buffering=0) as file:
            return compression_of(file.read(MAGIC_SIZE)) is None
    except OSError:
        return False
