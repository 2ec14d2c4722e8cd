"""The whole run, in very small: from the command to the page; interrupted, and gone on with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chainfold.errors import ChainfoldError
from experiments import ROOT
from experiments.__main__ import app
from experiments.ledger import read
from experiments.paper import experiment, run_plan
from experiments.paper.experiment import assembled, draw_again, run
from experiments.paper.measurement import FIGURES, Point
from experiments.paper.run_plan import FULL, QUICK
from verbs import failed
from verbs import run as invoke

TINY = replace(
    QUICK,
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


@pytest.fixture
def no_children(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """Points are not measured in processes of their own, which take a second each, but made up."""
    asked: list[Point] = []

    def measured(point: Point, limit: Any = None, timeout: float | None = None) -> Mapping[str, Any]:
        asked.append(point)
        figures = dict.fromkeys(FIGURES, 1.0)
        figures |= {"peak_rss": 2e8 + 100.0 * point.positions, "predicted_bytes": 64.0 * point.positions}
        return {"outcome": "measured", "reason": None, "seconds": 1e-6 * point.positions, **figures}

    monkeypatch.setattr("experiments.paper.measurement.measure", measured)
    monkeypatch.setattr("experiments.paper.cases.measure", measured)
    monkeypatch.setattr("experiments.paper.cases.warm_up", lambda point: None)
    return asked


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes a few seconds, and is tested elsewhere."""
    monkeypatch.setattr(experiment, "draw", lambda results, folder: [])


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def test_a_run_from_nothing_to_the_page_and_the_same_again(
    no_children: list[Point], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "made" / "here"
    results = run(TINY, folder, None)
    assert assembled(read(folder / "results.json")["pieces"]) == results
    page = (folder / "page.md").read_text()
    assert all(one["evidence"] in page for one in results["verdicts"])
    assert {path.suffix for path in folder.iterdir() if path.name[0] != "."} == {".json", ".md", ".png"}
    assert len(results["scaling"]["points"]) == 20
    asked, drawn = len(no_children), {path: path.read_bytes() for path in folder.glob("*.png")}
    for path in drawn:
        path.unlink()
    draw_again(folder)
    assert {path: path.read_bytes() for path in folder.glob("*.png")} == drawn, "the JSON is enough"
    assert (folder / "page.md").read_text() == page

    monkeypatch.setattr(experiment, "draw", lambda results, folder: [])
    assert run(TINY, folder, None) == results
    assert len(no_children) == asked, "nothing is measured twice"
    fresh = run(TINY, folder, None, fresh=True)
    assert len(no_children) == 2 * asked
    assert without_times(fresh) == without_times(results)


@pytest.mark.usefixtures("no_figures")
def test_an_interrupted_run_goes_on_and_is_not_mixed_with_another(
    no_children: list[Point], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("experiments.paper.entropy.compare", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(TINY, tmp_path, None)
    assert not (tmp_path / "page.md").exists()
    before = (tmp_path / "results.json").read_bytes()
    with pytest.raises(ChainfoldError, match="of other sizes, data or versions; give another --out, or --fresh"):
        run(replace(TINY, samples=31), tmp_path, None)
    assert (tmp_path / "results.json").read_bytes() == before
    done = read(tmp_path / "results.json")["pieces"]
    monkeypatch.setattr("experiments.paper.numerics.compare", interrupted)
    results = run(TINY, tmp_path, None)
    assert len(results["scaling"]["points"]) == 20
    assert {key: result for key, result in read(tmp_path / "results.json")["pieces"].items() if key in done} == done
    (tmp_path / "results.json").write_bytes(b'{"mine": 1}')
    with pytest.raises(ChainfoldError, match="is damaged or has another format"):
        run(TINY, tmp_path, None)
    assert (tmp_path / "results.json").read_bytes() == b'{"mine": 1}'


@pytest.mark.usefixtures("no_figures")
def test_where_no_limit_can_be_kept_it_says_why(
    no_children: list[Point], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = replace(TINY, limited={64_000_000: (700,)})
    results = run(limited, tmp_path / "first", None)
    assert [one["limit"] for one in results["scaling"]["points"]] == [None] * 20 + [64_000_000] * 6
    assert "held to 64 MB of memory" in results["about"]["limit"]
    monkeypatch.setattr(experiment, "obstacle", lambda folder: "it is raining")
    results = run(limited, tmp_path / "second", None)
    assert results["about"]["limit"] == "Nothing was run under a memory limit, because it is raining."
    assert {one["limit"] for one in results["scaling"]["points"]} == {None}


@pytest.mark.usefixtures("no_figures")
def test_the_verb(no_children: list[Point], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_plan, "QUICK", TINY)
    done = invoke("paper", "--quick", "--out", str(tmp_path), program=app)
    assert done.exit_code == 0, done.output
    assert "ours   confirmed    The certificate's bound holds" in done.stdout
    assert str(tmp_path / "page.md") in done.stdout
    assert "nowhere: cannot be read" in failed("paper", "--out", str(tmp_path / "x"), "--data", "nowhere", program=app)


def test_without_matplotlib_it_says_so_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chainfold.errors.importlib.util.find_spec", lambda name: None)
    assert "pip install '.[plot]'" in failed("paper", "--quick", "--out", str(tmp_path / "out"), program=app)
    assert not (tmp_path / "out").exists()


def test_lengths_grow_and_go_beyond_what_fb_fills() -> None:
    for plan in (FULL, QUICK):
        for lengths in (*plan.lengths.values(), *plan.limited.values()):
            assert list(lengths) == sorted(set(lengths))
        for limit, lengths in plan.limited.items():  # FB takes 137 bytes a position
            assert lengths[0] < limit / 137 < lengths[-1]
    assert FULL.longest("2-few") == 50_000_000
    assert FULL.longest("5-many") == 494_021


@pytest.mark.slow
def test_a_quick_run_as_a_user_starts_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "experiments", "paper", "--quick", "--out", str(tmp_path / "made")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = assembled(read(tmp_path / "made" / "results.json")["pieces"])
    assert {one["outcome"] for one in results["scaling"]["points"]} <= {"measured", "too long"}
    found = {one["claim"]: one["verdict"] for one in results["verdicts"]}
    assert found["The memory of `stream` does not grow with the length."] == "confirmed"
    assert "| ours | The memory of `stream`" in (tmp_path / "made" / "page.md").read_text()
