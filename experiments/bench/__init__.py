"""Benchmarks: speed and memory of chainfold beside other programs; `python -m experiments bench`.

Begin with `command`, which runs the sections.

command          the command: sections, ledger, page
section          a section, and what it is given
findings         what it returns: tables and targets
timing           interleaved rounds, ratios within a round, fresh processes
datasets         the data sets, as files and as attributes
peers            python-crfsuite, sklearn-crfsuite and chaine behind one interface
report           the Markdown page

The sections: gradient, kdd (one long sequence), training, encoding, tagging, doors (the estimator on dicts), streams,
cluster, memory, scaling (length and threads), startup, torch_layer.

gpu_layer        `chainfold.torch` on a CUDA card, a script of its own: `python -m experiments.bench.gpu_layer`
gpu_checks       what has to hold there, against gpu_reference, the truth in NumPy
"""
