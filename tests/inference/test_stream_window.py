"""A stream against the whole chain: labels, posteriors and sums, whatever the sizes of the pushes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import shapes
from chainfold import Chain, ChainfoldError, Layout, Model, SyntheticChain
from chainfold.chain.block import Block
from chainfold.chain.chain import gather
from chainfold.engines.log_likelihood import log_likelihood
from chainfold.inference.result import Tagged
from chainfold.inference.stream_window import StreamWindow
from chainfold.inference.tagger import Tagger, Want, blocks_of
from chainfold.inference.whole_chain import entropies, log_probabilities
from engines.test_never_forget import UNFORGETTING, problem
from tolerances import AT_LENGTH, FLOOR, ORACLE

pytestmark = pytest.mark.quick

Sizes = Callable[[np.random.Generator, int], int]
PUSHES: dict[str, Sizes] = {
    "one by one": lambda random, left: 1,
    "by threes": lambda random, left: 3,
    "at random": lambda random, left: int(random.integers(0, 5)),
    "all at once": lambda random, left: left,
}


def pushes(chain: Chain, sizes: Sizes, seed: int = 0) -> Iterator[Block]:
    random, low = np.random.default_rng(seed), 0
    while low < chain.positions:
        high = min(low + sizes(random, chain.positions - low), chain.positions)
        yield chain.block(low, high)
        low = high


def streamed(window: StreamWindow, blocks: Iterator[Block]) -> list[Tagged]:
    return [*map(window.push, blocks), window.end()]


def whole(found: list[Tagged], name: str) -> NDArray[Any]:
    return np.concatenate([getattr(one, name) for one in found])


def offline(model: Model, chain: Chain) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    found = list(Tagger(model).run(blocks_of(chain), Want(posteriors=True)))
    return np.concatenate([one.labels for one in found]), np.concatenate([one.posteriors for one in found])


def check(model: Model, chain: Chain, found: list[Tagged]) -> None:
    assert [one.low for one in found] == np.cumsum([0, *map(len, found)])[:-1].tolist()
    labels, posteriors = offline(model, chain)
    np.testing.assert_array_equal(whole(found, "labels"), labels)
    np.testing.assert_array_equal(whole(found, "starts"), chain.starts)
    np.testing.assert_array_equal(whole(found, "given"), chain.labels)
    np.testing.assert_allclose(whole(found, "posteriors"), posteriors, rtol=0, atol=ORACLE)
    assert whole(found, "proven").all()


def case(name: str, seed: int) -> shapes.Case:
    return shapes.CASES[name](np.random.default_rng([seed, zlib.crc32(name.encode())]))


def masked(model: Model, random: np.random.Generator) -> Model:
    """Some labels may not begin a sequence, some may not end one."""
    n = model.layout.n_labels
    first, last = random.random((2, n)) < 0.6
    first[0] = last[0] = True
    return replace(model, first=first, last=last)


@pytest.mark.parametrize("sizes", PUSHES)
@pytest.mark.parametrize("name", shapes.CASES)
def test_streams_equal_the_whole(name: str, sizes: str) -> None:
    for seed in range(3):
        model, chain = case(name, seed)
        window = StreamWindow(model, posteriors=True, quantities=True)
        check(model, chain, streamed(window, pushes(chain, PUSHES[sizes], seed)))
        check_sums(model, chain, window)


def check_sums(model: Model, chain: Chain, window: StreamWindow) -> None:
    found, truth = window.quantities(), log_likelihood(model, chain, "fb")
    n, scale = model.layout.n_labels, max(1.0, abs(truth.log_z))
    assert (found.positions, found.sequences) == (chain.positions, int(chain.starts.sum()))
    assert found.log_z == pytest.approx(truth.log_z, abs=ORACLE * scale)
    if chain.labelled:
        assert found.log_likelihood == pytest.approx(truth.log_likelihood, abs=ORACLE * scale)
    elif model.first is None:
        assert found.log_likelihood is None
    assert found.entropy == pytest.approx(float(entropies(model, chain).sum()), abs=ORACLE * scale)
    _, posteriors = offline(model, chain)
    np.testing.assert_allclose(found.labels, posteriors.sum(axis=0), rtol=0, atol=ORACLE)
    if not chain.n_edge_attributes:
        pairs = truth.expected[model.layout.n_state :].reshape(n, n)
        np.testing.assert_allclose(found.transitions, pairs, rtol=0, atol=ORACLE)


@pytest.mark.parametrize("name", ["start marks in pairs", "4 labels", "weights of 1000, start marks", "late reversal"])
def test_masks_hold_at_ends_that_are_known_late(name: str) -> None:
    for seed in range(5):
        model, chain = case(name, seed)
        model = masked(model, np.random.default_rng(seed))
        for sizes in PUSHES.values():
            window = StreamWindow(model, posteriors=True, quantities=True)
            check(model, chain, streamed(window, pushes(chain, sizes, seed)))
            found = window.quantities()
            assert found.log_likelihood == pytest.approx(float(log_probabilities(model, chain).sum()), abs=1e-6)
            assert found.log_z == pytest.approx(log_likelihood(model, chain, "fb", observe=False).log_z, rel=ORACLE)


def test_an_end_that_leaves_what_was_next_to_impossible() -> None:
    """Beside the label that may not end, the other one has a share that real numbers cannot hold."""
    chain = Chain.from_arrays(offsets=np.arange(5), ids=[0, 0, 0, 1], n_labels=2, n_attributes=2)
    weights = np.array([0.0, 0.0, 0.0, 800.0, *np.zeros(4)])
    model = Model(Layout.full(2, 2), weights, last=np.array([True, False]))
    for sizes in PUSHES.values():
        check(model, chain, streamed(StreamWindow(model, posteriors=True), pushes(chain, sizes)))


LONG: dict[str, dict[str, Any]] = {
    "sticky": {"sticky": 0.95},
    "many sequences": {"mean_length": 20},
    "uninformative": {"informative": 0.1, "sticky": 0.99},
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("size", [1, 7, 1000, 20_000])
def test_long_streams_equal_the_whole(name: str, size: int) -> None:
    positions = 2_000 if size == 1 else 20_000
    source = SyntheticChain(positions, 5, 100, 6, **LONG[name], seed=3)
    chain = gather(source)
    model = Model(Layout.full(5, 100), source.true_weights())
    window = StreamWindow(model, posteriors=True, quantities=True)
    check(model, chain, streamed(window, pushes(chain, lambda random, left: size)))
    truth, found = log_likelihood(model, chain, "fb"), window.quantities()
    assert found.log_z == pytest.approx(truth.log_z, rel=AT_LENGTH)
    assert found.log_likelihood == pytest.approx(truth.log_likelihood, rel=1e-9)
    assert found.entropy == pytest.approx(float(entropies(model, chain).sum()), rel=AT_LENGTH)
    pairs = truth.expected[model.layout.n_state :].reshape(5, 5)
    np.testing.assert_allclose(found.transitions, pairs, rtol=AT_LENGTH, atol=FLOOR)
    np.testing.assert_allclose(found.segments, found.labels - pairs.diagonal(), rtol=1e-9)


@pytest.mark.parametrize("name", UNFORGETTING)
def test_what_never_forgets_waits_for_the_end(name: str) -> None:
    model, chain = problem(*UNFORGETTING[name], positions=3_000)
    window = StreamWindow(model, posteriors=True)
    check(model, chain, streamed(window, pushes(chain, lambda random, left: 100)))


@pytest.mark.parametrize("limit", [{"max_lag": 0}, {"max_lag": 1}, {"max_lag": 40}, {"memory": 20_000}], ids=str)
@pytest.mark.parametrize("size", [1, 30])
@pytest.mark.parametrize("name", UNFORGETTING)
def test_the_wait_is_bounded_and_said_to_be(name: str, size: int, limit: dict[str, Any]) -> None:
    model, chain = problem(*UNFORGETTING[name], positions=1_000)
    window = StreamWindow(model, posteriors=True, **limit)
    found = []
    for block in pushes(chain, lambda random, left: size):
        found.append(window.push(block))
        assert window.waiting <= limit.get("max_lag", 1_000)
        assert window.waiting <= limit.get("memory", 1_000_000) / (2 * 3 * 8)
    found.append(window.end())
    proven, labels = whole(found, "proven"), whole(found, "labels")
    assert window.unproven == np.count_nonzero(~proven) > 0
    assert window.limit == ("memory" if "memory" in limit else "lag")
    assert labels.size == chain.positions
    truth, posteriors = offline(model, chain)
    np.testing.assert_array_equal(labels[proven], truth[proven])
    np.testing.assert_allclose(whole(found, "posteriors")[proven], posteriors[proven], rtol=0, atol=ORACLE)
    np.testing.assert_allclose(whole(found, "posteriors").sum(axis=1), 1.0, rtol=0, atol=ORACLE)
    if size == 1:
        assert whole(found, "lag").max() <= limit.get("max_lag", 1_000)


def test_what_is_forced_is_what_the_rows_so_far_say() -> None:
    model, chain = problem(*UNFORGETTING["identity"], positions=200)
    lag = 8  # one row in eight goes before its time
    found = streamed(StreamWindow(model, posteriors=True, max_lag=lag), pushes(chain, lambda random, left: 1))
    labels, posteriors, lags = (whole(found, name) for name in ("labels", "posteriors", "lag"))
    for t in np.flatnonzero(~whole(found, "proven"))[::17]:
        known = gather(chain, positions=int(t + lags[t] + 1))
        truth, filtered = offline(model, known)
        assert labels[t] == truth[t]
        np.testing.assert_allclose(posteriors[t], filtered[t], rtol=0, atol=ORACLE)


def test_a_limit_costs_nothing_where_the_chain_forgets() -> None:
    source = SyntheticChain(3_000, 5, 100, 6, sticky=0.9, seed=3)
    chain, model = gather(source), Model(Layout.full(5, 100), source.true_weights())
    window = StreamWindow(model, posteriors=True, max_lag=200)
    check(model, chain, streamed(window, pushes(chain, lambda random, left: 1)))
    assert window.unproven == 0


def test_sums_have_a_value_at_every_prefix() -> None:
    source = SyntheticChain(120, 4, 40, 4, sticky=0.8, mean_length=30, seed=5)
    chain, model = gather(source), Model(Layout.full(4, 40), source.true_weights())
    window = StreamWindow(model, quantities=True)
    for t in range(chain.positions):
        window.push(chain.block(t, t + 1))
        prefix = gather(chain, positions=t + 1)
        found, truth = window.quantities(), log_likelihood(model, prefix, "fb")
        assert found.log_z == pytest.approx(truth.log_z, rel=ORACLE)
        assert found.log_likelihood == pytest.approx(truth.log_likelihood, rel=ORACLE)
        assert found.entropy == pytest.approx(float(entropies(model, prefix).sum()), rel=ORACLE, abs=FLOOR)
        pairs = truth.expected[model.layout.n_state :].reshape(4, 4)
        np.testing.assert_allclose(found.transitions, pairs, rtol=ORACLE, atol=FLOOR)
        np.testing.assert_allclose(found.labels.sum(), t + 1, rtol=ORACLE)


def test_a_window_that_has_failed_says_so() -> None:
    model, chain = case("4 labels", 0)
    weights = model.weights.copy()
    weights[model.layout.n_state :] = -np.inf
    window = StreamWindow(replace(model, weights=weights))
    with pytest.raises(ChainfoldError, match="no labelling"):
        window.push(chain.block(0, 4))
    with pytest.raises(ChainfoldError, match="has failed before"):
        window.push(chain.block(4, 6))


def test_a_sequence_begins_where_none_is_open() -> None:
    model, chain = case("4 labels", 0)
    window = StreamWindow(model, posteriors=True)
    chain = replace(chain, starts=np.zeros(6, bool))
    first = [window.push(chain.block(0, 3)), window.end(), window.push(chain.block(3, 6)), window.end()]
    starts = np.arange(6) % 3 == 0
    check(model, replace(chain, starts=starts), first)
    assert window.end().labels.size == 0


@pytest.mark.parametrize("wrong", [{"max_lag": -1}, {"max_lag": 1.5}, {"memory": 0}, {"tolerance": 1e-20}], ids=str)
def test_bad_settings_are_one_sentence(wrong: dict[str, Any]) -> None:
    model, _ = case("4 labels", 0)
    with pytest.raises(ChainfoldError):
        StreamWindow(model, **wrong)
    with pytest.raises(ChainfoldError, match="quantities"):
        StreamWindow(model).quantities()


# Nothing waits longer than it must


def plain_recursions(model: Model, chain: Chain) -> tuple[list[NDArray[Any]], list[NDArray[Any]], list[NDArray[Any]]]:
    """Back-pointers, forward vectors and Pr(y_{t-1} | y_t) of one sequence, with one attribute of value one a row."""
    n = model.layout.n_labels
    states = model.weights[: model.layout.n_state].reshape(-1, n)[chain.ids]
    edge = model.weights[model.layout.n_state :].reshape(n, n)
    delta, alpha = states[0], np.exp(states[0]) / np.exp(states[0]).sum()
    backs, alphas, transfers = [np.zeros(n, int)], [alpha], [np.eye(n)]
    for state in states[1:]:
        backs.append((delta[:, None] + edge).argmax(axis=0))
        delta = (delta[:, None] + edge).max(axis=0) + state
        joint = alpha[:, None] * np.exp(edge)
        transfers.append(joint / joint.sum(axis=0))
        alpha = joint.sum(axis=0) * np.exp(state)
        alpha = alpha / alpha.sum()
        alphas.append(alpha)
    return backs, alphas, transfers


def coalesced(backs: list[NDArray[Any]]) -> int:
    """Rows on which all best paths agree."""
    paths = np.arange(backs[0].size)
    for t in range(len(backs) - 1, -1, -1):
        if np.unique(paths).size == 1:
            return t + 1
        paths = backs[t][paths]
    return 0


def certified(transfers: list[NDArray[Any]], tolerance: float) -> int:
    """Rows whose posterior does not depend on the label at the head."""
    q = np.eye(len(transfers[0]))
    for t in range(len(transfers) - 1, 0, -1):
        q = transfers[t] @ q
        if (q.max(axis=1) - q.min(axis=1) <= tolerance * q.min(axis=1)).all():
            return t
    return 0


@pytest.mark.parametrize("max_lag", [None, 6, 3])
@pytest.mark.parametrize("posteriors", [False, True])
def test_rows_are_given_as_soon_as_they_are_final(posteriors: bool, max_lag: int | None) -> None:
    tolerance = 1e-4
    source = SyntheticChain(150, 4, 30, 1, sticky=0.8, informative=0.7, seed=6)
    chain, model = gather(source), Model(Layout.full(4, 30), source.true_weights())
    window = StreamWindow(model, posteriors=posteriors, max_lag=max_lag, tolerance=tolerance)
    backs, _, transfers = plain_recursions(model, chain)
    given = labelled = smoothed = 0
    unproven: set[int] = set()
    for t in range(chain.positions):
        given += len(window.push(chain.block(t, t + 1)))
        labelled = max(labelled, coalesced(backs[: t + 1]))
        smoothed = max(smoothed, certified(transfers[: t + 1], tolerance))
        final = min(labelled, smoothed) if posteriors else labelled
        if max_lag is not None and t + 1 - final > max_lag:
            final = t + 1 - max_lag + max_lag // 8
            unproven |= {*range(labelled, final), *(range(smoothed, final) if posteriors else ())}
            labelled, smoothed = max(labelled, final), max(smoothed, final)
        assert given == final
        assert window.unproven == len(unproven)
    assert (window.unproven > 0) == (max_lag is not None)


def test_rounding_may_disagree_with_itself_and_nothing_is_held_up() -> None:
    """At the least tolerance there is, rounding decides; the guard and the search are rounded differently."""
    source = SyntheticChain(2_000, 5, 50, 4, sticky=0.5, seed=1)
    chain, model = gather(source), Model(Layout.full(5, 50), source.true_weights())
    window = StreamWindow(model, posteriors=True, tolerance=1e-14)
    found, most = [], 0
    for block in pushes(chain, lambda random, left: 1):
        found.append(window.push(block))
        most = max(most, window.waiting)
    check(model, chain, [*found, window.end()])
    assert most < 100


def test_rows_that_turn_to_logarithms_behind_those_that_are_given() -> None:
    """Forgetting at first, so that rows are given; then scores that real numbers cannot hold, and no forgetting."""
    for n_edge_attributes in (0, 1):
        random = np.random.default_rng(7)
        values = np.concatenate([random.normal(size=30), np.repeat([260.0, -260.0], 10)])
        edges: dict[str, Any] = {}
        if n_edge_attributes:
            edges = {
                "edge_offsets": np.arange(51),
                "edge_ids": np.zeros(50, int),
                "edge_values": np.concatenate([random.normal(size=30), np.full(20, 60.0)]),
                "n_edge_attributes": 1,
            }
        chain = Chain.from_arrays(
            offsets=np.arange(51), ids=np.zeros(50, int), values=values, n_labels=2, n_attributes=1, **edges
        )
        pairs = [0.0, -1.5, -1.0, 0.0]
        model = Model(Layout.full(2, 1, n_edge_attributes), np.array([1.0, -1.0, *pairs, *(pairs * n_edge_attributes)]))
        for size in (1, 2, 7):
            window = StreamWindow(model, posteriors=True, quantities=True, tolerance=1e-6)
            found = streamed(window, pushes(chain, lambda random, left, size=size: size))  # type: ignore[misc]
            labels, posteriors = offline(model, chain)
            np.testing.assert_array_equal(whole(found, "labels"), labels)
            np.testing.assert_allclose(whole(found, "posteriors"), posteriors, rtol=0, atol=1e-6)
            arrived = window.quantities().transitions.sum(axis=0)
            np.testing.assert_allclose(arrived, posteriors[1:].sum(axis=0), rtol=0, atol=1e-4)


def test_posteriors_that_wait_for_their_labels_stay_what_they_are() -> None:
    """They are certified long before the labels are settled, which then happens in wide numbers."""
    rows, pairs = 60, np.log([[0.6, 0.4], [0.4, 0.6]])
    chain = Chain.from_arrays(
        offsets=np.concatenate([np.zeros(51, int), np.ones(10, int)]), ids=[0], n_labels=2, n_attributes=1
    )
    model = Model(Layout.full(2, 1), np.array([2000.0, -2000.0, *pairs.ravel()]))
    assert chain.positions == rows
    for size in (1, 50, rows):
        window = StreamWindow(model, posteriors=True, quantities=True)
        check(model, chain, streamed(window, pushes(chain, lambda random, left, size=size: size)))  # type: ignore[misc]


def test_sums_at_a_prefix_are_those_of_a_sequence_that_ends_there() -> None:
    for seed in range(5):
        model, chain = case("4 labels", seed)
        model = masked(model, np.random.default_rng(seed))
        window, ended = (StreamWindow(model, quantities=True) for _ in range(2))
        window.push(chain.block(0, 4))
        ended.push(chain.block(0, 4), ended=True)
        one, other = window.quantities(), ended.quantities()
        assert (one.log_z, one.entropy) == pytest.approx((other.log_z, other.entropy), rel=ORACLE)
        np.testing.assert_allclose(one.labels, other.labels, rtol=ORACLE, atol=FLOOR)
