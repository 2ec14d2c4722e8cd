"""Bytes in: names, globs, pipes and open files; compression; encodings; chunks of whole lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfold.errors import BadFile, BadSetting, ChainfoldError
from chainfold.readers import inputs as module
from chainfold.readers.inputs import Chunk, Inputs, chunks

pytestmark = pytest.mark.quick

TEXT = b"".join(b"line %d of some text\n" % k for k in range(5000))


def zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstd,
}


class Pipe(io.RawIOBase):
    """Bytes that come a few at a time and only once."""

    def __init__(self, data: bytes, step: int = 1 << 20) -> None:
        self._data, self._step = data, step

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        piece = self._data[: min(len(target), self._step)]
        self._data = self._data[len(piece) :]
        target[: len(piece)] = piece
        return len(piece)


def text_of(inputs: Inputs, size: int = 1 << 20) -> bytes:
    text = b""
    for one in inputs:
        with closing(one.open()) as stream:
            text += b"".join(chunk.data for chunk in chunks(stream, size))
    return text


def given_as(data: bytes) -> Inputs:
    return Inputs(io.BytesIO(data))


def problem_of(data: bytes, encoding: str = "utf-8", size: int = 1 << 20) -> str:
    with pytest.raises(BadFile) as caught:
        text_of(Inputs(io.BytesIO(data), encoding), size)
    return str(caught.value)


@pytest.mark.parametrize("kind", PACKED)
def test_compression_is_known_by_content(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "misleading.gz"
    path.write_bytes(TEXT)
    assert text_of(Inputs(str(path))) == TEXT
    path.write_bytes(PACKED[kind](TEXT))
    assert text_of(Inputs(path)) == TEXT
    path.write_bytes(PACKED[kind](TEXT) + PACKED[kind](b"and more\n"))
    assert text_of(Inputs(path)) == TEXT + b"and more\n"
    assert text_of(Inputs(Pipe(path.read_bytes(), step=1))) == TEXT + b"and more\n"  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", PACKED)
def test_damage_is_told_with_the_line(kind: str) -> None:
    packed = PACKED[kind](os.urandom(20000).hex().encode() + b"\n" + TEXT)
    problem = problem_of(packed[:-10])
    assert f"the {kind} data is cut short after line " in problem
    if kind != "zstd":  # this test's zstd has no checksum, and its reader gives up a little earlier
        least = 0 if kind == "bzip2" else 4001  # bzip2 gives whole blocks of 900 KB
        assert int(problem.split("after line ")[1].split(";")[0]) >= least
        damaged = bytearray(packed)
        damaged[len(packed) // 2] ^= 0x55
        assert f"the {kind} data is damaged" in problem_of(bytes(damaged))


def test_damage_within_the_first_bytes_is_told_when_it_is_met() -> None:
    stream = next(iter(given_as(gzip.compress(TEXT)[:100]))).open()
    ahead = stream.peek(1000)
    assert TEXT.startswith(ahead)
    with pytest.raises(BadFile, match="the open file: the gzip data is cut short after line "):
        list(chunks(stream))


def test_globs_are_sorted_and_literal_names_come_first(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "[x].txt", "x.txt"):
        (tmp_path / name).write_text(f"{name}\n")
    assert text_of(Inputs(str(tmp_path / "[ab].txt"))) == b"a.txt\nb.txt\n"
    assert text_of(Inputs(tmp_path / "[x].txt")) == b"[x].txt\n"
    assert len(Inputs([tmp_path / "a.txt", str(tmp_path / "*.txt")])) == 5


def test_what_cannot_be_read_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "closed").write_text("x")
    (tmp_path / "closed").chmod(0)
    for what, problem in (
        (tmp_path / "nothing", "there is no such file"),
        (tmp_path, "is a directory; name the files in it"),
        (tmp_path / "*.csv", "no file matches this pattern"),
        ("x\0y", "cannot be read"),
        (io.StringIO("text"), "is open as text"),
        (17, "give a path or a file"),
    ):
        with pytest.raises(BadFile, match=problem):
            Inputs(what)  # type: ignore[arg-type]
    with pytest.raises(BadSetting, match="at least one file"):
        Inputs([])
    if os.geteuid() != 0:
        with pytest.raises(BadFile, match="Permission denied"):
            Inputs(tmp_path / "closed")


def test_progress_adds_up_to_the_size_on_disk(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(TEXT))
    (tmp_path / "b").write_bytes(TEXT)
    seen: list[int] = []
    inputs = Inputs([tmp_path / "a", tmp_path / "b"], progress=seen.append)
    assert text_of(inputs) == TEXT + TEXT
    assert sum(seen) == inputs.total_bytes == (tmp_path / "a").stat().st_size + len(TEXT)
    assert Inputs([tmp_path / "a", Pipe(b"")]).total_bytes is None  # type: ignore[list-item]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(zstd(TEXT))))
    inputs = Inputs("-")
    assert [one.name for one in inputs] == ["standard input"]
    assert text_of(inputs) == TEXT
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(BadFile, match="standard input: cannot be read"):
        Inputs("-")


def test_a_named_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(TEXT))
    writer.start()
    inputs = Inputs(path)
    assert inputs.total_bytes is None
    assert text_of(inputs) == TEXT
    writer.join()


def test_a_pipe_is_read_once() -> None:
    inputs = Inputs(Pipe(TEXT))  # type: ignore[arg-type]
    assert text_of(inputs) == TEXT
    with pytest.raises(BadFile, match="read only once"):
        text_of(inputs)
    slow = Inputs(Pipe(gzip.compress(TEXT), step=100))  # type: ignore[arg-type]
    stream = next(iter(slow)).open()
    assert stream.read(10) == TEXT[:10]


def test_an_open_file_begins_where_it_stands_and_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"skipped\n" + TEXT)
    with path.open("rb") as file:
        file.readline()
        inputs = Inputs(file)
        assert inputs.total_bytes == len(TEXT)
        assert text_of(inputs) == text_of(inputs) == TEXT
        assert not file.closed
    with pytest.raises(BadFile, match="closed"):
        Inputs(file)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "shift_jis"])
@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_encodings(encoding: str, size: int) -> None:
    text = "\u00b4 \u00d7\nzwei\n" if encoding == "shift_jis" else "née\nüber\n"
    inputs = Inputs(io.BytesIO(text.encode(encoding)), encoding)
    assert text_of(inputs, size) == text.encode()


@pytest.mark.parametrize("size", [1, 2, 7, 1 << 20])
def test_marks_at_the_beginning_are_skipped(size: int) -> None:
    assert text_of(given_as(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"), size) == b"a\n\xef\xbb\xbfb\n"
    assert text_of(Inputs(io.BytesIO("\ufeffa\n".encode("utf-16-le")), "utf-16-le"), size) == b"a\n"


@pytest.mark.parametrize("name", ["utf-9", "hex", "x\0"])
def test_unknown_encodings(name: str) -> None:
    with pytest.raises(BadSetting, match="for instance utf-8, latin-1"):
        Inputs(io.BytesIO(b""), name)


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_what_is_not_text_is_told_with_its_place(size: int) -> None:
    assert "line 3, byte 2: 0xff is not UTF-8; set `encoding`" in problem_of(b"a\n\nb\xffc\n", size=size)
    assert "line 1, byte 1: 0xe9 is not UTF-8" in problem_of(b"\xe9", size=size)
    assert "line 2, character 3: 0x81 is not cp1252" in problem_of(b"a\nbc\x81\n", "cp1252", size)
    assert "line 1, character 2: the end of the text is not utf-16-le" in problem_of(b"a\0b", "utf-16-le", size)


def test_an_endless_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 100)
    assert "line 2 begins a row of more than" in problem_of(b"a\n" + b"b" * 200, size=10)


@given(st.binary(max_size=300), st.integers(1, 50), st.sampled_from(["utf-8", "utf-16", "utf-7", "cp1252"]))
def test_any_bytes_give_text_or_a_sentence(data: bytes, size: int, encoding: str) -> None:
    for packed in (data, gzip.compress(b"")[:10] + data, lzma.compress(b"")[:12] + data, zstd(b"x")[:5] + data):
        with suppress(ChainfoldError):
            text_of(Inputs(io.BytesIO(packed), encoding), size).decode()


@given(st.text(alphabet="ab\n\r é", max_size=100), st.integers(1, 20))
def test_chunks_put_together_are_the_text(text: str, size: int) -> None:
    data = text.encode()
    found = list(chunks(next(iter(given_as(data))).open(), size))
    assert b"".join(chunk.data for chunk in found) == data + (b"" if data.endswith(b"\n") or not data else b"\n")
    line = 1
    for chunk in found:
        assert chunk.line == line
        line += chunk.data.count(b"\n")
    assert [chunk.added for chunk in found if chunk.added] == ([] if data.endswith(b"\n") or not data else [1])


def test_live_text_is_given_as_it_comes() -> None:
    out, into = os.pipe()
    with os.fdopen(out, "rb", buffering=0) as file:
        os.write(into, b"one line\nand a ha")
        [one] = Inputs(file, live=True)
        found = chunks(one.open())
        assert next(found) == Chunk(b"one line\n", 1)
        os.write(into, b"lf\nmore\n")
        assert next(found) == Chunk(b"and a half\nmore\n", 2)
        os.write(into, b"end")
        os.close(into)
        assert list(found) == [Chunk(b"end\n", 4, added=1)]
