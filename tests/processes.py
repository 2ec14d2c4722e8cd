"""The command in processes of its own, which never outlive the test that started them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 60  # seconds until a process that does not end is given up


def command(*arguments: object) -> list[str]:
    """The command line of a verb."""
    return [sys.executable, "-m", "chainfold", *map(str, arguments)]


def chainfold(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """A verb that has run to its end."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False, **options)


@contextmanager
def running(line: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs beside the test; what is left of it at the end is killed."""
    with subprocess.Popen(line, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until_busy(process: subprocess.Popen[Any], seconds: float = 2.0) -> None:
    """Until the process has computed for so long: about half of it goes into imports, the rest is work."""
    begin = time.monotonic()
    while _computed(process.pid) < seconds:
        assert process.poll() is None, "it has ended"
        assert time.monotonic() - begin < PATIENCE, "it does not compute"
        time.sleep(0.02)


def _computed(process: int) -> float:
    """Seconds of CPU that a process has used."""
    numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")
