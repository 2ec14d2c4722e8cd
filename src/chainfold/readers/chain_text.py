"""A chain back as text, in CRFsuite's attribute lines:

    label TAB attribute TAB attribute:value … TAB @edge TAB edge attribute …

A blank line stands between sequences, an empty field for an unknown label, a plain number for what has no name. In a
name `\\` and `:` have a `\\` before them, and so has an `@` at its beginning. A value of one is left out. `@edge` comes
before edge attributes, and where a line would be blank without it. The reader of these lines gives the same chain, but
for weights of sequences, which are left out.

The text of a block is a row of tokens, taken from an Arrow array by their numbers, so that its bytes are the text.
"""

from __future__ import annotations

import io
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL, Block, Source, check_block, vocabulary_of
from chainfold.chain.vocabulary import label_names
from chainfold.errors import BadChain

_TEXT = pa.large_string()
_NOTHING, _NEWLINE, _EDGE, _UNKNOWN = range(4)  # tokens before those of the labels
_FIXED = ["", "\n", "\t@edge", ""]
_ENTRIES_AT_ONCE = 1 << 18
_POSITIONS_AT_ONCE = 1 << 16


def write_lines(source: Source, out: IO[Any]) -> None:
    """Write the source's positions to a text or binary file."""
    lines = Lines(source)
    rows = int(min(max(_ENTRIES_AT_ONCE // max(source.active, 1.0), 1), _POSITIONS_AT_ONCE))
    for low in range(0, source.positions, rows):
        text = lines.text(low, min(low + rows, source.positions))
        out.write(text.decode() if isinstance(out, io.TextIOBase) else text)


class Lines:
    """The texts of a source's labels and attributes, and its positions put together from them."""

    def __init__(self, source: Source) -> None:
        self._source = source
        vocabulary = vocabulary_of(source)
        labels = label_names(vocabulary, source.n_labels)
        _refuse("label", pa.array(labels, _TEXT), r"[\t\n\r]|^ *$|^@.")
        self._tokens = pa.array([*_FIXED, *labels], _TEXT)
        self._names = _fields(None if vocabulary is None else vocabulary.attributes)
        self._edge_names = _fields(None if vocabulary is None else vocabulary.edge_attributes)

    def text(self, low: int, high: int) -> bytes:
        """The lines of positions low … high-1."""
        source = self._source
        block = source.block(low, high)
        check_block(block, low, high, source.n_labels, source.n_attributes, source.n_edge_attributes)
        state = _texts(self._names, block.offsets, block.ids, block.values)
        edge = _texts(self._edge_names, block.edge_offsets, block.edge_ids, block.edge_values)
        order = _order(block, len(self._tokens), first=low == 0)
        text = pa.concat_arrays([self._tokens, state, edge]).take(pa.array(order))
        return bytes(text.buffers()[2])


def _fields(names: Any) -> Any:
    """Each name as it is written, a tab before it; None where there are none."""
    if names is None:
        return None
    _refuse("attribute", names, r"[\t\n\r]|^ *$")
    for character in ("\\", ":"):
        names = pc.replace_substring(names, character, f"\\{character}")
    names = pc.replace_substring_regex(names, "^@", r"\\@")
    return _joined(_scalar("\t"), names)


def _refuse(kind: str, names: Any, pattern: str) -> None:
    """Raise if a name would not be read back as itself."""
    wrong = pc.index(pc.match_substring_regex(names, pattern), True).as_py()
    if wrong >= 0:
        raise BadChain(
            f"{kind} {names[wrong].as_py()!r} cannot be written in lines of attributes: a name there is not blank and "
            f"has no tabs and line ends, and a label does not begin with @."
        )


def _texts(names: Any, offsets: NDArray[np.int64], ids: NDArray[np.int32], values: NDArray[np.float64]) -> Any:
    """The field of each entry, a tab before it."""
    if not offsets.size:
        return pa.array([], _TEXT)
    part = slice(offsets[0], offsets[-1])
    numbers = pa.array(ids[part])
    fields = _joined(_scalar("\t"), numbers.cast(_TEXT)) if names is None else names.take(numbers)
    if not values.size:
        return fields
    shown = _joined(_scalar(":"), pa.array(values[part]).cast(_TEXT))
    return _joined(fields, pc.if_else(pa.array(values[part] == 1.0), _scalar(""), shown))


def _order(block: Block, first_entry: int, first: bool) -> NDArray[np.int64]:
    """The tokens of the lines: a blank line?, label, attributes, @edge?, edge attributes, line end."""
    attributes = np.diff(block.offsets)
    edges = np.diff(block.edge_offsets) if block.edge_offsets.size else np.zeros_like(attributes)
    ends = np.cumsum(attributes + edges + 4)
    begins = ends - attributes - edges - 4
    starts = block.starts.copy()
    starts[0] &= not first
    blank = (block.labels == NO_LABEL) & (attributes == 0)
    order = np.empty(int(ends[-1]), np.int64)
    order[begins] = np.where(starts, _NEWLINE, _NOTHING)
    order[begins + 1] = block.labels + (_UNKNOWN + 1)
    order[begins + 2 + attributes] = np.where((edges > 0) | blank, _EDGE, _NOTHING)
    order[ends - 1] = _NEWLINE
    entries = int(attributes.sum())
    order[_runs(begins + 2, attributes)] = np.arange(entries) + first_entry
    order[_runs(begins + 3 + attributes, edges)] = np.arange(int(edges.sum())) + (first_entry + entries)
    return order


def _runs(begins: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """begins[i], begins[i] + 1, …, counts[i] of them, for each i."""
    before = np.cumsum(counts) - counts
    return np.asarray(np.repeat(begins - before, counts) + np.arange(int(counts.sum())))


def _scalar(text: str) -> Any:
    return pa.scalar(text, _TEXT)


def _joined(left: Any, right: Any) -> Any:
    return pc.binary_join_element_wise(left, right, _scalar(""))
