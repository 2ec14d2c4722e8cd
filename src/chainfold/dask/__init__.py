"""More than one machine: training, evaluation, encoding and tagging on a Dask cluster, with the same bits.

    failure        errors of tasks as data
    chains         what a worker keeps of the chains that it reads
    sums_of_runs   sums of stretches as they travel
    tasks          the tasks of an evaluation, pure functions
    connection     clients, schedulers and workers
    rounds         tasks placed, repeated and limited in time
    passes         the passes over a chain that training makes
    training       train and log_likelihood
    encoding       encode
    tagging        tag and evaluate
    estimator      DaskCRF

Needs the extra `dask`. Begin reading with `passes`.

>>> from chainfold.dask import DaskCRF, train
>>> DaskCRF("local:2", c2=0.1).get_params()["c2"]
0.1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chainfold.dask.encoding import encode
    from chainfold.dask.estimator import DaskCRF
    from chainfold.dask.tagging import evaluate, tag
    from chainfold.dask.training import log_likelihood, train

_HOMES = {
    "DaskCRF": "estimator",
    "encode": "encoding",
    "evaluate": "tagging",
    "log_likelihood": "training",
    "tag": "tagging",
    "train": "training",
}
__all__ = ["DaskCRF", "encode", "evaluate", "log_likelihood", "tag", "train"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from chainfold.dask.connection import require_dask

    require_dask()
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
