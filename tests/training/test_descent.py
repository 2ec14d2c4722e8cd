"""Descent by batches: the rules of the three algorithms, convergence, and runs that go on with the same bits."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from chainfold.errors import ChainfoldError
from chainfold.training.optimisers import base
from chainfold.training.optimisers.descent import ALGORITHMS, Descent, DescentSettings
from chainfold.training.optimisers.vector_threads import _LEAST_SHARED
from optimisers import run

pytestmark = pytest.mark.quick

Floats = NDArray[np.float64]
BatchGradient = Callable[[int, Floats], tuple[float, Floats]]

NAMES = sorted(ALGORITHMS)
BATCHES, SIZE = 12, 10


def logistic(seed: int, rows: int = 20) -> BatchGradient:
    """Logistic regression, its rows in batches."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(BATCHES, rows, SIZE))
    signs = np.where(a @ rng.normal(size=SIZE) + rng.normal(size=(BATCHES, rows)) > 0.0, 1.0, -1.0)

    def gradient(k: int, x: Floats) -> tuple[float, Floats]:
        margins = signs[k] * (a[k] @ x)
        return float(np.logaddexp(0.0, -margins).sum()), -a[k].T @ (signs[k] * np.exp(-np.logaddexp(0.0, margins)))

    return gradient


def whole(gradient: BatchGradient, c2: float) -> Callable[[Floats], tuple[float, Floats]]:
    def objective(x: Floats) -> tuple[float, Floats]:
        parts = [gradient(k, x) for k in range(BATCHES)]
        value = math.fsum(value for value, _ in parts) + c2 * float(x @ x)
        return value, np.sum([part for _, part in parts], axis=0) + 2.0 * c2 * x

    return objective


@pytest.mark.parametrize("algorithm", NAMES)
def test_it_comes_near_the_optimum(algorithm: str) -> None:
    gradient, c2 = logistic(1), 0.5
    objective = whole(gradient, c2)
    best = minimize(objective, np.zeros(SIZE), jac=True, method="L-BFGS-B")
    choice = DescentSettings(algorithm=algorithm, c2=c2, max_iterations=100, period=0)
    optimiser = Descent(gradient, BATCHES, np.zeros(SIZE), choice)
    steps = run(optimiser)
    assert len(steps) == 100
    assert objective(optimiser.point)[0] == pytest.approx(best.fun, rel=2e-3)
    assert steps[-1].value == pytest.approx(best.fun, rel=0.02)  # estimated in passing
    np.testing.assert_allclose(optimiser.point, best.x, atol=0.1)


def reference(algorithm: str, gradients: list[Floats], rate: float) -> Floats:
    """The published rules, on given gradients, from zero."""
    x, total = np.zeros(SIZE), np.zeros(SIZE)
    m, v = np.zeros(SIZE), np.zeros(SIZE)
    for t, g in enumerate(gradients, start=1):
        if algorithm == "sgd":
            x = x - rate * g
        elif algorithm == "adagrad":
            total = total + g**2
            x = x - rate * g / (np.sqrt(total) + 1e-8)
        else:
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * g**2
            x = x - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return x


@pytest.mark.parametrize("algorithm", NAMES)
def test_the_rules(algorithm: str) -> None:
    rng = np.random.default_rng(2)
    fixed = rng.normal(size=(BATCHES, SIZE)) * 10.0 ** rng.uniform(-2, 2, SIZE)
    fixed[:, 3] = 0.0
    met: list[Floats] = []

    def gradient(k: int, x: Floats) -> tuple[float, Floats]:
        met.append(fixed[k])
        return 0.0, fixed[k]

    optimiser = Descent(
        gradient, BATCHES, np.zeros(SIZE), DescentSettings(algorithm=algorithm, rate=0.3, decay=0.0, max_iterations=2)
    )
    for _ in range(BATCHES + 5):
        optimiser.advance()
        np.testing.assert_allclose(optimiser.point, reference(algorithm, met, 0.3), rtol=1e-11, atol=1e-14)
    assert optimiser.point[3] == 0.0


def test_the_penalty_is_shared_out_over_the_batches() -> None:
    """With nothing but the penalty, each batch shrinks the weights by 2 · c2 · η / batches."""
    start = np.linspace(-1.0, 1.0, SIZE)
    choice = DescentSettings(algorithm="sgd", c2=3.0, rate=0.1, decay=0.0, max_iterations=1)
    optimiser = Descent(lambda k, x: (0.0, np.zeros(SIZE)), BATCHES, start, choice)
    (step,) = run(optimiser)
    factor = 1.0 - 2.0 * 3.0 * 0.1 / BATCHES
    np.testing.assert_allclose(optimiser.point, start * factor**BATCHES, rtol=1e-12)
    norms = [float(start @ start) * factor ** (2 * k) for k in range(BATCHES)]
    assert step.value == pytest.approx(3.0 * sum(norms) / BATCHES)


def test_the_rate_falls_with_the_epochs() -> None:
    choice = DescentSettings(algorithm="sgd", rate=0.8, decay=0.5, max_iterations=3, period=0)
    optimiser = Descent(lambda k, x: (0.0, np.ones(SIZE)), 2, np.zeros(SIZE), choice)
    moves = []
    while not optimiser.finished:
        before = optimiser.point[0]
        optimiser.advance()
        moves.append(before - optimiser.point[0])
    np.testing.assert_allclose(moves, [0.8 / (1.0 + 0.5 * t / 2) for t in range(6)])


def test_an_epoch_meets_every_batch_once_in_an_order_of_its_own() -> None:
    met: list[int] = []

    def gradient(k: int, x: Floats) -> tuple[float, Floats]:
        met.append(k)
        return float(k), np.full(SIZE, float(k))

    choice = DescentSettings(algorithm="sgd", rate=1e-9, max_iterations=4, period=0)
    steps = run(Descent(gradient, BATCHES, np.zeros(SIZE), choice))
    epochs = [met[low : low + BATCHES] for low in range(0, len(met), BATCHES)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(BATCHES))] * 4
    assert len({tuple(epoch) for epoch in epochs}) == 4
    total = BATCHES * (BATCHES - 1) / 2
    assert [step.iteration for step in steps] == [1, 2, 3, 4]
    assert [step.value for step in steps] == [total] * 4
    assert [step.evaluations for step in steps] == [BATCHES] * 4
    np.testing.assert_allclose([step.gradient_norm for step in steps], total * math.sqrt(SIZE))
    assert steps[0].active == SIZE
    again, met = met, []
    run(Descent(gradient, BATCHES, np.zeros(SIZE), choice))
    assert met == again
    met = []
    run(Descent(gradient, BATCHES, np.zeros(SIZE), DescentSettings(algorithm="sgd", max_iterations=4, seed=1)))
    assert met != again


@pytest.mark.parametrize("algorithm", NAMES)
def test_threads_change_no_bit(algorithm: str) -> None:
    size = 2 * _LEAST_SHARED + 1234
    fixed = np.random.default_rng(7).normal(size=(3, size))
    runs = []
    for threads in (1, 2, 5):
        choice = DescentSettings(algorithm=algorithm, c2=0.5, max_iterations=2)
        optimiser = Descent(lambda k, x: (1.0, fixed[k] + 0.1 * x), 3, np.zeros(size), choice, threads)
        runs.append((run(optimiser), optimiser.point.tobytes()))
    assert runs[1:] == runs[:1] * 2


def test_a_state_that_does_not_fit_is_refused() -> None:
    gradient = logistic(3)
    state = Descent(gradient, BATCHES, np.zeros(SIZE)).state()
    with pytest.raises(ChainfoldError, match="the saved state does not fit: point"):
        Descent(gradient, BATCHES, np.zeros(SIZE + 1)).restore(state)
    with pytest.raises(ChainfoldError, match="does not fit: moments"):
        Descent(gradient, BATCHES, np.zeros(SIZE), DescentSettings(algorithm="adam")).restore(state)
    with pytest.raises(ChainfoldError, match="it is that of a run over 12 batches"):
        Descent(gradient, BATCHES + 1, np.zeros(SIZE)).restore(state)
    with pytest.raises(ChainfoldError, match="another optimiser: it differs in moments"):
        Descent(gradient, BATCHES, np.zeros(SIZE)).restore({k: v for k, v in state.items() if k != "moments"})


def test_why_it_ends() -> None:
    gradient = logistic(4)
    limited = Descent(gradient, BATCHES, np.zeros(SIZE), DescentSettings(max_iterations=2))
    assert len(run(limited)) == 2
    assert limited.finished == base.ENOUGH_ITERATIONS
    assert limited.advance() is None
    flat = Descent(
        gradient, BATCHES, np.zeros(SIZE), DescentSettings(c2=1.0, period=2, delta=0.01, max_iterations=None)
    )
    values = [step.value for step in run(flat)]
    assert flat.finished == base.LITTLE_GAIN
    assert values[-3] - values[-1] <= 0.01 * values[-1]
    assert values[-4] - values[-2] > 0.01 * values[-2]
    still = Descent(lambda k, x: (1.0, np.zeros(SIZE)), BATCHES, np.zeros(SIZE))
    assert len(run(still)) == 1
    assert still.finished == base.SMALL_GRADIENT


@pytest.mark.parametrize("answer", [(math.nan, np.zeros(SIZE)), (1.0, np.full(SIZE, math.inf))])
def test_what_is_not_finite_is_named(answer: tuple[float, Floats]) -> None:
    gradient = logistic(5)
    optimiser = Descent(lambda k, x: answer if k == 7 else gradient(k, x), BATCHES, np.zeros(SIZE))
    with pytest.raises(ChainfoldError, match="not finite in batch 7 of epoch 1; choose a smaller rate"):
        run(optimiser)


def test_one_batch_and_one_weight() -> None:
    optimiser = Descent(lambda k, x: (float((x[0] - 2.0) ** 2), 2.0 * (x - 2.0)), 1, [0.0], DescentSettings(rate=1.0))
    assert len(run(optimiser)) <= 20
    np.testing.assert_allclose(optimiser.point, 2.0, atol=1e-3)


def test_a_gradient_may_reuse_its_array_and_cannot_change_the_point() -> None:
    gradient, kept = logistic(6), np.zeros(SIZE)

    def reusing(k: int, x: Floats) -> tuple[float, Floats]:
        assert not x.flags.writeable
        value, kept[:] = gradient(k, x)
        return value, kept

    choice = DescentSettings(c2=0.3, max_iterations=3)
    assert run(Descent(reusing, BATCHES, np.zeros(SIZE), choice)) == run(
        Descent(gradient, BATCHES, np.zeros(SIZE), choice)
    )
