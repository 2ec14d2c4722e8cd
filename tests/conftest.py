"""Settings of the whole suite: time limits, signals, and processes that a test leaves behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

# how long an example takes depends on the machine and on what is compiled already
settings.register_profile("chainfold", deadline=None)
settings.load_profile("chainfold")


def _do_nothing(number: int, frame: object) -> None:
    """Whoever started the tests does not want them to stop."""


# What is ignored, as Ctrl-C is in the background and SIGHUP under nohup, is ignored by every process that is started.
# A handler goes no further than this one.
for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _do_nothing)

_LASTING = ("multiprocessing", "joblib")  # their helpers end with this process


def _children() -> set[int]:
    """The processes that this one has started and not waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # there is none, as after most tests
        return set()
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # the thread has ended meanwhile
            found |= set(map(int, (task / "children").read_text().split()))
    return found


def _command_of(process: int) -> str:
    try:
        return (Path("/proc") / str(process) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""  # it has ended


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """A test that leaves a process behind fails, and the process is killed; fixtures of a module may keep theirs."""
    before = _children()
    yield
    left = {process: _command_of(process) for process in _children() - before}
    left = {process: line for process, line in left.items() if line and not any(name in line for name in _LASTING)}
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left, f"left running: {', '.join(left.values())}"
