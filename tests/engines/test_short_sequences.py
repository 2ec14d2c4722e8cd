"""Whole sequences that go there and back in the cache, beside long ones; what is kept between evaluations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from chainfold import (
    Chain,
    Evaluation,
    Layout,
    Model,
    SyntheticChain,
    log_likelihood,
    open_chain,
    write_chain,
)
from chainfold.chain.block import MOST_LABELS
from chainfold.core.slots import padded
from chainfold.engines import workspace
from chainfold.engines.registry import ENGINES
from chainfold.errors import BadSetting, ScoreNotFinite
from chainfold.model.layout import Floats
from chainfold.training.objective import Objective, WeightSpace
from chainfold.training.passes import LocalPasses
from tolerances import AT_LENGTH, FLOOR, LOG_DOMAIN_AT_LENGTH

SHORT_AND_LONG = [1, 2, 700, 5, 5, 40, 683, 682, 1, 3000, 20, 9, 9, 1500, 6]


def chain_of(lengths: list[int], n_labels: int, seed: int = 0) -> Chain:
    random = np.random.default_rng(seed)
    positions = sum(lengths)
    starts = np.zeros(positions, bool)
    starts[np.cumsum([0, *lengths[:-1]])] = True
    return Chain.from_arrays(
        labels=random.integers(0, n_labels, positions),
        starts=starts,
        offsets=np.arange(positions + 1) * 3,
        ids=random.integers(0, 30, 3 * positions),
        n_labels=n_labels,
        n_attributes=30,
    )


def agree(found: Evaluation, reference: Evaluation, tolerance: float = AT_LENGTH) -> None:
    assert found.log_z == pytest.approx(reference.log_z, rel=tolerance)
    assert found.log_likelihood == pytest.approx(reference.log_likelihood, rel=tolerance)
    assert_allclose(found.expected, reference.expected, rtol=tolerance, atol=FLOOR)
    assert found.gradient is not None
    assert reference.gradient is not None
    assert_allclose(found.gradient, reference.gradient, rtol=tolerance, atol=1e-9)


@pytest.mark.parametrize("engine", ["stream", "parallel"])
@pytest.mark.parametrize("order", [1, -1], ids=["as they are", "the other way round"])
def test_short_and_long_sequences_together(engine: str, order: int) -> None:
    lengths = SHORT_AND_LONG[::order]
    chain = chain_of(lengths * 3, 23)
    model = Model.random(Layout.full(23, 30), seed=1)
    found = log_likelihood(model, chain, engine, threads=2)
    agree(found, log_likelihood(model, chain, "fb"))
    assert found.report.passes == 1 or engine == "parallel", "it looks beyond its cuts"
    progress: list[int] = []
    log_likelihood(model, chain, engine, progress=progress.append)
    assert sum(progress) == chain.positions


def test_sequences_whose_numbers_leave_the_range_are_done_in_logarithms() -> None:
    chain = chain_of([5, 8, 4, 700, 6, 5, 9, 3] * 4, 3)
    layout = Layout.full(3, 30)
    weights = np.random.default_rng(2).normal(size=layout.size)
    weights[7 * 3] = -400.0  # of attribute 7 with label 0, which occurs in some sequences
    weights[layout.n_state + 4] = -np.inf
    labels = np.where(np.arange(chain.positions) % 2, 1, 2)  # so that the transition 1 to 1 is never observed
    labels[chain.starts] = 0
    model = Model(layout, weights)
    given = Chain.from_arrays(
        labels=labels, starts=chain.starts, offsets=chain.offsets, ids=chain.ids, n_labels=3, n_attributes=30
    )
    found = log_likelihood(model, given, "stream")
    assert 0 < found.report.wide_blocks < found.report.blocks
    agree(found, log_likelihood(model, given, "fb"))


@pytest.mark.parametrize("stay", [3.0, 12.0, 40.0], ids=["forgets", "slowly", "never"])
@pytest.mark.parametrize("lengths", [[9_000, 5, 4, 13_000, 2, 20_000, 7], [8_212, 5, 20_000]], ids=["many", "few"])
def test_what_is_pending_is_settled_by_the_end_of_its_sequence(stay: float, lengths: list[int]) -> None:
    """Long sequences whose blocks wait for their certificates, short ones between them.

    Of 8,212 positions, the last 20 are too few to certify the block before them, and the next sequence begins anew.
    """
    chain = chain_of(lengths, 2)
    layout = Layout.full(2, 30)
    weights = np.random.default_rng(5).normal(scale=0.01, size=layout.size)
    weights[layout.n_state :] = [stay, 0.0, 0.0, stay]
    model = Model(layout, weights)
    agree(log_likelihood(model, chain, "stream"), log_likelihood(model, chain, "fb"))


@pytest.mark.parametrize("n_labels", [65, 100])
def test_more_labels_than_a_tile_has(n_labels: int) -> None:
    chain = chain_of([3, 4], n_labels)
    model = Model.random(Layout.full(n_labels, 30), seed=3)
    reference = log_likelihood(model, chain, "fb-log")
    for engine in ("stream", "fb"):
        agree(log_likelihood(model, chain, engine), reference, LOG_DOMAIN_AT_LENGTH)


def test_rows_are_whole_tiles() -> None:
    assert [padded(n) for n in (1, 4, 5, 9, 22, 64, 65, 88, 100, 256)] == [4, 4, 8, 16, 24, 64, 80, 96, 112, 256]
    for n_labels in range(5, 300):
        width = padded(n_labels)
        assert n_labels <= width < 1.25 * n_labels + 8
        assert width % 8 == 0
        assert width <= 64 or any(width % tile == 0 for tile in (64, 56, 48, 40))
    with pytest.raises(BadSetting, match="n_labels"):
        Layout.full(MOST_LABELS + 1, 1)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    write_chain(tmp_path / "x.chain", SyntheticChain(9_000, 5, 40, 4, seed=2, mean_length=30))
    return tmp_path / "x.chain"


def values(path: Path, points: list[Floats]) -> list[tuple[float, Floats]]:
    chain = open_chain(path)
    objective = Objective(WeightSpace.of(chain, passes=LocalPasses(chain, threads=2)), c2=0.1, threads=2)
    return [objective(point) for point in points]


def test_a_chain_that_is_held_gives_the_bits_of_one_that_is_read(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = WeightSpace.of(open_chain(stored)).layout.size
    random = np.random.default_rng(0)
    points = [random.normal(size=size), random.normal(size=size)]
    held = values(stored, [*points, points[0]])
    assert held[0][0] == held[2][0]
    assert_array_equal(held[0][1], held[2][1], err_msg="what an evaluation leaves behind changes nothing")
    monkeypatch.setattr(workspace, "MOST_HELD", 1000)
    for (value, gradient), (other, other_gradient) in zip(held, values(stored, points), strict=False):
        assert value == other
        assert_array_equal(gradient, other_gradient)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_works_on_a_chain_that_is_held(engine: str, stored: Path) -> None:
    chain = open_chain(stored)
    space = WeightSpace.of(chain, passes=LocalPasses(chain, engine=engine))
    point = np.random.default_rng(0).normal(size=space.layout.size)
    value, gradient = Objective(space)(point)
    expected = log_likelihood(Model(space.layout, point), chain, engine)
    assert expected.log_likelihood is not None
    assert expected.gradient is not None
    assert_allclose(value, -expected.log_likelihood, rtol=AT_LENGTH)
    assert_allclose(gradient, -expected.gradient, rtol=1e-9, atol=1e-9)


def test_scores_out_of_range_are_found_in_a_chain_that_is_held(stored: Path) -> None:
    chain = open_chain(stored)
    space = WeightSpace.of(chain, passes=LocalPasses(chain, engine="stream"))
    point = np.where(np.arange(space.layout.size) % 7 == 3, 1.7e308, 0.0)
    with pytest.raises(ScoreNotFinite) as expected:
        log_likelihood(Model(space.layout, point), chain)
    with pytest.raises(ScoreNotFinite) as found:
        Objective(space)(point)
    assert str(found.value) == str(expected.value)
