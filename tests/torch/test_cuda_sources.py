"""The CUDA sources compile, where nvcc is installed: a card is not needed."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

import chainfold.cuda
from chainfold.cuda import compiler, launch

NVCC = shutil.which("nvcc")
SOURCES = sorted(path.stem for path in Path(chainfold.cuda.__file__).parent.glob("*.cu"))


@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed, so CUDA sources are not compiled")
@pytest.mark.parametrize("double", [False, True], ids=["float", "double"])
@pytest.mark.parametrize("name", SOURCES)
def test_sources_compile(name: str, double: bool, tmp_path: Path) -> None:
    labels = [1, 32] if name in launch.WARP_FILES else [9, 64, 65, 1024]  # one of each way through the sources
    edges = [[], ["-DEDGES"]] if name in launch.CHUNK_FILES else [[]]
    for count, edge in itertools.product(labels, edges):
        path = tmp_path / f"{name}.cu"
        path.write_text(compiler.source(name))
        flags = ["-arch=sm_80", "-std=c++17", f"-DN={count}", *edge, *(["-DREAL_IS_DOUBLE"] if double else [])]
        assert NVCC is not None
        done = subprocess.run([NVCC, "--ptx", *flags, str(path), "-o", str(tmp_path / "out")], capture_output=True)
        assert done.returncode == 0, done.stderr.decode()


def test_the_structure_has_the_members_of_the_header() -> None:
    text = compiler.source("sums")
    body = text[text.index("struct Batch {") : text.index("};", text.index("struct Batch {"))]
    declared = [
        name.strip(" *").split()[-1].strip("*")
        for line in body.splitlines()[1:]
        for name in line.split("//")[0].strip().rstrip(";").split(",")
        if name.strip()
    ]
    assert declared == [*launch.POINTERS, *launch.SIZES, "sign"]


def test_without_a_compiler_a_cuda_tensor_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: (_ for _ in ()).throw(OSError(name)))
    compiler._library.cache_clear()
    with pytest.raises(compiler.NoCompiler, match="install such a build"):
        compiler.compiled("sums", 90, ("-DN=3",))
