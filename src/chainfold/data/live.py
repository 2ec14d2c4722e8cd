"""Reading what is still being written: rows of a pipe or of a growing file, as soon as they are there.

Everything that has come by now is handed on as whole lines; nothing waits for a full buffer. A line without its line
end waits for the rest of it, and a row for the rows that the template looks ahead to; where a sequence is known to have
ended, nothing waits. A line that cannot be read stops everything, is left out, or is a position of which nothing is
known. The first row is different: it says what the input is like, and has to be right.
"""

from __future__ import annotations

import codecs
import io
import math
import os
import select
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from itertools import chain as chained
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from chainfold.data.columns import BAG_VALUES, NUMBER, SYMBOL, Stretch
from chainfold.data.encode import check_options
from chainfold.data.encoder import Arrived
from chainfold.data.inputs import (
    BOM,
    CHUNK,
    LONGEST_LINE,
    MAGIC_SIZE,
    Chunk,
    Input,
    Inputs,
    Keep,
    RawLines,
    checked,
    compression_of,
    count_of,
    unreadable,
)
from chainfold.data.known import Known, KnownMaker, KnownOptions, Plan
from chainfold.data.known_inputs import KnownChain
from chainfold.data.messages import STREAM
from chainfold.data.reading import NO_ROWS, TEXT, Format, by_name, check_no_json, format_of, table_of, text_reader_of
from chainfold.data.store import PipedChain
from chainfold.data.text_formats import CONLLU_COLUMNS, TextReader
from chainfold.data.vocabulary import Vocabulary
from chainfold.errors import BadFile, BadSetting

Notice = Callable[[str], None]

_AT_ONCE = 1 << 16  # bytes that are read at once
_TOGETHER, _LINES_TOGETHER = 1 << 21, 16384  # bytes and lines that are handed on together
_PATIENCE = 25  # looks at a file that was rotated away, whose writer may not have noticed yet
_EACH = 10  # bad lines that are told of one by one
_UNDECODABLE = "chainfold.undecodable"
_MARK = "\udcff".encode(errors="surrogatepass")  # no UTF-8: the line that has it is found to be wrong
codecs.register_error(_UNDECODABLE, lambda error: ("\udcff", error.end))  # type: ignore[attr-defined]


class OnError(StrEnum):
    """What becomes of a line that cannot be read."""

    STOP = "stop"  # it is raised, after all rows before it were given
    SKIP = "skip"  # it is left out of the rows, and of what is kept
    UNKNOWN = "unknown"  # it is a position without any known attribute


def live_rows(
    what: Any,
    vocabulary: Vocabulary,
    *,
    on_error: OnError | str = OnError.STOP,
    keep: Keep | None = None,
    notice: Notice | None = None,
    poll: float = 0.2,
    **options: Unpack[KnownOptions],
) -> Known | KnownChain:
    """Rows of one pipe, open binary file or growing file, as blocks with a model's numbers, as soon as they are there.

    "-" is standard input. A path to a regular file is followed for ever, like `tail -F`: every `poll` seconds for what
    was added, for another file in its place, and for one that was cut short, neither of which ends a sequence. `keep`
    gets what is read, as it was, and `notice` a sentence for each thing that a person should know; both are called in
    another thread. Reading stops when the iteration is closed. Through a pipe an encoded chain may come as well.
    A group may come again after another: in a stream each of its runs is a sequence.
    """
    check_options(options, KnownOptions)
    if on_error not in list(OnError):
        raise BadSetting("on_error", on_error, f"one of {', '.join(OnError)}")
    if not poll > 0:
        raise BadSetting("poll", poll, "a number of seconds above 0")
    plan = Plan(vocabulary, {**options, "groups_return": True})
    opened = open(what, "rb", buffering=0, closefd=False) if isinstance(what, int) else what  # noqa: SIM115
    inputs = Inputs(opened, options.get("encoding", "utf-8"), plan.progress.read, keep)
    if len(inputs) != 1:
        raise BadSetting("what to follow", str(what), "one file or pipe")
    tell, stopped = notice or _ignore, threading.Event()
    [one] = inputs
    pieces = iter(_GrowingFile(one, tell, poll, stopped) if one.regular else _Pipe(one, poll, stopped))
    if not one.regular:
        first = next(pieces, b"") or b""
        pieces = chained([first], pieces)
        if first.startswith(STREAM):
            chain = PipedChain(io.BufferedReader(_Pieces(pieces), CHUNK), one.name)
            return KnownChain(chain, vocabulary, bool(options.get("labels")))
    plan.progress.total(None)
    plan.progress.phase("reading", None)
    rows = _Rows(plan, one, _lines(_text(pieces, one), one, stopped), OnError(on_error), tell)
    try:
        return Known(plan, iter(rows), stop=stopped.set)
    except BaseException:
        stopped.set()
        raise


def _ignore(text: str) -> None:
    pass


class _Pipe:
    """What comes through a pipe, as much as is there, until it is closed."""

    def __init__(self, one: Input, poll: float, stopped: threading.Event) -> None:
        self._input, self._poll, self._stopped = one, poll, stopped
        try:
            self._file = one.source.open()
        except (OSError, ValueError) as error:
            raise unreadable(one.name, error) from None
        self._read: Callable[[int], bytes | None] = getattr(self._file, "read1", self._file.read)
        self._ready = select.poll() if isinstance(self._file, io.FileIO) else None  # others have buffers of their own
        if self._ready is not None:
            self._ready.register(self._file, select.POLLIN)
            with suppress(ImportError, AttributeError, OSError):  # no pipe, or one that cannot be made to hold more
                import fcntl

                fcntl.fcntl(self._file, fcntl.F_SETPIPE_SZ, 2 * CHUNK)

    def __iter__(self) -> Iterator[bytes | None]:
        try:
            while not self._stopped.is_set():
                if self._is_ready(self._poll) and (piece := self._available()) is not None:
                    if not piece:
                        return
                    self._input.progress(len(piece))
                    yield piece
        finally:
            if self._input.source.owned:
                self._file.close()

    def _available(self) -> bytes | None:
        """All that is there, until it is much; nothing at the end, and None if there is nothing yet."""
        try:
            first = self._read(_AT_ONCE)
            if not first or self._ready is None:
                return first
            return _chunk(first, lambda: self._read(_AT_ONCE) if self._is_ready(0.0) else None)
        except (OSError, ValueError) as error:
            raise unreadable(self._input.name, error) from None

    def _is_ready(self, seconds: float) -> bool:
        return self._ready is None or bool(self._ready.poll(1000 * seconds))


def _chunk(first: bytes, more: Callable[[], bytes | None]) -> bytes:
    """What is there, until it is much: few lines would cost more each, and many more memory than they are worth."""
    parts, size, lines = [first], len(first), count_of(b"\n", first)
    while size < _TOGETHER and lines < _LINES_TOGETHER and (piece := more()):
        parts.append(piece)
        size, lines = size + len(piece), lines + count_of(b"\n", piece)
    return b"".join(parts)


class _Pieces(io.RawIOBase):
    """A file that gives one piece after another."""

    def __init__(self, pieces: Iterator[bytes | None]) -> None:
        self._pieces, self._left = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        self._left = self._left or memoryview(next(self._pieces, b"") or b"")
        size = min(len(target), len(self._left))
        target[:size], self._left = self._left[:size], self._left[size:]
        return size


class _GrowingFile:
    """A file to its end, then whatever is added to it, and the files that take its place; None stands between them."""

    def __init__(self, one: Input, notice: Notice, poll: float, stopped: threading.Event) -> None:
        assert one.path is not None, "a regular file has a path"
        self._input, self._path, self._name = one, one.path, one.name
        self._notice, self._poll, self._stopped = notice, poll, stopped
        self._missing = False
        try:
            self._file: io.FileIO = one.source.open()
        except OSError as error:
            raise unreadable(one.name, error) from None

    def __iter__(self) -> Iterator[bytes | None]:
        try:
            while not self._stopped.is_set():
                yield from self._rest()
                other = self._other()
                if other is not None:
                    yield from self._last_words(other)
                    self._file.close()
                    self._file = other
                    yield None
                elif os.fstat(self._file.fileno()).st_size < self._file.tell():
                    self._notice(f"{self._name} was cut short; it is read from its beginning.")
                    self._file.seek(0)
                    yield None
                else:
                    self._stopped.wait(self._poll)
        except OSError as error:
            raise unreadable(self._name, error) from None
        finally:
            self._file.close()

    def _last_words(self, other: io.FileIO) -> Iterator[bytes]:
        """What is still written to the file, until there is something in the one that has taken its place."""
        for _ in range(_PATIENCE):
            if self._stopped.is_set() or os.fstat(other.fileno()).st_size:
                break
            yield from self._rest()
            self._stopped.wait(self._poll)
        yield from self._rest()

    def _rest(self) -> Iterator[bytes]:
        while not self._stopped.is_set() and (first := self._file.read(_AT_ONCE)):
            piece = _chunk(first, lambda: self._file.read(_AT_ONCE))
            self._input.progress(len(piece))
            yield piece

    def _other(self) -> io.FileIO | None:
        """The file that the path names now, if it is not the one that is open."""
        try:
            there, here = self._path.stat(), os.fstat(self._file.fileno())
            if os.path.samestat(there, here):
                self._missing = False
                return None
            other = self._path.open("rb", buffering=0)
        except OSError as error:
            if not self._missing:
                self._notice(f"{self._name} is gone ({error.strerror}); waiting for it to come back.")
            self._missing = True
            return None
        self._missing = False
        self._notice(f"{self._name} is another file now, which is read from its beginning.")
        return other


def _text(pieces: Iterable[bytes | None], one: Input) -> Iterator[bytes | None]:
    """The same pieces; raises if one of the files is no text."""
    head = b""
    for piece in pieces:
        if piece is None:
            head = b""
        elif len(head) < MAGIC_SIZE:
            head += piece[:MAGIC_SIZE]
            _check_text(head, one)
        yield piece


def _check_text(head: bytes, one: Input) -> None:
    packed, table = compression_of(head), table_of(head)
    if packed is not None:
        remedy = "decompress it on the way: zcat FILE | chainfold tag MODEL - --follow"
        raise BadFile(one.name, f"is {packed} data, which cannot be read while it is written; {remedy}.")
    if table is not None:
        remedy = "send lines of text, or a chain as `chainfold encode -o -` writes it"
        raise BadFile(one.name, f"is {table.value}, which cannot be read while it is written; {remedy}.")


def _lines(pieces: Iterable[bytes | None], one: Input, stopped: threading.Event) -> Iterator[Chunk | None]:
    """All whole lines that are there, as UTF-8; None where another file begins."""
    line, held, decode = 1, io.BytesIO(), _decoder(one.encoding)
    for piece in pieces:
        data = decode(piece or b"", piece is None)
        end = len(data) if piece is None else data.rfind(b"\n") + 1
        if piece is None or end:
            whole = _whole(held.getvalue() + data[:end], line)
            held = io.BytesIO()
            yield from whole
            line += sum(count_of(b"\n", chunk.data) for chunk in whole)
        held.write(data[end:])
        if held.tell() > LONGEST_LINE:
            raise BadFile(one.name, f"line {line} has more than {LONGEST_LINE >> 20} MB; is a line end missing?")
        if piece is None:
            line, decode = 1, _decoder(one.encoding)
            yield None
    if not stopped.is_set():
        yield from _whole(held.getvalue() + decode(b"", True), line)


def _whole(data: bytes, line: int) -> list[Chunk]:
    """Lines as a chunk, if there are any; the last of them may have no line end."""
    data = data.removeprefix(BOM) if line == 1 else data
    if not data:
        return []
    return [Chunk(data, line) if data.endswith(b"\n") else Chunk(data + b"\n", line, added=1)]


def _decoder(encoding: str) -> Callable[[bytes, bool], bytes]:
    """A function that makes UTF-8 of further bytes; what cannot be decoded becomes a mark that is no UTF-8."""
    if encoding == "utf-8":
        return lambda data, final: data
    decoder = codecs.getincrementaldecoder(encoding)(_UNDECODABLE)
    return lambda data, final: decoder.decode(data, final).encode(errors="surrogatepass")


class _Rows:
    """Lines to rows that a model can be given: what is wrong with a line is found before anything is changed."""

    def __init__(
        self, plan: Plan, one: Input, lines: Iterator[Chunk | None], on_error: OnError, notice: Notice
    ) -> None:
        self._plan, self._input, self._name, self._lines = plan, one, one.name, lines
        self._on_error = on_error
        self._complaints = _Complaints(notice, on_error)
        self._reading = plan.reading(live=True)
        self._form = self._reading.format or by_name(one.name)
        if self._form is not None and self._form not in TEXT:
            raise BadFile(one.name, f"{self._form.value} cannot be read while it is written; send lines of text.")
        self._reader: TextReader | None = None
        self._checker: KnownMaker | None = None  # knows what is wrong with rows, once there is one
        self._last: Stretch | None = None  # the last row
        self._open = False  # is there a sequence that may go on?

    def __iter__(self) -> Iterator[Arrived]:
        before: Chunk | None = None  # lines that do not tell the format
        for chunk in self._lines:
            if chunk is None:
                if self._reader is not None:
                    self._reader.go_on()
                continue
            if before is not None:
                chunk = chunk._replace(data=before.data + chunk.data, line=before.line)
            reader = self._reader = self._reader or self._reader_for(chunk.data)
            before = chunk if reader is None else None
            if reader is not None:
                yield from self._arrived(chunk, reader)
        if self._last is None:
            nothing = before is None and self._reader is None
            raise BadFile(self._name, "is empty." if nothing else NO_ROWS[self._form or Format.CONLL])

    def _reader_for(self, data: bytes) -> TextReader | None:
        """The reader for an input that begins with these lines; None if they are blank."""
        lines = (line.decode(errors="replace") for line in data.split(b"\n") if line.strip())
        rows = (line for line in lines if not line.startswith("-DOCSTART-") and not self._may_be_comment(line))
        first = next(rows, None)
        if first is None:
            return None
        if self._reading.format is None:
            check_no_json(first, self._name)
        self._form = self._form or self._format_of(first)
        reader = text_reader_of(self._form, self._reading)
        reader.begin()
        reader.look_at(data)
        return reader

    def _may_be_comment(self, line: str) -> bool:
        return self._form not in (Format.CSV, Format.TSV) and self._reading.may_be_comment(line)

    def _format_of(self, line: str) -> Format:
        """What a line looks like, if it can be what the model was made of."""
        if self._reading.is_header(line):
            return Format.TSV
        kinds = self._plan.kinds
        if "bag" in kinds.values():
            return Format.CRFSUITE
        if tuple(kinds) == CONLLU_COLUMNS:
            return Format.CONLLU
        found = format_of([line])
        if found is Format.CONLLU and len(kinds) == len(CONLLU_COLUMNS):
            return found
        return Format.CSV if found is Format.CSV else Format.CONLL

    def _arrived(self, chunk: Chunk, reader: TextReader) -> Iterator[Arrived]:
        """The rows of a chunk; where a line is wrong, the others are found by halves."""
        state = reader.state()
        try:
            checked(chunk.data, chunk.line, self._name)
            stretches, raw, problem = reader.take(chunk, self._name)
            if problem is not None:
                raise problem
            stretches = [self._checked(stretch) for stretch in stretches]
        except BadFile as wrong:
            reader.restore(state)
            halves = _halves(chunk)
            if not halves:
                yield from self._wrong(chunk, reader, wrong)
            for half in halves:
                yield from self._arrived(half, reader)
            return
        self._input.keep(raw)
        ended = reader.between and self._checker is not None and self._checker.numberer.marked
        if stretches:
            self._last = _row(stretches[-1], -1)
        elif ended and self._open:
            stretches = [self._no_rows()]
        self._open = not ended if stretches else self._open
        for index, stretch in enumerate(stretches, 1):
            yield Arrived(stretch, ended and index == len(stretches))

    def _checked(self, stretch: Stretch) -> Stretch:
        """Rows as the model wants them, if nothing is wrong with them."""
        stretch = self._plan.renamed(stretch)
        if self._checker is None:
            checker = KnownMaker(self._plan, stretch)
            checker.numberer.check(stretch)
            self._checker = checker
        else:
            self._checker.numberer.check(stretch)
        return stretch

    def _wrong(self, chunk: Chunk, reader: TextReader, problem: BadFile) -> Iterator[Arrived]:
        """What becomes of a line that cannot be read."""
        if self._input.encoding != "utf-8" and _MARK in chunk.data:
            problem = BadFile(self._name, f"line {chunk.line} is not {self._input.encoding}.")
            chunk = chunk._replace(data=chunk.data.replace(_MARK, "\ufffd".encode()))
        if self._last is None:
            raise problem
        if self._on_error is OnError.STOP:
            yield Arrived(self._no_rows(), ended=True)
            raise problem
        self._complaints.add(problem)
        if self._on_error is OnError.SKIP:
            return
        if reader.comments and chunk.data.startswith(reader.comments):
            self._input.keep(RawLines(self._name, chunk, np.empty(0, np.int64), attributes=False))
            return
        start = reader.between
        self._input.keep(reader.pass_over(chunk, self._name))
        self._last, self._open = self._unknown(self._last, start, chunk.line), True
        yield Arrived(self._last)

    def _unknown(self, last: Stretch, start: bool, line: int) -> Stretch:
        """A row of which nothing is known, but that it belongs to the group of the one before it."""
        assert self._checker is not None, "there was a row before"
        roles = self._checker.roles
        columns = {}
        for name, column in zip(last.batch.schema.names, last.batch.columns, strict=True):
            if name == roles.group:
                columns[name] = column
            elif name == roles.weight:
                columns[name] = pa.array([1.0])
            elif column.type != BAG_VALUES:
                columns[name] = _missing(column.type)
        batch = pa.RecordBatch.from_pydict(columns)
        return Stretch(batch, np.array([start]), np.array([line]), self._name)

    def _no_rows(self) -> Stretch:
        return Stretch(None, np.empty(0, np.bool_), np.empty(0, np.int64), self._name)


def _halves(chunk: Chunk) -> list[Chunk]:
    """A chunk of several lines as two; nothing where it is one line."""
    data = chunk.data
    middle = data.rfind(b"\n", 0, len(data) // 2) + 1 or data.find(b"\n") + 1
    if middle == len(data):
        return []
    first, second = data[:middle], data[middle:]
    return [Chunk(first, chunk.line), Chunk(second, chunk.line + count_of(b"\n", first), chunk.added)]


def _row(stretch: Stretch, row: int) -> Stretch:
    """One row of a stretch."""
    row %= stretch.lines.size
    batch = stretch.batch.slice(row, 1)
    return stretch._replace(batch=batch, starts=stretch.starts[row : row + 1], lines=stretch.lines[row : row + 1])


def _missing(kind: Any) -> Any:
    """A column of one row, with nothing in it."""
    if kind == SYMBOL:
        return pa.DictionaryArray.from_arrays(pa.array([None], pa.int32()), pa.array([], pa.string()))
    if kind == NUMBER:
        return pa.array([None], NUMBER)
    nothing = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
    return pa.LargeListArray.from_arrays(pa.array([0, 0], pa.int64()), nothing)


class _Complaints:
    """Tells of bad lines: of the first ones each, then of how many there are."""

    def __init__(self, notice: Notice, on_error: OnError) -> None:
        self._notice, self._count = notice, 0
        self._fate = "left out" if on_error is OnError.SKIP else "taken as unknown"

    def add(self, problem: BadFile) -> None:
        self._count += 1
        if self._count <= _EACH:
            self._notice(f"{self._fate}: {problem}")
        elif self._count == 10 ** round(math.log10(self._count)):
            self._notice(f"{self._count:,} lines were {self._fate} by now, the last one because: {problem}")
