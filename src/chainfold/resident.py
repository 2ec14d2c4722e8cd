"""How much memory this process takes, as the operating system counts it."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident(name: str = "VmHWM") -> int:
    """VmHWM, the largest resident set so far, VmRSS, the one now, or VmSwap, what was paged out, in bytes.

    VmHWM begins anew with the program; ru_maxrss, which has to do for both resident sets elsewhere than on Linux, would
    include what the parent held when it forked. What was paged out is not known there, and is 0.
    """
    if _STATUS.exists():
        rows = (line.split() for line in _STATUS.read_text().splitlines())
        found = {row[0].rstrip(":"): row[1] for row in rows if len(row) > 1}
        if name in found:
            return int(found[name]) * 1024
    if name == "VmSwap":
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
