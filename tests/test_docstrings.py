"""The docstrings of public names have examples, and these run."""

from __future__ import annotations

import doctest
import importlib
import warnings
from pathlib import Path

import pytest

import chainfold


@pytest.mark.parametrize("name", chainfold.__all__)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    public = getattr(chainfold, name)
    names = {**vars(importlib.import_module(public.__module__)), name: public}
    found = [test for test in doctest.DocTestFinder(recurse=False).find(public, name, globs=names) if test.examples]
    assert found, f"the docstring of chainfold.{name} has no example"
    with warnings.catch_warnings():
        for test in found:
            assert doctest.DocTestRunner().run(test).failed == 0
