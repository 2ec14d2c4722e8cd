"""Templates as the lines of Wapiti's and CRF++'s files, and back.

A line without columns that speaks of pairs of labels, such as `B`, makes the same attribute everywhere: its weights are
those of the transitions. chainfold's templates have no such features, as each model has transitions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import NamedTuple

from chainfold.errors import ChainfoldError
from chainfold.features.functions import WAPITI_CLASSES, Step, python_pattern
from chainfold.features.schema import Schema
from chainfold.features.template import Border, Factor, Feature, Template, features_of_line
from chainfold.model.model import Model, vocabulary_of_model
from chainfold.system.validate import need, spelt

MOST_COLUMNS = 10_000
_MOST_LINES = 100_000

Command = Callable[[Factor, int], str | None]


class Patterns(NamedTuple):
    """The meaning of the lines of a file."""

    template: Template
    transitions: Counter[str]  # attributes whose weights are those of transitions, and how often each is meant
    n_columns: int  # at least as many as the template uses


def read_patterns(lines: Sequence[str], border: Border, n_columns: int) -> Patterns:
    """Lines, each beginning with its kind: u or U for labels, b or B for pairs, * for both."""
    need(len(lines) <= _MOST_LINES, f"it has {len(lines)} patterns; the limit is {_MOST_LINES}")
    features: list[Feature] = []
    transitions: Counter[str] = Counter()
    for line in lines:
        try:
            made = list(features_of_line(line, border)) if line else []
        except ChainfoldError as error:
            raise ChainfoldError(f"its pattern {spelt(line)!r} cannot be used: {error}") from None
        features += made
        if line[:1] in ("b", "B", "*") and not any(feature.edge for feature in made):
            transitions[line] += 1
    _check_apart(transitions, [feature for feature in features if feature.edge])
    used = [int(factor.column) + 1 for feature in features for factor in feature.factors]
    n_columns = max([n_columns, *used])
    need(n_columns <= MOST_COLUMNS, f"it uses {n_columns} columns; the limit is {MOST_COLUMNS}")
    return Patterns(Template(tuple(features), border), transitions, n_columns)


def _check_apart(names: Iterable[str], features: Sequence[Feature]) -> None:
    """Raise if one of these features can make the attribute of a line without columns, whose weights are elsewhere."""
    for name in names:
        for pieces, factors, _ in features:
            least = sum(map(len, pieces)) + sum(not factor.steps for factor in factors)
            if name.startswith(pieces[0]) and name.endswith(pieces[-1]) and len(name) >= least:
                raise ChainfoldError(
                    f"its pattern {spelt(name)!r} makes the same attribute as {spelt('…'.join(pieces))!r} can make."
                )


def written_patterns(model: Model, program: str, border: Border, command: Command) -> tuple[list[str], int]:
    """The lines of a model's template, without that of transitions, and how many columns they use.

    command    a factor of a column with this number, as the program writes it; None where it has nothing like it
    """
    vocabulary = vocabulary_of_model(model)
    schema = Schema.of_vocabulary(vocabulary)
    columns, template = list(schema.kinds), schema.template
    if schema.label in columns:
        columns = columns[: columns.index(schema.label)]
    if template.border is not border and (template.left or template.right or template.border.marks):
        raise ChainfoldError(
            f"the model cannot be written for {program}: its template sees other marks beyond the ends of a sequence; "
            f"train it with a template of {program}."
        )
    lines = [(feature, _line(feature, columns, program, command)) for feature in template.features]
    both = Counter(line for feature, line in lines if feature.edge and line[:1] == "*")
    if both != Counter(line for feature, line in lines if not feature.edge and feature.factors and line[:1] == "*"):
        raise ChainfoldError(
            f"the model cannot be written for {program}, where attributes that begin with '*' are of labels and pairs."
        )
    used = [columns.index(str(factor.column)) + 1 for feature, _ in lines for factor in feature.factors]
    return [line for feature, line in lines if not (feature.edge and line[:1] == "*")], max([0, *used])


def with_ascii_capitals(template: Template) -> Template:
    """The template with lower case for A to Z alone, which is Wapiti's."""

    def changed(factor: Factor) -> Factor:
        return factor._replace(steps=tuple(Step("lower_ascii") if s == Step("lower") else s for s in factor.steps))

    features = (feature._replace(factors=tuple(map(changed, feature.factors))) for feature in template.features)
    return Template(tuple(features), template.border)


def has_expressions(template: Template) -> bool:
    """Whether it uses regular expressions."""
    return any(s.name in ("test", "match") for feature in template.features for f in feature.factors for s in f.steps)


def unused_name(name: str, names: Sequence[bytes]) -> str:
    """The name, or the first one made of it with a number that is not among others."""
    others = set(names)
    return next(text for k in count() if (text := f"{name}{k or ''}").encode() not in others)


def _line(feature: Feature, columns: Sequence[str], program: str, command: Command) -> str:
    """A feature as a line."""
    pieces = list(feature.pieces)
    for place, factor in enumerate(feature.factors):
        column = str(factor.column)
        text = command(factor, columns.index(column)) if column in columns else None
        if text is None:
            raise ChainfoldError(
                f"the model cannot be written for {program}, which has nothing like the attribute {feature.outline!r} "
                f"of its template."
            )
        pieces[place] += f"%{text}"
    if sum(piece.count("%") for piece in pieces) > len(feature.factors) or "\n" in "".join(pieces):
        raise ChainfoldError(
            f"the model cannot be written for {program}: the attribute {feature.outline!r} contains a '%' or a newline."
        )
    return "".join(pieces)


def of_wapiti(factor: Factor, column: int, lower_case: Sequence[str]) -> str | None:
    """One of Wapiti's commands: x, t and m, in capitals for lower case, which the template may call one of these."""
    steps = list(factor.steps)
    lower = bool(steps) and steps[-1].name in lower_case
    steps = steps[:-1] if lower else steps
    letter, expression = {"test": "t", "match": "m"}.get(steps[0].name if steps else "", "x"), ""
    if letter != "x":
        text = _wapiti_expression(str(steps.pop(0).arguments[0]))
        if text is None or (lower and letter == "t"):
            return None
        expression = f',"{text}"'
    return None if steps else f"{letter.upper() if lower else letter}[{factor.offset},{column}{expression}]"


_ATOM = re.compile(r"(\[[^]\\]*(?:\\.[^]\\]*)*\]|\\.|[^\\])(\*\?|\?)?", re.DOTALL)


def _wapiti_expression(python: str) -> str | None:
    """The expression that `python_pattern` makes this of; None if there is none."""
    classes = {f"[{text}]": f"\\{letter}" for letter, text in WAPITI_CLASSES.items()}
    classes |= {f"[^{text}]": f"\\{letter.upper()}" for letter, text in WAPITI_CLASSES.items()}
    begin, rest = ("^", python[1:]) if python.startswith("^") else ("", python)
    rest, end = (rest.removesuffix(r"\Z"), "$") if rest.endswith(r"\Z") else (rest, "")
    parts = []
    for atom, repeated in _ATOM.findall(rest):
        letter = atom[-1]
        special = letter in '*?.$\\"^' and len(atom) == 2
        written = classes.get(atom) or ("." if atom == "." else f"\\{letter}" if special else letter)
        parts.append(written + repeated[:1])
    text = begin + "".join(parts) + end
    try:
        return text if python_pattern(text) == python else None
    except ChainfoldError:
        return None
