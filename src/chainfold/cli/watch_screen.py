"""The screen of `chainfold watch`: the state of a stream, fitted to the terminal; and the summary at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from chainfold.cli.console import counted, percent, table
from chainfold.escape import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, Group
    from rich.table import Table
    from rich.text import Text

    from chainfold.inference.monitor import Status

_SPARKS = "▁▂▃▄▅▆▇█"
_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")
_NAME = 10  # columns of a name, at least
_OTHER_LINES, _LEAST_LABELS = 10, 5  # lines besides labels and alarms; labels that are always shown
_MOST_ALARMS, _MOST_LABELS = 6, 40  # on the screen; in the summary


def view(status: Status, labels: Sequence[str], title: str, seconds: float, notice: str, height: int) -> Group:
    """The current state of the stream on a terminal of `height` lines; notice: the last one about the input."""
    from rich.console import Group

    clock = f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"
    top = _grid(("left", 1), ("right", None))
    top.add_row(_text(title, "bold"), _text(clock, "dim"))
    notices = [_named("input", notice, "yellow")] if notice else []
    sums = status.quantities
    if not sums.positions:
        return Group(top, _text("waiting for the first rows", "dim"), *notices)
    facts = [counted(sums.positions, "row"), f"{sums.positions / max(seconds, 1e-9):,.0f} rows/s"]
    facts += [counted(sums.sequences, "sequence"), f"{status.waiting:,} waiting", f"{sums.unproven:,} unproven"]
    alarms = list(_alarms(status))
    room = max(height - len(alarms) - len(notices) - _OTHER_LINES, _LEAST_LABELS)
    facts_line, bars = _text(" · ".join(facts)), _shares(status, labels, room)
    return Group(top, facts_line, "", bars, "", _course(status), *_means(status), *notices, *alarms)


class _Fitted:
    """A text that is drawn for the width that it gets."""

    def __init__(self, draw: Callable[[int], Text]) -> None:
        self._draw = draw

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield self._draw(options.max_width)


def _text(text: str, style: str = "") -> Text:
    """One line that is never wrapped."""
    from rich.text import Text

    return Text(visible(text), style, no_wrap=True, overflow="ellipsis")


def _named(name: str, text: str, style: str = "") -> Text:
    return _text(f"{name:{_NAME}} {text}", style)


def _grid(*columns: tuple[str, int | None]) -> Table:
    """A table without lines as wide as the terminal; of a column: how it is justified, and its share of free room."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 1, 0, 0), expand=True)
    for justify, ratio in columns:
        least = 8 if justify == "right" else None  # columns of a number
        grid.add_column(justify=justify, ratio=ratio, no_wrap=True, min_width=least)  # type: ignore[arg-type]
    return grid


def _shares(status: Status, labels: Sequence[str], room: int) -> Table:
    """A bar for each label: its share of the last window beside that of the whole stream; the most frequent labels."""
    now, ever = status.shares, status.quantities.labels / status.quantities.positions
    order = sorted(range(len(labels)), key=lambda j: -max(now[j], ever[j]))
    order, rest = (order, 0) if len(order) <= room else (order[: room - 1], len(order) - room + 1)
    bars = _grid(("left", None), ("left", 1), ("right", None), ("right", None))
    bars.columns[0].min_width, bars.columns[0].max_width = _NAME, 2 * _NAME
    heading = f"last {counted(status.window, 'row')}, ▓ above ░ below usual"
    bars.add_row(*(_text(text, "dim") for text in ("label", heading, "now", "stream")))
    for j in sorted(order, key=lambda j: -ever[j]):
        bar = _bar(float(now[j]), float(ever[j]), _COLOURS[j % len(_COLOURS)])
        bars.add_row(_text(labels[j], "bold"), bar, _text(f"{percent(now[j]):>9}"), _text(f"{percent(ever[j]):>9}"))
    if rest:
        bars.add_row(_text(f"and {rest} more", "dim"))
    return bars


def _bar(now: float, ever: float, colour: str) -> _Fitted:
    """A bar of a share; the difference from another share is shaded."""

    def draw(width: int) -> Text:
        low, high = sorted(round(share * width) for share in (now, ever))
        bar = _text("█" * low, colour)
        return bar.append("▓" * (high - low), colour) if now > ever else bar.append("░" * (high - low), "dim")

    return _Fitted(draw)


def _course(status: Status) -> Table:
    """Entropy and surprise: of earlier windows as a line, of the last one as a number."""
    lines = _grid(("left", None), ("left", 1), ("right", None), ("right", None))
    lines.columns[0].min_width = _NAME
    courses = (("entropy", status.entropy, status.entropies), ("surprise", status.surprise, status.surprises))
    for (name, now, past), colour in zip(courses, ("blue", "magenta"), strict=True):
        spark = _sparkline(past, colour) if past else _text("after a whole window", "dim")
        peak = f"peak {max(past):.3g}" if past else ""
        lines.add_row(name, spark, _text("–" if now is None else f"{now:9.3g}", "bold"), _text(peak, "dim"))
    return lines


def _means(status: Status) -> Iterator[Text]:
    if status.accuracy_of_all is not None:
        now = "–" if status.accuracy is None else percent(status.accuracy)
        yield _named("accuracy", f"{now} now, {percent(status.accuracy_of_all)} of the stream")
    yield _named("stream", _exact(status))


def _sparkline(values: Sequence[float], colour: str) -> _Fitted:
    def draw(width: int) -> Text:
        shown = values[-width:]
        peak = max(shown) or 1.0
        return _text("".join(_SPARKS[min(int(value / peak * 8), 7)] for value in shown), colour)

    return _Fitted(draw)


def _exact(status: Status) -> str:
    sums = status.quantities
    likelihood = "" if sums.log_likelihood is None else f"log likelihood {sums.log_likelihood / sums.positions:.4g}, "
    return f"{likelihood}entropy {sums.entropy / sums.positions:.4g} nats per row, exact"


def _alarms(status: Status) -> Iterator[Text]:
    if not status.raised:
        return
    raised = f"{sum(status.raised.values()):,} raised, {len(status.on)} now"
    yield _text("")
    yield _named("alarms", raised, "bold red" if status.on else "dim")
    last = [*sorted(status.on, key=lambda alarm: -alarm.row), *reversed(status.over)]
    for alarm in last[:_MOST_ALARMS]:
        on, final = alarm.rows is None, status.quantities.positions - status.waiting
        lasts = f"so far {counted(final - alarm.row + 1, 'row')}" if on else f"for {counted(alarm.rows or 0, 'row')}"
        text = f"{'●' if on else '○'} {alarm.rule}  row {alarm.row:,}, {alarm.value:.4g}, {alarm.label}, {lasts}"
        yield _text(text, "red" if on else "dim")


def summary(status: Status, labels: Sequence[str], console: Console) -> None:
    """Print exact facts about the whole stream."""
    sums, right = status.quantities, status.accuracy_of_all
    console.print(f"{counted(sums.positions, 'row')}, {counted(sums.sequences, 'sequence')}; {_exact(status)}.")
    if right is not None:
        console.print(f"Accuracy on the rows with a label: {percent(right)}.")
    if sums.unproven:
        console.print(f"{counted(sums.unproven, 'row')} reached the limit of waiting; later rows might change them.")
    order = sorted(range(len(labels)), key=lambda j: -sums.labels[j])
    counts = [(labels[j], f"{sums.labels[j]:,.1f}", percent(sums.labels[j] / sums.positions)) for j in order]
    more = [(f"and {len(counts) - _MOST_LABELS} more", "", "")] if len(counts) > _MOST_LABELS else []
    console.print(table(("label", "expected rows", "share"), [*counts[:_MOST_LABELS], *more]))
    if status.raised:
        raised = [(rule, f"{count:,}") for rule, count in status.raised.items()]
        console.print(table(("alarm", "times raised"), raised))
