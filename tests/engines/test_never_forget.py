"""Chains that never forget: `stream` carries, `parallel` works in order, and the answer is still exact."""

from __future__ import annotations

import numpy as np
import pytest

from chainfold import Chain, Evaluation, Layout, Model, log_likelihood
from chainfold.engines.registry import ENGINES
from tolerances import AT_LENGTH, FLOOR

_INF = np.inf
CYCLE = [[-_INF, 0.0, -_INF], [-_INF, -_INF, 0.0], [0.0, -_INF, -_INF]]
IDENTITY = [[0.0, -_INF], [-_INF, 0.0]]
NEARLY_IDENTITY = [[0.0, -60.0], [-60.0, 0.0]]
BLOCK_DIAGONAL = [
    [0.0, 1.0, -_INF, -_INF],
    [0.5, 0.0, -_INF, -_INF],
    [-_INF, -_INF, 1.0, 0.0],
    [-_INF, -_INF, 0.0, 0.5],
]


def problem(
    table: list[list[float]], scale: float, positions: int = 20_000, starts: bool = False
) -> tuple[Model, Chain]:
    """Given transitions, state scores of the given scale that favour no label in the long run."""
    n = len(table)
    random = np.random.default_rng(n)
    chain = Chain.from_arrays(
        offsets=np.arange(positions + 1),
        ids=random.integers(0, 6, positions),
        values=random.choice([-1.0, 1.0], positions),
        starts=random.random(positions) < 0.0005 if starts else None,
        n_labels=n,
        n_attributes=6,
    )
    layout = Layout.full(n, 6)
    return Model(layout, np.concatenate([random.normal(0.0, scale, 6 * n), np.ravel(table)])), chain


def check(found: Evaluation, reference: Evaluation) -> None:
    assert abs(found.log_z - reference.log_z) <= AT_LENGTH * max(1.0, abs(reference.log_z))
    size = np.abs(reference.expected).max()
    assert (np.abs(found.expected - reference.expected) <= AT_LENGTH * size + FLOOR).all()


UNFORGETTING = {
    "a deterministic cycle": (CYCLE, 0.05),
    "identity, flat": (IDENTITY, 0.0),
    "identity": (IDENTITY, 0.05),
    "nearly identity, flat": (NEARLY_IDENTITY, 0.0),
    "block-diagonal": (BLOCK_DIAGONAL, 0.05),
    "identity of five": (np.where(np.eye(5) > 0.0, 0.0, -_INF).tolist(), 0.05),
}


@pytest.mark.parametrize("starts", [False, True], ids=["one sequence", "several"])
@pytest.mark.parametrize("name", UNFORGETTING)
def test_stream_carries_and_is_exact(name: str, starts: bool) -> None:
    model, chain = problem(*UNFORGETTING[name], starts=starts)
    reference = log_likelihood(model, chain, "fb")
    found = log_likelihood(model, chain, "stream", block=500, lookahead=1000)
    assert found.report.carried_blocks > 0
    assert found.report.passes == 1.0
    check(found, reference)


@pytest.mark.parametrize("name", UNFORGETTING)
def test_parallel_works_in_order_and_is_exact(name: str) -> None:
    model, chain = problem(*UNFORGETTING[name], positions=100_000)
    found = log_likelihood(model, chain, "parallel", threads=2, block=6000)
    assert found.report.in_order > 0
    check(found, log_likelihood(model, chain, "fb"))


def test_parallel_cuts_at_start_marks_even_so() -> None:
    model, chain = problem(IDENTITY, 0.05, positions=100_000, starts=True)
    found = log_likelihood(model, chain, "parallel", threads=2, block=6000)
    assert found.report.in_order < 15, "at least one of fifteen cuts has a start mark near it"
    check(found, log_likelihood(model, chain, "fb"))


def test_a_tolerance_that_cannot_be_met_in_the_lookahead_makes_stream_carry() -> None:
    model, chain = problem([[0.0, -2.0], [-2.0, 0.0]], 0.1)
    reference = log_likelihood(model, chain, "fb")
    assert log_likelihood(model, chain, "stream", block=500).report.carried_blocks == 0
    found = log_likelihood(model, chain, "stream", block=10, lookahead=10, tolerance=1e-14)
    assert found.report.carried_blocks == chain.positions // 10 - 2, "all but the two that the end settles"
    check(found, reference)


def test_little_memory_makes_stream_carry_and_is_exact() -> None:
    model, chain = problem(NEARLY_IDENTITY, 0.5)
    found = log_likelihood(model, chain, "stream", memory=140_000)
    assert found.report.carried_blocks > 0
    check(found, log_likelihood(model, chain, "fb"))


def test_carrying_stops_when_the_chain_forgets() -> None:
    """A stretch that never forgets inside a chain that does: what was carried is collected at the first certificate."""
    model, chain = problem(NEARLY_IDENTITY, 0.0, positions=6000)
    strong = np.zeros(6000)
    strong[3000:] = np.where(np.random.default_rng(0).random(3000) < 0.5, 90.0, -90.0)
    base = model.weights.copy()
    base[:12] = 0.0
    base[0] = 1.0  # attribute 0 speaks for label 0
    chain = Chain.from_arrays(
        offsets=np.arange(6001), ids=np.zeros(6000, int), values=strong, n_labels=2, n_attributes=6
    )
    model = Model(model.layout, base)
    found = log_likelihood(model, chain, "stream", block=100, lookahead=200)
    assert 0 < found.report.carried_blocks < 40
    check(found, log_likelihood(model, chain, "fb"))


@pytest.mark.parametrize("forgetful", ["past", "future"])
def test_a_cut_with_one_forgetful_side_does_not_hold(forgetful: str) -> None:
    """Strong evidence on one side of the only cut, none on the other."""
    positions = 20_000
    strong = np.where(np.random.default_rng(0).random(positions) < 0.5, 90.0, -90.0)
    strong[slice(10_000, None) if forgetful == "past" else slice(10_000)] = 0.0
    chain = Chain.from_arrays(
        offsets=np.arange(positions + 1), ids=np.zeros(positions, int), values=strong, n_labels=2, n_attributes=1
    )
    model = Model(Layout.full(2, 1), np.concatenate([[1.0, 0.0], np.ravel(NEARLY_IDENTITY)]))
    found = log_likelihood(model, chain, "parallel", threads=2, block=10_000)
    assert found.report.in_order == 1
    check(found, log_likelihood(model, chain, "fb"))


@pytest.mark.parametrize("price", [-500.0, -743.0])
def test_a_past_that_looks_impossible_from_the_halo_alone(price: float) -> None:
    """History leaves only label 2 where the halo begins; from there the chain escapes to label 0, by a move of e^-500
    that the other labels never need. Seen from the halo alone, that past has a probability of 1e-217 and the labels 0
    and 1 are forgotten at once (at e^-743 it has but one digit left, in which numbers seem to agree); still it is what
    happened, and a halo that short must not do."""
    halo = 256  # that of few labels, at first
    positions, cut = 4 * halo, 2 * halo
    stay, escape = 0, 1
    edges = np.full(positions, stay)
    edges[[halo + 1, cut + 1]] = escape
    forced = np.arange(positions) < halo
    chain = Chain.from_arrays(
        offsets=np.concatenate([[0], np.cumsum(forced)]),
        ids=np.zeros(halo, int),
        edge_offsets=np.arange(positions + 1),
        edge_ids=edges,
        n_labels=3,
        n_attributes=1,
    )
    moves = np.full((2, 3, 3), -_INF)
    moves[stay] = np.where(np.eye(3) > 0, 0.0, -_INF)
    moves[escape, :2, :2] = 0.0
    moves[escape, 2, 0] = price
    if price < -700.0:
        moves[escape, 2, 1] = price + 0.001
    weights = np.concatenate([[-_INF, -_INF, 0.0], np.zeros(9), moves.ravel()])
    model = Model(Layout.full(3, 1, 2), weights)
    found = log_likelihood(model, chain, "parallel", block=cut)
    reference = log_likelihood(model, chain, "fb")
    stays = reference.expected[3 + 9 : 3 + 18].reshape(3, 3)
    assert stays[0, 0] + stays[1, 1] > cut - 8
    assert stays[2, 2] == pytest.approx(halo), "label 2, then never again"
    check(found, reference)


@pytest.mark.parametrize("block", [1, 37, 50, 300, None])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_label_may_fall_beyond_the_range_of_a_double_and_come_back(engine: str, block: int | None) -> None:
    """Two labels that never change: the first half speaks for one of them, a little at each position, the second half
    for the other. In the middle the loser has e^-600; in the end the two are even."""
    half = 600
    chain = Chain.from_arrays(
        offsets=np.arange(2 * half + 1),
        ids=np.zeros(2 * half, int),
        values=np.repeat([1.0, -1.0], half),
        n_labels=2,
        n_attributes=1,
    )
    model = Model(Layout.full(2, 1), np.concatenate([[0.5, -0.5], np.ravel(IDENTITY)]))
    found = log_likelihood(model, chain, engine, block=block, lookahead=100)
    assert found.log_z == pytest.approx(np.log(2.0), rel=1e-10)
    moves = (2 * half - 1) / 2
    np.testing.assert_allclose(found.expected[2:], [moves, 0.0, 0.0, moves], rtol=1e-10)
