r"""Python's regular expressions in linear time: said in RE2's words and searched for by Arrow, which has RE2 in it.

A template may come with a stranger's model, and `re` takes years for some expressions on some texts. Python's own
parser reads an expression here, and what it says is written again for RE2, which has no look-around and no
back-references. `\d`, `\w` and `\s` mean what they mean in Python. Where all texts are of ASCII, the classes are as
well: that changes no answer, and the large tables of Unicode need not be compiled.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chainfold.errors import ChainfoldError

LONGEST = 1000  # characters of an expression
LARGEST = 1000  # and its parts, repetitions written out; what RE2 makes of them stays small, and is made at once
_CLASS = 10  # parts that a class of Unicode counts for
_AT_ONCE = 1 << 13  # texts between two moments in which an interrupt is heard

_LETTERS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
_PLACES = {
    sre.AT_BEGINNING: "^",
    sre.AT_BEGINNING_STRING: r"\A",
    sre.AT_END: "$",
    sre.AT_END_STRING: r"\z",
    sre.AT_BOUNDARY: r"\b",
    sre.AT_NON_BOUNDARY: r"\B",
}
_SPACES = r"\t-\r\x1c- \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_NO_SPACES = (
    r"\x00-\x08\x0e-\x1b!-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}"
    r"\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff}"
)
_OF_UNICODE = {
    sre.CATEGORY_DIGIT: r"\p{Nd}",
    sre.CATEGORY_NOT_DIGIT: r"\P{Nd}",
    sre.CATEGORY_WORD: r"\p{L}\p{N}_",
    sre.CATEGORY_NOT_WORD: (
        r"\p{C}\p{M}\p{S}\p{Z}\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}"
        r"\x{203f}\x{2040}\x{2054}\x{fe33}\x{fe34}\x{fe4d}-\x{fe4f}\x{ff3f}"
    ),
    sre.CATEGORY_SPACE: _SPACES,
    sre.CATEGORY_NOT_SPACE: _NO_SPACES,
}
_OF_ASCII_TEXTS = {
    sre.CATEGORY_DIGIT: "0-9",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_WORD: "0-9A-Za-z_",
    sre.CATEGORY_NOT_WORD: r"\W",
    sre.CATEGORY_SPACE: r"\t-\r\x1c- ",
    sre.CATEGORY_NOT_SPACE: r"\x00-\x08\x0e-\x1b!-\x{10ffff}",
}
_BY_THE_FLAG = _OF_ASCII_TEXTS | {  # (?a), where four control characters are no spaces
    sre.CATEGORY_SPACE: r"\t-\r ",
    sre.CATEGORY_NOT_SPACE: r"\x00-\x08\x0e-\x1f!-\x{10ffff}",
}
_REFUSED = {
    sre.GROUPREF: "refers back to a group",
    sre.GROUPREF_EXISTS: "refers back to a group",
    sre.ASSERT: "looks ahead or behind",
    sre.ASSERT_NOT: "looks ahead or behind",
    sre.FAILURE: "looks ahead or behind",
    sre.ATOMIC_GROUP: "has an atomic group",
    sre.POSSESSIVE_REPEAT: "has a possessive repetition",
}


def occurs(pattern: str, texts: Sequence[str]) -> list[bool]:
    """Is there a match anywhere, in each of the texts?"""
    words = _re2(pattern, all(map(str.isascii, texts)))
    return [one for part in _parts(texts) for one in pc.match_substring_regex(part, words).to_pylist()]


def matched(pattern: str, texts: Sequence[str]) -> list[str]:
    """The first match in each of the texts, or nothing."""
    words = f"(?P<found>{_re2(pattern, all(map(str.isascii, texts)))})"
    found = (pc.extract_regex(part, words).field("found").to_pylist() for part in _parts(texts))
    return [one or "" for part in found for one in part]


def _parts(texts: Sequence[str]) -> Iterator[Any]:
    return (pa.array(texts[low : low + _AT_ONCE], pa.large_string()) for low in range(0, len(texts), _AT_ONCE))


def check_expression(pattern: str) -> None:
    """Raise if it cannot be searched for; that takes about a millisecond at most."""
    if len(pattern) > LONGEST:
        raise ChainfoldError(f"the regular expression has {len(pattern)} characters; the limit is {LONGEST}.")
    try:
        pc.match_substring_regex(pa.array([], pa.large_string()), _re2(pattern, True))
        _re2(pattern, False)
    except ChainfoldError as error:
        raise ChainfoldError(f"the regular expression {pattern!r} {error}") from None
    except (re.error, OverflowError, RecursionError, UnicodeError, pa.ArrowInvalid) as error:
        why = "is nested too deeply" if isinstance(error, RecursionError) else f"cannot be read: {error}"
        raise ChainfoldError(f"the regular expression {pattern!r} {why}.") from None


@lru_cache(maxsize=1024)
def _re2(pattern: str, ascii_texts: bool) -> str:
    """The same for RE2, without groups that are kept."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a later Python may take a bracket for
        tree = _parser.parse(pattern)
    flags = tree.state.flags
    words, size = _Said(_OF_ASCII_TEXTS if ascii_texts else _OF_UNICODE).all(tree, bool(flags & re.ASCII))
    if size > LARGEST:
        raise ChainfoldError(f"has {size} parts with its repetitions written out; the limit is {LARGEST}.")
    return f"(?{_letters(flags)}:{words})"


def _letters(flags: int) -> str:
    return "".join(letter for flag, letter in _LETTERS.items() if flags & flag)


class _Said:
    """What Python's parser has read, as text for RE2, and how many parts that has."""

    def __init__(self, classes: dict[Any, str]) -> None:
        self._classes = classes

    def all(self, items: Iterable[tuple[Any, Any]], flagged: bool) -> tuple[str, int]:
        """One after the other; `flagged`: the classes are those of ASCII by a flag."""
        said = [self._one(kind, about, flagged) for kind, about in items]
        return "".join(words for words, _ in said), sum(size for _, size in said)

    def _one(self, kind: Any, about: Any, flagged: bool) -> tuple[str, int]:
        if kind in _REFUSED:
            raise ChainfoldError(f"{_REFUSED[kind]}; this is not supported, because it can take forever.")
        if kind is sre.LITERAL:
            return _character(about), 1
        if kind is sre.NOT_LITERAL:
            return f"[^{_character(about)}]", 1
        if kind is sre.ANY:
            return ".", 1
        if kind is sre.AT:
            return _PLACES[about], 1
        if kind is sre.IN:
            return self._class(about, flagged)
        if kind is sre.BRANCH:
            said = [self.all(branch, flagged) for branch in about[1]]
            return f"(?:{'|'.join(words for words, _ in said)})", sum(size for _, size in said)
        if kind is sre.SUBPATTERN:
            _, added, dropped, inner = about
            words, size = self.all(inner, bool(flagged or added & re.ASCII) and not added & re.UNICODE)
            less = _letters(dropped)
            return f"(?{_letters(added)}{'-' if less else ''}{less}:{words})", size
        least, most, inner = about
        words, size = self.all(inner, flagged)
        times = least + 1 if most is sre.MAXREPEAT else most
        bounds = f"{{{least},{'' if most is sre.MAXREPEAT else most}}}"
        return f"(?:{words}){bounds}{'?' if kind is sre.MIN_REPEAT else ''}", max(1, size) * max(1, times)

    def _class(self, members: Sequence[tuple[Any, Any]], flagged: bool) -> tuple[str, int]:
        classes = _BY_THE_FLAG if flagged else self._classes
        parts, size, negated = [], 1, ""
        for kind, about in members:
            if kind is sre.NEGATE:
                negated = "^"
            elif kind is sre.CATEGORY:
                parts.append(classes[about])
                size += _CLASS
            elif kind is sre.RANGE:
                parts.append(f"{_character(about[0])}-{_character(about[1])}")
            else:
                parts.append(_character(about))
        whole = f"[{negated}{''.join(parts)}]"
        only_categories = all(kind in (sre.CATEGORY, sre.NEGATE) for kind, _ in members)
        return f"(?-i:{whole})" if only_categories else whole, size  # a class of Unicode has the letters of either case


def _character(code: int) -> str:
    return f"\\x{{{code:x}}}"
