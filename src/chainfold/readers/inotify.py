"""Wait for changes of a file: by inotify on Linux, else, and for files of other machines, by polling."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from contextlib import suppress
from pathlib import Path

_MODIFIED, _MOVED_TO, _CREATED, _MOVED_FROM, _DELETED = 0x2, 0x80, 0x100, 0x40, 0x200
_OVERFLOWED = 0x4000
_COMES, _GOES = _CREATED | _MOVED_TO, _MOVED_FROM | _DELETED
_EVENT = struct.Struct("iIII")  # watch, what happened, cookie, length of the name that follows
_ROOM = 1 << 16
_GATHER = 0.002  # seconds in which more may happen: many small changes are handled together


class Watch:
    """Wakes who waits for a file when it may have grown, or when another file may have its name."""

    def __init__(self, path: Path, stopped: threading.Event) -> None:
        """stopped: set when no more changes are wanted."""
        self._name, self._stopped = os.fsencode(path.name), stopped
        self.forget()
        self._descriptor = -1
        with suppress(AttributeError, OSError, TypeError):  # no inotify, or no more of it
            self._system = ctypes.CDLL(None, use_errno=True)
            self._descriptor = self._system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._add(path.parent, _COMES | _GOES)
        self._ready = select.poll()
        if self._descriptor >= 0:
            self._ready.register(self._descriptor, select.POLLIN)

    def forget(self) -> None:
        """Begin to count anew."""
        self.came = 0  # how often a file came to have the name; 0 where the system does not tell
        self.left: list[bytes] = []  # what files that had the name are called now, in order; empty if they are gone
        self._moving: dict[int, int] = {}  # which of them moves, by the cookie

    def add(self, descriptor: int) -> None:
        """Watch an open file too, even if it is renamed."""
        self._add(Path(f"/proc/self/fd/{descriptor}"), _MODIFIED)

    def _add(self, path: Path, events: int) -> None:
        if self._descriptor >= 0:
            self._system.inotify_add_watch(self._descriptor, os.fsencode(path), events)

    def wait(self, seconds: float) -> None:
        """Wait for a change, at most this long."""
        if self._descriptor < 0:
            self._stopped.wait(seconds)
        elif self._ready.poll(1000 * seconds):
            self._stopped.wait(_GATHER)
            self.listen()

    def listen(self) -> None:
        """Read the events so far."""
        with suppress(OSError):  # no more of it; without inotify the descriptor is none
            while events := os.read(self._descriptor, _ROOM):
                self._count(events)

    def _count(self, events: bytes) -> None:
        at = 0
        while at < len(events):
            _, event, cookie, size = _EVENT.unpack_from(events, at)
            at += _EVENT.size + size
            if event & _OVERFLOWED:  # what has moved since is not known
                self.left, self._moving = [], {}
            elif event & (_COMES | _GOES):
                self._moved(event, cookie, events[at - size : at].rstrip(b"\0"))

    def _moved(self, event: int, cookie: int, name: bytes) -> None:
        """A file came to have a name, or had it until now."""
        self.came += bool(event & _COMES) and name == self._name
        if name in self.left:
            place = self.left.index(name)
            self.left[place] = b""  # gone, replaced, or under way
        elif name == self._name and event & _MOVED_FROM:
            place = len(self.left)
            self.left.append(b"")
        else:
            place = -1
        if place >= 0 and event & _MOVED_FROM:
            self._moving[cookie] = place
        elif event & _MOVED_TO and cookie in self._moving:
            self.left[self._moving.pop(cookie)] = name

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
