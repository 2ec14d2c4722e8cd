"""Weights of sequences, and labels that may not start or end a sequence: the production engines against enumeration."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import shapes
from chainfold import Chain, ChainfoldError, Layout, Model, log_likelihood
from chainfold.chain.block import frozen
from chainfold.engines.observed import count_observed
from chainfold.engines.registry import ENGINES, PUBLISHED
from chainfold.errors import BadChain
from chainfold.features.encode import chain_from_sequences
from chainfold.training.objective import WeightSpace
from oracle import enumerate_paths, enumerate_sequences
from tolerances import AT_LENGTH, FLOOR, ORACLE

PRODUCTION = [name for name in ENGINES if name not in PUBLISHED]
WEIGHTS: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "at random": lambda random, size: random.uniform(0.0, 3.0, size),
    "some zero": lambda random, size: random.integers(0, 2, size).astype(float),
    "all zero": lambda random, size: np.zeros(size),
    "far apart": lambda random, size: 10.0 ** random.uniform(-8.0, 8.0, size),
}
CASES = [
    name for name, make in shapes.CASES.items() if make(shapes.generator(name))[1].labelled and "reversal" not in name
]


def weighted(chain: Chain, kind: str, random: np.random.Generator) -> Chain:
    """The chain with a weight for each sequence."""
    number = np.cumsum(chain.starts) - 1
    return replace(chain, weights=frozen(WEIGHTS[kind](random, number[-1] + 1)[number], np.float64))


def solved(name: str) -> tuple[Model, Chain, np.random.Generator]:
    random = shapes.generator(name)
    return *shapes.CASES[name](random), random


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("case", CASES)
def test_weighted_sums_equal_enumeration(case: str, kind: str) -> None:
    model, chain, random = solved(case)
    chain = weighted(chain, kind, random)
    truth = enumerate_sequences(model, chain)
    for engine in PRODUCTION:
        for block, lookahead in ((1, 1), (3, None), (None, None)):
            found = log_likelihood(model, chain, engine, block=block, lookahead=lookahead)
            truth.check(found.log_z, found.log_likelihood, found.expected)
            assert found.gradient is not None
            error = np.abs(found.gradient - (truth.observed - truth.expected))
            assert (error <= ORACLE * (truth.magnitude + np.abs(truth.observed)) + FLOOR).all(), engine


def long_chain(weights: NDArray[np.float64] | None, n_labels: int, stay: float = 0.0) -> tuple[Model, Chain]:
    """Sixty thousand positions in sequences short and long."""
    random = np.random.default_rng(5)
    positions = 60_000
    starts = random.random(positions) < np.where(np.arange(positions) < 30_000, 0.05, 0.0005)
    starts[0] = True
    number = np.cumsum(starts) - 1
    chain = Chain.from_arrays(
        offsets=np.arange(positions + 1),
        ids=random.integers(0, 6, positions),
        values=random.choice([-1.0, 1.0], positions),
        labels=random.integers(0, n_labels, positions),
        starts=starts,
        weights=None if weights is None else np.resize(weights, number[-1] + 1)[number],
        n_labels=n_labels,
        n_attributes=6,
    )
    state = random.normal(0.0, 0.3, 6 * n_labels)
    return Model(Layout.full(n_labels, 6), np.append(state, stay * np.eye(n_labels))), chain


LONG_WEIGHTS = np.array([2.0, 0.0, 0.5, 1.0, 1.0, 0.0, 1e-3])


@pytest.mark.parametrize("stay", [1.0, 60.0], ids=["forgets", "does not"])
@pytest.mark.parametrize("n_labels", [2, 4, 9, 70])
def test_weights_are_factors_at_length(n_labels: int, stay: float) -> None:
    """The sum over weights of each weight times the evaluation of its sequences alone."""
    model, chain = long_chain(LONG_WEIGHTS, n_labels, stay)
    expected, log_z, likelihood = np.zeros(model.layout.size), 0.0, 0.0
    for weight in (2.0, 0.5, 1.0, 1e-3):
        mine = np.flatnonzero(chain.weights == weight)
        alone = Chain.from_arrays(
            offsets=np.arange(mine.size + 1),
            ids=chain.ids[mine],
            values=chain.values[mine],
            labels=chain.labels[mine],
            starts=chain.starts[mine],
            n_labels=n_labels,
            n_attributes=6,
        )
        found = log_likelihood(model, alone, "fb")
        assert found.log_likelihood is not None
        expected += weight * found.expected
        log_z += weight * found.log_z
        likelihood += weight * found.log_likelihood
    for engine, options in ENGINES_AT_LENGTH:
        found = log_likelihood(model, chain, engine, **options)
        assert found.log_z == pytest.approx(log_z, rel=AT_LENGTH)
        assert found.log_likelihood == pytest.approx(likelihood, rel=AT_LENGTH)
        np.testing.assert_allclose(found.expected, expected, rtol=AT_LENGTH, atol=AT_LENGTH * expected.max())
        if options.get("lookahead"):
            assert (found.report.carried_blocks > 0) == (stay > 1.0)


ENGINES_AT_LENGTH: list[tuple[str, dict[str, Any]]] = [
    ("fb", {}),
    ("stream", {}),
    ("stream", {"block": 200, "lookahead": 400}),
    ("parallel", {"threads": 2}),
    ("checkpoint", {}),
]


def test_weights_count_without_labels_too() -> None:
    model, chain = long_chain(np.full(1, 2.0), 3)
    unknown = replace(chain, labels=frozen(np.full(chain.positions, -1), np.int32))
    found, known = log_likelihood(model, unknown), log_likelihood(model, chain, observe=False)
    assert found.log_likelihood is known.log_likelihood is None
    assert found.log_z == known.log_z
    assert (found.expected == known.expected).all()


def test_observed_counts_are_weighted() -> None:
    model, chain, random = solved("edge attributes, start marks")
    chain = weighted(chain, "at random", random)
    found = log_likelihood(model, chain, block=2)
    assert found.gradient is not None
    np.testing.assert_allclose(count_observed(model, chain), found.gradient + found.expected, rtol=1e-12, atol=1e-13)
    assert log_likelihood(model, chain, observe=False).gradient is None


def test_a_sequence_of_weight_zero_is_not_in_the_layout() -> None:
    """Neither its pairs of attribute and label nor its transitions, whether its names are known or not."""
    x, y = [[["a"], ["b"]], [["a"], ["b"]]], [["S", "S"], ["T", "T"]]
    named = chain_from_sequences(x, y, weights=[1.0, 0.0])
    for chain in (named, replace(named, vocabulary=None)):
        space = WeightSpace.of(chain, all_possible_transitions=False)
        assert space.layout.n_state == 2
        assert (~space.held).nonzero()[0].tolist() == [0, 1, 2]  # a with S, b with S, S after S
    ones = chain_from_sequences(x, y, weights=[1.0, 1.0])
    for found, expected in zip(
        dataclasses.astuple(Layout.observed(ones)),
        dataclasses.astuple(Layout.observed(chain_from_sequences(x, y))),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)


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


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ([1.0], "there are 2 positions, but 1 weights; give one for each position."),
        ([1.0, -1.0], "position 1 has weight -1.0; weights are from 0 to 1e+100."),
        ([np.nan, 1.0], "position 0 has weight nan; weights are from 0 to 1e+100."),
        ([1.0, 1.7e308], "position 1 has weight 1.7e+308; weights are from 0 to 1e+100."),
        ([[1.0, 1.0]], "the weights have 2 dimensions; give one row of numbers."),
        (
            [1.0, 2.0],
            "position 1 has weight 2.0, but the position before it in its sequence has 1.0; give all positions of a "
            "sequence one weight.",
        ),
    ],
)
def test_weights_that_cannot_be(weights: Any, problem: str) -> None:
    given: dict[str, Any] = {"offsets": [0, 0, 0], "ids": [], "labels": [0, 1], "n_labels": 2, "n_attributes": 1}
    with pytest.raises(BadChain, match=re.escape(problem)):
        Chain.from_arrays(**given, weights=weights)


def test_a_source_whose_weights_change_within_a_sequence_is_refused() -> None:
    model, chain, _ = solved("3 labels")
    chain = replace(chain, weights=frozen(np.arange(chain.positions), np.float64))
    for engine in PRODUCTION:
        with pytest.raises(BadChain, match="give all positions of a sequence one weight"):
            log_likelihood(model, chain, engine)


def test_the_largest_weight() -> None:
    model, chain, _ = solved("3 labels")
    found, plain = (
        log_likelihood(model, replace(chain, weights=frozen(np.full(chain.positions, weight), np.float64)))
        for weight in (1e100, 1.0)
    )
    np.testing.assert_allclose(found.expected, 1e100 * plain.expected, rtol=1e-12)
    with pytest.raises(BadChain, match=r"the weight of sequence 0 is 1e\+101; give a number from 0 to"):
        chain_from_sequences([[["a"]]], [["x"]], weights=[1e101])
