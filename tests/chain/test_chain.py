"""The chain: in memory, and made on the fly."""

from __future__ import annotations

import numpy as np
import pytest

from chain.test_stored import contents
from chainfold import Chain, Layout, Model, SyntheticChain, log_likelihood
from chainfold.chain.chain import gather
from chainfold.chain.matrix import chain_from_matrix
from chainfold.errors import BadChain, LabelOutOfRange

pytestmark = pytest.mark.quick


def test_arrays_are_read_only_and_the_first_position_is_a_start() -> None:
    labels = np.array([0, 1])
    chain = Chain.from_arrays(offsets=[0, 1, 2], ids=[0, 3], labels=labels, starts=[0, 0])
    assert chain.starts.tolist() == [True, False]
    assert (chain.n_labels, chain.n_attributes, chain.n_edge_attributes) == (2, 4, 0)
    assert chain.offsets.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        chain.labels[0] = 1
    labels[0] = 1  # the caller's own array stays writable


def test_a_block_counts_its_own_bytes() -> None:
    chain = Chain.from_arrays(offsets=[0, 1, 3, 3], ids=[0, 1, 1], values=[1.0, 2.0, 3.0], labels=[0, 1, 0])
    assert chain.block(1, 3).nbytes == 2 * (4 + 1) + 3 * 8 + 2 * (4 + 8)


SYNTHETIC: dict[str, SyntheticChain] = {
    "plain": SyntheticChain(10_000, 4, 23, 5, seed=1),
    "sequences": SyntheticChain(10_000, 4, 20, 5, seed=2, mean_length=12),
    "edge attributes": SyntheticChain(10_000, 3, 20, 2, seed=3, n_edge_attributes=4),
    "one label": SyntheticChain(5_000, 1, 4, 1, seed=4),
    "no attributes": SyntheticChain(5_000, 3, 1, 0, seed=5),
}


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_synthetic_chain_is_the_same_however_it_is_cut(name: str) -> None:
    source = SYNTHETIC[name]
    whole = gather(source)
    again = SYNTHETIC[name]
    for low, high in ((4095, 4097), (0, 1), (4999, 5000), (3000, 4500)):
        assert contents(again.block(low, high)) == contents(whole.block(low, high))


def test_a_synthetic_chain_has_the_sizes_asked_for() -> None:
    chain = gather(SYNTHETIC["sequences"])
    assert 10 <= chain.positions / chain.starts.sum() <= 14
    assert set(np.unique(chain.labels)) == set(range(4))
    assert chain.ids.max() < 20
    assert (np.diff(chain.offsets) == 5).all()
    stays = (chain.labels[1:] == chain.labels[:-1])[~chain.starts[1:]].mean()
    assert stays == pytest.approx(0.8, abs=0.02)
    other = gather(SyntheticChain(10_000, 4, 20, 5, seed=9, mean_length=12))
    assert (other.ids != chain.ids).mean() > 0.5


def test_a_synthetic_chain_of_a_billion_positions_needs_no_storage() -> None:
    source = SyntheticChain(10**9, 5, 100, 8)
    assert source.positions == 10**9
    assert source.block(0, 10).labels.size == 10


@pytest.mark.parametrize("n_edge_attributes", [0, 2])
def test_labels_are_sampled_from_the_model_itself(n_edge_attributes: int) -> None:
    """At the true weights the gradient is a sum of independent terms of mean zero: over many chains, each weight's mean
    is within a few of its own standard errors."""
    gradients = []
    for seed in range(200):
        source = SyntheticChain(400, 3, 12, 2, seed=seed, mean_length=10, n_edge_attributes=n_edge_attributes)
        # the chains of all seeds share one model: only the draws differ
        source._recipe = SYNTHETIC_TWIN[n_edge_attributes]._recipe._replace(key=source._recipe.key)
        weights = SYNTHETIC_TWIN[n_edge_attributes].true_weights()
        found = log_likelihood(Model(Layout.full(3, 12, n_edge_attributes), weights), source)
        assert found.gradient is not None
        gradients.append(found.gradient)
    array = np.array(gradients)
    deviations = array.mean(axis=0) / (array.std(axis=0) / np.sqrt(len(array)) + 1e-12)
    assert np.abs(deviations).max() < 4.5
    assert np.sqrt((deviations**2).mean()) < 1.5


SYNTHETIC_TWIN = {k: SyntheticChain(400, 3, 12, 2, seed=0, mean_length=10, n_edge_attributes=k) for k in (0, 2)}


@pytest.mark.parametrize(("sticky", "active"), [(1.0, 0), (1.0, 3), (0.5, 0)])
def test_true_weights_at_the_ends_of_the_knobs(sticky: float, active: int) -> None:
    source = SyntheticChain(500, 3, 6, active, sticky=sticky, n_edge_attributes=2)
    weights = source.true_weights()
    assert not np.isnan(weights).any()
    assert log_likelihood(Model(Layout.full(3, 6, 2), weights), source).log_likelihood is not None


def test_starts_of_a_matrix_are_marks_or_positions_that_ascend() -> None:
    rows = np.ones((4, 1))
    for starts in ([0, 2], np.array([0, 2], np.uint64), [True, False, True, False]):
        chain = chain_from_matrix(rows, [0, 0, 1, 1], starts=starts)
        assert chain.starts.tolist() == [True, False, True, False]
    for marks in ([1, 0, 1, 0], [0, 2, 2]):
        with pytest.raises(BadChain, match="sequences start do not ascend; give marks as True and False"):
            chain_from_matrix(rows, [0, 0, 1, 1], starts=marks)
    for beyond in (4, 2**32, 2**64 - 1):
        with pytest.raises(BadChain, match="sequences start at positions from 0 to 3"):
            chain_from_matrix(rows, [0, 0, 1, 1], starts=[0, beyond])


def test_labels_of_a_matrix_do_not_wrap() -> None:
    with pytest.raises(LabelOutOfRange, match="position 0 has label 4294967296"):
        chain_from_matrix(np.ones((2, 1)), [2**32, 0])
