"""The iterations of `CRF.fit`.

TrainingLog   the iterations, as sklearn-crfsuite names what is in them
reporter      the callback of `train`: the log and, if `verbose`, stderr
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chainfold.model.model import Model
from chainfold.training.loop import IterationReport


@dataclass
class TrainingLog:
    """The iterations of training, as sklearn-crfsuite names their figures."""

    iterations: list[dict[str, Any]] = field(default_factory=list)
    featgen_num_features: int | None = None  # weights
    training_seconds: float | None = None

    @property
    def last_iteration(self) -> dict[str, Any] | None:
        return self.iterations[-1] if self.iterations else None

    def add(self, progress: IterationReport) -> None:
        step, before = progress.step, self.training_seconds or 0.0
        seen = {
            "num": step.iteration,
            "loss": step.value,
            "feature_norm": step.point_norm,
            "error_norm": step.gradient_norm,
            "active_features": step.active,
            "linesearch_trials": step.evaluations,
            "linesearch_step": step.step,
            "time": progress.seconds - before,
            "dev_score": math.nan if progress.dev is None else progress.dev,
        }
        self.iterations.append({name: value for name, value in seen.items() if not math.isnan(value)})
        self.training_seconds = progress.seconds


def reporter(verbose: bool, log: TrainingLog) -> Callable[[IterationReport], None]:
    """The callback of `train`: it fills the log and, if `verbose`, writes a line for each iteration to stderr."""

    def report(progress: IterationReport) -> None:
        log.add(progress)
        if verbose:
            print(_line(log.iterations[-1]), file=sys.stderr)

    return report


def _line(seen: Mapping[str, Any]) -> str:
    shown = {"feature_norm": "norm", "active_features": "active", "dev_score": "dev"}
    rest = [f"{name}={seen[key]:<9.5g}" for key, name in shown.items() if key in seen]
    return "  ".join(
        [f"Iter {seen['num']:<3}", f"time={seen['time']:<6.2f}", f"loss={seen['loss']:<12.4f}", *rest]
    ).strip()


def log_of(model: Model) -> TrainingLog:
    """The log of training that a model's record has."""
    values = model.training.get("objective", [])
    return TrainingLog([{"num": k + 1, "loss": value} for k, value in enumerate(values)], model.layout.size)
