"""The command line, in this process or, where the process is what matters, as a user runs it."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from chainfold import Chain, Layout, Model, SyntheticChain, log_likelihood, open_model
from chainfold.chain.stored import write_chain
from chainfold.cli.options import parse_size
from processes import PATIENCE, chainfold, command, running, wait_until_busy
from verbs import failed, run, succeeded

pytestmark = pytest.mark.quick


def told(*arguments: object) -> str:
    """What a verb writes, as text."""
    return succeeded(*arguments).decode()


def test_the_command_is_told_of_bad_input_in_the_same_way(tmp_path: Path) -> None:
    done = chainfold("gradient", "missing.arrow", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "chainfold: missing.arrow: there is no such file.\n"


def test_gradient_json_agrees_with_the_library(tmp_path: Path) -> None:
    path = tmp_path / "gradient.npy"
    arguments = ("--synthetic", "5000:3:10:2", "--seed", "4")
    facts = json.loads(told("gradient", *arguments, "--json", "--output", str(path)))
    source = SyntheticChain(5000, 3, 10, 2, seed=4)
    found = log_likelihood(Model(Layout.full(3, 10), source.true_weights()), source, "parallel")
    assert facts["log_z"] == found.log_z
    assert facts["log_likelihood"] == found.log_likelihood
    assert found.gradient is not None
    np.testing.assert_array_equal(np.load(path), found.gradient)
    assert facts["gradient_norm"] == pytest.approx(np.linalg.norm(found.gradient))
    promised = {
        "engine": "parallel",
        "positions": 5000,
        "labels": 3,
        "weights": 39,
        "carried_blocks": 0,
    }
    assert promised.items() <= facts.items()
    assert {"seconds", "peak_rss_mb", "lookahead_mean", "lookahead_max", "gradient_sha256"} <= facts.keys()


def test_a_chain_encoded_without_labels_has_no_gradient(tmp_path: Path) -> None:
    rows, path = tmp_path / "rows", tmp_path / "chain"
    rows.write_text("a b\nb a\n")
    told("encode", str(rows), "--no-labels", "-o", str(path))
    assert failed("gradient", path).startswith("the chain has no labels, so there is no gradient; encode it with ")


def test_a_chain_without_labels_has_no_gradient(tmp_path: Path) -> None:
    path = tmp_path / "chain.arrow"
    write_chain(path, Chain.from_arrays(offsets=[0, 1, 2], ids=[0, 1], n_labels=2))
    facts = json.loads(told("gradient", str(path), "--json"))
    assert facts["gradient_norm"] is None
    assert facts["gradient_sha256"] is None
    assert told("gradient", str(path)).count("unknown") == 3
    done = run("gradient", str(path), "--output", str(tmp_path / "gradient.npy"))
    assert done.exit_code == 2
    assert "no gradient to write" in done.stderr


@pytest.mark.parametrize(
    ("text", "size"), [("256MB", 256_000_000), ("256MiB", 268_435_456), ("1.5 gb", 1_500_000_000), ("4096", 4096)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_gradient_of_a_trained_model_is_that_of_its_objective(tmp_path: Path) -> None:
    text = "".join(f"{word} {label}\n" for word, label in zip("abcabdab", "xyzxyyxy", strict=True))
    (tmp_path / "train.txt").write_text(text)
    model = str(tmp_path / "m")
    trained = json.loads(told("train", str(tmp_path / "train.txt"), "--c2", "0.5", "-o", model, "--json"))
    found = json.loads(told("gradient", f"{model}.chain", "--model", model, "--json"))
    weights = open_model(model).weights
    assert found["weights"] == weights.size
    assert 0.5 * float((weights**2).sum()) - found["log_likelihood"] == pytest.approx(trained["objective"], rel=1e-9)


def test_version_and_help() -> None:
    assert chainfold("--version").stdout.startswith("chainfold 0.")
    assert "gradient" in chainfold("--help").stdout


@pytest.mark.parametrize("engine", ["stream", "parallel"])
def test_interrupt_is_one_line(engine: str) -> None:
    line = command("gradient", "--synthetic", "3000000000:5:100:8", "--engine", engine, "--threads", 2)
    with running(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until_busy(process)
        process.send_signal(signal.SIGINT)
        output, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert output == b""
    assert error == b"chainfold: interrupted.\n"
