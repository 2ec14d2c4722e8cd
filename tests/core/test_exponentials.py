"""Exponentials and logarithms of the core beside extended precision, on every level of processor."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from chainfold import core

pytestmark = pytest.mark.quick

Floats = NDArray[np.float64]
RANDOM = np.random.default_rng(1)
SIZE = 80_003  # the last few are not a whole vector
LEAST, GREATEST = np.finfo(np.float64).smallest_subnormal, np.finfo(np.float64).max

EXPONENTS = np.concatenate(
    [RANDOM.uniform(-708.0, 709.0, SIZE), RANDOM.normal(scale=1e-3, size=SIZE), np.arange(-1021, 1023) * np.log(2.0)]
)
POSITIVE = np.concatenate(
    [
        2.0 ** RANDOM.uniform(-1074.0, 1024.0, SIZE),
        RANDOM.uniform(0.5, 2.0, SIZE),
        1.0 + RANDOM.normal(scale=1e-9, size=SIZE),
        LEAST * np.arange(1, 1000),
        2.0 ** np.arange(-1074, 1024),
        np.nextafter(np.sqrt(2.0) * 2.0 ** np.arange(-1000, 1000), 0.0),
        [GREATEST],
    ]
)
ABOVE_MINUS_ONE = np.concatenate([POSITIVE, -POSITIVE[POSITIVE < 1.0], [np.nextafter(-1.0, 0.0)]])


@pytest.fixture(params=core.levels())
def level(request: pytest.FixtureRequest) -> Any:
    """The functions of a level."""
    return import_module(f"chainfold.core._math_{request.param.removeprefix('x86-64-')}")


def of(function: Callable[[Floats, Floats], None], x: Floats) -> Floats:
    out = np.empty_like(x)
    function(x, out)
    return out


def roundings(found: Floats, truth: NDArray[np.longdouble]) -> float:
    """The largest error, in units in the last place."""
    return float(np.max(np.abs(found - truth) / np.spacing(np.abs(truth).astype(np.float64))))


needs_more_digits = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="NumPy has no extended precision")


@needs_more_digits
@pytest.mark.parametrize(
    ("name", "x", "most"), [("exp", EXPONENTS, 1.2), ("log", POSITIVE, 1.0), ("log1p", ABOVE_MINUS_ONE, 2.0)]
)
def test_errors_are_about_one_rounding(level: Any, name: str, x: Floats, most: float) -> None:
    assert roundings(of(getattr(level, name), x), getattr(np, name)(x.astype(np.longdouble))) <= most


def test_ends_of_the_range(level: Any) -> None:
    x = np.array([-np.inf, -1e308, -745.0, -708.1, np.nan, 0.0, -0.0, -LEAST, 710.0, np.inf])
    expected = [0.0, 0.0, 0.0, 0.0, np.nan, 1.0, 1.0, 1.0]
    np.testing.assert_array_equal(of(level.exp, x[:8]), expected)
    np.testing.assert_array_equal(of(level.exp, x[4:]), [*expected[4:], np.inf, np.inf], "too few for a vector")
    x = np.array([0.0, -0.0, -LEAST, -1.0, -np.inf, np.nan, np.inf, 1.0])
    np.testing.assert_array_equal(of(level.log, x), [-np.inf, -np.inf, np.nan, np.nan, np.nan, np.nan, np.inf, 0.0])
    x = np.array([-1.0, -1.5, -np.inf, np.nan, np.inf, 0.0])
    np.testing.assert_array_equal(of(level.log1p, x), [-np.inf, np.nan, np.nan, np.nan, np.inf, 0.0])
