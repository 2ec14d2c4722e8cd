"""Readers of text: chunks of whole lines in, rows out, and a state that can be restored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chainfold.chain.strings import StringTable
from chainfold.errors import BadFile
from chainfold.jit.decorator import OK
from chainfold.jit.text_kernels import FAULT, HEAD, LAST, SEEN, START, STATE_SIZE, quoted_rows
from chainfold.readers.columns import Stretch
from chainfold.readers.inputs import (
    CHUNK,
    Chunk,
    RawFields,
    RawLines,
    RawObjects,
    Stream,
    after_last_line,
    chunks,
    count_of,
)

HASH = "#"  # what comments begin with in CoNLL-U, and usually elsewhere
_SHOWN = 40  # letters of a line
_NO_QUOTE = -1
# Everything that Arrow reads as a number looks like this
_LIKE_A_NUMBER = r"^\s*[-+]?(?:[0-9.][-+0-9.eE]*|(?i:inf|nan).*)\s*$"


class Taken(NamedTuple):
    """The rows of a chunk of text."""

    stretches: list[Stretch]
    raw: RawLines | RawFields | RawObjects  # the chunk as it is, for a copy of the input
    problem: BadFile | None = None  # what is wrong with the line that follows the rows


class TextReader(ABC):
    """A reader of chunks of whole lines whose state can be restored."""

    chunk_size = CHUNK  # bytes
    comments = b""  # what lines begin with that are comments for certain; nothing: there are none

    def read(self, stream: Stream) -> Iterator[Stretch]:
        """All rows of an input."""
        self.begin()
        yield from self.rows(stream)

    def rows(self, stream: Stream, line: int = 1, size: int | None = None) -> Iterator[Stretch]:
        """The rows of a stream that goes on where this reader stands, from a line on; size: of chunks."""
        for chunk in chunks(stream, size or self.chunk_size, self._cut, line):
            taken = self.take(chunk, stream.name)
            stream.keep(taken.raw)
            yield from taken.stretches
            if taken.problem is not None:
                raise taken.problem

    def _cut(self, data: bytes) -> int:
        """Up to where the bytes so far are whole rows."""
        return after_last_line(data)

    @abstractmethod
    def begin(self) -> None:
        """Start at the beginning of an input, and of a sequence."""

    @abstractmethod
    def begin_within(self) -> None:
        """Start in the midst of an input; the first row's start mark may be wrong."""

    @property
    def spans_lines(self) -> bool:
        """Whether a row may have several lines."""
        return False

    @property
    def has_header(self) -> bool:
        """Whether an input may begin with names of columns."""
        return False

    def look_at(self, data: bytes) -> None:  # noqa: B027  most readers need not
        """The first lines of the first input, before they are taken."""

    @abstractmethod
    def take(self, chunk: Chunk, source: str) -> Taken:
        """The rows of the chunk that comes next."""

    @property
    @abstractmethod
    def stand_in(self) -> bytes:
        """A line that is a row after any other line; known once there was a row."""

    @property
    @abstractmethod
    def between(self) -> bool:
        """Whether the sequence of the last row has ended, as far as was read."""

    @abstractmethod
    def state(self) -> Any:
        """A copy of all that `take` changes."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Put it back."""


def without_comments(data: bytes, comments: bytes) -> bytes:
    """The text with blank lines in the place of comments; all places stay as they are."""
    if not comments or comments not in data:
        return data
    lines = data.split(b"\n")
    return b"\n".join(b"\r" * len(line) if line.startswith(comments) else line for line in lines)


class LineReader(TextReader):
    """A reader of CoNLL columns or CRFsuite's lines, with the state that its kernel leaves behind."""

    attributes = False  # whether what follows the first tab is attributes

    def __init__(self, comments: str | None = None) -> None:
        """comments: what they begin with, empty if there are none; None: '#', where that cannot be a row."""
        self._guess = comments is None
        self.comments = (comments or "").encode()
        self._prefix = np.frombuffer(self.comments, np.uint8)
        self._word = b"2" if self.comments.startswith(b"1") else b"1"  # no comment begins so
        self._state = np.zeros(STATE_SIZE, np.int64)

    def begin(self) -> None:
        self._state[START] = self._state[HEAD] = 1
        self._state[FAULT] = OK

    def begin_within(self) -> None:
        self._state[START], self._state[HEAD] = 1, 0

    @property
    def comments_seen(self) -> int:
        """The kinds of lines that were taken for comments: 1 for a lone '#', 2 for one in front of other letters."""
        return int(self._state[SEEN])

    def forget_comments(self) -> None:
        """Forget what was taken for a comment, or begins a sequence like one."""
        self._state[SEEN] = self._state[LAST] = 0

    @property
    def between(self) -> bool:
        return bool(self._state[START])

    def state(self) -> NDArray[np.int64]:
        return self._state.copy()

    def restore(self, state: NDArray[np.int64]) -> None:
        self._state[:] = state


def ambiguous(chunk: Chunk, line: int, name: str) -> BadFile:
    text = line_of(chunk, line)
    return BadFile(
        name,
        f"line {line}, {text[:_SHOWN]!r}, may be a row or a comment; set `comments` to {comment_prefix(text)!r} if "
        f"such lines are comments, or to '' if all lines are rows.",
    )


def line_of(chunk: Chunk, line: int) -> str:
    return chunk.data.split(b"\n", line - chunk.line + 1)[line - chunk.line].decode().removesuffix("\r")


def comment_prefix(line: str) -> str:
    """The beginning of comments like this one: '# ' rather than '#', which a word may begin with."""
    return line[:2] if line[1:2] in (" ", "\t") else HASH


def not_numbers(texts: Any) -> NDArray[np.bool_]:
    """Which of an Arrow array of strings are not the texts of numbers."""
    if all_numbers(texts):
        return np.zeros(len(texts), np.bool_)
    alike = pc.match_substring_regex(texts, _LIKE_A_NUMBER)
    if all_numbers(texts.filter(alike)):
        return np.asarray(pc.invert(alike))
    return np.array([not all_numbers(texts[k : k + 1]) for k in range(len(texts))])


def all_numbers(texts: Any) -> bool:
    """Whether all of an Arrow array of strings are the texts of numbers."""
    try:
        texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def symbols_of(
    data: NDArray[np.uint8],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    missing: NDArray[np.bool_] | None = None,
) -> Any:
    """The strings data[begins[i] : ends[i]] as dictionary codes; null where missing, and then in no dictionary."""
    table = StringTable()
    if missing is None or not missing.any():
        codes = table.codes(data, begins, ends)
    else:
        codes, there = np.zeros(begins.size, np.int32), ~missing
        codes[there] = table.codes(data, begins[there], ends[there])
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing), table.strings().cast(pa.string()))


def rows_of_fields(data: bytes, begin: int, delimiter: str, quotes: bool) -> tuple[Any, Any, int]:
    """Where each row that is not blank begins and ends, from a place on, and where the last whole row has ended."""
    most = count_of(b"\n", data) + count_of(b"\r", data)
    begins, ends = np.empty(most, np.int64), np.empty(most, np.int64)
    quote = ord('"') if quotes else _NO_QUOTE
    rows, end = quoted_rows(np.frombuffer(data, np.uint8), begin, ord(delimiter), quote, begins, ends)
    return begins[:rows], ends[:rows], end


def counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
