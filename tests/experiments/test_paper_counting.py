"""The paper's two algorithms, counted: their answers against enumeration, their counts against the tables."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from experiments.paper.counting import (
    ALGORITHMS,
    ASYMPTOTIC,
    COLUMNS,
    EXAMPLE,
    EXPLAINED,
    TABLES,
    FeatureFunctions,
    algorithm_1,
    algorithm_2,
    compare,
    leading,
    parse,
    report,
    totals,
    value,
)

TOLERANCE = 1e-10
SIZES = [(1, 1, 1, 1), (1, 6, 2, 3), (2, 1, 1, 4), (2, 4, 3, 3), (3, 3, 2, 5), (2, 3, 1, 40), (4, 2, 4, 6)]
COLUMN_OF_TABLE = list(product(TABLES, COLUMNS))
PAGE = Path(__file__).parents[2] / "docs" / "paper.md"


def shown(sizes: tuple[int, int, int, int]) -> str:
    return "N{}-T{}-A{}-M{}".format(*sizes)


def ragged() -> FeatureFunctions:
    """Two labels, three positions; 0 to 3 features on a pair, and a weight (4) that is never active."""
    features = [((0, 1.5),), (), ((1, 0.2), (2, 3.0), (3, 1.0)), ((2, 0.7), (0, 1e-3))]
    matrices = [[[features[(t + 2 * i + j) % 4] for j in range(2)] for i in range(2)] for t in range(3)]
    active = tuple(tuple(tuple(row) for row in matrix) for matrix in matrices)
    return FeatureFunctions((0.3, -1.2, 0.8, 2.0, 5.0), active)


def enumerate_paths(problem: FeatureFunctions) -> tuple[float, np.ndarray]:
    """ln Z and ∇Z / Z from all N^(T+1) paths."""
    n, t, _, m = problem.sizes
    total, gradient = 0.0, np.zeros(m)
    for path in product(range(n), repeat=t + 1):
        counts = np.zeros(m)
        for k in range(t):
            for feature, f in problem.active[k][path[k]][path[k + 1]]:
                counts[feature] += f
        weight = math.exp(float(counts @ problem.weights))
        total += weight
        gradient += weight * counts
    return math.log(total), gradient / total


PROBLEMS = [pytest.param(FeatureFunctions.uniform(*sizes, seed=1), id=shown(sizes)) for sizes in SIZES]
PROBLEMS.append(pytest.param(ragged(), id="ragged"))


@pytest.mark.parametrize("number", ALGORITHMS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_answers_are_those_of_enumeration(number: int, problem: FeatureFunctions) -> None:
    log_z, gradient = enumerate_paths(problem)
    counted = ALGORITHMS[number](problem)
    assert counted.log_z == pytest.approx(log_z, abs=TOLERANCE)
    np.testing.assert_allclose(counted.gradient, gradient, rtol=0, atol=TOLERANCE)


def test_algorithms_agree_beyond_the_range_of_a_double() -> None:
    problem = FeatureFunctions.uniform(3, 400, 6, 8, seed=2)
    one, two = algorithm_1(problem), algorithm_2(problem)
    assert one.log_z > 710
    assert two.log_z == pytest.approx(one.log_z, rel=1e-13)
    np.testing.assert_allclose(two.gradient, one.gradient, rtol=TOLERANCE)


def test_a_weight_that_is_never_active_has_no_gradient() -> None:
    assert algorithm_1(ragged()).gradient[4] == algorithm_2(ragged()).gradient[4] == 0.0


@pytest.mark.parametrize("number", TABLES)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_cell_is_the_count_or_is_corrected_to_it(number: int, problem: FeatureFunctions) -> None:
    cells = compare(number, problem)
    assert [(cell.row, cell.column) for cell in cells] == list(product(TABLES[number], COLUMNS))
    for cell in cells:
        corrected = cell.formula if cell.correction is None else value(cell.correction.formula, *problem.sizes)
        assert corrected == cell.counted, cell


@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_correction_is_superfluous(problem: FeatureFunctions) -> None:
    told = {(n, cell.row, cell.column): cell for n in TABLES for cell in compare(n, problem)}
    for (number, row, column), correction in EXPLAINED.items():
        assert correction.why.endswith(".")
        if row == "asymptotic":
            assert parse(ASYMPTOTIC[number][column]) != parse(correction.formula)
        else:
            assert not told[number, row, column].equal


@pytest.mark.parametrize("number", TABLES)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_totals_are_the_columns_of_the_count(number: int, problem: FeatureFunctions) -> None:
    counted = ALGORITHMS[number](problem).table
    for column, terms in totals(number).items():
        formula = "+".join(f"{count}{monomial}" for monomial, count in terms.items())
        assert value(formula, *problem.sizes) == sum(row[column] for row in counted.values())


@pytest.mark.parametrize(("number", "column"), COLUMN_OF_TABLE)
def test_asymptotic_rows_are_the_leading_terms_of_the_totals(number: int, column: str) -> None:
    printed = parse(ASYMPTOTIC[number][column])
    correction = EXPLAINED.get((number, "asymptotic", column))
    assert leading(totals(number)[column]) == (parse(correction.formula) if correction else printed)


@pytest.mark.parametrize("sizes", SIZES, ids=shown)
def test_what_the_single_pass_costs(sizes: tuple[int, int, int, int]) -> None:
    """The page says: Algorithm 2 spends N²T(M - 1) + NM more ⊕, N²T(M - 2) more +, and no more × and ln."""
    n, t, _, m = sizes
    problem = FeatureFunctions.uniform(*sizes)
    spent = Counter[tuple[int, str]]()
    for number, algorithm in ALGORITHMS.items():
        for row in algorithm(problem).table.values():
            spent.update({(number, column): count for column, count in row.items()})
    more = {column: spent[2, column] - spent[1, column] for column in COLUMNS[:-1]}
    assert more == {"⊕": n * n * t * (m - 1) + n * m, "+": n * n * t * (m - 2), "×": 0, "ln": 0}


def test_tables_are_those_of_the_paper() -> None:
    """Cells worked out by hand, at N = 3, T = 5, A = 2, M = 7."""

    def row(number: int, name: str) -> list[int]:
        return [int(value(cell, 3, 5, 2, 7)) for cell in TABLES[number][name].values()]

    assert row(1, "v") == [0, 90, 0, 0, 1]
    assert row(1, "α") == row(1, "β") == [45, 45, 0, 0, 15]
    assert row(2, "α̂_m^(h)") == [405, 405, 0, 90, 21]
    assert row(2, "ln ∇_m") == [21, 0, 0, 0, 7]


def test_formulas() -> None:
    assert parse("2N²TA+M+3") == {"NNTA": 2, "M": 1, "": 3}
    assert parse("-") == {}
    assert value("2N²TA+M+3", 3, 5, 2, 7) == 2 * 9 * 5 * 2 + 7 + 3
    assert leading(parse("N²TA+2N²T+NM+N²+5")) == parse("N²TA+NM")
    for wrong in ("N³", "N+", "N-1", ""):
        with pytest.raises(ValueError, match="not a sum of monomials"):
            parse(wrong)


@pytest.mark.parametrize("number", TABLES)
def test_the_page_shows_this_comparison(number: int) -> None:
    expected = report(number, EXAMPLE)
    assert " ".join(expected.split()) in " ".join(PAGE.read_text(encoding="utf-8").split())
