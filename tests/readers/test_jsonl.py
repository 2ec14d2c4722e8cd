"""JSON lines: both forms against Python's parser, what is refused, and what `tag` writes."""

from __future__ import annotations

import gzip
import io
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainfold as cf
from chainfold.errors import BadFile, BadSetting
from chainfold.readers.annotate import Annotator
from chainfold.readers.columns import Stretch, chosen
from chainfold.readers.formats import Format, InputReader
from chainfold.readers.inputs import Inputs
from chainfold.readers.jsonl import JsonLinesReader
from readers.reading import problem_of, stretches
from verbs import failed, run, sentences, succeeded

Row = dict[str, Any]


def lines_of(objects: list[Any]) -> bytes:
    return "".join("\n" if value is None else json.dumps(value) + "\n" for value in objects).encode()


def read(data: bytes, **options: Any) -> list[Stretch]:
    return list(InputReader(**options).read(Inputs(io.BytesIO(data))))


def rows_of(stretches: list[Stretch]) -> list[tuple[bool, int, Row]]:
    """(does a sequence start here?, line, values) of each row."""
    return [
        (bool(start), int(line), row)
        for stretch in stretches
        for start, line, row in zip(stretch.starts, stretch.lines, stretch.batch.to_pylist(), strict=True)
    ]


def test_an_object_a_row_with_blank_lines_between_sequences() -> None:
    data = (
        b'\n{"w": "the", "n": 1, "l": "D"}\n{"w": "cat", "n": 2.5, "l": null}\r\n \t\n{"n": null, "l": "P", "w": "it"}'
    )
    assert rows_of(read(data)) == [
        (True, 2, {"w": "the", "n": 1.0, "l": "D"}),
        (False, 3, {"w": "cat", "n": 2.5, "l": None}),
        (True, 5, {"w": "it", "n": None, "l": "P"}),
    ]


def test_an_object_a_sequence_with_lists() -> None:
    data = lines_of(
        [
            {"id": 7, "tokens": ["the", "cat"], "x": [1, 2.5], "tags": ["D", "N"], "meta": {"a": [1]}},
            {"tokens": [], "x": [], "tags": []},
            None,
            {"tags": [None], "x": [3], "tokens": ["it"]},
        ]
    )
    assert rows_of(read(data)) == [
        (True, 1, {"tokens": "the", "x": 1.0, "tags": "D"}),
        (False, 1, {"tokens": "cat", "x": 2.5, "tags": "N"}),
        (True, 4, {"tokens": "it", "x": 3.0, "tags": None}),
    ]


def test_lists_in_lists_are_bags() -> None:
    rows = rows_of(read(lines_of([{"attributes": [["a", "b"], []], "label": ["X", "Y"]}])))
    assert [row["attributes"] for _, _, row in rows] == [["a", "b"], []]


def test_symbols_may_be_numbers_true_or_false() -> None:
    data = lines_of([{"k": 3, "b": True, "t": "2020-01-01 00:00:00"}, {"k": 4, "b": False, "t": "x"}])
    rows = rows_of(read(data, symbols=chosen("k")))
    assert [row for _, _, row in rows] == [
        {"k": "3", "b": "true", "t": "2020-01-01 00:00:00"},
        {"k": "4", "b": "false", "t": "x"},
    ]


@pytest.mark.parametrize("form", ["rows", "sequences"])
@pytest.mark.parametrize("chunk", [1, 50, 300, 1 << 20])
def test_chunks_of_any_size_give_what_python_reads(form: str, chunk: int) -> None:
    dice = random.Random(f"{form} {chunk}")
    texts = ["a", "é", 'q"uote', "back\\slash", "line\nend", "", "\u2028", "}", "{", "😀", "a b"]
    objects: list[Any] = []
    expected: list[tuple[bool, Row]] = []
    for _ in range(60):
        rows: list[Row] = [
            {"w": dice.choice(texts), "x": dice.choice([1, 2.5, -3e4])} for _ in range(dice.randint(1, 5))
        ]
        expected += [(k == 0, {**row, "x": float(row["x"])}) for k, row in enumerate(rows)]
        objects += [{name: [row[name] for row in rows] for name in rows[0]}] if form == "sequences" else [*rows, None]
    data = (
        lines_of(objects)
        if dice.random() < 0.5
        else "".join(
            "  \n" if value is None else f" {json.dumps(value, ensure_ascii=False)}  \r\n" for value in objects
        ).encode()
    )
    found = rows_of(stretches(JsonLinesReader(), data, chunk))
    assert [(start, row) for start, _, row in found] == expected
    assert all(low <= high for (_, low, _), (_, high, _) in pairwise(found))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"w": "x", "n": 1', "line 2 is not JSON: Expecting ',' delimiter"),
        (b'{"w": "x", "n": 1} {"w": "x", "n": 1}', "line 2 is not JSON: Extra data"),
        (b'{"w": "x", "n": "1"}', """line 2, field 'n': "1" is text, but those before it are a number"""),
        (b'{"w": 1, "n": 1}', "line 2, field 'w': 1 is a number, but those before it are text"),
        (b'{"w": {"a": 1}, "n": 1}', "line 2, field 'w' is an object, which is neither text nor a number"),
        (b'{"w": ["a"], "n": 1}', "line 2, field 'w' is an array, which is neither text nor a number"),
        (b'{"w": "x", "w": "x"}', "line 2 has the field 'w' twice"),
        (b'{"w": "x", "z": 1}', "line 2 has a field 'z' that the first line does not have"),
        (b"{ }", "line 2 has an object without fields"),
        (b'["w"]', "line 2 is an array; JSON lines have an object on each line"),
        (b"3", "line 2 is 3; JSON lines"),
        (b"x", "line 2 is not JSON"),
        (b'{"w": "\\ud800", "n": 1}', "line 2, field 'w': half of a surrogate pair is no text"),
        (b'{"w": ' + b"[" * 100_000 + b"}", "line 2 is not"),
        (b'{"w": "\xff"}', "line 2, byte 8: 0xff is not UTF-8"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_what_cannot_be_read_is_named(line: bytes, problem: str, chunk: int) -> None:
    data = b'{"w": "a", "n": 1}\n' + line + b'\n{"w": "b", "n": 2}\n'
    assert problem in problem_of(JsonLinesReader(), data, chunk)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"t": ["a"], "l": []}', "line 2: field 'l' has 0 entries, but field 't' has 1"),
        (b'{"t": ["a"]}', "line 2, field 'l': there is null, but a list on the first line"),
        (b'{"t": "a", "l": ["X"]}', """line 2, field 't': there is "a", but a list on the first line"""),
        (b'{"t": [1], "l": ["X"]}', "line 2, field 't': 1 is a number, but those before it are text"),
        (b'{"t": [["a"]], "l": ["X"]}', "line 2, field 't': an entry is an array, but those before it are no lists"),
    ],
)
def test_sequences_that_cannot_be_read_are_named(line: bytes, problem: str) -> None:
    with pytest.raises(BadFile) as error:
        read(b'{"t": ["a"], "l": ["X"]}\n' + line + b"\n", format=Format.JSONL)
    assert problem in str(error.value)


def test_columns_are_the_fields_to_read() -> None:
    data = lines_of([{"w": "a"}, {"w": "b", "z": {"q": 1}, "v": "x"}])
    rows = [row for _, _, row in rows_of(read(data, columns=["v", "w"]))]
    assert rows == [{"v": None, "w": "a"}, {"v": "x", "w": "b"}]


def test_the_format_is_known_by_name_and_by_content(tmp_path: Path) -> None:
    data = lines_of([{"w": "a", "l": "X"}])
    for name in ("rows.jsonl", "rows.ndjson", "rows.jsonl.gz", "rows.txt", "rows"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        assert rows_of(list(InputReader().read(Inputs(path)))) == [(True, 1, {"w": "a", "l": "X"})]
    for name, text in (("rows.json", data), ("array", b'[{"w": "a"}]\n'), ("list.txt", b'["a", "b"]\n')):
        (tmp_path / name).write_bytes(text)
        with pytest.raises(BadFile, match="looks like one JSON value, which is not read; give JSON lines"):
            list(InputReader().read(Inputs(tmp_path / name)))
    (tmp_path / "long.txt").write_bytes(lines_of([{"t": ["word"] * 50_000, "l": ["X"] * 50_000}]))
    assert sum(s.lines.size for s in InputReader().read(Inputs(tmp_path / "long.txt"))) == 50_000
    (tmp_path / "brace.txt").write_bytes(b"{ LRB\nx NN\n")  # a word that is a brace
    assert len(rows_of(list(InputReader().read(Inputs(tmp_path / "brace.txt"))))) == 2


def test_nothing_but_blank_lines_is_refused() -> None:
    with pytest.raises(BadFile, match="has no rows, only blank lines or empty lists"):
        read(b"\n\n", format=Format.JSONL)
    with pytest.raises(BadFile, match="has no rows"):
        read(b'{"t": []}\n', format=Format.JSONL)
    with pytest.raises(BadSetting, match="comments"):
        read(b"{}", format=Format.JSONL, comments="#")


def test_new_fields_come_last_and_everything_else_stays() -> None:
    data = b'\n{"t": ["a", "b"] }  \r\n\n{"t": []}\n{"t": ["c"], "id": 7}'
    sink = io.BytesIO()
    with Annotator(sink, {"predicted": ["X", 'Y"é'], "p": None}) as annotator:
        for _ in InputReader().read(Inputs(io.BytesIO(data), keep=annotator.keep)):
            pass
        annotator.add(np.array([0]), np.array([0.25]))
        annotator.add(np.array([1, 0]), np.array([1e-7, 1.0]))
    assert sink.getvalue().decode() == (
        '\n{"t": ["a", "b"] , "predicted": ["X", "Y\\"é"], "p": [0.25, 1e-07]}  \r\n\n'
        '{"t": [], "predicted": [], "p": []}\n{"t": ["c"], "id": 7, "predicted": ["X"], "p": [1]}'
    )
    for line in sink.getvalue().splitlines():
        assert not line.strip() or json.loads(line)


def test_a_field_that_is_there_already_is_refused() -> None:
    data = lines_of([{"t": "a", "v": "predicted"}, {"t": "b", "v": "x", "predicted": "X"}])
    with Annotator(io.BytesIO(), {"predicted": ["X"]}) as annotator, pytest.raises(BadFile, match="line 2 has a field"):
        list(InputReader(fields=frozenset("tv")).read(Inputs(io.BytesIO(data), keep=annotator.keep)))
    annotator = Annotator(io.BytesIO(), {"predicted": ["X"]})
    annotator.keep(next(iter(_kept(b"a b\n", Format.CONLL))))
    with pytest.raises(BadFile, match="is JSON lines, but the open file is text; tag them one at a time"):
        annotator.keep(next(iter(_kept(data[: data.index(b"\n") + 1], Format.JSONL))))


def _kept(data: bytes, form: Format) -> list[Any]:
    kept: list[Any] = []
    list(InputReader(format=form).read(Inputs(io.BytesIO(data), keep=kept.append)))
    return kept


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same corpus in columns and in both forms, and a model of each."""
    made = tmp_path_factory.mktemp("jsonl")
    corpus = sentences(60)
    names = ("w", "s", "t")
    flat, lists, text = list[Any](), list[Any](), ""
    for rows in corpus:
        flat += [*(dict(zip(names, row, strict=True)) for row in rows), None]
        lists.append({"id": len(lists)} | {name: [row[k] for row in rows] for k, name in enumerate(names)})
        text += "".join(" ".join(row) + "\n" for row in rows) + "\n"
    (made / "rows.conll").write_text(text)
    (made / "flat.jsonl").write_bytes(lines_of(flat))
    (made / "lists.jsonl").write_bytes(lines_of(lists))
    for name in ("rows.conll", "flat.jsonl", "lists.jsonl"):
        columns = ["--columns", "w,s,t"] if name == "rows.conll" else []
        succeeded("train", made / name, "-o", made / f"{name}.model", "--max-iterations", 20, *columns)
    return made


def test_models_do_not_depend_on_the_form(folder: Path) -> None:
    models = [cf.open_model(folder / f"{name}.model") for name in ("rows.conll", "flat.jsonl", "lists.jsonl")]
    for model in models[1:]:
        assert model.weights.tobytes() == models[0].weights.tobytes()
        assert model.vocabulary is not None
        assert models[0].vocabulary is not None
        assert model.vocabulary.labels == models[0].vocabulary.labels


@pytest.mark.parametrize("follow", [False, True])
def test_tagging_writes_the_form_of_the_input(folder: Path, follow: bool) -> None:
    model = folder / "rows.conll.model"
    options = ["--follow"] if follow else []
    tagged = succeeded("tag", model, folder / "rows.conll").decode().split("\n\n")
    expected = [[line.split()[-1] for line in rows.splitlines()] for rows in tagged if rows.strip()]
    flat = succeeded("tag", model, "-", *options, given=(folder / "flat.jsonl").read_bytes()).decode()
    found = [
        [json.loads(line)["predicted"] for line in rows.splitlines()] for rows in flat.split("\n\n") if rows.strip()
    ]
    assert found == expected
    lists = succeeded("tag", model, "-", *options, given=(folder / "lists.jsonl").read_bytes()).decode()
    assert [json.loads(line)["predicted"] for line in lists.splitlines()] == expected
    assert [json.loads(line)["id"] for line in lists.splitlines()] == list(range(len(expected)))


def test_bad_lines_of_a_stream_can_be_skipped(folder: Path) -> None:
    lines = (folder / "flat.jsonl").read_bytes().splitlines(keepends=True)
    good = b"".join(lines[:3])
    given = good + b'{"w": 1}\n' + b"".join(lines[3:6])
    done = run("tag", folder / "flat.jsonl.model", "-", "--follow", "--on-error", "skip", given=given)
    assert done.exit_code == 0, done.stderr
    assert "left out: standard input: line 4, field 'w'" in done.stderr
    assert done.stdout_bytes == succeeded("tag", folder / "flat.jsonl.model", "-", given=b"".join(lines[:6]))
    assert "--on-error" in failed(
        "tag", folder / "flat.jsonl.model", "-", "--follow", "--on-error", "unknown", given=good
    )


def test_a_model_reads_only_the_fields_it_knows(folder: Path) -> None:
    data = b'{"w": "b1", "s": "x", "other": {"a": 1}, "more": 2}\n{"w": "b1", "s": "X", "more": "text"}\n'
    tagged = succeeded("tag", folder / "flat.jsonl.model", "-", given=data).splitlines()
    assert [json.loads(line)["more"] for line in tagged] == [2, "text"]
    sentence = failed("tag", folder / "flat.jsonl.model", "-", given=b'{"other": 1}\n')
    assert "line 1 has no field that the model uses; these are s, t, w" in sentence
    assert "there is no column 's', which the model uses" in failed(
        "tag", folder / "flat.jsonl.model", "-", given=b'{"w": "x"}\n'
    )


def test_groups_and_lines_that_are_too_long(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"g": k // 2, "w": "a", "l": "XY"[k % 2]} for k in range(6)]
    chain = cf.encode(io.BytesIO(lines_of(rows)), folder / "groups.chain", group="g")
    assert chain.block(0, 6).starts.tolist() == [True, False] * 3
    monkeypatch.setattr("chainfold.readers.inputs.LONGEST_LINE", 100)
    long = b'{"t": "' + b"x" * 1000 + b'"}\n'
    assert "line 1 begins a row of more than" in problem_of(JsonLinesReader(), long, 50)
