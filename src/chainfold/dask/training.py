"""Train a model on a cluster; the gradient of a chain on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainfold.chain.any_chain import open_chain
from chainfold.chain.batches import StoredChain
from chainfold.chain.parts import ChainInParts
from chainfold.dask.chains import ChainPlace
from chainfold.dask.connection import connected
from chainfold.dask.passes import ClusterPasses, Leaves
from chainfold.dask.rounds import TIMEOUT
from chainfold.dask.sums_of_runs import tree_of
from chainfold.dask.tasks import evaluate_run_of_model
from chainfold.engines.log_likelihood import Evaluation, evaluation_of
from chainfold.engines.parallel import report_of
from chainfold.engines.problem import Problem
from chainfold.engines.settings import DEFAULT_TOLERANCE, Settings, Shape
from chainfold.engines.stream import StreamEvents
from chainfold.engines.tally import Tally
from chainfold.errors import ChainfoldError
from chainfold.model.model import Model
from chainfold.system.machine import cores
from chainfold.training.loop import Training
from chainfold.training.loop import train as run_training

if TYPE_CHECKING:
    from distributed import Client


def train(
    client: Client | str | None,
    chain: StoredChain | ChainInParts | str | Path,
    training: Training | None = None,
    *,
    memory: int | None = None,
    timeout: float = TIMEOUT,
    **options: Any,
) -> Model:
    """Train a model on a cluster, with the same bits as on one machine.

    client    a client; None for the current one; a scheduler's address, or 'local:4'
    chain     a stored chain or its path, which all workers can read
    training  the algorithm and its settings, of which 'lbfgs' is the one that a cluster works at
    memory    bytes of working memory of each thread
    timeout   seconds in which something must be finished
    options   `dev`, `start`, `constraints`, `saving`, `report`, `stop` and `positions`, as for `chainfold.train`

    Returns a `Model`. The optimiser runs here; a run that was saved can be continued with other workers, or none.
    Raises `ChainfoldError` as `chainfold.train` does, and where the cluster cannot be reached or does not finish.
    """
    training = training or Training()
    check_algorithm(training.algorithm)
    source = stored(chain)
    with connected(client) as reached:
        passes = ClusterPasses(reached, source, memory=memory, progress=options.get("positions"), timeout=timeout)
        return run_training(source, training, threads=cores(), memory=memory, passes=passes, **options)


def check_algorithm(algorithm: str) -> None:
    if algorithm != "lbfgs":
        raise ChainfoldError(
            f"algorithm {algorithm!r} goes through the chain in order, on one machine; a cluster requires 'lbfgs'."
        )


def stored(chain: Any) -> StoredChain | ChainInParts:
    """A stored chain, or the one at a path."""
    opened: Any = open_chain(chain) if isinstance(chain, str | Path) else chain
    ChainPlace.of(opened)  # raises unless workers can open it
    return opened  # type: ignore[no-any-return]


def log_likelihood(
    client: Client | str | None,
    model: Model,
    chain: StoredChain | ChainInParts | str | Path,
    *,
    memory: int | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    block: int | None = None,
    timeout: float = TIMEOUT,
    **options: Any,
) -> Evaluation:
    """log Z, log likelihood and gradient of a stored chain: `chainfold.log_likelihood` by engine 'parallel'.

    `progress` is called with the number of positions just done.
    """
    source = stored(chain)
    settings = Settings(memory=memory, tolerance=tolerance, block=block)
    aligned = model.aligned(source, labels_needed=source.labelled)
    problem = Problem(model, aligned, settings)
    with connected(client) as reached:
        leaves = Leaves(reached, Shape.of(model.layout, aligned), settings, timeout)
        shared, args = (model,), (ChainPlace.of(source), settings)
        runs = leaves.run(evaluate_run_of_model, shared, args, options.get("progress"))
    events = StreamEvents()
    for run in runs:
        for part in run.events:
            events.add(part)
        for read in run.read:
            problem.add_read(read)
    sums = tree_of(run.nodes for run in runs).root
    sums.expected = model.layout.pack(sums.expected, padding=0.0)
    if sums.observed is not None:
        sums.observed = model.layout.pack(sums.observed, padding=0.0)
    tally = Tally(problem, sums)
    return evaluation_of("parallel", problem, tally, report_of(problem, tally, events))
