"""Arrays and JSON in one safetensors file, under a digest: what models and unfinished runs are kept in.

The JSON stands under one key of the metadata, as the library keeps no order among several: the same content gives the
same bytes. Reading runs no code, and gives back what was written or one sentence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from chainfold.errors import BadFile
from chainfold.files import written_whole

_ABOUT = "chainfold"
_CHAIN = b"ARROW1"  # how a stored chain begins

Tensors = dict[str, NDArray[Any]]


def write_sealed(path: str | Path, kind: str, version: int, tensors: Tensors, about: Mapping[str, Any]) -> None:
    """Write a file of the kind; `about` is as JSON would give it back."""
    tensors = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in tensors.items()}
    content = {**about, "kind": kind, "version": version}
    text = json.dumps({**content, "digest": digest_of(tensors, content)}, sort_keys=True)
    with written_whole(path) as file:
        _write(file, tensors, text)


def _write(file: IO[bytes], tensors: Tensors, about: str) -> None:
    """The safetensors format by hand: the same bytes with any release of the library, and no copy of the arrays."""
    aligned = sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))
    header: dict[str, Any] = {"__metadata__": {_ABOUT: about}}
    end = 0
    for name, array in aligned:
        begin, end = end, end + array.nbytes
        kind = "BOOL" if array.dtype == bool else f"{array.dtype.kind.upper()}{8 * array.itemsize}"  # F64, I32, U8 …
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for _, array in aligned:
        file.write(array.data if array.size else b"")


def read_sealed(path: str | Path, kind: str, version: int) -> tuple[Tensors, dict[str, Any]]:
    """The arrays and the JSON of a file that `write_sealed` has written."""
    with damage(path, kind):
        _look_at(Path(path), kind)
        with safe_open(path, "np") as file:
            about: dict[str, Any] = json.loads(file.metadata()[_ABOUT])
            if about["kind"] != kind:
                raise BadFile(path, f"this is a {about['kind']}, not a {kind}.")
            if about["version"] != version:
                raise BadFile(path, f"its version is {about['version']!r}, and this chainfold reads {version}.")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no mapping)
        if about.pop("digest") != digest_of(tensors, about):
            raise BadFile(path, damaged(kind))
        return tensors, about


def damaged(kind: str) -> str:
    return f"this is not a {kind} written by chainfold, or it is cut short or damaged."


@contextmanager
def damage(path: object, kind: str) -> Iterator[None]:
    """Whatever reading a file may end in, as one sentence."""
    try:
        yield
    except BadFile:
        raise
    except FileNotFoundError:
        raise BadFile(path, "there is no such file.") from None
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror}." if error.strerror else damaged(kind)) from None
    except (
        SafetensorError,
        pa.ArrowException,
        ValueError,  # every ChainfoldError is one
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ):
        raise BadFile(path, damaged(kind)) from None


def _look_at(path: Path, kind: str) -> None:
    """Raise if the file cannot be opened, or is a chain."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise BadFile(path, "cannot be read: it is no ordinary file.")
    with path.open("rb") as file:
        if file.read(len(_CHAIN)) == _CHAIN:
            raise BadFile(path, f"this is a chain, not a {kind}; name another file.")


def digest_of(tensors: Tensors, about: Mapping[str, Any]) -> str:
    """sha256 of arrays and of what JSON has beside them."""
    state = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, array in sorted(tensors.items()):
        state.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        state.update(array.data if array.size else b"")
    return state.hexdigest()
