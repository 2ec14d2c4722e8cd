"""The planner: what it predicts, what it chooses, and the sentence."""

from __future__ import annotations

import numpy as np
import pytest

from chainfold import Layout, Model, SyntheticChain, log_likelihood
from chainfold.engines import ENGINES
from chainfold.engines.plan import choose
from chainfold.engines.settings import Settings, Shape

LONG = Shape(positions=10**7, n_labels=23, weights=115_529, active=41.0, n_edge_attributes=0)


@pytest.mark.parametrize(
    ("settings", "engine", "reason"),
    [
        (Settings(), "parallel", "any number of threads"),
        (Settings(threads=2), "parallel", "any number of threads"),
        (Settings(threads=2, memory=8_000_000), "stream", "more memory than is allowed"),
        (Settings(memory=4_000_000), "stream", "one pass"),
        (Settings(memory=450_000), "stream", "one pass"),
        (Settings(memory=20_000), "fb-spill", "no engine keeps within the memory allowed"),
    ],
)
def test_choice(settings: Settings, engine: str, reason: str) -> None:
    choice = choose(LONG, settings)
    assert choice.engine == engine
    assert reason in choice.reason
    assert choice.reason.endswith(".")
    assert set(choice.costs) == set(ENGINES)


def test_a_short_chain_is_not_cut_for_threads() -> None:
    choice = choose(LONG._replace(positions=1000), Settings(threads=4))
    assert choice.engine == "stream"
    assert "too short" in choice.reason


def test_a_chain_that_is_short_beside_its_model_is_not_cut_either() -> None:
    shape = LONG._replace(positions=200_000, weights=20_000_000)
    assert choose(shape, Settings(threads=2)).engine == "stream"
    assert choose(shape._replace(weights=200_000), Settings(threads=2)).engine == "parallel"


def test_predictions_grow_as_they_should() -> None:
    twice = LONG._replace(positions=2 * LONG.positions)
    for name, engine in ENGINES.items():
        one, two = engine.cost(LONG, Settings()), engine.cost(twice, Settings())
        assert two.time == pytest.approx(2.0 * one.time, rel=1e-3)
        growth = two.memory / one.memory
        longer = dict.fromkeys(("fb", "fb-log", "fb-recompute", "fb-log-recompute"), 2.0)
        expected = {**longer, "checkpoint": np.sqrt(2.0)}.get(name, 1.0)
        assert growth == pytest.approx(expected, rel=0.01), name


def test_edge_attributes_make_fb_keep_matrices() -> None:
    shape = LONG._replace(n_edge_attributes=3)
    assert ENGINES["fb"].cost(shape, Settings()).memory > 10 * ENGINES["fb"].cost(LONG, Settings()).memory


@pytest.mark.parametrize(("positions", "engine"), [(600_000, "parallel"), (60_000, "stream"), (3_000, "stream")])
def test_auto_is_the_engine_that_was_planned_with_the_same_bits_for_any_number_of_threads(
    positions: int, engine: str
) -> None:
    source = SyntheticChain(positions, 3, 10, 2)
    model = Model.random(Layout.full(3, 10))
    runs = [log_likelihood(model, source, "auto", threads=threads) for threads in (1, 2, 5)]
    assert {found.engine for found in runs} == {engine}
    assert len({(found.log_z, found.expected.tobytes()) for found in runs}) == 1
    assert runs[0].expected == pytest.approx(log_likelihood(model, source, "fb").expected, rel=1e-11)


@pytest.mark.parametrize("memory", [None, 10**6, 8 * 10**6, 3 * 10**7, 10**8, 10**9])
@pytest.mark.parametrize("positions", [10**3, 10**5, 10**7])
def test_the_choice_does_not_depend_on_the_number_of_threads(positions: int, memory: int | None) -> None:
    shape = LONG._replace(positions=positions)
    choices = [choose(shape, Settings(threads=threads, memory=memory)) for threads in (1, 2, 3, 16, 200)]
    assert len({choice.engine for choice in choices}) == 1
    if memory is not None and choices[0].engine in ("stream", "parallel"):
        assert all(choice.costs["parallel"].memory <= memory for choice in choices)


def test_stream_keeps_within_the_memory_it_is_given() -> None:
    for memory in (10_000, 10**5, 10**6, 10**7):
        for shape in (LONG._replace(n_labels=5), LONG, LONG._replace(n_edge_attributes=2)):
            if memory >= shape.certificate_bytes + 4 * 256 * shape.pass_bytes:
                assert ENGINES["stream"].cost(shape, Settings(memory=memory)).memory <= memory
