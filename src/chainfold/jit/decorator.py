"""The one decorator of every kernel.

Kernels release the interpreter lock, but for those that read Python's objects. They are compiled once per machine: the
machine code is kept beside the source, or where numba keeps it. Numba notices a change in the kernel's own file only,
but kernels inline one another across files, so the stamp of a kept kernel is here the digest of all of them.

A kernel does not raise. One that can fail gives a fault and its place, in this order: `OK`, or a positive number that
its module names, and the position or line. A kernel whose state carries over from call to call has both in its state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from chainfold.jit.kernel_cache import KernelCache, KernelStore, keep_runtime
from chainfold.system.machine import give_back_memory

STRICT: frozenset[str] = frozenset()
"""No liberties: infinities, true zeros and the order of sums are as written."""

CONTRACT: frozenset[str] = frozenset({"contract"})
"""A product and the sum that follows may be one fused instruction; nothing else changes."""


OK = 0
"""No fault."""


def _package_stamp() -> str:
    """A digest of the files that have kernels, or decide how they are compiled."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_STAMP = _package_stamp()
keep_runtime(_STAMP)
give_back_memory()  # that loading LLVM took


def kernel(
    *, fastmath: frozenset[str], inline: bool = False, lock: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function with numba; every kernel declares the liberties its arithmetic may take.

    lock: it holds the interpreter lock, because it reads Python's objects (`objects`).
    """

    def compile_lazily(function: Callable[..., Any]) -> Any:
        if inline:
            return numba.njit(fastmath=set(fastmath), inline="always")(function)
        compiled = numba.njit(fastmath=set(fastmath), nogil=not lock)(function)
        compiled._cache = KernelCache(function, _STAMP)
        return compiled

    return compile_lazily


def kernel_store() -> KernelStore:
    """Where all kernels are kept; raises `ChainfoldError` unless files can be written there."""
    return KernelStore(_STAMP)
