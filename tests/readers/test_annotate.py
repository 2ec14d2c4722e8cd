"""Taggings in the input's own format: every byte of it, and new fields where they belong."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainfold.errors import BadFile, ChainfoldError
from chainfold.readers.annotate import Annotator, Labelling
from chainfold.readers.conll import ConllReader
from chainfold.readers.formats import Format, InputReader
from chainfold.readers.inputs import Inputs
from chainfold.system.files import written_whole

NAMES = ["O", "B-NP", "I-Ä"]
CONLL = "Rock NN X\nwell\tNN X \n\n-DOCSTART- x\n \n# VB Y\n"
ATTRIBUTES = "B\tw=the\tl:3\n\tw=x\nI\n\nB\tw=y\t@edge\tz\n"
FIELDS = 'word,"a ""tag""",x\n"two\nlines",b,1\n\nthree,"c,d",2\n'


def labels(row: int) -> int:
    """The label that these tests give to a row."""
    return row * 7 % 5 % len(NAMES)


def tag(
    inputs: Any,
    sink: Any,
    reading: InputReader | None = None,
    sizes: Iterable[int] = (),
    names: Sequence[str] = NAMES,
    number: bool = False,
    lag: int = 0,
    encoding: str = "utf-8",
    piped: bool = False,
) -> None:
    """Read, and add labels in stretches of these sizes as soon as they are `lag` rows behind what was read."""
    columns: dict[str, Sequence[str] | None] = {"predicted": names}
    if number:
        columns["p"] = None
    wanted, known, given_rows = iter(sizes), 0, 0

    def add(upto: int) -> int:
        rows = np.arange(given_rows, upto)
        numbers = np.array([labels(int(row)) for row in rows], np.int32)
        annotator.add(numbers, *([1 / (rows + 3)] if number else []))
        return upto

    with Annotator(sink, columns, piped) as annotator:
        for stretch in (reading or InputReader()).read(Inputs(inputs, encoding, keep=annotator.keep)):
            known += stretch.lines.size
            while known - lag > given_rows:
                given_rows = add(min(given_rows + next(wanted, 1 << 20), known - lag))
        add(known)


def tagged(data: str | bytes, form: Format | None = None, **options: Any) -> str:
    raw = data.encode(options.get("encoding", "utf-8")) if isinstance(data, str) else data
    out = io.BytesIO()
    tag(io.BytesIO(raw), out, InputReader(form), **options)
    return out.getvalue().decode()


def label(row: int) -> str:
    return NAMES[labels(row)]


def test_words_in_columns() -> None:
    a, b, c = (label(row) for row in range(3))
    expected = f"Rock NN X {a}\nwell\tNN X \t{b}\n\n-DOCSTART- x O O\n \n# VB Y {c}\n"
    assert tagged(CONLL, Format.CONLL) == expected
    assert tagged(CONLL[:-1], Format.CONLL) == expected[:-1]
    assert tagged(CONLL.replace("\n", "\r\n"), Format.CONLL) == expected.replace("\n", "\r\n")
    assert tagged(CONLL + "\n\n \n", Format.CONLL) == expected + "\n\n \n"
    assert tagged("\ufeff" + CONLL, Format.CONLL) == expected


def test_lines_of_attributes_become_labels() -> None:
    a, b, c, d = (label(row) for row in range(4))
    with_numbers = f"B\t{a}\t0.333333\n{b}\t0.25\nI\t{c}\t0.2\n\nB\t{d}\t0.166667\n"
    assert tagged(ATTRIBUTES, number=True) == with_numbers


def test_rows_with_quotes() -> None:
    a, b = label(0), label(1)
    expected = f'word,"a ""tag""",x,predicted\n"two\nlines",b,1,{a}\n\nthree,"c,d",2,{b}\n'
    assert tagged(FIELDS, Format.CSV) == expected
    assert tagged(FIELDS[:-1], Format.CSV) == expected[:-1]
    for old in ("a,b\r1,2\r3,4\r", "a,b\r1,2\r3,4"):
        assert tagged(old, Format.CSV) == f"a,b,predicted\r1,2,{a}\r3,4,{b}" + old[len("a,b\r1,2\r3,4") :]
    assert tagged("\n\n1,2\n", Format.CSV) == f"\n\n1,2,{a}\n"
    assert tagged('a"b,c\nd,"e\n"\n"",\n', Format.CSV) == f'a"b,c,predicted\nd,"e\n",{a}\n"",,{b}\n'
    assert tagged('a\t"\n"\tx\n', Format.TSV) == f'a\t"\tpredicted\n"\tx\t{a}\n'


def test_labels_are_quoted_where_they_have_to_be() -> None:
    names = ["a,b", 'say "x"', "a\nb"]
    rows = list(csv.reader(io.StringIO(tagged("w\n" + "x\n" * 9, Format.CSV, names=names), newline="")))
    assert rows == [["w", "predicted"], *(["x", names[labels(row)]] for row in range(9))]
    for form, name in ((Format.TSV, "a\tb"), (Format.CONLL, "a b"), (Format.CRFSUITE, "a\nb")):
        with pytest.raises(BadFile, match=r"the open file: label .* and cannot be a field of this format"):
            tagged("w\nx\n", form, names=["O", name, "B"])


def written(values: Any) -> str:
    """Numbers in a column of their own."""
    out = io.BytesIO()
    with Annotator(out, {"p": None, "q": None}) as annotator:
        list(InputReader(Format.CONLL).read(Inputs(io.BytesIO(b"x\n" * len(values)), keep=annotator.keep)))
        annotator.add(np.array(values), -np.array(values))
    return out.getvalue().decode()


def test_numbers_have_six_digits() -> None:
    rng = np.random.default_rng(1)
    values = [0.1234567, 1.0, 1e-9, 123456789.0, 0.0, np.nan, np.inf, 5e-324, 0.5, 1e-4, 9.9999995e-5, 1e-5, 999999.5]
    values += [base * 10.0**k for k in range(-12, 12) for base in (1, 1.5, 9.999995, 9.9999949, 1.2345650, 0.99999949)]
    values += [float(np.nextafter(10.0**k, way)) for k in range(-190, 190) for way in (0.0, np.inf)]
    values += (rng.random(3000) * 10.0 ** rng.integers(-30, 10, 3000)).tolist() + rng.random(3000).round(6).tolist()
    assert written(values) == "".join(f"x {value:.6g} {-value:.6g}\n" for value in values)


@given(st.lists(st.floats(), min_size=1))
@settings(deadline=None)
def test_any_number(values: list[float]) -> None:
    assert written(values) == "".join(f"x {value:.6g} {-value:.6g}\n" for value in values)


def pieces_of_text(form: Format) -> st.SearchStrategy[str]:
    rows = {
        Format.CONLL: ["a b\n", "é\tb \r\n", "\n", " \r\n", "-DOCSTART- -X-\n"],
        Format.CONLLU: [
            "1\t" * 9 + "x\n",
            "1\t" * 9 + "é\r\n",
            "\n",
            "# c\n",
            "1-2\t" * 9 + "x\n",
            "1.1\t" * 9 + "x\n",
        ],
        Format.CRFSUITE: ["B\ta\n", "\ta:2\r\n", "é\n", "\r\n", "\n"],
        Format.CSV: ["a,b\n", '"\n\r",é\r\n', 'a,"\nb"\n', "\n", "\r\n", '"""",\n', "x,y\r"],
        Format.TSV: ["a\tb\n", '"\té\r\n', "\n", "\r\n"],
    }
    return st.lists(st.sampled_from(rows[form]), min_size=1, max_size=30).map(
        lambda lines: rows[form][0] + "".join(lines)
    )


def plainly(text: str, form: Format) -> str:
    """The same, one line at a time."""
    out, row = "", 0
    if form in (Format.CSV, Format.TSV):
        return plainly_fields(text, "," if form is Format.CSV else "\t")
    for line in text.split("\n"):
        body, line_end = (line[:-1], "\r") if line.endswith("\r") else (line, "")
        inserted = form is Format.CONLLU and body.startswith(("#", "1-", "1."))
        if body.strip() and not body.startswith("-DOCSTART-") and not inserted:
            if form is Format.CRFSUITE:
                first = body.split("\t")[0]
                body = f"{first}\t{label(row)}" if first else label(row)
            else:
                body += ("\t" if "\t" in body else " ") + label(row)
            row += 1
        elif body.startswith("-DOCSTART-"):
            missing = len(text.split("\n")[0].split()) - len(body.split())
            body += " -X-" * (missing - 1) + " O" * (missing > 0) + " O"
        out += body + line_end + "\n"
    return out[:-1]


def plainly_fields(text: str, delimiter: str) -> str:
    """A row is whatever stands between line ends that no quotes hold."""
    out, row, field, quoted = "", 0, "", False
    for letter in text + "\n":
        if letter in "\r\n" and not quoted:
            out, row = (out + field + delimiter + label(row), row + 1) if field else (out, row)
            out, field = out + letter, ""
        else:
            quoted ^= letter == '"' and delimiter == ","
            field += letter
    return out[:-1]


@pytest.mark.parametrize("form", [Format.CONLL, Format.CONLLU, Format.CRFSUITE, Format.CSV, Format.TSV])
@given(data=st.data())
@settings(deadline=None)
def test_any_text_and_any_split(form: Format, data: st.DataObject) -> None:
    text = data.draw(pieces_of_text(form))
    text = text[:-1] if data.draw(st.booleans()) and text.endswith("\n") else text
    sizes = data.draw(st.lists(st.integers(1, 10)))
    out = io.BytesIO()
    reading = InputReader(form, header=False)
    tag(io.BytesIO(text.encode()), out, reading, sizes, lag=data.draw(st.integers(0, 20)))
    assert out.getvalue().decode() == plainly(text, form)


def test_many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConllReader, "chunk_size", 64)
    text = "".join("\n" * (row % 13 == 0) + f"word{row} X\n" for row in range(2000)) + "\n" * 200
    for lag in (0, 1000, 1 << 30):
        assert tagged(text, Format.CONLL, lag=lag, sizes=[1, 500, 3]) == plainly(text, Format.CONLL)


def test_long_tables_as_text() -> None:
    text = "".join(f"{row},x\n" for row in range(70_000))
    found = tagged(text, Format.CSV, lag=5).split("\n")
    assert found == [*(f"{row},x,{label(row)}" for row in range(70_000)), ""]


def test_another_encoding_becomes_utf8() -> None:
    assert tagged("Ärger X\nÖl Y\n", Format.CONLL, encoding="latin-1") == f"Ärger X {label(0)}\nÖl Y {label(1)}\n"
    assert tagged("Ä X\r\n", Format.CONLL, encoding="utf-16") == f"Ä X {label(0)}\r\n"


def test_several_inputs(tmp_path: Path) -> None:
    for name, text in (("1.csv", "a,b\n1,2\n3,4"), ("2.csv", "\na,b\n5,6\n"), ("3.csv", "a,b\r\n7,8\r\n")):
        (tmp_path / name).write_bytes(text.encode())
    out = io.BytesIO()
    tag(str(tmp_path / "*.csv"), out)
    rows = [f"{2 * row + 1},{2 * row + 2},{label(row)}" for row in range(4)]
    assert out.getvalue().decode() == "a,b,predicted\n" + "\n".join(rows) + "\r\n"
    (tmp_path / "1.conll").write_text("a b")
    (tmp_path / "2.conll").write_text("\nc d")
    out = io.BytesIO()
    tag(str(tmp_path / "*.conll"), out)
    assert out.getvalue().decode() == f"a b {label(0)}\n\nc d {label(1)}"


def table() -> Any:
    return pa.table(
        {
            "word": pa.array(["a", None, "ä", "a"] * 5, pa.large_string()),
            "n": pa.array(range(20), pa.int16()),
            "kind": pa.array(["x", "y"] * 10).dictionary_encode(),
            "bag": pa.array([["u", "v"], []] * 10),
            "view": pa.array(["a", "b"] * 10, pa.string_view()),
        },
        metadata={"about": "us"},
    )


def write_table(path: Path, rows: Any, form: str) -> Path:
    if form == "parquet":
        pq.write_table(rows, path, row_group_size=7)
        return path
    new = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    with new(str(path), rows.schema) as writer:
        writer.write_table(rows, max_chunksize=7)
    return path


def read_back(data: bytes, form: str) -> Any:
    if form == "parquet":
        return pq.read_table(io.BytesIO(data))
    return (pa.ipc.open_file if form == "file" else pa.ipc.open_stream)(data).read_all()


@pytest.mark.parametrize("form", ["parquet", "file", "stream"])
@pytest.mark.parametrize("lag", [0, 1, 30])
def test_tables_keep_their_types(form: str, lag: int, tmp_path: Path) -> None:
    path, out = write_table(tmp_path / "x", table(), form), io.BytesIO()
    tag(path, out, sizes=[3, 1, 9, 2], number=True, lag=lag)
    found = read_back(out.getvalue(), form)
    assert found.select(table().schema.names).equals(table())
    assert found.schema.metadata == {b"about": b"us"}
    assert found.schema.names[-2:] == ["predicted", "p"]
    assert found.schema.field("predicted").type == pa.dictionary(pa.int32(), pa.string())
    assert found["predicted"].to_pylist() == [label(row) for row in range(20)]
    assert found["p"].to_pylist() == [1 / (row + 3) for row in range(20)]


@pytest.mark.parametrize("form", ["parquet", "stream"])
def test_several_tables_make_one(form: str, tmp_path: Path) -> None:
    wider = table().set_column(1, "n", table()["n"].cast(pa.int64()))
    paths = [write_table(tmp_path / "1", table(), form), write_table(tmp_path / "2", wider, form)]
    out = io.BytesIO()
    tag(paths, out)
    found = read_back(out.getvalue(), form)
    assert found.drop_columns("predicted").equals(pa.concat_tables([table(), table()]))
    assert found["predicted"].to_pylist() == [label(row) for row in range(40)]


def test_arrow_goes_to_standard_output_as_a_stream_and_parquet_does_not(tmp_path: Path) -> None:
    out = io.BytesIO()
    tag(write_table(tmp_path / "x", table(), "file"), out, piped=True)
    assert read_back(out.getvalue(), "stream")["n"].equals(table()["n"])
    assert not out.closed
    path = write_table(tmp_path / "y", table(), "parquet")
    with pytest.raises(BadFile, match="y: is Parquet, which cannot go to standard output; write it to a file"):
        tag(path, out, piped=True)


def test_what_does_not_go_together(tmp_path: Path) -> None:
    rows = pa.table({"a": ["x"], "b": ["y"]})
    write_table(tmp_path / "1.parquet", rows, "parquet")
    (tmp_path / "2.csv").write_text("a,b\nx,y\n")
    with pytest.raises(BadFile, match=r"2\.csv: is text, but .*1\.parquet is a table; tag them one at a time"):
        tag(str(tmp_path / "[12]*"), io.BytesIO())
    write_table(tmp_path / "3.parquet", rows.rename_columns(["a", "c"]), "parquet")
    with pytest.raises(BadFile, match=r"its columns are a, c, but those of .* are a, b; tag them one at a time"):
        tag(str(tmp_path / "[13]*"), io.BytesIO(), InputReader(columns=("x", "y")))
    (tmp_path / "4.csv").write_text("predicted,x\n1,2\n")
    for path in (tmp_path / "4.csv", write_table(tmp_path / "5", pa.table({"predicted": ["x"]}), "file")):
        with pytest.raises(BadFile, match="has a column 'predicted' already"):
            tag(path, io.BytesIO())
    for name, words in (("6", ["x"]), ("7", ["y"])):
        write_table(tmp_path / name, pa.table({"a": pa.array(words).dictionary_encode()}), "file")
    with pytest.raises(BadFile, match=r"7: cannot be written behind the rows before it: .*; tag it on its own"):
        tag(str(tmp_path / "[67]"), io.BytesIO())


class Full(io.BytesIO):
    """A disk with little room."""

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > 100:
            raise OSError(28, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("form", ["parquet", "file", "stream", "text"])
def test_what_cannot_be_written(form: str, tmp_path: Path) -> None:
    path, out = tmp_path / "x.conll", tmp_path / "out"
    path.write_text("a b\n" * 100)
    path = path if form == "text" else write_table(tmp_path / "x", table(), form)
    with pytest.raises(BadFile, match="out: cannot be written: No space left on device"), written_whole(out):
        tag(path, Full())
    assert not out.exists()


@pytest.mark.parametrize("form", ["parquet", "file", "text"])
def test_a_failure_elsewhere_is_told_as_it_is(form: str, tmp_path: Path) -> None:
    path = tmp_path / "x.conll"
    path.write_text("a b\n")
    path = path if form == "text" else write_table(tmp_path / "x", table(), form)

    def fail(file: Any) -> None:
        with Annotator(file, {"predicted": NAMES}) as annotator:
            list(InputReader().read(Inputs(path, keep=annotator.keep)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), written_whole(tmp_path / "out") as file:
        fail(file)
    assert not (tmp_path / "out").exists()


def best(size: int) -> list[Labelling]:
    return [Labelling(0.5 / (rank + 1), [np.full(size, rank, np.int32)]) for rank in range(2)]


def ranked(given: Any, form: Format | None, sizes: Sequence[int]) -> str:
    out = io.BytesIO()
    with Annotator(out, {"predicted": NAMES}) as annotator:
        what = io.BytesIO(given.encode()) if isinstance(given, str) else given
        list(InputReader(form).read(Inputs(what, keep=annotator.keep)))
        for size in sizes:
            annotator.add_sequence(best(size))
    return out.getvalue().decode()


def test_several_labellings_of_each_sequence() -> None:
    found = ranked("-DOCSTART-\n\na x\nb y\n\n\nc z\n\n", Format.CONLL, [2, 1])
    assert found == (
        "-DOCSTART- O O\n\n# 0 0.5\na x O\nb y O\n\n# 1 0.25\na x B-NP\nb y B-NP\n"
        "\n\n# 0 0.5\nc z O\n\n# 1 0.25\nc z B-NP\n\n"
    )
    windows = "# 0 0.5\r\nB\tO\r\nO\r\n\r\n# 1 0.25\r\nB\tB-NP\r\nB-NP"
    assert ranked("B\ta\r\n\tb", Format.CRFSUITE, [2]) == windows
    assert ranked("a x\nb y\n", Format.CONLL, [1, 1]) == (
        "# 0 0.5\na x O\n\n# 1 0.25\na x B-NP\n\n# 0 0.5\nb y O\n\n# 1 0.25\nb y B-NP\n"
    )


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.booleans())
@settings(deadline=None)
def test_sequences_across_chunks(sizes: list[int], ended: bool) -> None:
    text = "\n".join("w x\n" * size for size in sizes)[: None if ended else -1]

    def copies(size: int) -> str:
        both = [f"# {rank} {0.5 / (rank + 1):g}\n" + f"w x {NAMES[rank]}\n" * size for rank in range(2)]
        return "\n".join(both)

    expected = "\n".join(map(copies, sizes))
    out = io.BytesIO()
    with Annotator(out, {"predicted": NAMES}) as annotator:
        stream = next(iter(Inputs(io.BytesIO(text.encode()), keep=annotator.keep))).open()
        reader = ConllReader()
        reader.chunk_size = 10
        list(reader.read(stream))
        for size in sizes:
            annotator.add_sequence(best(size))
    assert out.getvalue().decode() == expected[: None if ended else -1]


def test_several_labellings_are_for_lines_only(tmp_path: Path) -> None:
    with pytest.raises(ChainfoldError, match="only as CoNLL or CRFsuite lines"):
        ranked("a,b\n1,2\n", Format.CSV, [1])
    path = write_table(tmp_path / "x", table(), "file")
    with pytest.raises(ChainfoldError, match="cannot be written as a table"):
        ranked(path, None, [20])
