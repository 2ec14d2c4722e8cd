"""Forward vectors that sum to one, in doubles or in wide numbers (`wide.hpp`)."""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.core import LEAST_ALPHA, LN2_HIGH, LN2_LOW
from chainfold.model.layout import Floats


class Belief(NamedTuple):
    """A forward vector that sums to one: what a block hands to the next."""

    values: Floats  # [width], wide: [2 · width]
    wide: bool = False

    def normalised(self) -> tuple[Belief, float]:
        """Any vector as one that sums to one, and the logarithm of its sum; -inf if all of it is zero."""
        values, top = self.values.copy(), 0.0
        if self.wide:
            powers = values.reshape(2, -1)[1]
            top = max(float(powers.max()), -sys.float_info.max)
            powers -= top
        same = Belief(values, self.wide)
        total = float(same.doubles().sum())
        if total > 0.0:
            same.parts[:] /= total
        return same, top * math.log(2.0) + math.log(total) if total > 0.0 else -math.inf

    @property
    def parts(self) -> Floats:
        """[width], zero where the label has no probability: the numbers, of wide ones the m."""
        return self.values.reshape(2, -1)[0] if self.wide else self.values

    def doubles(self) -> Floats:
        """In doubles; numbers too small for them are zero."""
        if not self.wide:
            return self.values
        m, k = self.values.reshape(2, -1)
        return np.ldexp(m, np.maximum(k, -2000.0).astype(np.int64))

    def real(self) -> Floats | None:
        """In doubles, or None where they do not have the range."""
        values = self.doubles()
        return values if not self.wide or (values[self.possible()] >= LEAST_ALPHA).all() else None

    def widened(self) -> Floats:
        """In wide numbers."""
        return self.values if self.wide else widened(self.values)

    def logs(self) -> Floats:
        m, k = self.widened().reshape(2, -1)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(m) + k * np.log(2.0))

    def possible(self) -> NDArray[np.bool_]:
        """Which labels have a probability above zero, however small."""
        return np.asarray(self.parts > 0.0)

    def posterior(self) -> Floats:
        """The posterior of the position where nothing follows: its forward vector."""
        values = self.doubles()
        return np.asarray(values / values.cumsum()[-1])  # added in order, as the core adds them


def widened(values: Floats, shift: Floats | float = 0.0) -> Floats:
    """Doubles, times e^shift, as wide numbers, in rows twice as long."""
    power = np.rint(np.divide(shift, math.log(2.0)))
    m, k = np.frexp(values * np.exp((shift - power * LN2_HIGH) - power * LN2_LOW))
    return np.concatenate([m, np.where(m > 0.0, k + power, -np.inf)], axis=-1)
