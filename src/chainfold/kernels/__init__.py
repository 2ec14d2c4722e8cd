"""Kernels: the mathematics of the chain, compiled by numba.

Each module opens with its recursion, in the paper's letters. A kernel gets blocks of arrays and weights in slots, and
nothing else. Begin reading with `lattice`, which has the recursion, then `forward` and `backward`.

    slots ── weights in padded slots: shapes, without numba
    simd ── eight doubles at a time            wide ── numbers beyond the range of a double
      └── rows_of_few ── rows of two or four
    faults ── status codes of kernels, and their errors
      ├── scores               state and edge scores of a block; counts of the observed labels
      │     ├── lattice            a block after the forward pass; the derivation of the messages
      │     │     ├── forward          forward vectors
      │     │     │     ├── backward       posteriors and expected counts
      │     │     │     ├── few            both where there are up to four labels, by `rows_of_few`
      │     │     │     └── whole_sequences  both, for whole sequences at once
      │     │     ├── certificate      what the future can still change
      │     │     └── viterbi          the best labels of a sentence
      │     └── perceptron_update  the updates of perceptron, passive-aggressive and AROW
      ├── expectation          the paper's log-domain algorithms, with signs
      └── vectors              one pass over all weights, for optimisers

A module imports those above it and to its left only.
"""
