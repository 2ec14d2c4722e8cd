"""The demo: the log it makes, the run from end to end, and the picture."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from chainfold import Chain, Layout, Model, log_likelihood
from chainfold.chain.views import SinglePositions
from chainfold.cli import app
from chainfold.cli.demo import commands, demo, episodes_begun
from chainfold.cli.demo_log import ATTRIBUTES, LABELS, log_batches, write_log
from chainfold.cli.demo_plot import Story, busiest, draw
from chainfold.cli.options import holding
from chainfold.errors import BadFile, BadSetting
from chainfold.features.template import parse_attributes
from chainfold.metrics import Count, Scores
from chainfold.training.online.prequential import Interval
from processes import PATIENCE, chainfold, command, running

PNG = b"\x89PNG\r\n\x1a\n"


def labels_of(positions: int, seed: int = 0) -> list[str]:
    return [label for batch in log_batches(positions, seed) for label in batch["label"].to_pylist()]


# The log


def test_a_seed_gives_the_same_log_and_another_seed_or_part_another(tmp_path: Path) -> None:
    for name, seed, part in (("a", 3, 0), ("again", 3, 0), ("other seed", 4, 0), ("other part", 3, 1)):
        write_log(tmp_path / name, 500, seed, part)
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert texts["a"] == texts["again"]
    assert len(set(texts.values())) == 3


def test_the_log_is_as_long_as_asked_and_has_every_column_that_its_attributes_need(tmp_path: Path) -> None:
    done: list[int] = []
    write_log(tmp_path / "log.csv", 70_000, progress=done.append)
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert len(lines) == 1 + 70_000 == 1 + sum(done)
    header = lines[0].split(",")
    assert header[-1] == "label"
    assert {len(line.split(",")) for line in lines} == {len(header)}
    needed = {column for feature in parse_attributes(ATTRIBUTES).features for column in feature.columns}
    assert needed == set(header[:-1])
    assert '"' not in lines[0] + lines[1]


def test_labels_come_in_episodes_of_which_most_are_normal() -> None:
    labels = labels_of(150_000)
    shares = {label: labels.count(label) / len(labels) for label in LABELS}
    assert 0.6 < shares["normal"] < 0.9
    assert 0 < shares["takeover"] < 0.02 < shares["flood"] < 0.25
    moves = {(a, b) for a, b in itertools.pairwise(labels) if a != b}
    assert {a for a, b in moves if b == "takeover"} == {"guess"}, "nobody takes over what was not broken into"
    assert {b for a, b in moves if a == "takeover"} == {"normal"}
    assert len(labels) / (1 + sum(a != b for a, b in itertools.pairwise(labels))) > 50


def test_columns_depend_on_the_label() -> None:
    (batch,) = log_batches(60_000)
    label = np.array(batch["label"].to_pylist())
    gap, recent = batch["gap"].to_numpy(), batch["recent"].to_numpy()
    silent, received = np.array(batch["flag"].to_pylist()) == "silent", batch["received"].to_numpy()
    assert np.median(gap[label == "flood"]) < 0.5 * np.median(gap[label == "normal"])
    assert recent[label == "flood"].mean() > 2 * recent[label == "normal"].mean()
    assert silent[label == "flood"].mean() > 3 * silent[label == "normal"].mean()
    assert (received[silent] == 0).all()
    assert ((batch["errors"].to_numpy() >= 0) & (batch["errors"].to_numpy() <= 1)).all()


@pytest.mark.parametrize("wrong", [{"positions": 0}, {"positions": 5, "seed": -1}, {"positions": 5, "part": -1}])
def test_sizes_that_make_no_sense(wrong: dict[str, int]) -> None:
    with pytest.raises(BadSetting, match="at least"):
        next(log_batches(**wrong))


# Its parts


def test_single_rows_are_a_logistic_regression() -> None:
    random = np.random.default_rng(1)
    ids, labels = random.integers(0, 7, (50, 2)), random.integers(0, 3, 50)
    chain = Chain.from_arrays(offsets=np.arange(51) * 2, ids=ids.ravel(), labels=labels, n_labels=3, n_attributes=7)
    model = Model.random(Layout.full(3, 7), seed=2)
    scores = model.weights[:21].reshape(7, 3)[ids].sum(axis=1)
    expected = scores[np.arange(50), labels] - np.log(np.exp(scores).sum(axis=1))
    found = log_likelihood(model, SinglePositions(chain), engine="parallel").log_likelihood
    assert found == pytest.approx(expected.sum(), rel=1e-12)
    assert log_likelihood(model, chain).log_likelihood != pytest.approx(expected.sum(), rel=1e-3)


def test_episodes_are_counted_across_blocks() -> None:
    labels = np.array([0, 1, 1, 2, 0, 0, 1, 0, -1, -1, 2, 2])
    for cut in range(1, labels.size):
        first, second = labels[:cut], labels[cut:]
        assert episodes_begun(first, 0, 0) + episodes_begun(second, int(first[-1]), 0) == 5


# The whole


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo") / "new folder" / "demo"
    done = chainfold("demo", "--positions", "20000", "--output", str(folder), "--seed", "5")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder, done.stdout


def test_everything_is_made(run: tuple[Path, str]) -> None:
    folder, text = run
    made = {path.name for path in folder.iterdir()}
    assert made == {"train.csv", "test.csv", "train.chain", "attacks.model", "tagged.csv", "picture.png"}
    assert (folder / "picture.png").read_bytes().startswith(PNG)
    for step in ("compile", "write", "encode", "train on the chain", "train on single rows", "tag", "draw"):
        assert re.search(rf"│ {step} +│ +[0-9.]+ │", text)


def test_the_chain_beats_single_rows(run: tuple[Path, str]) -> None:
    figures = re.search(r"labelled correctly +│ +([0-9.]+)% │ +([0-9.]+)% │", run[1])
    assert figures is not None
    single, chain = map(float, figures.groups())
    assert chain > 97
    assert single < chain - 8


def test_the_tagged_file_is_the_log_with_what_was_found(run: tuple[Path, str]) -> None:
    folder, text = run
    tagged = [line.split(",") for line in (folder / "tagged.csv").read_text().splitlines()]
    assert [",".join(line[:-2]) for line in tagged] == (folder / "test.csv").read_text().splitlines()
    assert tagged[0][-3:] == ["label", "predicted", "probability"]
    right = sum(line[-3] == line[-2] for line in tagged[1:])
    assert f"{len(tagged) - 1:,} positions, {right / (len(tagged) - 1):.2%} correct" in text
    assert all(0 < float(line[-1]) <= 1 for line in tagged[1:])


def test_by_hand_it_comes_to_the_same_bytes(run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, text = run
    by_hand = [line.strip() for line in text.splitlines() if line.startswith("  c")]
    assert by_hand == commands(folder)
    made = {name: (folder / name).read_bytes() for name in ("train.chain", "attacks.model", "tagged.csv")}
    for name in made:
        (folder / name).unlink()
    monkeypatch.chdir(shlex.split(by_hand[0])[1])
    for line in by_hand[1:]:
        done = CliRunner().invoke(app, shlex.split(line)[1:])
        assert done.exit_code == 0, f"{line}: {done.output}"
    assert {name: (folder / name).read_bytes() for name in made} == made


def test_it_runs_without_matplotlib_and_says_how_to_get_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with holding():
        demo(positions=2000, output=tmp_path, seed=0)
    output = capsys.readouterr().out
    assert "pip install 'chainfold[plot]'" in output
    assert not (tmp_path / "picture.png").exists()
    assert (tmp_path / "attacks.model").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--positions", "999"), "--positions is 999, but must be at least 1000."),
        (("--seed", "-1"), "--seed is -1, but must be at least 0."),
        (("--output", "file/demo"), "file/demo: cannot be made a folder: Not a directory."),
        (("--output", "file"), "file: cannot be made a folder: File exists."),
    ],
)
def test_bad_input_is_one_sentence(options: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = chainfold("demo", *options, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"chainfold: {sentence}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_may_not_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(BadFile, match="cannot be written to: permission denied"):
        demo(positions=2000, output=tmp_path)


def test_an_interrupt_leaves_nothing_half_written(tmp_path: Path) -> None:
    folder = tmp_path / "chainfold-demo"
    line = command("demo", "--positions", 20_000_000)
    with running(line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while process.poll() is None and not list(folder.glob(".train.csv.*")):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE)
    assert (process.returncode, error) == (130, b"chainfold: interrupted.\n")
    assert not list(folder.iterdir())


# The picture


def story(size: int = 3000) -> Story:
    random = np.random.default_rng(0)
    truth = np.repeat(random.integers(0, 3, size // 100), 100).astype(np.int32)
    single = np.where(random.random(truth.size) < 0.5, truth, 0).astype(np.int32)
    posteriors = 0.9 * np.eye(3)[truth] + 0.1 / 3
    names = ("normal", "takeover", "scan")

    def scores(found: np.ndarray) -> Scores:
        count = Count(names)
        count.add(truth, found, np.arange(truth.size) == 0)
        return count.scores()

    training = {"objective": [300.0, 200.0, 100.0], "positions": 1000}
    return Story(
        labels=names,
        truth=truth,
        chain=truth,
        single=single,
        posteriors=posteriors,
        scores={"single rows": scores(single), "chain": scores(truth)},
        training={"single rows": training, "chain": training},
        online=[Interval(1000 * k, 0.99 - 0.3 / k, 0.99 - 0.4 / k, 0.1) for k in range(1, 21)],
    )


def test_the_same_story_gives_the_same_picture(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        draw(tmp_path / name, story())
    data = (tmp_path / "a.png").read_bytes()
    assert data == (tmp_path / "b.png").read_bytes()
    assert data.startswith(PNG)
    assert [int.from_bytes(data[at : at + 4], "big") for at in (16, 20)] == [1600, 900]
    assert len(data) < 150_000


def test_the_stretch_with_most_labels_is_shown() -> None:
    truth = np.zeros(5000, np.int32)
    truth[1000:1100], truth[3000:3050], truth[3300:3350] = 1, 1, 2
    here = busiest(truth, 3, 1000)
    assert here.stop - here.start == 1000
    assert here.start + 100 <= 3000
    assert here.stop - 100 >= 3350 - 38, "enough of the last label is seen, not too near the end"


@pytest.mark.parametrize("size", [1, 2, 10, 999])
def test_a_short_log_is_shown_whole(size: int) -> None:
    assert busiest(np.zeros(size, np.int32), 2, 1000) == slice(0, size)


def test_the_picture_of_the_readme_is_small() -> None:
    data = (Path(__file__).parents[2] / "docs" / "demo.png").read_bytes()
    assert data.startswith(PNG)
    assert len(data) <= 150_000
