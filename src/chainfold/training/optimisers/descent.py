"""Descent a batch at a time: SGD, AdaGrad and Adam.

The objective is Σ_k L_k(x) + c2 · ‖x‖² over batches k. A step follows the gradient of one batch with its share of the
penalty, g = ∇L_k + 2 · c2 · x / batches, and η falls with the epochs e that were done, fractions counted:

    η = rate / (1 + decay · e)
    sgd       x ← x - η · g
    adagrad   q ← q + g²                                         x ← x - η · g / (√q + ε)
    adam      p ← β₁ p + (1 - β₁) g,  q ← β₂ q + (1 - β₂) g²     x ← x - η · p̂ / (√q̂ + ε)

where p̂ and q̂ are p and q divided by 1 - βᵗ at step t. Gradients are sums over a batch and not means. AdaGrad and Adam
do not mind: their steps do not depend on the scale of the gradient. SGD's do, so its default rate is for batches of
about 250 positions; take a smaller one for larger batches, in proportion. The defaults were chosen on chunking data.

The report of an epoch is gathered in passing: the sum of the batches' objectives and gradients, each at the point
where it was met. The order of the batches is drawn from the seed and the number of the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chainfold import core
from chainfold.errors import BadSetting, ChainfoldError
from chainfold.system.validate import MOST, finite, need, within
from chainfold.training.optimisers.base import (
    ENOUGH_ITERATIONS,
    LITTLE_GAIN,
    SMALL_GRADIENT,
    Floats,
    Iteration,
    State,
    Trail,
    check_not_negative,
    check_whole,
    checked,
    frozen_view,
    norm,
)
from chainfold.training.optimisers.vector_threads import VectorThreads

BatchGradient = Callable[[int, Floats], tuple[float, Floats]]


class _Defaults(NamedTuple):
    rate: float
    decay: float
    moments: int  # vectors that are kept beside the point
    move: Callable[..., None]  # one pass over the weights


ALGORITHMS = {
    "sgd": _Defaults(rate=0.03, decay=0.1, moments=0, move=core.sgd),
    "adagrad": _Defaults(rate=0.3, decay=0.0, moments=1, move=core.adagrad),
    "adam": _Defaults(rate=0.05, decay=0.3, moments=2, move=core.adam),
}


@dataclass(frozen=True)
class DescentSettings:
    """Which algorithm, and when to stop."""

    algorithm: str = "adagrad"
    c2: float = 0.0  # weight of ‖x‖²
    rate: float | None = None  # None: the algorithm's own
    decay: float | None = None  # of the rate, an epoch; None: the algorithm's own
    max_iterations: int | None = 20  # epochs; None: no limit
    epsilon: float = 1e-5  # the gradient is small if it is below this share of the point
    period: int = 10  # epochs over which the objective must fall; 0: no such test
    delta: float = 1e-5  # by more than this share of itself
    seed: int = 0  # of the order of the batches

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise BadSetting("algorithm", self.algorithm, f"one of {', '.join(ALGORITHMS)}")
        for name in ("rate", "decay"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, getattr(ALGORITHMS[self.algorithm], name))
        check_not_negative((name, getattr(self, name)) for name in ("c2", "rate", "decay", "epsilon", "delta"))
        if not self.rate:
            raise BadSetting("rate", self.rate, "above zero")
        for name, least in (("max_iterations", 1), ("period", 0), ("seed", 0)):
            check_whole(name, getattr(self, name), least)


class Descent:
    """Moves a point by one batch at a time.

    `gradient(k, x)` gives the negative log likelihood of batch k and its gradient, without penalties; it gets a
    read-only view that is valid during the call, and may give the same array each time. Threads change no bit.
    """

    def __init__(
        self,
        gradient: BatchGradient,
        batches: int,
        start: ArrayLike,
        settings: DescentSettings | None = None,
        threads: int = 1,
    ) -> None:
        self._batch_gradient = gradient
        self._batches = batches
        self._settings = settings or DescentSettings()
        self._threads = VectorThreads(threads)
        self._point = np.array(start, np.float64)
        self._moments = np.zeros((ALGORITHMS[self._settings.algorithm].moments, self._point.size))
        self._steps = 0
        self._value = 0.0  # of this epoch so far
        self._gradient = np.zeros(self._point.size)  # of this epoch so far
        self._gradient_norm = math.inf  # of the last whole epoch
        self._norms = np.full(2, norm(self._point))  # of the point, before the last epoch and after it
        self._trail = Trail(self._settings.period, self._settings.delta)
        self._order = self._shuffled()

    @property
    def point(self) -> Floats:
        return frozen_view(self._point)

    @property
    def finished(self) -> str | None:
        settings = self._settings
        epoch, batches_done = divmod(self._steps, self._batches)
        if batches_done:
            return None
        if self._gradient_norm <= settings.epsilon * max(1.0, float(self._norms.min())):
            return SMALL_GRADIENT
        if self._trail.flat():
            return LITTLE_GAIN
        if settings.max_iterations is not None and epoch >= settings.max_iterations:
            return ENOUGH_ITERATIONS
        return None

    def advance(self) -> Iteration | None:
        if self.finished:
            return None
        rate = self._rate()
        self._move(rate, int(self._order[self._steps % self._batches]))
        self._steps += 1
        return self._end_of_epoch(rate) if self._steps % self._batches == 0 else None

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "point": self._point,
            "moments": self._moments,
            "steps": np.array(self._steps),
            "batches": np.array(self._batches),
            "epoch_value": np.array(self._value),
            "epoch_gradient": self._gradient,
            "gradient_norm": np.array(self._gradient_norm),
            "norms": self._norms,
            "values": self._trail.values,
        }

    def restore(self, state: State) -> None:
        given = checked(state, self.state())
        need(given["batches"] == self._batches, f"it is that of a run over {given['batches']} batches")
        for name in ("point", "moments", "epoch_value", "epoch_gradient", "norms"):
            finite(name, given[name])
        within("moments", given["moments"][-1:] if self._moments.size else given["norms"], 0.0, np.inf)  # of squares
        within("steps", given["steps"], 0, MOST)
        need(given["gradient_norm"] >= 0.0, "its gradient_norm is not a number")
        self._point[:] = given["point"]
        self._moments[:] = given["moments"]
        self._steps = int(given["steps"])
        self._value = float(given["epoch_value"])
        self._gradient[:] = given["epoch_gradient"]
        self._gradient_norm = float(given["gradient_norm"])
        self._norms[:] = given["norms"]
        self._trail.restore(given["values"])
        self._order = self._shuffled()

    def _shuffled(self) -> NDArray[np.int64]:
        """The order of the batches in this epoch."""
        epoch = self._steps // self._batches
        return np.random.default_rng([self._settings.seed, epoch]).permutation(self._batches)

    def _rate(self) -> float:
        assert self._settings.rate is not None, "filled in with the defaults"
        assert self._settings.decay is not None, "filled in with the defaults"
        return self._settings.rate / (1.0 + self._settings.decay * self._steps / self._batches)

    def _move(self, rate: float, batch: int) -> None:
        """Follow the gradient of a batch; its objective is added to the epoch's, with its share of the penalty."""
        value, gradient = self._batch_gradient(batch, frozen_view(self._point))
        share = self._settings.c2 / self._batches
        how = (self._point, gradient, 2.0 * share, self._gradient, rate, self._steps + 1, self._moments)
        move = ALGORITHMS[self._settings.algorithm].move
        steepness, square = self._threads.run(move, self._point.size, 2, *how).tolist()
        if not (math.isfinite(value) and math.isfinite(steepness)):
            raise ChainfoldError(
                f"the objective or its gradient is not finite in batch {batch} of epoch "
                f"{self._steps // self._batches + 1}; choose a smaller rate, or rescale the values of the attributes."
            )
        self._value += value + share * square

    def _end_of_epoch(self, rate: float) -> Iteration:
        epoch = self._steps // self._batches
        value, self._value = self._value, 0.0
        self._gradient_norm = norm(self._gradient)
        self._norms[:] = self._norms[1], norm(self._point)
        self._gradient[:] = 0.0
        self._trail.add(value)
        self._order = self._shuffled()
        active = int(np.count_nonzero(self._point))
        return Iteration(epoch, value, self._gradient_norm, float(self._norms[1]), rate, self._batches, active)
