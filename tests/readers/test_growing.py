"""Following a file, look by look: rotated once or twice, cut short, with a writer that stays behind."""

from __future__ import annotations

import ctypes
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chainfold.readers import growing
from chainfold.readers.growing import GrowingFile
from chainfold.readers.inotify import Watch
from chainfold.readers.inputs import Chunk, Inputs
from chainfold.readers.whole_lines import whole_lines

Step = Callable[[], Any]
LONG = b"".join(b"a line to know a text by, number %d\n" % k for k in range(20))


@pytest.fixture(params=["inotify", "clock"], autouse=True)
def told_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "clock":
        monkeypatch.delattr(ctypes, "CDLL")
    return str(request.param)


class Log:
    """A file, what is done to it between two looks, and what is read and said."""

    def __init__(self, path: Path, text: bytes = LONG) -> None:
        self.path, self.told = path, list[str]()
        path.write_bytes(text)
        self.writer = path.open("ab", buffering=0)

    def append(self, text: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(text)

    def rotate(self, to: str, text: bytes = b"") -> None:
        self.path.rename(self.path.with_name(to))
        self.path.write_bytes(text)

    def cut(self, copy: str | None, text: bytes = b"") -> None:
        if copy is not None:
            shutil.copyfile(self.path, self.path.with_name(copy))
        os.truncate(self.path, 0)
        self.writer.write(text)

    def follow(self, monkeypatch: pytest.MonkeyPatch, *steps: Step) -> bytes:
        """All whole lines, one look after each step."""
        left, stopped, [one] = iter(steps), threading.Event(), Inputs(self.path)

        def wait(watch: Watch, seconds: float) -> None:
            next(left, stopped.set)()

        monkeypatch.setattr(Watch, "wait", wait)
        pieces = GrowingFile(one, self.told.append, 0.0, stopped)
        lines = whole_lines(pieces, one, stopped)
        return b"".join(chunk.data for chunk in lines if isinstance(chunk, Chunk))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "app.log")
    with log.writer:
        yield log


def test_a_writer_may_stay_on_a_file_that_was_rotated_away(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines come as they are written, between those of the new file."""
    monkeypatch.setattr(growing, "_PATIENCE", 0.05)

    def later() -> None:
        log.writer.write(b"later\n")
        log.append(b"w")

    read = log.follow(
        monkeypatch,
        lambda: log.rotate("app.log.1"),
        lambda: log.writer.write(b"late\nha"),
        lambda: log.path.write_bytes(b"new\nne"),
        later,
        lambda: time.sleep(0.06),
        lambda: log.writer.write(b"too late\n"),
        lambda: log.append(b"er\n"),
    )
    assert read == LONG + b"late\nha\nnew\nlater\nnewer\n"


def test_a_line_that_is_half_written_when_the_file_is_rotated_away(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def half() -> None:
        log.writer.write(b"half")
        log.rotate("app.log.1")

    read = log.follow(
        monkeypatch,
        half,
        lambda: log.writer.write(b" and whole\n"),
        lambda: (log.writer.write(b"end"), log.path.write_bytes(b"new\n")),
    )
    assert read == LONG + b"half and whole\nend\nnew\n"


@pytest.mark.parametrize("names", [("app.log.1", "app.log.2"), ("app-20261116.log", "app-20261115.log")])
def test_two_rotations_between_two_looks(log: Log, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    now, then = names
    log.path.with_name("app.log.3").write_bytes(b"from before\n")
    log.path.with_name("app2.log.1").write_bytes(b"another's\n")

    def twice() -> None:
        log.writer.write(b"last of the old\n")
        log.rotate(now, b"between\n")
        log.path.with_name(now).rename(log.path.with_name(then))
        log.rotate(now, b"new\n")
        log.path.with_name("app3.log").write_bytes(b"somebody else's\n")

    assert log.follow(monkeypatch, lambda: None, twice) == LONG + b"last of the old\nbetween\nnew\n"
    assert [one.partition("app.log ")[2] for one in log.told] == [
        f"was replaced briefly by a file now named {now}, which is read too.",
        "is another file now, which is read from its beginning.",
    ]


def test_a_file_between_that_is_gone_is_told_of(log: Log, told_by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice() -> None:
        log.rotate("app.log.1", b"between\n")
        log.path.unlink()
        log.path.write_bytes(b"new\n")

    assert log.follow(monkeypatch, twice) == LONG + b"new\n"
    assert ("for a moment cannot be found, and may be missing" in log.told[0]) == (told_by == "inotify")


@pytest.mark.parametrize("regrown", [b"", b"new\n", 2 * LONG + b"more of it\n", LONG[::-1].replace(b"\n", b"_")])
def test_what_was_cut_off_is_read_from_the_copy(log: Log, regrown: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter, longer, or just as long as it was at the last look."""
    regrown = regrown[36:] if len(regrown) > len(LONG) else regrown

    def rotated() -> None:
        log.writer.write(b"not read yet\nhal")
        log.cut("app.log.1", regrown)

    read = log.follow(monkeypatch, lambda: None, rotated, lambda: log.writer.write(b"then\n"))
    assert read == LONG + b"not read yet\nhal\n" + regrown + b"then\n"
    [told] = log.told
    assert "was cut short; 16 bytes that were not read yet are taken from its copy app.log.1." in told


def test_it_is_cut_twice_between_two_looks(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice() -> None:
        log.writer.write(b"of the first\n")
        log.cut("app.log.1", b"of the second\n")
        log.path.with_name("app.log.1").rename(log.path.with_name("app.log.2"))
        log.cut("app.log.1", b"of the third\n")

    assert log.follow(monkeypatch, lambda: None, twice) == LONG + b"of the first\nof the second\nof the third\n"
    assert "was copied to app.log.1 and cut short again" in log.told[1]


@pytest.mark.parametrize("name", ["app-1.log", "app.log-2", "app.log.7"])
@pytest.mark.parametrize("how", ["cut", "renamed"])
def test_rows_of_a_file_that_was_there_are_never_read(
    log: Log, name: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named as if it had been rotated away, and grows: but it is a log of its own."""
    beside = Log(log.path.with_name(name), b"OTHER\n")

    def turned() -> None:
        log.writer.write(b"more\n")
        beside.append(b"OTHER again\n")
        if how == "cut":
            log.cut("app.log.1", b"new\n")
        else:
            log.rotate("app.log.1", b"new\n")
        beside.append(b"OTHER still\n")

    with beside.writer:
        read = log.follow(monkeypatch, lambda: beside.append(b"OTHER too\n"), turned)
    assert read == LONG + b"more\nnew\n"
    assert len(log.told) == 1


def test_a_file_that_came_meanwhile_and_had_another_name_is_not_read(
    log: Log, told_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice() -> None:
        log.rotate("app.log.1", b"between\n")
        log.path.with_name("app.log.1").rename(log.path.with_name("app.log.2"))
        log.path.with_name("app-1.log").write_bytes(b"OTHER\n")
        log.rotate("app.log.1", b"new\n")

    assert log.follow(monkeypatch, lambda: None, twice) == LONG + b"between\nnew\n"
    assert any("app-1.log may have been" in one for one in log.told) == (told_by == "clock")


def test_a_file_that_came_before_the_rotation_is_not_read(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is known since the look at which it was new."""

    def came() -> None:
        time.sleep(0.05)  # the folder has another time
        log.path.with_name("app.log.7").write_bytes(b"OTHER\n")

    def rotated() -> None:
        log.path.with_name("app.log.7").write_bytes(b"OTHER\nOTHER\n")
        log.rotate("app.log.1", b"new\n")

    assert log.follow(monkeypatch, lambda: None, came, rotated) == LONG + b"new\n"
    assert len(log.told) == 1


def test_a_file_that_is_as_this_one_is_no_copy_of_it(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins so, but was there and has only grown."""
    beside = Log(log.path.with_name("app-1.log"))

    def cut() -> None:
        beside.append(b"OTHER\n")
        log.cut(None, b"new\n")

    with beside.writer:
        assert log.follow(monkeypatch, lambda: None, cut) == LONG + b"new\n"
    [told] = log.told
    assert "may be missing" in told


@pytest.mark.parametrize("text", [b"a\n", b"time,host," + b"column," * 50 + b"\n", LONG[:175]])
def test_a_beginning_that_others_may_have_makes_no_copy(
    tmp_path: Path, text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(tmp_path / "app.log", text)

    def cut() -> None:
        log.path.with_name("app-1.log").write_bytes(text + b"OTHER\n")
        log.cut(None, b"")

    with log.writer:
        assert log.follow(monkeypatch, lambda: None, cut, lambda: log.writer.write(b"new\n")) == text + b"new\n"
    [told] = log.told
    assert "may be missing" in told


def test_a_copy_that_is_made_slowly_is_known(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks fall between its beginning and its end, and lines come one by one."""
    copy = log.path.with_name("app.log.1")
    copy.write_bytes(b"an older one\n")
    there = LONG + b"more\nlast\n"

    def made(size: int) -> Step:
        def make() -> None:
            time.sleep(0.02)  # the folder has another time
            copy.write_bytes(there[:size])
            log.path.with_name(f"{size}").touch()

        return make

    def cut() -> None:
        log.writer.write(b"last\n")
        copy.write_bytes(there)
        log.cut(None, b"new\n")

    steps = [lambda: log.writer.write(b"more\n"), made(0), made(100), made(700), cut]
    assert log.follow(monkeypatch, *steps) == there + b"new\n"
    [told] = log.told
    assert "5 bytes that were not read yet are taken from its copy app.log.1." in told


def test_a_copy_of_lines_that_came_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path / "app.log", b"")
    lines = LONG.splitlines(keepends=True)

    def cut() -> None:
        log.writer.write(b"last\n")
        log.cut("app.log.1", b"new\n")

    with log.writer:
        steps = [lambda line=line: log.writer.write(line) for line in lines]
        assert log.follow(monkeypatch, *steps, cut) == LONG + b"last\nnew\n"


def test_a_file_in_a_folder_that_must_not_be_listed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(folder: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(os, "scandir", refused)
    read = log.follow(
        monkeypatch,
        lambda: log.writer.write(b"more\n"),
        lambda: log.cut("app.log.1", b"new\n"),
        lambda: log.rotate("app.log.1", b"newer\n"),
    )
    assert read == LONG + b"more\nnew\nnewer\n"
    assert "may be missing" in log.told[0]


def test_what_is_cut_off_for_good_is_told_of_in_numbers(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.path.with_name("app.log.2").write_bytes(b"something else" * 100)

    def written() -> None:
        time.sleep(0.02)
        log.writer.write(LONG)

    def cut() -> None:
        time.sleep(0.02)
        log.cut(None, b"new\n")

    read = log.follow(monkeypatch, written, written, cut)
    assert read == 3 * LONG + b"new\n"
    [told] = log.told
    seconds, size = told.split(" s before may be missing, about ")
    assert 0.0 < float(seconds.rpartition(" ")[2]) < 5.0
    assert int(size.split()[0].replace(",", "")) > 0


def test_a_file_is_read_within_a_moment(log: Log, told_by: str) -> None:
    """Long before the next look is due, where the system tells of changes."""
    stopped, [one] = threading.Event(), Inputs(log.path)
    pieces = iter(GrowingFile(one, log.told.append, 60.0 if told_by == "inotify" else 0.01, stopped))
    assert next(pieces).data == LONG
    for change in (lambda: log.writer.write(b"more\n"), lambda: log.rotate("app.log.1", b"new\n")):
        timer = threading.Timer(0.05, change)
        timer.start()
        begin = time.monotonic()
        assert next(pieces).data in (b"more\n", b"new\n")
        assert time.monotonic() - begin < 10.0
        timer.join()
    pieces.close()  # type: ignore[attr-defined]
