"""Status codes of the core (`arrays.hpp`), and the error that each stands for."""

from __future__ import annotations

from chainfold.errors import ChainfoldError, ForbiddenLabel, ScoreNotFinite, ZeroProbability

OK = 0
UNSAFE = 1  # numbers came near the end of the range of a double: do it again in wide numbers
ZERO = 2  # no label is possible
NOT_FINITE = 3  # a score is infinite, or not a number
FORBIDDEN = 4  # the observed label has a weight of -inf
NOT_FIRST = 5  # the observed label may not start a sequence
NOT_LAST = 6  # the observed label may not end one
NO_MEMORY = 7
TOO_LARGE = 8  # a score may overflow

_ERRORS = {ZERO: ZeroProbability, NOT_FINITE: ScoreNotFinite, FORBIDDEN: ForbiddenLabel}
_PLACES = {NOT_FIRST: "start", NOT_LAST: "end"}


def check(status: int, position: int = 0) -> None:
    """Raise the error of a status other than OK; position: in the chain."""
    if status in _ERRORS:
        raise _ERRORS[status](position)
    if status in _PLACES:
        raise ChainfoldError(
            f"the label observed at position {position} may not {_PLACES[status]} a sequence; allow it, or correct the "
            f"label."
        )
    check_memory(status)
    assert status == OK, "UNSAFE is handled by the caller"


def check_memory(status: int) -> None:
    """Raise where there was no memory to work in."""
    if status == NO_MEMORY:
        raise MemoryError
