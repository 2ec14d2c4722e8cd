"""Starting up: the command line imports what it needs, when it needs it, and no more."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import chainfold
from verbs import conll

KERNELS = sorted((Path(chainfold.__file__).parent / "jit").glob("*_kernels.py"))
REPORT = """
import atexit, sys
atexit.register(lambda: print("loaded:", *sys.modules, file=sys.stderr))
from chainfold.cli import main
main()
"""


def loaded_by(*arguments: object) -> set[str]:
    """The modules that a command has imported when it ends."""
    command = [sys.executable, "-c", REPORT, *(str(argument) for argument in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].removeprefix("loaded: ").split())


def test_help_imports_nothing_heavy() -> None:
    loaded = loaded_by("--help")
    assert "chainfold.cli.train" in loaded
    assert not loaded & {"numba", "numpy", "pandas", "pyarrow", "scipy", "sklearn"}


def test_training_imports_only_what_it_needs(tmp_path: Path) -> None:
    rows = conll(tmp_path / "rows.txt")
    for _ in range(2):
        (tmp_path / "model.chain").unlink(missing_ok=True)
        loaded = loaded_by("train", rows, "-o", tmp_path / "model", "--max-iterations", 2)
        assert (tmp_path / "model").exists()
        assert {"numba", "pyarrow"} <= loaded
        assert not loaded & {"matplotlib", "pandas", "scipy", "sklearn"}
    assert "numba.np.arraymath" not in loaded, "kernels that are stored need nothing that compiling takes"


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernels_do_without_linear_algebra(path: Path) -> None:
    """The command line keeps SciPy's from numba, and its sums might depend on the number of threads."""
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.MatMult)
        assert not isinstance(node, ast.Attribute) or node.attr not in {"dot", "linalg", "matmul", "vdot"}
