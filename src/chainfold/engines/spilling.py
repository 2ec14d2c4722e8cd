"""Forward vectors on disk: a temporary file that is written forward and read back in reverse."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np

from chainfold.errors import BadFile
from chainfold.model.model import Floats
from chainfold.system.temporary import temporary_folder


@contextmanager
def spilling() -> Iterator[IO[bytes]]:
    """A file without a name, which the operating system removes with the process, however it ends."""
    folder = temporary_folder()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            yield file
    except OSError as error:
        problem_there = f"cannot hold the forward vectors: {error.strerror or error}; set TMPDIR to a roomier folder."
        raise BadFile(folder, problem_there) from None


def read_back(file: IO[bytes], shape: tuple[int, int]) -> Floats:
    """The vectors that end where the file stands, which then stands before them."""
    count = shape[0] * shape[1]
    begin = file.seek(-8 * count, 1)
    vectors = np.fromfile(file, np.float64, count).reshape(shape)
    file.seek(begin)
    return vectors
