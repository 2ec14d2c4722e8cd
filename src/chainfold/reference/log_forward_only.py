"""The forward-only algorithm, the paper's slow baseline, in the log domain: section III.3.

Churbanov and Winters-Hilt (2008), Miklós and Meyer (2005), for hidden Markov models; carried over to conditional random
fields as the paper describes it, each weight m and each pair of labels (i, j) have a recursion of their own,

    α_k(y)       = ⊕_{y'} u_k(y', y) + α_{k-1}(y')
    τ_k^{mij}(y) = ⊕_{y'} u_k(y', y) + τ_{k-1}^{mij}(y')  ⊕  [y = j]  u_k(i, j) + α_{k-1}(i) + ln f_m(i, j, x, k)
    ln ∇_m Z     = ⊕_{i, j} ⊕_y τ_T^{mij}(y)

where τ_k^{mij}(y) is the sum, over the paths that end with y_k = y, of their weight times f_m summed over their moves
(i, j). Time N⁴MT, memory N³M for a chain of any length. The sum of the τ^{mij} over (i, j) has a recursion of its own:
Algorithm 2, N² times faster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from chainfold.reference.features import ActiveFeatures, features_of, local_kernels, one_state
from chainfold.reference.semirings import Floats, SignedLog

if TYPE_CHECKING:
    from chainfold.chain.block import Source
    from chainfold.model.model import Model

__all__ = ["forward_only", "log_domain_forward_only"]

_log_sum = np.logaddexp.reduce
_signed = SignedLog()


def forward_only(model: Model, chain: Source) -> tuple[float, Floats]:
    """log Z and the expected counts ∇Z / Z [M] of a chain, by the forward-only algorithm.

    >>> import chainfold as cf
    >>> model, chain = cf.Model.random(cf.Layout.full(2, 3)), cf.SyntheticChain(10, 2, 3, 1)
    >>> log_z, counts = cf.reference.forward_only(model, chain)
    >>> abs(log_z - cf.log_likelihood(model, chain, "forward-only").log_z) < 1e-12
    True
    """
    return log_domain_forward_only(model.weights, features_of(model, chain), one_state(model.layout.n_labels))


def log_domain_forward_only(theta: Floats, features: Iterable[ActiveFeatures], alpha_0: Floats) -> tuple[float, Floats]:
    """ln Z and ∇Z / Z [M], from weights θ [M], the active features of each position, and ln α_0 [N].

    Where no path is possible the result is -inf and nan.
    """
    n_labels = alpha_0.size
    alpha = alpha_0
    tau = _signed.zero((n_labels, n_labels, n_labels, theta.size))  # [y, i, j, m]
    for u, active in local_kernels(theta, features, n_labels):
        gamma = u + alpha[:, None]
        tau = np.stack(
            [_signed.sum(_signed.times(_signed.lift_log(u[:, y, None, None, None]), tau)) for y in range(n_labels)]
        )
        for m, i, j, f in active.tolist():
            lnf = _signed.lift(f)
            tau[j, i, j, m] = _signed.plus(tau[j, i, j, m], _signed.times(_signed.lift_log(gamma[i, j]), lnf))
        alpha = _log_sum(gamma, axis=0)

    ln_z = _log_sum(alpha)
    ln_grad = _signed.sum(tau.reshape(-1, theta.size, 2))
    return float(ln_z), _signed.quotient(ln_grad, _signed.lift_log(ln_z))
