"""The figures and the page of the paper's experiments: drawn from whatever results there are, and true to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.formatting import count, digits, duration, power, size, times
from experiments.paper import figures, series
from experiments.paper.figures import FIGURES, draw
from experiments.paper.report import page, verdict_table
from experiments.paper.run_plan import EMP, FB, STREAM
from paper_results import BASE, DOCS, SEQUENCE, Result, point, scaling, stored, unmeasured

LIMIT = 10**8


@pytest.fixture(scope="module")
def results() -> Result:
    return stored()


def test_the_documents_say_what_the_results_say(results: Result) -> None:
    """docs/paper.md has the verdicts on docs/paper/results.json, as this version of the program finds them."""
    assert verdict_table(results["verdicts"]) in (DOCS / "paper.md").read_text()


def test_the_page_shows_claims_tables_and_figures(results: Result, tmp_path: Path) -> None:
    drawn = draw(results, tmp_path)
    assert drawn == list(FIGURES)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{name}.png" for name in drawn)
    text = page(results, drawn)
    assert "Of 14 claims of the paper: 6 in part, 6 confirmed, 2 refuted." in text
    assert verdict_table(results["verdicts"]) in text
    assert "~~N²+NM~~ **N²+2NM**" in text
    assert all(f"]({name}.png)" in text for name in drawn)
    quick = results | {"about": results["about"] | {"quick": True}}
    assert ("This was a quick run" in text, "This was a quick run" in page(quick, [])) == (False, True)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, set()),
        (scaling(point(STREAM, 1000)), {"cases", "settings"}),
        (scaling(unmeasured(FB, 1000), unmeasured(EMP, 1000, LIMIT)), {"limit"}),
        (scaling(point(EMP, 1000, LIMIT), unmeasured(FB, 1000, LIMIT)), {"limit"}),
        (scaling(point(FB, 9) | {"seconds": [0.0]}), set()),
        (scaling(*(point(line, 9) | {"peak_rss": None} for line in (FB, EMP))), {"cases", "settings"}),
    ],
    ids=["nothing", "one point", "nothing measured", "limited only", "a clock that stood still", "no memory"],
)
def test_a_figure_without_numbers_is_not_drawn(given: Result, expected: set[str], tmp_path: Path) -> None:
    assert set(draw(given, tmp_path)) == expected


def curve(axes: Any, engine: str) -> list[tuple[float, float]]:
    """The points of the line of an engine in memory."""
    colour = figures.LOOKS[engine].colour
    (line,) = (
        line
        for line in axes.get_lines()
        if line.get_color() == line.get_markerfacecolor() == colour and line.get_marker() == "o"
    )
    return list(zip(*line.get_data(), strict=True))


def test_lines_are_where_the_numbers_are() -> None:
    made = [point(FB, positions) | {"seconds": [4.0, 1.0, 3.0]} for positions in (10, 10**8)]
    given = scaling(*made, unmeasured(FB, 2 * 10**8))
    above, below = (FIGURES["cases"](given).axes[k] for k in (0, 3))
    assert curve(above, "fb-log") == [(10, 3.0), (10**8, 3.0)]
    (bars,) = (part for container in above.containers for part in container[2] if len(part.get_segments()))
    assert [y for _, y in bars.get_segments()[0]] == pytest.approx([1.0, 4.0]), "from the least to the most"
    (cross,) = (line for line in above.get_lines() if line.get_marker() == "x")
    assert list(cross.get_xdata()) == [2 * 10**8]
    assert curve(below, "fb-log")[-1] == (10**8, BASE + 8_000_000 + int(1.01 * 137 * 10**8))
    (dotted,) = (line for line in below.get_lines() if line.get_linestyle() == ":")
    assert dotted.get_ydata()[1] == pytest.approx(BASE + 137 * 10**8)
    assert curve(FIGURES["settings"](given).axes[0], "fb-log") == [(10, 0.3), (10**8, 3e-8)]


def test_steps_end_at_the_share_that_was_certified(results: Result) -> None:
    steps = FIGURES["certificate"](results).axes[0].get_lines()
    chains = results["certificate"]["chains"]
    shares = [100 * (1 - chain["not_certified"] / chain["boundaries"]) for chain in chains]
    assert [line.get_ydata()[-1] for line in steps] == pytest.approx(shares)


def test_growth_and_reach() -> None:
    made = [point(FB, n) for n in (1, 1000, 2000, 3000)]
    made[0]["peak_rss"] = 10**12  # in the shorter half
    found = series.slopes(scaling(*made))
    assert found[FB] == pytest.approx((1.01 * 137, 137), abs=0.01)
    given = scaling(*made) | {"corpus": {"settings": {"2-few": {"bytes_a_position": SEQUENCE}}}}
    assert series.baseline(given) == BASE
    assert series.reach(given, FB, LIMIT) == pytest.approx(LIMIT / 137)
    assert series.reach(given, EMP, LIMIT) is None
    assert series.limits(scaling(point(FB, 9, 64), *made, point(FB, 9, 8))) == [8, 64]


@pytest.mark.parametrize(
    ("said", "number", "text"),
    [
        (count, 4_898_405, "4.9 million"),
        (size, 999_700, "1.0 MB"),
        (duration, 1.8e-6, "1.8 µs"),
        (duration, 0.9999, "1.0 s"),
        (power, 1e-12, "10⁻¹²"),
        (power, 3.04e-13, "3.0·10⁻¹³"),
        (times, 9123.0, "9,100"),
        (digits, 9.96, "10"),
        (digits, -12.34, "-12"),
    ],
)
def test_numbers_for_people(said: Callable[[float], str], number: float, text: str) -> None:
    assert said(number) == text
