"""No verb writes over what it reads, and no two processes write one output at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import chainfold as cf
from chainfold.errors import AlreadyAppended, BadFile
from chainfold.system.outputs import check_outputs, claimed
from processes import running
from verbs import conll, failed, run, succeeded

INPUT, TWO = "is also an input, and would be lost; give the output another name.", "cannot hold two outputs"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a template, a chain and a model."""
    folder = tmp_path_factory.mktemp("made")
    conll(folder / "data.txt", 20)
    (folder / "template").write_text("U0:%x[0,0]\nB\n")
    succeeded("encode", folder / "data.txt", "-o", folder / "a.chain")
    options = ("--max-iterations", 2, "--json")
    succeeded("train", folder / "a.chain", "-o", folder / "a.model", *options)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it, which may be spoilt."""
    for path in made.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "link").symlink_to(tmp_path / "a.model")
    (tmp_path / "hard").hardlink_to(tmp_path / "a.model")
    return tmp_path


VERBS = [
    ("inspect a.model --html a.model", INPUT),
    ("inspect a.model --html link", INPUT),
    ("inspect hard --html a.model", INPUT),
    ("gradient a.chain --model a.model -o a.model", INPUT),
    ("gradient a.chain --model a.model -o a.chain", INPUT),
    ("encode data.txt --template template -o template", INPUT),
    ("encode data.txt -o data.txt", INPUT),
    ("encode dat* -o data.txt", INPUT),
    ("encode data.txt --append -o data.txt", INPUT),
    ("train data.txt --template template -o template", INPUT),
    ("train data.txt -o data.txt", INPUT),
    ("train data.txt --dev a.chain -o a", INPUT),  # whose chain would be a.chain
    ("train a.chain --dev data.txt -o data.txt", INPUT),
    ("train a.chain --model a.run -o a", INPUT),
    ("train a.run -o a --fresh", INPUT),
    ("train data.txt --dev data.txt -o data.txt", INPUT),
    ("export a.model -o a.model --format crfsuite", INPUT),
    ("import a.model -o a.model", INPUT),
    ("learn data.txt --prequential new -o new", TWO),
    ("learn data.txt --prequential new.run -o new", TWO),
    ("learn data.txt --prequential data.txt -o new", INPUT),
    ("learn data.txt --template template --prequential template -o new", INPUT),
    ("tag a.model data.txt -o data.txt", INPUT),
    ("tag a.model data.txt -o a.model", INPUT),
    ("tag a.model data.txt -o new --sequences new", TWO),
    ("tag a.model data.txt --sequences -", TWO),
    ("tag a.model data.txt -o link --sequences new", INPUT),
    ("tag a.model data.txt --follow -o data.txt", INPUT),
]


@pytest.mark.parametrize(("command", "sentence"), VERBS, ids=[command for command, _ in VERBS])
def test_no_verb_writes_over_what_it_reads(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, sentence: str
) -> None:
    monkeypatch.chdir(folder)
    (folder / "a.run").write_bytes((folder / "a.model").read_bytes())
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sentence in failed(*command.split())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("tag a.model - -o data.txt", "data.txt"),
        ("tag a.model - --follow -o data.txt", "data.txt"),
        ("encode - -o data.txt", "data.txt"),
        ("train - -o data.txt", "data.txt"),
        ("learn - -o data.txt", "data.txt"),
        ("gradient - --model a.model -o a.chain", "a.chain"),
    ],
)
def test_nor_over_what_comes_through_standard_input(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, name: str
) -> None:
    monkeypatch.chdir(folder)
    content = (folder / name).read_bytes()
    kept = os.dup(0)
    with (folder / name).open("rb") as file:
        os.dup2(file.fileno(), 0)
    try:
        assert INPUT in failed(*command.split())
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    assert (folder / name).read_bytes() == content


def test_a_model_may_be_trained_further_in_its_own_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    succeeded("train", "a.chain", "--model", "a.model", "-o", "a.model", "--max-iterations", "1", "--json")
    assert not [path for path in folder.iterdir() if path.suffix in (".lock", ".part")]


def test_what_is_no_file_is_no_input_and_no_output(tmp_path: Path) -> None:
    check_outputs([None, tmp_path / "x"], [None, [None], pa.table({"a": [1]}), np.zeros(3), tmp_path / "missing"])


# One process at a time

HOLD = """
import sys
from chainfold.system.outputs import claimed
with claimed([sys.argv[1]], []):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process, which writes the outputs `new`, and is told to end by closing its standard input."""
    line = [sys.executable, "-c", HOLD, str(folder / "new")]
    with running(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process


WRITERS = [
    "encode data.txt -o new",
    "encode data.txt --append -o new",
    "train a.chain -o new --max-iterations 1",
    "train a.chain -o new --resume --fresh",
    "learn data.txt -o new",
    "learn data.txt --prequential new -o other",
    "tag a.model data.txt -o new",
    "tag a.model data.txt --sequences new -o other",
    "tag a.model data.txt --follow -o new",
    "gradient a.chain --model a.model -o new",
    "inspect a.model --html new",
]


def test_what_another_process_writes_is_left_alone_until_it_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch, holder: subprocess.Popen[bytes]
) -> None:
    monkeypatch.chdir(folder)
    before = {path.name for path in folder.iterdir()}
    for command in WRITERS:
        sentence = failed(*command.split())
        expected = "new: is being written by another process; wait until it has ended, or name another output."
        assert sentence == expected, command
    assert {path.name for path in folder.iterdir()} == before
    holder.kill()  # nobody else knows of it
    holder.wait()
    assert (folder / ".new.lock").exists()
    succeeded("inspect", "a.model", "--html", "new")
    assert (folder / "new").exists()
    assert not (folder / ".new.lock").exists()


def test_one_holds_an_output_at_a_time_in_a_process_too(tmp_path: Path) -> None:
    with claimed([tmp_path / "x"], []):
        with pytest.raises(BadFile, match="is being written by another process"), claimed([tmp_path / "x"], []):
            pass
        with claimed([tmp_path / "y", None, "-"], []):
            pass
    assert not list(tmp_path.iterdir())


def test_a_lock_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / ".x.lock").symlink_to(tmp_path / "victim")
    (tmp_path / ".y.lock").hardlink_to(tmp_path / "victim")
    with pytest.raises(BadFile, match="cannot be written"), claimed([tmp_path / "x"], []):
        pass
    with claimed([tmp_path / "y"], []):
        pass
    assert (tmp_path / "victim").read_text() == "mine"
    (tmp_path / ".z.lock").mkdir()
    with pytest.raises(BadFile, match="cannot be written"), claimed([tmp_path / "z"], []):
        pass


def test_where_files_cannot_be_locked_outputs_are_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chainfold.system.outputs.lock", lambda descriptor: None)
    with claimed([tmp_path / "x"], []):
        assert (tmp_path / ".x.lock").exists()
    assert not list(tmp_path.iterdir())


def test_what_another_user_has_left_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".x.lock").write_text("1 elsewhere\n")
    real = os.open

    def only_to_read(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", only_to_read)
    once, again = claimed([tmp_path / "x"], []), claimed([tmp_path / "x"], [])
    with once, pytest.raises(BadFile, match="is being written by another process"), again:
        pass
    assert not list(tmp_path.iterdir())


def test_what_grows_in_place_needs_no_right_to_write_to_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with claimed([tmp_path / "x"], [], in_place=True):
        assert not list(tmp_path.iterdir())


def test_a_pipe_that_has_a_name_is_no_ordinary_file() -> None:
    ours, theirs = os.pipe()
    try:
        with pytest.raises(BadFile, match="it is not an ordinary file; name one, or write to standard output"):
            check_outputs([f"/dev/fd/{theirs}"], [])
    finally:
        os.close(ours)
        os.close(theirs)


# What was appended is known again


def test_an_append_that_was_done_is_not_done_again(tmp_path: Path) -> None:
    chain = tmp_path / "all.chain"
    parts = [conll(tmp_path / name, 30, seed) for seed, name in enumerate(("a.txt", "b.txt", "c.txt"))]
    for part in parts:
        succeeded("encode", part, "-o", chain, "--append", "--json")
    content, positions = chain.read_bytes(), cf.open_chain(chain).positions
    for source in (*map(str, parts), "-"):  # through a pipe the same rows come in other pieces
        given = parts[1].read_bytes() if source == "-" else b""
        done = run("encode", source, "-o", chain, "--append", given=given)
        assert done.exit_code == 2
        assert "from an earlier --append, and is not changed; use --again to append them once more." in done.stderr
        assert chain.read_bytes() == content
    succeeded("encode", parts[0], "-o", chain, "--append", "--again", "--json")
    assert cf.open_chain(chain).positions > positions
    assert "--again requires --append" in failed("encode", parts[0], "-o", chain, "--again")


@pytest.mark.parametrize(
    "table",
    [
        {"word": ["a", "b", None], "size": [1.0, None, 2.0], "label": ["A", "B", "A"]},
        {"size": [1.5, 2.5, 2.0], "label": ["A", "B", "A"]},
    ],
)
def test_tables_are_known_again_by_what_is_in_them(tmp_path: Path, table: dict[str, list[object]]) -> None:
    chain = tmp_path / "x.chain"
    cf.encode(pa.table(table), chain, append=True, numbers="real")
    with pytest.raises(AlreadyAppended, match="has the 3 positions of the input already"):
        cf.encode(pa.table(table), chain, append=True)
    for name, values in table.items():
        other = {**table, name: [values[1], values[0], values[2]]}
        cf.encode(pa.table(other), chain, append=True)
    assert cf.open_chain(chain).positions == 3 * (1 + len(table))


def test_a_chain_that_was_encoded_at_once_may_get_its_own_rows_once_more(tmp_path: Path) -> None:
    data = conll(tmp_path / "a.txt", 10)
    chain = cf.encode(data, tmp_path / "x.chain")
    twice = cf.encode(data, tmp_path / "x.chain", append=True)
    assert twice.positions == 2 * chain.positions
