"""Line searches: find a step t along a direction d with a good enough φ(t), the objective at x + t·d.

Good enough is Wolfe's: φ has fallen by a share of what the slope at 0 promised, and the slope is flatter than it was,

    φ(t) ≤ φ(0) + FALL · t · φ'(0)      and      φ'(t) ≥ FLATTER · φ'(0)      strong: |φ'(t)| ≤ FLATTER · |φ'(0)|

Every search makes at most `most` trials, and none where the promise is less than rounding can show. It returns the
last trial if that is good enough, else the lowest one that has fallen enough, else None. A trial that is not finite
says that the step was too long, nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

FALL = 1e-4
FLATTER = 0.9
ROUNDING = 1e-16  # a change that is smaller beside the value cannot be seen

_GROWTH = 4.0  # at most so much further while no bracket is known
_NARROWER = 0.66  # a bracket that has not shrunk to this in two trials is halved
_NARROWEST = 1e-15  # a bracket, beside its upper end: rounding hides what is inside


class Trial(NamedTuple):
    """φ and its slope at a step."""

    step: float
    value: float
    slope: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.value) and math.isfinite(self.slope)


Probe = Callable[[float], Trial]


class _Search:
    """The start, the trials so far, and the conditions of a search."""

    def __init__(self, probe: Probe, start: Trial, most: int) -> None:
        self._probe, self._start, self._left = probe, start, most
        self.best: Trial | None = None  # the lowest that has fallen enough

    def try_step(self, step: float) -> Trial | None:
        """One trial; None when there were enough of them, or the step is too short to tell."""
        if not self._left or -step * self._start.slope < ROUNDING * abs(self._start.value):
            return None
        self._left -= 1
        trial = self._probe(step)
        if self.fallen(trial) and (self.best is None or trial.value < self.best.value):
            self.best = trial
        return trial

    def fallen(self, trial: Trial) -> bool:
        return trial.finite and trial.value <= self._start.value + FALL * trial.step * self._start.slope

    def steep(self, trial: Trial) -> bool:
        """Still falling fast: further would be better."""
        return trial.slope < FLATTER * self._start.slope

    def rising(self, trial: Trial) -> bool:
        """Rising fast: less far would be better."""
        return trial.slope > -FLATTER * self._start.slope


def backtracking(probe: Probe, start: Trial, step: float, most: int, strong: bool = False) -> Trial | None:
    """Shorten a step that is too long, lengthen one that is too short, and stay between the two."""
    search = _Search(probe, start, most)
    low, high = 0.0, math.inf
    while trial := search.try_step(step):
        if not search.fallen(trial) or (strong and search.rising(trial)):
            high = step
        elif search.steep(trial):
            low = step
        else:
            return trial
        if high == math.inf:
            step *= 2.0
        elif high - low <= _NARROWEST * high:
            break
        else:
            step = 0.5 * (low + high) if low else step * kept(start.value, step * start.slope, trial.value)
    return search.best


def kept(before: float, promised: float, after: float) -> float:
    """The factor, 0.1 to 0.5, by which to shorten a step that was too long.

    To the lowest point of the parabola through what was before, what the slope there promised, and what came of it.
    """
    excess = after - before - promised
    if not math.isfinite(excess):
        return 0.1
    return min(max(-0.5 * promised / excess, 0.1), 0.5) if excess > 0.0 else 0.5


def more_thuente(probe: Probe, start: Trial, step: float, most: int) -> Trial | None:
    """Moré and Thuente (1994): a bracket that holds a good step, and guesses inside it by cubics.

    Until a trial has fallen enough and rises again, the bracket may be drawn for ψ(t) = φ(t) - FALL · t · φ'(0), whose
    lowest point has fallen enough.
    """
    search = _Search(probe, start, most)
    bracket = _Bracket(start)
    ceiling = math.inf  # the shortest step that was not finite
    on_psi = True
    while trial := search.try_step(step):
        if not trial.finite:
            ceiling = step
            step = bracket.low.step + 0.25 * (ceiling - bracket.low.step)
            continue
        fallen = search.fallen(trial)
        if fallen and not search.steep(trial) and not search.rising(trial):
            return trial
        on_psi = on_psi and not (fallen and trial.slope >= 0.0)
        tilted = on_psi and not fallen and trial.value <= bracket.low.value
        step = bracket.take(trial, FALL * start.slope if tilted else 0.0)
        if step >= ceiling:
            step = 0.5 * (bracket.low.step + ceiling)
        if bracket.spent(step):
            break
    return search.best


class _Bracket:
    """The best step so far and, once it is known, a step on the other side of a good one."""

    def __init__(self, start: Trial) -> None:
        self.low = start
        self._other: Trial | None = None
        self._widths = (math.inf, math.inf)  # before the last trial, after it

    def take(self, trial: Trial, tilt: float) -> float:
        """Draw the bracket around a trial and say where to try next; `tilt` is taken off all slopes."""
        low, new = _tilted(self.low, tilt), _tilted(trial, tilt)
        if new.value > low.value:
            guess = _after_a_rise(low, new)
            self._other = trial
        elif new.slope * low.slope < 0.0:
            guess = _past_the_lowest(low, new)
            self.low, self._other = trial, self.low
        else:
            guess = _further(low, None if self._other is None else _tilted(self._other, tilt), new)
            self.low = trial
        return guess if self._other is None else self._guarded(guess, self.low.step, self._other.step)

    def _guarded(self, guess: float, low: float, other: float) -> float:
        """The guess, or the middle of a bracket that it leaves or that shrinks too slowly."""
        width = abs(other - low)
        slowly = width >= _NARROWER * self._widths[0]
        self._widths = (self._widths[1], width)
        inside = min(low, other) < guess < max(low, other)
        return guess if inside and not slowly else 0.5 * (low + other)

    def spent(self, step: float) -> bool:
        """Whether the bracket is so narrow that rounding hides what is inside."""
        return step == self.low.step or self._widths[1] <= _NARROWEST * step


def _tilted(trial: Trial, tilt: float) -> Trial:
    return Trial(trial.step, trial.value - tilt * trial.step, trial.slope - tilt)


def _after_a_rise(low: Trial, new: Trial) -> float:
    """The lowest point is between the two: by a cubic if it is nearer to `low` than by a parabola, else halfway."""
    cubic = _cubic(low, new)
    length = new.step - low.step
    parabola = low.step + 0.5 * length * low.slope / ((low.value - new.value) / length + low.slope)
    return cubic if abs(cubic - low.step) < abs(parabola - low.step) else 0.5 * (cubic + parabola)


def _past_the_lowest(low: Trial, new: Trial) -> float:
    """The slope has turned: the lowest point is between the two, by a cubic or a secant, whichever is further back."""
    return max(_cubic(low, new), _secant(low, new), key=lambda step: abs(step - new.step))


def _further(low: Trial, other: Trial | None, new: Trial) -> float:
    """Still falling: beyond the new trial, with care if the slope flattens, boldly if not."""
    length = new.step - low.step
    edge = new.step + (_GROWTH * length if other is None else _NARROWER * (other.step - new.step))
    if abs(new.slope) >= abs(low.slope):
        return edge if other is None else _cubic(other, new)
    cubic = _cubic(low, new)
    if not (cubic - new.step) * length > 0.0:
        cubic = edge
    steps = sorted((cubic, _secant(low, new), edge), key=lambda step: abs(step - new.step))
    return steps[1] if other is None else steps[0]


def _cubic(a: Trial, b: Trial) -> float:
    """The lowest point of the cubic with the values and slopes of two trials; nan if it has none."""
    length = b.step - a.step
    chord = a.slope + b.slope - 3.0 * (b.value - a.value) / length
    root = chord * chord - a.slope * b.slope
    if not root >= 0.0:
        return math.nan
    root = math.copysign(math.sqrt(root), length)
    bottom = b.slope - a.slope + 2.0 * root
    return b.step - length * (b.slope + root - chord) / bottom if bottom else math.nan


def _secant(a: Trial, b: Trial) -> float:
    """The step at which a slope that changes linearly is zero; the slopes differ."""
    return b.step - b.slope * (b.step - a.step) / (b.slope - a.slope)
