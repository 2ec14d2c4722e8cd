"""The pages on torch run, and so do the examples in the docstrings."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import chainfold.torch
from test_docs import NEED_TORCH, fenced


@pytest.mark.parametrize("page", NEED_TORCH, ids=lambda page: page.name)
def test_python_snippets_run_in_order(page: Path) -> None:
    names: dict[str, object] = {}
    for snippet in fenced(page, "python"):
        exec(compile(snippet, page.name, "exec"), names)


@pytest.mark.parametrize("name", chainfold.torch.__all__)
def test_examples_run(name: str) -> None:
    public = getattr(chainfold.torch, name)
    found = [test for test in doctest.DocTestFinder().find(public, name, globs={name: public}) if test.examples]
    assert found
    for test in found:
        assert doctest.DocTestRunner().run(test).failed == 0
