"""Online runs that are killed at any moment: `--resume` goes on, to the same bytes, and loses no row that was kept."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from chainfold.model_file import open_model
from chainfold.online import run as running
from chainfold.online.arriving import arriving
from chainfold.online.journal import Journal, Record
from chainfold.online.prequential import Interval, Table
from chainfold.online.run import OnlineRun
from chainfold.online.weights import OnlineSettings
from chainfold.training import Every
from verbs import conll, failed, run, succeeded

HOW: Any = {
    "attributes": "word[-1] word word[1] shape",
    "columns": ["word", "shape", "tag"],
    "hash_bits": 10,
    "format": "conll",
}
TOLD = ("--attributes", HOW["attributes"], "--columns", "word,shape,tag", "--hash-bits", "10", "--format", "conll")
SETTINGS = OnlineSettings(batch=4)
SIZES = [8, pytest.param(40, marks=pytest.mark.slow)]  # lines


class Killed(BaseException):
    """Nothing can be done about it, and nothing is done."""


class Death:
    """Kills at a moment: before and after each change to a file, and in the midst of a record."""

    def __init__(self, at: int, patch: pytest.MonkeyPatch) -> None:
        self._left = at
        for name in ("write_sealed", "save_model"):
            patch.setattr(running, name, self._around(getattr(running, name)))
        patch.setattr(Journal, "clear", self._around(Journal.clear))
        patch.setattr(Journal, "append", self._append(Journal.append))
        patch.setattr(Path, "unlink", self._unlink(Path.unlink))

    def _moment(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise Killed

    def _around(self, change: Any) -> Any:
        def changed(*arguments: Any) -> None:
            self._moment()
            change(*arguments)
            self._moment()

        return changed

    def _unlink(self, unlink: Any) -> Any:
        around = self._around(unlink)

        def changed(path: Path, missing_ok: bool = False) -> None:
            (around if path.suffix in (".run", ".journal") else unlink)(path, missing_ok)

        return changed

    def _append(self, append: Any) -> Any:
        def appended(journal: Journal, record: Record) -> None:
            self._moment()
            before = journal.size
            append(journal, record)
            try:
                self._moment()
            except Killed:
                os.truncate(journal._path, (before + journal.size) // 2)
                raise
            self._moment()

        return appended


class Lines(io.RawIOBase):
    """A pipe that gives one line at a time."""

    def __init__(self, lines: list[str]) -> None:
        self._lines, self.given = lines, 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if self.given == len(self._lines):
            return 0
        line = self._lines[self.given].encode()
        assert len(line) <= len(target) or self.given == 0
        piece, rest = line[: len(target)], line[len(target) :]
        target[: len(piece)] = piece
        if rest:
            self._lines[self.given] = rest.decode()
        else:
            self.given += 1
        return len(piece)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power, and no threads are waited for."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr("chainfold.data.encoder.read_ahead", iter)


def go_on(output: Path, inputs: list[Any]) -> OnlineRun:
    online = OnlineRun(output, SETTINGS, every=Every(iterations=2))
    if online.state_path.exists():
        online.restore()
    online.run(arriving(inputs, HOW, online.piped))
    return online


def killed(at: int, output: Path, inputs: list[Any]) -> bool:
    """Begin, and be killed at a moment, if the run does not end before."""
    with pytest.MonkeyPatch.context() as patch:
        Death(at, patch)
        try:
            go_on(output, inputs)
        except Killed:
            return True
    return False


def some_lines(path: Path, count: int) -> list[str]:
    lines = conll(path, 40).read_text().splitlines(keepends=True)[:count]
    path.write_text("".join(lines))
    return lines


@pytest.mark.parametrize("size", SIZES)
def test_a_run_over_a_file_goes_on_from_any_moment(size: int, tmp_path: Path) -> None:
    text, at = tmp_path / "t", 0
    some_lines(text, 2 * size)
    go_on(tmp_path / "whole", [str(text)])
    for at in range(1, 1000):
        (tmp_path / "m").unlink(missing_ok=True)
        if not killed(at, tmp_path / "m", [str(text)]):
            break
        killed(1 + at % 7, tmp_path / "m", [str(text)])
        go_on(tmp_path / "m", [str(text)])
        assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "t", "whole"]
    assert 15 < at < 1000


@pytest.mark.parametrize("size", SIZES)
def test_a_run_over_a_pipe_goes_on_from_any_moment(size: int, tmp_path: Path) -> None:
    """It keeps all rows but the last that was read, and what comes then is a new sequence."""
    lines, at = some_lines(tmp_path / "t", size), 0
    expected: dict[int, bytes] = {}
    for at in range(1, 1000):
        (tmp_path / "m").unlink(missing_ok=True)
        pipe = Lines(list(lines))
        if not killed(at, tmp_path / "m", [pipe]):
            break
        online = OnlineRun(tmp_path / "m", SETTINGS)
        if not online.state_path.exists():  # before there was a row, or when the model was stored
            assert pipe.given <= 2 or open_model(tmp_path / "m").training["positions"] == len("".join(lines).split()) / 3
            continue
        online.restore()
        assert online.trainer is not None
        kept = max([online.trainer.rows, *(record.end for record in online._to_replay())])
        seen = [number for number, line in enumerate(lines[: pipe.given]) if line.strip()]
        assert len(seen) - 1 <= kept <= len(seen)
        cut = ([number for number, line in enumerate(lines) if line.strip()] + [len(lines)])[kept]
        if kept:  # nothing more comes, and what is kept is kept
            assert killed(1 + at % 3, tmp_path / "m", [Lines([])])
        go_on(tmp_path / "m", [Lines(lines[cut:])])
        if cut not in expected:
            (tmp_path / "u").write_text("".join([*lines[:cut], "\n", *lines[cut:]]))
            go_on(tmp_path / "n", [str(tmp_path / "u")])
            expected[cut] = (tmp_path / "n").read_bytes()
        assert (tmp_path / "m").read_bytes() == expected[cut]
        assert not (tmp_path / "m.run").exists()
    assert 30 < at < 1000
    assert len(expected) > size / 2
