"""Real sequences: the intrusion log as one chain, and sentences run together, by the engines that would be used."""

from __future__ import annotations

import gzip
import os
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from chainfold import Chain, Layout, Model, evaluate
from tolerances import AT_LENGTH

DATA = Path(os.environ.get("CHAINFOLD_DATA", Path(__file__).parents[2] / "shared" / "data"))
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.exists(), reason=f"the real data sets are not in {DATA}; set CHAINFOLD_DATA"),
]


def chain_of(columns: list[NDArray[np.str_]], labels: NDArray[np.str_], starts: NDArray[np.bool_] | None) -> Chain:
    """Each value of each column is an attribute; ids by falling frequency."""
    codes, count = [], 0
    for column in columns:
        values, code = np.unique(column, return_inverse=True)
        codes.append(code + count)
        count += values.size
    ids = np.stack(codes, axis=1).ravel()
    rank = np.empty(count, np.int64)
    rank[np.argsort(-np.bincount(ids, minlength=count), kind="stable")] = np.arange(count)
    positions = labels.size
    return Chain.from_arrays(
        offsets=np.arange(positions + 1) * len(columns),
        ids=rank[ids],
        labels=np.unique(labels, return_inverse=True)[1],
        starts=starts,
    )


def kdd(positions: int = 100_000) -> Chain:
    """The beginning of KDD 10 %: one sequence, symbolic fields as they are, numbers by their logarithm, rounded."""
    with gzip.open(DATA / "kddcup99" / "kddcup.data_10_percent.gz", "rt") as file:
        rows = [line.rstrip().split(",") for line in islice(file, positions)]
    table = np.array(rows)
    columns = []
    for k in range(41):
        if k in (1, 2, 3):
            columns.append(table[:, k])
        else:
            columns.append(np.round(np.log1p(table[:, k].astype(float)), 1).astype(str))
    return chain_of(columns, table[:, 41], None)


def conll(run_together: bool) -> Chain:
    with gzip.open(DATA / "conll2000" / "train.txt.gz", "rt") as file:
        sentences = [sentence.split("\n") for sentence in file.read().strip().split("\n\n")]
    words = np.array([line.split(" ") for sentence in sentences for line in sentence])
    starts = np.concatenate([[True] + [False] * (len(sentence) - 1) for sentence in sentences])
    columns = [words[:, 0], words[:, 1]]
    columns += [np.roll(words[:, 0], shift) for shift in (1, -1)] + [np.roll(words[:, 1], shift) for shift in (1, -1)]
    return chain_of(columns, words[:, 2], None if run_together else starts)


def trained(chain: Chain, layout: Layout, iterations: int) -> Model:
    """A few steps of an optimiser, so that the weights are like those of a real model."""

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        found = evaluate(Model(layout, weights), chain, "parallel", threads=2)
        assert found.gradient is not None
        assert found.log_likelihood is not None
        return float(weights @ weights - found.log_likelihood), 2.0 * weights - found.gradient

    start = np.zeros(layout.size)
    result = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": iterations})
    assert result.fun < 0.5 * loss(start)[0]
    return Model(layout, result.x)


@pytest.mark.parametrize("name", ["kdd", "conll run together", "conll"])
def test_engines_agree_on_real_data_and_it_forgets(name: str) -> None:
    chain = kdd() if name == "kdd" else conll(run_together=name == "conll run together")
    model = trained(chain, Layout.observed(chain), iterations=15)
    reference = evaluate(model, chain, "fb")
    for engine in ("stream", "parallel", "checkpoint"):
        found = evaluate(model, chain, engine, threads=2)
        assert abs(found.log_z - reference.log_z) <= AT_LENGTH * abs(reference.log_z)
        np.testing.assert_allclose(found.expected, reference.expected, rtol=AT_LENGTH, atol=1e-12)
        assert found.report.carried_blocks == 0
        assert found.report.in_order == 0
        assert found.report.lookahead_max <= 200
