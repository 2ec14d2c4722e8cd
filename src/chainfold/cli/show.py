"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> Any:
    """A table of texts, none of which is markup: what they are to the left, numbers to the right."""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=None if title is None else Text(title), show_header=bool(headings), title_justify="left")
    for k in range(len(rows[0])):
        heading = headings[k] if headings else ""
        made.add_column(heading, style="bold" if k == 0 else None, justify="left" if k == 0 else "right")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made
