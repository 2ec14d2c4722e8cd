"""The cost model of clusters, and the page that shows it."""

from __future__ import annotations

from experiments import ROOT
from experiments.bench.capacity import Machines, Work, iteration, table


def test_the_page_shows_what_the_model_says() -> None:
    assert "\n".join(table()) in (ROOT / "docs" / "cluster.md").read_text()


def test_compute_falls_with_workers_and_the_rest_does_not() -> None:
    few, many = (iteration(Work(1e11, 1e6, workers)) for workers in (16, 1024))
    assert few.compute == 64 * many.compute
    assert many.weights > few.weights
    assert many.efficiency < few.efficiency


def test_a_chain_of_sixteen_stretches_keeps_sixteen_workers_busy() -> None:
    times = [iteration(Work(3e7, 1e5, workers)).compute for workers in (8, 16, 64)]
    assert times[0] == 2 * times[1] == 2 * times[2]


def test_a_faster_network_helps_large_models_alone() -> None:
    slow, fast = Machines(), Machines(bandwidth=1.25e10)
    large, small = Work(1e11, 1e8, 1000), Work(1e11, 1e4, 1000)
    assert iteration(large, slow).seconds > 2 * iteration(large, fast).seconds
    assert iteration(small, slow).seconds < 1.1 * iteration(small, fast).seconds
