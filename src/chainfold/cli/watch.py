"""`chainfold watch`: a stream as a model sees it, live in the terminal, and alarms as lines or JSON."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.console import notice, say
from chainfold.cli.input_options import FOR_MODEL, ModelFile, check_for_model
from chainfold.cli.parameters import grouped
from chainfold.system import signals
from chainfold.system.outputs import STANDARD
from chainfold.system.prefetch import read_with_pauses

if TYPE_CHECKING:
    from chainfold.chain.block import KnownBlock
    from chainfold.chain.vocabulary import Vocabulary
    from chainfold.inference.monitor import Alarm, Status
    from chainfold.readers.live import OnError

_TICK = 0.25  # seconds between two updates

StreamInput = Annotated[
    str, typer.Argument(metavar="INPUT", help="A file, - for standard input, or a chain made by encode.")
]
Window = Annotated[int, typer.Option(metavar="ROWS", help="Number of rows in a window.")]
Rules = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RULE",
        help="NAME>NUMBER or NAME<NUMBER: a label (its probability), share(LABEL) of the last window, surprise or "
        "entropy. May be repeated.",
    ),
]
MaxLag = Annotated[
    int | None, typer.Option(metavar="K", help="A row waits for at most K later rows. Default: no limit.")
]
Follow = Annotated[bool, typer.Option("--follow", help="At the end of a file, wait for more.")]


@grouped(constraints=options.CONSTRAINTS, spec=FOR_MODEL)
def watch(
    model: ModelFile,
    source: StreamInput,
    constraints: options.ConstraintOptions,
    spec: dict[str, Any],
    window: Window = 1000,
    alarm: Rules = None,
    max_lag: MaxLag = None,
    follow: Follow = False,
    on_error: options.OnErrorText = None,
    as_json: options.Json = False,
) -> None:
    """Monitor a stream: label shares, entropy and surprise as they change, and alarms.

    A terminal shows the current values. Elsewhere, and with --json, each alarm is
    a line when it is raised and a line when it is over. A summary of the whole
    stream comes at its end, or after Ctrl-C.

    Example: chainfold watch chunks.model test.txt --alarm "B-NP>0.9" --alarm "surprise>5"
    """
    from chainfold.cli.watch_screen import Screen, summary
    from chainfold.inference.monitor import Monitor
    from chainfold.model.model import vocabulary_of_model

    options.hold([], source, model)
    check_for_model(source, spec)
    opened, way, begin = constraints.opened(model), options.parse_on_error(on_error), time.monotonic()
    monitor = Monitor(opened, window=window, alarms=alarm or [], max_lag=max_lag)
    screen = None
    if not as_json and sys.stdout is not None and sys.stdout.isatty():
        screen = Screen(monitor, f"{model.name} on {'standard input' if source == STANDARD else Path(source).name}")
    show = screen.show if screen else _json_lines if as_json else _lines
    with signals.interruptible() as stop, screen or nullcontext():
        for block in read_with_pauses(blocks(source, vocabulary_of_model(opened), follow, way, **spec), _TICK):
            show([] if block is None else monitor.push(block.block, block.ended))
            if stop():
                break
        show(monitor.end())
    status = monitor.status()
    if as_json and status.quantities.positions:
        _event("end", _facts(status, monitor.labels, time.monotonic() - begin) | {"interrupted": stop()})
    elif status.quantities.positions:
        summary(status, monitor.labels)
    if stop():
        raise KeyboardInterrupt


def blocks(source: str, vocabulary: Vocabulary, follow: bool, on_error: OnError, **spec: Any) -> Iterator[KnownBlock]:
    """Yield the rows of an input: of a chain or a file by the block, of anything else as they arrive."""
    from chainfold.chain.any_chain import is_chain
    from chainfold.features.for_model import blocks_for_model
    from chainfold.features.streaming import live_rows
    from chainfold.readers.live import OnError

    if is_chain(source) or (source != STANDARD and not follow and on_error == OnError.STOP):
        yield from blocks_for_model([source], vocabulary, **spec)
    else:
        yield from live_rows(source, vocabulary, follow=follow, on_error=on_error, notice=notice, **spec)


def _lines(alarms: Sequence[Alarm]) -> None:
    """Print a line for each alarm that is raised or over."""
    for alarm in alarms:
        text = f"{alarm.value:.4g}, predicted {alarm.label}"
        if alarm.rows is not None:
            text = f"over after {alarm.rows} rows"
        say(f"row {alarm.at}: {alarm.rule}: {text}", err=False)


def _json_lines(alarms: Sequence[Alarm]) -> None:
    for alarm in alarms:
        _event("alarm" if alarm.rows is None else "over", alarm._asdict())


def _event(name: str, facts: dict[str, Any]) -> None:
    typer.echo(json.dumps({"event": name} | facts, allow_nan=False))


def _facts(status: Status, labels: Sequence[str], seconds: float) -> dict[str, Any]:
    sums, likelihood = status.quantities, status.quantities.log_likelihood
    return {
        "rows": sums.positions,
        "sequences": sums.sequences,
        "unproven": sums.unproven,
        "seconds": seconds,
        "log_likelihood": likelihood if likelihood is not None and math.isfinite(likelihood) else None,
        "entropy": sums.entropy,
        "labels": dict(zip(labels, sums.labels.tolist(), strict=True)),
        "raised": status.raised,
    }
