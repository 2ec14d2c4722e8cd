"""`chainfold train`: raw files, or a chain, to a model."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli import input_options as reading
from chainfold.cli import options
from chainfold.cli.console import console, say, table
from chainfold.cli.interrupt import interruptible
from chainfold.cli.progress import watched
from chainfold.errors import BadFile, ChainfoldError
from chainfold.escape import visible
from chainfold.system import signals as stopping
from chainfold.system.machine import resident
from chainfold.system.outputs import STANDARD, check_outputs

if TYPE_CHECKING:
    from chainfold.chain.block import Source
    from chainfold.chain.vocabulary import Vocabulary
    from chainfold.features.encode import Options
    from chainfold.model.constraints import Constraints
    from chainfold.model.model import Model
    from chainfold.training.loop import Development, Every, Progress

_ALGORITHM, _STEPS, _ONLINE, _RUN = "The algorithm", "Its steps", "Learning as it arrives", "The run"
_ROWS = 12  # iterations in the live table


def train(
    inputs: reading.Inputs,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The model to write.")],
    dev: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INPUT",
            help="A development set: stop when it is tagged no better any more, and keep the best weights.",
        ),
    ] = None,
    dev_report: Annotated[
        bool,
        typer.Option(
            "--dev-report", help="Only show the scores on --dev: they neither stop training nor choose the weights."
        ),
    ] = False,
    start: Annotated[
        Path | None,
        typer.Option("--model", metavar="MODEL", help="Begin with the weights of this model, where the names agree."),
    ] = None,
    form: reading.Form = None,
    columns: reading.Columns = None,
    symbols: reading.Symbols = None,
    header: reading.Header = None,
    encoding: reading.TextEncoding = "utf-8",
    unknown: reading.Unknown = None,
    comments: reading.Comments = None,
    group: reading.Group = None,
    groups_return: reading.GroupsReturn = False,
    one_sequence: reading.OneSequence = False,
    label: reading.Label = None,
    weight: reading.Weight = None,
    template: reading.Template = None,
    attributes: reading.Attributes = None,
    border: reading.Border = None,
    numbers: reading.Numbers = None,
    min_count: reading.MinCount = 1,
    hash_bits: reading.HashBits = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            metavar="A",
            help="lbfgs, sgd (or l2sgd), adagrad, adam, ap (averaged perceptron), pa (passive-aggressive) or arow; "
            "lbfgs unless given.",
            rich_help_panel=_ALGORITHM,
        ),
    ] = None,
    c1: Annotated[
        float | None, typer.Option(help="Weight of the L1 penalty c1·‖w‖₁ (lbfgs); 0.", rich_help_panel=_ALGORITHM)
    ] = None,
    c2: Annotated[
        float | None,
        typer.Option(
            help="Weight of the L2 penalty c2·‖w‖² (lbfgs, sgd, adagrad, adam); 1.", rich_help_panel=_ALGORITHM
        ),
    ] = None,
    max_iterations: Annotated[
        int | None,
        typer.Option(
            metavar="K", help="At most so many iterations, or epochs; lbfgs has no limit.", rich_help_panel=_ALGORITHM
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the order of batches and sequences; 0.", rich_help_panel=_ALGORITHM)
    ] = None,
    all_states: Annotated[
        bool,
        typer.Option("--all-states", help="A weight for every attribute with every label.", rich_help_panel=_ALGORITHM),
    ] = False,
    all_transitions: Annotated[
        bool,
        typer.Option(
            "--all-transitions/--observed-transitions",
            help="A weight for every two labels, or only for those that follow one another.",
            rich_help_panel=_ALGORITHM,
        ),
    ] = True,
    epsilon: Annotated[
        float | None, typer.Option(help="Stop when the gradient, or the loss, is so small.", rich_help_panel=_STEPS)
    ] = None,
    period: Annotated[
        int | None, typer.Option(help="Iterations over which --delta is measured; 10.", rich_help_panel=_STEPS)
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="Stop when the objective falls by less than this share; 1e-5.", rich_help_panel=_STEPS),
    ] = None,
    num_memories: Annotated[
        int | None, typer.Option(help="Steps that lbfgs remembers; 6.", rich_help_panel=_STEPS)
    ] = None,
    linesearch: Annotated[
        str | None,
        typer.Option(help="MoreThuente, Backtracking or StrongBacktracking (lbfgs).", rich_help_panel=_STEPS),
    ] = None,
    max_linesearch: Annotated[
        int | None, typer.Option(help="Evaluations in a line search (lbfgs); 20.", rich_help_panel=_STEPS)
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Learning rate (sgd, adagrad, adam).", rich_help_panel=_STEPS)
    ] = None,
    decay: Annotated[
        float | None, typer.Option(help="How the rate falls with the epochs.", rich_help_panel=_STEPS)
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(metavar="K", help="Positions in a batch (sgd, adagrad, adam); 256.", rich_help_panel=_STEPS),
    ] = None,
    pa_type: Annotated[
        int | None, typer.Option("--type", help="Of pa: 0, 1 (bounded by --c) or 2 (softened).", rich_help_panel=_STEPS)
    ] = None,
    c: Annotated[float | None, typer.Option("--c", help="Aggressiveness of pa; 1.", rich_help_panel=_STEPS)] = None,
    error_sensitive: Annotated[
        bool | None,
        typer.Option(
            "--error-sensitive/--no-error-sensitive", help="pa: more errors, larger steps.", rich_help_panel=_STEPS
        ),
    ] = None,
    averaging: Annotated[
        bool | None,
        typer.Option("--averaging/--no-averaging", help="Average the weights (ap, pa).", rich_help_panel=_STEPS),
    ] = None,
    variance: Annotated[
        float | None, typer.Option(help="Initial variance of a weight (arow); 1.", rich_help_panel=_STEPS)
    ] = None,
    gamma: Annotated[
        float | None, typer.Option(help="The larger, the smaller the steps (arow); 1.", rich_help_panel=_STEPS)
    ] = None,
    longest: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="Cut sequences into pieces of so many positions (ap, pa, arow); 4096.",
            rich_help_panel=_STEPS,
        ),
    ] = None,
    online: Annotated[
        bool,
        typer.Option(
            "--online",
            help="Learn from the input as it arrives, once, in constant memory (adagrad).",
            rich_help_panel=_ONLINE,
        ),
    ] = False,
    forget: Annotated[
        float | None,
        typer.Option(
            metavar="H",
            help="Positions after which a gradient counts half in AdaGrad's sums, so that drift is followed.",
            rich_help_panel=_ONLINE,
        ),
    ] = None,
    prequential: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write there how well each 10,000 positions were tagged before they were learnt from, as CSV.",
            rich_help_panel=_ONLINE,
        ),
    ] = None,
    scheme: reading.Scheme = None,
    forbid: reading.Forbid = None,
    allow: reading.Allow = None,
    patience: Annotated[
        int,
        typer.Option(
            metavar="K",
            help="Iterations without a better score on --dev before stopping, once one was above that of the start.",
            rich_help_panel=_RUN,
        ),
    ] = 10,
    engine: Annotated[
        str,
        typer.Option(metavar="E", help="One of `chainfold engines`, for lbfgs.", rich_help_panel=_RUN),
    ] = "parallel",
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="K", help="As many as there are cores unless given; they change no bit.", rich_help_panel=_RUN
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Working memory allowed beside the model, for instance 256MB.", rich_help_panel=_RUN
        ),
    ] = None,
    save_every: Annotated[
        str,
        typer.Option(
            metavar="K",
            help="Save the unfinished run so often: iterations, or for instance 30s, 5m, 1h.",
            rich_help_panel=_RUN,
        ),
    ] = "1m",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run that was saved.", rich_help_panel=_RUN)
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew, whatever was saved.", rich_help_panel=_RUN)
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="One line an iteration on standard error.", rich_help_panel=_RUN)
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Train a model, straight from raw files or on a chain encoded before.

    What is encoded on the way is kept in MODEL.chain, and used again while the
    inputs and options stay as they are; an unfinished run is kept in MODEL.run.

    Example: chainfold train train.txt.gz --columns word,pos,chunk --attributes "word[-1] word pos" -o chunks.model
    """
    from chainfold.features.encode import Options
    from chainfold.model.file import open_model, save_model
    from chainfold.system.machine import cores
    from chainfold.training.loop import Interrupted, Saving, Training
    from chainfold.training.loop import train as run_training

    begin = time.perf_counter()
    given = {
        "c1": c1,
        "c2": c2,
        "max_iterations": max_iterations,
        "seed": seed,
        "epsilon": epsilon,
        "period": period,
        "delta": delta,
        "num_memories": num_memories,
        "linesearch": linesearch,
        "max_linesearch": max_linesearch,
        "rate": rate,
        "decay": decay,
        "batch": batch,
        "type": pa_type,
        "c": c,
        "error_sensitive": error_sensitive,
        "averaging": averaging,
        "variance": variance,
        "gamma": gamma,
        "longest": longest,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    how = Options(
        format=form,
        columns=reading.names(columns),
        symbols=reading.names(symbols) or [],
        header=header,
        encoding=encoding,
        unknown=unknown,
        comments=comments,
        group=group,
        groups_return=groups_return or None,
        one_sequence=one_sequence,
        label=label,
        weight=weight,
        template=template,
        attributes=attributes,
        border=border,
        numbers=numbers,
        min_count=min_count,
        hash_bits=hash_bits,
    )
    if str(output) == STANDARD:
        raise BadFile(output, "a model cannot go to standard output; name a file.")
    check_outputs([output], [])  # it has a name, to which others are like
    cache, state, journal = (_beside(output, what) for what in ("chain", "run", "journal"))
    options.hold([output, state, journal if online else None, prequential], inputs, dev, template)
    check_outputs([state, cache], [dev, start])  # a model may be trained further in its own place
    if online:
        from chainfold.chain.stored import is_chain
        from chainfold.cli.learn import learn

        _check_state(state, resume, fresh)
        if is_chain(inputs):
            _check_encoded(inputs[0], how)
        pointless = {
            "dev": dev,
            "dev-report": dev_report,
            "model": start,
            "weight": weight,
            "min-count": min_count > 1,
            "all-states": all_states,
            "observed-transitions": not all_transitions,
            "scheme": scheme,
            "forbid": forbid,
            "allow": allow,
            "engine": engine != "parallel",
            "memory": memory,
        }
        learn(
            inputs,
            output,
            how,
            algorithm,
            settings if forget is None else {**settings, "forget": forget},
            pointless=[name for name, value in pointless.items() if value],
            every=_every(save_every),
            prequential=prequential,
            resume=resume,
            verbose=verbose,
            as_json=as_json,
        )
        return
    if forget is not None or prequential is not None:
        raise ChainfoldError("--forget and --prequential are for learning as data arrives; give --online as well.")
    if dev_report and dev is None:
        raise ChainfoldError("--dev-report shows the scores on a development set; name one with --dev.")
    training = Training(
        algorithm or "lbfgs",
        settings,
        all_possible_states=all_states,
        all_possible_transitions=all_transitions,
        patience=patience,
        early_stopping=not dev_report,
    )
    every, allowed = _every(save_every), options.parse_size(memory)
    _check_state(state, resume, fresh)
    initial = None if start is None else open_model(start)
    with watched() as progress:
        how["progress"] = progress
        source = _source(inputs, cache, how)
        vocabulary = _vocabulary(source, inputs)
        _check_labels(source, vocabulary, inputs)
        development = None if dev is None else _development(dev, source, how)
    constraints = _constraints(vocabulary, scheme, forbid or [], allow or [])
    if fresh:
        state.unlink(missing_ok=True)
    try:
        total = source.positions if training.algorithm == "lbfgs" else None
        with _shown(total, verbose) as shown, interruptible(shown.stopping) as stop:
            model = run_training(
                source,
                training,
                dev=development,
                start=initial,
                constraints=constraints,
                engine=engine,
                threads=cores() if threads is None else threads,
                memory=allowed,
                saving=Saving(state, every, resume),
                report=shown.iteration,
                stop=stop,
                positions=shown.positions,
            )
    except Interrupted as interrupted:
        say(f"chainfold: {interrupted}")
        raise typer.Exit(stopping.code()) from None
    save_model(output, model)
    state.unlink(missing_ok=True)
    _tell(_facts(output, model, source, time.perf_counter() - begin), as_json)


def _beside(output: Path, what: str) -> Path:
    return output.with_name(f"{output.name}.{what}")


def _check_state(state: Path, resume: bool, fresh: bool) -> None:
    """An unfinished run is not thrown away without a word."""
    if resume and fresh:
        raise ChainfoldError("go on or begin anew: give --resume or --fresh, not both.")
    if state.exists() and not resume and not fresh:
        raise ChainfoldError(f"{state} holds an unfinished run; go on with --resume, or begin anew with --fresh.")
    if resume and not state.exists():
        say("chainfold: there is no unfinished run to go on with; a new one begins.")


def _every(text: str) -> Every:
    """How often to save."""
    from chainfold.training.loop import Every

    return Every(*options.parse_often("save_every", text, "iterations"))


def _source(inputs: list[str], cache: Path, how: Options) -> Source:
    """The chain that the inputs are, or the one that they are encoded into."""
    from chainfold.chain.stored import is_chain, open_chain
    from chainfold.features.cache import encoded

    if is_chain(inputs):
        _check_encoded(inputs[0], how)
        return open_chain(inputs[0])
    return encoded(inputs, cache, **how)


def _check_encoded(path: str, how: Options) -> None:
    """A chain is what it is: no option can make other attributes or labels of it."""
    made = ("template", "attributes", "border", "numbers", "hash_bits", "label", "weight", "one_sequence")
    given = [name for name in made if how.get(name)] + (["min_count"] if how.get("min_count") != 1 else [])
    if given:
        flag = given[0].replace("_", "-")
        raise BadFile(path, f"is a chain, encoded already; --{flag} means nothing to it: leave it out, or encode anew.")


def _vocabulary(source: Source, inputs: list[str]) -> Vocabulary:
    from chainfold.chain.block import vocabulary_of

    vocabulary = vocabulary_of(source)
    if vocabulary is None:
        raise BadFile(inputs[0], "the chain has no names for its labels and attributes; encode it from files.")
    return vocabulary


def _check_labels(source: Source, vocabulary: Vocabulary, inputs: list[str]) -> None:
    """A single label is no model, but most probably a column that was read wrongly."""
    from chainfold.training.loop import only_label

    if len(vocabulary.labels) == 1 and source.labelled:
        column = "" if vocabulary.label is None else f" in column {vocabulary.label!r}"
        remedy = "name the column of labels with --label, or the format with --format"
        raise BadFile(inputs[0], f"{only_label(vocabulary)}{column}, so there is nothing to learn; {remedy}.")


def _development(dev: list[str], source: Source, how: Options) -> Development:
    """The development set with the numbers of the training set, in memory."""
    import numpy as np

    from chainfold.features.for_model import KnownOptions, gathered
    from chainfold.features.inputs_for_model import known_inputs
    from chainfold.training.loop import Development

    keys = KnownOptions.__annotations__.keys() - {"labels", "one_sequence", "weight"}
    same: Any = {name: value for name, value in how.items() if name in keys}
    known = known_inputs(dev, _vocabulary(source, dev), labels=True, **same)
    blocks = list(known)
    return Development(gathered(blocks, source), np.concatenate([one.gold for one in blocks]), known.unseen)


def _constraints(vocabulary: Vocabulary, scheme: str | None, forbid: list[str], allow: list[str]) -> Constraints | None:
    from chainfold.model.constraints import Constraints

    if scheme is None and not forbid and not allow:
        return None
    return Constraints.of(vocabulary.labels, scheme, forbid, allow)


class _Shown:
    """What is seen of a run while it goes on."""

    def __init__(self, verbose: bool, live: Any = None, bar: Any = None, total: int | None = None) -> None:
        self._verbose, self._live, self._bar, self._total = verbose, live, bar, total
        self._rows: list[tuple[str, ...]] = []
        self._done = 0

    def stopping(self) -> None:
        """It was asked to stop, and will where the run can be resumed."""
        self.say("chainfold: saving after this step; Ctrl-C again stops at once.")

    def say(self, text: str) -> None:
        """A line above what is shown."""
        if self._live is None:
            say(text)
        else:
            self._live.console.print(visible(text))

    def positions(self, count: int) -> None:
        """So many more are evaluated; an iteration may need several evaluations."""
        if self._bar is not None and self._total is not None:
            self._done = count + (self._done if self._done < self._total else 0)
            self._bar.update(self._bar.task_ids[0], completed=self._done)

    def iteration(self, progress: Progress) -> None:
        if self._verbose:
            say(_line(progress))
        if self._live is not None:
            self._rows = [*self._rows, _row(progress)][-_ROWS:]
            self._live.update(_live_view(self._rows, self._bar))


@contextmanager
def _shown(total: int | None, verbose: bool) -> Iterator[_Shown]:
    """On a terminal, a table of the last iterations over a bar; `total` positions are evaluated at once, if counted."""
    from rich.live import Live
    from rich.progress import BarColumn, Progress, TextColumn

    terminal = console(stderr=True)
    if not terminal.is_terminal or verbose:
        yield _Shown(verbose)
        return
    counted = () if total is None else (TextColumn("{task.completed:>13,.0f} / {task.total:,.0f} positions"),)
    bar = Progress(TextColumn("training"), BarColumn(), *counted, console=terminal)
    bar.add_task("", total=total)
    with Live(_live_view([], bar), console=terminal, transient=True, refresh_per_second=4) as live:
        yield _Shown(verbose, live, bar, total)


def _live_view(rows: list[tuple[str, ...]], bar: Any) -> Any:
    from rich.console import Group

    headings = ("iteration", "objective", "‖gradient‖", "‖weights‖", "non-zero", "development", "seconds")
    return Group(table(headings, rows), bar) if rows else bar


def _row(progress: Progress) -> tuple[str, ...]:
    step = progress.step
    score = "" if progress.dev is None else f"{progress.dev:.2%}{' *' if progress.best else ''}"
    gradient = "" if math.isnan(step.gradient_norm) else f"{step.gradient_norm:,.4g}"
    return (
        f"{step.iteration}",
        f"{step.value:,.4f}",
        gradient,
        f"{step.point_norm:,.4g}",
        f"{step.active:,}",
        score,
        f"{progress.seconds:,.1f}",
    )


def _line(progress: Progress) -> str:
    names = ("iteration", "objective", "gradient", "weights", "non-zero", "development", "seconds")
    return "  ".join(f"{name} {value}" for name, value in zip(names, _row(progress), strict=True) if value)


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


def _tell(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(facts))
        return
    rows = [
        ("algorithm", facts["algorithm"]),
        ("iterations", f"{facts['iterations']:,}"),
        ("finished", facts["finished"]),
        ("objective", "" if facts["objective"] is None else f"{facts['objective']:,.6f}"),
        ("positions", f"{facts['positions']:,}"),
        ("labels", f"{facts['labels']:,}"),
        ("attributes", f"{facts['attributes']:,}"),
        ("weights, and those that are not zero", f"{facts['weights']:,}, {facts['active_weights']:,}"),
        ("size", f"{facts['bytes'] / 1e6:,.2f} MB"),
        ("seconds", f"{facts['seconds']:,.2f}"),
        ("peak memory", f"{facts['peak_rss_mb']:,.0f} MB"),
    ]
    if facts["best_iteration"] is not None:
        score = f"{facts['development']:.2%} in iteration {facts['best_iteration']}"
        rows.insert(4, ("best on the development set", score))
    elif facts["development"] is not None:
        rows.insert(4, ("on the development set", f"{facts['development']:.2%}"))
    console().print(table((), rows, facts["model"]))
