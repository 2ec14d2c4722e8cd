"""The share of a stretch: shares of all stretches add up to the whole, from halos that no cut is too close for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from chainfold import Layout, Model, SyntheticChain, log_likelihood
from chainfold.engines.halo import Halo
from chainfold.engines.problem import Problem
from chainfold.engines.settings import Settings
from chainfold.engines.stretch import share
from chainfold.engines.weight_scores import WeightSource


@pytest.mark.parametrize("mean_length", [None, 40])
def test_shares_add_up(mean_length: int | None) -> None:
    chain = SyntheticChain(3000, 3, 10, 2, seed=1, mean_length=mean_length)
    model = Model(Layout.full(3, 10), chain.true_weights())
    problem = Problem(model, chain, Settings())
    source, cuts = WeightSource(problem), [0, 1, 2, 700, 1999, 3000]
    shares = [share(source, low, high) for low, high in pairwise(cuts)]
    whole = log_likelihood(model, chain, "fb")
    assert sum(part.tally.log_z for part in shares) == pytest.approx(whole.log_z, rel=1e-10)
    expected = sum(model.layout.unpack(part.tally.expected.result()) for part in shares)
    np.testing.assert_allclose(expected, whole.expected, rtol=1e-9, atol=1e-12)
    assert all(part.past.known and part.future.known for part in shares)


def test_a_halo_that_is_too_small_certifies_nothing() -> None:
    chain = SyntheticChain(3000, 3, 10, 2, seed=1)
    model = Model(Layout.full(3, 10), chain.true_weights())
    problem = Problem(model, chain, Settings())
    part = share(WeightSource(problem), 1000, 2000, Halo(2, 2))
    assert not part.past.known
    assert not part.future.known
