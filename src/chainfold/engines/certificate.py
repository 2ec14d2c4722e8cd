"""The certificate: the posterior of a position, known before the future is read.

`certificate.hpp` has the proof.
"""

from __future__ import annotations

import numpy as np

from chainfold.core import NEGLIGIBLE, last_certified, look_ahead
from chainfold.core.slots import Lattice
from chainfold.engines.belief import Belief
from chainfold.model.layout import Floats


class Certificate:
    """The certificate of one boundary, the position before the first lattice that extends it.

    q          [width, width]  Pr(label at the boundary | label at the last position looked at)
    certified  do the columns of q agree to within the tolerance?
    gamma      [width]  the posterior of the boundary, once certified
    blocks     lattices looked at; positions: in all of them
    """

    def __init__(self, width: int, tolerance: float, ignore: Floats | None = None) -> None:
        """ignore: [width]  a row of q below it counts as zero."""
        self._tolerance = tolerance
        self._ignore = np.full(width, NEGLIGIBLE) if ignore is None else ignore
        self._scratch = np.zeros((2, width, width))
        self.q = np.eye(width)
        self.gamma = np.zeros(width)
        self.certified = False
        self.blocks = self.positions = 0

    @classmethod
    def of_past(cls, start: Belief, tolerance: float) -> Certificate:
        """Certifies the forward vector of the last position looked at; start: that of the boundary, of any past."""
        return cls(start.parts.size, tolerance, np.where(start.possible(), 0.0, np.inf))

    def extend(self, lattice: Lattice) -> bool:
        """Look at the next positions, until it is certified; is it?"""
        self.certified, looked = look_ahead(lattice, self._tolerance, self._ignore, self.q, self._scratch, self.gamma)
        self.blocks += 1
        self.positions += looked
        return self.certified

    def mixed(self, belief: Belief) -> Floats:
        """The posterior of the boundary if the sequence ends here; belief: the forward vector of the last position."""
        gamma = (self.q * belief.posterior()).sum(axis=1)
        return np.asarray(gamma / gamma.sum())

    def search(self, lattice: Lattice) -> tuple[int, Floats, Certificate]:
        """The last certified position of a lattice that ends at the head of a stream: t, its posterior, and the
        certificate of the position after it.

        t is -1 for the boundary, and -2 where no position is certified.
        """
        following = Certificate(len(self.q), self._tolerance)
        gamma = np.zeros_like(self.gamma)
        last = last_certified(lattice, self._tolerance, self._ignore, following.q, self._scratch, gamma)
        return last, gamma, following

    def restart(self, lattice: Lattice) -> None:
        """Look from the head of a stream back to the boundary, the position before the lattice."""
        last_certified(lattice, 0.0, self._ignore, self.q, self._scratch, np.zeros_like(self.gamma))
