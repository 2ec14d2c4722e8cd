"""What the operating system gives this process: cores, address space, memory."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from mmap import MADV_DONTNEED, PAGESIZE
from pathlib import Path
from typing import Any

_STATUS = Path("/proc/self/status")
_LIBRARIES = b"/llvmlite/", b"/pyarrow/", b"/numpy", b"/libpython", b"/libcrypto", b"/pydantic_core/"  # the large ones
_ARENA_MAX = -8  # M_ARENA_MAX of mallopt
_LOADED, _WRITABLE = 1, 2  # PT_LOAD and PF_W of a segment
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
    the system's cache of files.
    """
    if sys.platform != "linux":
        return
    process = ctypes.PyDLL(None)  # no other thread of Python may load a library meanwhile
    if sys.maxsize >> 32 and hasattr(process, "dl_iterate_phdr"):
        process.dl_iterate_phdr(_UNMAP(_unmap), None)
    if hasattr(process, "malloc_trim"):
        process.malloc_trim(0)


def keep_less_free() -> None:
    """Let the C library (glibc) keep freed memory for one thread a core, not for eight, unless the user has said."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_ARENA_MAX, cores())


class _Segment(ctypes.Structure):
    """Elf64_Phdr: a part of a library's file, and where it is mapped."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("kind", "flags")),
        *((name, ctypes.c_uint64) for name in ("offset", "address", "unused", "of_file", "size", "align")),
    )


class _Library(ctypes.Structure):
    """dl_phdr_info."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("segments", ctypes.POINTER(_Segment)),
        ("count", ctypes.c_uint16),
    )


_UNMAP = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Library), ctypes.c_size_t, ctypes.c_void_p)


def _unmap(library: Any, size: int, nothing: Any) -> int:
    """Unmap the pages of segments that nobody can have written to; whoever reads them maps them again."""
    about, advise = library.contents, ctypes.PyDLL(None).madvise
    if any(part in about.name for part in _LIBRARIES):
        for segment in about.segments[: about.count]:
            if segment.kind == _LOADED and not segment.flags & _WRITABLE:
                begin = about.base + segment.address
                first, last = -(-begin // PAGESIZE), (begin + segment.size) // PAGESIZE
                span = ctypes.c_size_t(max(last - first, 0) * PAGESIZE)
                advise(ctypes.c_void_p(first * PAGESIZE), span, MADV_DONTNEED)
    return 0


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
