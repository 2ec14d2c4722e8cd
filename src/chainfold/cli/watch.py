"""`chainfold watch`: a stream as a model sees it, live in the terminal, and alarms as lines or JSON."""

from __future__ import annotations

import json
import math
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from chainfold.cli import options
from chainfold.cli.console import console, counted, notice, percent, say
from chainfold.cli.input_options import FOR_MODEL, ModelFile, check_for_model
from chainfold.cli.parameters import Group, grouped, in_flags
from chainfold.cli.watch_screen import About, summary, surprised_at, view
from chainfold.system import signals
from chainfold.system.outputs import STANDARD

if TYPE_CHECKING:
    from chainfold.chain.block import KnownBlock
    from chainfold.chain.vocabulary import Vocabulary
    from chainfold.inference.monitor import Alarm, Monitor, Status
    from chainfold.model.model import Model
    from chainfold.readers.live import OnError

_TICK = 0.25  # seconds between two updates
_PACE = 20  # ticks over which the speed is measured
_MOST_NAMED = 5  # labels in a line


StreamInput = Annotated[
    str, typer.Argument(metavar="INPUT", help="A file, - for standard input, or a chain made by encode.")
]


@dataclass(frozen=True)
class _MonitorOptions:
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

    def open(self, model: Model) -> Monitor:
        from chainfold.inference.monitor import Monitor

        memory = options.parse_size(self.memory)
        return Monitor(model, window=self.window, alarms=self.alarm or [], max_lag=self.max_lag, memory=memory)


@dataclass(frozen=True)
class _StreamOptions:
    every: Annotated[
        str,
        typer.Option(metavar="K", help="Report the status after K rows, or a time: 30s, 5m, 1h; not on a terminal."),
    ] = "10s"
    follow: Annotated[bool, typer.Option("--follow", help="At the end of a file, wait for more.")] = False
    on_error: options.OnErrorText = None


@grouped(
    monitoring=Group.of(_MonitorOptions),
    stream=Group.of(_StreamOptions),
    constraints=options.CONSTRAINTS,
    spec=FOR_MODEL,
)
def watch(
    model: ModelFile,
    source: StreamInput,
    monitoring: _MonitorOptions,
    stream: _StreamOptions,
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

    every = Every(*options.parse_interval("every", stream.every, "rows"))
    options.hold([], source, model)
    check_for_model(source, spec)
    opened = constraints.opened(model)
    monitor = monitoring.open(opened)
    with signals.interruptible() as stop, _shown(monitor, model, source, as_json, every) as shown:
        on_error = options.parse_on_error(stream.on_error)
        rows = blocks(source, vocabulary_of_model(opened), stream.follow, on_error, shown.notice, **spec)
        shown.tick()
        for block in _with_pauses(every.cut(rows)):
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
    source: str,
    vocabulary: Vocabulary,
    follow: bool,
    on_error: OnError,
    notice: Callable[[str], None],
    **spec: Any,
) -> Iterator[KnownBlock]:
    """The rows of an input with a model's numbers, as they arrive.

    A chain or a file is read by the block; a pipe, a growing file or one with bad lines by the line.
    """
    from chainfold.chain.any_chain import is_chain
    from chainfold.features.for_model import blocks_for_model
    from chainfold.features.streaming import live_rows
    from chainfold.readers.inputs import unreadable
    from chainfold.readers.live import OnError

    if is_chain(source) or (source != STANDARD and not follow and on_error == OnError.STOP):
        yield from blocks_for_model([source], vocabulary, **spec)
        return
    with ExitStack() as stack:
        file: Any = source
        if source != STANDARD and not follow:
            try:
                file = stack.enter_context(Path(source).open("rb"))
            except OSError as error:
                raise unreadable(source, error) from None
        yield from live_rows(file, vocabulary, on_error=on_error, notice=notice, **spec)


class Every(NamedTuple):
    """The interval between two reports of the status."""

    rows: int | None
    seconds: float | None

    def due(self, rows: int, seconds: float) -> bool:
        """Is a report due, this many rows and seconds after the last?"""
        return rows >= self.rows if self.rows is not None else self.seconds is not None and seconds >= self.seconds

    def cut(self, stream: Iterable[KnownBlock]) -> Iterator[KnownBlock]:
        """The same rows in blocks that end where a report is due."""
        done = 0
        for known in stream:
            size, begin = known.gold.size, 0
            while self.rows is not None and size - begin > self.rows - done % self.rows:
                end = begin + self.rows - done % self.rows
                yield known._replace(block=known.block.part(begin, end), gold=known.gold[begin:end], ended=False)
                done, begin = done + end - begin, end
            yield known._replace(block=known.block.part(begin, size), gold=known.gold[begin:]) if begin else known
            done += size - begin


def _with_pauses(stream: Iterable[KnownBlock]) -> Iterator[KnownBlock | None]:
    """The blocks as they arrive, read in a thread; None whenever none has arrived for a while."""
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


class _Pace:
    """Rows per second over the last ticks."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self._seen: deque[tuple[float, int]] = deque([(self.begin, 0)], maxlen=_PACE)

    def at(self, rows: int) -> float:
        now = time.monotonic()
        then, before = self._seen[0]
        self._seen.append((now, rows))
        return (rows - before) / max(now - then, 1e-9)


class _Lines:
    """Alarms as lines on standard output, the status on standard error."""

    def __init__(self, monitor: Monitor, every: Every) -> None:
        self._monitor, self._every = monitor, every
        self._begin = self._then = time.monotonic()
        self._rows = 0

    def alarms(self, alarms: Sequence[Alarm]) -> None:
        for alarm in alarms:
            self._alarm(alarm)

    def notice(self, text: str) -> None:
        """Something about the input."""
        notice(text)

    def tick(self, last: bool = False) -> None:
        now, rows = time.monotonic(), self._monitor.positions
        if rows and not last and self._every.due(rows - self._rows, now - self._then):
            self._status(self._monitor.status(), (rows - self._rows) / max(now - self._then, 1e-9))
            self._then, self._rows = now, rows

    def end(self, interrupted: bool) -> None:
        summary(self._monitor.status(), self._monitor.labels, console())

    def _alarm(self, alarm: Alarm) -> None:
        text = f"{alarm.value:.4g}, predicted {alarm.label}" if alarm.rows is None else f"over after {alarm.rows} rows"
        say(f"row {alarm.at}: {alarm.rule}: {text}", err=False)

    def _status(self, status: Status, rate: float) -> None:
        names = sorted(zip(status.shares, self._monitor.labels, strict=True), reverse=True)
        parts = [counted(status.rows, "row"), f"{rate:,.0f} rows/s", counted(status.quantities.sequences, "sequence")]
        if status.entropy is not None and status.surprise is not None:
            parts += [f"entropy {status.entropy:.4g}", f"surprise {status.surprise:.4g} {surprised_at(status)}"]
            parts += [f"{label} {percent(share)}" for share, label in names[:_MOST_NAMED] if share]
        say("; ".join(parts))


class _Json(_Lines):
    """Alarms, status and summary as lines of JSON on standard output."""

    def end(self, interrupted: bool) -> None:
        status, labels = self._monitor.status(), self._monitor.labels
        sums = status.quantities
        rules = {
            rule: {"raised": count, "rows": status.lasted[rule], "on": any(alarm.rule == rule for alarm in status.on)}
            for rule, count in status.raised.items()
        }
        _event(
            "end",
            interrupted=interrupted,
            rows=sums.positions,
            sequences=sums.sequences,
            unproven=status.unproven,
            seconds=time.monotonic() - self._begin,
            log_likelihood=sums.log_likelihood,
            log_z=sums.log_z,
            entropy=sums.entropy,
            accuracy=status.accuracy_of_all,
            labels=_named(labels, sums.labels),
            segments=_named(labels, sums.segments),
            transitions={label: _named(labels, row) for label, row in zip(labels, sums.transitions, strict=True)},
            alarms=rules,
        )

    def _alarm(self, alarm: Alarm) -> None:
        if alarm.rows is None:
            _event("alarm", rule=alarm.rule, row=alarm.row, value=alarm.value, label=alarm.label)
        else:
            _event("over", rule=alarm.rule, row=alarm.at, since=alarm.row, rows=alarm.rows)

    def _status(self, status: Status, rate: float) -> None:
        sums = status.quantities
        _event(
            "status",
            rows=status.rows,
            rows_per_second=rate,
            sequences=sums.sequences,
            waiting=status.waiting,
            unproven=status.unproven,
            window=status.window,
            shares=_named(self._monitor.labels, status.shares),
            entropy=status.entropy,
            surprise=status.surprise,
            surprise_is=surprised_at(status),
            accuracy=status.accuracy,
            stream={
                "log_likelihood": sums.log_likelihood,
                "entropy": sums.entropy,
                "accuracy": status.accuracy_of_all,
                "labels": _named(self._monitor.labels, sums.labels),
                "segments": _named(self._monitor.labels, sums.segments),
            },
            on=[alarm.rule for alarm in status.on],
        )


def _event(name: str, **facts: Any) -> None:
    """Print a line of JSON; a number that is not finite is null."""
    typer.echo(json.dumps({"event": name} | {key: _finite(fact) for key, fact in facts.items()}, allow_nan=False))


def _finite(fact: Any) -> Any:
    if isinstance(fact, dict):
        return {key: _finite(value) for key, value in fact.items()}
    return None if isinstance(fact, float) and not math.isfinite(fact) else fact


def _named(labels: Sequence[str], values: Any) -> dict[str, float]:
    return dict(zip(labels, values.tolist(), strict=True))


class _Screen:
    """A view of the stream on the terminal."""

    def __init__(self, monitor: Monitor, model: str, source: str) -> None:
        from rich.live import Live

        self._monitor, self._model, self._source = monitor, model, source
        self._console = console()
        self.live = Live(console=self._console, auto_refresh=False)
        self._pace, self._then, self._notice = _Pace(), 0.0, ""

    def alarms(self, alarms: Sequence[Alarm]) -> None:
        """The view shows them."""

    def notice(self, text: str) -> None:
        """The view shows the last one."""
        self._notice = in_flags(text)

    def tick(self, last: bool = False) -> None:
        now = time.monotonic()
        if last or now - self._then >= _TICK:
            self._then, rate = now, self._pace.at(self._monitor.positions)
            about = About(self._model, self._source, now - self._pace.begin, rate, self._notice)
            status = self._monitor.status() if self._monitor.positions else None
            self.live.update(view(status, self._monitor.labels, about, *self._console.size), refresh=True)

    def end(self, interrupted: bool) -> None:
        self._console.print()
        summary(self._monitor.status(), self._monitor.labels, self._console)


@contextmanager
def _shown(monitor: Monitor, model: Path, source: str, as_json: bool, every: Every) -> Iterator[_Lines | _Screen]:
    if as_json or sys.stdout is None or not sys.stdout.isatty():
        yield (_Json if as_json else _Lines)(monitor, every)
        return
    screen = _Screen(monitor, model.name, "standard input" if source == STANDARD else Path(source).name)
    with screen.live:
        yield screen
