"""Numbers of any size: m · 2^k, with 1/2 <= m < 1 and a whole number k that is kept as a double.

A product is m m' · 2^(k + k'), a sum is taken at the largest k of its terms, and each has a relative error of one
rounding, for any k. A logarithm in a double is worse: its rounding grows with its size, and becomes a relative
error of the number. Zero is m = 0, k = -inf.

A row of wide numbers has the m of all labels, then their k: [2 · width].

    power(k) = 2^k   normal(m, k)   wide_exp(x) = e^x   real(row, i, wide)   log_share(row, i, wide, whole)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from chainfold.jit.decorator import STRICT, kernel
from chainfold.jit.intrinsics import intrinsic

LN2_HIGH, LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
"""ln 2 in two parts: k · LN2_HIGH is exact for |k| < 2^38."""

MOST_EXACT = 1e6
"""Of a score below it, what is left when k · ln 2 is taken out is exact to a rounding or two."""

_DOUBLE, _BITS = ir.DoubleType(), ir.IntType(64)
_LEAST_POWER = -1022.0  # of a double that is not subnormal
_FRACTION_BITS, _BIAS = 52, 1023  # how a double is kept: 1.fraction · 2^(exponent - bias)


@intrinsic
def power(typing_context: Any, k: Any) -> Any:
    """2^k for a whole number k <= 1023; zero below the range of a double."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        in_range = builder.fcmp_ordered(">=", arguments[0], _DOUBLE(_LEAST_POWER))
        safe = builder.select(in_range, arguments[0], _DOUBLE(0.0))
        exponent = builder.add(builder.fptosi(safe, _BITS), _BITS(_BIAS))
        number = builder.bitcast(builder.shl(exponent, _BITS(_FRACTION_BITS)), _DOUBLE)
        return builder.select(in_range, number, _DOUBLE(0.0))

    return types.float64(types.float64), generate


@intrinsic
def exponent_of(typing_context: Any, x: Any) -> Any:
    """The whole number k with 1/2 <= x / 2^k < 1, for a positive double that is not subnormal."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        exponent = builder.lshr(builder.bitcast(arguments[0], _BITS), _BITS(_FRACTION_BITS))
        return builder.sitofp(builder.sub(exponent, _BITS(_BIAS - 1)), _DOUBLE)

    return types.float64(types.float64), generate


@kernel(fastmath=STRICT, inline=True)
def normal(m: Any, k: Any) -> Any:
    """The same number with 1/2 <= m < 1."""
    exponent = exponent_of(m)
    return (m * power(-exponent), k + exponent) if m > 0.0 else (0.0, -np.inf)


@kernel(fastmath=STRICT, inline=True)
def wide_exp(x: Any) -> Any:
    """e^x as (m, k), m near one. Beyond |x| = 1e15, where doubles are more than one apart, k alone counts; it overflows
    where |x| > 1.2e308."""
    k = np.floor(x * (1.0 / math.log(2.0)) + 0.5)
    rest = min(max((x - k * LN2_HIGH) - k * LN2_LOW, -1.0), 1.0)
    return (math.exp(rest), k) if x > -np.inf else (0.0, -np.inf)


@kernel(fastmath=STRICT, inline=True)
def real(row: Any, i: Any, wide: Any) -> Any:
    """Number i of a row as a double, zero where it is too small for one."""
    return row[i] * power(row[row.size // 2 + i]) if wide else row[i]


@kernel(fastmath=STRICT, inline=True)
def log_share(row: Any, i: Any, wide: Any, whole: Any) -> Any:
    """log(row(i) / whole)."""
    if row[i] <= 0.0:
        return -np.inf
    k = row[row.size // 2 + i] if wide else 0.0
    return k * LN2_HIGH + (k * LN2_LOW + math.log(row[i] / whole))
