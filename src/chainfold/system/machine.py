"""The operating system: what differs from one to another, each with a plain fallback.

    OPEN_FLAGS, lock, set_mode, sync_folder     of files that are written
    read_at, read_into                          reads that do not move the place of an open file
    cores, resident                             the processor and the memory of this process
    give_back_memory, keep_less_free            memory that is returned to the system

No other module uses what only POSIX systems have.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

CAN_LOCK = fcntl is not None
"""Whether there are locks on this kind of machine, and open files can be renamed."""

OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
"""For `os.open`: no link is followed, and no end of a line changed."""

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}  # of file systems without them
_NO_SYNC = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF}  # of a folder, likewise
_STATUS = Path("/proc/self/status")
_LIBRARIES = b"/llvmlite/", b"/pyarrow/", b"/numpy", b"/libpython", b"/libcrypto", b"/pydantic_core/"  # the large ones
_ARENA_MAX = -8  # M_ARENA_MAX of mallopt
_MAPS, _PAGES = Path("/proc/self/maps"), Path("/proc/self/pagemap")
_READ_ONLY = b"r--p", b"r-xp"
_ENTRY, _KIND = 8, 7 if sys.byteorder == "little" else 0  # bytes of a page in _PAGES; which of them has the bits below
_TAKEN_UP, _OF_FILE = 0xC0, 0x20  # it is in memory or swapped out; it is that of a file, not a copy


# Files


def lock(descriptor: int) -> bool | None:
    """Lock an open file for this process; False if another has locked it, None where files cannot be locked."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True


def set_mode(descriptor: int, mode: int) -> None:
    """Set the mode of an open file, where files have modes."""
    if hasattr(os, "fchmod"):
        with suppress(PermissionError):  # file systems without modes
            os.fchmod(descriptor, mode)


def sync_folder(folder: Path) -> None:
    """Write the names of the files in a folder to the disk."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with suppress(PermissionError):  # a folder may be written to, and not read
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise
        finally:
            os.close(descriptor)


_one_reader = threading.Lock()  # where reading at a place moves the file


def read_at(descriptor: int, size: int, place: int) -> bytes:
    """Read at most `size` bytes from a place of an open file."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, place)
    with _one_reader:
        os.lseek(descriptor, place, os.SEEK_SET)
        return os.read(descriptor, size)


def read_into(descriptor: int, buffer: memoryview, place: int) -> int:
    """Fill a buffer from a place of an open file; returns the number of bytes, which may be smaller."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], place)
    data = read_at(descriptor, len(buffer), place)
    buffer[: len(data)] = data
    return len(data)


# Processor and memory


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def resident(name: str = "VmHWM") -> int:
    """VmHWM, the largest resident set so far, or VmRSS, the one now, in bytes; 0 where the system does not say.

    VmHWM begins anew with the program; ru_maxrss, which has to do for both elsewhere than on Linux, would include what
    the parent held when it forked.
    """
    if _STATUS.exists():
        rows = (line.split() for line in _STATUS.read_text().splitlines())
        found = {row[0]: int(row[1]) * 1024 for row in rows if len(row) == 3 and row[2] == "kB"}
        if f"{name}:" in found:
            return found[f"{name}:"]
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def give_back_memory() -> None:
    """Return memory to the operating system: what was freed (glibc), and pages of libraries (Linux).

    Loading LLVM alone maps 36 MB of its file that are needed at no other time. A page that is needed again comes from
    the system's cache of files. What was written to after it was mapped, as relocations and breakpoints are, stays.
    """
    if sys.platform != "linux":
        return
    process = ctypes.CDLL(None)
    if hasattr(process, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
        for address, size in _unwritten():
            process.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.MADV_DONTNEED)
    if hasattr(process, "malloc_trim"):
        process.malloc_trim(0)


def keep_less_free() -> None:
    """Let the C library (glibc) keep freed memory for one thread a core, not for eight, unless the user has said."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_ARENA_MAX, cores())


def _unwritten() -> Iterator[tuple[int, int]]:
    """(address, bytes) of what is mapped of the large libraries and nobody has written to.

    A page that the system does not tell of may have been written to.
    """
    with suppress(OSError), _PAGES.open("rb", buffering=0) as pages:  # a process may be kept from reading them
        for row in (line.split(None, 5) for line in _MAPS.read_bytes().splitlines()):
            if len(row) == 6 and row[1] in _READ_ONLY and any(part in row[5] for part in _LIBRARIES):
                low, high = (int(address, 16) for address in row[0].split(b"-"))
                size = (high - low) // mmap.PAGESIZE * _ENTRY
                pages.seek(low // mmap.PAGESIZE * _ENTRY)
                entries = pages.read(size)
                taken = {kind for kind in entries[_KIND::_ENTRY] if kind & _TAKEN_UP}
                if len(entries) == size and taken and all(kind & _OF_FILE for kind in taken):
                    yield low, high - low
