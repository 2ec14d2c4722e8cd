"""Where working files lie: in the system's folder for them, and one sentence where there is none."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chainfold.errors import ChainfoldError
from chainfold.system.files import working_file


def temporary_folder() -> Path:
    """TMPDIR, or wherever the system keeps such files."""
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        raise ChainfoldError("no folder for temporary files can be written; set TMPDIR to one that can.") from None


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """A new folder there, removed at the end."""
    place = temporary_folder()
    with working_file(place):
        made = tempfile.TemporaryDirectory(prefix="chainfold-", dir=place, ignore_cleanup_errors=True)
    with made as name:
        yield Path(name)
