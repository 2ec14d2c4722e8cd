"""Files appear whole or not at all, and working files have no name."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape, glob
from pathlib import Path
from typing import IO

from chainfold.errors import BadFile

_LEFT_ALONE = 24 * 3600.0  # seconds after which a temporary file is nobody's any more
_MOST_LETTERS = 50  # of the target's name in the temporary one, which has to fit as well


@contextmanager
def written_whole(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write to, under a temporary name beside the target; renamed at the end, removed after any failure."""
    target = target_of(path)
    stem = f".{target.name[:_MOST_LETTERS]}."
    temporary = target.with_name(f"{stem}{os.getpid()}.part")
    _remove_leftovers(target.parent, stem)
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BrokenPipeError:  # of another file, whose reader has gone
        raise
    except OSError as error:
        raise BadFile(path, f"cannot be written: {error.strerror or error}.") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)  # after a failure; there is none any more after the rename


def _remove_leftovers(folder: Path, stem: str) -> None:
    """What killed processes have left of the same target; what is still being written was touched not long ago."""
    with suppress(OSError):
        for path in folder.glob(f"{escape(stem)}*.part"):
            if path.name[len(stem) : -len(".part")].isdecimal() and time.time() - path.stat().st_mtime > _LEFT_ALONE:
                path.unlink(missing_ok=True)


def target_of(path: str | Path) -> Path:
    """The file that is to be written or replaced, whatever links lead to it."""
    try:
        target = Path(path).resolve()
        if not target.name or target.is_dir():
            raise BadFile(repr(str(path)), "cannot be written: it is a directory; name a file.")
        if target.exists() and not target.is_file():
            raise BadFile(path, "cannot be written: it is no ordinary file; give - for standard output.")
        if not target.parent.is_dir():
            raise BadFile(path, f"cannot be written: there is no folder {target.parent}.")
    except (OSError, RuntimeError) as error:
        raise BadFile(path, f"cannot be written: {getattr(error, 'strerror', None) or error}.") from None
    return target


def check_output(output: str | Path, inputs: object) -> None:
    """Raise, before any work is done, if the output cannot be written or is one of the inputs."""
    target = target_of(output)
    for one in inputs if isinstance(inputs, (list, tuple)) else [inputs]:
        names = [str(one), *glob(str(one))] if isinstance(one, (str, Path)) else []  # noqa: PTH207  (absolute ones too)
        if target.exists() and any(Path(name).exists() and target.samefile(name) for name in names):
            raise BadFile(output, "is also an input, and would be lost; give the output another name.")


@contextmanager
def working_file(folder: Path) -> Iterator[None]:
    """Work on a temporary file in the folder; what goes wrong is one sentence."""
    try:
        yield
    except OSError as error:
        raise BadFile(folder, f"cannot keep working files there: {error.strerror or error}.") from None
