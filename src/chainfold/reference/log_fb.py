"""Algorithm 1 of the paper: forward-backward in the log domain, section III.2.

    (32), (35)    α_k(y) = ⊕_{y'} u_k(y', y) + α_{k-1}(y')        β_{k-1}(y') = ⊕_y u_k(y', y) + β_k(y)
    (40)          v_k(y', y) = α_{k-1}(y') + u_k(y', y) + β_k(y)
    (41)          ln ∇_m Z = ⊕_k ⊕_{y', y} v_k(y', y) + ln f_m(y', y, x, k)

Time N²TA, memory N²T + M: every u_k, α_k and β_k is kept. A feature may be negative: ln f and ln ∇_m Z have a sign.
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

__all__ = ["algorithm_1", "log_domain_fb"]

_log_sum = np.logaddexp.reduce
_signed = SignedLog()


def algorithm_1(model: Model, chain: Source) -> tuple[float, Floats]:
    """log Z and the expected counts ∇Z / Z [M] of a chain, by Algorithm 1.

    >>> import chainfold as cf
    >>> model, chain = cf.Model.random(cf.Layout.full(2, 3)), cf.SyntheticChain(10, 2, 3, 1)
    >>> log_z, counts = cf.reference.algorithm_1(model, chain)
    >>> abs(log_z - cf.log_likelihood(model, chain, "fb-log").log_z) < 1e-12
    True
    """
    return log_domain_fb(model.weights, features_of(model, chain), one_state(model.layout.n_labels))


def log_domain_fb(theta: Floats, features: Iterable[ActiveFeatures], alpha_0: Floats) -> tuple[float, Floats]:
    """ln Z and ∇Z / Z [M], from weights θ [M], the active features of each position, and ln α_0 [N].

    The paper has α_0 = 0, a free y_0. Where no path is possible the result is -inf and nan.
    """
    u, active = zip(*local_kernels(theta, features, alpha_0.size), strict=True)  # lines 1-4; u[k - 1] is u_k
    n_positions, n_labels = len(u), alpha_0.size

    alpha = np.empty((1 + n_positions, n_labels))  # forward phase
    alpha[0] = alpha_0  # 5-6
    for k in range(1, n_positions + 1):  # 7-9
        alpha[k] = _log_sum(u[k - 1] + alpha[k - 1][:, None], axis=0)

    beta = np.empty((1 + n_positions, n_labels))  # backward phase
    beta[n_positions] = 0.0  # 10-11
    for k in range(n_positions - 1, -1, -1):  # 12-14
        beta[k] = _log_sum(u[k] + beta[k + 1], axis=1)

    ln_z = _log_sum(alpha[n_positions])  # 15, termination
    ln_grad = _signed.zero(theta.shape)  # not printed
    for k in range(1, n_positions + 1):  # 16-18
        v = _signed.lift_log(alpha[k - 1][:, None] + u[k - 1] + beta[k])  # 19
        for m, i, j, f in active[k - 1].tolist():  # 20
            lnf = _signed.lift(f)  # 21
            ln_grad[m] = _signed.plus(ln_grad[m], _signed.times(v[i, j], lnf))  # 22
    return float(ln_z), _signed.quotient(ln_grad, _signed.lift_log(ln_z))  # 23-24
