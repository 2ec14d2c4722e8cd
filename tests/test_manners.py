"""What comes from outside is shown as text: no markup, no control characters, whatever the verb and the terminal."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chainfold import encode_sequences
from chainfold.data import roles
from verbs import failed, run, succeeded

NASTY = [
    "[/bold]",
    "B-\x1b[31mred",
    "\u009b31m",
    "a\rb",
    ":smile:",
    "[link=http://x]y[/link]",
    "$x_{",
    "\u202egnp",
    "I-\x07\x7f",
]
HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
STYLE = re.compile(r"\x1b\[(\d+(;\d+)*)?m|\x1b\[\?25[lh]|\x1b\[\d*[AGJK]|\r")  # what rich itself writes to a terminal


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a chain, a model and rows, in which labels and attributes are named as badly as can be."""
    folder = tmp_path_factory.mktemp("nasty") / "[red]fo\x1b[31mld\ner"
    folder.mkdir()
    size = len(NASTY)
    items = [[{f"{NASTY[(k + j) % size]}={j}": 1.0 for j in range(3)} for k in range(2 * size)]] * 2
    labels = [[NASTY[k % size] for k in range(2 * size)]] * 2
    with pytest.MonkeyPatch.context() as patch:  # we refuse control characters in labels; strangers' files have them
        patch.setattr(roles, "ord", lambda letter: 99, raising=False)
        encode_sequences(items, labels, folder / "chain")
        wrong = [labels[0], [NASTY[(k * k) % size] for k in range(2 * size - 1)] + ["[/never] \x1b seen"]]
        encode_sequences(items, wrong, folder / "test")
    (folder / "rows").write_text("".join(f"[/b]{k} :smile:{k % 3}\x9b\n" for k in range(20)))
    succeeded("train", folder / "chain", "-o", folder / "model", "--max-iterations", 3)
    return folder


VERBS: dict[str, Callable[[Path], list[object]]] = {
    "train": lambda at: ["train", at / "chain", "-o", at / "again", "--max-iterations", 2, "--fresh"],
    "train -v": lambda at: ["train", at / "chain", "-o", at / "again", "--max-iterations", 2, "--fresh", "-v"],
    "train --dev": lambda at: ["train", at / "chain", "-o", at / "again", "--dev", at / "chain", "--max-iterations", 2],
    "online": lambda at: ["train", at / "rows", "--online", "--hash-bits", 8, "-o", at / "on", "--fresh", "-v"],
    "eval": lambda at: ["eval", at / "model", at / "test"],
    "eval --confusion": lambda at: ["eval", at / "model", at / "test", "--confusion"],
    "inspect": lambda at: ["inspect", at / "model"],
    "inspect --label": lambda at: ["inspect", at / "model", "--label", NASTY[1]],
    "inspect --attribute": lambda at: ["inspect", at / "model", "--attribute", "\x1b"],
    "inspect --html": lambda at: ["inspect", at / "model", "--html", "-"],
    "data": lambda at: ["data", at / "chain"],
    "gradient": lambda at: ["gradient", at / "chain", "--model", at / "model"],
    "plan": lambda at: ["plan", at / "chain"],
    "watch": lambda at: ["watch", at / "model", at / "test", "--every", 5, "--window", 3, "--alarm", f"{NASTY[1]}>0.2"],
}


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_shows_a_control_character(verb: str, nasty: Path) -> None:
    done = run(*VERBS[verb](nasty))
    assert done.exit_code == 0, done.stderr or done.exception
    text = done.stdout + done.stderr
    assert not HIDDEN.findall(text)
    if verb in ("eval", "inspect", "data", "watch"):
        for name in ("[/bold]", r"B-\x1b[31mred", r"\x9b31m", r"a\rb", ":smile:", "[link=http://x]y[/link]", "$x_{"):
            assert name in text
