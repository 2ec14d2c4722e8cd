"""Sums of signed logarithms, and the paper's algorithms on every level of processor."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import numpy as np
import pytest

from chainfold import Chain, Layout, Model
from chainfold.core import log_total, quotients
from chainfold.core._level import levels
from chainfold.engines.problem import Problem
from chainfold.engines.published.log_domain import before_the_chain, log_scores
from chainfold.engines.settings import Settings
from chainfold.model.layout import Floats
from shapes import plain

pytestmark = pytest.mark.quick

NEVER = -np.inf
ROUNDING = 1e-14


def quotient(logs: list[float], signs: list[int], log_z: float = 0.0) -> float:
    out = np.empty(1)
    quotients(np.array([logs]), np.array([signs], np.int8), log_z, out)
    return float(out[0])


def test_a_sum_of_signed_logarithms() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        logs, signs = rng.normal(0.0, 3.0, 9), rng.choice([-1, 1], 9)
        terms = signs * np.exp(logs)
        found = quotient(logs.tolist(), signs.tolist(), 2.0)
        assert abs(found - terms.sum() / np.exp(2.0)) <= ROUNDING * np.abs(terms).sum()


@pytest.mark.parametrize(
    ("logs", "signs", "log_z", "expected"),
    [
        ([1.0, 1.0], [1, -1], 0.0, 0.0),
        ([1.0, 1.0, 2.0], [1, -1, -1], 2.0, -1.0),
        ([NEVER, 3.0], [0, -1], 3.0, -1.0),
        ([3.0, NEVER], [-1, 0], 3.0, -1.0),
        ([NEVER, NEVER], [0, 0], -5.0, 0.0),
        ([5000.0, 5000.0], [1, 1], 5000.0, 2.0),
        ([-5000.0, 3.0], [-1, 1], 3.0, 1.0),
        ([5000.0], [-1], 0.0, -np.inf),
    ],
)
def test_opposite_signs_zeros_and_numbers_out_of_range(
    logs: list[float], signs: list[int], log_z: float, expected: float
) -> None:
    assert quotient(logs, signs, log_z) == pytest.approx(expected, rel=ROUNDING)


def test_a_sum_of_logarithms() -> None:
    assert log_total(np.array([NEVER, NEVER])) == NEVER
    assert log_total(np.array([NEVER, 2.0, NEVER])) == 2.0
    assert log_total(np.array([-800.0, 800.0])) == 800.0
    logs = np.random.default_rng(1).normal(0.0, 5.0, 50)
    assert log_total(logs) == pytest.approx(np.logaddexp.reduce(logs), rel=ROUNDING)


def everything(core: ModuleType, model: Model, chain: Chain) -> list[Floats]:
    """All that both algorithms compute of a chain in two blocks."""
    problem, features = Problem(model, chain, Settings()), model.layout.features
    n, size = model.layout.n_labels, model.layout.size
    u, alpha, beta = (
        np.empty((chain.positions, n, n)),
        np.empty((chain.positions, n)),
        np.zeros((chain.positions + 1, n)),
    )
    gradient, sign = np.full(size, NEVER), np.zeros(size, np.int8)
    z, h, signs = before_the_chain(n), np.full((size, n, n), NEVER), np.zeros((size, n, n), np.int8)
    entry, out = before_the_chain(n), np.empty(size)
    for low, high in ((0, 7), (7, chain.positions)):
        block = problem.read(low, high)
        scores = log_scores(problem, low, block)
        core.kernels_and_forward(block, *scores, u[low:high], alpha[low - 1] if low else entry, alpha[low:high])
        core.carry_expectations(block, *scores, features, z, h, signs)
    core.backward_vectors(u, beta)
    core.terminate(problem.read(0, chain.positions), u, entry, alpha, beta, features, gradient, sign)
    core.quotients(gradient[:, None], sign[:, None], core.log_total(alpha[-1]), out)
    return [u, alpha, beta, gradient, z, h, out]


def test_the_bits_are_the_same_on_every_level() -> None:
    model, chain = plain(20, 5, n_edge_attributes=2)(np.random.default_rng(2))
    model = Model(Layout.full(5, 4, 2), model.weights)
    found = {
        level: everything(import_module(f"chainfold.core._math_{level.removeprefix('x86-64-')}"), model, chain)
        for level in levels()
    }
    first = found[levels()[0]]
    for level, arrays in found.items():
        for ours, theirs in zip(arrays, first, strict=True):
            if level == "portable":
                assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-12)
            else:
                assert np.array_equal(ours, theirs)
