"""The machine on which everything is measured, in words and numbers."""

from __future__ import annotations

import platform
from pathlib import Path

import numba
import numpy as np

from chainfold.engines.plan import cores
from chainfold.paper.limit import memory_info
from chainfold.paper.plan import Result


def machine() -> Result:
    """What a reader has to know of it; memory in bytes, None where it is not known."""
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


def _processor() -> str:
    """The name that the processor gives itself, or at least its kind."""
    about = Path("/proc/cpuinfo")
    for line in about.read_text().splitlines() if about.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()
