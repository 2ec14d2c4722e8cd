"""`chainfold eval`: how well a model labels inputs whose labels are known."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from chainfold.cli import input_options as reading
from chainfold.cli import options
from chainfold.cli.console import console
from chainfold.cli.progress import watched
from chainfold.escape import visible
from chainfold.system.outputs import STANDARD

_MOST_UNSEEN = 20  # labels to name


def evaluate(
    model: reading.ModelFile,
    inputs: reading.Inputs,
    confusion: Annotated[bool, typer.Option("--confusion", help="Show the whole confusion matrix.")] = False,
    spans: Annotated[
        bool | None,
        typer.Option(
            "--spans/--no-spans",
            help="Count spans as conlleval does; if the labels are chunk tags, unless given.",
        ),
    ] = None,
    scheme: reading.Scheme = None,
    forbid: reading.Forbid = None,
    allow: reading.Allow = None,
    form: reading.Form = None,
    columns: reading.Columns = None,
    symbols: reading.Symbols = None,
    header: reading.Header = None,
    encoding: reading.TextEncoding = "utf-8",
    unknown: reading.Unknown = None,
    comments: reading.Comments = None,
    group: reading.Group = None,
    groups_return: reading.GroupsReturn = False,
    memory: options.Memory = None,
    as_json: options.Json = False,
) -> None:
    """Tag inputs and compare with their own labels: accuracy, precision, recall and F1 of labels and spans, confusions.

    A label that the model never saw is always wrong; a position without a label is left out.

    Example: chainfold eval chunks.model test.txt.gz
    """
    from chainfold.cli.scores import show
    from chainfold.inference.tag_files import evaluate as evaluate_model
    from chainfold.model.constraints import constrained
    from chainfold.model.file import open_model

    options.hold([STANDARD], inputs, model)
    opened = constrained(open_model(model), scheme, forbid or [], allow or [])
    with watched() as progress:
        scores = evaluate_model(
            opened,
            inputs,
            spans=spans,
            memory=options.parse_size(memory),
            format=form,
            columns=reading.names(columns),
            symbols=reading.names(symbols) or [],
            header=header,
            encoding=encoding,
            unknown=unknown,
            comments=comments,
            group=group,
            groups_return=groups_return or None,
            progress=progress,
        )
    unseen = scores.labels[opened.layout.n_labels :]
    if as_json:
        typer.echo(json.dumps({**scores.to_json(), "unseen_labels": unseen}))
        return
    terminal = console()
    show(scores, terminal, confusion=confusion)
    if unseen:
        positions = sum(scores.per_label[label].gold for label in unseen)
        named = f"{', '.join(unseen[:_MOST_UNSEEN])}{', …' if len(unseen) > _MOST_UNSEEN else ''}"
        said = f"Always wrong, as the model never saw their labels: {positions:,} positions with {named}"
        terminal.print(visible(said))
