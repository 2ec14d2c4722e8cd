"""Rounding: chains on which digits are easily lost, against 50 decimal digits, and what `Report` promises of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from chainfold import (
    Chain,
    ChainfoldError,
    Layout,
    Model,
    PiecewiseGradient,
    SyntheticChain,
    log_likelihood,
    log_probabilities,
    marginals,
    tag,
)
from chainfold.chain.chain import gather
from chainfold.engines.registry import ENGINES, PUBLISHED
from extended import Exact, exact
from tolerances import IN_PORTIONS, OWN_SIZE, ROUNDING

PRODUCTION = [name for name in ENGINES if name not in PUBLISHED]
INF = np.inf
Case = tuple[Model, Chain]


def case(ids: Any, state: Any, transition: Any, **options: Any) -> Case:
    """One attribute a position; state: [V, N] and transition: [N, N] weights."""
    state, transition = np.array(state, float), np.array(transition, float)
    chain = Chain.from_arrays(
        offsets=np.arange(len(ids) + 1), ids=ids, n_labels=len(transition), n_attributes=len(state), **options
    )
    return Model(Layout.full(*state.T.shape), np.concatenate([state.ravel(), transition.ravel()])), chain


def late_veto(positions: int, loss: float) -> Case:
    """Label 0 leads by more and more, and is impossible in the end: what counts is what was behind by e^-loss."""
    ids = np.zeros(positions, int)
    ids[-1] = 1
    lead = loss / positions
    state = [[lead, 0.0, 0.013], [-INF, 0.0, 0.3]]
    return case(ids, state, [[0.0, -INF, -INF], [-INF, 0.2, -0.3], [-INF, -0.5, 0.1]])


def bridges(positions: int, price: float) -> Case:
    """Two pairs of labels; the way from one to the other has a price that evidence pays now and then."""
    random = np.random.default_rng(3)
    state = random.normal(0.0, 1.0, (6, 4))
    state[5] = [-0.4 * price, -0.4 * price, 0.4 * price, 0.4 * price]
    ids = np.where(random.random(positions) < 0.01, 5, random.integers(0, 5, positions))
    return case(ids, state, np.kron([[0.0, -price], [-INF, 0.0]], np.ones((2, 2))) + random.normal(0.0, 1.0, (4, 4)))


def huge_weights(positions: int, size: float) -> Case:
    """Scores of ± size at every position, several of which are the best by a hair."""
    random = np.random.default_rng(4)
    state = np.round(random.uniform(-size, size, (8, 3)))
    state[:4, 1] = state[:4, 0] + 0.37
    moves = np.round(random.uniform(-size, size, (3, 3)))
    return case(random.integers(0, 8, positions), state, moves)


def periodic(positions: int, valued: bool) -> Case:
    """The same three positions again and again: every rounding goes the same way."""
    state, moves = np.random.default_rng(2).normal(size=(3, 2)), [[0.3, -0.8], [0.1, 0.5]]
    values = np.resize([0.1, 0.7, 1.3], positions) if valued else None
    return case(np.resize([0, 1, 2], positions), state, moves, values=values, labels=np.resize([0, 1, 1], positions))


def periodic_and_wide(positions: int) -> Case:
    """The same beside a label of its own that falls behind, beyond the range of a double."""
    state = np.append(np.random.default_rng(2).normal(size=(3, 2)), [[-1.0], [-2.0], [-3.0]], axis=1)
    moves = [[0.3, -0.8, -INF], [0.1, 0.5, -INF], [-INF, -INF, 0.0]]
    return case(np.resize([0, 1, 2], positions), state, moves)


def weighted(weights: Any) -> Case:
    """Sequences of 20 positions with these weights, each with an attribute that other sequences do not have."""
    random = np.random.default_rng(0)
    positions = 20 * len(weights)
    return case(
        np.arange(positions) // 20,
        random.normal(0.0, 0.7, (len(weights), 3)),
        random.normal(0.0, 0.7, (3, 3)),
        labels=random.integers(0, 3, positions),
        starts=np.arange(positions) % 20 == 0,
        weights=np.repeat(weights, 20),
    )


QUICK: dict[str, Callable[[], Case]] = {
    "late veto": lambda: late_veto(2_000, 1e5),
    "late veto, at once": lambda: late_veto(2, 1e5),
    "bridges": lambda: bridges(2_000, 200.0),
    "weights of 1e6": lambda: huge_weights(2_000, 1e6),
    "periodic": lambda: periodic(40_000, valued=False),
    "periodic, with values": lambda: periodic(40_000, valued=True),
    "periodic and wide": lambda: periodic_and_wide(20_000),
}
SLOW: dict[str, Callable[[], Case]] = {
    **{
        f"late veto after {positions}, {loss:g} nats": lambda positions=positions, loss=loss: late_veto(positions, loss)  # type: ignore[misc]
        for positions in (1, 2, 3, 10, 33, 100, 1_025, 5_000, 20_000)
        for loss in (1.0, 300.0, 800.0, 1e4, 1e5)
    },
    "late veto after 1,000,000, 1.1 nats a step": lambda: late_veto(1_000_000, 1.1e6),
    **{f"bridges of {price:g}": lambda price=price: bridges(20_000, price) for price in (5.0, 60.0, 400.0, 3_000.0)},  # type: ignore[misc]
    **{f"weights of {size:g}": lambda size=size: huge_weights(20_000, size) for size in (1e3, 1e6, 1e9)},  # type: ignore[misc]
    "periodic of 200,000": lambda: periodic(200_000, valued=False),
    "periodic of 200,000, with values": lambda: periodic(200_000, valued=True),
}
WEIGHTED: dict[str, Callable[[], Case]] = {
    "recency": lambda: weighted(1e12 ** (np.arange(100) / 100 - 1.0)),
    "a jump": lambda: weighted(np.where(np.arange(50) < 25, 1.0, 1e15)),
    "a fall": lambda: weighted(np.where(np.arange(50) < 25, 1e15, 1.0)),
    "up and down": lambda: weighted(10.0 ** np.random.default_rng(8).uniform(-8.0, 8.0, 50)),
}
CASES = {**QUICK, **SLOW, **WEIGHTED}
FAMILIES = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


@cache
def solved(name: str) -> tuple[Model, Chain, Exact]:
    model, chain = CASES[name]()
    return model, chain, exact(model, chain)


@pytest.mark.parametrize("engine", PRODUCTION)
@pytest.mark.parametrize("name", FAMILIES)
def test_no_digits_are_lost_and_the_promise_is_kept(name: str, engine: str) -> None:
    model, chain, truth = solved(name)
    for block in (None, 100) if chain.positions <= 20_000 else (None,):
        found = log_likelihood(model, chain, engine, block=block)
        worst = truth.errors(found).max()
        assert worst <= found.report.error_bound
        assert truth.log_z_error(found) <= found.report.log_z_error_bound
        assert worst <= ROUNDING, "the promise is for the worst case; this is what can be expected"
        assert truth.log_z_error(found) <= ROUNDING * max(1.0, abs(found.log_z))


@pytest.mark.parametrize("engine", PRODUCTION)
@pytest.mark.parametrize("name", ["periodic", "periodic, with values", "periodic and wide"])
def test_roundings_that_all_go_the_same_way_do_not_add_up(name: str, engine: str) -> None:
    """Sums of 40,000 equal terms, and posteriors that would drift away from one."""
    model, chain, truth = solved(name)
    for block in (None, 2048):
        assert truth.errors(log_likelihood(model, chain, engine, block=block)).max() <= IN_PORTIONS


@pytest.mark.parametrize("engine", PRODUCTION)
@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_of_any_spread_leave_each_component_right_by_its_own_size(name: str, engine: str) -> None:
    model, chain, truth = solved(name)
    assert truth.gradient is not None
    gradient = np.array([float(component) for component in truth.gradient])
    for block in (None, 37):
        found = log_likelihood(model, chain, engine, block=block)
        assert found.gradient is not None
        own = slice(model.layout.n_state)  # transitions are of all sequences
        assert (np.abs(found.gradient - gradient)[own] <= OWN_SIZE * np.abs(gradient)[own]).all()
        assert truth.errors(found).max() <= found.report.error_bound
        assert truth.log_likelihood is not None
        assert truth.log_likelihood_error(found) <= 1e-13 * abs(float(truth.log_likelihood))
        assert truth.log_z_error(found) <= found.report.log_z_error_bound


@pytest.mark.parametrize("engine", PRODUCTION)
def test_a_log_likelihood_is_never_positive(engine: str) -> None:
    """The labels are all but certain: the likelihood is zero to the last digit, and rounding may go either way."""
    for seed in range(20):
        random = np.random.default_rng(seed)
        ids, labels = np.arange(3_000) % 7, np.resize(random.integers(0, 2, 7), 3_000)
        state = np.where(np.arange(2) == labels[:7, None], random.uniform(40.0, 90.0, (7, 2)), 0.0)
        values = random.uniform(0.5, 1.5, 3_000)
        model, chain = case(ids, state, np.zeros((2, 2)), labels=labels, values=values)
        found = log_likelihood(model, chain, engine)
        assert found.log_likelihood is not None
        assert -1e-6 <= found.log_likelihood <= 0.0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n_labels", [2, 5])
def test_the_promise_holds_on_ordinary_chains(engine: str, n_labels: int) -> None:
    source = SyntheticChain(1_500, n_labels, 12, 3, seed=n_labels, mean_length=400)
    chain = gather(source)
    random = np.random.default_rng(1)
    layout = Layout.full(n_labels, 12)
    model = Model(layout, source.true_weights() + random.normal(0.0, 0.3, layout.size))
    truth, found = exact(model, chain), log_likelihood(model, chain, engine, block=100)
    assert truth.errors(found).max() <= found.report.error_bound <= 1e-3
    assert truth.log_z_error(found) <= found.report.log_z_error_bound <= 1e-3
    if engine in PRODUCTION:
        assert found.report.error_bound <= 1e-10


def test_what_the_promise_is_made_of() -> None:
    """Two labels, one attribute of weight one, no transitions to speak of: H = 1, as the chain forgets at once."""
    positions, unit = 10, 2.0**-53
    model, chain = case(np.zeros(positions, int), [[1.0, 0.0]], np.zeros((2, 2)))
    found = log_likelihood(model, chain, "fb")
    roundings = 2 + 8 + 2 + 5e-6
    spread = 2 * (2 * roundings + 2 + 5) * unit
    terms = 32 * (2 + 8) + positions + (positions + positions / 16384)
    assert found.report.error_bound == pytest.approx(spread + terms * unit, rel=1e-9, abs=0.0)
    assert found.report.log_z_error_bound == pytest.approx(
        (positions * (roundings + 2 * 2) + 4 * abs(found.log_z)) * unit, rel=1e-9, abs=0.0
    )
    strict = Model(model.layout, np.append(model.weights[:3], [-INF, 0.0, 0.0]))
    spread *= positions  # where a transition is forbidden, all of the sequence adds up
    assert log_likelihood(strict, chain, "fb").report.error_bound == pytest.approx(
        spread + terms * unit, rel=1e-9, abs=0.0
    )


def test_a_larger_tolerance_is_in_the_promise() -> None:
    source = SyntheticChain(20_000, 9, 12, 3, seed=3)
    model = Model(Layout.full(9, 12), source.true_weights())
    for engine, factor in (("stream", 1.0), ("parallel", 3.0), ("fb", 0.0)):
        bounds = [log_likelihood(model, source, engine, tolerance=tolerance).report for tolerance in (1e-12, 1e-5)]
        gained = bounds[1].error_bound - bounds[0].error_bound
        assert gained == pytest.approx(factor * 1e-5, rel=0.02)
        cuts = 3 if engine == "parallel" else 0  # 20,000 positions are four stretches
        assert bounds[1].log_z_error_bound - bounds[0].log_z_error_bound == pytest.approx(cuts * 1e-5, rel=0.01)


@pytest.mark.parametrize("size", [1e10, 1e12, 1e15, 1e16, 1e100])
@pytest.mark.parametrize("engine", PRODUCTION)
def test_scores_whose_units_are_rounded_leave_probabilities(engine: str, size: float) -> None:
    """Two labels that never change, for a reward that a double knows no better than to a unit: still each has half."""
    model, chain = case(np.zeros(6, int), [[0.0, 0.0]], [[size, 0.0], [0.0, size]])
    found = log_likelihood(model, chain, engine)
    assert found.expected[2] + found.expected[5] == pytest.approx(5.0, rel=1e-12)
    assert abs(found.expected[2] - 2.5) <= 2.5 * found.report.error_bound
    np.testing.assert_allclose(marginals(model, chain).sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("engine", PRODUCTION)
def test_scores_that_cancel_leave_log_z_within_its_bound(engine: str, size: float) -> None:
    """What one position adds the next one takes away; also with edge attributes, none of which is there."""
    ids = np.arange(1_000) % 2
    model, chain = case(ids, [[size, size - 0.5], [-size, 0.25 - size]], [[0.1234567, 0.2], [0.1234567, -0.1]])
    truth = exact(model, chain)
    layout = Layout.full(2, 2, 1)
    edges = Model(layout, np.append(model.weights, np.zeros(4)))
    nothing = {"edge_offsets": np.zeros(1_001, int), "edge_ids": [], "n_edge_attributes": 1}
    beside = Chain.from_arrays(offsets=chain.offsets, ids=ids, n_labels=2, n_attributes=2, **nothing)  # type: ignore[arg-type]
    for found in (
        log_likelihood(model, chain, engine),
        log_likelihood(edges, beside, engine),
        log_likelihood(model, chain, engine, block=1),
    ):
        assert truth.log_z_error(found) <= found.report.log_z_error_bound


def test_blocks_that_are_carried_are_in_the_promise() -> None:
    model, chain = case(np.arange(3_000) % 3, np.zeros((3, 2)), [[0.3, -0.8], [0.1, 0.5]])
    truth, found = exact(model, chain), log_likelihood(model, chain, "stream", block=2, lookahead=1)
    assert found.report.carried_blocks > 1_000
    assert truth.errors(found).max() <= found.report.error_bound
    few = log_likelihood(model, chain, "stream", block=300, lookahead=1, tolerance=1e-14)
    carried = found.report.carried_blocks - few.report.carried_blocks
    assert found.report.error_bound > few.report.error_bound + 3.0 * carried * 2.0**-53 - 300 * 2.0**-53


def test_a_piece_whose_scores_overflow_is_an_error_whatever_came_before() -> None:
    """Values far below one in the first piece say nothing of the second, in which all are one."""
    model = Model(Layout.full(2, 3), np.array([0.0, -1e308] * 3 + [0.0] * 4))
    small = Chain.from_arrays(offsets=np.arange(9), ids=np.zeros(8, int), values=np.full(8, 1e-10), n_labels=2)
    plain = Chain.from_arrays(offsets=3 * np.arange(13), ids=np.tile([0, 1, 2], 12), n_labels=2)
    gradient = PiecewiseGradient(model, block=4)
    gradient.add(small)
    with pytest.raises(ChainfoldError, match="is not a finite number"):
        gradient.add(plain)


def test_marginals_after_a_late_veto() -> None:
    """Tagging uses the same forward vectors; both labels that are left have the posterior of an even chain."""
    model, chain = late_veto(2_000, 1e5)
    reference = log_likelihood(model, chain, "fb", block=64)
    found = marginals(model, chain)
    assert found[:-1, 0].max() < 1e-300
    np.testing.assert_allclose(found[:-1].sum(axis=0), reference.expected[:3], rtol=1e-12, atol=1e-300)
    given = np.ones(2_000, int)
    score = 0.2 * 1_999
    truth = exact(model, chain)
    assert log_probabilities(model, chain, given)[0] == pytest.approx(score - float(truth.log_z), rel=1e-12)


# Overflow


def spoilt(values: Any, state: Any, transition: float = 0.0, positions: int = 4) -> Case:
    return case(
        np.zeros(positions, int),
        [state],
        [[0.0, transition], [0.0, transition]],
        values=np.resize(values, positions),
        labels=np.zeros(positions, int),
    )


OVERFLOWS: dict[str, Case] = {
    "a score beyond the range": spoilt([1.0, 1.0, 1e308, 1.0], [10.0, 0.0]),
    "a score that looks forbidden": spoilt([1.0, 1.0, 1e308, 1.0], [0.0, -10.0]),
    "a score that looks forbidden, beside labels that are": spoilt([1.0, 1.0, 1e308, 1.0], [-10.0, -INF]),
    "the sum of all scores": spoilt(1.0, [1.7e308, 0.0]),
    "transitions": spoilt(1.0, [0.0, 0.0], transition=1.7e308),
    "counts": spoilt([1e308], [0.0, 0.0]),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", OVERFLOWS)
def test_what_overflows_is_an_error_and_not_a_number_that_is_none(name: str, engine: str) -> None:
    model, chain = OVERFLOWS[name]
    with pytest.raises(ChainfoldError, match=r"position \d is not a finite number|too large"):
        log_likelihood(model, chain, engine)


@pytest.mark.parametrize("name", list(OVERFLOWS)[:3])
@pytest.mark.parametrize("labelled", [tag, marginals])
def test_scores_that_overflow_are_not_tagged(name: str, labelled: Callable[..., Any]) -> None:
    with pytest.raises(ChainfoldError, match="position 2 is not a finite number"):
        labelled(*OVERFLOWS[name])


@pytest.mark.parametrize("engine", PRODUCTION)
def test_large_scores_that_do_not_overflow_are_right(engine: str) -> None:
    """Values near the end of the range, beside a label that is forbidden and one that is merely improbable."""
    model, chain = case(
        np.zeros(4, int),
        [[1.0, -INF, -1.0]],
        np.zeros((3, 3)),
        values=[1e304, 1.0, 1e304, 1.0],
        labels=np.zeros(4, int),
    )
    found = log_likelihood(model, chain, engine)
    assert found.log_z == pytest.approx(2e304)
    assert found.expected[1] == 0.0
    assert found.expected[0] == pytest.approx(2e304)
