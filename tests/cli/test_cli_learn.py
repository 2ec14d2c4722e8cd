"""`chainfold learn` as a user meets it: pipes and files, kills and resumptions, sentences."""

from __future__ import annotations

import csv
import json
import random
import re
import signal
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from chainfold.model.file import open_model
from chainfold.training.online.adagrad import OnlineSettings
from chainfold.training.online.arriving import arriving
from chainfold.training.online.run import OnlineRun
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


# What is left and resumed


def piped(*arguments: object) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A command with a pipe to it."""
    pipe = subprocess.PIPE
    line = command("learn", "-", *arguments, "--json", "-v")
    return running(line, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)


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
    with piped(*PIPED, "-o", model, "--save-every", 3000) as process:
        assert process.stdin is not None
        process.stdin.write(some_rows(0, rows))
        until(counter)
        while int(counter.read_bytes()) < rows:
            assert time.monotonic() - begin < PATIENCE, "rows are not counted"
            time.sleep(0.01)
    assert process.returncode == -signal.SIGKILL
    kept = OnlineRun(model, OnlineSettings(batch=64))
    kept.restore()
    return kept.rows


def test_rows_of_a_pipe_after_the_last_save_are_lost_by_a_kill_and_counted(tmp_path: Path) -> None:
    model = tmp_path / "m"
    kept = killed_over_a_pipe(model, 20_000)
    assert 3000 <= kept < 20_000
    with piped(*PIPED, "-o", model, "--resume") as process:
        out, err = (text.decode() for text in process.communicate(some_rows(20_000, 21_000), PATIENCE))
    lost = f"the {20_000 - kept:,} rows that were read from the pipe after it are lost"
    assert (process.returncode, err.splitlines()[0]) == (0, f"chainfold: resuming after row {kept:,}; {lost}.")
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
    with piped(*PIPED, "-o", model, "--save-every", 1000) as process:
        assert process.stdin is not None
        process.stdin.write(some_rows(0, 20_000))
        until(model)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        out, err = (text.decode() for text in process.communicate())
    assert (process.returncode, out) == (130, "")
    learnt = open_model(model).training["positions"]
    kept = OnlineRun(model, OnlineSettings(batch=64))
    kept.restore()
    assert 5_000 < learnt < kept.rows <= 20_000
    sentence = f"chainfold: stopped after row {kept.rows:,}; the state is saved in {model}.run; continue with --resume."
    assert err.splitlines()[-1] == sentence


# Sentences


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
    batches = list(range(10))
    online = OnlineRun(model, OnlineSettings(batch=64), save_every=1, progress=lambda batch: print(batches.pop()))
    with pytest.raises(IndexError):
        online.run(arriving([str(text)], **MADE))  # type: ignore[arg-type]
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
