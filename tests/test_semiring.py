"""Semirings: their axioms, their meaning, and the algorithms over each of them against all paths, one by one."""

from __future__ import annotations

import itertools
import math
import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from chainfold.errors import BadChain, BadSetting, EmptyChain
from chainfold.reference import (
    Boolean,
    Counting,
    Elements,
    Expectation,
    Floats,
    LogExpectation,
    LogSumProduct,
    MaxPlus,
    Semiring,
    SignedLog,
    SumProduct,
    backward,
    entropy,
    entropy_lift,
    forward,
    marginals,
    normalise,
)

ROUNDING = 1e-12  # of a few operations, relative to the sum of the magnitudes that were added
LONG_ROUNDING = 1e-9  # the same over thousands of positions

EXAMPLES = settings(max_examples=30, deadline=None, derandomize=True)


# A semiring as a user would write it, whose elements are vectors.


class Shortest(Semiring):
    """The k least costs, ascending, with repetition."""

    name = "k shortest"

    def __init__(self, k: int) -> None:
        self.element_shape = (k,)

    def zero(self, shape: tuple[int, ...] = ()) -> Elements:
        return np.full((*shape, *self.element_shape), np.inf)

    def one(self, shape: tuple[int, ...] = ()) -> Elements:
        one = self.zero(shape)
        one[..., 0] = 0.0
        return one

    def plus(self, a: Elements, b: Elements) -> Elements:
        return self._least(np.concatenate(np.broadcast_arrays(a, b), axis=-1))

    def times(self, a: Elements, b: Elements) -> Elements:
        sums = a[..., :, None] + b[..., None, :]
        return self._least(sums.reshape(*sums.shape[:-2], -1))

    def _least(self, costs: Elements) -> Elements:
        return np.sort(costs, axis=-1)[..., : self.element_shape[0]]


# Every semiring with what its tests need. Results are compared after `linear`, to within ROUNDING of the result that
# the same expression has on the magnitudes of its arguments: in the log domain that is an absolute error of the
# logarithm, and where terms of both signs cancel, an error relative to what was added.


def same(a: Elements) -> Elements:
    return a


def absolute(a: Elements) -> Elements:
    return np.abs(a)


def unsigned(a: Elements) -> Elements:
    return np.stack([a[..., 0], np.abs(a[..., 1])], axis=-1)


@dataclass(frozen=True)
class Case:
    semiring: Semiring
    element: st.SearchStrategy[Any]
    linear: Callable[[Elements], Elements] = same
    magnitude: Callable[[Elements], Elements] = same
    exact: bool = False

    def elements(self, *shape: int) -> st.SearchStrategy[Elements]:
        """Arrays [*shape, *element_shape]."""
        whole, size = (*shape, *self.semiring.element_shape), math.prod(shape)
        return st.lists(self.element, min_size=size, max_size=size).map(
            lambda drawn: np.array(drawn, self.semiring.dtype).reshape(whole)
        )

    def assert_close(self, got: Elements, expected: Elements, bound: Elements) -> None:
        assert np.shape(got) == np.shape(expected)
        if self.exact:
            assert np.array_equal(got, expected)
        else:
            error = np.abs(self.linear(got) - self.linear(expected))
            assert np.all(error <= ROUNDING * self.linear(bound)), (got, expected)


REAL = st.one_of(st.just(0.0), st.floats(1e-3, 1e3), st.floats(-1e3, -1e-3))
LOG = st.one_of(st.just(-np.inf), st.floats(-100.0, 100.0))  # products of three stay in range once exponentiated
SCORE = st.one_of(st.just(-np.inf), st.integers(-1000, 1000).map(float))
COST = st.one_of(st.just(np.inf), st.integers(-1000, 1000).map(float))
signed_log = SignedLog()

CASES = [
    Case(SumProduct(), REAL, magnitude=absolute),
    Case(LogSumProduct(), LOG, linear=np.exp),
    Case(MaxPlus(), SCORE, exact=True),
    Case(Counting(), st.integers(0, 10**30), exact=True),
    Case(Boolean(), st.booleans(), exact=True),
    Case(signed_log, REAL.map(signed_log.lift), linear=signed_log.value, magnitude=unsigned),
    Case(Expectation(2), st.tuples(REAL, REAL, REAL), magnitude=absolute),
    Case(
        LogExpectation(2), st.tuples(REAL, REAL, REAL).map(signed_log.lift), linear=signed_log.value, magnitude=unsigned
    ),
    Case(Shortest(3), st.tuples(COST, COST, COST).map(sorted), exact=True),
]
each_case = pytest.mark.parametrize("case", CASES, ids=[case.semiring.name.replace(" ", "-") for case in CASES])


# Axioms

Law = Callable[[Semiring, Elements, Elements, Elements], Elements]

ROUNDED_LAWS: dict[str, tuple[Law, Law]] = {
    "plus associative": (
        lambda s, a, b, c: s.plus(s.plus(a, b), c),
        lambda s, a, b, c: s.plus(a, s.plus(b, c)),
    ),
    "times associative": (
        lambda s, a, b, c: s.times(s.times(a, b), c),
        lambda s, a, b, c: s.times(a, s.times(b, c)),
    ),
    "distributive": (
        lambda s, a, b, c: s.times(a, s.plus(b, c)),
        lambda s, a, b, c: s.plus(s.times(a, b), s.times(a, c)),
    ),
}
EXACT_LAWS: dict[str, tuple[Law, Law]] = {
    "plus commutative": (lambda s, a, b, c: s.plus(a, b), lambda s, a, b, c: s.plus(b, a)),
    "times commutative": (lambda s, a, b, c: s.times(a, b), lambda s, a, b, c: s.times(b, a)),
    "zero": (lambda s, a, b, c: s.plus(a, s.zero()), lambda s, a, b, c: a),
    "one": (lambda s, a, b, c: s.times(a, s.one()), lambda s, a, b, c: a),
    "annihilation": (lambda s, a, b, c: s.times(a, s.zero()), lambda s, a, b, c: s.zero(a.shape[:1])),
}


@each_case
@pytest.mark.parametrize("law", ROUNDED_LAWS)
@given(data=st.data())
@EXAMPLES
def test_laws_that_hold_up_to_rounding(case: Case, law: str, data: st.DataObject) -> None:
    a, b, c = (data.draw(case.elements(4)) for _ in range(3))
    left, right = (side(case.semiring, a, b, c) for side in ROUNDED_LAWS[law])
    bound = ROUNDED_LAWS[law][0](case.semiring, *map(case.magnitude, (a, b, c)))
    case.assert_close(left, right, bound)


@each_case
@pytest.mark.parametrize("law", EXACT_LAWS)
@given(data=st.data())
@EXAMPLES
def test_laws_that_hold_exactly(case: Case, law: str, data: st.DataObject) -> None:
    a, b, c = (data.draw(case.elements(4)) for _ in range(3))
    left, right = (side(case.semiring, a, b, c) for side in EXACT_LAWS[law])
    assert np.array_equal(left, right)


@each_case
def test_identities_have_the_shape_and_type_that_they_promise_and_an_empty_sum_is_zero(case: Case) -> None:
    semiring = case.semiring
    for identity in (semiring.zero, semiring.one):
        assert identity().shape == semiring.element_shape
        assert identity((2, 5)).shape == (2, 5, *semiring.element_shape)
        assert identity((2, 5)).dtype == semiring.dtype
    assert not np.array_equal(semiring.zero(), semiring.one())
    assert np.array_equal(semiring.sum(semiring.one((3, 0)), axis=1), semiring.zero((3,)))


@pytest.mark.parametrize("semiring", [LogSumProduct(), MaxPlus()], ids=lambda semiring: semiring.name)
@pytest.mark.parametrize("score", [1e308, np.inf])
def test_no_score_wins_back_a_true_zero(semiring: Semiring, score: float) -> None:
    assert semiring.zero() == -np.inf
    assert semiring.times(semiring.zero(), np.array(score)) == -np.inf
    assert semiring.times(np.array(score), semiring.zero()) == -np.inf
    assert semiring.plus(semiring.zero(), semiring.zero()) == -np.inf
    assert semiring.plus(semiring.zero(), np.array(score)) == score


# Sums


@each_case
@given(data=st.data())
@EXAMPLES
def test_sum_is_plus_after_plus(case: Case, data: st.DataObject) -> None:
    semiring = case.semiring
    a = data.draw(case.elements(3, 4))
    for axis in (0, 1, -1, -2):
        rows = np.moveaxis(a, axis % 2, 0)
        expected, bound = reduce(semiring.plus, rows), reduce(semiring.plus, case.magnitude(rows))
        case.assert_close(semiring.sum(a, axis), expected, bound)


@each_case
def test_an_empty_sum_is_zero(case: Case) -> None:
    semiring = case.semiring
    assert np.array_equal(semiring.sum(semiring.one((3, 0)), axis=1), semiring.zero((3,)))


def test_opposite_numbers_cancel_to_the_true_zero() -> None:
    x = signed_log.lift(np.array([3.0, -0.25, 0.0]))
    assert np.array_equal(signed_log.plus(x, signed_log.lift(np.array([-3.0, 0.25, 0.0]))), signed_log.zero((3,)))


FACTORS = st.lists(st.tuples(st.floats(0.1, 10.0), REAL, REAL), min_size=1, max_size=6).map(np.array)


@given(drawn=FACTORS)
@EXAMPLES
def test_lemma_a_product_of_pairs_sums_the_features(drawn: Floats) -> None:
    """⊗ (z_i, z_i h_i) = (Π z_i, Π z_i · Σ h_i), in both domains."""
    z, h = drawn[:, 0], drawn[:, 1:]
    expected = np.prod(z) * np.concatenate([[1.0], h.sum(axis=0)])
    bound = ROUNDING * np.prod(z) * np.concatenate([[1.0], np.abs(h).sum(axis=0)])
    plain, log = Expectation(2), LogExpectation(2)
    assert np.all(np.abs(reduce(plain.times, plain.lift(z, h)) - expected) <= bound)
    assert np.all(np.abs(signed_log.value(reduce(log.times, log.lift(np.log(z), h))) - expected) <= bound)


@given(drawn=FACTORS)
@EXAMPLES
def test_lemma_a_sum_of_pairs_is_the_pair_of_sums(drawn: Floats) -> None:
    """⊕ (z_i, h_i) = (Σ z_i, Σ h_i), in both domains."""
    expected, bound = drawn.sum(axis=0), ROUNDING * np.abs(drawn).sum(axis=0)
    assert np.all(np.abs(Expectation(2).sum(drawn) - expected) <= bound)
    assert np.all(np.abs(signed_log.value(LogExpectation(2).sum(signed_log.lift(drawn))) - expected) <= bound)


def test_a_lift_broadcasts_factors_against_features() -> None:
    psi, f = np.array([[1.0], [2.0]]), np.array([[3.0, -4.0], [0.0, 5.0], [6.0, 7.0]])
    assert Expectation(2).lift(psi, f).shape == (2, 3, 3)
    assert np.array_equal(Expectation(2).lift(psi, f)[1, 0], [2.0, 6.0, -8.0])
    assert LogExpectation(2).lift(np.log(psi), f).shape == (2, 3, 3, 2)


def test_the_order_is_at_least_one() -> None:
    with pytest.raises(BadSetting, match="order is 0, but must be at least 1"):
        Expectation(0)


# The algorithms against all paths, one by one

SHAPES = [(1, 1), (1, 3), (2, 2), (3, 2), (4, 3)]  # (T, N)
each_shape = pytest.mark.parametrize(("t_max", "n"), SHAPES)
FEW = settings(EXAMPLES, max_examples=6)


def all_paths(t_max: int, n: int) -> NDArray[np.int64]:
    """[N^(T+1), T + 1], every (y_0, …, y_T)."""
    return np.array(list(itertools.product(range(n), repeat=t_max + 1)))


def path_weights(semiring: Semiring, u: Elements, paths: NDArray[np.int64]) -> Elements:
    """⊗_t u_t(y_{t-1}, y_t) for each path."""
    weights = semiring.one((len(paths),))
    for t, u_t in enumerate(u):
        weights = semiring.times(weights, u_t[paths[:, t], paths[:, t + 1]])
    return weights


def added(semiring: Semiring, weights: Elements) -> Elements:
    return np.asarray(reduce(semiring.plus, weights))


def enumerate_forward(semiring: Semiring, u: Elements) -> Elements:
    def alpha(t: int, y: int) -> Elements:
        paths = all_paths(t, u.shape[1])
        return added(semiring, path_weights(semiring, u[:t], paths)[paths[:, -1] == y])

    return np.array([[alpha(t, y) for y in range(u.shape[1])] for t in range(len(u) + 1)])


def enumerate_backward(semiring: Semiring, u: Elements) -> Elements:
    def beta(t: int, y: int) -> Elements:
        paths = all_paths(len(u) - t, u.shape[1])
        return added(semiring, path_weights(semiring, u[t:], paths)[paths[:, 0] == y])

    return np.array([[beta(t, y) for y in range(u.shape[1])] for t in range(len(u) + 1)])


def enumerate_marginals(semiring: Semiring, u: Elements) -> Elements:
    paths = all_paths(len(u), u.shape[1])
    weights = path_weights(semiring, u, paths)

    def v(t: int, left: int, right: int) -> Elements:
        return added(semiring, weights[(paths[:, t - 1] == left) & (paths[:, t] == right)])

    labels = range(u.shape[1])
    return np.array([[[v(t, i, j) for j in labels] for i in labels] for t in range(1, len(u) + 1)])


def enumerate_total(semiring: Semiring, u: Elements) -> Elements:
    return added(semiring, path_weights(semiring, u, all_paths(len(u), u.shape[1])))


PROBLEMS: dict[str, tuple[Callable[[Semiring, Elements], Elements], Callable[[Semiring, Elements], Elements]]] = {
    "forward": (forward, enumerate_forward),
    "backward": (backward, enumerate_backward),
    "marginals": (marginals, enumerate_marginals),
    "normalise": (normalise, enumerate_total),
}


@each_case
@each_shape
@pytest.mark.parametrize("problem", PROBLEMS)
@given(data=st.data())
@FEW
def test_every_problem_is_solved_as_by_enumeration(
    case: Case, t_max: int, n: int, problem: str, data: st.DataObject
) -> None:
    u = data.draw(case.elements(t_max, n, n))
    solve, enumerate_paths = PROBLEMS[problem]
    got = solve(case.semiring, u)
    assert got.dtype == case.semiring.dtype
    case.assert_close(got, enumerate_paths(case.semiring, u), enumerate_paths(case.semiring, case.magnitude(u)))


@each_case
@given(data=st.data())
@FEW
def test_an_initial_vector_stands_for_a_first_kernel(case: Case, data: st.DataObject) -> None:
    """α_0 = initial is the chain with one more kernel in front, initial(y) on its diagonal and zero beside it."""
    semiring, n = case.semiring, 2
    u, initial = data.draw(case.elements(3, n, n)), data.draw(case.elements(n))
    first = semiring.zero((n, n))
    first[range(n), range(n)] = initial
    longer = np.concatenate([first[None], u])
    bound = case.magnitude(longer)
    case.assert_close(forward(semiring, u, initial), forward(semiring, longer)[1:], forward(semiring, bound)[1:])
    case.assert_close(normalise(semiring, u, initial), normalise(semiring, longer), normalise(semiring, bound))
    case.assert_close(marginals(semiring, u, initial), marginals(semiring, longer)[1:], marginals(semiring, bound)[1:])


def test_normalise_keeps_one_kernel_at_a_time() -> None:
    alive: set[int] = set()
    most = 0

    def kernels() -> Iterator[Floats]:
        nonlocal most
        for t in range(50):
            kernel = np.full((2, 2), 0.5)
            alive.add(t)
            weakref.finalize(kernel, alive.discard, t)
            most = max(most, len(alive))
            yield kernel

    assert normalise(SumProduct(), kernels()) == 2.0
    assert most <= 3  # the one being made, its name in the loop above, its name in the loop of normalise


@pytest.mark.parametrize("solve", [forward, backward, marginals])
def test_kernels_of_the_wrong_shape_are_refused(solve: Callable[[Semiring, Elements], Elements]) -> None:
    with pytest.raises(BadChain, match=re.escape("the sum-product semiring have shape [N, N], not (2, 3).")):
        solve(SumProduct(), np.ones((4, 2, 3)))
    with pytest.raises(BadChain, match=re.escape("expectation of order 2 semiring have shape [N, N, 3], not (2, 2).")):
        solve(Expectation(2), np.ones((4, 2, 2)))
    with pytest.raises(BadChain, match=re.escape("have shape [N, N], not (2,).")):
        solve(SumProduct(), np.ones((2, 2)))


def test_normalise_refuses_a_wrong_kernel_and_no_kernel() -> None:
    with pytest.raises(BadChain, match=re.escape("have shape [N, N], not (2, 3).")):
        normalise(SumProduct(), np.ones((4, 2, 3)))
    with pytest.raises(EmptyChain):
        normalise(SumProduct(), iter(()))


# What comes out over each semiring


def random_chain(seed: int) -> tuple[Floats, Floats]:
    """Features f [T, N, N, M] of either sign, some of them zero, and log ψ = f θ with a few forbidden moves."""
    rng = np.random.default_rng(seed)
    theta, f = rng.normal(size=3), rng.normal(size=(4, 3, 3, 3))
    f[rng.random(f.shape) < 0.3] = 0.0
    log_psi = f @ theta
    log_psi[rng.random(log_psi.shape) < 0.15] = -np.inf
    return f, log_psi


def path_log_weights(log_psi: Floats) -> Floats:
    paths = all_paths(len(log_psi), log_psi.shape[1])
    return np.array([sum(log_psi[t, y[t], y[t + 1]] for t in range(len(log_psi))) for y in paths])


@pytest.mark.parametrize("seed", range(5))
def test_partition_function_and_best_path(seed: int) -> None:
    _, log_psi = random_chain(seed)
    log_weights = path_log_weights(log_psi)
    z = np.exp(log_weights).sum()
    assert z > 0
    assert abs(normalise(SumProduct(), np.exp(log_psi)) - z) <= ROUNDING * z
    assert abs(normalise(LogSumProduct(), log_psi) - np.log(z)) <= ROUNDING
    assert abs(normalise(MaxPlus(), log_psi) - log_weights.max()) <= ROUNDING


@pytest.mark.parametrize("seed", range(5))
def test_expectation_is_the_mean_of_the_features_summed_along_a_path(seed: int) -> None:
    f, log_psi = random_chain(seed)
    weights = np.exp(path_log_weights(log_psi))
    paths = all_paths(*log_psi.shape[:2])
    sums = np.array([sum(f[t, y[t], y[t + 1]] for t in range(len(f))) for y in paths])
    mean, bound = weights @ sums / weights.sum(), ROUNDING * (weights @ np.abs(sums) / weights.sum() + 1.0)
    assert (mean < 0).any()  # the signs are put to use
    plain, log = Expectation(3), LogExpectation(3)
    total, log_total = normalise(plain, plain.lift(np.exp(log_psi), f)), normalise(log, log.lift(log_psi, f))
    assert np.all(np.abs(plain.expectation(total) - mean) <= bound)
    assert np.all(np.abs(log.expectation(log_total) - mean) <= bound)
    assert abs(total[0] - weights.sum()) <= ROUNDING * weights.sum()
    assert abs(log_total[0, 0] - np.log(weights.sum())) <= ROUNDING


def test_the_expectation_over_no_path_is_not_a_number() -> None:
    forbidden, f = np.full((2, 2, 2), -np.inf), np.ones((2, 2, 2, 1))
    plain, log = Expectation(1), LogExpectation(1)
    assert np.isnan(plain.expectation(normalise(plain, plain.lift(np.exp(forbidden), f)))).all()
    assert np.isnan(log.expectation(normalise(log, log.lift(forbidden, f)))).all()
    assert np.isnan(entropy(forbidden))


LONG = 2000


def constant(value: float) -> Floats:
    return np.full((LONG, 2, 2), value)


@pytest.mark.parametrize("score", [-2.0, 2.0])
def test_plain_numbers_leave_the_range_on_a_long_chain_and_logarithms_hold(score: float) -> None:
    plain, log = Expectation(1), LogExpectation(1)
    psi, f = constant(math.exp(score)), constant(-3.0)[..., None]
    with nullcontext() if score < 0.0 else pytest.warns(RuntimeWarning, match="overflow"):
        assert normalise(SumProduct(), psi) == (0.0 if score < 0.0 else np.inf)
    with nullcontext() if score < 0.0 else pytest.warns(RuntimeWarning, match="overflow"):
        total = normalise(plain, plain.lift(psi, f))
    assert not np.isfinite(plain.expectation(total)).any()
    log_z = score * LONG + (LONG + 1) * math.log(2.0)
    log_total = normalise(log, log.lift(constant(score), f))
    assert abs(normalise(LogSumProduct(), constant(score)) - log_z) <= LONG_ROUNDING * abs(log_z)
    assert abs(log_total[0, 0] - log_z) <= LONG_ROUNDING * abs(log_z)
    assert abs(log.expectation(log_total)[0] - -3.0 * LONG) <= LONG_ROUNDING * 3.0 * LONG


def test_paths_without_two_ones_in_a_row_are_counted_by_fibonacci() -> None:
    """Of T + 1 labels there are F(T + 3) such paths, here far more than 2^64."""
    fibonacci = [0, 1]
    while len(fibonacci) <= 203:
        fibonacci.append(fibonacci[-2] + fibonacci[-1])
    u = np.broadcast_to(np.array([[True, True], [True, False]]), (200, 2, 2))
    assert normalise(Counting(), u) == fibonacci[203]


@pytest.mark.parametrize("seed", range(5))
def test_entropy_is_minus_the_mean_of_log_p(seed: int) -> None:
    _, log_psi = random_chain(seed)
    log_weights = path_log_weights(log_psi)
    weights = np.exp(log_weights[np.isfinite(log_weights)])
    p = weights / weights.sum()
    expected = -(p * np.log(p)).sum()
    z, h = normalise(Expectation(1), entropy_lift(np.exp(log_psi)))
    assert abs(entropy(log_psi) - expected) <= ROUNDING * 10
    assert abs(np.log(z) - h / z - expected) <= ROUNDING * 10


def test_entropy_of_one_path_and_of_a_uniform_chain() -> None:
    one_path = np.full((5, 2, 2), -np.inf)
    one_path[:, 1, 1] = 3.0
    assert abs(entropy(one_path)) <= ROUNDING * 15.0
    uniform = (np.full((3, 3), -1.5) for _ in range(LONG))
    assert abs(entropy(uniform) - (LONG + 1) * math.log(3.0)) <= LONG_ROUNDING * LONG
