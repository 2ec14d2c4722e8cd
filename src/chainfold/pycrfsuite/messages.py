"""The progress of training as the lines that CRFsuite writes, so that programs that read them keep working.

preparing    the settings, and how many weights there are
iteration    the figures of one iteration
performance  the scores of the last weights on the sequences held out
storing      the model
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from chainfold.metrics import Quality, Scores
from chainfold.model.model import Model
from chainfold.training.loop import IterationReport

_TITLES = {
    "lbfgs": "L-BFGS optimization",
    "sgd": "Stochastic Gradient Descent (SGD)",
    "adagrad": "AdaGrad",
    "adam": "Adam",
    "ap": "Averaged perceptron",
    "pa": "Passive Aggressive",
    "arow": "Adaptive Regularization of Weights (AROW)",
}
_FIGURES = (
    ("Loss", "value"),
    ("Feature norm", "point_norm"),
    ("Error norm", "gradient_norm"),
    ("Active features", "active"),
    ("Line search trials", "evaluations"),
    ("Line search step", "step"),
)


def preparing(algorithm: str, values: Mapping[str, Any], holdout: int, features: int, seconds: float) -> Iterator[str]:
    """The lines before the first iteration; `values` are those of the parameters."""
    if holdout >= 0:
        yield from (f"Holdout group: {holdout + 1}\n", "\n")
    yield from ("Feature generation\n", "type: CRF1d\n")
    yield from (_assigned(name, value) for name, value in values.items() if name.startswith("feature."))
    yield from (mark for tenth in range(10) for mark in (str(tenth), *4 * "."))
    yield from ("10", "\n", f"Number of features: {features}\n", f"Seconds required: {seconds:.3f}\n", "\n")
    yield f"{_TITLES[algorithm]}\n"
    yield from (_assigned(name, value) for name, value in values.items() if not name.startswith("feature."))
    yield "\n"


def iteration(report: IterationReport, seconds: float) -> Iterator[str]:
    """The figures of an iteration and the seconds it took, without the blank line that ends it."""
    yield f"***** Iteration #{report.step.iteration} *****\n"
    for title, name in _FIGURES:
        value = getattr(report.step, name)
        if isinstance(value, int):
            yield f"{title}: {value}\n"
        elif not math.isnan(value):
            yield f"{title}: {value:f}\n"
    if report.dev is not None:
        yield f"Holdout score: {report.dev:f}\n"
    yield f"Seconds required for this iteration: {seconds:.3f}\n"


def performance(scores: Scores) -> Iterator[str]:
    """The scores on the sequences held out."""
    yield "Performance by label (#match, #model, #ref) (precision, recall, F1):\n"
    for label, quality in scores.per_label.items():
        yield f"    {label}: ({quality.correct}, {quality.found}, {quality.gold}) ({_ratios(quality)})\n"
    yield f"Macro-average precision, recall, F1: ({', '.join(f'{value:f}' for value in scores.macro)})\n"
    for name, right, total in (
        ("Item", scores.correct, scores.tokens),
        ("Instance", scores.sequences_correct, scores.sequences),
    ):
        yield f"{name} accuracy: {right} / {total} ({right / total:.4f})\n"


def _ratios(quality: Quality) -> str:
    if not quality.gold and not quality.found:
        return ", ".join(3 * ["******"])
    return f"{quality.precision:.4f}, {quality.recall:.4f}, {quality.f1:.4f}"


def storing(model: Model, seconds: float) -> Iterator[str]:
    """The lines after training."""
    features, layout = int(np.count_nonzero(model.weights)), model.layout
    yield from (f"Total seconds required for training: {seconds:.3f}\n", "\n", "Storing the model\n")
    yield f"Number of active features: {features} ({layout.size})\n"
    yield f"Number of active attributes: {layout.n_attributes}\n"
    yield f"Number of active labels: {layout.n_labels}\n"


def _assigned(name: str, value: Any) -> str:
    """A parameter and its value."""
    shown = {"period": "stop", "max_linesearch": "linesearch.max_iterations"}.get(name, name)
    text = f"{value:f}" if isinstance(value, float) else str(int(value) if isinstance(value, bool) else value)
    return f"{shown}: {text}\n"
