"""Bytes in: files, globs, standard input and open files, decompressed, as UTF-8 in chunks of whole lines.

Compression is known by its first bytes, never by a name. A pipe can be read once.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.errors import BadFile, BadLines, BadSetting
from chainfold.readers.progress import ignore
from chainfold.system.sources import ByteSource, Readable, source_at, sources_of

Meter = Callable[[int], None]
Keep = Callable[["Raw"], None]

UTF8 = "utf-8"
CHUNK = 1 << 19
LONGEST_LINE = 64 << 20
_PIECE = 1 << 18
_ZSTD_PIECE = 1 << 13  # what a damaged end may take with it
BOM = codecs.BOM_UTF8
_MARKS = {  # of byte order; that of UTF-32 begins like that of UTF-16
    BOM: UTF8,
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
MARK_SIZE = 4
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
MAGIC_SIZE = 6
_UNPACKED: dict[str, Callable[[Any], Any]] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}


class Damage(BadFile):
    """Compressed data that ends early or is wrong; a reader of lines adds up to where it was good."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, f"{problem}.")
        self.problem = problem


class Inputs:
    """All inputs in order; names are looked up and checked at once."""

    def __init__(
        self,
        inputs: Readable | Sequence[Readable],
        encoding: str = UTF8,
        progress: Meter | None = None,
        keep: Keep | None = None,
        live: bool = False,
    ) -> None:
        """live: text is passed on as it arrives."""
        several = inputs if isinstance(inputs, Sequence) and not isinstance(inputs, str) else [inputs]
        if not several:
            raise BadSetting("the list of files", [], "at least one file")
        self._inputs = [
            Input(source, _text_encoding(encoding), progress or ignore, keep or ignore, live)
            for given in several
            for source in _resolved(given)
        ]

    @property
    def total_bytes(self) -> int | None:
        """The size of all inputs as they lie on disk; None where one is a pipe."""
        sizes = [source.source.size for source in self._inputs]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def __iter__(self) -> Iterator[Input]:
        return iter(self._inputs)

    def __len__(self) -> int:
        return len(self._inputs)


class Input:
    """One thing to read."""

    def __init__(self, source: ByteSource, encoding: str, progress: Meter, keep: Keep, live: bool) -> None:
        self.name = source.name
        self.source = source
        self.encoding = encoding
        self.read_as = encoding  # that of a byte order mark, once lines of a live input begin with one
        self.progress = progress
        self.keep = keep
        self.live = live

    @property
    def path(self) -> Path | None:
        return self.source.path

    @property
    def regular(self) -> bool:
        """Whether it is a file on disk, known by its name."""
        return self.path is not None

    def open(self) -> Stream:
        """Its bytes from the beginning, decompressed."""
        try:
            return Stream(self, self.source.open())
        except (OSError, ValueError) as error:
            raise unreadable(self.name, error) from None

    def part(self, begin: int, end: int) -> Stream:
        """Bytes begin … end-1 of a file of UTF-8 that is not compressed."""
        try:
            raw = self.source.open()
            raw.seek(begin)
            return Stream(self, _Limited(raw, end - begin), within=begin > 0)
        except (OSError, ValueError) as error:
            raise unreadable(self.name, error) from None


def input_at(address: str, encoding: str, progress: Meter | None) -> Input:
    """The input with the address of a source, which is no pattern."""
    with _readable(address):
        return Input(source_at(address), _text_encoding(encoding), progress or ignore, ignore, live=False)


class Stream:
    """The decompressed bytes of an input: a file object, as far as pyarrow needs one, that can look ahead."""

    def __init__(self, of: Input, raw: Any, within: bool = False) -> None:
        """within: they begin in the midst of a text, where nothing is a mark of an encoding or a compression."""
        self.input = of
        self.name = of.name
        self.closed = False
        self.within = within
        head = _exactly(raw, MAGIC_SIZE)
        self.compression = None if within else compression_of(head)
        self._raw = raw
        self._meter = _Metered(head, raw, of.progress)
        self._next = _decompressed(io.BufferedReader(self._meter, _PIECE), self.compression)
        self._ahead = bytearray()
        self.failure: BadFile | None = None  # what will be raised when the bytes before it are read
        self._ended = False

    @cached_property
    def encoding(self) -> str:
        """That of a byte order mark; without one, that of the input."""
        return (None if self.within else marked_encoding(self.peek(MARK_SIZE))) or self.input.encoding

    def peek(self, size: int) -> bytes:
        """The next bytes, which stay to be read; fewer at the end."""
        self._fill(size)
        return bytes(self._ahead[:size])

    def peek_text(self, size: int, enough: Callable[[bytes], bool]) -> bytes:
        """The next bytes of a text; if it is live, those that are there, once they are enough."""
        if self.input.live:
            while len(self._ahead) < size and not self._ended and not enough(bytes(self._ahead)):
                self._fill(len(self._ahead) + 1)
            return bytes(self._ahead[:size])
        return self.peek(size)

    def read(self, size: int) -> bytes:
        """The next bytes; fewer at the end, none after it."""
        self._fill(size)
        if self.failure and not self._ahead:
            raise self.failure
        taken = bytes(self._ahead[:size])
        del self._ahead[:size]
        return taken

    def text(self, size: int) -> bytes:
        """The next bytes of a text; if it is live, those that are there."""
        if self.input.live:
            self._fill(1)
            size = min(size, max(len(self._ahead), 1))
        return self.read(size)

    def keep(self, raw: Raw) -> None:
        """Pass on what was read, as it is, for a copy of the input; a reader does so before it gives rows."""
        self.input.keep(raw)

    def reached(self, share: float) -> None:
        """Report the progress of a reader that reads the file itself."""
        self._meter.advance(int(share * (self.input.source.size or 0)))

    def close(self) -> None:
        """Close what was opened for this stream; what the user has opened stays open."""
        self.closed = True
        if self.input.source.owned:
            self._raw.close()

    def _fill(self, size: int) -> None:
        while len(self._ahead) < size and not self._ended:
            try:
                piece = self._next()
            except MemoryError:  # Arrow's is also one of the others
                raise
            except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError, pa.ArrowException) as error:
                self.failure = self._sentence(error)
                piece = b""
            self._ended = not piece
            self._ahead += piece

    def _sentence(self, error: Exception) -> BadFile:
        if isinstance(error, ValueError) or getattr(error, "errno", None) is not None:
            return unreadable(self.name, error)
        short = isinstance(error, EOFError) or "Truncated" in str(error)
        return Damage(self.name, f"the {self.compression} data is {'cut short' if short else 'damaged'}")


def marked_encoding(head: bytes) -> str | None:
    """The encoding whose byte order mark a text begins with."""
    return next((encoding for mark, encoding in _MARKS.items() if head.startswith(mark)), None)


def may_be_marked(head: bytes) -> bool:
    """Whether a text that begins with these bytes, fewer than a mark has, may begin with a byte order mark."""
    return any(mark.startswith(head) for mark in _MARKS)


def compression_of(head: bytes) -> str | None:
    """How data is compressed that begins like this."""
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)


def _decompressed(file: io.BufferedReader, compression: str | None) -> Callable[[], bytes]:
    """A function that gives the next piece, nothing at the end; all that comes before a damage is given."""
    if compression == "zstd":
        inflated = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
        return lambda: bytes(inflated.read(_ZSTD_PIECE))
    unpacked: Any = file if compression is None else _UNPACKED[compression](file)
    return lambda: unpacked.read1(_PIECE)


class _Metered(io.RawIOBase):
    """A raw file behind bytes that were already taken from it, reporting how much is read."""

    def __init__(self, head: bytes, raw: Any, progress: Meter) -> None:
        self._head = head
        self._raw = raw
        self._progress = progress
        self._read = 0

    def advance(self, to: int) -> None:
        """Set the number of bytes read."""
        if to > self._read:
            self._progress(to - self._read)
            self._read = to

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        data = self._head[: len(target)] or self._raw.read(len(target)) or b""
        self._head = self._head[len(data) :]
        target[: len(data)] = data
        self.advance(self._read + len(data))
        return len(data)


class _Limited:
    """The next bytes of a raw file, and no more."""

    def __init__(self, raw: Any, size: int) -> None:
        self._raw, self._left = raw, size
        self.close = raw.close

    def read(self, size: int) -> bytes:
        data: bytes = self._raw.read(min(size, self._left)) or b""
        self._left -= len(data)
        return data


def _exactly(raw: Any, size: int) -> bytes:
    """The first bytes, however slowly they come."""
    data = b""
    while len(data) < size and (more := raw.read(size - len(data))):
        data += more
    return data


def unreadable(name: str, error: Exception) -> BadFile:
    """The sentence for what the system says."""
    return BadFile(name, f"cannot be read: {getattr(error, 'strerror', None) or error}.")


def _text_encoding(name: str) -> str:
    try:
        codec = codecs.lookup(name)
        b"a\0\0\0".decode(codec.name, "replace")
    except (LookupError, ValueError):
        codec = None
    if codec is None or not getattr(codec, "_is_text_encoding", True):
        raise BadSetting("encoding", name, "one that Python knows, for instance utf-8, latin-1 or utf-16")
    return codec.name


def _resolved(given: Readable) -> list[ByteSource]:
    with _readable(given if isinstance(given, (str, Path)) else "the open file"):
        return sources_of(given)


@contextmanager
def _readable(name: str | Path) -> Iterator[None]:
    """Errors of the system as one sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise BadFile(error.filename or name, "there is no such file.") from None
    except (OSError, ValueError) as error:
        raise unreadable(str(getattr(error, "filename", None) or name), error) from None


class Chunk(NamedTuple):
    """Whole lines of UTF-8, the last one with its line end."""

    data: bytes
    line: int  # the number of its first line, from 1
    added: int = 0  # bytes at its end that the input does not have: the last line may have no line end


class RawLines(NamedTuple):
    """Text of which some lines are rows, each one line."""

    source: str
    chunk: Chunk
    lines: NDArray[np.int64]  # the lines that are rows, numbered as in the input
    attributes: bool  # is what follows the first tab attributes, as in CRFsuite's lines?
    width: int = 0  # of rows of columns, where it is known, and whether tabs are between these
    tabs: bool = False


class RawFields(NamedTuple):
    """Text of rows of fields, which may span lines; blank lines are no rows."""

    source: str
    chunk: Chunk
    delimiter: str
    quotes: bool  # may fields be quoted?
    header: tuple[str, ...]  # the names of the columns, if the chunk begins with them
    begin: int  # where the rows begin, after a header
    blotted: bytes | None = None  # the text without comments, and without what is in lines that cannot be read: each
    # of those is a row


class RawObjects(NamedTuple):
    """Text of objects, one a line; blank lines are none."""

    source: str
    chunk: Chunk
    ends: NDArray[np.int64]  # where the closing brace of each object is
    counts: NDArray[np.int64] | None  # the rows of each object; None: an object is a row


class RawRows(NamedTuple):
    """Rows of a table."""

    source: str
    kind: TableKind
    batch: Any  # pa.RecordBatch; texts may have become dictionaries
    schema: Any  # pa.Schema: the types of the columns in the file


Raw = RawLines | RawFields | RawObjects | RawRows


class TableKind(StrEnum):
    PARQUET = "parquet"
    ARROW_FILE = "arrow file"
    ARROW_STREAM = "arrow stream"


def after_last_line(data: bytes) -> int:
    return data.rfind(b"\n") + 1


def line_ends(data: bytes) -> NDArray[np.int64]:
    """Where each line ends."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))


def count_of(byte: bytes, data: bytes) -> int:
    """How often one byte occurs; several times as fast as `bytes.count`."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == byte[0]))


def chunks(
    stream: Stream, size: int = CHUNK, cut: Callable[[bytes], int] = after_last_line, line: int = 1
) -> Iterator[Chunk]:
    """The text of a stream in chunks of about `size` bytes; `cut` says up to where the bytes so far may be given.

    line: the number of its first line.
    """
    held = b""
    try:
        for piece in _utf8_pieces(stream, size):
            held += piece
            if end := cut(held):
                whole, held = checked(held[:end], line, stream.name), held[end:]
                yield Chunk(whole, line)
                line += count_of(b"\n", whole)
            elif len(held) > LONGEST_LINE:
                longest = f"{LONGEST_LINE >> 20} MB"
                problem = f"line {line} begins a row of more than {longest}; is a line end or a quote missing?"
                raise BadFile(stream.name, problem)
    except Damage as damage:
        good = line - 1 + held.count(b"\n")
        raise BadFile(stream.name, f"{damage.problem} after line {good}; fetch the file again.") from None
    if held:
        added = 0 if held.endswith(b"\n") else 1
        yield Chunk(checked(held + b"\n" * added, line, stream.name), line, added)


def _utf8_pieces(stream: Stream, size: int) -> Iterator[bytes]:
    if stream.encoding != UTF8:
        yield from _transcoded(stream, size)
        return
    if not stream.within and stream.peek(len(BOM)) == BOM:
        stream.read(len(BOM))
    while piece := stream.text(size):
        yield piece


def checked(data: bytes, line: int, name: str) -> bytes:
    """Return the bytes if they are UTF-8, else raise."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        first, at = line, error.start
        line, column = line + data.count(b"\n", 0, at), at - data.rfind(b"\n", 0, at)
        problem = f"line {line}, byte {column}: {data[at]:#04x} is not UTF-8; set `encoding`."
        raise BadLines(name, problem, lambda: _not_utf8(data, first)) from None
    return data


def _not_utf8(data: bytes, line: int) -> NDArray[np.int64]:
    """The lines that are not UTF-8."""
    text = data.decode(errors="surrogateescape").encode("utf-32-le", "surrogatepass")
    letters = np.frombuffer(text, np.uint32)
    wrong = np.flatnonzero((letters >= 0xDC80) & (letters <= 0xDCFF))
    return line + np.unique(np.searchsorted(np.flatnonzero(letters == ord("\n")), wrong))


def _transcoded(stream: Stream, size: int) -> Iterator[bytes]:
    """UTF-8 from any other encoding."""
    decoder = codecs.getincrementaldecoder(stream.encoding)()
    line, column, ended = 1, 1, False
    while not ended:
        piece = stream.text(size)
        ended = not piece
        before = decoder.getstate()
        try:
            text = decoder.decode(piece, ended)
        except UnicodeError:
            decoder.setstate(before)
            raise _undecodable(stream, decoder, piece, line, column) from None
        if line == column == 1:
            text = text.removeprefix("\ufeff")
        line += text.count("\n")
        column = len(text) - text.rfind("\n") if "\n" in text else column + len(text)
        yield text.encode("utf-8", "surrogatepass")


def _undecodable(stream: Stream, decoder: codecs.IncrementalDecoder, piece: bytes, line: int, column: int) -> BadFile:
    """Where a piece stops to be text: it is decoded again byte by byte."""
    culprit = "the last byte"
    try:
        for byte in piece:
            culprit = f"{byte:#04x}"
            for letter in decoder.decode(bytes([byte])):
                line, column = (line + 1, 1) if letter == "\n" else (line, column + 1)
        culprit = "the end of the text"
    except UnicodeError:
        pass
    where = f"line {line}, character {column}"
    problem = f"{where}: {culprit} is not {stream.encoding}; set another `encoding`."
    return BadFile(stream.name, problem)
