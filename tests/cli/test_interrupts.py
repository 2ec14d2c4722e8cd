"""How the command ends when it is interrupted, or when nobody takes what it writes: quietly, with the right code."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chainfold.system import signals
from chainfold.system.signals import interruptible
from processes import PATIENCE, running
from verbs import conll, succeeded

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and closed streams are others there")

FULL = "chainfold: cannot write to standard output: No space left on device.\n"
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
COMMAND = f"{sys.executable} -m chainfold"


def shell(line: str) -> tuple[int, str, str]:
    line = f"set -o pipefail; {line}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"{COMMAND} --help >/dev/full", (2, "", FULL)),
        (f"{COMMAND} --version | true", (0, "", "")),
        (f"{COMMAND} nothing 2>/dev/full >&-", (2, "", "")),
        (f"{COMMAND} --version >&- 2>&- <&-", (0, "", "")),
        (f"{COMMAND} train --help | true", (0, "", "")),
    ],
)
def test_streams_that_take_nothing(line: str, expected: tuple[int, str, str]) -> None:
    assert shell(line) == expected


@pytest.mark.slow
def test_every_verb_says_that_the_disk_is_full(tmp_path: Path) -> None:
    rows = conll(tmp_path / "rows")
    succeeded("train", rows, "-o", tmp_path / "model", "--max-iterations", 2)
    for arguments in (
        "train rows -o again --max-iterations 2",
        "train rows -o again --max-iterations 2 --json",
        "learn rows -o more --hash-bits 8",
        "tag model rows",
        "tag model - --follow <rows",
        "eval model rows",
        "eval model rows --json",
        "inspect model",
        "inspect model --html -",
        "watch model rows --every 10",
        "watch model rows --json",
        "encode rows -o chain",
        "encode rows -o -",
        "data model.chain",
        "data model.chain --decode",
        "gradient model.chain --model model",
    ):
        code, _, error = shell(f"cd {tmp_path}; {COMMAND} {arguments} >/dev/full")
        assert code == 2, arguments
        assert error.endswith(" No space left on device.\n"), arguments
        assert error.splitlines()[-1].startswith("chainfold: "), arguments
        assert "Traceback" not in error
        code, _, error = shell(f"cd {tmp_path}; {COMMAND} {arguments} | true")
        assert code == 0, arguments
        assert "Traceback" not in error


def test_no_file_takes_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    script = (
        "import sys, os\nsys.argv = ['chainfold', '--version']\nfrom chainfold.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print(os.open({str(tmp_path)!r}, os.O_RDONLY), file=open({str(tmp_path / 'number')!r}, 'w'))\n"
    )
    assert shell(f'{sys.executable} -c "{script}" <&- >&- 2>&-') == (0, "", "")
    assert int((tmp_path / "number").read_text()) > 2


# Interrupts


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process hears of Ctrl-C as the command does."""
    monkeypatch.setattr(signals, "_state", signals._State())
    before = signals._install()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("listening")
@pytest.mark.parametrize("number", SIGNALS)
def test_in_a_verb_a_signal_is_an_interrupt(number: signal.Signals, capfd: pytest.CaptureFixture[str]) -> None:
    with signals.in_verb(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    assert signals.report_interrupt() == signals.exit_code() == 128 + number
    said = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    assert capfd.readouterr().err == f"chainfold: {said}.\n"


@pytest.fixture
def leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process does not end, but raises SystemExit."""

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", leave)


@pytest.mark.usefixtures("listening", "leaving")
def test_a_second_interrupt_is_the_same_or_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with signals.in_verb():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)  # at once: it is the same
        monkeypatch.setattr(signals, "_SAME", 0.0)
        with pytest.raises(SystemExit, match="130"):
            signal.raise_signal(signal.SIGINT)
    assert capfd.readouterr().err == "chainfold: interrupted.\n"


@pytest.mark.usefixtures("listening", "leaving")
def test_outside_of_a_verb_a_signal_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signals, "_SAME", 0.0)
    with pytest.raises(SystemExit, match="143"):
        signal.raise_signal(signal.SIGTERM)
    assert capfd.readouterr().err == "chainfold: ended by SIGTERM.\n"
    with signals.in_verb(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signals.report_interrupt() == 130
    with pytest.raises(SystemExit, match="130"):
        signal.raise_signal(signal.SIGINT)
    assert capfd.readouterr().err == "chainfold: interrupted.\n", "written once"


BEGIN = (
    "from chainfold.system import signals; signals.listen(); print(flush=True); "
    "from chainfold.__main__ import main; main()"
)


@pytest.mark.slow
@pytest.mark.parametrize("twice", [False, True])
def test_an_interrupt_at_any_moment_is_one_line(twice: bool, tmp_path: Path) -> None:
    dice = random.Random(twice)
    rows = conll(tmp_path / "rows", 40_000)
    for k in range(50):
        arguments = ["train", str(rows), "-o", str(tmp_path / f"{k}"), "--epsilon", "0", "--delta", "0"]
        line, pipe = [sys.executable, "-c", BEGIN, *arguments], subprocess.PIPE
        with running(line, stdout=pipe, stderr=pipe) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(dice.uniform(0.0, 2.0))
            process.send_signal(signal.SIGINT)
            if twice:
                time.sleep(dice.choice((0.0, 0.01, 0.1, 0.7)))
                process.send_signal(signal.SIGINT)
            output, error = (text.decode() for text in process.communicate(timeout=PATIENCE))
        assert process.returncode == 130, error
        assert output == ""
        said = error.removeprefix("chainfold: saving after this step; Ctrl-C again stops at once.\n")
        assert said == "chainfold: interrupted.\n" or said.startswith("chainfold: training was interrupted after")
        assert said.count("\n") == 1


@pytest.mark.usefixtures("leaving")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_step_that_must_be_finished_asks(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    before, calls = signal.getsignal(number), []
    with signals.in_verb(), interruptible(lambda: calls.append(number)) as asked:
        assert not asked()
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert asked()
        assert calls == [number]
        monkeypatch.setattr(signals, "_SAME", 0.0)
        with pytest.raises(SystemExit, match=f"{128 + number}"):
            signal.raise_signal(number)
    assert signals.exit_code() == 128 + number
    assert signal.getsignal(number) is before


@pytest.mark.usefixtures("listening")
def test_a_request_may_raise_where_nothing_would_be_left_unfinished() -> None:
    def leave() -> None:
        raise KeyboardInterrupt

    with signals.in_verb(), pytest.raises(KeyboardInterrupt), interruptible(leave):
        signal.raise_signal(signal.SIGINT)


def test_in_another_thread_nobody_hears_of_signals() -> None:
    def work() -> bool:
        signals.listen()
        with interruptible() as asked:
            return asked()

    before = signal.getsignal(signal.SIGTERM)
    with signals.in_verb(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() is False
    assert signal.getsignal(signal.SIGTERM) is before
