"""L-BFGS, and OWL-QN (Andrew and Gao, 2007) where c1 > 0: minimise f(x) + c1 · ‖x‖₁ for a smooth f.

A direction is -H·g: H is the inverse curvature that the last few pairs (s, y) of steps and changes of the gradient tell
of, applied by the two loops of Nocedal (1980) and never written out. With c1 the gradient is replaced by the
pseudo-gradient, the direction is kept where it agrees with it in sign, and no weight changes its sign in one step: a
weight that would is set to exactly zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chainfold.errors import BadSetting, ChainfoldError
from chainfold.optimize import linesearch
from chainfold.optimize.base import (
    ENOUGH_ITERATIONS,
    LITTLE_GAIN,
    NO_BETTER_STEP,
    SMALL_GRADIENT,
    Floats,
    State,
    Step,
    Trail,
    add_scaled,
    check_not_negative,
    check_whole,
    checked,
    chunks,
    dot,
    frozen_view,
    norm,
    one_norm,
    starting_point,
)
from chainfold.optimize.linesearch import Trial

Objective = Callable[[Floats], tuple[float, Floats]]

LINE_SEARCHES = {
    "MoreThuente": linesearch.more_thuente,
    "Backtracking": linesearch.backtracking,
    "StrongBacktracking": linesearch.strong_backtracking,
}

_LEAST_CURVATURE = 1e-12  # of a pair, as the cosine of the angle between s and y


@dataclass(frozen=True)
class LbfgsSettings:
    """The names and values of CRFsuite."""

    c1: float = 0.0  # weight of ‖x‖₁
    max_iterations: int | None = None  # None: no limit
    num_memories: int = 6  # pairs that are kept
    epsilon: float = 1e-5  # the gradient is small if it is below this share of the point
    period: int = 10  # iterations over which the objective must fall; 0: no such test
    delta: float = 1e-5  # by more than this share of itself
    linesearch: str = "MoreThuente"  # OWL-QN has its own
    max_linesearch: int = 20  # evaluations in one search

    def __post_init__(self) -> None:
        check_not_negative((name, getattr(self, name)) for name in ("c1", "epsilon", "delta"))
        for name, least in (("max_iterations", 1), ("num_memories", 1), ("period", 0), ("max_linesearch", 1)):
            check_whole(name, getattr(self, name), least)
        if self.linesearch not in LINE_SEARCHES:
            raise BadSetting("linesearch", self.linesearch, f"one of {', '.join(LINE_SEARCHES)}")


class Lbfgs:
    """Moves a point downhill, one iteration at a time.

    The objective gives f and its gradient at a point; it gets a read-only view that is valid during the call, and may
    give the same array each time. Nothing is evaluated before the first iteration.
    """

    def __init__(self, objective: Objective, start: ArrayLike, settings: LbfgsSettings | None = None) -> None:
        self._objective = objective
        self._settings = settings or LbfgsSettings()
        self._c1 = self._settings.c1
        self._point = starting_point(start)
        size = self._point.size
        self._value = math.nan  # of the whole objective; nan until the first evaluation
        self._gradient = np.zeros(size)  # of f
        self._downhill = np.zeros(size) if self._c1 else self._gradient  # the gradient, or the pseudo-gradient
        self._direction = np.zeros(size)
        self._trial = np.zeros(size)  # the point that is being tried
        self._trial_gradient = np.zeros(size)
        self._pairs = _Pairs(self._settings.num_memories, size)
        self._trail = Trail(self._settings.period, self._settings.delta)
        self._iteration = 0
        self._evaluations = 0  # in this iteration
        self._exhausted = False
        self._finished: str | None = None

    @property
    def point(self) -> Floats:
        return frozen_view(self._point)

    @property
    def finished(self) -> str | None:
        return self._finished

    def advance(self) -> Step | None:
        if self._finished is None and math.isnan(self._value):
            self._begin()
        if self._finished is not None:
            return None
        step = self._improve()
        if step is None and self._pairs.count:
            self._pairs.forget()
            step = self._improve()
        if step is None:
            self._exhausted = True
            self._finished = NO_BETTER_STEP
            return None
        return self._arrive(step)

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "point": self._point,
            "gradient": self._gradient,
            "value": np.array(self._value),
            "values": self._trail.values,
            "iteration": np.array(self._iteration),
            "exhausted": np.array(self._exhausted),
            **self._pairs.state(),
        }

    def restore(self, state: State) -> None:
        given = checked(state, self.state())
        self._point[:] = given["point"]
        self._gradient[:] = given["gradient"]
        self._value = float(given["value"])
        self._trail.values[:] = given["values"]
        self._iteration = int(given["iteration"])
        self._exhausted = bool(given["exhausted"])
        self._pairs.restore(given)
        self._finished = None
        if not math.isnan(self._value):
            self._look_downhill()
            self._finished = self._reason(norm(self._downhill), norm(self._point))

    def _begin(self) -> None:
        self._trial[:] = self._point
        value = self._evaluate()
        if not (math.isfinite(value) and np.isfinite(self._trial_gradient).all()):
            raise ChainfoldError(
                "the objective or its gradient is not finite at the starting point; begin with smaller weights, or "
                "rescale the values of the attributes."
            )
        self._value = value
        self._gradient, self._trial_gradient = self._trial_gradient, self._gradient
        self._trail.add(value)
        self._look_downhill()
        self._finished = self._reason(norm(self._downhill), norm(self._point))

    def _evaluate(self) -> float:
        """The whole objective at the trial, whose gradient is kept."""
        self._evaluations += 1
        value, gradient = self._objective(frozen_view(self._trial))
        self._trial_gradient[:] = gradient
        return float(value) + (self._c1 * one_norm(self._trial) if self._c1 else 0.0)

    def _look_downhill(self) -> None:
        """The gradient of the whole objective; at a kink, that of the side where it falls, or zero."""
        if not self._c1:
            self._downhill = self._gradient
            return
        for part in chunks(self._point.size):
            x, g, out = self._point[part], self._gradient[part], self._downhill[part]
            at_kink = np.sign(g) * np.maximum(np.abs(g) - self._c1, 0.0)
            out[:] = np.where(x == 0.0, at_kink, g + self._c1 * np.sign(x))

    def _improve(self) -> float | None:
        """A better trial, and the step that led to it; None if there is none."""
        np.negative(self._downhill, out=self._direction)
        self._pairs.apply(self._direction)
        if self._c1:
            self._align()
        slope = dot(self._direction, self._downhill)
        if not -math.inf < slope < 0.0:
            return None
        step = 1.0 if self._pairs.scale else 1.0 / norm(self._direction)
        return self._search_orthant(step) if self._c1 else self._search_line(slope, step)

    def _search_line(self, slope: float, step: float) -> float | None:
        last = math.nan

        def probe(step: float) -> Trial:
            nonlocal last
            last = step
            np.multiply(self._direction, step, out=self._trial)
            self._trial += self._point
            self._trial_value = self._evaluate()
            return Trial(step, self._trial_value, dot(self._trial_gradient, self._direction))

        search = LINE_SEARCHES[self._settings.linesearch]
        found = search(probe, Trial(0.0, self._value, slope), step, self._settings.max_linesearch)
        if found is None:
            return None
        if found.step != last:
            probe(found.step)
        return found.step

    def _align(self) -> None:
        """No weight moves against its own pseudo-gradient."""
        for part in chunks(self._point.size):
            d, g = self._direction[part], self._downhill[part]
            d[d * g >= 0.0] = 0.0

    def _search_orthant(self, step: float) -> float | None:
        """Shorten the step until the objective has fallen by a share of what the pseudo-gradient promised."""
        for _ in range(self._settings.max_linesearch):
            promised = self._step_within_orthant(step)
            if not -promised > linesearch.ROUNDING * abs(self._value):
                return None
            self._trial_value = self._evaluate()
            if not math.isfinite(dot(self._trial_gradient, self._direction)):
                self._trial_value = math.inf
            if self._trial_value <= self._value + linesearch.FALL * promised:
                return step
            step *= linesearch.kept(self._value, promised, self._trial_value)
        return None

    def _step_within_orthant(self, step: float) -> float:
        """The trial, zero where it would leave the orthant of the point; returns what the pseudo-gradient promises.

        The orthant of a weight that is zero is the side on which the objective falls.
        """
        promised = []
        for part in chunks(self._point.size):
            x, g = self._point[part], self._downhill[part]
            z = x + step * self._direction[part]
            side = np.where(x == 0.0, -g, x)
            z[np.sign(z) != np.sign(side)] = 0.0
            self._trial[part] = z
            z -= x
            promised.append(dot(z, g))
        return math.fsum(promised)

    def _arrive(self, step: float) -> Step:
        """Make the trial the point."""
        self._pairs.add(self._trial, self._point, self._trial_gradient, self._gradient)
        self._point, self._trial = self._trial, self._point
        self._gradient, self._trial_gradient = self._trial_gradient, self._gradient
        self._value = self._trial_value
        self._trail.add(self._value)
        self._look_downhill()
        self._iteration += 1
        evaluations, self._evaluations = self._evaluations, 0
        gradient_norm, point_norm = norm(self._downhill), norm(self._point)
        self._finished = self._reason(gradient_norm, point_norm)
        active = int(np.count_nonzero(self._point))
        return Step(self._iteration, self._value, gradient_norm, point_norm, step, evaluations, active)

    def _reason(self, gradient_norm: float, point_norm: float) -> str | None:
        settings = self._settings
        if gradient_norm <= settings.epsilon * max(1.0, point_norm):
            return SMALL_GRADIENT
        if self._exhausted:
            return NO_BETTER_STEP
        if self._trail.flat():
            return LITTLE_GAIN
        if settings.max_iterations is not None and self._iteration >= settings.max_iterations:
            return ENOUGH_ITERATIONS
        return None


class _Pairs:
    """The last steps s and changes of the gradient y, and the inverse curvature H that they tell of."""

    def __init__(self, most: int, size: int) -> None:
        self._s = np.zeros((most, size))
        self._y = np.zeros((most, size))
        self._sy = np.zeros(most)  # s·y of each pair
        self._next = 0  # the row of the next pair; rows are used in turn
        self.count = 0
        self.scale = 0.0  # s·y / y·y of the last pair: H where no pair says more; 0: nothing is known yet

    def add(self, point: Floats, point_before: Floats, gradient: Floats, gradient_before: Floats) -> None:
        """Take in a pair, the oldest one making room; one without positive curvature is left out."""
        row, most = self._next, len(self._sy)
        s, y = self._s[row], self._y[row]
        np.subtract(point, point_before, out=s)
        np.subtract(gradient, gradient_before, out=y)
        sy, yy = dot(s, y), dot(y, y)
        self.count = min(self.count, most - 1)
        if sy > _LEAST_CURVATURE * norm(s) * math.sqrt(yy):
            self._sy[row], self.scale = sy, sy / yy
            self._next, self.count = (row + 1) % most, self.count + 1

    def apply(self, vector: Floats) -> None:
        """vector = H · vector"""
        rows = [(self._next - back) % len(self._sy) for back in range(1, self.count + 1)]  # the newest first
        shares = []
        for row in rows:
            shares.append(dot(self._s[row], vector) / self._sy[row])
            add_scaled(vector, -shares[-1], self._y[row])
        if self.scale:
            vector *= self.scale
        for row, share in zip(reversed(rows), reversed(shares), strict=True):
            add_scaled(vector, share - dot(self._y[row], vector) / self._sy[row], self._s[row])

    def forget(self) -> None:
        self.count = 0

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "steps": self._s,
            "changes": self._y,
            "curvatures": self._sy,
            "next_pair": np.array(self._next),
            "pairs": np.array(self.count),
            "scale": np.array(self.scale),
        }

    def restore(self, state: State) -> None:
        self._s[:], self._y[:], self._sy[:] = state["steps"], state["changes"], state["curvatures"]
        self._next, self.count, self.scale = int(state["next_pair"]), int(state["pairs"]), float(state["scale"])
