"""Files to chains: what comes out, from Python and from the shell, and what is said of bad input."""

from __future__ import annotations

import gzip
import io
import json
import os
import pty
import random
import resource
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import chainfold as cf
from chainfold.chain.any_chain import open_chain
from chainfold.chain.chain import gather
from chainfold.chain.stored import write_chain
from chainfold.engines.registry import ENGINES
from chainfold.features.encode import encode_to
from processes import PATIENCE, chainfold, command, running
from rows import attributes_of
from verbs import failed, run, succeeded

CONLL = "the DT B\ncat NN I\n\nsat VB O\n\n\non IN O\na DT B\n"
CSV = "time,port,bytes,label\n1,http,10,ok\n2,http,20,ok\n2,ftp,,bad\n5,http,1000,ok\n"


def encoded(tmp_path: Path, text: str, name: str = "input.txt", **options: Any) -> cf.Chain:
    (tmp_path / name).write_text(text)
    return gather(cf.encode(tmp_path / name, tmp_path / "out.chain", **options))


def test_conll_columns_as_they_are(tmp_path: Path) -> None:
    chain = encoded(tmp_path, CONLL, columns=["word", "pos", "chunk"])
    assert attributes_of(chain)[:2] == [["word=the", "pos=DT"], ["word=cat", "pos=NN"]]
    assert chain.starts.tolist() == [True, False, True, True, False]
    assert chain.vocabulary is not None
    assert chain.vocabulary.labels == ("B", "I", "O")
    assert chain.labels.tolist() == [0, 1, 2, 2, 0]


def test_the_default_of_a_table_is_symbols_and_bins(tmp_path: Path) -> None:
    chain = encoded(tmp_path, CSV, "log.csv")
    assert attributes_of(chain) == [
        ["time=[-inf,2)", "port=http", "bytes=[-inf,20)"],
        ["time=[2,5)", "port=http", "bytes=[20,1000)"],
        ["time=[2,5)", "port=ftp"],
        ["time=[5,inf)", "port=http", "bytes=[1000,inf)"],
    ]


@pytest.mark.parametrize(
    ("numbers", "first", "values"),
    [
        ("real", ["time", "port=http", "bytes"], [1.0, 1.0, 10.0]),
        ("standard", ["time", "port=http", "bytes"], [-1.0, 1.0, (10 - 1030 / 3) / np.std([10, 20, 1000])]),
        ("log", ["time=[1,2)", "port=http", "bytes=[8,16)"], []),
        ("symbol", ["time=1", "port=http", "bytes=10"], []),
    ],
)
def test_what_becomes_of_numbers(tmp_path: Path, numbers: str, first: list[str], values: list[float]) -> None:
    chain = encoded(tmp_path, CSV, "log.csv", numbers=numbers)
    assert attributes_of(chain)[0] == first
    assert chain.values[:3].tolist() == pytest.approx(values)


@pytest.mark.parametrize("options", [{"symbols": ["code"]}, {"attributes": "symbol(code)", "border": "crfpp"}])
def test_a_column_of_symbols_that_begins_like_numbers(tmp_path: Path, options: dict[str, Any]) -> None:
    text = "code,label\n" + "7,A\n" * 600_000 + "x,A\n"
    assert attributes_of(encoded(tmp_path, text, "log.csv", **options))[-1][0].endswith("=x")
    with pytest.raises(cf.ChainfoldError, match=r"line 600002, column 'code': 'x' is not a number.*`symbols`"):
        encoded(tmp_path, text, "log.csv")


def test_texts_that_look_like_numbers_stay_as_they_are(tmp_path: Path) -> None:
    text = "port,code\n0080,007\n1e3,7\n9007199254740993,8\n9007199254740992,8\n"
    chain = encoded(tmp_path, text, "log.csv", attributes="port", border="crfpp")
    assert chain.vocabulary is not None
    assert chain.vocabulary.labels == ("007", "7", "8")
    assert attributes_of(chain) == [["port=0080"], ["port=1e3"], ["port=9007199254740993"], ["port=9007199254740992"]]
    table = pa.table({"id": pa.array([2**60, 2**60 + 1]), "label": pa.array([2**60, 2**60 + 1])})
    whole = cf.chain_from_table(table, attributes="id", border="crfpp")
    assert attributes_of(whole) == [["id=1152921504606846976"], ["id=1152921504606846977"]]
    assert whole.n_labels == 2


def test_a_crfpp_template_takes_numbers_as_texts(tmp_path: Path) -> None:
    (tmp_path / "template").write_text("U00:%x[0,0]/end\nU01:%x[0,1]/%x[0,0]\n")
    chain = encoded(tmp_path, "5,a,X\n6,b,Y\n", "log.csv", template=tmp_path / "template")
    assert attributes_of(chain) == [["U00:5/end", "U01:a/5"], ["U00:6/end", "U01:b/6"]]


def test_numbers_as_values(tmp_path: Path) -> None:
    chain = encoded(tmp_path, CSV, "log.csv", attributes="real(bytes) standard(time) port[-1]", border="crfpp")
    assert chain.vocabulary is not None
    assert attributes_of(chain)[2] == ["standard(time)", "port[-1]=http"]
    values = [chain.values[chain.offsets[t] : chain.offsets[t + 1]].tolist() for t in range(4)]
    deviation = np.std([1, 2, 2, 5])
    assert values[0] == pytest.approx([10.0, -1.5 / deviation, 1.0])
    assert values[2] == pytest.approx([-0.5 / deviation, 1.0])


def test_a_group_column_separates_sequences(tmp_path: Path) -> None:
    text = "session,word,label\n1,a,X\n1,b,X\n2,c,X\n1,d,X\n"
    chain = encoded(tmp_path, text, "log.csv", group="session", groups_return=True)
    assert chain.starts.tolist() == [True, False, True, True]
    assert attributes_of(chain) == [["word=a"], ["word=b"], ["word=c"], ["word=d"]]


def test_a_group_that_is_missing_is_a_group(tmp_path: Path) -> None:
    text = "session,word,label\n,a,X\n,b,X\n2,c,X\n,d,X\n"
    chain = encoded(tmp_path, text, "log.csv", group="session", groups_return=True)
    assert chain.starts.tolist() == [True, False, True, True]


def test_edge_attributes_may_come_late(tmp_path: Path) -> None:
    chain = encoded(tmp_path, "A\tx\n" * 300_000 + "B\ty\t@edge\tjoin:2\n", "lines.crfsuite")
    assert chain.n_edge_attributes == 1
    assert chain.edge_offsets[-2:].tolist() == [0, 1]
    assert chain.edge_values.tolist() == [2.0]


@pytest.mark.parametrize("late", [False, True])
def test_values_may_come_late_or_only_at_first(tmp_path: Path, late: bool) -> None:
    plain, valued = "A\tx\n" * 300_000, "B\ty:2\n"
    chain = encoded(tmp_path, plain + valued if late else valued + plain, "lines.crfsuite")
    values = np.ones(300_001)
    values[-1 if late else 0] = 2.0
    np.testing.assert_array_equal(chain.values, values)


def test_a_group_goes_on_in_the_next_file(tmp_path: Path) -> None:
    for name, rows in (("1.csv", "1,a,X\n2,b,X\n"), ("2.csv", "2,c,X\n3,d,X\n")):
        (tmp_path / name).write_text("session,word,label\n" + rows)
    chain = cf.encode(str(tmp_path / "*.csv"), tmp_path / "out.chain", group="session", attributes="word[-1]")
    assert gather(chain).starts.tolist() == [True, True, False, True]
    assert attributes_of(gather(chain)) == [
        ["__BOS__", "__EOS__"],
        ["__BOS__"],
        ["word[-1]=b", "__EOS__"],
        ["__BOS__", "__EOS__"],
    ]


def test_one_sequence(tmp_path: Path) -> None:
    assert encoded(tmp_path, CONLL, one_sequence=True).starts.tolist() == [True, False, False, False, False]


def test_labels_unknown_or_not_there(tmp_path: Path) -> None:
    chain = encoded(tmp_path, "a ?\nb X\n", unknown="?")
    assert chain.labels.tolist() == [-1, 0]
    unlabelled = encoded(tmp_path, "a x\nb y\n", labels=False)
    assert unlabelled.labels.tolist() == [-1, -1]
    assert unlabelled.n_labels == 0
    assert attributes_of(unlabelled) == [["0=a", "1=x"], ["0=b", "1=y"]]


def test_labels_that_look_like_numbers(tmp_path: Path) -> None:
    chain = encoded(tmp_path, "x,label\na,1\nb,0\n", "log.csv")
    assert chain.vocabulary is not None
    assert chain.vocabulary.labels == ("1", "0")


WEIGHTED = "word,w,label,session\na,0.5,X,1\nb,0.5,Y,1\nc,0,X,2\n"


@pytest.mark.parametrize("options", [{}, {"attributes": "word[1] word"}, {"symbols": ["w"]}])
def test_a_column_of_weights(tmp_path: Path, options: dict[str, Any]) -> None:
    chain = encoded(tmp_path, WEIGHTED, "log.csv", weight="w", group="session", **options)
    assert chain.weights.tolist() == [0.5, 0.5, 0.0]
    assert chain.starts.tolist() == [True, False, True]
    assert chain.vocabulary is not None
    assert chain.vocabulary.label == "label"
    assert not any("w=" in name for name in chain.vocabulary.attributes.to_pylist() if "word" not in name)
    assert cf.StoredChain(tmp_path / "out.chain").weighted
    assert not encoded(tmp_path, WEIGHTED, "log.csv").weights.size


def test_the_last_column_is_not_the_label_if_it_is_the_weight(tmp_path: Path) -> None:
    chain = encoded(tmp_path, "a X 1\nb Y 1\n", weight="2")
    assert chain.vocabulary is not None
    assert chain.vocabulary.labels == ("X", "Y")
    assert attributes_of(chain) == [["0=a"], ["0=b"]]
    assert cf.chain_from_table(pa.table({"x": ["a"], "w": [2], "label": ["A"]}), weight="w").weights.tolist() == [2.0]


@pytest.mark.parametrize(
    ("rows", "weight", "sentence"),
    [
        ("a,1,X,1\nb,-1,Y,1\n", "w", r"line 3, column 'w': the weight is -1.0; give a number from 0 to"),
        ("a,1,X,1\nb,inf,Y,1\n", "w", "line 3, column 'w': the weight is inf"),
        ("a,1,X,1\nb,,Y,1\n", "w", "line 3, column 'w': the weight is missing"),
        ("a,1,X,1\nb,2,Y,1\n", "word", "line 2, column 'word': the weight is 'a'"),
        (
            "a,1,X,1\nb,2,Y,1\n",
            "w",
            r"log\.csv: line 3, column 'w': the weight is 2\.0, but that of the row before it in its sequence is 1\.0;",
        ),
        ("a,1,X,1\n", "v", "no weight column 'v'; the columns are word, w, label, session"),
        ("a,1,X,1\n", "session", "cannot be `weight` and something else"),
    ],
)
def test_bad_weights(tmp_path: Path, rows: str, weight: str, sentence: str) -> None:
    with pytest.raises(cf.ChainfoldError, match=sentence):
        encoded(tmp_path, "word,w,label,session\n" + rows, "log.csv", weight=weight, group="session")


def test_appending_weights_to_weights_alone(tmp_path: Path) -> None:
    encoded(tmp_path, WEIGHTED, "log.csv", weight="w", group="session")
    chain = gather(cf.encode(tmp_path / "log.csv", tmp_path / "out.chain", append=True, group="session"))
    assert chain.weights.tolist() == [0.5, 0.5, 0.0] * 2
    (tmp_path / "plain.csv").write_text("word,label,session\na,X,1\n")
    with pytest.raises(cf.ChainfoldError, match="no weight column 'w'"):
        cf.encode(tmp_path / "plain.csv", tmp_path / "out.chain", append=True)
    with pytest.raises(cf.ChainfoldError, match="its weights from column 'w'; append without another `weight`"):
        cf.encode(tmp_path / "log.csv", tmp_path / "out.chain", append=True, weight="session")
    encoded(tmp_path, WEIGHTED, "log.csv")
    with pytest.raises(cf.ChainfoldError, match="has no weights; append without `weight`"):
        cf.encode(tmp_path / "log.csv", tmp_path / "out.chain", append=True, weight="w")
    write_chain(tmp_path / "out.chain", replace(gather(cf.StoredChain(tmp_path / "out.chain")), weights=np.ones(3)))
    with pytest.raises(cf.ChainfoldError, match="weights that came from no column"):
        cf.encode(tmp_path / "log.csv", tmp_path / "out.chain", append=True)


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_weights_that_change_within_a_sequence_are_found_wherever_the_input_is_cut(rows: int) -> None:
    texts = ["a,1,X,1", "b,1,Y,1", "c,2,X,2", "d,2,X,2"]
    columns = [list(column) for column in zip(*(text.split(",") for text in texts), strict=True)]
    columns[1] = list(map(float, columns[1]))
    names = ["word", "w", "label", "session"]
    table = pa.table(dict(zip(names, columns, strict=True)))
    chain = cf.chain_from_table(
        pa.Table.from_batches(table.to_batches(max_chunksize=rows)), weight="w", group="session", label="label"
    )
    assert chain.weights.tolist() == [1.0, 1.0, 2.0, 2.0]
    columns[1][3] = 3.0
    table = pa.table(dict(zip(names, columns, strict=True)))
    with pytest.raises(
        cf.ChainfoldError, match=r"row 4, column 'w': the weight is 3\.0, but that of the row before it"
    ):
        cf.chain_from_table(
            pa.Table.from_batches(table.to_batches(max_chunksize=rows)), weight="w", group="session", label="label"
        )


def test_weights_from_the_shell(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(WEIGHTED)
    succeeded("encode", tmp_path / "log.csv", "--weight", "w", "--group", "session", "-o", tmp_path / "out")
    assert b"weights" in succeeded("data", tmp_path / "out")
    assert b'"weights": true' in succeeded("data", tmp_path / "out", "--json")


TEMPLATE = "word[-1] word|pos[1] lower(word)"


@pytest.mark.parametrize("options", [{"attributes": TEMPLATE}, {"attributes": TEMPLATE, "hash_bits": 10}])
def test_appending_equals_encoding_at_once(tmp_path: Path, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    for part in "ab":
        rows = [f"w{rng.integers(40)} p{rng.integers(4)} L{rng.integers(3)}" for _ in range(300)]
        (tmp_path / part).write_text("\n".join(row + "\n" * (rng.random() < 0.1) for row in rows) + "\n")
    names = ["word", "pos", "label"]
    cf.encode([tmp_path / "a", tmp_path / "b"], tmp_path / "once", columns=names, **options)
    cf.encode(tmp_path / "a", tmp_path / "twice", columns=names, append=True, **options)
    twice = cf.encode(tmp_path / "b", tmp_path / "twice", columns=names, append=True)
    cf.write_chain(tmp_path / "twice", twice)  # without the record of what was appended
    assert (tmp_path / "once").read_bytes() == (tmp_path / "twice").read_bytes()


def test_appending_keeps_the_bins(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label\n1,A\n2,B\n3,A\n")
    (tmp_path / "b.csv").write_text("x,label\n100,C\n")
    cf.encode(tmp_path / "a.csv", tmp_path / "out.chain")
    chain = gather(cf.encode(tmp_path / "b.csv", tmp_path / "out.chain", append=True))
    assert attributes_of(chain)[-1] == ["x=[3,inf)"]
    assert chain.vocabulary is not None
    assert chain.vocabulary.labels == ("A", "B", "C")


def test_appending_takes_no_other_template(tmp_path: Path) -> None:
    encoded(tmp_path, CONLL)
    with pytest.raises(cf.ChainfoldError, match="append without them"):
        cf.encode(tmp_path / "input.txt", tmp_path / "out.chain", append=True, attributes="0")


def test_what_is_appended_starts_a_sequence(tmp_path: Path) -> None:
    for name, text in (("a", "a x\nb y\n"), ("b", "c x\nd y\n")):
        (tmp_path / name).write_text(text)
    cf.encode(tmp_path / "a", tmp_path / "out", one_sequence=True, attributes="0 0[-1]")
    chain = gather(cf.encode(tmp_path / "b", tmp_path / "out", one_sequence=True, append=True))
    assert chain.starts.tolist() == [True, False, True, False]
    assert attributes_of(chain)[2:] == [["0=c", "__BOS__"], ["0=d", "0[-1]=c", "__EOS__"]]


def test_what_is_appended_has_the_same_labels(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a x p\nb y q\n")
    cf.encode(tmp_path / "a", tmp_path / "out", label="1")
    chain = cf.encode(tmp_path / "a", tmp_path / "out", append=True)
    assert chain.vocabulary is not None
    assert chain.vocabulary.labels == ("x", "y")
    with pytest.raises(cf.ChainfoldError, match="labels from column '1'"):
        cf.encode(tmp_path / "a", tmp_path / "out", append=True, label="2")


def test_every_engine_gives_the_same_bits_from_disk_and_from_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [f"w{rng.integers(9)} p{rng.integers(4)} L{rng.integers(3)}" for _ in range(150)]
    (tmp_path / "input").write_text("\n".join(row + "\n" * (rng.random() < 0.1) for row in rows) + "\n")
    stored = cf.encode(tmp_path / "input", tmp_path / "out.chain", columns=["w", "p", "label"], attributes="w[-1] w|p")
    model = cf.Model.random(cf.Layout.observed(stored))
    for name in ENGINES:
        disk, memory = cf.log_likelihood(model, stored, name), cf.log_likelihood(model, gather(stored), name)
        assert disk.log_z == memory.log_z, name
        assert disk.gradient is not None
        assert memory.gradient is not None
        assert disk.gradient.tobytes() == memory.gradient.tobytes(), name


def test_stream_reads_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "input").write_text(CONLL)
    stored = cf.encode(tmp_path / "input", tmp_path / "out.chain")
    model = cf.Model.random(cf.Layout.full(stored.n_labels, stored.n_attributes))
    pipe = io.BytesIO()
    encode_to(pipe, tmp_path / "input")
    pipe.seek(0)
    expected, found = cf.log_likelihood(model, stored), cf.log_likelihood(model, open_chain(pipe))
    assert found.log_z == expected.log_z
    assert found.report.passes == 1
    assert expected.gradient is not None
    assert found.gradient is not None
    assert found.gradient.tobytes() == expected.gradient.tobytes()


def test_pipes_from_the_shell(tmp_path: Path) -> None:
    packed = gzip.compress(CSV.encode())
    line = f"{shlex.join(command('encode', '-', '-o', '-', '--format', 'csv'))} | "
    line += shlex.join(command("gradient", "-", "--engine", "stream", "--json"))
    piped = json.loads(subprocess.run(["bash", "-c", line], input=packed, capture_output=True, check=True).stdout)
    (tmp_path / "log.csv").write_text(CSV)
    succeeded("encode", tmp_path / "log.csv", "-o", tmp_path / "x")
    stored = json.loads(succeeded("gradient", tmp_path / "x", "--engine", "stream", "--json"))
    for fact in ("gradient_sha256", "log_z"):
        assert piped[fact] == stored[fact]


def test_round_trip_through_decode(tmp_path: Path) -> None:
    (tmp_path / "input").write_text(CONLL)
    options = ("--columns", "w,p,label", "--attributes", "w[-1] w|p")
    succeeded("encode", tmp_path / "input", "-o", tmp_path / "a", *options)
    text = succeeded("data", tmp_path / "a", "--decode")
    assert text.decode().splitlines()[:3] == [
        "B\tw|p=the|DT\t__BOS__",
        "I\tw[-1]=the\tw|p=cat|NN\t__EOS__",
        "",
    ]
    succeeded("encode", "-", "--format", "crfsuite", "-o", tmp_path / "b", given=text)
    assert succeeded("data", tmp_path / "b", "--decode") == text


@pytest.mark.parametrize(
    ("name", "text", "options", "sentence"),
    [
        ("empty.txt", b"", (), "is empty"),
        ("blank.txt", b"\n\n \n", (), "blank"),
        ("ragged.txt", b"a b C\nd e F\ng h\n", (), "line 3"),
        ("stray.tsv", b"w\tlabel\n" + b"a\tX\n" * 999 + b"a\t\tX\n", (), "line 1001"),
        ("stray.conll", b"a\tX\n" * 1000 + b"a\tX\t\n", (), "line 1001"),
        ("stray.csv", b"w,label\n" + b"a,X\n" * 999 + b"a,X\t\n", (), "line 1001, column 'label': the label 'X\\t'"),
        ("bytes.txt", b"a X\n\xff Y\n", (), "line 2"),
        ("words.csv", b"x,label\n1,A\ntwo,A\n", ("--attributes", "real(x)"), "line 3, column 'x'"),
        ("nan.csv", b"x,label\n1,A\nnan,A\n", (), "line 3, column 'x'"),
        ("cut.gz", gzip.compress(random.Random(0).randbytes(5000).hex().encode(), mtime=0)[:-2000], (), "cut short"),
        ("column.txt", b"a X\n", ("--attributes", "word"), "word"),
        ("one.txt", b"a\nb\n", (), "no column is left for attributes"),
        ("label.txt", b"a X\n", ("--label", "chunk"), "no label column 'chunk'"),
        ("lines.crfsuite", b"X\ta:1\nY\tb:x\n", (), "line 2"),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, name: str, text: bytes, options: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / name).write_bytes(text)
    done = run("encode", tmp_path / name, "-o", tmp_path / "out.chain", *options)
    assert done.exit_code == 2, done
    assert done.stderr.count("\n") == 1, done.stderr
    assert sentence in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name], "nothing is left behind"


@pytest.mark.parametrize("output", [".", "", "folder", "fifo", "nowhere/out", "x" * 300, "input", "link"])
def test_outputs_that_cannot_be(tmp_path: Path, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input").write_text(CONLL)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("input")
    os.mkfifo(tmp_path / "fifo")
    before = sorted(path.name for path in tmp_path.iterdir())
    done = run("encode", "input", "-o", output)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "input").read_text() == CONLL


def test_a_long_name_and_a_link_are_written(tmp_path: Path) -> None:
    (tmp_path / "input").write_text(CONLL)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/chain")
    for name in ("n" * 250, "link"):
        cf.encode(tmp_path / "input", tmp_path / name)
        assert cf.StoredChain(tmp_path / name).positions == 5
    assert (tmp_path / "link").is_symlink()


def test_a_failure_while_a_pipe_stays_open(tmp_path: Path) -> None:
    line = command("encode", "-", "-o", tmp_path / "out", "--label", "zz")
    with running(line, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        with suppress(BrokenPipeError):  # it may have gone already
            process.stdin.write(b"a b\n" * 150_000)
            process.stdin.flush()
        message = process.stderr.readline()
        process.wait(60)
        assert process.stderr.read() == b""
    assert process.returncode == 2, message
    assert b"no label column 'zz'" in message


def test_nowhere_to_write(tmp_path: Path) -> None:
    (tmp_path / "input").write_text(CONLL)
    for arguments in (["encode", "input", "-o", "out"], ["data", "out"], ["data", "out", "--decode"]):
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(command(*arguments), stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, check=False)
        assert done.returncode == 2, arguments
        assert done.stderr == b"chainfold: cannot write to standard output: No space left on device.\n"


def test_names_are_no_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "[").mkdir()
    (tmp_path / "input").write_text(CONLL)
    assert b"[/red].chain" in succeeded("encode", "input", "-o", "[/red].chain")


def test_a_chain_without_attributes_can_be_shown(tmp_path: Path) -> None:
    (tmp_path / "input").write_text(CONLL)
    cf.encode(tmp_path / "input", tmp_path / "out", min_count=99)
    assert succeeded("data", tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"columns": ["a", "a"]}, "all different"),
        ({"columns": "ab"}, "columns is 'ab', but must be a list of names"),
        ({"colums": ["a"]}, "no option 'colums'"),
        ({"attributes": ["0"]}, "one text"),
        ({"labels": False, "label": "0"}, "`label` requires labels"),
        ({"min_count": 2.5}, "a whole number"),
        ({"hash_bits": 2.5}, "a whole number"),
        ({"hash_bits": 25}, "from 1 to 24"),
        ({"numbers": "roman"}, "one of quantile"),
        ({"format": "xml"}, "one of conll"),
        ({"encoding": "idna"}, "encoding"),
        ({"encoding": "undefined"}, "encoding"),
        ({"border": "soft", "attributes": "0"}, "one of crfpp"),
        ({"border": "crfpp"}, "`border` requires `attributes`"),
        ({"template": "nowhere"}, "nowhere: cannot be read"),
        ({"template": "x", "attributes": "0"}, "`template` or `attributes`, not both"),
        ({"group": "0", "one_sequence": True}, "not both"),
        ({"min_count": 2, "hash_bits": 9}, "not both"),
        ({"numbers": "log", "attributes": "0"}, "give `numbers` without `template`"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(cf.ChainfoldError, match=sentence):
        encoded(tmp_path, CONLL, **options)
    assert not (tmp_path / "out.chain").exists()


def test_values_that_scaling_makes_infinite(tmp_path: Path) -> None:
    with pytest.raises(cf.ChainfoldError, match=r"line 2, column 'x': 1e\+300 is too large"):
        encoded(tmp_path, "x,label\n1e300,A\n", "log.csv", attributes="scale(x,0,1e-300)")
    table = pa.table({"f": [["a"]], "f:values": [[float("inf")]], "label": ["A"]})
    with pytest.raises(cf.ChainfoldError, match="row 1, column 'f:values': a value is not a finite number"):
        cf.chain_from_table(table)


def test_a_damaged_arrow_file_does_not_end_the_process(tmp_path: Path) -> None:
    """Bits flipped in a file that pyarrow wrote, read in a process of its own."""
    script = """
import sys, random, pyarrow as pa, chainfold as cf
folder = sys.argv[1]
table = pa.table({"w": pa.array(["a", "bc", None, "d"]).dictionary_encode(), "n": [1.0, 2.0, 3.0, 4.0],
                  "bag": [["x"], [], ["y", "z"], []], "label": ["A", "B", "A", "é"]})
with pa.ipc.new_file(folder + "/x.arrow", table.schema) as writer:
    writer.write_table(table)
data = bytearray(open(folder + "/x.arrow", "rb").read())
rng = random.Random(1)
for _ in range(400):
    at = rng.randrange(len(data) * 8)
    data[at // 8] ^= 1 << at % 8
    open(folder + "/y.arrow", "wb").write(data)
    try:
        chain = cf.encode(folder + "/y.arrow", folder + "/y.chain")
        chain.vocabulary.attributes.to_pylist()
    except cf.ChainfoldError:
        pass
    data[at // 8] ^= 1 << at % 8
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_an_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "input").write_text(CONLL)
    assert "nowhere" in failed("encode", tmp_path / "input", "-o", tmp_path / "nowhere" / "out.chain")


def test_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "input").write_text("a b C\n" * 40_000)
    (tmp_path / "out.chain").write_text("as it was")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = chainfold("encode", tmp_path / "input", "-o", tmp_path / "out.chain", preexec_fn=limit)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "File too large" in done.stderr
    assert (tmp_path / "out.chain").read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input", "out.chain"]


def test_progress_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(CSV)
    ours, theirs = pty.openpty()
    line = command("encode", tmp_path / "log.csv", "-o", tmp_path / "out", "--json")
    with running(line, stderr=theirs, stdout=subprocess.PIPE) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the terminal is gone with the process
            while more := os.read(ours, 4096):
                shown += more
        assert process.wait(PATIENCE) == 0, shown
    os.close(ours)
    for text in (b"writing", b"MB read", b"positions"):
        assert text in shown, shown


@pytest.mark.parametrize(
    "how",
    [
        signal.SIGINT,
        signal.SIGTERM,
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, marks=pytest.mark.slow),  # tests/system/test_outputs.py kills too
    ],
)
def test_an_interrupted_run_leaves_nothing_but_a_killed_one_its_lock(tmp_path: Path, how: signal.Signals) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with (
        running(command("encode", fifo, "-o", tmp_path / "out.chain"), stderr=subprocess.PIPE) as process,
        fifo.open("wb", buffering=0) as pipe,
    ):
        pipe.write(b"a b C\n" * 1000)
        time.sleep(0.5)
        process.send_signal(how)
        process.wait(60)
        assert process.stderr is not None
        message = process.stderr.read()
    killed = how == signal.SIGKILL
    assert {path.name for path in tmp_path.iterdir()} == {"fifo", ".out.chain.lock"} if killed else {"fifo"}
    assert process.returncode == (-how if killed else 128 + how)
    said = {signal.SIGINT: "interrupted", signal.SIGTERM: "ended by SIGTERM", signal.SIGHUP: "ended by SIGHUP"}
    assert message.decode() == ("" if killed else f"chainfold: {said[how]}.\n")
    if killed:
        cf.encode(pa.table({"word": ["a"], "label": ["B"]}), tmp_path / "out.chain")
        assert {path.name for path in tmp_path.iterdir()} == {"fifo", "out.chain"}


X = [
    [{"word": "a", "upper": True, "size": 2.5}, {"word": "b", "tags": ["x", "y"], "next": {"word": "c"}}],
    [["p", "q"], {"r"}],
]
Y = [["A", "B"], ["A", "A"]]


def test_sequences_as_sklearn_crfsuite_takes_them() -> None:
    chain = cf.chain_from_sequences(X, Y)
    assert attributes_of(chain) == [
        ["word:a", "upper", "size"],
        ["word:b", "tags:x", "tags:y", "next:word:c"],
        ["p", "q"],
        ["r"],
    ]
    assert chain.values[:3].tolist() == [1.0, 1.0, 2.5]
    assert chain.starts.tolist() == [True, False, True, False]
    assert chain.vocabulary is not None
    assert [chain.vocabulary.labels[label] for label in chain.labels] == ["A", "B", "A", "A"]
    without = cf.chain_from_sequences(iter(X))
    assert without.labels.tolist() == [-1] * 4


def test_sequences_with_weights(tmp_path: Path) -> None:
    assert cf.chain_from_sequences(X, Y, weights=[2, 0.5]).weights.tolist() == [2.0, 2.0, 0.5, 0.5]
    stored = cf.encode_sequences(X, Y, tmp_path / "out.chain", weights=iter(np.array([2.0, 0.5])))
    assert stored.block(1, 3).weights.tolist() == [2.0, 0.5]
    assert attributes_of(gather(stored)) == attributes_of(cf.chain_from_sequences(X, Y))
    assert cf.chain_from_sequences(X, weights=[1, 1]).weights.tolist() == [1.0] * 4


@pytest.mark.parametrize("labels", [Y, None])
@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([1.0], "only 1 weights, but sequence 1 has items"),
        ([1.0, 2.0, 3.0], "more weights than the 2 sequences"),
        ([1.0, -2.0], "the weight of sequence 1 is -2.0"),
        ([1.0, float("nan")], "the weight of sequence 1 is nan"),
        ([1.0, "much"], "the weight of sequence 1 is 'much'"),
        (3.0, "the weights cannot be 3.0, which is not iterable"),
    ],
)
def test_bad_weights_of_sequences(labels: Any, weights: Any, sentence: str) -> None:
    with pytest.raises(cf.ChainfoldError, match=sentence):
        cf.chain_from_sequences(X, labels, weights=weights)


def test_generators_go_to_disk(tmp_path: Path) -> None:
    stored = cf.encode_sequences((x for x in X), (y for y in Y), tmp_path / "out.chain")
    assert attributes_of(gather(stored)) == attributes_of(cf.chain_from_sequences(X, Y))


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        ([[["a"]]], [["A", "B"]], "sequence 0 has 1 item, but more labels"),
        ([[["a"]]], [], "only 0 sequences of labels"),
        ([[["a"]]], [["A"], ["B"]], "more sequences of labels"),
        ([], [], "no positions"),
        ([], [["B"]], "more sequences of labels than the 0"),
        ([[{"a": 10**400}]], None, "the value of 'a'"),
        ([[["\ud800"]]], None, "contains an unpaired surrogate"),
        ([1], None, "is not iterable"),
        (3, None, "is not iterable"),
        (["ab"], None, "sequence 0 is 'ab'; give a list of items"),
        ([{"a": "b"}], None, "sequence 0 is {'a': 'b'}; give a list of items"),
        ([[[{"a": "b"}]]], None, "item 0 of sequence 0 is a list of dicts"),
        ([[["a"]]], ["A"], "the labels of sequence 0 are 'A'"),
        ([[{"a": float("nan")}]], None, "the value of 'a' is nan"),
        ([[{"a": None}]], None, "the value of 'a' is None"),
        ([["a"]], None, "give a dict"),
        ([[[1]]], None, "attributes are strings"),
    ],
)
def test_bad_sequences(x: Any, y: Any, sentence: str) -> None:
    with pytest.raises(cf.ChainfoldError, match=sentence):
        cf.chain_from_sequences(x, y)


@pytest.mark.parametrize("library", ["arrow", "pandas", "polars", "numpy"])
def test_tables(library: str) -> None:
    columns = {"port": ["http", "ftp", "http"], "bytes": [1.0, 2.0, 3.0], "label": ["A", "B", "A"]}
    if library == "arrow":
        table: Any = pa.table(columns)
    elif library == "numpy":
        table = np.array(list(zip(*columns.values(), strict=True)), [("port", "U4"), ("bytes", "f8"), ("label", "U1")])
    else:
        table = {"pandas": pandas, "polars": polars}[library].DataFrame(columns)
    chain = cf.chain_from_table(table, attributes="port bins(bytes,2)", border="crfpp")
    assert attributes_of(chain) == [
        ["port=http", "bins(bytes,2)=[-inf,2)"],
        ["port=ftp", "bins(bytes,2)=[2,inf)"],
        ["port=http", "bins(bytes,2)=[2,inf)"],
    ]


def test_sparse_rows() -> None:
    from scipy.sparse import csr_array

    dense = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    for rows in (csr_array(dense), dense, dense.tolist()):
        chain = cf.chain_from_matrix(rows, ["X", "Y", "X"], starts=[0, 2])
        assert chain.ids.tolist() == [1, 0, 2]
        assert chain.values.tolist() == [2.0, 1.0, 3.0]
        assert chain.offsets.tolist() == [0, 1, 3, 3]
        assert chain.starts.tolist() == [True, False, True]
        assert chain.labels.tolist() == [0, 1, 0]
        assert chain.vocabulary is not None
        assert chain.vocabulary.labels == ("X", "Y")
        np.testing.assert_array_equal(cf.Layout.observed(chain).row_labels, [1, 0, 1])


def test_a_chain_of_sequences_is_stored_with_its_names(tmp_path: Path) -> None:
    chain = cf.chain_from_sequences(X, Y)
    write_chain(tmp_path / "out.chain", chain)
    assert attributes_of(gather(cf.StoredChain(tmp_path / "out.chain"))) == attributes_of(chain)
