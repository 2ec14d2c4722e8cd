"""The screen of `chainfold watch`: the state of a stream, fitted to the terminal; and the summary at its end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.text import Text

from chainfold.cli.console import console, counted, percent, table
from chainfold.escape import visible
from chainfold.inference.monitor import Alarm, Monitor, Status

_SPARKS = "▁▂▃▄▅▆▇█"
_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")
_NAME, _FIGURES = 14, 24  # columns of a name and of two numbers
_OTHER_LINES, _LEAST_LABELS = 9, 5  # lines besides labels and alarms; labels that are always shown
_MOST_ALARMS, _MOST_LABELS = 6, 40  # on the screen; in the summary
_PAUSE = 0.2  # seconds between two drawings, at least


class Screen:
    """The terminal while a stream is watched."""

    def __init__(self, monitor: Monitor, title: str) -> None:
        self._monitor, self._title = monitor, title
        self._live = Live(console=console(), auto_refresh=False)
        self._begin, self._then = time.monotonic(), 0.0

    def __enter__(self) -> Self:
        self._live.start()
        self.show([])
        return self

    def __exit__(self, *_: object) -> None:
        self._then = 0.0
        self.show([])
        self._live.stop()
        self._live.console.print()

    def show(self, alarms: Sequence[Alarm]) -> None:
        """Draw the state of the stream, which has its alarms, unless it has been drawn a moment ago."""
        now, monitor, (width, height) = time.monotonic(), self._monitor, self._live.console.size
        if now - self._then >= _PAUSE:
            self._then = now
            drawn = view(monitor.status(), monitor.labels, self._title, now - self._begin, width, height)
            self._live.update(drawn, refresh=True)


def view(status: Status, labels: Sequence[str], title: str, seconds: float, width: int, height: int) -> Group:
    """The state of a stream, drawn for a terminal of this size."""
    rows, sequences = status.quantities.positions, status.quantities.sequences
    clock = f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"
    lines = [Text.assemble(_fitted(title, width - len(clock) - 1, "bold"), " ", (clock, "dim"))]
    if rows:
        facts = [counted(rows, "row"), f"{rows / max(seconds, 1e-9):,.0f} rows/s", counted(sequences, "sequence")]
        alarms = _alarms(status)
        lines += [Text(" · ".join((*facts, f"{status.waiting:,} waiting"))), Text()]
        lines += _shares(status, labels, width, max(height - len(alarms) - _OTHER_LINES, _LEAST_LABELS))
        lines += [Text(), *_means(status, width), *alarms]
    else:
        lines.append(Text("waiting for the first rows", "dim"))
    drawn = Text("\n").join(lines)
    drawn.no_wrap, drawn.overflow = True, "ellipsis"
    return Group(drawn)  # as printing a text alone would wrap it


def _fitted(text: str, width: int, style: str = "") -> Text:
    """A text of exactly this width."""
    fitted = Text(visible(text), style)
    fitted.truncate(max(width, 0), overflow="ellipsis", pad=True)
    return fitted


def _line(name: str, *rest: Text | str | tuple[str, str]) -> Text:
    return Text.assemble(_fitted(name, _NAME, "bold"), " ", *rest)


def _shares(status: Status, labels: Sequence[str], width: int, room: int) -> list[Text]:
    """A bar for each label: its share of the last window beside that of the whole stream; the most frequent labels."""
    now, ever = status.shares, status.quantities.labels / status.quantities.positions
    order = sorted(range(len(labels)), key=lambda j: -max(now[j], ever[j]))
    shown = order if len(order) <= room else order[: room - 1]
    length = max(width - _NAME - 1 - _FIGURES, 0)  # of a bar
    heading = _fitted(f"last {counted(status.window, 'row')}, ▓ above ░ below usual", length)
    lines = [_line("label", heading, f"{'now':>12}{'stream':>12}")]
    for j in sorted(shown, key=lambda j: -ever[j]):
        low, high = sorted(round(float(share) * length) for share in (now[j], ever[j]))
        colour = _COLOURS[j % len(_COLOURS)]
        difference = ("▓" * (high - low), colour) if now[j] > ever[j] else ("░" * (high - low), "dim")
        bar = ("█" * low, colour), difference, " " * (length - high)
        lines.append(_line(labels[j], *bar, f"{percent(now[j]):>12}{percent(ever[j]):>12}"))
    return lines if len(shown) == len(order) else [*lines, Text(f"and {len(order) - len(shown)} more", "dim")]


def _means(status: Status, width: int) -> list[Text]:
    """Entropy and surprise: of earlier windows as a line, of the last one as a number."""
    lines, length = [], max(width - _NAME - 1 - _FIGURES, 0)
    for (name, (now, past)), colour in zip(status.means.items(), ("blue", "magenta"), strict=True):
        shown = past[max(len(past) - length, 0) :]
        peak = max(shown, default=0.0)
        sparks = "".join(_SPARKS[min(int(8 * mean / (peak or 1.0)), 7)] for mean in shown) or "after a whole window"
        lines.append(_line(name, _fitted(sparks, length, colour), f"{now:10.3g}", (f" peak {peak:8.3g}", "dim")))
    return lines


def _alarms(status: Status) -> list[Text]:
    if not status.raised:
        return []
    on = sum(alarm.rows is None for alarm in status.alarms)
    raised = f"{sum(status.raised.values()):,} raised, {on} now"
    lines = [Text(), _line("alarms", (raised, "bold red" if on else "dim"))]
    final = status.quantities.positions - status.waiting
    for rule, row, label, value, rows in status.alarms[:_MOST_ALARMS]:
        mark, lasts, style = ("●", "so far", "red") if rows is None else ("○", "for", "dim")
        length = counted(final - row + 1 if rows is None else rows, "row")
        lines.append(Text(visible(f"{mark} {rule}  row {row:,}, {value:.4g}, {label}, {lasts} {length}"), style))
    return lines


def summary(status: Status, labels: Sequence[str]) -> None:
    """Print exact facts about the whole stream."""
    sums, terminal = status.quantities, console()
    likelihood = "" if sums.log_likelihood is None else f"log likelihood {sums.log_likelihood / sums.positions:.4g}, "
    exact = f"{likelihood}entropy {sums.entropy / sums.positions:.4g} nats per row, exact"
    terminal.print(f"{counted(sums.positions, 'row')}, {counted(sums.sequences, 'sequence')}; {exact}.")
    if sums.unproven:
        terminal.print(f"{counted(sums.unproven, 'row')} reached the limit of waiting; later rows might change them.")
    order = sorted(range(len(labels)), key=lambda j: -sums.labels[j])
    counts = [(labels[j], f"{sums.labels[j]:,.1f}", percent(sums.labels[j] / sums.positions)) for j in order]
    more = [(f"and {len(counts) - _MOST_LABELS} more", "", "")] if len(counts) > _MOST_LABELS else []
    terminal.print(table(("label", "expected rows", "share"), [*counts[:_MOST_LABELS], *more]))
    if status.raised:
        raised = [(rule, f"{count:,}") for rule, count in status.raised.items()]
        terminal.print(table(("alarm", "times raised"), raised))
