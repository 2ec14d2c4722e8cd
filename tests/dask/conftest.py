"""A real cluster on this machine: a scheduler, and worker processes that nannies start again when they are killed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from chainfold import StoredChain, SyntheticChain, open_chain, write_chain

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """Two workers; tests that change their number put it back."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as connected,
    ):
        yield connected


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> StoredChain:
    """Sixteen stretches, with sequences that run across their borders."""
    path = tmp_path_factory.mktemp("chains") / "synthetic.chain"
    write_chain(path, SyntheticChain(80_000, 4, 50, 5, mean_length=3000.0, seed=3))
    found = open_chain(path)
    assert isinstance(found, StoredChain)
    return found
