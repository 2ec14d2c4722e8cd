"""Work on several threads of the host, as many as torch uses itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="chainfold")


os.register_at_fork(after_in_child=_pool.cache_clear)


def run(work: Callable[..., Result], jobs: Sequence[tuple[Any, ...]]) -> list[Result]:
    """Call `work` with each job on the threads of `torch.set_num_threads`; results in the order of the jobs."""
    threads = torch.get_num_threads() if len(jobs) > 1 else 1
    if threads == 1:
        return [work(*job) for job in jobs]
    futures = [_pool(threads).submit(work, *job) for job in jobs]
    return [future.result() for future in futures]
