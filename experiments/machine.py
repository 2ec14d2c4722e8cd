"""The machine on which everything is measured, in words and numbers."""

from __future__ import annotations

import platform
from pathlib import Path

import numba
import numpy as np

from chainfold.system.machine import cores
from experiments.ledger import Result


def machine() -> Result:
    """Facts that a reader needs; memory in bytes, None where it is not known."""
    memory = memory_info()
    return {
        "processor": _processor(),
        "cores": cores(),
        "memory": memory.get("MemTotal"),
        "swap": memory.get("SwapTotal"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def memory_info(text: str | None = None) -> dict[str, int]:
    """/proc/meminfo in bytes; empty where there is none."""
    if text is None:
        path = Path("/proc/meminfo")
        text = path.read_text() if path.exists() else ""
    rows = (line.split() for line in text.splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3 and row[2] == "kB"}


def _processor() -> str:
    """The name that the processor gives itself, or at least its kind."""
    about = Path("/proc/cpuinfo")
    for line in about.read_text().splitlines() if about.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()
