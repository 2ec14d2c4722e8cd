"""Commutative semirings, and the forward-backward algorithm over any of them.

To be read beside sections II to IV of the paper. A commutative semiring (K, ⊕, ⊗, 0, 1) is all that the algorithm
asks for: both operations are associative and commutative with identities 0 and 1, ⊗ distributes over ⊕, and
0 ⊗ a = 0. For local kernels u_t(y', y), t = 1, …, T, over N labels,

    α_0(y) = 1        α_t(y) = ⊕_{y'} u_t(y', y) ⊗ α_{t-1}(y')
    β_T(y) = 1        β_t(y) = ⊕_{y''} u_{t+1}(y, y'') ⊗ β_{t+1}(y'')

    normalisation     Z          = ⊕_y α_T(y)                              = ⊕ over all paths of ⊗_t u_t
    marginalisation   v_t(y', y) = α_{t-1}(y') ⊗ u_t(y', y) ⊗ β_t(y)       = the same, over the paths through (y', y)

Normalisation needs the forward pass alone, and of that only the last vector: over the expectation semiring it gives
Z and ∇Z in memory that does not depend on T, which is the point of the paper.

Elements are arrays: an array of elements has shape [..., *element_shape], so that indexing and broadcasting over the
leading axes are the same for scalars, pairs and whatever else. Everything here is written to be read; the engines
compute log Z and its gradient far faster.

The paper in print differs in five places: its definition of a semiring leaves out 0 ⊗ a = 0, without which a forbidden
move forbids nothing; the identities of the sum-product semiring stand in the order 1, 0; the recursion for α_i has
u_{i-1} where its definition needs u_i; the lemma on sums in the expectation semiring has (z_i, z_i h_i) on the left
and Σ h_i on the right; and Algorithm 2 starts from α^(z) = 1, where the one of the log domain is 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import ArrayLike, NDArray

from chainfold.errors import BadChain, BadSetting, EmptyChain

Elements = NDArray[Any]  # [..., *element_shape]
Floats = NDArray[np.float64]


class Semiring(ABC):
    """What the algorithms ask for. A semiring of your own needs `zero`, `one`, `plus` and `times`."""

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
        """⊕ along the first axis. Override it where there is a faster way than one ⊕ after another."""
        total = self.zero(a.shape[1 : a.ndim - len(self.element_shape)])
        for x in a:
            total = self.plus(total, x)
        return total

    def sum(self, a: Elements, axis: int = 0) -> Elements:
        """⊕ along one of the leading axes; -1 is the last of these. An empty sum is zero."""
        leading = a.ndim - len(self.element_shape)
        return self.fold(np.moveaxis(a, normalize_axis_index(axis, leading), 0))


# Scalars


class _Scalars(Semiring):
    """Numbers, with a ufunc for ⊕."""

    addition: np.ufunc
    identities: tuple[Any, Any]  # of ⊕ and of ⊗

    def zero(self, shape: tuple[int, ...] = ()) -> Elements:
        return np.full(shape, self.identities[0], self.dtype)

    def one(self, shape: tuple[int, ...] = ()) -> Elements:
        return np.full(shape, self.identities[1], self.dtype)

    def plus(self, a: Elements, b: Elements) -> Elements:
        return np.asarray(self.addition(a, b, dtype=self.dtype), self.dtype)

    def fold(self, a: Elements) -> Elements:
        total = self.addition.reduce(a, axis=0, dtype=self.dtype, initial=self.identities[0])
        return np.asarray(total, self.dtype)


class SumProduct(_Scalars):
    """Real numbers with + and ×: Z is the partition function.

    On a long chain Z leaves the range of a double: it becomes 0, or inf with numpy's warning of an overflow.
    """

    name = "sum-product"
    addition, identities = np.add, (0.0, 1.0)

    def times(self, a: Elements, b: Elements) -> Elements:
        return np.multiply(a, b)


class LogSumProduct(_Scalars):
    """Logarithms of numbers in [0, ∞]: a ⊕ b = log(e^a + e^b), a ⊗ b = a + b. Z is the log partition function.

    ⊕ takes the larger of e^a and e^b out of the sum, as the paper advises. Zero is -inf, the true logarithm of zero:
    no score, not even +inf, wins back a forbidden move.
    """

    name = "log-domain sum-product"
    addition, identities = np.logaddexp, (-np.inf, 0.0)

    def times(self, a: Elements, b: Elements) -> Elements:
        return _add_logs(a, b)


class MaxPlus(_Scalars):
    """Scores with max and +: Z is the score of the best path, v_t(y', y) that of the best path through (y', y)."""

    name = "max-plus"
    addition, identities = np.maximum, (-np.inf, 0.0)

    def times(self, a: Elements, b: Elements) -> Elements:
        return _add_logs(a, b)


class Counting(_Scalars):
    """Non-negative integers with + and ×: from kernels of 0 and 1, Z is the number of allowed paths.

    Elements are Python integers in arrays of objects: a chain of 3 labels has more than 2^63 paths from T = 39 on, and
    a count that wraps around, or is rounded to 53 bits, is no count.
    """

    name = "counting"
    dtype = np.dtype(object)
    addition, identities = np.add, (0, 1)

    def times(self, a: Elements, b: Elements) -> Elements:
        return np.asarray(np.multiply(a, b, dtype=object), object)


class Boolean(_Scalars):
    """Truth values with or and and: Z says whether any path is allowed, v_t which moves some allowed path makes."""

    name = "boolean"
    dtype = np.dtype(np.bool_)
    addition, identities = np.logical_or, (False, True)

    def times(self, a: Elements, b: Elements) -> Elements:
        return np.logical_and(a, b)


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


def _add_logs(a: Elements, b: Elements) -> Elements:
    """a + b, and -inf wherever one of them is: 0 · x = 0 for every x, infinity included."""
    with np.errstate(invalid="ignore"):  # -inf + inf
        return np.where((a == -np.inf) | (b == -np.inf), -np.inf, np.add(a, b))


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
    scalars = SignedLog()

    def lift(self, log_psi: ArrayLike, f: ArrayLike) -> Elements:
        """(log ψ, log ψ ⊗ log f), for log ψ [...] and features f [..., M] of either sign, or zero."""
        return self.scalars.times(self.scalars.lift_log(log_psi)[..., None, :], self.scalars.lift(_one_and(f)))

    def expectation(self, total: Elements) -> Floats:
        """∇Z / Z = exp(log ∇Z - log Z) with its sign, as `Expectation.expectation`."""
        z, h = total[..., :1, :], total[..., 1:, :]
        with np.errstate(invalid="ignore"):  # -inf - -inf
            return np.asarray(z[..., 1] * h[..., 1] * np.exp(h[..., 0] - z[..., 0]))


def _one_and(f: ArrayLike) -> Floats:
    """(1, f): what ψ multiplies."""
    features = np.asarray(f, np.float64)
    return np.concatenate([np.ones((*features.shape[:-1], 1)), features], axis=-1)


# Chains


def forward(semiring: Semiring, u: ArrayLike, initial: Elements | None = None) -> Elements:
    """α [T + 1, N, ...] for kernels u [T, N, N, ...], u[t - 1] being u_t(y', y); `initial` [N, ...] stands for α_0."""
    kernels = _checked(semiring, u)
    alpha = semiring.one((len(kernels) + 1, kernels.shape[1]))
    if initial is not None:
        alpha[0] = initial
    for t, u_t in enumerate(kernels, start=1):
        alpha[t] = _advance(semiring, alpha[t - 1], u_t)
    return alpha


def backward(semiring: Semiring, u: ArrayLike) -> Elements:
    """β [T + 1, N, ...] for kernels u [T, N, N, ...]."""
    kernels = _checked(semiring, u)
    beta = semiring.one((len(kernels) + 1, kernels.shape[1]))
    for t in range(len(kernels), 0, -1):
        beta[t - 1] = semiring.sum(semiring.times(kernels[t - 1], beta[t]), axis=1)
    return beta


def normalise(semiring: Semiring, u: Iterable[ArrayLike], initial: Elements | None = None) -> Elements:
    """Z, the normalisation problem, by the forward pass: one vector is kept, and each u_t dropped once it is used.

    The kernels [N, N, ...] may come from a generator.
    """
    alpha = None if initial is None else np.asarray(initial, semiring.dtype)
    for kernel in u:
        u_t = _checked(semiring, np.asarray(kernel, semiring.dtype)[None])[0]
        alpha = _advance(semiring, semiring.one(u_t.shape[:1]) if alpha is None else alpha, u_t)
    if alpha is None:
        raise EmptyChain
    return np.asarray(semiring.sum(alpha), semiring.dtype)


def marginals(semiring: Semiring, u: ArrayLike, initial: Elements | None = None) -> Elements:
    """v [T, N, N, ...], the marginalisation problem: v[t - 1] is v_t(y', y)."""
    kernels = _checked(semiring, u)
    alpha, beta = forward(semiring, kernels, initial), backward(semiring, kernels)
    return semiring.times(semiring.times(alpha[:-1, :, None], kernels), beta[1:, None, :])


def _advance(semiring: Semiring, alpha: Elements, u_t: Elements) -> Elements:
    """α_t(y) = ⊕_{y'} u_t(y', y) ⊗ α_{t-1}(y')."""
    return semiring.sum(semiring.times(u_t, alpha[:, None]), axis=0)


def _checked(semiring: Semiring, u: ArrayLike) -> Elements:
    """u as an array of elements [T, N, N, ...]."""
    kernels = np.asarray(u, semiring.dtype)
    if kernels.shape[3:] != semiring.element_shape or kernels.ndim < 3 or kernels.shape[1] != kernels.shape[2]:
        expected = ", ".join(["N", "N", *map(str, semiring.element_shape)])
        raise BadChain(f"kernels over the {semiring.name} semiring have shape [{expected}], not {kernels.shape[1:]}.")
    return kernels


# Entropy, the case M = 1 with f = log ψ


def entropy_lift(psi: ArrayLike) -> Elements:
    """(ψ, ψ log ψ) in the expectation semiring of order 1, with 0 log 0 = 0; H = log z - h / z from its Z."""
    factor = np.asarray(psi, np.float64)
    log_factor = np.log(factor, where=factor > 0, out=np.zeros_like(factor))
    return Expectation(1).lift(factor, log_factor[..., None])


def entropy(log_psi: Iterable[ArrayLike]) -> float:
    """H = -Σ_y p(y) log p(y) of the paths, p(y) = Π_t ψ_t / Z, from kernels log ψ_t [N, N]; they may be a generator.

    As log p(y) = Σ_t log ψ_t - log Z, H = log Z - E[Σ_t log ψ_t]: one forward pass in the log-domain expectation
    semiring, whose annihilating zero says that 0 log 0 = 0. The entropy is nan if no path is possible.
    """
    semiring = LogExpectation(1)
    kernels = (np.asarray(kernel, np.float64) for kernel in log_psi)
    total = normalise(semiring, (semiring.lift(kernel, kernel[..., None]) for kernel in kernels))
    return float(total[0, 0] - semiring.expectation(total)[0])
