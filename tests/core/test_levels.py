"""Levels of processors: the right one is taken, and all that have fused multiply-add give the same bits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import chainfold
from chainfold import core

DIGEST = Path(__file__).with_name("digest.cpp")
FLAGS = ["-std=c++17", "-O2", "-ffp-contract=off", "-w"]
RESULTS = """
import hashlib
import numpy as np
from chainfold import Chain, Layout, Model, core, log_likelihood
random = np.random.default_rng(0)
sizes = {"offsets": np.arange(0, 903, 3), "ids": random.integers(0, 20, 900), "labels": random.integers(0, 5, 300)}
result = log_likelihood(Model.random(Layout.full(5, 20), seed=2), Chain.from_arrays(**sizes))
print(core.LEVEL, hashlib.sha256(result.gradient.tobytes() + np.float64(result.log_z).tobytes()).hexdigest())
"""


def found(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def result(before: list[str], **environment: str) -> list[str]:
    """The level of a process and the digest of its gradient."""
    paths = os.pathsep.join([str(Path(chainfold.__file__).parents[1]), *filter(None, sys.path)])
    done = subprocess.run(
        [*before, str(Path(sys.executable).resolve()), "-c", RESULTS],
        env=os.environ | {"PYTHONPATH": paths} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_an_unknown_level_is_one_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import chainfold.core"],
        env=os.environ | {"CHAINFOLD_CORE": "pentium"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "CHAINFOLD_CORE is 'pentium'" in done.stderr.splitlines()[-1]
    assert "a level that this machine can run" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("level", [level for level in core.levels() if level != "portable"])
def test_levels_have_the_same_bits(level: str) -> None:
    assert result([], CHAINFOLD_CORE=level) == [level, result([], CHAINFOLD_CORE=core.levels()[0])[1]]


@pytest.mark.slow
@pytest.mark.parametrize(("processor", "level"), [("Haswell", "x86-64-v3"), ("Nehalem", "portable")])
def test_an_older_processor_takes_its_level(processor: str, level: str) -> None:
    emulated = [found("qemu-x86_64"), "-cpu", processor]
    assert result(emulated, CHAINFOLD_CORE="", OPENBLAS_CORETYPE=processor) == result([], CHAINFOLD_CORE=level)


@pytest.mark.slow
def test_arm_has_the_same_bits(tmp_path: Path) -> None:
    emulator = found("qemu-aarch64")
    digests = set()
    for compiler, flags, run in (
        (found("g++"), ["-march=x86-64-v3"], []),
        (found("aarch64-linux-gnu-g++"), ["-static"], [emulator]),
    ):
        program = tmp_path / Path(compiler).name
        subprocess.run([compiler, *FLAGS, *flags, "-o", str(program), str(DIGEST)], check=True)
        done = subprocess.run([*run, str(program)], capture_output=True, text=True, check=True)
        digests.add(done.stdout)
    assert len(digests) == 1
