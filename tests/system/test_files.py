"""Files appear whole, under names that nobody can guess, whoever else writes beside them."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainfold.errors import BadFile
from chainfold.model.file import open_model, save_model
from chainfold.model.layout import Layout
from chainfold.model.model import Model
from chainfold.system import machine
from chainfold.system.files import hidden, remove_leftovers, written_whole

pytestmark = pytest.mark.quick


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_threads_that_save_one_path_do_not_damage_each_other(tmp_path: Path) -> None:
    target = tmp_path / "m.model"
    models = [Model(Layout.full(2, 500), np.full(Layout.full(2, 500).size, float(k))) for k in range(4)]
    save_model(target, models[0])
    stop = threading.Event()
    wrong: list[Exception] = []

    def save(model: Model) -> None:
        try:
            while not stop.is_set():
                save_model(target, model)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=save, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            weights = open_model(target).weights
            assert weights.min() == weights.max()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert left(tmp_path) == ["m.model"]


def test_what_is_planted_under_a_temporary_name_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in (f".x.{os.getpid()}.part", ".x.part"):
        (tmp_path / name).symlink_to(victim)
    with written_whole(tmp_path / "x") as file:
        file.write(b"content")
        [temporary] = [path for path in tmp_path.glob(".x.*.part") if not path.is_symlink()]
        assert len(temporary.name) == len(".x.") + 16 + len(".part")
    assert victim.read_text() == "mine"
    assert (tmp_path / "x").read_bytes() == b"content"


def test_a_name_that_is_taken_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".x.{'0' * 16}.part").symlink_to(victim)
    monkeypatch.setattr("secrets.token_hex", lambda size: "00" * size)
    with pytest.raises(BadFile, match="x: cannot be written: File exists"), written_whole(tmp_path / "x") as file:
        file.write(b"content")
    assert victim.read_text() == "mine"


def test_only_the_owner_reads_what_is_not_whole_and_the_mode_stays(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        for mode in (None, 0o600, 0o644, 0o666, 0o440):
            target = tmp_path / f"x{mode}"
            if mode is not None:
                target.write_bytes(b"old")
                target.chmod(mode)
            with written_whole(target) as file:
                file.write(b"new")
                [temporary] = tmp_path.glob(".x*.part")
                assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
            assert stat.S_IMODE(target.stat().st_mode) == (0o640 if mode is None else mode)
            assert target.read_bytes() == b"new"
    finally:
        os.umask(before)


def test_file_and_folder_are_synced_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        done.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", renamed)
    with written_whole(tmp_path / "x") as file:
        file.write(b"content")
    assert done == ["file", "rename", "folder"]


@pytest.mark.parametrize("name", ["open", "fsync", "replace", "write"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_whatever_fails_is_a_sentence_and_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"old")

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code))

    def write() -> None:
        with written_whole(target) as file:
            file.write(b"new")
            if name == "write":
                fail()

    with monkeypatch.context() as patch:
        if name != "write":
            patch.setattr(Path if name == "replace" else os, name, fail)
        with pytest.raises(BadFile, match=f"x: cannot be written: {os.strerror(code)}"):
            write()
    assert target.read_bytes() == b"old"
    assert left(tmp_path) == ["x"]


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    numbers = "0123456789abcdef", "fedcba9876543210"
    ours = [tmp_path / f".x.{number}.part" for number in numbers]
    others = [
        tmp_path / name for name in (f".y.{numbers[0]}.part", ".x.123.part", f".x.{numbers[0].upper()}.part", "x2")
    ]
    for path in (*ours, *others):
        path.write_bytes(b"half")
    with written_whole(tmp_path / "x") as file:
        assert not any(path.exists() for path in ours)
        file.write(b"content")
        remove_leftovers(tmp_path / "x")  # somebody else looks while it is written
    assert (tmp_path / "x").read_bytes() == b"content"
    assert all(path.exists() for path in others)


def test_where_there_are_no_locks_age_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chainfold.system.files.lock", lambda descriptor: None)
    old, new = tmp_path / f".x.{'0' * 16}.part", tmp_path / f".x.{'1' * 16}.part"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, time.time() - 25 * 3600))
    with written_whole(tmp_path / "x") as file:
        file.write(b"content")
    assert left(tmp_path) == [new.name, "x"]


def test_a_temporary_file_that_is_taken_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = machine.lock, []

    def lock(descriptor: int) -> bool | None:
        calls.append(descriptor)
        if len(calls) == 1:
            [path] = tmp_path.glob(".x.*.part")
            path.unlink()  # by somebody who was faster
        return real(descriptor)

    monkeypatch.setattr("chainfold.system.files.lock", lock)
    with written_whole(tmp_path / "x") as file:
        file.write(b"content")
    assert len(calls) == 2
    assert (tmp_path / "x").read_bytes() == b"content"


def test_long_names_have_their_own_temporary_names(tmp_path: Path) -> None:
    one, other = tmp_path / ("ü" * 126 + "a"), tmp_path / ("ü" * 126 + "b")
    assert hidden(one, "lock") != hidden(other, "lock")
    for path in (one, other):
        with written_whole(path) as file:
            file.write(b"content")
    assert left(tmp_path) == sorted([one.name, other.name])


@pytest.mark.parametrize("name", [".", "..", "", "/", "folder", "folder/", "missing/x", "x\0y", "a" * 300])
def test_what_cannot_be_written_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadFile, match="cannot be written"), written_whole(name):
        pass
    assert left(tmp_path) == ["folder"]
