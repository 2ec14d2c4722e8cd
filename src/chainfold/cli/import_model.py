"""`chainfold import`: a model of another program as a model file of chainfold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chainfold.cli import options

ForeignFile = Annotated[Path, typer.Argument(metavar="FOREIGN", help="A model of CRFsuite, Wapiti or CRF++.")]
Output = Annotated[str, typer.Option("--output", "-o", metavar="MODEL", help="The model file to write.")]
NamesEncoding = Annotated[
    str, typer.Option("--encoding", metavar="NAME", help="The encoding of names in the file of the other program.")
]


def import_model(foreign: ForeignFile, output: Output, encoding: NamesEncoding = "utf-8") -> None:
    """Convert a model of CRFsuite, Wapiti or CRF++ into a model file.

    The format is recognised by the first bytes of the file. Other verbs open
    such files directly as well, if their names are UTF-8.

    Example: chainfold import chunks.crfsuite -o imported.model
    """
    from chainfold.exchange.any_model import open_any_model
    from chainfold.model.file import save_model

    options.hold([output], foreign)
    save_model(output, open_any_model(foreign, encoding))
