"""Reading a file that grows: what is added, and what ends the reading; a change between any two looks at the file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chainfold.errors import BadFile
from chainfold.readers.growing import GrowingFile
from chainfold.readers.inputs import Chunk, Inputs
from chainfold.readers.whole_lines import whole_lines

pytestmark = pytest.mark.quick

LONG = b"".join(b"a line of a log, number %d\n" % k for k in range(20_000))  # several reads


class Pause(threading.Event):
    """Changes the file at each pause of the reader, then stops it."""

    def __init__(self, *steps: Callable[[], Any]) -> None:
        super().__init__()
        self._steps = iter(steps)

    def wait(self, timeout: float | None = None) -> bool:
        next(self._steps, self.set)()
        return self.is_set()


def lines_of(path: Path, *steps: Callable[[], Any]) -> Iterator[bytes]:
    stopped, [source] = Pause(*steps), Inputs(path)
    for chunk in whole_lines(GrowingFile(source, 60.0, stopped), source, stopped):
        assert isinstance(chunk, Chunk)
        yield chunk.data


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "app.log"
    path.write_bytes(LONG)
    return path


def test_added_bytes_are_read_and_half_a_line_waits(log: Path) -> None:
    steps = [lambda text=text: append(log, text) for text in (b"ha", b"lf\nmo", b"", b"re\n" + LONG, b"not whole")]
    assert b"".join(lines_of(log, *steps)) == LONG + b"half\nmore\n" + LONG


def test_an_empty_file_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    assert b"".join(lines_of(tmp_path / "log", lambda: append(tmp_path / "log", b"first\n"))) == b"first\n"


def replaced(log: Path) -> None:
    append(log, b"last\nhalf")
    log.rename(log.with_name("app.log.1"))
    log.write_bytes(b"new\n")


def removed(log: Path) -> None:
    append(log, b"last\nhalf")
    log.unlink()


CHANGES: dict[str, tuple[Callable[[Path], Any], str, bytes]] = {
    "replaced": (replaced, "was replaced by another file", b"last\n"),
    "removed": (removed, "was removed or renamed", b"last\n"),
    "cut": (lambda log: os.truncate(log, 100), "was cut short or rewritten", b""),
    "emptied": (lambda log: os.truncate(log, 0), "was cut short or rewritten", b""),
    "rewritten": (lambda log: log.write_bytes(LONG.upper()), "was cut short or rewritten", b""),
    "regrown": (lambda log: log.write_bytes(LONG.upper() * 2), "was cut short or rewritten", b""),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_text_under_the_name_ends_the_reading_after_the_lines_before(change: str, log: Path) -> None:
    make, problem, more = CHANGES[change]
    found: list[bytes] = []
    with pytest.raises(BadFile) as error:
        found.extend(lines_of(log, lambda: None, lambda: make(log)))
    assert b"".join(found) == LONG + more
    assert str(error.value) == (
        f"{log}: {problem}, which ends the run; to read a log that is rotated, use a pipe: `tail -F -n +1 "
        f"{log} | chainfold tag MODEL - --follow`."
    )


def test_a_cut_while_there_is_much_to_read_loses_no_line_before_it(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cut falls between two system calls that fill one piece."""
    reads, [source] = 0, Inputs(log)
    added = GrowingFile._added

    def cut(self: GrowingFile, last: bytes) -> bytes:
        nonlocal reads
        reads += 1
        if reads == 3:
            os.truncate(log, 10)
        return added(self, last)

    monkeypatch.setattr(GrowingFile, "_added", cut)
    pieces = iter(GrowingFile(source, 60.0, threading.Event()))
    assert next(pieces) == LONG[: 2 << 16]
    with pytest.raises(BadFile, match="was cut short"):
        next(pieces)


def test_the_file_is_closed_when_reading_ends(log: Path) -> None:
    [source] = Inputs(log)
    growing = GrowingFile(source, 60.0, threading.Event())
    pieces = iter(growing)
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    assert growing._file.closed
