"""Numbers as text: counts, sizes, durations, powers of ten; tables and paragraphs of Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from textwrap import fill


def digits(number: float, wanted: int = 2) -> str:
    """A number with `wanted` significant digits, but with all digits before the point."""
    if number == 0:
        return "0"
    rounded = float(f"{number:.{wanted - 1}e}")
    return f"{number:,.{max(0, wanted - 1 - math.floor(math.log10(abs(rounded))))}f}"


def count(number: float) -> str:
    """Format a count: 494,021, 4.9 million or 1.2 billion."""
    for unit, name in ((1e9, "billion"), (1e6, "million")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number:,.0f}"


def times(ratio: float) -> str:
    """Format a ratio: 1.5, 38 or 9,100."""
    return digits(ratio) if ratio < 100 else count(float(f"{ratio:.1e}"))


def size(number: float) -> str:
    """Bytes."""
    units = ["bytes", "kB", "MB", "GB", "TB"]
    while abs(number) >= 999.5 and len(units) > 1:
        number, units = number / 1000, units[1:]
    return f"{digits(number)} {units[0]}"


def duration(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= 0.9995 * unit:
            return f"{digits(seconds / unit)} {name}"
    return f"{digits(seconds / 1e-9)} ns"


def power(number: float) -> str:
    """A power of ten as 10⁻¹², another number as 3.0·10⁻¹³."""
    if number <= 0:
        return "0"
    exponent = math.floor(math.log10(number) + 1e-9)
    raised = "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    factor = number / 10.0**exponent if exponent > -300 else 1.0
    return raised if abs(factor - 1) < 0.005 else f"{factor:.1f}·{raised}"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    body = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*body, *(f"| {' | '.join(row)} |" for row in rows)])


def wrapped(text: str) -> str:
    """A paragraph of Markdown."""
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)
