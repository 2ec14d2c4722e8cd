"""Chains that are encoded only when they have to be."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import chainfold as cf
from chainfold.chain.arrow_messages import MessageFile
from chainfold.features import cache as module
from chainfold.features.cache import encoded, fingerprint
from chainfold.features.spec import InputSpec
from chainfold.readers.inputs import Inputs
from chainfold.readers.progress import InputProgress

CSV = "word,label\na,X\nb,Y\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log.csv").write_text(CSV)
    return tmp_path / "log.csv"


class Runs:
    """Counts how often something is encoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(module, "encode", self._encode)

    def _encode(self, *arguments: Any, **options: Any) -> cf.StoredChain:
        self.count += 1
        return cf.encode(*arguments, **options)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


def test_the_same_inputs_and_options_are_encoded_once(tmp_path: Path, log: Path, runs: Runs) -> None:
    output = tmp_path / "out.chain"
    first = encoded(log, output, attributes="word[-1] word")
    again = encoded([str(log)], output, attributes="word[-1]  word", progress=InputProgress(), encoding="utf-8")
    assert runs.count == 1
    assert first.header == again.header
    assert again.header.origin == fingerprint(log, InputSpec(attributes="word[-1] word"))
    assert encoded(log, output, attributes="word").n_attributes == 4
    assert runs.count == 2


def test_files_that_have_changed_are_encoded_again(tmp_path: Path, log: Path, runs: Runs) -> None:
    output = tmp_path / "out.chain"
    encoded(log, output)
    log.write_text(CSV.replace("a,X", "c,X"))
    assert encoded(log, output).vocabulary is not None
    assert runs.count == 2
    os.utime(log, ns=(0, 0))
    encoded(log, output)
    (tmp_path / "more.csv").write_text(CSV)
    assert encoded(str(tmp_path / "*.csv"), output).positions == 4
    assert runs.count == 4


def test_a_template_is_known_by_what_it_says(tmp_path: Path, log: Path) -> None:
    template = tmp_path / "template"
    template.write_text("U00:%x[0,0]\n")
    first = fingerprint(log, InputSpec(template=template))
    assert first is not None
    os.utime(template, ns=(0, 0))
    assert fingerprint(log, InputSpec(template=str(template))) == first
    template.write_text("U00:%x[-1,0]\n")
    assert fingerprint(log, InputSpec(template=template)) != first


@pytest.mark.parametrize(
    "options",
    [
        {"label": "word"},
        {"columns": ["w", "label"]},
        {"symbols": ["word"]},
        {"format": "conll"},
        {"header": True},
        {"encoding": "latin-1"},
        {"weight": "word"},
        {"group": "word"},
        {"one_sequence": True},
        {"unknown": "X"},
        {"min_count": 2},
        {"hash_bits": 4},
        {"numbers": "log"},
        {"labels": False},
    ],
)
def test_every_option_matters(log: Path, options: dict[str, Any]) -> None:
    assert fingerprint(log, InputSpec(**options)) not in (None, fingerprint(log, InputSpec()))


def test_another_version_encodes_anew(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(log, InputSpec())
    monkeypatch.setattr(module, "__version__", "another")
    assert fingerprint(log, InputSpec()) != before


def test_what_is_no_plain_file_has_no_fingerprint(tmp_path: Path, log: Path, runs: Runs) -> None:
    os.mkfifo(tmp_path / "fifo")
    table = pa.table({"word": ["a"], "label": ["X"]})
    for inputs in (table, io.BytesIO(CSV.encode()), [log, tmp_path / "fifo"]):
        assert fingerprint(inputs, InputSpec()) is None
    assert fingerprint(Inputs(log), InputSpec()) == fingerprint(log, InputSpec())
    for _ in range(2):
        assert encoded(table, tmp_path / "out.chain").header.origin is None
    assert runs.count == 2


@pytest.mark.parametrize("damage", ["cut", "label", "other"])
def test_whatever_else_is_there_is_replaced(tmp_path: Path, log: Path, runs: Runs, damage: str) -> None:
    output = tmp_path / "out.chain"
    encoded(log, output)
    whole = output.read_bytes()
    with output.open("rb") as file:
        place = MessageFile(file).batches[0]
    at = place["offset"] + place["metadata"]  # the labels come first
    damaged = {
        "cut": whole[:-100],
        "label": whole[:at] + b"\x01" + whole[at + 1 :],
        "other": b"something else",
    }[damage]
    output.write_bytes(damaged)
    assert encoded(log, output).block(0, 2).labels.tolist() == [0, 1]
    assert runs.count == 2
    assert output.read_bytes() == whole
