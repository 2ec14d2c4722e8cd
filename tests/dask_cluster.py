"""Changing the workers of a cluster in tests."""

from __future__ import annotations

import os
import signal
import time
from typing import Any


def scaled(client: Any, workers: int) -> None:
    """Wait until there are this many workers."""
    client.cluster.scale(workers)
    client.wait_for_workers(workers, timeout=30)
    end = time.monotonic() + 30.0
    while len(client.scheduler_info(n_workers=-1)["workers"]) != workers:
        assert time.monotonic() < end, "the workers do not go"
        time.sleep(0.05)
        client.sync(client._update_scheduler_info)


def processes(client: Any) -> list[int]:
    """The processes of the workers."""
    return list(client.run(os.getpid).values())


def kill(processes: list[int]) -> None:
    for process in processes:
        os.kill(process, signal.SIGKILL)
