"""`chainfold gradient`: log Z and the exact gradient of a chain."""

from __future__ import annotations

import hashlib
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.cluster import Cluster, joined_cluster, refuse_with_cluster
from chainfold.cli.console import report, rows_of
from chainfold.cli.progress import bar
from chainfold.errors import BadSyntheticSpec, ChainfoldError
from chainfold.system.files import written_whole
from chainfold.system.machine import resident
from chainfold.system.outputs import STANDARD

if TYPE_CHECKING:
    from chainfold.chain.block import Source
    from chainfold.engines.log_likelihood import Evaluation
    from chainfold.model.model import Model

ChainFile = Annotated[
    Path | None, typer.Argument(metavar="DATA", help="A chain made by `chainfold encode`; - for standard input.")
]
Synthetic = Annotated[
    str | None,
    typer.Option(
        metavar="T:N:V:A", help="A synthetic chain: T positions, N labels, V attributes, A of them at each position."
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the synthetic chain and of random weights.")]
ModelFile = Annotated[Path | None, typer.Option("--model", metavar="MODEL", help="Take the weights of this model.")]
EngineName = Annotated[str, typer.Option("--engine", metavar="E", help="An engine; docs/python.md lists them.")]
Threads = Annotated[int, typer.Option(metavar="K", help="Threads, for the engine parallel.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the gradient to this file (.npy).")]


def gradient(
    chain: ChainFile = None,
    synthetic: Synthetic = None,
    seed: Seed = 0,
    model: ModelFile = None,
    engine: EngineName = "parallel",
    threads: Threads = 1,
    memory: options.Memory = None,
    output: Output = None,
    cluster: Cluster = None,
    as_json: options.Json = False,
) -> None:
    """Compute log Z and the exact gradient of a chain with one engine.

    Example: chainfold gradient --synthetic 1000000:5:100:8 --threads 2
    """
    size = options.parse_size(memory)
    refuse_with_cluster(cluster, synthetic=chain is None, threads=threads != 1)
    if cluster is not None and engine != "parallel":
        raise ChainfoldError(f"--cluster requires --engine parallel, not {engine}.")
    options.hold([output], chain, model)
    source = _opened(chain, synthetic, seed)
    weighted = _model_of(source, model, seed)
    if cluster is None:
        from chainfold.engines.log_likelihood import log_likelihood

        evaluate: Any = partial(log_likelihood, engine=engine, threads=threads)
    else:
        from chainfold.dask.training import log_likelihood as log_likelihood_on

        evaluate = partial(log_likelihood_on, options.entered(joined_cluster(cluster)))
    begin = time.perf_counter()
    with bar(engine, source.positions) as progress:
        result = evaluate(weighted, source, memory=size, progress=progress.advance)
    if output is not None:
        _write(output, result)
    facts = {"positions": source.positions, "seconds": time.perf_counter() - begin} | _facts(result, weighted)
    report(facts, rows_of(facts, digits=12), "gradient", as_json)


def _opened(path: Path | None, synthetic: str | None, seed: int) -> Source:
    """A stored chain, or a synthetic one."""
    if (path is None) == (synthetic is None):
        raise ChainfoldError("give either a stored chain or --synthetic T:N:V:A.")
    if path is not None:
        from chainfold.chain.any_chain import open_chain

        return open_chain(options.standard_input() if str(path) == STANDARD else path)
    from chainfold.chain.synthetic import SyntheticChain

    try:
        positions, n_labels, n_attributes, active = map(int, str(synthetic).split(":"))
    except ValueError:
        raise BadSyntheticSpec(str(synthetic)) from None
    return SyntheticChain(positions, n_labels, n_attributes, active, seed=seed)


def _model_of(source: Source, path: Path | None, seed: int) -> Model:
    """The model, or one of true or random weights for the chain."""
    from chainfold.chain.block import vocabulary_of
    from chainfold.chain.synthetic import SyntheticChain
    from chainfold.exchange.any_model import open_any_model
    from chainfold.model.layout import Layout
    from chainfold.model.model import Model

    if path is not None:
        return open_any_model(path)
    if source.n_labels == 0:
        raise ChainfoldError("the chain has no labels, so there is no gradient; encode it with its labels.")
    sizes = source.n_labels, source.n_attributes, source.n_edge_attributes
    layout = Layout.full(*sizes) if vocabulary_of(source) is None else Layout.observed(source)
    return Model(layout, source.true_weights()) if isinstance(source, SyntheticChain) else Model.random(layout, seed)


def _write(output: Path, result: Evaluation) -> None:
    from numpy import save

    if result.gradient is None:
        raise ChainfoldError("labels are unknown, so there is no gradient to write; leave out --output.")
    with written_whole(output) as file:
        save(file, result.gradient, allow_pickle=False)


def _facts(result: Evaluation, model: Model) -> dict[str, Any]:
    gradient = result.gradient
    return {
        "engine": result.engine,
        "labels": model.layout.n_labels,
        "weights": model.layout.size,
        "log_z": result.log_z,
        "log_likelihood": result.log_likelihood,
        "gradient_norm": None if gradient is None else float((gradient**2).sum() ** 0.5),
        "gradient_sha256": None if gradient is None else hashlib.sha256(gradient.astype("<f8").tobytes()).hexdigest(),
        **vars(result.report),
        "peak_rss_mb": resident() / 1e6,
    }
