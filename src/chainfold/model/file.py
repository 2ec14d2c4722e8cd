"""The model file: one safetensors file with the weights, their layout and the vocabulary, and JSON that says the rest.

    weights                             float64, in the order of the layout
    row_offsets, row_labels             the rows of the layout; left out where every attribute has all labels
    first, last                         uint8: labels that may begin, or end, a sequence; left out where all may
    counts, marks                       of the vocabulary; left out where there is none
    names, name_offsets                 UTF-8 of the attributes, and where each begins; left out where they are unnamed
    edge_names, edge_name_offsets       likewise

Opening a file runs no code and checks all that kernels rely on, as they look at no bound.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.block import MOST_LABELS
from chainfold.chain.builder import MOST_HASH_BITS
from chainfold.chain.strings import spans
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import ChainfoldError
from chainfold.features.schema import kept_columns
from chainfold.features.template import Template
from chainfold.model.layout import Layout
from chainfold.model.model import Model
from chainfold.system.archive import (
    FileSource,
    Tensors,
    damage,
    digest_of,
    name_of,
    read_sealed,
    sealed_bytes,
    write_sealed,
)
from chainfold.system.validate import Arrays, ascending, is_count, is_text, need

MODEL, VERSION = "model", 1
_SIZES = ("n_labels", "n_attributes", "n_edge_attributes")
_MEANING = ("labels", "label", "template", "hash_bits", "min_count", "columns")  # of the vocabulary, beside its arrays
_MOST_ATTRIBUTES = 2**31 - 1


def save_model(path: str | Path, model: Model) -> None:
    """Write a model to a file, which appears complete or not at all; `open_model` reads it.

    Raises `ChainfoldError` where the model or its record cannot be stored, or the file cannot be written.

    >>> from chainfold import Layout, Model
    >>> save_model("example.model", Model.random(Layout.full(2, 3)))
    >>> open_model("example.model").layout.n_labels
    2
    """
    write_sealed(path, MODEL, VERSION, *_checked(model))


def model_bytes(model: Model) -> bytes:
    """The bytes that `save_model` writes to a file; `open_model` reads them.

    >>> from chainfold import Layout, Model
    >>> open_model(model_bytes(Model.random(Layout.full(2, 3)))).layout.n_labels
    2
    """
    return sealed_bytes(MODEL, VERSION, *_checked(model))


def _checked(model: Model) -> tuple[Tensors, dict[str, Any]]:
    """The arrays and JSON to write; raises for a model that could not be opened again."""
    tensors, about = _tensors_of(model), _about(model)
    try:
        _model_of(tensors, about)
    except ChainfoldError as error:
        raise ChainfoldError(f"the model cannot be kept: {error}") from None
    return tensors, about


def open_model(source: FileSource) -> Model:
    """Read a model that `save_model` or `chainfold train` wrote.

    source   a path, the bytes of a file, or an open binary file, which is read to its end

    Returns a `Model`. Raises `ChainfoldError` (`BadFile`) where the file is no model or is damaged.

    >>> from chainfold import Layout, Model
    >>> save_model("example.model", Model.random(Layout.full(2, 3)))
    >>> open_model("example.model").weights.size
    10
    """
    tensors, about = read_sealed(source, MODEL, VERSION, "train it anew")
    with damage(name_of(source), MODEL):
        return _model_of(tensors, about)


def fingerprint(model: Model) -> str:
    """A short name for all that decides what the model makes of a chain, however it was trained."""
    about = {name: value for name, value in _about(model).items() if name != "training"}
    return digest_of(_tensors_of(model), about)


# From a model to what is written


def _about(model: Model) -> dict[str, Any]:
    """All that is no array, as it will come back out of JSON."""
    layout, vocabulary = model.layout, model.vocabulary
    meaning = None if vocabulary is None else {name: getattr(vocabulary, name) for name in _MEANING}
    sizes = {name: int(getattr(layout, name)) for name in _SIZES}
    about = {**sizes, "vocabulary": meaning, "training": dict(model.training)}
    try:
        read_back: dict[str, Any] = json.loads(json.dumps(about, sort_keys=True))
    except (TypeError, ValueError, RecursionError) as error:
        raise ChainfoldError(f"the training record of the model cannot be kept as JSON: {error}.") from None
    return read_back


def _tensors_of(model: Model) -> Tensors:
    layout, vocabulary = model.layout, model.vocabulary
    arrays: dict[str, tuple[Any, Any]] = {
        "weights": (model.weights, np.float64),
        "row_offsets": (layout.row_offsets, np.int64),
        "row_labels": (layout.row_labels, np.int32),
        "first": (model.first, np.uint8),
        "last": (model.last, np.uint8),
    }
    if vocabulary is not None:
        arrays |= {"counts": (vocabulary.counts, np.int64), "marks": (vocabulary.marks, np.uint64)}
        for prefix, names in (("", vocabulary.attributes), ("edge_", vocabulary.edge_attributes)):
            if names is not None:
                blob, offsets = _spelled(names)
                arrays |= {f"{prefix}names": (blob, np.uint8), f"{prefix}name_offsets": (offsets, np.int64)}
    return {name: np.ascontiguousarray(array, dtype) for name, (array, dtype) in arrays.items() if array is not None}


def _spelled(names: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """An Arrow array of names as UTF-8, and where each begins."""
    if names.null_count:
        raise ChainfoldError("the vocabulary of the model has attributes without a name.")
    if not len(names):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    blob, begins, ends = spans(names)
    return blob[begins[0] : ends[-1]], np.concatenate([[0], ends - begins[0]])


# From what was read to a model


def _model_of(tensors: Tensors, about: Mapping[str, Any]) -> Model:
    """The model, if everything in it is as kernels need it."""
    rest = Arrays(tensors)
    n_labels, n_attributes, n_edge_attributes = (about[name] for name in _SIZES)
    most = MOST_LABELS, _MOST_ATTRIBUTES, _MOST_ATTRIBUTES
    for name, least, limit in zip(_SIZES, (1, 0, 0), most, strict=True):
        need(is_count(about[name], least, limit), f"its {name} are not a number from {least} to {limit}")
    offsets = labels = None
    if "row_offsets" in tensors:
        offsets = rest.take("row_offsets", np.int64, n_attributes + 1)
        labels = rest.take("row_labels", np.int32, None)
        _check_rows(offsets, labels, n_labels)
    layout = Layout(n_labels, n_attributes, n_edge_attributes, offsets, labels)
    need(type(about["training"]) is dict, "its training record is no mapping")
    model = Model(
        layout,
        rest.take("weights", np.float64, layout.size),
        vocabulary=_vocabulary_of(rest, about["vocabulary"], layout),
        first=_mask(rest, "first", n_labels),
        last=_mask(rest, "last", n_labels),
        training=about["training"],
    )
    rest.check_empty()
    return model


def _vocabulary_of(rest: Arrays, meaning: Any, layout: Layout) -> Vocabulary | None:
    if meaning is None:
        return None
    vocabulary = Vocabulary(
        **{**{name: meaning[name] for name in _MEANING}, "labels": tuple(meaning["labels"])},
        attributes=_names(rest, "", layout.n_attributes),
        edge_attributes=_names(rest, "edge_", layout.n_edge_attributes),
        counts=rest.take("counts", np.int64, layout.n_attributes),
        marks=rest.take("marks", np.uint64, layout.n_attributes, None),
    )
    _check_meaning(vocabulary, layout)
    need(bool((vocabulary.counts >= 0).all()), "its vocabulary has counts below zero")
    found = np.bitwise_or.reduce(vocabulary.marks, axis=0).astype("<u8")
    beyond = np.unpackbits(found.view(np.uint8), bitorder="little")[layout.n_labels :]
    need(vocabulary.marks.shape[1] > 0 and not beyond.any(), "its vocabulary has marks of labels that do not exist")
    return vocabulary


def _check_meaning(vocabulary: Vocabulary, layout: Layout) -> None:
    """Raise unless all of the vocabulary that is no array makes sense."""
    labels, bits = vocabulary.labels, vocabulary.hash_bits
    check_labels(labels)
    need(len(labels) == layout.n_labels, f"it has {layout.n_labels} labels, but {len(labels)} names for them")
    need(is_count(vocabulary.min_count, 0, _MOST_ATTRIBUTES), "its min_count is no count")
    if bits is not None:
        need(is_count(bits, 1, MOST_HASH_BITS), f"its hash_bits are not from 1 to {MOST_HASH_BITS}")
        need(vocabulary.attributes is None, "its attributes are hashed and have names all the same")
        for size in (layout.n_attributes, layout.n_edge_attributes):
            need(size in (0, 1 << bits), f"it has {size} attributes of {bits} bits")
    check_columns(vocabulary)


def check_labels(labels: tuple[Any, ...]) -> None:
    """Raise unless these are names of labels."""
    need(all(map(is_text, labels)), "its labels are no texts")
    need(len(set(labels)) == len(labels), "two of its labels have the same name")
    need(len(labels) <= MOST_LABELS, f"it has {len(labels)} labels, and there are at most {MOST_LABELS}")


def check_columns(vocabulary: Vocabulary) -> None:
    """Raise unless all that says what the model was made of makes sense."""
    need(vocabulary.label is None or is_text(vocabulary.label), "its label column is no name")
    if vocabulary.template is not None:
        Template.from_json(vocabulary.template)
    if vocabulary.columns is not None:
        kept_columns(vocabulary.columns)


def _names(rest: Arrays, prefix: str, count: int) -> Any:
    """The names of attributes as an Arrow array; None where they have none."""
    if f"{prefix}names" not in rest:
        return None
    blob = rest.take(f"{prefix}names", np.uint8, None)
    offsets = rest.take(f"{prefix}name_offsets", np.int64, count + 1)
    ascending(f"{prefix}name_offsets", offsets, blob.size)
    names = pa.Array.from_buffers(pa.large_string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(blob)])
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        raise ChainfoldError("its vocabulary has names that are no UTF-8.") from None
    return names


def _mask(rest: Arrays, name: str, n_labels: int) -> NDArray[np.bool_] | None:
    if name not in rest:
        return None
    mask = rest.take(name, np.uint8, n_labels)
    need(bool((mask <= 1).all()), f"its {name} are no marks")
    return mask.view(np.bool_)


def _check_rows(offsets: NDArray[np.int64], labels: NDArray[np.int32], n_labels: int) -> None:
    """Raise unless each row has labels that exist, ascending."""
    ascending("row_offsets", offsets, labels.size)
    need(bool(((labels >= 0) & (labels < n_labels)).all()), "its rows have labels that do not exist")
    rising = np.ones(labels.size + 1, np.bool_)
    rising[1:-1] = labels[1:] > labels[:-1]
    rising[offsets] = True  # where a row begins, the label may be any
    need(bool(rising.all()), "its rows do not have their labels in order, each once")
