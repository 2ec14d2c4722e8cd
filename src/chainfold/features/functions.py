"""The functions of a template for texts, and Wapiti's regular expressions in Python's syntax.

They are called with many distinct texts at a time, not for each position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

from chainfold.errors import ChainfoldError
from chainfold.features.regex import LONGEST, expression

WAPITI_CLASSES = {
    "a": "A-Za-z",
    "d": "0-9",
    "l": "a-z",
    "p": r"!-/:-@\[-`{-~",
    "s": r" \t-\r",
    "u": "A-Z",
    "w": "A-Za-z0-9",
}

_ASCII_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


class Step(NamedTuple):
    """A function applied to a column's value."""

    name: str
    arguments: tuple[str | float, ...] = ()


def apply(steps: Iterable[Step], texts: Sequence[str]) -> Sequence[str]:
    """The texts after all steps, left to right."""
    for step in steps:
        texts = FUNCTIONS[step.name](texts, *step.arguments)
    return texts


def longest(steps: Iterable[Step]) -> int | None:
    """Characters of the longest text to which the steps may be applied; None: any."""
    limits = []
    for step in steps:
        if step.name in ("prefix", "suffix"):
            break
        if step.name in ("test", "match"):
            limits.append(expression(str(step.arguments[0])).longest)
    return min(limits, default=None)


def lower(texts: Sequence[str]) -> list[str]:
    return [text.lower() for text in texts]


def lower_ascii(texts: Sequence[str]) -> list[str]:
    """A to Z in lower case, all other letters as they are."""
    return [text.translate(_ASCII_LOWER) for text in texts]


def shapes(texts: Sequence[str]) -> list[str]:
    """X for upper-case letters, x for other letters, d for digits, all else as it is; a run of the same is one."""
    return ["".join(kind for kind, _ in groupby(map(_kind, text))) for text in texts]


def _kind(letter: str) -> str:
    if letter.isupper():
        return "X"
    if letter.isalpha():
        return "x"
    return "d" if letter.isdigit() else letter


def prefixes(texts: Sequence[str], size: int) -> list[str]:
    return [text[:size] for text in texts]


def suffixes(texts: Sequence[str], size: int) -> list[str]:
    return [text[-size:] for text in texts]


def tests(texts: Sequence[str], pattern: str) -> list[str]:
    """Whether there is a match anywhere, as a text."""
    return ["true" if match else "false" for match in map(expression(pattern).search, texts)]


def matches(texts: Sequence[str], pattern: str) -> list[str]:
    """The first match, or nothing."""
    return [match[0] if match else "" for match in map(expression(pattern).search, texts)]


FUNCTIONS: dict[str, Callable[..., list[str]]] = {
    "lower": lower,
    "lower_ascii": lower_ascii,
    "shape": shapes,
    "prefix": prefixes,
    "suffix": suffixes,
    "test": tests,
    "match": matches,
}


def python_pattern(wapiti: str) -> str:
    """Wapiti's small dialect in Python's: its star takes as little as it can, its classes are those of ASCII."""
    if len(wapiti) > LONGEST:
        raise ChainfoldError(f"the regular expression has {len(wapiti)} characters; the limit is {LONGEST}.")
    anchored = wapiti.startswith("^")
    parts, rest = ["^"] if anchored else [], wapiti[anchored:]
    while rest:
        if rest == "$":
            parts.append(r"\Z")
            break
        size = 2 if rest[0] == "\\" else 1
        atom, rest = rest[:size], rest[size:]
        if atom in ("*", "?", "\\"):
            raise ChainfoldError(f"the expression {wapiti!r} has a {atom} with nothing to apply to; write \\{atom}.")
        parts.append(_python_atom(atom))
        if rest[:1] in ("*", "?"):
            parts.append("*?" if rest[0] == "*" else "?")
            rest = rest[1:]
    return "".join(parts)


def _python_atom(atom: str) -> str:
    """A dot, a class, or a character that stands for itself."""
    letter = atom[-1]
    if len(atom) == 2 and letter.lower() in WAPITI_CLASSES:
        return f"[{'^' if letter.isupper() else ''}{WAPITI_CLASSES[letter.lower()]}]"
    return atom if atom == "." else re.escape(letter)
