"""The vector layer: what each instruction does, and how exact exp is."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from chainfold.kernels import simd

from chainfold.core.slots import WIDTH
from chainfold.jit.decorator import STRICT, kernel

pytestmark = pytest.mark.quick

ONE_ROUNDING = 2.3e-16


@kernel(fastmath=STRICT)
def exponentials(x: Any, out: Any) -> None:
    for c in range(0, x.size, WIDTH):
        simd.store(out, c, simd.exp(simd.load(x, c)))


@kernel(fastmath=STRICT)
def everything(a: Any, b: Any, out: Any) -> Any:
    x, y = simd.load(a, 0), simd.load(b, 0)
    simd.store(out, 0, x + y)
    simd.store(out, 8, x - y)
    simd.store(out, 16, x * y)
    simd.store(out, 24, x / y)
    simd.store(out, 32, simd.fma(x, y, simd.splat(1.0)))
    simd.store(out, 40, simd.maximum(x, y))
    simd.store(out, 48, simd.minimum(x, y))
    simd.store(out, 56, simd.where_positive(x, y, simd.splat(7.0)))
    return simd.sum_lanes(x), simd.max_lanes(x), simd.min_lanes(x)


def test_instructions() -> None:
    random = np.random.default_rng(0)
    a, b, out = random.normal(size=8), random.normal(size=8), np.empty(64)
    total, most, least = everything(a, b, out)
    rows = [a + b, a - b, a * b, a / b, a * b + 1.0, np.maximum(a, b), np.minimum(a, b), np.where(a > 0, b, 7.0)]
    np.testing.assert_allclose(out.reshape(8, 8), rows, rtol=ONE_ROUNDING, atol=ONE_ROUNDING)
    assert total == pytest.approx(a.sum(), rel=1e-15)
    assert (most, least) == (a.max(), a.min())


def test_exp_is_right_to_one_rounding() -> None:
    x = -np.random.default_rng(1).random(80_000) * 707.0
    x[:8] = [0.0, -1e-300, -1e-17, -0.5 * np.log(2.0), -np.log(2.0), -1.0, -707.9, -345.0]
    out = np.empty_like(x)
    exponentials(x, out)
    truth = np.exp(x.astype(np.longdouble))
    assert float(np.max(np.abs(out / truth - 1.0))) <= ONE_ROUNDING


def test_exp_at_the_ends_of_the_range() -> None:
    x = np.array([-np.inf, -1e308, -745.0, -708.1, np.nan, 0.0, -0.0, -5e-324])
    out = np.empty_like(x)
    exponentials(x, out)
    np.testing.assert_array_equal(out, [0.0, 0.0, 0.0, 0.0, np.nan, 1.0, 1.0, 1.0])


@numba.njit
def rows(vector: Any, matrix: Any, tile: Any, out: Any) -> Any:
    row = simd.load_tile(vector, 0, tile)
    simd.store(out, 0, simd.spread(row, matrix, 0, 9))
    simd.store(out, 16, simd.exp(row - simd.splat(simd.max_lanes(row))))
    simd.store(simd.place(out, 32), 0, simd.fma(simd.splat(2.0), row, simd.zeros(tile)))
    return simd.sum_lanes(row), simd.min_lanes(row), simd.number(simd.place(vector, 3), 2)


def test_rows_of_several_vectors() -> None:
    random = np.random.default_rng(3)
    vector, matrix, out = np.zeros(16), random.normal(size=(9, 16)), np.empty(48)
    vector[:9] = random.normal(size=9)
    total, least, fifth = rows(vector, matrix, (0, 0), out)
    np.testing.assert_allclose(out[:16], vector[:9] @ matrix, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(out[16:32], np.exp(vector - vector.max()), rtol=2 * ONE_ROUNDING)
    np.testing.assert_array_equal(out[32:], 2.0 * vector)
    assert total == pytest.approx(vector.sum(), rel=1e-14)
    assert (least, fifth) == (vector.min(), vector[5])
