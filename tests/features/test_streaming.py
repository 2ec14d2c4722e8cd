"""Rows as they come: the same numbers as from a whole file, as soon as they can be known, whatever is in between."""

from __future__ import annotations

import io
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainfold as cf
from chainfold.chain.block import Block, KnownBlock, join_blocks
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadFile, BadSetting, ChainfoldError
from chainfold.features.for_model import ChainBlocks, ModelBlocks, blocks_for_model
from chainfold.features.row_encoder import RowEncoder
from chainfold.features.streaming import live_rows
from chainfold.readers.annotate import Annotator
from chainfold.readers.inputs import Inputs
from chainfold.readers.live import OnError

pytestmark = pytest.mark.quick

CONLL = "the DT B\ncat NN I\n\nsat VB O\r\n\n\non IN O\na DT B\nmat NN I\n"
CSV = 'size,colour,label\n1,"re""d, or so",x\n2,,x\n\n,blue,y\n4,red,x\n1e2,blue,\n'
NAMES = ["word", "pos", "chunk"]
WINDOW = "word[-1] word|pos lower(word)[1] pos[2]"
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "conll": (CONLL, {"columns": NAMES, "attributes": WINDOW}),
    "crfpp": (CONLL, {"columns": NAMES, "attributes": WINDOW, "border": "wapiti"}),
    "crfsuite": ("A\tx:2\ty\n\nB\ty\t@edge\tjoin\nA\tz\\:1\n", {}),
    "csv": (CSV, {"attributes": "size colour[-1] colour|colour[1]", "label": "label", "format": "csv"}),
    "tsv": (
        CSV.replace("d, or", "d or").replace(",", "\t"),
        {"attributes": "size[1] colour", "label": "label", "format": "tsv"},
    ),
    "group": (
        "a x u\nb x v\n\nc y u\nd y v\n",
        {"columns": ["w", "g", "l"], "attributes": "w[-1] w w[2]", "group": "g"},
    ),
    "one": (
        "a x u\nb x v\n\nc y u\nd y v\n",
        {"columns": ["w", "g", "l"], "attributes": "w w[1]", "one_sequence": True},
    ),
}


def model_of(text: str | bytes, tmp_path: Path, **options: Any) -> Vocabulary:
    data = text if isinstance(text, bytes) else text.encode()
    vocabulary = cf.encode(io.BytesIO(data), tmp_path / "model.chain", **options).vocabulary
    assert vocabulary is not None
    return vocabulary


def case(name: str, tmp_path: Path) -> tuple[bytes, Vocabulary, dict[str, Any]]:
    text, options = CASES[name]
    reading: dict[str, Any] = {"format": name} if name in ("csv", "tsv") else {}
    return text.encode(), model_of(text, tmp_path, **options), reading


def everything(blocks: list[KnownBlock]) -> tuple[list[Any], ...]:
    """What there is at each position."""
    entries, edges = [], []
    for block, *_ in blocks:
        values = block.values if block.values.size else np.ones(block.ids.size)
        entries += [
            list(zip(block.ids[low:high].tolist(), values[low:high].tolist(), strict=True))
            for low, high in pairwise(block.offsets)
        ]
        offsets = block.edge_offsets
        edges += [block.edge_ids[a:b].tolist() for a, b in pairwise(offsets)]
    starts = [bool(start) for one in blocks for start in one.block.starts]
    return [int(label) for one in blocks for label in one.gold], starts, entries, edges


def soon(blocks: Iterator[KnownBlock]) -> KnownBlock:
    """The next block, which comes within seconds or not at all."""
    found: queue.Queue[KnownBlock] = queue.Queue()
    threading.Thread(target=lambda: found.put(next(blocks)), daemon=True).start()
    return found.get(timeout=10)


class Pipe:
    """A pipe with what is written to it, and the blocks that come out."""

    def __init__(self, vocabulary: Vocabulary, data: bytes = b"", **options: Any) -> None:
        self._out, self._in = os.pipe()
        self.write(data)
        self._file = os.fdopen(self._out, "rb", buffering=0)
        self._make: Callable[[], ModelBlocks | ChainBlocks] = lambda: live_rows(self._file, vocabulary, **options)
        self._blocks: Iterator[KnownBlock] | None = None

    def write(self, data: bytes) -> None:
        if data:
            os.write(self._in, data)

    def next(self) -> KnownBlock:
        self._blocks = self._blocks or iter(self._make())
        return soon(self._blocks)

    def rest(self) -> list[KnownBlock]:
        os.close(self._in)
        self._blocks = self._blocks or iter(self._make())
        found = list(self._blocks)
        self._file.close()
        return found


def dripped(data: bytes, cuts: list[int], vocabulary: Vocabulary, **options: Any) -> list[KnownBlock]:
    """The blocks of data that comes in pieces, each of which is read before the next one comes."""
    return list(live_rows(Dripping(data, cuts), vocabulary, **options))


class Dripping(io.RawIOBase):
    """A file that gives its bytes piece by piece."""

    def __init__(self, data: bytes, cuts: list[int]) -> None:
        ends = sorted({cut for cut in cuts if 0 < cut < len(data)} | {len(data)})
        self._pieces = [data[low:high] for low, high in zip([0, *ends], ends, strict=False)]

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


@pytest.mark.parametrize("name", CASES)
def test_any_pieces_give_what_the_whole_gives(name: str, tmp_path: Path) -> None:
    data, vocabulary, reading = case(name, tmp_path)
    expected = everything(list(blocks_for_model(io.BytesIO(data), vocabulary, **reading)))
    random = np.random.default_rng(3)
    by_lines = [k + 1 for k, byte in enumerate(data) if byte == 10]
    cuts = [list(range(len(data))), by_lines, [], *(random.integers(0, len(data), 5).tolist() for _ in range(10))]
    for some in cuts:
        assert everything(dripped(data, some, vocabulary, **reading)) == expected
    pipe = Pipe(vocabulary, data.removesuffix(b"\n"), **reading)
    assert everything(pipe.rest())[2:] == expected[2:], "the last line may have no line end"


def test_rows_come_as_soon_as_their_context_is_known_and_a_blank_line_ends_them(tmp_path: Path) -> None:
    vocabulary = model_of(CONLL, tmp_path, columns=NAMES, attributes="word[-1] word word[1]")
    pipe = Pipe(vocabulary, b"the DT B\ncat NN I\nsat")
    first = pipe.next()
    assert first.gold.size == 1
    assert not first.ended
    pipe.write(b" VB O\n")
    assert pipe.next().gold.size == 1
    pipe.write(b"\n")
    last = pipe.next()
    assert (last.gold.size, last.ended) == (1, True)
    pipe.write(b"on IN O\n\n")
    both = pipe.next()
    assert (both.gold.size, both.ended, both.block.starts.tolist()) == (1, True, [True])
    assert pipe.rest() == []


def test_a_blank_line_alone_ends_a_sequence_whose_rows_were_given(tmp_path: Path) -> None:
    vocabulary = model_of(CONLL, tmp_path, columns=NAMES, attributes="word", border="crfpp")
    pipe = Pipe(vocabulary, b"the DT B\n")
    assert not pipe.next().ended
    pipe.write(b"\n")
    end = pipe.next()
    assert (end.gold.size, end.ended, end.block.offsets.tolist()) == (0, True, [0])
    pipe.write(b"\n\ncat NN I\n")
    again = pipe.next()
    assert (again.block.starts.tolist(), again.ended) == ([True], False)
    assert pipe.rest() == []


def test_nothing_ends_where_all_is_one_sequence_and_a_new_group_ends_the_last(tmp_path: Path) -> None:
    for name, expected in (("one", [1, 1, 1, 1]), ("group", [2, 2])):
        data, vocabulary, _ = case(name, tmp_path)
        lines = data.splitlines(keepends=True)
        blocks = dripped(data, list(np.cumsum([len(line) for line in lines])), vocabulary)
        assert [one.ended for one in blocks[:-1]] == [False] * (len(blocks) - 1)
        assert [size for one in blocks if (size := one.gold.size)] == expected


def test_what_is_no_text_is_refused_in_a_sentence(tmp_path: Path) -> None:
    _, vocabulary, _ = case("conll", tmp_path)
    for data, words in (
        (b"\x1f\x8b\x08\x00", "decompress it first"),
        (b"PAR1\x15\x04", "is parquet"),
        (b"", "is empty"),
        (b"\n\n", "has only blank lines"),
    ):
        with pytest.raises(BadFile, match=words):
            dripped(data, list(range(len(data))), vocabulary)
    with pytest.raises(BadFile, match="parquet cannot be read while it is written"):
        live_rows(io.BytesIO(b""), vocabulary, format="parquet")
    with pytest.raises(BadSetting, match="on_error is 'ignore'"):
        live_rows(io.BytesIO(b""), vocabulary, on_error="ignore")
    with pytest.raises(BadSetting, match="on_error is 'unknown', but must be stop or skip"):
        dripped(b'{"0": "a"}\n', [], vocabulary, on_error="unknown", format="jsonl")
    with pytest.raises(ChainfoldError, match="there is no option"):
        live_rows(io.BytesIO(b""), vocabulary, nonsense=1)
    with pytest.raises(BadFile, match="has 5 columns without names"):
        dripped(b"a b c d e\n", [], vocabulary)


def test_the_first_line_alone_tells_the_format(tmp_path: Path) -> None:
    lines, universal = tmp_path / "lines.crfsuite", "# c\n1\tit\tit\tPRON\t_\t_\t0\troot\t_\t_\n"
    lines.write_text("A\tx\ty\n")
    bags = model_of("A\tx\ty\n", tmp_path, format="crfsuite")
    assert everything(dripped(b"A\tx\ty\n", [], bags))[2] == everything(list(blocks_for_model(lines, bags)))[2]
    words = model_of(universal, tmp_path)
    [one] = dripped(universal.encode(), list(range(200)), words)
    assert one.gold.size == 1
    _, columns, _ = case("conll", tmp_path)
    assert sum(one.gold.size for one in dripped(b"a=1\tb=2\tc=3\n", [], columns)) == 1, "columns, not attributes"


def test_other_encodings(tmp_path: Path) -> None:
    text = "naïve J B\nçafé N I\n"
    vocabulary = model_of(text, tmp_path, columns=NAMES, attributes="word")
    expected = everything(list(blocks_for_model(io.BytesIO(text.encode()), vocabulary)))
    for encoding in ("latin-1", "utf-16", "utf-8-sig"):
        data = text.encode(encoding)
        assert everything(dripped(data, list(range(len(data))), vocabulary, encoding=encoding)) == expected
    told: list[str] = []
    bad = b"ok J B\nbr\xffken J B\nok J I\n"
    blocks = dripped(bad, [3, 9], vocabulary, encoding="ascii", on_error="skip", notice=told.append)
    assert sum(one.gold.size for one in blocks) == 2
    assert told == ["left out: the open file: line 2 is not ascii."]
    bad = "ok J B\nbrok\ud800en J B\nok J I\n".encode("utf-16", "surrogatepass")
    for size in range(1, 9):
        blocks = dripped(bad, [*range(0, len(bad), size)], vocabulary, encoding="utf-16", on_error="skip", notice=str)
        assert sum(one.gold.size for one in blocks) == 2


NUMBERS = "size,label\n1,x\n2,y\n3,x\n"
BAD: dict[str, tuple[str, str, dict[str, Any], bytes, str]] = {
    "width": ("conll", CONLL, {"columns": NAMES, "attributes": WINDOW}, b"a DT", "line {} has 2 columns"),
    "letters": ("conll", CONLL, {"columns": NAMES, "attributes": WINDOW}, b"a\xff DT B", "line {}, byte 2: 0xff"),
    "words": ("conll", "1 B\n2 B\n", {"columns": ["n", "l"], "attributes": "log(n)"}, b"x B", "line {}, column 'n'"),
    "label": ("conll", "a\tB\nb\tI\n", {"columns": ["w", "l"]}, b"a\tB\x01", "line {}, column 'l'"),
    "space": ("conll", "a\tB\nb\tI\n", {"columns": ["w", "l"]}, b"a\tB ", "is 'B' but for white space"),
    "colon": ("crfsuite", "A\tx\nB\ty\n", {"format": "crfsuite"}, b"A\tx:", "line {} has a colon but no value"),
    "value": ("crfsuite", "A\tx\nB\ty\n", {"format": "crfsuite"}, b"A\tx:nan", "line {}, byte 5"),
    "fields": ("csv", NUMBERS, {"format": "csv"}, b"1,x,y", "line {} has 3 fields"),
    "quote": ("csv", NUMBERS, {"format": "csv"}, b'1,"x', "a quote is opened in the row that begins on line {}"),
    "number": ("csv", NUMBERS, {"format": "csv"}, b"one,x", "line {}, column 'size': 'one' is not a number"),
    "nan": ("csv", NUMBERS, {"format": "csv"}, b"nan,x", "line {}, column 'size': nan is no finite number"),
    "large": ("csv", NUMBERS, {"numbers": "standard"}, b"1e309,x", "line {}, column 'size'"),
    "tabs": ("tsv", NUMBERS.replace(",", "\t"), {"format": "tsv"}, b"1", "line {} has 1 field"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_line_stops_is_left_out_or_is_a_position_without_attributes(kind: str, tmp_path: Path) -> None:
    form, text, options, bad, words = BAD[kind]
    vocabulary = model_of(text, tmp_path, **options)
    head = text.encode()
    tail = b"".join(head.splitlines(keepends=True)[-2:])
    data, line = head + bad + b"\n" + tail, head.count(b"\n") + 1
    good, before = head + tail, head
    by_lines = [k + 1 for k, byte in enumerate(data) if byte == 10]
    reading: dict[str, Any] = {"format": form, "labels": True}
    for cuts in (by_lines, [], [len(head) + 2, len(head) + len(bad) + 1]):
        told: list[str] = []
        kept: list[Any] = []
        skipped = dripped(data, cuts, vocabulary, on_error="skip", notice=told.append, keep=kept.append, **reading)
        assert everything(skipped) == everything(list(blocks_for_model(io.BytesIO(good), vocabulary, **reading)))
        assert len(told) == 1
        assert told[0].startswith("left out: the open file: ")
        assert words.format(line) in told[0]
        assert b"".join(raw.chunk.data for raw in kept) == good

        kept, told = [], []
        unknown = dripped(data, cuts, vocabulary, on_error="unknown", notice=told.append, keep=kept.append, **reading)
        gold, starts, entries, _ = everything(unknown)
        place = len(everything(list(blocks_for_model(io.BytesIO(before), vocabulary, **reading)))[0])
        assert (gold[place], starts[place]) == (-1, False)
        assert not [entry for entry in entries[place] if entry[0] in _own(vocabulary)]
        assert len(gold) == len(everything(skipped)[0]) + 1
        assert told[0].startswith("taken as unknown: ")
        assert b"".join(raw.chunk.data for raw in kept) == data

        blocks: list[KnownBlock] = []
        with pytest.raises(BadFile) as stopped:
            blocks.extend(live_rows(Dripping(data, cuts), vocabulary, on_error=OnError.STOP, **reading))
        assert words.format(line) in str(stopped.value)
        assert everything(blocks) == everything(list(blocks_for_model(io.BytesIO(before), vocabulary, **reading)))


def _own(vocabulary: Vocabulary) -> set[int]:
    """The attributes that look at the row itself."""
    names = vocabulary.attributes.to_pylist()
    return {k for k, name in enumerate(names) if not name.startswith(("word[-1]", "lower(word)[1]", "pos[2]"))}


def test_a_quoted_field_ends_with_its_line_however_lines_come(tmp_path: Path) -> None:
    vocabulary = model_of(NUMBERS, tmp_path, format="csv")
    data = b'size,label\n1,x\n2,"y\n3"\n4,"x"\n'
    for cuts in ([], list(range(len(data)))):
        told: list[str] = []
        blocks = dripped(data, cuts, vocabulary, on_error="skip", format="csv", labels=False, notice=told.append)
        assert sum(one.gold.size for one in blocks) == 2
        assert ["line 3" in told[0], "line 4 has 1 field" in told[1]] == [True, True]


def test_the_first_row_has_to_be_right(tmp_path: Path) -> None:
    vocabulary = model_of(NUMBERS, tmp_path, format="csv")
    for data in (b"size,label\none,x\n1,y\n", b"\xff\n1,y\n"):
        with pytest.raises(BadFile, match=r"line [12]"):
            dripped(data, [], vocabulary, on_error="skip", format="csv")


def test_many_bad_lines_are_told_of_in_numbers(tmp_path: Path) -> None:
    _, vocabulary, _ = case("conll", tmp_path)
    told: list[str] = []
    data = b"the DT B\n" + b"x\n" * 1200 + b"cat NN I\n"
    blocks = dripped(data, [], vocabulary, on_error="skip", notice=told.append)
    assert sum(one.gold.size for one in blocks) == 2
    assert len(told) == 12
    assert "line 11 has" in told[9]
    assert told[10].startswith("100 lines were left out so far")
    assert told[11].startswith("1,000 lines were left out so far")


def test_a_bad_line_stays_in_its_group_and_after_its_blank_line(tmp_path: Path) -> None:
    _, vocabulary, _ = case("group", tmp_path)
    blocks = dripped(b"a x u\nbad\nb x v\nc y u\n", [], vocabulary, on_error="unknown")
    assert everything(blocks)[1] == [True, False, False, True]
    _, vocabulary, _ = case("conll", tmp_path)
    blocks = dripped(b"the DT B\n\nbad\ncat NN I\n", [], vocabulary, on_error="unknown")
    assert everything(blocks)[1] == [True, True, False]
    blocks = dripped(b"the DT B\n\nbad\ncat NN I\n", [], vocabulary, on_error="skip")
    assert everything(blocks)[1] == [True, True]


def test_a_growing_file_gives_rows_until_it_is_replaced(tmp_path: Path) -> None:
    """The rows before come with the end of their sequence; half a line does not come, and no thread goes on reading."""
    path = tmp_path / "log.txt"
    path.write_text("w1 x\nw2 x\nw3")
    vocabulary = model_of("".join(f"w{k} x\n" for k in range(6)), tmp_path, columns=["w", "l"], attributes="w w[1]")
    before = threading.active_count()
    blocks = iter(live_rows(path, vocabulary, poll=0.01))
    assert soon(blocks).gold.size == 1, "the template reads one more row"
    with path.open("a") as file:
        file.write(" x\nw4 x\nw5 x")
    assert soon(blocks).gold.size == 2
    path.rename(tmp_path / "log.1")
    path.write_text("w0 x\n")
    last = soon(blocks)
    assert (last.gold.size, last.ended) == (1, True)
    with pytest.raises(BadFile, match="was replaced by another file"):
        next(blocks)
    deadline = time.monotonic() + 5
    while threading.active_count() > before:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_growing_file_is_left_when_the_iterator_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(CONLL)
    vocabulary = model_of(CONLL, tmp_path, columns=NAMES)
    blocks = iter(live_rows(path, vocabulary, poll=0.01))
    soon(blocks)
    before = threading.active_count()
    blocks.close()  # type: ignore[attr-defined]
    deadline = time.monotonic() + 5
    while threading.active_count() >= before:
        assert time.monotonic() < deadline, "no thread goes on reading"
        time.sleep(0.005)


@pytest.mark.parametrize("name", ["conll", "csv", "tsv", "crfsuite"])
def test_a_live_annotator_writes_whole_lines_and_in_the_end_the_same(name: str, tmp_path: Path) -> None:
    data, vocabulary, reading = case(name, tmp_path)
    data = data.removesuffix(b"\n")
    for sizes in ([1] * 20, [3] * 7, [20]):
        written = []
        for live in (False, True):
            sink, columns = io.BytesIO(), {"predicted": vocabulary.labels, "p": None}
            with Annotator(sink, columns, piped=True, live=live) as annotator:
                blocks = blocks_for_model(Inputs(io.BytesIO(data), keep=annotator.keep), vocabulary, **reading)
                rows = sum(one.gold.size for one in blocks)
                for size in sizes:
                    size = min(size, rows)
                    annotator.add(np.zeros(size, np.int32), np.full(size, 0.5))
                    rows -= size
                    assert not live or not rows or sink.getvalue().endswith(b"\n")
            written.append(sink.getvalue())
        assert written[0] == written[1]


def rows_of(name: str) -> list[tuple[Any, bool]]:
    """The rows of a case as a program has them, and whether a sequence ends with each."""
    if name == "crfsuite":
        return [({"x": 2.0, "y": True}, True), (["y"], False), ({"z:1": 1}, False)]
    if name == "csv":
        pairs = [("1", 're"d, or so'), (2, None), (None, "blue"), (4.0, "red"), ("1e2", "blue")]
        return [({"size": size, "colour": colour, "more": 1}, False) for size, colour in pairs]
    lines = CONLL.replace("\r", "").split("\n")
    return [(line.split()[:2], not after) for line, after in pairwise(lines) if line]


@pytest.mark.parametrize("name", ["conll", "crfpp", "crfsuite", "csv"])
def test_a_program_gets_the_same_numbers_row_by_row_and_from_any_state(name: str, tmp_path: Path) -> None:
    text, options = CASES[name]
    text = text.replace("\t@edge\tjoin", "")
    vocabulary, form = model_of(text, tmp_path, **options), options.get("format")
    expected = everything(list(blocks_for_model(io.BytesIO(text.encode()), vocabulary, labels=False, format=form)))
    rows = rows_of(name)

    def pushed(encoder: RowEncoder, some: list[tuple[Any, bool]]) -> list[Block]:
        return [encoder.push(row, end=end) for row, end in some]

    def same(blocks: list[Block]) -> None:
        assert everything([KnownBlock(block, block.labels) for block in blocks])[:3] == expected[:3]

    encoder = RowEncoder(vocabulary)
    same([*pushed(encoder, rows), encoder.finish()])
    for cut in range(len(rows) + 1):
        first, second = RowEncoder(vocabulary), RowEncoder(vocabulary)
        head = pushed(first, rows[:cut])
        second.restore(first.state())
        same([*head, *pushed(second, rows[cut:]), second.finish()])
    assert encoder.right_context == {"conll": 2, "crfpp": 2, "crfsuite": 0, "csv": 1}[name]


def test_a_program_gives_rows_in_many_ways(tmp_path: Path) -> None:
    vocabulary = model_of(CONLL, tmp_path, columns=NAMES, attributes="word pos[-1]", border="crfpp")
    dicts = [{"word": "the", "pos": "DT", "chunk": "B"}, {"word": "cat", "pos": "NN", "chunk": "Q"}]
    lists = [("the", "DT"), ["cat", "NN"]]
    table = pa.table({"word": ["the", "cat"], "pos": ["DT", "NN"]})
    found = [RowEncoder(vocabulary).push(rows) for rows in (dicts, lists, table)]
    single = RowEncoder(vocabulary)
    found.append(join_blocks([single.push(row) for row in dicts]))
    for block in found:
        assert block.ids.tolist() == found[0].ids.tolist()
        assert block.starts.tolist() == [True, False]
        assert block.labels.tolist() == [-1, -1]
    assert RowEncoder(vocabulary, labels=True).push(dicts).labels.tolist() == [0, -1]
    encoder = RowEncoder(vocabulary)
    assert encoder.push([]).labels.size == 0
    assert encoder.push(dicts, end=True).starts.tolist() == [True, False]
    assert encoder.push(dicts[0]).starts.tolist() == [True]
    assert encoder.push(dicts, start=True).starts.tolist() == [True, False]
    items = model_of("A\tx\nB\ty\n", tmp_path, format="crfsuite")
    pairs = RowEncoder(items, labels=True).push([(["x"], "A"), ({"y": 1}, "B")])
    assert (pairs.labels.tolist(), pairs.ids.tolist()) == ([0, 1], [0, 1])


def test_a_wrong_row_of_a_program_changes_nothing(tmp_path: Path) -> None:
    vocabulary = model_of(
        "a,1,x\nb,2,y\n", tmp_path, columns=["w", "n", "l"], attributes="w w[-1] real(n)", format="csv"
    )
    encoder, other = RowEncoder(vocabulary, labels=True), RowEncoder(vocabulary, labels=True)
    good = [{"w": "a", "n": 1, "l": "x"}, {"w": "b", "n": 2, "l": "y"}]
    expected = [other.push(row).ids.tolist() for row in good]
    found = [encoder.push(good[0]).ids.tolist()]
    for row, words in (
        ({"w": "a", "n": float("nan"), "l": "x"}, "row 2, column 'n': nan is no finite number"),
        ({"w": "a", "n": "one", "l": "x"}, "row 2, column 'n': 'one' is no number"),
        ({"w": "a", "n": 1, "l": "x\x01"}, "control character"),
        ({"w": "a", "l": "x"}, "row 2 has no column 'n'"),
        (["a"], "row 2 has 1 values, but the columns are w, n"),
        ([*good, {"w": ["a"], "n": 1, "l": "x"}], r"row 4, column 'w': \['a'\] is no text"),
    ):
        with pytest.raises(BadFile, match=words):
            encoder.push(row)
    found.append(encoder.push(good[1]).ids.tolist())
    assert found == expected
    fresh = RowEncoder(vocabulary)
    with pytest.raises(BadFile):
        fresh.push({"w": "a", "n": float("inf")})
    assert fresh.push(good, end=True).starts.tolist() == [True, False]


def test_the_state_after_many_rows_at_once(tmp_path: Path) -> None:
    vocabulary = model_of(CONLL, tmp_path, columns=NAMES, attributes=WINDOW)
    rows = [(word, tag) for word in ("the", "cat", "sat") for tag in ("DT", "NN")]
    whole = join_blocks([(encoder := RowEncoder(vocabulary)).push(rows), encoder.finish()])
    for cut in range(len(rows)):
        first, second = RowEncoder(vocabulary), RowEncoder(vocabulary)
        before = first.push(rows[:cut])
        state = first.state()
        assert state["texts"].size < 4000
        second.restore(state)
        found = join_blocks([before, second.push(rows[cut:]), second.finish()])
        assert found.ids.tolist() == whole.ids.tolist()
        assert found.starts.tolist() == whole.starts.tolist()


ROW = st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"))


@given(st.lists(ROW, min_size=1, max_size=12), st.data())
@settings(max_examples=40, deadline=None)
def test_any_text_in_any_pieces(rows: list[tuple[str, str]], data: st.DataObject) -> None:
    text = "".join(f"{word} {label}\n" + "\n" * data.draw(st.integers(0, 2)) for word, label in rows)
    vocabulary = cf.chain_from_table(
        pa.table({"0": ["a", "b", "b"], "1": ["x", "y", "z"]}), attributes="0[-1] 0|0[1] 0[2]", label="1"
    ).vocabulary
    assert vocabulary is not None
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    expected = everything(list(blocks_for_model(io.BytesIO(text.encode()), vocabulary, format="conll")))
    blocks = dripped(text.encode(), cuts, vocabulary, format="conll")
    assert everything(blocks) == expected
    ends = np.flatnonzero([*expected[1][1:], True]) + 1  # how many positions there are up to the end of a sequence
    done = np.cumsum([one.gold.size for one in blocks])
    assert {int(count) for count, one in zip(done, blocks, strict=True) if one.ended} <= set(ends.tolist())
