"""Lines and tables in the terminal. Everything is text: no markup, no control characters."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from chainfold.cli.parameters import in_flags
from chainfold.escape import visible

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str, *, err: bool = True) -> None:
    """Write a line at once. If standard error cannot be written, the line is dropped."""
    stream = sys.stderr if err else sys.stdout
    if stream is None:
        return
    try:
        print(visible(text), file=stream, flush=True)
    except OSError:
        if not err:
            raise
        abandon(stream)


_quiet = False  # for all threads of a verb


@contextmanager
def quietly(quiet: bool) -> Iterator[None]:
    """While a verb runs: with `quiet`, no progress, notice or report is written."""
    global _quiet
    before, _quiet = _quiet, quiet
    try:
        yield
    finally:
        _quiet = before


def is_quiet() -> bool:
    return _quiet


def complain(sentence: object) -> None:
    """Write a sentence of the library or of a verb to standard error, options as flags."""
    say(f"chainfold: {in_flags(sentence)}")


def notice(sentence: object) -> None:
    """Write a sentence to standard error, unless the verb is quiet."""
    if not is_quiet():
        complain(sentence)


def abandon(stream: IO[str] | None) -> None:
    """Discard what a stream could not write."""
    with suppress(OSError):  # it is not a file
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """A console that prints text as it is."""
    from rich.console import Console

    return Console(stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> Any:
    """A table of texts; the first column is aligned to the left, the others to the right."""
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


def report(facts: Mapping[str, Any], rows: Sequence[Sequence[str]], title: str, as_json: bool) -> None:
    """Report the result of a verb: the facts as a line of JSON, or the rows as a table."""
    if as_json:
        say(json.dumps(facts), err=False)
    elif not is_quiet():
        console().print(table((), rows, title))


def rows_of(facts: Mapping[str, Any], digits: int = 6) -> list[tuple[str, str]]:
    """A row of a table for each fact: its name and its value, of fractions so many digits."""
    return [(name.replace("_", " "), _shown(value, digits)) for name, value in facts.items()]


def _shown(value: Any, digits: int) -> str:
    if value is None or isinstance(value, bool):
        return {None: "unknown", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        return f"{value:,.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else value


def counted(number: int, noun: str) -> str:
    """For instance 1 row, or 2 rows."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
