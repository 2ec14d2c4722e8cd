"""Texts from outside, such that a terminal shows them and does nothing else with them."""

from __future__ import annotations

import codecs
import io
from typing import IO

_JOINERS = "\u200c\u200d"
_FALLBACK = "chainfold.escape"  # how an encoding does without what it does not have
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
    if isinstance(stream, io.TextIOWrapper):
        codecs.register_error(_FALLBACK, _in_ascii)
        stream.reconfigure(errors=_FALLBACK)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError), "it is only asked for by streams that write"
    text = error.object[error.start : error.end].translate(_ASCII)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end
