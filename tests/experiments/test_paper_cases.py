"""Points of the paper's cases: what a child measures, what becomes of it, and which points are run at all."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainfold import Layout, Model, SyntheticChain, log_likelihood, write_chain
from chainfold.chain.batches import StoredChain
from chainfold.chain.chain import gather
from chainfold.errors import ChainfoldError
from experiments.ledger import RunPiece
from experiments.paper import cases
from experiments.paper.cases import LIMITED, LINES, key, pieces
from experiments.paper.measurement import FIGURES, Point, _child, measure, predicted_bytes, unmeasured
from experiments.paper.paging import obstacle
from experiments.paper.prefix import hold
from experiments.paper.run_plan import QUICK, RunPlan
from experiments.paper.series import CASES, OURS
from paper_results import StubCorpus
from shapes import plain

POSITIONS = 3000
ALLOWED = 3 * 10**9


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Any:
    source = SyntheticChain(POSITIONS, 2, 5, 5, seed=3)
    return StubCorpus(tmp_path_factory.mktemp("corpus"), Model(Layout.full(2, 5), source.true_weights()), source)


def point(corpus: Any, engine: str = "emp", positions: int = 2000, held: str = "memory") -> Point:
    return Point(engine, positions, held, str(corpus.chain("", 0)), str(corpus.model("")))


def here(asked: Point, limit: int | None = None) -> dict[str, Any]:
    """Measure in this process."""
    return _child(json.dumps({"point": asdict(asked), "limit": limit}))


@pytest.mark.parametrize(("engine", "held", "run"), [("fb-log", "memory", measure), ("stream", "disk", here)])
def test_a_child_measures_what_it_is_asked(corpus: Any, engine: str, held: str, run: Any) -> None:
    asked = point(corpus, engine, held=held)
    found = run(asked)
    source = SyntheticChain(POSITIONS, 2, 5, 5, seed=3)
    model = Model(Layout.full(2, 5), source.true_weights())
    right = log_likelihood(model, gather(source, 2000), engine, observe=False)
    assert (found["outcome"], found["reason"]) == ("measured", None)
    assert found["log_z"] == right.log_z
    assert found["gradient_sha256"] == hashlib.sha256(right.expected.astype("<f8").tobytes()).hexdigest()
    assert found["passes"] == right.report.passes
    assert found["peak_rss"] >= found["before_rss"] > 10**7
    assert found["seconds"] > 0.0
    assert set(found) == {"outcome", "reason", "seconds", *FIGURES}
    if held == "memory":
        assert found["predicted_bytes"] == 2000 * 64 + 2000 * (4 + 1 + 8 + 5 * 4) + 8
    assert found["predicted_bytes"] == pytest.approx(predicted_bytes(asked), abs=8)


@pytest.mark.parametrize("valued", [False, True])
def test_what_is_held_is_the_beginning_of_the_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, valued: bool
) -> None:
    monkeypatch.setattr("experiments.paper.prefix._BLOCK", 70)
    source = plain(500, 3, values="real" if valued else "one")(np.random.default_rng(5))[1]
    write_chain(tmp_path / "chain", source)
    for given in (source, StoredChain(tmp_path / "chain")):
        for positions in (1, 70, 333, 500):
            held, right = hold(given, positions).block(0, positions), given.block(0, positions)
            assert held.nbytes == right.nbytes
            entries = slice(right.offsets[0], right.offsets[-1])
            expected = right._replace(
                offsets=right.offsets - right.offsets[0],
                ids=right.ids[entries],
                values=right.values[entries] if valued else right.values,
            )
            for one, other in zip(held, expected, strict=True):
                np.testing.assert_array_equal(one, other)


def test_the_sentence_of_a_child_that_fails_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(ChainfoldError, match=r"^emp on 10 positions: .*nothing: there is no such file\.$"):
        measure(Point("emp", 10, "disk", str(tmp_path / "nothing"), str(tmp_path / "nothing")))


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A shell script in place of Python, which leaves its number in a file."""

    def install(script: str) -> Path:
        program, number = tmp_path / "program", tmp_path / "number"
        program.write_text(f"#!/bin/sh\necho $$ > {number}\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        return number

    return install


def alive(number: Path) -> bool:
    return Path(f"/proc/{int(number.read_text())}").exists()


def test_what_may_become_of_a_child(child: Callable[[str], Path]) -> None:
    asked = Point("emp", 10, "memory", synthetic=(2, 2, 1))
    child("kill -9 $$")
    assert measure(asked) == unmeasured("killed", measure(asked)["reason"])
    assert "no memory left" in measure(asked)["reason"]
    child("kill -11 $$")
    with pytest.raises(ChainfoldError, match="signal 11, Segmentation fault"):
        measure(asked)
    child("echo one >&2; echo two. >&2; exit 1")
    with pytest.raises(ChainfoldError, match=r": two\.$"):
        measure(asked)
    child("exit 3")
    with pytest.raises(ChainfoldError, match="status 3"):
        measure(asked)
    number = child("sleep 3; echo 0 > $0.finished")
    stopped = measure(asked, timeout=0.2)
    assert (stopped["outcome"], stopped["seconds"]) == ("too long", None)
    assert not alive(number)
    assert not number.with_name("program.finished").exists()


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="files cannot be dropped from the page cache here")
def test_a_chain_on_disk_is_dropped_from_memory_before_it_is_read(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[int] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *advice: dropped.append(advice[3]))
    here(point(corpus, held="memory"))
    assert dropped == []
    here(point(corpus, held="disk"))
    assert dropped == [os.POSIX_FADV_DONTNEED]


class Children:
    """In place of measurements: a microsecond a position unless told otherwise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[Point, Any, Any]] = []
        self.answer: Callable[[Point], dict[str, Any]] = lambda asked: {"seconds": asked.positions * 1e-6}
        monkeypatch.setattr(cases, "measure", self.measure)
        self.warmed: list[Point] = []
        monkeypatch.setattr(cases, "warm_up", self.warmed.append)

    def measure(self, asked: Point, limit: Any = None, timeout: Any = None) -> dict[str, Any]:
        self.asked.append((asked, limit, timeout))
        figures = dict.fromkeys(FIGURES, 1.0)
        return {"outcome": "measured", "reason": None, **figures, **self.answer(asked)}


def plan(*lengths: int, limited: tuple[int, ...] = (), rounds: int = 3) -> RunPlan:
    return replace(
        QUICK, lengths={"2-few": lengths}, limited={ALLOWED: limited} if limited else {}, rounds=rounds, budget=6.0
    )


def done(every: list[RunPiece], *engines: str) -> dict[str, dict[str, Any]]:
    """The results of the pieces of these engines, or of all."""
    results: dict[str, dict[str, Any]] = {}
    for piece in every:
        if not engines or piece.key.split("/")[-3] in engines:
            results[piece.key] = piece.run(results)
    return results


def test_a_piece_for_each_point_shortest_first(corpus: Any) -> None:
    drawn = {line for lines in (*CASES.values(), *OURS.values()) for line in lines}
    assert drawn == set(LINES), "what is measured is shown"
    assert {line for lines in CASES.values() for line in lines} == set(LIMITED)
    sizes = replace(plan(200, 100, limited=(300, 400)), lengths={"2-few": (200, 100), "5-many": (50,)})
    names = [piece.key for piece in pieces(sizes, corpus)]
    assert len(set(names)) == len(names)
    assert names[0] == "scaling/2-few/fb-log/memory/100" == key("2-few", LINES[0], 100)
    lengths = [name.split("/")[-1] for name in names]
    assert lengths == ["100"] * 10 + ["200"] * 10 + ["50"] * 4 + ["300"] * 6 + ["400"] * 6
    assert names[24] == f"limited/{ALLOWED}/2-few/fb-log/memory/300"


def test_a_short_point_is_measured_in_rounds(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    children = Children(monkeypatch)
    results = done(pieces(plan(1000, limited=(2000,)), corpus), "emp")
    first = results["scaling/2-few/emp/memory/1000"]
    named = {"setting": "2-few", "engine": "emp", "held": "memory", "positions": 1000, "limit": None}
    assert first == named | {
        "outcome": "measured",
        "reason": None,
        "seconds": [1e-3] * 3,
        **dict.fromkeys(FIGURES, 1.0),
    }
    assert results[f"limited/{ALLOWED}/2-few/emp/disk/2000"]["limit"] == ALLOWED
    json.dumps(results, allow_nan=False)
    assert {asked.engine for asked in children.warmed} == {"emp"}, "kernels are compiled before a child is measured"
    assert {(limit, timeout) for _, limit, timeout in children.asked} == {(None, None), (ALLOWED, 24.0)}


@pytest.mark.skipif(obstacle(Path.cwd()) is not None, reason=f"no memory limit can be kept: {obstacle(Path.cwd())}")
@pytest.mark.parametrize(("engine", "held"), [("fb-log", "memory"), ("fb-log-spill", "disk")])
def test_under_a_limit_the_figures_say_what_was_moved(corpus: Any, engine: str, held: str) -> None:
    asked = point(corpus, engine, held=held)
    free, within = here(asked), here(asked, 32_000_000)
    for name in ("log_z", "gradient_sha256", "passes", "predicted_bytes"):
        assert within[name] == free[name]
    assert set(within) == {"outcome", "reason", "seconds", *FIGURES}
    assert (free["resident"], free["dropped"]) == (None, 0)
    assert 0 < within["resident"] < 32_000_000
    assert within["cpu_seconds"] > 0.0
    once = 0 if held == "memory" else Path(str(asked.chain)).stat().st_size + 4096
    assert within["disk_read"] <= once, "it fits"


@pytest.mark.parametrize(("limited", "seconds", "rounds"), [(True, 0.9, 3), (True, 1.1, 1), (False, 5.5, 1)])
def test_long_points_are_measured_once(
    corpus: Any, monkeypatch: pytest.MonkeyPatch, limited: bool, seconds: float, rounds: int
) -> None:
    children = Children(monkeypatch)
    children.answer = lambda asked: {"seconds": seconds}
    every = pieces(plan(limited=(1000,)) if limited else plan(1000), corpus)
    (result, _) = done(every, "emp").values()
    assert result["seconds"] == [seconds] * rounds


@pytest.mark.parametrize("name", ["log_z", "gradient_sha256"])
def test_rounds_that_disagree_are_an_error(corpus: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    children = Children(monkeypatch)
    children.answer = lambda asked: {"seconds": 1.0, name: len(children.asked)}
    with pytest.raises(ChainfoldError, match=f"emp/memory/1000: {name} is 2, and was 1"):
        done(pieces(plan(1000), corpus), "emp")


def outcomes(results: dict[str, dict[str, Any]]) -> list[str]:
    return [result["outcome"] for result in results.values() if result["held"] == "disk"]


def test_what_would_take_too_long_is_left_out(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    children = Children(monkeypatch)
    children.answer = lambda asked: {"seconds": asked.positions * 2.9e-3}
    results = done(pieces(plan(1000, 2000, 3000, 2900), corpus), "emp")
    assert outcomes(results) == ["measured", "measured", "too long", "too long"]
    third, last = (results[f"scaling/2-few/emp/disk/{positions}"] for positions in (2900, 3000))
    assert third["seconds"] == []
    assert third["peak_rss"] is None
    assert third["predicted_bytes"] > 0
    assert third["reason"] == "it would take about 8 seconds, and 6 are allowed."
    assert last["reason"] == "already 2,900 positions were too long."
    assert max(asked.positions for asked, _, _ in children.asked) == 2000


def test_nothing_longer_is_run_than_what_was_killed(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    children = Children(monkeypatch)
    children.answer = lambda asked: unmeasured("killed", "so.") if asked.positions == 2000 else {"seconds": 1e-3}
    results = done(pieces(plan(limited=(1000, 2000, 3000)), corpus), "emp")
    assert outcomes(results) == ["measured", "killed", "too large"]
    assert results[f"limited/{ALLOWED}/2-few/emp/disk/2000"]["reason"] == "so."
    assert "take more memory than free" in results[f"limited/{ALLOWED}/2-few/emp/disk/3000"]["reason"]


def test_what_would_not_fit_is_left_out(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Children(monkeypatch)
    room = (400_000_000 + 2000 * (64 + 33)) / 0.85
    monkeypatch.setattr(cases, "memory_info", lambda: {"MemAvailable": room + 1})
    results = done(pieces(plan(1000, 2000, 3000), corpus), "fb-log")
    assert [result["outcome"] for result in results.values()] == ["measured", "measured", "too large"]
    assert "0.4 GB, and 0.5 GB are free" in results["scaling/2-few/fb-log/memory/3000"]["reason"]
