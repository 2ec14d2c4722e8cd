"""Compiled kernels kept on disk: numba's cache, in which whatever is damaged or cannot be written is done without.

Numba finds the folder, names the files and writes them whole. Each has here a digest before it, and the stamp of the
sources that it was compiled from, so that nothing is used that is damaged, older or another kernel's. A kernel that
cannot be loaded is compiled, and kept again where that can be done; the first time a warning says what was wrong.

The files are pickles, as Python's own compiled files are code: whoever can write to the folder runs what he likes.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

from chainfold.errors import ChainfoldWarning
from chainfold.system.machine import address_room

_MAGIC = b"kernel1\n"
_STAMP, _DIGEST = slice(8, 40), slice(40, 72)
_HEAD = 72  # bytes before what is kept
_COMPILING = 128 << 20  # bytes of address space; LLVM ends the process where it gets none
_ELSEWHERE = "set NUMBA_CACHE_DIR to a folder that can be written"

_warned = False


class _Damaged(Exception):
    """A file that is not as it was written."""


class KernelCache(FunctionCache):  # type: ignore[misc]
    """What is kept of one kernel: an index, and a file for each signature."""

    def __init__(self, function: Callable[..., Any], sources: str) -> None:
        self._cache_path: str | None = None
        self._cache_file: _Files | None = None
        try:
            super().__init__(function)
        except (OSError, RuntimeError):  # there is no such folder, as on a read-only system without a home
            return
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, sources)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        room = address_room()
        if room is not None and room < _COMPILING:
            raise MemoryError(
                f"a kernel needs {_COMPILING >> 20} MB of address space, and a limit leaves {room >> 20} MB"
            )
        if self._cache_file is None:
            _warn(f"there is no folder to keep compiled kernels in: each process compiles its own; {_ELSEWHERE}.")
            return None
        try:
            return super().load_overload(sig, target_context)
        except MemoryError:
            raise
        except Exception as error:  # whatever damaged files, or what they were damaged to, can raise
            _warn(
                f"{self._cache_path}: a compiled kernel kept there cannot be used, and is compiled again: "
                f"{_why(error)}; should this come again, delete the folder or {_ELSEWHERE}."
            )
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if self._cache_file is None:
            return
        try:
            super().save_overload(sig, data)
        except MemoryError:
            raise
        except Exception as error:
            _warn(
                f"{self._cache_path}: compiled kernels cannot be kept there, and each process compiles its own: "
                f"{_why(error)}; {_ELSEWHERE}."
            )


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _warn(sentence: str) -> None:
    """Once a process: what holds for one kernel holds for most."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(sentence, ChainfoldWarning, stacklevel=2)


class _Files(IndexDataCacheFile):  # type: ignore[misc]
    """The index and the files of a kernel, each under a digest."""

    def __init__(self, folder: str | None, name: str, sources: str) -> None:
        stamp = hashlib.sha256(f"{numba.__version__} {sources}".encode()).digest()
        super().__init__(folder, f"{name}.checked", stamp)

    def load(self, key: Any) -> Any:
        """What is kept under a key, or None."""
        name = self._load_index().get(key)
        if name is None:
            return None
        kept = self._read(self._data_path(name))
        # another process may have taken the same name for another signature
        return kept[1] if kept is not None and kept[0] == key else None

    def save(self, key: Any, data: Any) -> None:
        """Keep something; what the index names is there before the index is."""
        try:
            names = self._load_index()
        except (_Damaged, OSError):
            names = {}
        taken = set(names.values())
        name = names.get(key) or next(name for name in map(self._data_name, count(1)) if name not in taken)
        self._write(self._data_path(name), (key, data))
        if key not in names:
            self._save_index(names | {key: name})

    def _load_index(self) -> dict[Any, str]:
        return self._read(self._index_path) or {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, overloads)

    def _read(self, path: str) -> Any:
        """What was written; None where there is nothing, or what other sources gave."""
        try:
            content = Path(path).read_bytes()
        except FileNotFoundError:
            return None
        if len(content) < _HEAD or not content.startswith(_MAGIC):
            raise _Damaged(f"{Path(path).name} is cut short or damaged")
        if content[_STAMP] != self._source_stamp:
            return None
        kept = memoryview(content)[_HEAD:]
        if hashlib.sha256(kept).digest() != content[_DIGEST]:
            raise _Damaged(f"{Path(path).name} is cut short or damaged")
        return pickle.loads(kept)  # noqa: S301  (what this user's processes wrote, as it was written)

    def _write(self, path: str, what: Any) -> None:
        kept = self._dump(what)
        with self._open_for_write(path) as file:
            file.write(_MAGIC + self._source_stamp + hashlib.sha256(kept).digest() + kept)
