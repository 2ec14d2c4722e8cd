"""CRFsuite's lines: a label and its attributes, tabs between them, a blank line between sequences."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.block import position_of
from chainfold.errors import BadFile, BadLines
from chainfold.jit.decorator import OK
from chainfold.jit.text_kernels import (
    AMBIGUOUS,
    DECLARATION,
    FAULT,
    FAULT_LINE,
    NAMELESS,
    VALUELESS,
    AttributeArrays,
    attribute_rows,
)
from chainfold.readers.columns import ATTRIBUTES, EDGE, LABEL, VALUES_SUFFIX, Stretch
from chainfold.readers.inputs import Chunk, RawLines, count_of, line_ends
from chainfold.readers.text import LineReader, Taken, ambiguous, not_numbers, symbols_of

# A declaration, an attribute without a name, or one with a colon and no value; a colon may be escaped
_WRONG_FIELD = re.compile(
    rb"^@(?!\r?\n)[^\t\n]|\t(?:@(?!edge(?:\t|\r?\n)|\r?\n)[^\t\n]|:|(?:[^\t\n\\:]++|\\[^\t\n]?+)*+:(?=\t|\r?\n))", re.M
)
_FAULTS = {
    DECLARATION: "has a declaration, a field that begins with '@'; only @edge is supported. Write \\@ where it is the "
    "name of an attribute.",
    NAMELESS: "has an attribute without a name; write \\: for a colon that belongs to the name.",
    VALUELESS: "has a colon but no value after it; write \\: for a colon that belongs to the name.",
}


class CrfsuiteReader(LineReader):
    """A label and its attributes on a line, tabs between them, a blank line between sequences."""

    attributes = True

    def take(self, chunk: Chunk, source: str) -> Taken:
        data, state = np.frombuffer(chunk.data, np.uint8), self._state
        out = _room(chunk.data)
        rows = attribute_rows(data, chunk.line, self._prefix, self._guess, state, out)
        raw = RawLines(source, chunk, out.lines[:rows], self.attributes)
        stretches = []
        if rows:
            batch = _attribute_batch(data, rows, out, source)
            stretches = [Stretch(batch, out.starts[:rows], out.lines[:rows], source)]
        problem = None
        if state[FAULT] == AMBIGUOUS:
            problem = ambiguous(chunk, int(state[FAULT_LINE]), source)
        elif state[FAULT] != OK:
            sentence = f"line {state[FAULT_LINE]} {_FAULTS[int(state[FAULT])]}"
            problem = BadLines(source, sentence, lambda: self._with_wrong_fields(chunk))
        return Taken(stretches, raw, problem)

    def _with_wrong_fields(self, chunk: Chunk) -> NDArray[np.int64]:
        """The lines on which a field is certainly wrong, but for its value."""
        ends = line_ends(chunk.data)
        places = [match.end() for match in _WRONG_FIELD.finditer(chunk.data)]
        lines = np.unique(np.searchsorted(ends, places))
        begins = np.append(0, ends[:-1] + 1)[lines].tolist()
        rows = [not self.comments or not chunk.data.startswith(self.comments, begin) for begin in begins]
        return chunk.line + lines[np.array(rows, np.bool_)]

    @property
    def stand_in(self) -> bytes:
        return self._word + b"\n"


def _room(data: bytes) -> AttributeArrays:
    """Arrays that are large enough for the lines."""
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
    columns = {LABEL: symbols_of(data, label_begins, label_ends, label_begins == label_ends)}
    values = _values(data, rows, out, source)
    edges = out.edges[:entries]
    for name, chosen in ((ATTRIBUTES, ~edges), (EDGE, edges)):
        offsets = pa.array(np.concatenate([[0], np.cumsum(chosen)])[out.offsets[: rows + 1]])
        begins, ends = out.name_ends[:entries][chosen], out.name_ends[1 : entries + 1][chosen]
        columns[name] = pa.LargeListArray.from_arrays(offsets, symbols_of(out.names, begins, ends))
        if (values[chosen] != 1.0).any():
            columns[name + VALUES_SUFFIX] = pa.LargeListArray.from_arrays(offsets, pa.array(values[chosen]))
    return pa.RecordBatch.from_pydict(columns)


def _values(data: NDArray[np.uint8], rows: int, out: AttributeArrays, source: str) -> NDArray[np.float64]:
    """The value of each entry, one where none is written; each distinct text is read once."""
    entries = int(out.offsets[rows])
    values = np.ones(entries)
    given = np.flatnonzero(out.value_begins[:entries] >= 0)
    if given.size:
        texts = symbols_of(data, out.value_begins[given], out.value_ends[given])
        known = ~not_numbers(texts.dictionary)
        numbers = np.full(known.size, np.nan)
        numbers[known] = texts.dictionary.filter(pa.array(known)).cast(pa.float64()).to_numpy()
        values[given] = numbers[texts.indices.to_numpy()]
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            raise _no_value(data, wrong, rows, out, source)
    return values


def _no_value(
    data: NDArray[np.uint8], wrong: NDArray[np.int64], rows: int, out: AttributeArrays, source: str
) -> BadFile:
    """wrong: the entries whose values are no finite numbers."""
    entry = int(wrong[0])
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
