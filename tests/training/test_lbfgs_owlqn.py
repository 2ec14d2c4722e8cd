"""L-BFGS and OWL-QN against SciPy, on convex problems and awkward ones; interrupted runs go on with the same bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize, rosen, rosen_der

from chainfold.core import CHUNK
from chainfold.errors import ChainfoldError
from chainfold.training.optimisers import base, linesearch
from chainfold.training.optimisers.lbfgs_owlqn import LINE_SEARCHES, Lbfgs, LbfgsSettings, _Pairs
from chainfold.training.optimisers.linesearch import Trial
from chainfold.training.optimisers.vector_threads import _LEAST_SHARED
from optimisers import run

Floats = NDArray[np.float64]
Objective = Callable[[Floats], tuple[float, Floats]]

SEARCHES = sorted(LINE_SEARCHES)
TO_THE_END: dict[str, Any] = {"period": 0, "epsilon": 1e-9, "max_iterations": 3000}


def logistic(seed: int, rows: int, size: int, c2: float = 0.0, spread: float = 0.0) -> Objective:
    """Logistic regression on random rows; columns of scales 10^-spread … 10^spread."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(rows, size)) * 10.0 ** rng.uniform(-spread, spread, size)
    truth = rng.normal(size=size) * (rng.random(size) < 0.3)
    signs = np.where(a @ truth + rng.normal(size=rows) > 0.0, 1.0, -1.0)

    def objective(x: Floats) -> tuple[float, Floats]:
        margins = signs * (a @ x)
        value = np.logaddexp(0.0, -margins).sum() + c2 * (x @ x)
        return float(value), 2.0 * c2 * x - a.T @ (signs * np.exp(-np.logaddexp(0.0, margins)))

    return objective


def quadratic(diagonal: Floats, centre: Floats) -> Objective:
    return lambda x: (0.5 * float(diagonal @ (x - centre) ** 2), diagonal * (x - centre))


def rosenbrock(x: Floats) -> tuple[float, Floats]:
    return float(rosen(x)), np.asarray(rosen_der(x))


def by_scipy(objective: Objective, size: int) -> tuple[float, Floats]:
    options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-16, "gtol": 1e-10}
    found = minimize(objective, np.zeros(size), jac=True, method="L-BFGS-B", options=options)
    return float(found.fun), np.asarray(found.x)


def by_scipy_with_l1(objective: Objective, size: int, c1: float) -> tuple[float, Floats]:
    """x = p - n with p, n ≥ 0, so that ‖x‖₁ is their sum."""

    def split(z: Floats) -> tuple[float, Floats]:
        value, gradient = objective(z[:size] - z[size:])
        return value + c1 * float(z.sum()), np.concatenate([c1 + gradient, c1 - gradient])

    options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-16, "gtol": 1e-10}
    bounds = [(0.0, None)] * (2 * size)
    found = minimize(split, np.zeros(2 * size), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return float(found.fun), np.asarray(found.x[:size] - found.x[size:])


def distance_from_subgradient(objective: Objective, x: Floats, c1: float) -> float:
    """How far zero is from the subgradients of the whole objective: zero at the optimum and only there."""
    gradient = objective(x)[1]
    off_zero = np.abs(gradient + c1 * np.sign(x))
    at_zero = np.maximum(np.abs(gradient) - c1, 0.0)
    return float(np.linalg.norm(np.where(x == 0.0, at_zero, off_zero)))


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_logistic_regression_with_l2_as_scipy_finds_it(search: str, spread: float) -> None:
    objective = logistic(1, 120, 30, c2=0.05, spread=spread)
    optimiser = Lbfgs(objective, np.zeros(30), LbfgsSettings(linesearch=search, **TO_THE_END))
    steps = run(optimiser)
    value, x = by_scipy(objective, 30)
    assert steps[-1].value == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(optimiser.point, x, rtol=1e-4, atol=1e-5)
    assert steps[-1].value == objective(optimiser.point)[0]


@pytest.mark.parametrize("search", SEARCHES)
def test_rosenbrock(search: str) -> None:
    optimiser = Lbfgs(rosenbrock, np.full(10, -1.2), LbfgsSettings(linesearch=search, **TO_THE_END))
    steps = run(optimiser)
    assert optimiser.finished == base.SMALL_GRADIENT
    np.testing.assert_allclose(optimiser.point, 1.0, atol=1e-7)
    assert sum(step.evaluations for step in steps) < 160  # SciPy's L-BFGS-B takes about 110


def test_every_iteration_falls_and_counts_what_it_did() -> None:
    calls = 0
    objective = logistic(2, 80, 20, c2=0.1)

    def counted(x: Floats) -> tuple[float, Floats]:
        nonlocal calls
        calls += 1
        return objective(x)

    optimiser = Lbfgs(counted, np.zeros(20))
    assert calls == 0
    seen = 0
    values = [objective(np.zeros(20))[0]]
    while not optimiser.finished:
        step = optimiser.advance()
        assert step is not None
        seen += step.evaluations
        assert seen == calls
        assert step.value < values[-1]
        values.append(step.value)
        assert step.iteration == len(values) - 1
        assert step.gradient_norm == pytest.approx(np.linalg.norm(objective(optimiser.point)[1]), rel=1e-9)
        assert step.point_norm == pytest.approx(np.linalg.norm(optimiser.point))
        assert step.active == 20
        assert step.step > 0.0


@pytest.mark.parametrize("c1", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_l1_finds_the_optimum_with_exact_zeros(c1: float, spread: float) -> None:
    objective = logistic(4, 120, 40, c2=0.01, spread=spread)
    optimiser = Lbfgs(objective, np.zeros(40), LbfgsSettings(c1=c1, **TO_THE_END))
    steps = run(optimiser)
    value, x = by_scipy_with_l1(objective, 40, c1)
    assert steps[-1].value == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(optimiser.point, x, rtol=1e-3, atol=1e-4)
    assert distance_from_subgradient(objective, optimiser.point, c1) < 1e-5
    zeros = optimiser.point == 0.0
    assert zeros.sum() >= 40 - steps[-1].active >= (1 if c1 > 0.1 else 0)
    assert steps[-1].active == np.count_nonzero(optimiser.point)
    slack = np.abs(objective(optimiser.point)[1]) < 0.99 * c1  # strictly inside: these must be zero
    assert zeros[slack].all()


def test_l1_starts_anywhere() -> None:
    objective = logistic(6, 60, 15, c2=0.05)
    start = np.random.default_rng(0).normal(size=15) * 5.0
    points = []
    for x in (np.zeros(15), start, -start):
        optimiser = Lbfgs(objective, x, LbfgsSettings(c1=0.5, **TO_THE_END))
        run(optimiser)
        points.append(optimiser.point)
    np.testing.assert_allclose(points[1], points[0], atol=1e-6)
    np.testing.assert_allclose(points[2], points[0], atol=1e-6)


def test_enough_l1_leaves_nothing() -> None:
    objective = logistic(7, 60, 15)
    most = float(np.abs(objective(np.zeros(15))[1]).max())
    optimiser = Lbfgs(objective, np.zeros(15), LbfgsSettings(c1=most))
    assert run(optimiser) == []
    assert optimiser.finished == base.SMALL_GRADIENT
    other = Lbfgs(objective, np.ones(15), LbfgsSettings(c1=1.01 * most))
    run(other)
    assert not other.point.any()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 6), c1=st.sampled_from([0.0, 0.1, 1.0]))
def test_small_problems(seed: int, size: int, c1: float) -> None:
    objective = logistic(seed, 20, size, c2=0.1)
    optimiser = Lbfgs(objective, np.zeros(size), LbfgsSettings(c1=c1, period=0, epsilon=1e-8, max_iterations=500))
    run(optimiser)
    value, _ = by_scipy_with_l1(objective, size, c1)
    x = optimiser.point
    assert objective(x)[0] + c1 * np.abs(x).sum() == pytest.approx(value, rel=1e-9, abs=1e-12)
    assert distance_from_subgradient(objective, x, c1) < 1e-6


@settings(max_examples=40, deadline=None)
@given(
    logs=st.lists(st.floats(-3, 3), min_size=1, max_size=8),
    search=st.sampled_from(SEARCHES),
    shift=st.floats(-100, 100),
)
def test_small_quadratics(logs: list[float], search: str, shift: float) -> None:
    diagonal, centre = 10.0 ** np.array(logs), np.full(len(logs), shift)
    optimiser = Lbfgs(quadratic(diagonal, centre), np.zeros(len(logs)), LbfgsSettings(linesearch=search, **TO_THE_END))
    run(optimiser)
    assert optimiser.finished in (base.SMALL_GRADIENT, base.NO_BETTER_STEP)
    np.testing.assert_allclose(optimiser.point, centre, atol=1e-4, rtol=1e-6)


@pytest.mark.parametrize("c1", [0.0, 0.5])
def test_a_run_that_is_interrupted_goes_on_with_the_same_bits(c1: float) -> None:
    objective = logistic(8, 80, 20, c2=0.02, spread=0.5)
    choice = LbfgsSettings(c1=c1, max_iterations=25, num_memories=3, period=4, delta=1e-9)
    whole = Lbfgs(objective, np.zeros(20), choice)
    steps = run(whole)
    assert len(steps) > 12
    for stop in range(len(steps) + 1):
        first = Lbfgs(objective, np.zeros(20), choice)
        for _ in range(stop):
            first.advance()
        saved = {name: array.copy() for name, array in first.state().items()}
        second = Lbfgs(objective, np.ones(20), choice)
        second.restore(saved)
        assert run(second) == steps[stop:]
        assert second.point.tobytes() == whole.point.tobytes()
        assert second.finished == whole.finished


def test_more_iterations_may_be_asked_for_later() -> None:
    objective = logistic(8, 80, 20, c2=0.02)
    first = Lbfgs(objective, np.zeros(20), LbfgsSettings(max_iterations=5))
    run(first)
    second = Lbfgs(objective, np.zeros(20), LbfgsSettings(max_iterations=9))
    second.restore(first.state())
    assert len(run(second)) == 4
    assert second.finished == base.ENOUGH_ITERATIONS


def test_a_state_that_does_not_fit_is_refused() -> None:
    objective = logistic(8, 80, 20, c2=0.02)
    state = Lbfgs(objective, np.zeros(20)).state()
    with pytest.raises(ChainfoldError, match=r"point is float64 of shape \(20,\), where this run has .* \(19,\)"):
        Lbfgs(objective, np.zeros(19)).restore(state)
    with pytest.raises(ChainfoldError, match="steps_and_changes is float64"):
        Lbfgs(objective, np.zeros(20), LbfgsSettings(num_memories=7)).restore(state)
    with pytest.raises(ChainfoldError, match="another optimiser: it differs in scale"):
        Lbfgs(objective, np.zeros(20)).restore({name: array for name, array in state.items() if name != "scale"})


def test_an_objective_may_reuse_its_array_and_cannot_change_the_point() -> None:
    objective = logistic(9, 80, 20, c2=0.02)
    kept = np.zeros(20)

    def reusing(x: Floats) -> tuple[float, Floats]:
        assert not x.flags.writeable
        value, kept[:] = objective(x)
        return value, kept

    assert run(Lbfgs(reusing, np.zeros(20))) == run(Lbfgs(objective, np.zeros(20)))


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("c1", [0.0, 1e-3])
@pytest.mark.parametrize("wrong", ["value", "slope"])
def test_a_region_that_is_not_finite_is_kept_out_of(search: str, c1: float, wrong: str) -> None:
    """The first step goes far past where the logarithm ends."""

    def barrier(x: Floats) -> tuple[float, Floats]:
        room = 1e-3 - x
        if (room <= 0.0).any():
            return (math.nan, np.zeros(x.size)) if wrong == "value" else (-math.inf, np.full(x.size, math.nan))
        return float(-np.log(room).sum() - 2e3 * x.sum()), 1.0 / room - 2e3

    optimiser = Lbfgs(barrier, np.zeros(3), LbfgsSettings(c1=c1, linesearch=search, **TO_THE_END))
    run(optimiser)
    np.testing.assert_allclose(optimiser.point, 1e-3 - 1.0 / (2e3 - c1), rtol=1e-6)


@pytest.mark.parametrize("c1", [0.0, 1.0])
def test_a_start_that_is_not_finite_is_refused(c1: float) -> None:
    for answer in ((math.nan, np.zeros(2)), (0.0, np.array([0.0, math.inf])), (math.inf, np.zeros(2))):
        with pytest.raises(ChainfoldError, match="not finite at the starting point"):
            Lbfgs(lambda x, answer=answer: answer, np.zeros(2), LbfgsSettings(c1=c1)).advance()  # type: ignore[misc]


def test_no_weights_at_all() -> None:
    optimiser = Lbfgs(lambda x: (1.0, x), [])
    assert run(optimiser) == []
    assert optimiser.finished == base.SMALL_GRADIENT


def test_a_start_at_the_optimum() -> None:
    optimiser = Lbfgs(quadratic(np.ones(3), np.ones(3)), np.ones(3), LbfgsSettings(epsilon=0.0))
    assert optimiser.advance() is None
    assert optimiser.finished == base.SMALL_GRADIENT
    assert optimiser.advance() is None


def test_why_it_ends() -> None:
    objective = logistic(10, 80, 20, c2=0.02, spread=1.0)
    limited = Lbfgs(objective, np.zeros(20), LbfgsSettings(max_iterations=3))
    assert len(run(limited)) == 3
    assert limited.finished == base.ENOUGH_ITERATIONS
    flat = Lbfgs(objective, np.zeros(20), LbfgsSettings(period=2, delta=0.3, epsilon=0.0))
    values = [objective(np.zeros(20))[0], *(step.value for step in run(flat))]
    assert flat.finished == base.LITTLE_GAIN
    falls = [(before - now) / now for before, now in zip(values, values[2:], strict=False)]
    assert falls[-1] <= 0.3
    assert min(falls[:-1]) > 0.3


@pytest.mark.parametrize("c1", [0.0, 0.4])
@pytest.mark.parametrize("search", SEARCHES)
def test_it_ends_where_rounding_hides_the_rest(c1: float, search: str) -> None:
    objective = logistic(11, 80, 10, c2=0.1, spread=1.0)
    precise = LbfgsSettings(c1=c1, epsilon=0.0, period=0, max_iterations=2000, linesearch=search)
    optimiser = Lbfgs(objective, np.zeros(10), precise)
    steps = run(optimiser)
    assert optimiser.finished == base.NO_BETTER_STEP
    assert steps[-1].gradient_norm < 1e-4
    again = Lbfgs(objective, np.zeros(10), precise)
    again.restore(optimiser.state())
    assert again.finished == base.NO_BETTER_STEP


def test_a_gradient_that_lies_ends_the_run() -> None:
    uphill = Lbfgs(lambda x: (float(x @ x), -2.0 * x), np.ones(4))
    assert run(uphill) == []
    assert uphill.finished == base.NO_BETTER_STEP
    np.testing.assert_array_equal(uphill.point, 1.0)


def test_an_objective_without_a_bottom_ends_too() -> None:
    optimiser = Lbfgs(lambda x: (-float(x.sum()), -np.ones(x.size)), np.zeros(3), LbfgsSettings(max_iterations=3))
    run(optimiser)
    assert optimiser.finished
    assert np.isfinite(optimiser.point).all()


LINES: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "parabola": (lambda t: (t - 3.0) ** 2, lambda t: 2.0 * (t - 3.0)),
    "far parabola": (lambda t: (t - 3e3) ** 2, lambda t: 2.0 * (t - 3e3)),
    "wall": (
        lambda t: math.exp(min(t * 50.0, 500.0)) - 60.0 * t,
        lambda t: 50.0 * math.exp(min(t * 50.0, 500.0)) - 60.0,
    ),
    "shallow": (lambda t: -t / (t * t + 2.0), lambda t: (t * t - 2.0) / (t * t + 2.0) ** 2),
    "flat then steep": (
        lambda t: (t + 0.004) ** 5 - 2 * (t + 0.004) ** 4,
        lambda t: 5 * (t + 0.004) ** 4 - 8 * (t + 0.004) ** 3,
    ),
    "wavy": (lambda t: 0.02 * math.sin(30.0 * t) - t + 0.2 * t * t, lambda t: 0.6 * math.cos(30.0 * t) - 1.0 + 0.4 * t),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("first", [1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("search", SEARCHES)
def test_a_line_search_finds_a_step_that_is_good_enough(name: str, first: float, search: str) -> None:
    value, slope = LINES[name]
    start = Trial(0.0, value(0.0), slope(0.0))
    tried = []

    def probe(step: float) -> Trial:
        tried.append(step)
        return Trial(step, value(step), slope(step))

    found = LINE_SEARCHES[search](probe, start, first, 40)
    assert found is not None
    assert found.step == tried[-1]
    assert len(tried) <= (12 if search == "MoreThuente" else 30)
    assert found.value <= start.value + linesearch.FALL * found.step * start.slope
    assert found.slope >= linesearch.FLATTER * start.slope
    if search != "Backtracking":
        assert abs(found.slope) <= linesearch.FLATTER * abs(start.slope)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_line_search_that_runs_out_of_trials_gives_the_best_it_saw(search: str) -> None:
    start = Trial(0.0, 0.0, -1.0)
    found = LINE_SEARCHES[search](lambda step: Trial(step, -step, -1.0), start, 1.0, 3)
    assert found is not None
    assert found.step > 1.0
    assert LINE_SEARCHES[search](lambda step: Trial(step, step, 1.0), start, 1.0, 3) is None


def test_a_step_that_was_the_best_but_not_the_last_is_gone_back_to() -> None:
    """Steep to the very edge, and nothing finite behind it: the last trial of the search is not its best."""

    def cliff(x: Floats) -> tuple[float, Floats]:
        return (-float(x[0]), -np.ones(1)) if x[0] <= 1.0 else (math.inf, np.ones(1))

    optimiser = Lbfgs(cliff, [0.0], LbfgsSettings(max_linesearch=4, max_iterations=1))
    step = optimiser.advance()
    assert step is not None
    assert step.value == -optimiser.point[0] == -1.0
    assert step.evaluations == 1 + 4 + 1


@pytest.mark.parametrize("size", [CHUNK - 1, CHUNK, 2 * CHUNK + 17, 2 * _LEAST_SHARED + 1])
@pytest.mark.parametrize("c1", [0.0, 0.5])
def test_large_vectors_are_worked_on_in_pieces(size: int, c1: float) -> None:
    """Chunks, the last one shorter, and threads: the same answer as weight by weight."""
    centre = np.linspace(-2.0, 2.0, size)
    optimiser = Lbfgs(quadratic(np.ones(size), centre), np.zeros(size), LbfgsSettings(c1=c1, **TO_THE_END), threads=2)
    run(optimiser)
    np.testing.assert_allclose(optimiser.point, np.sign(centre) * np.maximum(np.abs(centre) - c1, 0.0), atol=1e-9)


@pytest.mark.parametrize("c1", [0.0, 0.01])
def test_threads_change_no_bit(c1: float) -> None:
    size = 2 * _LEAST_SHARED + 12_345
    rng = np.random.default_rng(3)
    objective = quadratic(10.0 ** rng.uniform(-2, 2, size), rng.normal(size=size))
    runs = []
    for threads in (1, 2, 3, 7):
        optimiser = Lbfgs(objective, np.zeros(size), LbfgsSettings(c1=c1, max_iterations=12), threads)
        runs.append((run(optimiser), optimiser.point.tobytes()))
    assert runs[1:] == runs[:1] * 3


def test_the_two_loops_multiply_by_the_matrix_of_bfgs() -> None:
    """Against the update of the inverse written out; more pairs than are kept, one of them without curvature."""
    rng = np.random.default_rng(12)
    size, most = 6, 3
    pairs = _Pairs(most, size)
    rows = pairs.rows[0]  # a view: so few weights are one chunk
    curvature = np.diag(10.0 ** np.linspace(-1, 1, size))
    kept: list[tuple[Floats, Floats]] = []
    for turn in range(8):
        s = rng.normal(size=size)
        y = curvature @ s * (-1.0 if turn == 4 else 1.0)
        vector = rng.normal(size=size)
        new = pairs.make_room()
        rows[new], rows[most + new] = s, y
        pairs.products[:] = np.stack([rows @ y, rows @ vector], axis=1)
        pairs.add(float(np.linalg.norm(s)))
        kept = kept[-(most - 1) :] + ([] if turn == 4 else [(s, y)])
        assert pairs.count == len(kept)
        last = kept[-1]
        h = np.eye(size) * (last[0] @ last[1]) / (last[1] @ last[1])
        for s, y in kept:
            left = np.eye(size) - np.outer(s, y) / (s @ y)
            h = left @ h @ left.T + np.outer(s, s) / (s @ y)
        scale, shares = pairs.direction()
        np.testing.assert_allclose(scale * vector + shares @ rows, -h @ vector, rtol=1e-9, atol=1e-12)


def test_the_first_trial_goes_a_distance_of_one() -> None:
    points: list[Floats] = []

    def objective(x: Floats) -> tuple[float, Floats]:
        points.append(x.copy())
        return quadratic(np.full(4, 1e3), np.full(4, 7.0))(x)

    Lbfgs(objective, np.zeros(4)).advance()
    assert np.linalg.norm(points[1] - points[0]) == pytest.approx(1.0)


def test_no_weight_moves_against_its_pseudo_gradient_or_across_zero() -> None:
    objective, c1 = logistic(13, 60, 25, spread=0.5), 0.5
    optimiser = Lbfgs(objective, np.random.default_rng(1).normal(size=25), LbfgsSettings(c1=c1, max_iterations=60))
    while not optimiser.finished:
        x = optimiser.point.copy()
        gradient = objective(x)[1]
        at_zero = np.where(gradient > c1, gradient - c1, np.where(gradient < -c1, gradient + c1, 0.0))
        pseudo = np.where(x == 0.0, at_zero, gradient + c1 * np.sign(x))
        optimiser.advance()
        assert ((optimiser.point - x) * pseudo <= 0.0).all()
        assert (optimiser.point * x >= 0.0).all()


def test_pairs_that_mislead_are_forgotten() -> None:
    """Pairs that say to follow the gradient uphill: it forgets them and goes on by steepest descent."""
    objective = logistic(14, 80, 20, c2=0.1)
    first = Lbfgs(objective, np.zeros(20), LbfgsSettings(**TO_THE_END))
    for _ in range(6):
        first.advance()
    second = Lbfgs(objective, np.zeros(20), LbfgsSettings(**TO_THE_END))
    state = first.state()
    uphill = {
        "steps_and_changes": np.repeat([state["gradient"], np.zeros(20)], 6, axis=0)[None],
        "curvatures": -1e-3 * np.eye(6),
        "change_products": np.zeros((6, 6)),
    }
    second.restore({**state, **uphill})
    run(second)
    run(first)
    np.testing.assert_allclose(second.point, first.point, atol=1e-6)


def test_more_thuente_does_not_follow_a_fall_that_is_too_small() -> None:
    """Far out the line still falls, but by less than it should: the search turns back."""
    tried = []

    def probe(step: float) -> Trial:
        tried.append(step)
        return Trial(step, -(1.0 - math.exp(-50.0 * step)) / 50.0 - 1e-6 * step, -math.exp(-50.0 * step) - 1e-6)

    found = linesearch.more_thuente(probe, probe(0.0), 1e4, 20)
    assert found is not None
    assert found.step < 1e3
    assert max(tried) == 1e4


@pytest.mark.parametrize("search", SEARCHES)
def test_no_search_goes_twice_beyond_what_is_finite(search: str) -> None:
    tried = []

    def probe(step: float) -> Trial:
        tried.append(step)
        return Trial(step, -step, -1.0) if step < 0.9 else Trial(step, math.inf, math.nan)

    found = LINE_SEARCHES[search](probe, Trial(0.0, 0.0, -1.0), 0.01, 20)
    assert found is not None
    assert found.step > 0.8
    beyond = [step for step in tried if step >= 0.9]
    assert beyond == sorted(beyond, reverse=True)
    assert len(set(beyond)) == len(beyond)
