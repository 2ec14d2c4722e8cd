"""`chainfold inspect`: what a model has learned, as tables, as JSON, or as a page for the browser."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.console import console, table
from chainfold.cli.input_options import ModelFile
from chainfold.errors import BadSetting, ChainfoldError
from chainfold.system.files import written_whole
from chainfold.system.outputs import STANDARD

_MOST_COLUMNS = 12  # labels in a table of transitions
_MOST_ROWS = 1000  # weights in the table of an --attribute
_MOST_NAMES = 20  # labels or outlines in one line
_MOST_EMBEDDED = 20_000  # weights in a page


Top = Annotated[int, typer.Option(metavar="K", help="Number of strongest weights of each kind to show.")]
LabelNames = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Show the attributes of this label only; may be repeated.")
]
AttributeText = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Show all weights of the attributes whose name contains this.")
]
Html = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write a page for the browser; - for standard output.", allow_dash=True),
]


def inspect(
    model: ModelFile,
    top: Top = 10,
    label: LabelNames = None,
    attribute: AttributeText = None,
    as_json: options.Json = False,
    html: Html = None,
) -> None:
    """Show what a model has learned: sizes, constraints, transitions, the strongest attributes for and against labels.

    Example: chainfold inspect chunks.model --label B-NP
    """
    from chainfold.exchange.any_model import open_any_model
    from chainfold.model import inspection

    if html is not None and as_json:
        raise ChainfoldError("give --html or --json, not both.")
    if top < 0:
        raise BadSetting("top", top, "at least 0")
    options.hold([html], model)
    opened = open_any_model(model)
    facts = {"model": str(model), "bytes": model.stat().st_size, **inspection.inspect(opened, top, label or None)}
    if html is not None:
        _write_page(html, facts, inspection.strongest(opened, _MOST_EMBEDDED))
        return
    if attribute is not None:
        facts["matching"] = inspection.matching(opened, attribute)
    if as_json:
        typer.echo(json.dumps(facts))
    elif attribute is not None:
        _show_matching(facts["matching"], attribute)
    else:
        _show(facts)


def _write_page(path: Path, facts: dict[str, Any], embedded: list[dict[str, Any]]) -> None:
    from chainfold.cli.page import page

    text = page(facts, embedded).encode("utf-8", "replace")
    if str(path) == STANDARD:
        options.standard_output().write(text)
        return
    with written_whole(path) as file:
        file.write(text)


def _show(facts: dict[str, Any]) -> None:
    from chainfold.model.inspection import summary

    terminal = console()
    terminal.print(table((), summary(facts, _MOST_NAMES), facts["model"]))
    terminal.print(_matrix(facts) if len(facts["labels"]) <= _MOST_COLUMNS else _pairs(facts))
    for of_label in facts["strongest_attributes"]:
        rows = [(row["attribute"], _weight(row["weight"]), _count(row["count"])) for row in _falling(of_label)]
        if rows:
            terminal.print(table(("attribute", "weight", "entries"), rows, f"label {of_label['label']}"))
    rows = [
        (row["edge_attribute"], f"{row['from']} → {row['to']}", _weight(row["weight"]))
        for row in _falling(facts["strongest_edge_attributes"])
    ]
    if rows:
        terminal.print(table(("edge attribute", "transition", "weight"), rows))


def _show_matching(rows: list[dict[str, Any]], text: str) -> None:
    if not rows:
        raise ChainfoldError(f"no attribute with a weight has a name that contains {text!r}.")
    cells = [
        (
            row["attribute"] if "attribute" in row else row["edge_attribute"],
            row["label"] if "label" in row else f"{row['from']} → {row['to']}",
            _weight(row["weight"]),
            _count(row.get("count")),
        )
        for row in rows
    ]
    terminal = console()
    terminal.print(table(("attribute", "label", "weight", "entries"), cells[:_MOST_ROWS]))
    if len(cells) > _MOST_ROWS:
        terminal.print(f"… and {len(cells) - _MOST_ROWS:,} more weights; --json has all of them.")


def _matrix(facts: dict[str, Any]) -> Any:
    """From each label, a row, to each label, a column."""
    labels = facts["labels"]
    rows = [
        (name, *(_weight(weight, 2) for weight in row)) for name, row in zip(labels, facts["transitions"], strict=True)
    ]
    return table(("from, to", *labels), rows)


def _pairs(facts: dict[str, Any]) -> Any:
    rows = [
        (f"{row['from']} → {row['to']}", _weight(row["weight"])) for row in _falling(facts["strongest_transitions"])
    ]
    return table(("strongest transitions", "weight"), rows or [("none", "")])


def _falling(sides: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Positive weights, largest first, then negative ones, largest last."""
    return [*sides["for"], *reversed(sides["against"])]


def _weight(weight: float | None, places: int = 4) -> str:
    return "forbidden" if weight is None else f"{weight:+.{places}f}"


def _count(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
