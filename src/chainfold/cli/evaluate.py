"""`chainfold eval`: how well a model labels inputs whose labels are known."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.console import console
from chainfold.cli.input_options import FOR_MODEL, Inputs, ModelFile, check_for_model
from chainfold.cli.parameters import grouped
from chainfold.cli.progress import bar
from chainfold.escape import visible

_MOST_UNSEEN = 20  # labels to name

Confusion = Annotated[bool, typer.Option("--confusion", help="Show the whole confusion matrix.")]
Spans = Annotated[
    bool | None,
    typer.Option("--spans/--no-spans", help="Count spans as conlleval does. Default: if the labels are chunk tags."),
]


@grouped(constraints=options.CONSTRAINTS, spec=FOR_MODEL)
def evaluate(
    model: ModelFile,
    inputs: Inputs,
    constraints: options.ConstraintOptions,
    spec: dict[str, Any],
    confusion: Confusion = False,
    spans: Spans = None,
    memory: options.Memory = None,
    as_json: options.Json = False,
) -> None:
    """Tag inputs and compare with their own labels: accuracy, precision, recall and F1 of labels and spans, confusions.

    A label that the model does not know is always wrong; a position without a label is left out.

    Example: chainfold eval chunks.model test.txt.gz
    """
    from chainfold.cli.scores import show
    from chainfold.inference.tag_files import evaluate as evaluate_model

    options.hold([], inputs, model)
    check_for_model(inputs, spec)
    opened = constraints.opened(model)
    with bar() as progress:
        size = options.parse_size(memory)
        scores = evaluate_model(opened, inputs, spans=spans, memory=size, progress=progress.reading(), **spec)
    unseen = scores.labels[opened.layout.n_labels :]
    if as_json:
        typer.echo(json.dumps({**scores.to_json(), "unseen_labels": unseen}))
        return
    terminal = console()
    show(scores, terminal, confusion=confusion)
    if unseen:
        positions = sum(scores.per_label[label].gold for label in unseen)
        named = f"{', '.join(unseen[:_MOST_UNSEEN])}{', …' if len(unseen) > _MOST_UNSEEN else ''}"
        terminal.print(
            visible(f"Always wrong, as the model does not know their labels: {positions:,} positions with {named}")
        )
