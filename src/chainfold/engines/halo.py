"""Halos of a stretch: its past and its future, known from the positions before and after it.

    the past     where the chain forgets within a halo before the stretch, α is known
    the future   where it forgets within a halo after the stretch, γ is known

A halo grows until it is certified, or until it has its largest size.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from chainfold.chain.block import frozen
from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import BlockPass
from chainfold.engines.certificate import Certificate
from chainfold.engines.scores import ScoreSource
from chainfold.model.layout import Floats


class Halo(NamedTuple):
    """Positions that a certificate looks at: at first, and at most."""

    first: int = 64
    last: int = 4096


HALO: Halo = Halo()
HALO_OF_FEW: Halo = Halo(256)  # of few labels, where a halo takes hardly less time if it is shorter


Value = TypeVar("Value")


class Side(NamedTuple, Generic[Value]):
    """What is known at one end of a stretch: the forward vector before it, or the posterior of its last position."""

    value: Value | None  # None where a sequence starts or ends
    certified: bool = False
    reached: bool = True  # the halo reaches the start of a sequence, or the end of the chain

    @property
    def known(self) -> bool:
        return self.certified or self.reached


def past_of(source: ScoreSource, position: int, halo: Halo = HALO) -> Side[Belief]:
    """α of the position before `position`, from a halo that grows until its beginning no longer matters."""
    size, first_pass, rest_pass = halo.first, BlockPass(source), BlockPass(source)
    while True:
        low = max(0, position - size)
        first = source.read(low, low + 1)
        reached = bool(first.starts[0])
        begun = first._replace(starts=frozen([True], bool))  # any label is possible here, unless one starts
        belief, certified = first_pass.forward(low, begun, None, masked=reached), False
        if position > low + 1:
            certificate = Certificate.of_past(belief, source.tolerance)
            belief = rest_pass.forward(low + 1, source.read(low + 1, position), belief)
            certified = certificate.extend(rest_pass.lattice())
        if certified or reached or 2 * size > halo.last:
            first_pass.release()
            rest_pass.release()
            return Side(belief, certified, reached)
        size *= 2


def future_of(source: ScoreSource, position: int, before: Belief, halo: Halo = HALO) -> Side[Floats]:
    """γ of the position before `position`, from a lookahead that grows until the future no longer matters.

    before: α of the same position
    """
    certificate = Certificate(source.transitions.width, source.tolerance)
    low, size = position, halo.first
    belief, passes = before, list[BlockPass]()
    while True:
        high = min(low + size, source.positions)
        passes.append(BlockPass(source))
        belief = passes[-1].forward(low, source.read(low, high), belief)
        certified, reached = certificate.extend(passes[-1].lattice()), high == source.positions
        if certified or reached or high - position >= halo.last:
            gamma = certificate.gamma if certified else certificate.mixed(belief)
            for block_pass in passes:
                block_pass.release()
            return Side(gamma, certified, reached)
        low, size = high, 2 * size
