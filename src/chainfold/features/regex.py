r"""Regular expressions of templates: Python's `re`, without expressions and texts that it would search for hours.

A template may come with a stranger's model. Backtracking is exponential where a repeat contains a repeat or an
alternation, so such expressions are refused. Any other expression with k unbounded repeats takes at most about
w · n^(k+1) / (k+1)! steps in a text of n characters, where w is the product of its other choices: one n for where a
match begins, and one for the length of each repeat. This bounds the texts that are searched.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from functools import lru_cache

from chainfold.errors import ChainfoldError

LONGEST = 1000  # characters of an expression
_LONGEST_TEXT, _LEAST = 1 << 16, 64  # characters of a text; an expression that allows no more is refused
_STEPS = 1 << 32  # about a minute
_MOST_UNBOUNDED = 2

# The parser of `re` is private, so an expression that `re` has accepted is scanned for what matters here.
_TOKEN = re.compile(
    r"(?P<set>\[\^?\]?(?:\\.|[^]\\])*\])"
    r"|(?P<open>\((?:(?!\?)|\?P<\w+>|\?[aisu-]*:))|(?P<flags>\(\?[aisu]+\))"
    r"|(?P<refused>\(\?[a-zA-Z-]*.|\\(?![1-3][0-7]{2})[1-9]|(?:[*+?]|\{[0-9,]+\})\+)"
    r"|(?P<repeat>[*+?]|\{(?=[0-9,])[0-9]*,?[0-9]*\})\??"
    r"|\\.|.",
    re.DOTALL,
)


def occurs(pattern: str, texts: Sequence[str]) -> list[bool]:
    """Whether there is a match anywhere, in each of the texts."""
    search = _read(pattern)[0].search
    return [search(text) is not None for text in texts]


def matched(pattern: str, texts: Sequence[str]) -> list[str]:
    """The first match in each of the texts, or nothing."""
    search = _read(pattern)[0].search
    return [match[0] if (match := search(text)) else "" for text in texts]


def longest_text(pattern: str) -> int:
    """Characters of the longest text that may be searched for it."""
    return _read(pattern)[1]


def check_expression(pattern: str) -> None:
    """Raise if it cannot be searched for."""
    if len(pattern) > LONGEST:
        raise ChainfoldError(f"the regular expression has {len(pattern)} characters; the limit is {LONGEST}.")
    try:
        _read(pattern)
    except (ChainfoldError, re.error, OverflowError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).rstrip(".")
        raise ChainfoldError(f"the regular expression {pattern!r} cannot be used: {why}.") from None


@lru_cache(maxsize=1024)
def _read(pattern: str) -> tuple[re.Pattern[str], int]:
    """The expression, compiled with `$` as the very end and \\B in an empty text, and the longest text for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a later Python may take a bracket for
        re.compile(pattern)
        tokens = list(_TOKEN.finditer(pattern))
        longest = _longest_text(tokens)
        words = [{"$": r"\Z", r"\B": r"(?:\B|\A\Z)"}.get(token[0], token[0]) for token in tokens]
        return re.compile("".join(words)), longest


def _longest_text(tokens: Sequence[re.Match[str]]) -> int:
    unbounded, choices = 0, 1
    branches, chosen = [1], [False]  # of the open groups: how many, and whether there is a choice in them
    before = False  # whether there is a choice in what a repeat here applies to
    for token in tokens:
        if token["refused"]:
            raise ChainfoldError(
                f"{token[0]} is not supported, nor are look-around, references, atomic groups and the flags m and x"
            )
        if token["open"]:
            branches, chosen = [*branches, 1], [*chosen, False]
        elif token[0] == "|":
            branches[-1], chosen[-1] = branches[-1] + 1, True
        elif token["repeat"]:
            least, most = _bounds(token["repeat"])
            if before and most > 1:
                raise ChainfoldError("a repeat or an alternation in a repeat can take forever; write [ab]* for (a|b)*")
            unbounded += most == math.inf
            choices *= 1 if most == math.inf else max(int(most), 2)
            chosen[-1] |= least < most
        elif token[0] == ")":
            choices *= branches.pop()
            before = chosen.pop()
            chosen[-1] |= before
            continue
        before = False
    if unbounded > _MOST_UNBOUNDED:
        raise ChainfoldError(f"it has {unbounded} unbounded repeats; the limit is {_MOST_UNBOUNDED}")
    power = unbounded + 1
    longest = (_STEPS * math.factorial(power) / (choices * branches[0])) ** (1 / power)
    if longest < _LEAST:
        raise ChainfoldError("it has too many optional parts, alternatives or repetitions, and could take hours")
    return min(_LONGEST_TEXT, int(longest))


def _bounds(repeat: str) -> tuple[float, float]:
    """The least and the most times."""
    if repeat in "*+?":
        return repeat == "+", 1 if repeat == "?" else math.inf
    least, comma, most = repeat[1:-1].partition(",")
    return int(least or 0), int(most) if most else math.inf if comma else int(least)
