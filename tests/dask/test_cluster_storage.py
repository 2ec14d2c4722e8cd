"""A cluster that reads and writes through the S3 protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chainfold.dask as cluster
from chainfold import Training, train
from chainfold.features.parts import encode_in_parts
from object_store import object_store, system_at, uri_at

OPTIONS: dict[str, Any] = {"columns": ["word", "label"], "part_size": 700}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with object_store() as found:
        yield found


def test_files_and_chain_in_a_bucket(client: Any, address: str, tmp_path: Path) -> None:
    rows = "".join(f"w{k % 13} {'AB'[k % 3 == 0]}\n" + "\n" * (k % 7 == 6) for k in range(300))
    (tmp_path / "rows.txt").write_text(rows)
    with system_at(address).open_output_stream("bucket/rows.txt") as out:
        out.write(rows.encode())
    expected = encode_in_parts(tmp_path / "rows.txt", tmp_path / "chain", **OPTIONS)
    found = cluster.encode(client, uri_at(address, "rows.txt"), uri_at(address, "log.chain"), **OPTIONS)
    assert [part.sha256 for part in found.parts] == [part.sha256 for part in expected.parts]
    training = Training(options={"max_iterations": 3})
    trained = cluster.train(client, uri_at(address, "log.chain"), training)
    assert trained.weights.tobytes() == train(expected, training).weights.tobytes()
