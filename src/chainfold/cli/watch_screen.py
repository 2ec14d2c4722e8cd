"""What `chainfold watch` draws: the current state of a stream, fitted to the terminal, and its summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from chainfold.cli.console import counted, percent, table
from chainfold.escape import visible

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.text import Text

    from chainfold.inference.monitor import Status

_SPARKS = "▁▂▃▄▅▆▇█"
_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")
_MOST_NAME, _MOST_CELLS = 20, 120
_MOST_LABELS, _LEAST_ROOM = 40, 5  # lines
_MOST_ALARMS, _MOST_CHANGES = 6, 5
_NUMBER = 10  # columns of one


class About(NamedTuple):
    """The stream and its speed."""

    model: str
    source: str
    seconds: float
    rate: float  # rows per second
    notice: str = ""  # about the input


def view(status: Status | None, labels: Sequence[str], about: About, width: int, height: int) -> Group:
    """The current state of the stream; None: no rows have arrived."""
    from rich.console import Group

    labels = [visible(label) for label in labels]
    if status is None:
        return Group(_title(about, width), _dim("waiting for the first rows", width=width), *_notice(about, width))
    above = [_title(about, width), *_head(status, about, width)]
    course = [*_course(status, width), *_notice(about, width)]
    room = max(height - len(above) - len(course) - 3 - 2 * bool(status.raised), _LEAST_ROOM)
    alarms = list(_alarms(status, width, min(max(room // 3, room - len(labels)), _MOST_ALARMS)))
    room = min(room - max(len(alarms) - 2, 0), _MOST_LABELS)
    parts = [*_shares(status, labels, width, room), *course]
    if len(above) + len(parts) + len(alarms) < height:
        return Group(*above, *parts, *alarms)
    return Group(*above, *alarms, *parts)  # they are the last to be cut off


def surprised_at(status: Status) -> str:
    """The labels that the surprise refers to."""
    if not status.predicted:
        return "of the labels given"
    return "of the labels predicted" if not status.given else "of the labels given, else predicted"


def _line(*parts: str | tuple[str, str], width: int) -> Text:
    """Parts, some with a style, in one line that is never wrapped."""
    from rich.text import Text

    safe = (visible(part) if isinstance(part, str) else (visible(part[0]), part[1]) for part in parts)
    line = Text.assemble(*safe, no_wrap=True, overflow="ellipsis", end="\n")
    line.truncate(width, overflow="ellipsis")
    return line


def _title(about: About, width: int) -> Text:
    minutes, seconds = divmod(int(about.seconds), 60)
    clock = f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    title = _line((about.model, "bold"), f" on {about.source}", width=max(width - len(clock) - 2, 1))
    title.pad_right(max(width - len(clock) - title.cell_len, 1))
    title.append(clock, "dim")
    return title


def _notice(about: About, width: int) -> Iterator[Text]:
    if about.notice:
        yield _line(f"{'input':10}", (about.notice, "yellow"), width=width)


def _head(status: Status, about: About, width: int) -> Iterator[Text]:
    facts = [counted(status.rows, "row"), f"{about.rate:,.0f} rows/s"]
    facts += [counted(status.quantities.sequences, "sequence"), f"{status.waiting:,} waiting"]
    yield _line(
        " · ".join(facts), (f" · {status.unproven:,} unproven", "yellow" if status.unproven else ""), width=width
    )
    yield _line("", width=width)


# Labels


def _shares(status: Status, labels: Sequence[str], width: int, most: int) -> Iterator[Text]:
    """A bar for each label: its share of the last window beside that of the whole stream."""
    from rich.cells import cell_len, set_cell_size

    sums = status.quantities
    of_all = sums.labels / max(sums.positions, 1)
    order = sorted(range(len(labels)), key=lambda j: -max(of_all[j], status.shares[j]))
    order, rest = (order, []) if len(order) <= most else (order[: most - 1], order[most - 1 :])
    shown = sorted(order, key=lambda j: -of_all[j])
    name = min(max([cell_len(labels[j]) for j in shown] + [10]), _MOST_NAME, max(width // 3, 6))
    numbers = 1 + (width >= 44) + (width >= 60)
    bar = width - name - 1 - numbers * _NUMBER
    headings = (f"{'now':>{_NUMBER}}", f"{'stream':>{_NUMBER}}", f"{'segments':>{_NUMBER}}")[:numbers]
    window, shades = f"last {counted(status.window, 'row')}", ", ▓ above ░ below usual"
    window = set_cell_size(window + shades if len(window + shades) <= bar else window, max(bar, 0))
    yield _dim(set_cell_size("label", name + 1), window, *headings, width=width)
    for j in shown:
        facts = percent(status.shares[j]), percent(of_all[j]), f"{sums.segments[j]:,.1f}"
        colour = _COLOURS[j % len(_COLOURS)]
        yield _line(
            (set_cell_size(_short(labels[j], name), name), "bold"),
            " ",
            *_bar(float(status.shares[j]), float(of_all[j]), max(bar, 0), colour),
            *(f"{fact:>{_NUMBER}}" for fact in facts[:numbers]),
            width=width,
        )
    if rest:
        facts = (
            percent(sum(status.shares[j] for j in rest)),
            percent(sum(of_all[j] for j in rest)),
            f"{sum(sums.segments[j] for j in rest):,.1f}",
        )
        yield _dim(
            set_cell_size(f"and {len(rest)} more", name + 1 + max(bar, 0)),
            *(f"{fact:>{_NUMBER}}" for fact in facts[:numbers]),
            width=width,
        )
    yield _line("", width=width)


def _short(name: str, most: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return name if cell_len(name) <= most else set_cell_size(name, most - 1).rstrip() + "…"


def _dim(*parts: str, width: int) -> Text:
    return _line(*((part, "dim") for part in parts), width=width)


def _bar(now: float, ever: float, cells: int, colour: str) -> list[tuple[str, str]]:
    """A bar of a share; the difference from another share is shaded."""
    low, high = sorted(min(round(share * cells), cells) for share in (now, ever))
    more, less = ("▓" * (high - low), "") if now > ever else ("", "░" * (high - low))
    return [("█" * low + more, colour), (less, "dim"), (" " * (cells - high), "")]


# Over time


def _course(status: Status, width: int) -> Iterator[Text]:
    values = (("entropy", status.entropy, status.entropies), ("surprise", status.surprise, status.surprises))
    for name, now, past in values:
        peak = _NUMBER + 5 if width >= 44 else 0  # columns
        cells = max(min(width - 10 - _NUMBER - peak, _MOST_CELLS), 1)
        shown = past[-cells:]
        spark = _sparkline(shown) if shown else "after a whole window"[:cells]
        style = "dim" if not shown else "blue" if name == "entropy" else "magenta"
        most = f"peak {_figure(max(shown))}" if shown and peak else ""
        figures = (f"{_figure(now):>{_NUMBER}}", "bold"), (f"{most:>{peak}}", "dim")
        yield _line(f"{name:10}", (f"{spark:{cells}}", style), *figures, width=width)
    if status.accuracy_of_all is not None:
        now_right = "–" if status.accuracy is None else percent(status.accuracy)
        right = f"{now_right} right now, {percent(status.accuracy_of_all)} of the stream"
        yield _line(f"{'accuracy':10}", right, width=width)
    yield _line(f"{'stream':10}", _exact(status), width=width)
    yield _dim(f"{'':10}nats per row; surprise {surprised_at(status)}", width=width)


def _exact(status: Status) -> str:
    sums = status.quantities
    rows, likelihood = max(sums.positions, 1), sums.log_likelihood
    likelihoods = "" if likelihood is None else f"log likelihood {likelihood / rows:.4g}, "
    return f"{likelihoods}entropy {sums.entropy / rows:.4g}, exact"


def _sparkline(values: Sequence[float]) -> str:
    peak = max(values) or 1.0
    return "".join(_SPARKS[min(int(value / peak * len(_SPARKS)), len(_SPARKS) - 1)] for value in values)


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if value >= 1e-4 or not value else f"{value:.0e}"


# Alarms


def _alarms(status: Status, width: int, most: int) -> Iterator[Text]:
    if not status.raised:
        return
    yield _line("", width=width)
    on = len(status.on)
    raised = f"{sum(status.raised.values()):,} raised, {on} now"
    yield _line(f"{'alarms':10}", (raised, "bold red" if on else "dim"), width=width)
    last = [*sorted(status.on, key=lambda alarm: -alarm.row), *reversed(status.over)][:most]
    names = min(max((len(visible(alarm.rule)) for alarm in last), default=0), max(width // 3, 6))
    for alarm in last:
        rows = status.rows - status.waiting - alarm.row + 1 if alarm.rows is None else alarm.rows
        rule, label = visible(alarm.rule)[:names], _short(visible(alarm.label), _MOST_NAME)
        text = f"{rule:{names}}  row {alarm.row:,}, {alarm.value:.4g}, {label}, "
        lasts = "so far " if alarm.rows is None else "for "
        line = f"{'●' if alarm.rows is None else '○'} {text}{lasts}{counted(rows, 'row')}"
        yield _line((line, "red" if alarm.rows is None else "dim"), width=width)


# The summary


def summary(status: Status, labels: Sequence[str], console: Console) -> None:
    """Print facts about the whole stream."""
    sums = status.quantities
    rows = max(sums.positions, 1)
    console.print(f"{counted(sums.positions, 'row')}, {counted(sums.sequences, 'sequence')}.", highlight=False)
    facts = [("entropy of the labelling", f"{sums.entropy:,.6g}", f"{sums.entropy / rows:.6g}")]
    if sums.log_likelihood is not None:
        facts.append(("log likelihood", f"{sums.log_likelihood:,.6g}", f"{sums.log_likelihood / rows:.6g}"))
    console.print(table(("exact, nats", "stream", "per row"), facts))
    order = sorted(range(len(labels)), key=lambda j: -sums.labels[j])
    counts = [
        (labels[j], f"{sums.labels[j]:,.1f}", percent(sums.labels[j] / rows), f"{sums.segments[j]:,.1f}") for j in order
    ]
    more = [(f"and {len(counts) - _MOST_LABELS} more", "", "", "")] if len(counts) > _MOST_LABELS else []
    console.print(table(("label", "expected rows", "share", "expected segments"), [*counts[:_MOST_LABELS], *more]))
    changes = [(sums.transitions[i, j], f"{labels[i]} → {labels[j]}") for i in order for j in order if i != j]
    frequent = [(change, f"{count:,.1f}") for count, change in sorted(changes, reverse=True)[:_MOST_CHANGES]]
    if frequent:
        console.print(table(("most frequent changes", "expected"), frequent))
    if status.raised:
        alarms = [(rule, f"{count:,}", f"{status.lasted[rule]:,}") for rule, count in status.raised.items()]
        console.print(table(("alarm", "raised", "rows"), alarms))
    if status.accuracy_of_all is not None:
        console.print(f"{percent(status.accuracy_of_all)} of the labels given were predicted.", highlight=False)
    if status.unproven:
        rows_unproven = counted(status.unproven, "row")
        console.print(f"{rows_unproven} reached the limit of waiting; later rows might change them.", highlight=False)
