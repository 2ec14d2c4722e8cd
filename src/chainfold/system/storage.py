"""Folders of files, on this machine or behind a URI that pyarrow's file systems know, such as s3://bucket/folder.

    storage_of      the folder of a path or a URI
    LocalStorage    files are written under a temporary name and renamed
    RemoteStorage   an object appears when all of it is there; what is read lies in a cache, named by its checksum

A process that is killed leaves a local file that its lock tells to be stale, or an upload that was never completed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any, NamedTuple

from chainfold.errors import BadFile
from chainfold.system.files import temporary_directory, written_whole

CACHE = "CHAINFOLD_CACHE"  # the variable that names the folder of the cache
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.S)  # a path object has made one slash of two
_PIECE = 1 << 20
_MAGIC = re.compile(r"[*?\[]")
_QUERY = re.compile(r"\?[a-z_]+=.*", re.S)  # options of the file system, and no wildcard


def is_uri(place: object) -> bool:
    """Whether a place is named by a URI, which a file system of pyarrow reaches."""
    return isinstance(place, str | Path) and _URI.fullmatch(str(place)) is not None


def storage_of(folder: str | Path, cache: str | Path | None = None) -> Storage:
    """The folder of a path or a URI; what is read of a remote one is kept in the folder `cache`.

    >>> storage_of("log.chain").called("index.arrow")
    'log.chain/index.arrow'
    """
    if not is_uri(folder):
        return LocalStorage(folder)
    system, path = remote(folder)
    return LocalStorage(path) if system.type_name == "local" else RemoteStorage(folder, cache)


class DigestedFile:
    """A file to write to, whose checksum and size are known at the end."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._digest, self.size = file, hashlib.sha256(), 0

    def write(self, data: Any) -> int:
        """Write bytes."""
        self._digest.update(data)
        size = self._file.write(data)
        self.size += size
        return size

    def tell(self) -> int:
        """Bytes written so far."""
        return self.size

    def flush(self) -> None:
        """Do nothing: the file is flushed at its end."""

    @property
    def sha256(self) -> str:
        """Checksum of the whole content, in hex."""
        return self._digest.hexdigest()


class LocalStorage:
    """A folder on this machine, or on a file system that it shares with others.

    Files of subfolders have names with a slash.
    """

    def __init__(self, folder: str | Path) -> None:
        self.name, self._folder = str(folder), Path(folder)

    def called(self, file: str) -> str:
        """The name of a file in sentences."""
        return f"{self.name}/{file}"

    def names(self) -> list[str]:
        """The names of all files, in order."""
        found = (path for path in self._folder.rglob("*") if path.is_file())
        return sorted(path.relative_to(self._folder).as_posix() for path in found)

    def has(self, file: str) -> bool:
        """Whether there is such a file."""
        return (self._folder / file).is_file()

    def path(self, file: str, sha256: str) -> Path:
        """A local path of the file with this checksum."""
        return self._folder / file

    @contextmanager
    def fetched(self, file: str) -> Iterator[Path]:
        """A context with the path of the file as it is now."""
        yield self._folder / file

    @contextmanager
    def written(self, file: str, lasting: bool = True) -> Iterator[IO[bytes]]:
        """A context with an open file to write to, which is there when all of it is written.

        lasting: it is still there after a power cut; a working file need not be.
        """
        target = self._folder / file
        with _sentence(self.called(file), "written"):
            target.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(target, lasting) as opened:
            yield opened

    @contextmanager
    def digested(self, file: str, name: Callable[[str], str]) -> Iterator[DigestedFile]:
        """A context like `written`, for a file named after its checksum; until then it may have the name `file`."""
        with self.written(file) as opened:
            yield (digested := DigestedFile(opened))
        with _sentence(self.called(file), "renamed"):
            (self._folder / file).replace(self._folder / name(digested.sha256))

    def remove(self, file: str) -> None:
        """Remove a file, if it is there."""
        with _sentence(self.called(file), "removed"):
            (self._folder / file).unlink(missing_ok=True)

    def remove_empty(self, prefix: str) -> None:
        """Remove empty subfolders whose names begin so."""
        for folder in self._folder.glob(f"{prefix}*/"):
            with suppress(OSError):  # it is not empty
                folder.rmdir()


class RemoteStorage:
    """A folder behind a URI, with the methods of `LocalStorage`."""

    def __init__(self, uri: str | Path, cache: str | Path | None = None) -> None:
        self.system, folder = remote(uri)
        self._folder = folder.rstrip("/")
        self.name = shown(uri).rstrip("/")
        self._cache = Path(cache or os.environ.get(CACHE) or Path.home() / ".cache" / "chainfold" / "parts")

    def called(self, file: str) -> str:
        return f"{self.name}/{file}"

    def names(self) -> list[str]:
        from pyarrow import fs

        with _sentence(self.name, "read"):
            chosen = fs.FileSelector(self._folder, recursive=True, allow_not_found=True)
            files = [one.path for one in self.system.get_file_info(chosen) if one.type == fs.FileType.File]
        return sorted(path.removeprefix(f"{self._folder}/") for path in files)

    def has(self, file: str) -> bool:
        from pyarrow import fs

        with _sentence(self.called(file), "read"):
            return bool(self.system.get_file_info(self._at(file)).type == fs.FileType.File)

    def path(self, file: str, sha256: str) -> Path:
        """A file of the cache, which is fetched unless it is there."""
        kept = self._cache / sha256
        if kept.is_file():
            return kept
        with _sentence(self._cache, "written"):
            self._cache.mkdir(parents=True, exist_ok=True)
        with written_whole(kept) as copy:
            if self._copy(file, copy) != sha256:
                raise BadFile(self.called(file), "is damaged: its checksum is another; encode the chain anew.")
        return kept

    @contextmanager
    def fetched(self, file: str) -> Iterator[Path]:
        with temporary_directory() as folder:
            copied = folder / "copy"
            with written_whole(copied, lasting=False) as copy:
                self._copy(file, copy)
            yield copied

    def _copy(self, file: str, target: IO[bytes]) -> str:
        """Fetch a file; returns its checksum."""
        digest = hashlib.sha256()
        with _sentence(self.called(file), "read"), self.system.open_input_stream(self._at(file)) as source:
            while piece := source.read(_PIECE):
                digest.update(piece)
                target.write(piece)
        return digest.hexdigest()

    @contextmanager
    def written(self, file: str, lasting: bool = True) -> Iterator[IO[bytes]]:
        """The file is written here first, as an upload that is given up would leave a piece of it."""
        with tempfile.TemporaryFile() as whole:
            yield whole
            self._upload(whole, file)

    @contextmanager
    def digested(self, file: str, name: Callable[[str], str]) -> Iterator[DigestedFile]:
        with tempfile.TemporaryFile() as whole:
            yield (digested := DigestedFile(whole))
            self._upload(whole, name(digested.sha256))

    def _upload(self, whole: IO[bytes], file: str) -> None:
        whole.seek(0)
        with _sentence(self.called(file), "written"):
            try:
                with self._opened(self._at(file)) as target:
                    shutil.copyfileobj(whole, target, _PIECE)
            except BaseException:
                with suppress(OSError):
                    self.system.delete_file(self._at(file))
                raise

    def remove(self, file: str) -> None:
        with _sentence(self.called(file), "removed"), suppress(FileNotFoundError):
            self.system.delete_file(self._at(file))

    def remove_empty(self, prefix: str) -> None:
        """Do nothing: object stores have no folders."""

    def _opened(self, path: str) -> Any:
        try:
            return self.system.open_output_stream(path)
        except FileNotFoundError:  # a file system with folders, which object stores do not have
            self.system.create_dir(path.rpartition("/")[0], recursive=True)
            return self.system.open_output_stream(path)

    def _at(self, file: str) -> str:
        return f"{self._folder}/{file}"


Storage = LocalStorage | RemoteStorage


def remote(uri: str | Path) -> tuple[Any, str]:
    """The file system of a URI, and the path in it."""
    from pyarrow import ArrowException, fs

    matched = _URI.fullmatch(str(uri))
    assert matched is not None, "only URIs are given here"
    text = f"{matched[1]}://{'/' if matched[1] == 'file' else ''}{matched[2]}"
    try:
        system, path = fs.FileSystem.from_uri(text)
    except (OSError, ValueError, ArrowException) as error:
        raise BadFile(shown(uri), f"cannot be opened: {_first_line(error)}.") from None
    return system, path


class RemoteFile(NamedTuple):
    """An object behind a URI."""

    name: str  # without what is secret in the URI
    uri: str
    system: Any  # pyarrow's file system
    path: str  # in it
    size: int  # bytes


def remote_files(pattern: str | Path) -> list[RemoteFile]:
    """The objects of a URI or of a pattern of URIs, in order."""
    from pyarrow import fs

    uri, found = _QUERY.split(str(pattern), 1)[0], _QUERY.search(str(pattern))
    options = "" if found is None else found[0]
    wild = _MAGIC.search(uri)
    base = uri if wild is None else uri[: uri.rfind("/", 0, wild.start())]
    system, path = remote(base + options)
    with _sentence(shown(pattern), "read"):
        if wild is None:
            objects = [system.get_file_info(path)]
        else:
            objects = system.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
            objects = [one for one in objects if _matches(one.path, path + uri[len(base) :])]
    sizes = {one.path: one.size for one in objects if one.type == fs.FileType.File}
    if not sizes:
        problem = "there is no such file." if wild is None else "no file matches this pattern."
        raise BadFile(shown(pattern), problem)
    uris = {one: base + one[len(path) :] + options for one in sorted(sizes)}
    return [RemoteFile(shown(uri), uri, system, one, sizes[one]) for one, uri in uris.items()]


def has_wildcards(uri: str) -> bool:
    """Whether a URI is a pattern of several objects."""
    return _MAGIC.search(_QUERY.split(uri, 1)[0]) is not None


def _matches(path: str, pattern: str) -> bool:
    """Whether a path matches a glob, in which a star does not match a slash."""
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def shown(place: str | Path) -> str:
    """The name of a place in sentences: a URI without what is secret or of no interest in it."""
    matched = _URI.fullmatch(str(place))
    if matched is None:
        return str(place)
    scheme, rest = matched[1], matched[2]
    return f"{scheme}://{_QUERY.split(rest, 1)[0].rpartition('@')[2]}"


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(". ")


@contextmanager
def _sentence(called: object, verb: str) -> Iterator[None]:
    """Errors of a file system as one sentence."""
    try:
        yield
    except (BadFile, MemoryError):
        raise
    except FileNotFoundError:
        raise BadFile(called, "there is no such file.") from None
    except OSError as error:
        raise BadFile(called, f"cannot be {verb}: {error.strerror or _first_line(error)}.") from None
