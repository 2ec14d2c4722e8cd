"""The paper's algorithms in NumPy: against the enumeration of all paths, one another, and the engines."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import chainfold
from chainfold import Chain, Layout, Model, log_likelihood, semiring
from chainfold.errors import ChainfoldError, ScoreNotFinite
from chainfold.reference import (
    ACTIVE,
    ActiveFeatures,
    Floats,
    LogExpectation,
    LogSumProduct,
    algorithm_1,
    algorithm_2,
    features_of,
    forward_only,
    local_kernels,
    log_domain_emp,
    log_domain_fb,
    log_domain_forward_only,
    marginals,
    normalise,
    one_state,
)
from oracle import Truth, enumerate_paths
from shapes import CASES, case, every, plain
from tolerances import FLOOR, ORACLE

pytestmark = pytest.mark.quick

ON_MODELS = {"fb-log": algorithm_1, "emp": algorithm_2, "forward-only": forward_only}
ALGORITHMS = {"fb": log_domain_fb, "emp": log_domain_emp, "forward-only": log_domain_forward_only}
each_on_models = pytest.mark.parametrize("engine", ON_MODELS)
each = pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)


@cache
def solved(name: str) -> tuple[Model, Chain, Truth]:
    model, chain = case(name)
    return model, chain, enumerate_paths(model, chain)


@each_on_models
@pytest.mark.parametrize("name", CASES)
def test_algorithm_equals_the_enumeration_of_all_paths(name: str, engine: str) -> None:
    model, chain, truth = solved(name)
    truth.check(*with_likelihood(truth, ON_MODELS[engine](model, chain)))


def with_likelihood(truth: Truth, found: tuple[float, Floats]) -> tuple[float, float | None, Floats]:
    """What `Truth.check` takes; the algorithms do not look at the observed labels."""
    return found[0], truth.log_likelihood, found[1]


LONGER = {
    "real values": plain(60, 3),
    "edge attributes": plain(40, 3, n_edge_attributes=2),
    "start marks": plain(60, 2, starts=every(lambda t: t % 7 == 3, 60)),
}


@each_on_models
@pytest.mark.parametrize("name", LONGER)
def test_engine_is_the_compiled_algorithm(name: str, engine: str) -> None:
    model, chain = LONGER[name](np.random.default_rng(5))
    log_z, counts = ON_MODELS[engine](model, chain)
    found = log_likelihood(model, chain, engine)
    assert abs(found.log_z - log_z) <= ORACLE * abs(log_z)
    assert np.allclose(found.expected, counts, rtol=ORACLE, atol=1e-11)


def test_more_positions_than_are_read_at_once() -> None:
    chain = Chain.from_arrays(offsets=np.arange(1501), ids=np.arange(1500) % 3, n_labels=1)
    log_z, counts = algorithm_1(Model(Layout.full(1, 3), np.array([0.5, -1.0, 0.25, 0.125])), chain)
    assert abs(log_z - (500 * (0.5 - 1.0 + 0.25) + 1499 * 0.125)) <= 1e-9
    assert np.allclose(counts, [500.0, 500.0, 500.0, 1499.0])


# Feature functions in general, as the paper has them, with a free y_0

Problem = tuple[Floats, list[ActiveFeatures], Floats]


def general(seed: int, positions: int = 4, n_labels: int = 3, n_weights: int = 4) -> Problem:
    """θ, the active features and log α_0: any features on any pairs, values of either sign or zero, moves forbidden."""
    rng = np.random.default_rng(seed)
    theta, features = np.append(rng.normal(size=n_weights - 1), -np.inf), []
    for _ in range(positions):
        entries = [
            (m, i, j, rng.choice([-1.0, 1.0]) * rng.uniform(0.1, 2.0) * (rng.random() > 0.1))
            for m, i, j in itertools.product(range(n_weights - 1), range(n_labels), range(n_labels))
            if rng.random() < 0.5
        ]
        forbidden = [(n_weights - 1, 0, j, 1.0) for j in range(n_labels) if rng.random() < 0.3]
        features.append(np.array(entries + forbidden, ACTIVE))
    return theta, features, np.zeros(n_labels)


def dense(features: list[ActiveFeatures], n_labels: int, n_weights: int) -> Floats:
    """f [T, N, N, M]."""
    f = np.zeros((len(features), n_labels, n_labels, n_weights))
    for f_k, active in zip(f, features, strict=True):
        np.add.at(f_k, (active["origin"], active["label"], active["m"]), active["f"])
    return f


def enumerate_general(theta: Floats, features: list[ActiveFeatures], alpha_0: Floats) -> tuple[float, Floats, Floats]:
    """log Z, the expected counts, and the sizes of their terms: every path (y_0, …, y_T) by itself."""
    f = dense(features, alpha_0.size, theta.size)
    z, counts, sizes = 0.0, np.zeros(theta.size), np.zeros(theta.size)
    for y in itertools.product(range(alpha_0.size), repeat=1 + len(features)):
        steps = np.array([f[k, y[k], y[k + 1]] for k in range(len(features))])
        score = sum(x * theta[m] for step in steps.tolist() for m, x in enumerate(step) if x != 0.0)
        weight = np.exp(alpha_0[y[0]] + score)
        z += weight
        counts += weight * steps.sum(axis=0)
        sizes += weight * np.abs(steps).sum(axis=0)
    return float(np.log(z)), counts / z, sizes / z


def assert_close(found: tuple[float, Floats], log_z: float, counts: Floats, sizes: Floats) -> None:
    assert abs(found[0] - log_z) <= ORACLE * max(1.0, abs(log_z))
    assert np.all(np.abs(found[1] - counts) <= ORACLE * sizes + FLOOR)


@each
@pytest.mark.parametrize("seed", range(4))
def test_features_in_general(algorithm: Callable[..., tuple[float, Floats]], seed: int) -> None:
    problem = general(seed)
    truth = enumerate_general(*problem)
    assert (truth[1] < 0.0).any()
    assert_close(algorithm(*problem), *truth)


@pytest.mark.parametrize("seed", range(4))
def test_algorithms_agree_where_paths_are_too_many(seed: int) -> None:
    """Beyond the range of a double, which ends at e^710."""
    theta, features, alpha_0 = general(seed, positions=40)
    (log_z, counts), *others = [algorithm(40.0 * theta, features, alpha_0) for algorithm in ALGORITHMS.values()]
    assert log_z > 800.0
    sizes = np.abs(dense(features, 3, 4)).max(axis=(1, 2)).sum(axis=0)
    for other in others:
        assert_close(other, log_z, counts, sizes)


@pytest.mark.parametrize("seed", range(4))
def test_algorithm_2_is_forward_over_the_log_domain_expectation_semiring(seed: int) -> None:
    """Equation (74) is what (75) and (76) write out."""
    theta, features, alpha_0 = general(seed)
    one = LogExpectation(theta.size)
    kernels, f = (u for u, _ in local_kernels(theta, features, 3)), dense(features, 3, theta.size)
    total = normalise(one, [one.lift(u, f_k) for u, f_k in zip(kernels, f, strict=True)])
    found = log_domain_emp(theta, features, alpha_0)
    assert_close(found, total[0, 0], one.expectation(total), np.abs(f).max(axis=(1, 2)).sum(axis=0))


@pytest.mark.parametrize("seed", range(4))
def test_algorithm_1_is_the_marginals_of_the_log_domain_sum_product_semiring(seed: int) -> None:
    """Equations (40) and (41)."""
    theta, features, alpha_0 = general(seed)
    u, f = np.array([u for u, _ in local_kernels(theta, features, 3)]), dense(features, 3, theta.size)
    log_z = float(normalise(LogSumProduct(), u))
    posterior = np.exp(marginals(LogSumProduct(), u) - log_z)
    sizes = np.einsum("kij,kijm->m", posterior, np.abs(f))
    assert_close(log_domain_fb(theta, features, alpha_0), log_z, np.einsum("kij,kijm->m", posterior, f), sizes)


@each
def test_a_free_y_0_adds_log_n(algorithm: Callable[..., tuple[float, Floats]]) -> None:
    """Where u_1 does not depend on y_0; and line 2 of Algorithm 2 as printed, α_0 = 1, adds 1."""
    model, chain, truth = solved("3 labels")
    features = list(features_of(model, chain))
    for alpha_0, more in ((one_state(3), 0.0), (np.zeros(3), np.log(3.0)), (np.ones(3), 1.0 + np.log(3.0))):
        log_z, counts = algorithm(model.weights, features, alpha_0)
        truth.check(*with_likelihood(truth, (log_z - more, counts)))


@each
def test_no_path_is_possible(algorithm: Callable[..., tuple[float, Floats]]) -> None:
    forbidden = np.array([(0, i, j, 1.0) for i in range(2) for j in range(2)], ACTIVE)
    log_z, counts = algorithm(np.array([-np.inf]), [forbidden], np.zeros(2))
    assert log_z == -np.inf
    assert np.isnan(counts).all()


@each
@pytest.mark.parametrize(("theta", "f"), [(-np.inf, -1.0), (1e300, 1e300)])
def test_a_kernel_that_is_no_number_is_named(
    algorithm: Callable[..., tuple[float, Floats]], theta: float, f: float
) -> None:
    features = [np.array([], ACTIVE), np.array([(0, 0, 0, f)], ACTIVE)]
    with pytest.raises(ScoreNotFinite, match="position 1 "):
        algorithm(np.array([theta]), features, np.zeros(2))


def test_a_value_of_zero_is_not_active() -> None:
    """Even beside a weight of -inf."""
    model = Model(Layout.full(2, 1), np.array([-np.inf, 1.0, 0.0, 0.0, 0.0, 0.0]))
    chain = Chain.from_arrays(offsets=[0, 1], ids=[0], values=[0.0], n_labels=2)
    assert [active.size for active in features_of(model, chain)] == [0]
    assert algorithm_1(model, chain)[0] == pytest.approx(np.log(2.0))


@each_on_models
def test_weights_of_sequences_and_masks_are_refused(engine: str) -> None:
    model, chain, _ = solved("3 labels")
    for wrong in (
        (replace(model, first=np.ones(3, bool)), chain),
        (replace(model, last=np.ones(3, bool)), chain),
        (model, replace(chain, weights=np.ones(chain.positions))),
    ):
        with pytest.raises(ChainfoldError, match="the paper knows no weights of sequences"):
            ON_MODELS[engine](*wrong)


def test_the_module_semiring_is_an_alias() -> None:
    for name in ("Elements", "Expectation", "Floats", "Semiring", "backward", "entropy", "entropy_lift", "normalise"):
        assert getattr(semiring, name) is getattr(chainfold.reference, name)


def test_the_reference_imports_nothing_but_numpy_and_errors() -> None:
    program = "import sys, chainfold; chainfold.reference.algorithm_1; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"numba", "pyarrow", "scipy"}
    ours = {name.split(".")[1] for name in loaded if name.startswith("chainfold.")}
    assert ours == {"errors", "escape", "reference"}
