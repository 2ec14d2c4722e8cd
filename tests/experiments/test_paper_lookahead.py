"""The certificate's experiment: its posteriors against every future, its bound against enumeration, its histogram."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from chainfold import Chain, Layout, Model
from chainfold.chain.chain import gather
from chainfold.chain.synthetic import SyntheticChain
from chainfold.inference.whole_chain import marginals
from experiments.paper import lookahead
from experiments.paper.lookahead import TOLERANCES, Boundaries, bounds, lookaheads, pieces
from experiments.paper.run_plan import QUICK
from paper_results import StubCorpus
from tolerances import ORACLE

ROUNDING = 1e-13
SMALL = replace(QUICK, boundaries=40, lengths={"2-few": (3_000, 6_000)})


def tiny(seed: int, positions: int, n_labels: int = 2, head: Chain | None = None) -> Chain:
    """A chain of one attribute a position with a real value; the first positions may be those of another."""
    random = np.random.default_rng(seed)
    ids, values = random.integers(0, 3, positions), random.normal(size=positions)
    if head is not None:
        ids[: head.positions], values[: head.positions] = head.ids[: head.positions], head.values[: head.positions]
    return Chain.from_arrays(
        offsets=np.arange(positions + 1), ids=ids, values=values, labels=np.zeros(positions, int),
        n_labels=n_labels, n_attributes=3,
    )  # fmt: skip


def enumerated(model: Model, chain: Chain, position: int) -> NDArray[np.float64]:
    """The posterior of a position, from every path."""
    n, layout = chain.n_labels, model.layout
    state = model.weights[: layout.n_state].reshape(-1, n)[chain.ids] * chain.values[:, None]
    transition = model.weights[layout.n_state :].reshape(n, n)
    paths = np.array(list(product(range(n), repeat=chain.positions)))
    scores = state[np.arange(chain.positions), paths].sum(axis=1) + transition[paths[:, :-1], paths[:, 1:]].sum(axis=1)
    mass = np.bincount(paths[:, position], np.exp(scores - scores.max()), n)
    return np.asarray(mass / mass.sum())


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boundaries every two positions, so that chains that can be enumerated have some."""
    monkeypatch.setattr(lookahead, "_LEAST_SPACING", 2)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("n_labels", "positions", "future"), [(2, 9, 4), (3, 7, 2)])
def test_what_is_certified_holds_whatever_follows(n_labels: int, positions: int, future: int) -> None:
    model = Model.random(Layout.full(n_labels, 3), seed=1, scale=0.3)
    chain = tiny(0, positions, n_labels)
    certified = 0
    for tolerance in TOLERANCES[:2]:
        boundaries = Boundaries(model, chain, positions, tolerance)
        for k in range(boundaries.count):
            certificate = boundaries.certificate(k)
            if certificate is None:
                continue
            certified += 1
            boundary = (k + 1) * boundaries.spacing - 1
            read = boundary + certificate.positions + 1
            assert read <= positions
            for seed in range(20):
                continued = tiny(100 + seed, read + future, n_labels, head=gather(chain, read))
                truth = enumerated(model, continued, boundary)
                assert np.abs(certificate.gamma[:n_labels] / truth - 1.0).max() <= tolerance + ROUNDING
                possible = certificate.q[:n_labels, :n_labels]
                assert (truth >= possible.min(axis=1) * (1 - ROUNDING)).all()
                assert (truth <= possible.max(axis=1) * (1 + ROUNDING)).all()
    assert certified >= 2


def test_the_truth_is_that_of_tagging() -> None:
    source = SyntheticChain(3_000, 5, 40, 3, seed=2)
    model, chain = Model(Layout.full(5, 40), source.true_weights()), gather(source)
    boundaries = Boundaries(model, chain, 30)
    truth = marginals(model, chain, tolerance=1e-14)[boundaries.spacing - 1 :: boundaries.spacing]
    np.testing.assert_allclose(boundaries.posteriors(), truth[: boundaries.count], rtol=ROUNDING)
    after, fresh = boundaries.certificate(0), Boundaries(model, chain, 30).certificate(0)
    assert after is not None
    assert fresh is not None
    np.testing.assert_array_equal(after.gamma, fresh.gamma, "the way back leaves the blocks as they were")


def test_the_certificate_is_taken_no_further_than_it_needs() -> None:
    """One position fewer would not have done: the lookahead of the looser tolerance is never the longer one."""
    source = SyntheticChain(4_000, 3, 12, 2, seed=4)
    model, chain = Model(Layout.full(3, 12), source.true_weights()), gather(source)
    loose, strict = Boundaries(model, chain, 20, 1e-4), Boundaries(model, chain, 20, 1e-12)
    assert loose.count == strict.count == 20
    for k in range(20):
        sooner, later = loose.certificate(k), strict.certificate(k)
        assert sooner is not None
        assert later is not None
        assert 0 < sooner.positions < later.positions
        np.testing.assert_allclose(sooner.gamma, later.gamma, rtol=1e-4)


def test_the_histogram_adds_up() -> None:
    source = SyntheticChain(6_000, 3, 12, 2, seed=4)
    model, chain = Model(Layout.full(3, 12), source.true_weights()), gather(source)
    found = lookaheads(model, chain, 60)
    assert found["boundaries"] == 60
    assert sum(found["count"]) + found["not_certified"] == 60
    assert found["not_certified"] == 0
    assert found["lookahead"] == sorted(set(found["lookahead"]))
    each = np.repeat(found["lookahead"], found["count"])
    assert (found["mean"], found["median"], found["max"]) == (each.mean(), np.median(each), each.max())
    assert len(found["lookahead"]) > 5


def test_weights_of_zero_are_certified_at_once() -> None:
    chain = gather(SyntheticChain(2_000, 3, 12, 2, seed=4))
    found = lookaheads(Model(Layout.full(3, 12), np.zeros(45)), chain, 20)
    assert (found["lookahead"], found["count"]) == ([1], [20])


def test_a_chain_that_never_forgets_is_never_certified() -> None:
    chain = gather(SyntheticChain(400, 2, 6, 2, seed=4))
    weights = np.concatenate([np.zeros(12), [0.0, -np.inf, -np.inf, 0.0]])
    model = Model(Layout.full(2, 6), weights)
    found = lookaheads(model, chain, 10)
    assert found["not_certified"] == found["boundaries"] == 10
    assert (found["lookahead"], found["count"]) == ([], [])
    assert found["mean"] is found["median"] is found["max"] is None
    for bound in bounds(model, chain, 10):
        assert bound["boundaries"] == 0
        assert bound["worst_error"] is bound["median_error"] is bound["lookahead_mean"] is None
        assert bound["count_error"] <= ORACLE


@pytest.mark.parametrize("positions", [1, 9, 25])
def test_chains_too_short_for_a_boundary_have_none(positions: int) -> None:
    chain = gather(SyntheticChain(positions, 2, 6, 2, seed=4))
    model = Model.random(Layout.full(2, 6))
    found = lookaheads(model, chain, 10)
    assert sum(found["count"]) + found["not_certified"] == found["boundaries"] <= 1
    assert [bound["tolerance"] for bound in bounds(model, chain, 10)] == list(TOLERANCES)


@pytest.mark.parametrize("informative", [0.05, 0.5])
def test_the_error_is_within_the_bound(informative: float) -> None:
    source = SyntheticChain(4_000, 3, 30, 3, sticky=0.95, informative=informative, seed=3)
    model, chain = Model(Layout.full(3, 30), source.true_weights()), gather(source)
    found = bounds(model, chain, 30)
    assert [bound["tolerance"] for bound in found] == list(TOLERANCES)
    for bound in found:
        assert bound["boundaries"] == 30
        assert 0.0 < bound["median_error"] <= bound["worst_error"] <= bound["tolerance"] + ROUNDING
        assert bound["count_error"] <= bound["tolerance"] + ORACLE
    assert found[0]["worst_error"] > 1e-6, "a loose tolerance leaves an error that can be seen"
    assert found[0]["lookahead_mean"] < found[-1]["lookahead_mean"]


def test_pieces_give_what_the_page_wants(tmp_path: Path) -> None:
    source = SyntheticChain(6_000, 3, 12, 2, seed=4)
    corpus: Any = StubCorpus(tmp_path, Model(Layout.full(3, 12), source.true_weights()), source)
    found = pieces(SMALL, corpus)
    kinds = [("2-few", kind) for kind in ("trained", "random", "zero")] + [("slow", "true")]
    names = [(which, *kind) for kind in kinds for which in ("lookahead", "bound")]
    assert [piece.key for piece in found] == ["certificate/" + "/".join(name) for name in names]
    for piece, (which, setting, weights) in zip(found, names, strict=True):
        result = piece.run({})
        assert json.loads(json.dumps(result, allow_nan=False)) == result
        assert result == piece.run({})
        elements = [result] if which == "lookahead" else result["bound"]
        for element in elements:
            assert (element["setting"], element["weights"]) == (setting, weights)
            assert element["boundaries"] == 40
    titles = {piece.run({})["title"] for piece in found[::2]}
    assert titles == {"2 labels, few attributes", "a chain that forgets slowly"}
