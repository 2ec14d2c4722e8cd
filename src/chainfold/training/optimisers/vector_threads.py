"""Threads that share the work on long vectors.

A pass is a function of the core (`vectors.hpp`) over all chunks. Each thread processes a range of them. The sums of the
chunks are added in order, so that results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.core import CHUNK

_LEAST_SHARED = 1 << 16  # elements; a shorter vector is processed by the calling thread


class VectorThreads:
    """The calling thread and a pool of others, which starts when it is first needed."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._helpers = ThreadPoolExecutor(max(1, self._threads - 1))

    def run(self, kernel: Callable[..., None], size: int, sums: int, *arguments: Any) -> NDArray[np.float64]:
        """One pass over vectors of a size; returns `sums` sums."""
        chunks = -(-size // CHUNK)
        of_chunks = np.zeros((chunks, sums))
        threads = self._threads if size >= _LEAST_SHARED else 1
        own, *others = pairwise(chunks * k // threads for k in range(threads + 1))
        jobs: list[Future[None]] = []
        try:
            for low, high in others:
                jobs.append(self._helpers.submit(kernel, low, high, of_chunks, *arguments))
            kernel(*own, of_chunks, *arguments)
        finally:  # after an interrupt too, no thread writes any more
            wait(jobs)
        for job in jobs:
            job.result()
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks whether a sum is finite
            return np.asarray(of_chunks.sum(axis=0))
