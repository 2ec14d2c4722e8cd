"""The page of the benchmarks: Markdown, made from the results alone."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.bench.findings import Cell, SectionResults, Target
from experiments.bench.section import Section
from experiments.bench.timing import median
from experiments.formatting import digits, markdown_table, size, wrapped
from experiments.ledger import Result

_HOW = (
    "Every comparison is a ratio within one run: the sides take turns, round by round, and a ratio is taken within "
    "each round. A cell is the median of the rounds, with the least and the most in brackets. A bar is judged by the "
    "median. `make bench` measures everything again, `python -m experiments bench NAME` one section."
)
_QUICK = "**This was a quick run on small made-up data: its figures mean nothing, and no bar is judged.**"
_MADE_UP = "**Real data sets were missing, and made-up files took their place: no bar is judged.**"


def page(results: Result, sections: Iterable[Section]) -> str:
    about = results["about"]
    stored = results["pieces"]
    found = {section: SectionResults.of(stored[section.name]) for section in sections if section.name in stored}
    judged = about["real_data"] and not about["quick"]
    parts = ["# Benchmarks", wrapped(_HOW), wrapped(_machine(about))]
    if not judged:
        parts.append(_QUICK if about["quick"] else _MADE_UP)
    bars = [[section.name, *row] for section, one in found.items() for row in bar_rows(one.bars, judged)]
    if bars:
        parts += ["## What has to be reached", markdown_table(["section", *BAR_COLUMNS], bars)]
    for section, one in found.items():
        parts += [f"## {section.title}", wrapped(section.words), *tables_of(one), _when(stored[section.name])]
    return "\n\n".join(parts) + "\n"


def tables_of(found: SectionResults) -> Iterable[str]:
    """Notes and tables of a section in Markdown."""
    yield from found.notes
    for table in found.tables:
        yield f"**{table.title}**"
        yield markdown_table(table.columns, [[said(cell) for cell in row] for row in table.rows])


def _machine(about: Result) -> str:
    machine = about["machine"]
    memory = "" if machine["memory"] is None else f", {size(machine['memory'])} of memory"
    names = {"Python": machine["python"], "NumPy": machine["numpy"], "Numba": machine["numba"], **about["versions"]}
    software = ", ".join(f"{name} {version}" for name, version in names.items() if version)
    return (
        f"Measured on {machine['processor']}, {machine['cores']} cores{memory}, {machine['system']}, with {software}."
    )


def _when(kept: Result) -> str:
    rounds = f"{kept['rounds']} rounds" if kept["rounds"] > 1 else "one round"
    return f"Measured on {kept['date']}, {rounds} unless fewer values are given, in {digits(kept['seconds'])} s."


BAR_COLUMNS = ["what", "measured", "bar", "met"]


def bar_rows(bars: Iterable[Target], judged: bool) -> list[list[str]]:
    """Each bar with what was measured, and whether it is met; never hides a miss."""
    rows = []
    for bar in bars:
        wanted = f"{bar.sense} {bar.bar:g}" + ("" if bar.aim is None else f" (aim {bar.aim:g})")
        met = "not measured" if bar.met is None else "yes" if bar.met else "**no**"
        rows.append([bar.what, said(bar.values), wanted, met if judged or bar.met is None else "not judged"])
    return rows


def said(cell: Cell) -> str:
    """A cell in words: the median of several rounds with least and most, a number with its thousands, or a dash."""
    if cell is None or cell == []:
        return "–"
    if isinstance(cell, list):
        spread = f" ({_number(min(cell))} – {_number(max(cell))})" if min(cell) < max(cell) else ""
        return f"{_number(median(cell))}{spread}"
    return cell if isinstance(cell, str) else _number(cell)


def _number(number: float) -> str:
    if isinstance(number, int) or number == int(number):
        return f"{int(number):,}"
    return digits(number, 3)
