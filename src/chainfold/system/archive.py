"""Sealed files: arrays and JSON in one safetensors file under a digest, for models and unfinished runs.

The JSON stands under one key of the metadata, as the library keeps no order among several: the same content gives the
same bytes. All numbers are little-endian. Reading runs no code and maps no memory, checks sizes in the
header against the size of the file, and returns the content or raises one sentence. A digest detects damage, not
forgery: the caller checks the arrays (`validate`).
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from chainfold.errors import BadFile, ChainfoldError
from chainfold.system.files import written_whole
from chainfold.system.validate import is_count, is_text, mapping, need, spelt

MEMORY = "the bytes"  # the name of a file in memory in messages
_ABOUT, _METADATA = "chainfold", "__metadata__"
_CHAIN = b"ARROW1"  # how a stored chain begins
_MOST_HEADER = 32 << 20  # bytes; the parsed JSON takes several times as many
_MOST_VERSION = 10**6
_ENTRY = ("dtype", "shape", "data_offsets")  # of an array in the header
_TYPES = {f"{kind.upper()}{8 * size}": np.dtype(f"<{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)} | {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "BOOL": np.dtype(np.bool_),
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}

Tensors = dict[str, NDArray[Any]]


def write_sealed(path: str | Path, kind: str, version: int, tensors: Tensors, about: Mapping[str, Any]) -> None:
    """Write a file of the kind; `about` is as JSON would give it back."""
    header, arrays = _sealed(path, kind, version, tensors, about)
    with written_whole(path) as file:
        _write(file, header, arrays)


def sealed_bytes(kind: str, version: int, tensors: Tensors, about: Mapping[str, Any]) -> bytes:
    """The bytes that `write_sealed` writes."""
    memory = io.BytesIO()
    _write(memory, *_sealed(MEMORY, kind, version, tensors, about))
    return memory.getvalue()


def _sealed(
    path: object, kind: str, version: int, tensors: Tensors, about: Mapping[str, Any]
) -> tuple[bytes, list[NDArray[Any]]]:
    """The header of a file, and the arrays that follow it."""
    tensors = {name: _little(array) for name, array in tensors.items()}
    content = {**about, "kind": kind, "version": version}
    text = json.dumps({**content, "digest": digest_of(tensors, content)}, sort_keys=True)
    header, arrays = _header(tensors, text)
    if len(header) > _MOST_HEADER:
        raise BadFile(path, f"cannot be written: all but the arrays of the {kind} is larger than {_MOST_HEADER} bytes.")
    return header, arrays


def _little(array: NDArray[Any]) -> NDArray[Any]:
    """A contiguous little-endian array, whatever the machine."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)


def _header(tensors: Tensors, about: str) -> tuple[bytes, list[NDArray[Any]]]:
    """The header of safetensors, the same with any release of the library, and the arrays in their order."""
    aligned = sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))
    header: dict[str, Any] = {_METADATA: {_ABOUT: about}}
    end = 0
    for name, array in aligned:
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    return text + b" " * (-len(text) % 8), [array for _, array in aligned]


def _write(file: IO[bytes], header: bytes, arrays: list[NDArray[Any]]) -> None:
    file.write(len(header).to_bytes(8, "little") + header)
    for array in arrays:
        file.write(array.data if array.size else b"")


def read_sealed(
    source: FileSource, kind: str, version: int, remedy: str = "begin anew"
) -> tuple[Tensors, dict[str, Any]]:
    """Read the arrays and the JSON that `write_sealed` or `sealed_bytes` has written.

    source   a path, the bytes of a file, or an open binary file, which is read to its end
    remedy   advice for a file of another version
    """
    path = name_of(source)
    with damage(path, kind), _opened_source(source) as (file, size):
        entries, about = _opened(path, file, size, kind)
        if about["kind"] != kind:
            need(is_text(about["kind"]), "its kind is no text")
            raise BadFile(path, f"this is {_one(spelt(about['kind']))}, not {_one(kind)}.")
        if about["version"] != version:
            need(is_count(about["version"], 0, _MOST_VERSION), "its version is no number")
            found = f"its version is {about['version']}"
            raise BadFile(path, f"{found}, and this chainfold reads {version}; {remedy}.")
        tensors = {name: _array(file, dtype, shape) for name, dtype, shape in entries}
        if about.pop("digest") != digest_of(tensors, about):
            raise BadFile(path, damaged(kind))
        return tensors, about


FileSource = str | Path | bytes | bytearray | memoryview | IO[bytes]
"""The place of a file: a path, its bytes, or an open binary file."""


def name_of(source: FileSource) -> object:
    """The name of a source in messages."""
    if isinstance(source, (str, Path)):
        return source
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else MEMORY


class FileInMemory(io.BytesIO):
    """The content of a file, with its name in messages."""

    def __init__(self, content: bytes | bytearray | memoryview, name: object) -> None:
        super().__init__(content)
        self.name = name


def in_memory(source: bytes | bytearray | memoryview | IO[bytes]) -> FileInMemory:
    """Read the rest of an open file into memory; raises `BadFile` for a file that is open as text."""
    if isinstance(source, FileInMemory):
        return source
    content = source if isinstance(source, (bytes, bytearray, memoryview)) else source.read()
    if isinstance(content, str):
        raise BadFile(name_of(source), "it is open as text; open it in binary mode, as in open(path, 'rb').")
    return FileInMemory(content, name_of(source))


@contextmanager
def _opened_source(source: FileSource) -> Iterator[tuple[IO[bytes], int]]:
    """A binary file to read, and its size."""
    if not isinstance(source, (str, Path)):
        memory = in_memory(source)
        yield memory, memory.getbuffer().nbytes
        return
    if Path(source).exists() and not (Path(source).is_file() or Path(source).is_dir()):
        raise BadFile(source, "cannot be read: it is no ordinary file.")
    with Path(source).open("rb") as file:
        yield file, os.fstat(file.fileno()).st_size


Entry = tuple[str, np.dtype[Any], tuple[int, ...]]


def _opened(path: object, file: IO[bytes], size: int, kind: str) -> tuple[list[Entry], dict[str, Any]]:
    """The arrays in their order and the JSON of a header, checked against the size of the file."""
    first = _read(file, 8)
    if first[: len(_CHAIN)] == _CHAIN:
        raise BadFile(path, f"this is a chain, not {_one(kind)}; name another file.")
    length = int.from_bytes(first, "little")
    need(length <= min(size - 8, _MOST_HEADER), "its header is longer than it can be")
    header = json.loads(_read(file, length).decode())
    about: dict[str, Any] = json.loads(header.pop(_METADATA)[_ABOUT])
    spans = [(*_span(one), name) for name, one in header.items()]
    spans.sort(key=lambda span: span[:2])
    end = 0
    for begin, past, *_ in spans:
        need(begin == end, "its arrays do not follow one another")
        end = past
    need(end == size - 8 - length, "its arrays end before or after it does")
    return [(name, dtype, shape) for _, _, dtype, shape, name in spans], about


def _one(kind: str) -> str:
    """The kind with its article."""
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"


def _span(entry: Any) -> tuple[int, int, np.dtype[Any], tuple[int, ...]]:
    """Begin, end, type and shape of an array, checked against each other."""
    mapping("arrays", entry, _ENTRY)
    (begin, end), shape, dtype = entry["data_offsets"], entry["shape"], _TYPES[entry["dtype"]]
    need(all(is_count(number, 0, 2**62) for number in (begin, end, *shape)), "the sizes of its arrays are out of range")
    need(end - begin == math.prod(shape) * dtype.itemsize, "its arrays have other sizes than their shapes")
    return begin, end, dtype, tuple(shape)


def _array(file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """The next array of the file."""
    array = np.empty(shape, dtype)
    if array.size:
        count = file.readinto(array.reshape(-1).view(np.uint8).data)  # type: ignore[attr-defined]
        need(count == array.nbytes, "it is cut short")
    if dtype == np.bool_:
        need(array.reshape(-1).view(np.uint8).max(initial=0) <= 1, "its marks are not booleans")
    return array


def _read(file: IO[bytes], size: int) -> bytes:
    """Read exactly this number of bytes."""
    found = file.read(size)
    need(len(found) == size, "it is cut short")
    return found


def damaged(kind: str) -> str:
    return f"this is not a {kind} written by chainfold, or it is cut short or damaged."


@contextmanager
def damage(path: object, kind: str) -> Iterator[None]:
    """Turn errors of reading a file into one sentence; a lack of memory is no fault of the file."""
    try:
        yield
    except (BadFile, MemoryError):
        raise
    except ChainfoldError as error:
        raise BadFile(path, f"{damaged(kind)[:-1]}: {error}") from None
    except FileNotFoundError:
        raise BadFile(path, "there is no such file.") from None
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror}." if error.strerror else damaged(kind)) from None
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):  # of Arrow too
        raise BadFile(path, damaged(kind)) from None


def digest_of(tensors: Tensors, about: Mapping[str, Any]) -> str:
    """sha256 of arrays and JSON."""
    state = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, array in sorted(tensors.items()):
        state.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        state.update(np.ascontiguousarray(array).data if array.size else b"")
    return state.hexdigest()
