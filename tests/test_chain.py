"""The chain: in memory, made on the fly, on disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chainfold import Chain, Layout, Model, SyntheticChain, errors, evaluate
from chainfold.data.chain import Block, Source, gather
from chainfold.data.store import open_chain, write_chain
from shapes import CASES


def same(a: Block, b: Block) -> None:
    np.testing.assert_array_equal(a.labels, b.labels)
    np.testing.assert_array_equal(a.starts, b.starts)
    for offsets, ids, values in (("offsets", "ids", "values"), ("edge_offsets", "edge_ids", "edge_values")):
        x, y = getattr(a, offsets), getattr(b, offsets)
        np.testing.assert_array_equal(np.diff(x), np.diff(y))
        for name in (ids, values):
            p, q = getattr(a, name), getattr(b, name)
            assert (p.size == 0) == (q.size == 0)
            if p.size:
                np.testing.assert_array_equal(p[x[0] : x[-1]], q[y[0] : y[-1]])


def test_arrays_are_read_only_and_the_first_position_is_a_start() -> None:
    labels = np.array([0, 1])
    chain = Chain.from_arrays(offsets=[0, 1, 2], ids=[0, 3], labels=labels, starts=[False, False])
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
        same(again.block(low, high), whole.block(low, high))


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
        found = evaluate(Model(Layout.full(3, 12, n_edge_attributes), weights), source)
        assert found.gradient is not None
        gradients.append(found.gradient)
    array = np.array(gradients)
    deviations = array.mean(axis=0) / (array.std(axis=0) / np.sqrt(len(array)) + 1e-12)
    assert np.abs(deviations).max() < 4.5
    assert np.sqrt((deviations**2).mean()) < 1.5


SYNTHETIC_TWIN = {k: SyntheticChain(400, 3, 12, 2, seed=0, mean_length=10, n_edge_attributes=k) for k in (0, 2)}


@pytest.mark.parametrize("name", [*SYNTHETIC, *CASES])
def test_a_chain_comes_back_from_disk(name: str, tmp_path: Path) -> None:
    source: Source = SYNTHETIC[name] if name in SYNTHETIC else CASES[name](np.random.default_rng(0))[1]
    path = tmp_path / "chain.arrow"
    write_chain(path, source)
    stored = open_chain(path)
    for attribute in ("positions", "n_labels", "n_attributes", "n_edge_attributes", "active", "labelled"):
        assert getattr(stored, attribute) == getattr(source, attribute)
    same(stored.block(0, stored.positions), source.block(0, source.positions))
    assert [p.name for p in tmp_path.iterdir()] == ["chain.arrow"]


def test_blocks_of_a_stored_chain_may_span_batches(tmp_path: Path) -> None:
    source = SyntheticChain(150_000, 3, 10, 2, seed=6, n_edge_attributes=2, mean_length=100)
    path = tmp_path / "chain.arrow"
    write_chain(path, source)
    stored = open_chain(path)
    for low, high in ((65_530, 65_540), (0, 65_536), (65_536, 65_537), (60_000, 140_000), (131_072, 150_000)):
        same(stored.block(low, high), source.block(low, high))
    model = Model.random(Layout.full(3, 10, 2))
    assert evaluate(model, stored).log_z == evaluate(model, source).log_z


def test_files_that_are_no_chains(tmp_path: Path) -> None:
    with pytest.raises(errors.BadFile, match="no such file"):
        open_chain(tmp_path / "missing")
    (tmp_path / "text").write_text("not a chain")
    with pytest.raises(errors.BadFile, match="not a chain written by chainfold"):
        open_chain(tmp_path / "text")
    (tmp_path / "empty").touch()
    with pytest.raises(errors.BadFile, match="not a chain"):
        open_chain(tmp_path / "empty")
    with pytest.raises(errors.BadFile, match="cannot be read"):
        open_chain(tmp_path)
    write_chain(tmp_path / "whole", SYNTHETIC["plain"])
    data = (tmp_path / "whole").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    with pytest.raises(errors.BadFile, match="cut short"):
        open_chain(tmp_path / "cut")
    with pytest.raises(errors.BadFile, match="cannot be written"):
        write_chain(tmp_path / "missing" / "chain", SYNTHETIC["plain"])


CORRUPT = """
import sys, numpy as np, chainfold as cf
path, damaged = sys.argv[1:]
data = np.fromfile(path, np.uint8)
model = cf.Model.random(cf.Layout.full(3, 10, 2))
random = np.random.default_rng(0)
refused = 0
for trial in range(150):
    copy = data.copy()
    at = random.integers(0, copy.size - 4)
    copy[at : at + 4] = random.integers(0, 256, 4)
    copy.tofile(damaged)
    try:
        cf.evaluate(model, cf.open_chain(damaged), block=700)
    except cf.ChainfoldError as error:
        refused += 1
print(refused)
"""


def test_a_damaged_chain_never_crashes_the_process(tmp_path: Path) -> None:
    write_chain(tmp_path / "whole", SyntheticChain(3000, 3, 10, 2, n_edge_attributes=2, mean_length=30))
    command = [sys.executable, "-c", CORRUPT, str(tmp_path / "whole"), str(tmp_path / "damaged")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20, "some damage cannot be told from data, but much can"


def test_edge_offsets_without_edges_are_no_edges(tmp_path: Path) -> None:
    positions = 70_000
    chain = Chain.from_arrays(
        offsets=np.arange(positions + 1),
        ids=np.zeros(positions, int),
        labels=np.zeros(positions, int),
        edge_offsets=np.zeros(positions + 1),
    )
    write_chain(tmp_path / "chain", chain)
    model = Model.random(Layout.full(1, 1))
    found, stored = evaluate(model, chain, block=100), evaluate(model, open_chain(tmp_path / "chain"))
    assert found.log_z == pytest.approx(stored.log_z, rel=1e-14)
    assert found.report.bytes_read < 40 * positions


@pytest.mark.parametrize(("sticky", "active"), [(1.0, 0), (1.0, 3), (0.5, 0)])
def test_true_weights_at_the_ends_of_the_knobs(sticky: float, active: int) -> None:
    source = SyntheticChain(500, 3, 6, active, sticky=sticky, n_edge_attributes=2)
    weights = source.true_weights()
    assert not np.isnan(weights).any()
    assert evaluate(Model(Layout.full(3, 6, 2), weights), source).log_likelihood is not None


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    class Broken(SyntheticChain):
        def block(self, low: int, high: int) -> Block:
            if low:
                raise KeyboardInterrupt
            return super().block(low, high)

    with pytest.raises(KeyboardInterrupt):
        write_chain(tmp_path / "chain", Broken(100_000, 2, 4, 1))
    assert list(tmp_path.iterdir()) == []
