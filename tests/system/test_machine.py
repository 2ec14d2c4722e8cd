"""What the operating system says of this process's memory, and what is said where it says nothing."""

from __future__ import annotations

import mmap
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chainfold.system import machine as module
from chainfold.system.machine import give_back_memory, keep_less_free, read_at, read_into, resident


def test_the_peak_stays_when_memory_is_given_back() -> None:
    before = resident("VmRSS")
    held = np.ones(20_000_000)
    assert resident("VmRSS") > before + 0.9 * held.nbytes
    del held
    assert resident("VmRSS") < before + 100_000_000
    assert resident() > before + 100_000_000


LOADED = """
import numpy as np, pyarrow.compute, numba
from chainfold.system.machine import give_back_memory, resident
@numba.njit
def twice(number):
    return 2 * number
before = resident("RssFile")
give_back_memory()
print(before, resident("RssFile"))
assert twice(3) == 6
assert pyarrow.compute.sum(pyarrow.array(np.linalg.inv(2.0 * np.eye(3)).ravel())).as_py() == 1.5
give_back_memory()
assert twice(2.0) == 4.0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system alone decides")
def test_pages_of_libraries_are_returned_and_read_again() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after < before - 40_000_000


WRITTEN = """
import ctypes, mmap
import numba
from chainfold.system.machine import give_back_memory
protect = ctypes.CDLL(None, use_errno=True).mprotect
with open("/proc/self/maps") as maps:
    (span,) = [line.split()[0] for line in maps if "llvmlite" in line and " r-xp " in line]
address = int(span.split("-")[0], 16)
page, byte = ctypes.c_void_p(address), ctypes.c_ubyte.from_address(address)
assert not protect(page, ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
byte.value ^= 1
written = byte.value
assert not protect(page, ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_EXEC)
numba.njit(lambda number: number)(1)
give_back_memory()
assert byte.value == written
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system alone decides")
def test_pages_of_libraries_that_were_written_to_stay() -> None:
    done = subprocess.run([sys.executable, "-c", WRITTEN], capture_output=True, text=True)
    assert not done.returncode, done.stderr


PAGES = b"".join(
    entry.to_bytes(8, sys.byteorder) for entry in (0, 1 << 63 | 1 << 61, 0)
)  # of three pages, one in memory


@pytest.mark.parametrize(
    ("content", "returned"),
    [(PAGES, True), (b"", False), (PAGES[:-8], False), (PAGES[:-1], False), (bytes(24), False)],
    ids=["whole", "empty", "short", "cut within a page", "zeros"],
)
def test_pages_that_the_system_does_not_tell_of_stay(
    content: bytes, returned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One mapping of three pages at the beginning of memory."""
    (tmp_path / "maps").write_text(f"0-{3 * mmap.PAGESIZE:x} r-xp 0 00:00 1 /x/llvmlite/libllvmlite.so\n")
    (tmp_path / "pagemap").write_bytes(content)
    monkeypatch.setattr(module, "_MAPS", tmp_path / "maps")
    monkeypatch.setattr(module, "_PAGES", tmp_path / "pagemap")
    assert list(module._unwritten()) == [(0, 3 * mmap.PAGESIZE)] * returned


def test_where_the_system_has_no_such_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    give_back_memory()
    keep_less_free()
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(module, "_PAGES", tmp_path / "nothing")
    give_back_memory()
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    give_back_memory()
    keep_less_free()


def test_it_is_read_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmHWM:\t    2000 kB\nVmRSS:\t    1000 kB\nThreads:\t1\n")
    monkeypatch.setattr(module, "_STATUS", status)
    assert [resident(), resident("VmRSS")] == [2_048_000, 1_024_000]


def test_elsewhere_than_on_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STATUS", tmp_path / "nothing")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    monkeypatch.setattr("sys.platform", "darwin")
    assert resident("VmRSS") == peak
    monkeypatch.setattr("sys.platform", "freebsd")
    assert resident() == 1024 * peak
    monkeypatch.setitem(sys.modules, "resource", None)
    assert resident() == 0


def test_reads_at_a_place_of_an_open_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    with (tmp_path / "file").open("rb", buffering=0) as file:
        for call in (None, "preadv", "pread"):
            if call is not None:
                monkeypatch.delattr(os, call)
            buffer = bytearray(4)
            assert read_into(file.fileno(), memoryview(buffer), 3) == 4
            assert buffer == b"3456"
            assert read_into(file.fileno(), memoryview(buffer), 8) == 2
            assert buffer == b"8956"
            assert read_at(file.fileno(), 5, 1) == b"12345"
            assert read_at(file.fileno(), 5, 10) == b""
