"""Numbers as text, six significant digits of each, to the letter as C's "%.6g" writes them.

With x in [10^e, 10^(e + 1)) the digits are those of

    k = round(x · 10^(5 - e)),      10^5 ≤ k ≤ 10^6,      and 10^6 is 10^5 with the next e

The product has a relative error of at most two roundings, so k is certain unless the product is all but halfway between
two whole numbers. Such a number, and one that is not finite or far from one, is left to the caller. An e that is wrong
because x is within rounding of a power of ten does no harm: k is then that power.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainfold.jit.decorator import STRICT, kernel

LONGEST = 13  # -1.23457e-200
_DIGITS = 6
_LEAST, _MOST = 1e-200, 1e200
_ZERO_POWER = 210
_POWERS = np.array([float(f"1e{k}") for k in range(-_ZERO_POWER, _ZERO_POWER + 1)])
_DOUBT = 1e-8
_MINUS, _PLUS, _POINT, _ZERO, _E = 45, 43, 46, 48, 101


@kernel(fastmath=STRICT)
def put_digits(k: Any, point: Any, out: Any, at: Any) -> Any:
    """The digits of k with a point after the first `point` of them, no zeros at the end; returns where they end."""
    left = _DIGITS
    while left > point and k % 10 == 0:
        k, left = k // 10, left - 1
    end = at + left + (1 if left > point and point > 0 else 0)
    place = end
    while left > 0:
        place -= 1
        if left == point and place < end - 1:
            out[place] = _POINT
            place -= 1
        out[place] = _ZERO + k % 10
        k, left = k // 10, left - 1
    return end


@kernel(fastmath=STRICT)
def put_exponent(e: Any, out: Any, at: Any) -> Any:
    """e, a sign, and two digits or three; returns where they end."""
    size = abs(e)
    out[at] = _E
    out[at + 1] = _MINUS if e < 0 else _PLUS
    at += 2
    if size >= 100:
        out[at] = _ZERO + size // 100
        at += 1
    out[at] = _ZERO + size // 10 % 10
    out[at + 1] = _ZERO + size % 10
    return at + 2


@kernel(fastmath=STRICT)
def number_texts(values: Any, out: Any, begins: Any, ends: Any) -> Any:
    """out[begins[i] : ends[i]] = the text of values[i], or nothing where it is left to the caller; returns the size."""
    at = 0
    for i in range(values.size):
        x = abs(values[i])
        begins[i] = ends[i] = at
        if not _LEAST < x < _MOST:
            continue
        e = math.floor(math.log10(x))
        product = x * _POWERS[_ZERO_POWER + 5 - e]
        if abs(product - math.floor(product) - 0.5) < _DOUBT:
            continue
        k = math.floor(product + 0.5)
        if k == 1000000:
            k, e = 100000, e + 1
        if values[i] < 0.0:
            out[at] = _MINUS
            at += 1
        if 0 <= e < _DIGITS:
            at = put_digits(k, e + 1, out, at)
        elif -5 < e < 0:
            for place in range(1 - e):
                out[at + place] = _POINT if place == 1 else _ZERO
            at = put_digits(k, 0, out, at + 1 - e)
        else:
            at = put_exponent(e, out, put_digits(k, 1, out, at))
        ends[i] = at
    return at
