"""Tables to stretches: CSV and TSV, Parquet, Arrow IPC, and what is already in memory."""

from __future__ import annotations

import csv
import datetime
import decimal
import gzip
import io
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfold.errors import BadFile
from chainfold.readers import csv_tsv, parquet, tables
from chainfold.readers.annotate import Annotator
from chainfold.readers.columns import BAG, BAG_VALUES, NUMBER, SYMBOL, Stretch, chosen
from chainfold.readers.csv_tsv import CsvReader
from chainfold.readers.formats import Format, InputReader
from chainfold.readers.inputs import Chunk, Inputs
from chainfold.readers.parquet import group_sizes
from readers.reading import columns_of, everything, problem_of, stretches
from readers.test_inputs import Pipe

pytestmark = pytest.mark.quick


def csv_reader(delimiter: str = ",", **settings: Any) -> CsvReader:
    return CsvReader(delimiter, delimiter == ",", **settings)


def of_csv(data: bytes, delimiter: str = ",", chunk: int | None = None, **settings: Any) -> list[Stretch]:
    return stretches(csv_reader(delimiter, **settings), data, chunk)


def lines_of(found: Sequence[Stretch]) -> list[int]:
    return everything(found)[2]


@pytest.mark.parametrize("chunk", [1, 9, 30, 1 << 20])
@pytest.mark.parametrize("crlf", [False, True])
@pytest.mark.parametrize("final", [True, False])
def test_csv(chunk: int, crlf: bool, final: bool) -> None:
    data = b'word,size,place\nred,1.5,\n"a,b",2,"x ""y"""\n\n,,"two\nlines"\nend, -3e2 ,5"\n'
    data = data if final else data[:-1]
    data = data.replace(b"\n", b"\r\n") if crlf else data
    found = of_csv(data, chunk=chunk)
    assert all(stretch.batch.schema.types == [SYMBOL, NUMBER, SYMBOL] for stretch in found) or chunk < 30
    assert columns_of(found) == {
        "word": ["red", "a,b", None, "end"],
        "size": [1.5, 2.0, None, -300.0],
        "place": [None, 'x "y"', "two\r\nlines" if crlf else "two\nlines", '5"'],
    }
    assert lines_of(found) == [2, 3, 5, 7]


def test_dictionaries_hold_what_occurs_in_order_of_appearance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS", 2)
    monkeypatch.setattr(csv_tsv, "ROWS", 2)
    found = of_csv(b"b\na\nc\nb\nb\n", header=False)
    assert [stretch.batch.column(0).dictionary.to_pylist() for stretch in found] == [["b", "a"], ["c", "b"], ["b"]]
    column = pa.array(["c", "b", "b", "a"]).dictionary_encode()
    found = list(InputReader().read_table(pa.table({"x": column})))
    assert [stretch.batch.column(0).dictionary.to_pylist() for stretch in found] == [["c", "b"], ["b", "a"]]
    assert lines_of(found) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("first", "names"),
    [
        (b"a,b", ["a", "b"]),
        (b"a,1", ["0", "1"]),
        (b"a,", ["0", "1"]),
        (b"a,a", ["0", "1"]),
        (b"a,nan", ["0", "1"]),
        (b'"x y",b2', ["x y", "b2"]),
    ],
)
def test_a_header_is_a_line_of_different_names(first: bytes, names: list[str]) -> None:
    assert list(columns_of(of_csv(first + b"\nx,y\n"))) == names


def test_header_and_names_can_be_told() -> None:
    assert columns_of(of_csv(b"a,b\nc,d\n", header=False)) == {"0": ["a", "c"], "1": ["b", "d"]}
    assert columns_of(of_csv(b"1,2\nc,d\n", header=True)) == {"1": ["c"], "2": ["d"]}
    assert columns_of(of_csv(b"a,b\nc,d\n", columns=("x", "y"))) == {"x": ["c"], "y": ["d"]}
    assert "has 2 columns, but there are names for 1" in problem_of(csv_reader(columns=("x",)), b"a,b\n")
    assert "two columns are called 'a'" in problem_of(csv_reader(header=True), b"a,a\nx,y\n")


def test_a_column_without_values_is_of_symbols_and_numbers_can_be_symbols() -> None:
    found = of_csv(b"1,,2\n3,,4\n", symbols=chosen("2"))
    assert columns_of(found) == {"0": [1.0, 3.0], "1": [None, None], "2": ["2", "4"]}


def test_not_a_number_is_no_missing_value() -> None:
    found = columns_of(of_csv(b"x,y\n1,NA\nnan,\n"))
    assert np.isnan(found["x"][1])
    assert found["y"] == ["NA", None]


def test_files_with_tabs_have_no_quotes() -> None:
    assert columns_of(of_csv(b'w\tt\n"\ta\n"b\tc"\n', "\t")) == {"w": ['"', '"b'], "t": ["a", 'c"']}
    assert "line 2 has 3 fields, but the first line has 2 columns; is a tab missing" in problem_of(
        csv_reader("\t"), b"a\tb\n1\t2\t\n"
    )


@pytest.mark.parametrize("chunk", [1, 50, 1 << 20])
def test_what_is_wrong_is_told_with_its_line(chunk: int) -> None:
    good = b'1,"a\nb"\n\n2,c\n' * 20  # four lines each
    wide = "line 81 has 3 fields, but the first line has 2 columns; quote"
    assert wide in problem_of(csv_reader(), good + b"1,b,c\n" + good, chunk)
    assert "line 82 has 1 field, but" in problem_of(csv_reader(), good + b"\n1\n", chunk)
    if chunk == 50:  # the first chunk says that these are numbers
        word = "line 83, column '0': 'x' is not a number, as those before it are; correct it"
        assert word in problem_of(csv_reader(), good + b"5,x\n,y\nx,z\n" + good, chunk)
    assert "opened in the row that begins on line 81, but never closed" in problem_of(
        csv_reader(), good + b'1,"a\nb\n', chunk
    )


def test_the_first_of_several_wrong_fields_is_told() -> None:
    lines = [b"1,2"] * 3 + [b"1,x", b"y,2"]
    assert "line 4, column '1': 'x' is not a number" in problem_of(csv_reader(), b"\n".join(lines), 12)


def test_rows_longer_than_a_block() -> None:
    long = "x" * (3 << 20)
    assert columns_of(of_csv(f"a,b\n1,{long}\n2,y\n".encode())) == {"a": [1.0, 2.0], "b": [long, "y"]}


def test_later_files_follow_the_first(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\nx,1\n")
    (tmp_path / "2.csv").write_text("a,b\n7,2\n")
    (tmp_path / "3.csv").write_text("a,c\n7,2\n")
    (tmp_path / "4.csv").write_text("a,b\n7,z\n")
    found = list(InputReader().read(Inputs([tmp_path / "1.csv", tmp_path / "2.csv"])))
    assert [stretch.batch.to_pydict() for stretch in found] == [{"a": ["x"], "b": [1.0]}, {"a": ["7"], "b": [2.0]}]
    assert [stretch.starts.tolist() for stretch in found] == [[True], [True]]
    with pytest.raises(BadFile, match=r"3.csv: its columns are a, c, but those of .*1.csv are a, b\."):
        list(InputReader().read(Inputs([tmp_path / "1.csv", tmp_path / "3.csv"])))
    with pytest.raises(BadFile, match=r"4.csv: line 2, column 'b': 'z' is not a number"):
        list(InputReader().read(Inputs([tmp_path / "1.csv", tmp_path / "4.csv"])))


FIELD = st.sampled_from(["a", "", "7", '"', 'x"y', "p,q", "two\nlines", "é", "\r"])


@given(st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=12), st.integers(1, 60))
def test_csv_agrees_with_the_writer_of_python(rows: list[tuple[str, str]], chunk: int) -> None:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n", quoting=csv.QUOTE_ALL)
    lines = []
    for row in rows:
        lines.append(sink.getvalue().count("\n") + 1)
        writer.writerow(row)
    found = of_csv(sink.getvalue().encode(), header=False, symbols=chosen("0", "1"), chunk=chunk)
    columns = columns_of(found)
    assert list(zip(columns["0"], columns["1"], strict=True)) == [(a or None, b or None) for a, b in rows]
    assert lines_of(found) == lines


ALL_KINDS = {
    "text": pa.array(["a", None, "b"], pa.large_string()),
    "view": pa.array(["a", None, "b"], pa.string_view()),
    "category": pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.uint8()), pa.array(["x", "y", "never"])),
    "odd": pa.DictionaryArray.from_arrays(pa.array([1, 0, 2]), pa.array(["x", None, "x"])),
    "numbered": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array([5, 6])),
    "truth": pa.array([True, None, False]),
    "day": pa.array([datetime.date(2024, 2, 29), None, datetime.date(1970, 1, 1)]),
    "nothing": pa.nulls(3),
    "whole": pa.array([1, None, 2**60], pa.int64()),
    "real": pa.array([0.5, float("nan"), None], pa.float32()),
    "exact": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal(2)]),
    "bag": pa.array([["p", "q"], None, ["p"]], pa.list_(pa.string())),
    "bag:values": pa.array([[1, 2], None, [3]], pa.list_(pa.int32())),
    "pair": pa.array([["p", "q"], ["r", "r"], ["p", "r"]], pa.list_(pa.string(), 2)),
}
KINDS_READ = {
    "text": ["a", None, "b"],
    "view": ["a", None, "b"],
    "category": ["y", "x", None],
    "odd": [None, "x", "x"],
    "numbered": ["5", "6", "5"],
    "truth": ["true", None, "false"],
    "day": ["2024-02-29", None, "1970-01-01"],
    "nothing": [None] * 3,
    "whole": [1.0, None, 2.0**60],
    "exact": [1.25, None, 2.0],
    "bag": [["p", "q"], [], ["p"]],
    "bag:values": [[1.0, 2.0], [], [3.0]],
    "pair": [["p", "q"], ["r", "r"], ["p", "r"]],
}


@pytest.mark.parametrize("rows", [1, 2, 65536])
def test_every_type_of_column(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS", rows)
    found = list(InputReader().read_table(pa.table(ALL_KINDS)))
    kinds = dict(zip(found[0].batch.schema.names, found[0].batch.schema.types, strict=True))
    columns = columns_of(found)
    real = columns.pop("real")
    assert columns == KINDS_READ
    assert real[0] == 0.5
    assert np.isnan(real[1])
    assert real[2] is None
    assert {name for name, kind in kinds.items() if kind == NUMBER} == {"whole", "real", "exact"}
    assert {name for name, kind in kinds.items() if kind == BAG} == {"bag", "pair"}
    assert kinds["bag:values"] == BAG_VALUES
    assert set(kinds.values()) == {SYMBOL, NUMBER, BAG, BAG_VALUES}


def test_numbers_as_symbols_and_other_names() -> None:
    table = pa.table({"a": [1, 2], "b": [0.5, 1.0]})
    found = list(InputReader(columns=("x", "y"), symbols=chosen("x", "y")).read_table(table))
    assert columns_of(found) == {"x": ["1", "2"], "y": ["0.5", "1"]}


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (pa.table({"z": [b"bytes"]}), "column 'z' is of type binary, which is neither text nor numbers"),
        (pa.table({"z": [[1, 2]]}), "column 'z' is of type list<.*int64>, which is neither"),
        (pa.table({"z": [{"a": 1}]}), "column 'z' is of type struct"),
        (pa.table({"z": [["a"], ["b", None]]}), "row 2, column 'z': an entry of the list is missing"),
        (pa.table({"z": [["a"], ["b"]], "z:values": [[1.0], []]}), "row 2, column 'z': there are not as many values"),
        (pa.table([["a"], ["b"]], names=["z", "z"]), "two columns are called 'z'"),
        (pa.table({"z": pa.array([], pa.string())}), "has no rows"),
        (np.zeros(3), "it has 1 dimension; give it two, or named fields"),
        (np.array([["a", 1], ["b", object()]], object), "this ndarray cannot be read as a table"),
        (5, "this int cannot be read as a table: give an Arrow"),
        (pa.chunked_array([["a"]]), "this ChunkedArray cannot be read as a table"),
    ],
)
def test_what_is_no_table(table: object, problem: str) -> None:
    with pytest.raises(BadFile, match=f"the table: .*{problem}|the table: {problem}"):
        list(InputReader().read_table(table))


def test_arrow_tables_batches_and_readers() -> None:
    table = pa.table({"a": ["x", "y"], "b": [1, 2]})
    for one in (table, table.to_batches()[0], table.to_reader()):
        assert columns_of(list(InputReader().read_table(one))) == {"a": ["x", "y"], "b": [1.0, 2.0]}


def test_numpy_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS", 2)
    assert columns_of(list(InputReader().read_table(np.arange(6).reshape(3, 2)))) == {"0": [0, 2, 4], "1": [1, 3, 5]}
    named = np.array([("a", 1.5), ("b", 2.0), ("c", 0.0)], [("w", "U3"), ("n", "f4")])
    assert columns_of(list(InputReader().read_table(named))) == {"w": ["a", "b", "c"], "n": [1.5, 2.0, 0.0]}
    assert columns_of(list(InputReader(columns=("w",)).read_table(np.array([["a"], ["b"]])))) == {"w": ["a", "b"]}


def test_pandas() -> None:
    frame = pandas.DataFrame({"w": ["a", None, "b"], "n": [1, 2, 3], "c": pandas.Categorical(["x", "y", "x"])})
    assert columns_of(list(InputReader().read_table(frame[frame.n > 1]))) == {
        "w": [None, "b"],
        "n": [2.0, 3.0],
        "c": ["y", "x"],
    }


def test_polars() -> None:
    frame = polars.DataFrame(
        {
            "w": ["a", None, "b"],
            "c": polars.Series(["x", "y", "x"], dtype=polars.Categorical),
            "e": polars.Series(["x", "y", "x"], dtype=polars.Enum(["y", "x"])),
            "l": [["p"], [], ["q", "p"]],
            "t": [True, False, None],
        }
    )
    expected = frame.to_dict(as_series=False) | {"t": ["true", "false", None]}
    assert columns_of(list(InputReader().read_table(frame))) == expected
    sink = io.BytesIO()
    frame.write_ipc(sink)
    assert columns_of(list(InputReader().read(Inputs(io.BytesIO(sink.getvalue()))))) == expected


def in_ipc(table: Any, as_file: bool) -> bytes:
    sink = io.BytesIO()
    with (pa.ipc.new_file if as_file else pa.ipc.new_stream)(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    return sink.getvalue()


@pytest.mark.parametrize("as_file", [True, False])
def test_arrow_from_anywhere(as_file: bool, tmp_path: Path) -> None:
    table = pa.table({"a": pa.array(["x", "y"] * 5).dictionary_encode(), "b": range(10)})
    data = in_ipc(table, as_file)
    expected = {"a": ["x", "y"] * 5, "b": list(range(10))}
    (tmp_path / "x").write_bytes(data)
    assert columns_of(list(InputReader().read(Inputs(tmp_path / "x")))) == expected
    assert columns_of(list(InputReader().read(Inputs(io.BytesIO(data))))) == expected
    for source, problem in (
        (Pipe(data, 5), "an Arrow file cannot be read from a pipe"),
        (io.BytesIO(gzip.compress(data)), "is an Arrow file inside gzip data"),
    ):
        if as_file:
            with pytest.raises(BadFile, match=problem):
                list(InputReader().read(Inputs(source)))  # type: ignore[arg-type]
        else:
            assert columns_of(list(InputReader().read(Inputs(source)))) == expected  # type: ignore[arg-type]
    for cut in range(1, len(data) - 8, 7) if as_file else range(1, len(data) // 2, 7):
        with pytest.raises(BadFile, match="cut short"):
            list(InputReader(Format.ARROW).read(Inputs(io.BytesIO(data[:cut]))))


def test_parquet(tmp_path: Path) -> None:
    table = pa.table({"a": ["x", None, "y"] * 1000, "b": range(3000), "l": [["p", "q"], [], ["p"]] * 1000})
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, row_group_size=700)
    expected = table.to_pydict()
    seen: list[int] = []
    inputs = Inputs(path, progress=seen.append)
    assert columns_of(list(InputReader().read(inputs))) == expected
    assert sum(seen) == inputs.total_bytes
    data = path.read_bytes()
    assert columns_of(list(InputReader().read(Inputs(io.BytesIO(data))))) == expected
    for source, problem in (
        (Pipe(data), "Parquet cannot be read from a pipe"),
        (io.BytesIO(gzip.compress(data)), "is Parquet inside gzip data"),
        (io.BytesIO(data[:-100]), "cannot be read as Parquet"),
    ):
        with pytest.raises(BadFile, match=problem):
            list(InputReader().read(Inputs(source)))  # type: ignore[arg-type]


def test_rows_of_long_texts_are_read_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"w": [f"{k}" * 1000 for k in range(500)], "b": [[f"{k}"] for k in range(500)]})
    pq.write_table(table, path, row_group_size=200)
    monkeypatch.setattr(parquet, "_AT_ONCE", 100_000)
    found = list(InputReader().read(Inputs(path)))
    assert 1 < max(stretch.lines.size for stretch in found) < 100
    assert columns_of(found) == table.to_pydict()


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["x", "a" * 200, "y"]),
        pa.array([None, "a" * 200, "y"], pa.large_string()),
        pa.array(["x", "a" * 200, "y"]).dictionary_encode(),
        pa.array([["x"], ["y", "a" * 200], []]),
    ],
    ids=["text", "large", "dictionary", "list"],
)
def test_a_huge_cell(column: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LONGEST_LINE", 100)
    with pytest.raises(BadFile, match="the table: rows 1 to 3, column 'w': a cell has more than"):
        list(InputReader().read_table(pa.table({"w": column})))
    assert lines_of(list(InputReader().read_table(pa.table({"w": column.slice(2)})))) == [1]


def test_damaged_parquet_never_ends_the_process() -> None:
    sink, dice = io.BytesIO(), random.Random(0)
    table = pa.table({"a": ["x", None, "yy"] * 20, "b": range(60), "l": [["p", "q"], [], ["p"]] * 20})
    pq.write_table(table, sink, row_group_size=25)
    data = sink.getvalue()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    refused = 0
    for _ in range(1500):
        damaged = bytearray(data)
        damaged[dice.randrange(footer, len(data))] ^= 1 << dice.randrange(8)
        try:
            list(InputReader().read(Inputs(io.BytesIO(damaged))))
            group_sizes(next(iter(Inputs(io.BytesIO(damaged)))).open(), len(data))
        except BadFile:
            refused += 1
    assert 500 < refused < 1500


def test_comments_are_no_rows() -> None:
    text = '# a, "b\n#\nw,t\n#x,y,z\nthe,D\n\n"c,#t",N\n# end'
    stretches = list(InputReader(Format.CSV, comments="#").read(Inputs(io.BytesIO(text.encode()))))
    assert [row for stretch in stretches for row in stretch.batch.to_pylist()] == [
        {"w": "the", "t": "D"},
        {"w": "c,#t", "t": "N"},
    ]
    assert [line for stretch in stretches for line in stretch.lines.tolist()] == [5, 7]
    for quoted in ('a,b\n"x\n#y",z\n', 'a,b\n"x\ny",z\n'):
        with pytest.raises(BadFile, match="with `comments`, a row is one line"):
            list(InputReader(Format.CSV, comments="#").read(Inputs(io.BytesIO(quoted.encode()))))
    [stretch] = InputReader(Format.CSV).read(Inputs(io.BytesIO(b"#a,b\nx,y\n")))
    assert stretch.batch.schema.names == ["#a", "b"]


def test_comments_of_tables_are_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# a\nw,t\nthe,D\r\n#\r\ncat,N\n# end\n"
    for chunk in (1, 7, 1 << 20):
        monkeypatch.setattr(CsvReader, "chunk_size", chunk)
        sink = io.BytesIO()
        with Annotator(sink, {"predicted": ["X"]}) as annotator:
            inputs = Inputs(io.BytesIO(text.encode()), keep=annotator.keep)
            rows = sum(part.lines.size for part in InputReader(Format.CSV, comments="#").read(inputs))
            annotator.add(np.zeros(rows, np.int64))
        assert sink.getvalue().decode() == "# a\nw,t,predicted\nthe,D,X\r\n#\r\ncat,N,X\n# end\n"


def test_the_first_row_may_have_long_fields() -> None:
    long, limit = "x" * 200_000, csv.field_size_limit()
    assert columns_of(of_csv(f'1,"{long}"\n2,y\n'.encode())) == {"0": [1.0, 2.0], "1": [long, "y"]}
    assert csv.field_size_limit() == limit


@given(st.text('ab",\r\n ', max_size=30))
def test_the_first_row_is_that_of_python(text: str) -> None:
    rows = [row for row in csv.reader(io.StringIO(text + "\n", newline="")) if row]
    if rows:
        reader = CsvReader(",", True)
        assert reader._first_row(Chunk(f"{text}\n".encode(), 1))[0] == rows[0]
