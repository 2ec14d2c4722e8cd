"""L-BFGS, and OWL-QN (Andrew and Gao, 2007) where c1 > 0: minimise f(x) + c1 · ‖x‖₁ for a smooth f.

A direction is -H·g: H is the inverse curvature that the last few pairs (s, y) of steps and changes of the gradient tell
of, applied by the two loops of Nocedal (1980) and never written out. All that the loops ask of vectors is their dot
products: with these at hand they run on small numbers, and the direction is one sum over the pairs. With c1 the
gradient is replaced by the pseudo-gradient, the direction is kept where it agrees with it in sign, and no weight
changes its sign in one step: a weight that would is set to exactly zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chainfold import core
from chainfold.core.slots import aligned
from chainfold.errors import BadSetting, ChainfoldError
from chainfold.system.validate import MOST, finite, need, within
from chainfold.training.optimisers import linesearch
from chainfold.training.optimisers.base import (
    ENOUGH_ITERATIONS,
    LITTLE_GAIN,
    NO_BETTER_STEP,
    SMALL_GRADIENT,
    Floats,
    Iteration,
    State,
    Trail,
    check_not_negative,
    check_whole,
    checked,
    frozen_view,
)
from chainfold.training.optimisers.linesearch import Probe, Trial
from chainfold.training.optimisers.vector_threads import VectorThreads

Objective = Callable[[Floats], tuple[float, Floats]]

LINE_SEARCHES: dict[str, Callable[[Probe, Trial, float, int], Trial | None]] = {
    "MoreThuente": linesearch.more_thuente,
    "Backtracking": linesearch.backtracking,
    "StrongBacktracking": partial(linesearch.backtracking, strong=True),
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


class _Here(NamedTuple):
    """A point, in numbers."""

    moved: float  # the distance from the point before
    point_norm: float
    gradient_norm: float
    active: int


class Lbfgs:
    """Moves a point downhill, one iteration at a time.

    The objective gives f and its gradient at a point, a contiguous array of float64. It gets a read-only view that is
    valid during the call, and may give the same array each time. Nothing is evaluated before the first iteration.
    Threads change no bit.
    """

    def __init__(
        self, objective: Objective, start: ArrayLike, settings: LbfgsSettings | None = None, threads: int = 1
    ) -> None:
        self._objective = objective
        self._settings = settings or LbfgsSettings()
        self._c1 = float(self._settings.c1)
        self._threads = VectorThreads(threads)
        self._point = np.array(start, np.float64)
        self._size = size = self._point.size
        self._value = math.nan  # of the whole objective; nan until the first evaluation
        self._gradient = aligned(size)  # of f
        self._pseudo_gradient = aligned(size if self._c1 else 0)
        self._direction = aligned(size)
        self._trial = aligned(size)  # the point that is being tried
        self._trial_gradient = aligned(size)
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

    def advance(self) -> Iteration | None:
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
        for name in ("point", "gradient"):
            finite(name, given[name])
        need(not np.isinf(given["value"]), "its value is not finite")
        within("iteration", given["iteration"], 0, MOST)
        self._point[:] = given["point"]
        self._gradient[:] = given["gradient"]
        self._value = float(given["value"])
        self._trail.restore(given["values"])
        self._iteration = int(given["iteration"])
        self._exhausted = bool(given["exhausted"])
        self._pairs.restore(given)
        self._finished = None
        if not math.isnan(self._value):
            self._finished = self._reason(self._look_around())

    @property
    def _downhill(self) -> Floats:
        """The gradient of the whole objective; at a kink, that of the side where it falls, or zero."""
        return self._pseudo_gradient if self._c1 else self._gradient

    def _begin(self) -> None:
        self._trial[:] = self._point
        value = self._evaluate()[0] + self._c1 * float(np.abs(self._point).sum())
        if not (math.isfinite(value) and np.isfinite(self._trial_gradient).all()):
            raise ChainfoldError(
                "the objective or its gradient is not finite at the starting point; begin with smaller weights, or "
                "rescale the values of the attributes."
            )
        self._value = value
        self._gradient, self._trial_gradient = self._trial_gradient, self._gradient
        self._trail.add(value)
        self._finished = self._reason(self._look_around())

    def _evaluate(self) -> tuple[float, float]:
        """f at the trial, whose gradient is kept, and its slope along the direction."""
        self._evaluations += 1
        value, gradient = self._objective(frozen_view(self._trial))
        (slope,) = self._threads.run(core.keep, self._size, 1, self._trial_gradient, gradient, self._direction)
        return float(value), float(slope)

    def _improve(self) -> float | None:
        """A better trial, and the step that led to it; None if there is none."""
        scale, shares = self._pairs.direction()
        how = (self._direction, scale, self._downhill, shares, self._pairs.rows, self._c1 > 0.0)
        slope, square = self._threads.run(core.combine, self._size, 2, *how).tolist()
        if not -math.inf < slope < 0.0:
            return None
        step = 1.0 if self._pairs.scale else 1.0 / math.sqrt(square)
        return self._search_orthant(step) if self._c1 else self._search_line(slope, step)

    def _search_line(self, slope: float, step: float) -> float | None:
        last = math.nan

        def probe(step: float) -> Trial:
            nonlocal last
            last = step
            self._threads.run(core.step_along, self._size, 0, self._trial, self._point, step, self._direction)
            self._trial_value, slope = self._evaluate()
            return Trial(step, self._trial_value, slope)

        search = LINE_SEARCHES[self._settings.linesearch]
        found = search(probe, Trial(0.0, self._value, slope), step, self._settings.max_linesearch)
        if found is None:
            return None
        if found.step != last:
            probe(found.step)
        return found.step

    def _search_orthant(self, step: float) -> float | None:
        """Shorten the step until the objective has fallen by a share of what the pseudo-gradient promised."""
        for _ in range(self._settings.max_linesearch):
            how = (self._trial, self._point, step, self._direction, self._downhill)
            promised, one_norm = self._threads.run(core.step_within, self._size, 2, *how).tolist()
            if not -promised > linesearch.ROUNDING * abs(self._value):
                return None
            value, slope = self._evaluate()
            self._trial_value = value + self._c1 * one_norm if math.isfinite(slope) else math.inf
            if self._trial_value <= self._value + linesearch.FALL * promised:
                return step
            step *= linesearch.kept(self._value, promised, self._trial_value)
        return None

    def _arrive(self, step: float) -> Iteration:
        """Make the trial the point."""
        self._point, self._trial = self._trial, self._point
        self._gradient, self._trial_gradient = self._trial_gradient, self._gradient
        self._value = self._trial_value
        self._trail.add(self._value)
        here = self._look_around(self._pairs.make_room())
        self._pairs.add(here.moved)
        self._iteration += 1
        evaluations, self._evaluations = self._evaluations, 0
        self._finished = self._reason(here)
        return Iteration(
            self._iteration, self._value, here.gradient_norm, here.point_norm, step, evaluations, here.active
        )

    def _look_around(self, new: int = -1) -> _Here:
        """Norms and counts of the point; pair `new`, if any, becomes its difference from the present trial."""
        x, g, x_before, g_before = self._point, self._gradient, self._trial, self._trial_gradient
        pairs = self._pairs
        how = (x, x_before, g, g_before, self._c1, self._downhill, pairs.rows, new)
        sums = self._threads.run(core.arrive, self._size, 4 + pairs.products.size, *how)
        pairs.products[:] = sums[4:].reshape(pairs.products.shape)
        moved, point_norm, gradient_norm = np.sqrt(sums[:3]).tolist()
        return _Here(moved, point_norm, gradient_norm, int(sums[3]))

    def _reason(self, here: _Here) -> str | None:
        settings = self._settings
        if here.gradient_norm <= settings.epsilon * max(1.0, here.point_norm):
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
        chunks, length = -(-size // core.CHUNK), min(size, core.CHUNK)
        self.rows = aligned(chunks, 2 * most, length)  # a chunk of each s and then of each y, and the next chunk
        self.products = np.zeros((2 * most, 2))  # of each s and y with the newest y, and with downhill
        self._most = most
        self._sy = np.zeros((most, most))  # of s (older, or of the same pair) and y (newer)
        self._yy = np.zeros((most, most))
        self._next = 0  # of the next pair; they are used in turn
        self.count = 0
        self.scale = 0.0  # s·y / y·y of the last pair: H where no pair says more; 0: nothing is known yet

    def make_room(self) -> int:
        """The index of the next pair; the oldest one is freed."""
        self.count = min(self.count, self._most - 1)
        return self._next

    def add(self, moved: float) -> None:
        """Take in the pair whose products are known, ‖s‖ = moved; one without positive curvature is left out."""
        new = self._next
        sy, yy = np.split(self.products[:, 0], 2)
        if sy[new] > _LEAST_CURVATURE * moved * math.sqrt(yy[new]):
            self._sy[:, new] = sy
            self._yy[:, new] = self._yy[new] = yy
            self.scale = float(sy[new] / yy[new])
            self._next, self.count = (new + 1) % self._most, self.count + 1

    def direction(self) -> tuple[float, Floats]:
        """-H · downhill, as what to take of downhill, of each s and of each y."""
        s_downhill, y_downhill = np.split(self.products[:, 1], 2)
        pairs = [(self._next - back) % self._most for back in range(1, self.count + 1)]  # the newest first
        scale = self.scale or 1.0
        of_s, of_y = shares = np.zeros((2, self._most))
        with np.errstate(all="ignore"):  # where numbers have become too large this is no direction, which is noticed
            for k in pairs:
                of_y[k] = (s_downhill[k] + self._sy[k] @ of_y) / -self._sy[k, k]
            for k in reversed(pairs):
                rest = scale * (y_downhill[k] + self._yy[k] @ of_y) - self._sy[:, k] @ of_s
                of_s[k] = of_y[k] + rest / self._sy[k, k]
        of_y *= -scale
        return -scale, shares.ravel()

    def forget(self) -> None:
        self.count = 0

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "steps_and_changes": self.rows,
            "curvatures": self._sy,
            "change_products": self._yy,
            "next_pair": np.array(self._next),
            "pairs": np.array(self.count),
            "scale": np.array(self.scale),
        }

    def restore(self, state: State) -> None:
        for name in ("steps_and_changes", "curvatures", "change_products", "scale"):
            finite(name, state[name])
        within("next_pair", state["next_pair"], 0, self._most - 1)
        within("pairs", state["pairs"], 0, self._most)
        pairs = (int(state["next_pair"]) - np.arange(1, int(state["pairs"]) + 1)) % self._most
        need((np.diagonal(state["curvatures"])[pairs] != 0.0).all(), "its pairs have no curvature")
        need(state["scale"] >= 0.0, "its scale is below zero")
        self.rows[:], self._sy[:], self._yy[:] = (
            state[name] for name in ("steps_and_changes", "curvatures", "change_products")
        )
        self._next, self.count, self.scale = int(state["next_pair"]), int(state["pairs"]), float(state["scale"])
