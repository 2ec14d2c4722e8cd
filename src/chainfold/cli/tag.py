"""`chainfold tag`: labels for raw files, written in their own format, or for a chain."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO, Annotated

import typer

from chainfold.cli import input_options as reading
from chainfold.cli import options
from chainfold.cli.follow import follow_input
from chainfold.cli.progress import watched
from chainfold.errors import BadFile, ChainfoldError
from chainfold.system.files import written_whole
from chainfold.system.outputs import STANDARD

_STREAMS = reading.STREAMS


def tag(
    model: reading.ModelFile,
    inputs: reading.Inputs,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to write; - for standard output.")
    ] = STANDARD,
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
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Label rows as they come, of a pipe or a growing file: each as soon as its label is final.",
            rich_help_panel=_STREAMS,
        ),
    ] = False,
    max_lag: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="A row waits for at most K others; a column `final` says which labels might have changed.",
            rich_help_panel=_STREAMS,
        ),
    ] = None,
    on_error: reading.WhenWrong = None,
    lags: Annotated[
        bool,
        typer.Option("--lags", help="Tell at the end for how many others each row waited.", rich_help_panel=_STREAMS),
    ] = False,
    scheme: reading.Scheme = None,
    forbid: reading.Forbid = None,
    allow: reading.Allow = None,
    form: reading.Form = None,
    columns: reading.Columns = None,
    symbols: reading.Symbols = None,
    header: reading.Header = None,
    encoding: reading.TextEncoding = "utf-8",
    comments: reading.Comments = None,
    group: reading.Group = None,
    groups_return: reading.GroupsReturn = False,
    memory: options.Memory = None,
) -> None:
    """Label raw files with a model's own template; the output is the input with a column `predicted` after the others.

    Labels that the input has are not looked at, and attributes that the model
    does not know are left out. A chain gives one label a line.

    Example: chainfold tag chunks.model test.txt.gz -o tagged.txt --marginals
    """
    from chainfold.features.for_model import KnownOptions
    from chainfold.inference.tag_files import tag_to
    from chainfold.model.constraints import constrained
    from chainfold.model.file import open_model

    _check_stream(follow, inputs, {"--max-lag": max_lag, "--on-error": on_error, "--lags": lags or None})
    options.hold([output, sequences], inputs, model, in_place=follow)
    opened = constrained(open_model(model), scheme, forbid or [], allow or [])
    how = KnownOptions(
        format=form,
        columns=reading.names(columns),
        symbols=reading.names(symbols) or [],
        header=header,
        encoding=encoding,
        comments=comments,
        group=group,
        groups_return=groups_return or None,
    )
    if follow:
        if nbest or samples or sequences is not None:
            raise ChainfoldError("--follow gives labels and marginals: leave out --nbest, --samples and --sequences.")
        follow_input(
            opened,
            inputs[0],
            output,
            how,
            marginals=marginals,
            all_marginals=all_marginals,
            max_lag=max_lag,
            on_error=on_error,
            lags=lags,
            memory=options.parse_size(memory),
        )
        return
    with ExitStack() as stack:
        progress = stack.enter_context(watched())
        tag_to(
            _sink(output, stack),
            opened,
            inputs,
            piped=output == STANDARD,
            marginals=marginals,
            all_marginals=all_marginals,
            nbest=nbest,
            samples=samples,
            seed=seed,
            sequences=None if sequences is None else _sink(sequences, stack),
            memory=options.parse_size(memory),
            **how | {"progress": progress},
        )


def _check_stream(follow: bool, inputs: Sequence[str], given: dict[str, object]) -> None:
    """Some options mean something to streams alone, and there is one stream at a time."""
    for name, value in given.items():
        if value is not None and not follow:
            raise ChainfoldError(f"{name} means something with --follow alone; add that, or leave {name} out.")
    if follow and len(inputs) != 1:
        raise ChainfoldError(f"--follow goes with one input, and there are {len(inputs)}; follow them one by one.")


def _sink(output: str, stack: ExitStack) -> IO[bytes]:
    if output != STANDARD:
        return stack.enter_context(written_whole(output))
    if sys.stdout is None:
        raise BadFile("standard output", "cannot be written: it is closed.")
    return sys.stdout.buffer
