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
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from chainfold.errors import ChainfoldError

LONGEST = 1000  # characters of an expression
_LONGEST_TEXT, _LEAST = 1 << 16, 64  # characters of a text; an expression that allows no more is refused
_STEPS = 1 << 32  # about a minute
_MOST_UNBOUNDED = 2
_SHORT = {"*": "0,", "+": "1,", "?": "0,1"}  # repeats, as they are within braces

# The parser of `re` is private, so an expression that `re` has accepted is scanned for what matters here.
_TOKEN = re.compile(
    r"(?P<set>\[\^?\]?(?:\\.|[^]\\])*\])"
    r"|(?P<open>\((?:(?!\?)|\?P<\w+>|\?[aisu-]*:))|(?P<flags>\(\?[aisu]+\))"
    r"|(?P<refused>\(\?[a-zA-Z-]*.|\\(?![1-3][0-7]{2})[1-9]|(?:[*+?]|\{[0-9,]+\})\+)"
    r"|(?P<repeat>[*+?]|\{(?=[0-9,])[0-9]*,?[0-9]*\})\??"
    r"|\\.|.",
    re.DOTALL,
)


class Expression(NamedTuple):
    """An expression that can be searched for."""

    search: Callable[[str], re.Match[str] | None]
    longest: int  # characters of a text that may be searched


def check_expression(pattern: str) -> None:
    """Raise if it cannot be searched for."""
    if len(pattern) > LONGEST:
        raise ChainfoldError(f"the regular expression has {len(pattern)} characters; the limit is {LONGEST}.")
    try:
        expression(pattern)
    except (ChainfoldError, re.error, OverflowError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).rstrip(".")
        raise ChainfoldError(f"the regular expression {pattern!r} cannot be used: {why}.") from None


@lru_cache(maxsize=1024)
def expression(pattern: str) -> Expression:
    """The expression, compiled with `$` as the very end and \\B in an empty text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a later Python may take a bracket for
        re.compile(pattern)
        tokens = list(_TOKEN.finditer(pattern))
        longest = _longest_text(tokens)
        words = [{"$": r"\Z", r"\B": r"(?:\B|\A\Z)"}.get(token[0], token[0]) for token in tokens]
        return Expression(re.compile("".join(words)).search, longest)


def _longest_text(tokens: Sequence[re.Match[str]]) -> int:
    unbounded, choices = 0, 1
    groups = [(1, False)]  # the open ones: how many branches, and whether there is a choice within
    before = False  # whether there is a choice in the group that has just been closed
    for token in tokens:
        repeated, before = before, False
        branches, chosen = groups[-1]
        if token["refused"]:
            raise ChainfoldError(
                f"{token[0]} is not supported, nor are look-around, references, atomic groups and the flags m and x"
            )
        if token["open"]:
            groups.append((1, False))
        elif token[0] == "|":
            groups[-1] = branches + 1, True
        elif token[0] == ")":
            groups.pop()
            choices, before = choices * branches, chosen
            groups[-1] = groups[-1][0], groups[-1][1] or chosen
        elif token["repeat"]:
            least, comma, most = _SHORT.get(token["repeat"], token["repeat"][1:-1]).partition(",")
            low, high = int(least or 0), math.inf if comma and not most else int(most or least)
            if repeated and high > 1:
                raise ChainfoldError("a repeat or an alternation in a repeat can take forever; write [ab]* for (a|b)*")
            unbounded += high == math.inf
            choices *= 1 if high == math.inf else max(int(high), 2)
            groups[-1] = branches, chosen or low < high
    if unbounded > _MOST_UNBOUNDED:
        raise ChainfoldError(f"it has {unbounded} unbounded repeats; the limit is {_MOST_UNBOUNDED}")
    power = unbounded + 1
    longest = (_STEPS * math.factorial(power) / (choices * groups[0][0])) ** (1 / power)
    if longest < _LEAST:
        raise ChainfoldError("it has too many optional parts, alternatives or repetitions, and could take hours")
    return min(_LONGEST_TEXT, int(longest))
