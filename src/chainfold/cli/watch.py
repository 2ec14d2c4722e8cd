"""`chainfold watch`: a stream as a model sees it, live in the terminal, and alarms as lines or JSON."""

from __future__ import annotations

import json
import math
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.console import console, counted, notice, percent, say
from chainfold.cli.input_options import FOR_MODEL, ModelFile, check_for_model
from chainfold.cli.parameters import Group, grouped, in_flags
from chainfold.cli.watch_screen import summary, view
from chainfold.system import signals
from chainfold.system.outputs import STANDARD

if TYPE_CHECKING:
    from chainfold.chain.block import KnownBlock
    from chainfold.chain.vocabulary import Vocabulary
    from chainfold.inference.monitor import Alarm, Monitor
    from chainfold.model.model import Model
    from chainfold.readers.live import OnError

_TICK = 0.25  # seconds between two updates
_MOST_NAMED = 5  # labels in a line

Every = tuple[int | None, float | None]  # rows, or seconds, between two reports of the status


StreamInput = Annotated[
    str, typer.Argument(metavar="INPUT", help="A file, - for standard input, or a chain made by encode.")
]


@dataclass(frozen=True)
class _Options:
    window: Annotated[int, typer.Option(metavar="ROWS", help="Number of rows in a window.")] = 1000
    alarm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help="NAME>NUMBER or NAME<NUMBER: a label (its probability), share(LABEL) of the last window, surprise or "
            "entropy. May be repeated.",
        ),
    ] = None
    max_lag: Annotated[
        int | None, typer.Option(metavar="K", help="A row waits for at most K later rows. Default: no limit.")
    ] = None
    memory: options.Memory = None
    every: Annotated[
        str,
        typer.Option(metavar="K", help="Report the status after K rows, or a time: 30s, 5m, 1h; not on a terminal."),
    ] = "10s"
    follow: Annotated[bool, typer.Option("--follow", help="At the end of a file, wait for more.")] = False
    on_error: options.OnErrorText = None

    def open(self, model: Model) -> Monitor:
        from chainfold.inference.monitor import Monitor

        memory = options.parse_size(self.memory)
        return Monitor(model, window=self.window, alarms=self.alarm or [], max_lag=self.max_lag, memory=memory)


@grouped(watching=Group.of(_Options), constraints=options.CONSTRAINTS, spec=FOR_MODEL)
def watch(
    model: ModelFile,
    source: StreamInput,
    watching: _Options,
    constraints: options.ConstraintOptions,
    spec: dict[str, Any],
    as_json: options.Json = False,
) -> None:
    """Monitor a stream: label shares, entropy and surprise as they change, and alarms.

    A terminal shows the current values. Elsewhere each alarm is a line when it is
    raised and a line when it is over; the status goes to standard error, or with
    --json to standard output like the alarms. A summary of the whole stream comes
    at its end, or after Ctrl-C.

    Example: chainfold watch chunks.model test.txt --alarm "B-NP>0.9" --alarm "surprise>5"
    """
    from chainfold.model.model import vocabulary_of_model

    every = options.parse_interval("every", watching.every, "rows")
    options.hold([], source, model)
    check_for_model(source, spec)
    opened = constraints.opened(model)
    monitor = watching.open(opened)
    with signals.interruptible() as stop, _shown(monitor, model, source, as_json, every) as shown:
        on_error = options.parse_on_error(watching.on_error)
        rows = blocks(source, vocabulary_of_model(opened), watching.follow, on_error, shown.notice, **spec)
        shown.tick()
        for block in _with_pauses(rows):
            if block is not None:
                shown.alarms(monitor.push(*block))
            shown.tick()
            if stop():
                break
        shown.alarms(monitor.end())
        shown.tick(last=True)
    if monitor.positions:
        shown.end(stop())
    if stop():
        raise KeyboardInterrupt


def blocks(
    source: str, vocabulary: Vocabulary, follow: bool, on_error: OnError, notice: Callable[[str], None], **spec: Any
) -> Iterator[KnownBlock]:
    """Yield the rows of an input: of a chain or a file by the block, of anything else as they arrive."""
    from chainfold.chain.any_chain import is_chain
    from chainfold.features.for_model import blocks_for_model
    from chainfold.features.streaming import live_rows
    from chainfold.readers.live import OnError

    if is_chain(source) or (source != STANDARD and not follow and on_error == OnError.STOP):
        yield from blocks_for_model([source], vocabulary, **spec)
    else:
        yield from live_rows(source, vocabulary, follow=follow, on_error=on_error, notice=notice, **spec)


def _with_pauses(stream: Iterable[KnownBlock]) -> Iterator[KnownBlock | None]:
    """Yield the blocks as they arrive, read in a thread, and None while there is none."""
    arrived: queue.Queue[KnownBlock | BaseException | None] = queue.Queue(1)

    def read() -> None:
        try:
            for block in stream:
                arrived.put(block)
            arrived.put(None)
        except BaseException as error:  # raised in the main thread
            arrived.put(error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            block = arrived.get(timeout=_TICK)
        except queue.Empty:
            yield None
            continue
        if block is None:
            return
        if isinstance(block, BaseException):
            raise block
        yield block


# Output


class _Lines:
    """Alarms as lines on standard output, the status on standard error; or both as lines of JSON."""

    def __init__(self, monitor: Monitor, every: Every, as_json: bool) -> None:
        self._monitor, self._every, self._json = monitor, every, as_json
        self._begin = self._then = time.monotonic()
        self._rows = 0  # at the last report

    def alarms(self, alarms: Sequence[Alarm]) -> None:
        """Show alarms that are raised or over."""
        for alarm in alarms:
            over = alarm.rows is not None
            text = f"over after {alarm.rows} rows" if over else f"{alarm.value:.4g}, predicted {alarm.label}"
            if self._json:
                _event("over" if over else "alarm", asdict(alarm))
            else:
                say(f"row {alarm.at}: {alarm.rule}: {text}", err=False)

    def notice(self, text: str) -> None:
        """Show a sentence about the input."""
        notice(text)

    def tick(self, last: bool = False) -> None:
        """Show the status if it is due."""
        now, rows = time.monotonic(), self._monitor.positions
        every_rows, every_seconds = self._every
        due = rows - self._rows >= every_rows if every_rows else now - self._then >= (every_seconds or 0.0)
        if rows and due and not last:
            self._then, self._rows = now, rows
            if self._json:
                _event("status", self._facts())
            else:
                say("; ".join(self._parts()))

    def end(self, interrupted: bool) -> None:
        """Show the summary."""
        if self._json:
            _event("end", self._facts() | {"interrupted": interrupted})
        else:
            summary(self._monitor.status(), self._monitor.labels, console())

    def _parts(self) -> Iterator[str]:
        status = self._monitor.status()
        yield counted(self._rows, "row")
        yield f"{self._rows / max(self._then - self._begin, 1e-9):,.0f} rows/s"
        if status.entropy is not None and status.surprise is not None:
            yield f"entropy {status.entropy:.4g}"
            yield f"surprise {status.surprise:.4g}"
        shares = sorted(zip(status.shares, self._monitor.labels, strict=True), reverse=True)
        yield from (f"{label} {percent(share)}" for share, label in shares[:_MOST_NAMED] if share)

    def _facts(self) -> dict[str, Any]:
        status, labels = self._monitor.status(), self._monitor.labels
        sums = status.quantities
        window = {name: getattr(status, name) for name in ("window", "entropy", "surprise", "accuracy")}
        finite = sums.log_likelihood is not None and math.isfinite(sums.log_likelihood)
        return {
            "rows": sums.positions,
            "sequences": sums.sequences,
            "waiting": status.waiting,
            "unproven": sums.unproven,
            "seconds": time.monotonic() - self._begin,
            **window,
            "shares": dict(zip(labels, status.shares.tolist(), strict=True)),
            "stream": {
                "log_likelihood": sums.log_likelihood if finite else None,
                "entropy": sums.entropy,
                "accuracy": status.accuracy_of_all,
                "labels": dict(zip(labels, sums.labels.tolist(), strict=True)),
            },
            "raised": status.raised,
            "on": [alarm.rule for alarm in status.on],
        }


def _event(name: str, facts: dict[str, Any]) -> None:
    typer.echo(json.dumps({"event": name} | facts, allow_nan=False))


class _Screen:
    """The state of the stream on the terminal, with its alarms and the last notice."""

    def __init__(self, monitor: Monitor, title: str) -> None:
        from rich.live import Live

        self._monitor, self._title, self._notice = monitor, title, ""
        self._console = console()
        self.live = Live(console=self._console, auto_refresh=False)
        self._begin, self._then = time.monotonic(), 0.0

    def alarms(self, alarms: Sequence[Alarm]) -> None:
        """The view shows them."""

    def notice(self, text: str) -> None:
        self._notice = in_flags(text)

    def tick(self, last: bool = False) -> None:
        now, monitor = time.monotonic(), self._monitor
        if last or now - self._then >= _TICK:
            self._then, height = now, self._console.height
            seen = view(monitor.status(), monitor.labels, self._title, now - self._begin, self._notice, height)
            self.live.update(seen, refresh=True)

    def end(self, interrupted: bool) -> None:
        self._console.print()
        summary(self._monitor.status(), self._monitor.labels, self._console)


@contextmanager
def _shown(monitor: Monitor, model: Path, source: str, as_json: bool, every: Every) -> Iterator[_Lines | _Screen]:
    if as_json or sys.stdout is None or not sys.stdout.isatty():
        yield _Lines(monitor, every, as_json)
        return
    screen = _Screen(monitor, f"{model.name} on {'standard input' if source == STANDARD else Path(source).name}")
    with screen.live:
        yield screen
