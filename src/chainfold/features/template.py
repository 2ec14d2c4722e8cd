"""Templates: which attributes to make of the columns, and the ways to write that down.

    Template        features, and what stands beyond the ends of a sequence
    Feature         one attribute at each position: pieces of text with factors between them
    Factor          a column, some rows away, after some steps
    Step            a function of a text (lower, prefix, …) or of a number (bins, scale, …)

A template is written as a CRF++ or Wapiti file (`parse_template`), as expressions on the command line
(`parse_attributes`) or not at all (`every_column`), and kept beside the model as JSON.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

from chainfold.errors import BadFile, ChainfoldError
from chainfold.features.functions import Step, python_pattern
from chainfold.features.regex import check_expression

QUANTILES, MOST_QUANTILES = 16, 4096
FARTHEST = 10_000  # rows from a position to the context that it uses; the rows between are kept in memory
REAL_STEPS = frozenset({"real", "standard", "scale"})  # the number is the attribute's value
WAYS_OF_NUMBERS = ("quantile", "log", "real", "standard", "symbol")  # for all columns of numbers at once
NUMBER_STEPS = REAL_STEPS | {"symbol", "quantile", "bins"}
MOST_EXPRESSIONS = 1000  # different regular expressions in a template
_LEAST_BASE = 1.1
_MOST = sys.float_info.max  # a whole number may be larger


class Factor(NamedTuple):
    """A column, shifted and transformed."""

    column: str | int  # by name, or by index from 0
    offset: int = 0
    steps: tuple[Step, ...] = ()  # left to right


class Feature(NamedTuple):
    """The attribute pieces[0] + value of factors[0] + pieces[1] + …, at each position."""

    pieces: tuple[str, ...]  # one more than factors
    factors: tuple[Factor, ...]
    edge: bool = False  # whether it is of the pair (label before, label here), and not of the label alone

    @property
    def outline(self) -> str:
        """The attribute's name with dots for the values."""
        return "…".join(self.pieces)

    @property
    def columns(self) -> tuple[str | int, ...]:
        """The columns that it uses."""
        return tuple(factor.column for factor in self.factors)

    @property
    def real(self) -> bool:
        """Whether the attribute has a number as its value, and only its pieces as its name."""
        return any(step.name in REAL_STEPS for factor in self.factors for step in factor.steps)


class Border(StrEnum):
    """The texts that a factor sees beyond the ends of its sequence."""

    CRFPP = "crfpp"
    WAPITI = "wapiti"
    CRFSUITE = "crfsuite"

    def text(self, rows: int) -> str | None:
        """The text so many rows after the last, or before the first if below 0; None: the feature is left out there."""
        if self is Border.CRFSUITE:
            return None
        if self is Border.CRFPP:
            return f"_B{rows:+}"
        return f"_x{rows:+}" if abs(rows) < 5 else "_x+#" if rows > 0 else "_x-#"

    @property
    def marks(self) -> tuple[str, str] | None:
        """Attributes that the first and the last position of a sequence have besides the template's."""
        return ("__BOS__", "__EOS__") if self is Border.CRFSUITE else None


@dataclass(frozen=True)
class Template:
    """The attributes that are made of the columns at each position; `parse_template` and `parse_attributes` make one.

    >>> template = parse_attributes("word word[-1]|word lower(word)")
    >>> len(template.features), Template.from_json(template.to_json()) == template
    (3, True)
    """

    features: tuple[Feature, ...]
    border: Border

    def __post_init__(self) -> None:
        expressions = {s.arguments for f in self._factors() for s in f.steps if s.name in ("test", "match")}
        if len(expressions) > MOST_EXPRESSIONS:
            raise ChainfoldError(
                f"the template has {len(expressions)} regular expressions; the limit is {MOST_EXPRESSIONS}."
            )
        for feature in self.features:
            try:
                _checked(feature)
            except ChainfoldError as error:
                raise ChainfoldError(f"the attribute {feature.outline!r} cannot be made: {error}") from None

    @property
    def left(self) -> int:
        """How many rows before a position the template looks."""
        return max([0, *(-factor.offset for factor in self._factors())])

    @property
    def right(self) -> int:
        """How many rows after a position the template looks."""
        return max([0, *(factor.offset for factor in self._factors())])

    def _factors(self) -> Iterator[Factor]:
        return (factor for feature in self.features for factor in feature.factors)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it uses."""
        return frozenset(str(factor.column) for factor in self._factors())

    def resolved(self, columns: Sequence[str]) -> Template:
        """The template with every column by its name."""
        features = tuple(
            feature._replace(
                factors=tuple(f._replace(column=_name_of(f.column, columns, feature)) for f in feature.factors)
            )
            for feature in self.features
        )
        return Template(features, self.border)

    def texts(self, columns: Sequence[str]) -> frozenset[str]:
        """The columns that it uses as texts, without a function of numbers."""
        return frozenset(
            columns[f.column] if isinstance(f.column, int) else f.column
            for f in self._factors()
            if not (f.steps and f.steps[0].name in NUMBER_STEPS - {"symbol"})
            and (isinstance(f.column, str) or f.column < len(columns))
        )

    def to_json(self) -> str:
        features = [
            {
                "pieces": feature.pieces,
                "factors": [
                    {"column": f.column, "offset": f.offset, "steps": [step._asdict() for step in f.steps]}
                    for f in feature.factors
                ],
                "edge": feature.edge,
            }
            for feature in self.features
        ]
        return json.dumps({"border": self.border, "features": features})

    @classmethod
    def from_json(cls, text: str) -> Template:
        try:
            about = json.loads(text)
            features = tuple(_feature_of(entry) for entry in _typed(about["features"], list))
            return cls(features, Border(about["border"]))
        except ChainfoldError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise ChainfoldError("this is not a template as chainfold writes it; make it again.") from None


def every_column(columns: Mapping[str, str], numbers: str = "quantile") -> Template:
    """Each column as it is, by its kind: a symbol, a bag of attributes, or a number after one of `WAYS_OF_NUMBERS`.

    A bag called `edge` holds edge attributes, as those behind `@edge` on attribute lines.
    """
    features = []
    for name, kind in columns.items():
        steps = (_step(numbers, ()),) if kind == "number" else ()
        valued = kind == "number" and numbers in REAL_STEPS
        title = "" if kind == "bag" else name if valued else f"{name}="
        features.append(Feature((title, ""), (Factor(name, 0, steps),), edge=kind == "bag" and name == "edge"))
    return Template(tuple(features), Border.CRFPP)  # nothing looks beyond a sequence, and no marks are added


def _name_of(column: str | int, columns: Sequence[str], feature: Feature) -> str:
    if isinstance(column, int) and 0 <= column < len(columns):
        return columns[column]
    if column in columns:
        return str(column)
    where, listed = f"the attribute {feature.outline!r} uses column {column!r}", ", ".join(columns) or "none"
    if isinstance(column, int):
        raise ChainfoldError(f"{where}, but there are {len(columns)} columns, counted from 0: {listed}.")
    unnamed = all(name.isdecimal() for name in columns)
    remedy = "; name the columns with `columns`" if unnamed else ""
    raise ChainfoldError(f"{where}, but the columns are {listed}{remedy}.")


# What may be in a feature

_Arguments = tuple[str | float, ...]

_FORMS = {
    "lower": "lower(column)",
    "shape": "shape(column)",
    "prefix": "prefix(column,characters)",
    "suffix": "suffix(column,characters)",
    "test": 'test(column,"regular expression")',
    "match": 'match(column,"regular expression")',
    "lower_ascii": "lower_ascii(column)",
    "symbol": "symbol(column)",
    "real": "real(column)",
    "standard": "standard(column)",
    "scale": "scale(column,mean,deviation), the deviation above 0",
    "quantile": f"quantile(column,bins), from 2 to {MOST_QUANTILES} bins",
    "log": f"log(column,base), the base from {_LEAST_BASE} on",
    "bins": "bins(column,edge,edge,…), the edges rising",
}


def _checked(feature: Feature) -> Feature:
    """The feature, if it is one that can be made."""
    if len(feature.pieces) != len(feature.factors) + 1:
        raise ChainfoldError(f"there are {len(feature.pieces)} pieces around {len(feature.factors)} factors.")
    for factor in feature.factors:
        if abs(factor.offset) > FARTHEST:
            raise ChainfoldError(f"a row {factor.offset} away is too far; the limit is {FARTHEST}.")
        for step in factor.steps:
            if not _makes_sense(step):
                raise _misuse(step.name)
        numeric = [step.name for step in factor.steps if step.name in NUMBER_STEPS]
        if numeric and len(factor.steps) > 1:
            raise ChainfoldError(f"{numeric[0]} returns a number; text functions cannot be applied to it.")
    if feature.real and len(feature.factors) > 1:
        raise ChainfoldError("a real number cannot be joined to another value; put it into bins.")
    return feature


def _misuse(name: str) -> ChainfoldError:
    if name in _FORMS:
        return ChainfoldError(f"this is not how {name!r} is used; write {_FORMS[name]}.")
    return ChainfoldError(f"there is no function {name!r}; the functions are {', '.join(_FORMS)}.")


def _makes_sense(step: Step) -> bool:
    """Whether it is one of the steps, with arguments that fit."""
    name, arguments = step
    if name in ("lower", "lower_ascii", "shape", "symbol", "real", "standard"):
        return not arguments
    if name in ("test", "match"):
        if len(arguments) != 1 or not isinstance(arguments[0], str):
            return False
        check_expression(arguments[0])
        return True
    if name in ("prefix", "suffix", "quantile"):
        low, high = (2, MOST_QUANTILES) if name == "quantile" else (1, math.inf)
        return len(arguments) == 1 and isinstance(arguments[0], int) and low <= arguments[0] <= high
    numbers = [argument for argument in arguments if not isinstance(argument, str) and abs(argument) <= _MOST]
    if not numbers or len(numbers) != len(arguments):
        return False
    if name == "scale":
        return len(numbers) == 2 and numbers[1] > 0
    return name == "bins" and all(low < high for low, high in pairwise(numbers))


def _feature_of(entry: Any) -> Feature:
    """A feature from JSON; raises one of the errors that `from_json` handles."""
    factors = tuple(
        Factor(
            _typed(factor["column"], str, int),
            _typed(factor["offset"], int),
            tuple(Step(_typed(s["name"], str), _each(s["arguments"], str, int, float)) for s in factor["steps"]),
        )
        for factor in _typed(entry["factors"], list)
    )
    return Feature(_each(entry["pieces"], str), factors, _typed(entry["edge"], bool))


def _each(values: Any, *kinds: type) -> tuple[Any, ...]:
    return tuple(_typed(value, *kinds) for value in _typed(values, list))


def _typed(value: Any, *kinds: type) -> Any:
    if type(value) not in kinds:
        raise TypeError
    return value


# Files of CRF++ and Wapiti

_WAPITI_ONLY = re.compile(r"^[ub*]|%[XtTmM]")
_COMMAND = re.compile(  # of parts that begin differently, so that it takes one look at each character
    r'%([xXtTmM])\[\s*(?:([@*])\s*)?([+-]?[0-9]{1,9})\s*,\s*([0-9]{1,9})\s*(?:,\s*"((?:[^"\\]|\\.)*)"\s*)?\]'
)
_SHOWN = 80  # characters of a line that cannot be read


def parse_template(text: str, name: str) -> Template:
    """The template in a file of CRF++ or Wapiti; the file is Wapiti's if it uses anything that only Wapiti has."""
    lines = text.removeprefix("\ufeff").split("\n")
    bare = [line.partition("#")[0].rstrip() for line in lines]
    border = Border.WAPITI if any(_WAPITI_ONLY.search(line) for line in bare) else Border.CRFPP
    if border is Border.CRFPP:  # where a comment is a line of its own
        bare = ["" if line.startswith("#") else line.rstrip() for line in lines]
    features: list[Feature] = []
    for number, line in enumerate(bare, start=1):
        try:
            features += features_of_line(line, border) if line else ()
        except ChainfoldError as error:
            raise BadFile(name, f"line {number}: {error}") from None
    if not any(bare):
        raise BadFile(name, "there is nothing in this template; write a line such as U01:%x[0,0].")
    return Template(tuple(features), border)


def features_of_line(line: str, border: Border) -> Iterator[Feature]:
    """U gives a feature of the label, B one of the edge, * both; B without columns is every chain's transitions."""
    kind = line[0].lower()
    if kind not in "ub*":
        raise ChainfoldError(f"it begins with {line[0]!r}; begin it with U or B (Wapiti: also *), or # for a comment.")
    pieces, factors = _expanded(line if border is Border.CRFPP else kind + line[1:])
    if kind in "u*":
        yield _checked(Feature(pieces, factors))
    if kind in "b*" and factors:
        yield _checked(Feature(pieces, factors, edge=True))


def _expanded(line: str) -> tuple[tuple[str, ...], tuple[Factor, ...]]:
    """The pieces of a line, and what its commands stand for between them."""
    pieces, factors, at = [], [], 0
    while (percent := line.find("%", at)) >= 0:
        command = _COMMAND.match(line, percent)
        if command is None:
            raise ChainfoldError(
                f"cannot read {line[percent : percent + _SHOWN]!r}; write %x[row,column], or in Wapiti "
                f'%t[row,column,"expression"].'
            )
        pieces.append(line[at:percent])
        factors.append(_factor_of(command))
        at = command.end()
    return (*pieces, line[at:]), tuple(factors)


def _factor_of(command: re.Match[str]) -> Factor:
    letter, mark, offset, column, expression = command.groups()
    if mark:
        what = "absolute" if mark == "@" else "indirect"
        raise ChainfoldError(f"{command[0]} is {what}; only rows at a fixed distance, %x[row,column], are supported.")
    kind = letter.lower()
    if (expression is None) != (kind == "x"):
        raise ChainfoldError(f'cannot read {command[0]}; write %x[row,column] or %t[row,column,"expression"].')
    steps = []
    if kind != "x":
        steps.append(Step("test" if kind == "t" else "match", (python_pattern(expression),)))
    if letter != kind and kind != "t":
        steps.append(Step("lower"))
    return Factor(int(column), int(offset), tuple(steps))


# Expressions on the command line

_TOKEN = re.compile(r"""\s+|"[^"]*"|'[^']*'|[][()|,]|[^][()|,"'\s]+""")


def parse_attributes(expression: str, border: Border = Border.CRFSUITE) -> Template:
    """Attributes separated by white space, such as `word word[-1]|word suffix(lower(word),3) quantile(bytes,8)`."""
    features = tuple(_attribute(tokens) for tokens in _attributes(expression))
    if not features:
        raise ChainfoldError("there are no attributes; write for instance word word[-1] suffix(word,3).")
    return Template(features, border)


def _attributes(expression: str) -> Iterator[list[str]]:
    """The tokens of each attribute; white space within brackets is dropped."""
    tokens: list[str] = []
    at = depth = 0
    while at < len(expression):
        token = _TOKEN.match(expression, at)
        if token is None:
            raise ChainfoldError(f"a quotation mark is never closed: {expression[at:]}.")
        at = token.end()
        depth += (token[0] in "([") - (token[0] in ")]")
        if not token[0].isspace():
            tokens.append(token[0])
        elif depth <= 0 and tokens:
            yield tokens
            tokens, depth = [], 0
    if tokens:
        yield tokens


def _attribute(tokens: list[str]) -> Feature:
    text = "".join(tokens)
    try:
        factors = _Reader(tokens).factors()
        feature = _checked(Feature((f"{text}=", *"|" * (len(factors) - 1), ""), factors))
    except RecursionError:
        raise ChainfoldError(f"cannot read the attribute {text[:40]!r}…: it is nested too deeply.") from None
    except ChainfoldError as error:
        raise ChainfoldError(f"cannot read the attribute {text!r}: {error}") from None
    if not feature.real:
        return feature
    column, offset, steps = factors[0]
    name = f"{column}[{offset}]" if offset else str(column)
    return feature._replace(pieces=(name if steps[0].name == "real" else text, ""))


class _Reader:
    """Reads one attribute, token by token."""

    def __init__(self, tokens: list[str]) -> None:
        self._rest = tokens[::-1]

    def factors(self) -> tuple[Factor, ...]:
        factors = [self._factor()]
        while self._takes("|"):
            factors.append(self._factor())
        if self._rest:
            raise ChainfoldError(f"unexpected {self._rest[-1]!r}.")
        return tuple(factors)

    def _factor(self) -> Factor:
        """A column or a function of one, and how many rows away."""
        word = self._word("a column or a function")
        if word[0] in "\"'":
            factor = Factor(word[1:-1])
        elif self._takes("("):
            factor = self._call(word)
        else:
            factor = Factor(int(word) if word.isascii() and word.isdecimal() and len(word) <= 9 else word)
        while self._takes("["):
            rows = _number(self._word("a number of rows"))
            if not isinstance(rows, int):
                raise ChainfoldError(f"{rows} is no whole number of rows.")
            factor = factor._replace(offset=factor.offset + rows)
            self._need("]")
        return factor

    def _call(self, name: str) -> Factor:
        if name not in _FORMS:
            raise _misuse(name)
        inner, arguments = self._factor(), []
        while self._takes(","):
            word = self._word("an argument")
            arguments.append(word[1:-1] if word[0] in "\"'" else _number(word))
        self._need(")")
        return inner._replace(steps=(*inner.steps, _step(name, tuple(arguments))))

    def _takes(self, mark: str) -> bool:
        if self._rest and self._rest[-1] == mark:
            self._rest.pop()
            return True
        return False

    def _need(self, mark: str) -> None:
        if not self._takes(mark):
            raise ChainfoldError(f"expected a {mark} {self._where()}.")

    def _word(self, what: str) -> str:
        if not self._rest or self._rest[-1] in "[]()|,":
            raise ChainfoldError(f"expected {what} {self._where()}.")
        return self._rest.pop()

    def _where(self) -> str:
        return f"before {''.join(reversed(self._rest))!r}" if self._rest else "at the end"


def _number(word: str) -> float:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    raise ChainfoldError(f"{word!r} is no number; put texts between quotation marks.")


def _step(name: str, arguments: _Arguments) -> Step:
    """A function as it is kept: with its defaults, and a logarithm as its bins."""
    if name == "quantile" and not arguments:
        return Step(name, (QUANTILES,))
    if name == "log":
        base = arguments[0] if arguments else 2.0
        if len(arguments) > 1 or isinstance(base, str) or not _LEAST_BASE <= base <= _MOST:
            raise _misuse(name)
        return Step("bins", log_edges(base))
    return Step(name, arguments)


def log_edges(base: float) -> tuple[float, ...]:
    """± base^k, for all k that keep it between about a billionth and the largest 64-bit integer."""
    lowest, highest = (math.floor(math.log(bound) / math.log(base)) for bound in (1e-9, 9e18))
    powers = [float(base) ** k for k in range(lowest, highest + 1)]
    return (*(-power for power in reversed(powers)), *powers)
