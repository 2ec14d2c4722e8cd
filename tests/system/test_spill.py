"""Spill to disk: what goes in comes out, from memory or from disk."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np
import pytest

from chainfold.errors import BadFile
from chainfold.system.spill import Arrays, ArrayStore, SpillFile

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
    with ArrayStore(room) as store:
        kept = [store.put(some(k)) for k in range(5)]
        for k in (4, 0, 2, 2):
            same(some(k), store.get(kept[k]))
        for k in (1, 3):
            store.drop(kept[k])
        kept[1], kept[3] = store.put(some(11)), store.put(some(13, size=20))
        for one, seed in zip(kept, (0, 11, 2, None, 4), strict=True):
            same(some(13, size=20) if seed is None else some(seed), store.get(one))


def test_room_and_places_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[Any] = []
    original = tempfile.TemporaryFile

    def noted(**options: Any) -> Any:
        files.append(original(**options))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    with ArrayStore(250) as store:
        in_memory, on_disk = store.put(some(0)), store.put(some(1))
        for k in range(2, 20):
            next_one = store.put(some(k))
            same(some(0), store.get(in_memory))
            same(some(k - 1), store.get(on_disk))
            store.drop(on_disk)
            on_disk = next_one
        store.drop(on_disk)
        for k in range(1, 21):  # alone in the file, whatever its size
            larger = store.put(some(k, size=k))
            same(some(k, size=k), store.get(larger))
            store.drop(larger)
        assert len(files) == 1
        assert os.fstat(files[0].fileno()).st_size == 500
    assert files[0].closed


def test_a_disk_that_fails_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**options: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with ArrayStore(1) as store, pytest.raises(BadFile, match="cannot hold temporary files: No space left"):
        store.put(some(0))


def test_a_file_that_was_cut_off() -> None:
    with ArrayStore(1) as store:
        kept = store.put(some(0))
        store.get(kept)
        assert store._file is not None
        store._file.file.truncate(100)
        with pytest.raises(BadFile, match="could not be read back"):
            store.get(kept)


def test_numbers_are_read_forward_from_a_place_and_back() -> None:
    with SpillFile(np.int32) as spill:
        for part in np.split(np.arange(12), [3, 3, 8]):
            spill.append(part)
        assert spill.size == 12
        assert [spill.read_back(size).tolist() for size in (4, 0, 5, 3)] == [
            [8, 9, 10, 11],
            [],
            [3, 4, 5, 6, 7],
            [0, 1, 2],
        ]
        assert spill.read(2).dtype == np.int32
        spill.seek(7)
        np.testing.assert_array_equal(spill.read(3), [7, 8, 9])
        with pytest.raises(BadFile, match="could not be read back"):
            spill.read(3)
