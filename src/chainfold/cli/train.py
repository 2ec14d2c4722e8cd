"""`chainfold train`: raw files, or a chain, to a model."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.cluster import Cluster, joined_cluster
from chainfold.cli.console import complain, console, report
from chainfold.cli.input_options import INPUT, Inputs, check_raw
from chainfold.cli.parameters import Group, grouped
from chainfold.cli.progress import Bar, bar, live_table
from chainfold.cli.training_options import (
    ALGORITHM,
    ALGORITHM_SETTINGS,
    RUN,
    ModelOutput,
    RunOptions,
    beside,
    check_model_output,
)
from chainfold.errors import BadFile, ChainfoldError
from chainfold.system import signals
from chainfold.system.machine import resident
from chainfold.system.outputs import STANDARD, check_outputs

if TYPE_CHECKING:
    from distributed import Client

    from chainfold.chain.block import Source
    from chainfold.chain.vocabulary import Vocabulary
    from chainfold.model.model import Model
    from chainfold.readers.progress import InputProgress
    from chainfold.training.loop import Development, IterationReport, Training


_ENGINE = "Engine"
_HEADINGS = ("iteration", "objective", "‖gradient‖", "‖weights‖", "non-zero", "development", "seconds")

StartModel = Annotated[
    Path | None,
    typer.Option("--model", metavar="MODEL", help="Begin with the weights of this model, where the names agree."),
]


@dataclass(frozen=True)
class _DevelopmentOptions:
    dev: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INPUT",
            help="A development set: stop when its score no longer improves, and keep the best weights.",
        ),
    ] = None
    dev_report: Annotated[
        bool,
        typer.Option("--dev-report", help="Only report the scores on --dev: they do not stop training."),
    ] = False
    patience: Annotated[
        int,
        typer.Option(
            metavar="K",
            help="Iterations without a better score on --dev before stopping; counted once a score is above that of "
            "the initial weights.",
        ),
    ] = 10

    def check(self) -> None:
        from chainfold.readers.inputs import Inputs as Opened

        if self.dev_report and self.dev is None:
            raise ChainfoldError("--dev-report requires --dev.")
        if self.dev is not None:
            Opened(self.dev)  # raises if there is no such file

    def open(self, source: Source, spec: dict[str, Any], progress: InputProgress) -> Development | None:
        """The development set in memory, with the numbers of the training set."""
        from chainfold.features.for_model import blocks_for_model
        from chainfold.features.spec import READING
        from chainfold.training.loop import Development

        if self.dev is None:
            return None
        same = {name: value for name, value in spec.items() if name in READING}
        known = blocks_for_model(self.dev, _vocabulary(source, self.dev), labels=True, progress=progress, **same)
        return replace(Development.of_blocks(known, source), unseen=known.unseen)


@dataclass(frozen=True)
class _ModelOptions:
    algorithm: Annotated[
        str,
        typer.Option(
            metavar="A",
            help="lbfgs, sgd (or l2sgd), adagrad, adam, ap (averaged perceptron), pa (passive-aggressive) or arow.",
            rich_help_panel=ALGORITHM,
        ),
    ] = "lbfgs"
    all_states: Annotated[
        bool,
        typer.Option("--all-states", help="A weight for every attribute with every label.", rich_help_panel=ALGORITHM),
    ] = False
    all_transitions: Annotated[
        bool,
        typer.Option(
            "--all-transitions/--observed-transitions",
            help="A weight for every transition, or only for those that occur.",
            rich_help_panel=ALGORITHM,
        ),
    ] = True

    def training(self, settings: dict[str, Any], development: _DevelopmentOptions) -> Training:
        from chainfold.training.loop import Training

        return Training(
            self.algorithm,
            settings,
            all_possible_states=self.all_states,
            all_possible_transitions=self.all_transitions,
            patience=development.patience,
            early_stopping=not development.dev_report,
        )


@dataclass(frozen=True)
class _EngineOptions:
    engine: Annotated[
        str, typer.Option(metavar="E", help="The engine of lbfgs (docs/python.md lists them).", rich_help_panel=_ENGINE)
    ] = "parallel"
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="Number of threads; the model does not depend on it. Default: the number of cores.",
            rich_help_panel=_ENGINE,
        ),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Working memory allowed besides the model, for instance 256MB.",
            rich_help_panel=_ENGINE,
        ),
    ] = None

    def settings(self) -> dict[str, Any]:
        """Arguments of `training.loop.train`, checked."""
        from chainfold.engines.registry import engine_named
        from chainfold.engines.settings import Settings
        from chainfold.system.machine import cores

        engine_named(self.engine)
        threads, memory = cores() if self.threads is None else self.threads, options.parse_size(self.memory)
        Settings(threads=threads, memory=memory)
        return {"engine": self.engine, "threads": threads, "memory": memory}


@grouped(
    development=Group.of(_DevelopmentOptions),
    spec=INPUT.without("labels"),
    kind=Group.of(_ModelOptions),
    settings=ALGORITHM_SETTINGS,
    constraints=options.CONSTRAINTS,
    engine=Group.of(_EngineOptions),
    run=RUN,
)
def train(
    inputs: Inputs,
    output: ModelOutput,
    development: _DevelopmentOptions,
    spec: dict[str, Any],
    kind: _ModelOptions,
    settings: dict[str, Any],
    constraints: options.ConstraintOptions,
    engine: _EngineOptions,
    run: RunOptions,
    start: StartModel = None,
    cluster: Cluster = None,
    as_json: options.Json = False,
) -> None:
    """Train a model, from raw files or on an encoded chain.

    The encoded input is kept in MODEL.chain, and reused while inputs and options
    stay the same; an unfinished run is kept in MODEL.run. A cluster encodes it
    anew, into MODEL.parts; its run can be continued on one machine, and back.

    Example: chainfold train train.txt.gz --columns word,pos,chunk --attributes "word[-1] word pos" -o chunks.model
    """
    from chainfold.exchange.any_model import open_any_model
    from chainfold.model.file import save_model
    from chainfold.training.loop import Interrupted, Saving

    begin = time.perf_counter()
    check_model_output(output)
    cache, state = beside(output, "chain"), beside(output, "run")
    options.hold([output, state], inputs, development.dev, spec.get("template"))
    check_outputs([state, cache, STANDARD], [development.dev, start])  # a model may be trained further in its own place
    development.check()
    constraints.check()
    training, saving = kind.training(settings, development), Saving(state, run.every, run.resume)
    how: dict[str, Any] = {"saving": saving, **engine.settings()}
    run.check(state)
    how["start"] = None if start is None else open_any_model(start)
    client = None if cluster is None else _joined(cluster, training, engine)
    with bar() as shown:
        progress = shown.reading()
        source = _source(inputs, cache, spec, progress, client)
        _check_labels(source, inputs)
        how["dev"] = development.open(source, spec, progress)
    how["constraints"] = constraints.of(_vocabulary(source, inputs))
    if run.fresh:
        state.unlink(missing_ok=True)
    try:
        model = _trained(source, training, run.verbose, client, **how)
    except Interrupted as interrupted:
        complain(interrupted)
        raise typer.Exit(signals.exit_code()) from None
    save_model(output, model)
    state.unlink(missing_ok=True)
    facts = _facts(output, model, source, time.perf_counter() - begin)
    report(facts, _rows(facts), facts["model"], as_json)


def _joined(cluster: str, training: Training, engine: _EngineOptions) -> Client:
    """The cluster, if it can do what was asked for."""
    from chainfold.dask.training import check_algorithm

    check_algorithm(training.algorithm)
    if engine.engine != "parallel":
        raise ChainfoldError(f"--cluster requires --engine parallel, not {engine.engine}.")
    return options.entered(joined_cluster(cluster))


def _trained(source: Source, training: Training, verbose: bool, client: Client | None, **how: Any) -> Model:
    """Train, with a table of the iterations over a bar of the positions that are evaluated."""
    from chainfold.training.loop import train as run_training

    total = source.positions if training.algorithm == "lbfgs" else None
    foot = Bar(console(stderr=True), "training", total, hidden=False)
    if client is not None:
        from chainfold.dask.passes import ClusterPasses

        how["passes"] = ClusterPasses(client, source, memory=how["memory"], progress=foot.advance)
    with live_table(_HEADINGS, verbose, lambda: foot.bars) as shown:
        saved = "saving after this step; Ctrl-C again stops at once."
        with signals.interruptible(lambda: shown.notice(saved)) as stop:
            return run_training(
                source,
                training,
                report=lambda progress: shown.add(*_row(progress)),
                stop=stop,
                positions=foot.advance,
                **how,
            )


def _source(
    inputs: list[str], cache: Path, spec: dict[str, Any], progress: InputProgress, client: Client | None
) -> Source:
    """The chain that the inputs are, or the one that they are encoded into; by a cluster, in parts."""
    from chainfold.chain.any_chain import is_chain, open_chain
    from chainfold.features.cache import encoded

    if is_chain(inputs):
        check_raw(inputs[0], spec)
        return open_chain(inputs[0])
    if client is not None:
        from chainfold.dask.encoding import encode

        return encode(client, inputs, cache.with_suffix(".parts"), progress=progress, **spec)
    return encoded(inputs, cache, progress=progress, **spec)


def _vocabulary(source: Source, inputs: list[str]) -> Vocabulary:
    from chainfold.chain.block import vocabulary_of

    vocabulary = vocabulary_of(source)
    if vocabulary is None:
        raise BadFile(inputs[0], "the chain has no names for its labels and attributes; encode it from files.")
    return vocabulary


def _check_labels(source: Source, inputs: list[str]) -> None:
    """A single label is most probably a column that was read wrongly."""
    from chainfold.training.loop import only_label

    vocabulary = _vocabulary(source, inputs)
    if len(vocabulary.labels) == 1 and source.labelled:
        column = "" if vocabulary.label is None else f" in column {vocabulary.label!r}"
        remedy = "name the column of labels with --label, or the format with --format"
        raise BadFile(inputs[0], f"{only_label(vocabulary)}{column}, so there is nothing to learn; {remedy}.")


def _row(progress: IterationReport) -> tuple[str, ...]:
    """The cells of an iteration."""
    step = progress.step
    score = "" if progress.dev is None else f"{progress.dev:.2%}{' *' if progress.best else ''}"
    gradient = "" if math.isnan(step.gradient_norm) else f"{step.gradient_norm:,.4g}"
    norms = gradient, f"{step.point_norm:,.4g}"
    return f"{step.iteration}", f"{step.value:,.4f}", *norms, f"{step.active:,}", score, f"{progress.seconds:,.1f}"


def _facts(output: Path, model: Model, source: Source, seconds: float) -> dict[str, Any]:
    import numpy as np

    record = model.training
    best, scores = record.get("best_iteration"), record.get("development") or [None]
    return {
        "model": str(output),
        "bytes": output.stat().st_size,
        "algorithm": record["algorithm"],
        "iterations": record["iterations"],
        "finished": record["finished"],
        "objective": record["objective"][-1] if record["objective"] else None,
        "best_iteration": best,
        "development": scores[-1 if best is None else best - 1],
        "positions": source.positions,
        "labels": model.layout.n_labels,
        "attributes": model.layout.n_attributes,
        "weights": model.layout.size,
        "active_weights": int(np.count_nonzero(model.weights[model.weights > -np.inf])),
        "seconds": seconds,
        "peak_rss_mb": resident() / 1e6,
    }


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts as a table."""
    rows = [
        ("algorithm", facts["algorithm"]),
        ("iterations", f"{facts['iterations']:,}"),
        ("finished", facts["finished"]),
        ("objective", "" if facts["objective"] is None else f"{facts['objective']:,.6f}"),
        ("positions", f"{facts['positions']:,}"),
        ("labels", f"{facts['labels']:,}"),
        ("attributes", f"{facts['attributes']:,}"),
        ("weights (non-zero)", f"{facts['weights']:,} ({facts['active_weights']:,})"),
        ("size", f"{facts['bytes'] / 1e6:,.2f} MB"),
        ("seconds", f"{facts['seconds']:,.2f}"),
        ("peak memory", f"{facts['peak_rss_mb']:,.0f} MB"),
    ]
    if facts["best_iteration"] is not None:
        score = f"{facts['development']:.2%} in iteration {facts['best_iteration']}"
        rows.insert(4, ("best on the development set", score))
    elif facts["development"] is not None:
        rows.insert(4, ("on the development set", f"{facts['development']:.2%}"))
    return rows
