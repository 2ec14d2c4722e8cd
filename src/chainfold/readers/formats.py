"""Any input to stretches of rows: which format it is in, and the reader for it."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Any, Protocol

from chainfold.errors import BadFile, BadSetting, EmptyInput
from chainfold.readers.arrow import ArrowReader
from chainfold.readers.columns import NO_COLUMN, NUMBER, SYMBOL, Choice, Stretch
from chainfold.readers.conll import ConllReader
from chainfold.readers.crfsuite import CrfsuiteReader
from chainfold.readers.csv_tsv import CsvReader
from chainfold.readers.inputs import UTF8, Inputs, Stream
from chainfold.readers.jsonl import JsonLinesReader
from chainfold.readers.parquet import ParquetReader
from chainfold.readers.progress import InputProgress
from chainfold.readers.tables import TABLE, read_memory
from chainfold.readers.text import HASH, TextReader

_LOOK_AT = 1 << 16
_PACKED = {".gz", ".bz2", ".xz", ".zst"}
_PARQUET_MAGIC, _ARROW_MAGIC, _STREAM_MAGIC = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_MOST_LINES = 500
_WHITE = ("\t", " ")
_BEGINS_JSON = re.compile(r'\s*(\{\s*"|\[\s*["{\[])')


class Format(StrEnum):
    CONLL = "conll"
    CONLLU = "conllu"
    CRFSUITE = "crfsuite"
    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"


_NAMES = {f".{form.value}": form for form in Format} | {
    ".ndjson": Format.JSONL,
    ".feather": Format.ARROW,
    ".ipc": Format.ARROW,
}
TEXT = {Format.CONLL, Format.CONLLU, Format.CRFSUITE, Format.CSV, Format.TSV, Format.JSONL}
NO_ROWS = dict.fromkeys(Format, "has no rows.") | {
    **dict.fromkeys((Format.CONLL, Format.CONLLU, Format.CRFSUITE), "has only blank lines or comments."),
    **dict.fromkeys((Format.CSV, Format.TSV), "has no rows, only blank lines or a header."),
    Format.JSONL: "has no rows, only blank lines or empty lists.",
}


@dataclass(frozen=True)
class InputReader:
    """Reads any input: detects its format, unless it is given, and has the reader for it."""

    format: Format | None = None
    columns: Sequence[str] | None = None  # the names of the columns
    header: bool | None = None  # does CSV begin with a line of names? None: detected
    symbols: Choice = NO_COLUMN  # columns of tables that are symbols even if they look like numbers
    comments: str | None = None  # what comments begin with; "": there are none; None: detected
    delimiter: str | None = None  # what is between the fields of CSV, TSV and CoNLL
    live: bool = False  # is the input still being written?
    model_columns: frozenset[str] = frozenset()  # the names of a model's columns, by which a header is recognised
    empty: bool = False  # may inputs have no rows?
    fields: frozenset[str] | None = None  # the fields of JSON lines to read; None: all
    model_delimiter: str | None = None  # what was between the fields of the input of a model
    model_comments: str | None = None  # what comments began with in the input of a model; `comments` has precedence

    def read(self, inputs: Inputs) -> Iterator[Stretch]:
        """The rows of all inputs, one after another; their columns must be the same."""
        readers: dict[Format, RowReader] = {}
        text: Format | None = None
        same = SameColumns()
        for source in inputs:
            with closing(source.open()) as stream:
                if not stream.peek(1):
                    if self.empty and stream.failure is None:
                        continue
                    raise EmptyInput(source.name, "is empty.") if stream.failure is None else stream.failure
                form = self.format_of(stream, text)
                reader = readers.setdefault(form, self.reader(form))
                rows = 0
                for stretch in reader.read(stream):
                    if form is not Format.CRFSUITE:
                        same.check(stretch)
                    rows += stretch.lines.size
                    yield stretch
                text = form if form in TEXT and rows else text
                if not rows and not self.empty:
                    raise EmptyInput(source.name, NO_ROWS[form])

    def format_of(self, stream: Stream, text: Format | None) -> Format:
        """The format of an input; text: that of the texts before."""
        form = (
            self.format
            or by_name(stream.name)
            or table_of(stream.peek(len(_ARROW_MAGIC)))
            or text
            or self.by_content(stream)
        )
        if self.format is None and form in TEXT and form is not Format.JSONL:
            check_no_json(_first_line(self._head(stream)), stream.name)
        return form

    def read_table(self, table: object) -> Iterator[Stretch]:
        """The rows of a table in memory."""
        same = SameColumns()
        empty = True
        for stretch in read_memory(table, self.columns, self.symbols):
            same.check(stretch)
            empty = False
            yield stretch
        if empty:
            raise BadFile(TABLE, "has no rows.")

    def rows(self, inputs: Any, encoding: str | None, progress: InputProgress) -> Iterator[Stretch]:
        """The rows of files or of a table."""
        if not are_files(inputs):
            return self.read_table(inputs)
        files = inputs if isinstance(inputs, Inputs) else Inputs(inputs, encoding or UTF8, progress.read)
        progress.total(files.total_bytes)
        return self.read(files)

    @property
    def _comments(self) -> str | None:
        return self.model_comments if self.comments is None else self.comments

    def text_reader(self, form: Format) -> TextReader:
        """A reader for a text format."""
        comments = self._comments
        if form is Format.CONLL:
            return ConllReader(self.columns, comments=comments, tabs=self._tabs())
        if self.delimiter is not None and form not in (Format.CSV, Format.TSV):
            raise BadSetting("delimiter", self.delimiter, f"left out, as {form.value} has its own")
        if form is Format.CRFSUITE:
            if self.columns is not None:
                raise BadSetting("columns", list(self.columns), "left out, as CRFsuite's lines have attributes")
            return CrfsuiteReader(comments=comments)
        if form is Format.CONLLU:
            if self.comments not in (None, HASH):
                raise BadSetting("comments", self.comments, f"left out or {HASH!r}, as CoNLL-U has it")
            return ConllReader(self.columns, universal=True)
        if form is Format.JSONL:
            self._check_no_comments(form)
            return JsonLinesReader(self.columns, self.symbols, self.fields)
        delimiter = self.delimiter or (self.model_delimiter if form is Format.CSV else "\t") or ","
        quotes = form is Format.CSV  # in files with tabs a quote is a letter like any other
        return CsvReader(delimiter, quotes, self.columns, self.header, self.symbols, live=self.live, comments=comments)

    def _tabs(self) -> bool | None:
        """Whether tabs are between the columns of CoNLL; None: the first line tells."""
        if self.delimiter not in (None, *_WHITE):
            raise BadSetting("delimiter", self.delimiter, "a tab or a space for conll, or set `format` to csv")
        delimiter = self.delimiter or self.model_delimiter
        return delimiter == "\t" if delimiter in _WHITE else None

    def by_delimiter(self) -> Format | None:
        """The format of a text whose name does not tell it, if the delimiter does."""
        delimiter = self.delimiter or self.model_delimiter
        return None if delimiter in (None, *_WHITE) else Format.CSV

    def reader(self, form: Format) -> RowReader:
        """A reader for a format."""
        if form in TEXT:
            return self.text_reader(form)
        self._check_no_comments(form)
        if self.delimiter is not None:
            raise BadSetting("delimiter", self.delimiter, f"left out, as {form.value} has none")
        kind = ParquetReader if form is Format.PARQUET else ArrowReader
        return kind(self.columns, self.symbols)

    def _check_no_comments(self, form: Format) -> None:
        if self.comments:
            raise BadSetting("comments", self.comments, f"left out, as {form.value} has none")

    def is_header(self, line: str) -> bool:
        """Whether the fields of a line, tabs between them, are names of the model's columns."""
        fields = line.rstrip("\r").split("\t")
        different = len(set(fields)) == len(fields) > 1
        return different and self.model_columns.issuperset(fields) and self.header is not False

    def is_comment(self, line: str) -> bool:
        """Whether a line begins as comments certainly do."""
        return bool(self._comments) and line.startswith(self._comments or "")

    def may_be_comment(self, line: str) -> bool:
        """Whether a line begins as comments do, as far as is known."""
        return line.startswith(HASH if self._comments is None else self._comments) and self._comments != ""

    def by_content(self, stream: Stream) -> Format:
        """The format that the first lines of a text look like."""
        lines = self._head(stream)
        if (form := self.by_delimiter()) is not None:
            return form
        return Format.TSV if self.is_header(_first_line(lines)) else format_of(lines, self.comments)

    def _head(self, stream: Stream) -> list[str]:
        """The first lines of a text, one that is no comment among them."""

        def decoded(data: bytes) -> list[str]:
            text = data.decode(stream.encoding, "replace").removeprefix("\ufeff")
            lines = text.split("\n")[:_MOST_LINES]
            return lines[:-1] if len(lines) > 1 else lines

        def enough(data: bytes) -> bool:
            return b"\n" in data and any(line.strip() and not self.may_be_comment(line) for line in decoded(data))

        return decoded(stream.peek_text(_LOOK_AT, enough))


def are_files(inputs: Any) -> bool:
    """Whether these are inputs to open and read, and not a table."""
    if isinstance(inputs, (str, Path, Inputs)) or hasattr(inputs, "read"):
        return True
    return isinstance(inputs, (list, tuple)) and all(map(are_files, inputs))


class RowReader(Protocol):
    """A reader of the rows of a stream."""

    def read(self, stream: Stream) -> Iterator[Stretch]: ...


class SameColumns:
    """Holds all stretches to the columns of the first."""

    def __init__(self) -> None:
        self._first: Stretch | None = None

    def check(self, stretch: Stretch) -> None:
        first = self._first = self._first or stretch
        names, expected = stretch.batch.schema.names, first.batch.schema.names
        if names != expected:
            whose = "those" if stretch.source == first.source else f"those of {first.source}"
            problem = f"its columns are {', '.join(names)}, but {whose} before are {', '.join(expected)}."
            raise BadFile(stretch.source, problem)
        for name, kind, wanted in zip(names, stretch.batch.schema.types, first.batch.schema.types, strict=True):
            if kind != wanted:
                problem = f"column {name!r} holds {_kind(kind)} at {stretch.place(0)}, but {_kind(wanted)} before"
                raise BadFile(stretch.source, f"{problem} (in {first.source}); name it in `symbols`.")


def _kind(kind: object) -> str:
    return "symbols" if kind == SYMBOL else "numbers" if kind == NUMBER else "lists"


def by_name(name: str) -> Format | None:
    """The format that a file's name tells."""
    path = PurePath(name.lower())
    suffix = (path.with_suffix("") if path.suffix in _PACKED else path).suffix
    if suffix == ".json":
        raise _json(name)
    return _NAMES.get(suffix)


def check_no_json(line: str, name: str) -> None:
    """Raise if the first line of a text that is read in another format is an object or an array of JSON."""
    if _is_object(line):
        raise BadFile(name, f"looks like JSON lines; call it .jsonl, or set `format` to {Format.JSONL.value}.")
    if line.lstrip().startswith("["):
        value = _json_value(line)
        word = isinstance(value, list) and len(value) == 1 and isinstance(value[0], (int, float))  # as [1] may be
        if value and not word:
            raise _json(name)


def _is_object(line: str) -> bool:
    """Whether a line is an object of JSON, or the beginning of a long one."""
    return line.lstrip().startswith("{") and bool(_json_value(line))


def _json_value(line: str) -> Any:
    """The JSON value of a line; True for the beginning of a long array or object, else None."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return True if len(line) >= _LOOK_AT // 4 and _BEGINS_JSON.match(line) else None  # it is cut off


def _json(name: str) -> BadFile:
    known = "JSON lines (.jsonl, an object a line), CoNLL, CoNLL-U, CRFsuite's lines, CSV, TSV, Parquet or Arrow"
    return BadFile(name, f"looks like one JSON value, which is not read; give {known}, or set `format`.")


def table_of(head: bytes) -> Format | None:
    """The format of data that begins like this, if it is no text."""
    if head.startswith(_PARQUET_MAGIC):
        return Format.PARQUET
    return Format.ARROW if head.startswith((_ARROW_MAGIC, _STREAM_MAGIC)) else None


def _first_line(lines: list[str]) -> str:
    return next((line for line in lines if line.strip()), "")


def format_of(lines: list[str], comments: str | None = None) -> Format:
    """The text format that these lines look like; comments: what those begin with, if it is known."""
    rows = [line.rstrip("\r") for line in lines if line.strip() and not (comments and line.startswith(comments))]
    if rows and _is_object(rows[0]):
        return Format.JSONL
    if _is_conllu(rows):
        return Format.CONLLU
    no_rows = ("-DOCSTART-",) if comments == "" else ("-DOCSTART-", HASH)
    if _is_crfsuite([row.split("\t") for row in rows if not row.startswith(no_rows)]):
        return Format.CRFSUITE
    return Format.CSV if _is_csv(rows) else Format.CONLL


def _is_conllu(rows: list[str]) -> bool:
    """Ten fields, a number first, comments apart."""
    fields = [row.split("\t") for row in rows if not row.startswith("#")]
    if not fields:
        return bool(rows)
    return all(len(row) == 10 and row[0].replace("-", "").replace(".", "").isdecimal() for row in fields)


def _is_crfsuite(rows: list[list[str]]) -> bool:
    """Tabs, and lines of different widths, or every field after the label has '=' or ':' in it."""
    if not any(len(row) > 1 for row in rows):
        return False
    marked = all("=" in field or ":" in field for row in rows for field in row[1:])
    return marked or len({len(row) for row in rows}) > 1


def _is_csv(rows: list[str]) -> bool:
    """The same number of fields in every row, but not the same number of words on every line."""
    reader = csv.reader(f"{row}\n" for row in rows)
    widths, whole = set(), 0  # whole: the lines up to the last row that is there to its end
    with suppress(csv.Error):
        for fields in reader:
            if not fields[-1].endswith("\n"):  # else its quote may be closed further on
                widths.add(len(fields))
                whole = reader.line_num
    words = {len(row.split()) for row in rows}
    mostly = reader.line_num == len(rows) < 2 * whole
    return mostly and len(widths) == 1 and 1 not in widths and (len(words) > 1 or words == {1})
