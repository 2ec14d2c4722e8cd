"""The estimator on a cluster: the same model as `CRF`, whatever the data comes as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import clone

from chainfold import CRF, encode
from chainfold.dask import DaskCRF
from chainfold.errors import ChainfoldError

pytest.importorskip("distributed")
SEQUENCES = [
    {"tokens": [f"w{(k * j) % 11}" for k in range(1, 6)], "tags": [f"{'AB'[(k * j) % 2]}" for k in range(1, 6)]}
    for j in range(60)
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text("".join(json.dumps(sequence) + "\n" for sequence in SEQUENCES))
    return path


@pytest.fixture(scope="module")
def expected(path: Path) -> CRF:
    return CRF(max_iterations=5, c2=0.3).fit(path)


def bits(crf: CRF) -> bytes:
    return crf.model_.weights.tobytes()


def test_files_a_bag_and_a_chain(client: Any, path: Path, expected: CRF, tmp_path: Path) -> None:
    import dask.bag

    crf = DaskCRF(client, max_iterations=5, c2=0.3, folder=tmp_path / "work").fit(path)
    assert bits(crf) == bits(expected)
    local = crf.to_local()
    assert type(local) is CRF
    assert local.predict([["w1", "w2"]]).tolist() == expected.predict([["w1", "w2"]]).tolist()
    bag = dask.bag.from_sequence(SEQUENCES, npartitions=3)
    assert bits(clone(crf).set_params(folder=None).fit(bag)) == bits(expected)
    chain = encode(path, tmp_path / "rows.chain")
    assert bits(DaskCRF(client, max_iterations=5, c2=0.3).fit(chain)) == bits(expected)
    assert bits(DaskCRF(client, max_iterations=5, c2=0.3).fit(tmp_path / "rows.chain")) == bits(expected)


def test_a_dataframe(client: Any, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    rows = [(f"w{k % 7}", f"{'AB'[k % 2]}", k // 10) for k in range(300)]
    frame = pandas.DataFrame(rows, columns=["word", "label", "sentence"])
    encoding = {"label": "label", "group": "sentence"}
    expected = CRF(max_iterations=3, encoding=encoding).fit(frame)
    crf = DaskCRF(client, max_iterations=3, encoding=encoding, folder=tmp_path)
    assert bits(crf.fit(frames.from_pandas(frame, npartitions=3))) == bits(expected)


def test_parameters_are_those_of_the_estimator(client: Any, path: Path) -> None:
    assert set(DaskCRF().get_params()) == {"client", "folder", *CRF().get_params()}
    with pytest.raises(ChainfoldError, match="`y` must be left out"):
        DaskCRF(client).fit(path, [["A"]])  # type: ignore[arg-type]
    with pytest.raises(ChainfoldError, match="give paths, globs or URIs"):
        DaskCRF(client).fit(None)
    with pytest.raises(ChainfoldError, match="files as pathlib"):
        DaskCRF(client).fit([str(path)])
    with pytest.raises(ChainfoldError, match="algorithm 'ap' goes through the chain in order"):
        DaskCRF(client, algorithm="ap").fit(path)
