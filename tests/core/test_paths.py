"""Best labellings and what follows from posteriors: as NumPy has them, with the same bits on all levels."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from chainfold import core
from chainfold.core.faults import NOT_FINITE, OK, TOO_LARGE, ZERO
from chainfold.core.slots import Lattice, RowLayout, Slots, padded, tiles_of

pytestmark = pytest.mark.quick

LABELS = (1, 2, 4, 5, 8, 9, 22, 33, 64, 65, 100)
SHAPES = [(n, padded(n)) for n in LABELS] + [(n, 4) for n in (1, 2, 3, 4)]
SIZES = (9, 90)  # positions: a few, and enough for a transposed matrix

Floats = NDArray[np.float64]


class Chain(NamedTuple):
    starts: NDArray[np.bool_]
    ends: NDArray[np.bool_]
    scores: Floats  # [B, width]
    edges: Floats  # [B or 1, N · width]
    n: int
    width: int

    def edge(self, t: int) -> Floats:
        """[N, N]"""
        return self.edges.reshape(-1, self.n, self.width)[t if len(self.edges) > 1 else 0, :, : self.n]

    def part(self, low: int, high: int) -> Chain:
        edges = self.edges[low:high] if len(self.edges) > 1 else self.edges
        return self._replace(
            starts=self.starts[low:high], ends=self.ends[low:high], scores=self.scores[low:high], edges=edges
        )


def chain(n: int, width: int, size: int, own: bool = False, whole: bool = False) -> Chain:
    """A chain with forbidden transitions; whole: scores are whole numbers, so that many of them tie."""
    random = np.random.default_rng([n, width, size, own])
    scores = np.full((size, width), -np.inf)
    scores[:, :n] = random.normal(0.0, 2.0, (size, n))
    edges = np.full((size if own else 1, n, width), -np.inf)
    edges[:, :, :n] = random.normal(0.0, 2.0, (len(edges), n, n))
    edges[:, :, :n][random.random((len(edges), n, n)) < 0.2] = -np.inf
    edges[:, np.arange(n), np.arange(n)] = 0.0
    starts = random.random(size) < 0.1
    starts[0] = True
    chain = Chain(starts, np.append(starts[1:], True), scores, edges.reshape(len(edges), -1), n, width)
    return chain._replace(scores=np.rint(scores), edges=np.rint(chain.edges)) if whole else chain


def viterbi(c: Chain, *cuts: int) -> tuple[int, int, NDArray[Any], NDArray[np.int64], Floats]:
    """Status, fault, pointers, last labels and scores, in blocks that are cut at some positions."""
    delta, total = np.zeros(c.width), np.zeros(2)
    back = np.empty((c.starts.size, c.n), np.uint8 if c.n <= 256 else np.uint16)
    finals, best = np.empty(c.ends.sum(), np.int64), np.empty(c.ends.sum())
    done = 0
    for low, high in zip((0, *cuts), (*cuts, c.starts.size), strict=True):
        part, count = c.part(low, high), int(c.ends[low:high].sum())
        there = slice(done, done + count)
        status, fault = core.viterbi(*part[:4], delta, total, back[low:high], finals[there], best[there])
        if status != OK:
            return status, low + fault, back, finals, best
        done += count
    return OK, -1, back, finals, best


def viterbi_in_numpy(c: Chain) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    delta, back = np.zeros(c.n), np.empty((c.starts.size, c.n), np.int64)
    finals, best = [], []
    for t, score in enumerate(c.scores[:, : c.n]):
        reached = delta[:, None] + c.edge(t)
        back[t] = delta.argmax() if c.starts[t] else reached.argmax(0)
        delta = score + (0.0 if c.starts[t] else reached.max(0))
        if c.ends[t]:
            finals.append(int(delta.argmax()))
            best.append(delta.max())
    return back, np.array(finals), np.array(best)


def path(back: NDArray[Any], label: int) -> list[int]:
    """The labels before and in the block, the first of them that of the position before it."""
    labels = [label]
    for row in back[::-1]:
        labels.insert(0, int(row[labels[0]]))
    return labels


def every(whole: bool = False) -> Iterator[Chain]:
    for n, width in SHAPES:
        for size in SIZES:
            for own in (False, True):
                yield chain(n, width, size, own, whole)


@pytest.mark.parametrize(("n", "width"), [*SHAPES, (300, padded(300))])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_viterbi_is_that_of_numpy(n: int, width: int, own: bool, whole: bool) -> None:
    for size in SIZES:
        c = chain(n, width, size, own, whole)
        status, fault, back, finals, best = viterbi(c)
        expected, last, scores = viterbi_in_numpy(c)
        assert (status, fault) == (OK, -1)
        np.testing.assert_allclose(best, scores, rtol=1e-13, atol=1e-13)
        labels = np.empty(size, np.int32)
        before = core.trace(back, int(finals[-1]), labels)
        if whole:  # no rounding: ties go to the smaller label
            assert finals.tolist() == last.tolist()
            assert back[0].max() == 0
            assert back[1:].tolist() == expected[1:].tolist()
        assert [before, *labels] == path(back, int(finals[-1]))
        again = viterbi(c, 1, size // 2)
        assert again[2].tobytes() == back.tobytes()
        assert again[4].tobytes() == best.tobytes()


@pytest.mark.parametrize(("n", "width"), SHAPES)
def test_faults_and_their_positions(n: int, width: int) -> None:
    for size in SIZES:
        for value, status in ((np.nan, NOT_FINITE), (np.inf, NOT_FINITE), (-np.inf, ZERO)):
            c = chain(n, width, size)
            c.scores[5, :n] = value
            assert viterbi(c)[:2] == (status, 5)
            assert viterbi(c, 3)[:2] == (status, 5)


@pytest.mark.parametrize(("n", "width"), SHAPES)
def test_what_is_final(n: int, width: int) -> None:
    c = chain(n, width, 40)._replace(starts=np.arange(40) == 0)
    back = viterbi(c)[2]
    heads = np.arange(n)
    paths = np.array([path(back, label) for label in range(n)])

    before = heads.copy()
    core.coalesce(back[20:], before)
    assert before.tolist() == [path(back[20:], label)[0] for label in range(n)]

    origin = np.arange(n)
    status, agree = core.follow(back[1:], heads, origin)
    assert status == OK
    assert origin.tolist() == paths[:, 1].tolist()
    assert agree == (len(set(origin.tolist())) == 1)

    labels, first = np.full(40, -1, np.int32), np.full(n, -1)
    status, count = core.coalesced(back, heads, first, labels)
    same = [len(set(column)) == 1 for column in paths[:, 1:].T.tolist()]
    assert status == OK
    assert count == max((t + 1 for t in range(40) if same[t]), default=0)
    assert labels[:count].tolist() == paths[0, 1 : 1 + count].tolist()
    if count < 40:
        assert first.tolist() == paths[:, 1 + count].tolist()

    core.origins(back, heads, first)
    assert first.tolist() == paths[:, 1].tolist()


def rank(c: Chain, k: int) -> tuple[NDArray[np.int32], Floats]:
    size, sequences = c.starts.size, int(c.ends.sum())
    back, ranked = np.empty((size, c.n, k), np.uint32), np.full((c.n, k), -np.inf)
    finals, gaps = np.empty((sequences, k), np.int64), np.empty((sequences, k))
    assert core.rank(*c[:4], ranked, back, finals, gaps) == OK
    labels = np.empty((k, size), np.int32)
    core.trace_ranked(c.ends, back, finals, np.full(k, -1), labels)
    return labels, gaps


@pytest.mark.parametrize(("n", "width"), SHAPES)
def test_the_k_best(n: int, width: int) -> None:
    k = 6
    for own in (False, True):
        c = chain(n, width, 4, own)._replace(starts=np.arange(4) == 0, ends=np.arange(4) == 3)
        scores = c.scores[0, :n]
        for t in range(1, 4):  # those of all labellings, and of a prefix only the k best of each last label
            reached = scores[..., None] + c.edge(t)
            scores = -np.sort(-reached.reshape(-1, n), axis=0)[:k] + c.scores[t, :n]
        expected = -np.sort(-scores.ravel())[:k]
        labels, gaps = rank(c, k)
        count = int(np.isfinite(expected).sum())
        np.testing.assert_allclose(gaps[0, :count], expected[:count] - expected[0], atol=1e-12)
        assert not np.isfinite(gaps[0, count:]).any()
        assert (labels[count:] == -1).all()
        assert len({tuple(row) for row in labels[:count].tolist()}) == count
        for row, gap in zip(labels[:count], gaps[0], strict=False):
            own_score = sum(c.scores[t, row[t]] + (c.edge(t)[row[t - 1], row[t]] if t else 0.0) for t in range(4))
            assert own_score == pytest.approx(expected[0] + gap, abs=1e-12)


def lattice_of(c: Chain, labels: NDArray[np.int32], wide: bool) -> tuple[Lattice, Floats]:
    """A chain after the forward pass, and its posteriors."""
    size, parts, entry = c.starts.size, 2 if wide else 1, np.zeros((2 if wide else 1) * c.width)
    alpha, predicted, edge = c.scores.copy(), np.empty((size, parts * c.width)), c.edges.copy()
    if wide:
        entry[c.width :] = -np.inf
        alpha = np.empty((size, 2 * c.width))
        assert core.forward_wide(c.starts, c.scores, edge, entry, c.n, alpha, predicted)[0] == OK
        last = alpha[-1, : c.width] * 2.0 ** np.maximum(alpha[-1, c.width :], -1000.0)
    else:
        shift = np.empty(len(edge))
        core.exponentiate_edges(edge, shift)
        assert core.forward(c.starts, alpha, predicted, edge, shift, entry, c.n, True)[0] == OK
        last = alpha[-1]
    lattice = Lattice(c.starts, alpha, predicted, edge, entry, labels, np.empty(0), wide, c.n)
    out = np.empty((size, c.width))
    assert core.posteriors(lattice, np.empty((0, 0)), last / last.sum(), out) == OK
    return lattice, out


class Accounts(NamedTuple):
    posteriors: Floats  # [B, N]
    pairs: Floats  # [N, N]
    best: Floats  # [S] log probabilities
    given: Floats  # [S]
    entropy: Floats  # [S]
    samples: NDArray[np.int32]  # [3, B]


def accounts(c: Chain, labels: NDArray[np.int32], wide: bool) -> Accounts:
    lattice, gammas = lattice_of(c, labels, wide)
    _, _, back, finals, _ = viterbi(c)
    best, given, entropy = np.empty((3, finals.size))
    assert core.best_probability(lattice, c.ends, back, finals, np.zeros(c.n), np.zeros(2), best) == OK
    core.given_probability(lattice, c.ends, -1, np.zeros(2), given)
    log_edge = np.empty(0)
    if not wide and len(c.edges) == 1:
        log_edge = np.log(lattice.edge[0], out=np.zeros(lattice.edge.size), where=lattice.edge[0] > 0.0)
    assert core.entropy(lattice, c.ends, log_edge, np.zeros(c.width), np.zeros(2), entropy) == OK
    pairs = np.zeros((c.n, c.width))
    assert core.count_pairs(lattice, gammas, pairs) == OK
    uniforms = np.random.default_rng(c.n).random((c.starts.size, 3))
    samples = np.zeros((1 + c.starts.size, 3), np.int32)
    assert core.draw(lattice, gammas, uniforms, samples) == OK
    return Accounts(gammas[:, : c.n], pairs[:, : c.n], best, given, entropy, samples[1:].T)


def log_sum(numbers: Floats, axis: int) -> Floats:
    high = np.maximum(numbers.max(axis, keepdims=True), -1e300)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(numbers - high).sum(axis, keepdims=True)) + high
    return np.asarray(total.squeeze(axis))


def accounts_in_numpy(c: Chain, labels: NDArray[np.int32]) -> Accounts:
    """In the log domain; without samples."""
    posteriors, pairs = np.zeros((c.starts.size, c.n)), np.zeros((c.n, c.n))
    best, given, entropy = [], [], []
    for low, end in zip(np.flatnonzero(c.starts).tolist(), np.flatnonzero(c.ends).tolist(), strict=True):
        here = range(low + 1, end + 1)
        s, y = c.scores[:, : c.n], labels
        ahead, after, high = {low: s[low]}, {end: np.zeros(c.n)}, {low: s[low]}
        for t in here:
            ahead[t] = log_sum(ahead[t - 1][:, None] + c.edge(t), 0) + s[t]
            high[t] = (high[t - 1][:, None] + c.edge(t)).max(0) + s[t]
        for t in reversed(here):
            after[t - 1] = log_sum(c.edge(t) + s[t] + after[t], 1)
        log_z = log_sum(ahead[end], 0)
        score = s[low, y[low]] + sum(c.edge(t)[y[t - 1], y[t]] + s[t, y[t]] for t in here)
        mean = 0.0  # of the score
        for t in range(low, end + 1):
            posteriors[t] = np.exp(ahead[t] + after[t] - log_z)
            mean += np.sum(posteriors[t] * s[t])
        for t in here:
            joint = np.exp(ahead[t - 1][:, None] + c.edge(t) + s[t] + after[t] - log_z)
            pairs += joint
            mean += np.sum(joint[joint > 0.0] * c.edge(t)[joint > 0.0])
        best.append(high[end].max() - log_z)
        given.append(score - log_z)
        entropy.append(log_z - mean)
    return Accounts(posteriors, pairs, np.array(best), np.array(given), np.array(entropy), np.empty((0, 0), np.int32))


@pytest.mark.parametrize(("n", "width"), [shape for shape in SHAPES if shape[0] <= 65])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_probabilities_entropy_and_pairs(n: int, width: int, own: bool, wide: bool) -> None:
    c = chain(n, width, 40, own)
    labels = np.zeros(40, np.int32)  # a label may follow itself
    ours, theirs = accounts(c, labels, wide), accounts_in_numpy(c, labels)
    for name in ("posteriors", "pairs", "best", "given", "entropy"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-11, atol=1e-11, err_msg=name)
    labels = ours.samples[0].astype(np.int32)
    assert np.isfinite(accounts(c, labels, wide).given).all()
    core.given_probability(lattice_of(c, np.full(40, -1, np.int32), wide)[0], c.ends, -1, np.zeros(2), ours.given)
    assert np.isnan(ours.given).all()


def test_samples_have_the_frequencies_of_posteriors() -> None:
    for wide in (False, True):
        c = chain(5, 8, 12)
        lattice, gammas = lattice_of(c, np.zeros(12, np.int32), wide)
        samples = np.zeros((13, 20000), np.int32)
        assert core.draw(lattice, gammas, np.random.default_rng(0).random((12, 20000)), samples) == OK
        shares = np.stack([(samples[1:] == label).mean(1) for label in range(5)], axis=1)
        np.testing.assert_allclose(shares, gammas[:, :5], atol=0.02)


@pytest.mark.parametrize("n", [1, 3, 8, 33, 300])
@pytest.mark.parametrize("valued", [False, True])
def test_one_sequence_of_items(n: int, valued: bool) -> None:
    """Two attributes have padded rows, a third one an entry for label 0 alone."""
    random, width, size = np.random.default_rng(n), padded(n), 7
    dense = np.zeros((2, width))
    dense[:, :n] = random.normal(size=(2, n))
    rows = RowLayout(2, np.array([0, 1]), np.zeros(1, np.uint16), tiles_of(n), width)
    weights = Slots(dense.ravel(), np.array([0.75]), np.empty(0), np.empty(0))
    blank = np.where(np.arange(width) < n, 0.0, -np.inf)
    counts = random.integers(0, 4, size)
    offsets = np.append(0, np.cumsum(counts))
    ids = random.integers(0, 3, offsets[-1]).astype(np.int32)
    values = random.normal(size=ids.size) if valued else np.empty(0)
    first, last = (np.array([0]), np.array([n - 1])) if n > 1 else (np.empty(0, np.int64), np.empty(0, np.int64))
    c = chain(n, width, size)._replace(starts=np.arange(size) == 0, ends=np.arange(size) == size - 1)
    table = np.vstack([dense[:, :n], 0.75 * (np.arange(n) == 0)])
    c.scores[:, :n] = 0.0
    for t in range(size):
        for k in range(offsets[t], offsets[t + 1]):
            c.scores[t, :n] += table[ids[k]] * (values[k] if valued else 1.0)
    c.scores[0, first] = c.scores[-1, last] = -np.inf

    given = offsets, ids, values, rows, weights, blank
    out = np.empty((size, width))
    assert core.score_sequence(*given, 1e300, first, last, out) == OK
    np.testing.assert_allclose(out, c.scores, rtol=1e-13, atol=1e-13)
    _, _, back, finals, _ = viterbi(c._replace(scores=out))
    expected = np.empty(size, np.int32)
    core.trace(back, int(finals[-1]), expected)
    room, labels = np.empty_like(back), np.empty(size, np.int32)
    assert core.label_sequence(*given, 1e300, first, last, c.edges, room, labels) == OK
    assert labels.tolist() == expected.tolist()

    most = counts.max() * (np.abs(values).max() if valued else 1.0)
    assert core.label_sequence(*given, most, first, last, c.edges, room, labels) == TOO_LARGE
    assert core.score_sequence(*given, most, first, last, out) == TOO_LARGE
    assert core.score_sequence(*given, np.nextafter(most, np.inf), first, last, out) == OK


def digest() -> str:
    """Of all results."""
    digest = hashlib.sha256()
    for c in every():
        for result in (*viterbi(c)[2:], *rank(c.part(0, 9), 5)):
            digest.update(result.tobytes())
        for wide in (False, True):
            if c.starts.size == min(SIZES):
                for result in accounts(c, np.zeros(c.starts.size, np.int32), wide):
                    digest.update(np.ascontiguousarray(result).tobytes())
    return digest.hexdigest()


def test_all_levels_have_the_same_bits() -> None:
    others = [level for level in core.levels() if level not in (core.LEVEL, "portable")]
    for level in others:
        done = subprocess.run(
            [sys.executable, __file__],
            env=os.environ | {"CHAINFOLD_CORE": level},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == digest(), level


if __name__ == "__main__":
    print(digest())
