"""What the operating system gives this process: cores, address space, memory."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Iterator
from mmap import MADV_DONTNEED, PAGESIZE
from pathlib import Path

_STATUS = Path("/proc/self/status")
_LIBRARIES = b"/llvmlite/", b"/pyarrow/", b"/numpy", b"/libpython", b"/libcrypto", b"/pydantic_core/"  # the large ones
_ARENA_MAX = -8  # M_ARENA_MAX of mallopt
_MAPS, _PAGES = Path("/proc/self/maps"), Path("/proc/self/pagemap")
_READ_ONLY = b"r--p", b"r-xp"
_ENTRY, _KIND = 8, 7 if sys.byteorder == "little" else 0  # bytes of a page in _PAGES; which of them has the bits below
_TAKEN_UP, _OF_FILE = 0xC0, 0x20  # it is in memory or swapped out; it is that of a file, not a copy
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
    """Return memory to the operating system: what was freed (glibc), and pages of libraries (Linux).

    Loading LLVM alone maps 36 MB of its file that are needed at no other time. A page that is needed again comes from
    the system's cache of files. What was written to after it was mapped, as relocations and breakpoints are, stays.
    """
    if sys.platform != "linux":
        return
    process = ctypes.CDLL(None)
    if hasattr(process, "madvise"):
        for address, size in _unwritten():
            process.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), MADV_DONTNEED)
    if hasattr(process, "malloc_trim"):
        process.malloc_trim(0)


def keep_less_free() -> None:
    """Let the C library (glibc) keep freed memory for one thread a core, not for eight, unless the user has said."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_ARENA_MAX, cores())


def _unwritten() -> Iterator[tuple[int, int]]:
    """(address, bytes) of what is mapped of the large libraries and nobody has written to."""
    try:
        maps, pages = _MAPS.read_bytes().splitlines(), _PAGES.open("rb", buffering=0)
    except OSError:  # a process may be kept from reading them
        return
    with pages:
        for row in (line.split(None, 5) for line in maps):
            if len(row) == 6 and row[1] in _READ_ONLY and any(part in row[5] for part in _LIBRARIES):
                low, high = (int(address, 16) for address in row[0].split(b"-"))
                pages.seek(low // PAGESIZE * _ENTRY)
                kinds = set(pages.read((high - low) // PAGESIZE * _ENTRY)[_KIND::_ENTRY])
                if all(kind & _OF_FILE or not kind & _TAKEN_UP for kind in kinds):
                    yield low, high - low


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
