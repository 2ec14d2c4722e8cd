"""`--cluster`: the work of a verb on a Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from chainfold.cli.console import notice
from chainfold.errors import ChainfoldError

if TYPE_CHECKING:
    from distributed import Client

_LOGGERS = "distributed", "distributed.client", "distributed.gc"  # of those of distributed, the ones with a level

Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Work on a Dask cluster: tcp://host:8786, or local:4 for four processes of this machine.",
        rich_help_panel="Cluster",
    ),
]


@contextmanager
def joined_cluster(address: str) -> Iterator[Client]:
    """A client of the cluster; the address of its dashboard is shown."""
    from chainfold.dask.connection import connected, dashboard_of, require_dask

    require_dask()
    import distributed  # noqa: F401  (it sets the levels first)

    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # errors are one sentence of the verb
    with connected(address) as client:
        link = dashboard_of(client)
        notice(f"dashboard: {link}" if link else "no dashboard: it needs the package bokeh on the scheduler's machine.")
        yield client


def refuse_with_cluster(cluster: str | None, **given: bool) -> None:
    """Raise if options were given that a cluster does not support."""
    for name, is_given in given.items():
        if cluster is not None and is_given:
            raise ChainfoldError(f"--cluster excludes --{name.replace('_', '-')}.")
