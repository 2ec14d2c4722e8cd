"""Verbs that are killed, or meet a failing call of the operating system, in processes that are forked from a warm one.

A fresh process imports for a second. Here one process has imported everything and compiled every kernel, and forks a
child for each run: a run takes as long as its work, so that thousands can be made.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, Self

HERE = Path(__file__).parent
KINDS = {"write": "ENOSPC", "fsync": "EIO", "rename": "EIO", "open": "EMFILE", "mmap": "ENOMEM"}


class Outcome(NamedTuple):
    """How a run has ended."""

    status: int  # the exit code, or minus the signal
    output: str
    errors: str
    seconds: float
    calls: int  # of the function that may fail


class Stage:
    """The warm process."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp())
        environment = dict(os.environ)
        if self.can_fail:
            shim = self._folder / "shim.so"
            subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", shim, HERE / "shim.c", "-ldl"], check=True)
            environment["LD_PRELOAD"] = str(shim)
        self._process = subprocess.Popen(
            [sys.executable, HERE / "stage.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    @property
    def can_fail(self) -> bool:
        """Is there a compiler for what makes calls fail?"""
        return sys.platform == "linux" and shutil.which("cc") is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        shutil.rmtree(self._folder)

    def run(
        self,
        folder: Path,
        *arguments: object,
        given: Path | None = None,
        kill: float | None = None,
        fail: tuple[str, int] | None = None,
    ) -> Outcome:
        """Run a verb in a folder: `given` is its standard input, `kill` the seconds after which it is killed, and
        `fail` the function whose k-th call fails.
        """
        order: dict[str, Any] = {
            "arguments": [str(one) for one in arguments],
            "folder": str(folder),
            "given": None if given is None else str(given),
            "kill": kill,
            "fail": None if fail is None else [*fail, KINDS[fail[0]]],
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return Outcome(**json.loads(self._process.stdout.readline()))
