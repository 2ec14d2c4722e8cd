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


def kill_a_worker(client: Any, number: int = 0) -> None:
    pids = client.run(os.getpid, on_error="ignore")
    os.kill(pids[sorted(pids)[number]], signal.SIGKILL)
