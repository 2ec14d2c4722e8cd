"""Scores of labels.

    count   Count and Scores: positions, sequences, labels and spans, counted stretch by stretch in constant memory
    flat    scores of lists of label sequences by scikit-learn's functions, as sklearn-crfsuite names them

Neither imports the other. Begin reading with `count.Count`.
"""

from chainfold.metrics.count import Average, Confusion, Count, Quality, Scores, are_chunk_tags
from chainfold.metrics.flat import (
    flat_accuracy_score,
    flat_classification_report,
    flat_f1_score,
    flat_fbeta_score,
    flat_precision_score,
    flat_recall_score,
    sequence_accuracy_score,
)

__all__ = [
    "Average",
    "Confusion",
    "Count",
    "Quality",
    "Scores",
    "are_chunk_tags",
    "flat_accuracy_score",
    "flat_classification_report",
    "flat_f1_score",
    "flat_fbeta_score",
    "flat_precision_score",
    "flat_recall_score",
    "sequence_accuracy_score",
]
