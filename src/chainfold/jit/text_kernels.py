"""Where the fields are in text: columns of words, lines of attributes, rows of quoted fields.

Each kernel takes whole lines of UTF-8, the last one with its line end, and gives places in them. A fault of a line is
reported, with the line, in `state`; the rows before it are good. A state also carries over
from one chunk of a file to the next: is a start mark due, what did the first line look like.

A place that begins as the literal 0 would have numba compile each function it is given to twice, for the literal and
for any number; hence `_FIRST`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.jit.decorator import OK, STRICT, kernel

_NEWLINE, _RETURN, _TAB, _SPACE = 10, 13, 9, 32
_HASH, _DASH, _DOT, _COLON, _BACKSLASH, _AT = 35, 45, 46, 58, 92, 64
_DOCSTART = np.frombuffer(b"-DOCSTART-", np.uint8)
_EDGE = np.frombuffer(b"@edge", np.uint8)
_FIRST = np.int64(0)

# A state: what carries over from chunk to chunk, and the first fault, its line and the columns of that line.
START, TABS, COLUMNS, FAULT, FAULT_LINE, FAULT_COLUMNS = range(6)
HEAD, SEEN, LAST = 6, 7, 8  # no row yet? Which comments were seen? Did the last sequence begin with a lone '#'?
STATE_SIZE = 9
UNKNOWN = -1
AMBIGUOUS, RAGGED, DECLARATION, NAMELESS, VALUELESS = 1, 2, 3, 4, 5  # faults of a line; OK: none
_LONE, _JOINED = 1, 2  # how comments look: '# …' or '#…'


class ConllArrays(NamedTuple):
    """The arrays that `conll_rows` fills, row by row."""

    begins: NDArray[np.int64]  # [at least rows * columns]
    ends: NDArray[np.int64]
    lines: NDArray[np.int64]  # [at least rows]
    starts: NDArray[np.bool_]


class AttributeArrays(NamedTuple):
    """The arrays that `attribute_rows` fills."""

    names: NDArray[np.uint8]  # the names of the attributes one after another, without escapes
    name_ends: NDArray[np.int64]  # [entries + 1]
    value_begins: NDArray[np.int64]  # [entries]: where its value is in the text, or -1
    value_ends: NDArray[np.int64]
    edges: NDArray[np.bool_]  # [entries]: is it an edge attribute?
    offsets: NDArray[np.int64]  # [rows + 1]: the entries of each row
    label_begins: NDArray[np.int64]  # [rows]
    label_ends: NDArray[np.int64]
    lines: NDArray[np.int64]
    starts: NDArray[np.bool_]


@kernel(fastmath=STRICT, inline=True)
def place_of(byte: Any, data: Any, low: Any, high: Any) -> Any:
    """The first place of a byte in data[low : high], or `high`."""
    while low < high and data[low] != byte:
        low += 1
    return low


@kernel(fastmath=STRICT)
def after_blanks(data: Any, at: Any, high: Any) -> Any:
    """The next place that is neither a space nor a tab."""
    while at < high and (data[at] == _SPACE or data[at] == _TAB):
        at += 1
    return at


@kernel(fastmath=STRICT)
def begins_with(data: Any, low: Any, high: Any, word: Any) -> Any:
    """Whether data[low : high] begins with the word."""
    k = 0
    while k < word.size and low + k < high and data[low + k] == word[k]:
        k += 1
    return k == word.size


@kernel(fastmath=STRICT)
def split(data: Any, low: Any, high: Any, tabs: Any, begins: Any, ends: Any, base: Any, most: Any) -> Any:
    """Write the first `most` fields of data[low : high] from `base` on; returns how many there are in all."""
    count = 0
    at = low if tabs else after_blanks(data, low, high)
    while at < high or (tabs and at == high):
        begin = at
        while at < high and data[at] != _TAB and (tabs or data[at] != _SPACE):
            at += 1
        if count < most:
            begins[base + count] = begin
            ends[base + count] = at
        count += 1
        at = at + 1 if tabs else after_blanks(data, at, high)
    return count


@kernel(fastmath=STRICT, inline=True)
def is_inserted(data: Any, low: Any, high: Any) -> Any:
    """Whether this is the number of a multiword token or an empty node, 3-4 or 3.1."""
    return place_of(_DASH, data, low, high) < high or place_of(_DOT, data, low, high) < high


@kernel(fastmath=STRICT, inline=True)
def is_comment(data: Any, low: Any, high: Any, comments: Any) -> Any:
    """Whether the line begins with the prefix of comments; no line does where that is empty."""
    return comments.size > 0 and begins_with(data, low, high, comments)


@kernel(fastmath=STRICT, inline=True)
def may_be_comment(data: Any, low: Any, state: Any) -> Any:
    """Comments stand before sequences and begin with '#', where nothing else is known of them."""
    return state[START] == 1 and data[low] == _HASH


@kernel(fastmath=STRICT)
def is_lone_hash(data: Any, low: Any, high: Any) -> Any:
    """Whether the first field of the line is '#' and no more."""
    return low + 1 == high or data[low + 1] == _SPACE or data[low + 1] == _TAB


@kernel(fastmath=STRICT)
def conll_rows(data: Any, line: Any, universal: Any, comments: Any, guess: Any, state: Any, out: Any) -> Any:
    """The fields of every line that is a row; returns the number of rows, up to a line of another width.

    guess: a line that may be a comment is one if it is of another width. If it is not, it is a row, unless it comes
    before the first row of the input, after a comment that looked alike, or for the second time in a row with a lone
    '#': then it is ambiguous.
    """
    rows, at = 0, _FIRST
    while at < data.size:
        low, high = at, place_of(_NEWLINE, data, at, data.size)
        at, line = high + 1, line + 1
        if high > low and data[high - 1] == _RETURN:
            high -= 1
        first = after_blanks(data, low, high)
        if first == high or begins_with(data, first, high, _DOCSTART):
            state[START] = 1
            continue
        if is_comment(data, low, high, comments):
            continue
        lone = False
        if guess and may_be_comment(data, low, state):
            lone = is_lone_hash(data, low, high)
            look = _LONE if lone else _JOINED
            known = state[COLUMNS] != UNKNOWN and state[TABS] != UNKNOWN
            if known and split(data, low, high, state[TABS] == 1, out.begins, out.ends, 0, 0) != state[COLUMNS]:
                state[SEEN] |= look
                continue
            if not known or state[HEAD] == 1 or state[SEEN] & look or (lone and state[LAST] == 1):
                state[FAULT_LINE], state[FAULT] = line - 1, AMBIGUOUS
                break
        if state[TABS] == UNKNOWN:
            state[TABS] = place_of(_TAB, data, low, high) < high
        most = high - low + 1 if state[COLUMNS] == UNKNOWN else state[COLUMNS]
        base = rows * state[COLUMNS] if rows else 0
        count = split(data, low, high, state[TABS] == 1, out.begins, out.ends, base, most)
        if state[COLUMNS] == UNKNOWN:
            state[COLUMNS] = count
        if count != state[COLUMNS]:
            state[FAULT_LINE], state[FAULT], state[FAULT_COLUMNS] = line - 1, RAGGED, count
            break
        if universal and is_inserted(data, out.begins[base], out.ends[base]):
            continue
        out.lines[rows] = line - 1
        out.starts[rows] = state[START] == 1
        if state[START] == 1:
            state[LAST] = 1 if lone else 0
        state[START] = state[HEAD] = 0
        rows += 1
    return rows


@kernel(fastmath=STRICT)
def attribute(data: Any, low: Any, high: Any, entry: Any, out: Any) -> Any:
    """Enter the attribute data[low : high], `name` or `name:value`; returns its fault, or OK."""
    target, k = out.name_ends[entry], low
    while k < high and data[k] != _COLON:
        if data[k] == _BACKSLASH and k + 1 < high:
            follows = data[k + 1]
            if follows in (_COLON, _BACKSLASH) or (follows == _AT and k == low):
                k += 1
        out.names[target] = data[k]
        target += 1
        k += 1
    out.value_begins[entry] = k + 1 if k < high else -1
    out.value_ends[entry] = high
    out.name_ends[entry + 1] = target
    if target == out.name_ends[entry]:
        return NAMELESS
    return VALUELESS if k + 1 == high else OK


@kernel(fastmath=STRICT)
def attribute_rows(data: Any, line: Any, comments: Any, guess: Any, state: Any, out: Any) -> Any:
    """The label and the attributes of every line; returns the number of rows, up to a line with something wrong.

    guess: a line that may be a comment and has no attributes is ambiguous.
    """
    rows, entry, at = 0, _FIRST, _FIRST
    out.offsets[0] = out.name_ends[0] = 0
    while at < data.size and state[FAULT] == OK:
        low, high = at, place_of(_NEWLINE, data, at, data.size)
        at, line = high + 1, line + 1
        if high > low and data[high - 1] == _RETURN:
            high -= 1
        if after_blanks(data, low, high) == high:
            state[START] = 1
            continue
        if is_comment(data, low, high, comments):
            continue
        if guess and may_be_comment(data, low, state) and place_of(_TAB, data, low, high) == high:
            state[FAULT] = AMBIGUOUS
        edge, field, number = False, low, 0
        while field <= high and state[FAULT] == OK:
            end = place_of(_TAB, data, field, high)
            declares = end - field > 1 and data[field] == _AT
            if number > 0 and end - field == _EDGE.size and begins_with(data, field, end, _EDGE):
                edge = True
            elif declares:
                state[FAULT] = DECLARATION
            elif number == 0:
                out.label_begins[rows], out.label_ends[rows] = field, end
            elif end > field:
                state[FAULT] = attribute(data, field, end, entry, out)
                out.edges[entry] = edge
                entry += 1
            field, number = end + 1, number + 1
        if state[FAULT] != OK:
            state[FAULT_LINE] = line - 1
            break
        out.lines[rows] = line - 1
        out.starts[rows] = state[START] == 1
        state[START] = 0
        rows += 1
        out.offsets[rows] = entry
    return rows


@kernel(fastmath=STRICT)
def quoted_rows(data: Any, begin: Any, delimiter: Any, quote: Any, begins: Any, ends: Any) -> Any:
    """The places of each row that is not blank, from `begin` on; quotes may hold line ends.

    Returns the number of rows, and the place after the last line end that no quotes hold.
    """
    rows, row_begin = 0, begin
    quoted, may_open = False, True  # a quote opens at the beginning of a field, or doubled
    for k in range(begin, data.size):
        byte = data[k]
        if quoted:
            quoted = byte != quote
            may_open = True
        elif byte in (_NEWLINE, _RETURN):
            if k > row_begin:
                begins[rows], ends[rows] = row_begin, k
                rows += 1
            row_begin, may_open = k + 1, True
        else:
            quoted = may_open and byte == quote
            may_open = byte == delimiter
    return rows, row_begin
