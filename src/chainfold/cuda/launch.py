"""Kernels ready to launch: the functions of one number of labels and one type on one card, by the CUDA driver."""

from __future__ import annotations

import ctypes
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

from chainfold.cuda.compiler import compiled
from chainfold.errors import ChainfoldError

MOST_LABELS = 1024
"""A block has a thread for each label."""

CHUNK_LABELS = 32
"""Up to this many labels, a warp works on a chunk; beyond it, a block."""

WARPS = 4
"""Warps of a block whose warps work on their own."""

_LEAST_CAPABILITY = 80
_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT

SHARED_LABELS = 64
"""Up to this many labels, the transitions of sequences that are done in order are in shared memory."""

CHUNK_FILES = ("chunk_past", "chunk_forward", "chunk_future", "chunk_backward")
"""Files with a variant for edges of positions' own."""

WARP_FILES = (*CHUNK_FILES, "best_chunks")
"""Files for at most CHUNK_LABELS labels."""

FILES = {
    **dict.fromkeys(("ordered_forward", "ordered_backward", "edge_matrix"), "ordered"),
    **dict.fromkeys(("block_forward", "block_backward"), "blocks"),
    "unmasked_rows": "rows",
    **dict.fromkeys(("best_between", "best_entries", "best_pointers", "best_labels"), "best_chunks"),
    **dict.fromkeys(("sum_tables", "sum_shares"), "sums"),
}
"""The file of a kernel that has another name than its file."""

POINTERS = (
    *("emissions", "transitions", "start", "end", "edges", "tags", "mask", "matrix"),
    *("index", "lengths", "packed"),
    *("vectors", "entries", "borders", "scale", "score", "flag", "status", "values"),
    *("factor", "posteriors", "gradient", "edge_gradient", "tables", "pairs", "first", "last"),
    *("back", "between", "turns", "faults", "labels", "best", "uniforms", "ranked", "choices"),
)
SIZES = (
    *("sequences", "length", "row_sequence", "row_position", "chunk", "whole", "group", "halo", "round", "rounds"),
    *("warps", "table_count", "factor_step", "draws"),
)


class CardBatch(ctypes.Structure):
    """`struct Batch` of batch.cuh."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in POINTERS),
        *((name, ctypes.c_int64) for name in SIZES),
        ("sign", ctypes.c_double),
    )


class HostStatus:
    """Three numbers in the host's memory that kernels write when something is wrong: `status` of batch.cuh."""

    def __init__(self, pinned: bool = True) -> None:
        import torch

        self._tensor = torch.zeros(3, dtype=torch.int32, pin_memory=pinned)
        self.numbers = self._tensor.numpy()
        self.pointer = self._tensor.data_ptr()


class Kernels:
    """The kernels for one number of labels, float or double, on one card. They are compiled when first used."""

    def __init__(self, device: int, n_labels: int, double: bool, edges: bool) -> None:
        import torch

        major, minor = torch.cuda.get_device_capability(device)
        if 10 * major + minor < _LEAST_CAPABILITY:
            raise ChainfoldError(
                f"the kernels need a card of compute capability 8.0, and this one has {major}.{minor}."
            )
        if n_labels > MOST_LABELS:
            raise ChainfoldError(f"there are {n_labels} labels, but CUDA tensors may have {MOST_LABELS} at most.")
        self._device, self._architecture = device, 10 * major + minor
        self._options, self._edges = (f"-DN={n_labels}", *(("-DREAL_IS_DOUBLE",) if double else ())), edges
        self._driver = _driver()
        self._launch = self._driver.cuLaunchKernel
        self._functions: dict[str, ctypes.c_void_p] = {}
        self._codes: dict[str, Future[bytes]] = {}

    def stream(self) -> int:
        """The current stream of the card."""
        import torch

        stream: int = torch._C._cuda_getCurrentRawStream(self._device)
        return stream

    def prepare(self, files: tuple[str, ...]) -> None:
        """Begin to compile files that will be needed together, at the same time."""
        if files[-1] not in self._codes:
            for file in files:
                self._compiling(file)

    def launch(self, name: str, blocks: int, threads: int, stream: int, batch: int) -> None:
        """Start a kernel; `batch` is the address of the address of a CardBatch."""
        function = self._functions.get(name) or self._load(name)
        status = self._launch(function, blocks, 1, 1, threads, 1, 1, 0, stream, batch, None)
        if status == _NO_CONTEXT:
            self._enter()
            status = self._launch(function, blocks, 1, 1, threads, 1, 1, 0, stream, batch, None)
        if status:
            raise ChainfoldError(f"the CUDA driver could not start {name}: status {status}.")

    def status(self) -> HostStatus:
        """The status of the calls of this thread: each of them waits before the next one begins."""
        status: HostStatus | None = getattr(_of_thread, "status", None)
        if status is None:
            status = _of_thread.status = HostStatus()
        return status

    def wait(self, stream: int) -> None:
        """Wait until all kernels of a stream are done; other threads of Python run meanwhile."""
        status = _waiting_driver().cuStreamSynchronize(ctypes.c_void_p(stream))
        if status:
            raise ChainfoldError(f"the CUDA driver failed while it waited for kernels: status {status}.")

    def _enter(self) -> None:
        """Make torch's context of the card that of this thread, which no call of torch has done yet."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        status = self._driver.cuDeviceGet(ctypes.byref(device), self._device)
        status = status or self._driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        status = status or self._driver.cuCtxSetCurrent(context)
        if status:
            raise ChainfoldError(f"the CUDA driver has no context for this thread: status {status}.")

    def _load(self, name: str) -> ctypes.c_void_p:
        self._enter()
        file = FILES.get(name, name)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        status = self._driver.cuModuleLoadData(ctypes.byref(module), self._code(file))
        if status:  # the file that was kept may be damaged
            code = compiled(*self._asked(file), anew=True)
            status = self._driver.cuModuleLoadData(ctypes.byref(module), code)
        status = status or self._driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        if status:
            raise ChainfoldError(f"the CUDA driver could not load {file}.cu: status {status}.")
        self._functions[name] = function
        return function

    def _code(self, file: str) -> bytes:
        """The machine code of a file, as soon as it is there."""
        try:
            return self._compiling(file).result()
        except BaseException:
            self._codes.pop(file, None)  # the next call tries again
            raise

    def _compiling(self, file: str) -> Future[bytes]:
        code = self._codes.get(file)
        if code is None:
            code = self._codes[file] = _compilers().submit(compiled, *self._asked(file))
        return code

    def _asked(self, file: str) -> tuple[str, int, tuple[str, ...]]:
        options = (*self._options, "-DEDGES") if self._edges and file in CHUNK_FILES else self._options
        return file, self._architecture, options


@cache
def kernels_for(device: int, n_labels: int, double: bool, edges: bool) -> Kernels:
    """The kernels of a card, with or without edges of positions' own; the same object each time."""
    return Kernels(device, n_labels, double, edges)


_of_thread = threading.local()
_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


@cache
def _compilers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(8, thread_name_prefix="chainfold-nvrtc")  # a file takes a second or two


@cache
def _driver() -> ctypes.PyDLL:
    driver = ctypes.PyDLL(_LIBRARY)  # a launch does not wait
    launch = driver.cuLaunchKernel
    launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return driver


@cache
def _waiting_driver() -> ctypes.CDLL:
    return ctypes.CDLL(_LIBRARY)
