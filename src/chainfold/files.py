"""Files appear whole or not at all, and working files have no name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from chainfold.errors import BadFile


@contextmanager
def written_whole(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write to, under a temporary name beside the target; renamed at the end, removed after any failure."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BadFile(path, f"cannot be written: {error.strerror or error}.") from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def working_file(folder: Path) -> Iterator[None]:
    """Work on a temporary file in the folder; what goes wrong is one sentence."""
    try:
        yield
    except OSError as error:
        raise BadFile(folder, f"cannot keep working files there: {error.strerror or error}.") from None
