"""Optimisers: they get a callable and a starting point, and know nothing of chains.

    base ── Step, Optimiser                    what an optimiser tells, and how it is driven
      ├── team                               threads that share the work on long vectors
      ├── linesearch ── how far along a direction
      │     └── lbfgs                          L-BFGS, and OWL-QN where weights are to be exactly zero
      └── descent                              SGD, AdaGrad and Adam, a batch at a time

An optimiser is driven from outside, so that whoever drives it may report, save or stop between any two pieces of work:

    while not optimiser.finished:
        step = optimiser.advance()

`state` gives all that it needs to go on, as named arrays; after `restore` it goes on with the same bits.
"""
