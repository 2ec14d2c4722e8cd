"""Text to stretches: CoNLL, CoNLL-U and CRFsuite, what a format is known by, and sentences for what is wrong."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfold.errors import BadFile, BadSetting, ChainfoldError
from chainfold.readers import formats as module
from chainfold.readers.columns import BAG, BAG_VALUES, SYMBOL, chosen
from chainfold.readers.conll import CONLLU_COLUMNS, ConllReader
from chainfold.readers.crfsuite import CrfsuiteReader
from chainfold.readers.csv_tsv import CsvReader
from chainfold.readers.formats import Format, InputReader
from chainfold.readers.inputs import Inputs
from readers.reading import everything, problem_of, stretches

pytestmark = pytest.mark.quick

DATA = Path(os.environ.get("CHAINFOLD_DATA", Path(__file__).parents[3] / "shared" / "data"))

WORDS = b"Confidence NN B-NP\nin IN B-PP\n\nthe DT B-NP\npound NN I-NP\n"
UNIVERSAL = (
    b"# text = don't go\n1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n1\tdo\tdo\tAUX\t_\t_\t3\taux\t_\t_\n"
    b"2\t_\tnot\tPART\t_\t_\t3\tadvmod\t_\t_\n2.1\tx\tx\t_\t_\t_\t_\t_\t_\t_\n"
    b"3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n\n# text = #\n1\t#\t#\tSYM\t_\t_\t0\troot\t_\t_\n"
)
Rows = list[tuple[Any, ...]]


def test_conll() -> None:
    found = stretches(ConllReader(), WORDS)
    assert all(stretch.batch.schema.types == [SYMBOL] * 3 for stretch in found)
    columns, starts, lines = everything(found)
    assert columns == {
        "0": ["Confidence", "in", "the", "pound"],
        "1": ["NN", "IN", "DT", "NN"],
        "2": ["B-NP", "B-PP", "B-NP", "I-NP"],
    }
    assert starts == [True, False, True, False]
    assert lines == [1, 2, 4, 5]


def test_conll_columns_are_named_and_tabs_keep_spaces_and_empty_fields() -> None:
    data = b"New York\tB\t\n \n\t\tx\n"
    assert everything(stretches(ConllReader(("a", "b", "c")), data))[0] == {
        "a": ["New York", None],
        "b": ["B", None],
        "c": [None, "x"],
    }
    [stretch] = stretches(ConllReader(), data)
    assert stretch.batch.column(2).dictionary.to_pylist() == ["x"]
    assert everything(stretches(ConllReader(), b" a  \t b\n"))[0] == {"0": [" a  "], "1": [" b"]}


@pytest.mark.parametrize("chunk", [1, 8, 9, 1 << 20])
def test_ragged_lines_are_told_wherever_chunks_end(chunk: int) -> None:
    assert "line 3 has 1 column, but the lines before it have 2" in problem_of(
        ConllReader(), b"a b\nc d\ne\nf g\n", chunk
    )
    assert "line 2 has 3 columns, but the lines before it have 2; is a tab" in problem_of(
        ConllReader(), b"a\tb\nc\td\t\n", chunk
    )
    assert "line 1 has 2 columns, but there are names for 3" in problem_of(ConllReader(("a", "b", "c")), b"x y\n")


def test_the_width_holds_for_later_inputs(tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(b"a b\nc d")
    (tmp_path / "2").write_bytes(b"e f\n")
    (tmp_path / "3").write_bytes(b"g\n")
    columns, starts, lines = everything(list(InputReader().read(Inputs([tmp_path / "1", tmp_path / "2"]))))
    assert columns == {"0": ["a", "c", "e"], "1": ["b", "d", "f"]}
    assert starts == [True, False, True]
    assert lines == [1, 2, 1]
    with pytest.raises(BadFile, match=r"3: line 1 has 1 column, but the lines before it have 2"):
        list(InputReader().read(Inputs(str(tmp_path / "[13]"))))


@pytest.mark.parametrize("chunk", [1, 40, 1 << 20])
def test_conllu(chunk: int) -> None:
    columns, starts, lines = everything(stretches(ConllReader(universal=True), UNIVERSAL, chunk))
    assert tuple(columns) == CONLLU_COLUMNS
    assert columns["form"] == ["do", "_", "go", "#"]
    assert columns["xpos"] == [None, None, "VB", None]
    assert columns["misc"] == [None] * 4
    assert starts == [True, False, False, True]
    assert lines == [3, 4, 6, 9]
    assert "line 1 has 2 columns, but CoNLL-U has 10" in problem_of(ConllReader(universal=True), b"1\tx\n")
    with pytest.raises(BadSetting, match="ten names"):
        ConllReader(("a",), universal=True)


@pytest.mark.parametrize("chunk", [1, 10, 1 << 20])
def test_crfsuite(chunk: int) -> None:
    data = b"B\tw=a\\:b\tc\\\\:2.5\tplain\r\n\tx:1\n\nI\tw=\\a\\\t\t@edge\tjoin\tleap:-1e3\nO\n"
    found = stretches(CrfsuiteReader(), data, chunk)
    columns, starts, lines = everything(found)
    assert columns["label"] == ["B", None, "I", "O"]
    assert columns["attributes"] == [["w=a:b", "c\\", "plain"], ["x"], ["w=\\a\\"], []]
    assert starts == [True, False, True, False]
    assert lines == [1, 2, 4, 5]
    for stretch in found:
        by_line = dict(zip(stretch.lines.tolist(), range(stretch.lines.size), strict=True))
        kinds = dict(zip(stretch.batch.schema.names, stretch.batch.schema.types, strict=True))
        assert kinds["attributes"] == BAG
        if 1 in by_line:
            assert kinds["attributes:values"] == BAG_VALUES
            assert stretch.batch.column("attributes:values")[by_line[1]].as_py() == [1.0, 2.5, 1.0]
        if 4 in by_line:
            assert stretch.batch.column("edge")[by_line[4]].as_py() == ["join", "leap"]
            assert stretch.batch.column("edge:values")[by_line[4]].as_py() == [1.0, -1000.0]


def test_crfsuite_without_values_has_no_column_for_them() -> None:
    assert list(everything(stretches(CrfsuiteReader(), b"@\ta:1.0\t@\t\\@b\n"))[0]) == ["label", "attributes", "edge"]
    assert everything(stretches(CrfsuiteReader(), b"@\ta:1.0\t@\t\\@b\n"))[0]["attributes"] == [["a", "@", "@b"]]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"B\t@weight:2", "line 3 has a declaration"),
        (b"@weight\tx", "line 3 has a declaration"),
        (b"B\ta\t@edges", "line 3 has a declaration"),
        (b"B\t:1", "line 3 has an attribute without a name"),
        (b"B\ta:", "line 3 has a colon but no value"),
        (b"B\ta\tb:1:2", "line 3, byte 7: the value '1:2' of attribute 'b' is not a finite number"),
        (b"B\ta:nan", "line 3, byte 5: the value 'nan' of attribute 'a' is not a finite number"),
        (b"B\ta:2\tb:-inf", "line 3, byte 9: the value '-inf' of attribute 'b'"),
        (b"B\t@edge\te:x", "line 3, byte 11: the value 'x' of attribute 'e'"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_what_is_wrong_with_a_line_of_attributes(line: bytes, problem: str, chunk: int) -> None:
    assert problem in problem_of(CrfsuiteReader(), b"A\tx:1\n\n" + line + b"\n\n\nA\ty:2\n", chunk)


FORMATS = [
    (WORDS, Format.CONLL),
    (b"a\nb\n", Format.CONLL),
    (b"a\tb\nc\td\n", Format.CONLL),
    (b"a, , B\n, , O\n. . O\n", Format.CONLL),
    (b"1,000 CD\n2,000 CD\n", Format.CONLL),
    (UNIVERSAL, Format.CONLLU),
    (b"1\ta\tb\tc\td\te\tf\tg\th\ti\n", Format.CONLLU),
    (b"# only\n", Format.CONLLU),
    (b"B\tw=a\tt=b\nI\tw=b\tt=c\n", Format.CRFSUITE),
    (b"B\ta\nI\ta\tb\n", Format.CRFSUITE),
    (b"O\nB\ta\n", Format.CRFSUITE),
    (b"a,b\n1,2\n", Format.CSV),
    (b"a,b\nNew York,2\nx,3\n", Format.CSV),
    (b'a,b\nx,"y,z"\n"1,2,3",4\n', Format.CSV),
    (b'a,b\r\nx,"y\r\n\r\nz, z z"\r\n1,2\r\n', Format.CSV),
    (b"a,b\n0,0\n" + b'1,"a row,\nof two lines"\n' * 300, Format.CSV),
    (b"one, two words\nno comma\n", Format.CONLL),
    (b'one, two words\n"Three," he, said, "four"\n', Format.CONLL),
    (b'1,000\n"\nHello\n,\n', Format.CONLL),
    (b"\" '' O\n1,000 CD O\n2,000 CD O\n\" '' O\n", Format.CONLL),
    (b"a,b\rc\nd,e f\n", Format.CONLL),
]


@pytest.mark.parametrize(("data", "form"), FORMATS)
def test_formats_are_known_by_content(data: bytes, form: Format) -> None:
    assert InputReader().by_content(next(iter(Inputs(io.BytesIO(data)))).open()) == form


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b"\xef\xbb\xbfword\ttag\r\na\tb\r\n", Format.TSV),
        (b"\n \ntag\tsize\tword\nb\t1\ta\n", Format.TSV),
        (b"word\ttag", Format.TSV),
        (b"word\tother\na\tb\n", Format.CONLL),
        (b"word\tword\na\tb\n", Format.CONLL),
        (b"word\ntag\n", Format.CONLL),
        (b"word tag\na b\n", Format.CONLL),
        (b"a\tb\nword\ttag\n", Format.CONLL),
    ],
)
def test_a_header_is_known_by_the_columns_of_a_model(data: bytes, form: Format) -> None:
    known = frozenset({"word", "tag", "size"})
    stream = next(iter(Inputs(io.BytesIO(data)))).open()
    assert InputReader(model_columns=known).by_content(stream) == form
    assert InputReader(model_columns=known, header=False).by_content(stream) == Format.CONLL


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("x.csv", Format.CSV),
        ("x.TSV.gz", Format.TSV),
        ("x.conll.zst", Format.CONLL),
        ("x.conllu.xz", Format.CONLLU),
        ("x.crfsuite", Format.CRFSUITE),
        ("x.parquet", Format.PARQUET),
        ("x.feather", Format.ARROW),
        ("x.ipc", Format.ARROW),
        ("x.txt.gz", None),
        ("gz", None),
    ],
)
def test_formats_are_knownby_name(name: str, form: Format | None) -> None:
    assert module.by_name(name) == form


def test_every_format_through_one_door(tmp_path: Path) -> None:
    table = pa.table({"0": ["a", "b"], "1": ["x", "y"]})
    pq.write_table(table, tmp_path / "table")
    with pa.OSFile(str(tmp_path / "file"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.OSFile(str(tmp_path / "stream"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "words").write_bytes(b"a x\nb y\n")
    (tmp_path / "z.tsv.gz").write_bytes(gzip.compress(b"a\tx\nb\ty\n"))
    (tmp_path / "z.csv").write_bytes(b"a,x\nb,y\n")
    reading = InputReader(header=False)
    names = ["table", "file", "stream", "words", "z.tsv.gz", "z.csv"]
    for name in names:
        columns, starts, lines = everything(list(reading.read(Inputs(tmp_path / name))))
        assert columns == {"0": ["a", "b"], "1": ["x", "y"]}, name
        assert starts == [True, False]
        assert lines == [1, 2]
    columns, starts, _ = everything(list(reading.read(Inputs([tmp_path / name for name in names]))))
    assert columns == {"0": ["a", "b"] * 6, "1": ["x", "y"] * 6}
    assert starts == [True, False] * 6


@pytest.mark.parametrize(
    ("data", "form", "problem"),
    [
        (b"", None, "the open file: is empty."),
        (gzip.compress(b"", mtime=0), None, "the open file: is empty."),
        (b"\n \n\t\n", None, "has only blank lines or comments."),
        (b"# x\n", Format.CONLLU, "has only blank lines or comments."),
        (b"\n", Format.CRFSUITE, "has only blank lines or comments."),
        (b"a,b\n", Format.CSV, "has no rows, only blank lines or a header."),
        (b"\r\n\n", Format.CSV, "has no rows, only blank lines or a header."),
        (b"PAR1", None, "cannot be read as Parquet"),
        (b"ARROW1\0\0", None, "cannot be read as Arrow IPC, or is cut short"),
        (b"\xff\xff\xff\xff", None, "cannot be read as Arrow IPC, or is cut short"),
        (gzip.compress(b"abc", mtime=0)[:5], None, "the gzip data is cut short"),
        (b"\xff\xfe", None, "has only blank lines or comments."),
        (b"a\xff\xfe", None, "line 1, byte 2: 0xff is not UTF-8"),
    ],
)
def test_nothing_to_read(data: bytes, form: Format | None, problem: str) -> None:
    with pytest.raises(BadFile, match=problem):
        list(InputReader(form).read(Inputs(io.BytesIO(data))))


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(BadSetting, match="left out"):
        list(InputReader(columns=("a",)).read(Inputs(io.BytesIO(b"B\ta=b\n"))))


def test_later_inputs_have_the_columns_of_the_first(tmp_path: Path) -> None:
    for name, table in {
        "1": {"a": ["x"], "b": [1]},
        "2": {"a": ["x"], "c": [1]},
        "3": {"a": ["x"], "b": ["y"]},
    }.items():
        pq.write_table(pa.table(table), tmp_path / name)
    with pytest.raises(BadFile, match=r"2: its columns are a, c, but those of .*1 before are a, b"):
        list(InputReader().read(Inputs([tmp_path / "1", tmp_path / "2"])))
    with pytest.raises(BadFile, match=r"3: column 'b' holds symbols at row 1, but numbers before \(in .*1\)"):
        list(InputReader().read(Inputs([tmp_path / "1", tmp_path / "3"])))
    assert len(list(InputReader(symbols=chosen("b")).read(Inputs([tmp_path / "1", tmp_path / "3"])))) == 2


def is_open(path: Path) -> bool:
    """Does this process hold the file open?"""
    return str(path) in {os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not list open files")
def test_an_input_that_is_left_early_is_closed(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "x"
    path.write_bytes(b"a b\n" * 1_000_000)
    stretches = InputReader().read(Inputs(path))
    next(stretches)
    assert is_open(path)
    stretches.close()  # type: ignore[attr-defined]
    assert not is_open(path)


def plain_parse(text: str) -> tuple[Rows, list[bool], list[int]]:
    rows: Rows = []
    starts: list[bool] = []
    lines: list[int] = []
    fresh = True
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.rstrip("\r").replace("\t", " ").split(" ")
        words = tuple(field for field in fields if field)
        if words and not words[0].startswith("-DOCSTART-"):
            rows.append(words)
            starts.append(fresh)
            lines.append(number)
        fresh = not words or words[0].startswith("-DOCSTART-")
    return rows, starts, lines


LINES = ["é bb\n", "a  b\r\n", " c d \n", "\n", " \r\n", "-DOCSTART- x\n", "-DOCSTART-\n"]


@given(st.lists(st.sampled_from(LINES), max_size=20), st.booleans(), st.integers(1, 40))
def test_conll_agrees_with_a_plain_parse(lines: list[str], final: bool, chunk: int) -> None:
    text = "".join(lines) if final else "".join(lines).removesuffix("\n")
    columns, *found = everything(stretches(ConllReader(), text.encode(), chunk))
    assert (list(zip(*columns.values(), strict=True)), *found) == plain_parse(text)


def readers() -> list[Any]:
    return [
        ConllReader(),
        ConllReader(universal=True),
        CrfsuiteReader(),
        CsvReader(",", True),
        CsvReader("\t", False, header=False),
    ]


OUTCOME = tuple[dict[str, list[Any]], list[bool], list[int]] | str
PIECES = ["\n", "\n\n", "\r\n", "\t", " ", ",", '"', '"x\ny"', ":2", "\\", "@edge", "-DOCSTART-", "#", "_", "a", "é"]


def outcome(reader: Any, data: bytes, chunk: int) -> OUTCOME:
    try:
        columns, starts, lines = everything(stretches(reader, data, chunk))
    except ChainfoldError as error:
        return str(error)
    return {name: columns[name] for name in columns if ":values" not in name and name != "edge"}, starts, lines


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.integers(1, 30))
def test_nothing_depends_on_the_size_of_chunks(text: str, chunk: int) -> None:
    data = text.encode()
    for small, large in zip(readers(), readers(), strict=True):
        assert outcome(small, data, chunk) == outcome(large, data, 1 << 20)


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason=f"the real data sets are not in {DATA}; set CHAINFOLD_DATA")
def test_conll_2000_agrees_with_a_plain_parse() -> None:
    path = DATA / "conll2000" / "train.txt.gz"
    expected = plain_parse(gzip.decompress(path.read_bytes()).decode())
    columns, *found = everything(list(InputReader().read(Inputs(path))))
    assert (list(zip(*columns.values(), strict=True)), *found) == expected
    assert len(expected[0]) == 211727
