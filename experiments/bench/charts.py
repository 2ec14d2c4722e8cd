"""The charts of the benchmarks: curves on logarithmic axes, drawn from the results alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.bench.findings import Chart, SectionResults
from experiments.formatting import count
from experiments.ledger import Result
from experiments.plots import BLUE, GREEN, GREY, LIGHT_BLUE, ORANGE, PINK, STYLE, YELLOW, new_figure, save

_OURS, _THEIRS = (GREEN, BLUE, LIGHT_BLUE), (ORANGE, YELLOW, PINK)
_MARKERS = "os^"


def draw(results: Result, folder: Path) -> list[Path]:
    """NAME.png of every chart."""
    import matplotlib

    drawn = []
    with matplotlib.rc_context(STYLE):
        for kept in results["pieces"].values():
            for chart in SectionResults.of(kept).charts:
                drawn.append(folder / f"{chart.name}.png")
                save(_figure(chart), folder, chart.name, ["png"])
    return drawn


def _figure(chart: Chart) -> Any:
    figure = new_figure(chart.title, 9.0, 5.0)
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel=chart.x, ylabel=chart.y)
    ours, theirs = (iter(zip(colours, _MARKERS, strict=True)) for colours in (_OURS, _THEIRS))
    for curve in chart.curves:
        x, y = zip(*curve.points, strict=True)
        if curve.dashed:
            axes.plot(x, y, color=GREY, linestyle="--", linewidth=1.2, label=curve.name)
        else:
            colour, marker = next(ours if curve.name.startswith("chainfold") else theirs)
            axes.plot(x, y, color=colour, marker=marker, linewidth=2.0, label=curve.name)
    axes.set_ylim(bottom=min(y for curve in chart.curves if not curve.dashed for _, y in curve.points) / 2)
    _ticks(axes, sorted({x for curve in chart.curves for x, _ in curve.points}))
    axes.legend()
    return figure


def _ticks(axes: Any, places: list[float]) -> None:
    """Below, where something was measured; at the side, powers of ten; all in words."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.yaxis.set_major_locator(LogLocator(10.0, subs=(1.0,)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: count(value) if value >= 1 else f"{value:g}"))
