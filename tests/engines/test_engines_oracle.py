"""Every engine on every awkward chain equals the enumeration of all paths, and finite differences."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from chainfold import Chain, Model, log_likelihood
from chainfold.engines.registry import ENGINES
from oracle import Truth, enumerate_paths
from shapes import CASES, case
from tolerances import DIFFERENCES, FLOOR, ORACLE

pytestmark = pytest.mark.quick

BLOCKS = {"blocks of 1": 1, "blocks of 3": 3, "one block": None}


@cache
def solved(name: str) -> tuple[Model, Chain, Truth]:
    model, chain = case(name)
    return model, chain, enumerate_paths(model, chain)


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES)
def test_engine_equals_oracle(case: str, engine: str, block: int | None) -> None:
    model, chain, truth = solved(case)
    found = log_likelihood(model, chain, engine, block=block)
    truth.check(found.log_z, found.log_likelihood, found.expected)
    if found.gradient is None:
        assert not chain.labelled
    else:
        error = np.abs(found.gradient - (truth.observed - truth.expected))
        assert (error <= ORACLE * (truth.magnitude + np.abs(truth.observed)) + FLOOR).all()


@pytest.mark.parametrize("case", CASES)
def test_stream_that_may_not_look_ahead_equals_oracle(case: str) -> None:
    model, chain, truth = solved(case)
    found = log_likelihood(model, chain, "stream", block=1, lookahead=1)
    truth.check(found.log_z, found.log_likelihood, found.expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", ["3 labels", "edge attributes", "huge and negative values", "sparse layout"])
def test_expected_counts_are_the_derivative_of_log_z(case: str, engine: str) -> None:
    model, chain, _ = solved(case)
    scale = 1.0 + np.abs(chain.values).max(initial=1.0) ** 2 * chain.positions
    step = 1e-5 / scale

    def log_z(m: int, by: float) -> float:
        weights = model.weights.copy()
        weights[m] += by
        return log_likelihood(Model(model.layout, weights), chain, engine, block=3).log_z

    expected = log_likelihood(model, chain, engine, block=3).expected
    for m in range(model.layout.size):
        difference = (log_z(m, step) - log_z(m, -step)) / (2.0 * step)
        assert abs(difference - expected[m]) <= DIFFERENCES * scale, model.layout.name(m)


def test_the_cases_reach_every_path_of_the_kernels() -> None:
    """Logarithms, real numbers, carried blocks, cuts that hold: each is met by some case."""
    wide, real, carried, cut = (False,) * 4
    for name in CASES:
        model, chain, _ = solved(name)
        stream = log_likelihood(model, chain, "stream", block=1, lookahead=1).report
        parallel = log_likelihood(model, chain, "parallel", block=2).report
        wide |= stream.wide_blocks > 0
        real |= stream.wide_blocks == 0
        carried |= stream.carried_blocks > 0
        cut |= parallel.in_order == 0 and chain.positions >= 4
    assert wide
    assert real
    assert carried
    assert cut
