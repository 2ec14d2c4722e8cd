"""How much memory this process takes, as the operating system counts it."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident(name: str = "VmHWM") -> int:
    """VmHWM, the largest resident set so far, or VmRSS, the one now, in bytes.

    VmHWM begins anew with the program; ru_maxrss, which has to do for both elsewhere than on Linux, would include what
    the parent held when it forked.
    """
    if _STATUS.exists():
        rows = (line.split() for line in _STATUS.read_text().splitlines())
        found = {row[0].rstrip(":"): row[1] for row in rows if len(row) > 1}
        if name in found:
            return int(found[name]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
