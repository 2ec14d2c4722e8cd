"""The figures, drawn from the results alone.

One look throughout: orange and brown are forward-backward in logarithms, blue is EMP, green is `stream`; a solid line
with full markers has its sequence in memory, a dashed one with open markers reads it from disk; a cross is a point that
could not be measured, at the height where it was to be expected. A figure for which there are no numbers is not drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from experiments.formatting import count, duration, power, size
from experiments.paper import plots
from experiments.paper.plots import grid, log_axis, tiles
from experiments.paper.run_plan import EMP_HELD, FB, RECOMPUTE_HELD, SCALED, SETTINGS, SPILL, STREAM_HELD, Line
from experiments.paper.series import (
    CASES,
    OURS,
    Points,
    Results,
    baseline,
    elements,
    limits,
    measured,
    points,
    reach,
    seconds_of,
    section,
)

_EXACT = 1e-17  # where an error of exactly nothing is drawn
_CROSS: dict[str, Any] = {"linestyle": "none", "marker": "x", "markersize": 8, "markeredgewidth": 2.2, "zorder": 5}
_DOTTED: dict[str, Any] = {"color": "black", "linestyle": ":", "linewidth": 1.3, "zorder": 6}
_FULL: dict[str, Any] = {"color": "black", "linestyle": "-.", "linewidth": 1.0}
_WEIGHTS = {"trained": "-", "random": (0, (4, 1.5)), "zero": ":", "true": (0, (1, 1))}


class Look(NamedTuple):
    """Name, colour and width of an engine's lines."""

    name: str
    colour: str
    width: float = 1.7


LOOKS = {
    "fb-log": Look("FB", plots.ORANGE),
    "fb-log-recompute": Look("FB recomputing", plots.YELLOW),
    "fb-log-spill": Look("FB spilling", plots.BROWN),
    "emp": Look("EMP", plots.BLUE),
    "fb": Look("FB scaled", plots.GREY, 1.1),
    "checkpoint": Look("checkpoint", plots.PINK, 1.2),
    "stream": Look("stream", plots.GREEN, 2.8),
    "sum-product FB": Look("sum-product FB", plots.YELLOW),
    "expectation semiring": Look("expectation semiring", plots.LIGHT_BLUE),
}


def draw(results: Results, folder: Path) -> list[str]:
    """Write NAME.png of each figure for which there are numbers; returns the names."""
    import matplotlib

    drawn = []
    with matplotlib.rc_context(plots.STYLE):
        for name, made in FIGURES.items():
            figure = made(results)
            if figure is not None:
                drawn.append(name)
                plots.save(figure, folder / f"{name}.png")
    return drawn


def name_of(line: Line) -> str:
    return f"{LOOKS[line.engine].name}, {'in memory' if line.held == 'memory' else 'from disk'}"


def _style(line: Line) -> dict[str, Any]:
    look, full = LOOKS[line.engine], line.held == "memory"
    dashes = {"linestyle": "-" if full else (0, (5, 1.6)), "markerfacecolor": look.colour if full else "white"}
    marker = {"marker": "o", "markersize": 4.5 if look.width > 1.5 else 2.5}
    return {"color": look.colour, "linewidth": look.width, **marker, **dashes}


def _times(axes: Any, line: Line, of_line: Points) -> list[float]:
    """Median seconds with bars from least to most, and a cross at the first point that could not be measured.

    Returns all heights.
    """
    good = measured(of_line)
    middle = [seconds_of(point) for point in good]
    below = [seconds_of(point) - min(point["seconds"]) for point in good]
    above = [max(point["seconds"]) - seconds_of(point) for point in good]
    axes.errorbar([point["positions"] for point in good], middle, yerr=[below, above], capsize=2, **_style(line))
    failed = next((point for point in of_line if point["outcome"] != "measured"), None)
    if failed is not None and good:
        axes.plot(failed["positions"], middle[-1], color=LOOKS[line.engine].colour, **_CROSS)
    return [second for point in good for second in point["seconds"]]


def _a_position(of_line: Points) -> Points:
    """The points with the time that they take for a position."""
    return [{**point, "seconds": [second / point["positions"] for second in point["seconds"]]} for point in of_line]


def _legend(figure: Any, lines: Sequence[Line], *more: tuple[str, dict[str, Any]], columns: int = 5) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=name_of(line), **_style(line)) for line in lines]
    handles += [Line2D([], [], label=text, **style) for text, style in more]
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=9.5, handlelength=3.0)


def _cases(results: Results) -> Any:
    """The paper's Figure 3."""
    lines = points(results)
    if not any(map(measured, lines.values())):
        return None
    columns = {
        "Case I: everything kept": CASES["I"],
        "Case II: kernels recomputed": CASES["II"],
        "Cases III and IV: sequence on disk": (*CASES["III"][:1], *CASES["IV"]),
    }
    figure = plots.new_figure("Time and memory against the length", 8.2)
    base = baseline(results)
    axes = grid(figure, 2, len(columns), sharex=True, sharey="row")
    lengths, seconds, memory = [], [], []
    for (above, below), (title, chosen) in zip(zip(*axes, strict=True), columns.items(), strict=True):
        above.set_title(title)
        for line in (*OURS[chosen[0].held], *chosen):
            of_line = lines.get(line, [])
            seconds += _times(above, line, of_line)
            kept = [point for point in measured(of_line) if point["peak_rss"]]
            below.plot([point["positions"] for point in kept], [point["peak_rss"] for point in kept], **_style(line))
            memory += [point["peak_rss"] for point in kept]
            lengths += [point["positions"] for point in of_line]
            if line in (chosen[0], SPILL):
                heights = [base + point["predicted_bytes"] for point in of_line]
                below.plot([point["positions"] for point in of_line], heights, **_DOTTED)
                memory += heights
        below.set_xlabel("positions")
    log_axis(axes[0][0].xaxis, lengths, count, 4)
    log_axis(axes[0][0].yaxis, seconds, duration)
    log_axis(axes[1][0].yaxis, memory, size)
    axes[0][0].set_ylabel("time of a gradient")
    axes[1][0].set_ylabel("peak memory of the process")
    shown = dict.fromkeys(line for case in (*CASES.values(), *OURS.values()) for line in case)
    more = ("FB, predicted memory", _DOTTED), ("not measured", {**_CROSS, "color": "black"})
    _legend(figure, [line for line in shown if line in lines], *more, columns=4)
    return figure


def _limit(results: Results) -> Any:
    """Time a position under each memory limit."""
    found = {limit: points(results, limit=limit) for limit in limits(results)}
    if not found:
        return None
    figure = plots.new_figure("Time a position within a memory limit", 1.6 + 3.1 * ((len(found) + 1) // 2))
    heights: list[float] = []
    every = tiles(figure, len(found))
    for axes, (limit, lines) in zip(every, found.items(), strict=True):
        for line, of_line in lines.items():
            heights += _times(axes, line, _a_position(of_line))
        log_axis(axes.xaxis, [point["positions"] for of_line in lines.values() for point in of_line], count, 4)
        for line in (FB, RECOMPUTE_HELD):
            place = reach(results, line, limit)
            if place is not None and axes.get_xlim()[0] < place < axes.get_xlim()[1]:
                axes.axvline(place, **{**_FULL, "color": LOOKS[line.engine].colour})
        axes.set(title=f"within {size(limit)}", xlabel="positions", ylabel="time a position")
    for axes in every:
        log_axis(axes.yaxis, heights, duration)
    shown = dict.fromkeys(line for lines in found.values() for line in lines)
    _legend(figure, list(shown), ("the limit is full", _FULL), columns=4)
    return figure


def _settings(results: Results) -> Any:
    """Time a position, in each setting."""
    found = {setting: points(results, setting) for setting in SETTINGS}
    found = {setting: lines for setting, lines in found.items() if any(map(measured, lines.values()))}
    if not found:
        return None
    figure = plots.new_figure("Time a position in each setting", 1.6 + 3.1 * ((len(found) + 1) // 2))
    heights: list[float] = []
    every, chosen = tiles(figure, len(found)), (FB, EMP_HELD, STREAM_HELD, SCALED)
    for axes, (setting, lines) in zip(every, found.items(), strict=True):
        about = section(results, "corpus", "settings", setting)
        axes.set_title(f"{SETTINGS[setting].title} (N = {about.get('n_labels')}, M = {about.get('weights')})")
        for line in chosen:
            heights += _times(axes, line, _a_position(lines.get(line, [])))
        log_axis(axes.xaxis, [point["positions"] for line in chosen for point in lines.get(line, [])], count)
        axes.set(xlabel="positions", ylabel="time a position")
    for axes in every:
        log_axis(axes.yaxis, heights, duration)
    _legend(figure, chosen, ("not measured", {**_CROSS, "color": "black"}))
    return figure


def _numerics(results: Results) -> Any:
    """Errors of each method against the length, and where it breaks."""
    chains = elements(results, "numerics", "chains")
    if not chains:
        return None
    figure = plots.new_figure("Errors against the length; a cross is where a method leaves the range of a double", 7.4)
    axes = grid(figure, 2, len(chains), sharex="col", sharey=True)
    for column, chain in enumerate(chains):
        for row, key in enumerate(("log_z_error", "count_error")):
            _errors(axes[row][column], chain, key)
        axes[0][column].set_title(fill(chain["title"], 150 // len(chains)), size=10)
        axes[1][column].set_xlabel("positions")
        breaks = [broke["length"] for broke in chain["breaks"].values() if broke]
        log_axis(axes[1][column].xaxis, [*chain["lengths"], *breaks], count)
    log_axis(axes[0][0].yaxis, [_EXACT, 1.0], power)
    axes[0][0].set_ylabel("relative error of ln Z")
    axes[1][0].set_ylabel("worst relative error of a count")
    _legend(figure, [], *((name, _method(name)) for name in chains[0]["methods"]), columns=6)
    return figure


def _method(name: str) -> dict[str, Any]:
    look = LOOKS[name]
    dashed = name in ("sum-product FB", "expectation semiring")
    return {"color": look.colour, "linewidth": look.width, "linestyle": (0, (4, 1.5)) if dashed else "-"}


def _errors(axes: Any, chain: Mapping[str, Any], key: str) -> None:
    row = 0
    for name, method in chain["methods"].items():
        kept = [(n, e) for n, e in zip(chain["lengths"], method[key], strict=True) if e is not None]
        axes.plot([n for n, _ in kept], [max(e, _EXACT) for _, e in kept], marker=".", **_method(name))
        broke = chain["breaks"].get(name)
        if broke:
            axes.plot(broke["length"], 10.0 ** (-0.7 - 1.5 * row), color=LOOKS[name].colour, **_CROSS)
            row += 1


def _weights(results: Results) -> Any:
    """EMP and stream as the weights become many."""
    every = [point for point in elements(results, "weights", "points") if point["nanoseconds"]]
    if not every:
        return None
    title = "Time a position against the number of weights (open: not all weights had occurred, a lower bound)"
    figure = plots.new_figure(title, 4.6)
    labels = sorted({point["labels"] for point in every})
    row = grid(figure, 1, len(labels), sharey=True)[0]
    lines = (EMP_HELD, STREAM_HELD)
    for axes, n in zip(row, labels, strict=True):
        for line in lines:
            mine = [point for point in every if (point["labels"], point["engine"]) == (n, line.engine)]
            mine.sort(key=lambda point: point["weights"])
            axes.plot([point["weights"] for point in mine], [1e-9 * p["nanoseconds"] for p in mine], **_style(line))
            few = [point for point in mine if point["seen"] < 0.99]
            style = {"linestyle": "none", "marker": "o", "markerfacecolor": "white", "color": LOOKS[line.engine].colour}
            axes.plot([point["weights"] for point in few], [1e-9 * p["nanoseconds"] for p in few], **style)
        log_axis(axes.xaxis, [point["weights"] for point in every if point["labels"] == n], count)
        axes.set(title=f"N = {n} labels", xlabel="weights M")
    log_axis(row[0].yaxis, [1e-9 * point["nanoseconds"] for point in every], duration)
    row[0].set_ylabel("time a position")
    _legend(figure, lines)
    return figure


def _certificate(results: Results) -> Any:
    """Lookaheads, and errors against the certificate's tolerance."""
    chains, bound = elements(results, "certificate", "chains"), elements(results, "certificate", "bound")
    if not chains or not bound:
        return None
    figure = plots.new_figure("How far ahead a boundary is certified, and the error that is then made", 6.0)
    (left, right) = grid(figure, 1, 2)[0]
    palette = cycle((plots.ORANGE, plots.BLUE, plots.YELLOW, plots.GREEN, plots.PINK))
    colours = dict(zip(dict.fromkeys(chain["setting"] for chain in chains), palette, strict=False))
    for chain in chains:
        shares = [100 * sum(chain["count"][: k + 1]) / chain["boundaries"] for k in range(len(chain["count"]))]
        style = {"color": colours[chain["setting"]], "linestyle": _WEIGHTS[chain["weights"]]}
        left.step([1, *chain["lookahead"], 1e9], [0, *shares, *(shares[-1:] or [0])], where="post", **style)
    log_axis(left.xaxis, [1, *(length for chain in chains for length in chain["lookahead"])], count)
    told = power(section(results, "certificate")["tolerance"])
    left.set(title=f"certified to {told}", xlabel="positions of lookahead", ylabel="boundaries certified, %")
    for row in bound:
        colour = colours[row["setting"]]
        for key, face in (("worst_error", colour), ("median_error", "white")):
            if row[key] is not None:
                style = {"color": colour, "markerfacecolor": face, "marker": "o", "markersize": 5}
                right.plot(row["tolerance"], max(row[key], _EXACT), **style)
    ends = [min(row["tolerance"] for row in bound) / 5, max(row["tolerance"] for row in bound) * 5]
    right.plot(ends, ends, color="black", linewidth=1.0)
    log_axis(right.xaxis, ends, power)
    log_axis(right.yaxis, [_EXACT, *ends], power)
    right.set(xlabel="tolerance asked for, and line of equality", ylabel="relative error of a posterior")
    right.set_title("error made: full dot worst, open dot median")
    titles = {chain["setting"]: chain["title"] for chain in chains}
    shown: list[tuple[str, dict[str, Any]]] = [
        (titles[name], {"color": colour, "linewidth": 2.5}) for name, colour in colours.items()
    ]
    kinds = dict.fromkeys(chain["weights"] for chain in chains)
    shown += [(f"{kind} weights", {"color": "black", "linestyle": _WEIGHTS[kind]}) for kind in kinds]
    _legend(figure, [], *shown, columns=5)
    return figure


FIGURES: dict[str, Callable[[Results], Any]] = {
    "cases": _cases,
    "limit": _limit,
    "settings": _settings,
    "numerics": _numerics,
    "weights": _weights,
    "certificate": _certificate,
}
"""Name -> the figure of some results, or None where they have nothing to show."""
