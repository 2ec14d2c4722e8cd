"""Sequences as lines of text: CoNLL columns, CoNLL-U, and CRFsuite's lines of attributes.

A chunk of whole lines at a time is taken apart by a kernel into places in its bytes, and each column is given codes by
a table of its own; no string is made for a row.
"""

from __future__ import annotations

import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chainfold.chain.block import position_of
from chainfold.chain.strings import StringTable
from chainfold.errors import BadFile, BadLines, BadSetting
from chainfold.readers.columns import VALUES_SUFFIX, Stretch
from chainfold.readers.inputs import CHUNK, Chunk, RawFields, RawLines, Stream, after_last_line, chunks, count_of
from chainfold.readers.text_kernels import (
    AMBIGUOUS,
    COLUMNS,
    DECLARATION,
    HEAD,
    NAMELESS,
    START,
    STATE_SIZE,
    TABS,
    UNKNOWN,
    WRONG,
    WRONG_LINE,
    AttributeArrays,
    ConllArrays,
    attribute_rows,
    conll_rows,
)

CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_NEVER_MISSING = {"form", "lemma"}  # where CoNLL-U's "_" is the word itself

_DOCSTART = b"-DOCSTART-"
# A declaration, an attribute without a name, or one with a colon and no value; a colon may be escaped
_WRONG_FIELD = re.compile(
    rb"^@(?!\r?\n)[^\t\n]|\t(?:@(?!edge(?:\t|\r?\n)|\r?\n)[^\t\n]|:|(?:[^\t\n\\:]++|\\[^\t\n]?+)*+:(?=\t|\r?\n))", re.M
)
# Whatever Arrow takes for the text of a number looks like this
_LIKE_A_NUMBER = r"^\s*[-+]?(?:[0-9.][-+0-9.eE]*|(?i:inf|nan).*)\s*$"

HASH = "#"  # what comments begin with in CoNLL-U, and usually elsewhere
_SHOWN = 40  # letters of a line

LABEL, ATTRIBUTES, EDGE = "label", "attributes", "edge"


class Taken(NamedTuple):
    """What a chunk of text holds."""

    stretches: list[Stretch]
    raw: RawLines | RawFields  # the chunk as it was, for whoever wants to write it again
    problem: BadFile | None = None  # what is wrong with the line that follows the rows


class TextReader(ABC):
    """A reader that takes a chunk of whole lines at a time, and can go back to where it was before."""

    comments = b""  # what lines begin with that are comments for certain; nothing: there are none

    def __init__(self, chunk: int) -> None:
        self._chunk = chunk

    def read(self, stream: Stream) -> Iterator[Stretch]:
        """All rows of an input."""
        self.begin()
        for chunk in chunks(stream, self._chunk, self._cut):
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
        """What comes next is the beginning of an input, and of a sequence."""

    @abstractmethod
    def go_on(self) -> None:
        """What comes next is the beginning of another file, but not of a sequence."""

    def look_at(self, data: bytes) -> None:  # noqa: B027  most readers need not
        """The first lines of the first input, before they are taken."""

    @abstractmethod
    def take(self, chunk: Chunk, source: str) -> Taken:
        """The rows of the chunk that comes next."""

    @property
    @abstractmethod
    def stand_in(self) -> bytes:
        """A line that is a row, whatever comes before it; known once there was a row."""

    @property
    @abstractmethod
    def between(self) -> bool:
        """Has the sequence of the last row ended, as far as was read?"""

    @abstractmethod
    def state(self) -> Any:
        """Whatever `take` changes."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Put it back."""


class _LineReader(TextReader):
    """What CoNLL columns and CRFsuite's lines have in common: the state that their kernels leave behind."""

    def __init__(self, chunk: int, attributes: bool, comments: str | None) -> None:
        """comments: what they begin with, empty if there are none; None: '#', where that cannot be a row."""
        super().__init__(chunk)
        self._attributes = attributes  # is what follows the first tab attributes?
        self._guess = comments is None
        self.comments = (comments or "").encode()
        self._prefix = np.frombuffer(self.comments, np.uint8)
        self._word = b"2" if self.comments.startswith(b"1") else b"1"  # no comment begins so
        self._state = np.zeros(STATE_SIZE, np.int64)

    def begin(self) -> None:
        self._state[START] = self._state[HEAD] = 1

    def go_on(self) -> None:
        pass

    @property
    def between(self) -> bool:
        return bool(self._state[START])

    def state(self) -> NDArray[np.int64]:
        return self._state.copy()

    def restore(self, state: NDArray[np.int64]) -> None:
        self._state[:] = state


class ConllReader(_LineReader):
    """Columns of words, a blank line between sequences; the first line of the first input sets the width."""

    def __init__(
        self,
        columns: tuple[str, ...] | None = None,
        universal: bool = False,
        chunk: int = CHUNK,
        *,
        comments: str | None = None,
    ) -> None:
        super().__init__(chunk, False, HASH if universal else comments)
        self._names = columns
        self._universal = universal
        self._state[TABS] = 1 if universal else UNKNOWN
        self._state[COLUMNS] = len(CONLLU_COLUMNS) if universal else len(columns) if columns else UNKNOWN
        self._before = "the lines before it have" if columns is None else "there are names for"
        if universal:
            self._before = "CoNLL-U has"
            if columns is not None and len(columns) != len(CONLLU_COLUMNS):
                raise BadSetting("the list of columns", list(columns), "ten names, as CoNLL-U has ten columns")

    def _cut(self, data: bytes) -> int:
        """The same; comments wait for the line that tells the width."""
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
            tabs = row.count(b"\t")
            self._state[TABS] = tabs > 0
            if self._state[COLUMNS] == UNKNOWN:
                self._state[COLUMNS] = tabs + 1 if tabs else len([field for field in row.split(b" ") if field])

    def take(self, chunk: Chunk, source: str) -> Taken:
        self.look_at(chunk.data)
        stretch = self._stretch(chunk, source)
        raw = RawLines(source, chunk, stretch.lines, self._attributes)
        problem = self._wrong(chunk, source) if self._state[WRONG_LINE] else None
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
            columns.append(_symbols(data, begins[k], ends[k], missing))
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    def _wrong(self, chunk: Chunk, name: str) -> BadFile:
        line, found, expected = (int(self._state[k]) for k in (WRONG_LINE, WRONG, COLUMNS))
        if found == AMBIGUOUS:
            return _ambiguous(chunk, line, name)
        cause = "; is a tab missing, or one too many?" if self._state[TABS] == 1 else "; correct the line."
        if self._guess and (text := _line_of(chunk, line)).startswith(HASH):
            cause = f"; if it is a comment, say --comments {_prefix_of(text)!r}."
        problem = f"line {line} has {counted(found, 'column')}, but {self._before} {expected}{cause}"
        return BadLines(name, problem, lambda: self._of_other_width(chunk))

    def _of_other_width(self, chunk: Chunk) -> NDArray[np.int64]:
        """The lines of another width that are rows for certain, wherever they stand."""
        data = np.frombuffer(chunk.data, np.uint8)
        ends = np.flatnonzero(data == ord("\n"))
        begins = np.concatenate([[0], ends[:-1] + 1])
        blank = (data == ord(" ")) | (data == ord("\t")) | (data == ord("\n"))
        blank[:-1] |= (data[:-1] == ord("\r")) & (data[1:] == ord("\n"))
        if self._state[TABS] == 1:
            widths = np.add.reduceat(data == ord("\t"), begins, dtype=np.int64) + 1
        else:
            widths = np.add.reduceat(~blank & np.append(True, blank[:-1]), begins, dtype=np.int64)
        wrong = (widths != self._state[COLUMNS]) & (np.add.reduceat(~blank, begins, dtype=np.int64) > 0)
        no_rows = (HASH.encode(),) if self._guess else (self.comments,) if self.comments else ()
        found = []
        for line in np.flatnonzero(wrong).tolist():
            text = chunk.data[begins[line] : ends[line]]
            if not text.startswith(no_rows) and not text.lstrip(b" \t").startswith(_DOCSTART):
                found.append(chunk.line + line)
        return np.array(found, np.int64)

    @property
    def stand_in(self) -> bytes:
        return (b"\t" if self._state[TABS] == 1 else b" ").join([self._word] * int(self._state[COLUMNS])) + b"\n"


class CrfsuiteReader(_LineReader):
    """A label and its attributes on a line, tabs between them, a blank line between sequences."""

    def __init__(self, chunk: int = CHUNK, *, comments: str | None = None) -> None:
        super().__init__(chunk, True, comments)

    def take(self, chunk: Chunk, source: str) -> Taken:
        data, state = np.frombuffer(chunk.data, np.uint8), self._state
        out = _room(chunk.data)
        rows = attribute_rows(data, chunk.line, self._prefix, self._guess, state, out)
        raw = RawLines(source, chunk, out.lines[:rows], self._attributes)
        stretches = []
        if rows:
            batch = _attribute_batch(data, rows, out, source)
            stretches = [Stretch(batch, out.starts[:rows], out.lines[:rows], source)]
        problem = None
        if state[WRONG] == AMBIGUOUS:
            problem = _ambiguous(chunk, int(state[WRONG_LINE]), source)
        elif state[WRONG_LINE]:
            what = _what_is_wrong(int(state[WRONG]))
            problem = BadLines(source, f"line {state[WRONG_LINE]} {what}", lambda: self._with_wrong_fields(chunk))
        return Taken(stretches, raw, problem)

    def _with_wrong_fields(self, chunk: Chunk) -> NDArray[np.int64]:
        """The lines on which a field is certainly wrong, but for its value."""
        ends = np.flatnonzero(np.frombuffer(chunk.data, np.uint8) == ord("\n"))
        places = [match.end() for match in _WRONG_FIELD.finditer(chunk.data)]
        found = np.unique(np.searchsorted(ends, places))
        begins = np.append(0, ends[:-1] + 1)[found].tolist()
        rows = [not self.comments or not chunk.data.startswith(self.comments, begin) for begin in begins]
        return chunk.line + found[np.array(rows, np.bool_)]

    @property
    def stand_in(self) -> bytes:
        return self._word + b"\n"


def _tells_width(line: bytes) -> bool:
    """Is it a row for certain?"""
    text = line.strip(b" \t\r\n")
    return bool(text) and not text.startswith(_DOCSTART) and not line.startswith(b"#")


def _ambiguous(chunk: Chunk, line: int, name: str) -> BadFile:
    text = _line_of(chunk, line)
    return BadFile(
        name,
        f"line {line}, {text[:_SHOWN]!r}, may be a row or a comment; say --comments {_prefix_of(text)!r} if lines that "
        f"begin so are comments, or --comments '' if all lines are rows.",
    )


def _line_of(chunk: Chunk, line: int) -> str:
    return chunk.data.split(b"\n", line - chunk.line + 1)[line - chunk.line].decode().removesuffix("\r")


def _prefix_of(line: str) -> str:
    """What comments like this one begin with: '# ' rather than '#', which a word may begin with."""
    return line[:2] if line[1:2] in (" ", "\t") else HASH


def _what_is_wrong(problem: int) -> str:
    if problem == DECLARATION:
        return (
            "has a declaration, a field that begins with '@'; only @edge is understood here. Write \\@ where it is the "
            "name of an attribute."
        )
    if problem == NAMELESS:
        return "has an attribute without a name; write \\: for a colon that belongs to the name."
    return "has a colon but no value after it; write \\: for a colon that belongs to the name."


def _room(data: bytes) -> AttributeArrays:
    """Arrays that are large enough for whatever the lines hold."""
    rows, entries = count_of(b"\n", data), count_of(b"\t", data)
    return AttributeArrays(
        names=np.empty(len(data), np.uint8),
        name_ends=np.empty(entries + 1, np.int64),
        value_begins=np.empty(entries, np.int64),
        value_ends=np.empty(entries, np.int64),
        edges=np.empty(entries, np.bool_),
        offsets=np.empty(rows + 1, np.int64),
        label_begins=np.empty(rows, np.int64),
        label_ends=np.empty(rows, np.int64),
        lines=np.empty(rows, np.int64),
        starts=np.empty(rows, np.bool_),
    )


def _attribute_batch(data: NDArray[np.uint8], rows: int, out: AttributeArrays, source: str) -> Any:
    entries = int(out.offsets[rows])
    label_begins, label_ends = out.label_begins[:rows], out.label_ends[:rows]
    columns = {LABEL: _symbols(data, label_begins, label_ends, label_begins == label_ends)}
    values = _values(data, rows, out, source)
    edges = out.edges[:entries]
    for name, chosen in ((ATTRIBUTES, ~edges), (EDGE, edges)):
        offsets = pa.array(np.concatenate([[0], np.cumsum(chosen)])[out.offsets[: rows + 1]])
        begins, ends = out.name_ends[:entries][chosen], out.name_ends[1 : entries + 1][chosen]
        columns[name] = pa.LargeListArray.from_arrays(offsets, _symbols(out.names, begins, ends))
        if (values[chosen] != 1.0).any():
            columns[name + VALUES_SUFFIX] = pa.LargeListArray.from_arrays(offsets, pa.array(values[chosen]))
    return pa.RecordBatch.from_pydict(columns)


def _values(data: NDArray[np.uint8], rows: int, out: AttributeArrays, source: str) -> NDArray[np.float64]:
    """The value of each entry, one where none is written; each distinct text is read once."""
    entries = int(out.offsets[rows])
    values = np.ones(entries)
    given = np.flatnonzero(out.value_begins[:entries] >= 0)
    if given.size:
        texts = _symbols(data, out.value_begins[given], out.value_ends[given])
        codes = texts.indices.to_numpy()
        culprit = first_no_number(texts.dictionary)
        if culprit is not None:
            wrong = given[np.append(surely_no_numbers(texts.dictionary), False)[codes]]
            raise _no_value(data, int(given[np.argmax(codes == culprit)]), wrong, rows, out, source)
        values[given] = texts.dictionary.cast(pa.float64()).to_numpy()[codes]
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            raise _no_value(data, int(wrong[0]), wrong, rows, out, source)
    return values


def _no_value(
    data: NDArray[np.uint8], entry: int, wrong: NDArray[np.int64], rows: int, out: AttributeArrays, source: str
) -> BadFile:
    """wrong: all entries of which it is certain that their values are no finite numbers."""
    row = position_of(out.offsets[: rows + 1], entry)
    begin, end = int(out.value_begins[entry]), int(out.value_ends[entry])
    text = data.tobytes()
    name = out.names[out.name_ends[entry] : out.name_ends[entry + 1]].tobytes().decode()
    column, value = begin - text.rfind(b"\n", 0, begin), text[begin:end].decode()
    problem = f"line {out.lines[row]}, byte {column}: the value {value!r} of attribute {name!r} is not a finite number."
    return BadLines(
        source,
        problem,
        lambda: np.unique(out.lines[np.searchsorted(out.offsets[: rows + 1], wrong, side="right") - 1]),
    )


def surely_no_numbers(texts: Any) -> NDArray[np.bool_]:
    """Which of an Arrow array of strings are certainly not the texts of numbers."""
    found: NDArray[np.bool_] = pc.invert(pc.match_substring_regex(texts, _LIKE_A_NUMBER)).to_numpy(zero_copy_only=False)
    return found


def first_no_number(texts: Any) -> int | None:
    """The first of an Arrow array of strings that is not the text of a number."""
    low, high = 0, len(texts)
    if _all_numbers(texts):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _all_numbers(texts[low:middle]) else (low, middle)
    return low


def _all_numbers(texts: Any) -> bool:
    try:
        texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _symbols(
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


def counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
