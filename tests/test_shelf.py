"""The shelf: what goes in comes out, from memory or from disk."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np
import pytest

from chainfold.errors import BadFile
from chainfold.shelf import Arrays, Shelf

pytestmark = pytest.mark.quick


def some(seed: int, size: int = 10) -> Arrays:
    random = np.random.default_rng(seed)
    return {"a": random.normal(size=(size, 3)), "b": random.integers(0, 200, size).astype(np.uint8)}


def same(a: Arrays, b: Arrays) -> None:
    assert a.keys() == b.keys()
    for name, array in a.items():
        np.testing.assert_array_equal(array, b[name])
        assert array.dtype == b[name].dtype
        assert b[name].flags.writeable


@pytest.mark.parametrize("room", [0, 600, 10**6])
def test_what_goes_in_comes_out(room: int) -> None:
    with Shelf(room) as shelf:
        kept = [shelf.put(some(k)) for k in range(5)]
        for k in (4, 0, 2, 2):
            same(some(k), shelf.get(kept[k]))
        for k in (1, 3):
            shelf.drop(kept[k])
        kept[1], kept[3] = shelf.put(some(11)), shelf.put(some(13, size=20))
        for one, seed in zip(kept, (0, 11, 2, None, 4), strict=True):
            same(some(13, size=20) if seed is None else some(seed), shelf.get(one))


def test_room_and_places_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[Any] = []
    original = tempfile.TemporaryFile

    def noted(**options: Any) -> Any:
        files.append(original(**options))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    with Shelf(250) as shelf:
        in_memory, on_disk = shelf.put(some(0)), shelf.put(some(1))
        for k in range(2, 20):
            next_one = shelf.put(some(k))
            same(some(0), shelf.get(in_memory))
            same(some(k - 1), shelf.get(on_disk))
            shelf.drop(on_disk)
            on_disk = next_one
        shelf.drop(on_disk)
        for k in range(1, 21):  # alone in the file, whatever its size
            larger = shelf.put(some(k, size=k))
            same(some(k, size=k), shelf.get(larger))
            shelf.drop(larger)
        assert len(files) == 1
        assert os.fstat(files[0].fileno()).st_size == 500
    assert files[0].closed


def test_a_disk_that_fails_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**options: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with Shelf(1) as shelf, pytest.raises(BadFile, match="cannot keep working files there: No space left"):
        shelf.put(some(0))


def test_a_file_that_was_cut_off() -> None:
    with Shelf(1) as shelf:
        kept = shelf.put(some(0))
        shelf.get(kept)
        assert shelf._file is not None
        shelf._file.truncate(100)
        with pytest.raises(BadFile, match="could not be read back"):
            shelf.get(kept)
