"""The interface of optimisers, their report of an iteration, and tests for convergence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from chainfold.errors import BadSetting, ChainfoldError
from chainfold.system.validate import need

Floats = NDArray[np.float64]
State = Mapping[str, NDArray[Any]]

SMALL_GRADIENT = "converged: the gradient is small beside the weights"
LITTLE_GAIN = "converged: the last iterations hardly improved the objective"
ENOUGH_ITERATIONS = "stopped: the largest number of iterations was reached"
NO_BETTER_STEP = "converged as far as rounding allows: no step improves the objective"


class Iteration(NamedTuple):
    """One iteration, or one epoch."""

    iteration: int  # the first is 1
    value: float  # of the objective with its penalties; for descent, as estimated in passing
    gradient_norm: float
    point_norm: float
    step: float  # how far along the direction; for descent, the rate
    evaluations: int  # of the objective in this iteration; for descent, batches
    active: int  # weights that are not zero


class Optimiser(Protocol):
    """Something that moves a point, a piece of work at a time."""

    @property
    def point(self) -> Floats:
        """The present point: a read-only view that later work changes; copy it to keep it."""
        ...

    @property
    def finished(self) -> str | None:
        """Why it ended, in plain words; None while it goes on."""
        ...

    def advance(self) -> Iteration | None:
        """One piece of work, an iteration or a batch. Tells of the iteration or epoch if one was completed."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on. The arrays may be views that later work changes: write or copy them first."""
        ...

    def restore(self, state: State) -> None:
        """Go on from a state, with the bits of a run that was never interrupted. The settings are not part of it."""
        ...


def checked(given: State, expected: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays of a state, if they have the names, kinds and shapes of those that are expected."""
    if set(given) != set(expected):
        names = ", ".join(sorted(set(given) ^ set(expected)))
        raise ChainfoldError(f"the saved state is that of another optimiser: it differs in {names}.")
    for name, array in expected.items():
        found = given[name]
        if found.shape != array.shape or found.dtype != array.dtype:
            raise ChainfoldError(
                f"the saved state does not fit: {name} is {found.dtype} of shape {found.shape}, where this run has "
                f"{array.dtype} of shape {array.shape}; resume with the data and settings that it was saved under."
            )
    return dict(given)


def frozen_view(array: Floats) -> Floats:
    view = array.view()
    view.flags.writeable = False
    return view


class Trail:
    """The objective after the last iterations, to see whether it has stopped falling."""

    def __init__(self, period: int, delta: float) -> None:
        self._delta = delta
        self.values: Floats = np.full(period + 1, np.nan)  # the latest one last

    def add(self, value: float) -> None:
        self.values[:-1] = self.values[1:]
        self.values[-1] = value

    def restore(self, values: Floats) -> None:
        """Go on from earlier values, of which the first may not be there as yet."""
        need(not np.isinf(values).any(), "its values are not all finite")
        self.values[:] = values

    def flat(self) -> bool:
        """Over one period it fell by no more than a share delta of itself."""
        before, now = self.values[0], self.values[-1]
        return self.values.size > 1 and bool(before - now <= self._delta * abs(now))


def dot(a: Floats, b: Floats) -> float:
    """Σ a·b, in an order that does not depend on the number of threads."""
    return float(np.einsum("i,i->", a, b))


def norm(a: Floats) -> float:
    return math.sqrt(dot(a, a))


def check_whole(name: str, value: float | None, least: int) -> None:
    if value is None:
        return
    if not isinstance(value, (int, float, np.integer)) or not (least <= value < math.inf and value == int(value)):
        raise BadSetting(name, value, f"a whole number, at least {least}")


def check_not_negative(values: Iterable[tuple[str, float]]) -> None:
    for name, value in values:
        if not isinstance(value, (int, float, np.integer)) or not 0.0 <= value < math.inf:
            raise BadSetting(name, value, "a finite number, zero or more")
