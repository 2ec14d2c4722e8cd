"""Tests of the whole on a core that reports what it reads and writes beyond arrays, and undefined behaviour."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from core_copy import LEVEL, PACKAGE, ROOT, TOOLS

pytestmark = pytest.mark.slow

BUILD = ROOT / "build" / "sanitize"
FLAGS = "-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -DCORE_FEW_WIDTHS"


def library(name: str) -> str:
    """The path of a library of g++; its name alone where there is none."""
    return subprocess.run(
        ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a copy of the package with such a core."""
    if not shutil.which("g++") or not Path(library("libasan.so")).is_absolute():
        pytest.skip("needs g++ with its sanitizers")
    define = {
        "CMAKE_BUILD_TYPE": "Debug",
        "CMAKE_CXX_COMPILER": "g++",
        "CMAKE_CXX_FLAGS": FLAGS,
        "Python_EXECUTABLE": sys.executable,
    }
    configure = [
        "cmake",
        "-S",
        str(ROOT),
        "-B",
        str(BUILD),
        "-G",
        "Ninja",
        *(f"-D{name}={define[name]}" for name in define),
    ]
    environment = TOOLS | {"CHAINFOLD_LEVELS": LEVEL.removeprefix("x86-64-")}
    for command in (configure, ["cmake", "--build", str(BUILD)]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path_factory.mktemp("sanitized")
    shutil.copytree(PACKAGE, folder / "chainfold", ignore=shutil.ignore_patterns("*.pyc", "*.so"))
    for module in BUILD.glob("*.so"):
        shutil.copy(module, folder / "chainfold" / "core")
    return folder


@pytest.mark.parametrize(
    "tests",
    [
        "core",
        "engines/test_engines_oracle.py engines/test_short_sequences.py engines/test_weights.py",
        "inference",
        "training",
        "test_vocabularies.py",
        "test_forged.py test_fuzz.py",
    ],
)
def test_nothing_is_reported(tests: str, package: Path, tmp_path: Path) -> None:
    common = f"log_path={tmp_path}/report"
    environment = {
        "LD_PRELOAD": f"{library('libasan.so')} {library('libstdc++.so.6')}",  # the second for exceptions of others
        "ASAN_OPTIONS": f"{common}:detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": f"{common}:print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(package),
        "CHAINFOLD_CORE": LEVEL,
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += [f"tests/{name}" for name in tests.split()]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False)
    reports = [path.read_text() for path in sorted(tmp_path.glob("report*"))]
    assert not [report for report in reports if "rror: " in report]  # others are of memory that there is not
    assert done.returncode == 0, done.stdout
