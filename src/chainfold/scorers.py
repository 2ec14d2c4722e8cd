"""Scorers for `cross_val_score`, `GridSearchCV` and the like, as sklearn-crfsuite has them; they need scikit-learn.

flat_accuracy       the share of labels that are right
sequence_accuracy   the share of sequences with every label right
"""

from __future__ import annotations

# ruff: noqa: E402
from chainfold.errors import require

require("sklearn", "chainfold.scorers")

from sklearn.metrics import make_scorer

from chainfold.metrics.flat import flat_accuracy_score, sequence_accuracy_score

__all__ = ["flat_accuracy", "sequence_accuracy"]

flat_accuracy = make_scorer(flat_accuracy_score)
sequence_accuracy = make_scorer(sequence_accuracy_score)
