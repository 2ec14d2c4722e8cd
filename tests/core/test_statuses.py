"""Status codes of the core: each raises its own error, with the position."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from chainfold.core import faults
from chainfold.errors import ChainfoldError, ForbiddenLabel, ScoreNotFinite, ZeroProbability

pytestmark = pytest.mark.quick


def test_ok_raises_nothing() -> None:
    faults.check(faults.OK, 7)
    faults.check_memory(faults.UNSAFE)


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


@pytest.mark.parametrize("check", [faults.check, faults.check_memory])
def test_no_memory_is_an_error(check: Callable[[int], None]) -> None:
    with pytest.raises(MemoryError):
        check(faults.NO_MEMORY)


def test_codes_are_those_of_the_sources() -> None:
    enum = (Path(__file__).parents[2] / "src" / "core" / "arrays.hpp").read_text().split("enum Status")[1].split("}")[0]
    codes = {name: int(code) for name, code in re.findall(r"(\w+) = (\d+),", enum)}
    assert codes == {name: code for name, code in vars(faults).items() if isinstance(code, int)}
