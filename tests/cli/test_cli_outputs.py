"""An output that cannot be written is one sentence before any work is done, and leaves everything as it was."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import chainfold.engines.log_likelihood
import chainfold.model.inspection
import chainfold.training.online.run
from chainfold.cli import progress
from verbs import conll, failed, succeeded

PLACES: dict[str, Callable[[Path], object]] = {
    "here": lambda at: ".",
    "root": lambda at: "/",
    "directory": lambda at: at / "directory",
    "directory/": lambda at: f"{at / 'directory'}/",
    "missing folder": lambda at: at / "missing" / "folder" / "x",
    "in a file": lambda at: at / "rows" / "x",
    "nothing": lambda at: "",
    "device": lambda at: "/dev/null",
    "long": lambda at: at / ("x" * 300),
}
OUTPUTS: dict[str, list[object]] = {
    "train -o": ["train", "rows", "-o"],
    "learn -o": ["learn", "rows", "--hash-bits", 8, "-o"],
    "learn --prequential": ["learn", "rows", "--hash-bits", 8, "-o", "new", "--prequential"],
    "tag -o": ["tag", "model", "rows", "-o"],
    "tag --follow -o": ["tag", "model", "rows", "--follow", "-o"],
    "tag --sequences": ["tag", "model", "rows", "-o", "new", "--sequences"],
    "encode -o": ["encode", "rows", "-o"],
    "encode --append -o": ["encode", "rows", "--append", "-o"],
    "gradient -o": ["gradient", "model.chain", "--model", "model", "-o"],
    "inspect --html": ["inspect", "model", "--html"],
    "import -o": ["import", "foreign", "-o"],
    "export -o": ["export", "model", "--format", "crfsuite", "-o"],
}
QUICK = ("here", "missing folder", "nothing")


def cases() -> Iterator[Any]:
    for output in OUTPUTS:
        for place in PLACES:
            marks = [] if place in QUICK else [pytest.mark.slow]
            yield pytest.param(output, place, marks=marks)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("outputs")
    succeeded("train", conll(made / "rows"), "-o", made / "model", "--max-iterations", 2)
    (made / "directory").mkdir()
    return made


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is not done here."""

    def work(*arguments: Any, **options: Any) -> None:
        raise AssertionError("work was begun")

    monkeypatch.setattr(progress.Bar, "_set_phase", work)
    monkeypatch.setattr(chainfold.engines.log_likelihood, "log_likelihood", work)
    monkeypatch.setattr(chainfold.model.inspection, "inspect", work)
    monkeypatch.setattr(chainfold.training.online.run.OnlineRun, "run", work)


def seen(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(("output", "place"), list(cases()))
def test_an_output_that_cannot_be_written_is_refused_before_any_work(
    output: str, place: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before, where = seen(folder), str(PLACES[place](folder))
    sentence = failed(*OUTPUTS[output], where)
    names = where, str(Path(where))
    assert sentence.startswith((*map(repr, names), *(f"{name}: cannot be written: " for name in names))), sentence
    assert seen(folder) == before


READS = {
    "inspect": ["inspect", "model"],
    "inspect --html": ["inspect", "model", "--html", "new"],
    "gradient": ["gradient", "model.chain"],
    "gradient --model": ["gradient", "model.chain", "--model", "model", "--json"],
    "data": ["data", "model.chain"],
    "explain": ["explain", "model", "rows"],
    "eval": ["eval", "model", "rows"],
    "watch": ["watch", "model", "rows"],
    "tag": ["tag", "model", "rows"],
    "tag -o": ["tag", "model", "rows", "-o", "new"],
    "train": ["train", "rows", "--dev", "rows2", "--model", "model", "--template", "template", "-o", "new", "--json"],
    "learn": ["learn", "rows", "--template", "template", "-o", "new", "--json"],
    "encode": ["encode", "rows", "--template", "template", "-o", "new", "--json"],
    "encode -": ["encode", "rows", "-o", "-"],
    "import": ["import", "foreign", "-o", "new"],
    "export": ["export", "model", "-o", "new", "--format=crfsuite"],
}


@contextmanager
def printing_to(path: Path) -> Iterator[None]:
    """Descriptor 1 is at the end of the file, as with `>>`."""
    kept, opened = os.dup(1), os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        os.dup2(opened, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(opened)
        os.close(kept)


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(
    ("verb", "name"), [(verb, name) for verb, words in READS.items() for name in words[1:] if name[0] != "-"]
)
def test_standard_output_is_no_input_and_no_other_output(
    verb: str, name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("model", "model.chain", "rows"):
        (tmp_path / path).write_bytes((folder / path).read_bytes())
    for path in ("rows2", "template", "foreign", "new"):
        (tmp_path / path).write_bytes(b"")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with printing_to(tmp_path / name):
        sentence = failed(*READS[verb])
    assert sentence.startswith("standard output: ")
    assert ("cannot hold two outputs" if name == "new" else "is also an input, and would be lost") in sentence
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("where", ["/dev/null", "elsewhere"])
def test_standard_output_may_be_another_file(where: str, folder: Path, tmp_path: Path) -> None:
    with printing_to(tmp_path / where):
        assert succeeded("data", folder / "model.chain", "--json")
        assert succeeded("encode", folder / "rows", "-o", tmp_path / "new", "--json")
