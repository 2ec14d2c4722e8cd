"""Tagging against the enumeration of all paths, and against plain recursions on chains too long for it."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import shapes
from chainfold import Chain, Layout, Model, SyntheticChain
from chainfold.chain.block import Block, frozen
from chainfold.chain.chain import gather
from chainfold.errors import (
    BadChain,
    BadSetting,
    LabelOutOfRange,
    ModelMismatch,
    ScoreNotFinite,
    ToleranceTooSmall,
    ZeroProbability,
)
from chainfold.inference.result import Tagged
from chainfold.inference.tagger import Tagger, Want, blocks_of
from chainfold.inference.whole_chain import entropies, log_probabilities, marginals, nbest, sample, tag
from engines.test_never_forget import UNFORGETTING, problem
from oracle import Long, features, possible, score
from tolerances import AT_LENGTH, ORACLE

pytestmark = pytest.mark.quick

_INF = np.inf
EVERYTHING = Want(posteriors=True, probability=True, given=True, entropy=True, nbest=4, samples=3, seed=5)
SIZES = (1, 2, 3, 7, 100)


@dataclass(frozen=True)
class Sequence:
    """Every labelling of one sequence that is possible, best first."""

    low: int
    high: int
    paths: NDArray[np.int64]  # [P, length]
    scores: NDArray[Any]  # [P]

    @property
    def log_z(self) -> Any:
        return self.scores[0] + np.log(np.exp(self.scores - self.scores[0]).sum())

    @property
    def probabilities(self) -> NDArray[Any]:
        return np.asarray(np.exp(self.scores - self.log_z))


def enumerated(model: Model, chain: Chain) -> list[Sequence]:
    bounds = [*np.flatnonzero(chain.starts), chain.positions]
    return [one_sequence(model, chain, int(a), int(b)) for a, b in itertools.pairwise(bounds)]


def one_sequence(model: Model, chain: Chain, low: int, high: int) -> Sequence:
    n = model.layout.n_labels

    def step(t: int, previous: int | None, label: int) -> Any:
        if not possible(model, chain, t, label):
            return Long(-_INF)
        return score(features(chain, model.layout, t, previous, label), model.weights)

    table = {
        (t, i, j): step(t, i, j)
        for t in range(low, high)
        for i in ((None,) if t == low else range(n))
        for j in range(n)
    }
    paths = np.array(list(itertools.product(range(n), repeat=high - low)))
    total = np.zeros(len(paths), Long)
    for k, path in enumerate(paths.tolist()):
        total[k] = sum((table[low + t, path[t - 1] if t else None, path[t]] for t in range(high - low)), Long(0.0))
    paths, total = paths[total > -_INF], total[total > -_INF]
    order = np.argsort(-total, kind="stable")
    return Sequence(low, high, paths[order], total[order])


def together(found: list[Tagged]) -> dict[str, NDArray[Any]]:
    """All results of a run, each as one array."""
    assert [one.low for one in found] == list(np.cumsum([0] + [one.starts.size for one in found])[:-1])
    results: dict[str, Any] = {
        "labels": np.concatenate([one.labels for one in found]),
        "posteriors": np.concatenate([one.posteriors for one in found]),
        "marginal": np.concatenate([one.probabilities for one in found]),
        "nbest": np.concatenate([one.nbest for one in found], axis=1),
        "samples": np.concatenate([one.samples for one in found], axis=1),
        "log_z": np.concatenate([one.sequences.log_z for one in found]),
    }
    for name in ("ends", "score", "log_probability", "given", "entropy", "gaps"):
        results[name] = np.concatenate([getattr(one.sequences, name) for one in found])
    return results


def run(model: Model, chain: Chain, size: int, want: Want = EVERYTHING, **options: Any) -> dict[str, NDArray[Any]]:
    return together(list(Tagger(model, **options).run(blocks_of(chain, size), want)))


def check(model: Model, chain: Chain, found: dict[str, NDArray[Any]], truth: list[Sequence]) -> None:
    assert found["ends"].tolist() == [one.high - 1 for one in truth]
    for s, one in enumerate(truth):
        tolerance = float(ORACLE * max(1.0, np.abs(one.scores).max()))
        where = slice(one.low, one.high)
        assert found["score"][s] == pytest.approx(float(one.scores[0]), abs=tolerance)
        assert found["log_z"][s] == pytest.approx(float(one.log_z), abs=tolerance)
        assert found["log_probability"][s] == pytest.approx(float(one.scores[0] - one.log_z), abs=tolerance)
        assert score_of(one, found["labels"][where]) == pytest.approx(float(one.scores[0]), abs=tolerance)
        assert found["given"][s] == pytest.approx(given_in(one, chain.labels[where]), abs=tolerance, nan_ok=True)
        p = one.probabilities
        entropy = -float((p[p > 0] * np.log(p[p > 0])).sum())
        assert found["entropy"][s] == pytest.approx(entropy, abs=tolerance)
        posteriors = np.zeros((one.high - one.low, model.layout.n_labels), Long)
        for t in range(one.high - one.low):
            np.add.at(posteriors[t], one.paths[:, t], p)
        np.testing.assert_allclose(found["posteriors"][where], posteriors.astype(float), rtol=0, atol=tolerance)
        check_best(one, found["nbest"][:, where], found["gaps"][s], tolerance)
        for path in found["samples"][:, where]:
            assert score_of(one, path) > -_INF
    marginal = found["posteriors"][np.arange(chain.positions), found["labels"]]
    np.testing.assert_array_equal(found["marginal"], marginal)
    np.testing.assert_array_equal(found["nbest"][0], found["labels"])


def check_best(one: Sequence, paths: NDArray[Any], gaps: NDArray[Any], tolerance: float) -> None:
    count = min(len(one.paths), len(paths))
    assert (paths[count:] == -1).all()
    assert (gaps[count:] == -_INF).all()
    gap = (one.scores[:count] - one.scores[0]).astype(float)
    np.testing.assert_allclose(gaps[:count], gap, rtol=0, atol=tolerance)
    for path, expected in zip(paths[:count], gap, strict=True):
        assert score_of(one, path) - float(one.scores[0]) == pytest.approx(expected, abs=tolerance)
    assert len({tuple(path) for path in paths[:count].tolist()}) == count


def score_of(one: Sequence, path: NDArray[Any]) -> float:
    """The score of a labelling, -inf if it is not possible."""
    found = np.flatnonzero((one.paths == path).all(axis=1))
    return float(one.scores[found[0]]) if found.size else -_INF


def given_in(one: Sequence, labels: NDArray[Any]) -> float:
    return float("nan") if (labels < 0).any() else score_of(one, labels) - float(one.log_z)


@cache
def solved(name: str) -> tuple[Model, Chain, list[Sequence]]:
    model, chain = shapes.case(name)
    return model, chain, enumerated(model, chain)


@pytest.mark.parametrize("name", shapes.CASES)
def test_everything_equals_enumeration_in_blocks_of_any_size(name: str) -> None:
    model, chain, truth = solved(name)
    whole = run(model, chain, chain.positions)
    for size in SIZES:
        found = run(model, chain, size)
        check(model, chain, found, truth)
        for same in ("labels", "nbest", "samples", "score", "gaps"):
            np.testing.assert_array_equal(found[same], whole[same])


@pytest.mark.parametrize("name", ["3 labels", "start marks in pairs", "edge attributes, start marks", "late reversal"])
def test_little_memory_changes_nothing(name: str) -> None:
    model, chain, truth = solved(name)
    for size in SIZES:
        check(model, chain, run(model, chain, size, memory=1), truth)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_chains_with_masks_and_forbidden_moves(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, positions = int(random.integers(2, 4)), int(random.integers(1, 7))
    chain = shapes.chain(
        random,
        positions,
        n,
        values="positive",
        starts=random.random(positions) < 0.3,
        n_edge_attributes=int(random.integers(0, 3)),
    )
    base = shapes.model(random, chain, float(random.choice([0.0, 1.0, 30.0, 400.0])))
    weights = base.weights.copy()
    weights[random.random(weights.size) < 0.1] = -_INF
    model = Model(base.layout, weights, first=random.random(n) < 0.8, last=random.random(n) < 0.8)
    if chain.edge_values.size and (chain.edge_values < 0).any():  # a negative value beside -inf has no meaning
        model = replace(model, weights=np.where(weights == -_INF, -50.0, weights))
    truth = enumerated(model, chain)
    size = int(random.integers(1, 8))
    if any(one.scores.size == 0 for one in truth):
        with pytest.raises(ZeroProbability):
            run(model, chain, size)
        return
    found = run(model, chain, size, memory=int(random.choice([1, 10**8])))
    check(model, chain, found, truth)


def test_ties_go_to_the_smaller_label() -> None:
    chain = Chain.from_arrays(offsets=np.zeros(9), ids=[], n_labels=3, n_attributes=1)
    model = Model(Layout.full(3, 1), np.zeros(12))
    for size in SIZES:
        assert tag_in_blocks(model, chain, size).tolist() == [0] * 8
    banned = np.zeros(12)
    banned[3:] = [-_INF, 0, 0, 0, -_INF, 0, 0, 0, -_INF]
    for size in SIZES:
        assert tag_in_blocks(Model(Layout.full(3, 1), banned), chain, size).tolist() == [1, 0] * 4


def tag_in_blocks(model: Model, chain: Chain, size: int, **options: Any) -> NDArray[Any]:
    found = [one.labels for one in Tagger(model, **options).run(blocks_of(chain, size)) if one.labels is not None]
    return np.concatenate(found)


def test_more_labellings_asked_for_than_there_are() -> None:
    model, chain, truth = solved("forbidden transitions, start marks")
    found = nbest(model, chain, 1000)
    assert len(found) == len(truth)
    for mine, one in zip(found, truth, strict=True):
        assert len(mine.labels) == len(one.paths)
        np.testing.assert_allclose(mine.scores, one.scores.astype(float), rtol=0, atol=1e-9)
        np.testing.assert_allclose(mine.log_probabilities, (one.scores - one.log_z).astype(float), rtol=0, atol=1e-9)
        assert {tuple(path) for path in mine.labels.tolist()} == {tuple(path) for path in one.paths.tolist()}


@pytest.mark.parametrize("name", ["2 labels", "edge attributes", "forbidden transitions and labels", "late reversal"])
def test_samples_follow_the_distribution(name: str) -> None:
    model, chain, truth = solved(name)
    (one,) = truth
    count = 20_000
    drawn = sample(model, chain, count, seed=11)
    keys, counts = np.unique(drawn, axis=0, return_counts=True)
    seen = {tuple(key): int(number) for key, number in zip(keys.tolist(), counts, strict=True)}
    expected = count * one.probabilities.astype(float)
    observed = np.array([seen.pop(tuple(path), 0) for path in one.paths.tolist()])
    assert not seen, "nothing impossible is drawn"
    often = expected >= 5.0
    chi_square = (((observed - expected) ** 2)[often] / expected[often]).sum()
    freedom = max(int(often.sum()) - 1, 1)
    assert chi_square < freedom + 5.0 * np.sqrt(2.0 * freedom)
    assert (sample(model, chain, count, seed=11) == drawn).all()
    assert (sample(model, chain, count, seed=12) != drawn).any()


def test_conveniences_agree_with_the_run() -> None:
    model, chain, truth = solved("edge attributes, start marks")
    found = run(model, chain, 3)
    np.testing.assert_array_equal(tag(model, chain), found["labels"])
    np.testing.assert_allclose(marginals(model, chain), found["posteriors"], rtol=1e-11)
    np.testing.assert_array_equal(sample(model, chain, 3, seed=5), found["samples"])
    np.testing.assert_allclose(entropies(model, chain), found["entropy"], rtol=1e-12)
    np.testing.assert_allclose(log_probabilities(model, chain), found["given"], rtol=1e-12)
    best = np.concatenate([one.paths[0] for one in truth])
    np.testing.assert_allclose(log_probabilities(model, chain, best), found["log_probability"], rtol=1e-12)


# ---- chains too long to enumerate


def scores_of(model: Model, chain: Chain) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """State scores [T, N] and edge scores [T, N, N], plainly."""
    layout, n = model.layout, model.layout.n_labels
    rows = model.weights[: layout.n_state].reshape(-1, n)
    states = np.zeros((chain.positions, n))
    values = chain.values if chain.values.size else np.ones(chain.ids.size)
    np.add.at(states, np.repeat(np.arange(chain.positions), np.diff(chain.offsets)), rows[chain.ids] * values[:, None])
    tables = model.weights[layout.n_state :].reshape(-1, n, n)
    edges = np.broadcast_to(tables[0], (chain.positions, n, n))
    if chain.n_edge_attributes:
        edges = edges.copy()
        where = np.repeat(np.arange(chain.positions), np.diff(chain.edge_offsets))
        values = chain.edge_values if chain.edge_values.size else np.ones(where.size)
        np.add.at(edges, where, tables[1 + chain.edge_ids] * values[:, None, None])
    return states, edges


def plain_viterbi(states: NDArray[Any], edges: NDArray[Any], starts: NDArray[Any]) -> NDArray[Any]:
    positions = len(states)
    back = np.zeros(states.shape, int)
    delta = np.zeros(states.shape[1])
    for t in range(positions):
        if starts[t]:
            back[t], best = delta.argmax(), 0.0
        else:
            reached = delta[:, None] + edges[t]
            back[t], best = reached.argmax(axis=0), reached.max(axis=0)
        delta = best + states[t]
        delta = delta - delta.max()
    labels = np.zeros(positions, int)
    label = delta.argmax()
    for t in range(positions - 1, -1, -1):
        labels[t], label = label, back[t, label]
    return labels


def log_sum(x: NDArray[Any], axis: int) -> NDArray[Any]:
    high = np.maximum(x.max(axis=axis, keepdims=True), -1e300)
    with np.errstate(divide="ignore"):
        return np.asarray(np.squeeze(high, axis) + np.log(np.exp(x - high).sum(axis=axis)))


def plain_posteriors(states: NDArray[Any], edges: NDArray[Any], starts: NDArray[Any]) -> NDArray[Any]:
    """Forward and backward in logarithms."""
    positions, n = states.shape
    alpha, beta = np.zeros((positions, n)), np.zeros((positions, n))
    for t in range(positions):
        alpha[t] = states[t] + (0.0 if starts[t] else log_sum(alpha[t - 1][:, None] + edges[t], 0))
        alpha[t] -= log_sum(alpha[t], 0)
    for t in range(positions - 2, -1, -1):
        if not starts[t + 1]:
            beta[t] = log_sum(edges[t + 1] + (states[t + 1] + beta[t + 1])[None, :], 1)
            beta[t] -= beta[t].max()
    both = alpha + beta
    return np.asarray(np.exp(both - log_sum(both, 1)[:, None]))


def total_score(states: NDArray[Any], edges: NDArray[Any], starts: NDArray[Any], labels: NDArray[Any]) -> float:
    inside = np.flatnonzero(~starts)
    total = states[np.arange(len(states)), labels].sum() + edges[inside, labels[inside - 1], labels[inside]].sum()
    return float(total)


@pytest.mark.parametrize("n_edge_attributes", [0, 3])
def test_long_chains(n_edge_attributes: int) -> None:
    positions = 20_000
    chain = gather(SyntheticChain(positions, 4, 30, 3, seed=7, mean_length=5000, n_edge_attributes=n_edge_attributes))
    model = Model.random(Layout.full(4, 30, n_edge_attributes), seed=1, scale=0.7)
    states, edges = scores_of(model, chain)
    best = plain_viterbi(states, edges, chain.starts)
    for size in (997, 8192, positions):
        found = tag_in_blocks(model, chain, size)
        np.testing.assert_array_equal(found, best)
    posteriors = plain_posteriors(states, edges, chain.starts)
    np.testing.assert_allclose(marginals(model, chain), posteriors, rtol=0, atol=1e-10)
    found_best = run(model, chain, 1000, replace(EVERYTHING, samples=1, nbest=2))
    np.testing.assert_allclose(found_best["posteriors"], posteriors, rtol=0, atol=1e-10)
    assert found_best["score"].sum() == pytest.approx(total_score(states, edges, chain.starts, best), rel=AT_LENGTH)
    other = run(model, chain, 3333, replace(EVERYTHING, samples=1, nbest=2), memory=1)
    for name in ("labels", "samples", "nbest", "gaps", "score"):
        np.testing.assert_array_equal(found_best[name], other[name])
    np.testing.assert_allclose(found_best["entropy"], other["entropy"], rtol=AT_LENGTH)
    np.testing.assert_allclose(found_best["log_probability"], other["log_probability"], rtol=AT_LENGTH)
    second = found_best["nbest"][1].astype(int)
    gap = total_score(states, edges, chain.starts, second) - total_score(states, edges, chain.starts, best)
    assert found_best["gaps"][:, 1].sum() == pytest.approx(gap, abs=1e-6)


IDENTITY = [[0.0, -_INF], [-_INF, 0.0]]


@pytest.mark.parametrize("name", UNFORGETTING)
def test_chains_that_never_forget_go_to_disk_and_stay_exact(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, chain = problem(*UNFORGETTING[name], positions=6_000)
    states, edges = scores_of(model, chain)
    opened = []
    original = tempfile.TemporaryFile

    def noted(**options: Any) -> Any:
        opened.append(options)
        return original(**options)

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    want = replace(EVERYTHING, nbest=2)
    in_memory = run(model, chain, 100, want)
    assert not opened
    spilled = run(model, chain, 100, want, memory=20_000)
    assert opened
    for key, array in in_memory.items():
        np.testing.assert_array_equal(array, spilled[key])
    best = plain_viterbi(states, edges, chain.starts)
    mine = total_score(states, edges, chain.starts, in_memory["labels"])
    assert mine == pytest.approx(total_score(states, edges, chain.starts, best), abs=1e-9)
    posteriors = plain_posteriors(states, edges, chain.starts)
    np.testing.assert_allclose(in_memory["posteriors"], posteriors, rtol=0, atol=1e-9)
    another = run(model, chain, 777, want, memory=1)
    for same in ("labels", "samples", "nbest"):
        np.testing.assert_array_equal(in_memory[same], another[same])


@pytest.mark.parametrize("scale", [1e3, 1e4, 1e5])
@pytest.mark.parametrize("n_edge_attributes", [0, 2])
def test_scores_beyond_the_range_of_a_double(scale: float, n_edge_attributes: int) -> None:
    chain = gather(SyntheticChain(2000, 3, 10, 2, seed=5, mean_length=200, n_edge_attributes=n_edge_attributes))
    model = Model.random(Layout.full(3, 10, n_edge_attributes), seed=1, scale=scale)
    states, edges = scores_of(model, chain)
    found = run(model, chain, 64)
    np.testing.assert_array_equal(found["labels"], plain_viterbi(states, edges, chain.starts))
    np.testing.assert_allclose(
        found["posteriors"], plain_posteriors(states, edges, chain.starts), rtol=0, atol=1e-13 * scale
    )
    assert (found["log_probability"] <= 1e-9).all()
    assert (found["entropy"] >= 0.0).all()
    assert np.isfinite(found["given"]).all(), "unlikely, and still possible"
    total = found["given"].sum() - found["log_probability"].sum()
    labels = [chain.labels, found["labels"]]
    mine, best = (total_score(states, edges, chain.starts, one) for one in labels)
    assert total == pytest.approx(mine - best, rel=1e-9)


def test_a_label_may_fall_beyond_the_range_of_a_double_and_come_back() -> None:
    half = 600
    chain = Chain.from_arrays(
        offsets=np.arange(2 * half + 1),
        ids=np.zeros(2 * half, int),
        values=np.repeat([1.0, -1.0], half),
        labels=np.zeros(2 * half, int),
        n_labels=2,
        n_attributes=1,
    )
    model = Model(Layout.full(2, 1), np.concatenate([[0.5, -0.5], np.ravel(IDENTITY)]))
    found = run(model, chain, 37)
    np.testing.assert_allclose(found["posteriors"], 0.5, rtol=1e-10)
    for name in ("log_probability", "given", "entropy"):
        np.testing.assert_allclose(np.abs(found[name]), np.log(2.0), rtol=1e-10)


def test_given_labels_far_less_likely_than_a_double_can_say() -> None:
    """Moves are free, and each position speaks against its label by e^-1000."""
    positions = 50
    chain = Chain.from_arrays(
        offsets=np.arange(positions + 1), ids=np.zeros(positions, int), labels=np.ones(positions, int), n_labels=2
    )
    model = Model(Layout.full(2, 1), np.array([0.0, -1000.0, 0.0, 0.5, 0.5, 0.0]))
    np.testing.assert_allclose(log_probabilities(model, chain), [-1000.0 * positions], rtol=1e-12)


def lags(model: Model, chain: Chain, size: int, want: Want) -> list[int]:
    """How many positions had been read, from its first one on, when each stretch of results came."""
    read = 0

    def blocks() -> Iterator[Block]:
        nonlocal read
        for block in blocks_of(chain, size):
            read += block.labels.size
            yield block

    return [read - found.low for found in Tagger(model).run(blocks(), want)]


def test_results_come_soon_after_the_blocks() -> None:
    chain = gather(SyntheticChain(20_000, 4, 30, 3, seed=1))
    model = Model.random(Layout.full(4, 30), seed=1)
    own, certifying, held_back = 200, 200, 200
    assert max(lags(model, chain, 200, replace(EVERYTHING, nbest=0))) <= own + certifying + held_back
    model, chain, _ = solved("start marks everywhere")
    assert max(lags(model, chain, 1, EVERYTHING)) == 2, "a sequence that ends with its block waits for the next one"


def test_no_blocks_no_results() -> None:
    model, chain, _ = solved("3 labels")
    assert list(Tagger(model).run([])) == []
    empty = chain.block(0, 0)
    found = list(Tagger(model).run([chain.block(0, 3), empty, chain.block(3, 7), empty]))
    assert [one.low for one in found] == [0, 3]


def test_only_what_was_asked_for() -> None:
    model, chain, _ = solved("3 labels")
    (found,) = Tagger(model).run(blocks_of(chain))
    assert found.labels is not None
    assert (found.posteriors, found.samples, found.nbest) == (None, None, None)
    ended = found.sequences
    assert (ended.entropy, ended.given, ended.log_probability, ended.gaps) == (None, None, None, None)
    np.testing.assert_array_equal(found.given, chain.labels)


def test_weights_of_sequences_change_nothing() -> None:
    model, chain, _ = solved("start marks in pairs")
    plain = run(model, chain, 2)
    weighted = run(model, replace(chain, weights=frozen(np.cumsum(chain.starts) - 1, np.float64)), 2)
    for name, array in plain.items():
        np.testing.assert_array_equal(array, weighted[name])


def test_more_labels_than_a_byte_counts() -> None:
    chain = gather(SyntheticChain(300, 300, 10, 2, seed=1, mean_length=50))
    model = Model.random(Layout.full(300, 10), seed=1)
    states, edges = scores_of(model, chain)
    np.testing.assert_array_equal(tag_in_blocks(model, chain, 70), plain_viterbi(states, edges, chain.starts))


@pytest.mark.parametrize("size", [1, 2, 10])
def test_a_chain_without_any_labelling(size: int) -> None:
    chain = Chain.from_arrays(offsets=np.zeros(6), ids=[], n_labels=2, n_attributes=1)
    weights = np.array([0.0, 0.0, -_INF, 0.0, -_INF, -_INF])  # from 0 to 1, and no way on
    with pytest.raises(ZeroProbability, match="position 2 "):
        tag_in_blocks(Model(Layout.full(2, 1), weights), chain, size)
    masked = Model(Layout.full(2, 1), np.zeros(6), last=np.zeros(2, bool))
    with pytest.raises(ZeroProbability, match="position 4 "):
        tag_in_blocks(masked, chain, size)


@pytest.mark.parametrize("edge", [False, True])
def test_scores_that_are_no_numbers(edge: bool) -> None:
    entries: dict[str, Any] = {"offsets": np.zeros(5), "ids": [], "edge_offsets": [0, 1, 1, 2, 2], "edge_ids": [0, 0]}
    entries["edge_values"] = [-1.0, -1.0]  # the first one is at a start and counts nothing
    if not edge:
        entries = {"offsets": [0, 0, 0, 1, 1], "ids": [0], "values": [-1.0]}
    chain = Chain.from_arrays(**entries, n_labels=2, n_attributes=1, n_edge_attributes=1 if edge else None)
    model = Model.random(Layout.full(2, 1, chain.n_edge_attributes))
    weights = model.weights.copy()
    weights[-1 if edge else 0] = -_INF
    for want in (Want(), EVERYTHING):
        with pytest.raises(ScoreNotFinite, match="position 2 "):
            list(Tagger(Model(model.layout, weights)).run(blocks_of(chain, 2), want))


def test_settings_and_sources_that_make_no_sense() -> None:
    model, chain, _ = solved("3 labels")
    for wrong in ({"nbest": -1}, {"samples": 1.5}, {"seed": -3}):
        with pytest.raises(BadSetting, match=next(iter(wrong))):
            Want(**wrong)
    with pytest.raises(BadSetting, match="memory"):
        Tagger(model, memory=0)
    with pytest.raises(ToleranceTooSmall):
        Tagger(model, tolerance=1e-20)
    with pytest.raises(BadChain, match="must be a start"):
        list(Tagger(model).run([chain.block(1, 3)]))
    with pytest.raises(ModelMismatch):
        tag(Model.random(Layout.full(2, 4)), chain)


def test_a_source_without_edge_attributes_under_a_model_that_knows_some() -> None:
    model, chain, _ = solved("3 labels")
    wider = Model(Layout.full(3, 4, 2), np.concatenate([model.weights, np.ones(18)]))
    np.testing.assert_array_equal(tag(wider, chain), tag(model, chain))
    np.testing.assert_allclose(marginals(wider, chain), marginals(model, chain), rtol=1e-13)


@pytest.mark.parametrize("name", ["nbest", "samples"])
def test_more_labellings_than_there_is_room_for(name: str) -> None:
    model, chain = shapes.plain(3, 2)(np.random.default_rng(0))
    with pytest.raises(BadSetting, match=f"{name} is 1000000000, but must be at most"):
        list(Tagger(model, memory=1 << 20).run(blocks_of(chain), Want(**{name: 10**9})))  # type: ignore[arg-type]


def test_given_labels_must_be_those_of_the_model() -> None:
    model, chain, _ = solved("3 labels")
    given = np.zeros(chain.positions, np.int64)
    for wrong in (3, -2, 2**32, 2**32 - 1):
        given[1] = wrong
        with pytest.raises(LabelOutOfRange, match=f"position 1 has label {wrong}, but labels go from 0 to 2"):
            log_probabilities(model, chain, given)
    large = given.astype(np.uint64)
    large[1] = 2**64 - 1
    with pytest.raises(BadChain, match=f"number 1 of the labels is {2**64 - 1}, which is too large"):
        log_probabilities(model, chain, large)
    with pytest.raises(BadChain, match="there are 7 positions, but 1 labels"):
        log_probabilities(model, chain, [0])
    with pytest.raises(BadChain, match="the labels are not whole numbers; give one for each position"):
        log_probabilities(model, chain, np.zeros(chain.positions))
