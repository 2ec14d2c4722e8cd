"""Models of any program: opened by the first bytes of their file, and written in a format by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from chainfold.errors import BadSetting
from chainfold.exchange import crfpp, crfpp_binary, crfsuite_binary, wapiti_text
from chainfold.exchange.foreign import readable_as
from chainfold.model.file import open_model
from chainfold.model.model import Model
from chainfold.system.archive import FileInMemory, FileSource, in_memory, name_of
from chainfold.system.files import written_whole

_HEAD = 16  # bytes that tell the format


_READERS: dict[bytes, tuple[str, Callable[[bytes, str], Model]]] = {
    crfsuite_binary.MAGIC: (crfsuite_binary.PROGRAM, crfsuite_binary.read),
    wapiti_text.MAGIC: (wapiti_text.PROGRAM, wapiti_text.read),
    crfpp.MAGIC: (crfpp.PROGRAM, crfpp.read),
}  # by the first bytes; the program, and who reads it
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
    head = _head(source)
    found = next((reader for magic, reader in _READERS.items() if head.startswith(magic)), None)
    if found is None:
        if not crfpp_binary.begins_so(head):
            return open_model(source)
        found = crfpp.PROGRAM, crfpp_binary.read
    program, read = found
    with readable_as(name_of(source), program):
        return read(source.getvalue() if isinstance(source, FileInMemory) else Path(source).read_bytes(), encoding)


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


def _head(source: str | Path | FileInMemory) -> bytes:
    """The first bytes; none of what cannot be read."""
    if isinstance(source, FileInMemory):
        return bytes(source.getbuffer()[:_HEAD])
    with suppress(OSError, ValueError):
        if Path(source).is_file():
            with Path(source).open("rb") as file:
                return file.read(_HEAD)
    return b""


def _check_encoding(encoding: str) -> None:
    try:
        "a".encode(encoding)
    except (LookupError, TypeError, ValueError):
        raise BadSetting("encoding", encoding, "the name of an encoding, for instance utf-8 or latin-1") from None
