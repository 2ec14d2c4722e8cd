"""Where bytes come from: files on this machine, pipes, files that the user has opened, objects behind URIs."""

from __future__ import annotations

import glob
import io
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from chainfold.errors import BadFile
from chainfold.system.storage import is_uri, remote_files

Readable = str | Path | BinaryIO


@dataclass(frozen=True)
class ByteSource:
    """Bytes that can be read from their beginning, those of a pipe once."""

    name: str  # in sentences
    open: Callable[[], Any]  # a binary file; raises OSError or ValueError
    size: int | None = None  # None for a pipe
    path: Path | None = None  # of a file on disk
    address: str | None = None  # a path or a URI by which every process can open it
    owned: bool = True  # whether the file that `open` gives is to be closed afterwards


def sources_of(given: Readable) -> list[ByteSource]:
    """The sources that a path, a pattern, a URI, "-" or an open file stand for.

    Raises `BadFile`, or OSError or ValueError where the system cannot read one.
    """
    if not isinstance(given, (str, Path)):
        return [_of_open_file(given, "the open file")]
    if given == "-":
        if sys.stdin is None:
            raise BadFile("standard input", "cannot be read: it is closed.")
        file = sys.stdin.buffer
        return [_of_open_file(getattr(file, "raw", file), "standard input")]  # a thread may be left waiting for it
    if is_uri(given):
        return _remote(given)
    if _exists(given) or not glob.has_magic(str(given)):
        return [_of_path(given)]
    names = sorted(glob.glob(str(given), recursive=True))  # noqa: PTH207  absolute patterns too
    if not names:
        raise BadFile(given, "no file matches this pattern.")
    return [_of_path(name) for name in names]


def source_at(address: str) -> ByteSource:
    """The source with this address, which is no pattern."""
    (source,) = _remote(address) if is_uri(address) else [_of_path(address)]
    return source


def _exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def _of_open_file(file: BinaryIO, name: str) -> ByteSource:
    if not hasattr(file, "read"):
        raise BadFile(
            name, f"a {type(file).__name__} cannot be read from; give a path or a file opened in binary mode."
        )
    if isinstance(file, io.TextIOBase):
        raise BadFile(name, "is open as text; open it in binary mode, 'rb'.")
    try:
        begin = file.tell() if file.seekable() else None
        end = None if begin is None else file.seek(0, os.SEEK_END)
    except (AttributeError, OSError):
        begin = end = None
    if begin is None or end is None:
        return ByteSource(name, _once(lambda: file), owned=False)
    file.seek(begin)

    def rewound() -> BinaryIO:
        file.seek(begin)
        return file

    return ByteSource(name, rewound, end - begin, owned=False)


def _of_path(name: str | Path) -> ByteSource:
    path = Path(name)
    about = path.stat()
    if stat.S_ISDIR(about.st_mode):
        raise BadFile(name, f"is a directory; name the files in it, for instance {path / '*'}.")

    def opened() -> Any:
        return path.open("rb", buffering=0)

    if not stat.S_ISREG(about.st_mode):
        return ByteSource(str(name), _once(opened))
    opened().close()
    return ByteSource(str(name), opened, about.st_size, path, str(name))


def _once(open_it: Callable[[], Any]) -> Callable[[], Any]:
    """The function, which can be called once."""
    left = [open_it]

    def opened() -> Any:
        if not left:
            raise ValueError("it is a pipe, which can be read only once; save it as a file first")
        return left.pop()()

    return opened


def _remote(uri: str | Path) -> list[ByteSource]:
    return [
        ByteSource(file.name, partial(file.system.open_input_file, file.path), file.size, address=file.uri)
        for file in remote_files(uri)
    ]
