"""CoNLL columns and CoNLL-U: a word and its annotation on a line, a blank line between sequences.

A kernel splits a chunk of whole lines into places in its bytes, and each column is given codes by a table of its own;
no string is made for a row.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.errors import BadFile, BadLines, BadSetting
from chainfold.jit.decorator import OK
from chainfold.jit.text_kernels import (
    AMBIGUOUS,
    COLUMNS,
    FAULT,
    FAULT_COLUMNS,
    FAULT_LINE,
    TABS,
    UNKNOWN,
    ConllArrays,
    conll_rows,
)
from chainfold.readers.columns import Stretch
from chainfold.readers.inputs import Chunk, RawLines, count_of
from chainfold.readers.text import HASH, LineReader, Taken, ambiguous, comment_prefix, counted, line_of, symbols_of

CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_NEVER_MISSING = {"form", "lemma"}  # where CoNLL-U's "_" is the word itself
_DOCSTART = b"-DOCSTART-"


class ConllReader(LineReader):
    """Columns of words, a blank line between sequences; the first line of the first input sets the width."""

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        universal: bool = False,
        *,
        comments: str | None = None,
        tabs: bool | None = None,
    ) -> None:
        """tabs: are there tabs between the columns? None: the first line tells."""
        super().__init__(HASH if universal else comments)
        self._names = columns
        self._universal = universal
        self._state[TABS] = 1 if universal else UNKNOWN if tabs is None else tabs
        self._state[COLUMNS] = len(CONLLU_COLUMNS) if universal else len(columns) if columns else UNKNOWN
        self._before = "the lines before it have" if columns is None else "there are names for"
        if universal:
            self._before = "CoNLL-U has"
            if columns is not None and len(columns) != len(CONLLU_COLUMNS):
                raise BadSetting("columns", list(columns), "ten names, as CoNLL-U has ten columns")

    def _cut(self, data: bytes) -> int:
        """Up to where the bytes so far are whole rows; comments wait for the line that tells the width."""
        end = super()._cut(data)
        self.look_at(data[:end])
        return 0 if self._guess and self._widthless else end

    @property
    def _widthless(self) -> bool:
        return UNKNOWN in (self._state[TABS], self._state[COLUMNS])

    def look_at(self, data: bytes) -> None:
        """Find the width in the first line that is no comment, so that those before it are known by theirs."""
        if not self._guess or not self._widthless:
            return
        row = next(filter(_tells_width, io.BytesIO(data)), None)
        if row is not None:
            row = row.removesuffix(b"\n").removesuffix(b"\r")
            if self._state[TABS] == UNKNOWN:
                self._state[TABS] = b"\t" in row
            if self._state[COLUMNS] == UNKNOWN:
                self._state[COLUMNS] = self._width(row)

    def _width(self, row: bytes) -> int:
        """The columns of a row."""
        if self._state[TABS]:
            return row.count(b"\t") + 1
        return len([field for field in row.replace(b"\t", b" ").split(b" ") if field])

    def take(self, chunk: Chunk, source: str) -> Taken:
        self.look_at(chunk.data)
        stretch = self._stretch(chunk, source)
        width, tabs = max(int(self._state[COLUMNS]), 0), bool(self._state[TABS] == 1)
        raw = RawLines(source, chunk, stretch.lines, self.attributes, width, tabs)
        problem = self._wrong(chunk, source) if self._state[FAULT] != OK else None
        return Taken([stretch] if stretch.lines.size else [], raw, problem)

    def _stretch(self, chunk: Chunk, source: str) -> Stretch:
        most_rows = count_of(b"\n", chunk.data)
        most_fields = most_rows + count_of(b"\t", chunk.data) + count_of(b" ", chunk.data)
        data = np.frombuffer(chunk.data, np.uint8)
        out = ConllArrays(
            np.empty(most_fields, np.int64),
            np.empty(most_fields, np.int64),
            np.empty(most_rows, np.int64),
            np.empty(most_rows, np.bool_),
        )
        rows = conll_rows(data, chunk.line, self._universal, self._prefix, self._guess, self._state, out)
        batch = self._batch(data, rows, out) if rows else None
        return Stretch(batch, out.starts[:rows], out.lines[:rows], source)

    def _batch(self, data: NDArray[np.uint8], rows: int, out: ConllArrays) -> Any:
        width = int(self._state[COLUMNS])
        begins = np.ascontiguousarray(out.begins[: rows * width].reshape(rows, width).T)
        ends = np.ascontiguousarray(out.ends[: rows * width].reshape(rows, width).T)
        names = self._names or (CONLLU_COLUMNS if self._universal else tuple(str(k) for k in range(width)))
        columns = []
        for k in range(width):
            missing = ends[k] == begins[k]
            if self._universal and CONLLU_COLUMNS[k] not in _NEVER_MISSING:
                missing |= (ends[k] == begins[k] + 1) & (data[begins[k]] == ord("_"))
            columns.append(symbols_of(data, begins[k], ends[k], missing))
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    def _wrong(self, chunk: Chunk, name: str) -> BadFile:
        line, width, expected = (int(self._state[k]) for k in (FAULT_LINE, FAULT_COLUMNS, COLUMNS))
        if self._state[FAULT] == AMBIGUOUS:
            return ambiguous(chunk, line, name)
        cause = "; is a tab missing, or one too many?" if self._state[TABS] == 1 else "; correct the line."
        if self._guess and (text := line_of(chunk, line)).startswith(HASH):
            cause = f"; if it is a comment, set `comments` to {comment_prefix(text)!r}."
        problem = f"line {line} has {counted(width, 'column')}, but {self._before} {expected}{cause}"
        return BadLines(name, problem, lambda: self._of_other_width(chunk))

    def _of_other_width(self, chunk: Chunk) -> NDArray[np.int64]:
        """The lines of another width that are rows for certain, wherever they stand."""
        no_rows = (HASH.encode(),) if self._guess else (self.comments,) if self.comments else ()
        lines = []
        for line, text in enumerate(chunk.data.split(b"\n"), chunk.line):
            row = text.removesuffix(b"\r")
            wrong = row.strip(b" \t") and self._width(row) != self._state[COLUMNS]
            if wrong and not text.startswith(no_rows) and not row.lstrip(b" \t").startswith(_DOCSTART):
                lines.append(line)
        return np.array(lines, np.int64)

    @property
    def stand_in(self) -> bytes:
        return (b"\t" if self._state[TABS] == 1 else b" ").join([self._word] * int(self._state[COLUMNS])) + b"\n"


def _tells_width(line: bytes) -> bool:
    """Whether a line is certainly a row."""
    text = line.strip(b" \t\r\n")
    return bool(text) and not text.startswith(_DOCSTART) and not line.startswith(b"#")
