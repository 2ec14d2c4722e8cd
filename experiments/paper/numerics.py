"""Lengths at which plain sums and products leave the range of a double, and the log domain does not.

The paper calls forward-backward over the sum-product semiring, and the forward pass over the expectation semiring,
numerically unstable. Here both are run as they stand, without any scaling, beside four engines, on the first positions
of a chain; what is true is computed by forward-backward in decimal numbers of 50 digits whose exponents have no bounds.

Errors are relative: that of ln Z to |ln Z|, or to 1 where it is smaller, and that of the counts to each count that is
not zero, the largest being taken. An answer has left the range when Z is zero or subnormal (underflow), or when Z, a
component of ∇Z, or a backward vector is infinite (overflow).
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainfold.chain.any_chain import open_chain
from chainfold.chain.block import Source
from chainfold.chain.chain import Chain, gather
from chainfold.engines.log_likelihood import log_likelihood
from chainfold.model.file import open_model
from chainfold.model.layout import Floats
from chainfold.model.model import Model
from chainfold.reference import Expectation, SumProduct, features_of, forward, local_kernels
from experiments.ledger import Result, RunPiece
from experiments.paper.run_plan import MAIN, RunPlan

if TYPE_CHECKING:
    from experiments.paper.corpus import Corpus

DIGITS = 50
ENGINES = ("fb-log", "emp", "fb", "stream")
WEIGHTS = {  # what the chains are evaluated with
    "trained": "the trained model",
    "untrained": "weights of zero, as training begins: Z is the number of labellings",
    "balanced": "the trained model, {less:.6g} less for each transition: the same probabilities, Z = 1 at the end",
    "lowered": "the trained model, {less:.6g} less for each transition: the same probabilities, Z about e^-T",
}

_CONTEXT = decimal.Context(prec=DIGITS, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_LEAST_COUNT = Decimal("1e-300")
_NOISE = Decimal("1e-40")  # an error below it is the rounding of the truth
_FIRST_BATCH = 16  # lengths that are tried at once, in the search for the first that breaks


class Answer(NamedTuple):
    """Results of a method on a chain."""

    log_z: float
    counts: Floats  # [M]
    status: str  # ok, overflow, underflow, not a number


class ExactAnswer(NamedTuple):
    """Results in extended precision and range."""

    log_z: Decimal
    counts: list[Decimal]  # [M]


Method = Callable[[Floats, Floats, Sequence[int]], list[Answer]]  # from u, f and ascending lengths


def pieces(plan: RunPlan, corpus: Corpus) -> list[RunPiece]:
    """The chain with each of the `WEIGHTS`."""
    return [
        RunPiece(f"numerics/{name}", f"numbers out of range, {name}", partial(_run, plan, corpus, name))
        for name in WEIGHTS
    ]


def _run(plan: RunPlan, corpus: Corpus, name: str, done: Mapping[str, Result]) -> Result:
    chain = gather(open_chain(corpus.chain(MAIN, plan.numeric_length)), plan.numeric_length)
    model, title = _weighted(name, open_model(corpus.model(MAIN)), chain)
    return {"name": name, "title": title, **compare(model, chain)}


def _weighted(name: str, model: Model, chain: Chain) -> tuple[Model, str]:
    """The model that `WEIGHTS` describes, and its description."""
    transitions = int(np.count_nonzero(~chain.starts))
    less, weights = 0.0, model.weights.copy()
    if name == "untrained":
        weights[:] = 0.0
    elif name != "trained":
        less = log_likelihood(model, chain, observe=False).log_z / max(transitions, 1) + (name == "lowered")
        first = model.layout.n_state
        weights[first : first + model.layout.n_labels**2] -= less
    return replace(model, weights=weights), WEIGHTS[name].format(less=less)


def compare(model: Model, chain: Chain) -> Result:
    """Every method on the first positions of a chain, at some lengths; and the first length at which one breaks."""
    lengths = lengths_to(chain.positions)
    u, f = (np.stack(parts) for parts in zip(*kernels(model, chain), strict=True))
    truths = reference(model.weights, f, lengths)
    answers = {name: method(u, f, lengths) for name, method in PLAIN.items()}
    answers |= {engine: [_evaluated(model, gather(chain, length), engine) for length in lengths] for engine in ENGINES}
    return {
        "labels": model.layout.n_labels,
        "weights": model.layout.size,
        "lengths": lengths,
        "methods": {name: _errors(found, truths) for name, found in answers.items()},
        "breaks": {name: first_break(method, u, f) for name, method in PLAIN.items()},
    }


def lengths_to(longest: int) -> list[int]:
    """1, 2, 5, 10, … and the longest."""
    steps = (step * 10**power for power in range(len(str(longest))) for step in (1, 2, 5))
    return [length for length in steps if length < longest] + [longest]


def kernels(model: Model, source: Source) -> Iterator[tuple[Floats, Floats]]:
    """u_t [N, N] and f_t [N, N, M] of each position, for weights that are finite.

    A chain begins in one state: u_1 is -inf but from label 0.
    """
    n = model.layout.n_labels
    for t, (u, active) in enumerate(local_kernels(model.weights, features_of(model, source), n)):
        f = np.zeros((n, n, model.layout.size))
        np.add.at(f, (active["origin"], active["label"], active["m"]), active["f"])
        if t == 0:
            u[1:] = -np.inf
        yield u, f


# As they stand


def sum_product(u: Floats, f: Floats, lengths: Sequence[int]) -> list[Answer]:
    """Forward-backward over the sum-product semiring; the backward vectors of all lengths go back together."""
    semiring, ends = SumProduct(), np.asarray(lengths)
    with np.errstate(all="ignore"):
        psi = np.exp(u[: ends[-1]])
        alpha = forward(semiring, psi)
        beta = semiring.one((ends.size, u.shape[1]))
        gradient, largest = np.zeros((ends.size, f.shape[-1])), np.zeros(ends.size)
        for t in range(ends[-1], 0, -1):
            on = slice(int(np.searchsorted(ends, t)), None)  # the lengths that have a position t
            largest[on] = np.fmax(largest[on], np.fmax.reduce(beta[on], axis=1))
            v = semiring.times(semiring.times(alpha[t - 1, :, None], psi[t - 1]), beta[on, None, :])
            gradient[on] += np.tensordot(v, f[t - 1], 2)
            beta[on] = semiring.sum(semiring.times(psi[t - 1], beta[on, None, :]), axis=2)
        z = semiring.sum(alpha, axis=1)[ends]
        return [_plain(*one) for one in zip(z, gradient, largest, strict=True)]


def expectation(u: Floats, f: Floats, lengths: Sequence[int]) -> list[Answer]:
    """The forward pass over the expectation semiring of order M."""
    semiring, ends = Expectation(f.shape[-1]), np.asarray(lengths)
    with np.errstate(all="ignore"):
        alpha = forward(semiring, semiring.lift(np.exp(u[: ends[-1]]), f[: ends[-1]]))
        total = semiring.sum(alpha, axis=1)[ends]
        return [_plain(one[0], one[1:], 0.0) for one in total]


PLAIN: dict[str, Method] = {"sum-product FB": sum_product, "expectation semiring": expectation}


def _plain(z: float, gradient: Floats, largest: float) -> Answer:
    """From Z and ∇Z, and the largest number met on the way to them."""
    numbers = np.array([z, largest, *gradient])
    if z < np.finfo(np.float64).tiny:
        status = "underflow"
    elif np.isinf(numbers).any():
        status = "overflow"
    else:
        status = "ok" if np.isfinite(numbers).all() else "not a number"
    return Answer(float(np.log(z)), gradient / z, status)


def first_break(method: Method, u: Floats, f: Floats) -> Result | None:
    """The first length whose answer is out of range, and how it is."""
    suspects, tried, batch = _suspects(u, f), 0, _FIRST_BATCH
    while tried < len(suspects):
        lengths = suspects[tried : tried + batch]
        for length, answer in zip(lengths, method(u, f, lengths), strict=True):
            if answer.status != "ok":
                return {"length": length, "how": answer.status}
        tried, batch = tried + batch, 2 * batch
    return None


def _suspects(u: Floats, f: Floats) -> list[int]:
    """The lengths whose answer may be out of range, as β_t(i) ≤ Z / α_t(i) and |∇Z| ≤ Z Σ_t max |f_t| do not tell."""
    double = np.finfo(np.float64)
    with np.errstate(all="ignore"):
        alpha = forward(SumProduct(), np.exp(u))[1:]
        z, least = alpha.sum(axis=1), np.minimum.accumulate(alpha.min(axis=1))
        most = z * np.maximum(1.0 / least, np.cumsum(np.abs(f).max(axis=(1, 2, 3))))
        safe = (z >= double.tiny) & (least >= double.tiny) & (most < double.max / 2)
    return [int(place) + 1 for place in np.flatnonzero(~safe)]


def _evaluated(model: Model, chain: Chain, engine: str) -> Answer:
    found = log_likelihood(model, chain, engine, observe=False)
    finite = math.isfinite(found.log_z) and bool(np.isfinite(found.expected).all())
    return Answer(found.log_z, found.expected, "ok" if finite else "not a number")


# The truth


def reference(weights: Floats, f: Floats, lengths: Sequence[int]) -> list[ExactAnswer]:
    """Forward-backward over sums and products of decimal numbers, for each length."""
    n = f.shape[1]
    pairs = list(product(range(n), repeat=2))
    on: list[list[list[tuple[int, Decimal]]]] = [[[] for _ in pairs] for _ in f]  # features by position and pair
    for t, i, j, m in zip(*(axis.tolist() for axis in np.nonzero(f)), strict=True):
        on[t][i * n + j].append((m, Decimal(float(f[t, i, j, m]))))
    theta = [Decimal(weight) for weight in weights.tolist()]

    with decimal.localcontext(_CONTEXT):
        psi = [[sum((theta[m] * x for m, x in own), Decimal(0)).exp() for own in position] for position in on]
        alpha = [[Decimal(j == 0) for j in range(n)]]
        for row in psi:
            alpha.append([sum((alpha[-1][i] * row[i * n + j] for i in range(n)), Decimal(0)) for j in range(n)])

        def truth(length: int) -> ExactAnswer:
            beta, z, totals = [Decimal(1)] * n, sum(alpha[length], Decimal(0)), [Decimal(0)] * len(theta)
            for t in range(length - 1, -1, -1):
                row, before = psi[t], alpha[t]
                for (i, j), factor, own in zip(pairs, row, on[t], strict=True):
                    v = before[i] * factor * beta[j]
                    for m, x in own:
                        totals[m] += v * x
                beta = [sum((row[i * n + j] * beta[j] for j in range(n)), Decimal(0)) for i in range(n)]
            return ExactAnswer(z.ln(), [total / z for total in totals])

        return [truth(length) for length in lengths]


def _errors(answers: Sequence[Answer], truths: Sequence[ExactAnswer]) -> Result:
    log_z, counts = [], []
    with decimal.localcontext(_CONTEXT):
        for got, true in zip(answers, truths, strict=True):
            log_z.append(_relative([(got.log_z, true.log_z)], Decimal(1)))
            active_ones = [(x, y) for x, y in zip(got.counts.tolist(), true.counts, strict=True) if y]
            counts.append(_relative(active_ones, _LEAST_COUNT))
    return {"log_z_error": log_z, "count_error": counts, "status": [got.status for got in answers]}


def _relative(pairs: Sequence[tuple[float, Decimal]], least: Decimal) -> float | None:
    """The largest error of numbers beside the true ones; None where a number is not finite."""
    if not all(math.isfinite(x) for x, _ in pairs):
        return None
    worst = max((abs(Decimal(x) - y) / max(abs(y), least) for x, y in pairs), default=Decimal(0))
    return float(worst) if worst > _NOISE else 0.0
