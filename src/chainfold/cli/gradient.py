"""`chainfold gradient`: log Z and the exact gradient of a chain, whole or in pieces, and what they cost."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.console import console, table
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


def gradient(
    data: options.Data = None,
    synthetic: options.Synthetic = None,
    sticky: options.Sticky = 0.8,
    informative: options.Informative = 0.25,
    mean_length: options.MeanLength = None,
    edge_attributes: options.EdgeAttributes = 0,
    seed: options.Seed = 0,
    weights: Annotated[
        Weights | None,
        typer.Option(help="The weights: true ones of a synthetic chain (the default there), random, or zero."),
    ] = None,
    trained: Annotated[
        Path | None, typer.Option("--model", metavar="MODEL", help="Take the weights of this model.")
    ] = None,
    engine: options.EngineName = "stream",
    threads: options.Threads = 1,
    memory: options.Memory = None,
    tolerance: options.Tolerance = 1e-12,
    block: Annotated[int | None, typer.Option(help="Positions in a block; chosen by the engine unless given.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the gradient there, as a .npy array.")
    ] = None,
    token: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The chain is the next piece of a longer one: go on from FILE, if it is there."
        ),
    ] = None,
    last: Annotated[
        bool, typer.Option("--last", help="It is the last piece: print the gradient of all; FILE stays as it is.")
    ] = False,
    continues: Annotated[
        bool, typer.Option("--continues", help="It goes on with the last sequence of the piece before.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Compute log Z and the exact gradient of a chain with one engine.

    Example: chainfold gradient --synthetic 1000000:5:100:8 --engine stream
    """
    size = options.parse_size(memory)
    _check_pieces(token, last, continues, trained, engine, output)
    options.hold([output, token], data, trained)
    source = options.open_source(data, synthetic, sticky, informative, mean_length, edge_attributes, seed)
    if trained is None:
        model = _model(source, weights, seed)
    else:
        model, source = _opened(trained, source, weights)
    positions = source.positions
    if token is None:
        found, seconds = _timed(model, source, engine, threads, size, tolerance, block)
    else:
        settings = {"memory": size, "tolerance": tolerance, "block": block}
        pieces, seconds = _next_piece(model, source, token, continues, settings)
        positions = pieces.positions
        if not last:
            pieces.save(token)
            _show_token(token, positions, seconds, as_json)
            return
        found = pieces.finish()
    result = found.gradient
    if output is not None:
        from numpy import save

        if result is None:
            raise ChainfoldError("labels are unknown, so there is no gradient to write; leave out --output.")
        with written_whole(output) as file:
            save(file, result, allow_pickle=False)
    facts = {
        "engine": found.engine,
        "positions": positions,
        "labels": source.n_labels,
        "weights": model.layout.size,
        "log_z": found.log_z,
        "log_likelihood": found.log_likelihood,
        "gradient_norm": None if result is None else float((result**2).sum() ** 0.5),
        "gradient_sha256": None if result is None else hashlib.sha256(result.astype("<f8").tobytes()).hexdigest(),
        "seconds": seconds,
        "nanoseconds_per_position": seconds / source.positions * 1e9,
        "peak_rss_mb": resident() / 1e6,
        "threads": threads if found.engine == "parallel" else 1,
        "tolerance": tolerance,
        **vars(found.report),
    }
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show(facts)


def _model(source: Source, weights: Weights | None, seed: int) -> Model:
    from chainfold.chain.block import vocabulary_of
    from chainfold.chain.synthetic import SyntheticChain
    from chainfold.model.layout import Layout
    from chainfold.model.model import Model

    if source.n_labels == 0:
        raise ChainfoldError("the chain has no labels, so there is no gradient; encode it with its labels.")
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
    """A model, and the chain with its numbers."""
    from chainfold.model.file import open_model

    if weights is not None:
        raise ChainfoldError("a model has its own weights: give --model or --weights, not both.")
    model = open_model(path)
    return model, model.aligned(source, labels_needed=source.labelled)


def _check_pieces(
    token: Path | None,
    last: bool,
    continues: bool,
    trained: Path | None,
    engine: str,
    output: Path | None,
) -> None:
    """Raise, before any work is done, unless the options for pieces go together."""
    if token is None:
        if last or continues:
            raise ChainfoldError("--last and --continues are said of a piece; name the file between them by --token.")
        return
    if trained is None:
        raise ChainfoldError("all pieces need the same weights; give them by --model.")
    if engine != "stream":
        raise ChainfoldError(f"engine {engine!r} needs the whole chain at once; with --token take --engine stream.")
    if output is not None and not last:
        raise ChainfoldError("there is no gradient to write before the last piece; leave out --output, or give --last.")
    if last and not token.exists():
        raise ChainfoldError(f"{token}: there is no such file; a chain in one piece needs no --token.")


def _next_piece(
    model: Model, source: Source, token: Path, continues: bool, settings: dict[str, Any]
) -> tuple[PiecewiseGradient, float]:
    """The pieces so far and this one, which must be worked through as they were; and the time it took."""
    from chainfold.engines.resumable import PiecewiseGradient

    with _bar("stream", source.positions) as advance:
        if token.exists():
            pieces = PiecewiseGradient.load(token, model, advance)
        else:
            pieces = PiecewiseGradient(model, **settings, progress=advance)
        for name, value in settings.items():
            begun = getattr(pieces.settings, name)
            if value != begun:
                raise ChainfoldError(f"{token}: was begun with {name} {begun}, not {value}; give all pieces the same.")
        begin = time.perf_counter()
        pieces.add(source, continues=continues)
        return pieces, time.perf_counter() - begin


def _show_token(token: Path, positions: int, seconds: float, as_json: bool) -> None:
    size = token.stat().st_size
    if as_json:
        facts = {"token": str(token), "positions": positions, "bytes": size, "seconds": seconds}
        typer.echo(json.dumps(facts))
        return
    rows = [("positions so far", f"{positions:,}"), ("size", f"{size / 1e6:,.3f} MB"), ("seconds", f"{seconds:.3f}")]
    console().print(table((), rows, f"resume token {token}"))


def _timed(
    model: Model,
    source: Source,
    engine: str,
    threads: int,
    memory: int | None,
    tolerance: float,
    block: int | None,
) -> tuple[Evaluation, float]:
    from chainfold.chain.chain import gather
    from chainfold.engines.log_likelihood import log_likelihood

    terminal = console(stderr=True)
    with terminal.status("compiling …") if terminal.is_terminal else nullcontext():
        unmasked = replace(model, first=None, last=None)  # no sequence need end where these two positions do
        log_likelihood(unmasked, gather(source, positions=2), engine, threads=threads, block=1)
    with _bar(engine, source.positions) as advance:
        begin = time.perf_counter()
        found = log_likelihood(
            model,
            source,
            engine,
            threads=threads,
            memory=memory,
            tolerance=tolerance,
            block=block,
            progress=advance,
        )
        return found, time.perf_counter() - begin


@contextmanager
def _bar(engine: str, positions: int) -> Iterator[Callable[[int], None]]:
    """A bar of so many positions on a terminal, to be told how many have just been done."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:>13,.0f} / {task.total:,.0f} positions"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    terminal = console(stderr=True)
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        task = progress.add_task(engine, total=positions)
        yield lambda done: progress.advance(task, done)


def _show(facts: dict[str, Any]) -> None:
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
        ("a position", f"{facts['nanoseconds_per_position']:,.0f} ns"),
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
        rows.append(("cuts that did not hold", f"{facts['in_order']:,}"))
    if facts["wide_blocks"]:
        rows.append(("blocks in wide numbers", f"{facts['wide_blocks']:,}"))
    console().print(table((), rows, f"gradient by {facts['engine']}"))
