"""The whole run, in very small: from the command to the page; interrupted, and gone on with."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import pytest

from chainfold.errors import ChainfoldError
from experiments import ROOT
from experiments.__main__ import app
from experiments.ledger import read
from experiments.paper import experiment
from experiments.paper.experiment import assembled, redraw, run
from experiments.paper.figures import draw
from experiments.paper.measurement import FIGURES, Point
from experiments.paper.run_plan import RunPlan, full_plan, quick_plan
from experiments.runner import Display
from verbs import failed
from verbs import run as invoke

TINY = replace(
    quick_plan(450_000_000, 1_000_000),
    rows=400,
    lengths={"2-few": (200, 1_000)},
    limited={},
    numeric_length=20,
    most_weights=60,
    boundaries=20,
    entropy_positions=50,
    samples=30,
)
TIMES = ("seconds", "nanoseconds", "date")


class Recorder(Display):
    """Records the titles of pieces; interrupts after a number of them."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.expected, self._allowed = 0.0, stop_after
        self.titles: list[str] = []

    def total(self, seconds: float) -> None:
        self.expected = seconds

    @contextmanager
    def doing(self, title: str, seconds: float) -> Iterator[None]:
        if self._allowed is not None and len(self.titles) >= self._allowed:
            raise KeyboardInterrupt
        self.titles.append(title)
        yield


@pytest.fixture
def no_children(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """Points are not measured in processes of their own, which take a second each, but made up."""
    asked: list[Point] = []

    def measured(point: Point, limit: Any = None, timeout: float | None = None) -> Mapping[str, Any]:
        asked.append(point)
        figures = dict.fromkeys(FIGURES, 1.0)
        figures |= {
            "peak_rss": 2e8 + 100.0 * point.positions,
            "before_rss": 2e8,
            "predicted_bytes": 64.0 * point.positions,
        }
        return {"outcome": "measured", "reason": None, "seconds": 1e-6 * point.positions, **figures}

    monkeypatch.setattr("experiments.paper.measurement.measure", measured)
    monkeypatch.setattr("experiments.paper.cases.measure", measured)
    monkeypatch.setattr("experiments.paper.cases.warm_up", lambda point: None)
    return asked


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes a few seconds, and is tested elsewhere."""
    monkeypatch.setattr(experiment, "draw", lambda results, folder: {})


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def test_a_run_from_nothing_to_the_page_and_the_same_again(
    no_children: list[Point], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, watch = tmp_path / "made" / "here", Recorder()
    monkeypatch.setattr(experiment, "draw", partial(draw, formats=("svg",)))
    results = run(TINY, folder, None, watch)
    assert assembled(read(folder / "results.json")["pieces"]) == results
    page = (folder / "index.html").read_text()
    assert all(escape(one["evidence"].split("`")[0]) in page for one in results["verdicts"])
    assert {path.suffix for path in folder.iterdir()} == {".json", ".html", ".svg"}, "no chains are left"
    assert watch.expected > 10.0
    assert len(watch.titles) == len(set(watch.titles))
    assert len(results["scaling"]["points"]) == 20
    asked, drawn = len(no_children), {path: path.read_bytes() for path in folder.glob("*.svg")}
    for path in drawn:
        path.unlink()
    redraw(folder)
    assert {path: path.read_bytes() for path in folder.glob("*.svg")} == drawn, "the JSON is enough"
    assert (folder / "index.html").read_text() == page

    monkeypatch.setattr(experiment, "draw", lambda results, folder: {})
    again = Recorder()
    assert run(TINY, folder, None, again) == results
    assert again.titles == ["the figures and the page"], "nothing is measured twice"
    assert len(no_children) == asked
    fresh = run(TINY, folder, None, Recorder(), fresh=True)
    assert len(no_children) == 2 * asked
    assert without_times(fresh) == without_times(results)


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("stop_after", [1, 9])
def test_an_interrupted_run_goes_on(no_children: list[Point], tmp_path: Path, stop_after: int) -> None:
    first = Recorder(stop_after)
    with pytest.raises(KeyboardInterrupt):
        run(TINY, tmp_path, None, first)
    assert not (tmp_path / "index.html").exists()
    second = Recorder()
    results = run(TINY, tmp_path, None, second)
    assert not set(first.titles) & set(second.titles), "what was done is not done again"
    assert len(results["scaling"]["points"]) == 20


@pytest.mark.usefixtures("no_figures")
def test_chains_that_are_gone_are_made_again(no_children: list[Point], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(TINY, tmp_path, None, Recorder(3))
    shutil.rmtree(tmp_path / "chains")
    assert run(TINY, tmp_path, None, Recorder())["entropy"]["positions"] == 50


def test_results_of_something_else_are_not_mixed_in(no_children: list[Point], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(TINY, tmp_path, None, Recorder(4))
    before = (tmp_path / "results.json").read_bytes()
    with pytest.raises(ChainfoldError, match="of other sizes, data or versions; give another --out, or --fresh"):
        run(replace(TINY, samples=31), tmp_path, None, Recorder())
    assert (tmp_path / "results.json").read_bytes() == before
    shutil.rmtree(tmp_path / "chains")
    for damaged in (before[:-20], b'{"mine": 1}'):
        (tmp_path / "results.json").write_bytes(damaged)
        with pytest.raises(ChainfoldError, match="has other files in it; name a folder of its own with --out"):
            run(TINY, tmp_path, None, Recorder())
        assert [path.name for path in tmp_path.iterdir()] == ["results.json"], "nothing is made there"


@pytest.mark.usefixtures("no_figures")
def test_a_finished_run_goes_on_from_its_results_alone(no_children: list[Point], tmp_path: Path) -> None:
    first = run(TINY, tmp_path / "first", None, Recorder())
    (tmp_path / "second").mkdir()
    shutil.copy(tmp_path / "first" / "results.json", tmp_path / "second")
    asked, watch = len(no_children), Recorder()
    longer = replace(TINY, limited={64_000_000: (700, 900)})
    results = run(longer, tmp_path / "second", None, watch)
    points = results["scaling"]["points"]
    assert points[:20] == first["scaling"]["points"]
    assert [(one["limit"], one["positions"]) for one in points[20:]] == [(64_000_000, 700)] * 6 + [
        (64_000_000, 900)
    ] * 6
    assert len(no_children) - asked == 12, "nothing else is measured"
    assert watch.titles[0] == "memory limits"
    assert len(watch.titles) == 1 + 12 + 1
    assert "held to 64 MB of memory" in results["about"]["limit"]["sentence"]
    assert "no sequence would have filled one" in first["about"]["limit"]["sentence"]
    again = run(TINY, tmp_path / "second", None, Recorder())
    for name in set(first) - {"about", "scaling", "verdicts"}:
        assert again[name] == first[name]


@pytest.mark.usefixtures("no_figures")
def test_where_no_limit_can_be_kept_it_says_why(
    no_children: list[Point], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "obstacle", lambda folder: "it is raining")
    results = run(replace(TINY, limited={64_000_000: (700,)}), tmp_path, None, Recorder())
    assert results["about"]["limit"] == {"sentence": "Nothing was run under a memory limit, because it is raining."}
    assert {one["limit"] for one in results["scaling"]["points"]} == {None}


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "chains").mkdir()
    (tmp_path / "chains" / "mine").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(ChainfoldError, match="has other files in it; name a folder of its own with --out"):
            run(TINY, tmp_path, None, Recorder(), fresh)
    assert [path.name for path in tmp_path.rglob("*")] == ["chains", "mine"]


def test_a_fresh_run_forgets_at_once(no_children: list[Point], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(TINY, tmp_path, None, Recorder(3))
    with pytest.raises(KeyboardInterrupt):
        run(TINY, tmp_path, None, Recorder(0), fresh=True)
    assert read(tmp_path / "results.json")["pieces"] == {}


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ChainfoldError, match=r"cannot be made: .*; name another folder"):
        run(TINY, tmp_path / "file" / "below", None, Recorder())


@pytest.mark.usefixtures("no_figures")
def test_the_verb(no_children: list[Point], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[RunPlan] = []

    def planned(limit: int, longest: int) -> RunPlan:
        plans.append(replace(TINY, memory_limit=limit, quick=longest == 5_000))
        return plans[-1]

    monkeypatch.setattr("experiments.paper.run_plan.quick_plan", planned)
    done = invoke(
        "paper", "--quick", "--out", str(tmp_path), "--max-length", "5000", "--memory-limit", "1.5GB", program=app
    )
    assert done.exit_code == 0, done.output
    assert "The paper's claims, measured here" in done.output
    assert "confirmed" in done.output
    assert str(tmp_path / "index.html") in done.output.replace("\n", "")
    assert [(plan.memory_limit, plan.quick) for plan in plans] == [(1_500_000_000, True)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--max-length", "10"), "at least 1000 positions"),
        (("--memory-limit", "many"), "many"),
        (("--memory-limit", "0"), "but must be at least 32MB"),
        (("--memory-limit", "31MB"), "--memory-limit is '31MB', but must be at least 32MB"),
        (("--data", "nowhere"), "nowhere"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    said = failed("paper", "--quick", "--out", str(tmp_path / "out"), *arguments, program=app)
    assert sentence in said
    assert not (tmp_path / "out").exists()


def test_an_interrupted_verb_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "run", interrupted)
    done = invoke("paper", "--quick", "--out", str(tmp_path), program=app)
    assert done.exit_code == 130
    assert "the same command, without --fresh, continues with the next piece" in done.output


def test_without_matplotlib_it_says_so_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chainfold.errors.importlib.util.find_spec", lambda name: None)
    assert "pip install '.[plot]'" in failed("paper", "--quick", "--out", str(tmp_path / "out"), program=app)
    assert not (tmp_path / "out").exists()


def test_lengths_end_where_they_are_told_to() -> None:
    whole = full_plan(10**9, 50_000_000)
    assert whole.max_length == 50_000_000
    assert full_plan(10**9, 7_000_000).lengths["2-few"][-1] == 7_000_000
    assert full_plan(10**9, 200_000_000).max_length == 200_000_000
    assert whole.limited[64_000_000] == (234_000, 467_000, 701_000, 934_000, 1_870_000, 5_610_000)
    assert list(full_plan(3 * 10**9, 50_000_000).limited) == [64_000_000, 256_000_000, 10**9, 3 * 10**9]
    assert full_plan(3 * 10**9, 50_000_000).limited[3 * 10**9] == (10_900_000, 21_900_000, 43_800_000)
    assert full_plan(3 * 10**9, 30_000_000).limited[3 * 10**9] == (10_900_000, 21_900_000)
    assert list(full_plan(64_000_000, 50_000_000).limited) == [64_000_000]
    assert quick_plan(64_000_000, 50_000_000).limited == {64_000_000: (234_000, 934_000)}
    for plan in (whole, quick_plan(10**9, 5_000), full_plan(10**9, 1_000)):
        for lengths in plan.lengths.values():
            assert list(lengths) == sorted(set(lengths))
    assert quick_plan(10**9, 5_000).max_length == 5_000


@pytest.mark.slow
def test_a_quick_run_as_a_user_starts_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "experiments", "paper", "--quick", "--out", str(tmp_path / "made")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = assembled(read(tmp_path / "made" / "results.json")["pieces"])
    assert {one["outcome"] for one in results["scaling"]["points"]} <= {"measured", "too long"}
    found = {one["claim"]: one["verdict"] for one in results["verdicts"]}
    assert found["The memory of `stream` does not grow with the length."] == "confirmed"
    assert "<h3>And ours</h3>" in (tmp_path / "made" / "index.html").read_text()
