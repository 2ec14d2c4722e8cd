"""The options of an input: how to read it, which column is what, which attributes to make.

`InputSpec` is the one list of these options. Public functions take them as keywords; `schema.Schema` is what they
resolve to for the columns of an input.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from chainfold.chain.builder import check_hash_bits
from chainfold.errors import BadFile, BadSetting, ChainfoldError
from chainfold.features.template import WAYS_OF_NUMBERS, Border, Template, parse_attributes, parse_template
from chainfold.readers.formats import Format

# Options that can be given again for further input to a model; the model has the others.
READING = (
    *("format", "columns", "symbols", "header", "delimiter", "encoding", "unknown", "comments"),
    *("group", "groups_return"),
)
FOR_MODEL = (*READING, "labels", "one_sequence", "weight")


@dataclass(frozen=True)
class InputSpec:
    """The options of an input; None is "not given", and has the default named here.

    >>> spec = InputSpec.of(columns=["word", "pos", "chunk"], attributes="word[-1] word")
    >>> spec.columns
    ('word', 'pos', 'chunk')
    >>> spec.to_json()
    '{"columns": ["word", "pos", "chunk"], "attributes": "word[-1] word"}'
    """

    format: str | None = None  # conll, conllu, crfsuite, csv, tsv, jsonl, parquet or arrow; default: detected
    columns: Sequence[str] | None = None  # names of columns that have none; of JSON lines the fields to read
    symbols: Sequence[str] | None = None  # columns of tables that are symbols even if they look like numbers
    header: bool | None = None  # whether the first line of CSV or TSV names the columns; default: detected
    delimiter: str | None = None  # between the fields of csv (default: a comma), tsv or conll; `\\t` is a tab
    encoding: str | None = None  # of text; default: utf-8. A byte order mark has precedence
    unknown: str | None = None  # a text that marks an unknown label, as an empty one does
    comments: str | None = None  # what comment lines of text begin with; "": there are no comments
    group: str | None = None  # a sequence starts where this column changes; default: at blank lines and at each file
    groups_return: bool | None = None  # whether a group may occur again after another, as a new sequence; default: no
    one_sequence: bool | None = None  # True: the whole input is one sequence
    label: str | None = None  # the column of labels; default: `label`, else the last
    labels: bool | None = None  # False: there are no labels, or they are ignored; True: they are required
    weight: str | None = None  # a column of weights of sequences; default: all are one
    template: str | Path | Template | None = None  # a CRF++ or Wapiti file (read at once), or a template
    attributes: str | None = None  # expressions, as in "word[-1] word shape(word)"; default: every column
    border: str | None = None  # what `attributes` see outside a sequence: crfsuite (nothing, default), crfpp, wapiti
    numbers: str | None = None  # attributes of number columns: quantile (16 bins, default), log, real, standard, symbol
    min_count: int | None = None  # attributes that occur less often are left out; default: 1
    hash_bits: int | None = None  # hash attributes to this many bits: memory is bounded, attributes have no names

    def __post_init__(self) -> None:
        for name in ("columns", "symbols"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise BadSetting("columns", list(self.columns), "names that are all different")
        for name, choices in (("format", Format), ("border", Border), ("numbers", WAYS_OF_NUMBERS)):
            if getattr(self, name) is not None and getattr(self, name) not in list(choices):
                raise BadSetting(name, getattr(self, name), f"one of {', '.join(choices)}")
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", _delimiter(self.delimiter))
        if self.min_count is not None and (not isinstance(self.min_count, int) or self.min_count < 1):
            raise BadSetting("min_count", self.min_count, "a whole number, at least 1")
        if self.hash_bits is not None:
            check_hash_bits(self.hash_bits)
        if self.attributes is not None and not isinstance(self.attributes, str):
            raise BadSetting("attributes", self.attributes, "one text, expressions with white space between them")
        self._check_pairs()
        object.__setattr__(self, "template", _read(self.template))
        _ = self.parsed_template  # raises if an expression is wrong

    def _check_pairs(self) -> None:
        for wrong, problem in (
            (self.template is not None and self.attributes is not None, "give `template` or `attributes`, not both."),
            (self.border is not None and self.attributes is None, "`border` requires `attributes`."),
            (
                self.numbers is not None and (self.template is not None or self.attributes is not None),
                "a template defines what becomes of numbers: give `numbers` without `template` and `attributes`.",
            ),
            (self.label is not None and self.labels is False, "`label` requires labels: leave out `labels=False`."),
            (
                self.hash_bits is not None and (self.min_count or 1) > 1,
                "hashed attributes are not counted: give `min_count` or `hash_bits`, not both.",
            ),
            (self.group is not None and bool(self.one_sequence), "give `group` or `one_sequence`, not both."),
        ):
            if wrong:
                raise ChainfoldError(problem)

    @classmethod
    def of(cls, **options: Any) -> InputSpec:
        """The options; a name that is none raises `ChainfoldError`."""
        _check_names(options, [field.name for field in fields(cls)])
        return cls(**options)

    @classmethod
    def for_model(cls, **options: Any) -> InputSpec:
        """The options of further input for a model, which has its own label column, template and vocabulary."""
        _check_names(options, FOR_MODEL)
        return cls(**options)

    def reading(self, **changes: Any) -> InputSpec:
        """The options that can be given again for further input to a model, with changes."""
        return InputSpec(**{name: getattr(self, name) for name in READING} | changes)

    @cached_property
    def parsed_template(self) -> Template | None:
        """The template of `template` or `attributes`; None: every column as it is."""
        if self.attributes is not None:
            return parse_attributes(self.attributes, Border(self.border or Border.CRFSUITE))
        assert not isinstance(self.template, (str, Path)), "the file is read at once"
        return self.template

    def to_json(self) -> str:
        """The options that are given."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if isinstance(self.template, Template):
            values["template"] = json.loads(self.template.to_json())
        return json.dumps({name: value for name, value in values.items() if value is not None})


def _names(name: str, names: Any) -> tuple[str, ...] | None:
    if isinstance(names, str):
        raise BadSetting(name, names, "a list of names")
    return None if names is None else tuple(str(column) for column in names)


def _delimiter(given: str) -> str:
    delimiter = "\t" if given == "\\t" else given
    if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise BadSetting("delimiter", given, "one ASCII character other than a quote or a line end, for instance ';'")
    return delimiter


def _check_names(options: dict[str, Any], names: Sequence[str]) -> None:
    for name in options.keys() - set(names):
        raise ChainfoldError(f"there is no option {name!r}; the options are {', '.join(names)}.")


def _read(template: str | Path | Template | None) -> Template | None:
    if template is None or isinstance(template, Template):
        return template
    try:
        return parse_template(Path(template).read_text(encoding="utf-8"), str(template))
    except OSError as error:
        raise BadFile(template, f"cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        raise BadFile(template, f"byte {error.start} is not UTF-8; a template is a text.") from None
