"""The frozen answers: the parts that take seconds; `python -m tests.freeze` compares all."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from freeze import fixed, samples
from freeze.__main__ import main
from freeze.answers import Answers, compare, differs, recorded


@pytest.mark.parametrize("name", ["examples", pytest.param("made-up", marks=pytest.mark.slow)])
def test_fixed_models_give_the_recorded_answers(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = Answers()
    (sample,) = [sample for sample in samples.made_up(tmp_path) if sample.name == name]
    fixed.answer(answers, sample, tmp_path)
    old = Answers({key: answer for key, answer in recorded().items() if key.startswith(f"{name}/")})
    assert old.keys() == answers.keys()
    assert compare(answers, old) == 0, capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.data
def test_all_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["freeze"])
    assert main() == 0, capsys.readouterr().out


def test_differences_are_seen() -> None:
    numbers = np.random.default_rng(0).normal(size=1000)
    old, new, other = Answers(), Answers(), Answers()
    old.close("numbers", numbers)
    new.close("numbers", numbers * (1.0 + 1e-15))
    assert differs(new["numbers"], old["numbers"]) is None
    changed = numbers.copy()
    changed[777] += 1e-10  # not one of the sample: the signed sums have it
    other.close("numbers", changed)
    assert "times what is allowed" in (differs(other["numbers"], old["numbers"]) or "")
    old.exact("text", "a")
    new.exact("text", "b")
    assert differs(new["text"], old["text"]) == "other bytes (1 before, 1 now)"
    old.close("infinite", [1.0, -np.inf])
    new.close("infinite", [1.0, np.inf])
    assert differs(new["infinite"], old["infinite"]) == "other infinities"
    assert compare(new, old) == 2
