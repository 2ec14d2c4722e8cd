"""Lines and tables in the terminal, in which everything is text: no markup, no control characters."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from chainfold.escape import visible

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str, *, err: bool = True) -> None:
    """A line for people, at once; if standard error cannot be written, there is nobody to be told."""
    stream = sys.stderr if err else sys.stdout
    if stream is None:
        return
    try:
        print(visible(text), file=stream, flush=True)
    except OSError:
        if not err:
            raise
        abandon(stream)


def abandon(stream: IO[str] | None) -> None:
    """Let what a stream could not write go nowhere."""
    with suppress(OSError):  # it is not a file
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """A console that takes what it prints as it is."""
    from rich.console import Console

    return Console(stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> Any:
    """A table of texts: what they are to the left, numbers to the right."""
    from rich.table import Table
    from rich.text import Text

    def text(outside: str) -> Text:
        return Text(visible(outside))

    made = Table(title=None if title is None else text(title), show_header=bool(headings), title_justify="left")
    for k in range(len(rows[0])):
        heading = text(headings[k] if headings else "")
        made.add_column(heading, style="bold" if k == 0 else None, justify="left" if k == 0 else "right")
    for row in rows:
        made.add_row(*map(text, row))
    return made
