"""Where long sequences are cut, so that threads can work on their stretches.

The places that are tried depend on the length and the number of labels alone. A cut holds on the way forward if a halo
before it has the same forward vector at its end for any past, and on the way back if a halo after it leaves one
posterior before the cut, for any future (`kernels.certificate`). A cut that does not hold is no cut: its two sides are
done in order. Each way asks for itself, and both give the numbers of the whole sequence, to within `TOLERANCE`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import lattice_of
from chainfold.engines.certificate import Certificate
from chainfold.kernels.faults import OK
from chainfold.kernels.forward import forward, predict
from chainfold.kernels.lattice import Lattice
from chainfold.model.layout import Floats
from chainfold.torch.cpu_batch import CpuBatch, Stretches
from chainfold.torch.cpu_threads import run

TOLERANCE = 1e-13

_FIRST_HALO, _LAST_HALO = 64, 4096  # positions


class Cuts(NamedTuple):
    """Stretches whose cuts hold."""

    stretches: Stretches
    vectors: Floats  # [K, width] forward vectors before them, or posteriors of their last positions; or no rows


def cut_forward(batch: CpuBatch) -> Cuts:
    """Stretches with the forward vectors before them."""
    stretches = batch.layout.stretches
    inner = stretches.inner
    if not inner.size:
        return Cuts(stretches, np.empty((0, batch.width)))
    found = run(_past, [(batch, int(stretches.cuts[k]), _most(batch, stretches, k)) for k in inner])
    vectors = np.zeros((stretches.cuts.size - 1, batch.width))
    for k, past in zip(inner, found, strict=True):
        if past is not None:
            vectors[k] = past
    dropped = inner[[past is None for past in found]]
    return Cuts(stretches.without(dropped), np.delete(vectors, dropped, axis=0))


def cut_backward(batch: CpuBatch, alpha: Floats) -> Cuts:
    """Stretches with the posteriors of their last positions; alpha: [P, width], the forward vectors."""
    stretches = batch.layout.stretches
    inner = stretches.inner
    if not inner.size:
        return Cuts(stretches, np.empty((0, batch.width)))
    found = run(_future, [(batch, alpha, int(stretches.cuts[k]), _most(batch, stretches, k)) for k in inner])
    vectors = np.zeros((stretches.cuts.size - 1, batch.width))
    for k, future in zip(inner, found, strict=True):
        if future is not None:
            vectors[k - 1] = future
    dropped = inner[[future is None for future in found]]
    return Cuts(stretches.without(dropped), np.delete(vectors, dropped - 1, axis=0))


def _most(batch: CpuBatch, stretches: Stretches, k: int) -> int:
    """Positions of a halo at most: it costs N³ a position and so may take a part of the time of its stretch."""
    length = int(stretches.cuts[k] - stretches.cuts[k - 1])
    return min(max(length // (4 * batch.n_labels), _FIRST_HALO), _LAST_HALO, length // 2)


def _past(batch: CpuBatch, position: int, most: int) -> Floats | None:
    """The forward vector of the position before `position`, or None if it depends on what is before the halo."""
    p, size = batch.transitions, _FIRST_HALO
    while size <= most:
        low = position - size
        first, alpha = batch.states(low - 1, low)[0], batch.states(low, position)
        if not np.isfinite(first.max()):
            return None
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
