"""The demo in `examples/`: its log, a run from end to end, and the picture."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chainfold.features.template import parse_attributes
from examples.demo import Story, busiest, draw
from examples.network_log import ATTRIBUTES, LABELS, log_batches, write_log

ROOT = Path(__file__).parents[1]
PNG = b"\x89PNG\r\n\x1a\n"


def test_a_seed_gives_the_same_log_and_another_seed_another(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("again", 3), ("other", 4)):
        write_log(tmp_path / name, 500, seed)
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert texts["a"] == texts["again"] != texts["other"]


def test_the_log_has_every_column_that_its_attributes_need(tmp_path: Path) -> None:
    write_log(tmp_path / "log.csv", 70_000)
    lines = [line.split(",") for line in (tmp_path / "log.csv").read_text().splitlines()]
    assert len(lines) == 1 + 70_000
    assert {len(line) for line in lines} == {len(lines[0])}
    assert [line[0] for line in lines[1:]] == [str(k) for k in range(70_000)]
    needed = {column for feature in parse_attributes(ATTRIBUTES).features for column in feature.columns}
    assert {"number", *needed, "label"} == set(lines[0])


def test_labels_come_in_episodes_of_which_most_are_normal() -> None:
    labels = [label for batch in log_batches(150_000) for label in batch["label"].to_pylist()]
    shares = {label: labels.count(label) / len(labels) for label in LABELS}
    assert 0.6 < shares["normal"] < 0.9
    assert 0 < shares["takeover"] < 0.02 < shares["flood"] < 0.25
    moves = {(a, b) for a, b in itertools.pairwise(labels) if a != b}
    assert {a for a, b in moves if b == "takeover"} == {"guess"}
    assert {b for a, b in moves if a == "takeover"} == {"normal"}
    assert len(labels) / (1 + sum(a != b for a, b in itertools.pairwise(labels))) > 50


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The demo on a short log: its folder and what it prints."""
    folder = tmp_path_factory.mktemp("demo") / "new folder"
    command = [sys.executable, "-m", "examples.demo", "--rows", "20000", "--output", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder, done.stdout


def test_the_chain_beats_single_rows(played: tuple[Path, str]) -> None:
    figures = re.search(r"labelled correctly +([0-9.]+)% +([0-9.]+)%", played[1])
    assert figures is not None
    single, chain = map(float, figures.groups())
    assert chain > 97
    assert single < chain - 8


def test_the_tagged_file_is_the_log_with_labels_and_probabilities(played: tuple[Path, str]) -> None:
    folder, text = played
    tagged = [line.split(",") for line in (folder / "tagged.csv").read_text().splitlines()]
    log = (folder / "test.csv").read_text().splitlines()
    assert [",".join(line[: len(log[0].split(","))]) for line in tagged] == log
    right = np.mean([line[9] == line[10] for line in tagged[1:]])
    assert f"{len(log) - 1:,} positions, {right:.2%} correct" in text
    np.testing.assert_allclose([sum(map(float, line[11:])) for line in tagged[1:]], 1.0, atol=1e-5)


def test_the_same_files_give_the_same_picture(played: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = played
    draw(tmp_path / "again.png", Story.read(folder))
    picture = (folder / "picture.png").read_bytes()
    assert picture == (tmp_path / "again.png").read_bytes()
    assert picture.startswith(PNG)
    assert [int.from_bytes(picture[at : at + 4], "big") for at in (16, 20)] == [1600, 900]


def test_the_stretch_with_most_labels_is_shown() -> None:
    truth = np.zeros(5000, np.int32)
    truth[1000:1100], truth[3000:3050], truth[3300:3350] = 1, 1, 2
    here = busiest(truth, 1000)
    assert here.stop - here.start == 1000
    assert here.start + 100 <= 3000
    assert here.stop - 100 >= 3350 - 38, "enough of the last label is seen, not too near the end"


@pytest.mark.parametrize("size", [1, 2, 10, 999])
def test_a_short_log_is_shown_whole(size: int) -> None:
    assert busiest(np.zeros(size, np.int32), 1000) == slice(0, size)


def test_the_picture_of_the_readme_is_small() -> None:
    data = (ROOT / "docs" / "demo.png").read_bytes()
    assert data.startswith(PNG)
    assert len(data) <= 150_000
