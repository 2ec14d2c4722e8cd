"""The data of the experiments: relabelled, repeated and concatenated as a plain loop would, and made once."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainfold.chain.batches import StoredChain
from chainfold.chain.chain import Chain, gather
from chainfold.engines.log_likelihood import log_likelihood
from chainfold.errors import ChainfoldError
from chainfold.inference.whole_chain import tag
from chainfold.model.file import open_model
from examples import network_log
from experiments.paper import corpus as module
from experiments.paper.corpus import KDD_COLUMNS, Corpus
from experiments.paper.run_plan import QUICK, SETTINGS, RunPlan

LABELS = ["normal", "smurf", "back", "neptune", "nmap", "satan", "warezclient", "perl", "ipsweep", "portsweep", "pod"]
CLASSES = {"normal": "normal", "warezclient": "r2l", "perl": "u2r"}
CLASSES |= {"smurf": "dos", "back": "dos", "neptune": "dos", "pod": "dos"}
CLASSES |= {"nmap": "probe", "satan": "probe", "ipsweep": "probe", "portsweep": "probe"}
TEN_TIMES = {"smurf", "neptune", "normal", "satan", "ipsweep", "portsweep", "nmap"}
ROWS = 240
LONG = 5000
COLUMNS = KDD_COLUMNS.split()

Row = tuple[int, tuple[tuple[int, float], ...]]  # a position: label, attributes and their values


def plan(rows: int = 2000, few: tuple[int, ...] = (100, ROWS, 700), limited: tuple[int, ...] = (LONG,)) -> RunPlan:
    lengths = {"2-few": few, "5-few": (50,), "5-many": (100, 2000)}
    return replace(QUICK, rows=rows, lengths=lengths, limited={10**9: limited})


def connections() -> list[list[str]]:
    """Rows like those of KDD."""
    random = np.random.default_rng(5)
    kinds = np.repeat(random.integers(len(LABELS), size=ROWS), random.integers(1, 6, ROWS))[:ROWS]
    kinds[:3] = [6, 0, 1]
    rows = []
    for kind in kinds:
        row = dict.fromkeys(COLUMNS, "0")
        row["protocol_type"] = str(random.choice(["tcp", "udp", "icmp"]))
        row["service"] = str(random.choice(["http", "private", "ecr_i"]))
        row["flag"] = str(random.choice(["SF", "S0"]))
        row["count"] = str(int(random.integers(40)) + 40 * int(kind))
        row["logged_in"] = str(int(kind == 0))
        row["dst_host_srv_count"] = str(int(random.integers(256)))
        for name in ("serror_rate", "same_srv_rate"):
            row[name] = f"{random.random():.2f}"
        rows.append([*row.values(), f"{LABELS[kind]}."])
    return rows


def text_of(rows: list[list[str]]) -> bytes:
    return "".join(",".join(row) + "\n" for row in rows).encode()


@pytest.fixture(scope="module")
def kdd_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    file = folder / "kddcup.data_10_percent.gz"
    file.write_bytes(gzip.compress(text_of(connections())))
    return file


@pytest.fixture(scope="module")
def kdd(kdd_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(plan(), tmp_path_factory.mktemp("kdd"), kdd_file)


@pytest.fixture(scope="module")
def invented(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(plan(few=(100, 2500), limited=(4500,)), tmp_path_factory.mktemp("invented"), None)


def opened(path: Path, positions: int | None = None) -> Chain:
    return gather(StoredChain(path), positions)


def rows_of(chain: Chain) -> list[Row]:
    """Every position by itself."""
    values = chain.values if chain.values.size else np.ones(chain.ids.size)
    pairs = list(zip(chain.ids.tolist(), values.tolist(), strict=True))
    parts = [tuple(pairs[low:high]) for low, high in zip(chain.offsets[:-1], chain.offsets[1:], strict=True)]
    return list(zip(chain.labels.tolist(), parts, strict=True))


def again_and_again(rows: list[Any], times: list[int], positions: int) -> list[Any]:
    repeated = []
    for row, count in zip(rows, times, strict=True):
        for _ in range(count):
            repeated.append(row)
    return list(islice(cycle(repeated), positions))


TIMES = [10 if row[-1].rstrip(".") in TEN_TIMES else 1 for row in connections()]


@pytest.mark.parametrize("setting", list(SETTINGS))
def test_rows_have_their_class_and_their_attributes(kdd: Corpus, setting: str) -> None:
    chain = opened(kdd.chain(setting, 100))
    assert chain.positions == ROWS
    assert chain.vocabulary is not None
    names, labels = chain.vocabulary.attributes.to_pylist(), chain.vocabulary.labels
    assert labels == (("normal", "attack") if "2" in setting else ("normal", "dos", "probe", "r2l", "u2r"))
    for texts, (label, entries) in zip(connections(), rows_of(chain), strict=True):
        kind, row = CLASSES[texts[-1].rstrip(".")], dict(zip(COLUMNS, texts, strict=False))
        assert labels[label] == (kind if "5" in setting or kind == "normal" else "attack")
        if "many" in setting:
            found = [names[number] for number, _ in entries]
            assert len(found) == 41
            assert [name.partition("=")[0] for name in found] == COLUMNS
            assert {f"{name}={row[name]}" for name in ("protocol_type", "service", "flag")} < set(found)
        else:
            expected = {
                "count": (int(row["count"]) + 1) / 512,
                "logged_in": int(row["logged_in"]) + 0.1,
                "serror_rate": float(row["serror_rate"]) + 0.1,
                "same_srv_rate": float(row["same_srv_rate"]) + 0.1,
                "dst_host_srv_count": (int(row["dst_host_srv_count"]) + 1) / 256,
            }
            values = {names[number].split("(")[1].split(",")[0]: value for number, value in entries}
            assert values == pytest.approx(expected)
            assert min(values.values()) > 0.0


def test_the_vocabulary_knows_which_attributes_meet_which_labels(kdd: Corpus) -> None:
    for setting in SETTINGS:
        chain = opened(kdd.chain(setting, 100))
        assert chain.vocabulary is not None
        offsets, labels = chain.vocabulary.pairs()
        found = {(a, int(j)) for a in range(chain.n_attributes) for j in labels[offsets[a] : offsets[a + 1]]}
        assert found == {(number, label) for label, entries in rows_of(chain) for number, _ in entries}


def test_the_surrogate_goes_round_as_one_sequence(kdd: Corpus) -> None:
    for setting, longest in (("2-few", LONG), ("5-many", 2000)):
        base, path = opened(kdd.chain(setting, ROWS)), kdd.chain(setting, longest)
        chain = opened(path)
        assert rows_of(chain) == again_and_again(rows_of(base), TIMES, longest)
        assert np.flatnonzero(chain.starts).tolist() == [0]
        assert kdd.chain(setting, ROWS + 1) == path
        assert StoredChain(path).header.vocabulary == StoredChain(kdd.chain(setting, ROWS)).header.vocabulary


def test_blocks_are_the_same_however_they_are_cut(kdd: Corpus) -> None:
    base = StoredChain(kdd.chain("2-few", ROWS))
    source = module.Concatenated(base, np.array(TIMES), LONG)
    whole = rows_of(gather(source))
    for size in (97, 1000, 3001):
        found = []
        for low in range(0, LONG, size):
            block = source.block(low, min(low + size, LONG))
            found += rows_of(replace(gather(base), **block._asdict()))
            assert block.starts.tolist() == [low + k == 0 for k in range(block.labels.size)]
        assert found == whole


def test_a_full_file_has_no_surrogate(
    kdd: Corpus, kdd_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kdd.about()["surrogate"] == sum(TIMES)
    assert f"surrogate of the full file with {sum(TIMES):,} positions" in kdd.about()["title"]
    monkeypatch.setattr(module, "_FULL", ROWS - 1)
    corpus = Corpus(plan(), tmp_path, kdd_file)
    assert corpus.about()["surrogate"] is None
    base, chain = (opened(corpus.chain("2-few", positions)) for positions in (ROWS, 700))
    assert rows_of(chain) == again_and_again(rows_of(base), [1] * ROWS, LONG)


def test_the_pieces_make_all_and_say_what_it_is(kdd: Corpus) -> None:
    pieces = kdd.pieces()
    assert [piece.key for piece in pieces] == ["corpus/2-few", "corpus/5-few", "corpus/5-many", "corpus"]
    for piece in pieces[:-1]:
        setting = piece.key.removeprefix("corpus/")
        entry = piece.run({})
        assert json.loads(json.dumps(entry, allow_nan=False)) == entry
        chain, model = opened(kdd.chain(setting, ROWS)), open_model(kdd.model(setting))
        assert entry["title"] == SETTINGS[setting].title
        assert entry["n_labels"] == SETTINGS[setting].n_labels
        assert (entry["attributes"], entry["active"]) == (chain.n_attributes, chain.active)
        assert entry["weights"] == model.weights.size
        assert entry["training"]["iterations"] == model.training["max_iterations"] == 15
        assert entry["training"]["accuracy"] == np.mean(tag(model, chain) == chain.labels) > 0.6
        found = log_likelihood(model, chain)
        assert found.log_likelihood is not None
        assert entry["training"]["objective"] == pytest.approx(model.weights @ model.weights - found.log_likelihood)
        if setting == "2-few":
            assert (entry["weights"], entry["active"], entry["bytes_a_position"]) == (14, 5.0, pytest.approx(73, 1e-3))


def test_an_invented_log(invented: Corpus) -> None:
    assert (invented.about()["rows"], invented.about()["surrogate"]) == (2000, None)
    table = [row for batch in network_log.log_batches(2000) for row in batch.to_pylist()]
    few, main, many = (opened(invented.chain(setting, 2000)) for setting in ("5-few", "2-few", "5-many"))
    assert few.vocabulary is not None
    assert [few.vocabulary.labels[label] for label in few.labels] == [row["label"] for row in table]
    assert [bool(label) for label in main.labels] == [row["label"] != "normal" for row in table]
    values = few.values.reshape(2000, 5)[:, np.argsort(few.ids[:5])]
    order = [name.split("(")[1].split(",")[0] for name in few.vocabulary.attributes.to_pylist()]
    assert values.min() > 0.0
    np.testing.assert_allclose(values[:, order.index("log_gap")], [np.log1p(row["gap"]) + 0.1 for row in table])
    received = [(np.log1p(row["received"]) + 1) / 10 for row in table]
    np.testing.assert_allclose(values[:, order.index("log_received")], received)
    assert many.vocabulary is not None
    assert many.active == len(network_log.ATTRIBUTES.split())
    assert not [name for name in many.vocabulary.attributes.to_pylist() if name.startswith("__")]
    longer = opened(invented.chain("2-few", 2500))
    assert rows_of(longer) == again_and_again(rows_of(main), [1] * 2000, 4500)
    assert np.flatnonzero(longer.starts).tolist() == [0]
    entry = invented.pieces()[0].run({})
    assert entry["weights"] == 14
    assert entry["training"]["accuracy"] > 0.7


def relabelled(label: str) -> bytes:
    rows = connections()
    rows[17][-1] = label
    return text_of(rows)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "kddcup.data: is empty."),
        (
            relabelled("snmpguess."),
            "kddcup.data: has the label 'snmpguess.', which is neither normal nor one of the 22 attacks of KDD's "
            "training data; give kddcup.data.gz or kddcup.data_10_percent.gz.",
        ),
        (relabelled(""), "kddcup.data: has rows without a label; give each row its label."),
    ],
    ids=["empty", "unknown label", "no label"],
)
def test_bad_files_are_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "kddcup.data").write_bytes(content)
    corpus = Corpus(plan(), tmp_path, tmp_path / "kddcup.data")
    with pytest.raises(ChainfoldError) as raised:
        corpus.pieces()[0].run({})
    assert sentence in str(raised.value)
    assert str(raised.value).count("\n") == 0
