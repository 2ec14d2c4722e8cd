"""The entropy of a labelling: three exact ways against all labellings, and sampling within its own error."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from chainfold import Chain, Model
from experiments.paper import entropy
from experiments.paper.entropy import EXACT, by_sampling, compare, pieces
from experiments.paper.run_plan import QUICK
from oracle import features, score
from paper_results import StubCorpus
from shapes import CASES, plain

ROUNDING = 1e-12
DEVIATIONS = 5.0  # standard errors


def entropy_of_all_paths(model: Model, chain: Chain) -> float:
    """-Σ p ln p, each labelling's score summed by itself."""
    totals = []
    for path in itertools.product(range(model.layout.n_labels), repeat=chain.positions):
        before = [None if start else path[t - 1] for t, start in enumerate(chain.starts)]
        steps = (features(chain, model.layout, t, before[t], path[t]) for t in range(chain.positions))
        totals.append(sum((score(active, model.weights) for active in steps), np.longdouble(0)))
    logs = np.array(totals) - max(totals)
    logs -= np.log(np.exp(logs).sum())
    return float(-(np.exp(logs) * logs).sum())


@pytest.mark.parametrize("name", ["one position", "3 labels", "start marks in pairs", "edge attributes, start marks"])
@pytest.mark.parametrize("way", EXACT)
def test_each_way_is_the_entropy_of_all_paths(name: str, way: str) -> None:
    model, chain = CASES[name](np.random.default_rng(5))
    truth = entropy_of_all_paths(model, chain)
    assert EXACT[way](model, chain) == pytest.approx(truth, abs=ROUNDING * max(1.0, truth))


def test_sampling_is_within_its_error_of_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    model, chain = plain(8, 2, scale=0.7)(np.random.default_rng(2))
    monkeypatch.setattr(entropy, "_DRAWN", 8 * 150)
    truth = entropy_of_all_paths(model, chain)
    sizes, estimates, errors = by_sampling(model, chain, 600)
    assert sizes == [10, 30, 100, 300, 600]
    for estimate, error in zip(estimates, errors, strict=True):
        assert abs(estimate - truth) <= DEVIATIONS * error
    assert errors[-1] < errors[2] < errors[0]
    assert (sizes, estimates, errors) == by_sampling(model, chain, 600)


def test_a_standard_error_is_that_of_a_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    model, chain = plain(4, 2)(np.random.default_rng(2))
    drawn = [2.0, 4.0] * 10
    monkeypatch.setattr(entropy, "_surprises", lambda model, chain, samples: iter(drawn))
    sizes, estimates, errors = by_sampling(model, chain, 20)
    assert (sizes, estimates) == ([10, 20], [3.0, 3.0])
    assert errors == pytest.approx([(10 / 9 / 10) ** 0.5, (20 / 19 / 20) ** 0.5])


def test_samples_drawn_a_few_at_a_time_are_all_different_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    model, chain = plain(40, 3)(np.random.default_rng(4))
    monkeypatch.setattr(entropy, "_DRAWN", 40 * 5)
    found = list(entropy._surprises(model, chain, 17))
    assert len(found) == len(set(found)) == 17


def test_the_piece(tmp_path: Path) -> None:
    model, chain = plain(60, 2, scale=0.7)(np.random.default_rng(6))
    plan = replace(QUICK, entropy_positions=50, samples=100)
    (piece,) = pieces(plan, cast(Any, StubCorpus(tmp_path, model, chain)))
    found = json.loads(json.dumps(piece.run({}), allow_nan=False))
    assert piece.key == "entropy"
    assert (found["title"], found["positions"]) == ("the trained model", 50)
    assert list(found["exact"]) == list(EXACT)
    assert list(found["seconds"]) == [*EXACT, "sampling"]
    values = list(found["exact"].values())
    assert values == pytest.approx(values[:1] * 3, rel=1e-11)
    assert abs(found["estimates"][-1] - values[0]) <= DEVIATIONS * found["errors"][-1]


def test_weights_are_tempered_where_nothing_is_open() -> None:
    model, chain = plain(30, 2, scale=300.0, values="one", most=3)(np.random.default_rng(8))
    found = compare(model, chain, 20)
    assert "times 0.3" in found["title"]
    exact = entropy.by_tagging(Model(model.layout, 0.3 * model.weights), chain)
    assert found["exact"]["chainfold.entropies"] == exact
