"""Every tolerance of the suite, by name."""

ORACLE = 1e-10
"""Engines against the enumeration of all paths: relative to the sum of the magnitudes of the terms."""

FLOOR = 1e-13
"""An absolute floor beside a relative tolerance, for counts that are zero or nearly so."""

AT_LENGTH = 1e-11
"""Production engines against one another, and against extended precision, on long chains."""

LOG_DOMAIN_AT_LENGTH = 1e-9
"""The published log-domain algorithms, which add millions of rounded logarithms."""

DIFFERENCES = 1e-6
"""Gradients against central differences of log Z, whose own error is about 1e-8."""

ROUNDING = 1e-12
"""Production engines against 50 digits on chains made to lose them: counts by their terms, log Z by its size."""

IN_PORTIONS = 3e-14
"""Sums over 40,000 equal positions: without portions they are wrong by 1e-13 and more."""

OWN_SIZE = 1e-10
"""Each component of a weighted gradient, relative to itself."""
