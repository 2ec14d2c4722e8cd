"""`chainfold tag`: labels for raw files, written in their own format, or for a chain."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO, Annotated

import typer

from chainfold.cli import options, reading
from chainfold.cli.bars import watched
from chainfold.errors import BadFile, ChainfoldError
from chainfold.files import check_output, target_of, written_whole

_STANDARD_OUTPUT = "-"


def tag(
    model: reading.ModelFile,
    inputs: reading.Inputs,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to write; - for standard output.")
    ] = _STANDARD_OUTPUT,
    marginals: Annotated[
        bool, typer.Option("--marginals", help="Add the probability of each predicted label.")
    ] = False,
    all_marginals: Annotated[
        bool,
        typer.Option(
            "--all-marginals", help="Add the probability of every label, in the order of `chainfold inspect`."
        ),
    ] = False,
    nbest: Annotated[
        int, typer.Option(metavar="K", help="The K best labellings of each sequence, one after another.")
    ] = 0,
    samples: Annotated[int, typer.Option(metavar="K", help="Add K labellings drawn from their distribution.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the drawn labellings.")] = 0,
    sequences: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write a CSV there: the length, log probability and entropy of each sequence."
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
    group: reading.Group = None,
    memory: options.Memory = None,
) -> None:
    """Label raw files with a model's own template; the output is the input with a column `predicted` after the others.

    Labels that the input has are not looked at, and attributes that the model
    does not know are left out. A chain gives one label a line.

    Example: chainfold tag chunks.model test.txt.gz -o tagged.txt --marginals
    """
    from chainfold.apply import constrained, tag_to
    from chainfold.model_file import open_model

    opened = constrained(open_model(model), scheme, forbid or [], allow or [])
    _check_outputs([output] if sequences is None else [output, sequences], [*inputs, str(model)])
    with ExitStack() as stack:
        progress = stack.enter_context(watched())
        tag_to(
            _sink(output, stack),
            opened,
            inputs,
            piped=output == _STANDARD_OUTPUT,
            marginals=marginals,
            all_marginals=all_marginals,
            nbest=nbest,
            samples=samples,
            seed=seed,
            sequences=None if sequences is None else _sink(sequences, stack),
            memory=options.parse_size(memory),
            format=form,
            columns=reading.names(columns),
            symbols=reading.names(symbols) or [],
            header=header,
            encoding=encoding,
            group=group,
            progress=progress,
        )


def _check_outputs(outputs: Sequence[str], inputs: Sequence[str]) -> None:
    for output in outputs:
        if output != _STANDARD_OUTPUT:
            check_output(output, list(inputs))
    places = {output if output == _STANDARD_OUTPUT else target_of(output) for output in outputs}
    if len(places) < len(outputs):
        raise ChainfoldError("labels and --sequences cannot go to the same place; name another file for one of them.")


def _sink(output: str, stack: ExitStack) -> IO[bytes]:
    if output != _STANDARD_OUTPUT:
        return stack.enter_context(written_whole(output))
    if sys.stdout is None:
        raise BadFile("standard output", "cannot be written: it is closed.")
    return sys.stdout.buffer
