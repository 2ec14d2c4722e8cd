"""Optimisers: they get a callable and a starting point, and know nothing of chains.

    base              Iteration and Optimiser: the report of an iteration, and the interface
    vector_threads    threads that share the work on long vectors
    linesearch        how far to go along a direction
    lbfgs_owlqn       L-BFGS, and OWL-QN where c1 > 0
    descent           SGD, AdaGrad and Adam, one batch at a time

The caller drives an optimiser, so that it can report, save or stop between any two steps:

    while not optimiser.finished:
        iteration = optimiser.advance()

`state` gives everything needed to continue, as named arrays; after `restore` the bits are the same. A module imports
those above it. Begin reading with `base`.
"""
