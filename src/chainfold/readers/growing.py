"""Following a file that grows: what is added to it, the files that take its place, and what was cut off.

A file that is rotated away is read on for as long as it grows: its writer may not have noticed yet. Lines are given as
they come, those of an older file first where there are several. A file that was cut short has usually been copied
before (logrotate's `copytruncate`): what was not read of it yet is looked for in its copy.

Rows of another file are worse than missing ones: a file beside the followed one is read only if it surely had its name,
or is surely its copy. Where that cannot be told, a sentence says that rows may be missing.
"""

from __future__ import annotations

import io
import math
import os
import re
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from chainfold.readers.inotify import Watch
from chainfold.readers.inputs import MAGIC_SIZE, Input, compression_of, count_of, unreadable

Notice = Callable[[str], None]

AT_ONCE = 1 << 16  # bytes that are read at once
_TOGETHER, _LINES_TOGETHER = 1 << 21, 16384  # bytes and lines that are handed on together
_PATIENCE = 60.0  # seconds without new data in a rotated file, after which it is closed
_MOST_OPEN = 16  # files that are read at the same time
_KNOWN_BY = 256  # bytes by which a text is known again
_PACE = 10.0  # seconds over which the pace of a file is taken
_SETTLED = 2.0  # seconds after which a folder that changes has another time, on any file system
_NUMBER = r"[-._]\d[-._:TZ\d]*"  # or a date: how the names of files that are rotated away differ


class Piece(NamedTuple):
    """Some bytes of one of the files that had the name."""

    data: bytes
    file: int = 0  # its number, in the order in which they came
    last: bool = False  # is a line without a line end complete?


def chunk_of(first: bytes, more: Callable[[], bytes | None]) -> bytes:
    """What is there, until it is much: few lines would cost more each, and many more memory than they are worth."""
    parts, size, lines = [first], len(first), count_of(b"\n", first)
    while size < _TOGETHER and lines < _LINES_TOGETHER and (piece := more()):
        parts.append(piece)
        size, lines = size + len(piece), lines + count_of(b"\n", piece)
    return b"".join(parts)


class GrowingFile:
    """A file to its end, then what is added to it, and the files that replace it."""

    def __init__(self, source: Input, notice: Notice, poll: float, stopped: threading.Event) -> None:
        assert source.path is not None, "a regular file has a path"
        self._input, self._path, self._name = source, source.path, source.name
        self._notice, self._poll, self._stopped = notice, poll, stopped
        self._missing = False
        self._watch = Watch(source.path, stopped)
        self._count = 0
        self._since = 0  # when the file was written last that surely had the name
        self._folder = _Folder(source.path)
        self._files: list[_Followed] = []  # the oldest first; the last one has the name, as far as is known
        try:
            self._add(source.source.open())
            self._folder.last = self._folder.listed(self._files)
        except OSError as error:
            self._watch.close()
            raise unreadable(source.name, error) from None

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
            for followed in self._files:
                followed.file.close()
            self._watch.close()

    def _add(self, file: io.FileIO) -> None:
        self._files.append(_Followed(file, self._count))
        self._count += 1
        self._watch.add(file.fileno())

    def _rest(self) -> Iterator[Piece]:
        """What is there of all files."""
        for place, followed in enumerate(self._files):
            yield from self._given(followed)
            if followed.was_cut():
                yield from self._recovered(followed)
                yield from self._given(followed)
            if followed.half and any(later.size for later in self._files[place + 1 :]):
                if followed.quiet < self._poll:  # its line may be written to its end
                    break
                followed.half = False
                yield Piece(b"", followed.number, last=True)

    def _given(self, followed: _Followed) -> Iterator[Piece]:
        while not self._stopped.is_set() and (first := followed.read()):
            piece = chunk_of(first, followed.read)
            self._input.progress(len(piece))
            yield Piece(piece, followed.number)

    def _let_go(self) -> None:
        """Close old files that have not grown for long."""
        for followed in self._files[:-1]:
            later = self._files[self._files.index(followed) + 1 :]
            if len(later) >= _MOST_OPEN or (followed.quiet > _PATIENCE and any(other.at for other in later)):
                self._files.remove(followed)
                followed.file.close()

    def _has_changed(self) -> bool:
        """Does the name stand for a file that is not read yet? It is, from now on."""
        before = self._files[-1]
        self._watch.listen()
        try:
            listing = self._folder.listed(self._files)
            if os.path.samestat(self._path.stat(), os.fstat(before.file.fileno())):
                self._missing, self._since = False, before.changed
                self._folder.last = listing  # none of these has had the name meanwhile
                self._watch.forget()
                return False
            other, left = self._opened()
        except OSError as error:
            if not self._missing:
                self._notice(f"{self._name} is gone ({error.strerror}); waiting for it to come back.")
            self._missing = True
            return False
        came, self._missing = self._watch.came, False
        self._watch.forget()
        between = left if came else self._without_word(before, other)
        for path, file in between:
            self._notice(f"{self._name} was replaced briefly by a file now named {path.name}, which is read too.")
            self._add(file)
        if came > 1 + len(between):
            count = came - 1 - len(between)
            files = "a file" if count == 1 else f"{count} files"
            self._notice(f"{files} that had the name {self._name} for a moment cannot be found, and may be missing.")
        self._notice(f"{self._name} is another file now, which is read from its beginning.")
        self._add(other)
        return True

    def _opened(self) -> tuple[io.FileIO, list[tuple[Path, io.FileIO]]]:
        """The file that has the name, and those that had it before as the system tells; none moved meanwhile."""
        while True:
            self._watch.listen()
            came, names = self._watch.came, list(self._watch.left)
            other = self._path.open("rb", buffering=0)
            left = self._texts([self._path.with_name(os.fsdecode(name)) for name in names if name], other)
            self._watch.listen()
            if (self._watch.came, self._watch.left) == (came, names):
                return other, left
            for file in (other, *(file for _, file in left)):
                file.close()

    def _without_word(self, before: _Followed, other: io.FileIO) -> list[tuple[Path, io.FileIO]]:
        """The files that had the name for a moment, where the system tells nothing."""
        place = _place(os.fstat(before.file.fileno()))
        names = [entry.path.name for entry in _entries(self._path.parent) if entry.place == place]
        return self._came_since(self._since, names, other)

    def _came_since(self, since: int, names: list[str], other: io.FileIO | None = None) -> list[tuple[Path, io.FileIO]]:
        """Files that are new in the folder, written since then, and named as these are but for the number; in order."""
        sure, unsure = (
            self._texts(
                [path for path in paths if not any(followed.is_copied_in(path) for followed in self._files)], other
            )
            for paths in self._folder.came_since(since, names)
        )
        for path, file in unsure:
            file.close()
            self._notice(
                f"{path.name} may have been {self._name} for a moment, or a file of its own: it is not read, and rows "
                "may be missing."
            )
        return sure

    def _texts(self, paths: list[Path], other: io.FileIO | None = None) -> list[tuple[Path, io.FileIO]]:
        """Those that are there, opened: but for files that are open already, and what is compressed."""
        old = [followed.file for followed in self._files] + ([] if other is None else [other])
        places, opened = {_place(os.fstat(file.fileno())) for file in old}, []
        for path in paths:
            with suppress(OSError):
                file = path.open("rb", buffering=0)
                if _place(os.fstat(file.fileno())) in places or compression_of(os.pread(file.fileno(), MAGIC_SIZE, 0)):
                    file.close()
                else:
                    opened.append((path, file))
        return opened

    def _recovered(self, followed: _Followed) -> Iterator[Piece]:
        """What had been added to a file before it was cut short, if there is a copy; then it begins anew."""
        copy = self._copy_of(followed)
        if copy is None:
            seconds, size = followed.unseen
            about = f"about {size:,} bytes at its pace before" if size else "an unknown number of bytes"
            self._notice(
                f"{self._name} was cut short; it is read from its beginning, and what was added in the {seconds:.2g} s "
                f"before may be missing, {about}."
            )
        else:
            since, read = copy.stat().st_mtime_ns, 0
            for data in _read(copy.open("rb", buffering=0), followed.at):
                read += len(data)
                yield Piece(data, followed.number)
            rest = f"{read:,} bytes that were not read yet are taken" if read else "nothing is missing, as is known"
            self._notice(
                f"{self._name} was cut short; {rest} from its copy {copy.name}. It is read from its beginning."
            )
        yield Piece(b"", followed.number, last=True)
        for path, file in [] if copy is None else self._came_since(since, [copy.name]):
            self._notice(f"{self._name} was copied to {path.name} and cut short again; that is read too.")
            yield from (Piece(data, self._count) for data in _read(file))
            yield Piece(b"", self._count, last=True)
            self._count += 1
        followed.begin_again(self._count)
        self._count += 1

    def _copy_of(self, followed: _Followed) -> Path | None:
        """The newest file that came to the folder, or was written anew, and has what was read at the same places."""
        for entry in sorted(self._folder.copies(), key=lambda entry: -entry.changed):
            if entry.changed >= followed.changed and followed.is_known and followed.is_copied_in(entry.path):
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
        self._first = 0  # the size of the first line, which other files may have too
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
            if not self.at or (self.half and self.at == self._first):  # it has not ended yet
                self._first += data.find(b"\n") + 1 or len(data)
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
        """The seconds since the last look, and the number of bytes that arrive in them at its pace."""
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

    @property
    def is_known(self) -> bool:
        """Was enough read of it to tell a copy of it from another file?"""
        return self.at - self._first >= _KNOWN_BY

    def may_begin(self, head: bytes) -> bool:
        """May a file that begins so become a copy of this one?"""
        return bool(self._head) and (head.startswith(self._head) or self._head.startswith(head))

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


class _Known(NamedTuple):
    """A file that was in the folder before."""

    head: bytes  # its beginning, where it may be a copy by its name
    copy: bool  # had it just come, with a beginning that a copy has?


class _Listing(NamedTuple):
    """What was in a folder."""

    changed: int  # when the folder was, by the clock of its file system, in nanoseconds
    begin: float  # for so long it is not listed again in any case,
    end: float  # and until then only if it has changed
    known: dict[tuple[int, int], _Known]


class _Folder:
    """The folder of a followed file: what has come to it since it was known that no other file had the name."""

    def __init__(self, path: Path) -> None:
        stem, suffix = re.escape(path.stem), re.escape(path.suffix)
        self._numbered = re.compile(rf"{stem}(?:{suffix}{_NUMBER}|{_NUMBER}{suffix})")
        self._path, self._begin = path, path.name.partition(".")[0]
        self.last = _Listing(-1, 0.0, 0.0, {})

    def listed(self, files: list[_Followed]) -> _Listing:
        """What is in it now; the last listing if that has not changed. A large folder is not listed all the time."""
        now, last = time.monotonic(), self.last
        if now < last.begin:
            return last
        changed = self._path.parent.stat().st_mtime_ns
        if changed == last.changed and now < last.end:
            return last
        known = {}
        for entry in _entries(self._path.parent):
            head = self._head(entry.path)
            copy = self._is_another(entry, head) and any(followed.may_begin(head) for followed in files)
            known[entry.place] = _Known(head, copy)
        end = now + _SETTLED if changed != last.changed else math.inf
        return _Listing(changed, 11 * time.monotonic() - 10 * now, end, known)

    def came_since(self, since: int, names: list[str]) -> tuple[list[Path], list[Path]]:
        """Files with a number, written since then: those that are surely new and named alike, and those in doubt."""
        sure, unsure = [], []
        alike = {_shape(name) for name in names if self._numbered.fullmatch(name)}
        for entry in sorted(_entries(self._path.parent), key=lambda entry: entry.changed):
            if entry.changed >= since and self._numbered.fullmatch(entry.path.name):
                new, same = entry.place not in self.last.known, _shape(entry.path.name) in alike
                if new and same:
                    sure.append(entry.path)
                elif new or (same and self._is_another(entry, self._head(entry.path))):
                    unsure.append(entry.path)
        return sure, unsure

    def copies(self) -> list[_Entry]:
        """Files that may be a copy: they came, or were written anew. One that was there and has grown is none."""
        entries = [entry for entry in _entries(self._path.parent) if entry.path.name.startswith(self._begin)]
        return [entry for entry in entries if self._is_another(entry, self._head(entry.path))]

    def _is_another(self, entry: _Entry, head: bytes) -> bool:
        """Is it new, or does it begin otherwise than before?"""
        before = self.last.known.get(entry.place)
        return before is None or before.copy or not head.startswith(before.head)

    def _head(self, path: Path) -> bytes:
        try:
            if path.name.startswith(self._begin):
                with path.open("rb", buffering=0) as file:
                    return file.read(_KNOWN_BY)
        except OSError:
            pass
        return b""


def _shape(name: str) -> str:
    """A name without what its numbers are."""
    return re.sub(r"\d+", "0", name)


def _entries(folder: Path) -> list[_Entry]:
    """The regular files of a folder; none where it must not be read, as a file in it may nevertheless."""
    entries = []
    try:
        listed = os.scandir(folder)
    except PermissionError:
        return []
    with listed:
        for entry in listed:
            try:
                about = entry.stat()
            except OSError:  # it is gone
                continue
            if stat.S_ISREG(about.st_mode):
                entries.append(_Entry(Path(entry.path), _place(about), about.st_mtime_ns))
    return entries


def _place(about: os.stat_result) -> tuple[int, int]:
    return about.st_dev, about.st_ino


def _read(file: io.FileIO, begin: int = 0) -> Iterator[bytes]:
    with file:
        file.seek(begin)
        while data := file.read(AT_ONCE):
            yield data
