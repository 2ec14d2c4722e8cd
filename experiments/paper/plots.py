"""The style of the figures, logarithmic axes, and how figures are written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from chainfold.system.files import written_whole

ORANGE, BROWN, YELLOW, BLUE = "#d55e00", "#7a3b00", "#e69f00", "#0072b2"
GREEN, PINK, LIGHT_BLUE, GREY, BLACK = "#009e73", "#cc79a7", "#56b4e9", "#707070", "#000000"

_WIDTH, _DOTS = 12.0, 110  # inches, and dots per inch
STYLE = {
    "text.parse_math": False,  # names are text, whatever signs they have
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
}


def new_figure(title: str, height: float) -> Any:
    """An empty figure; the height is in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), facecolor="white", layout="constrained")
    figure.suptitle(title, x=0.008, ha="left", size=13, weight="bold")
    return figure


def grid(figure: Any, rows: int, columns: int, **more: Any) -> list[list[Any]]:
    """Axes by row and column."""
    return [list(row) for row in figure.subplots(rows, columns, squeeze=False, **more)]


def tiles(figure: Any, count: int) -> list[Any]:
    """Axes in rows of two, with the same heights."""
    every = [axes for row in grid(figure, math.ceil(count / 2), min(count, 2), sharey=True) for axes in row]
    for axes in every[count:]:
        axes.remove()
    return every[:count]


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG, without the date: the same figure is the same file."""
    with written_whole(path) as file:
        figure.savefig(file, format="png", dpi=_DOTS, metadata={"Software": None})


def log_axis(axis: Any, values: Iterable[float], label: Callable[[float], str], most: int = 7) -> None:
    """Make an axis logarithmic around the values, with at most `most` ticks, labelled by `label`."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    values = [value for value in values if value > 0]
    low, high = min(values, default=1.0), max(values, default=10.0)
    margin = max((high / low) ** 0.06, 1.15 if high / low > 2 else 2.0)
    low, high = low / margin, high * margin
    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (low, high)})
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    for steps, every in (((1, 2, 3, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 4)):
        ticks = [step * 10.0**k for k in decades if k % every == 0 for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most:
            break
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: label(value).replace(".0 ", " ")))
