"""Online runs that are killed at any moment: `--resume` goes on from the state, to the same bytes."""

from __future__ import annotations

import io
import os
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from chainfold.chain.block import join_blocks
from chainfold.errors import BadFile
from chainfold.training.online import run as running
from chainfold.training.online.adagrad import OnlineSettings
from chainfold.training.online.arriving import arriving
from chainfold.training.online.prequential import Interval, IntervalTable
from chainfold.training.online.run import OnlineRun, Stopped, StopRequested
from verbs import conll, failed, run, succeeded

HOW: Any = {
    "attributes": "word[-1] word word[1] shape",
    "columns": ["word", "shape", "tag"],
    "hash_bits": 10,
    "format": "conll",
}
TOLD = ("--attributes", HOW["attributes"], "--columns", "word,shape,tag", "--hash-bits", "10", "--format", "conll")
SETTINGS = OnlineSettings(batch=12)
SIZES = [40, pytest.param(90, marks=pytest.mark.slow)]  # lines


class Killed(BaseException):
    """Nothing can be done about it, and nothing is done."""


class Death:
    """Kills at a moment: before and after each change to a file."""

    def __init__(self, at: int, patch: pytest.MonkeyPatch) -> None:
        self._left = at
        for name in ("write_sealed", "save_model"):
            patch.setattr(running, name, self._around(getattr(running, name)))
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
            (around if path.suffix == ".run" else unlink)(path, missing_ok)

        return changed


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
    monkeypatch.setattr("chainfold.features.encoder.read_ahead", iter)


def go_on(output: Path, inputs: list[Any]) -> OnlineRun:
    online = OnlineRun(output, SETTINGS, save_every=6)
    if online.state_path.exists():
        online.restore()
    online.run(arriving(inputs, piped=online.piped, **HOW))
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
    some_lines(text, size)
    go_on(tmp_path / "whole", [str(text)])
    for at in range(1, 1000):
        (tmp_path / "m").unlink(missing_ok=True)
        if not killed(at, tmp_path / "m", [str(text)]):
            break
        killed(1 + at % 7, tmp_path / "m", [str(text)])
        go_on(tmp_path / "m", [str(text)])
        assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "t", "whole"]
    assert 10 < at < 1000


@pytest.mark.parametrize("size", SIZES)
def test_a_run_over_a_pipe_goes_on_from_any_moment(size: int, tmp_path: Path) -> None:
    """It keeps the rows up to the last save, as they were read, and what comes then is a new sequence."""
    lines, at = some_lines(tmp_path / "t", size), 0
    rows = [number for number, line in enumerate(lines) if line.strip()]
    whole = join_blocks(list(arriving([str(tmp_path / "t")], **HOW).blocks))
    cuts = set()
    for at in range(1, 1000):
        (tmp_path / "m").unlink(missing_ok=True)
        if not killed(at, tmp_path / "m", [Lines(list(lines))]):
            break
        online = OnlineRun(tmp_path / "m", SETTINGS)
        if not online.state_path.exists():  # before the first save, or when the model was stored
            continue
        online.restore()
        cut = [*rows, len(lines)][online.rows]
        pipe: Any = Lines(lines[cut:])
        rest = arriving([pipe], piped=online.piped, **HOW)
        blocks = [whole.part(0, online.rows), *rest.blocks]
        OnlineRun(tmp_path / "n", SETTINGS).run(replace(rest, blocks=blocks, again=True))
        assert killed(1 + at % 3, tmp_path / "m", [Lines([])])  # nothing more comes, and what is kept is kept
        go_on(tmp_path / "m", [Lines(lines[cut:])])
        assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
        assert not (tmp_path / "m.run").exists()
        cuts.add(cut)
    assert 5 < at < 1000
    assert len(lines) in cuts, "nothing is lost by a kill at the end"
    assert len(cuts) > 2


# As a user meets it

ONLINE = ("--batch", "12", *TOLD)


class Endless(Lines):
    """A pipe that is still open when its reader is interrupted."""

    def readinto(self, target: Any) -> int:
        if self.given == len(self._lines):
            raise StopRequested
        return super().readinto(target)


def left_by_an_interrupt(output: Path, lines: list[str], how: Any = HOW) -> None:
    """The state of a run over a pipe that has given these lines."""
    pipe: Any = Endless(list(lines))
    with pytest.raises(Stopped):
        OnlineRun(output, SETTINGS, save_every=6).run(arriving([pipe], **how))


def test_a_run_that_was_interrupted_ends_where_nothing_more_comes(tmp_path: Path) -> None:
    lines, model = some_lines(tmp_path / "t", 30), tmp_path / "m"
    succeeded("learn", tmp_path / "t", *ONLINE, "-o", tmp_path / "whole")
    for given in (b"", b"\n\n"):
        left_by_an_interrupt(model, lines)
        done = run("learn", "-", *ONLINE, "-o", model, "--resume", "--json", given=given)
        assert (done.exit_code, done.stderr.count("\n")) == (0, 1), done.stderr
        assert model.read_bytes() == (tmp_path / "whole").read_bytes()
    left_by_an_interrupt(model, lines)
    done = run("learn", "-", *ONLINE[:2], "--attributes", "word", *TOLD[2:], "-o", model, "--resume", given=b"a x O\n")
    assert "the run has other columns or attributes; resume with the original input and options" in done.stderr
    done = run("learn", "-", "--batch", "12", "-o", model, "--resume", given=b"")  # its columns are known
    assert done.exit_code == 0, done.stderr
    assert model.read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "t", "whole"]
    done = run("learn", "-", *ONLINE, "-o", model, "--resume", given=b"")
    assert done.stderr.splitlines() == [
        "chainfold: there is no unfinished run to resume; a new one begins.",
        "chainfold: standard input: is empty.",
    ]


@pytest.mark.parametrize("attributes", ["word shape", "word[-1] word word[2]"])
def test_a_pipe_that_is_left_loses_no_row_that_waits_for_others(attributes: str, tmp_path: Path) -> None:
    """Rows that come when the run goes on are a new sequence, as after a blank line."""
    how, lines = HOW | {"attributes": attributes}, conll(tmp_path / "t", 60).read_text().splitlines(keepends=True)
    blank = lines.index("\n", 50)
    parts = [lines[low:high] for low, high in pairwise([0, 1, 3, blank - 1, blank, blank + 1, 120, 200, len(lines)])]
    (tmp_path / "t").write_text("\n".join("".join(part) for part in parts))
    OnlineRun(tmp_path / "whole", SETTINGS).run(arriving([str(tmp_path / "t")], **how))
    for part in (part for part in parts if any(line.strip() for line in part)):
        online, last = OnlineRun(tmp_path / "m", SETTINGS, save_every=40), part is parts[-1]
        if online.state_path.exists():
            online.restore()
        pipe: Any = Lines(part) if last else Endless(part)
        with nullcontext() if last else pytest.raises(Stopped):
            online.run(arriving([pipe], piped=online.piped, **how))
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_table_goes_on_without_its_header(tmp_path: Path) -> None:
    """Columns are what they were, whatever the first of the new rows look like."""
    rows = [f"{k % 7},s{k % 3},{'high' if k % 7 > 3 else 'low'}\n" for k in range(40)]
    left_by_an_interrupt(tmp_path / "m", ["x,kind,label\n", *rows[:17]], {"numbers": "log", "hash_bits": 10})
    rest = "".join(rows[17:]).encode()
    done = run("learn", "-", "--batch", "12", "-o", tmp_path / "m", "--resume", "--json", given=rest)
    assert done.exit_code == 0, done.stderr
    parts = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path, part in zip(parts, (rows[:17], rows[17:]), strict=True):
        path.write_text("".join(["x,kind,label\n", *part]))
    how = ("--batch", "12", "--numbers", "log", "--hash-bits", "10")
    succeeded("learn", *parts, *how, "-o", tmp_path / "whole")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_run_over_a_pipe_is_not_one_over_files(tmp_path: Path) -> None:
    lines, model = some_lines(tmp_path / "t", 30), tmp_path / "m"
    left_by_an_interrupt(model, lines)
    done = run("learn", tmp_path / "t", *ONLINE, "-o", model, "--resume")
    assert "the run reads a pipe, and cannot continue with files; resume with the original input" in done.stderr
    assert killed(9, tmp_path / "n", [str(tmp_path / "t")])
    with pytest.raises(
        BadFile, match="the run reads files, and cannot continue with a pipe; resume with the original input"
    ):
        go_on(tmp_path / "n", [Lines(["a x O\n"])])
    done = run("learn", "-", *ONLINE, "-o", tmp_path / "n", "--resume", given=b"")
    assert done.stderr.endswith("chainfold: standard input: is empty.\n")


@pytest.mark.parametrize("piped", [True, False])
def test_a_run_that_is_refused_at_its_first_rows_leaves_nothing(piped: bool, tmp_path: Path) -> None:
    text = tmp_path / "t"
    text.write_text("a x O\nb x _\n")
    source, given = ("-", text.read_bytes()) if piped else (text, b"")
    for _ in range(2):
        sentence = failed("learn", source, *ONLINE, "-o", tmp_path / "m", "--unknown", "_", given=given)
        assert sentence.startswith("row 2 has no label")
        assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_lines_of_intervals_that_were_written_whole_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    head, first = "positions,accuracy,running_accuracy,loss\n", "100,0.500000,0.500000,1.000000\n"
    for torn in ("", "200,0.500000,0.500000,1.0", "200,0.5", "\0\0", "x\udcff"):
        path.write_bytes((head + first + torn).encode(errors="surrogateescape"))
        with IntervalTable(path, 250) as table:
            assert path.read_text() == head + first
            table.add(Interval(200, 0.25, 0.375, 2.0))
        assert path.read_text() == head + first + "200,0.250000,0.375000,2.000000\n"
