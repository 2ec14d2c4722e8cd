"""Status codes of kernels: each raises its own error, with the position."""

from __future__ import annotations

import pytest

from chainfold.errors import ChainfoldError, ForbiddenLabel, ScoreNotFinite, ZeroProbability
from chainfold.kernels import faults


def test_ok_raises_nothing() -> None:
    faults.check(faults.OK, 7)


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (faults.ZERO, ZeroProbability, "at position 7 every label is forbidden"),
        (faults.NOT_FINITE, ScoreNotFinite, "a score at position 7 is not a finite number"),
        (faults.FORBIDDEN, ForbiddenLabel, "observed at position 7 is forbidden"),
        (faults.NOT_FIRST, ChainfoldError, "observed at position 7 may not start a sequence"),
        (faults.NOT_LAST, ChainfoldError, "observed at position 7 may not end a sequence"),
    ],
)
def test_every_fault_has_its_error(status: int, error: type[ChainfoldError], text: str) -> None:
    with pytest.raises(error, match=text):
        faults.check(status, 7)
