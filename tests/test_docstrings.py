"""The docstrings of public names have examples, and these run."""

from __future__ import annotations

import doctest
import importlib
import warnings
from pathlib import Path
from types import ModuleType

import pytest

import chainfold

HOMES = [(chainfold, name) for name in chainfold.__all__]
HOMES += [(chainfold.metrics, name) for name in chainfold.metrics.__all__ if name.endswith(("_score", "_report"))]
HOMES += [(chainfold.reference, name) for name in ("algorithm_1", "algorithm_2", "forward_only")]
HOMES += [(chainfold.arrays, name) for name in chainfold.arrays.__all__ if name.islower()]
HOMES += [
    (chainfold.pycrfsuite, name) for name in ("BaseTrainer", "ItemSequence", "Tagger", "TrainLogParser", "Trainer")
]


@pytest.mark.parametrize(("home", "name"), HOMES, ids=lambda value: value if isinstance(value, str) else "")
def test_examples_run(home: ModuleType, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    public = getattr(home, name)
    names = {**vars(importlib.import_module(public.__module__)), name: public}
    found = [test for test in doctest.DocTestFinder(recurse=False).find(public, name, globs=names) if test.examples]
    assert found, f"the docstring of {home.__name__}.{name} has no example"
    with warnings.catch_warnings():
        for test in found:
            assert doctest.DocTestRunner().run(test).failed == 0
