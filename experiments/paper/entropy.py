"""The entropy of a label sequence: exactly, in three ways, and by sampling.

    H(Y|x) = -Σ_y p(y|x) ln p(y|x) = ln Z - Σ_m θ_m E[f_m]

The log-domain expectation semiring with M = 1 gives it in one forward pass; so do the counts of `emp`, and the tagger's
own recursion. Without them one would draw labellings and average -ln p, whose standard error falls with the square
root of their number only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from chainfold.chain.any_chain import open_chain
from chainfold.chain.chain import Chain, gather
from chainfold.engines.log_likelihood import log_likelihood
from chainfold.inference.whole_chain import entropies, log_probabilities, sample
from chainfold.model.file import open_model
from chainfold.model.model import Model
from chainfold.reference import entropy
from experiments.ledger import Result, RunPiece
from experiments.paper.numerics import kernels
from experiments.paper.run_plan import MAIN, RunPlan

if TYPE_CHECKING:
    from experiments.paper.corpus import Corpus

_LEAST = 1.0  # nats: a labelling that is surer than that leaves nothing to estimate
_TEMPER = 0.3  # of the weights, where it is
_DRAWN = 1 << 20  # labels that are drawn at once
_WARM = 10  # positions, and samples, with which everything is run before it is timed

Found = TypeVar("Found")


def pieces(plan: RunPlan, corpus: Corpus) -> list[RunPiece]:
    return [RunPiece("entropy", "the entropy of the labels", partial(_run, plan, corpus))]


def _run(plan: RunPlan, corpus: Corpus, done: Mapping[str, Result]) -> Result:
    chain = gather(open_chain(corpus.chain(MAIN, plan.entropy_positions)), plan.entropy_positions)
    return compare(open_model(corpus.model(MAIN)), chain, plan.samples)


def compare(model: Model, chain: Chain, samples: int) -> Result:
    """Each way on one chain."""
    title = "the trained model"
    if by_tagging(model, chain) < _LEAST:
        model = replace(model, weights=_TEMPER * model.weights)
        title += f", its weights times {_TEMPER}: as it is, its labels hold less than {_LEAST:g} nat in all"
    by_sampling(model, gather(chain, _WARM), _WARM)
    exact, seconds = {}, {}
    for name, way in EXACT.items():
        way(model, gather(chain, _WARM))
        exact[name], seconds[name] = _timed(partial(way, model, chain))
    (sizes, estimates, errors), seconds["sampling"] = _timed(partial(by_sampling, model, chain, samples))
    return {
        "title": title,
        "positions": chain.positions,
        "exact": exact,
        "samples": sizes,
        "estimates": estimates,
        "errors": errors,
        "seconds": seconds,
    }


def _timed(work: Callable[[], Found]) -> tuple[Found, float]:
    """Result and seconds of some work."""
    begun = time.perf_counter()
    return work(), time.perf_counter() - begun


def by_semiring(model: Model, chain: Chain) -> float:
    """One pass over the log-domain expectation semiring."""
    return entropy(u for u, _ in kernels(model, chain))


def by_counts(model: Model, chain: Chain) -> float:
    """ln Z less the expected score, both from `emp`."""
    found = log_likelihood(model, chain, "emp", observe=False)
    return found.log_z - math.fsum(found.expected * model.weights)


def by_tagging(model: Model, chain: Chain) -> float:
    """The sum over the sequences of the chain."""
    return math.fsum(entropies(model, chain))


EXACT = {"entropy semiring": by_semiring, "emp": by_counts, "chainfold.entropies": by_tagging}


def by_sampling(model: Model, chain: Chain, samples: int) -> tuple[list[int], list[float], list[float]]:
    """Numbers of labellings, and the means of -ln p over the first so many with their standard errors."""
    surprises = np.fromiter(_surprises(model, chain, samples), np.float64, samples)
    sizes = sizes_to(samples)
    means = [float(surprises[:size].mean()) for size in sizes]
    errors = [float(surprises[:size].std(ddof=1)) / math.sqrt(size) for size in sizes]
    return sizes, means, errors


def _surprises(model: Model, chain: Chain, samples: int) -> Iterator[float]:
    """-ln p of labellings drawn from their distribution, a few at a time."""
    at_once = max(_DRAWN // chain.positions, 1)
    for seed, low in enumerate(range(0, samples, at_once)):
        for labels in sample(model, chain, min(at_once, samples - low), seed):
            yield -math.fsum(log_probabilities(model, chain, labels))


def sizes_to(samples: int) -> list[int]:
    """10, 30, 100, … and the last."""
    steps = ((1 + 2 * (k % 2)) * 10 ** (1 + k // 2) for k in range(2 * len(str(samples))))
    return [size for size in steps if size < samples] + [samples]
