"""Texts from outside, such that a terminal shows them and does nothing else with them."""

from __future__ import annotations

import io
from typing import IO

_JOINERS = "\u200c\u200d"
_ASCII = str.maketrans(
    "→↓−–×…·‖²₁▁▂▃▄▅▆▇█▓░●○ćč", ">v--x.,|21_.-~=+*#+.*occ"
)  # as wide as they are: tables stay tables


def visible(text: str) -> str:
    """The text with everything that is not seen escaped as in Python's repr: controls, separators, marks of direction.

    A line stays a line, and no terminal takes a part of it for a command. Joiners, without which some scripts and
    pictures cannot be written, stay.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in _JOINERS else one.encode("unicode_escape").decode() for one in text
    )


def legible(stream: IO[str] | None) -> None:
    """Let a stream write what its encoding does not have in ASCII."""
    if not isinstance(stream, io.TextIOWrapper):
        return
    write, encoding = stream.write, stream.encoding

    def in_ascii(one: str) -> str:
        return one if _has(encoding, one) else one.translate(_ASCII)

    stream.reconfigure(errors="backslashreplace")
    stream.write = lambda text: write(  # type: ignore[method-assign]
        text if _has(encoding, text) else "".join(map(in_ascii, text))
    )


def _has(encoding: str, text: str) -> bool:
    """Whether an encoding has all letters of a text."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
