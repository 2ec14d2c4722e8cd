"""The parameters of each algorithm under CRFsuite's names, with their defaults and descriptions.

`rate`, `decay`, `batch` and `seed` are ours: descent has no calibration of the learning rate.
"""

from __future__ import annotations

from typing import Any

from chainfold.errors import BadSetting, ChainfoldError
from chainfold.training.loop import ALIASES, Training
from chainfold.training.perceptron import ALGORITHMS as PERCEPTRONS

_UNLIMITED = 2147483647  # iterations, in CRFsuite's words
_FEATURE_DEFAULTS: dict[str, Any] = {
    "feature.minfreq": 0.0,
    "feature.possible_states": False,
    "feature.possible_transitions": False,
}
_HELP = {
    "feature.minfreq": "Attributes that occur less often are left out.",
    "feature.possible_states": "A weight for every attribute with every label, not only for pairs that occur.",
    "feature.possible_transitions": "A weight for every two labels, not only for those that follow one another.",
    "c1": "Weight of the L1 penalty.",
    "c2": "Weight of the L2 penalty.",
    "max_iterations": "Iterations (epochs) at most.",
    "num_memories": "Earlier gradients from which L-BFGS estimates the curvature.",
    "epsilon": "Training stops when the gradient (of ap, pa and arow the mean loss) is small by this measure.",
    "period": "Iterations over which the improvement of the objective is taken.",
    "delta": "Training stops when the improvement over a period is smaller, relative to the objective.",
    "linesearch": "MoreThuente, Backtracking or StrongBacktracking.",
    "max_linesearch": "Trials of a line search at most.",
    "type": "How large a step of pa may be: 0 as large as needed, 1 at most c, 2 softened by c.",
    "c": "Aggressiveness of pa.",
    "error_sensitive": "Does the cost of pa grow with the number of wrong labels?",
    "averaging": "Is the result of pa the average over all steps?",
    "variance": "Variance of each weight before training.",
    "gamma": "The larger it is, the smaller the steps of arow.",
    "rate": "Learning rate.",
    "decay": "Decay of the learning rate.",
    "batch": "Positions in a batch.",
    "seed": "Of the order in which batches and sequences are taken.",
}
_DESCENT = ("c2", "max_iterations", "period", "delta", "epsilon", "rate", "decay", "batch", "seed")
_NAMES = {
    "lbfgs": (
        *("c1", "c2", "max_iterations", "num_memories", "epsilon", "period", "delta"),
        *("linesearch", "max_linesearch"),
    ),
    "sgd": _DESCENT,
    "adagrad": _DESCENT,
    "adam": _DESCENT,
    "ap": ("max_iterations", "epsilon", "seed"),
    "pa": ("type", "c", "error_sensitive", "averaging", "max_iterations", "epsilon", "seed"),
    "arow": ("variance", "gamma", "max_iterations", "epsilon", "seed"),
}


class Parameters:
    """The parameters of one algorithm."""

    def __init__(self, algorithm: str) -> None:
        """Raises `BadSetting` for an unknown algorithm."""
        known = [*_NAMES, *ALIASES]
        self.algorithm = ALIASES.get(algorithm.lower(), algorithm.lower())
        if self.algorithm not in _NAMES:
            raise BadSetting("algorithm", algorithm, f"one of {', '.join(known)}")
        record: dict[str, Any] = Training(self.algorithm).record()
        if record["max_iterations"] is None:
            record["max_iterations"] = _UNLIMITED
        if self.algorithm in PERCEPTRONS:
            record["epsilon"] = 0.0
        self._values = _FEATURE_DEFAULTS | {name: record[name] for name in _NAMES[self.algorithm]}

    @property
    def names(self) -> list[str]:
        return list(self._values)

    def __getitem__(self, name: str) -> Any:
        self._check(name)
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Set a value, which may be spelled as a text. Raises for an unknown name and for a value of another type."""
        self._check(name)
        kind = type(self._values[name])
        try:
            self._values[name] = bool(int(value)) if kind is bool else kind(value)
        except (TypeError, ValueError, OverflowError):
            raise BadSetting(name, value, f"of type {kind.__name__}") from None

    def help(self, name: str) -> str:
        self._check(name)
        return _HELP[name]

    def training(self) -> Training:
        """The settings of training that they stand for. Raises where a value is out of range."""
        return Training(
            self.algorithm,
            {name: self._values[name] for name in _NAMES[self.algorithm]},
            all_possible_states=self._values["feature.possible_states"],
            all_possible_transitions=self._values["feature.possible_transitions"],
            early_stopping=False,
        )

    def _check(self, name: str) -> None:
        if name not in self._values:
            rate = " The learning rate is set by `rate` and `decay`." if str(name).startswith("calibration.") else ""
            raise ChainfoldError(
                f"algorithm {self.algorithm!r} has no parameter {name!r}; it has {', '.join(self._values)}.{rate}"
            )
