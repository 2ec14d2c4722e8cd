"""Every target of the harness on a few inputs in this process, and on many in processes that are watched."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import harness

TARGETS = harness.targets()


@pytest.mark.parametrize("name", TARGETS)
def test_some_inputs_of_every_target(name: str, tmp_path: Path) -> None:
    for number in range(10):
        harness.tried(TARGETS[name], harness.dice_of(name, 0, number), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_many_inputs_of_every_target(name: str) -> None:
    found = harness.watched(name, 20_000, seed=1, workers=2)
    assert found.failures == {}
    assert found.inputs == 20_000
