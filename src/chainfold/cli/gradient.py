"""`chainfold gradient`: log Z and the exact gradient of a chain, whole or in pieces, and their cost."""

from __future__ import annotations

import hashlib
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.cluster import Cluster, joined_cluster, refuse_with_cluster
from chainfold.cli.console import console, report
from chainfold.cli.parameters import Group, grouped
from chainfold.cli.progress import bar
from chainfold.errors import ChainfoldError
from chainfold.system.files import written_whole
from chainfold.system.machine import resident

if TYPE_CHECKING:
    from chainfold.chain.block import Source
    from chainfold.engines.log_likelihood import Evaluation
    from chainfold.engines.resumable import PiecewiseGradient
    from chainfold.model.model import Model


class Weights(StrEnum):
    """Which weights to evaluate."""

    TRUE = "true"
    RANDOM = "random"
    ZERO = "zero"


WeightsChoice = Annotated[
    Weights | None,
    typer.Option(help="The weights: true ones of a synthetic chain (the default there), random, or zero."),
]
ModelWeights = Annotated[Path | None, typer.Option("--model", metavar="MODEL", help="Take the weights of this model.")]
GradientOutput = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the gradient to this file, as a .npy array.")
]


@dataclass(frozen=True)
class _EngineOptions:
    engine: options.EngineName = "stream"
    threads: options.Threads = 1
    memory: options.Memory = None
    tolerance: Annotated[float, typer.Option(help="Largest relative error of a certificate.")] = 1e-12
    block: Annotated[
        int | None, typer.Option(help="Number of positions in a block. Default: chosen by the engine.")
    ] = None

    def pass_settings(self) -> dict[str, Any]:
        return {"memory": options.parse_size(self.memory), "tolerance": self.tolerance, "block": self.block}


@dataclass(frozen=True)
class _PieceOptions:
    token: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The chain is the next piece of a longer one: continue from FILE, if it exists."
        ),
    ] = None
    last: Annotated[
        bool, typer.Option("--last", help="This is the last piece: print the gradient of all; FILE is not changed.")
    ] = False
    continues: Annotated[
        bool, typer.Option("--continues", help="The piece continues the last sequence of the piece before.")
    ] = False

    def check(self, model: Path | None, engine: str, output: Path | None) -> None:
        """Raise, before any work is done, unless the options for pieces go together."""
        if self.token is None:
            if self.last or self.continues:
                raise ChainfoldError("--last and --continues require --token FILE.")
            return
        if model is None:
            raise ChainfoldError("--token requires --model: all pieces need the same weights.")
        if engine != "stream":
            raise ChainfoldError(f"engine {engine!r} needs the whole chain; --token requires --engine stream.")
        if output is not None and not self.last:
            raise ChainfoldError("there is no gradient to write before the last piece: --output requires --last.")
        if self.last and not self.token.exists():
            raise ChainfoldError(f"{self.token}: there is no such file; a chain in one piece needs no --token.")


@grouped(chain=options.CHAIN, engine=Group.of(_EngineOptions), piece=Group.of(_PieceOptions))
def gradient(
    chain: options.ChainOptions,
    engine: _EngineOptions,
    piece: _PieceOptions,
    weights: WeightsChoice = None,
    model: ModelWeights = None,
    output: GradientOutput = None,
    cluster: Cluster = None,
    as_json: options.Json = False,
) -> None:
    """Compute log Z and the exact gradient of a chain with one engine.

    Example: chainfold gradient --synthetic 1000000:5:100:8 --engine stream
    """
    settings = engine.pass_settings()
    piece.check(model, engine.engine, output)
    refuse_with_cluster(
        cluster, token=piece.token is not None, synthetic=chain.data is None, threads=engine.threads != 1
    )
    if cluster is not None and engine.engine not in ("parallel", "stream"):  # the default is not looked at
        raise ChainfoldError(f"--cluster requires --engine parallel, not {engine.engine}.")
    options.hold([output, piece.token], chain.data, model)
    source = chain.open()
    given = source
    if model is None:
        evaluated = _model(source, weights, chain.seed)
    else:
        evaluated, source = _opened(model, source, weights)
    positions = source.positions
    if cluster is not None:
        result, seconds = _on_cluster(cluster, evaluated, given, settings)
    elif piece.token is None:
        result, seconds = _timed(evaluated, source, engine.engine, threads=engine.threads, **settings)
    else:
        pieces, seconds = _next_piece(evaluated, source, piece, settings)
        positions = pieces.positions
        if not piece.last:
            pieces.save(piece.token)
            _report_token(piece.token, positions, seconds, as_json)
            return
        result = pieces.finish()
    if output is not None:
        _write(output, result)
    facts = _facts(result, source, evaluated, positions, seconds, engine)
    report(facts, [] if as_json else _rows(facts), f"gradient by {facts['engine']}", as_json)


def _write(output: Path, result: Evaluation) -> None:
    from numpy import save

    if result.gradient is None:
        raise ChainfoldError("labels are unknown, so there is no gradient to write; leave out --output.")
    with written_whole(output) as file:
        save(file, result.gradient, allow_pickle=False)


def _facts(
    result: Evaluation, source: Source, model: Model, positions: int, seconds: float, engine: _EngineOptions
) -> dict[str, Any]:
    gradient = result.gradient
    return {
        "engine": result.engine,
        "positions": positions,
        "labels": source.n_labels,
        "weights": model.layout.size,
        "log_z": result.log_z,
        "log_likelihood": result.log_likelihood,
        "gradient_norm": None if gradient is None else float((gradient**2).sum() ** 0.5),
        "gradient_sha256": None if gradient is None else hashlib.sha256(gradient.astype("<f8").tobytes()).hexdigest(),
        "seconds": seconds,
        "nanoseconds_per_position": seconds / source.positions * 1e9,
        "peak_rss_mb": resident() / 1e6,
        "threads": engine.threads if result.engine == "parallel" else 1,
        "tolerance": engine.tolerance,
        **vars(result.report),
    }


def _model(source: Source, weights: Weights | None, seed: int) -> Model:
    from chainfold.chain.block import vocabulary_of
    from chainfold.chain.synthetic import SyntheticChain
    from chainfold.model.layout import Layout
    from chainfold.model.model import Model

    options.check_labels(source)
    if vocabulary_of(source) is None:
        layout = Layout.full(source.n_labels, source.n_attributes, source.n_edge_attributes)
    else:
        layout = Layout.observed(source)
    if isinstance(source, SyntheticChain) and weights in (None, Weights.TRUE):
        return Model(layout, source.true_weights())
    if weights is Weights.TRUE:
        raise ChainfoldError("only a synthetic chain has true weights; take --weights random or zero.")
    return Model.random(layout, seed, scale=0.0 if weights is Weights.ZERO else 0.5)


def _opened(path: Path, source: Source, weights: Weights | None) -> tuple[Model, Source]:
    """A model, and the chain with the model's numbers."""
    from chainfold.exchange.any_model import open_any_model

    if weights is not None:
        raise ChainfoldError("give --model or --weights, not both.")
    model = open_any_model(path)
    return model, model.aligned(source, labels_needed=source.labelled)


def _next_piece(
    model: Model, source: Source, piece: _PieceOptions, settings: dict[str, Any]
) -> tuple[PiecewiseGradient, float]:
    """The pieces so far with this one, which needs the same settings; and the seconds that it took."""
    from chainfold.engines.resumable import PiecewiseGradient

    token = piece.token
    assert token is not None
    with bar("stream", source.positions) as progress:
        if token.exists():
            pieces = PiecewiseGradient.load(token, model, progress.advance)
        else:
            pieces = PiecewiseGradient(model, **settings, progress=progress.advance)
        for name, value in settings.items():
            begun = getattr(pieces.settings, name)
            if value != begun:
                raise ChainfoldError(
                    f"{token}: was begun with `{name}` {begun}, not {value}; give all pieces the same."
                )
        begin = time.perf_counter()
        pieces.add(source, continues=piece.continues)
        return pieces, time.perf_counter() - begin


def _report_token(token: Path, positions: int, seconds: float, as_json: bool) -> None:
    size = token.stat().st_size
    facts = {"token": str(token), "positions": positions, "bytes": size, "seconds": seconds}
    rows = [("positions so far", f"{positions:,}"), ("size", f"{size / 1e6:,.3f} MB"), ("seconds", f"{seconds:.3f}")]
    report(facts, rows, f"resume token {token}", as_json)


def _timed(model: Model, source: Source, engine: str, **settings: Any) -> tuple[Evaluation, float]:
    """The result, and the seconds that it took without compiling."""
    from chainfold.chain.chain import gather
    from chainfold.engines.log_likelihood import log_likelihood

    terminal = console(stderr=True)
    with terminal.status("compiling …") if terminal.is_terminal else nullcontext():
        unmasked = replace(model, first=None, last=None)  # no sequence need end where these two positions do
        log_likelihood(unmasked, gather(source, positions=2), engine, threads=settings["threads"], block=1)
    with bar(engine, source.positions) as progress:
        begin = time.perf_counter()
        result = log_likelihood(model, source, engine, **settings, progress=progress.advance)
        return result, time.perf_counter() - begin


def _on_cluster(cluster: str, model: Model, source: Any, settings: dict[str, Any]) -> tuple[Evaluation, float]:
    from chainfold.dask.training import log_likelihood

    client = options.entered(joined_cluster(cluster))
    with bar("parallel", source.positions) as progress:
        begin = time.perf_counter()
        result = log_likelihood(client, model, source, progress=progress.advance, **settings)
        return result, time.perf_counter() - begin


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    likelihood = facts["log_likelihood"]
    gradient_rows = []
    if likelihood is not None:
        gradient_rows.append(("gradient norm", f"{facts['gradient_norm']:.12g}"))
        gradient_rows.append(("gradient sha256", facts["gradient_sha256"][:16] + "…"))
    rows = [
        ("positions", f"{facts['positions']:,}"),
        ("labels", f"{facts['labels']:,}"),
        ("weights", f"{facts['weights']:,}"),
        ("log Z", f"{facts['log_z']:.12g}"),
        ("log likelihood", "labels unknown" if likelihood is None else f"{likelihood:.12g}"),
        *gradient_rows,
        ("error of log Z, at most", f"{facts['log_z_error_bound']:.1e}"),
        ("error of counts, at most", f"{facts['error_bound']:.1e} of their size"),
        ("seconds", f"{facts['seconds']:.3f}"),
        ("per position", f"{facts['nanoseconds_per_position']:,.0f} ns"),
        ("peak memory", f"{facts['peak_rss_mb']:,.1f} MB"),
        ("times the data was read", f"{facts['passes']:.4g}"),
        ("blocks", f"{facts['blocks']:,}"),
        ("threads", f"{facts['threads']}"),
    ]
    if facts["engine"] in ("stream", "parallel"):
        rows += [
            ("lookahead, mean", f"{facts['lookahead_mean']:.1f} positions"),
            ("lookahead, largest", f"{facts['lookahead_max']:,} positions"),
            ("blocks carried", f"{facts['carried_blocks']:,}"),
        ]
    if facts["in_order"]:
        rows.append(("cuts not certified", f"{facts['in_order']:,}"))
    if facts["wide_blocks"]:
        rows.append(("blocks in wide numbers", f"{facts['wide_blocks']:,}"))
    return rows
