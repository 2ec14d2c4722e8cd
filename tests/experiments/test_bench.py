"""The benchmarks in very small: every piece gives its tables, what is kept is gone on with, the page hides no miss."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chainfold import SyntheticChain, encode, open_chain
from chainfold.chain.chain import gather
from chainfold.errors import BadFile
from chainfold.system.outputs import claimed
from experiments.__main__ import app
from experiments.bench import command, datasets, gradient, memory, peers, scaling, startup, timing
from experiments.bench.datasets import READERS, Datasets
from experiments.bench.findings import ResultTable, SectionResults, Target
from experiments.bench.peers import CRFSUITE, has, iterations_between
from experiments.bench.report import page
from experiments.bench.section import Context
from experiments.ledger import Ledger, read
from verbs import failed, run, succeeded

ROOT = Path(__file__).parents[2]
SLOW = ("cluster", "startup")  # sections that start many processes
needs_crfsuite = pytest.mark.skipif(not has(CRFSUITE), reason="python-crfsuite is not installed")


def in_this_process(*arguments: str, environment: Mapping[str, str] | None = None) -> tuple[float, str]:
    """Run the work of a fresh process in this one."""
    begin = time.perf_counter()
    kind, what, *rest = arguments[1:]
    if (kind, what) == ("-m", "chainfold"):
        text = succeeded(*rest).decode()
    elif (kind, what) == ("-m", "experiments.bench.peers"):
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as out:
            patch.setattr(sys, "argv", [what, *rest])
            peers.main()
        text = out.getvalue()
    else:
        assert kind == "-c" or what == "experiments.bench.torch_layer"  # which print as their process ends
        text = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True).stdout
    return time.perf_counter() - begin, text


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """The smallest sizes at which everything still runs."""
    fresh = timing.fresh
    monkeypatch.setattr(startup, "fresh", lambda *command, environment: fresh(*command))  # with what is compiled
    monkeypatch.setattr(timing, "fresh", in_this_process)
    monkeypatch.setattr(datasets, "_QUICK_ROWS", 240)
    monkeypatch.setattr(gradient, "_QUICK_POSITIONS", {2: 200})
    monkeypatch.setattr(memory, "_QUICK_POWERS", (2, 3))
    monkeypatch.setattr(memory, "_STEPS", memory._STEPS[:1])
    monkeypatch.setattr(scaling, "_SHAPES", ((2, 10, 2, 0.01),))
    return Context(1, True, Datasets(None, tmp_path, True), tmp_path, lambda what: None)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in command.SECTIONS],
)
def test_every_piece_gives_tables_that_json_can_keep(name: str, toy: Context) -> None:
    ledger = Ledger(toy.folder / "results.json", command.about(toy))
    ledger.run([command.piece(command.SECTIONS[name], toy)])
    found = SectionResults.of(ledger.pieces[name])
    again = read(toy.folder / "results.json")
    assert SectionResults.of(again["pieces"][name]).tables == found.tables
    for table in found.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
        numbers = [cell for row in table.rows for cell in row if isinstance(cell, list) and cell]
        assert all(value >= 0.0 for cell in numbers for value in cell)
    assert page(again, command.SECTIONS.values()).count("\n## ") == 1 + bool(found.bars)


@needs_crfsuite
def test_work_is_done_after_each_iteration_that_counts() -> None:
    chain = gather(SyntheticChain(300, 3, 20, 3, mean_length=10.0))
    calls: list[None] = []
    found = iterations_between(chain, lambda: calls.append(None), 4)
    assert len(found) == len(calls) == 4


@pytest.mark.parametrize("kind", ["chunks", "upos", "xpos"])
def test_plain_python_makes_the_attributes_that_chainfold_makes(kind: str, tmp_path: Path) -> None:
    made = Datasets(None, tmp_path, True)
    corpus = made.chunks() if kind == "chunks" else made.tags(kind)
    encode(corpus.train, tmp_path / "x.chain", **corpus.options)
    chain = open_chain(tmp_path / "x.chain")
    block, vocabulary = chain.block(0, chain.positions), chain.vocabulary
    assert vocabulary is not None
    sequences = list(READERS[kind](corpus.train))
    theirs = [set(item) for items, _ in sequences for item in items]
    ours = [set(block.ids[a:b].tolist()) for a, b in pairwise(block.offsets.tolist())]
    assert [label for _, labels in sequences for label in labels] == [vocabulary.labels[k] for k in block.labels]
    assert _places(theirs) == _places(ours)


def _places(attributes: list[set[Any]]) -> set[tuple[int, ...]]:
    """Positions of each attribute, whatever its name."""
    found: dict[Any, list[int]] = {}
    for position, here in enumerate(attributes):
        for one in here:
            found.setdefault(one, []).append(position)
    assert len(found) > 100
    return {tuple(places) for places in found.values()}


def a_found(value: float) -> SectionResults:
    targets = [
        Target("speed", [value, value, 9.0], 5.0),
        Target("size", [value], 5.0, "at most"),
        Target("nothing", [], 1.0),
    ]
    table = ResultTable("A table", ["what", "seconds"], [["this", [1.0, 3.0, 2.0]], ["that", None]])
    return SectionResults([table], targets)


def stored(findings: SectionResults) -> dict[str, Any]:
    return {"date": "2026-11-18", "rounds": 3, "seconds": 1.0, **asdict(findings)}


def ledger(path: Path, quick: bool = False, fresh: bool = False) -> Ledger:
    context = SimpleNamespace(quick=quick, corpora=SimpleNamespace(real=True))
    return Ledger(path, command.about(cast(Context, context)), fresh, command.comparable)


def test_a_miss_is_on_the_page_and_a_quick_run_judges_nothing(tmp_path: Path) -> None:
    for quick, told in (
        (False, ["**no**", "yes", "not measured"]),
        (True, ["not judged", "not judged", "not measured"]),
    ):
        ledger(tmp_path / f"{quick}.json", quick).add("kdd", stored(a_found(4.0)))
        text = page(read(tmp_path / f"{quick}.json"), command.SECTIONS.values())
        assert re.findall(r"\| kdd \| .* \| (.*) \|\n", text) == told
        assert "2 (1 – 3)" in text
        assert ("quick run" in text) == quick


def test_other_data_are_refused_and_another_kernel_is_not(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks" / "results.json"
    ledger(path).add("gradient", stored(a_found(1.0)))
    text = json.loads(path.read_text())
    text["about"]["machine"]["system"] = "Linux 1.0"
    path.write_text(json.dumps(text))
    assert list(ledger(path).pieces) == ["gradient"]
    with pytest.raises(BadFile, match="other sizes, data or versions; give another --out, or --fresh"):
        ledger(path, quick=True)
    assert ledger(path, quick=True, fresh=True).pieces == {}
    for damaged in (path.read_bytes()[:-20], b"[]", b'{"pieces": 1}'):
        path.write_bytes(damaged)
        with pytest.raises(BadFile, match="is damaged or has another format; discard it with --fresh"):
            ledger(path)


def test_a_run_measures_what_is_named_and_keeps_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("memory", "kdd"):
        section = command.SECTIONS[name]._replace(run=lambda context: a_found(6.0))
        monkeypatch.setitem(command.SECTIONS, name, section)
        done = run("bench", name, "--quick", "--out", tmp_path, program=app)
        assert done.exit_code == 0, done.exception
        assert "**A table**" in done.stdout
    text = (tmp_path / "benchmarks.md").read_text()
    assert text.index("## One long sequence") < text.index("## Memory")
    (tmp_path / "benchmarks.md").unlink()
    assert run("bench", "--redraw", "--out", tmp_path, program=app).exit_code == 0
    assert (tmp_path / "benchmarks.md").read_text() == text
    with claimed([tmp_path / "benchmarks" / "results.json"], []):
        assert "results.json" in failed("bench", "kdd", "--quick", "--out", str(tmp_path), program=app)
    assert "`names` is 'nothing', but must be one of gradient" in failed("bench", "nothing", program=app)


@pytest.mark.skipif(not (ROOT / "docs/benchmarks/results.json").exists(), reason="nothing was measured yet")
def test_the_page_says_what_the_results_say() -> None:
    results: dict[str, Any] = json.loads((ROOT / "docs/benchmarks/results.json").read_text())
    assert (ROOT / "docs/benchmarks.md").read_text() == page(results, command.SECTIONS.values())
