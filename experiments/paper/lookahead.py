"""The lookahead with which a boundary is certified, and the certificate's bound beside the error really made.

A chain is gone over in small blocks, as `stream` does, and from each block's end the certificate is taken ahead until
it holds (`engines.certificate`). How many positions that took is one number of the distribution. The posterior that it
then gives for the boundary, before it has read the rest, is set against the true one, which forward-backward over the
whole chain gives.

Boundaries from which the chain does not go on as far as the certificate may look are left out, whatever comes of them:
otherwise the end of the chain would decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from chainfold.chain.any_chain import open_chain
from chainfold.chain.chain import Chain, gather
from chainfold.chain.synthetic import SyntheticChain
from chainfold.core import NEGLIGIBLE
from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import BlockPass
from chainfold.engines.certificate import Certificate
from chainfold.engines.log_likelihood import log_likelihood
from chainfold.engines.problem import Problem
from chainfold.engines.settings import DEFAULT_LOOKAHEAD, DEFAULT_TOLERANCE, Settings
from chainfold.engines.tally import Accumulator
from chainfold.engines.weight_scores import WeightSource
from chainfold.model.file import open_model
from chainfold.model.layout import Floats, Layout
from chainfold.model.model import Model
from experiments.ledger import Result, RunPiece
from experiments.paper.run_plan import SETTINGS, RunPlan

if TYPE_CHECKING:
    from experiments.paper.corpus import Corpus

TOLERANCE = DEFAULT_TOLERANCE  # of the lookaheads
TOLERANCES = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12)  # of the bounds
FURTHEST = DEFAULT_LOOKAHEAD  # positions that the certificate may look ahead
SLOW = "slow"

_WEIGHTS: dict[str, Callable[[Model], Model]] = {
    "trained": lambda model: model,
    "random": lambda model: Model.random(model.layout, seed=0, scale=0.5),
    "zero": lambda model: Model(model.layout, np.zeros(model.layout.size)),
}
_SPACING, _LEAST_SPACING = 50, 10  # positions from one boundary to the next
_BOUNDS = 300  # boundaries at which the bound is looked at
_BLOCK = 64  # positions in a block of the engine whose counts are compared
_LEAST_COUNT = 1e-6  # of the largest: counts below it are not compared

Case = Callable[[int], tuple[Model, Chain]]  # at most so many positions of a chain, with a model


def pieces(plan: RunPlan, corpus: Corpus) -> list[RunPiece]:
    """For each setting and kind of weights, and a chain that forgets slowly: the lookaheads, then the bounds."""
    cases: list[tuple[str, str, str, Case]] = [
        (setting, weights, SETTINGS[setting].title, partial(_stored, corpus, setting, max(lengths), weights))
        for setting, lengths in plan.lengths.items()
        for weights in _WEIGHTS
    ]
    cases.append((SLOW, "true", "a chain that forgets slowly", _slow))
    found = []
    for setting, weights, title, case in cases:
        said, name = f"{title}, {weights} weights", {"setting": setting, "weights": weights}
        looking = partial(_lookaheads, case, plan.boundaries, {**name, "title": title})
        bounding = partial(_bounds, case, min(plan.boundaries, _BOUNDS), name)
        found.append(RunPiece(f"certificate/lookahead/{setting}/{weights}", f"lookaheads: {said}", looking))
        found.append(RunPiece(f"certificate/bound/{setting}/{weights}", f"bound and error: {said}", bounding))
    return found


class Boundaries:
    """A chain gone over in small blocks. The ends of the first `count` of them are the boundaries."""

    def __init__(self, model: Model, chain: Chain, wanted: int, tolerance: float = TOLERANCE) -> None:
        self.furthest = min(FURTHEST, chain.positions // 2)
        room = chain.positions - self.furthest
        self.spacing = min(max(room // wanted, _LEAST_SPACING), _SPACING)
        self.count = min(room // self.spacing, wanted)
        self._problem = Problem(model, model.aligned(chain), Settings(tolerance=tolerance, block=self.spacing))
        source = WeightSource(self._problem)
        self._passes: list[BlockPass] = []
        belief: Belief | None = None
        for low, high in self._problem.blocks():
            block_pass = BlockPass(source)
            belief = block_pass.forward(low, self._problem.read(low, high), belief)
            self._passes.append(block_pass)

    def certificate(self, boundary: int) -> Certificate | None:
        """The certificate of a boundary, taken ahead until it holds; None if it does not as far as it may look."""
        certificate = Certificate(self._problem.model.layout.width, self._problem.settings.tolerance)
        for block_pass in self._passes[boundary + 1 :]:
            if certificate.extend(block_pass.lattice()) or certificate.positions >= self.furthest:
                break
        return certificate if certificate.certified and certificate.positions <= self.furthest else None

    def posteriors(self) -> Floats:
        """[count, N] of the boundaries, from the end of the chain: the truth."""
        layout = self._problem.model.layout
        counts = Accumulator(layout, self._problem.pool)  # not wanted here
        gamma = self._passes[-1].passed.exit.posterior()
        found = []
        for block_pass in reversed(self._passes[1:]):
            gamma = block_pass.backward(gamma, counts.slots, keep=True)
            found.append(gamma[: layout.n_labels])
        return np.array(found[::-1][: self.count]).reshape(-1, layout.n_labels)


def lookaheads(model: Model, chain: Chain, wanted: int) -> Result:
    """The distribution of the positions that it takes to certify a boundary."""
    boundaries = Boundaries(model, chain, wanted)
    certificates = [boundaries.certificate(k) for k in range(boundaries.count)]
    looked = np.array([certificate.positions for certificate in certificates if certificate is not None], int)
    lookahead, count = np.unique(looked, return_counts=True)
    return {
        "boundaries": boundaries.count,
        "lookahead": lookahead.tolist(),
        "count": count.tolist(),
        "mean": float(looked.mean()) if looked.size else None,
        "median": float(np.median(looked)) if looked.size else None,
        "max": int(looked.max()) if looked.size else None,
        "not_certified": boundaries.count - looked.size,
    }


def bounds(model: Model, chain: Chain, wanted: int) -> list[Result]:
    """For each tolerance, the errors really made at the boundaries that it certifies, and in the expected counts."""
    truth = Boundaries(model, chain, wanted).posteriors()
    exact = log_likelihood(model, chain, "fb", observe=False).expected
    return [_bound(model, chain, wanted, tolerance, truth, exact) for tolerance in TOLERANCES]


def _bound(model: Model, chain: Chain, wanted: int, tolerance: float, truth: Floats, exact: Floats) -> Result:
    boundaries = Boundaries(model, chain, wanted, tolerance)
    looked, errors = [], []
    for k in range(boundaries.count):
        certificate = boundaries.certificate(k)
        if certificate is not None:
            looked.append(certificate.positions)
            errors.append(_worst(certificate.gamma[: truth.shape[1]], truth[k], NEGLIGIBLE))
    counts = log_likelihood(model, chain, "stream", tolerance=tolerance, block=_BLOCK, observe=False).expected
    return {
        "tolerance": tolerance,
        "boundaries": len(errors),
        "lookahead_mean": float(np.mean(looked)) if errors else None,
        "worst_error": max(errors) if errors else None,
        "median_error": float(np.median(errors)) if errors else None,
        "count_error": _worst(counts, exact, _LEAST_COUNT * float(np.abs(exact).max())),
    }


def _worst(found: Floats, truth: Floats, least: float) -> float:
    """The worst relative error, of those numbers that are truly above the least."""
    compared = np.abs(truth) > least
    return float(np.max(np.abs(found[compared] / truth[compared] - 1.0), initial=0.0))


def _lookaheads(case: Case, wanted: int, name: Result, done: Mapping[str, Result]) -> Result:
    return {**name, **lookaheads(*case(_positions(wanted)), wanted)}


def _bounds(case: Case, wanted: int, name: Result, done: Mapping[str, Result]) -> Result:
    return {"bound": [{**name, **found} for found in bounds(*case(_positions(wanted)), wanted)]}


def _positions(wanted: int) -> int:
    """Positions that are enough for so many boundaries."""
    return wanted * _SPACING + FURTHEST


def _stored(corpus: Corpus, setting: str, longest: int, weights: str, positions: int) -> tuple[Model, Chain]:
    wanted = min(positions, longest)
    chain = gather(open_chain(corpus.chain(setting, wanted)), wanted)
    return _WEIGHTS[weights](open_model(corpus.model(setting))), chain


def _slow(positions: int) -> tuple[Model, Chain]:
    source = SyntheticChain(20_000, 5, 50, 3, sticky=0.99, informative=0.05, seed=1)
    return Model(Layout.full(5, 50), source.true_weights()), gather(source, positions)
