"""Long chains: engines against one another, and the same bits whatever the threads."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from chainfold import Chain, Evaluation, Layout, Model, SyntheticChain, log_likelihood
from chainfold.chain.chain import gather
from tolerances import AT_LENGTH, LOG_DOMAIN_AT_LENGTH

PRODUCTION = ("fb-recompute", "fb-spill", "checkpoint", "stream", "parallel")
LONG = 200_000


def relative(found: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """The largest error, each count relative to itself; counts are positive here."""
    return float(np.max(np.abs(found - truth) / np.maximum(truth, 1e-300), where=truth > 0.0, initial=0.0))


@cache
def long_chain(n_labels: int) -> tuple[Model, Chain, Evaluation]:
    source = SyntheticChain(LONG, n_labels, 60 * n_labels, 6, seed=n_labels, mean_length=50_000)
    chain = gather(source)
    random = np.random.default_rng(n_labels)
    layout = Layout.full(n_labels, 60 * n_labels)
    model = Model(layout, source.true_weights() + random.normal(0.0, 0.3, layout.size))
    return model, chain, log_likelihood(model, chain, "fb")


@pytest.mark.parametrize("engine", PRODUCTION)
@pytest.mark.parametrize("n_labels", [2, 5, 23, 64])
def test_production_engines_agree_at_length(n_labels: int, engine: str) -> None:
    model, chain, reference = long_chain(n_labels)
    found = log_likelihood(model, chain, engine, threads=2)
    assert abs(found.log_z - reference.log_z) <= AT_LENGTH * abs(reference.log_z)
    assert found.log_likelihood == pytest.approx(reference.log_likelihood, rel=AT_LENGTH)
    assert relative(found.expected, reference.expected) <= AT_LENGTH


@pytest.mark.parametrize("engine", ["emp", "fb-log", "fb-log-recompute", "fb-log-spill"])
def test_published_algorithms_agree_at_length(engine: str) -> None:
    source = SyntheticChain(5_000, 3, 12, 3, seed=1, mean_length=1_000)
    model = Model.random(Layout.full(3, 12), seed=1)
    reference, found = log_likelihood(model, source, "fb"), log_likelihood(model, source, engine)
    assert abs(found.log_z - reference.log_z) <= LOG_DOMAIN_AT_LENGTH * abs(reference.log_z)
    assert relative(found.expected, reference.expected) <= LOG_DOMAIN_AT_LENGTH


def test_edge_attributes_at_length() -> None:
    source = SyntheticChain(20_000, 5, 40, 4, seed=2, n_edge_attributes=3)
    layout = Layout.full(5, 40, 3)
    model = Model(layout, source.true_weights() + np.random.default_rng(0).normal(0.0, 0.3, layout.size))
    reference = log_likelihood(model, source, "fb")
    for engine in PRODUCTION:
        found = log_likelihood(model, source, engine, threads=2)
        assert abs(found.log_z - reference.log_z) <= AT_LENGTH * abs(reference.log_z)
        assert relative(found.expected, reference.expected) <= AT_LENGTH, engine


def test_sparse_layout_at_length() -> None:
    source = SyntheticChain(30_000, 12, 30_000, 5, seed=5, mean_length=40)
    chain = gather(source)
    layout = Layout.observed(chain)
    assert 0 < layout.dense < layout.n_attributes, "both kinds of rows are in use"
    model = Model.random(layout, seed=3)
    reference = log_likelihood(model, chain, "fb")
    for engine in PRODUCTION:
        assert relative(log_likelihood(model, chain, engine, threads=2).expected, reference.expected) <= AT_LENGTH, (
            engine
        )


@pytest.mark.parametrize("n_edge_attributes", [0, 2])
def test_gradient_is_the_same_to_the_last_bit_for_any_number_of_threads(n_edge_attributes: int) -> None:
    source = SyntheticChain(50_000, 4, 50, 5, seed=7, n_edge_attributes=n_edge_attributes)
    model = Model.random(Layout.full(4, 50, n_edge_attributes), seed=7)
    runs = [log_likelihood(model, source, "parallel", threads=threads) for threads in (1, 2, 3, 8, 2)]
    for run in runs[1:]:
        assert run.gradient is not None
        assert run.gradient.tobytes() == runs[0].gradient.tobytes()  # type: ignore[union-attr]
        assert run.log_z == runs[0].log_z
