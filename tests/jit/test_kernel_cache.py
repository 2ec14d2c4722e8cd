"""Compiled kernels on disk: damaged, full, gone or another's, they are compiled, and one warning says so."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import chainfold
from chainfold.errors import ChainfoldError, ChainfoldWarning
from chainfold.jit import decorator as jit
from chainfold.jit import kernel_cache as cache
from chainfold.jit.string_kernels import hash_pairs

HEAD = 72


def twice(number: Any) -> Any:
    """Twice the number."""
    return 2 * number


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where kernels are kept; nothing was warned of yet."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CHAINFOLD_CACHE", raising=False)
    monkeypatch.setattr(cache, "_warned", False)
    return tmp_path


def started() -> Any:
    """The kernel as another process has it."""
    return jit.kernel(fastmath=jit.STRICT)(twice)


def files(folder: Path, kind: str) -> list[Path]:
    return sorted(folder.rglob(f"*.{kind}"))


def hits(kernel: Any) -> int:
    return sum(kernel.stats.cache_hits.values())


def warned(number: float = 3) -> tuple[Any, list[str]]:
    """A new process calls the kernel; what it was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = started()
        assert kernel(number) == 2 * number
    assert all(issubclass(one.category, ChainfoldWarning) for one in caught)
    return kernel, [str(one.message) for one in caught]


def test_a_kernel_is_compiled_once(folder: Path) -> None:
    assert hits(warned()[0]) == 0
    assert (len(files(folder, "nbi")), len(files(folder, "nbc"))) == (1, 1)
    kernel, said = warned()
    assert (hits(kernel), said) == (1, [])
    assert hits(warned(1.5)[0]) == 0
    assert hits(warned(1.5)[0]) == hits(warned()[0]) == 1


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut in the head": lambda content: content[: HEAD - 1],
    "cut at the end": lambda content: content[:-1],
    "one bit": lambda content: content[:-9] + bytes([content[-9] ^ 4]) + content[-8:],
    "numba's own": lambda _: pickle.dumps(numba.__version__) + pickle.dumps(("stamp", {})),
}


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_kernel_is_compiled_again(kind: str, damage: str, folder: Path) -> None:
    started()(3)
    (path,) = files(folder, kind)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    kernel, (said,) = warned()
    assert hits(kernel) == 0
    assert said.startswith(f"{path.parent}: a compiled kernel kept there cannot be used, and is compiled again: ")
    assert f": {path.name} is cut short" in said
    assert said.endswith("delete the folder or set CHAINFOLD_CACHE to a folder that can be written.")
    kernel, silent = warned()
    assert (hits(kernel), silent) == (1, [])


def test_a_sound_file_with_something_else_in_it(folder: Path) -> None:
    started()(3)
    kernel = started()
    kept = kernel._cache._cache_file
    kept._write(str(files(folder, "nbi")[0]), ["no", "index"])
    assert len(warned()[1]) == 1


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_directory_in_its_place(kind: str, folder: Path) -> None:
    started()(3)
    (path,) = files(folder, kind)
    path.unlink()
    path.mkdir()
    assert "Is a directory" in warned()[1][0]


def test_a_folder_that_takes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    (said,) = warned()[1]
    assert "compiled kernels cannot be kept there, and each process compiles its own" in said
    assert os.strerror(errno.ENOSPC) in said
    assert "CHAINFOLD_CACHE" in said
    assert not [path for path in folder.rglob("*") if path.is_file()], "nothing half-written is left"


def test_a_folder_that_vanishes(folder: Path) -> None:
    kernel = started()
    kernel(3)
    shutil.rmtree(folder)
    assert kernel(1.5) == 3.0
    assert hits(warned(1.5)[0]) == 1
    (data,) = files(folder, "nbc")
    data.unlink()
    kernel, said = warned(1.5)
    assert (hits(kernel), said) == (0, [])


def test_no_folder_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numba.core.caching.CacheImpl._locator_classes", [])
    kernel, (said,) = warned()
    assert said.startswith("there is no folder to keep compiled kernels in")
    assert said.endswith("set CHAINFOLD_CACHE to a folder that can be written.")
    assert kernel(2.5) == 5.0
    assert kernel.stats.cache_path is None


def test_one_warning_a_process(folder: Path) -> None:
    started()(3)
    for path in [*files(folder, "nbi"), *files(folder, "nbc")]:
        path.write_bytes(b"")
    assert len(warned()[1]) == 1
    files(folder, "nbi")[0].write_bytes(b"")
    assert warned()[1] == []


def test_what_other_sources_gave_is_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started()(3)
    monkeypatch.setattr(jit, "_STAMP", "0" * 64)
    kernel, said = warned()
    assert (hits(kernel), said) == (0, [])
    assert len(files(folder, "nbc")) == 1, "old files are replaced"


def test_a_kernel_never_gets_the_file_of_another_signature(folder: Path) -> None:
    """Two processes that begin with an empty folder take the same name; the index of one, the file of the other."""
    started()(3)
    (index,), (data,) = files(folder, "nbi"), files(folder, "nbc")
    whole = data.read_bytes()
    index.unlink()
    data.unlink()
    started()(1.5)
    data.write_bytes(whole)
    kernel, said = warned(1.5)
    assert (hits(kernel), said) == (0, [])
    assert hits(warned(1.5)[0]) == 1


def test_an_index_that_is_older_than_its_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was killed before it had written its file has left the one of other sources under that name."""
    started()(3)
    (data,) = files(folder, "nbc")
    old = data.read_bytes()
    monkeypatch.setattr(jit, "_STAMP", "0" * 64)
    started()(3)
    data.write_bytes(old)
    kernel, said = warned()
    assert (hits(kernel), said) == (0, [])


def test_memory_that_runs_out_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> None:
        raise MemoryError

    started()(3)
    monkeypatch.setattr(pickle, "loads", none_left)
    with pytest.raises(MemoryError):
        started()(3)


def test_a_kept_kernel_is_stamped_with_the_whole_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel inlines functions of other files; its machine code must not outlive a change in any of them."""
    stamps = {hash_pairs._cache._cache_file._source_stamp, started()._cache._cache_file._source_stamp}
    assert len(stamps) == 1
    monkeypatch.setattr(jit, "_STAMP", "0" * 64)
    assert started()._cache._cache_file._source_stamp not in stamps


def test_the_folder_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = tmp_path / "a" / "b"
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.setenv("CHAINFOLD_CACHE", str(chosen))
    assert (hits(warned()[0]), hits(warned()[0])) == (0, 1)
    (version,) = chosen.iterdir()
    assert {path.parent for path in files(tmp_path, "nb?")} == {version}
    monkeypatch.setattr(jit, "_STAMP", "1" * 64)
    assert hits(warned()[0]) == 0
    assert len(list(chosen.iterdir())) == 2, "each version has its own"
    monkeypatch.setenv("CHAINFOLD_CACHE", "")
    assert hits(warned()[0]) == 0
    assert files(tmp_path / "numba", "nbc")


@pytest.mark.parametrize(
    ("chosen", "why"), [("file", "not a folder"), ("/proc/chainfold", "No such file or directory")]
)
def test_a_folder_that_cannot_be_used(chosen: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CHAINFOLD_CACHE", str(tmp_path / chosen))
    kernel, (said,) = warned()
    assert (hits(kernel), kernel(2.5)) == (0, 5.0)
    assert "compiled kernels cannot be kept there, and each process compiles its own: " in said
    assert f"{why}; set" in said
    with pytest.raises(ChainfoldError, match=why):
        jit.kernel_store()


def test_kernels_are_counted(folder: Path) -> None:
    pairs = jit.kernel(fastmath=jit.STRICT)(hash_pairs.py_func)
    store = jit.kernel_store()
    before = store.kernels()
    pairs(np.zeros(1, np.int64), np.zeros(1, np.uint64))
    (kept,) = set(store.kernels()) - set(before)
    assert kept.name.startswith("string_kernels.hash_pairs")
    assert store.folder == kept.parent
    assert store.folder.parent == folder
    older = bytearray(kept.read_bytes())
    older[cache._STAMP] = bytes(32)
    (kept.parent / "older.nbc").write_bytes(older)
    (kept.parent / "short.nbc").write_bytes(b"")
    assert set(store.kernels()) == {*before, kept}


STEPS = """
import sys
from numba.core import event
from chainfold.cli.warm_steps import columns, run_step
from numba.core.runtime import nrtdynmod
made, make = [], nrtdynmod.create_nrt_module
nrtdynmod.create_nrt_module = lambda context: made.append(context) or make(context)
with event.install_recorder("numba:compile") as recorder:
    run_step(columns)
print(len(recorder.buffer), len(made), sys.modules["chainfold"].__file__)
"""


def steps_run(folder: Path, package: Path) -> tuple[int, int, str]:
    """Events of compiling, numba runtimes compiled, and warnings, in a process with the package that is there."""
    environment = {**os.environ, "CHAINFOLD_CACHE": str(folder), "PYTHONPATH": str(package)}
    command = [sys.executable, "-c", STEPS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    events, runtimes, where = done.stdout.split()
    assert Path(where).is_relative_to(package)
    return int(events), int(runtimes), done.stderr


def test_a_damaged_runtime_is_compiled_again_and_a_copy_of_the_package_uses_a_read_only_folder(tmp_path: Path) -> None:
    """As in a container image: other times of the files, another place, a folder that nobody writes to."""
    package, kept = Path(chainfold.__file__).parent, tmp_path / "kept"
    events, runtimes, said = steps_run(kept, package.parent)
    assert events > 0
    assert (runtimes, said) == (1, "")
    shutil.copytree(
        package,
        tmp_path / "site" / "chainfold",
        ignore=shutil.ignore_patterns("__pycache__"),
        copy_function=shutil.copy,
    )
    (runtime,) = [path for path in files(kept, "nbc") if "_runtime" in path.name]
    runtime.write_bytes(runtime.read_bytes()[:-1])
    events, runtimes, said = steps_run(kept, package.parent)
    assert (events, runtimes) == (0, 1)
    assert f"{runtime.name} is cut short or damaged" in said
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*")}
    for path in before:
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert steps_run(kept, tmp_path / "site") == (0, 0, "")
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*")} == before
