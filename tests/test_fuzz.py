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


def test_the_time_of_a_target_begins_with_its_first_input() -> None:
    assert harness.watched("constraints", 1_000_000, seed=1, workers=1, seconds=0.2).inputs > 0


PAST = {  # what has failed before, by its number in the run of this seed
    16: {
        "appended-chains": [3959, 4436],
        "flat-arrays": [18434],
        "piped-chains": [6048, 37346],
        "saved stream": [4157, 25091],
        "stored-chains": [8912, 30611],
        "table-files": [2441, 5347],
        "training run": [23962],
    },
    778: {"saved stream": [8755]},
}


@pytest.mark.parametrize(
    ("name", "seed", "number"),
    [(name, seed, number) for seed, names in PAST.items() for name, numbers in names.items() for number in numbers],
)
def test_what_has_failed_before(name: str, seed: int, number: int, tmp_path: Path) -> None:
    harness.tried(TARGETS[name], harness.dice_of(name, seed, number), tmp_path)
