"""Rows of an input that is still being written: a pipe or a growing file, each row as soon as it is there.

All whole lines that have arrived are passed on; a line without its line end waits for the rest. A line that cannot be
read stops the iteration, is left out, or becomes a row without known values. The first row must be readable: it sets
the format and the columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from chainfold.errors import BadFile, BadLines, BadSetting, EmptyInput
from chainfold.readers.columns import Arrived, Stretch
from chainfold.readers.conll import CONLLU_COLUMNS
from chainfold.readers.formats import NO_ROWS, TEXT, Format, InputReader, by_name, check_no_json, format_of
from chainfold.readers.inputs import UTF8, Chunk, Input, RawFields, RawLines, checked, count_of
from chainfold.readers.skipped_lines import LinesOf
from chainfold.readers.text import Taken, TextReader, without_comments
from chainfold.readers.whole_lines import MARK, TooLong

Notice = Callable[[str], None]

_EACH = 10  # bad lines that are reported one by one
_ROUNDS = 8  # kinds of bad lines that are searched for in a chunk at once
_NO_LINES = np.empty(0, np.int64)


class OnError(StrEnum):
    """Treatment of a line that cannot be read."""

    STOP = "stop"  # it is raised, after all rows before it were given
    SKIP = "skip"  # it is left out of the rows, and of what is kept
    UNKNOWN = "unknown"  # it is a position without any known attribute


class RowChecker(Protocol):
    """Checks rows for the model that they are read for."""

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds of the model's columns."""

    @property
    def marked(self) -> bool:
        """Whether sequences end where the input says so; False before the first row."""

    def check(self, stretch: Stretch, unknown: NDArray[np.int64], last: Stretch | None) -> Stretch:
        """The rows with the model's names of columns, without values on the unknown lines; raises if one is wrong.

        last: the row before the first.
        """


class LiveRows:
    """Lines to checked rows; where a line is wrong, nothing has changed."""

    def __init__(
        self,
        source: Input,
        lines: Iterator[Chunk | TooLong],
        reader: InputReader,
        checker: RowChecker,
        on_error: OnError,
        notice: Notice | None = None,
    ) -> None:
        self._input, self._name, self._lines = source, source.name, lines
        self._detector, self._checker, self._on_error = reader, checker, on_error
        self._complaints = _Complaints(notice, on_error)
        self._form = reader.format or by_name(source.name)
        if self._form is not None and self._form not in TEXT:
            raise BadFile(source.name, f"{self._form.value} cannot be read while it is written; send lines of text.")
        self._reader: TextReader | None = None
        self._last: Stretch | None = None  # the last row
        self._open = False  # is there a sequence that may continue?

    def __iter__(self) -> Iterator[Arrived]:
        """Rows as they arrive; an error is raised after the rows before it, as if the input ended there."""
        try:
            yield from self._rows()
        except BadFile:
            if self._last is not None:
                yield Arrived(self._no_rows(), ended=True)
            raise

    def _rows(self) -> Iterator[Arrived]:
        before: Chunk | None = None  # lines that do not tell the format
        for chunk in self._lines:
            if isinstance(chunk, TooLong):
                yield from self._wrong(chunk.chunk, self._reader, chunk.problem)
                continue
            if before is not None:
                chunk = chunk._replace(data=before.data + chunk.data, line=before.line)
            reader = self._reader = self._reader or self._reader_for(chunk.data)
            before = chunk if reader is None else None
            if reader is not None:
                yield from self._arrived(chunk, reader)
        if self._last is None:
            nothing = before is None and self._reader is None
            raise EmptyInput(self._name, "is empty." if nothing else NO_ROWS[self._form or Format.CONLL])

    def _reader_for(self, data: bytes) -> TextReader | None:
        """The reader for an input that begins with these lines; None if they are blank."""
        lines = (line.decode(errors="replace") for line in data.split(b"\n") if line.strip())
        rows = (line for line in lines if not line.startswith("-DOCSTART-") and not self._may_be_comment(line))
        first = next(rows, None)
        if first is None:
            return None
        self._form = self._form or self._format_of(first)
        if self._detector.format is None and self._form is not Format.JSONL:
            check_no_json(first, self._name)
        if self._form is Format.JSONL and self._on_error is OnError.UNKNOWN:
            raise BadSetting("on_error", OnError.UNKNOWN.value, "stop or skip, as a line that is no object is no row")
        reader = self._detector.text_reader(self._form)
        reader.begin()
        reader.look_at(data)
        return reader

    def _may_be_comment(self, line: str) -> bool:
        if self._form in (Format.CSV, Format.TSV):  # these have comments only if one says so
            return self._detector.is_comment(line)
        return self._form is not Format.JSONL and self._detector.may_be_comment(line)

    def _format_of(self, line: str) -> Format:
        """The format of a line, among those that the model's columns allow."""
        if self._detector.is_header(line):
            return Format.TSV
        detected = self._detector.by_delimiter() or format_of([line])
        if detected is Format.JSONL or self._detector.by_delimiter() is not None:
            return detected
        kinds = self._checker.kinds
        if "bag" in kinds.values():
            return Format.CRFSUITE
        if tuple(kinds) == CONLLU_COLUMNS:
            return Format.CONLLU
        if detected is Format.CONLLU and len(kinds) == len(CONLLU_COLUMNS):
            return detected
        return Format.CSV if detected is Format.CSV else Format.CONLL

    def _arrived(self, chunk: Chunk, reader: TextReader) -> Iterator[Arrived]:
        """The rows of a chunk; where lines are wrong, the others are found without them, or else by halves."""
        try:
            taken = self._taken(chunk, reader)
        except BadFile as wrong:
            lines = LinesOf(chunk)
            if len(lines) == 1:
                yield from self._wrong(chunk, reader, wrong)
                return
            sifted = self._sifted(lines, reader, wrong)
            if sifted is None:
                for half in _halves(chunk):
                    yield from self._arrived(half, reader)
                return
            taken = sifted
        yield from self._given(taken, reader)

    def _taken(self, chunk: Chunk, reader: TextReader, unknown: NDArray[np.int64] = _NO_LINES) -> Taken:
        """The rows of a chunk, those on some lines unknown; if anything is wrong with them, nothing is changed."""
        state, last = reader.state(), self._last
        try:
            checked(chunk.data, chunk.line, self._name)
            stretches, raw, problem = reader.take(chunk, self._name)
            if problem is not None:
                raise problem
            rows = []
            for stretch in stretches:
                rows.append(self._checker.check(stretch, unknown, last))
                last = _last_row(rows[-1])
        except BadFile:
            reader.restore(state)
            raise
        return Taken(rows, raw)

    def _given(self, taken: Taken, reader: TextReader) -> Iterator[Arrived]:
        stretches = taken.stretches
        if taken.raw.chunk.data:
            self._input.keep(taken.raw)
        ended = reader.between and self._checker.marked
        if stretches:
            self._last = _last_row(stretches[-1])
        elif ended and self._open:
            stretches = [self._no_rows()]
        self._open = not ended if stretches else self._open
        for index, stretch in enumerate(stretches, 1):
            yield Arrived(stretch, ended and index == len(stretches))

    def _wrong(self, chunk: Chunk, reader: TextReader | None, problem: BadFile) -> Iterator[Arrived]:
        """Raise for a line that cannot be read, leave it out, or give a row for it."""
        problem = self._sentence(chunk, problem)
        if self._last is None or reader is None or self._on_error is OnError.STOP:
            raise problem
        self._complaints.add(lambda: problem)
        yield from self._given(self._without(LinesOf(chunk), np.array([0]), reader), reader)

    def _sentence(self, chunk: Chunk, problem: BadFile) -> BadFile:
        """The problem of a line; bytes that cannot be decoded are only known by their mark."""
        if self._input.read_as != UTF8 and MARK in chunk.data:
            return BadFile(self._name, f"line {chunk.line} is not {self._input.read_as}.")
        return problem

    def _sifted(self, lines: LinesOf, reader: TextReader, wrong: BadFile) -> Taken | None:
        """The rows without the lines that are certainly wrong; None if others are wrong too."""
        bad, kept = _NO_LINES, np.arange(len(lines))
        if self._on_error is OnError.STOP or self._last is None:
            return None
        for _ in range(_ROUNDS):
            certain = kept[wrong.lines() - lines.chunk.line] if isinstance(wrong, BadLines) else _NO_LINES
            if not certain.size:
                return None
            bad = np.union1d(bad, certain)
            if self._on_error is OnError.SKIP:
                kept = np.setdiff1d(kept, bad)
            state = reader.state()
            try:
                taken = self._without(lines, bad, reader)
            except BadFile as another:
                wrong = another
                continue
            after = reader.state()
            reader.restore(state)
            for line in bad.tolist():
                self._complaints.add(partial(self._why, lines.one(line), reader, wrong))
            reader.restore(after)
            return taken
        return None

    def _why(self, chunk: Chunk, reader: TextReader, wrong: BadFile) -> BadFile:
        """The problem of one line of a chunk; `wrong` if the line alone can be read."""
        try:
            self._taken(chunk, reader)
        except BadFile as problem:
            return self._sentence(chunk, problem)
        return wrong

    def _without(self, lines: LinesOf, bad: NDArray[np.int64], reader: TextReader) -> Taken:
        """The rows without bad lines: these are left out, or are rows without known values."""
        if self._on_error is OnError.SKIP:
            chunk, good = lines.others(bad)
            taken = self._taken(chunk, reader) if good.size else Taken([], RawLines(self._name, chunk, good, False))
            numbers = lines.chunk.line + good
            return taken._replace(
                stretches=[stretch._replace(lines=numbers[stretch.lines - chunk.line]) for stretch in taken.stretches]
            )
        comments = [reader.comments and lines.one(line).data.startswith(reader.comments) for line in bad.tolist()]
        stand_ins = [reader.comments + b"\n" if comment else reader.stand_in for comment in comments]
        no_comments = bad[~np.array(comments, np.bool_)]
        rows = lines.chunk.line + no_comments
        taken = self._taken(lines.replaced(bad, stand_ins), reader, rows)
        text = lines.chunk
        if self._input.read_as != UTF8:
            text = text._replace(data=text.data.replace(MARK, "\ufffd".encode()))
        raw = taken.raw._replace(chunk=text)
        if isinstance(raw, RawFields):
            rows_alone = text._replace(data=without_comments(text.data, reader.comments))
            raw = raw._replace(blotted=LinesOf(rows_alone).blotted(no_comments))
        return taken._replace(raw=raw)

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


def _last_row(stretch: Stretch) -> Stretch:
    return stretch.rows(stretch.lines.size - 1, stretch.lines.size)


class _Complaints:
    """Reports bad lines: the first ones each, then their number."""

    def __init__(self, notice: Notice | None, on_error: OnError) -> None:
        self._notice, self._count = notice or (lambda sentence: None), 0
        self._fate = "left out" if on_error is OnError.SKIP else "taken as unknown"

    def add(self, problem: Callable[[], BadFile]) -> None:
        """One more bad line; `problem` is called if it is reported."""
        self._count += 1
        if self._count <= _EACH:
            self._notice(f"{self._fate}: {problem()}")
        elif self._count == 10 ** round(math.log10(self._count)):
            self._notice(f"{self._count:,} lines were {self._fate} so far, the last one because: {problem()}")
