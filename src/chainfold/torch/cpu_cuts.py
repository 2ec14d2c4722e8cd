"""Cuts of long sequences, so that threads can work on their stretches.

The places that are tried depend on the length and the number of labels alone. A cut holds on the way forward if a halo
before it has the same forward vector at its end for any past, and on the way back if a halo after it leaves one
posterior before the cut, for any future (`kernels.certificate`). A cut that does not hold is no cut: its two sides are
done in order. Each way asks for itself, and both give the numbers of the whole sequence, to within `TOLERANCE`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from chainfold.core.faults import OK
from chainfold.core.slots import Lattice
from chainfold.engines.belief import Belief
from chainfold.engines.certificate import Certificate
from chainfold.engines.forward_pass import lattice_of
from chainfold.kernels.forward import forward, predict
from chainfold.model.layout import Floats
from chainfold.torch.cpu_batch import CpuBatch, Stretches
from chainfold.torch.cpu_threads import run

TOLERANCE = 1e-13

_FIRST_HALO, _LAST_HALO = 64, 4096  # positions
_SHARE = 4  # a halo costs N³ a position, its stretch N²: a stretch is at least 4 N times as long


class Cuts(NamedTuple):
    """Stretches whose cuts hold."""

    stretches: Stretches
    vectors: Floats  # [K, width] forward vectors before them, or posteriors of their last positions; or no rows


def cut_forward(batch: CpuBatch) -> Cuts:
    """Stretches with the forward vectors before them."""
    return _cut(batch, partial(_past, batch), 0)


def cut_backward(batch: CpuBatch, alpha: Floats) -> Cuts:
    """Stretches with the posteriors of their last positions; alpha: [P, width], the forward vectors."""
    return _cut(batch, partial(_future, batch, alpha), 1)


def _cut(batch: CpuBatch, find: Callable[[int, int], Floats | None], earlier: int) -> Cuts:
    """find: the vector of a cut, from a halo of some size at most; it belongs to the stretch after the cut, or to the
    earlier one."""
    stretches = batch.layout.stretches
    inner, cuts = stretches.inner, stretches.cuts
    if not inner.size:
        return Cuts(stretches, np.empty((0, batch.width)))
    lengths = np.minimum(np.diff(cuts)[inner - 1], np.diff(cuts)[inner])
    most = (lengths // (_SHARE * batch.n_labels)).clip(_FIRST_HALO, _LAST_HALO)
    found = run(find, list(zip(cuts[inner].tolist(), most.tolist(), strict=True)))
    vectors = np.zeros((cuts.size - 1, batch.width))
    for k, vector in zip(inner - earlier, found, strict=True):
        if vector is not None:
            vectors[k] = vector
    dropped = inner[[vector is None for vector in found]]
    return Cuts(stretches.without(dropped), np.delete(vectors, dropped - earlier, axis=0))


def _past(batch: CpuBatch, position: int, most: int) -> Floats | None:
    """The forward vector of the position before `position`, or None if it depends on what is before the halo."""
    p, size = batch.transitions, _FIRST_HALO
    while size <= most:
        low = position - size
        first, alpha = batch.states(low - 1, low)[0], batch.states(low, position)
        if not np.isfinite(first.max()):
            return None
        # where a label that matters underflows here, the stretch of this position is UNSAFE, and its sequence general
        begun, predicted = Belief(np.exp(first - first.max())), np.empty_like(alpha)
        starts = np.zeros(size, np.bool_)
        status, _ = forward(starts, alpha, predicted, p.edge, p.shift, begun.values, p.n_labels, p.watch, p.tiles)
        if status != OK:
            return None
        if Certificate.of_past(begun, TOLERANCE).extend(_lattice(batch, alpha, predicted, begun)):
            return Belief(alpha[-1]).normalised()[0].values
        size *= 2
    return None


def _future(batch: CpuBatch, alpha: Floats, position: int, most: int) -> Floats | None:
    """The posterior of the position before `position`, or None if it depends on what is after the halo."""
    p, certificate = batch.transitions, Certificate(batch.width, TOLERANCE)
    low, size = position, _FIRST_HALO
    while size <= most and not np.isnan(alpha[position, 0]):
        here, before = alpha[low : position + size], Belief(alpha[low - 1])
        predicted = np.empty_like(here)
        predict(np.zeros(len(here), np.bool_), here, p.edge, before.values, p.n_labels, p.tiles, predicted)
        if certificate.extend(_lattice(batch, here, predicted, before)):
            return certificate.gamma
        low, size = position + size, 2 * size
    return None


def _lattice(batch: CpuBatch, alpha: Floats, predicted: Floats, entry: Belief) -> Lattice:
    size = len(alpha)
    starts, labels = np.zeros(size, np.bool_), np.zeros(size, np.int32)
    return lattice_of(starts, labels, alpha, predicted, batch.transitions.edge, entry)
