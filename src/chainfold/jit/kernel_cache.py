"""Compiled kernels kept on disk: numba's cache, in which whatever is damaged or cannot be written is done without.

The folder is the one that `CHAINFOLD_CACHE` names, with a folder in it for each version of the sources, so that several
versions can share it; without it numba finds one (`NUMBA_CACHE_DIR`, `__pycache__`, the user's cache). Numba names the
files and writes them whole. Each has here a digest before it, and the stamp of the sources that it was compiled from,
so that nothing is used that is damaged, older or another kernel's; times of files do not matter. A kernel that cannot
be loaded is compiled, and kept again where that can be done; the first time a warning says what was wrong.

Numba's own runtime, which it would compile in every process, is kept in the same way: this saves a tenth of a second,
and the memory of LLVM's code generator.

The files are pickles, as Python's own compiled files are code: whoever can write to the folder can run code
as this user.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CacheImpl, CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.runtime import nrtdynmod, rtsys

from chainfold.errors import ChainfoldError, ChainfoldWarning

_MAGIC = b"kernel1\n"
_STAMP, _DIGEST = slice(8, 40), slice(40, 72)
_HEAD = 72  # bytes before what is kept
_ELSEWHERE = "set CHAINFOLD_CACHE to a folder that can be written"

_warned = False


def chosen_folder() -> Path | None:
    """The folder that `CHAINFOLD_CACHE` names."""
    name = os.environ.get("CHAINFOLD_CACHE")
    return Path(name).absolute() if name else None


def _stamp(sources: str) -> bytes:
    return hashlib.sha256(f"{numba.__version__} {sources}".encode()).digest()


class _Folder:
    """A locator of numba's: the folder that was chosen, whatever the file of the function; it may be read-only."""

    def __init__(self, sources: str, lineno: int = 0) -> None:
        self._sources, self._lineno = sources, lineno

    def from_function(self, function: Callable[..., Any], path: str) -> _Folder | None:
        return None if chosen_folder() is None else _Folder(self._sources, function.__code__.co_firstlineno)

    def get_cache_path(self) -> str:
        folder = chosen_folder()
        assert folder is not None
        return str(folder / _stamp(self._sources).hex()[:16])

    def get_source_stamp(self) -> None:
        """`_Files` has its own."""

    def get_disambiguator(self) -> str:
        return str(self._lineno)

    def ensure_cache_path(self) -> None:
        Path(self.get_cache_path()).mkdir(parents=True, exist_ok=True)


class _Place(CompileResultCacheImpl):  # type: ignore[misc]
    """Where the files of a kernel are."""

    def __init__(self, sources: str, function: Callable[..., Any]) -> None:
        self._sources = sources
        super().__init__(function)

    @property
    def _locator_classes(self) -> list[Any]:
        return [_Folder(self._sources), *CacheImpl._locator_classes]


class _Damaged(Exception):
    """A file that is not as it was written."""


class KernelCache(FunctionCache):  # type: ignore[misc]
    """What is kept of one kernel: an index, and a file for each signature."""

    def __init__(self, function: Callable[..., Any], sources: str) -> None:
        self._cache_path: str | None = None
        self._cache_file: _Files | None = None
        self._impl_class = partial(_Place, sources)
        try:
            super().__init__(function)
        except (OSError, RuntimeError):  # there is no such folder, as on a read-only system without a home
            return
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, sources)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if self._cache_file is None:
            _warn(f"there is no folder to keep compiled kernels in: each process compiles its own; {_ELSEWHERE}.")
            return None
        try:
            rtsys.initialize(target_context)  # not `refresh`, which loads all that compiling takes
            return self._load_overload(sig, target_context)
        except MemoryError:
            raise
        except Exception as error:  # whatever damaged files, or what they were damaged to, can raise
            self._warn_of_load(error)
            return None

    def _warn_of_load(self, error: Exception) -> None:
        _warn(
            f"{self._cache_path}: a compiled kernel kept there cannot be used, and is compiled again: "
            f"{_why(error)}; should this come again, delete the folder or {_ELSEWHERE}."
        )

    def save_overload(self, sig: Any, data: Any) -> None:
        if self._cache_file is None:
            return
        try:
            super().save_overload(sig, data)
        except MemoryError:
            raise
        except Exception as error:
            self._warn_of_save(error)

    def _warn_of_save(self, error: Exception) -> None:
        _warn(
            f"{self._cache_path}: compiled kernels cannot be kept there, and each process compiles its own: "
            f"{_why(error)}; {_ELSEWHERE}."
        )


class RuntimeCache(KernelCache):
    """What is kept of numba's runtime."""

    def library(self, context: Any) -> Any:
        """The runtime as kept or, failing that, compiled; what `nrtdynmod.compile_nrt_functions` returns."""
        codegen = context.codegen()
        key = "runtime", codegen.magic_tuple()
        try:
            kept = None if self._cache_file is None else self._cache_file.load(key)
            if kept is not None:
                return codegen.unserialize_library(kept)
        except MemoryError:
            raise
        except Exception as error:
            self._warn_of_load(error)
        module, library = nrtdynmod.create_nrt_module(context)
        library.enable_object_caching()
        library.add_ir_module(module)
        library.finalize()
        try:
            if self._cache_file is not None:
                self._impl.locator.ensure_cache_path()
                self._cache_file.save(key, library.serialize_using_object_code())
        except MemoryError:
            raise
        except Exception as error:
            self._warn_of_save(error)
        return library


def _runtime() -> None:
    """What numba's runtime is kept as."""


def keep_runtime(sources: str) -> None:
    """Let numba load its runtime instead of compiling it, unless it is already there."""
    cache = RuntimeCache(_runtime, sources)
    if cache._cache_file is not None:
        nrtdynmod.compile_nrt_functions = cache.library


class KernelStore:
    """The folder of all kernels, which exists; raises `ChainfoldError` unless files can be written there."""

    def __init__(self, sources: str) -> None:
        self._stamp = _stamp(sources)
        self._files = _writable(RuntimeCache(_runtime, sources))
        self.folder = chosen_folder() or self._files

    def kernels(self) -> list[Path]:
        """The files of these sources' kernels; those of others may be among them."""
        return [path for path in self._files.glob("*.nbc") if self._is_ours(path)]

    def _is_ours(self, path: Path) -> bool:
        with suppress(OSError), path.open("rb") as file:
            return file.read(_HEAD)[_STAMP] == self._stamp
        return False


def _writable(cache: KernelCache) -> Path:
    """The folder of a cache, if files can be written there."""
    if cache._cache_file is None:
        raise ChainfoldError(f"there is no folder to keep compiled kernels in; {_ELSEWHERE}.")
    folder = Path(cache.cache_path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ChainfoldError(f"{folder}: compiled kernels cannot be kept there: {_why(error)}; {_ELSEWHERE}.") from None
    return folder


def _why(error: Exception) -> str:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "it is not a folder"
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
        super().__init__(folder, f"{name}.checked", _stamp(sources))

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
        except (FileNotFoundError, NotADirectoryError):
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
