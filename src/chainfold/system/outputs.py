"""Outputs are no inputs, and belong to one process at a time.

A process that takes a while to write an output, or reads its old content, claims it first: an advisory lock on
`.NAME.lock` beside it. The lock ends with its process; the file that a killed process leaves
is taken over, and removed, by the next.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from glob import glob
from pathlib import Path

from chainfold.errors import BadFile
from chainfold.system.files import hidden, remove_leftovers, target_of
from chainfold.system.machine import CAN_LOCK, OPEN_FLAGS, lock

STANDARD = "-"  # standard input, or standard output

Identity = tuple[int, int]  # device and inode


@contextmanager
def claimed(
    outputs: Sequence[object], inputs: Iterable[object], in_place: bool = False, folder: bool = False
) -> Iterator[None]:
    """Check the outputs before any work is done, and lock them; raises `BadFile` where another process writes one.

    in_place: outputs are written into, not replaced; folder: they are folders. An output in a folder without write
    permission cannot be replaced by others either, and is not locked.
    """
    check_outputs(outputs, inputs, folder)
    with ExitStack() as stack:
        for output in outputs:
            if isinstance(output, (str, Path)) and str(output) != STANDARD:
                stack.enter_context(_held(output, in_place, folder))
                remove_leftovers(output)
        yield


def check_outputs(outputs: Iterable[object], inputs: Iterable[object], folder: bool = False) -> None:
    """Raise if an output cannot be written, is one of the inputs, or is given twice.

    Names are paths, globs among the inputs, and `-`; other values, such as None or a table, are no files.
    """
    read = {identity for one in inputs for identity in _identities(one)}
    places: dict[Path | Identity | str, object] = {}
    for output in outputs:
        if not isinstance(output, (str, Path)):
            continue
        standard = str(output) == STANDARD
        place: Path | str = STANDARD if standard else target_of(output, folder)
        identity = _identity_of_stream(sys.stdout, 1) if standard else _identity_of(place)
        name = "standard output" if standard else output
        if identity in read:
            raise BadFile(name, "is also an input, and would be lost; give the output another name.")
        for one in (place, identity):
            if one is not None and one in places:
                raise BadFile(name, "cannot hold two outputs; give one of them another name.")
            if one is not None:
                places[one] = output


def _identities(one: object) -> Iterator[Identity]:
    """The existing files that an input names."""
    if isinstance(one, (list, tuple)):
        for each in one:
            yield from _identities(each)
    elif isinstance(one, (str, Path)):
        names = [str(one), *glob(str(one))]  # noqa: PTH207  (absolute ones too)
        found = [_identity_of_stream(sys.stdin, 0)] if str(one) == STANDARD else [_identity_of(name) for name in names]
        yield from (identity for identity in found if identity is not None)


def _identity_of(path: str | Path) -> Identity | None:
    with suppress(OSError, ValueError):
        about = Path(path).stat()
        return about.st_dev, about.st_ino
    return None


def _identity_of_stream(stream: object, descriptor: int) -> Identity | None:
    """The identity of a standard stream, if it is an open file."""
    if stream is None:
        return None
    with suppress(OSError):
        about = os.fstat(descriptor)
        return (about.st_dev, about.st_ino) if stat.S_ISREG(about.st_mode) else None
    return None


@contextmanager
def _held(output: str | Path, in_place: bool, folder: bool) -> Iterator[None]:
    """Lock an output, unless another process has locked it."""
    target = target_of(output, folder)
    if not CAN_LOCK or (in_place and not os.access(target.parent, os.W_OK)):
        yield
        return
    place = hidden(target, "lock")
    try:
        descriptor = _locked(place, output)
    except OSError as error:
        raise BadFile(output, f"cannot be written: {error.strerror or error} ({place}).") from None
    try:
        yield
    finally:
        with suppress(OSError):
            place.unlink()
        os.close(descriptor)


def _locked(place: Path, output: str | Path) -> int:
    """The open lock file, locked, and still under its name."""
    while True:
        descriptor = _opened(place)
        try:
            if lock(descriptor) is False:
                remedy = "wait until it has ended, or name another output"
                raise BadFile(output, f"is being written by another process; {remedy}.")
            about = os.fstat(descriptor)
            if _identity_of(place) == (about.st_dev, about.st_ino):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its owner has just removed it


def _opened(place: Path) -> int:
    try:
        return os.open(place, os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o666)
    except PermissionError:
        return os.open(place, os.O_RDONLY | OPEN_FLAGS)  # another user's, which can be locked all the same
