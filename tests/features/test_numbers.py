"""Columns of numbers: read and checked, put into bins, and fitted in one pass of bounded memory."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from chainfold.errors import BadFile, ChainfoldError
from chainfold.features.functions import Step
from chainfold.features.numbers import NumberStatistics, bin_codes, bin_name, cells_of, fit, needs_fit, numbers_of
from chainfold.features.template import Template, every_column, log_edges, parse_attributes
from chainfold.readers.columns import BAG, Stretch

finite = st.floats(allow_nan=False, allow_infinity=False)


def stretch(**columns: object) -> Stretch:
    batch = pa.RecordBatch.from_pydict(columns)
    return Stretch(batch, np.zeros(batch.num_rows, np.bool_), np.arange(batch.num_rows) + 11, "flows.csv")


def edges_of(values: object, bins: int, batches: int = 1) -> list[float]:
    """The edges that quantile(x, bins) is fitted with."""
    parts = np.array_split(np.asarray(values, np.float64), batches)
    template = fit(parse_attributes(f"quantile(x,{bins})"), [stretch(x=pa.array(part)) for part in parts])
    (step,) = template.features[0].factors[0].steps
    assert step.name == "bins"
    return [float(edge) for edge in step.arguments]


def scale_of(*parts: NDArray[np.float64]) -> tuple[float, float]:
    template = fit(parse_attributes("standard(x)"), [stretch(x=pa.array(part)) for part in parts])
    (step,) = template.features[0].factors[0].steps
    assert step.name == "scale"
    mean, deviation = step.arguments
    return float(mean), float(deviation)


def test_bins_are_named_by_their_bounds() -> None:
    assert [bin_name(np.array([0.0, 1.0]), code) for code in range(3)] == ["[-inf,0)", "[0,1)", "[1,inf)"]
    assert [bin_name(np.array([-0.0]), code) for code in range(2)] == ["[-inf,0)", "[0,inf)"]
    assert bin_name(np.array([1e-9, 0.1, 1048576.0, 1e22]), 2) == "[0.1,1048576)"
    assert bin_name(np.array([1e-9, 0.1, 1048576.0, 1e22]), 3) == "[1048576,1e+22)"


@given(st.lists(finite, min_size=1, max_size=5, unique=True), finite)
def test_a_number_lies_within_the_bounds_that_its_bin_is_named_by(edges: list[float], number: float) -> None:
    rising = np.array(sorted(edges))
    code = int(bin_codes(np.array([number]), rising)[0])
    low, high = bin_name(rising, code)[1:-1].split(",")
    assert float(low) <= number < float(high)


def test_logarithmic_bins_begin_at_the_powers() -> None:
    edges = np.array(log_edges(2))
    names = [bin_name(edges, code) for code in bin_codes(np.array([1023.0, 1024.0, 2047.0, -1024.0, -1025.0]), edges)]
    assert names == ["[512,1024)", "[1024,2048)", "[1024,2048)", "[-1024,-512)", "[-2048,-1024)"]
    assert bin_name(edges, bin_codes(np.zeros(1), edges)[0]) == f"[{-(2.0**-30)!r},{2.0**-30!r})"


@given(st.lists(finite, min_size=2, max_size=20))
def test_cells_are_in_the_order_of_their_numbers(values: list[float]) -> None:
    cells = cells_of(np.array(sorted(values)))
    assert (np.diff(cells) >= 0).all()
    assert 0 <= cells[0] <= cells[-1] < 2**20


def test_small_whole_numbers_have_cells_of_their_own() -> None:
    assert np.unique(cells_of(np.arange(-512.0, 513.0))).size == 1025
    assert cells_of(np.array([0.0]))[0] == cells_of(np.array([-0.0]))[0]


@pytest.mark.parametrize(("count", "bins"), [(480, 16), (480, 5), (500, 10), (257, 7)])
@pytest.mark.parametrize("batches", [1, 3])
def test_quantiles_of_distinct_numbers_are_numpys(count: int, bins: int, batches: int) -> None:
    values = np.random.default_rng(0).permutation(np.arange(count) - count // 3)
    ranks = [round(j * count / bins) for j in range(1, bins)]
    assert edges_of(values, bins, batches) == [float(np.sort(values)[rank]) for rank in ranks]
    if count % bins == 0:
        expected = np.quantile(values, np.arange(1, bins) / bins, method="higher")
        assert edges_of(values, bins, batches) == expected.tolist()


def test_few_distinct_numbers_get_a_bin_each() -> None:
    assert edges_of([3, -2, 3, 3, 0, 0.5], 4) == [0.0, 0.5, 3.0]
    assert edges_of([7, 7, 7], 4) == [7.0]
    assert edges_of([-1.797e308], 4) == [np.finfo(np.float64).min]
    assert edges_of([], 4) == [0.0]


def test_a_number_that_fills_bins_leaves_the_others_to_the_rest() -> None:
    tail = np.arange(1.0, 301.0)
    values = np.concatenate([np.zeros(9000), tail])
    assert np.bincount(bin_codes(values, np.array(edges_of(values, 16)))).tolist() == [9000, *[20] * 15]
    values = np.concatenate([-tail, np.zeros(9000), tail])
    counts = np.bincount(bin_codes(values, np.array(edges_of(values, 16))))
    assert counts.size == 16
    assert np.sort(counts)[-2] <= 60  # 40, and half of that which the zeros push to one side


def test_the_mass_of_bins_is_even_on_a_heavy_tail() -> None:
    values = np.random.default_rng(1).lognormal(3.0, 4.0, 200_000)
    signed = np.where(np.arange(values.size) % 3 == 0, -values, values)
    for sample in (values, signed):
        counts = np.bincount(bin_codes(sample, np.array(edges_of(sample, 16, batches=4))), minlength=16)
        assert counts.size == 16
        assert np.abs(counts - sample.size / 16).max() < 0.03 * sample.size / 16


@settings(deadline=None)  # the first example compiles
@given(st.lists(finite, min_size=1, max_size=60), st.integers(2, 8), st.integers(1, 3))
def test_edges_rise_and_numbers_of_a_cell_share_a_bin(values: list[float], bins: int, batches: int) -> None:
    edges = np.array(edges_of(values, bins, batches))
    codes, cells = bin_codes(np.array(values), edges), cells_of(np.array(values))
    assert edges.size == max(min(bins, np.unique(cells).size) - 1, 1)
    assert np.isfinite(edges).all()
    assert (np.diff(edges) > 0).all()
    assert len(set(zip(codes.tolist(), cells.tolist(), strict=True))) == np.unique(cells).size


def test_memory_does_not_grow_with_the_column() -> None:
    stretches = [stretch(x=pa.array(np.random.default_rng(seed).normal(size=5000))) for seed in range(20)]
    template = parse_attributes("quantile(x) standard(x)")

    def peak(times: int) -> int:
        tracemalloc.start()
        fit(template, itertools.chain.from_iterable(itertools.repeat(stretches, times)))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(1)
    assert peak(10) < 1.2 * peak(1)


def test_only_one_pass_is_made() -> None:
    def once() -> Iterator[Stretch]:
        yield stretch(x=pa.array([1.0, 2.0]), y=pa.array([5.0, None]))
        yield stretch(x=pa.array([3.0, 4.0]), y=pa.array([7.0, 7.0]))

    template = parse_attributes(
        "quantile(x,2) standard(x) quantile(x,4)[-1]|quantile(y,2) lower(word) bins(y,3) standard(y)"
    )
    assert needs_fit(template)
    fitted = fit(template, once())
    assert not needs_fit(fitted)
    assert [[factor.steps for factor in feature.factors] for feature in fitted.features] == [
        [(Step("bins", (3.0,)),)],
        [(Step("scale", (2.5, math.sqrt(1.25))),)],
        [(Step("bins", (2.0, 3.0, 4.0)),), (Step("bins", (7.0,)),)],
        [(Step("lower"),)],
        [(Step("bins", (3,)),)],
        [(Step("scale", (19 / 3, math.sqrt(8 / 9))),)],
    ]
    assert [feature.pieces for feature in fitted.features] == [feature.pieces for feature in template.features]
    assert Template.from_json(fitted.to_json()) == fitted


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9 / 3])
def test_a_column_that_never_changes_has_deviation_one(value: float) -> None:
    mean, deviation = scale_of(np.full(999, value), np.full(10, value))
    assert mean == pytest.approx(value, rel=1e-14)
    assert deviation == 1.0


def test_a_column_without_numbers_can_be_fitted() -> None:
    nothing = stretch(x=pa.array([None, None], pa.float64()))
    fitted = fit(parse_attributes("standard(x) quantile(x)"), [nothing])
    assert fitted.features[0].factors[0].steps == (Step("scale", (0.0, 1.0)),)
    assert fitted.features[1].factors[0].steps == (Step("bins", (0.0,)),)


def test_numbers_too_large_to_be_scaled() -> None:
    with pytest.raises(ChainfoldError, match=r"column 'x' are too large to be scaled; use log\(x\)\.$"):
        scale_of(np.array([1e200, -1e200]))
    with pytest.raises(ChainfoldError, match="too large"):
        scale_of(np.array([1.7e308, 1.7e308, 1.0]))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.5, None, -2.0, 1.5]),
        pa.array(["1.5", None, "-2", "1.5"]).dictionary_encode(),
        pa.array(["+1.5", None, " -2", "1.5e0"]).dictionary_encode(),
        pa.array(["0", "1.5", None, "-2", "1.5", "9"]).dictionary_encode().slice(1, 4),
        pa.array(["word", "1.5", None, "-2", "1.5"]).dictionary_encode().slice(1, 4),
    ],
)
def test_numbers_are_read_from_numbers_and_from_symbols(column: object) -> None:
    numbers, missing = numbers_of(stretch(x=column), "x")
    assert numbers.tolist() == [1.5, 0.0, -2.0, 1.5]
    assert missing.tolist() == [False, True, False, False]
    assert (numbers.dtype.name, missing.dtype.name) == ("float64", "bool")


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (pa.array([1.0, math.nan]), "line 12, column 'x': nan is no finite number; correct it"),
        (pa.array([None, 2.0, -math.inf]), "line 13, column 'x': -inf is no finite number"),
        (pa.array(["1", "2", "two", "1"]).dictionary_encode(), "line 13, column 'x': 'two' is no finite number"),
        (pa.array(["1", "nan"]).dictionary_encode(), "line 12, column 'x': 'nan' is no finite number"),
        (pa.array(["1_0"]).dictionary_encode(), "line 11, column 'x': '1_0' is no finite number"),
        (pa.array([""]).dictionary_encode(), "line 11, column 'x': '' is no finite number"),
        (pa.array([["1"]], BAG), "column 'x' holds bags of attributes"),
    ],
)
def test_what_is_no_number_is_named_with_its_line(column: object, sentence: str) -> None:
    with pytest.raises(BadFile, match=f"^flows.csv: {sentence}.*\\.$"):
        fit(every_column({"x": "number"}), [stretch(x=column)])


@pytest.mark.parametrize(("center", "scale"), [(0.0, 1.0), (0.0, 1e-140), (0.0, 1e140), (1e6, 1e-9)])
def test_statistics_are_exact_and_do_not_depend_on_how_rows_come(center: float, scale: float) -> None:
    dice = np.random.default_rng(0)
    numbers = center + dice.normal(size=999) * 10.0 ** dice.integers(-9, 3, 999) * scale
    template = parse_attributes("standard(x) quantile(x,5)")
    expected = fit(template, [stretch(x=pa.array(numbers))])
    merged = NumberStatistics(template)
    for part in np.split(dice.permutation(numbers), [1, 10, 500, 500]):
        some = NumberStatistics(template)
        some.add(stretch(x=pa.array(part)))
        merged.merge(some)
    assert merged.fitted(template) == expected
    exact = [Fraction(number) for number in numbers.tolist()]
    mean = sum(exact) / len(exact)
    variance = sum((number - mean) ** 2 for number in exact) / len(exact)
    (found, deviation) = expected.features[0].factors[0].steps[0].arguments
    assert found == float(mean)
    assert Fraction(deviation) ** 2 == pytest.approx(variance, rel=1e-14, abs=0)
