"""The paper in its own words, in plain NumPy: to be read, to be run, to compare with.

    semirings           sections II to IV: the semirings, and others
    forward_backward    section II: α, β, normalisation and marginals over any of them
    entropies           the entropy of the paths, the expectation semiring of order 1
    features            the feature functions of a model on a chain, and the local kernels
    log_fb              section III.2: Algorithm 1, forward-backward
    log_forward_only    section III.3: the forward-only algorithm
    log_emp             section IV.2: Algorithm 2, entropy message passing

Numbers in parentheses are the equations of the paper; comments give the lines of its algorithms; docs/paper.md lists
its misprints. The engines `fb-log`, `forward-only` and `emp` are compiled versions of the three algorithms. Nothing is
imported but NumPy and `errors`.
"""

from chainfold.reference.entropies import entropy, entropy_lift
from chainfold.reference.features import ACTIVE, ActiveFeatures, features_of, local_kernels, one_state
from chainfold.reference.forward_backward import backward, forward, marginals, normalise
from chainfold.reference.log_emp import algorithm_2, log_domain_emp
from chainfold.reference.log_fb import algorithm_1, log_domain_fb
from chainfold.reference.log_forward_only import forward_only, log_domain_forward_only
from chainfold.reference.semirings import (
    Boolean,
    Counting,
    Elements,
    Expectation,
    Floats,
    LogExpectation,
    LogSumProduct,
    MaxPlus,
    Semiring,
    SignedLog,
    SumProduct,
)

__all__ = [
    "ACTIVE",
    "ActiveFeatures",
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
    "algorithm_1",
    "algorithm_2",
    "backward",
    "entropy",
    "entropy_lift",
    "features_of",
    "forward",
    "forward_only",
    "local_kernels",
    "log_domain_emp",
    "log_domain_fb",
    "log_domain_forward_only",
    "marginals",
    "normalise",
    "one_state",
]
