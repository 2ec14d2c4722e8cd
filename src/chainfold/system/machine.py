"""What the operating system gives this process: cores, address space, memory."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

_STATUS, _MAPS = Path("/proc/self/status"), Path("/proc/self/smaps")
_UNCHANGED = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) r-[-x]p .* /.*\n(?:[A-Z].*\n)*?Anonymous: +0 kB", re.MULTILINE)
_DONTNEED = 4  # of madvise
_TAKEN = {resource.RLIMIT_AS: "VmSize", resource.RLIMIT_DATA: "VmData"}  # what counts towards each limit


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def address_room() -> int | None:
    """The bytes that limits on address space (`ulimit -v`, `ulimit -d`) leave this process; None where there are none.

    Most of what is taken is mapped and never used; no such limit holds for what is used.
    """
    limits = {kind: resource.getrlimit(kind)[0] for kind in _TAKEN}
    limits = {kind: limit for kind, limit in limits.items() if limit != resource.RLIM_INFINITY}
    if not limits or not _STATUS.exists():
        return None
    taken = _status()
    return max(0, min(limit - taken.get(_TAKEN[kind], 0) for kind, limit in limits.items()))


def give_back_memory() -> None:
    """Return memory that is not in use to the operating system: what was freed (glibc), and pages of libraries.

    Loading LLVM alone maps 36 MB of its file that are needed at no other time. A page that is needed again comes from
    the system's cache.
    """
    if sys.platform != "linux":
        return
    system = ctypes.CDLL(None)
    for begin, end in _unchanged_pages():
        system.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _DONTNEED)
    if hasattr(system, "malloc_trim"):
        system.malloc_trim(0)


def _unchanged_pages() -> Iterator[tuple[int, int]]:
    """Where files are mapped to be read, by this process alone, and no page was written to before."""
    for place in _UNCHANGED.finditer(_MAPS.read_bytes() if _MAPS.exists() else b""):
        begin, end = (int(limit, 16) for limit in place.groups())
        yield begin, end


def _status() -> dict[str, int]:
    """The lines of /proc/self/status that are sizes, in bytes."""
    rows = (line.split() for line in _STATUS.read_text().splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3 and row[2] == "kB"}


def resident(name: str = "VmHWM") -> int:
    """VmHWM, the largest resident set so far, or VmRSS, the one now, in bytes.

    VmHWM begins anew with the program; ru_maxrss, which has to do for both elsewhere than on Linux, would include what
    the parent held when it forked.
    """
    if _STATUS.exists():
        found = _status()
        if name in found:
            return found[name]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
