"""What the functions of a template make of one text, and Wapiti's regular expressions said in Python's.

They are called once for each distinct text, never for each position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from chainfold.errors import ChainfoldError

if TYPE_CHECKING:
    from chainfold.data.template import Step

_CLASSES = {
    "a": "A-Za-z",
    "d": "0-9",
    "l": "a-z",
    "p": r"!-/:-@\[-`{-~",
    "s": r" \t-\r",
    "u": "A-Z",
    "w": "A-Za-z0-9",
}


def apply(steps: Iterable[Step], text: str) -> str:
    """The text after each of the steps, left to right."""
    for step in steps:
        text = FUNCTIONS[step.name](text, *step.arguments)
    return text


def shape(text: str) -> str:
    """X for upper-case letters, x for other letters, d for digits, all else as it is; a run of the same is one."""
    return "".join(kind for kind, _ in groupby(map(_kind, text)))


def _kind(letter: str) -> str:
    if letter.isupper():
        return "X"
    if letter.isalpha():
        return "x"
    return "d" if letter.isdigit() else letter


def prefix(text: str, size: int) -> str:
    return text[:size]


def suffix(text: str, size: int) -> str:
    return text[-size:]


def test(text: str, pattern: str) -> str:
    """Is there a match anywhere?"""
    return "true" if re.search(pattern, text) else "false"


def match(text: str, pattern: str) -> str:
    """The first match, or nothing."""
    found = re.search(pattern, text)
    return found[0] if found else ""


FUNCTIONS: dict[str, Callable[..., str]] = {
    "lower": str.lower,
    "shape": shape,
    "prefix": prefix,
    "suffix": suffix,
    "test": test,
    "match": match,
}


def python_pattern(wapiti: str) -> str:
    """Wapiti's small dialect in Python's: its star takes as little as it can, its classes are those of ASCII."""
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
    if len(atom) == 2 and letter.lower() in _CLASSES:
        return f"[{'^' if letter.isupper() else ''}{_CLASSES[letter.lower()]}]"
    return atom if atom == "." else re.escape(letter)
