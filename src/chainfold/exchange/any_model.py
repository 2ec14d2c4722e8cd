"""Models of any program: opened by the first bytes of their file, and written in a format by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from chainfold.errors import BadSetting
from chainfold.exchange import crfpp, crfpp_binary, crfsuite_binary, wapiti_text
from chainfold.exchange.foreign import readable_as
from chainfold.model.file import open_model
from chainfold.model.model import Model
from chainfold.system.archive import FileInMemory, FileSource, in_memory, name_of
from chainfold.system.files import written_whole

_HEAD = 16  # bytes that tell the format


class _Reader(NamedTuple):
    """A format that can be read."""

    program: str
    begins_so: Callable[[bytes], bool]
    read: Callable[[bytes, str], Model]


def _with(magic: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magic)


_READERS = (
    _Reader(crfsuite_binary.PROGRAM, _with(crfsuite_binary.MAGIC), crfsuite_binary.read),
    _Reader(wapiti_text.PROGRAM, _with(wapiti_text.MAGIC), wapiti_text.read),
    _Reader(crfpp.PROGRAM, _with(crfpp.MAGIC), crfpp.read),
    _Reader(crfpp.PROGRAM, crfpp_binary.begins_so, crfpp_binary.read),
)
_WRITERS: dict[str, Callable[[Model, str], Iterator[bytes]]] = {
    "crfsuite": crfsuite_binary.write,
    "wapiti": wapiti_text.write,
    "crf++": crfpp.write,
}
FORMATS = tuple(_WRITERS)


def open_any_model(source: FileSource, encoding: str = "utf-8") -> Model:
    """Read a model of chainfold, CRFsuite, Wapiti or CRF++, whichever the first bytes of the file tell.

    source      a path, the bytes of a file, or a file that is open in binary mode
    encoding    of the names in the file of another program

    Returns a `Model`. Raises `ChainfoldError` where the file is no model, is damaged, or contains what chainfold does
    not have.

    >>> from chainfold import CRF, export_model
    >>> crf = CRF().fit([[["a"], ["b"]]], [["X", "Y"]])
    >>> export_model(crf.model_, "example.crfsuite", "crfsuite")
    >>> open_any_model("example.crfsuite").vocabulary.labels
    ('X', 'Y')
    """
    _check_encoding(encoding)
    if not isinstance(source, (str, Path)):
        if not isinstance(source, (bytes, bytearray, memoryview)) and not callable(getattr(source, "read", None)):
            raise BadSetting("source", source, "a path, the bytes of a file, or a file that is open for reading")
        source = in_memory(source)
    reader = _reader_of(source)
    if reader is None:
        return open_model(source)
    with readable_as(name_of(source), reader.program):
        content = source.getvalue() if isinstance(source, FileInMemory) else Path(source).read_bytes()
        return reader.read(content, encoding)


def export_model(
    model: Model,
    path: str | Path,
    format: str,  # noqa: A002
    encoding: str = "utf-8",
) -> None:
    """Write a model for another program; the file appears complete or not at all.

    format      crfsuite (binary), wapiti (text) or crf++ (text, for `crf_learn --convert`)
    encoding    of the names in the file

    Raises `ChainfoldError` where the format cannot express the model, or the file cannot be written.

    >>> from chainfold import CRF
    >>> crf = CRF().fit([[["a"], ["b"]]], [["X", "Y"]])
    >>> export_model(crf.model_, "example.crfsuite", "crfsuite")
    """
    if format not in _WRITERS:
        raise BadSetting("format", format, f"one of {', '.join(FORMATS)}")
    _check_encoding(encoding)
    parts = list(_WRITERS[format](model, encoding))
    with written_whole(path) as file:
        for part in parts:
            file.write(part)


def _reader_of(source: str | Path | FileInMemory) -> _Reader | None:
    """The reader of a model of another program; None for anything else."""
    head = b""
    if isinstance(source, FileInMemory):
        head = bytes(source.getbuffer()[:_HEAD])
    else:
        with suppress(OSError, ValueError):
            if Path(source).is_file():
                with Path(source).open("rb") as file:
                    head = file.read(_HEAD)
    return next((reader for reader in _READERS if reader.begins_so(head)), None)


def _check_encoding(encoding: str) -> None:
    try:
        "a".encode(encoding)
    except (LookupError, TypeError, ValueError):
        raise BadSetting("encoding", encoding, "the name of an encoding, for instance utf-8 or latin-1") from None
