"""Inputs in pieces that can be read one by one, and the rows around each: a template and a group look across borders.

A file of UTF-8 that is not compressed is cut between lines, Parquet between row groups; any other is one piece. A line
belongs to the piece in which it begins, so that the borders of pieces can be stated without reading the file. Where a
row may have several lines, the borders are those of rows, and a piece states a place before it where a row begins.

    PlannedFile    a file as it was when it was cut
    FilePiece      a range of one
    PieceReader    the rows of pieces, and those before and after them
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np

from chainfold.errors import BadFile, EmptyInput
from chainfold.readers.columns import Stretch
from chainfold.readers.conll import ConllReader
from chainfold.readers.formats import NO_ROWS, Format, InputReader, RowReader, SameColumns
from chainfold.readers.inputs import CHUNK, Input, Meter, count_of, input_at
from chainfold.readers.parquet import ParquetReader
from chainfold.readers.text import HASH, TextReader

_FIRST_LOOK, _LOOK = 1 << 12, 1 << 14  # bytes read at first for the rows before a place, and at once for those after it
_HEAD = 1 << 16  # bytes at the beginning of a file, where a header may come after blank lines and comments
_LONE, _JOINED = 1, 2  # kinds of lines that may be comments


class CutPlaces(StrEnum):
    """Where a file may be cut."""

    LINES = "lines"
    GROUPS = "row groups"
    NOWHERE = "nowhere"


class PlannedFile(NamedTuple):
    """A file as it was when it was cut."""

    name: str  # for sentences
    address: str  # a path or a URI
    form: Format
    cut: CutPlaces
    end: int  # bytes or row groups
    size: int  # bytes
    changed: int  # nanoseconds; 0 where that is not known
    before_end: int | None = None  # a place enough rows before the end where a row begins; None: after any line


class FilePiece(NamedTuple):
    """A range of a file."""

    file: int  # its number
    begin: int  # bytes or row groups
    end: int
    size: int  # bytes
    before: int | None = None  # a place enough rows before it where a row begins; None: after any line


class Hashes(NamedTuple):
    """Lines of CoNLL that begin with "#" where a comment may be: whether it is one depends on all lines before it."""

    comments: int = 0  # the kinds of those taken for comments: 1 for a lone '#', 2 for others
    rows: int = 0  # likewise of those taken for rows
    first: int = -1  # does the first sequence begin with a lone '#'? -1: none begins
    last: int = -1  # and the last one?

    def then(self, stretch: Stretch) -> Hashes:
        """With further rows."""
        if not stretch.starts.any():
            return self
        column = stretch.batch.column(0)
        kinds = np.array([*(_kind_of_hash(text) for text in column.dictionary.to_pylist()), 0])
        begun = kinds[column.indices.fill_null(-1).to_numpy(zero_copy_only=False)][stretch.starts]
        first, last = int(begun[0] == _LONE), int(begun[-1] == _LONE)
        rows = self.rows | int(np.bitwise_or.reduce(begun))
        return Hashes(self.comments, rows, first if self.first < 0 else self.first, last)

    def and_comments(self, kinds: int) -> Hashes:
        """With what was taken for comments."""
        return self._replace(comments=self.comments | kinds)

    def and_those(self, other: Hashes, source: str) -> Hashes:
        """With those that follow; raises if one of them would not have been taken for a row after these."""
        if other.rows & self.comments or (other.first == self.last == 1):
            raise BadFile(
                source,
                "some lines that begin with '#' may be rows or comments; set `comments` to '# ' if such lines are "
                "comments, or to '' if all lines are rows.",
            )
        first = other.first if self.first < 0 else self.first
        last = self.last if other.last < 0 else other.last
        return Hashes(self.comments | other.comments, self.rows | other.rows, first, last)


def _kind_of_hash(text: str) -> int:
    if not text.startswith(HASH):
        return 0
    return _LONE if text[1:2] in ("", " ", "\t") else _JOINED


class PieceReader:
    """The rows of pieces; their columns are those of the first file."""

    def __init__(
        self,
        reader: InputReader,
        files: Sequence[PlannedFile],
        encoding: str,
        progress: Meter | None = None,
        numbered: bool = False,
    ) -> None:
        """numbered: lines have their numbers in the file, for which all before the piece is read; else in the piece."""
        self._reader, self._files, self._encoding = reader, files, encoding
        self._progress, self._numbered = progress, numbered
        self.counted: dict[int, int] = {}  # rows of pieces, by their files
        self._readers: dict[Format, RowReader] = {}
        self._same = SameColumns()
        self.hashes = Hashes()
        self.first = self._prepared(files[0].form)  # rows with the columns of all
        if files[0].form is not Format.CRFSUITE:
            self._same.check(self.first)

    def before(self, piece: FilePiece, rows: int, across: bool) -> list[Stretch]:
        """The last rows before a piece, as many as asked for or all; across: of the files before as well."""
        found = self._places(piece.file).before(piece.begin, rows, piece.before)
        file = piece.file
        while across and file and _count(found) < rows:
            file -= 1
            about = self._files[file]
            found = self._places(file).before(about.end, rows - _count(found), about.before_end) + found
        return last_rows(found, rows)

    def rows(self, pieces: Sequence[FilePiece]) -> Iterator[Stretch]:
        """The rows of consecutive pieces."""
        before: FilePiece | None = None
        for piece in pieces:
            form, places = self._files[piece.file].form, self._places(piece.file)
            reader = self._readers[form]
            if before is None or before.file != piece.file:
                places.before(piece.begin, 1, piece.before)  # for the reader to know whether a sequence goes on
            if before is None and isinstance(reader, ConllReader):
                reader.forget_comments()
            before = piece
            for stretch in places.read(piece.begin, piece.end):
                self._check(stretch, form)
                self.counted[piece.file] = self.counted.get(piece.file, 0) + stretch.lines.size
                yield stretch
            if isinstance(reader, ConllReader):
                self.hashes = self.hashes.and_comments(reader.comments_seen)

    def after(self, piece: FilePiece, rows: int, across: bool) -> list[Stretch]:
        """The first rows after a piece, as many as asked for or all; `rows` have just given the last of the piece."""
        found: list[Stretch] = []
        if rows:
            for stretch in self._all_after(piece, across):
                found.append(stretch)
                if _count(found) >= rows:
                    break
        return found

    def _all_after(self, piece: FilePiece, across: bool) -> Iterator[Stretch]:
        yield from self._places(piece.file).read(piece.end, None)
        for file in range(piece.file + 1, len(self._files) if across else 0):
            places = self._places(file)
            places.before(0, 0, None)
            yield from places.read(0, None)

    def _places(self, file: int) -> _Places:
        about = self._files[file]
        if about.form not in self._readers:
            self._prepared(about.form)
        source, reader = self._input(about), self._readers[about.form]
        if isinstance(reader, ParquetReader):
            return _RowGroups(source, reader)
        if isinstance(reader, TextReader) and about.cut is CutPlaces.LINES:
            return _Lines(source, reader, about.size, self._numbered)
        return _Whole(source, reader)

    def _prepared(self, form: Format) -> Stretch:
        """Have a reader that has read the first rows of its format, which hold for all that follow; returns these."""
        about = next(about for about in self._files if about.form is form)
        reader = self._readers[form] = self._reader.reader(form)
        with closing(self._input(about, metered=False).open()) as stream:
            first = next(reader.read(stream), None)
        if first is None:
            raise EmptyInput(about.name, NO_ROWS[form])
        return first

    def _input(self, about: PlannedFile, metered: bool = True) -> Input:
        source = input_at(about.address, self._encoding, self._progress if metered else None)
        if (source.source.size, changed_at(source)) != (about.size, about.changed):
            raise BadFile(about.name, "was changed since its encoding began; encode the files again.")
        return source

    def _check(self, stretch: Stretch, form: Format) -> None:
        """Raise unless the rows have the columns of the first; look for rows that may be comments."""
        if form is not Format.CRFSUITE:
            self._same.check(stretch)
        if form is Format.CONLL and self._reader.comments is None:
            self.hashes = self.hashes.then(stretch)


def changed_at(source: Input) -> int:
    """When a file was changed, in nanoseconds; 0 for an object."""
    return 0 if source.path is None else source.path.stat().st_mtime_ns


class _Places(Protocol):
    """A file whose rows can be read from some places on."""

    def before(self, at: int, rows: int, safe: int | None) -> list[Stretch]:
        """At least these rows before a place, or all; the reader then stands there. safe: enough rows before it."""

    def read(self, low: int, high: int | None) -> Iterator[Stretch]:
        """The rows of a range, at whose beginning the reader stands; without an end a few at a time."""


class _Lines:
    """A text that can be read from any line on."""

    def __init__(self, source: Input, reader: TextReader, size: int, numbered: bool) -> None:
        self._source, self._reader, self._size, self._numbered = source, reader, size, numbered

    def before(self, at: int, rows: int, safe: int | None) -> list[Stretch]:
        end = self.border(at)
        self._reader.begin()
        found: list[Stretch] = []
        low, look = end, _FIRST_LOOK
        while low and rows:
            low, look = self.border(end - look) if safe is None else safe, 8 * look
            if self._reader.has_header and low < _HEAD:
                low = 0
            if (
                low
                and safe is None
                and self._reader.spans_lines
                and any(b'"' in piece for piece in self._bytes(low, end))
            ):
                continue
            if low and self._begins_like_comment(low):
                continue
            if isinstance(self._reader, ConllReader):
                self._reader.forget_comments()
            self._reader.begin()
            if low:
                self._reader.begin_within()
            found = list(self._read(low, end))
            if _count(found) >= rows or safe is not None:
                break
        return found

    def read(self, low: int, high: int | None) -> Iterator[Stretch]:
        if high is None:
            return self._read(self.border(low), self._size, _LOOK)
        return self._read(self.border(low), self.border(high))

    def border(self, at: int) -> int:
        """The first place from `at` on where a line begins."""
        if at <= 0 or at >= self._size:
            return min(max(at, 0), self._size)
        at -= 1
        for piece in self._bytes(at, self._size, _FIRST_LOOK):
            if (end := piece.find(b"\n") + 1) > 0:
                return at + end
            at += len(piece)
        return self._size

    def _read(self, low: int, high: int, size: int | None = None) -> Iterator[Stretch]:
        if low < high:
            line = 1
            if self._numbered:
                line += sum(count_of(b"\n", piece) for piece in self._bytes(0, low))
            with closing(self._source.part(low, high)) as stream:
                if low and not self._numbered:
                    stream.name = f"{stream.name} from byte {low:,} on"
                yield from self._reader.rows(stream, line, size)

    def _bytes(self, low: int, high: int, size: int = CHUNK) -> Iterator[bytes]:
        with closing(self._source.part(low, high)) as stream:
            while piece := stream.read(size):
                yield piece

    def _begins_like_comment(self, at: int) -> bool:
        """Whether the line may be a comment, if a sequence begins with it."""
        return isinstance(self._reader, ConllReader) and next(self._bytes(at, at + 1), b"") == HASH.encode()


class _RowGroups:
    """Parquet."""

    def __init__(self, source: Input, reader: ParquetReader) -> None:
        self._source, self._reader = source, reader

    def before(self, at: int, rows: int, safe: int | None) -> list[Stretch]:
        found: list[Stretch] = []
        while at and _count(found) < rows:
            at -= 1
            found = [*last_rows(self.read(at, at + 1), rows), *found]
        return found

    def read(self, low: int, high: int | None) -> Iterator[Stretch]:
        with closing(self._source.open()) as stream:
            yield from self._reader.groups(stream, low, high)


class _Whole:
    """A file that is read from its beginning to its end."""

    def __init__(self, source: Input, reader: RowReader) -> None:
        self._source, self._reader = source, reader

    def before(self, at: int, rows: int, safe: int | None) -> list[Stretch]:
        return last_rows(self.read(0, None), rows) if at and rows else []

    def read(self, low: int, high: int | None) -> Iterator[Stretch]:
        if low == 0:
            with closing(self._source.open()) as stream:
                yield from self._reader.read(stream)


def _count(stretches: Sequence[Stretch]) -> int:
    return sum(stretch.lines.size for stretch in stretches)


def last_rows(stretches: Iterator[Stretch] | Sequence[Stretch], rows: int) -> list[Stretch]:
    """The last rows of several stretches, or all of them."""
    kept: deque[Stretch] = deque()
    for stretch in stretches:
        kept.append(stretch)
        while kept and _count(kept) - kept[0].lines.size >= rows:
            kept.popleft()
    surplus = _count(kept) - rows
    if kept and surplus > 0:
        kept[0] = kept[0].rows(surplus, kept[0].lines.size)
    return list(kept)
