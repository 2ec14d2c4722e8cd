"""Passes over vectors beside plain NumPy, chunk by chunk; the same bits at each level of processor."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from chainfold import core
from chainfold.chain.synthetic import SyntheticChain
from chainfold.core._level import levels
from chainfold.model.layout import Layout
from chainfold.model.model import Model
from chainfold.training.perceptron import PerceptronSettings, PerceptronTrainer

Floats = NDArray[np.float64]
SIZES = [1, 7, 8, 511, 512, 513, 5000]
C1, STEP, RATE, SHRINK, STEPS = 0.4, 0.7, 0.3, 0.1, 4
SHARES = np.array([0.5, 0.0, -2.0, 1.5, 0.0, 0.1])
PAIRS = SHARES.size // 2


def drawn(size: int, count: int) -> list[Floats]:
    """Vectors with zeros."""
    rng = np.random.default_rng(size)
    return [rng.normal(size=size) * (rng.random(size) < 0.8) for _ in range(count)]


def chunks(size: int) -> int:
    return -(-size // core.CHUNK)


def drawn_pairs(size: int) -> Floats:
    return np.random.default_rng(0).normal(size=(chunks(size), 2 * PAIRS, min(size, core.CHUNK)))


def rows_of(pairs: Floats, size: int) -> list[Floats]:
    """[2 · PAIRS, size]: each s, then each y."""
    return [pairs[:, k].ravel()[:size].copy() for k in range(2 * PAIRS)]


def by_chunks(*products: Floats) -> Floats:
    """[chunks, products]: sums over each chunk."""
    begins = np.arange(0, products[0].size, core.CHUNK)
    return np.stack([np.add.reduceat(product, begins) for product in products], axis=1)


def passed(function: Callable[..., None], size: int, count: int, *arguments: Any) -> Floats:
    """The sums of a pass in two runs of chunks, the later one first."""
    sums, middle = np.full((chunks(size), count), np.nan), chunks(size) // 2
    function(middle, chunks(size), sums, *arguments)
    function(0, middle, sums, *arguments)
    return sums


def check(found: Floats, expected: Floats) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_a_penalty(size: int) -> None:
    g, observed, x = drawn(size, 3)
    expected = g - observed + 2.0 * 0.3 * x
    check(passed(core.penalise, size, 2, g, observed, x, 0.3), by_chunks(x * x, observed * x))
    check(g, expected)


@pytest.mark.parametrize("size", SIZES)
def test_a_step(size: int) -> None:
    x, d, trial = drawn(size, 3)
    passed(core.step_along, size, 0, trial, x, STEP, d)
    check(trial, x + STEP * d)


@pytest.mark.parametrize("size", SIZES)
def test_a_step_within_the_orthant(size: int) -> None:
    x, d, downhill, trial = drawn(size, 4)
    z = x + STEP * d
    z[np.sign(z) != np.sign(np.where(x == 0.0, -downhill, x))] = 0.0
    sums = passed(core.step_within, size, 2, trial, x, STEP, d, downhill)
    check(trial, z)
    np.testing.assert_array_equal(trial == 0.0, z == 0.0)
    check(sums, by_chunks((z - x) * downhill, np.abs(z)))


@pytest.mark.parametrize("size", SIZES)
def test_a_gradient_that_is_kept(size: int) -> None:
    g, d, kept = drawn(size, 3)
    check(passed(core.keep, size, 1, kept, g, d), by_chunks(g * d))
    np.testing.assert_array_equal(kept, g)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("new", [-1, 0, 2])
@pytest.mark.parametrize("c1", [0.0, C1])
def test_an_arrival(size: int, new: int, c1: float) -> None:
    x, x_before, g, g_before = drawn(size, 4)
    downhill, pairs = np.zeros(size) if c1 else g, drawn_pairs(size)
    rows = rows_of(pairs, size)
    sums = passed(core.arrive, size, 4 + 4 * PAIRS, x, x_before, g, g_before, c1, downhill, pairs, new)
    if new >= 0:
        rows[new], rows[PAIRS + new] = x - x_before, g - g_before
    at_zero = np.where(g > c1, g - c1, np.where(g < -c1, g + c1, 0.0))
    down = np.where(x == 0.0, at_zero, g + c1 * np.sign(x))
    y, square = rows[PAIRS + max(new, 0)], rows[new] * rows[new] if new >= 0 else np.zeros(size)
    products = [product for row in rows for product in (row * y, row * down)]
    np.testing.assert_array_equal(rows_of(pairs, size), rows)
    check(downhill, down)
    check(sums, by_chunks(square, x * x, down * down, (x != 0.0).astype(float), *products))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("align", [False, True])
def test_a_direction(size: int, align: bool) -> None:
    downhill, d = drawn(size, 2)
    pairs = drawn_pairs(size)
    expected = -0.6 * downhill + SHARES @ np.array(rows_of(pairs, size))
    if align:
        expected[expected * downhill >= 0.0] = 0.0
    sums = passed(core.combine, size, 2, d, -0.6, downhill, SHARES, pairs, align)
    check(d, expected)
    check(sums, by_chunks(d * downhill, d * d))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("place", [3, 17])
def test_a_direction_that_is_not_a_number_shows_in_the_sums(align: bool, place: int) -> None:
    downhill, d = np.ones(20), np.zeros(20)
    pairs = np.zeros((1, 2, 20))
    pairs[0, 1, place] = np.nan
    assert np.isnan(passed(core.combine, 20, 2, d, -1.0, downhill, np.ones(2), pairs, align)).all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam"])
def test_a_step_of_descent(size: int, name: str) -> None:
    x, g, total, p, q = drawn(size, 5)
    before, moments = x.copy(), np.stack([p, q * q] if name == "adam" else [q * q])
    whole = g + SHRINK * x
    expected_total = total + whole
    if name == "sgd":
        expected, kept = x - RATE * whole, moments.copy()
    elif name == "adagrad":
        kept = moments + whole * whole
        expected = x - RATE * whole / (np.sqrt(kept[0]) + 1e-8)
    else:
        kept = np.stack([0.9 * p + 0.1 * whole, 0.999 * q * q + 0.001 * whole * whole])
        mean, square = kept[0] / (1.0 - 0.9**STEPS), kept[1] / (1.0 - 0.999**STEPS)
        expected = x - RATE * mean / (np.sqrt(square) + 1e-8)
    sums = passed(getattr(core, name), size, 2, x, g, SHRINK, total, RATE, STEPS, moments)
    check(sums, by_chunks(g * g, before * before))
    check(total, expected_total)
    check(moments, kept)
    check(x, expected)


def test_adam_at_a_late_step() -> None:
    """Powers of the decay rates vanish."""
    x, g, total = drawn(9, 3)
    moments = np.abs(np.stack(drawn(9, 2)))
    expected = 0.9 * moments[0] + 0.1 * g, 0.999 * moments[1] + 0.001 * g * g
    moved = x - expected[0] / (np.sqrt(expected[1]) + 1e-8)
    passed(core.adam, 9, 2, x, g, 0.0, total, 1.0, 10**9, moments)
    check(x, moved)


@pytest.mark.parametrize("wrong", [np.zeros(9, np.float32), np.zeros(18)[::2], np.zeros((3, 3)), [0.0] * 9])
def test_an_array_of_another_kind_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="keep"):
        core.keep(0, 1, np.zeros((1, 1)), np.zeros(9), wrong, np.zeros(9))


def test_an_array_that_is_written_to_is_not_read_only() -> None:
    fixed = np.zeros(9)
    fixed.flags.writeable = False
    core.keep(0, 1, np.zeros((1, 1)), np.ones(9), fixed, fixed)
    with pytest.raises(TypeError, match="keep"):
        core.keep(0, 1, np.zeros((1, 1)), fixed, np.ones(9), np.ones(9))


def answers() -> str:
    """A digest of all passes and of perceptrons, at the level that was taken."""
    digest = hashlib.sha256()
    for size in SIZES:
        for name, sums, count in (("penalise", 2, 3), ("step_along", 0, 3), ("step_within", 2, 4), ("keep", 1, 3)):
            a, b, *rest = vectors = drawn(size, count)
            how = (a, b, STEP, *rest) if name.startswith("step") else vectors
            more = [0.3] if name == "penalise" else []
            digest.update(passed(getattr(core, name), size, sums, *how, *more).tobytes() + np.stack(vectors).tobytes())
        for name in ("sgd", "adagrad", "adam"):
            x, g, total, p, q = vectors = drawn(size, 5)
            moments = np.stack([q * q, p * p])
            how = (x, g, SHRINK, total, RATE, STEPS, moments)
            digest.update(passed(getattr(core, name), size, 2, *how).tobytes())
            digest.update(np.stack(vectors).tobytes() + moments.tobytes())
        x, x_before, g, g_before, downhill, d = vectors = drawn(size, 6)
        pairs = drawn_pairs(size)
        how = (x, x_before, g, g_before, C1, downhill, pairs, 1)
        digest.update(passed(core.arrive, size, 4 + 4 * PAIRS, *how).tobytes())
        digest.update(passed(core.combine, size, 2, d, -0.6, downhill, SHARES, pairs, True).tobytes())
        digest.update(np.stack(vectors).tobytes() + pairs.tobytes())
    for n_labels, algorithm in ((2, "ap"), (5, "pa"), (13, "arow"), (70, "ap")):
        chain = SyntheticChain(400, n_labels, 30, 3)
        layout = Layout.observed(chain)
        settings = PerceptronSettings(algorithm, max_iterations=2)
        trainer = PerceptronTrainer(Model(layout, np.zeros(layout.size)), chain, settings)
        while trainer.finished is None:
            trainer.advance()
        digest.update(trainer.point.tobytes())
    return digest.hexdigest()


def test_two_levels_give_the_same_bits() -> None:
    others = [level for level in levels() if level not in (core.LEVEL, "portable")]
    if core.LEVEL == "portable" or not others:
        pytest.skip("one level with fused multiply-add alone")
    command = [sys.executable, "-c", "import test_vectors; print(test_vectors.core.LEVEL, test_vectors.answers())"]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = os.environ | {"CHAINFOLD_CORE": others[0], "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [others[0], answers()]
