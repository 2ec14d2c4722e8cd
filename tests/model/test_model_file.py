"""The model file: what is written comes back, the same model gives the same bytes, and damage is one sentence."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from chain.test_stored import meaning
from chainfold import Chain, Layout, Model, Vocabulary, write_chain
from chainfold.chain.matrix import chain_from_matrix
from chainfold.errors import BadFile, ChainfoldError
from chainfold.features.encode import chain_from_sequences
from chainfold.features.spec import InputSpec
from chainfold.features.template import parse_template
from chainfold.model.file import open_model, save_model
from chainfold.model.remap import without_zeros
from chainfold.system.archive import read_sealed, write_sealed
from fuzz.states import Change, apart, make, more, none, put, say, sealed
from rows import encoded

SENTENCES = [
    [("the", "B"), ("black", "I"), ("cat", "I"), ("sat", "O")],
    [("über", "O"), ("the", "B"), ("naïve", "I"), ("mat", "I")],
    [("☃", "O")],
]
EDGES = parse_template("U0:%x[0,0]\nU1:%x[-1,0]\nB\nB2:%x[0,0]\n", "edges")
MODELS = ("named", "full", "edges", "hashed", "matrix", "bare", "masked", "empty")


def chain_of(name: str) -> Chain:
    items = [[{"w": word, "long": len(word) > 3} for word, _ in sentence] for sentence in SENTENCES]
    labels = [[label for _, label in sentence] for sentence in SENTENCES]
    if name == "edges":
        return encoded(SENTENCES, ["w", "y"], InputSpec(label="y", template=EDGES))
    if name == "hashed":
        return chain_from_sequences(items, labels, hash_bits=5)
    if name == "matrix":
        return chain_from_matrix(np.eye(5, 4), labels=["x", "y", "x", "z", "z"])
    if name == "bare":
        return Chain.from_arrays(offsets=[0, 2, 3, 5], ids=[0, 1, 2, 0, 3], labels=[0, 1, 1])
    return chain_from_sequences(items, labels)


def model_of(name: str, seed: int = 0) -> Model:
    chain = chain_of(name)
    layout = Layout.observed(chain)
    if name == "full":
        layout = Layout.full(chain.n_labels, chain.n_attributes)
    if name == "empty":
        return Model(Layout.full(2, 0), np.zeros(4))
    model = replace(Model.random(layout, seed), vocabulary=chain.vocabulary)
    if name == "masked":
        first, last = np.array([True, False, True]), np.array([False, True, True])
        training = {"method": "lbfgs", "c2": 0.1, "history": [{"iteration": 1, "value": -3.5}], "stopped": None}
        return replace(model, first=first, last=last, training=training)
    return model


def same(a: Model, b: Model) -> None:
    for name in ("n_labels", "n_attributes", "n_edge_attributes"):
        assert getattr(a.layout, name) == getattr(b.layout, name)
    for x, y in (
        (a.weights, b.weights),
        (a.layout.row_offsets, b.layout.row_offsets),
        (a.layout.row_labels, b.layout.row_labels),
        (a.first, b.first),
        (a.last, b.last),
    ):
        assert (x is None) == (y is None)
        if x is not None and y is not None:
            assert x.dtype == y.dtype
            assert x.tobytes() == y.tobytes()
    assert a.training == b.training
    assert meaning(a.vocabulary) == meaning(b.vocabulary)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_comes_back(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    save_model(tmp_path / "model", model)
    found = open_model(tmp_path / "model")
    same(found, model)
    save_model(tmp_path / "again", found)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "model"]


def test_forbidding_weights_and_odd_names_come_back(tmp_path: Path) -> None:
    weights = np.array([-np.inf, -0.0, 5e-324, 1e300, *np.zeros(4)])
    names = pa.array(["left out", 'a"<\n\\', "\x00é☃"], pa.large_string()).slice(1)
    vocabulary = Vocabulary(("", "</x>"), names, None, np.array([7, 0]), np.array([[3], [0]], np.uint64))
    model = Model(Layout.full(2, 2), weights, vocabulary=vocabulary)
    save_model(tmp_path / "model", model)
    same(open_model(tmp_path / "model"), model)


@pytest.mark.parametrize("name", MODELS)
def test_any_reader_of_safetensors_can_read_it(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    save_model(tmp_path / "model", model)
    data = (tmp_path / "model").read_bytes()
    with safe_open(tmp_path / "model", "np") as file:
        metadata = file.metadata()
        tensors: dict[str, NDArray[Any]] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    np.testing.assert_array_equal(tensors["weights"], model.weights)
    about = json.loads(metadata["chainfold"])
    assert (about["version"], about["n_labels"], about["training"]) == (1, model.layout.n_labels, model.training)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    for key, array in tensors.items():  # where they lie in the file, they may be used as they are
        assert (8 + int.from_bytes(data[:8], "little") + header[key]["data_offsets"][0]) % array.itemsize == 0
    assert set(header) == {"__metadata__", *tensors}


# Damage


def opens_or_says_why(path: Path, data: bytes, model: Model) -> bool:
    """Did it open? If so, to the same model; if not, with a sentence."""
    path.write_bytes(data)
    problem = None
    try:
        found = open_model(path)
    except BadFile as error:
        problem = str(error)
    if problem is None:
        same(found, model)
        return True
    assert problem.startswith(f"{path}: ")
    assert problem.endswith(".")
    return False


@pytest.fixture
def small(tmp_path: Path) -> tuple[Model, bytes]:
    model = model_of("masked")
    save_model(tmp_path / "whole", model)
    return model, (tmp_path / "whole").read_bytes()


def test_a_file_that_is_cut_short_does_not_open(small: tuple[Model, bytes], tmp_path: Path) -> None:
    model, data = small
    for size in range(len(data)):
        assert not opens_or_says_why(tmp_path / "cut", data[:size], model)
    assert not opens_or_says_why(tmp_path / "cut", data + b"\x00", model)


def test_no_byte_can_be_changed_unnoticed(small: tuple[Model, bytes], tmp_path: Path) -> None:
    model, data = small
    header = 8 + int.from_bytes(data[:8], "little")
    rng = np.random.default_rng(1)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= int(rng.integers(1, 256))
        opened = opens_or_says_why(tmp_path / "flipped", bytes(damaged), model)
        assert not opened or place < header, place


NO_MODEL = "this is not a model written by chainfold, or it is cut short or damaged"


def test_files_that_are_no_model_say_so(tmp_path: Path) -> None:
    write_chain(tmp_path / "data.chain", chain_of("bare"))
    with pytest.raises(BadFile, match="this is a chain, not a model"):
        open_model(tmp_path / "data.chain")
    with pytest.raises(BadFile, match="there is no such file"):
        open_model(tmp_path / "nothing")
    with pytest.raises(BadFile, match="cannot be read: Is a directory"):
        open_model(tmp_path)
    with pytest.raises(BadFile, match="cannot be read: Not a directory"):
        open_model(tmp_path / "data.chain" / "model")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadFile, match="no ordinary file"):
        open_model(tmp_path / "pipe")
    save_file({"weights": np.zeros(3)}, tmp_path / "other")
    for name, data in (("empty", b""), ("text", b"the cat\n" * 100), ("other", None)):
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(BadFile, match=NO_MODEL):
            open_model(tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    save_model(tmp_path / "model", model_of("bare"))
    (tmp_path / "model").chmod(0)
    with pytest.raises(BadFile, match="Permission denied"):
        open_model(tmp_path / "model")


def forge(path: Path, change: Change) -> None:
    """Change a stored model and give it a digest that fits, made by the rule itself."""
    tensors, about = apart(path)
    change(tensors, about)
    path.write_bytes(sealed(tensors, about))


FORGERIES: dict[str, Change] = {
    "too few labels": say(2, "n_labels"),
    "no labels": say(0, "n_labels"),
    "labels by truth": say(True, "n_labels"),
    "attributes as text": say("5", "n_attributes"),
    "too many attributes": say(10**6, "n_attributes"),
    "fewer than no edges": say(-1, "n_edge_attributes"),
    "an edge attribute": say(1, "n_edge_attributes"),
    "training as list": say([], "training"),
    "vocabulary as list": say([1], "vocabulary"),
    "no vocabulary": say(None, "vocabulary"),
    "label names missing": say(["B"], "vocabulary", "labels"),
    "label names twice": say(["B", "B", "O"], "vocabulary", "labels"),
    "label names as numbers": say([1, 2, 3], "vocabulary", "labels"),
    "label column": say(5, "vocabulary", "label"),
    "template": say('{"features": 3}', "vocabulary", "template"),
    "template as number": say(3, "vocabulary", "template"),
    "hash bits of names": say(4, "vocabulary", "hash_bits"),
    "hash bits below zero": say(-1, "vocabulary", "hash_bits"),
    "least count": say("1", "vocabulary", "min_count"),
    "weights as float32": make("weights", lambda w: w.astype(np.float32)),
    "weights in two dimensions": make("weights", lambda w: w[None]),
    "a weight too many": make("weights", lambda w: np.append(w, 0.0)),
    "a weight that is no number": put("weights", np.nan),
    "an infinite weight": put("weights", np.inf),
    "no weights": make("weights", none),
    "label beyond": put("row_labels", 3),
    "label below": put("row_labels", -1),
    "labels out of order": make("row_labels", lambda x: x[::-1].copy()),
    "labels as int64": make("row_labels", lambda x: x.astype(np.int64)),
    "no row labels": make("row_labels", none),
    "no row offsets": make("row_offsets", none),
    "offsets that begin late": put("row_offsets", 1),
    "offsets that fall": make("row_offsets", lambda x: np.concatenate([x[:1], x[1:-1][::-1], x[-1:]])),
    "first as two": put("first", 2),
    "last too short": make("last", lambda x: x[:-1]),
    "names that are no UTF-8": put("names", 255),
    "names without offsets": make("name_offsets", none),
    "offsets without names": make("names", none),
    "name offsets that fall": make("name_offsets", lambda x: np.concatenate([x[:1], x[1:-1][::-1], x[-1:]])),
    "name offsets beyond": make("name_offsets", lambda x: x + 1),
    "counts missing": make("counts", none),
    "counts below zero": put("counts", -1),
    "marks of no label": put("marks", 8),
    "marks without words": make("marks", lambda x: x[:, :0]),
    "an array too many": more,
}


@pytest.mark.parametrize("name", FORGERIES)
def test_kernels_can_trust_what_opens_even_if_the_digest_was_made_to_fit(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model"
    save_model(path, model_of("masked"))
    forge(path, lambda tensors, about: None)
    same(open_model(path), model_of("masked"))  # so it is not the forging itself that is noticed
    forge(path, FORGERIES[name])
    with pytest.raises(BadFile, match=NO_MODEL):
        open_model(path)


def test_another_version_is_named(tmp_path: Path) -> None:
    save_model(tmp_path / "model", model_of("bare"))
    forge(tmp_path / "model", say(99, "version"))
    with pytest.raises(BadFile, match=r"its version is 99, and this chainfold reads 1; train it anew\.$"):
        open_model(tmp_path / "model")
    write_sealed(tmp_path / "state", "saved stream", 2, {}, {})
    with pytest.raises(BadFile, match=r"its version is 2, and this chainfold reads 3; begin anew\.$"):
        read_sealed(tmp_path / "state", "saved stream", 3)


def test_what_could_not_be_opened_again_is_not_written(tmp_path: Path) -> None:
    model = model_of("named")
    assert model.vocabulary is not None
    names = model.vocabulary.attributes
    nothing = pa.array([None] * len(names), pa.large_string())
    for wrong, sentence in (
        (replace(model, training={"x": np.zeros(1)}), "training record"),
        (replace(model, vocabulary=replace(model.vocabulary, labels=("B",))), "3 labels, but 1 names"),
        (replace(model, vocabulary=replace(model.vocabulary, attributes=names[1:])), "name_offsets"),
        (replace(model, vocabulary=replace(model.vocabulary, attributes=nothing)), "without a name"),
        (replace(model, vocabulary=replace(model.vocabulary, hash_bits=3)), "hashed"),
    ):
        with pytest.raises(ChainfoldError, match=sentence):
            save_model(tmp_path / "model", wrong)
    assert not list(tmp_path.iterdir())
    with pytest.raises(BadFile, match="there is no folder"):
        save_model(tmp_path / "no" / "model", model)


# Without zeros


def thinned(model: Model, seed: int, share: float = 0.6) -> Model:
    """Many weights set to zero, a few to -inf, and all those of some attributes to zero."""
    rng = np.random.default_rng(seed)
    weights, layout = model.weights.copy(), model.layout
    weights[rng.random(weights.size) < share] = 0.0
    begin = layout.features.begin
    for a in range(0, layout.n_attributes, 3):
        weights[begin[a] : begin[a + 1]] = 0.0
    pairs = weights[layout.n_state :].reshape(-1, layout.n_labels**2)
    pairs[1::2] = 0.0
    weights[int(rng.integers(layout.n_state))] = -np.inf
    return replace(model, weights=weights)


def table(model: Model) -> dict[tuple[object, ...], float]:
    """Weights by the names of what they belong to, zeros left out."""
    layout, vocabulary = model.layout, model.vocabulary
    found: dict[tuple[object, ...], float] = {}
    state: Any = None if vocabulary is None else vocabulary.attributes
    edge: Any = None if vocabulary is None else vocabulary.edge_attributes
    for a in range(layout.n_attributes):
        for m in range(layout.features.begin[a], layout.features.begin[a + 1]):
            name = a if state is None else state[a].as_py()
            found[name, int(layout.features.label[m])] = float(model.weights[m])
    pairs = model.weights[layout.n_state :].reshape(-1, layout.n_labels, layout.n_labels)
    for b, i, j in np.ndindex(pairs.shape):
        name = "" if b == 0 else (b - 1 if edge is None else edge[b - 1].as_py())
        found[name, i, j] = float(pairs[b, i, j])
    return {key: weight for key, weight in found.items() if weight != 0.0}


@pytest.mark.parametrize("name", [name for name in MODELS if name != "empty"])
@pytest.mark.parametrize("seed", range(3))
def test_without_zeros_the_same_weights_remain(name: str, seed: int, tmp_path: Path) -> None:
    model = thinned(model_of(name, seed), seed, 1.0 if seed == 2 else 0.6)
    lean = without_zeros(model)
    assert table(lean) == table(model)
    assert lean.layout.row_offsets is None or (lean.weights[: lean.layout.n_state] != 0.0).all()
    named = model.vocabulary is not None and model.vocabulary.attributes is not None
    assert (lean.layout.n_attributes < model.layout.n_attributes) == named
    assert lean.layout.size < model.layout.size
    assert (lean.first is model.first, lean.last is model.last, lean.training) == (True, True, model.training)
    save_model(tmp_path / "lean", lean)
    same(open_model(tmp_path / "lean"), lean)
    same(without_zeros(lean), lean)


def test_counts_marks_and_names_move_together() -> None:
    model = thinned(model_of("named"), 1)
    assert model.vocabulary is not None
    size = model.layout.n_attributes
    marks = np.arange(size, dtype=np.uint64)[:, None] % 8
    model = replace(model, vocabulary=replace(model.vocabulary, counts=np.arange(size), marks=marks))
    lean = without_zeros(model)
    assert model.vocabulary is not None
    assert lean.vocabulary is not None
    old, new = model.vocabulary, lean.vocabulary
    places = [old.attributes.to_pylist().index(name) for name in new.attributes.to_pylist()]
    assert places == sorted(places)
    np.testing.assert_array_equal(old.counts[places], new.counts)
    np.testing.assert_array_equal(old.marks[places], new.marks)


def test_a_full_layout_becomes_rows_only_where_that_is_smaller() -> None:
    model = model_of("full")
    assert without_zeros(model).layout.row_offsets is None
    same(without_zeros(model), model)
    weights = model.weights.copy()
    weights[: model.layout.n_state] *= np.arange(model.layout.n_state) % 3 == 0
    assert without_zeros(replace(model, weights=weights)).layout.row_offsets is not None


def test_edge_attributes_without_names_stay() -> None:
    model = replace(thinned(model_of("edges"), 1), vocabulary=None)
    lean = without_zeros(model)
    assert lean.layout.n_edge_attributes == model.layout.n_edge_attributes
    assert lean.layout.n_attributes == model.layout.n_attributes
    assert table(lean) == table(model)
