"""`chainfold tag` and `chainfold eval`: every byte of what they write, and what they refuse."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chainfold import tag_to
from chainfold.model.file import open_model, save_model
from chainfold.model.model import Model
from cli.trained import COLUMNS, ROWS, Trained
from verbs import failed, succeeded

pytestmark = pytest.mark.quick


def fields(output: bytes) -> list[list[str]]:
    """The fields of each line that is not blank."""
    return [line.split() for line in output.decode().splitlines() if line]


# What is written


def test_words_in_columns(trained: Trained, tmp_path: Path) -> None:
    expected = trained.tagged()
    assert succeeded("tag", trained.path, trained.text) == expected
    assert succeeded("tag", trained.path, "-", given=trained.text.read_bytes()) == expected
    assert succeeded("tag", trained.path, trained.text, "-o", tmp_path / "out") == b""
    assert (tmp_path / "out").read_bytes() == expected
    assert succeeded("tag", trained.path, trained.text, "--memory", "1") == expected, "all of it by way of a file"
    (tmp_path / "test.txt.gz").write_bytes(gzip.compress(trained.text.read_bytes()))
    assert succeeded("tag", trained.path, tmp_path / "test.txt.gz") == expected
    windows = trained.text.read_bytes().replace(b"\n", b"\r\n")
    assert succeeded("tag", trained.path, "-", given=windows) == expected.replace(b"\n", b"\r\n")


def test_a_pipe_of_processes(trained: Trained) -> None:
    command = f"cat {trained.text} | {sys.executable} -m chainfold tag {trained.path} - | cat"
    done = subprocess.run(command, shell=True, capture_output=True, check=True)
    assert done.stdout == trained.tagged()
    assert done.stderr == b""


def test_the_labels_of_the_input_are_not_looked_at(trained: Trained, tmp_path: Path) -> None:
    bare = "\n".join("".join(f"{word}\t{shape}\n" for word, shape, _ in rows) for rows in ROWS)
    labels = iter(trained.labels)
    expected = "\n".join("".join(f"{word}\t{shape}\t{next(labels)}\n" for word, shape, _ in rows) for rows in ROWS)
    assert succeeded("tag", trained.path, "-", given=bare.encode()).decode() == expected
    renamed = trained.text.read_text().replace("-X", "-Y")
    assert [line[-1] for line in fields(succeeded("tag", trained.path, "-", given=renamed.encode()))] == trained.labels


@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("verb", ["tag", "eval"])
def test_tables_through_a_pipe(verb: str, delimiter: str, trained: Trained, tmp_path: Path) -> None:
    rows = [(f"{word},x" if word < "c" else word, shape, tag) for one in ROWS for word, shape, tag in one]
    assert {"," in word for word, *_ in rows} == {False, True}
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows([("word", "shape", "tag"), *rows])
    path = tmp_path / "test"
    path.write_text(out.getvalue())
    expected = succeeded(verb, trained.path, path, "--format", "csv" if delimiter == "," else "tsv")
    got = succeeded(verb, trained.path, "-", given=out.getvalue().encode())
    assert got == expected.replace(bytes(path), b"standard input")
    if verb == "tag":
        assert "several labellings of a sequence" in failed(
            verb, trained.path, "-", "--nbest", 2, given=path.read_bytes()
        )
        assert got.startswith(delimiter.join(("word", "shape", "tag", "predicted")).encode())
        assert succeeded(verb, trained.path, "-", "--follow", given=out.getvalue().encode()).count(b"\n") == 1 + len(
            rows
        )


def test_lines_of_attributes(tmp_path: Path) -> None:
    lines = "B\tw=a\tsize:2\nI\tw=b\t@edge\tz\nO\tw=c\t@edge\ty:2\n\nB\tw=a\t@edge\tz\nO\tw=b\n"
    (tmp_path / "t").write_text(lines * 3)
    facts = json.loads(succeeded("train", tmp_path / "t", "-o", tmp_path / "m", "--json", "--c2", "0.1"))
    model = open_model(tmp_path / "m")
    assert model.layout.n_edge_attributes == 2
    assert facts["weights"] == model.layout.size
    once = "B\tB\nI\tI\nO\tO\n\nB\tB\nO\tO\n"
    assert succeeded("tag", tmp_path / "m", tmp_path / "t").decode() == once * 3
    bare = "\tw=a\n\tw=b\t@edge\tz\tunheard-of\n\tw=c\tnew:3\t@edge\ty:2\n"
    assert succeeded("tag", tmp_path / "m", "-", given=bare.encode()) == b"B\nI\nO\n"
    scores = json.loads(succeeded("eval", tmp_path / "m", tmp_path / "t", "--json"))
    assert scores["accuracy"] == 1.0


def test_attributes_that_the_model_does_not_know_say_nothing(trained: Trained) -> None:
    known = "b1 x\nb2 X\n\nb3 x\n"
    strange = known.replace("b2 X", "zzz Q")
    assert len(fields(succeeded("tag", trained.path, "-", given=strange.encode()))) == 3
    marginal = {}
    for name, text in (("one", "zzz Q\n"), ("other", "yyy P\n")):
        output = succeeded("tag", trained.path, "-", "--all-marginals", given=text.encode())
        marginal[name] = fields(output)[0][2:]
    assert marginal["one"] == marginal["other"]


# Probabilities


OPTIONS: dict[str, dict[str, Any]] = {
    "--marginals": {"marginals": True},
    "--marginals --all-marginals": {"marginals": True, "all_marginals": True},
    "--samples 3 --seed 4": {"samples": 3, "seed": 4},
    "--nbest 4": {"nbest": 4},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_the_verb_writes_what_the_library_writes(options: str, trained: Trained, tmp_path: Path) -> None:
    sink, table, how = io.BytesIO(), io.BytesIO(), options.split()
    tag_to(sink, trained.model, trained.text, sequences=table, **OPTIONS[options])
    assert succeeded("tag", trained.path, trained.text, *how) == sink.getvalue() != trained.tagged()
    to = ("-o", tmp_path / "out", "--sequences")
    assert succeeded("tag", trained.path, trained.text, *how, *to, "-") == table.getvalue()
    succeeded("tag", trained.path, trained.text, *how, *to, tmp_path / "table")
    assert (tmp_path / "out").read_bytes() == sink.getvalue()
    assert (tmp_path / "table").read_bytes() == table.getvalue()


def test_columns_of_probabilities_are_named(trained: Trained) -> None:
    header = succeeded("tag", trained.path, "-", "--all-marginals", given=b"word,shape\nb1,x\n").splitlines()[0]
    assert header.decode().split(",")[3:] == [f"probability({label})" for label in trained.names]


@pytest.mark.parametrize("option", ["--marginals", "--all-marginals", "--samples"])
def test_several_labellings_have_no_probabilities_of_rows(option: str, trained: Trained) -> None:
    more = ("1",) if option == "--samples" else ()
    sentence = failed("tag", trained.path, trained.text, "--nbest", "2", option, *more)
    assert "--nbest cannot be combined with --marginals" in sentence


# What is refused


def test_models_that_are_none(trained: Trained, tmp_path: Path) -> None:
    content = trained.path.read_bytes()
    damaged = {
        "short": content[:-1],
        "text": trained.text.read_bytes(),
        "packed": gzip.compress(content),
    }
    for name, bad in damaged.items():
        (tmp_path / name).write_bytes(bad)
        for verb in ("tag", "eval"):
            sentence = failed(verb, tmp_path / name, trained.text)
            assert sentence.startswith(f"{tmp_path / name}: this is not a model written by chainfold"), name
        assert "is not a model" in failed("inspect", tmp_path / name)
    for verb in ("tag", "eval"):
        assert "there is no such file" in failed(verb, tmp_path / "missing", trained.text)
        assert "this is a chain, not a model" in failed(verb, trained.chain, trained.text)
        assert "cannot be read" in failed(verb, tmp_path, trained.text)


@pytest.mark.parametrize("verb", ["tag", "eval"])
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty."),
        (b"\n\n", "has only blank lines or comments."),
        (b"b1 x B-X 4\n", "has 4 columns without names, but the model was made of 3"),
        (b"b1 x B-X\nb2\n", "line 2"),
        (b"word,size,tag\nb1,3,O\n", "there is no column 'shape', which the model uses"),
        (b"b1 x \xff\n", "0xff is not UTF-8"),
        (gzip.compress(b"b1 x O\n" * 9999, mtime=0)[:60], "the gzip data is cut short"),
    ],
)
def test_inputs_that_do_not_fit(verb: str, content: bytes, sentence: str, trained: Trained, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(content)
    to = ("-o", tmp_path / "out") if verb == "tag" else ()
    if verb == "tag" and not content.strip():  # nothing to label
        assert succeeded(verb, trained.path, path) == content
        return
    said = failed(verb, trained.path, path, *to)
    assert sentence in said
    assert said.startswith(str(path))
    assert not (tmp_path / "out").exists()
    assert "there is no such file" in failed(verb, trained.path, tmp_path / "missing")
    assert "no file matches" in failed(verb, trained.path, tmp_path / "nothing*")


@pytest.mark.parametrize("verb", ["tag", "eval"])
def test_chains_that_do_not_fit(verb: str, trained: Trained, tmp_path: Path) -> None:
    succeeded("encode", trained.text, "-o", tmp_path / "c", "--columns", "word,shape,tag", "--attributes", "word")
    sentence = failed(verb, trained.path, tmp_path / "c")
    assert sentence.startswith(str(tmp_path / "c"))
    assert "was encoded with another template" in sentence
    succeeded("train", tmp_path / "c", "-o", tmp_path / "m", "--max-iterations", "2")
    succeeded(verb, tmp_path / "m", tmp_path / "c")
    assert "was encoded with another template" in failed(verb, tmp_path / "m", trained.chain)


# eval


def test_scores(trained: Trained) -> None:
    scores = json.loads(succeeded("eval", trained.path, trained.text, "--json"))
    gold = trained.gold
    right = sum(one == other for one, other in zip(gold, trained.labels, strict=True))
    assert (scores["tokens"], scores["correct"]) == (len(gold), right)
    assert scores["sequences"] == len(ROWS)
    assert scores["unseen_labels"] == []
    assert scores["spans"]["support"] == gold.count("B-X")
    assert json.loads(succeeded("eval", trained.path, trained.chain, "--json")) == scores
    assert json.loads(succeeded("eval", trained.path, "-", "--json", given=trained.text.read_bytes())) == scores
    assert json.loads(succeeded("eval", trained.path, trained.text, "--json", "--no-spans"))["spans"] is None
    shown = succeeded("eval", trained.path, trained.text, "--confusion").decode()
    for what in (f"{len(gold):,} positions", "macro average", "all spans", "gold → predicted", "gold ↓"):
        assert what in shown
    assert "never saw" not in shown


def test_labels_that_the_model_never_saw_are_always_wrong_and_shown(trained: Trained, tmp_path: Path) -> None:
    text = trained.text.read_text().replace("I-X", "I-NEW", 3).replace("B-X", "[odd]", 1)
    (tmp_path / "t").write_text(text)
    succeeded("encode", tmp_path / "t", "-o", tmp_path / "c", *COLUMNS)
    for path in ("t", "c"):
        scores = json.loads(succeeded("eval", trained.path, tmp_path / path, "--json"))
        assert set(scores["unseen_labels"]) == {"I-NEW", "[odd]"}
        assert scores["tokens"] == len(trained.labels)
        of = {row["label"]: row for row in scores["labels"]}
        assert (of["I-NEW"]["support"], of["I-NEW"]["correct"]) == (3, 0)
        assert (of["[odd]"]["support"], of["[odd]"]["correct"]) == (1, 0)
        shown = " ".join(succeeded("eval", trained.path, tmp_path / path).decode().split())
        assert "Always wrong, as the model does not know their labels: 4 positions with " in shown
        assert "[odd]" in shown.rsplit("positions with ")[1]
    assert len(fields(succeeded("tag", trained.path, tmp_path / "t"))) == len(trained.labels)


def test_inputs_without_labels(trained: Trained, tmp_path: Path) -> None:
    bare = b"b1 x\nb2 x\n"
    assert "there is no label column 'tag', and labels are needed here" in failed("eval", trained.path, "-", given=bare)
    empty = b"word,shape,tag\nb1,x,\nb2,x,\n"
    assert "no position has a known label" in failed("eval", trained.path, "-", given=empty)
    some = b"word,shape,tag\nb1,x,\nb2,x,?\nb3,x,B-X\n"
    scores = json.loads(succeeded("eval", trained.path, "-", "--unknown", "?", "--json", given=some))
    assert (scores["tokens"], scores["unknown"]) == (1, 2)
    (tmp_path / "t").write_bytes(bare)
    succeeded("encode", tmp_path / "t", "-o", tmp_path / "c", "--columns", "word,shape", "--no-labels", *COLUMNS[2:])
    assert "has no labels, and labels are needed here" in failed("eval", trained.path, tmp_path / "c")
    assert len(fields(succeeded("tag", trained.path, tmp_path / "c"))) == 2


def test_a_model_without_names(trained: Trained, tmp_path: Path) -> None:
    save_model(tmp_path / "m", Model(trained.model.layout, trained.model.weights))
    for verb in ("tag", "eval"):
        assert "the model has no names" in failed(verb, tmp_path / "m", trained.text)
