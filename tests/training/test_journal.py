"""The journal of online runs: whole records come back, a torn end is cut off, damage is a sentence, no row is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainfold.chain.block import join_blocks
from chainfold.chain.chain import Chain
from chainfold.errors import BadFile
from chainfold.training.online import journal as module
from chainfold.training.online.journal import Journal, JournalReader, Record
from chainfold.training.online.row_arrays import arrays_of
from chainfold.training.online.share import NOTHING
from shapes import chain as random_chain

ATTRIBUTES, NAMES = 40, ["x", "y", "z"]


def a_chain(positions: int) -> Chain:
    random = np.random.default_rng(0)
    return random_chain(random, positions, len(NAMES), ATTRIBUTES, starts=random.random(positions) < 0.1)


def record(chain: Chain, low: int, settled: int, end: int) -> Record:
    """Rows low … settled-1, and those up to the end wait."""
    waiting = NOTHING if settled == end else join_blocks([chain.block(settled, end)])
    return Record(low, NAMES, NOTHING if low == settled else join_blocks([chain.block(low, settled)]), waiting)


def written(path: Path, *records: Record) -> list[int]:
    """A journal, and where each record ends."""
    path.unlink(missing_ok=True)
    ends = []
    with Journal(path) as journal:
        for one in records:
            journal.append(one)
            ends.append(journal.size)
            assert path.stat().st_size == journal.size
    return ends


def put(path: Path, data: bytes) -> None:
    """Other bytes in the file; some systems take long to truncate it first."""
    with path.open("r+b", buffering=0) as file:
        file.write(data)
        file.truncate()


def rows_of(path: Path) -> list[tuple[int, int]]:
    return [(one.first, one.end) for one in JournalReader(path, ATTRIBUTES).records()]


def test_a_journal_gives_back_what_was_written(tmp_path: Path) -> None:
    chain, path = a_chain(30), tmp_path / "journal"
    with Journal(path) as journal:
        journal.append(Record(0, NAMES, NOTHING))
        assert not path.exists(), "there is nothing to keep"
        journal.append(record(chain, 0, 20, 20))
    (one,) = JournalReader(path, ATTRIBUTES).records()
    kept: list[tuple[Any, Any]] = list(zip(one.block, join_blocks([chain.block(0, 20)]), strict=True))
    assert (one.first, one.labels) == (0, NAMES)
    assert all(np.array_equal(a, b) for a, b in kept)
    with Journal(path, path.stat().st_size) as journal:
        journal.append(record(chain, 20, 30, 30))
        assert rows_of(path) == [(0, 20), (20, 30)]
        journal.clear()
        assert path.stat().st_size == journal.size == 0
        journal.append(record(chain, 0, 10, 10))
    assert rows_of(path) == [(0, 10)]
    assert not rows_of(tmp_path / "none")


def test_rows_that_waited_count_where_the_next_record_begins_after_them(tmp_path: Path) -> None:
    chain, path = a_chain(30), tmp_path / "journal"
    records = [(0, 10, 11), (10, 10, 12), (10, 18, 20), (20, 25, 27)]  # the third was the last of a run
    written(path, *(record(chain, *one) for one in records))
    assert rows_of(path) == [(0, 10), (10, 10), (10, 20), (20, 27)]
    found = join_blocks([one.block for one in JournalReader(path, ATTRIBUTES).records()])
    assert np.array_equal(found.ids, join_blocks([chain.block(0, 27)]).ids)


def test_a_torn_end_is_left_out_wherever_it_was_torn(tmp_path: Path) -> None:
    chain, path = a_chain(12), tmp_path / "journal"
    first, end = written(path, record(chain, 0, 6, 7), record(chain, 6, 12, 12))
    data = path.read_bytes()
    for cut in range(end):
        whole = first if cut >= first else 0
        for tail in (b"", bytes(3) if cut % 2 else bytes(5000)):  # a machine without power leaves zeros
            put(path, data[:cut] + tail)
            found = JournalReader(path, ATTRIBUTES)
            assert [one.end for one in found.records()] == ([7] if whole else [])
            assert (found.whole, found.torn) == (whole, cut + len(tail) - whole)
            assert path.stat().st_size == cut + len(tail), "reading changes nothing"
    with Journal(path, first) as journal:
        journal.append(record(chain, 6, 12, 12))
    assert path.read_bytes() == data, "what is torn is cut off by whoever writes next"


def test_pages_that_never_reached_the_disk_are_a_torn_end(tmp_path: Path) -> None:
    """The file has its length, and zeros in place of its last pages."""
    chain, path = a_chain(12), tmp_path / "journal"
    first, end = written(path, record(chain, 0, 6, 7), record(chain, 6, 12, 12))
    data = path.read_bytes()
    for cut in range(first, end - 8):
        put(path, data[:cut].ljust(end, b"\0"))
        assert rows_of(path) == [(0, 7)]


def test_every_flipped_bit_is_found_and_nothing_is_lost(tmp_path: Path) -> None:
    chain, path = a_chain(3), tmp_path / "journal"
    ends = written(path, record(chain, 0, 1, 2), record(chain, 1, 2, 3))
    data = path.read_bytes()
    for bit in range(8 * len(data)):
        at, flipped = bit // 8, bytearray(data)
        flipped[at] ^= 1 << bit % 8
        put(path, bytes(flipped))
        number = sum(end <= at for end in ends)
        begin, rows = [0, *ends][number], [0, 2][number]
        with pytest.raises(BadFile) as raised:
            rows_of(path)
        assert str(raised.value) == (
            f"{path}: record {number + 1}, from byte {begin:,} on, is damaged; restore the file, or cut it there "
            f"(truncate -s {begin}) to go on with its {rows} rows before that, or discard the run with `fresh`."
        )
        assert path.read_bytes() == flipped


Change = Callable[[dict[str, Any], dict[str, Any]], object]


def forged(path: Path, change: Change, monkeypatch: Any) -> None:
    """A journal whose second record says something else, under checksums that are right."""
    chain, dumps = a_chain(12), json.dumps

    def arrays(*blocks: Any) -> dict[str, Any]:
        kept = {name: array.copy() for name, array in arrays_of(*blocks).items()}
        change({}, kept)
        return kept

    def said(about: dict[str, Any]) -> str:
        change(about, {})
        return dumps(about)

    written(path, record(chain, 0, 6, 6))
    monkeypatch.setattr(module, "arrays_of", arrays)
    monkeypatch.setattr(json, "dumps", said)
    with Journal(path, path.stat().st_size) as journal:
        journal.append(record(chain, 6, 11, 12))
    monkeypatch.undo()


def says(name: str, value: Any) -> Change:
    """Something else in the JSON."""
    return lambda about, arrays: about.update({name: value} if about else {})


def holds(name: str, value: Any, at: int) -> Change:
    """Something else in an array."""
    return lambda about, arrays: arrays and arrays[name].__setitem__(at, value)


def has(name: str, make: Callable[[Any], Any]) -> Change:
    """Another array."""
    return lambda about, arrays: arrays.update({name: make(arrays[name])} if arrays else {})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (says("first", 5), "begins with row 6, which does not follow on those before it"),
        (says("first", 7), "begins with row 8, which does not follow on those before it"),
        (says("first", -1), "its sizes are missing"),
        (says("first", "6"), "its sizes are missing"),
        (says("first", True), "its sizes are missing"),
        (says("first", 10**40), "its sizes are missing"),
        (says("settled", 13), "it has fewer rows than it says"),
        (says("settled", 1.0), "its sizes are missing"),
        (says("sizes", None), "its sizes are missing"),
        (says("sizes", [1]), "its sizes are missing"),
        (says("sizes", [0, 0, 1, 0, 0]), "its sizes are not those of its rows"),
        (says("sizes", [2**61] * 5), "its sizes are not those of its rows"),
        (says("labels", {"x": 1}), "its labels have no names"),
        (says("labels", ["x", 2]), "its labels have no names"),
        (says("labels", ["x", "z", "y"]), "has other labels than the run before it"),
        (says("labels", ["x", "y", "z", "z"]), "has other labels than the run before it"),
        (says("labels", ["x"]), "its labels are not all from 0 to"),
        (holds("labels", 3, 0), "its labels are not all from 0 to"),
        (holds("labels", -1, 0), "its labels are not all from 0 to"),
        (holds("ids", ATTRIBUTES, -1), "its ids are not all from 0 to"),
        (holds("ids", -5, 0), "its ids are not all from 0 to"),
        (holds("offsets", 1, 0), "its offsets do not go from 0 to"),
        (holds("offsets", 10**9, 3), "its offsets do not go from 0 to"),
        (holds("offsets", 10**9, -1), "its offsets do not go from 0 to"),
        (has("offsets", lambda offsets: offsets[:-1]), "its rows are not all there"),
        (has("starts", lambda starts: starts[:-1]), "its rows are not all there"),
        (
            has("starts", lambda starts: np.full(starts.size, 7, np.uint8).view(np.bool_)),
            "its starts are not all",
        ),
        (has("values", lambda values: np.full(max(values.size, 1), np.nan)), "its values are not"),
        (has("values", lambda values: np.ones(1)), "its values are not"),
    ],
)
def test_a_record_of_somebody_else_is_a_sentence(change: Any, why: str, tmp_path: Path, monkeypatch: Any) -> None:
    forged(tmp_path / "journal", change, monkeypatch)
    data = (tmp_path / "journal").read_bytes()
    with pytest.raises(BadFile) as raised:
        rows_of(tmp_path / "journal")
    assert why in str(raised.value)
    assert "to go on with its 6 rows before that" in str(raised.value)
    assert (tmp_path / "journal").read_bytes() == data


@pytest.mark.parametrize("text", [b"[]", b"{}", b"3", b"", b"\xff", b"[" * 100_000, b'{"first": 0}'])
def test_a_body_that_is_no_record_is_a_sentence(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for length in (len(text), 0, 2**63):
        body = length.to_bytes(8, "little") + text + b"end.rows"
        head = len(body).to_bytes(8, "little") + module._digest(body)
        path.write_bytes(head + module._digest(head) + b"cfrows.2" + body)
        with pytest.raises(BadFile, match=r"record 1, from byte 0 on, is invalid; restore the file"):
            rows_of(path)
