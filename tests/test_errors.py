"""Every failure a user can meet: raised where it should be, naming the position or the thing, in one sentence."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np
import pytest

from chainfold import Chain, ChainfoldError, Layout, Model, SyntheticChain, errors, log_likelihood
from chainfold.chain.chain import gather
from chainfold.engines.registry import ENGINES

pytestmark = pytest.mark.quick


def small(**changes: Any) -> Chain:
    arrays: dict[str, Any] = {
        "offsets": [0, 1, 2, 4],
        "ids": [0, 1, 0, 1],
        "values": [1.0, 2.0, 3.0, 4.0],
        "labels": [0, 1, 0],
        "n_labels": 2,
        "n_attributes": 2,
    }
    return Chain.from_arrays(**(arrays | changes))


def model(chain: Any, **weights: float) -> Model:
    layout = Layout.full(chain.n_labels, chain.n_attributes, chain.n_edge_attributes)
    theta = np.zeros(layout.size)
    for index, value in weights.items():
        theta[int(index.lstrip("w"))] = value
    return Model(layout, theta)


def test_unknown_engine() -> None:
    with pytest.raises(errors.UnknownEngine, match=r"no engine 'warp'; choose one of stream, .*fb"):
        log_likelihood(model(small()), small(), "warp")


def test_tolerances_that_make_no_sense() -> None:
    for tolerance in (1e-15, float("nan")):
        with pytest.raises(errors.ToleranceTooSmall, match=r"but must be at least 1e-14 \(rounding error\)"):
            log_likelihood(model(small()), small(), tolerance=tolerance)
    with pytest.raises(errors.BadSetting, match=r"tolerance is 1\.0, but must be at most 0\.01"):
        log_likelihood(model(small()), small(), tolerance=1.0)


@pytest.mark.parametrize("name", ["threads", "memory", "block", "lookahead"])
@pytest.mark.parametrize("value", [0, 1.5])
def test_bad_setting(name: str, value: float) -> None:
    with pytest.raises(errors.BadSetting, match=f"{name} is {value}, but must be a whole number, at least 1"):
        log_likelihood(model(small()), small(), **{name: value})  # type: ignore[arg-type]


def test_a_whole_number_may_be_written_as_a_float() -> None:
    assert log_likelihood(model(small()), small(), memory=1e9, block=2.0).log_z > 0.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("index", "value", "name"),
    [(3, np.nan, "attribute 1, label 1"), (5, np.inf, "transition 0 to 1"), (4, np.nan, "transition 0 to 0")],
)
def test_weights_that_are_no_numbers(index: int, value: float, name: str) -> None:
    with pytest.raises(errors.WeightNotANumber, match=rf"weight {index} \({name}\) is {value}"):
        model(small(), **{f"w{index}": value})
    with pytest.raises(errors.WeightNotANumber, match="edge attribute 0, transition 1 to 1"):
        Model(Layout.full(2, 2, 1), np.array([0.0] * 11 + [value]))
    with pytest.raises(errors.WeightShape, match=r"shape \(7,\).*has 8 weights"):
        Model(Layout.full(2, 2), np.zeros(7))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers(value: float) -> None:
    with pytest.raises(errors.ValueNotFinite, match=f"position 2 has an attribute with value {value}"):
        small(values=[1.0, 2.0, 3.0, value])
    with pytest.raises(errors.ValueNotFinite, match="position 1 has an edge attribute"):
        small(edge_offsets=[0, 0, 1, 1], edge_ids=[0], edge_values=[value])


NEVER = -np.inf
IMPOSSIBLE: list[tuple[dict[str, Any], dict[str, float], type[ChainfoldError], str]] = [
    # attribute 1 forbids both labels; it is at positions 1 and 2
    ({"values": None, "labels": None}, {"w2": NEVER, "w3": NEVER}, errors.ZeroProbability, "at position 1 every label"),
    # label 1 is forbidden by attribute 0 (at positions 0 and 2), 0 to 0 and 1 to 0 are forbidden moves
    ({"values": None, "labels": None}, dict.fromkeys(("w1", "w4", "w6"), NEVER), errors.ZeroProbability, "position 2"),
    ({"values": [1.0, 1e308, 1.0, 1.0]}, {"w2": 1e10}, errors.ScoreNotFinite, "score at position 1 is not a finite"),
    # a negative value beside a forbidding weight
    ({"values": [1.0, 1.0, 1.0, -1.0], "labels": None}, {"w3": NEVER}, errors.ScoreNotFinite, "position 2"),
    # position 1 has attribute 1 and label 1, after label 0
    ({}, {"w3": NEVER}, errors.ForbiddenLabel, "label observed at position 1 is forbidden"),
    ({}, {"w5": NEVER}, errors.ForbiddenLabel, "label observed at position 1 is forbidden"),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("block", [1, 2, None])
@pytest.mark.parametrize(("arrays", "weights", "error", "sentence"), IMPOSSIBLE)
def test_what_is_impossible_names_the_position(
    arrays: Any, weights: Any, error: type[ChainfoldError], sentence: str, block: int | None, engine: str
) -> None:
    chain = small(**arrays)
    with pytest.raises(error, match=sentence):
        log_likelihood(model(chain, **weights), chain, engine, block=block)


def test_observed_label_forbidden_in_a_sparse_row() -> None:
    chain = small()
    rows = (np.array([0, 1, 2], np.int64), np.array([0, 1], np.int32))
    layout = Layout(2, 2, 0, *rows)
    assert layout.dense == 0
    with pytest.raises(errors.ForbiddenLabel, match="position 1"):
        log_likelihood(Model(layout, [0.0, -np.inf, 0.0, 0.0, 0.0, 0.0]), chain)  # type: ignore[arg-type]


def test_memory_too_small_says_what_would_do() -> None:
    source = SyntheticChain(100_000, 5, 20, 2)
    with pytest.raises(errors.MemoryTooSmall, match=r"'fb' needs about 12\.8 MB.* 1 MB are allowed; .*'stream'"):
        log_likelihood(Model.random(Layout.full(5, 20)), source, "fb", memory=1_000_000)


def test_memory_that_no_engine_could_do_with() -> None:
    source = SyntheticChain(100_000, 64, 200, 2)
    with pytest.raises(errors.MemoryTooSmall, match=r"needs about .* 0\.003 MB are allowed; allow more"):
        log_likelihood(Model.random(Layout.full(64, 200)), source, "stream", memory=3_000)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"offsets": [0]}, "no positions"),
        ({"offsets": []}, "no positions"),
        ({"offsets": [0, 1, 2, 3]}, "go from 0 to 3, but there are 4 ids"),
        ({"offsets": [0, 2, 1, 4]}, "fall at position 1"),
        ({"values": [1.0]}, "4 attribute ids, but 1 values"),
        ({"labels": [0, 1]}, "3 positions, but 2 labels"),
        ({"labels": [0, 1, 2]}, "position 2 has label 2, but labels go from 0 to 1"),
        ({"labels": [0, -2, 1]}, "position 1 has label -2"),
        ({"labels": None, "n_labels": None}, "needs n_labels"),
        ({"labels": None, "n_labels": 0}, "n_labels is 0"),
        ({"starts": [True]}, "3 positions by the offsets, but 1 start marks"),
        ({"n_attributes": 1}, "position 1 has attribute 1, but they go from 0 to 0"),
        ({"ids": [0, 1, -1, 1]}, "position 2 has attribute -1"),
        ({"edge_offsets": [0, 1], "edge_ids": [0]}, "edge attribute offsets are 2 numbers; 3 positions need 4"),
        ({"edge_ids": [0]}, "no edge_offsets"),
        ({"labels": [np.nan, 1, 0]}, "number 0 of the labels is nan, which is no whole number"),
        ({"labels": [0, 0.5, 0]}, "number 1 of the labels is 0.5"),
        ({"labels": ["a", "b", "c"]}, "the labels are not whole numbers"),
        ({"labels": [[0], [1], [0]]}, "the labels have 2 dimensions"),
        (
            {"labels": [0, 2**32, 0], "n_labels": None},
            "position 1 has label 4294967296, but labels go from 0 to 65534 ",
        ),
        ({"labels": [0, 2**32, 0], "n_labels": 2**33}, "n_labels is 8589934592, but must be a whole number from 1 to"),
        ({"labels": [0, 65535, 0], "n_labels": None}, "position 1 has label 65535, but labels go from 0 to 65534 "),
        ({"labels": None, "n_labels": 2.5}, "n_labels is 2.5, but must be a whole number from 1 to 65535"),
        (
            {"labels": np.array([0, 2**64 - 1, 0], np.uint64)},
            f"number 1 of the labels is {2**64 - 1}, which is too large",
        ),
        (
            {"ids": np.array([0, 1, 0, 2**63], np.uint64)},
            f"number 3 of the attribute ids is {2**63}, which is too large",
        ),
        ({"offsets": np.array([0, 1, 2**64 - 2, 4], np.uint64)}, f"of the offsets is {2**64 - 2}, which is too large"),
        ({"edge_offsets": [0, 0, 0, 1], "edge_ids": [2**32]}, "the number of edge attributes is 4294967297"),
        ({"starts": [0, 2, 3]}, "the start marks are not all True or False"),
        ({"ids": [0, 2**32, 0, 1]}, "position 1 has attribute 4294967296"),
        ({"ids": [0, 2**70, 0, 1]}, "no whole number"),
        ({"ids": [[0], [1], [0], [1]]}, "the attribute ids have 2 dimensions"),
        ({"offsets": [[0, 1, 2, 4]]}, "the offsets have 2 dimensions"),
        ({"n_attributes": -3}, "the number of attributes is -3"),
        ({"n_attributes": 1.5}, "the number of attributes is 1.5, but must be a whole number"),
        ({"n_attributes": np.ones(2)}, "the number of attributes is array"),
        ({"n_labels": np.zeros((2, 2))}, r"n_labels is array\(\[\[0., 0.\], \[0., 0.\]\]\), but must be"),
        ({"values": "x"}, "the attribute values are not numbers"),
        ({"values": [[1.0]]}, "the attribute values have 2 dimensions"),
        ({"weights": ["x"]}, "the weights are not numbers"),
    ],
)
def test_arrays_that_make_no_chain(arrays: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ChainfoldError, match=sentence):
        small(**arrays)


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ((1, 2, 2), "chain has 2 labels, but the model knows 1"),
        ((2, 1, 2), "chain has 2 attributes, but the model knows 1"),
        ((2, 2, 0), "chain has 1 edge attributes, but the model knows 0"),
    ],
)
def test_a_chain_that_does_not_fit_the_model(sizes: tuple[int, int, int], sentence: str) -> None:
    chain = small(edge_offsets=[0, 0, 1, 1], edge_ids=[0])
    with pytest.raises(errors.ModelMismatch, match=sentence):
        log_likelihood(Model.random(Layout.full(*sizes)), chain)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"positions": 0}, "positions is 0"),
        ({"n_labels": 0}, "n_labels is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"positions": 10**21}, "positions is 1000000000000000000000"),
        ({"n_attributes": 2}, "n_attributes is 2, but must be at least 3"),
        ({"sticky": 1.5}, "sticky is 1.5, but must be between 0 and 1"),
        ({"informative": -0.1}, "informative is -0.1"),
        ({"mean_length": 0.5}, "mean_length is 0.5"),
        ({"n_edge_attributes": -1}, "n_edge_attributes is -1"),
        ({"n_labels": 65536}, "n_labels is 65536, but must be at most 65535"),
        ({"n_attributes": 2**31}, "n_attributes is 2147483648, but must be at most 2147483647"),
        ({"n_edge_attributes": 2**31}, "n_edge_attributes is 2147483648, but must be at most 2147483647"),
    ],
)
def test_synthetic_chains_that_make_no_sense(options: dict[str, Any], sentence: str) -> None:
    sizes = {"positions": 10, "n_labels": 2, "n_attributes": 6, "active": 3}
    with pytest.raises(errors.BadSetting, match=sentence):
        SyntheticChain(**(sizes | options))


def test_a_full_disk_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", lambda **options: Full())
    sentence = "cannot hold temporary files: No space left on device; set TMPDIR to another folder"
    with pytest.raises(errors.BadFile, match=sentence):
        log_likelihood(model(small()), small(), "fb-spill")


def faulty(**changes: Any) -> Chain:
    """A source that gives out blocks that no check has seen."""
    return dataclasses.replace(small(values=None), **changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ids": np.array([0, 10**8, 0, 1], np.int32)}, "have an attribute that is not from 0 to 1"),
        ({"ids": np.array([0, -1, 0, 1], np.int32)}, "have an attribute that is not from 0 to 1"),
        ({"ids": np.array([0, 1, 0, 1], np.int64)}, "ids is not a contiguous row of int32"),
        ({"labels": np.array([0, 7, 0], np.int32)}, "have a label that is not from 0 to 1"),
        ({"offsets": np.array([0, 3, 2, 4], np.int64)}, "do not belong together"),
        ({"offsets": np.array([0, 1, 2, 9], np.int64)}, "do not belong together"),
        ({"values": np.array([1.0])}, "do not belong together"),
        ({"starts": np.array([False, False, False])}, "the first position of a chain must be a start"),
        ({"starts": np.array([True])}, "3 labels and 1 start marks"),
    ],
)
def test_a_source_that_is_damaged_or_mistaken(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(errors.BadChain, match=sentence):
        log_likelihood(model(small()), faulty(**changes))


def test_parallel_names_the_same_position_as_the_others() -> None:
    source = gather(SyntheticChain(100_000, 2, 4, 1, seed=1))
    ids = source.ids.copy()
    ids[ids == 3] = 2
    ids[[10, 49_990]] = 3  # attribute 3 forbids both labels, in a halo too
    chain = Chain.from_arrays(offsets=source.offsets, ids=ids, n_labels=2, n_attributes=4)
    for engine in ("fb", "stream", "parallel"):
        with pytest.raises(errors.ZeroProbability, match="at position 10 every"):
            log_likelihood(model(chain, w6=-np.inf, w7=-np.inf), chain, engine, threads=2)


def test_observed_layout_of_a_chain_without_labels() -> None:
    with pytest.raises(ChainfoldError, match=r"no labels from which to learn its pairs; take Layout\.full"):
        Layout.observed(small(labels=None))


def test_layouts_that_make_no_sense() -> None:
    with pytest.raises(errors.BadSetting, match="n_attributes is -1"):
        Layout.full(2, -1)


def test_every_error_is_one_sentence_and_a_value_error() -> None:
    sentences = [
        errors.UnknownEngine("x", ["a"]),
        errors.BadSetting("x", 1, "at least 2"),
        errors.ToleranceTooSmall(1e-15, 1e-14),
        errors.MemoryTooSmall("fb", 2, 1, "allow more"),
        errors.WeightShape((1,), 2),
        errors.WeightNotANumber(0, np.nan, "x"),
        errors.ModelMismatch("labels", 2, 1),
        errors.UnseenLabel(0, "x"),
        errors.EmptyChain(),
        errors.LabelOutOfRange(0, 1, 1),
        errors.AttributeOutOfRange(0, 1, 1, "attribute"),
        errors.ValueNotFinite(0, np.nan, "an attribute"),
        errors.ScoreNotFinite(0),
        errors.ResultNotFinite("log Z"),
        errors.ZeroProbability(0),
        errors.ForbiddenLabel(0),
        errors.BadSyntheticSpec("x"),
        errors.BadSize("x"),
        errors.BadFile("x", "there is no such file."),
        errors.AlreadyAppended("x", 1000),
        errors.NotOpened(),
        errors.NoModelFile(),
        errors.MissingPackage("a figure", "matplotlib", "plot"),
        errors.EmptyInput("x", "is empty."),
        errors.BadLines("x", "line 1 has 2 columns.", lambda: [1]),
    ]
    for error in sentences:
        assert isinstance(error, ValueError)
        assert str(error).endswith(".")
        assert "\n" not in str(error)
    named = {type(error) for error in sentences}
    assert named | {ChainfoldError, errors.BadChain} == {
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ChainfoldError)
    }
