"""The connection to a cluster: the current client, a scheduler's address, or workers on this machine."""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from chainfold import __version__
from chainfold.errors import ChainfoldError, require

if TYPE_CHECKING:
    from distributed import Client

_LOCAL = re.compile(r"local:([1-9]\d{0,3})")
_REMOTE = re.compile(r"[a-z]+://[^\s/]+:\d{1,5}")
_NO_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # Ctrl-C is for the client alone
_SECONDS = 10.0  # to reach a scheduler
_SECONDS_FOR_WORKERS = 30.0  # until one is there


def require_dask() -> None:
    """Raise unless the packages of the extra are there."""
    require("dask", "a cluster")


@contextmanager
def connected(cluster: Client | str | None) -> Iterator[Client]:
    """A client that is connected to workers of the same version.

    cluster   a client; None, the current one; the address of a scheduler (`tcp://host:8786`); or `local:4`, four
              processes on this machine, which end with the context
    """
    require_dask()
    if isinstance(cluster, str):
        with _opened(cluster) as client:
            yield _checked(client)
    else:
        yield _checked(_current() if cluster is None else cluster)


def _opened(cluster: str) -> AbstractContextManager[Client]:
    local = _LOCAL.fullmatch(cluster)
    if local is not None:
        return _local(int(local[1]))
    if _REMOTE.fullmatch(cluster) is None:
        raise ChainfoldError(
            f"cannot read {cluster!r} as a cluster; write tcp://host:8786, or local:4 for four processes."
        )
    return _remote(cluster)


def _current() -> Client:
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        raise ChainfoldError(
            "there is no current client; make one with `distributed.Client(...)`, or give `client` the address of a "
            "scheduler or 'local:4'."
        ) from None


@contextmanager
def _remote(address: str) -> Iterator[Client]:
    from distributed import Client

    try:
        client = Client(address, timeout=_SECONDS, set_as_default=False)
    except (OSError, ValueError):
        raise ChainfoldError(f"no scheduler answers at {address}; start one with `dask scheduler`.") from None
    with client:
        yield client


@contextmanager
def _local(workers: int) -> Iterator[Client]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=":0",  # any port
            silence_logs=logging.CRITICAL,
            preload=[_NO_INTERRUPTS],
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def dashboard_of(client: Client) -> str | None:
    """The address of the dashboard, where there is one."""
    link = client.dashboard_link if importlib.util.find_spec("bokeh") else None
    return str(link) if link else None


def _checked(client: Client) -> Client:
    """The client, once a worker is there and all have this version of chainfold."""
    try:
        client.wait_for_workers(1, timeout=_SECONDS_FOR_WORKERS)
    except TimeoutError:
        raise ChainfoldError(
            f"scheduler {client.scheduler.address} has no workers; start some with "
            f"`dask worker {client.scheduler.address} --nthreads 1`."
        ) from None
    own, found = versions(), client.run(versions, on_error="return")
    for worker, theirs in found.items():
        if isinstance(theirs, Exception):
            reason = f"{type(theirs).__name__}: {theirs}"
            raise ChainfoldError(f"worker {worker} cannot run chainfold ({reason}); install it there as it is here.")
        for name, version in own.items():
            if theirs.get(name) != version:
                raise ChainfoldError(
                    f"worker {worker} has {name} {theirs.get(name)}, and this machine has {version}; install the same "
                    f"version on all machines."
                )
    return client


def versions() -> dict[str, str]:
    """Versions that must be equal on all machines."""
    import platform
    from importlib.metadata import version

    import distributed
    import numpy

    return {
        "chainfold": __version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "distributed": distributed.__version__,
        "numpy": numpy.__version__,
        "numba": version("numba"),
    }
