"""The vocabulary while it grows: tables of strings, order by count, counts and marks as they grow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfold.chain.builder import HashedNames, by_falling_count
from chainfold.chain.strings import StringTable, spans
from chainfold.errors import BadSetting


def texts(count: int) -> list[str]:
    """Different texts of all sizes, the empty one too."""
    return [""] + [f"{k:x}" + "…" * (k % 7) for k in range(count - 1)]


@pytest.mark.parametrize("count", [1, 31, 32, 33, 5000, 40_000])
def test_strings_are_found_where_they_were_entered(count: int) -> None:
    known, others = texts(count), [f"{k:x}!" for k in range(count)]
    for table in (StringTable.of(pa.array(known)), StringTable()):
        assert table.codes_of(pa.array(known)).tolist() == list(range(count))
        mixed = [*others[: count // 2], *known[::-1], *others[count // 2 :]]
        expected = {text: code for code, text in enumerate(known)}
        assert table.found(*spans(pa.array(mixed))).tolist() == [expected.get(text, -1) for text in mixed]
        assert table.strings().to_pylist() == known


def test_a_table_made_at_once_takes_more_strings() -> None:
    first, more = texts(1024), [f"more {k}" for k in range(3000)]
    table = StringTable.of(pa.array(["cut off", *first])[1:])
    assert table.codes_of(pa.array([*more, *first])).tolist() == [*range(1024, 4024), *range(1024)]
    assert len(StringTable.of(pa.array([], pa.string()))) == 0


@given(st.lists(st.integers(1, 9) | st.integers(65_530, 65_540) | st.integers(10**6, 10**12)), st.integers(1, 10))
def test_by_falling_count_is_a_stable_sort(counts: list[int], least: int) -> None:
    expected = [k for k in sorted(range(len(counts)), key=lambda k: -counts[k]) if counts[k] >= least]
    assert by_falling_count(np.array(counts, np.int64), least).tolist() == expected


@pytest.mark.parametrize("bits", [0, 25])
def test_hash_bits_within_reason(bits: int) -> None:
    with pytest.raises(BadSetting, match="hash_bits"):
        HashedNames(bits)
