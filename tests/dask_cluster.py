"""Changing the workers of a cluster in tests."""

from __future__ import annotations

import os
import signal
import time
from typing import Any


def scaled(client: Any, workers: int) -> None:
    """Wait until there are this many workers."""
    client.cluster.scale(workers)
    _wait(client, lambda: len(client.scheduler_info(n_workers=-1)["workers"]) == workers)


def processes(client: Any, most: int = 9) -> dict[str, int]:
    """The processes of the workers, by their addresses."""
    return dict(sorted(client.run(os.getpid).items())[:most])


def kill(processes: dict[str, int]) -> None:
    for process in processes.values():
        os.kill(process, signal.SIGKILL)


def replaced(client: Any, killed: dict[str, int], workers: int = 2) -> None:
    """Wait until nannies have started others in the place of killed workers."""

    def settled() -> bool:
        addresses = set(client.scheduler_info(n_workers=-1)["workers"])
        return len(addresses) == workers and not addresses & set(killed)

    _wait(client, settled)


def _wait(client: Any, settled: Any) -> None:
    end = time.monotonic() + 60.0
    while not settled():
        assert time.monotonic() < end, "the workers do not come, or do not go"
        time.sleep(0.05)
        client.sync(client._update_scheduler_info)
    client.sync(client._update_scheduler_info)
