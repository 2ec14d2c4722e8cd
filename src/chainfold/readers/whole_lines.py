"""Cut text that arrives in pieces into chunks of whole lines, in UTF-8.

A line that is longer than a line may be is not held: it is reported with its beginning, and the rest is discarded.
"""

from __future__ import annotations

import codecs
import io
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from chainfold.errors import BadFile
from chainfold.readers.formats import table_of
from chainfold.readers.inputs import (
    BOM,
    LONGEST_LINE,
    MAGIC_SIZE,
    MARK_SIZE,
    UTF8,
    Chunk,
    Input,
    compression_of,
    count_of,
    marked_encoding,
    may_be_marked,
)

MARK = "\udcff".encode(errors="surrogatepass")  # no UTF-8: the line that has it is found to be wrong
_KEPT = 1000  # bytes of a line that is too long


class TooLong(NamedTuple):
    """A line that is longer than a line may be."""

    chunk: Chunk  # its beginning
    problem: BadFile


def whole_lines(pieces: Iterable[bytes], source: Input, stopped: threading.Event) -> Iterator[Chunk | TooLong]:
    """Yield all whole lines that have arrived; raise if the input is no text.

    At the end of the pieces the last line needs no line end, unless `stopped` is set.
    """
    lines = _Lines(source)
    for piece in pieces:
        yield from lines.add(piece, last=False)
    if not stopped.is_set():
        yield from lines.add(b"", last=True)


class _Lines:
    """The lines of an input, cut from its pieces."""

    def __init__(self, source: Input) -> None:
        self._input = source
        self._head, self._held = b"", io.BytesIO()
        self._line = 1
        self._decode: Callable[[bytes, bool], bytes] | None = None  # once the first bytes tell the encoding
        self._first = b""
        self._too_long = False  # whether the next bytes belong to a line that was reported as too long

    def add(self, piece: bytes, last: bool) -> Iterator[Chunk | TooLong]:
        """Yield the lines that are whole now; with `last`, also one without a line end."""
        self._check_text(piece)
        data = self._decoded(piece, last)
        if self._too_long:
            data = self._rest_thrown_away(data, last)
        end = len(data) if last else data.rfind(b"\n") + 1
        if end or last:
            whole, self._held = self._held.getvalue() + data[:end], io.BytesIO()
            if chunk := self._chunk(whole):
                yield chunk
                self._line += count_of(b"\n", chunk.data)
        self._held.write(data[end:])
        if self._held.tell() > LONGEST_LINE:
            problem = f"line {self._line} has more than {LONGEST_LINE >> 20} MB; is a line end missing?"
            chunk = Chunk(_beginning(self._held.getbuffer()[:_KEPT].tobytes()) + b"\n", self._line)
            self._held, self._too_long = io.BytesIO(), True
            self._line += 1
            yield TooLong(chunk, BadFile(self._input.name, problem))

    def _decoded(self, piece: bytes, last: bool) -> bytes:
        """In UTF-8; nothing as long as the bytes may become a byte order mark."""
        if self._decode is None:
            self._first += piece
            if not last and len(self._first) < MARK_SIZE and may_be_marked(self._first):
                return b""
            encoding = marked_encoding(self._first) or self._input.encoding
            self._input.read_as = encoding
            self._decode, piece = _decoder(encoding), self._first
        return self._decode(piece, last)

    def _rest_thrown_away(self, data: bytes, last: bool) -> bytes:
        end = data.find(b"\n") + 1
        self._too_long = not end and not last
        return data[end:] if end else b""

    def _chunk(self, data: bytes) -> Chunk | None:
        """Lines, if there are any; the last of them may have no line end."""
        data = data.removeprefix(BOM) if self._line == 1 else data
        if not data:
            return None
        return Chunk(data, self._line) if data.endswith(b"\n") else Chunk(data + b"\n", self._line, added=1)

    def _check_text(self, piece: bytes) -> None:
        if len(self._head) >= MAGIC_SIZE:
            return
        self._head += piece[:MAGIC_SIZE]
        packed, table, name = compression_of(self._head), table_of(self._head), self._input.name
        if packed is not None:
            remedy = "decompress it first"
            raise BadFile(name, f"is {packed} data, which cannot be read while it is written; {remedy}.")
        if table is not None:
            remedy = "send lines of text, or a chain that was written as a stream"
            raise BadFile(name, f"is {table.value}, which cannot be read while it is written; {remedy}.")


def _beginning(data: bytes) -> bytes:
    """The bytes without a letter that is cut in two."""
    return data.decode(errors="ignore").encode()


def _decoder(encoding: str) -> Callable[[bytes, bool], bytes]:
    """A function that makes UTF-8 of further bytes; what cannot be decoded becomes a mark that is no UTF-8."""
    if encoding == UTF8:
        return lambda data, final: data
    decoder = codecs.getincrementaldecoder(encoding)()

    def decoded(data: bytes, final: bool) -> bytes:
        parts = []
        while True:
            _, state = decoder.getstate()
            try:
                parts.append(decoder.decode(data, final).encode(errors="surrogatepass"))
                return b"".join(parts)
            except UnicodeDecodeError as error:  # of the bytes that the decoder holds and these
                decoder.setstate((b"", state))
                parts += [decoder.decode(error.object[: error.start]).encode(errors="surrogatepass"), MARK]
                data = error.object[error.end :]

    return decoded
