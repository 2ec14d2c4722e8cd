"""Many weights: which sizes and lengths are measured, and what becomes of the figures; nothing is timed here."""

from __future__ import annotations

import json
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

from chainfold.chain.synthetic import SyntheticChain
from chainfold.model.layout import Layout
from chainfold.model.model import Model
from experiments.ledger import RunPiece
from experiments.paper import measurement
from experiments.paper.many_weights import Size, pieces, sizes
from experiments.paper.run_plan import FULL, QUICK, RunPlan


class Measured:
    """In place of a process: the points that were asked for, and invented figures."""

    def __init__(self, *seconds: float | None) -> None:
        self.points: list[measurement.Point] = []
        self._seconds = seconds

    def __call__(self, what: measurement.Point) -> dict[str, Any]:
        seconds = self._seconds[len(self.points) % len(self._seconds)]
        self.points.append(what)
        if seconds is None:
            return measurement.unmeasured("killed", "it was killed.")
        return {"outcome": "measured", "seconds": seconds, "peak_rss": 1000 * len(self.points)}


def found(plan: RunPlan) -> dict[str, RunPiece]:
    corpus: Any = None
    return {piece.key: piece for piece in pieces(plan, corpus)}


@pytest.mark.parametrize("plan", [QUICK, FULL], ids=["quick", "full"])
def test_weights_go_up_by_decades_to_the_most(plan: RunPlan) -> None:
    for n_labels in (2, 5) if plan.quick else (2, 5, 22):
        weights = [size.weights for size in sizes(plan) if size.n_labels == n_labels]
        least = n_labels * 5 + n_labels**2
        assert weights[0] == pytest.approx(max(20, least), rel=0.5)
        assert weights[-1] == pytest.approx(plan.most_weights, rel=0.01)
        ratios = [more / less for less, more in pairwise(weights)]
        step = 100 if plan.quick else 10
        assert ratios
        assert all(1 < ratio < 1.1 * step for ratio in ratios)
        assert ratios[1:] == pytest.approx([step] * len(ratios[1:]), rel=0.15)


@pytest.mark.parametrize("size", list(sizes(QUICK)), ids=str)
def test_the_weights_are_those_of_the_layout(size: Size) -> None:
    source = SyntheticChain(2, *size, 5, seed=1)
    assert Model(Layout.full(*size), source.true_weights()).layout.size == size.weights


def test_what_has_occurred_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "measure", Measured(9.0))
    results = [piece.run({}) for piece in found(QUICK).values()]
    for result in results:
        source = SyntheticChain(result["positions"], result["labels"], result["attributes"], 5, seed=1)
        ids = source.block(0, min(result["positions"], 100_000)).ids
        assert result["seen"] == len(set(ids.tolist())) / result["attributes"]
    assert min(result["seen"] for result in results) < 0.95
    assert {result["seen"] for result in results if result["engine"] == "forward-only"} == {1.0}


def test_the_labels_are_measured_with_both_forward_algorithms() -> None:
    keys = [key for key in found(FULL) if key.startswith("labels/")]
    assert [key.split("/")[1] for key in keys if key.endswith("/emp")] == ["2", "4", "8", "16"]
    assert len(keys) == 8


def test_the_element_of_a_short_point(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Measured(0.5, 0.9, 0.6)
    monkeypatch.setattr(measurement, "measure", asked)
    key = next(key for key in found(FULL) if key.startswith("weights/5/") and key.endswith("/emp"))
    result = found(FULL)[key].run({})
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert key == f"weights/{result['labels']}/{result['weights']}/{result['engine']}"
    assert result["weights"] == 5 * result["attributes"] + 25
    assert result["seconds"] == [0.5, 0.9, 0.6]
    assert result["nanoseconds"] == pytest.approx(median([0.5, 0.9, 0.6]) / result["positions"] * 1e9)
    assert result["peak_rss"] == 3000
    assert len(set(asked.points)) == 1
    assert asked.points[0].positions == result["positions"]


@pytest.mark.parametrize(("seconds", "kept"), [((None,), []), ((0.5, None, 0.7), [0.5, 0.7]), ((12.0,), [12.0])])
def test_killed_points_have_no_figures_and_long_ones_one_round(
    seconds: tuple[float | None, ...], kept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "measure", Measured(*seconds))
    result = next(iter(found(FULL).values())).run({})
    assert result["seconds"] == kept
    assert (result["nanoseconds"] is None) == (result["peak_rss"] is None) == (not kept)
