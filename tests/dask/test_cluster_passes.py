"""The same bits for one machine and any number of workers, also when workers die, hang or are added."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from chainfold import Layout, Model, StoredChain, Training, train
from chainfold.dask import passes as cluster_passes
from chainfold.dask.passes import ClusterPasses
from chainfold.dask.rounds import Round, Task
from chainfold.errors import ChainfoldError
from chainfold.training.passes import LocalPasses
from dask_cluster import kill_a_worker, scaled

TRAINING = Training(options={"max_iterations": 4})


@pytest.fixture(scope="session")
def model(chain: StoredChain) -> Model:
    layout = Layout.observed(chain)
    return Model(layout, np.random.default_rng(0).normal(0.0, 0.5, layout.size))


@pytest.fixture
def single_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task for each stretch, so that there is a middle of an evaluation."""
    monkeypatch.setattr(cluster_passes, "_MOST_LEAVES", 1)


def bits(passes: Any, model: Model) -> tuple[float, bytes, bytes, str]:
    found = passes.evaluate(model)
    zero = Model(model.layout, np.zeros(model.layout.size))
    return found.log_z, found.expected.tobytes(), passes.observed(zero).tobytes(), passes.digest()


def test_same_bits_for_one_two_and_four_workers(client: Any, chain: StoredChain, model: Model) -> None:
    expected = bits(LocalPasses(chain, threads=2), model)
    trained = train(chain, TRAINING).weights.tobytes()
    passes = ClusterPasses(client, chain)  # which sees workers come and go
    for workers in (4, 1, 2):
        scaled(client, workers)
        assert bits(passes, model) == expected
        assert train(chain, TRAINING, passes=ClusterPasses(client, chain)).weights.tobytes() == trained


@pytest.mark.usefixtures("single_leaves")
def test_a_worker_killed_in_the_middle_of_an_evaluation(client: Any, chain: StoredChain, model: Model) -> None:
    expected = LocalPasses(chain).evaluate(model)
    killed = threading.Event()

    def kill(positions: int) -> None:
        if not killed.is_set():
            killed.set()
            kill_a_worker(client)

    found = ClusterPasses(client, chain, progress=kill).evaluate(model)
    assert killed.is_set()
    assert (found.log_z, found.expected.tobytes()) == (expected.log_z, expected.expected.tobytes())
    scaled(client, 2)


def test_a_hanging_worker_is_named_where_nobody_else_can_do_its_task(client: Any) -> None:
    tasks = [Task(time.sleep, (60.0,), f"nap {number}") for number in range(2)]
    with pytest.raises(ChainfoldError, match=r"worker tcp://[\d.:]+ has not finished nap 0 within 1 second"):
        Round(client, tasks, timeout=1.0).results()
    kill_a_worker(client, 0)
    kill_a_worker(client, 1)
    scaled(client, 2)
