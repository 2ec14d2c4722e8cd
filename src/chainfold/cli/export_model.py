"""`chainfold export`: a model as a file of another program."""

from __future__ import annotations

from typing import Annotated

import typer

from chainfold.cli import options
from chainfold.cli.input_options import ModelFile

Output = Annotated[str, typer.Option("--output", "-o", metavar="FOREIGN", help="The file to write.")]
ForeignFormat = Annotated[
    str,
    typer.Option(
        "--format", metavar="F", help="crfsuite (binary), wapiti (text) or crf++ (text, for `crf_learn --convert`)."
    ),
]
NamesEncoding = Annotated[str, typer.Option("--encoding", metavar="NAME", help="The encoding of names in the file.")]


def export_model(
    model: ModelFile,
    output: Output,
    format: ForeignFormat,  # noqa: A002
    encoding: NamesEncoding = "utf-8",
) -> None:
    """Write a model for CRFsuite, Wapiti or CRF++.

    What the other program cannot express is refused: hashed attributes,
    constraints, edge attributes in CRFsuite, and templates that Wapiti and
    CRF++ do not have.

    Example: chainfold export chunks.model -o chunks.crfsuite --format crfsuite
    """
    from chainfold.exchange import any_model

    options.hold([output], model)
    any_model.export_model(any_model.open_any_model(model), output, format, encoding)
