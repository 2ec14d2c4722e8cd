"""`chainfold explain`: why rows have their labels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.console import console, table
from chainfold.cli.input_options import FOR_MODEL, Inputs, ModelFile, check_for_model
from chainfold.cli.parameters import grouped
from chainfold.cli.progress import bar
from chainfold.errors import BadSetting

if TYPE_CHECKING:
    from chainfold.chain.block import Block
    from chainfold.inference.explanation import Explanation, Term
    from chainfold.model.model import Model

Positions = Annotated[
    list[int] | None,
    typer.Option(
        metavar="K", help="The K-th row of the input, from 1; may be repeated. Default: all rows of the first sequence."
    ),
]
Top = Annotated[int, typer.Option(metavar="K", help="Number of terms to show for each row, the largest first.")]


@grouped(constraints=options.CONSTRAINTS, spec=FOR_MODEL.without("unknown"))
def explain(
    model: ModelFile,
    inputs: Inputs,
    constraints: options.ConstraintOptions,
    spec: dict[str, Any],
    position: Positions = None,
    top: Top = 10,
    as_json: options.Json = False,
) -> None:
    """Show why rows have their labels: what attributes and transitions add to the label against the next best one.

    The best labelling is compared with the best one that has another label in
    the row. Their scores differ by the sum of the terms.

    Example: chainfold explain chunks.model test.txt --position 3
    """
    for value in position or ():
        if value < 1:
            raise BadSetting("position", value, "a row of the input, from 1")
    if top < 0:
        raise BadSetting("top", top, "at least 0")
    options.hold([], inputs, model)
    check_for_model(inputs, spec)
    opened, terminal = constraints.opened(model), console()
    for explanation in _explanations(opened, inputs, spec, position):
        if as_json:
            typer.echo(json.dumps(_facts(explanation)))
        else:
            terminal.print(_shown(explanation, top))


def _explanations(
    model: Model, inputs: list[str], spec: dict[str, Any], rows: list[int] | None
) -> Iterator[Explanation]:
    from chainfold.features.for_model import blocks_for_model
    from chainfold.inference.explanation import explanations
    from chainfold.model.model import vocabulary_of_model

    count, left = 0, set(rows or ())

    def blocks() -> Iterator[Block]:
        nonlocal count
        for known_block in known:
            count += known_block.gold.size
            yield known_block.block

    with bar() as progress:
        known = blocks_for_model(inputs, vocabulary_of_model(model), progress=progress.reading(), labels=False, **spec)
        made = explanations(model, blocks(), None if rows is None else {row - 1 for row in rows})
        for explanation in made if rows else takewhile(lambda explanation: explanation.start == 0, made):
            left.discard(explanation.position + 1)
            yield explanation
    if left:
        raise BadSetting("position", min(left), f"a row of the input, from 1 to {count:,}")


def _facts(explanation: Explanation) -> dict[str, Any]:
    """The explanation as JSON has it, rows counted from 1."""
    facts = explanation.to_json()
    for name in ("position", "start"):
        facts[name] += 1
    facts["changed"] = [place + 1 for place in facts["changed"]]
    for term in facts["terms"]:
        term["position"] += 1
    return facts


def _shown(explanation: Explanation, top: int) -> Any:
    row, label, other = explanation.position + 1, explanation.label, explanation.other
    if other is None:
        return table(("row", "label"), [(str(row), f"{label}; no other label is possible")])
    title = f"row {row}: {label}, next best {other}"
    first, last = (place + 1 for place in explanation.changed)
    if first < last:
        names = " ".join(explanation.labels), " ".join(explanation.other_labels)
        title = f"{title}; rows {first} to {last}: {names[0]}, next best {names[1]}"
    terms = explanation.strongest()
    rows = [_cells(term, explanation) for term in terms[:top]]
    if terms[top:]:
        rest = sum(term.contribution for term in terms[top:])
        rows.append((f"{len(terms[top:]):,} more", "", "", "", _number(rest)))
    rows.append(("sum", "", "", "", _number(explanation.difference)))
    return table(("term", "value", label, other, "adds"), rows, title)


def _cells(term: Term, explanation: Explanation) -> tuple[str, ...]:
    """The term, its value, the weights with both labels, the product."""
    name = term.name
    if len(term.labels) == 2:
        moves = f"{' → '.join(term.labels)}, not {' → '.join(term.other_labels)}"
        name = f"{term.name}: {moves}" if term.name else moves
    if term.position != explanation.position:
        name = f"row {term.position + 1}: {name}"
    return name, f"{term.value:g}", _number(term.weight), _number(term.other_weight), _number(term.contribution)


def _number(number: float) -> str:
    return f"{number:+.4f}"
