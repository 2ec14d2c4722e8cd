"""Clusters that cannot be reached or used: a sentence, no traceback, no hang."""

from __future__ import annotations

import importlib.util
import logging
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chainfold.dask
from chainfold import StoredChain, Training, train
from chainfold.dask import connection
from chainfold.dask.connection import connected
from chainfold.dask.passes import ClusterPasses
from chainfold.errors import ChainfoldError
from chainfold.training.loop import Interrupted, Saving
from verbs import run


def refused(cluster: Any) -> str:
    with pytest.raises(ChainfoldError) as error, connected(cluster):
        pass
    return str(error.value)


@pytest.mark.quick
def test_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_SECONDS", 0.5)
    assert refused("tcp://127.0.0.1:9") == (
        "no scheduler answers at tcp://127.0.0.1:9; start one with `dask scheduler`."
    )


@pytest.mark.parametrize("text", ["local:0", "local:x", "local", "host", "tcp://host", "host:8786"])
def test_an_address_that_is_none(text: str) -> None:
    assert refused(text).startswith(f"cannot read '{text}' as a cluster; write tcp://host:8786, or local:4")


def test_no_current_client() -> None:
    assert refused(None).startswith("there is no current client")


def test_another_version(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "__version__", "99.0")
    sentence = refused(client)
    assert "has chainfold" in sentence
    assert "and this machine has 99.0; install the same version on all machines." in sentence


def test_a_worker_without_chainfold(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "run", lambda *args, **kwargs: {"tcp://far:1": ModuleNotFoundError("chainfold")})
    assert "cannot run chainfold (ModuleNotFoundError" in refused(client)


def test_an_interrupt_is_for_the_client_alone() -> None:
    """A terminal sends it to the workers too; they end with the context. Two clusters do not share a port."""
    with connected("local:1") as first, connected("local:1") as second:
        for client in (first, second):
            assert client.run(signal.getsignal, signal.SIGINT).popitem()[1] == signal.SIG_IGN


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ChainfoldError, match=r"needs the package 'dask'.*pip install '\.\[dask\]'"):
        chainfold.dask.train  # noqa: B018
    with pytest.raises(AttributeError):
        chainfold.dask.nothing  # noqa: B018


def test_the_command_line_says_what_a_cluster_does_not_do(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text("a A\nb B\n")
    for words, sentence in (
        (["encode", path, "-o", tmp_path / "x", "--append"], "--cluster excludes --append."),
        (["encode", path, "-o", "-"], "--cluster requires -o FOLDER."),
        (["train", path, "-o", tmp_path / "m", "--algorithm", "ap"], "a cluster requires 'lbfgs'."),
        (["train", path, "-o", tmp_path / "m", "--engine", "fb"], "--cluster requires --engine parallel, not fb."),
        (["gradient", "--synthetic", "100:2:5:2"], "--cluster excludes --synthetic."),
        (["gradient", path, "--engine", "fb"], "--cluster requires --engine parallel, not fb."),
        (["gradient", path, "--engine", "parallel", "--threads", "2"], "--cluster excludes --threads."),
    ):
        verb = run(*map(str, words), "--cluster", "tcp://127.0.0.1:9")
        assert verb.exit_code == 2
        assert sentence in verb.stderr


def test_the_command_line_shows_no_logs_of_distributed() -> None:
    """Which sets the levels of its loggers when it is imported."""
    script = """
import logging
from contextlib import nullcontext
from chainfold.cli.cluster import joined_cluster
from chainfold.dask import connection
connection.connected, connection.dashboard_of = nullcontext, lambda client: None
with joined_cluster("tcp://127.0.0.1:9"):
    import distributed
    print([logging.getLogger(f"distributed.{name}").getEffectiveLevel() for name in ("utils", "client", "core")])
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == f"{[logging.CRITICAL] * 3}\n"


def test_a_run_goes_on_elsewhere(client: Any, chain: StoredChain, tmp_path: Path) -> None:
    """Begun on the cluster, continued on one machine, and the other way round."""
    training = Training(options={"max_iterations": 5})
    expected = train(chain, training).weights.tobytes()
    for first, second in ((True, False), (False, True)):
        saving = Saving(tmp_path / f"{first}.run", resume=True)
        places: dict[bool, dict[str, Any]] = {True: {"passes": ClusterPasses(client, chain)}, False: {"threads": 2}}
        with pytest.raises(Interrupted):
            train(chain, training, saving=saving, stop=lambda: True, **places[first])
        assert train(chain, training, saving=saving, **places[second]).weights.tobytes() == expected
