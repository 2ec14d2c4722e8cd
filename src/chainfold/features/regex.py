r"""Python's regular expressions in linear time: translated to RE2's syntax and searched by Arrow, which has RE2.

A template may come with a stranger's model, and `re` takes years for some expressions on some texts. Python's own
parser reads an expression here, and what it says is written again for RE2, which has no look-around and no
back-references. What a class such as `\w` or a letter of either case stands for is asked of Python, for the characters
that occur: RE2 then has small classes without its own tables of Unicode, and finds what `re` finds.

RE2 is compiled at each call. For a few short texts `re` is quicker, and is used where all the ways through the
expression, counted as if each character always matched, are few: then it cannot take long. The answer is the same.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from re import _compiler, _parser  # type: ignore[attr-defined]
from re import _constants as sre  # type: ignore[attr-defined]
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chainfold.errors import ChainfoldError

T = TypeVar("T")

LONGEST = 1000  # characters of an expression
LARGEST = 1000  # and its parts, repetitions written out; what RE2 makes of them stays small, and is made at once
_CLASS = 10  # parts that a class of Unicode counts for
_MEMBERS = 10  # members of a class that count for a part
_FOLDED = 100  # characters of a range that count for a part where case is ignored: Python looks at each of them
_AT_ONCE = 1 << 13  # texts between two checks for an interrupt

_FEW = 64  # texts for which `re` may be quicker
_SHORT = (8, 16, 32, 64)  # characters of such texts
_STEPS = 10_000  # of `re` in one text: about 0.1 ms

_ASCII = "".join(map(chr, range(128)))
_MARK = "_"  # a character of words for RE2, see _Words
_TO_MARK = re.compile(r"[^\W\x00-^`-\x7f]")  # the mark itself, and characters of words beyond ASCII

_PLACES = {
    sre.AT_BEGINNING_STRING: r"\A",
    sre.AT_END_STRING: r"\z",
    sre.AT_BOUNDARY: r"\b",
    sre.AT_NON_BOUNDARY: r"\B",
}
_BORDERS = (sre.AT_BOUNDARY, sre.AT_NON_BOUNDARY)
_CHARACTERS = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)
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
    expression = _read(pattern)

    def by_re(some: Sequence[str]) -> list[bool]:
        return [expression.search(text) is not None for text in some]

    def by_re2(some: Sequence[str]) -> list[bool]:
        words = expression.for_re2(some)
        parts = (pc.match_substring_regex(words.marked(part), words.words) for part in _arrays(some))
        return [matched for part in parts for matched in part.to_pylist()]

    return _by_either(expression, texts, by_re, by_re2)


def matched(pattern: str, texts: Sequence[str]) -> list[str]:
    """The first match in each of the texts, or nothing."""
    expression = _read(pattern)

    def by_re(some: Sequence[str]) -> list[str]:
        return [match[0] if match else "" for match in map(expression.search, some)]

    def by_re2(some: Sequence[str]) -> list[str]:
        words = expression.for_re2(some)
        parts = (pc.extract_regex(words.marked(part), words.words).field("found") for part in _arrays(some))
        return [text or "" for part in parts for text in words.without_marks(part).to_pylist()]

    return _by_either(expression, texts, by_re, by_re2)


def _by_either(
    expression: _Expression,
    texts: Sequence[str],
    by_re: Callable[[Sequence[str]], list[T]],
    by_re2: Callable[[Sequence[str]], list[T]],
) -> list[T]:
    """By what is quicker."""
    if len(texts) <= _FEW and expression.harmless(texts):
        return by_re(texts)
    if not expression.borders or all(map(str.isascii, texts)):
        return by_re2(texts)
    others = [text for text in texts if not text.isascii()]  # RE2 needs marks in these
    others_found = iter(by_re(others) if expression.harmless(others) else by_re2(others))
    found_in_ascii = iter(by_re2([text for text in texts if text.isascii()]))
    return [next(found_in_ascii if text.isascii() else others_found) for text in texts]


def _slices(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[low : low + _AT_ONCE] for low in range(0, len(texts), _AT_ONCE))


def _arrays(texts: Sequence[str]) -> Iterator[Any]:
    return (pa.array(some, pa.large_string()) for some in _slices(texts))


def _alphabet(texts: Sequence[str]) -> str:
    """The characters of the texts and all of ASCII, sorted."""
    others: set[int] = set()
    for some in _slices(texts):
        joined = "".join(some)
        if not joined.isascii():
            codes = np.frombuffer(joined.encode("utf-32-le"), np.uint32)
            seen = np.zeros(int(codes.max()) + 1, bool)
            seen[codes] = True
            others.update((np.flatnonzero(seen[128:]) + 128).tolist())
    return _ASCII + "".join(map(chr, sorted(others))) if others else _ASCII


def check_expression(pattern: str) -> None:
    """Raise if it cannot be searched for; that takes a few milliseconds at most."""
    if len(pattern) > LONGEST:
        raise ChainfoldError(f"the regular expression has {len(pattern)} characters; the limit is {LONGEST}.")
    try:
        pc.match_substring_regex(pa.array([], pa.large_string()), _read(pattern).of_ascii.words)
    except ChainfoldError as error:
        raise ChainfoldError(f"the regular expression {pattern!r} {error}") from None
    except (re.error, OverflowError, RecursionError, UnicodeError, pa.ArrowInvalid) as error:
        why = "is nested too deeply" if isinstance(error, RecursionError) else f"cannot be read: {error}"
        raise ChainfoldError(f"the regular expression {pattern!r} {why}.") from None


class _Expression:
    """An expression that was read: for RE2, and for `re` where that is harmless.

    of_ascii   for RE2, where all texts are of ASCII
    borders    has it borders of words, in Python's sense?
    """

    def __init__(self, tree: Any) -> None:
        self._said = translation = _Said()
        size = translation.all(tree, tree.state.flags)
        if size > LARGEST:
            raise ChainfoldError(f"has {size} parts with its repetitions written out; the limit is {LARGEST}.")
        if len({by_flag for _, by_flag in translation.borders}) > 1:
            raise ChainfoldError(
                "has borders of words, \\b or \\B, with the flag (?a) and without; take one of the two."
            )
        self.borders = any(not by_flag for _, by_flag in translation.borders)
        self.of_ascii = _Words(translation.pieces, _ASCII, False)
        self._fixed = (
            None if translation.varies or self.borders else _Words(translation.pieces, translation.alphabet(), False)
        )
        # Python before 3.14 has no \B in an empty text: this is always RE2's
        self._longest = -1 if sre.AT_NON_BOUNDARY in dict(translation.borders) else _harmless_length(tree)
        if self._longest >= 0:
            self.search = _compiler.compile(tree).search

    def harmless(self, texts: Sequence[str]) -> bool:
        """May `re` search in these texts, with the same answer and at once?"""
        return max(map(len, texts), default=0) <= self._longest and not (
            self._said.ends and any(text.endswith("\n") for text in texts)
        )

    def for_re2(self, texts: Sequence[str]) -> _Words:
        if self._fixed:
            return self._fixed
        alphabet = _alphabet(texts)
        return self.of_ascii if alphabet is _ASCII else _Words(self._said.pieces, alphabet, self.borders)


class _Words:
    """An expression for RE2, in texts of the alphabet, which is sorted; the match is its group `found`.

    RE2's borders of words are those of ASCII. Where they are to be Python's, all characters of words beyond ASCII get a
    mark on either side, which is of ASCII, and so do marks. What is searched for takes a character together with its
    marks, never a part of these three.
    """

    def __init__(self, pieces: Sequence[str | int | re.Pattern[str]], alphabet: str, borders: bool) -> None:
        to_mark = _TO_MARK.findall(alphabet) if borders else []
        self._to_mark = _places(to_mark)
        self._plain = _places(letter for letter in alphabet if letter == _MARK or letter not in self._to_mark)
        self._marks = f"({_class(set(to_mark), _places(alphabet))})" if to_mark else ""
        tests = {piece for piece in pieces if isinstance(piece, re.Pattern)}
        classes = {test: self._class(set(test.findall(alphabet))) for test in tests}
        translated = (
            piece if isinstance(piece, str) else self._literal(piece) if isinstance(piece, int) else classes[piece]
            for piece in pieces
        )
        before = f"\\A(?s:[^{_MARK}]|{_MARK}.{_MARK})*?" if borders else ""
        self.words = f"{before}(?P<found>{''.join(translated)})"

    def marked(self, texts: Any) -> Any:
        """The texts with marks."""
        if not self._to_mark:
            return texts
        return pc.replace_substring_regex(texts, self._marks, f"{_MARK}\\1{_MARK}")

    def without_marks(self, texts: Any) -> Any:
        return pc.replace_substring_regex(texts, f"(?s:{_MARK}(.){_MARK})", r"\1") if self._to_mark else texts

    def _literal(self, code: int) -> str:
        mark = _MARK if self._to_mark and _TO_MARK.match(chr(code)) else ""
        return f"{mark}{_code(chr(code))}{mark}"

    def _class(self, members: set[str]) -> str:
        plain = _class(members.difference(self._to_mark), self._plain)
        if not self._to_mark:
            return plain
        return f"(?:{plain}|{_MARK}{_class(members.intersection(self._to_mark), self._to_mark)}{_MARK})"


@lru_cache(maxsize=1024)
def _read(pattern: str) -> _Expression:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a later Python may take a bracket for
        return _Expression(_parser.parse(pattern))


class _Said:
    """What Python's parser has read, for RE2.

    pieces    RE2's words; numbers of characters; and tests of one character, which are Python's own
    borders   of words: the kind, and are they those of ASCII by a flag?
    ends      is there a `$` that is not that of lines?
    varies    are there characters of which only Python's tables tell what they stand for?
    """

    def __init__(self) -> None:
        self.pieces: list[str | int | re.Pattern[str]] = []
        self.borders: set[tuple[Any, bool]] = set()
        self.ends = False
        self.varies = False
        self._limits = {0x80, sys.maxunicode}

    def alphabet(self) -> str:
        """All limits of classes, sorted, which stand for all characters where nothing varies."""
        return _ASCII + "".join(chr(limit) for limit in sorted(self._limits) if 128 <= limit <= sys.maxunicode)

    def all(self, items: Iterable[tuple[Any, Any]], flags: int) -> int:
        """One after the other; returns how many parts that has."""
        return sum([self._one(kind, about, flags) for kind, about in items])

    def _one(self, kind: Any, about: Any, flags: int) -> int:
        if kind in _REFUSED:
            raise ChainfoldError(f"{_REFUSED[kind]}; this is not supported, because it can take forever.")
        if kind in _CHARACTERS:
            return self._character(kind, about, flags)
        if kind is sre.AT:
            self.pieces.append(self._place(about, flags))
            return 1
        if kind is sre.BRANCH:
            return self._within(about[1], flags, ")")
        if kind is sre.SUBPATTERN:
            _, added, dropped, inner = about
            kept = flags & ~(re.ASCII | re.UNICODE) if added & (re.ASCII | re.UNICODE) else flags
            return self._within([inner], (kept | added) & ~dropped, ")")
        least, most, inner = about
        bounds = f"{{{least},{'' if most is sre.MAXREPEAT else most}}}"
        size = self._within([inner], flags, f"){bounds}{'?' if kind is sre.MIN_REPEAT else ''}")
        times: int = least + 1 if most is sre.MAXREPEAT else most
        return max(1, size) * max(1, times)

    def _within(self, branches: Sequence[Any], flags: int, close: str) -> int:
        size = 0
        for number, branch in enumerate(branches):
            self.pieces.append("|" if number else "(?:")
            size += self.all(branch, flags)
        self.pieces.append(close)
        return size

    def _place(self, about: Any, flags: int) -> str:
        if about in _BORDERS:
            self.borders.add((about, bool(flags & re.ASCII)))
        if about is sre.AT_BEGINNING:
            return "(?m:^)" if flags & re.MULTILINE else r"\A"
        if about is sre.AT_END:
            self.ends |= not flags & re.MULTILINE
            return "(?m:$)" if flags & re.MULTILINE else r"\z"
        return _PLACES[about]

    def _character(self, kind: Any, about: Any, flags: int) -> int:
        folded = flags & re.IGNORECASE
        size = 1
        if kind is sre.IN:
            size += _CLASS * sum(kind is sre.CATEGORY for kind, _ in about) + len(about) // _MEMBERS
            if folded:
                size += sum(min(of[1] - of[0], 1 << 16) for kind, of in about if kind is sre.RANGE) // _FOLDED
            self.varies |= any(kind is sre.CATEGORY for kind, _ in about)
            about = tuple(about)
        self.varies |= bool(folded)
        for low, high in _ranges(kind, about):
            self._limits.update((low - 1, low, high, high + 1))
        if size > LARGEST or (kind is sre.LITERAL and not folded):
            self.pieces.append(about if kind is sre.LITERAL else "")  # too large, which is told at the end
        else:
            self.pieces.append(_test(kind, about, flags & (re.IGNORECASE | re.ASCII | re.UNICODE | re.DOTALL)))
        return size


def _ranges(kind: Any, about: Any) -> Iterator[tuple[int, int]]:
    members = about if kind is sre.IN else [(kind, about)]
    for kind, of in members:
        if kind is sre.RANGE:
            yield of
        elif kind in (sre.LITERAL, sre.NOT_LITERAL):
            yield of, of


@lru_cache(maxsize=4096)
def _test(kind: Any, about: Any, flags: int) -> re.Pattern[str]:
    """Python's own program for one character."""
    state = _parser.State()
    state.flags = flags
    tested: re.Pattern[str] = _compiler.compile(
        _parser.SubPattern(state, [(kind, list(about) if kind is sre.IN else about)])
    )
    return tested


def _class(members: set[str], places: dict[str, int]) -> str:
    """A class that has just these characters of those with a place; of all others, it may have any."""
    runs: list[list[str]] = []
    before = -2
    for letter in sorted(members):
        if places[letter] == before + 1:
            runs[-1][1] = letter
        else:
            runs.append([letter, letter])
        before = places[letter]
    return f"[{''.join(f'{_code(low)}-{_code(high)}' for low, high in runs)}]" if runs else r"[^\x00-\x{10ffff}]"


def _places(letters: Iterable[str]) -> dict[str, int]:
    return {letter: place for place, letter in enumerate(letters)}


def _code(letter: str) -> str:
    return f"\\x{{{ord(letter):x}}}"


def _harmless_length(tree: Any) -> int:
    """The longest texts, of those in _SHORT, in which `re` always takes few steps; -1 if none."""
    longest = -1
    for size in _SHORT:
        try:
            _Steps(size).all(tree, [1] + [0] * size)
        except _Unknown:
            break
        longest = size
    return longest


class _Unknown(Exception):
    """The steps are many, or cannot be told."""


class _Steps:
    """Counts the steps of all ways through an expression, as if each character matched: no search takes more."""

    def __init__(self, size: int) -> None:
        self._left = _STEPS // (size + 1)  # a search begins at every place

    def all(self, items: Iterable[tuple[Any, Any]], ways: list[int]) -> list[int]:
        """`ways`: how many ways lead here, for each number of characters taken so far. Returns those that lead on."""
        for kind, about in items:
            self._left -= sum(ways)
            if self._left < 0:
                raise _Unknown
            ways = self._one(kind, about, ways)
        return ways

    def _one(self, kind: Any, about: Any, ways: list[int]) -> list[int]:
        if kind in _CHARACTERS:
            return [0, *ways[:-1]]
        if kind is sre.AT:
            return ways
        if kind is sre.SUBPATTERN:
            return self.all(about[3], ways)
        if kind is sre.BRANCH:
            return [sum(column) for column in zip(*(self.all(branch, ways) for branch in about[1]), strict=True)]
        least, most, inner = about
        if inner.getwidth()[0] == 0:
            raise _Unknown  # engines differ in when they stop to repeat nothing: this is always RE2's
        on, times = [0] * len(ways), 0
        while any(ways):
            if times >= least:
                on = [a + b for a, b in zip(on, ways, strict=True)]
            if times == most:
                break
            ways, times = self.all(inner, ways), times + 1
        return on
