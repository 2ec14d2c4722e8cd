"""`chainfold learn` as a user meets it: pipes and files, kills and resumptions, sentences."""

from __future__ import annotations

import csv
import io
import itertools
import json
import random
import re
import signal
import subprocess
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import pytest

from chainfold.errors import ChainfoldError
from chainfold.model.file import open_model
from chainfold.training.online.adagrad import OnlineSettings
from chainfold.training.online.arriving import arriving
from chainfold.training.online.run import OnlineRun, Stopped, StopRequested
from processes import PATIENCE, command, running
from verbs import conll, failed, run, succeeded

HOW = ("--batch", "64")
MADE = {"attributes": "word[-1] word word[1] shape", "columns": ["word", "shape", "tag"], "hash_bits": 12}
READ = ("--attributes", MADE["attributes"], "--columns", "word,shape,tag", "--hash-bits", "12")


def facts(*arguments: object, given: bytes = b"") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(succeeded("learn", *arguments, "--json", given=given))
    return found


def test_a_pipe_and_a_file_give_the_same_model(tmp_path: Path) -> None:
    text, model = conll(tmp_path / "t", 300), tmp_path / "m"
    told = facts("-", *HOW, *READ, "-o", model, "--prequential", tmp_path / "p.csv", given=text.read_bytes())
    positions = sum(1 for line in text.read_text().splitlines() if line)
    assert told["positions"] == positions
    assert told["approximate_batches"] == 0
    assert told["prequential_accuracy"] > 0.7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "p.csv", "t"]
    facts(text, *HOW, *READ, "-o", tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == model.read_bytes()
    with (tmp_path / "p.csv").open() as file:
        (line,) = csv.DictReader(file)
    assert int(line["positions"]) == positions
    assert float(line["running_accuracy"]) == pytest.approx(told["prequential_accuracy"], abs=1e-6)
    assert float(line["loss"]) == pytest.approx(told["prequential_loss"], abs=1e-6)
    assert b"accuracy before training" in succeeded("learn", text, *HOW, *READ, "-o", tmp_path / "other")


def test_the_model_is_one_as_any_other(tmp_path: Path) -> None:
    text, model = conll(tmp_path / "t", 400), tmp_path / "m"
    facts(text, *HOW, *READ, "-o", model)
    other = conll(tmp_path / "u", 50, seed=1)
    assert json.loads(succeeded("eval", model, other, "--json"))["accuracy"] > 0.85
    assert b"B-X" in succeeded("tag", model, other)
    assert open_model(model).training["online"]


def test_a_chain_with_hashed_attributes_is_learnt_from(tmp_path: Path) -> None:
    text = conll(tmp_path / "t", 200)
    succeeded("encode", text, *READ, "-o", tmp_path / "c")
    facts(tmp_path / "c", *HOW, "-o", tmp_path / "m")
    facts(text, *HOW, *READ, "-o", tmp_path / "n")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()


def test_numbers_are_fitted_on_the_first_rows(tmp_path: Path) -> None:
    dice = random.Random(0)
    rows = [(dice.random(), "high") if k % 2 else (-dice.random(), "low") for k in range(400)]
    text = "\n".join(["x,label", *(f"{x},{label}" for x, label in rows)])
    told = facts("-", "--batch", "20", "-o", tmp_path / "m", given=text.encode())
    assert told["prequential_accuracy"] > 0.9
    assert told["attributes"] == 16


# What is killed


class Killed(BaseException):
    """Nothing can be done about it, and nothing is done."""


def killed_at(moment: int) -> Any:
    """A progress that kills."""
    count = 0

    def progress(learnt: object) -> None:
        nonlocal count
        count += 1
        if count > moment:
            raise Killed

    return progress


def go_on(output: Path, text: Path, every: int, progress: Any = lambda learnt: None) -> None:
    online = OnlineRun(output, OnlineSettings(batch=64), save_every=every, progress=progress)
    if online.state_path.exists():
        online.restore()
    online.run(arriving([str(text)], piped=online.piped, **MADE))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(6))
def test_a_run_over_a_file_that_is_killed_now_and_then_ends_with_the_same_bytes(seed: int, tmp_path: Path) -> None:
    text, dice = conll(tmp_path / "t", 600), random.Random(seed)
    go_on(tmp_path / "whole", text, 640)
    kills = 0
    while kills < 100:
        try:
            go_on(tmp_path / "m", text, dice.randint(1, 800), killed_at(dice.randint(0, 25)))
        except Killed:
            kills += 1
            continue
        break
    assert 0 < kills < 100
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "m.run").exists()


class Dripping(io.RawIOBase):
    """A pipe that gives a text in pieces, and then whatever ends the waiting for more."""

    def __init__(self, text: bytes, dice: random.Random, end: type[BaseException] | None) -> None:
        self._text, self._dice, self._end = text, dice, end

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if not self._text and self._end is not None:
            raise self._end
        piece = self._text[: min(len(target), self._dice.choice((1, 5, 20, 200)))]
        target[: len(piece)], self._text = piece, self._text[len(piece) :]
        return len(piece)


@pytest.mark.parametrize("attributes", ["word shape", "word[-1] word word[2]"])
def test_a_pipe_that_is_left_loses_no_row_that_waits_for_others(attributes: str, tmp_path: Path) -> None:
    """Rows that come when the run goes on are a new sequence, as after a blank line."""
    how: Any = MADE | {"attributes": attributes, "format": "conll"}
    settings, dice = OnlineSettings(batch=16), random.Random(0)
    lines = conll(tmp_path / "t", 60).read_text().splitlines(keepends=True)
    blank = lines.index("\n", 50)
    cuts = [0, 1, 3, blank - 1, blank, blank + 1, 120, 200, len(lines)]
    parts = ["".join(lines[low:high]) for low, high in itertools.pairwise(cuts)]
    (tmp_path / "t").write_text("\n".join(parts))
    OnlineRun(tmp_path / "whole", settings).run(arriving([str(tmp_path / "t")], **how))
    for part in (part for part in parts if part.strip()):
        online = OnlineRun(tmp_path / "m", settings, save_every=40)
        if online.state_path.exists():
            online.restore()
        pipe: Any = Dripping(part.encode(), dice, None if part == parts[-1] else StopRequested)
        with nullcontext() if part == parts[-1] else pytest.raises(Stopped):
            online.run(arriving([pipe], piped=online.piped, **how))
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()


def test_rows_without_labels_are_refused_before_they_are_kept(tmp_path: Path) -> None:
    pipe: Any = Dripping(b"a x A\nb x _\n", random.Random(0), StopRequested)
    how: Any = MADE | {"format": "conll", "unknown": "_"}
    with pytest.raises(ChainfoldError, match="row 2 has no label"):
        OnlineRun(tmp_path / "m", OnlineSettings()).run(arriving([pipe], **how))
    assert not (tmp_path / "m.run").exists()


class Pipe:
    """A command with a pipe to it."""

    def __init__(self, *arguments: object) -> None:
        line, pipe = command("learn", "-", *arguments, "--json", "-v"), subprocess.PIPE
        self.process = subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
        assert self.process.stdin is not None
        self.stdin = self.process.stdin

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self.process:
            self.process.kill()

    def end(self, how: int | None = None) -> tuple[int, str, str]:
        if how is not None:
            self.process.send_signal(how)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out.decode(), err.decode()


def some_rows(low: int, high: int) -> bytes:
    """Two symbols, much that says nothing, and a label that follows from the symbols."""
    dice, lines = random.Random(0), []
    for _ in range(high):
        a, b = dice.randrange(5), dice.randrange(5)
        lines.append(f"a{a} b{b} {'x' * 80} {'even' if (a + b) % 2 == 0 else 'odd'}\n")
    return "".join(lines[low:high]).encode()


PIPED = ("--format", "conll", "--one-sequence", "--attributes", "0 1 0|1", *HOW)


def until(exists: Path) -> None:
    begin = time.monotonic()
    while not exists.exists():
        assert time.monotonic() - begin < 20, "nothing is saved"
        time.sleep(0.01)


def killed_over_a_pipe(model: Path, rows: int) -> int:
    """Kill a run once it has read all rows of a pipe that stays open; returns the number of rows in its state."""
    counter, begin = model.with_name(".m.run.rows"), time.monotonic()
    with Pipe(*PIPED, "-o", model, "--save-every", 3000) as pipe:
        pipe.stdin.write(some_rows(0, rows))
        until(counter)
        while int(counter.read_bytes()) < rows:
            assert time.monotonic() - begin < PATIENCE, "rows are not counted"
            time.sleep(0.01)
        assert pipe.end(signal.SIGKILL)[0] == -signal.SIGKILL
    kept = OnlineRun(model, OnlineSettings(batch=64))
    kept.restore()
    return kept.rows


def test_rows_of_a_pipe_after_the_last_save_are_lost_by_a_kill_and_counted(tmp_path: Path) -> None:
    model = tmp_path / "m"
    kept = killed_over_a_pipe(model, 20_000)
    assert 3000 <= kept < 20_000
    with Pipe(*PIPED, "-o", model, "--resume") as pipe:
        pipe.stdin.write(some_rows(20_000, 21_000))
        status, out, err = pipe.end()
    lost = f"the {20_000 - kept:,} rows that were read from the pipe after it are lost"
    assert (status, err.splitlines()[0]) == (0, f"chainfold: resuming after row {kept:,}; {lost}.")
    told = json.loads(out)
    assert told["positions"] == kept + 1000
    assert told["prequential_accuracy"] > 0.9
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]


def test_the_count_of_lost_rows_may_be_torn_or_missing_or_of_no_row(tmp_path: Path) -> None:
    kept = killed_over_a_pipe(tmp_path / "m", 8000)
    state, some = (tmp_path / "m.run").read_bytes(), "rows that were read from the pipe after it are lost"
    for counted, lost in (
        (None, f"; any {some}"),
        (b"", f"; any {some}"),
        (b"0" * 17, f"; any {some}"),
        (b"x" * 18, f"; any {some}"),
        (b"%018d" % (kept - 1), f"; any {some}"),
        (b"%018d" % kept, ""),
        (b"%018d" % (kept + 1), "; the row that was read from the pipe after it is lost"),
    ):
        (tmp_path / "m.run").write_bytes(state)
        if counted is not None:
            (tmp_path / ".m.run.rows").write_bytes(counted)
        else:
            (tmp_path / ".m.run.rows").unlink()
        done = run("learn", "-", *PIPED, "-o", tmp_path / "m", "--resume", "--json", given=b"")
        assert done.stderr == f"chainfold: resuming after row {kept:,}{lost}.\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]


def test_a_file_whose_reader_was_killed_is_learnt_from_to_the_same_bytes(tmp_path: Path) -> None:
    text, model = tmp_path / "t.txt", tmp_path / "m"
    text.write_bytes(some_rows(0, 50_000))
    saved = ("--save-every", "1500", "--prequential")
    facts(text, *PIPED, "-o", tmp_path / "whole", *saved, tmp_path / "whole.csv")
    for _ in range(2):
        line = command("learn", text, *PIPED, "-o", model, *saved, tmp_path / "m.csv", "--resume")
        before = model.stat().st_mtime_ns if model.exists() else 0
        with running(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            until(model)
            while model.stat().st_mtime_ns == before:
                assert process.poll() is None
        assert process.returncode == -signal.SIGKILL
    assert model.read_bytes() != (tmp_path / "whole").read_bytes()
    assert open_model(model).training["positions"] < 50_000
    done = run("learn", text, *PIPED, "-o", model, *saved, tmp_path / "m.csv", "--resume")
    assert done.exit_code == 0
    assert re.fullmatch(r"chainfold: resuming after row [\d,]+\.\n", done.stderr)
    assert model.read_bytes() == (tmp_path / "whole").read_bytes()
    assert (tmp_path / "m.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_an_interrupt_while_nothing_comes_saves_what_there_is(tmp_path: Path) -> None:
    model = tmp_path / "m"
    with Pipe(*PIPED, "-o", model, "--save-every", 1000) as pipe:
        pipe.stdin.write(some_rows(0, 20_000))
        until(model)
        time.sleep(1.0)
        pipe.process.send_signal(signal.SIGINT)
        pipe.process.wait(PATIENCE)
        status, out, err = pipe.end()
    assert (status, out) == (130, "")
    learnt = open_model(model).training["positions"]
    kept = OnlineRun(model, OnlineSettings(batch=64))
    kept.restore()
    assert 5_000 < learnt < kept.rows <= 20_000
    sentence = f"chainfold: stopped after row {kept.rows:,}; the state is saved in {model}.run; continue with --resume."
    assert err.splitlines()[-1] == sentence


# Sentences


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--rate", "0"), "--rate is 0.0, but must be a finite number above zero."),
        (("--hash-bits", "99"), "--hash-bits is 99, but must be a whole number from 1 to 24."),
        (("--save-every", "0"), "--save-every is 0, but must be a whole number, at least 1."),
        (("--resume", "--fresh"), "give --resume or --fresh, not both."),
    ],
)
def test_options_that_make_no_sense(options: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    text = conll(tmp_path / "t", 5)
    assert failed("learn", text, "-o", tmp_path / "m", *options).startswith(sentence)
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("flag", ["--algorithm", "--dev", "--c1", "--min-count", "--weight", "--scheme", "--threads"])
def test_options_of_training_that_do_not_exist_here(flag: str, tmp_path: Path) -> None:
    done = run("learn", conll(tmp_path / "t", 5), "-o", tmp_path / "m", flag, "1")
    assert done.exit_code == 2
    assert f"No such option: {flag}" in done.stderr


@pytest.mark.parametrize("flag", ["--forget", "--prequential"])
def test_options_that_training_does_not_have(flag: str, tmp_path: Path) -> None:
    done = run("train", conll(tmp_path / "t", 5), "-o", tmp_path / "m", flag, "1")
    assert done.exit_code == 2
    assert f"No such option: {flag}" in done.stderr


def test_inputs_that_cannot_be_learnt_from(tmp_path: Path) -> None:
    text, model = conll(tmp_path / "t", 5), tmp_path / "m"
    succeeded("encode", text, "-o", tmp_path / "c")
    assert failed("learn", tmp_path / "c", "-o", model).endswith(
        "its attributes are not hashed, as online training requires; encode it with --hash-bits."
    )
    (tmp_path / "template").write_text("U:%x[0,0]\nB:%x[0,0]\n")
    sentence = failed("learn", text, "-o", model, "--template", tmp_path / "template")
    assert sentence == "online training does not support edge attributes; leave them out of the template."
    (tmp_path / "template").write_text("U:%x[0,0]\nB\n")
    facts(text, "-o", model, "--template", tmp_path / "template")
    lines = tmp_path / "x.crfsuite"
    lines.write_text("A\tw=a\nB\tw=b\t@edge\te=1\n")
    sentence = failed("learn", lines, "-o", tmp_path / "edges")
    assert sentence == "online training does not support edge attributes; leave them out."
    (tmp_path / "x.csv").write_text("edge,label\na,A\nb,B\n")
    (tmp_path / "template").write_text("B:%x[0,0]\n")
    sentence = failed("learn", tmp_path / "x.csv", "-o", model, "--template", tmp_path / "template")
    assert sentence == "online training does not support edge attributes; leave them out of the template."
    text.write_text("a x O\nb x _\n")
    assert "row 2 has no label" in failed("learn", text, "-o", model, "--unknown", "_", "--fresh")


def test_a_run_goes_on_with_what_it_began_with(tmp_path: Path) -> None:
    text, model = conll(tmp_path / "t", 300), tmp_path / "m"
    with pytest.raises(Killed):
        go_on(model, text, 1, killed_at(10))
    again = (*HOW, *READ, "-o", model)
    assert "holds an unfinished run" in failed("learn", text, *again)
    sentence = failed("learn", text, *again, "--resume", "--rate", "1", "--forget", "9")
    assert "the run was begun with --rate = 0.3, and now --rate is 1.0; resume with the same settings" in sentence
    other = ("--columns", "word,shape,tag", "--attributes", "word", "--hash-bits", "12")
    done = run("learn", text, *HOW, *other, "-o", model, "--resume")
    assert "other columns or attributes" in done.stderr.splitlines()[-1]
    done = run("learn", conll(tmp_path / "short", 3), *again, "--resume")
    assert "resume with the original input" in done.stderr.splitlines()[-1]
    facts(text, *again, "--fresh")
    assert not (tmp_path / "m.run").exists()
