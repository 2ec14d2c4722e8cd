"""Kernels: what numba compiles. Each opens with its recursion, in the paper's letters.

    simd ── eight doubles at a time
    wide ── numbers beyond the range of a double
      ├── scores         state and edge scores of a block; what the observed labels count
      ├── messages       forward vectors and posteriors, in doubles and in wide numbers
      │     ├── collapse     the certificate: what the future can still change
      │     ├── decode       the best labels, posteriors and drawn labels of a block
      │     └── live         what is final of a stream
      ├── vectors        one pass over all weights, for optimisers
      └── expectation    the paper's log-domain algorithms, with signs

A kernel gets blocks of arrays and weights in slots, and nothing else.
"""
