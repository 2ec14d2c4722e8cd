"""Commutative semirings: sections II to IV of the paper.

A commutative semiring (K, ⊕, ⊗, 0, 1) is all that forward-backward asks for: both operations are associative and
commutative with identities 0 and 1, ⊗ distributes over ⊕, and 0 ⊗ a = 0. The paper's definition leaves the last out;
without it a forbidden move forbids nothing.

    SumProduct        real numbers             section III.1, printed as (ℝ, +·, 1, 0)
    LogSumProduct     logarithms               section III.2, equations (26), (27)
    SignedLog         logarithms with signs    the same for numbers of either sign
    Expectation       pairs (z, h)             section IV.1, equations (45), (46)
    LogExpectation    pairs of logarithms      section IV.2, equations (59), (60)

and beside the paper `MaxPlus`, `Counting` and `Boolean`.

An array of elements has shape [..., *element_shape], so that indexing and broadcasting over the leading axes are the
same for scalars, pairs and whatever else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import ArrayLike, NDArray

from chainfold.errors import BadSetting

__all__ = [
    "Boolean",
    "Counting",
    "Elements",
    "Expectation",
    "Floats",
    "LogExpectation",
    "LogSumProduct",
    "MaxPlus",
    "Semiring",
    "SignedLog",
    "SumProduct",
]

Elements = NDArray[Any]  # [..., *element_shape]
Floats = NDArray[np.float64]


class Semiring(ABC):
    """A commutative semiring; subclasses define `zero`, `one`, `plus` and `times`."""

    name: str = "unnamed"
    element_shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] = np.dtype(np.float64)

    @abstractmethod
    def zero(self, shape: tuple[int, ...] = ()) -> Elements:
        """An array [*shape, *element_shape] of the identity of ⊕."""

    @abstractmethod
    def one(self, shape: tuple[int, ...] = ()) -> Elements:
        """An array [*shape, *element_shape] of the identity of ⊗."""

    @abstractmethod
    def plus(self, a: Elements, b: Elements) -> Elements:
        """a ⊕ b, broadcast over the leading axes."""

    @abstractmethod
    def times(self, a: Elements, b: Elements) -> Elements:
        """a ⊗ b, broadcast over the leading axes."""

    def fold(self, a: Elements) -> Elements:
        """⊕ along the first axis; to be overridden where there is a faster way than one ⊕ after another."""
        total = self.zero(a.shape[1 : a.ndim - len(self.element_shape)])
        for x in a:
            total = self.plus(total, x)
        return total

    def sum(self, a: Elements, axis: int = 0) -> Elements:
        """⊕ along one of the leading axes; -1 is the last of these. An empty sum is zero."""
        leading = a.ndim - len(self.element_shape)
        return self.fold(np.moveaxis(a, normalize_axis_index(axis, leading), 0))


# Scalars


def _add_logs(a: Elements, b: Elements) -> Elements:
    """a + b, and -inf wherever one of them is: 0 · x = 0 for every x, infinity included."""
    with np.errstate(invalid="ignore"):  # -inf + inf
        return np.where((a == -np.inf) | (b == -np.inf), -np.inf, np.add(a, b))


class _Scalars(Semiring):
    """Numbers: a ufunc for ⊕ with its identity, a function for ⊗ with its own."""

    addition: tuple[np.ufunc, Any]
    multiplication: tuple[Callable[[Elements, Elements], Elements], Any]

    def zero(self, shape: tuple[int, ...] = ()) -> Elements:
        return np.full(shape, self.addition[1], self.dtype)

    def one(self, shape: tuple[int, ...] = ()) -> Elements:
        return np.full(shape, self.multiplication[1], self.dtype)

    def plus(self, a: Elements, b: Elements) -> Elements:
        return np.asarray(self.addition[0](a, b, dtype=self.dtype), self.dtype)

    def times(self, a: Elements, b: Elements) -> Elements:
        a, b = np.asarray(a, self.dtype), np.asarray(b, self.dtype)
        return np.asarray(self.multiplication[0](a, b), self.dtype)

    def fold(self, a: Elements) -> Elements:
        add, zero = self.addition
        return np.asarray(add.reduce(a, axis=0, dtype=self.dtype, initial=zero), self.dtype)


class SumProduct(_Scalars):
    """Real numbers with + and ×: Z is the partition function.

    On a long chain Z leaves the range of a double: it becomes 0, or inf with numpy's warning of an overflow.
    """

    name = "sum-product"
    addition, multiplication = (np.add, 0.0), (np.multiply, 1.0)


class LogSumProduct(_Scalars):
    """Logarithms of numbers in [0, ∞]: a ⊕ b = log(e^a + e^b), a ⊗ b = a + b. Z is the log partition function.

    ⊕ takes the larger of e^a and e^b out of the sum, equation (36). Zero is -inf, the true logarithm of zero: no score,
    not even +inf, wins back a forbidden move.
    """

    name = "log-domain sum-product"
    addition, multiplication = (np.logaddexp, -np.inf), (_add_logs, 0.0)


class MaxPlus(_Scalars):
    """Scores with max and +: Z is the score of the best path, v_t(y', y) that of the best path through (y', y)."""

    name = "max-plus"
    addition, multiplication = (np.maximum, -np.inf), (_add_logs, 0.0)


class Counting(_Scalars):
    """Non-negative integers with + and ×: from kernels of 0 and 1, Z is the number of allowed paths.

    Elements are Python integers in arrays of objects: a chain of 3 labels has more than 2^63 paths from T = 39 on, and
    a count that wraps around, or is rounded to 53 bits, is no count.
    """

    name = "counting"
    dtype = np.dtype(object)
    addition, multiplication = (np.add, 0), (np.multiply, 1)


class Boolean(_Scalars):
    """Truth values with or and and: Z says whether any path is allowed, v_t which moves some allowed path makes."""

    name = "boolean"
    dtype = np.dtype(np.bool_)
    addition, multiplication = (np.logical_or, False), (np.logical_and, True)


class SignedLog(Semiring):
    """Real numbers x with + and ×, each kept as (log |x|, sign x): zero is (-inf, 0), one (0, 1).

    A sum of both signs may cancel: its error is small beside the sum of the magnitudes, as for any sum of floats.
    """

    name = "signed log-domain sum-product"
    element_shape = (2,)

    def lift(self, x: ArrayLike) -> Elements:
        """(log |x|, sign x) for real numbers x."""
        with np.errstate(divide="ignore"):  # log 0
            return np.stack([np.log(np.abs(x)), np.sign(x)], axis=-1)

    def lift_log(self, log_x: ArrayLike) -> Elements:
        """(log x, sign x) for numbers x >= 0 given by their logarithms."""
        log = np.asarray(log_x, self.dtype)
        return np.stack([log, np.where(log == -np.inf, 0.0, 1.0)], axis=-1)

    def value(self, a: Elements) -> Floats:
        """The real numbers themselves."""
        return np.asarray(a[..., 1] * np.exp(a[..., 0]))

    def quotient(self, a: Elements, b: Elements) -> Floats:
        """a / b as real numbers, exp(log |a| - log |b|) with the sign; nan where b is zero."""
        with np.errstate(invalid="ignore"):  # -inf - -inf
            return np.asarray(a[..., 1] * b[..., 1] * np.exp(a[..., 0] - b[..., 0]))

    def zero(self, shape: tuple[int, ...] = ()) -> Elements:
        return self.lift(np.zeros(shape))

    def one(self, shape: tuple[int, ...] = ()) -> Elements:
        return self.lift(np.ones(shape))

    def plus(self, a: Elements, b: Elements) -> Elements:
        return self.fold(np.stack(np.broadcast_arrays(a, b)))

    def times(self, a: Elements, b: Elements) -> Elements:
        return np.stack([_add_logs(a[..., 0], b[..., 0]), a[..., 1] * b[..., 1]], axis=-1)

    def fold(self, a: Elements) -> Elements:
        """log |Σ s e^l| and its sign, the largest e^l taken out of the sum."""
        log, sign = a[..., 0], a[..., 1]
        peak = np.maximum.reduce(log, axis=0, initial=-np.inf)
        shift = np.where(np.isfinite(peak), peak, 0.0)
        total = np.add.reduce(sign * np.exp(log - shift), axis=0)
        with np.errstate(divide="ignore"):  # log 0
            return np.stack([np.log(np.abs(total)) + shift, np.sign(total)], axis=-1)


# Pairs


class _Pairs(Semiring):
    """Pairs (z, h) of a scalar z and M scalars h, kept as 1 + M scalars in a row.

    (z₁, h₁) ⊕ (z₂, h₂) = (z₁ + z₂, h₁ + h₂)
    (z₁, h₁) ⊗ (z₂, h₂) = (z₁ z₂, z₁ h₂ + z₂ h₁)

    with the + and · of `scalars`: as the paper has it, replacing the real ones by those of the log domain is all that
    leads from the expectation semiring to its log-domain version. On pairs (z, z f) these two make

    ⊗_t (z_t, z_t f_t) = (Π_t z_t, Π_t z_t · Σ_t f_t)

    so that Z over all paths is (Σ_y p(y), Σ_y p(y) F(y)), F the features summed along a path, p its weight.
    """

    scalars: Semiring

    def __init__(self, order: int) -> None:
        """`order` is M, the number of features."""
        if order < 1:
            raise BadSetting("order", order, "at least 1")
        self.name = f"{self.name} of order {order}"
        self.order = order
        self.element_shape = (1 + order, *self.scalars.element_shape)
        self._axis = -len(self.element_shape)  # along which z and h lie

    def zero(self, shape: tuple[int, ...] = ()) -> Elements:
        return self.scalars.zero((*shape, 1 + self.order))

    def one(self, shape: tuple[int, ...] = ()) -> Elements:
        z, h = self.scalars.one((*shape, 1)), self.scalars.zero((*shape, self.order))
        return np.concatenate([z, h], self._axis)

    def plus(self, a: Elements, b: Elements) -> Elements:
        return self.scalars.plus(a, b)

    def times(self, a: Elements, b: Elements) -> Elements:
        times, plus = self.scalars.times, self.scalars.plus
        (z1, h1), (z2, h2) = np.split(a, [1], self._axis), np.split(b, [1], self._axis)
        return np.concatenate([times(z1, z2), plus(times(z1, h2), times(z2, h1))], self._axis)

    def fold(self, a: Elements) -> Elements:
        return self.scalars.fold(a)


class Expectation(_Pairs):
    """The expectation semiring of order M: Z is (Z, ∇Z), and leaves the range of a double as in the sum-product."""

    name = "expectation"
    scalars = SumProduct()

    def lift(self, psi: ArrayLike, f: ArrayLike) -> Elements:
        """(ψ, ψ f), for factors ψ [...] and features f [..., M]."""
        return np.asarray(psi, self.dtype)[..., None] * _one_and(f)

    def expectation(self, total: Elements) -> Floats:
        """h / z, from Z the mean of F over the paths: ∇Z / Z = ∇ log Z. It is nan where no path has any weight."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(total[..., 1:] / total[..., :1])


class LogExpectation(_Pairs):
    """The log-domain expectation semiring of order M: Z is (log Z, log ∇Z), each with its sign.

    The paper's log f asks for f > 0; with the sign kept beside the logarithm, features are any real numbers.
    """

    name = "log-domain expectation"
    scalars: SignedLog = SignedLog()

    def lift(self, log_psi: ArrayLike, f: ArrayLike) -> Elements:
        """(log ψ, log ψ ⊗ log f), for log ψ [...] and features f [..., M] of either sign, or zero."""
        return self.scalars.times(self.scalars.lift_log(log_psi)[..., None, :], self.scalars.lift(_one_and(f)))

    def expectation(self, total: Elements) -> Floats:
        """∇Z / Z = exp(log ∇Z - log Z) with its sign, as `Expectation.expectation`."""
        return self.scalars.quotient(total[..., 1:, :], total[..., :1, :])


def _one_and(f: ArrayLike) -> Floats:
    """(1, f): what ψ multiplies."""
    features = np.asarray(f, np.float64)
    return np.concatenate([np.ones((*features.shape[:-1], 1)), features], axis=-1)
