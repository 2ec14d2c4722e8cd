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
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from chainfold.cli import input_options as reading
from chainfold.cli import options
from chainfold.cli.console import console, say
from chainfold.cli.follow import when_wrong
from chainfold.cli.interrupt import interruptible
from chainfold.cli.watch_screen import About, counted, percent, summary, surprised_at, view
from chainfold.system.outputs import STANDARD

if TYPE_CHECKING:
    from chainfold.chain.block import KnownBlock
    from chainfold.chain.vocabulary import Vocabulary
    from chainfold.features.streaming import OnError
    from chainfold.inference.monitor import Alarm, Monitor, Status

_TICK = 0.25  # seconds between two looks at the clock, and two pictures
_PACE = 20  # ticks over which the speed is measured
_MOST_NAMED = 5  # labels in a line


def watch(
    model: reading.ModelFile,
    source: Annotated[
        str, typer.Argument(metavar="INPUT", help="A file, - for standard input, or a chain encoded before.")
    ],
    window: Annotated[int, typer.Option(metavar="ROWS", help="Rows in a window.")] = 1000,
    alarm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help="NAME>NUMBER or NAME<NUMBER: a label (its probability), share(LABEL) of the last window, surprise or "
            "entropy. May be repeated.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print alarms, status and end as lines of JSON.")] = False,
    every: Annotated[
        str, typer.Option(metavar="K", help="A status so often: rows, or for instance 30s, 5m, 1h; not on a terminal.")
    ] = "10s",
    follow: Annotated[bool, typer.Option("--follow", help="At the end of a file, wait for more.")] = False,
    on_error: reading.WhenWrong = None,
    max_lag: Annotated[
        int | None, typer.Option(metavar="K", help="Rows that a row may wait for; as long as it takes unless given.")
    ] = None,
    scheme: reading.Scheme = None,
    forbid: reading.Forbid = None,
    allow: reading.Allow = None,
    form: reading.Form = None,
    columns: reading.Columns = None,
    symbols: reading.Symbols = None,
    header: reading.Header = None,
    encoding: reading.TextEncoding = "utf-8",
    unknown: reading.Unknown = None,
    comments: reading.Comments = None,
    group: reading.Group = None,
    groups_return: reading.GroupsReturn = False,
    memory: options.Memory = None,
) -> None:
    """Watch a stream: label shares, entropy and surprise as they change, and alarms.

    On a terminal they are drawn as they are now. Elsewhere each alarm is a line
    when it is raised and a line when it is over, and how the stream is goes to
    standard error now and then. What is true of the whole stream comes at its
    end, or after Ctrl-C.

    Example: chainfold watch chunks.model test.txt --alarm "B-NP>0.9" --alarm "surprise>5"
    """
    from chainfold.inference.monitor import Monitor
    from chainfold.model.constraints import constrained
    from chainfold.model.file import open_model
    from chainfold.model.model import names_of

    often = Every(*options.parse_often("every", every, "rows"))
    options.hold([STANDARD], source, model)
    opened = constrained(open_model(model), scheme, forbid or [], allow or [])
    monitor = Monitor(opened, window=window, alarms=alarm or [], max_lag=max_lag, memory=options.parse_size(memory))
    with interruptible() as asked, _shown(monitor, model, source, as_json, often) as shown:
        rows = blocks(
            source,
            names_of(opened),
            follow=follow,
            on_error=when_wrong(on_error),
            notice=shown.notice,
            format=form,
            columns=reading.names(columns),
            symbols=reading.names(symbols) or [],
            header=header,
            encoding=encoding,
            unknown=unknown,
            comments=comments,
            group=group,
            groups_return=groups_return or None,
        )
        shown.tick()
        for some in _as_they_come(often.cut(rows)):
            if some is not None:
                shown.alarms(monitor.push(*some))
            shown.tick()
            if asked():
                break
        shown.alarms(monitor.end())
        shown.tick(last=True)
    if monitor.positions:
        shown.end(asked())
    if asked():
        raise KeyboardInterrupt


def blocks(
    source: str, vocabulary: Vocabulary, *, follow: bool, on_error: OnError, notice: Callable[[str], None], **how: Any
) -> Iterator[KnownBlock]:
    """The rows of an input with a model's numbers, as they come.

    A chain or a file is read by the block; a pipe, a file that grows or one with bad lines by the line.
    """
    from chainfold.chain.stored import is_chain
    from chainfold.features.inputs_for_model import known_inputs
    from chainfold.features.streaming import OnError, live_rows
    from chainfold.readers.inputs import unreadable

    if is_chain(source) or (source != "-" and not follow and on_error == OnError.STOP):
        yield from known_inputs([source], vocabulary, **how)
        return
    with ExitStack() as stack:
        what: Any = source
        if source != "-" and not follow:
            try:
                what = stack.enter_context(Path(source).open("rb"))
            except OSError as error:
                raise unreadable(source, error) from None
        yield from live_rows(what, vocabulary, on_error=on_error, notice=notice, **how)


class Every(NamedTuple):
    """How often there is a status."""

    rows: int | None
    seconds: float | None

    def due(self, rows: int, seconds: float) -> bool:
        """After so many of them since the last one?"""
        return rows >= self.rows if self.rows is not None else self.seconds is not None and seconds >= self.seconds

    def cut(self, stream: Iterable[KnownBlock]) -> Iterator[KnownBlock]:
        """The same rows, such that those after which there is a status are the last of a block."""
        done = 0
        for some in stream:
            size, begin = some.gold.size, 0
            while self.rows is not None and size - begin > self.rows - done % self.rows:
                end = begin + self.rows - done % self.rows
                yield some._replace(block=some.block.part(begin, end), gold=some.gold[begin:end], ended=False)
                done, begin = done + end - begin, end
            yield some._replace(block=some.block.part(begin, size), gold=some.gold[begin:]) if begin else some
            done += size - begin


def _as_they_come(stream: Iterable[KnownBlock]) -> Iterator[KnownBlock | None]:
    """What comes; None wherever nothing has for a while."""
    made: queue.Queue[KnownBlock | BaseException | None] = queue.Queue(1)

    def make() -> None:
        try:
            for some in stream:
                made.put(some)
            made.put(None)
        except BaseException as error:  # handed over, whatever it is
            made.put(error)

    threading.Thread(target=make, daemon=True).start()
    while True:
        try:
            some = made.get(timeout=_TICK)
        except queue.Empty:
            yield None
            continue
        if some is None:
            return
        if isinstance(some, BaseException):
            raise some
        yield some


# What is seen


class _Pace:
    """Rows a second, of late."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self._seen: deque[tuple[float, int]] = deque([(self.begin, 0)], maxlen=_PACE)

    def at(self, rows: int) -> float:
        now = time.monotonic()
        then, before = self._seen[0]
        self._seen.append((now, rows))
        return (rows - before) / max(now - then, 1e-9)


class _Lines:
    """Alarms on standard output, how the stream is on standard error."""

    def __init__(self, monitor: Monitor, every: Every) -> None:
        self._monitor, self._every = monitor, every
        self._begin = self._then = time.monotonic()
        self._rows = 0

    def alarms(self, found: Sequence[Alarm]) -> None:
        for alarm in found:
            self._alarm(alarm)

    def notice(self, text: str) -> None:
        """What a person should know of the input."""
        say(f"chainfold: {text}")

    def tick(self, last: bool = False) -> None:
        now, rows = time.monotonic(), self._monitor.positions
        if rows and not last and self._every.due(rows - self._rows, now - self._then):
            self._status(self._monitor.status(), (rows - self._rows) / max(now - self._then, 1e-9))
            self._then, self._rows = now, rows

    def end(self, interrupted: bool) -> None:
        summary(self._monitor.status(), self._monitor.labels, console())

    def _alarm(self, alarm: Alarm) -> None:
        what = f"{alarm.value:.4g}, predicted {alarm.label}" if alarm.rows is None else f"over after {alarm.rows} rows"
        say(f"row {alarm.at}: {alarm.rule}: {what}", err=False)

    def _status(self, status: Status, rate: float) -> None:
        names = sorted(zip(status.shares, self._monitor.labels, strict=True), reverse=True)
        said = [counted(status.rows, "row"), f"{rate:,.0f} rows/s", counted(status.quantities.sequences, "sequence")]
        if status.entropy is not None and status.surprise is not None:
            said += [f"entropy {status.entropy:.4g}", f"surprise {status.surprise:.4g} {surprised_at(status)}"]
            said += [f"{label} {percent(share)}" for share, label in names[:_MOST_NAMED] if share]
        say("; ".join(said))


class _Json(_Lines):
    """All of it as lines of JSON on standard output."""

    def end(self, interrupted: bool) -> None:
        status, labels = self._monitor.status(), self._monitor.labels
        sums = status.quantities
        rules = {
            rule: {"raised": many, "rows": status.lasted[rule], "on": any(one.rule == rule for one in status.on)}
            for rule, many in status.raised.items()
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
    """A line of JSON; a number that is not finite is null."""
    typer.echo(json.dumps({"event": name} | {key: _finite(fact) for key, fact in facts.items()}, allow_nan=False))


def _finite(fact: Any) -> Any:
    if isinstance(fact, dict):
        return {key: _finite(value) for key, value in fact.items()}
    return None if isinstance(fact, float) and not math.isfinite(fact) else fact


def _named(labels: Sequence[str], values: Any) -> dict[str, float]:
    return dict(zip(labels, values.tolist(), strict=True))


class _Screen:
    """A picture on the terminal."""

    def __init__(self, monitor: Monitor, model: str, source: str) -> None:
        from rich.live import Live

        self._monitor, self._model, self._source = monitor, model, source
        self._console = console()
        self.live = Live(console=self._console, auto_refresh=False)
        self._pace, self._then, self._notice = _Pace(), 0.0, ""

    def alarms(self, found: Sequence[Alarm]) -> None:
        """They are in the picture."""

    def notice(self, text: str) -> None:
        """The last one is."""
        self._notice = text

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
    screen = _Screen(monitor, model.name, "standard input" if source == "-" else Path(source).name)
    with screen.live:
        yield screen
