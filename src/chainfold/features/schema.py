"""The schema of an input, to which an `InputSpec` resolves: which column is what, and the template over them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import Any

from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadFile, ChainfoldError
from chainfold.features.spec import InputSpec
from chainfold.features.template import WAYS_OF_NUMBERS, Template, every_column
from chainfold.readers.columns import ATTRIBUTES, EDGE, Stretch, kinds_of
from chainfold.readers.conll import CONLLU_COLUMNS
from chainfold.readers.formats import Format, InputReader

# What a vocabulary keeps of a schema as JSON, in this order; label, template, min_count and hash_bits are beside it.
_KEPT_IF_GIVEN = ("encoding", "delimiter")
_KEPT = ("kinds", "group", "weight", "unknown", "one_sequence", "header", "comments", "groups_return")


@dataclass(frozen=True)
class Schema:
    """The columns of an input and their roles."""

    kinds: dict[str, str]  # "symbol", "number" or "bag" by column, in the order of the input
    label: str | None
    template: Template
    group: str | None = None
    weight: str | None = None
    unknown: str | None = None  # marks an unknown label
    one_sequence: bool = False
    header: bool | None = None  # whether CSV has a header, and what comments begin with, if that was given:
    comments: str | None = None  # further input is read in the same way
    groups_return: bool = False
    encoding: str | None = None  # of text, and what is between fields, if they were given
    delimiter: str | None = None
    min_count: int = 1
    hash_bits: int | None = None

    @classmethod
    def of(cls, spec: InputSpec, first: Stretch) -> Schema:
        """The schema of an input that begins with these rows."""
        kinds = kinds_of(first.batch)
        check_roles(kinds, first.source, label=spec.label, group=spec.group, weight=spec.weight)
        label = label_column(spec, list(kinds))
        if spec.labels is not False and (label is None or kinds[label] == "bag"):
            raise BadFile(first.source, "there is no label column; set `label`, or `labels=False`.")
        return cls(
            kinds,
            label,
            _template(spec, kinds, label),
            spec.group,
            spec.weight,
            spec.unknown,
            bool(spec.one_sequence),
            spec.header,
            spec.comments,
            bool(spec.groups_return),
            spec.encoding,
            spec.delimiter,
            spec.min_count or 1,
            spec.hash_bits,
        )

    @classmethod
    def of_vocabulary(cls, vocabulary: Vocabulary) -> Schema:
        """The schema of the input that a vocabulary was made from; without kinds if it was made from no columns."""
        kept = {"kinds": {}} if vocabulary.columns is None else kept_columns(vocabulary.columns)
        bags = {ATTRIBUTES: "bag", EDGE: "bag"}
        template = every_column(bags) if vocabulary.template is None else Template.from_json(vocabulary.template)
        about: Any = {**kept, "min_count": vocabulary.min_count, "hash_bits": vocabulary.hash_bits}
        return cls(label=vocabulary.label, template=template, **about)

    def columns_json(self) -> str:
        """The columns and their roles, as a vocabulary keeps them."""
        given = [name for name in _KEPT_IF_GIVEN if getattr(self, name) is not None]
        return json.dumps({name: getattr(self, name) for name in (*_KEPT, *given)})


def kept_columns(text: str) -> dict[str, Any]:
    """Read what `Schema.columns_json` wrote; files of earlier versions may lack the last names."""
    try:
        kept = json.loads(text)
        kinds: dict[str, str] = kept["kinds"]
        flags = {"one_sequence": (False, True), "groups_return": (False, True), "header": (None, False, True)}
        texts = [kept.get(name) for name in ("group", "weight", "unknown", "comments", *_KEPT_IF_GIVEN)]
        if not kept.keys() <= {*_KEPT, *_KEPT_IF_GIVEN} or not all(type(text) in (str, NoneType) for text in texts):
            raise TypeError
        if not all(type(text) is str for text in (*kinds, *kinds.values())):
            raise TypeError
        for name, values in flags.items():
            if not any(kept.get(name, values[0]) is value for value in values):
                raise TypeError
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        raise ChainfoldError("these are not columns as chainfold writes them; encode the input again.") from None
    return dict(kept)


def check_roles(kinds: dict[str, str], source: str, **roles: str | None) -> None:
    """Raise if a column is missing or cannot have its role."""
    for role, column in roles.items():
        if column is not None and column not in kinds:
            raise BadFile(source, f"there is no {role} column {column!r}; the columns are {', '.join(kinds)}.")
        if column is not None and kinds[column] == "bag":
            raise BadFile(source, f"the {role} column {column!r} has lists of attributes; set another `{role}`.")
    if roles["weight"] is not None and roles["weight"] in (roles["label"], roles["group"]):
        raise BadFile(source, f"column {roles['weight']!r} cannot be `weight` and something else.")


def label_column(spec: InputSpec, columns: Sequence[str]) -> str | None:
    """The label column: the given one, else `label` (`upos` of CoNLL-U), else the last; None if there are no labels."""
    if spec.labels is False or spec.label is not None:
        return spec.label
    others = [name for name in columns if name not in (spec.group, spec.weight)]
    usual = "upos" if tuple(columns) == CONLLU_COLUMNS else "label"
    return usual if usual in others else others[-1] if others else None


def text_columns(spec: InputSpec, columns: Sequence[str]) -> frozenset[str]:
    """The columns that are read as symbols even if they look like numbers."""
    roles = frozenset(column for column in (label_column(spec, columns), spec.group) if column is not None)
    template = spec.parsed_template
    return roles.union(spec.symbols or ()) | (frozenset() if template is None else template.texts(columns))


def reader_of(spec: InputSpec) -> InputReader:
    """A reader of inputs for which there is no model."""
    return InputReader(
        format=None if spec.format is None else Format(spec.format),
        columns=spec.columns,
        header=spec.header,
        symbols=partial(text_columns, spec),
        comments=spec.comments,
        delimiter=spec.delimiter,
    )


def _template(spec: InputSpec, kinds: dict[str, str], label: str | None) -> Template:
    """The template over the columns.

    By default each column that is not the label, the group or the weight; of CoNLL-U, whose other columns are
    annotation too, the form alone.
    """
    if spec.parsed_template is not None:
        return spec.parsed_template.resolved(list(kinds))
    names = ("form",) if tuple(kinds) == CONLLU_COLUMNS else tuple(kinds)
    others = {name: kinds[name] for name in names if name not in (label, spec.group, spec.weight)}
    if not others:
        raise ChainfoldError(
            f"column {label!r} is the label, and no column is left for attributes; set `labels=False` if it is "
            f"not a label."
        )
    return every_column(others, spec.numbers or WAYS_OF_NUMBERS[0])
