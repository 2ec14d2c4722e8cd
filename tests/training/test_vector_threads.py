"""Passes over vectors: the sums and vectors of plain NumPy, whoever does the work; nobody stays behind."""

from __future__ import annotations

import gc
import math
import threading
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from chainfold import core
from chainfold.training.optimisers.vector_threads import _LEAST_SHARED, VectorThreads

SIZES = [0, 1, core.CHUNK, core.CHUNK + 1, _LEAST_SHARED + 77]


def drawn(size: int, count: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng([size, seed])
    return [rng.normal(size=size) * (rng.random(size) < 0.8) for _ in range(count)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_penalty(size: int, threads: int) -> None:
    g, observed, x = drawn(size, 3)
    expected = g - observed + 2.0 * 0.3 * x
    sums = VectorThreads(threads).run(core.penalise, size, 2, g, observed, x, 0.3)
    np.testing.assert_allclose(sums, [x @ x, observed @ x], rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(g, expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_step_within_the_orthant(size: int, threads: int) -> None:
    x, d, downhill, trial = drawn(size, 4)
    z = x + 0.7 * d
    z[np.sign(z) != np.sign(np.where(x == 0.0, -downhill, x))] = 0.0
    sums = VectorThreads(threads).run(core.step_within, size, 2, trial, x, 0.7, d, downhill)
    np.testing.assert_allclose(trial, z, rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(trial == 0.0, z == 0.0)
    np.testing.assert_allclose(sums, [(z - x) @ downhill, np.abs(z).sum()], rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("new", [-1, 0, 2])
@pytest.mark.parametrize("c1", [0.0, 0.4])
def test_an_arrival_and_a_direction(size: int, new: int, c1: float) -> None:
    most, chunks, length = 3, -(-size // core.CHUNK), min(size, core.CHUNK)
    x, x_before, g, g_before, d = drawn(size, 5)
    downhill = np.zeros(size) if c1 else g
    pairs = np.random.default_rng(0).normal(size=(chunks, 2 * most, length))

    def whole(k: int) -> Any:
        return pairs[:, k].ravel()[:size].copy()

    before = [whole(k) for k in range(2 * most)]
    threads = VectorThreads(2)
    how = (x, x_before, g, g_before, c1, downhill, pairs, new)
    sums = threads.run(core.arrive, size, 4 + 4 * most, *how)
    if new >= 0:
        before[new], before[most + new] = x - x_before, g - g_before
        np.testing.assert_allclose(sums[0], before[new] @ before[new], rtol=1e-11)
        products = [row @ before[most + new] for row in before]
        np.testing.assert_allclose(sums[4::2], products, rtol=1e-11, atol=1e-8)
    for k, row in enumerate(before):
        np.testing.assert_array_equal(whole(k), row)
    at_zero = np.where(g > c1, g - c1, np.where(g < -c1, g + c1, 0.0))
    np.testing.assert_allclose(downhill, np.where(x == 0.0, at_zero, g + c1 * np.sign(x)), rtol=1e-15)
    np.testing.assert_allclose(sums[1:4], [x @ x, downhill @ downhill, np.count_nonzero(x)], rtol=1e-11)
    np.testing.assert_allclose(sums[5::2], [row @ downhill for row in before], rtol=1e-11, atol=1e-8)

    shares = np.array([0.5, 0.0, -2.0, 1.5, 0.0, 0.1])
    sums = threads.run(core.combine, size, 2, d, -0.6, downhill, shares, pairs, c1 > 0.0)
    expected = -0.6 * downhill + sum(share * row for share, row in zip(shares, before, strict=True))
    if c1:
        expected[expected * downhill >= 0.0] = 0.0
    np.testing.assert_allclose(d, expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(sums, [d @ downhill, d @ d], rtol=1e-11, atol=1e-8)


KERNELS: dict[str, tuple[Any, int, int, Callable[..., tuple[Any, ...]]]] = {
    "penalise": (core.penalise, 2, 3, lambda g, observed, x: (g, observed, x, 0.3)),
    "step_along": (core.step_along, 0, 3, lambda trial, x, d: (trial, x, 0.7, d)),
    "step_within": (core.step_within, 2, 4, lambda trial, x, d, downhill: (trial, x, 0.7, d, downhill)),
    "keep": (core.keep, 1, 3, lambda kept, g, d: (kept, g, d)),
    "sgd": (core.sgd, 2, 3, lambda x, g, total: (x, g, 0.1, total, 0.3, 4, np.zeros((0, x.size)))),
    "adagrad": (core.adagrad, 2, 4, lambda x, g, total, q: (x, g, 0.1, total, 0.3, 4, (q * q)[None])),
    "adam": (core.adam, 2, 4, lambda x, g, total, q: (x, g, 0.1, total, 0.3, 4, np.stack([q, q * q]))),
    "arrive": (
        core.arrive,
        12,
        5,
        lambda x, x_before, g, g_before, down: (x, x_before, g, g_before, 0.4, down, np.ones((1, 4, x.size)), 1),
    ),
    "combine": (
        core.combine,
        2,
        2,
        lambda d, down: (d, -0.6, down, np.array([0.3, 1.7]), np.stack([np.sin(down), np.cos(down)])[None], True),
    ),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("size", [9, 20, 31, 100])
def test_where_vectors_lie_in_memory_changes_no_bit(name: str, size: int) -> None:
    """Short vectors side by side are so close that compiled loops treat them as if they overlapped."""
    kernel, sums, count, arguments = KERNELS[name]
    for seed in range(5):
        answers = []
        for gap in (0, 2, 10_000):
            places = [slice(k * (size + gap), k * (size + gap) + size) for k in range(count)]
            for order in permutations(places):
                memory = np.zeros(count * (size + gap))
                for place, values in zip(order, drawn(size, count, seed), strict=True):
                    memory[place] = values
                how = arguments(*(memory[place] for place in order))
                found = VectorThreads().run(kernel, size, sums, *how)
                answers.append([found.tobytes(), *(one.tobytes() for one in how if isinstance(one, np.ndarray))])
        assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("size", [3, 2 * _LEAST_SHARED])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_is_not_finite_shows_in_the_sum(size: int, wrong: float) -> None:
    g, d, kept = drawn(size, 3)
    g[-1] = wrong
    d[-1] = 1.0
    (slope,) = VectorThreads(2).run(core.keep, size, 1, kept, g, d)
    assert not math.isfinite(slope)
    np.testing.assert_array_equal(kept, g)


def test_nobody_stays_behind() -> None:
    before = set(threading.enumerate())
    threads = VectorThreads(4)
    g, d, kept = drawn(_LEAST_SHARED, 3)
    threads.run(core.keep, 100, 1, kept[:100], g[:100], d[:100])
    assert set(threading.enumerate()) <= before, "a short vector wakes nobody"
    threads.run(core.keep, g.size, 1, kept, g, d)
    helpers = set(threading.enumerate()) - before
    assert helpers
    del threads
    gc.collect()
    for helper in helpers:
        helper.join(10.0)
        assert not helper.is_alive()


def test_an_error_of_a_helper_is_not_lost() -> None:
    def fails(first: int, last: int, sums: Any) -> None:
        if first:
            raise ArithmeticError("of a helper")

    with pytest.raises(ArithmeticError, match="of a helper"):
        VectorThreads(2).run(fails, _LEAST_SHARED, 0)
