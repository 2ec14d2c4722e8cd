"""Algorithm 2 of the paper, entropy message passing: one forward pass over the log-domain expectation semiring.

    (75)    α_k^(z)(y) = ⊕_{y'} ψ_k(y', y) + α_{k-1}^(z)(y')
    (76)    α_k^(h)(y) = ⊕_{y'} ψ_k(y', y) + α_{k-1}^(h)(y')  ⊕  ⊕_{y'} ψ_k(y', y) + α_{k-1}^(z)(y') + ln f(y', y, x, k)
    (78)    ln Z = ⊕_y α_T^(z)(y)        ln ∇Z = ⊕_y α_T^(h)(y)

Time N²T(M + A), memory N² + NM for a chain of any length: nothing of a position is kept. It is `normalise` over
`LogExpectation(M)`, written out with its sparse second term. A feature may be negative: h and ln f have a sign.
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

__all__ = ["algorithm_2", "log_domain_emp"]

_log_sum = np.logaddexp.reduce
_signed = SignedLog()


def algorithm_2(model: Model, chain: Source) -> tuple[float, Floats]:
    """log Z and the expected counts ∇Z / Z [M] of a chain, by Algorithm 2.

    >>> import chainfold as cf
    >>> model, chain = cf.Model.random(cf.Layout.full(2, 3)), cf.SyntheticChain(10, 2, 3, 1)
    >>> log_z, counts = cf.reference.algorithm_2(model, chain)
    >>> abs(log_z - cf.log_likelihood(model, chain, "emp").log_z) < 1e-12
    True
    """
    return log_domain_emp(model.weights, features_of(model, chain), one_state(model.layout.n_labels))


def log_domain_emp(theta: Floats, features: Iterable[ActiveFeatures], alpha_0: Floats) -> tuple[float, Floats]:
    """ln Z and ∇Z / Z [M], from weights θ [M], the active features of each position, and ln α_0^(z) [N].

    The text has α_0^(z) = 0, a free y_0; line 2 prints 1. Where no path is possible the result is -inf and nan.
    """
    n_labels, n_weights = alpha_0.size, theta.size
    z = alpha_0  # lines 1-2
    h = _signed.zero((n_labels, n_weights))  # 3-4

    for psi, active in local_kernels(theta, features, n_labels):  # 5-8
        z_hat = _log_sum(psi + z[:, None], axis=0)  # 9-10
        h_hat = _signed.sum(_signed.times(_signed.lift_log(psi)[:, :, None], h[:, None]))  # 11-13
        gamma = psi + z[:, None]  # 14-16
        for m, i, j, f in active.tolist():  # 17
            lnf = _signed.lift(f)  # 18
            h_hat[j, m] = _signed.plus(h_hat[j, m], _signed.times(_signed.lift_log(gamma[i, j]), lnf))
        z, h = z_hat, h_hat  # 19-22

    ln_z = _log_sum(z)  # termination
    ln_grad = _signed.sum(h)
    return float(ln_z), _signed.quotient(ln_grad, _signed.lift_log(ln_z))
