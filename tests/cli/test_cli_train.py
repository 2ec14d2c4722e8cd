"""`chainfold train`: what it refuses, what it keeps beside the model, and runs that are killed and go on."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainfold.chain.any_chain import open_chain
from chainfold.features import cache
from chainfold.model.file import open_model
from chainfold.system import signals
from processes import PATIENCE, command, running
from verbs import conll, failed, run, succeeded

LITTLE = ("--max-iterations", "3")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return conll(tmp_path / "train.txt")


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_facts_for_machines_and_for_people(text: Path, tmp_path: Path) -> None:
    facts = json.loads(succeeded("train", text, "-o", tmp_path / "m", "--c1", "0.1", "--json"))
    model = open_model(tmp_path / "m")
    assert facts["labels"] == 3
    assert facts["algorithm"] == "lbfgs"
    assert facts["finished"].startswith("converged")
    assert facts["weights"] == model.layout.size
    assert facts["active_weights"] == np.count_nonzero(model.weights)
    assert facts["objective"] == model.training["objective"][-1]
    assert facts["bytes"] == (tmp_path / "m").stat().st_size
    assert facts["development"] is None
    shown = succeeded("train", text, "-o", tmp_path / "m", "--dev", text, *LITTLE).decode()
    for what in ("lbfgs", "iterations", "best on the development set", "stopped: the largest number"):
        assert what in " ".join(shown.split())


def test_verbose_is_a_line_an_iteration(text: Path, tmp_path: Path) -> None:
    done = run("train", text, "-o", tmp_path / "m", "-v", "--dev", text, *LITTLE)
    lines = done.stderr.splitlines()
    assert [line.split("  ")[0] for line in lines] == [f"iteration {k}" for k in (1, 2, 3)]
    assert all("development" in line for line in lines)


WRONG = [
    (("--algorithm", "magic"), "algorithm is 'magic', but must be one of lbfgs"),
    (("--algorithm", "ap", "--c1", "1"), "--c1 does not apply to algorithm 'ap'"),
    (("--c1", "-1"), "c1 is -1.0"),
    (("--c2", "nan"), "c2 is nan"),
    (("--max-iterations", "0"), "--max-iterations is 0"),
    (("--patience", "0"), "patience is 0"),
    (("--threads", "0"), "threads is 0"),
    (("--engine", "warp"), "there is no engine 'warp'"),
    (("--memory", "much"), "cannot read 'much' as an amount of memory"),
    (("--resume", "--fresh"), "give --resume or --fresh, not both"),
    (("--scheme", "XYZ"), "scheme is 'XYZ'"),
    (("--model", "missing"), "missing: there is no such file."),
    (("--dev", "missing"), "missing: there is no such file."),
    (("--template", "missing"), "missing: cannot be read"),
    (("--save-every", "nan"), "--save-every is 'nan'"),
    *(((f"--{name}", value), "") for name, value in (("epsilon", -1), ("num-memories", 0), ("delta", -1), ("rate", 1))),
    *(((f"--{name}", "x"), "") for name in ("linesearch", "forbid", "allow", "numbers", "border")),
    *(((f"--{name}", "x("), "") for name in ("attributes", "format", "encoding", "delimiter", "save-every")),
    *(((f"--{name}", value), "") for name, value in (("max-linesearch", 0), ("min-count", 0), ("hash-bits", 99))),
    *(
        (("--algorithm", *options), "")
        for options in (("sgd", "--batch", 0), ("sgd", "--rate", -1), ("pa", "--type", 7))
    ),
]


@pytest.mark.parametrize(("options", "sentence"), WRONG, ids=lambda value: " ".join(map(str, value)))
def test_options_are_checked_before_anything_is_encoded(
    options: tuple[Any, ...], sentence: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr(cache, "_chain_of", never)  # what comes first, once the options are known
    assert sentence in failed("train", text, "-o", tmp_path / "m", *options)
    assert listed(tmp_path) == ["train.txt"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--forbid", "B>Q"), "there is no label 'Q'"),
        (("--label", "z"), "there is no label column 'z'; the columns are 0, 1, 2."),
        (("--weight", "1"), "line 1, column '1': the weight is"),
        (("--columns", "a,b"), "line 1 has 3 columns, but there are names for 2"),
    ],
)
def test_options_that_the_rows_refuse(options: tuple[str, ...], sentence: str, text: Path, tmp_path: Path) -> None:
    assert sentence in failed("train", text, "-o", tmp_path / "m", *options)
    assert not (tmp_path / "m").exists()
    assert not (tmp_path / "m.run").exists()


BAD = {
    "empty.txt": (b"", "empty.txt: is empty."),
    "blank.txt": (b"\n \n", "blank.txt: has only blank lines or comments."),
    "ragged.txt": (b"a x B\nb I\n", "ragged.txt: line 2"),
    "number.csv": (b"size,label\n1,x\n2,y\nnan,x\n", "number.csv: line 4, column 'size': nan is no finite number"),
    "unlabelled.csv": (b"word,label\na,x\nb,\n", "training needs a label at every position"),
    "short.txt.gz": (gzip.compress(b"a x B\n" * 9999)[:60], "short.txt.gz: the gzip data is cut short"),
    "letters.txt": (b"\xe8\xff B\n", "letters.txt: line 1, byte 1: 0xe8 is not UTF-8"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str, text: Path, tmp_path: Path) -> None:
    path, (content, sentence) = tmp_path / name, BAD[name]
    path.write_bytes(content)
    assert sentence in failed("train", path, "-o", tmp_path / "m", *LITTLE)
    assert not (tmp_path / "m").exists()
    if "needs a label" not in sentence and name != "number.csv":
        assert sentence in failed("train", text, "--dev", path, "-o", tmp_path / "m", *LITTLE)
        assert not (tmp_path / "m").exists()


def test_a_model_does_not_go_to_standard_output_nor_its_state_into_a_folder(text: Path, tmp_path: Path) -> None:
    assert "cannot be written to standard output" in failed("train", text, "-o", "-")
    (tmp_path / "m.run").mkdir()
    assert "is a directory" in failed("train", text, "-o", tmp_path / "m", "--fresh")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_that_may_not_be_written_to(text: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert str(closed) in failed("train", text, "-o", closed / "m")


@pytest.mark.parametrize("content", ["a x B\nb x I\n", "a x B\n\nb x I\n"], ids=["one sequence", "one position each"])
def test_the_least_there_can_be(content: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(content)
    for algorithm in ("lbfgs", "adam", "ap", "arow"):
        path = tmp_path / algorithm
        facts = json.loads(succeeded("train", tmp_path / "t", "-o", path, "--algorithm", algorithm, "--json"))
        assert facts["labels"] == 2
        tagged = content.replace("B\n", "B B\n").replace("I\n", "I I\n")
        assert succeeded("tag", path, tmp_path / "t") == tagged.encode()


def test_what_is_encoded_is_used_again_until_something_changes(text: Path, tmp_path: Path) -> None:
    model, cache = tmp_path / "m", tmp_path / "m.chain"

    def identity(*options: object) -> tuple[int, int]:
        succeeded("train", text, "-o", model, *LITTLE, *options)
        about = cache.stat()
        return about.st_ino, about.st_mtime_ns

    first = identity()
    content = model.read_bytes()
    assert identity() == first
    assert identity("--c2", "3", "--algorithm", "sgd") == first, "training options say nothing of the chain"
    second = identity("--min-count", "2")
    assert second != first
    assert identity("--min-count", "2") == second
    third = identity()
    assert third != second
    assert model.read_bytes() == content
    conll(text, seed=1)
    assert identity() != third
    assert model.read_bytes() != content
    cache.write_bytes(cache.read_bytes()[:-1000])
    fourth = identity()
    assert open_chain(cache).positions > 0
    assert identity() == fourth


def test_a_chain_gives_the_same_model_as_its_file(text: Path, tmp_path: Path) -> None:
    how = ("--columns", "word,shape,tag", "--attributes", "word word[-1] shape")
    succeeded("train", text, "-o", tmp_path / "m", *how)
    succeeded("encode", text, "-o", tmp_path / "c", *how)
    succeeded("train", tmp_path / "c", "-o", tmp_path / "n")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
    assert not (tmp_path / "n.chain").exists(), "a chain needs no other beside it"
    succeeded("train", tmp_path / "m.chain", "-o", tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
    for option in (("--attributes", "word"), ("--min-count", "2"), ("--one-sequence",), ("--label", "tag")):
        sentence = failed("train", tmp_path / "c", "-o", tmp_path / "n", *option)
        assert f"is an encoded chain, to which {option[0]} does not apply" in sentence


def test_from_standard_input(text: Path, tmp_path: Path) -> None:
    succeeded("train", text, "-o", tmp_path / "m", *LITTLE)
    succeeded("train", "-", "-o", tmp_path / "n", *LITTLE, given=text.read_bytes())
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()


def test_threads_change_no_bit(text: Path, tmp_path: Path) -> None:
    for threads in (1, 2):
        succeeded("train", text, "-o", tmp_path / f"{threads}", "--threads", threads, "--c1", "0.1")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_a_development_set_may_only_report(text: Path, tmp_path: Path) -> None:
    made = ("--algorithm", "adagrad", "--c2", "0", "--max-iterations", "12", "--patience", "1")
    plain = json.loads(succeeded("train", text, "-o", tmp_path / "plain", *made, "--json"))
    dev = ("--dev", text, "--dev-report")
    facts = json.loads(succeeded("train", text, "-o", tmp_path / "m", *dev, *made, "--json"))
    assert facts["iterations"] == plain["iterations"] == 12
    assert facts["best_iteration"] is None
    assert facts["development"] == json.loads(succeeded("eval", tmp_path / "m", text, "--json"))["spans"]["f1"]
    assert open_model(tmp_path / "m").weights.tobytes() == open_model(tmp_path / "plain").weights.tobytes()
    done = run("train", text, "-o", tmp_path / "m", *dev, *made, "-v")
    assert all("development" in line and "*" not in line for line in done.stderr.splitlines())
    assert "│ on the development set" in done.stdout
    assert "--dev-report requires --dev" in failed("train", text, "-o", tmp_path / "m", "--dev-report")


def test_a_single_label_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a x O\nb y O\n")
    assert failed("train", tmp_path / "t", "-o", tmp_path / "m") == (
        f"{tmp_path / 't'}: every position has the same label, 'O' in column '2', so there is nothing to learn; name "
        f"the column of labels with --label, or the format with --format."
    )
    assert not (tmp_path / "m").exists()
    succeeded("train", tmp_path / "t", "-o", tmp_path / "m", "--label", "1", *LITTLE)


def test_a_development_set_stops_the_run_and_keeps_the_best(text: Path, tmp_path: Path) -> None:
    dev = conll(tmp_path / "dev.txt", 30, seed=5)
    dev.write_text(dev.read_text().replace("B-X", "B-NEW", 4))  # which are always wrong
    made = ("--algorithm", "adagrad", "--c2", "0", "--max-iterations", "60", "--patience", "4")
    facts = json.loads(succeeded("train", text, "--dev", dev, "-o", tmp_path / "m", *made, "--json"))
    assert facts["finished"].startswith("stopped: the development score")
    assert facts["iterations"] == facts["best_iteration"] + 4
    scores = json.loads(succeeded("eval", tmp_path / "m", dev, "--json"))
    assert facts["development"] == scores["spans"]["f1"], "the labels are chunk tags"
    succeeded("encode", dev, "-o", tmp_path / "dev.chain")
    succeeded("train", text, "--dev", tmp_path / "dev.chain", "-o", tmp_path / "n", *made)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()


def test_a_column_of_weights(tmp_path: Path) -> None:
    rows = [("a", "x", 1), ("b", "y", 3), ("a", "y", 2), ("b", "x", 0.5)]
    (tmp_path / "w.csv").write_text("s,word,label,w\n" + "".join(f"{k},{w},{y},{k}\n" for w, y, k in rows))
    (tmp_path / "plain.csv").write_text("s,word,label\n" + "".join(f"{k},{w},{y}\n" for w, y, k in rows))
    (tmp_path / "ones.csv").write_text("s,word,label,w\n" + "".join(f"{k},{w},{y},1\n" for w, y, k in rows))
    how = ("--label", "label", "--attributes", "word", "--group", "s")
    found = {}
    for name in ("w", "ones", "plain"):
        weight = () if name == "plain" else ("--weight", "w")
        dev = ("--dev", tmp_path / "plain.csv")  # the weights of a development set are not looked at
        succeeded("train", tmp_path / f"{name}.csv", "-o", tmp_path / name, *how, *weight, *dev)
        found[name] = open_model(tmp_path / name).weights
    np.testing.assert_allclose(found["ones"], found["plain"], atol=1e-12)
    assert np.abs(found["w"] - found["plain"]).max() > 0.1


@pytest.mark.parametrize("in_place", [False, True])
def test_a_model_to_begin_with(in_place: bool, text: Path, tmp_path: Path) -> None:
    first = json.loads(succeeded("train", text, "-o", tmp_path / "m", "--json"))
    target = tmp_path / ("m" if in_place else "n")
    again = json.loads(succeeded("train", text, "--model", tmp_path / "m", "-o", target, "--json"))
    assert again["iterations"] < first["iterations"] / 2
    assert again["objective"] <= first["objective"] if again["iterations"] else again["objective"] is None
    conll(text, seed=9)
    text.write_text(text.read_text() + "\nnew x NEW\n")
    facts = json.loads(succeeded("train", text, "--model", target, "-o", target, "--json"))
    assert facts["labels"] == 4
    assert "not a model" in failed("train", text, "--model", text, "-o", target)


def bio_errors(labels: list[list[str]]) -> int:
    """How often I-X stands where nothing is open."""
    return sum(
        one == "I-X" and before == "O" for tags in labels for before, one in zip(["O", *tags], tags, strict=False)
    )


def predicted(output: bytes) -> list[list[str]]:
    return [[line.split()[-1] for line in part.splitlines()] for part in output.decode().strip().split("\n\n")]


@pytest.mark.parametrize("algorithm", ["lbfgs", "ap"])
def test_a_scheme_in_training_and_in_tagging(algorithm: str, tmp_path: Path) -> None:
    train, test = conll(tmp_path / "t", 60), conll(tmp_path / "u", 200, seed=3, noise=0.5)
    rows, mixed = [line for line in train.read_text().splitlines() if line], tmp_path / "mixed"
    random.Random(0).shuffle(rows)  # I-X comes after O as well
    mixed.write_text("".join(f"{row}\n" + "\n" * (number % 5 == 4) for number, row in enumerate(rows)))
    how = ("--algorithm", algorithm, "--max-iterations", "15")
    succeeded("train", mixed, "-o", tmp_path / "free", *how)
    succeeded("train", train, "-o", tmp_path / "bound", *how, "--scheme", "bio")
    assert bio_errors(predicted(succeeded("tag", tmp_path / "free", test))) > 0
    for output in (
        succeeded("tag", tmp_path / "bound", test),
        succeeded("tag", tmp_path / "free", test, "--scheme", "BIO"),
        succeeded("tag", tmp_path / "free", test, "--forbid", "O>I-X", "--forbid", "^>I-X"),
        succeeded("tag", tmp_path / "bound", test, "--nbest", "3"),
    ):
        assert bio_errors(predicted(output)) == 0
    samples = succeeded("tag", tmp_path / "bound", test, "--samples", "1")
    assert bio_errors(predicted(samples)) == 0


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("B>I", "position 1 has the transition 'B>I', which is forbidden; correct its label, or allow 'B>I'"),
        ("^>B", "position 0 has the transition '^>B'"),
        ("O>$", "position 2 has the transition 'O>$'"),
        ("B>$", "position 3 has the transition 'B>$'"),
    ],
)
@pytest.mark.parametrize("algorithm", ["lbfgs", "sgd", "ap"])
def test_labels_against_the_constraints(rule: str, sentence: str, algorithm: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a B\nb I\nc O\n\nd B\n")
    how = ("train", tmp_path / "t", "-o", tmp_path / "m", "--algorithm", algorithm, "--forbid", rule)
    assert sentence in failed(*how)
    succeeded(*how, "--allow", rule)


@contextmanager
def stopped_after(pieces: int) -> Iterator[Callable[[], bool]]:
    """In the place of Ctrl-C."""
    left = iter(range(pieces))
    yield lambda: next(left, None) is None


def interrupt(monkeypatch: pytest.MonkeyPatch, pieces: int = 5) -> None:
    monkeypatch.setattr(signals, "interruptible", lambda requested: stopped_after(pieces))


def test_an_unfinished_run(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, state = tmp_path / "m", tmp_path / "m.run"
    succeeded("train", text, "-o", tmp_path / "whole")
    with monkeypatch.context() as patch:
        interrupt(patch)
        done = run("train", text, "-o", model)
    assert done.exit_code == 130
    assert done.stderr.count("\n") == 1
    assert f"kept in {state}; continue with --resume." in done.stderr
    assert not model.exists()
    kept = state.read_bytes()
    sentence = failed("train", text, "-o", model)
    assert "holds an unfinished run; continue it with --resume, discard it with --fresh." in sentence
    assert "was begun with --c2 = 1.0, and now --c2 is 2.0" in failed(
        "train", text, "-o", model, "--resume", "--c2", "2"
    )
    other = conll(tmp_path / "other.txt", 50)
    assert "was begun with" in failed("train", other, "-o", model, "--resume")
    assert "there is no such file" in failed("train", tmp_path / "missing", "-o", model, "--fresh")
    assert state.read_bytes() == kept, "nothing is thrown away in vain"
    succeeded("train", text, "-o", model, "--resume")
    assert model.read_bytes() == (tmp_path / "whole").read_bytes()
    assert not state.exists()


def test_to_begin_anew(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    succeeded("train", text, "-o", tmp_path / "whole", "--c2", "2")
    with monkeypatch.context() as patch:
        interrupt(patch)
        assert run("train", text, "-o", tmp_path / "m").exit_code == 130
    succeeded("train", text, "-o", tmp_path / "m", "--c2", "2", "--fresh")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "m.run").exists()


def test_a_damaged_state_is_refused(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        interrupt(patch)
        assert run("train", text, "-o", tmp_path / "m").exit_code == 130
    state = tmp_path / "m.run"
    kept = bytearray(state.read_bytes())
    kept[-9] ^= 1
    for content in (bytes(kept), kept[:-1], b"", b"hello"):
        state.write_bytes(content)
        assert "not a training run written by chainfold" in failed("train", text, "-o", tmp_path / "m", "--resume")


def test_to_resume_what_was_never_begun(text: Path, tmp_path: Path) -> None:
    succeeded("train", text, "-o", tmp_path / "m")
    done = run("train", text, "-o", tmp_path / "n", "--resume")
    assert done.exit_code == 0
    assert done.stderr == "chainfold: there is no unfinished run to resume; a new one begins.\n"
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()


# Processes of their own


LONG = ("--c2", "0.01", "--epsilon", "1e-12", "--period", "0", "--max-iterations", "80")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_by_hand(number: signal.Signals, tmp_path: Path) -> None:
    text = conll(tmp_path / "t", 400, noise=0.4)
    succeeded("train", text, "-o", tmp_path / "whole", *LONG)
    line = command("train", text, "-o", tmp_path / "m", *LONG, "-v")
    with running(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as one:
        assert one.stderr is not None
        while not one.stderr.readline().startswith(b"iteration 3 "):
            assert one.poll() is None
        one.send_signal(number)
        output, said = one.communicate(timeout=60)
    assert one.returncode == 128 + number
    assert output == b""
    assert "chainfold: saving after this step; Ctrl-C again stops at once.\n" in said.decode()
    last = said.decode().splitlines()[-1]
    assert last.startswith("chainfold: training was interrupted after iteration")
    assert last.endswith("continue with --resume.")
    assert (tmp_path / "m.run").exists()
    assert not (tmp_path / "m").exists()
    succeeded("train", text, "-o", tmp_path / "m", *LONG, "--resume")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.skipif(os.name != "posix", reason="there are no such terminals")
def test_on_a_terminal(text: Path, tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    how = ("--max-iterations", "5", "--dev", text)
    seen, line = b"", command("train", text, "-o", tmp_path / "m", *how)
    with running(line, stdout=subprocess.PIPE, stderr=theirs) as one:
        os.close(theirs)
        try:
            while some := os.read(ours, 65536):
                seen += some
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        assert one.stdout is not None
        assert b"iterations" in one.stdout.read()
        assert one.wait(PATIENCE) == 0, seen
    assert "objective" in seen.decode()
    assert b"Traceback" not in seen
