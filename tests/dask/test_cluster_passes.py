"""The same bits for one machine and any number of workers, also when workers die, hang or are added."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainfold import Chain, Layout, Model, StoredChain, Training, open_chain, train
from chainfold.dask import passes as cluster_passes
from chainfold.dask import rounds
from chainfold.dask.passes import ClusterPasses
from chainfold.dask.rounds import Round, Task
from chainfold.errors import ChainfoldError, ForbiddenLabel, ScoreNotFinite
from chainfold.training.passes import LocalPasses
from dask_cluster import kill, processes, replaced, scaled

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
    workers, killed = processes(client, 1), threading.Event()

    def progress(positions: int) -> None:
        if not killed.is_set():
            killed.set()
            kill(workers)

    found = ClusterPasses(client, chain, progress=progress).evaluate(model)
    assert killed.is_set()
    assert (found.log_z, found.expected.tobytes()) == (expected.log_z, expected.expected.tobytes())
    replaced(client, workers)


def test_a_hanging_worker_is_named_where_nobody_else_can_do_its_task(client: Any) -> None:
    tasks = [Task(time.sleep, (2.5,), f"nap {number}") for number in range(2)]
    with pytest.raises(ChainfoldError, match=r"worker tcp://[\d.:]+ has not finished nap 0 within 1 second"):
        Round(client, tasks, timeout=1.0).results()
    time.sleep(2.5)


def test_a_stopped_worker_is_overtaken(client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The task of a worker that hangs is done by another one."""
    monkeypatch.setattr(rounds, "_LEAST_SLOW", 0.5)
    monkeypatch.setattr(rounds, "_SLOW", 1.0)
    tasks = [Task(nap_once, (str(tmp_path / str(number)),), f"nap {number}", None) for number in range(2)]
    (tmp_path / "1").touch()
    assert sorted(Round(client, tasks, timeout=30.0).results()) == ["again", "again"]


def test_a_frozen_worker_is_named(client: Any, chain: StoredChain, model: Model) -> None:
    """It takes no weights; nobody waits for it beyond the time allowed."""
    scaled(client, 2)
    passes = ClusterPasses(client, chain, timeout=8.0)
    expected = passes.evaluate(model).log_z
    address, process = next(iter(client.run(os.getpid).items()))
    os.kill(process, signal.SIGSTOP)
    try:
        begin = time.monotonic()
        with pytest.raises(ChainfoldError, match=f"worker {address} has not (answered|finished)"):
            passes.evaluate(model)
        assert time.monotonic() - begin < 20.0
    finally:
        os.kill(process, signal.SIGCONT)
    assert passes.evaluate(model).log_z == expected


def nap_once(mark: str) -> str:
    """The first call sleeps for long."""
    path = Path(mark)
    if path.exists():
        return "again"
    path.touch()
    time.sleep(8.0)
    return "late"


@pytest.mark.usefixtures("single_leaves")
def test_what_only_a_dead_worker_had_is_sent_again(client: Any, chain: StoredChain, model: Model) -> None:
    """All workers die, and the weights with them."""
    expected = LocalPasses(chain).evaluate(model)
    workers, killed = processes(client), threading.Event()

    def progress(positions: int) -> None:
        if not killed.is_set():
            killed.set()
            kill(workers)

    found = ClusterPasses(client, chain, progress=progress).evaluate(model)
    assert killed.is_set()
    assert found.expected.tobytes() == expected.expected.tobytes()
    replaced(client, workers)


def test_weights_are_sent_again_where_a_worker_left_meanwhile(
    client: Any, chain: StoredChain, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, sent = client.scatter, []

    def scatter(*args: Any, **options: Any) -> Any:
        sent.append(args)
        if len(sent) == 1:
            raise ValueError("Can not use replicate to delete data")  # what distributed raises then
        return send(*args, **options)

    monkeypatch.setattr(client, "scatter", scatter)
    assert ClusterPasses(client, chain).evaluate(model).log_z == LocalPasses(chain).evaluate(model).log_z
    assert len(sent) == 2


def test_a_task_that_kills_its_workers_ends_with_a_sentence(client: Any) -> None:
    with pytest.raises(ChainfoldError, match=r"2 workers died while they worked on a trap, tcp://[\d.:]+ as the last"):
        Round(client, [Task(os._exit, (1,), "a trap")]).results()
    scaled(client, 0)  # a nanny may have given up
    scaled(client, 2)


def test_failures_are_those_of_one_machine(client: Any, chain: StoredChain, model: Model, tmp_path: Path) -> None:
    passes = ClusterPasses(client, chain)
    huge = Model(model.layout, np.full(model.layout.size, 1.7e308))
    with pytest.raises(ScoreNotFinite) as local:
        LocalPasses(chain).evaluate(huge)
    with pytest.raises(ScoreNotFinite) as far:
        passes.evaluate(huge)
    assert str(far.value) == str(local.value)
    forbidding = model.weights.copy()
    forbidding[-1] = -np.inf
    with pytest.raises(ForbiddenLabel) as local_label:
        LocalPasses(chain).observed(Model(model.layout, forbidding))
    with pytest.raises(ForbiddenLabel) as far_label:
        passes.observed(Model(model.layout, forbidding))
    assert far_label.value.position == local_label.value.position


def test_a_chain_that_is_missing_or_damaged_is_named(client: Any, chain: StoredChain, tmp_path: Path) -> None:
    content = bytearray(Path(chain.path).read_bytes())
    path = tmp_path / "damaged.chain"
    path.write_bytes(content)
    opened = open_chain(path)
    model = Model(Layout.observed(opened), np.zeros(Layout.observed(opened).size))
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ChainfoldError, match=r"damaged\.chain: positions [\d,]+ to [\d,]+ are damaged"):
        ClusterPasses(client, opened).evaluate(model)
    path.unlink()
    with pytest.raises(ChainfoldError, match=r"gone\.chain: there is no such file"):
        ClusterPasses(client, moved(opened, tmp_path / "gone.chain")).evaluate(model)


def moved(chain: Any, path: Path) -> Any:
    chain.path = path
    return chain


def test_a_chain_in_memory_is_refused(client: Any) -> None:
    memory = Chain.from_arrays(offsets=[0, 1, 2], ids=[0, 1], labels=[0, 1])
    with pytest.raises(ChainfoldError, match="write it with `write_chain` or `encode`"):
        ClusterPasses(client, memory)
