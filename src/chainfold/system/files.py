"""Atomic writes: files appear whole or not at all, and working files have no name.

A file is written beside its target under a random name, readable by its owner alone, and locked while it is written. It
takes the target's place, and the target's mode, once all of it is on the disk. A file that a killed process has left is
not locked any more, and is removed by the next process that writes the same target.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from chainfold.errors import BadFile, ChainfoldError
from chainfold.system.machine import CAN_LOCK, OPEN_FLAGS, lock, set_mode, sync_folder

_MOST_BYTES = 150  # of the target's name in the temporary one, which has to fit as well
_RANDOM = 8  # bytes
_LEFT_ALONE = 24 * 3600.0  # seconds after which a temporary file is stale, where there are no locks


@contextmanager
def written_whole(path: str | Path, lasting: bool = True) -> Iterator[IO[bytes]]:
    """Open a file under a temporary name beside the target; it is renamed at the end, and removed after a failure.

    lasting: the file is synced before it is renamed; a working file need not be.
    """
    target = target_of(path)
    remove_leftovers(target)
    temporary: Path | None = None
    try:
        temporary, descriptor, mode = _created(target)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            set_mode(descriptor, mode)
            if lasting:
                os.fsync(descriptor)
            if not CAN_LOCK:
                file.close()  # an open file may not be renamed there
            temporary.replace(target)
        if lasting:
            sync_folder(target.parent)
    except BrokenPipeError:  # of another file, whose reader has gone
        raise
    except OSError as error:
        raise BadFile(path, f"cannot be written: {error.strerror or error}.") from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)  # after a failure; there is none any more after the rename


def _created(target: Path) -> tuple[Path, int, int]:
    """Create a locked file beside the target; returns its name, its descriptor and the mode for the end."""
    while True:
        temporary = hidden(target, f"{secrets.token_hex(_RANDOM)}.part")
        try:
            mode: int | None = target.stat().st_mode & 0o777
        except FileNotFoundError:
            mode = None  # the one that a new file gets here
        descriptor = os.open(
            temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | OPEN_FLAGS, 0o666 if mode is None else 0o600
        )
        try:
            about = os.fstat(descriptor)
            set_mode(descriptor, 0o600)
            if lock(descriptor) is not False and os.fstat(descriptor).st_nlink:
                return temporary, descriptor, about.st_mode & 0o777 if mode is None else mode
        except BaseException:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)
            raise
        os.close(descriptor)  # another process took it for a leftover before it was locked


def remove_leftovers(path: str | Path) -> None:
    """Remove the temporary files that killed processes have left beside a target."""
    with suppress(OSError, RuntimeError):
        target = Path(path).resolve()
        ours = re.compile(re.escape(hidden(target, "").name) + rf"[0-9a-f]{{{2 * _RANDOM}}}\.part")
        for entry in os.scandir(target.parent):
            if ours.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                _remove_leftover(entry.path)


def _remove_leftover(path: str) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | OPEN_FLAGS)
        try:
            locked = lock(descriptor)
            old = time.time() - os.fstat(descriptor).st_mtime > _LEFT_ALONE
            if locked or (locked is None and old):
                Path(path).unlink()
        finally:
            os.close(descriptor)


def hidden(target: Path, what: str) -> Path:
    """The path `.NAME.what` beside the target; a long name is cut, and made unique by a digest."""
    name, spelled = target.name, os.fsencode(target.name)
    if len(spelled) > _MOST_BYTES:
        name = f"{spelled[:_MOST_BYTES].decode(errors='ignore')}-{hashlib.sha256(spelled).hexdigest()[:16]}"
    return target.with_name(f".{name}.{what}")


def target_of(path: str | Path, folder: bool = False) -> Path:
    """The file or folder to write, with links resolved."""
    try:
        given = Path(path)
        target = given.resolve()
        if given.exists() and not (given.is_file() or given.is_dir()):  # a pipe behind /dev/stdout has no name
            raise BadFile(path, "cannot be written: it is not an ordinary file; name one, or write to standard output.")
        if folder and target.is_file():
            raise BadFile(path, "cannot be written: a chain in parts is a folder, and this is a file; remove it.")
        if not target.name or (target.is_dir() and not folder):
            raise BadFile(repr(str(path)), "cannot be written: it is a directory; name a file.")
        if not target.parent.is_dir():
            raise BadFile(path, f"cannot be written: there is no folder {target.parent}.")
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(path, f"cannot be written: {getattr(error, 'strerror', None) or error}.") from None
    return target


def temporary_folder() -> Path:
    """The folder of temporary files: TMPDIR, or the system's default."""
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        raise ChainfoldError("no folder for temporary files can be written; set TMPDIR to one that can.") from None


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """A new folder for temporary files, removed at the end."""
    parent = temporary_folder()
    with temporary_file_errors(parent):
        folder = tempfile.TemporaryDirectory(prefix="chainfold-", dir=parent, ignore_cleanup_errors=True)
    with folder as name:
        yield Path(name)


@contextmanager
def temporary_file_errors(folder: Path) -> Iterator[None]:
    """Turn an `OSError` of a temporary file in the folder into one sentence."""
    try:
        yield
    except OSError as error:
        remedy = "; set TMPDIR to another folder" if str(folder) == tempfile.tempdir else ""
        raise BadFile(folder, f"cannot hold temporary files: {error.strerror or error}{remedy}.") from None
