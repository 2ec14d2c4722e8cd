"""A memory limit in user space, without privileges: arrays in files, of which only so much is kept in memory.

Everything that grows with the chain stands in shared mappings of unnamed temporary files. A `Pager` knows which chunks
of them were looked at last. Before another chunk is looked at, the ones that were not looked at for the longest time
are written back and dropped from the mapping and from the system's cache, so that the limit is kept and they come back
from the disk when they are needed: the system reads them when they are touched, as it reads pages from its swap.

What is emulated is the policy, least recently used, in chunks instead of pages; what is real is the disk. A write is
waited for, where the system would go on with other work. `mincore` tells what is in memory, and `/proc/self/io` what
was read and written.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from chainfold.errors import BadFile, BadSetting, ChainfoldError
from chainfold.system.files import temporary_folder

_LARGEST_CHUNK = 1 << 20  # bytes
_CHUNKS = 64  # in the limit, at least
_BETWEEN = 2  # limits that are dropped from one look at what is in memory to the next
_MARGIN, _AHEAD = 1.02, 4 << 20  # of the limit, and bytes that the system may have read ahead
_WRITE_AND_WAIT = 7  # SYNC_FILE_RANGE_WAIT_BEFORE, WRITE and WAIT_AFTER
_PROBED = 1 << 20  # bytes
_IO, _QUEUE = Path("/proc/self/io"), Path("/proc/thread-self/schedstat")


class Traffic(NamedTuple):
    """Bytes between this process and block devices, as the system counts them."""

    read: int
    written: int

    def since(self, before: Traffic) -> Traffic:
        return Traffic(self.read - before.read, self.written - before.written)


def traffic() -> Traffic:
    """Until now; what was changed in memory and thrown away before it was written does not count. Zero if unknown."""
    try:
        rows = dict(line.split(": ") for line in _IO.read_text().splitlines())
    except OSError:
        return Traffic(0, 0)
    return Traffic(int(rows["read_bytes"]), int(rows["write_bytes"]) - int(rows["cancelled_write_bytes"]))


def clocks() -> NDArray[np.float64]:
    """Seconds that went by, and seconds of the processor.

    Where the system tells, those in which this thread could have gone on while others had all processors do not count.
    """
    waited = 0
    with suppress(OSError):
        waited = int(_QUEUE.read_text().split()[1])
    return np.array([time.perf_counter() - 1e-9 * waited, time.process_time()])


class PagedArray:
    """An array of a pager. A row, or a stretch of rows, is had by its index, as with any array."""

    def __init__(self, array: NDArray[Any], touch: Callable[[int, int], None]) -> None:
        self.whole = array  # what is looked at here must be touched first
        self.size, self.dtype = array.size, array.dtype
        self._touch, self._row = touch, array.strides[0]

    def __getitem__(self, index: int | slice) -> NDArray[Any]:
        self.touch(index)
        found: NDArray[Any] = self.whole[index]
        return found

    def __setitem__(self, index: int | slice, values: Any) -> None:
        self.touch(index)
        self.whole[index] = values

    def touch(self, index: int | slice) -> None:
        """Say that these rows are about to be looked at."""
        rows = range(len(self.whole))[index]
        low, high = (rows.start, rows.stop) if isinstance(rows, range) else (rows, rows + 1)
        if low < high:
            self._touch(low * self._row, high * self._row)


class Pager:
    """Tables of which at most `limit` bytes are in memory, in files in the folder for temporary ones."""

    def __init__(self, limit: int) -> None:
        page = mmap.PAGESIZE
        self._chunk = min(1 << max(limit // _CHUNKS, 1).bit_length() - 1, _LARGEST_CHUNK)
        if self._chunk < page:
            raise BadSetting("memory_limit", limit, f"at least {_CHUNKS * page} bytes")
        self.limit, self._reserved = limit, 0
        self._open = ExitStack()
        self._files: list[int] = []
        self._maps: list[mmap.mmap] = []
        self._watched: list[int] = []  # other files whose pages count
        self._recent: OrderedDict[tuple[int, int], None] = OrderedDict()  # chunks in memory, by table and number
        self.dropped = 0  # bytes
        self.peak = 0  # bytes in memory, as far as was looked
        self.looking = np.zeros(2)  # what the clocks say that it took to look
        self._next_look = 0

    def __enter__(self) -> Pager:
        return self

    def __exit__(self, *exception: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Throw away what the tables hold."""
        for file in self._files:
            os.ftruncate(file, 0)
        self._open.close()
        self._files, self._watched = [], []
        self._recent.clear()

    def table(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> PagedArray:
        """Like np.empty; its pages are zero at first."""
        shape = (shape,) if isinstance(shape, int) else shape
        size, number = int(np.prod(shape)) * np.dtype(dtype).itemsize, len(self._files)
        self._files.append(self._file(size))
        self._maps.append(mmap.mmap(self._files[-1], size))
        self._maps[-1].madvise(mmap.MADV_RANDOM)  # else the system would read ahead, beyond the limit
        array = np.frombuffer(self._maps[-1], dtype).reshape(shape)
        return PagedArray(array, lambda low, high: self._touch(number, low, high))

    def read(self, path: str | Path, reserved: int) -> int:
        """Open a file whose pages count too, and for which so many bytes are left; its reader drops them."""
        file = self._open.enter_context(Path(path).open("rb")).fileno()  # noqa: SIM115
        self._reserved += reserved
        self.watch(file)
        return file

    def watch(self, file: int) -> None:
        """Count the pages of an open file too; whoever writes it drops them."""
        self._watched.append(file)

    def unwatch(self, file: int) -> None:
        """Look once more, before the file is closed."""
        self.look()
        self._watched.remove(file)

    def write_back(self) -> None:
        """Write all that has changed, and keep it in memory."""
        for file in self._files:
            _written_back(file, 0, 0)

    def drop(self, file: int, low: int = 0, size: int = 0) -> None:
        """Write back a stretch of a file and drop it from the system's cache; the pages must not be mapped."""
        _written_back(file, low, size)
        os.posix_fadvise(file, low, size, os.POSIX_FADV_DONTNEED)

    def moved(self, size: int) -> None:
        """Count what was dropped, and look now and then at what is in memory."""
        self.dropped += size
        if self.dropped >= self._next_look:
            self.look()
            self._next_look = self.dropped + _BETWEEN * self.limit

    def look(self) -> None:
        """Ask the system what is in memory."""
        begin = clocks()
        self.peak = max(self.peak, sum(map(in_memory, (*self._files, *self._watched))))
        self.looking += clocks() - begin

    def check(self) -> None:
        """Raise if more was in memory than allowed."""
        self.look()
        if self.peak > _MARGIN * self.limit + min(_AHEAD, self.limit):
            raise ChainfoldError(f"{self.peak:,} bytes were in memory, and the limit is {self.limit:,}.")

    def _file(self, size: int) -> int:
        """A file without a name, with room for so many bytes."""
        folder = temporary_folder()
        try:
            file = self._open.enter_context(tempfile.TemporaryFile(dir=folder)).fileno()  # noqa: SIM115
            os.posix_fallocate(file, 0, size)
        except OSError as error:
            problem = (
                f"cannot hold {size:,} bytes of tables: {error.strerror or error}; set TMPDIR to a roomier folder."
            )
            raise BadFile(folder, problem) from None
        return file

    def _touch(self, number: int, low: int, high: int) -> None:
        wanted = [(number, k) for k in range(low // self._chunk, -(-high // self._chunk))]
        absent = [chunk for chunk in wanted if chunk not in self._recent]
        for chunk in wanted:
            self._recent[chunk] = None
            self._recent.move_to_end(chunk)
        while len(self._recent) * self._chunk > self.limit - self._reserved and len(self._recent) > 1:
            self._evict(self._recent.popitem(last=False)[0])
        for chunk in absent:
            mapping, begin, size = self._stretch(chunk)
            mapping.madvise(mmap.MADV_WILLNEED, begin, size)

    def _evict(self, chunk: tuple[int, int]) -> None:
        mapping, begin, size = self._stretch(chunk)
        mapping.madvise(mmap.MADV_DONTNEED, begin, size)
        self.drop(self._files[chunk[0]], begin, size)
        self.moved(size)

    def _stretch(self, chunk: tuple[int, int]) -> tuple[mmap.mmap, int, int]:
        """Mapping, begin and size of a chunk."""
        mapping, begin = self._maps[chunk[0]], chunk[1] * self._chunk
        return mapping, begin, min(self._chunk, len(mapping) - begin)


def in_memory(file: int) -> int:
    """Bytes of an open file that are in the system's memory, whoever reads it."""
    size = os.fstat(file).st_size
    if not size:
        return 0
    with mmap.mmap(file, size, access=mmap.ACCESS_READ) as mapping:
        pages = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
        seen = np.frombuffer(mapping, np.uint8)
        _called("mincore", ctypes.c_void_p(seen.ctypes.data), ctypes.c_size_t(size), ctypes.c_void_p(pages.ctypes.data))
        del seen
    return int(np.count_nonzero(pages & 1)) * mmap.PAGESIZE


def obstacle(folder: Path) -> str | None:
    """Reason why no memory limit can be kept with files in this folder, or None; a small file is tried."""
    if sys.platform != "linux" or not all(hasattr(_libc(), name) for name in ("mincore", "sync_file_range")):
        return "the system has no way to drop pages of a file and to tell which are in memory"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_PROBED))
            file.flush()
            _written_back(file.fileno(), 0, 0)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            kept, before = in_memory(file.fileno()), traffic()
            os.pread(file.fileno(), _PROBED, 0)
            read = traffic().since(before).read
    except OSError as error:
        return f"files in {folder} cannot be paged: {error.strerror or error}"
    if kept or read < _PROBED:
        return f"what is written to {folder} stays in memory, or is not counted when it is read"
    return None


def _written_back(file: int, low: int, size: int) -> None:
    """Wait until a stretch is on the disk; size 0: to the end."""
    _called("sync_file_range", file, ctypes.c_int64(low), ctypes.c_int64(size), ctypes.c_uint(_WRITE_AND_WAIT))


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _called(name: str, *arguments: Any) -> None:
    if getattr(_libc(), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
