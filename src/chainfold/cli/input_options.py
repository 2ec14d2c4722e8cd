"""Options that say how an input is read and what becomes of its columns, for every verb that reads raw files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_INPUT, _ATTRIBUTES, _CONSTRAINTS = "Reading the input", "Making attributes", "Constraints"
STREAMS = "Streams"

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model made by `chainfold train`.")]

Inputs = Annotated[
    list[str],
    typer.Argument(metavar="INPUT...", help="Files, globs, or - for standard input; or a chain encoded before."),
]
Form = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="F",
        help="conll, conllu, crfsuite, csv, tsv, parquet or arrow; recognised unless given.",
        rich_help_panel=_INPUT,
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Names for columns that have none, for instance word,pos,chunk.",
        rich_help_panel=_INPUT,
    ),
]
Symbols = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Columns of tables that are symbols even if they look like numbers.",
        rich_help_panel=_INPUT,
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Does the first line of a CSV or TSV file name the columns? Guessed unless given.",
        rich_help_panel=_INPUT,
    ),
]
TextEncoding = Annotated[
    str, typer.Option("--encoding", metavar="NAME", help="The encoding of text.", rich_help_panel=_INPUT)
]
Unknown = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Stands for an unknown label, as an empty one does.", rich_help_panel=_INPUT),
]
Comments = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="Lines of conll and crfsuite that begin so are comments; none if it is empty. Those with # that cannot be "
        "rows, unless given.",
        rich_help_panel=_INPUT,
    ),
]
Group = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="A new sequence starts where this column changes.", rich_help_panel=_INPUT),
]
GroupsReturn = Annotated[
    bool,
    typer.Option(
        "--groups-return",
        help="A group may come again after another, as a sequence of its own.",
        rich_help_panel=_INPUT,
    ),
]
OneSequence = Annotated[
    bool, typer.Option("--one-sequence", help="Nothing starts a new sequence.", rich_help_panel=_INPUT)
]
Label = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The labels; the column called label, else the last, unless given.",
        rich_help_panel=_INPUT,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="The weights of the positions; all weigh one unless given.", rich_help_panel=_INPUT
    ),
]
Template = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A CRF++ or Wapiti template.", rich_help_panel=_ATTRIBUTES)
]
Attributes = Annotated[
    str | None,
    typer.Option(
        metavar="EXPRESSIONS",
        help='Attributes to make, for instance "word[-1] word shape(word)"; every column as it is unless given.',
        rich_help_panel=_ATTRIBUTES,
    ),
]
Border = Annotated[
    str | None,
    typer.Option(
        metavar="WAY",
        help="What --attributes see beyond a sequence: crfsuite (nothing, the default), crfpp or wapiti.",
        rich_help_panel=_ATTRIBUTES,
    ),
]
Numbers = Annotated[
    str | None,
    typer.Option(
        metavar="WAY",
        help="What becomes of columns of numbers taken as they are: quantile (16 bins, the default), log, real, "
        "standard or symbol.",
        rich_help_panel=_ATTRIBUTES,
    ),
]
MinCount = Annotated[
    int,
    typer.Option(metavar="K", help="Leave out attributes that occur less often.", rich_help_panel=_ATTRIBUTES),
]
HashBits = Annotated[
    int | None,
    typer.Option(
        metavar="B",
        help="Hash attributes to B bits: memory that does not grow, no names.",
        rich_help_panel=_ATTRIBUTES,
    ),
]

Scheme = Annotated[
    str | None,
    typer.Option(
        metavar="S",
        help="The labels are tags of BIO, IOBES or BILOU, and only what that allows may follow.",
        rich_help_panel=_CONSTRAINTS,
    ),
]
Forbid = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FROM>TO",
        help="Forbid a transition; * is any label, ^ the start and $ the end of a sequence. May be repeated.",
        rich_help_panel=_CONSTRAINTS,
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(metavar="FROM>TO", help="Allow it in spite of --scheme and --forbid.", rich_help_panel=_CONSTRAINTS),
]
WhenWrong = Annotated[
    str | None,
    typer.Option(
        "--on-error",
        metavar="WAY",
        help="What becomes of a line that cannot be read: stop (the default), skip, or unknown: a row of which nothing "
        "is known.",
        rich_help_panel=STREAMS,
    ),
]


def names(text: str | None) -> list[str] | None:
    """The names in a list with commas."""
    return None if text is None else [name.strip() for name in text.split(",")]
