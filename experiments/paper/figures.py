"""The figures, drawn from the results alone: each as SVG, which scales, and as PNG.

One look throughout: orange and brown are forward-backward in logarithms, blue is EMP, green is `stream`; a solid line
with full markers has its sequence in memory, a dashed one with open markers reads it from disk; a cross is a point that
could not be measured, at the height where it was to be expected. A figure for which there are no numbers is not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from experiments import plots
from experiments.formatting import count, digits, duration, power, size
from experiments.paper.run_plan import (
    EMP,
    EMP_HELD,
    FB,
    RECOMPUTE_HELD,
    SCALED,
    SETTINGS,
    SPILL,
    STREAM,
    STREAM_HELD,
    Line,
)
from experiments.paper.series import (
    CASES,
    FLAT,
    OURS,
    Points,
    Results,
    apart,
    baseline,
    elements,
    holds,
    limits,
    measured,
    points,
    reach,
    seconds_of,
    section,
    slopes,
)
from experiments.paper.verdicts import crossing
from experiments.plots import annotate, grid, log_axis

_WIDTH = 12.0  # inches; at 72 points each, about the 900 pixels of a page
_EXACT = 1e-17  # where an error of exactly nothing is drawn
_CROSS: dict[str, Any] = {"linestyle": "none", "marker": "x", "markersize": 8, "markeredgewidth": 2.2, "zorder": 5}
_INSIDE = "axes fraction"
_DOTTED: dict[str, Any] = {"color": "black", "linestyle": ":", "linewidth": 1.3, "zorder": 6}
_WEIGHTS = {"trained": "-", "random": (0, (4, 1.5)), "zero": ":", "true": (0, (1, 1))}


class Look(NamedTuple):
    """How an engine is named and drawn."""

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


def draw(results: Results, folder: Path, formats: Sequence[str] = ("svg", "png")) -> dict[str, Path]:
    """Write NAME.svg and NAME.png of each figure for which there are numbers, and say where the SVGs are."""
    import matplotlib

    drawn = {}
    with matplotlib.rc_context(plots.STYLE):
        for name, made in FIGURES.items():
            figure = made(results)
            for suffix in formats:
                (folder / f"{name}.{suffix}").unlink(missing_ok=True)  # of another run
            if figure is not None:
                drawn[name] = folder / f"{name}.svg"
                plots.save(figure, folder, name, formats)
    return drawn


def name_of(line: Line) -> str:
    return f"{_look(line[0]).name}, {'in memory' if line[1] == 'memory' else 'from disk'}"


def _look(engine: str) -> Look:
    return LOOKS.get(engine, Look(engine, plots.BLACK))


def _style(line: Line) -> dict[str, Any]:
    look, full = _look(line[0]), line[1] == "memory"
    dashes = {"linestyle": "-" if full else (0, (5, 1.6)), "markerfacecolor": look.colour if full else "white"}
    marker = {"marker": "o", "markersize": 4.5 if look.width > 1.5 else 2.5}
    return {"color": look.colour, "linewidth": look.width, **marker, **dashes}


def _times(axes: Any, line: Line, of_line: Points) -> list[float]:
    """Median seconds with bars from least to most; returns all heights."""
    good = measured(of_line)
    middle = [seconds_of(point) for point in good]
    below = [seconds_of(point) - min(point["seconds"]) for point in good]
    above = [max(point["seconds"]) - seconds_of(point) for point in good]
    axes.errorbar([point["positions"] for point in good], middle, yerr=[below, above], capsize=2, **_style(line))
    return [second for point in good for second in point["seconds"]]


def _failure(axes: Any, line: Line, of_line: Points, other: Points | None = None, word: bool = False) -> list[float]:
    """A cross at the first point that could not be measured, as high as the line, or the other one, would go."""
    failed = next((point for point in of_line if point["outcome"] != "measured"), None)
    known = measured(of_line) or measured(other)
    if failed is None or not known:
        return []
    place = failed["positions"], seconds_of(known[-1]) / known[-1]["positions"] * failed["positions"]
    colour = _look(line[0]).colour
    axes.plot(*place, color=colour, **_CROSS)
    if word:
        annotate(axes, failed["outcome"], place, colour, (-4, 7) if line[0] == "emp" else (4, -7))
    return [place[1]]


def _ends(axes: Any, ends: Iterable[tuple[float, str, str]]) -> None:
    """Words (height, text, colour) to the right of a logarithmic axis, pushed apart where they would cover another."""
    low, high = (math.log(limit) for limit in axes.get_ylim())
    place = -1.0
    for height, text, colour in sorted(ends):
        place = max((math.log(height) - low) / (high - low), place + 0.085)
        axes.annotate(text, (1.015, place), xycoords="axes fraction", va="center", size=9.5, color=colour)


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
    grows, title = {line: grown for line, (grown, _) in slopes(results).items()}, "Time and memory against the length"
    steep, flat = grows.get(FB, 0.0), (EMP, STREAM)
    if all(abs(grows.get(line, math.inf)) < 0.05 * steep for line in flat):
        title = "FB's memory grows with the sequence; that of EMP and stream, which read it from disk, does not"
    figure = plots.new_figure(title, _WIDTH, 8.2)
    base = baseline(results)
    axes = grid(figure, 2, len(columns), sharex=True, sharey="row")
    lengths, seconds, memory = [], [], []
    for (above, below), (title, chosen) in zip(zip(*axes, strict=True), columns.items(), strict=True):
        above.set_title(title)
        for line in (*OURS[chosen[0][1]], *chosen):
            of_line = lines.get(line, [])
            seconds += _times(above, line, of_line) + _failure(above, line, of_line)
            kept = [point for point in measured(of_line) if point["peak_rss"]]
            peaks = [point["peak_rss"] for point in kept]
            below.plot([point["positions"] for point in kept], peaks, **_style(line))
            memory += peaks
            lengths += [point["positions"] for point in of_line]
            if line in (chosen[0], SPILL):
                known = [point for point in of_line if point["predicted_bytes"] is not None]
                heights = [base + point["predicted_bytes"] for point in known]
                below.plot([point["positions"] for point in known], heights, **_DOTTED)
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
    rows = math.ceil(len(found) / 2)
    figure = plots.new_figure(_limit_title(results), _WIDTH, 1.6 + 3.1 * rows)
    flat = [axes for row in grid(figure, rows, min(len(found), 2), sharey=True) for axes in row]
    heights: list[float] = []
    for axes, (limit, lines) in zip(flat, found.items(), strict=False):
        lengths = [point["positions"] for of_line in lines.values() for point in of_line]
        for line, of_line in lines.items():
            rates = [_rate(point) for point in of_line]
            heights += _times(axes, line, rates) + _failure(axes, line, rates, word=True)
        log_axis(axes.xaxis, lengths, count, 4)
        for k, line in enumerate((FB, RECOMPUTE_HELD)):
            place = reach(results, line, limit)
            if place is not None and axes.get_xlim()[0] < place < axes.get_xlim()[1]:
                look = _look(line[0])
                axes.axvline(place, color=look.colour, linewidth=1.0, linestyle="-.")
                text = f"{look.name} fills it at {count(place)}"
                late = place > math.sqrt(min(lengths) * max(lengths))
                annotate(
                    axes,
                    text,
                    (place, 0.96 - 0.09 * k),
                    look.colour,
                    (-3 if late else 3, 0),
                    xycoords=("data", _INSIDE),
                )
        axes.set(title=f"within {size(limit)}", xlabel="positions", ylabel="time a position")
    for axes in flat[len(found) :]:
        axes.remove()
    for axes in flat[: len(found)]:
        log_axis(axes.yaxis, [*heights, 1.3 * max(heights, default=1.0)], duration, 6)  # and room for words
    _legend(figure, list(dict.fromkeys(line for lines in found.values() for line in lines)), columns=3)
    return figure


def _rate(point: Mapping[str, Any]) -> dict[str, Any]:
    """The point with the time that it takes for a position."""
    return {**point, "seconds": [second / point["positions"] for second in point["seconds"]]}


def _limit_title(results: Results) -> str:
    """Whether EMP overtakes FB when FB pages."""
    told = " and ".join(filter(None, (", ".join(map(size, limits(results)[:-1])), size(limits(results)[-1]))))
    places = [
        (limit, crossing(*(measured(points(results, limit=limit).get(line)) for line in CASES["I"])))
        for limit in limits(results)
    ]
    crossed = [f"{count(place)} positions within {size(limit)}" for limit, place in places if place]
    if crossed:
        return f"Where FB's memory pages, EMP overtakes it: at {', '.join(crossed)}"
    return f"Within {told} FB pages, and EMP does not overtake it on this disk"


def _settings(results: Results) -> Any:
    """Time a position, in each setting."""
    found = {setting: points(results, setting) for setting in SETTINGS}
    found = {setting: lines for setting, lines in found.items() if any(map(measured, lines.values()))}
    if not found:
        return None
    rows = math.ceil(len(found) / 2)
    figure = plots.new_figure("", _WIDTH, 1.2 + 3.1 * rows)
    flat = [axes for row in grid(figure, rows, min(len(found), 2), sharey=True) for axes in row]
    every: list[float] = []
    last: dict[str, list[float]] = {}
    ends: list[list[tuple[float, str, str]]] = []
    for axes, (setting, lines) in zip(flat, found.items(), strict=False):
        about = section(results, "corpus", "settings", setting)
        sizes = f" (N = {about['n_labels']}, M = {about['weights']:,})" if about else ""
        axes.set_title(SETTINGS[setting].title + sizes)
        ends.append([])
        lengths: list[float] = []
        for line in (FB, EMP_HELD, STREAM_HELD, SCALED):
            good = measured(lines.get(line))
            heights = [seconds_of(point) / point["positions"] for point in good]
            axes.plot([point["positions"] for point in good], heights, **_style(line))
            lengths += [point["positions"] for point in good]
            every += heights
            look = _look(line[0])
            if lines.get(line) and not heights:
                annotate(
                    axes, f"{look.name}: {lines[line][0]['outcome']}", (1, 1), look.colour, (-4, -4), xycoords=_INSIDE
                )
            if heights:
                last.setdefault(look.name, []).append(heights[-1])
                ends[-1].append((heights[-1], f"{look.name} {duration(heights[-1])}", look.colour))
        log_axis(axes.xaxis, lengths, count, 4)
        axes.set(xlabel="positions", ylabel="time a position")
    for axes in flat[len(found) :]:
        axes.remove()
    for axes, texts in zip(flat, ends, strict=False):
        log_axis(axes.yaxis, every, duration, 5)
        _ends(axes, texts)
    ranges = {name: dict.fromkeys((duration(min(of)), duration(max(of)))) for name, of in last.items()}
    said = ", ".join(f"{name} {' to '.join(of)}" for name, of in ranges.items() if name != "FB scaled")
    plots.set_title(figure, f"Time a position at the greatest length measured: {said}")
    return figure


def _memory(results: Results) -> Any:
    """Bytes a position: measured against predicted."""
    found = slopes(results)
    if not found:
        return None
    away = [abs(grown / predicted - 1) for grown, predicted in found.values() if predicted >= FLAT]
    title = "Memory a position, measured and predicted"
    if away and max(away) < 0.25 and all(grown < FLAT for grown, predicted in found.values() if predicted < FLAT):
        title = f"Where memory grows with the sequence, it grows as predicted to within {digits(100 * max(away))} %"
    figure = plots.new_figure(title, _WIDTH, 1.7 + 0.42 * len(found))
    axes = grid(figure, 1, 1)[0][0]
    axes.set_xscale("symlog", linthresh=1.0, linscale=0.6)
    for row, (line, (grown, predicted)) in enumerate(found.items()):
        colour = _look(line[0]).colour
        axes.plot(predicted, row, marker="o", markersize=13, markerfacecolor="none", color="black")
        axes.plot(grown, row, marker="o", markersize=7, color=colour)
        text = f"{grown:.1f} measured, {predicted:.1f} predicted"
        axes.annotate(text, (1.015, row), xycoords=("axes fraction", "data"), va="center", size=9.5, color=colour)
    numbers = [number for pair in found.values() for number in pair]
    low, high = min(-0.4, 1.5 * min(numbers)), 2 * max(*numbers, 10.0)
    ticks = [tick for tick in (-1000, -100, -10, -1, 0, 1, 10, 100, 1000, 10_000, 100_000) if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_yticks(range(len(found)), [name_of(line) for line in found])
    axes.set(xlim=(low, high), ylim=(len(found) - 0.5, -0.5), xlabel="bytes a position: dot measured, ring predicted")
    return figure


def _numerics(results: Results) -> Any:
    """Errors of each method against the length, and where it breaks."""
    chains = [chain for chain in elements(results, "numerics", "chains") if chain["lengths"]]
    if not chains:
        return None
    broken = dict.fromkeys(name for chain in chains for name, broke in chain["breaks"].items() if broke)
    title = "How far each method is from the truth, against the length"
    if broken:
        title = f"{' and '.join(broken)} leave the range of a double where the crosses are"
    figure = plots.new_figure(title, _WIDTH, 7.4)
    axes = grid(figure, 2, len(chains), sharex="col", sharey=True)
    names: dict[str, None] = {}
    for column, chain in enumerate(chains):
        names |= dict.fromkeys(chain["methods"])
        for row, key in enumerate(("log_z_error", "count_error")):
            _errors(axes[row][column], chain, key)
        axes[0][column].set_title(fill(chain["title"], 150 // len(chains)), size=10)
        axes[1][column].set_xlabel("positions")
        breaks = [broke["length"] for broke in chain["breaks"].values() if broke]
        log_axis(axes[1][column].xaxis, [*chain["lengths"], *breaks], count, 5)
    log_axis(axes[0][0].yaxis, [_EXACT, 1.0], power, 7)
    axes[0][0].set_ylabel("relative error of ln Z")
    axes[1][0].set_ylabel("worst relative error of a count")
    _legend(figure, [], *((name, _method(name)) for name in names), columns=6)
    return figure


def _method(name: str) -> dict[str, Any]:
    look = _look(name)
    dashed = name in ("sum-product FB", "expectation semiring")
    return {"color": look.colour, "linewidth": look.width, "linestyle": (0, (4, 1.5)) if dashed else "-"}


def _errors(axes: Any, chain: Mapping[str, Any], key: str) -> None:
    row = 0
    for name, method in chain["methods"].items():
        kept = [(n, e) for n, e in zip(chain["lengths"], method[key], strict=True) if e is not None]
        axes.plot([n for n, _ in kept], [max(e, _EXACT) for _, e in kept], marker=".", **_method(name))
        broke = chain["breaks"].get(name)
        if not broke or None not in method[key]:
            continue
        high, length = 10.0 ** (-0.7 - 1.5 * row), broke["length"]
        axes.plot(length, high, color=_look(name).colour, **_CROSS)
        axes.vlines(length, _EXACT / 3, high, color=_look(name).colour, linewidth=0.8, linestyle=":")
        aside = -8 if length > math.sqrt(max(chain["lengths"])) else 8
        annotate(axes, f"{broke['how']} at T = {length:,}", (length, high), _look(name).colour, (aside, 0))
        row += 1


def _weights(results: Results) -> Any:
    """EMP and stream as the weights become many."""
    every = sorted(elements(results, "weights", "points"), key=lambda point: point["weights"])
    every = [point for point in every if point["nanoseconds"]]
    if not every:
        return None
    both, title = apart(results), "Time a position against the number of weights"
    if both:
        n, found = max(both.items(), key=lambda one: one[1].emp / one[1].stream)
        title = f"With {n} labels and {found.weights:,} weights EMP takes {found.times} times the time of stream"
    figure = plots.new_figure(title, _WIDTH, 4.6)
    labels = sorted({point["labels"] for point in every})
    row = grid(figure, 1, len(labels), sharey=True)[0]
    styles = {engine: _style(Line(engine, "memory")) for engine in ("emp", "stream")}
    for axes, n in zip(row, labels, strict=True):
        for engine, style in styles.items():
            mine = [point for point in every if (point["labels"], point["engine"]) == (n, engine)]
            axes.plot([point["weights"] for point in mine], [1e-9 * point["nanoseconds"] for point in mine], **style)
        log_axis(axes.xaxis, [point["weights"] for point in every if point["labels"] == n], count, 4)
        axes.set(title=f"N = {n} labels", xlabel="weights M")
        if n in both:
            most, slow, fast, _ = both[n]
            axes.vlines(most, *sorted((slow, fast)), color="black", linewidth=0.8, linestyle=":")
            annotate(axes, f"{both[n].times} ×", (most, math.sqrt(slow * fast)), "black", (-5, 0), weight="bold")
    log_axis(row[0].yaxis, [1e-9 * point["nanoseconds"] for point in every], duration, 8)
    row[0].set_ylabel("time a position")
    _legend(figure, [], *((_look(engine).name, style) for engine, style in styles.items()))
    return figure


def _certificate(results: Results) -> Any:
    """How far one has to look ahead, and what the certificate promises against what is true."""
    chains = [chain for chain in elements(results, "certificate", "chains") if chain["boundaries"]]
    bound = elements(results, "certificate", "bound")
    if not chains and not bound:
        return None
    title = "How far ahead a boundary is certified, and the error that is then made"
    if bound and all(holds(row) for row in bound):
        title = "No error exceeds what the certificate promised, but for rounding"
    figure = plots.new_figure(title, _WIDTH, 6.0)
    (left, right) = grid(figure, 1, 2)[0]
    palette = (plots.ORANGE, plots.BLUE, plots.YELLOW, plots.GREEN, plots.PINK, plots.LIGHT_BLUE, plots.BLACK)
    colours = dict(zip(dict.fromkeys(row["setting"] for row in (*chains, *bound)), cycle(palette), strict=False))
    for chain in chains:
        steps = [max(length, 1) for length in chain["lookahead"]]
        shares = [100 * sum(chain["count"][: k + 1]) / chain["boundaries"] for k in range(len(steps))]
        style = {"color": colours[chain["setting"]], "linestyle": _WEIGHTS.get(chain["weights"], "-")}
        left.step([1, *steps, 1e9], [0, *shares, *(shares[-1:] or [0])], where="post", linewidth=1.7, **style)
    log_axis(left.xaxis, [1, *(length for chain in chains for length in chain["lookahead"])], count)
    left.set_ylim(0, 103)
    told = power(section(results, "certificate").get("tolerance") or 0)
    left.set(title=f"certified to {told}", xlabel="positions of lookahead", ylabel="boundaries certified, %")
    for row in bound:
        for key, full in (("worst_error", True), ("median_error", False)):
            style = {"color": colours[row["setting"]], "markerfacecolor": colours[row["setting"]] if full else "white"}
            if row[key] is not None:
                right.plot(row["tolerance"], max(row[key], _EXACT), marker="o", markersize=5, **style)
    tolerances = [row["tolerance"] for row in bound] or [1e-12, 1e-2]
    ends = [min(tolerances) / 5, max(tolerances) * 5]
    right.plot(ends, ends, color="black", linewidth=1.0)
    annotate(right, "error = tolerance", (ends[1], ends[1]), "black", (-12, 0))
    log_axis(right.xaxis, ends, power)
    log_axis(right.yaxis, [_EXACT, *ends], power, 7)
    right.set(xlabel="tolerance asked for", ylabel="relative error of a posterior")
    right.set_title("error made: full dot worst, open dot median")
    titles = {chain["setting"]: chain["title"] for chain in chains}
    shown: list[tuple[str, dict[str, Any]]] = [
        (str(titles.get(name, name)), {"color": colour, "linewidth": 2.5}) for name, colour in colours.items()
    ]
    kinds = dict.fromkeys(chain["weights"] for chain in chains)
    shown += [(f"{kind} weights", {"color": "black", "linestyle": _WEIGHTS.get(kind, "-")}) for kind in kinds]
    _legend(figure, [], *shown, columns=5)
    return figure


def _entropy(results: Results) -> Any:
    """Sampling against the exact entropy."""
    about = section(results, "entropy")
    exact = list(section(about, "exact").values())
    columns = (about.get(key) or [] for key in ("samples", "estimates", "errors"))
    kept = [row for row in zip(*columns, strict=False) if None not in row]
    if not exact or not kept:
        return None
    h, (_, last, error) = exact[0], kept[-1]
    title = f"Sampling closes in on the exact entropy of {digits(h, 4)} nats"
    if error and abs(last - h) > 4 * error:
        title = f"Sampling ends {digits(abs(last - h) / error)} standard errors from the exact entropy"
    figure = plots.new_figure(title, _WIDTH, 4.4)
    axes = grid(figure, 1, 1)[0][0]
    axes.axhline(h, color=LOOKS["emp"].colour, linewidth=1.7)
    samples, estimates, errors = zip(*kept, strict=True)
    bars = {"yerr": [2 * error for error in errors], "capsize": 4, "linewidth": 1.3}
    axes.errorbar(samples, estimates, fmt="o", color="black", **bars)
    log_axis(axes.xaxis, samples, count)
    axes.set(xlabel="samples", ylabel="entropy of the labelling, nats")
    axes.annotate("exact", (1.01, h), xycoords=("axes fraction", "data"), va="center", color=LOOKS["emp"].colour)
    axes.set_title(f"{count(about.get('positions') or 0)} positions; bars are two standard errors each way")
    return figure


_DRAWN = (_cases, _limit, _settings, _memory, _numerics, _weights, _certificate, _entropy)
FIGURES: dict[str, Callable[[Results], Any]] = {made.__name__.lstrip("_"): made for made in _DRAWN}
"""Name -> the figure of some results, or None where they have nothing to show."""
