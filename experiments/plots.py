"""What the figures of both experiments share: their style, logarithmic axes, annotations, and how they are written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from chainfold.system.files import written_whole

ORANGE, BROWN, YELLOW, BLUE = "#d55e00", "#7a3b00", "#e69f00", "#0072b2"
GREEN, PINK, LIGHT_BLUE, GREY, BLACK = "#009e73", "#cc79a7", "#56b4e9", "#707070", "#000000"

_DOTS = 130  # per inch, in PNG
STYLE = {
    "text.parse_math": False,  # names are text, whatever signs they have
    "svg.hashsalt": "chainfold",  # the same file from the same numbers
    "svg.fonttype": "path",
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
}


def new_figure(title: str, width: float, height: float) -> Any:
    """An empty figure; sizes in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    set_title(figure, title)
    return figure


def set_title(figure: Any, text: str) -> None:
    figure.suptitle(fill(text, round(8.75 * figure.get_figwidth())), x=0.008, ha="left", size=13, weight="bold")


def save(figure: Any, folder: Path, name: str, formats: Sequence[str]) -> None:
    """NAME.FORMAT in the folder, without the date: the same figure is the same file."""
    for suffix in formats:
        with written_whole(folder / f"{name}.{suffix}") as file:
            unsaid = {"Date" if suffix == "svg" else "Software": None}
            figure.savefig(file, format=suffix, dpi=_DOTS, metadata=unsaid)


def log_axis(axis: Any, values: Iterable[float], label: Callable[[float], str], most: int = 6) -> None:
    """Make an axis logarithmic around the values, with at most `most` ticks, labelled by `label`."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    values = [value for value in values if value > 0]
    low, high = min(values, default=1.0), max(values, default=10.0)
    margin = max((high / low) ** 0.06, 1.15 if high / low > 2 else 2.0)
    low, high = low / margin, high * margin
    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (low, high)})
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    fine = (1, 1.5, 2, 2.5, 3, 4, 5, 7)
    for steps, every in ((fine, 1), ((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 3), ((1,), 4), ((1,), 8)):
        ticks = [step * 10.0**k for k in decades if k % every == 0 for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most:
            break
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: label(value).replace(".0 ", " ")))


def annotate(axes: Any, text: str, at: tuple[float, float], colour: str, off: tuple[float, float], **more: Any) -> None:
    """Text `off` points away from a place, legible over any line."""
    across = "center" if off[0] == 0 else "left" if off[0] > 0 else "right"
    along = "center" if off[1] == 0 else "bottom" if off[1] > 0 else "top"
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
    style = {"xytext": off, "textcoords": "offset points", "ha": across, "va": along, "bbox": box, "zorder": 7}
    axes.annotate(text, at, color=colour, **{"size": 9.5, **style, **more})


def grid(figure: Any, rows: int, columns: int, **more: Any) -> list[list[Any]]:
    """Axes by row and column."""
    return [list(row) for row in figure.subplots(rows, columns, squeeze=False, **more)]
