"""The options of inputs, for every verb that reads raw files: one table, of which each verb takes its part.

A verb gets a dict of the options that were given; the library's functions take them as keywords.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from chainfold.cli.parameters import Group, Parameter
from chainfold.errors import BadFile

_READING, _ATTRIBUTES = "Reading the input", "Making attributes"

Inputs = Annotated[
    list[str],
    typer.Argument(metavar="INPUT...", help="Files, globs, or - for standard input; or a chain made by encode."),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model of chainfold, CRFsuite, Wapiti or CRF++.")]


def _option(kind: Any, text: str, *flags: str, metavar: str | None = None, panel: str = _READING) -> Parameter:
    return Parameter(Annotated[kind | None, typer.Option(*flags, metavar=metavar, help=text, rich_help_panel=panel)])


def _attribute(kind: Any, text: str, metavar: str) -> Parameter:
    return _option(kind, text, metavar=metavar, panel=_ATTRIBUTES)


_OPTIONS = {
    "format": _option(
        str, "conll, conllu, crfsuite, csv, tsv, jsonl, parquet or arrow. Default: detected.", metavar="F"
    ),
    "columns": _option(
        str,
        "Names for columns that have none, for instance word,pos,chunk; of jsonl the fields to read.",
        metavar="NAMES",
    ),
    "symbols": _option(str, "Columns of tables that are symbols even if they look like numbers.", metavar="NAMES"),
    "header": _option(
        bool, "Does the first line of a CSV or TSV file name the columns? Default: detected.", "--header/--no-header"
    ),
    "delimiter": _option(
        str,
        "What separates the fields of csv, tsv or conll, for instance ';' or '\\t'. Default: a comma in csv.",
        metavar="CHARACTER",
    ),
    "encoding": _option(
        str,
        "The encoding of text. Default: that of a byte order mark, else the one that the model was trained with, else "
        "utf-8.",
        metavar="NAME",
    ),
    "unknown": _option(str, "The text of an unknown label; an empty label is unknown, too.", metavar="TEXT"),
    "comments": _option(
        str,
        "What comment lines of conll, crfsuite, csv and tsv begin with; '' if there are none. Default: # where a line "
        "cannot be a row; none in csv and tsv.",
        metavar="TEXT",
    ),
    "group": _option(str, "A new sequence starts where this column changes.", metavar="COLUMN"),
    "groups_return": _option(
        bool, "A group may occur again after another; it starts a new sequence.", "--groups-return"
    ),
    "one_sequence": _option(bool, "The whole input is one sequence.", "--one-sequence"),
    "label": _option(str, "The column of labels. Default: the column `label`, else the last.", metavar="COLUMN"),
    "labels": _option(bool, "Is there a column of labels? Default: yes.", "--labels/--no-labels"),
    "weight": _option(str, "The column of weights of sequences. Default: every weight is 1.", metavar="COLUMN"),
    "template": _attribute(Path, "A CRF++ or Wapiti template.", "FILE"),
    "attributes": _attribute(
        str, 'Attributes to make, for instance "word[-1] word shape(word)". Default: every column.', "EXPRESSIONS"
    ),
    "border": _attribute(
        str, "What --attributes see outside a sequence: crfsuite (nothing, the default), crfpp or wapiti.", "WAY"
    ),
    "numbers": _attribute(
        str,
        "How columns of numbers become attributes: quantile (16 bins, the default), log, real, standard or symbol.",
        "WAY",
    ),
    "min_count": _attribute(int, "Leave out attributes that occur less often. Default: 1.", "K"),
    "hash_bits": _attribute(int, "Hash attributes to B bits: bounded memory, no names.", "B"),
}
_READ_AGAIN = (
    *("format", "columns", "symbols", "header", "delimiter", "encoding", "unknown", "comments"),
    *("group", "groups_return"),
)
_MADE = ("template", "attributes", "border", "numbers", "hash_bits", "label", "weight", "one_sequence", "min_count")
_LISTS = ("columns", "symbols")


def _given(**values: Any) -> dict[str, Any]:
    """The options that were given, lists split at commas."""
    given = {name: value for name, value in values.items() if value is not None}
    return given | {name: [item.strip() for item in given[name].split(",")] for name in _LISTS if name in given}


INPUT = Group(_OPTIONS, _given)
FOR_MODEL = INPUT.only(*_READ_AGAIN)  # the model has the others


def check_for_model(inputs: str | list[str], spec: dict[str, Any]) -> None:
    """Raise if options of raw files are given for an encoded chain."""
    from chainfold.chain.any_chain import is_chain

    if is_chain(inputs):
        check_raw(inputs if isinstance(inputs, str) else inputs[0], spec, _READ_AGAIN)


def check_raw(path: str, spec: dict[str, Any], names: tuple[str, ...] = _MADE) -> None:
    """Raise if options are given that an encoded chain cannot follow."""
    for name in names:
        if name in spec:
            raise BadFile(path, f"is an encoded chain, to which `{name}` does not apply; leave it out, or encode anew.")
