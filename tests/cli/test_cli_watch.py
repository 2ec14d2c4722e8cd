"""`chainfold watch`: its lines, its JSON, its picture, and how it ends."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from chainfold import ChainfoldError, Layout, Model, SyntheticChain
from chainfold.chain.block import KnownBlock
from chainfold.chain.chain import gather
from chainfold.chain.vocabulary import Vocabulary
from chainfold.cli.watch import blocks
from chainfold.cli.watch_screen import summary, view
from chainfold.inference.monitor import Monitor, Status
from cli.trained import Trained
from processes import PATIENCE, command, running
from verbs import failed, run, succeeded

VERB = sys.modules["chainfold.cli.watch"]  # `chainfold.cli.watch` is what the module defines
RULES = ("--alarm", "I-X>0.5", "--alarm", "surprise>0.4", "--alarm", "share(O)<0.5", "--window", "20")


def events(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.decode().splitlines()]


# JSON


@pytest.mark.parametrize("source", ["text", "chain", "-"])
def test_json(source: str, trained: Trained) -> None:
    given, what = (trained.text.read_bytes(), "-") if source == "-" else (b"", getattr(trained, source))
    found = events(succeeded("watch", trained.path, what, *RULES, "--json", given=given))
    rows = len(trained.gold)
    assert {one["event"] for one in found} == {"alarm", "over", "end"}
    probable = trained.posteriors[:, trained.names.index("I-X")] > 0.5
    first = [t + 1 for t in range(rows) if probable[t] and not (t and probable[t - 1])]
    raised = [one for one in found if one["event"] == "alarm" and one["rule"] == "I-X>0.5"]
    assert [one["row"] for one in raised] == first
    assert [one["label"] for one in raised] == [trained.labels[row - 1] for row in first]
    over = [one for one in found if one["event"] == "over" and one["rule"] == "I-X>0.5"]
    assert [one["row"] for one in over] == first[: len(over)]
    assert not any(probable[one["row"] + one["rows"] - 1] for one in over)
    assert found[-1]["event"] == "end"
    check_end(found[-1], trained)


def check_end(end: dict[str, Any], trained: Trained) -> None:
    assert end["rows"] == len(trained.gold)
    assert end["sequences"] == 30
    assert end["interrupted"] is False
    assert end["log_likelihood"] == pytest.approx(trained.log_likelihood)
    np.testing.assert_allclose(list(end["labels"].values()), trained.posteriors.sum(axis=0))


def test_rows_without_labels(trained: Trained) -> None:
    bare = "\n".join(" ".join(line.split()[:2]) for line in trained.text.read_text().splitlines()) + "\n"
    *_, end = events(succeeded("watch", trained.path, "-", "--json", given=bare.encode()))
    assert end["log_likelihood"] is None


def test_an_alarm_of_the_last_rows(trained: Trained) -> None:
    """Those that are final only because the stream has ended."""
    first, end = events(succeeded("watch", trained.path, "-", "--json", "--alarm", "O>-1", given=b"b1 x B-X\n"))
    assert (first["event"], first["row"], end["raised"]) == ("alarm", 1, {"O>-1": 1})


def test_a_lag_that_is_bounded(trained: Trained) -> None:
    end = events(succeeded("watch", trained.path, trained.text, "--json", "--max-lag", "0"))[-1]
    assert end["unproven"] > 0
    shown = succeeded("watch", trained.path, trained.text, "--max-lag", "0").decode()
    assert f"{end['unproven']:,} rows reached the limit of waiting" in " ".join(shown.split())


# Lines


def test_lines(trained: Trained) -> None:
    done = run("watch", trained.path, trained.text, *RULES)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    found = events(succeeded("watch", trained.path, trained.text, *RULES, "--json"))
    expected = [
        f"row {one['row']}: {one['rule']}: {one['value']:.4g}, predicted {one['label']}"
        if one["event"] == "alarm"
        else f"row {one['row'] + one['rows']}: {one['rule']}: over after {one['rows']} rows"
        for one in found[:-1]
    ]
    assert lines[: len(expected)] == expected
    assert lines[len(expected)].startswith(f"{len(trained.gold)} rows, 30 sequences; log likelihood -")
    assert not done.stderr
    quiet = succeeded("watch", trained.path, trained.text).decode()
    for what in ("nats per row, exact.", "expected rows", "B-X"):
        assert what in " ".join(quiet.split())
    assert "alarm" not in quiet


@pytest.mark.parametrize("source", ["-", "file"])
def test_lines_that_cannot_be_read(source: str, trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text(trained.text.read_text().replace("\n", "\noops\n", 1))
    given, what = ((tmp_path / "bad").read_bytes(), "-") if source == "-" else (b"", tmp_path / "bad")
    assert "line 2" in failed("watch", trained.path, what, "--json", given=given)
    for way, more in (("skip", 0), ("unknown", 1)):
        done = run("watch", trained.path, what, "--json", "--on-error", way, given=given)
        assert done.exit_code == 0
        assert events(done.stdout_bytes)[-1]["rows"] == len(trained.gold) + more
        assert done.stderr.startswith("chainfold: ")
        assert "line 2" in done.stderr
    assert "--on-error is 'panic'" in failed("watch", trained.path, what, "--on-error", "panic", given=given)
    assert "there is no such file" in failed("watch", trained.path, tmp_path / "missing", "--on-error", "skip")


def test_a_file_that_grows(trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is watched at once, and then what is added, until Ctrl-C."""
    text = trained.text.read_text().splitlines(keepends=True)
    grown = tmp_path / "grown"
    grown.write_text("".join(text[:20]))

    def growing(*arguments: Any, **options: Any) -> Iterator[KnownBlock]:
        rows, added = 0, False
        for known in blocks(*arguments, **options):
            yield known
            rows += known.gold.size
            if not added:
                with grown.open("a") as file:
                    file.write("".join(text[20:]) + "\n")
                added = True
            if rows == len(trained.gold) and known.ended:
                for _ in range(2):
                    yield known._replace(block=known.block.part(0, 0), gold=known.gold[:0], ended=False)
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(VERB, "blocks", growing)
    done = run("watch", trained.path, grown, "--follow", "--json", *RULES)
    assert done.exit_code == 130
    check_end(events(done.stdout_bytes)[-1] | {"interrupted": False}, trained)


# How it ends


def test_interrupted_in_the_middle(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has come is summed up; that the reader never ends does not matter."""

    def endless(*arguments: Any, **options: Any) -> Iterator[KnownBlock]:
        for rows in blocks(*arguments, **options):
            yield rows
        for _ in range(2):  # when the second is taken, what came before the first has been looked at
            yield KnownBlock(rows.block.part(0, 0), rows.gold[:0], False)
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()

    monkeypatch.setattr(VERB, "blocks", endless)
    done = run("watch", trained.path, trained.text, "--json", *RULES)
    assert done.exit_code == 130
    assert done.stderr == "chainfold: interrupted.\n"
    end = events(done.stdout_bytes)[-1]
    assert end["interrupted"] is True
    check_end(end | {"interrupted": False}, trained)


def test_an_error_in_the_middle_comes_after_the_alarms_before_it(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any, **options: Any) -> Iterator[KnownBlock]:
        yield from blocks(*arguments, **options)
        raise ChainfoldError("the line is bad.")

    monkeypatch.setattr(VERB, "blocks", broken)
    done = run("watch", trained.path, trained.text, *RULES)
    assert done.exit_code == 2
    assert done.stderr == "chainfold: the line is bad.\n"
    assert done.stdout.startswith("row ")


@pytest.mark.skipif(os.name != "posix", reason="there are no such terminals")
def test_on_a_terminal_until_interrupted(trained: Trained) -> None:
    """A pipe that stays open is waited for, and let go of."""
    ours, theirs = os.openpty()
    ends = {"stdin": subprocess.PIPE, "stdout": theirs, "stderr": subprocess.PIPE}
    with running(command("watch", trained.path, "-", *RULES), **ends) as one:
        os.close(theirs)
        assert one.stdin is not None
        assert one.stderr is not None
        seen = b""
        while b"waiting for the first rows" not in seen:
            seen += os.read(ours, 65536)
        one.send_signal(signal.SIGINT)
        try:
            while some := os.read(ours, 65536):
                seen += some
        except OSError:  # the other end is closed
            pass
        said = one.stderr.read()
        one.stdin.close()
        assert one.wait(PATIENCE) == 130
    os.close(ours)
    assert said == b"chainfold: interrupted.\n"


# The picture


def names(n_labels: int) -> tuple[str, ...]:
    return tuple(f"label [{j}]{'文' * 20 if j == 43 else ''}" for j in range(n_labels))


@cache
def status_of(n_labels: int, rules: int = 0, rows: int = 900) -> Status:
    """After so many rows of a stream."""
    source = SyntheticChain(rows, n_labels, 60, 4, sticky=0.9, informative=0.8, seed=2)
    vocabulary = Vocabulary(names(n_labels), None, None, np.ones(60, np.int64), np.zeros((60, 1), np.uint64))
    model = Model(Layout.full(n_labels, 60), source.true_weights(), vocabulary=vocabulary)
    monitor = Monitor(model, window=50, alarms=[f"label [0]>0.{k}" for k in range(1, rules + 1)])
    chain = gather(source)
    monitor.push(chain.block(0, rows))
    return monitor.status()


def with_labels(status: Status, n_labels: int) -> Status:
    """The status with other labels, for which nothing has to be compiled."""
    random = np.random.default_rng(0)
    quantities = replace(status.quantities, labels=900 * np.sort(random.dirichlet(np.full(n_labels, 0.3))))
    return status._replace(shares=random.dirichlet(np.full(n_labels, 0.3)), quantities=quantities)


def drawn(status: Status, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), record=True, force_terminal=True)
    title = "attacks.model on standard input"
    console.print(view(status, names(status.shares.size), title, 3723.0, width, height))
    return console.export_text().splitlines()


@pytest.mark.parametrize("width", [30, 50, 80, 200])
@pytest.mark.parametrize("height", [24, 60])
@pytest.mark.parametrize("n_labels", [2, 44])
def test_the_picture_fits(n_labels: int, height: int, width: int) -> None:
    lines = drawn(with_labels(status_of(3, rules=8), n_labels), width, height)
    assert max(map(cell_len, lines)) <= width
    assert len(lines) < height
    assert lines[0].startswith("attacks.model on ")
    assert lines[0].rstrip().endswith("1:02:03")
    assert lines[1].startswith("900 rows · 0 rows/s")
    bars = [line for line in lines if line.startswith("label [")]
    more = [line for line in lines if line.startswith("and ")]
    assert len(bars) == n_labels or more[0].startswith(f"and {n_labels - len(bars)} more"[: width // 4])
    assert (len(bars) == n_labels) == (not more)
    assert n_labels == 2 or any("…" in line[:15] for line in bars), "a name is too long"
    assert width == 30 or any("█" in line for line in lines if line.startswith("entropy"))
    assert any(line.startswith("alarms") for line in lines)


def test_what_the_picture_says() -> None:
    status = status_of(3, rules=1)
    text = "\n".join(drawn(status, 80, 24))
    assert f"1 sequence · {status.waiting} waiting" in text
    assert "last 50 rows, ▓ above ░ below usual" in text
    for j in range(3):
        (line,) = (line for line in text.splitlines() if line.startswith(f"label [{j}]"))
        stream = 100 * status.quantities.labels[j] / 900
        assert line.split()[-4:] == [f"{100 * status.shares[j]:.1f}", "%", f"{stream:.1f}", "%"]
        assert abs(line.count("█") + line.count("▓") - 41 * status.shares[j]) <= 1
    (entropy,) = (line for line in text.splitlines() if line.startswith("entropy"))
    spark, *figures = entropy.split()[1:]
    now, past = status.means["entropy"]
    assert figures == [f"{now:.3g}", "peak", f"{max(past):.3g}"]
    assert len(spark) == len(past) == (900 - status.waiting) // 50
    alarms = text[text.index("alarms") :].splitlines()
    assert (
        f"{sum(status.raised.values()):,} raised, {sum(alarm.rows is None for alarm in status.alarms)} now" in alarms[0]
    )
    assert len(alarms) > 2
    for line, alarm in zip(alarms[1:], status.alarms, strict=False):
        assert line.startswith("●" if alarm.rows is None else "○")
        assert f"row {alarm.row:,}, {alarm.value:.4g}" in line


def test_the_picture_before_there_is_anything() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    vocabulary = Vocabulary(names(3), None, None, np.ones(60, np.int64), np.zeros((60, 1), np.uint64))
    layout = Layout.full(3, 60)
    status = Monitor(Model(layout, np.zeros(layout.size), vocabulary=vocabulary)).status()
    console.print(view(status, names(3), "m on -", 0.0, 80, 24))
    text = console.export_text()
    assert "waiting for the first rows" in text
    assert any("after a whole window" in line for line in drawn(status_of(3, rows=20), 80, 24))


def test_the_summary_of_many_labels(capsys: pytest.CaptureFixture[str]) -> None:
    summary(with_labels(status_of(3), 44), names(44))
    text = capsys.readouterr().out
    assert "and 4 more" in text
    assert "alarm" not in text
