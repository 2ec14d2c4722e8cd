"""The answers that must not change while the code does.

    answers     what is recorded: bytes by their digest, numbers by samples and signed sums
    samples     inputs, and the fixed models in `models/`
    fixed       log Z, gradients, labels, marginals, tables and exports of the fixed models
    learned     training by every algorithm, the estimator, pycrfsuite
    layer       the PyTorch layer on the host

`python -m tests.freeze` compares the code with `answers.json`; `--record` writes it anew, and `--models` the fixed
models. An answer that is meant to differ is named in `differences.toml`, with the reason. Where the real data or
torch are missing, their answers are not compared, and a line says so.
"""
