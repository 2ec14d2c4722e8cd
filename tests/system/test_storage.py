"""Folders here and behind a URI: files are whole or not there, and what is fetched is what was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chainfold.errors import BadFile
from chainfold.readers.inputs import Inputs
from chainfold.system.storage import RemoteStorage, Storage, has_wildcards, is_uri, remote_files, storage_of
from object_store import object_store, system_at, uri_at

KINDS = ("local", "file", "s3")
Place = Callable[[str], str]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with object_store() as address:
        yield address


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> Place:
    """The name of a folder of this test, on this machine or behind a URI."""
    monkeypatch.setenv("CHAINFOLD_CACHE", str(tmp_path / "cache"))
    kind: str = request.param
    if kind == "s3":
        return lambda name: uri_at(address, f"{tmp_path.name}/{name}")
    (tmp_path / "folder").mkdir()
    return lambda name: f"{'file://' if kind == 'file' else ''}{tmp_path / 'folder' / name}"


def content(storage: Storage, file: str) -> bytes:
    with storage.fetched(file) as path:
        return path.read_bytes()


def test_what_is_a_uri() -> None:
    assert all(map(is_uri, ("s3://bucket/x", "gs://b", Path("s3://bucket/x"), "file:///x")))
    assert not any(map(is_uri, ("x", "/x", "a:b", "c:/x", Path("x"), None, 3, b"s3://x")))
    assert has_wildcards("s3://bucket/*.csv")
    assert not has_wildcards("s3://bucket/x?region=a")


def test_a_file_is_there_when_it_is_written(place: Place) -> None:
    storage = storage_of(place("new"))
    assert storage.names() == []
    assert not storage.has("a")
    with storage.written("a") as file:
        file.write(b"one")
        assert not storage.has("a")
    with storage.written("in/b") as file:
        file.write(b"two")
    assert storage.names() == ["a", "in/b"]
    assert content(storage, "a") == b"one"
    with storage.written("a") as file:
        file.write(b"three")
    assert content(storage, "a") == b"three"
    for name in ("a", "in/b", "missing"):
        storage.remove(name)
    assert storage.names() == []


def test_after_a_failure_nothing_is_there(place: Place) -> None:
    storage = storage_of(place("new"))
    with suppress(RuntimeError), storage.written("a") as file:
        file.write(b"x" * 100_000)
        raise RuntimeError
    with suppress(RuntimeError), storage.digested("b", lambda digest: digest) as digested:
        digested.write(b"x" * 100_000)
        raise RuntimeError
    assert storage.names() == []


def test_a_file_may_be_named_by_its_checksum(place: Place) -> None:
    storage = storage_of(place("new"))
    with storage.digested("in/work", lambda digest: f"x-{digest[:4]}") as file:
        file.write(b"some")
        file.write(b"thing")
    assert storage.names() == [f"x-{file.sha256[:4]}"]
    assert (file.size, file.tell()) == (9, 9)
    assert storage.path(storage.names()[0], file.sha256).read_bytes() == b"something"


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_what_has_a_checksum_is_fetched_once_and_checked(place: Place, tmp_path: Path) -> None:
    storage = storage_of(place("new"))
    with storage.digested("work", lambda digest: "x") as file:
        file.write(b"some")
    assert storage.path("x", file.sha256).parent == tmp_path / "cache"
    with storage.written("x") as other:
        other.write(b"other")
    assert storage.path("x", file.sha256).read_bytes() == b"some"
    assert content(storage, "x") == b"other"
    storage.path("x", file.sha256).unlink()
    with pytest.raises(BadFile, match="new/x: is damaged: its checksum is another"):
        storage.path("x", file.sha256)
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_what_is_missing_is_one_sentence_without_secrets(place: Place) -> None:
    storage = storage_of(place("nowhere"))
    with pytest.raises(BadFile, match=r"nowhere/x: there is no such file") as caught:
        content(storage, "x")
    assert "a:b" not in str(caught.value)
    assert "endpoint" not in str(caught.value)
    with pytest.raises(BadFile, match="there is no such file"):
        Inputs(place("x.csv"))
    with pytest.raises(BadFile, match="no file matches this pattern"):
        Inputs(place("*.csv"))


def test_a_uri_of_no_file_system_is_one_sentence() -> None:
    with pytest.raises(BadFile, match=r"nonsense://x/y: cannot be opened: "):
        storage_of("nonsense://x/y")


@pytest.mark.parametrize("place", ["file", "s3"], indirect=True)
def test_patterns_of_uris(place: Place) -> None:
    storage = storage_of(place("logs"))
    for name in ("b.csv", "a.csv", "c.txt", "in/d.csv"):
        with storage.written(name) as file:
            file.write(name.encode())
    found = remote_files(place("logs/*.csv"))
    assert [(file.name.rpartition("/")[2], file.size) for file in found] == [("a.csv", 5), ("b.csv", 5)]
    assert [remote_files(file.uri)[0].path for file in found] == [file.path for file in found]
    inputs = Inputs([place("logs/*.csv"), place("logs/in/d.csv")])
    assert inputs.total_bytes == 18
    for source, text in zip(inputs, (b"a.csv", b"b.csv", b"in/d.csv"), strict=True):
        assert source.open().read(100) == text
        assert source.part(1, 3).read(100) == text[1:3]
        assert source.source.address is not None


@pytest.mark.slow
def test_an_unreachable_server_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = RemoteStorage(uri_at("127.0.0.1:9", "x"), tmp_path)
    with pytest.raises(BadFile, match="bucket/x/y: cannot be read: "):
        content(storage, "y")


def test_an_upload_that_is_given_up_leaves_nothing(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = RemoteStorage(uri_at(address, "given-up"), tmp_path)

    def given_up(source: Any, target: Any, size: int) -> None:
        target.write(b"a piece")
        raise OSError("the line is cut")

    monkeypatch.setattr("shutil.copyfileobj", given_up)
    with pytest.raises(BadFile, match="given-up/x: cannot be written: the line is cut"), storage.written("x") as file:
        file.write(b"x" * 100)
    assert system_at(address).get_file_info("bucket/given-up/x").size is None
