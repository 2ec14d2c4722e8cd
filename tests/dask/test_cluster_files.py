"""Encoding, tagging and evaluating on a cluster: the same bytes as on one machine, also after a death."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chainfold.dask as cluster
from chainfold import Model, StoredChain, Training, encode, evaluate, tag_to, train
from chainfold.errors import ChainfoldError
from chainfold.features.parts import encode_in_parts
from chainfold.readers.progress import InputProgress
from dask_cluster import kill, processes, replaced
from verbs import run

COLUMNS: dict[str, Any] = {"columns": ["word", "shape", "label"]}


def rows(number: int, labels: str = "ABC") -> Iterator[str]:
    for k in range(400):
        yield f"w{(k * number) % 37} s{k % 5} {labels[(k + number) % len(labels)]}\n" + ("\n" if k % 9 == 8 else "")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("inputs")
    paths = [folder / f"rows-{number}.txt" for number in range(6)]
    for number, path in enumerate(paths):
        path.write_text("".join(rows(number)))
    return paths


@pytest.fixture(scope="module")
def model(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Model:
    chain = encode(files, tmp_path_factory.mktemp("model") / "rows.chain", **COLUMNS)
    return train(chain, Training(options={"max_iterations": 4}))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_encoding_writes_the_same_files(client: Any, files: list[Path], tmp_path: Path) -> None:
    expected = encode_in_parts(files, tmp_path / "one", part_size=1000, **COLUMNS)
    found = cluster.encode(client, files, tmp_path / "many", part_size=1000, **COLUMNS)
    assert len(found.parts) == len(expected.parts) > 6
    assert contents(tmp_path / "one") == contents(tmp_path / "many")
    trained = train(expected, Training(options={"max_iterations": 3}))
    far = cluster.train(client, found, Training(options={"max_iterations": 3}))
    assert far.weights.tobytes() == trained.weights.tobytes()


def test_a_worker_killed_in_the_middle_of_encoding(client: Any, files: list[Path], tmp_path: Path) -> None:
    encode_in_parts(files, tmp_path / "one", part_size=1000, **COLUMNS)
    workers, killed = processes(client, 1), threading.Event()

    def read(size: int) -> None:
        if not killed.is_set():
            killed.set()
            kill(workers)

    told = InputProgress(read=read)
    cluster.encode(client, files, tmp_path / "many", part_size=1000, progress=told, **COLUMNS)
    assert killed.is_set()
    assert contents(tmp_path / "one") == contents(tmp_path / "many")
    replaced(client, workers)


def test_tagging_writes_the_same_files_and_a_death_does_not_matter(
    client: Any, files: list[Path], model: Model, tmp_path: Path
) -> None:
    workers, killed = processes(client, 1), threading.Event()

    def done(name: str) -> None:
        if not killed.is_set():
            killed.set()
            kill(workers)

    targets = cluster.tag(client, model, files, tmp_path, done=done, marginals=True)
    assert killed.is_set()
    for path, target in zip(files, targets, strict=True):
        with (tmp_path / "expected").open("wb") as sink:
            tag_to(sink, model, [path], marginals=True)
        assert target.read_bytes() == (tmp_path / "expected").read_bytes()
    replaced(client, workers)


def test_scores_are_those_of_one_machine(client: Any, files: list[Path], model: Model, tmp_path: Path) -> None:
    expected = evaluate(model, files).to_json()
    assert cluster.evaluate(client, model, files).to_json() == expected
    chain = encode(files, tmp_path / "rows.chain", **COLUMNS)
    assert cluster.evaluate(client, model, chain).to_json() == evaluate(model, str(chain.path)).to_json()
    assert cluster.evaluate(client, model, str(chain.path)).to_json() == evaluate(model, str(chain.path)).to_json()


def test_gradient_of_a_model_with_other_numbers(client: Any, files: list[Path], model: Model, tmp_path: Path) -> None:
    from chainfold import log_likelihood

    chain = encode(list(reversed(files))[:3], tmp_path / "rows.chain", **COLUMNS)
    expected = log_likelihood(model, chain, "parallel")
    found = cluster.log_likelihood(client, model, chain)
    assert (found.log_z, found.log_likelihood) == (expected.log_z, expected.log_likelihood)
    assert found.gradient is not None
    assert expected.gradient is not None
    assert found.gradient.tobytes() == expected.gradient.tobytes()
    assert found.report.error_bound == expected.report.error_bound


def test_the_verb_gradient_gives_the_same_bits_on_a_cluster(client: Any, chain: StoredChain) -> None:
    asked = ["gradient", chain.path, "--json"]
    here, there = (json.loads(run(*asked, *more).stdout) for more in ([], ["--cluster", client.scheduler.address]))
    for name in ("engine", "log_z", "log_likelihood", "gradient_sha256", "error_bound"):
        assert here[name] == there[name]


def test_a_bad_file_or_part_is_named(client: Any, files: list[Path], model: Model, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("a b A\nc d\n")
    with pytest.raises(ChainfoldError, match=r"bad\.txt"):
        cluster.encode(client, [*files, bad], tmp_path / "chain", part_size=1000, **COLUMNS)
    assert not (tmp_path / "chain" / "index.json").exists()
    told: list[str] = []
    tagged = tmp_path / "tagged"
    tagged.mkdir()
    with pytest.raises(ChainfoldError, match=r"bad\.txt"):
        cluster.tag(client, model, [bad, *files], tagged, done=told.append)
    assert str(bad) not in told
    chain = cluster.encode(client, files, tmp_path / "chain", part_size=1000, **COLUMNS)
    part = tmp_path / "chain" / chain.parts[3].name
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    with pytest.raises(ChainfoldError, match=f"{part.name}: .* damaged"):
        cluster.train(client, tmp_path / "chain")
    chain = cluster.encode(client, files, tmp_path / "other", part_size=1000, **COLUMNS)
    part = tmp_path / "other" / chain.parts[3].name
    part.unlink()
    with pytest.raises(ChainfoldError, match=f"{part.name}: there is no such file"):
        cluster.train(client, chain)


def test_labels_that_the_model_has_never_seen(client: Any, files: list[Path], model: Model, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("".join(rows(3, "XYZ")))
    scores = cluster.evaluate(client, model, [*files, other])
    assert scores.to_json() == evaluate(model, [*files, other]).to_json()
    chain = encode(other, tmp_path / "other.chain", **COLUMNS)
    with pytest.raises(ChainfoldError, match=r"has label '[XYZ]', which the model has never seen"):
        cluster.log_likelihood(client, model, chain)


def test_two_inputs_of_one_name_are_refused(client: Any, files: list[Path], model: Model, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / files[0].name).write_text("a b A\n")
    with pytest.raises(ChainfoldError, match="2 inputs of the same name"):
        cluster.tag(client, model, [files[0], tmp_path / "in" / files[0].name], tmp_path)
    with pytest.raises(ChainfoldError, match="is an input"):
        cluster.tag(client, model, files, files[0].parent)
    with pytest.raises(ChainfoldError, match="is not a folder"):
        cluster.tag(client, model, files, tmp_path / "missing")
