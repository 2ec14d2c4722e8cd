"""`chainfold tag --follow`: rows that come one by one, files that grow and turn, lines that cannot be read."""

from __future__ import annotations

import fcntl
import io
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import IO

import pytest

from chainfold.inference.follow import Following
from cli.trained import COLUMNS, Trained
from processes import PATIENCE, chainfold, command, running
from verbs import conll, failed, run, succeeded


def lines_of(trained: Trained) -> list[bytes]:
    return trained.text.read_bytes().splitlines(keepends=True)


def test_a_pipe_gives_what_tag_gives(trained: Trained) -> None:
    text = trained.text.read_bytes()
    assert succeeded("tag", trained.path, "-", "--follow", given=text) == trained.tagged()
    for option in ("--marginals", "--all-marginals"):
        whole = succeeded("tag", trained.path, trained.text, option)
        assert succeeded("tag", trained.path, "-", "--follow", option, given=text) == whole


@pytest.mark.parametrize("mark", [",", "\t"])
def test_tables_have_a_header_for_what_is_new(mark: str, trained: Trained) -> None:
    text = "word,shape\nb1,x\no2,X\n".replace(",", mark).encode()
    tagged = succeeded("tag", trained.path, "-", "--follow", "--max-lag", "3", given=text).decode().splitlines()
    assert tagged[0].split(mark) == ["word", "shape", "predicted", "final"]
    assert [line.split(mark)[3:] for line in tagged[1:]] == [["yes"], ["yes"]]


def test_a_request_to_stop_is_heard_before_rows_are_waited_for(trained: Trained) -> None:
    sink = io.BytesIO()
    following = Following(sink, trained.model)
    with pytest.raises(KeyboardInterrupt):
        following.run(io.BytesIO(trained.text.read_bytes()), stop=lambda: True)
    assert sink.getvalue() == b""


def test_lags_are_told(trained: Trained) -> None:
    done = run("tag", trained.path, "-", "--follow", "--lags", given=trained.text.read_bytes())
    assert done.exit_code == 0
    assert done.stdout_bytes == trained.tagged()
    said = re.findall(r"(median|99 %|largest|template)\W+(\d+)", done.stderr)
    assert [name for name, _ in said] == ["median", "99 %", "largest", "template"]
    median, most, largest, template = (int(number) for _, number in said)
    assert 0 <= median <= most <= largest < 12
    assert template == 1  # to see that a sentence ends


def test_a_short_wait_is_marked_and_said(trained: Trained) -> None:
    done = run("tag", trained.path, "-", "--follow", "--max-lag", "1", "--lags", given=trained.text.read_bytes())
    assert done.exit_code == 0
    rows = [line.split() for line in done.stdout.splitlines() if line]
    marks = [row[-1] for row in rows]
    assert set(marks) == {"yes", "no"}
    truth = [line.split()[-1] for line in trained.tagged().decode().splitlines() if line]
    assert all(row[-2] == label for row, label in zip(rows, truth, strict=True) if row[-1] == "yes")
    sentence = f"chainfold: {marks.count('no')} of {len(rows)} rows are not proven: --max-lag limits how long they wait"
    assert sentence in done.stderr


def test_an_encoded_chain_through_a_pipe(trained: Trained, tmp_path: Path) -> None:
    chain = succeeded("encode", trained.text, "-o", "-", *COLUMNS)
    (tmp_path / "chain").write_bytes(chain)
    labels = succeeded("tag", trained.path, tmp_path / "chain")
    assert succeeded("tag", trained.path, "-", "--follow", given=chain) == labels
    assert succeeded("tag", trained.path, tmp_path / "chain", "--follow") == labels


@pytest.mark.parametrize(
    ("limit", "bound"),
    [(("--max-lag", "20"), "--max-lag"), (("--memory", "2KB"), "the memory allowed for rows that wait")],
    ids=["lag", "memory"],
)
def test_labels_that_can_never_be_told_apart(limit: tuple[str, str], bound: str, tmp_path: Path) -> None:
    """Two labels, no way from one to the other, and rows that say nothing of either."""
    (tmp_path / "train.txt").write_text("x A\nx A\n\nx B\nx B\n")
    succeeded("train", tmp_path / "train.txt", "-o", tmp_path / "m")
    never = ("--forbid", "A>B", "--forbid", "B>A")
    done = run("tag", tmp_path / "m", "-", "--follow", "--lags", *never, *limit, given=b"x\n" * 500)
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 500
    found = re.search(r"chainfold: (\d+) of 500 rows are not proven: (.*) limits how long they wait", done.stderr)
    assert found is not None
    assert found[2] == bound
    assert 400 < int(found[1]) < 500
    largest = re.search(r"largest\W+(\d+)", done.stderr)
    assert largest is not None
    assert int(largest[1]) <= 100


def test_an_output_is_replaced_when_there_is_something_to_write(trained: Trained, tmp_path: Path) -> None:
    output = tmp_path / "tagged"
    output.write_text("from before")
    assert "there is no such file" in failed("tag", trained.path, tmp_path / "nowhere", "--follow", "-o", output)
    assert output.read_text() == "from before"
    succeeded("tag", trained.path, "-", "--follow", "-o", output, given=trained.text.read_bytes())
    assert output.read_bytes() == trained.tagged()
    with trained.text.open("rb") as file:
        done = chainfold("tag", trained.path, "-", "--follow", "-o", trained.text, stdin=file)
    assert done.returncode == 2
    assert "is also an input" in done.stderr


# Lines that cannot be read


@pytest.mark.parametrize(("way", "code", "kept"), [("stop", 2, ""), ("skip", 0, "b1 o3"), ("unknown", 0, "b1 b2 o3")])
def test_lines_that_cannot_be_read(way: str, code: int, kept: str, trained: Trained) -> None:
    options = ("--follow", "--columns", "word,shape", "--on-error", way)
    done = run("tag", trained.path, "-", *options, given=b"b1 x\nb2 x X X X\no3 X\n")
    assert done.exit_code == code
    assert "line 2 has 5 columns" in done.stderr
    assert done.stderr.count("\n") <= 2
    lines = done.stdout.splitlines()
    assert way == "stop" or [line.split()[0] for line in lines] == kept.split()
    assert way != "unknown" or lines[1].split()[:-1] == ["b2", "x", "X", "X", "X"]


# Processes of their own


def following(*arguments: object) -> AbstractContextManager[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    return running(command("tag", *arguments, "--follow"), stdin=pipe, stdout=pipe, stderr=pipe)


def the(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def test_rows_come_out_while_others_come_in(trained: Trained) -> None:
    """Line by line, each written as soon as it can be; interrupted in the middle, what is final is there."""
    with following(trained.path, "-") as one:
        expected, given = trained.tagged().splitlines(keepends=True), 0
        for k, line in enumerate(lines_of(trained)):
            the(one.stdin).write(line)
            the(one.stdin).flush()
            if line == b"\n":  # the sentence before it is settled now
                while given < k:
                    assert the(one.stdout).readline() == expected[given]
                    given += 1
            if k > 40 and line != b"\n":
                break
        one.send_signal(signal.SIGINT)
        rest, said = the(one.stdout).read(), the(one.stderr).read().decode()
        assert one.wait(PATIENCE) == 130, said
    assert trained.tagged().startswith(b"".join(expected[:given]) + rest)
    assert said.splitlines()[0] == "chainfold: interrupted."


def test_rows_that_wait_for_the_template_are_counted_when_it_is_interrupted(trained: Trained, tmp_path: Path) -> None:
    train = conll(tmp_path / "train.txt", 60)
    ahead = ("--columns", "word,shape,tag", "--attributes", "word word[3] shape")
    succeeded("train", train, "-o", tmp_path / "m", *ahead)
    with following(tmp_path / "m", "-") as one:
        for line in lines_of(trained)[:3]:
            the(one.stdin).write(line)
        the(one.stdin).flush()
        end = time.monotonic() + PATIENCE
        while waiting_in(the(one.stdin)) and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.5)  # they are in the pipe no more, and not with the template yet
        one.send_signal(signal.SIGINT)
        assert one.wait(PATIENCE) == 130
        said = the(one.stderr).read().decode()
    assert said == "chainfold: interrupted.\nchainfold: 3 rows at the end not final yet, and left out.\n"


@pytest.mark.parametrize("begin", [b"\n\n", b"half a li"], ids=["blank lines", "half a line"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_ended_before_the_first_row(number: signal.Signals, begin: bytes, trained: Trained) -> None:
    with following(trained.path, "-") as one:
        the(one.stdin).write(begin)
        the(one.stdin).flush()
        end = time.monotonic() + PATIENCE
        while waiting_in(the(one.stdin)) and time.monotonic() < end:
            time.sleep(0.02)
        one.send_signal(number)
        assert one.wait(PATIENCE) == 128 + number
        said = b"interrupted" if number == signal.SIGINT else b"ended by SIGTERM"
        assert the(one.stderr).read() == b"chainfold: %s.\n" % said


def waiting_in(pipe: IO[bytes]) -> int:
    """Bytes that were written and not read yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_nobody_reads_any_more(trained: Trained) -> None:
    with following(trained.path, "-") as one:
        the(one.stdin).write(trained.text.read_bytes())
        the(one.stdin).flush()
        the(one.stdout).readline()
        the(one.stdout).close()
        with pytest.raises(BrokenPipeError):
            write_for_ever(the(one.stdin), trained.text.read_bytes())
        assert one.wait(PATIENCE) == 0
        assert the(one.stderr).read() == b""
        with suppress(BrokenPipeError):
            the(one.stdin).close()


def write_for_ever(pipe: IO[bytes], text: bytes) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        pipe.write(text)
        pipe.flush()
        time.sleep(0.05)


def moved(log: Path) -> None:
    log.rename(log.with_name("log.1"))
    log.write_bytes(b"b9 x\n")


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "replaced": (moved, "was replaced by another file"),
    "cut": (lambda log: os.truncate(log, 3), "was cut short or rewritten"),
    "removed": (Path.unlink, "was removed or renamed"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_grows_until_it_is_another(change: str, trained: Trained, tmp_path: Path) -> None:
    """All rows before are written, also those that waited for later ones; the sentence says what to run instead."""
    make, problem = CHANGES[change]
    log, output = tmp_path / "log", tmp_path / "tagged"
    log.write_bytes(b"b1 x\n\n")
    expected = succeeded("tag", trained.path, "-", "--columns", "word,shape", given=b"b1 x\n\nb2 x\n\no3 X\nb4 x\n")
    with following(trained.path, log, "--columns", "word,shape", "-o", output) as one:
        wait_for(output, 1)
        with log.open("ab") as file:
            file.write(b"b2 x\n\no3 X\nb4 x\n")
        wait_for(output, 3)  # the last rows wait for the end of their sequence
        make(log)
        assert one.wait(PATIENCE) == 2
        said = the(one.stderr).read().decode()
    assert output.read_bytes() == expected
    assert said.startswith(f"chainfold: {log}: {problem}, which ends the run; ")
    assert f"`tail -F -n +1 {log} | chainfold tag MODEL - --follow`" in said
    assert said.count("\n") == 1


def wait_for(output: Path, lines: int) -> None:
    end = time.monotonic() + PATIENCE
    while not output.exists() or output.read_bytes().count(b"\n") < lines:
        assert time.monotonic() < end
        time.sleep(0.02)
