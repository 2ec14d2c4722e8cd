"""The warm process: reads an order a line, forks a child that carries it out, and says how that has ended."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import faulthandler
import io
import json
import mmap
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from chainfold.cli import main

LONGEST = 120.0  # seconds, after which a run hangs; a busy machine takes long
_COUNT = 8  # bytes in which the child leaves the number of calls


def warm() -> None:
    """Run the verbs once, so that everything is imported and every kernel loaded."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        rows = [f"w{k % 7} p{k % 3} {'AB'[k % 2]}\n" + "\n" * (k % 9 == 8) for k in range(400)]
        Path("data").write_text("".join(rows))
        common = ["train", "chain", "-o", "model", "--max-iterations", "2", "--json"]
        orders = [
            ["encode", "data", "-o", "chain"],
            ["encode", "data", "-o", "chain", "--append"],
            *([*common, "--fresh", "--algorithm", name] for name in ("ap", "pa", "arow", "sgd", "adagrad", "adam")),
            [*common, "--c1", "0.1"],
            common,
            ["tag", "model", "data", "-o", "tagged"],
            ["tag", "model", "data", "--marginals", "-o", "tagged"],
            ["gradient", "chain", "--model", "model", "--engine", "stream"],
            ["learn", "data", "-o", "online", "--json"],
            ["eval", "model", "data"],
        ]
        for order in orders:
            call(order)


def call(arguments: list[str], begin: Callable[[], object] = lambda: None) -> int:
    """Run a verb in this process; `begin` is called just before."""
    sys.argv = ["chainfold", *arguments]
    try:
        begin()
        main()
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def child(order: dict[str, Any], output: int, errors: int, calls: mmap.mmap) -> None:
    """Carry out an order, and leave."""
    code = 70
    try:
        faulthandler.enable(errors)  # a run that hangs is aborted, and says where
        os.chdir(order["folder"])
        given = os.open(order["given"] or os.devnull, os.O_RDONLY)
        for source, target in ((given, 0), (output, 1), (errors, 2)):
            os.dup2(source, target)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), write_through=True)
        sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "w", closefd=False)), write_through=True)
        if order["fail"] is None:
            code = call(order["arguments"])
        else:
            shim: Any = ctypes.CDLL(None)
            name, k, error = order["fail"]
            fault = name.encode(), ctypes.c_long(k), getattr(errno, error)
            code = call(order["arguments"], partial(shim.chainfold_arm, *fault))
            calls[:_COUNT] = int(shim.chainfold_count()).to_bytes(_COUNT, "little")
        sys.stdout.flush()
    except BaseException as error:
        os.write(2, f"Traceback: {type(error).__name__}: {error}\n{traceback.format_exc()}".encode())
    finally:
        os._exit(code)


def carry_out(order: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        calls = mmap.mmap(-1, mmap.PAGESIZE)
        begin = time.perf_counter()
        number = os.fork()
        if not number:
            child(order, output.fileno(), errors.fileno(), calls)
        waiting = os.pidfd_open(number)
        seconds = LONGEST if order["kill"] is None else order["kill"]
        if not select.select([waiting], [], [], seconds)[0]:
            os.kill(number, signal.SIGKILL if order["kill"] is not None else signal.SIGABRT)
        os.close(waiting)
        status = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        seconds, count = time.perf_counter() - begin, int.from_bytes(calls[:_COUNT], "little")
    return {
        "status": status,
        "output": texts[0],
        "errors": texts[1],
        "seconds": seconds,
        "calls": count,
    }


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warm()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for line in sys.stdin:
        answers.write(json.dumps(carry_out(json.loads(line))) + "\n")
        answers.flush()
