"""Checks of arrays and JSON from files: a valid digest does not mean that chainfold wrote them.

Kernels check no bounds, so everything that comes from a file is checked here first:

    Arrays    the arrays of a file, or of a part of it; each is taken once, by name, with its type and shape
    need      raises a sentence unless a condition holds; the other functions are the frequent conditions
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.errors import ChainfoldError

MOST = 2**62
"""The limit of all counts; twice that still fits int64."""

LARGEST = float(np.finfo(np.float64).max)
"""The largest finite number."""

MOST_WEIGHT = 1e100
"""The largest weight of a position: sums of products with it are finite."""

_MOST_LETTERS = 40  # of a name that a file gives, in a sentence
_LARGE = 1e300
_SUM = 1e-6  # what probabilities may lack of adding up to one


def need(good: Any, otherwise: str) -> None:
    """Raise a `ChainfoldError` with this sentence unless the condition holds."""
    if not good:
        raise ChainfoldError(f"{otherwise}.")


def spelt(value: Any) -> str:
    """A value of a file, short and printable, for a sentence."""
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    short = text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…"
    return short if short.isprintable() else ascii(short)


class Arrays:
    """The arrays of a file, or of a part of it, that were not taken yet."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = dict(arrays)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def take(self, name: str, dtype: Any, *shape: int | None) -> NDArray[Any]:
        """Remove and return an array of this type and shape; None stands for any size."""
        need(name in self, f"it has no {name}")
        array = self._arrays.pop(name)
        fits = len(shape) == array.ndim and all(
            want in (None, have) for want, have in zip(shape, array.shape, strict=True)
        )
        need(fits and array.dtype == dtype, f"its {name} are {array.dtype} of shape {array.shape}")
        return array

    def take_or_none(self, name: str, dtype: Any, size: int) -> NDArray[Any]:
        """Remove and return a row of this many numbers, or an empty one."""
        array = self.take(name, dtype, None)
        need(array.size in (0, size), f"its {name} are {array.size}, not {size}")
        return array

    def counts(self, name: str, *most: int) -> list[int]:
        """Remove and return whole numbers from 0 to these limits."""
        found: list[int] = self.take(name, np.int64, len(most)).tolist()
        need(all(0 <= one <= limit for one, limit in zip(found, most, strict=True)), f"its {name} are out of range")
        return found

    def flags(self, name: str, count: int) -> list[bool]:
        found: list[bool] = self.take(name, np.bool_, count).tolist()
        return found

    def under(self, part: str) -> dict[str, NDArray[Any]]:
        """Remove and return all arrays of a part, by their names in the part."""
        names = [name for name in self._arrays if name.startswith(f"{part}.")]
        return {name.removeprefix(f"{part}."): self._arrays.pop(name) for name in names}

    def rest(self) -> dict[str, NDArray[Any]]:
        """The arrays that were not taken."""
        return self._arrays

    def check_empty(self) -> None:
        for name in self._arrays:
            need(False, f"nothing is known of its {spelt(name)}")


def under(part: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays of a part by their names in the whole, from which `Arrays.under` takes them."""
    return {f"{part}.{name}": array for name, array in arrays.items()}


# Arrays of numbers


def within(name: str, array: NDArray[Any], least: float, most: float) -> None:
    """Require numbers from `least` to `most`; NaN is outside."""
    need(_all_within(array, least, most), f"its {name} are not all from {least} to {most}")


def finite(name: str, array: NDArray[Any]) -> None:
    """Require finite numbers, small enough that sums of them are finite."""
    need(_all_within(array, -_LARGE, _LARGE), f"its {name} are not all finite, or too large")


def below_infinity(name: str, array: NDArray[Any]) -> None:
    """Require logarithms: numbers, or -inf."""
    need((array < np.inf).all(), f"its {name} are not all below infinity")


def ascending(name: str, offsets: NDArray[np.int64], size: int) -> None:
    """Require ascending offsets from 0 to `size`."""
    good = offsets.size and offsets[0] == 0 and offsets[-1] == size and (offsets[1:] >= offsets[:-1]).all()
    need(good, f"its {name} do not go from 0 to {size}")


def vectors(name: str, values: NDArray[np.float64], wide: bool) -> None:
    """Require numbers that are not negative, or wide ones: the second half of a row has the powers of two."""
    half = values.shape[-1] // (1 + wide)
    need(_all_within(values[..., :half], 0.0, LARGEST), f"its {name} are not all finite and zero or more")
    if wide:
        below_infinity(name, values[..., half:])


def probabilities(name: str, values: NDArray[np.float64], wide: bool) -> None:
    """Require a row like those of `vectors` that adds up to one."""
    vectors(name, values, wide)
    if wide:
        m, k = values.reshape(2, -1)
        need((k <= 2.0**10).all(), f"its {name} are not all from 0 to 1")
        with np.errstate(over="ignore"):
            values = np.ldexp(m, np.maximum(k, -2000.0).astype(np.int64))
    total = float(values.sum()) if values.max(initial=0.0) <= 1.0 + _SUM else math.inf
    need(abs(total - 1.0) <= _SUM, f"its {name} do not add up to one")


def _all_within(array: NDArray[Any], least: float, most: float) -> bool:
    return array.size == 0 or bool(array.min() >= least and array.max() <= most)


# Values of JSON


def is_count(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return type(value) in (int, float) and abs(value) <= _LARGE


def is_text(value: Any) -> bool:
    """Whether a value is a text that UTF-8 can encode."""
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def mapping(name: str, value: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return a mapping, which must have these keys and no others."""
    need(type(value) is dict and set(value) == set(keys), f"its {name} are not {', '.join(keys)}")
    found: dict[str, Any] = value
    return found
