"""`chainfold warm`: kernels compiled before they are needed, into a folder that is kept."""

from __future__ import annotations

import re
import time
from typing import Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.console import report, rows_of
from chainfold.cli.progress import bar
from chainfold.cli.warm_steps import warm_up
from chainfold.errors import BadSetting

_MOST = 1024  # labels: their kernels take longer to compile than to wait for
_PART = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")

Widths = Annotated[
    str, typer.Option(metavar="N-M", help="Numbers of labels to compile for: numbers and ranges, for instance 2-16,40.")
]


def warm(widths: Widths = "2-64", as_json: options.Json = False) -> None:
    """Compile the kernels, so that later runs need not: for a container image or a shared machine.

    They are stored in the folder that the environment variable CHAINFOLD_CACHE
    names, which other users can then use and nobody has to write to; without it,
    where this user's kernels are stored anyway.

    Example: chainfold warm --widths 2-8
    """
    from chainfold.jit.decorator import kernel_store

    begin = time.perf_counter()
    numbers = one_of_each_width(parse_widths(widths))
    store = kernel_store()
    with bar("compiling", len(numbers) + 1) as shown:
        warm_up(numbers, lambda done: shown.advance(1))
    files = store.kernels()
    facts: dict[str, Any] = {
        "folder": str(store.folder),
        "widths": widths,
        "kernels": len(files),
        "bytes": sum(path.stat().st_size for path in files),
        "seconds": time.perf_counter() - begin,
    }
    report(facts, rows_of(facts), "compiled", as_json)


def parse_widths(text: str) -> list[int]:
    """Numbers of labels: numbers and ranges, separated by commas."""
    numbers: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 2 <= low <= high <= _MOST:
            raise BadSetting("widths", text, f"numbers from 2 to {_MOST} and ranges of them, for instance 2-16,40")
        numbers.update(range(low, high + 1))
    return sorted(numbers)


def one_of_each_width(numbers: list[int]) -> list[int]:
    """The largest of the numbers of labels that share their kernels."""
    from chainfold.core.slots import tiles_of

    return sorted({tiles_of(number): number for number in numbers}.values())
