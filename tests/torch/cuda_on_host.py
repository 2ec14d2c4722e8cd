"""The CUDA kernels on the host: `cuda_on_host.h` compiled with them by g++, in the place of a card.

`card_on_host` makes `chainfold.torch.gpu` launch them on CPU tensors. Every result is computed in two orders of the
threads and blocks, and has to have the same bits in both.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torch
from chainfold.cuda import compiler
from chainfold.cuda.launch import CHUNK_LABELS, WARP_FILES, HostStatus
from chainfold.cuda.launch import FILES as FILE_OF
from chainfold.torch import gpu_batch, gpu_paths, ops, paths

GXX = shutil.which("g++")
FLAGS = ("-O1", "-w", "-std=c++17", "-U_FORTIFY_SOURCE", "-shared", "-fPIC")
FILES = sorted(path.stem for path in Path(compiler.__file__).parent.glob("*.cu"))
FAULTS = {1: "not all threads come to a barrier", 2: "the lanes of a warp are at different operations"}
_RUN = """
extern "C" int run(void (*kernel)(Batch), const Batch *batch, unsigned blocks, unsigned threads, int turned) {
    return run_grid(kernel, batch, blocks, threads, turned);
}
"""
_GUARD = 64  # numbers around each tensor that nothing may write
_SENTINEL = 0x7B


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="chainfold-cuda-")


@cache
def library(n_labels: int, double: bool, edges: bool) -> ctypes.CDLL:
    """All kernels for a number of labels, compiled once."""
    path = Path(_folder().name) / f"kernels-{n_labels}-{double}-{edges}.cpp"
    header = (Path(__file__).parent / "cuda_on_host.h").read_text()
    headers = "".join((Path(compiler.__file__).parent / name).read_text() for name in compiler.HEADERS)
    names = [name for name in FILES if n_labels <= CHUNK_LABELS or name not in WARP_FILES]
    files = [(Path(compiler.__file__).parent / f"{name}.cu").read_text() for name in names]
    path.write_text("".join((header, headers, *files, _RUN)))
    flags = [*FLAGS, f"-DN={n_labels}", *(["-DREAL_IS_DOUBLE"] if double else []), *(["-DEDGES"] if edges else [])]
    assert GXX is not None
    done = subprocess.run([GXX, *flags, str(path), "-o", str(path.with_suffix(".so"))], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return ctypes.CDLL(str(path.with_suffix(".so")))


class HostKernels:
    """The interface of `chainfold.cuda.launch.Kernels`."""

    turned = False  # the last thread and the last block first
    launches: list[str] = []  # noqa: RUF012  (one list for all)
    rooms: list[torch.Tensor] = []  # noqa: RUF012

    def __init__(self, n_labels: int, double: bool, edges: bool) -> None:
        self._library = library(n_labels, double, edges and n_labels <= CHUNK_LABELS)

    def stream(self) -> int:
        return 0

    def status(self) -> HostStatus:
        return HostStatus(pinned=False)

    def wait(self, stream: int) -> None:
        pass

    def prepare(self, files: tuple[str, ...]) -> None:
        assert set(files) <= set(FILES)

    def launch(self, name: str, blocks: int, threads: int, stream: int, batch: int) -> None:
        assert FILE_OF.get(name, name) in FILES
        self.launches.append(name)
        kernel = ctypes.cast(getattr(self._library, name), ctypes.c_void_p)
        status = self._library.run(kernel, ctypes.c_void_p.from_address(batch), blocks, threads, int(self.turned))
        assert status == 0, f"{name}: {FAULTS[status]}"
        for room in self.rooms:
            edges = torch.cat([room[:_GUARD], room[-_GUARD:]]).view(torch.uint8)
            assert bool((edges == _SENTINEL).all()), f"{name} writes outside of a tensor"


def _room(self: gpu_batch.GpuBatch, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A tensor of bytes that are no number, between guards."""
    size = int(np.prod(shape))
    whole = torch.empty(size + 2 * _GUARD, dtype=dtype or self.dtype)
    whole.view(torch.uint8).fill_(0xFF)
    for edge in (whole[:_GUARD], whole[-_GUARD:]):
        edge.view(torch.uint8).fill_(_SENTINEL)
    HostKernels.rooms.append(whole)
    return whole[_GUARD : _GUARD + size].view(shape)


@contextmanager
def card_on_host() -> Iterator[None]:
    """CPU tensors take the way of CUDA tensors through `chainfold.torch.gpu`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_batch, "kernels_for", lambda device, *options: HostKernels(*options))
        patch.setattr(gpu_batch.GpuBatch, "room", _room)
        patch.setattr(paths, "_backend", lambda inputs: gpu_paths)
        operators = torch.library.Library("chainfold", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch warns of what is overridden
            operators.impl("crf", ops._card, "CPU", allow_override=True)
            operators.impl("crf_backward", ops._card_backward, "CPU", allow_override=True)
            operators.impl("best", ops._best_on_card, "CPU", allow_override=True)
        try:
            yield
        finally:
            operators._destroy()
            HostKernels.rooms.clear()


def in_both_orders(compute: Callable[[], Any]) -> Any:
    """The result of `compute`: tensors, whose bits may not depend on the order of threads."""
    results = []
    with card_on_host():
        for HostKernels.turned in (False, True):
            results.append(compute())
    first, second = (list(flattened(result)) for result in results)
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8)), "threads race"
    return results[0]


def flattened(result: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays in nested results."""
    if isinstance(result, torch.Tensor):
        yield np.ascontiguousarray(result.detach().numpy())
    elif isinstance(result, list | tuple) and result and not isinstance(result[0], int):
        for part in result:
            yield from flattened(part)
    else:
        yield np.atleast_1d(np.asarray(result))
