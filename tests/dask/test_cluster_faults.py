"""Faults of the cluster that are known, and that its rebuilding mends: each test states what has to hold."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from chainfold import Layout, Model, StoredChain
from chainfold.dask.connection import connected
from chainfold.dask.passes import ClusterPasses
from chainfold.errors import ChainfoldError
from chainfold.training.passes import LocalPasses
from dask_cluster import kill, processes, replaced, scaled

pytestmark = pytest.mark.slow
CLUSTER = "step 4: the cluster"


@pytest.mark.xfail(reason=CLUSTER, raises=ChainfoldError, strict=True)
def test_a_worker_that_dies_while_weights_are_sent_costs_no_time_limit(
    client: Any, chain: StoredChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaled(client, 2)
    model = Model.random(Layout.observed(chain))
    expected = LocalPasses(chain).evaluate(model)
    passes, workers, send = ClusterPasses(client, chain, timeout=15.0), processes(client, 1), client.scatter
    passes.evaluate(model)
    killed = threading.Event()

    def scatter(*args: Any, **options: Any) -> Any:
        if not killed.is_set():
            killed.set()
            kill(workers)
        return send(*args, **options)

    monkeypatch.setattr(client, "scatter", scatter)
    try:
        assert passes.evaluate(model).log_z == expected.log_z
    finally:
        assert killed.is_set()
        replaced(client, workers)


@pytest.mark.xfail(reason=CLUSTER, raises=AssertionError, strict=True)
def test_a_worker_that_is_stopped_does_not_hold_up_the_start(client: Any) -> None:
    scaled(client, 2)
    (process,) = processes(client, 1).values()

    def connect() -> None:
        with connected(client):
            pass

    start = threading.Thread(target=connect, daemon=True)
    os.kill(process, signal.SIGSTOP)
    try:
        start.start()
        start.join(20.0)
        assert not start.is_alive()
    finally:
        os.kill(process, signal.SIGCONT)
        start.join()
