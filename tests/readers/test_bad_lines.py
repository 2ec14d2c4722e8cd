"""Many lines that cannot be read: found at once, and the same as those that halving finds one by one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadFile, BadLines
from chainfold.features.streaming import live_rows
from chainfold.readers import whole_lines
from chainfold.readers.annotate import Annotator
from chainfold.readers.conll import ConllReader
from chainfold.readers.crfsuite import CrfsuiteReader
from chainfold.readers.csv_tsv import CsvReader
from chainfold.readers.inputs import checked
from chainfold.readers.live import LiveRows
from chainfold.readers.text import not_numbers
from features.test_streaming import CONLL, NAMES, NUMBERS, Dripping, dripped, everything, model_of

WORDS = {"columns": NAMES, "attributes": "word[-1] word|pos lower(word)[1] pos[2]"}
GROUPS = {"columns": ["w", "g", "l"], "attributes": "w[-1] w", "group": "g"}
WEIGHTS = {"columns": ["w", "v", "l"], "attributes": "w", "weight": "v"}
CASES: dict[str, tuple[str, dict[str, Any], str, str]] = {  # the last are lines, a bar between them
    "conll": (
        CONLL,
        WORDS,
        "conll",
        "w DT B|w\ttab\tB|a DT|a DT B C||-DOCSTART- X|  -DOCSTART-|# a comment|#a|# x y|x DT B\r|a DT \r|\xff DT B|"
        "é DT B|w DT B\x00|w DT B\x01x|w DT  B |#|\t|w DT Q",
    ),
    "tabs": ("a\tB\nb\tI\n", {"columns": ["w", "l"]}, "conll", "a\tB|a|a\tB |a\tB\tC||#\tB|a b|\t"),
    "numbers": ("1 B\n2 B\n", {"columns": ["n", "l"], "attributes": "log(n)"}, "conll", "3 B|x B|nan B|1_0 B"),
    "groups": ("a x u\nb x v\n\nc y u\n", GROUPS, "conll", "a x u|b x v|c y u|bad|\xff y u|"),
    "weights": ("a 1 u\nb 1 v\n", WEIGHTS, "conll", "a 1 u|b 1 v|a -1 u|a inf u|a b u|a|"),
    "comments": ("a x\nb y\n", {"columns": ["w", "l"], "comments": "1"}, "conll", "a x|1|1\xff|a||b y"),
    "crfsuite": (
        "A\tx\nB\ty\n",
        {"format": "crfsuite"},
        "crfsuite",
        "A\tx|B\ty:2|A\tx:|A\t:2|A\tx\\:|A\tx\\\\:|@A\tx|A\t@edge\tx|A\t@edges|A\t@|@|A|A\tx:nan|A\tx:a|A\tx:1e999||#|"
        "# a|#\tx:|A\tx:\r|A\tx\\:\r|A\tx:2\r|\xff|A\t\t|A\tx\\|A\tx:+1|A\tx: 1|@edge\tx|A\tx:\ty:3|A\ty:3\tx:",
    ),
    "csv": (
        NUMBERS,
        {"format": "csv"},
        "csv",
        '1,x|2,y|1|1,x,y|one,x|nan,x|inf,y|1e309,x|,x|1,||1,"x"|1,"x|y",2|"1",x|1,x\r|1,x\r2,y|3\ry,|\xff,x|1,\xff|1\x00,x|'
        "1,x\x00|1, x| 1,x|+1,x|1_0,x|size,label",
    ),
    "tsv": (NUMBERS.replace(",", "\t"), {"format": "tsv"}, "tsv", '1\tx|1|x\tx|1\t"x|1\tx\ty||\xff\tx'),
}


def outcome(data: bytes, cuts: list[int], vocabulary: Vocabulary, **how: Any) -> tuple[Any, ...]:
    """The rows, what is written, and what is said."""
    told: list[str] = []
    sink = io.BytesIO()
    with Annotator(sink, {"new": vocabulary.labels}, live=True) as annotator:
        rows = live_rows(Dripping(data, cuts), vocabulary, keep=annotator.keep, notice=told.append, **how)
        blocks = []
        for one in rows:
            blocks.append(one)
            annotator.add(np.zeros(one.gold.size, np.int32))
    return *everything(blocks), sink.getvalue(), told


@pytest.mark.parametrize("name", CASES)
def test_bad_lines_are_those_that_halving_finds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, options, form, bar_between = CASES[name]
    lines, vocabulary = bar_between.split("|"), model_of(text, tmp_path, **options)
    random = np.random.default_rng(5)
    header = text.splitlines()[0] + "\n" if form in ("csv", "tsv") else ""
    for size, labels in ((6, True), (30, True), (30, False)):
        chosen = [lines[k] for k in random.integers(0, len(lines), size)]
        data = (header + "\n".join([lines[0], *chosen]) + "\n").encode("latin-1").replace(b"\xe9", "é".encode())
        cuts = random.integers(0, len(data), 1).tolist()
        for on_error in ("skip", "unknown"):
            how = {"format": form, "labels": labels, "on_error": on_error}
            found = outcome(data, cuts, vocabulary, **how)
            with monkeypatch.context() as patch:
                patch.setattr(LiveRows, "_sifted", lambda *arguments: None)
                assert found == outcome(data, cuts, vocabulary, **how), (data, how)


@pytest.mark.parametrize("on_error", ["skip", "unknown"])
@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("conll", b"w DT B", b"a DT"),
        ("conll", b"w DT B", b"a\xff DT B"),
        ("conll", b"w DT B", b"a DT B\0"),
        ("numbers", b"1 B", b"one B"),
        ("crfsuite", b"A\tx", b"A\tx:"),
        ("crfsuite", b"A\tx", b"A\tx:y"),
        ("csv", b"1,x", b"1,x,y"),
        ("csv", b"1,x", b"one,x"),
        ("csv", b"1,x", b"1\0,x"),
        ("csv", b"1,x", b'1,"x'),
        ("csv", b"1,x", b"inf,x"),
    ],
)
def test_every_second_line_is_bad(
    name: str, good: bytes, bad: bytes, on_error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text is taken a few times for each chunk, not for each bad line."""
    text, options, form, _ = CASES[name]
    vocabulary = model_of(text, tmp_path, **options)
    data = (text.encode().splitlines(keepends=True)[0] if form == "csv" else b"") + (good + b"\n" + bad + b"\n") * 2000
    taken = []
    for kind in (ConllReader, CrfsuiteReader, CsvReader):
        take = kind.take

        def counted(self: Any, *arguments: Any, take: Any = take) -> Any:
            taken.append(1)
            return take(self, *arguments)

        monkeypatch.setattr(kind, "take", counted)
    blocks = dripped(data, [], vocabulary, on_error=on_error, format=form, labels=True)
    assert sum(one.gold.size for one in blocks) == (2000 if on_error == "skip" else 4000)
    assert len(taken) < 100


def test_lines_that_are_not_utf8() -> None:
    lines = [b"a", b"\xc3\xa9", b"\xc3", b"\xed\xb2\x80", b"", b"\xf0\x9f\x98\x80\xff", b"z"]
    with pytest.raises(BadLines) as wrong:
        checked(b"\n".join(lines) + b"\n", 10, "x")
    assert wrong.value.lines().tolist() == [12, 13, 15]


def test_numbers_are_what_arrow_takes_for_numbers() -> None:
    texts = ["1", "-1.5e3", "+1", "1e", ".5", "5.", ".", "inf", "-Infinity", "nan", "NaN(1)", " 1", "1 ", "\t1", "0x10"]
    texts += ["", "e5", "one", "1,5", "1_0", "\u0661", "1\0", "+", "-", "--1", "infinite", "1d", "1f", "\u00a01", "٣"]
    strict = [text for text in texts if not not_numbers(pa.array([text]))[0]]
    assert {"1", "-1.5e3", ".5", "inf", "nan"} <= set(strict)
    for some in (texts, strict, [*strict, "one", "e5"], [*strict, "1e"]):
        assert not_numbers(pa.array(some)).tolist() == [text not in strict for text in some]


@pytest.mark.parametrize("cuts", [[], list(range(0, 6000, 7)), list(range(0, 6000, 500))])
def test_a_line_that_is_too_long(cuts: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left out or a position, its bytes are not held, and where it ends everything the rows before are given."""
    monkeypatch.setattr(whole_lines, "LONGEST_LINE", 1000)
    monkeypatch.setattr(whole_lines, "_KEPT", 11)
    vocabulary = model_of(CONLL, tmp_path, **WORDS)
    long = "é".encode() * 2500
    data = b"the DT B\ncat NN I\n" + long + b"\nsat VB O\n"
    cuts = sorted({*cuts, 18, 18 + 1200, 18 + 4000})
    sentence = "the open file: line 3 has more than 0 MB; is a line end missing?"
    _, starts, _, _, written, told = outcome(data, cuts, vocabulary, on_error="skip")
    assert (starts, told) == ([True, False, False], [f"left out: {sentence}"])
    assert written == b"the DT B B\ncat NN I B\nsat VB O B\n"
    gold, starts, _, _, written, told = outcome(data, cuts, vocabulary, on_error="unknown")
    assert (starts, told) == ([True, False, False, False], [f"taken as unknown: {sentence}"])
    assert gold[2] == -1
    assert written == b"the DT B B\ncat NN I B\n" + "éé".encode() + "ééé B\n".encode() + b"sat VB O B\n"
    blocks: list[Any] = []
    with pytest.raises(BadFile, match="line 3 has more than"):
        blocks.extend(live_rows(Dripping(data, cuts), vocabulary))
    assert everything(blocks) == everything(dripped(b"the DT B\ncat NN I\n", [], vocabulary))
    with pytest.raises(BadFile, match="line 1 has more than"):
        dripped(long + b"\n" + data, [1200, 3000], vocabulary, on_error="skip")
