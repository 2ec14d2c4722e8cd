"""Files as they come: encodings, delimiters, documents, inputs without rows; and verbs that write less or sooner."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chainfold as cf
from verbs import conll, failed, run, succeeded

ROWS = "the DT B-NP\ncafé NN I-NP\nsat VBD O\n\nit PRP B-NP\nslept VBD O\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    (made / "rows").write_text(ROWS, encoding="utf-8")
    (made / "latin").write_bytes(ROWS.encode("latin-1"))
    (made / "semi").write_text("w;p;t\n" + ROWS.replace("\n\n", "\n").replace(" ", ";"), encoding="utf-8")
    for name, options in (("rows", []), ("latin", ["--encoding", "latin-1"]), ("semi", ["--delimiter", ";"])):
        succeeded("train", made / name, "-o", made / f"{name}.model", *options, "--quiet", "--max-iterations", 10)
    return made


# Encodings


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("told", [None, "utf-8", "latin-1"])
def test_a_byte_order_mark_decides(folder: Path, encoding: str, follow: bool, told: str | None) -> None:
    mark = {"utf-16-be": codecs.BOM_UTF16_BE, "utf-32-be": codecs.BOM_UTF32_BE}.get(encoding, b"")
    options = [*(["--follow"] if follow else []), *([] if told is None else ["--encoding", told])]
    tagged = succeeded("tag", folder / "rows.model", "-", *options, given=mark + ROWS.encode(encoding))
    assert tagged == succeeded("tag", folder / "rows.model", folder / "rows")


def test_a_byte_order_mark_may_arrive_in_pieces(folder: Path) -> None:
    from chainfold.readers.inputs import Chunk, Inputs
    from chainfold.readers.whole_lines import whole_lines

    for data in (ROWS.encode("utf-16"), ROWS.encode("utf-8-sig"), b"a\n", b"", b"\xff"):
        import threading

        [source] = Inputs(folder / "rows")
        pieces = [data[k : k + 1] for k in range(len(data))]
        lines = [chunk.data for chunk in whole_lines(pieces, source, threading.Event()) if isinstance(chunk, Chunk)]
        expected = {b"a\n": b"a\n", b"": b"", b"\xff": b"\xff\n"}.get(data, ROWS.encode())
        assert b"".join(lines) == expected


@pytest.mark.parametrize("follow", [False, True])
def test_a_model_remembers_its_encoding(folder: Path, follow: bool) -> None:
    options = ["--follow"] if follow else []
    expected = succeeded("tag", folder / "rows.model", folder / "rows")
    latin = ROWS.encode("latin-1")
    assert succeeded("tag", folder / "latin.model", "-", *options, given=latin) == expected
    assert "café" in succeeded("tag", folder / "latin.model", folder / "latin").decode()
    given = succeeded("tag", folder / "latin.model", "-", "--encoding", "utf-8", given=ROWS.encode())
    assert given == expected
    assert "0xe9 is not UTF-8" in failed("tag", folder / "rows.model", folder / "latin")
    assert cf.CRF.load(folder / "latin.model").predict(folder / "latin").size == 2


# Delimiters


@pytest.mark.parametrize("follow", [False, True])
def test_a_model_remembers_its_delimiter(folder: Path, follow: bool) -> None:
    options = ["--follow"] if follow else []
    text = (folder / "semi").read_bytes()
    tagged = succeeded("tag", folder / "semi.model", "-", *options, given=text).decode().splitlines()
    assert tagged[0] == "w;p;t;predicted"
    assert all(line.count(";") == 3 for line in tagged)
    commas = succeeded("tag", folder / "semi.model", "-", *options, "--delimiter", ",", given=text.replace(b";", b","))
    assert commas.decode().splitlines() == [line.replace(";", ",") for line in tagged]


def test_delimiters_of_other_formats(tmp_path: Path) -> None:
    (tmp_path / "tabs").write_text("new york\tX\nold\ttown Y\n")
    chain = cf.encode(tmp_path / "tabs", tmp_path / "c", delimiter=" ", columns=["a", "b", "c"])
    assert chain.vocabulary is not None
    assert chain.vocabulary.labels == ("X", "Y")
    (tmp_path / "spaces").write_text("new york\nold town\n")
    assert cf.encode(tmp_path / "spaces", tmp_path / "c", delimiter="\\t", labels=False).positions == 2
    (tmp_path / "bars").write_text('a|"b|X\nc|d"|Y\n')
    assert cf.encode(tmp_path / "bars", tmp_path / "c", format="tsv", header=False, delimiter="|").positions == 2
    rows = conll(tmp_path / "rows")
    sentence = failed("encode", rows, "-o", tmp_path / "c", "--format", "conll", "--delimiter", ";")
    assert sentence == "--delimiter is ';', but must be a tab or a space for conll, or set --format to csv."
    sentence = failed("encode", rows, "-o", tmp_path / "c", "--format", "jsonl", "--delimiter", ";")
    assert sentence == "--delimiter is ';', but must be left out, as jsonl has its own."
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "t.parquet")
    assert "as parquet has none" in failed("encode", tmp_path / "t.parquet", "-o", tmp_path / "c", "--delimiter", ";")


# Documents

DOCUMENTS = (
    "-DOCSTART- -X- O\n\nthe DT B-NP\n\n-DOCSTART-\n\ncafé NN I-NP\r\n-DOCSTART- -X-\r\n\nit PRP B-NP\n-DOCSTART-"
)


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("tabs", [False, True])
def test_document_starts_have_all_columns(folder: Path, follow: bool, tabs: bool) -> None:
    text = DOCUMENTS.replace("the DT B-NP", "the\tDT\tB-NP") if tabs else DOCUMENTS
    if tabs:
        text = text.replace("café NN I-NP", "café\tNN\tI-NP").replace("it PRP B-NP", "it\tPRP\tB-NP")
    options = ["--follow"] if follow else []
    tagged = succeeded("tag", folder / "rows.model", "-", "--marginals", *options, given=text.encode()).decode()
    lines = [line for line in tagged.splitlines() if line]
    assert {len(line.split()) for line in lines} == {5}
    starts = [line.split() for line in lines if line.startswith("-DOCSTART-")]
    assert starts == [["-DOCSTART-", "-X-", "O", "O", "1"]] * 4
    assert tagged.count("\r\n") == 2
    without = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("-DOCSTART-"))
    rows = [line for line in lines if not line.startswith("-DOCSTART-")]
    again = succeeded("tag", folder / "rows.model", "-", "--marginals", given=without.encode()).decode()
    assert [line.split()[:4] for line in rows] == [line.split()[:4] for line in again.splitlines() if line]


# Inputs without rows


@pytest.mark.parametrize("text", [b"", b"\n\n", b"# nothing\n\n", gzip.compress(b"", mtime=0)])
def test_without_rows_the_output_is_the_input(folder: Path, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "nothing").write_bytes(text)
    expected = b"" if text.startswith(b"\x1f") else text
    assert succeeded("tag", folder / "rows.model", tmp_path / "nothing") == expected
    assert succeeded("tag", folder / "rows.model", "-", given=text) == expected
    succeeded("tag", folder / "rows.model", tmp_path / "nothing", "-o", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == expected
    if not text.startswith(b"\x1f"):
        assert succeeded("tag", folder / "rows.model", "-", "--follow", given=text) == b""
    both = succeeded("tag", folder / "rows.model", tmp_path / "nothing", folder / "rows", tmp_path / "nothing")
    assert both == expected + succeeded("tag", folder / "rows.model", folder / "rows") + expected
    for verb in (["train", "-o", tmp_path / "m"], ["encode", "-o", tmp_path / "c"], ["learn", "-o", tmp_path / "l"]):
        assert "nothing: " in failed(verb[0], tmp_path / "nothing", *verb[1:])
    for name in ("eval", "explain"):
        assert "nothing: " in failed(name, folder / "rows.model", tmp_path / "nothing")


def test_tables_without_rows_have_the_new_columns(folder: Path, tmp_path: Path) -> None:
    table = pa.table({"w": pa.array([], pa.string()), "p": pa.array([], pa.string())})
    pq.write_table(table, tmp_path / "t.parquet")
    succeeded("tag", folder / "semi.model", tmp_path / "t.parquet", "-o", tmp_path / "out.parquet", "--marginals")
    assert pq.read_table(tmp_path / "out.parquet").schema.names == ["w", "p", "predicted", "probability"]
    assert succeeded("tag", folder / "semi.model", "-", "--marginals", given=b"w;p\n") == b"w;p;predicted;probability\n"
    succeeded("tag", folder / "semi.model", tmp_path / "t.parquet", "-o", tmp_path / "o", "--sequences", tmp_path / "s")
    assert (tmp_path / "s").read_text() == "sequence,positions,log_probability,entropy\n"
    with pytest.raises(cf.ChainfoldError, match="the table: has no rows"):
        cf.tag_to(io.BytesIO(), cf.open_model(folder / "semi.model"), table)


# Less, and sooner


def test_a_quiet_verb_writes_its_output_and_errors_alone(folder: Path, tmp_path: Path) -> None:
    rows, model = folder / "rows", tmp_path / "m"
    for verb in (["train", rows, "-o", model], ["learn", rows, "-o", model], ["encode", rows, "-o", tmp_path / "c"]):
        assert succeeded(*verb) != b""
        for flag in ("--quiet", "-q"):
            assert succeeded(*verb, flag) == b""
        assert succeeded(*verb, "-q", "--json").startswith(b"{")
    assert run("train", rows, "-o", model, "--verbose", "-q").stderr == ""
    assert "no such file" in failed("train", folder / "missing", "-o", model, "-q")
    tagged = succeeded("tag", folder / "rows.model", rows, "-q")
    assert tagged == succeeded("tag", folder / "rows.model", rows)
    assert succeeded("eval", folder / "rows.model", rows, "-q") != b""
    bad = b"the DT\ncat\nit PRP\n"
    how = ("tag", folder / "rows.model", "-", "--follow", "--on-error", "skip")
    assert "left out" in run(*how, given=bad).stderr
    assert run(*how, "-q", given=bad).stderr == ""


def test_shells_complete_verbs() -> None:
    environment = {
        **os.environ,
        "_CHAINFOLD_COMPLETE": "complete_bash",
        "COMP_WORDS": "chainfold expl",
        "COMP_CWORD": "1",
    }
    program = Path(sys.executable).parent / "chainfold"
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["explain"]
    assert "_chainfold_completion" in run("--show-completion", "bash").stdout
