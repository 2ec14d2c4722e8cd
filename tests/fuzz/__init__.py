"""Inputs made at random, told from each other by their numbers: no reader and no restored state may fail on any.

    python -m tests.fuzz [TARGET…] [--inputs 20000] [--seconds S] [--seed 0] [--workers 1] [--only NUMBER]

A target is a function of a `random.Random` and an empty folder. It makes one input, has chainfold read and use it, and
returns. A `ChainfoldError` may be raised: the input was refused. Anything else that is raised is a failure, and so are
a crash, more than ten seconds of the processor, and more than 1 GB of memory. A module of targets is named in
`fuzz.harness.MODULES` and has `TARGETS`, a dict of them by name.
"""
