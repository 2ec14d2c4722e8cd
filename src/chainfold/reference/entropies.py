"""The entropy of the paths: the expectation semiring of order 1 with f = log ψ.

    p(y) = Π_t ψ_t / Z        H = -Σ_y p(y) log p(y) = log Z - E[Σ_t log ψ_t]

The paper's algorithm is named after it: entropy message passing.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from chainfold.reference.forward_backward import normalise
from chainfold.reference.semirings import Elements, Expectation, LogExpectation

__all__ = ["entropy", "entropy_lift"]


def entropy_lift(psi: ArrayLike) -> Elements:
    """(ψ, ψ log ψ) in the expectation semiring of order 1, with 0 log 0 = 0; H = log z - h / z from its Z."""
    factor = np.asarray(psi, np.float64)
    log_factor = np.log(factor, where=factor > 0, out=np.zeros_like(factor))
    return Expectation(1).lift(factor, log_factor[..., None])


def entropy(log_psi: Iterable[ArrayLike]) -> float:
    """H in nats, from kernels log ψ_t [N, N], which may come from a generator; nan if no path is possible.

    One forward pass in the log-domain expectation semiring, whose annihilating zero says that 0 log 0 = 0.
    """
    semiring = LogExpectation(1)
    kernels = (np.asarray(kernel, np.float64) for kernel in log_psi)
    total = normalise(semiring, (semiring.lift(kernel, kernel[..., None]) for kernel in kernels))
    return float(total[0, 0] - semiring.expectation(total)[0])
