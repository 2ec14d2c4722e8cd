"""Forward-backward over any commutative semiring: section II of the paper.

For local kernels u_t(y', y), t = 1, …, T, over N labels,

    (5), (6)    α_0(y) = 1        α_t(y) = ⊕_{y'} u_t(y', y) ⊗ α_{t-1}(y')        printed with u_{t-1}
    (9), (8)    β_T(y) = 1        β_t(y) = ⊕_{y''} u_{t+1}(y, y'') ⊗ β_{t+1}(y'')
    (11)        Z          = ⊕_y α_T(y)                           = ⊕ over all paths of ⊗_t u_t
    (10)        v_t(y', y) = α_{t-1}(y') ⊗ u_t(y', y) ⊗ β_t(y)    = ⊕ over the paths through (y', y)

Normalisation needs the forward pass alone, and of that only the last vector: over the expectation semiring it gives
Z and ∇Z in memory that does not depend on T, which is the point of the paper.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from chainfold.errors import BadChain, EmptyChain
from chainfold.reference.semirings import Elements, Semiring

__all__ = ["backward", "forward", "marginals", "normalise"]


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
    """Kernels as an array of elements [T, N, N, ...]."""
    kernels = np.asarray(u, semiring.dtype)
    if kernels.shape[3:] != semiring.element_shape or kernels.ndim < 3 or kernels.shape[1] != kernels.shape[2]:
        expected = ", ".join(["N", "N", *map(str, semiring.element_shape)])
        raise BadChain(f"kernels over the {semiring.name} semiring have shape [{expected}], not {kernels.shape[1:]}.")
    return kernels
