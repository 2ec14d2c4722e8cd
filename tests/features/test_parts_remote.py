"""Chains in parts whose inputs and parts are objects of an object store."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from chain.test_stored import contents
from chainfold import encode, encode_in_parts, open_chain
from chainfold.chain.any_chain import is_chain
from chainfold.chain.parts import ChainInParts
from chainfold.errors import BadFile
from features.test_parts import WORDS, check_same, conll, log
from object_store import object_store, system_at, uri_at
from verbs import failed, succeeded


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with object_store() as address:
        yield address


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHAINFOLD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def inputs(address: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files here, and the same in the bucket."""
    folder, dice = tmp_path_factory.mktemp("inputs"), random.Random(1)
    (folder / "a.txt").write_text(conll(dice, 300))
    (folder / "b.txt").write_text(conll(dice, 200))
    (folder / "log.csv").write_text(log(dice, 300, quoted=True))
    pq.write_table(pyarrow.csv.read_csv(folder / "log.csv", parse_options=NEWLINES), folder / "log.parquet", 40)
    for path in folder.iterdir():
        with system_at(address).open_output_stream(f"bucket/inputs/{path.name}") as file:
            file.write(path.read_bytes())
    return folder


NEWLINES = pyarrow.csv.ParseOptions(newlines_in_values=True)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sentences": ("*.txt", WORDS),
    "quoted line ends": ("log.csv", {"group": "host", "attributes": "text[-1] quantile(size) text[1]"}),
    "row groups": ("log.parquet", {"group": "host", "attributes": "text[-1] standard(size) text[1]"}),
}


def names_in(address: str, folder: str) -> list[str]:
    from pyarrow import fs

    found = system_at(address).get_file_info(fs.FileSelector(f"bucket/{folder}", recursive=True))
    return sorted(one.base_name for one in found if one.type == fs.FileType.File)


@pytest.mark.parametrize("name", CASES)
def test_objects_to_objects(name: str, inputs: Path, address: str, cache: Path, tmp_path: Path) -> None:
    files, options = CASES[name]
    single = encode(str(inputs / files), tmp_path / "single", **options)
    folder = f"chains/{name.replace(' ', '-')}"
    chain = encode_in_parts(uri_at(address, f"inputs/{files}"), uri_at(address, folder), part_size=1000, **options)
    assert len(chain.parts) > 2
    check_same(chain, single)
    here = encode_in_parts(str(inputs / files), tmp_path / "here", part_size=1000, **options)
    assert here.digest == chain.digest
    assert names_in(address, folder) == sorted(path.name for path in (tmp_path / "here").iterdir())


def test_parts_are_fetched_once_when_they_are_needed(inputs: Path, address: str, cache: Path) -> None:
    there = uri_at(address, "chains/fetched")
    encode_in_parts(str(inputs / "a.txt"), there, part_size=1000, **WORDS)
    for path in cache.iterdir():
        path.unlink()
    assert is_chain(there)
    chain = open_chain(there)
    assert isinstance(chain, ChainInParts)
    kept = {part.sha256 for part in chain.parts}
    assert not kept & {path.name for path in cache.iterdir()}
    chain.block(0, 5)
    assert kept & {path.name for path in cache.iterdir()} == {chain.parts[0].sha256}
    expected = contents(chain.block(0, chain.positions))
    assert kept <= {path.name for path in cache.iterdir()}
    system_at(address).delete_file(f"bucket/chains/fetched/{chain.parts[0].name}")
    assert contents(pickle.loads(pickle.dumps(chain)).block(0, chain.positions)) == expected
    (cache / chain.parts[0].sha256).unlink()
    chain.release()
    with pytest.raises(BadFile, match=r"s3://bucket/chains/fetched/part-000000-\w*\.arrow: there is no such file"):
        chain.block(0, 5)


def test_an_object_that_is_damaged_is_refused(inputs: Path, address: str, cache: Path) -> None:
    there = uri_at(address, "chains/damaged")
    chain = encode_in_parts(str(inputs / "a.txt"), there, part_size=1000, **WORDS)
    with system_at(address).open_output_stream(f"bucket/chains/damaged/{chain.parts[1].name}") as file:
        file.write(b"x" * chain.parts[1].size)
    with pytest.raises(BadFile, match=r"part-000001-\w*\.arrow: is damaged: its checksum is another"):
        chain.block(0, chain.positions)
    with system_at(address).open_output_stream("bucket/chains/damaged/index.json") as file:
        file.write(b"{")
    with pytest.raises(BadFile, match=r"s3://bucket/chains/damaged/index\.json: this is not the index"):
        open_chain(there)
    with pytest.raises(BadFile, match=r"s3://bucket/chains/nowhere/index\.json: there is no such file"):
        open_chain(uri_at(address, "chains/nowhere"))


def test_the_command_line_takes_uris(inputs: Path, address: str, cache: Path, tmp_path: Path) -> None:
    there = uri_at(address, "chains/command")
    told = ("--columns", "word,pos,tag", "--attributes", "word[-1] word", "--json")
    facts = json.loads(succeeded("encode", uri_at(address, "inputs/*.txt"), "-o", there, *told, "--part-size", "1kB"))
    single = json.loads(succeeded("encode", inputs / "a.txt", inputs / "b.txt", "-o", tmp_path / "single", *told))
    assert facts["positions"] == single["positions"]
    about = json.loads(succeeded("data", there, "--json"))
    assert (len(about["parts"]), about["positions"]) == (facts["parts"], facts["positions"])
    gradients = [json.loads(succeeded("gradient", chain, "--json")) for chain in (there, tmp_path / "single")]
    assert gradients[0]["gradient_sha256"] == gradients[1]["gradient_sha256"]
    for chain in (there, tmp_path / "single"):
        succeeded("train", chain, "-o", tmp_path / "model", "--max-iterations", 2, "--json")
        (tmp_path / "model").rename(tmp_path / f"model{chain == there}")
    assert (tmp_path / "modelTrue").read_bytes() == (tmp_path / "modelFalse").read_bytes()
    sentence = failed("encode", inputs / "a.txt", "-o", there)
    assert sentence.startswith("s3://bucket/chains/command")
    assert sentence.endswith("use `encode_in_parts` (--part-size).")
    assert "a:b" not in sentence
