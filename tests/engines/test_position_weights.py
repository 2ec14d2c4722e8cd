"""Weights of positions, and labels that may not start or end a sequence: the production engines against enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import oracle
import shapes
from chainfold import Chain, ChainfoldError, Model, log_likelihood
from chainfold.engines.observed import count_observed
from chainfold.engines.registry import ENGINES, PUBLISHED
from chainfold.errors import BadChain
from chainfold.features.encode import chain_from_sequences
from oracle import Long, enumerate_paths, features, score
from tolerances import AT_LENGTH, DIFFERENCES, FLOOR, ORACLE

PRODUCTION = [name for name in ENGINES if name not in PUBLISHED]
WEIGHTS: dict[str, Callable[[np.random.Generator, Chain], NDArray[np.float64]]] = {
    "at random": lambda random, chain: random.uniform(0.0, 3.0, chain.positions),
    "rising": lambda random, chain: np.arange(chain.positions, dtype=float),
    "falling": lambda random, chain: np.arange(chain.positions, dtype=float)[::-1] + 0.5,
    "some zero": lambda random, chain: random.integers(0, 2, chain.positions).astype(float),
    "all zero": lambda random, chain: np.zeros(chain.positions),
    "by sequence": lambda random, chain: random.uniform(0.0, 3.0, chain.positions)[np.cumsum(chain.starts) - 1],
}
KINDS = list(WEIGHTS)
CASES = [
    name for name, make in shapes.CASES.items() if make(shapes.generator(name))[1].labelled and "reversal" not in name
]

PAIRS = [(case, kind) for k, case in enumerate(CASES) for kind in sorted({KINDS[0], KINDS[k % len(KINDS)]})]


def solved(name: str) -> tuple[Model, Chain, np.random.Generator]:
    random = shapes.generator(name)
    return *shapes.CASES[name](random), random


def weighted_truth(model: Model, chain: Chain) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Σ_t w_t log p(y_t | y_{t+1}, x up to t), its gradient and the size of the terms, by enumerating every prefix."""
    n, value = model.layout.n_labels, Long(0.0)
    gradient, magnitude = np.zeros(model.layout.size, Long), np.zeros(model.layout.size, Long)
    for t in range(chain.positions):
        begin = max(u for u in range(t + 1) if chain.starts[u])
        ends = t + 1 == chain.positions or bool(chain.starts[t + 1])
        terms, totals = [], []
        for path in itertools.product(range(n), repeat=t + 1 - begin):
            after = path if ends else (*path, int(chain.labels[t + 1]))
            steps = [(begin + k, after[k - 1] if k else None, after[k]) for k in range(len(after))]
            steps = steps if ends else [*steps[:-1], (t + 1, after[-2], after[-1])]
            if not all(oracle.possible(model, chain, u, label) for u, _, label in steps[: len(path)]):
                continue
            active = [features(chain, model.layout, u, previous, label) for u, previous, label in steps]
            if not ends:  # the state score of t+1 cancels; its edge does not
                active[-1] = [one for one in active[-1] if one[0] >= model.layout.n_state]
            terms.append((path, [one for several in active for one in several]))
            totals.append(score(terms[-1][1], model.weights))
        peak = max(totals)
        mass = np.exp(np.array(totals) - peak)
        chosen = [path[-1] == chain.labels[t] for path, _ in terms]
        weight = Long(chain.weights[t])
        if weight == 0.0:
            continue
        value += weight * (np.log(mass[chosen].sum()) - np.log(mass.sum()))
        for (_, found), m, mine in zip(terms, mass, chosen, strict=True):
            for index, x in found:
                share = weight * x * (m / mass[chosen].sum() if mine else 0)
                gradient[index] += share - weight * x * m / mass.sum()
                magnitude[index] += abs(share) + weight * abs(x) * m / mass.sum()
    return float(value), gradient.astype(float), magnitude.astype(float)


@pytest.mark.parametrize(
    ("case", "kind"),
    [(case, kind) for k, case in enumerate(CASES) for kind in sorted({KINDS[0], KINDS[k % len(KINDS)]})],
)
def test_weighted_likelihood_and_gradient_equal_enumeration(case: str, kind: str) -> None:
    model, chain, random = solved(case)
    chain = replace(chain, weights=WEIGHTS[kind](random, chain))
    value, gradient, magnitude = weighted_truth(model, chain)
    for engine in PRODUCTION:
        for block, lookahead in ((1, 1), (3, None), (None, None)):
            found = log_likelihood(model, chain, engine, block=block, lookahead=lookahead)
            assert found.log_likelihood is not None
            assert found.gradient is not None
            assert abs(found.log_likelihood - value) <= ORACLE * max(1.0, abs(value), abs(found.log_z)), engine
            error = np.abs(found.gradient - gradient)
            assert (error <= ORACLE * magnitude + FLOOR).all(), (engine, block, error.max())


@pytest.mark.parametrize("case", ["3 labels", "edge attributes", "sparse layout", "start marks in pairs"])
def test_gradient_is_the_derivative_of_the_weighted_likelihood(case: str) -> None:
    model, chain, random = solved(case)
    chain = replace(chain, weights=WEIGHTS["at random"](random, chain))
    found = log_likelihood(model, chain, block=2)
    assert found.gradient is not None
    for m in range(model.layout.size):
        step = np.zeros(model.layout.size)
        step[m] = 1e-5
        up = log_likelihood(Model(model.layout, model.weights + step), chain).log_likelihood
        down = log_likelihood(Model(model.layout, model.weights - step), chain).log_likelihood
        assert up is not None
        assert down is not None
        assert abs((up - down) / 2e-5 - found.gradient[m]) <= 100 * DIFFERENCES


def test_weights_of_one_change_nothing_and_whole_weights_are_copies() -> None:
    model, chain, _ = solved("start marks in pairs")
    plain = log_likelihood(model, chain)
    ones = log_likelihood(model, replace(chain, weights=np.ones(chain.positions)))
    twice = log_likelihood(model, replace(chain, weights=np.full(chain.positions, 2.0)))
    assert plain.gradient is not None
    assert plain.log_likelihood is not None
    for found, factor in ((ones, 1.0), (twice, 2.0)):
        assert found.gradient is not None
        assert found.log_likelihood == pytest.approx(factor * plain.log_likelihood, rel=1e-13)
        np.testing.assert_allclose(found.gradient, factor * plain.gradient, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("table", [[[0.0, 1.0], [0.5, 0.0]], [[0.0, -60.0], [-60.0, 0.0]]], ids=["forgets", "does not"])
def test_engines_agree_on_long_weighted_chains(table: list[list[float]]) -> None:
    random = np.random.default_rng(5)
    positions = 30_000
    chain = Chain.from_arrays(
        offsets=np.arange(positions + 1),
        ids=random.integers(0, 6, positions),
        values=random.choice([-1.0, 1.0], positions),
        labels=np.zeros(positions, int),
        starts=random.random(positions) < 0.0005,
        weights=random.uniform(0.0, 2.0, positions),
        n_labels=2,
        n_attributes=6,
    )
    source = shapes.model(random, chain, 0.3)
    model = Model(source.layout, np.concatenate([source.weights[:12], np.ravel(table)]))
    reference = log_likelihood(model, chain, "fb")
    assert reference.log_likelihood is not None
    for engine, options in (
        ("stream", {"block": 500, "lookahead": 1000}),
        ("parallel", {"threads": 2}),
        ("checkpoint", {}),
    ):
        found = log_likelihood(model, chain, engine, **options)  # type: ignore[arg-type]
        assert found.log_likelihood == pytest.approx(reference.log_likelihood, rel=AT_LENGTH)
        assert found.gradient is not None
        assert reference.gradient is not None
        scale = np.abs(reference.expected).max()
        assert np.abs(found.gradient - reference.gradient).max() <= 10 * AT_LENGTH * scale
        if table[0][1] < 0 and engine == "stream":
            assert found.report.carried_blocks > 0


def test_observed_counts_are_weighted() -> None:
    model, chain, random = solved("edge attributes, start marks")
    chain = replace(chain, weights=WEIGHTS["at random"](random, chain))
    found = log_likelihood(model, chain, block=2)
    assert found.gradient is not None
    np.testing.assert_allclose(count_observed(model, chain), found.gradient + found.expected, rtol=1e-12, atol=1e-13)
    assert log_likelihood(model, chain, observe=False).gradient is None


@pytest.mark.parametrize("engine", PRODUCTION)
@pytest.mark.parametrize("case", ["3 labels", "4 labels", "start marks in pairs", "edge attributes, start marks"])
def test_masks_equal_enumeration(case: str, engine: str) -> None:
    model, chain, _ = solved(case)
    first, last = np.ones(chain.n_labels, bool), np.ones(chain.n_labels, bool)
    first[0], last[-1] = False, False
    model = replace(model, first=first, last=last)
    chain = replace(chain, labels=np.where(chain.starts, chain.n_labels - 1, chain.labels).astype(np.int32))
    chain = replace(chain, labels=np.where(np.append(chain.starts[1:], True), 0, chain.labels).astype(np.int32))
    if (chain.starts & np.append(chain.starts[1:], True)).any():  # a sequence of one position may be neither
        first[:], last[:] = True, True
        first[-1] = False
        chain = replace(chain, labels=np.where(chain.starts, 0, chain.labels).astype(np.int32))
    truth = enumerate_paths(model, chain)
    for block in (1, 3, None):
        found = log_likelihood(model, chain, engine, block=block)
        truth.check(found.log_z, found.log_likelihood, found.expected)


@pytest.mark.parametrize("mask", ["first", "last"])
def test_an_observed_label_that_may_not_stand_there(mask: str) -> None:
    model, chain, _ = solved("3 labels")
    marks = np.arange(3) != chain.labels[0 if mask == "first" else -1]
    masked = replace(model, first=marks) if mask == "first" else replace(model, last=marks)
    where = 0 if mask == "first" else chain.positions - 1
    with pytest.raises(ChainfoldError, match=f"position {where} is forbidden"):
        log_likelihood(masked, chain)


@pytest.mark.parametrize("engine", [name for name in ENGINES if name not in PRODUCTION])
def test_the_published_algorithms_know_neither(engine: str) -> None:
    model, chain, _ = solved("3 labels")
    with pytest.raises(ChainfoldError, match="take another engine"):
        log_likelihood(replace(model, first=np.ones(3, bool)), chain, engine)
    with pytest.raises(ChainfoldError, match="take another engine"):
        log_likelihood(model, replace(chain, weights=np.ones(chain.positions)), engine)


def test_weights_must_be_numbers_that_are_not_negative() -> None:
    for weights, problem in (([1.0], "1 weights"), ([1.0, -1.0], "weight -1"), ([np.nan, 1.0], "weight nan")):
        with pytest.raises(ChainfoldError, match=problem):
            Chain.from_arrays(offsets=[0, 0, 0], ids=[], labels=[0, 0], weights=weights)


def test_weights_whose_sums_would_overflow_are_refused() -> None:
    given: dict[str, Any] = {"offsets": [0, 0, 0], "ids": [], "labels": [0, 1], "n_labels": 2, "n_attributes": 1}
    Chain.from_arrays(**given, weights=[1e100, 0.0])
    with pytest.raises(BadChain, match=r"position 1 has weight 1\.7e\+308; weights are from 0 to 1e\+100\."):
        Chain.from_arrays(**given, weights=[1.0, 1.7e308])
    with pytest.raises(BadChain, match="the weight of sequence 0 is 1e\\+101; give a number from 0 to"):
        chain_from_sequences([[["a"]]], [["x"]], weights=[1e101])
