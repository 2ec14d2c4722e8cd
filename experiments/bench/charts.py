"""The pictures of the benchmarks: curves on logarithmic axes, drawn from the results alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chainfold.files import written_whole
from experiments.bench.findings import Chart, Found, Json
from experiments.formatting import count

_OURS, _THEIRS = ("#009e73", "#0072b2", "#56b4e9"), ("#d55e00", "#e69f00", "#cc79a7")
_MARKERS = "os^"
_GREY = "#707070"
_LOOK = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.grid": True,
    "grid.color": "#e6e6e6",
}


def draw(results: Json, folder: Path) -> list[Path]:
    """NAME.png of every chart."""
    import matplotlib

    drawn = []
    with matplotlib.rc_context(_LOOK):
        for kept in results["pieces"].values():
            for chart in Found.of(kept).charts:
                drawn.append(folder / f"{chart.name}.png")
                with written_whole(drawn[-1]) as file:
                    _figure(chart).savefig(file, format="png", dpi=130, metadata={"Software": None})
    return drawn


def _figure(chart: Chart) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 5.0), facecolor="white", layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel=chart.x, ylabel=chart.y)
    axes.set_title(chart.title)
    ours, theirs = (iter(zip(colours, _MARKERS, strict=True)) for colours in (_OURS, _THEIRS))
    for curve in chart.curves:
        x, y = zip(*curve.points, strict=True)
        if curve.dashed:
            axes.plot(x, y, color=_GREY, linestyle="--", linewidth=1.2, label=curve.name)
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
