"""Common parts of the formats of other programs: names from bytes, weights to a model, a model's parts to write.

`StateWeights` lists the weights of attributes that exist; pairs of labels, that is transitions and edge attributes, are
arrays of all pairs. Memory for pairs is limited by the size of the file, as a few bytes of names ask for much of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.block import MOST_LABELS
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadFile, BadSetting, ChainfoldError
from chainfold.features.schema import Schema
from chainfold.features.template import Template
from chainfold.model.layout import Floats, Layout
from chainfold.model.model import Model
from chainfold.system.validate import need, spelt

_MOST_PAIRS = 1 << 27  # weights of pairs of labels, 1 GiB, in a file of any size
_PAIRS_A_BYTE = 64  # and more in larger files

Ids = NDArray[np.int64]


class StateWeights(NamedTuple):
    """Weights of (attribute, label) pairs, in any order."""

    attribute: Ids
    label: Ids
    weight: Floats


@contextmanager
def readable_as(path: object, program: str) -> Iterator[None]:
    """Raise errors of reading a foreign file as one sentence; too little memory is no fault of the file."""
    try:
        yield
    except (BadFile, BadSetting, MemoryError):
        raise
    except ChainfoldError as error:
        raise BadFile(path, f"cannot be read as a model of {program}: {error}") from None
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror or error}.") from None
    except (pa.ArrowException, ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
        raise BadFile(path, f"cannot be read as a model of {program}: it is damaged.") from None


# From bytes to a model


def decoded(names: Sequence[bytes], kind: str, encoding: str) -> list[str]:
    """Names as texts, all different."""
    texts = []
    for number, name in enumerate(names):
        try:
            texts.append(name.decode(encoding))
        except UnicodeDecodeError:
            remedy = "open it with another `encoding`, for instance latin-1"
            raise ChainfoldError(f"{kind} {number} is not {encoding}, {spelt(name)}; {remedy}.") from None
    if len(set(texts)) < len(texts):
        twice = next(name for name, count in Counter(texts).items() if count > 1)
        raise ChainfoldError(f"{kind} {spelt(twice)!r} occurs twice.")
    return texts


def no_pairs(n_labels: int, n_edge_attributes: int, size: int) -> Floats:
    """[1 + E, N, N] zeros for transitions and edge attributes, if a file of this many bytes may ask for them."""
    need(0 < n_labels <= MOST_LABELS, f"it has {n_labels} labels, and there are from 1 to {MOST_LABELS}")
    count = (1 + n_edge_attributes) * n_labels**2
    need(
        count <= max(_MOST_PAIRS, _PAIRS_A_BYTE * size),
        f"its {n_labels} labels and {n_edge_attributes} edge attributes make {count:,} weights, too many for a file "
        f"of {size:,} bytes",
    )
    return np.zeros((1 + n_edge_attributes, n_labels, n_labels))


def model_of(
    program: str,
    labels: Sequence[str],
    attributes: Sequence[str],
    edge_attributes: Sequence[str],
    state: StateWeights,
    pairs: Floats,
    template: Template | None = None,
    n_columns: int = 0,
) -> Model:
    """The model with these names and weights.

    pairs        [1 + E, N, N] transitions, then edge attributes
    template     over columns that are called 0, 1, …; None: attributes come as such
    n_columns    how many columns the template uses
    """
    layout, weights = _laid_out(len(labels), len(attributes), len(edge_attributes), state)
    columns = None
    if template is not None:
        template = template.resolved([str(k) for k in range(n_columns)])
        kinds = {str(k): "symbol" for k in range(n_columns)}
        columns = Schema(kinds, None, template, comments="").columns_json()
    vocabulary = Vocabulary(
        tuple(labels),
        pa.array(attributes, pa.large_string()),
        pa.array(edge_attributes, pa.large_string()),
        counts=np.zeros(len(attributes), np.int64),
        marks=np.zeros((len(attributes), 1), np.uint64),
        template=None if template is None else template.to_json(),
        columns=columns,
    )
    everything = np.concatenate([weights, pairs.ravel()])
    need(np.isfinite(everything).all(), "one of its weights is not a finite number")
    return Model(layout, everything, vocabulary, training={"imported": program})


def _laid_out(n_labels: int, n_attributes: int, n_edges: int, state: StateWeights) -> tuple[Layout, Floats]:
    """The weights of attributes by attribute and label."""
    key = state.attribute * n_labels + state.label
    order = np.argsort(key, kind="stable")
    key = key[order]
    need((key[1:] > key[:-1]).all(), "an attribute has two weights for the same label")
    weights = state.weight[order]
    if key.size == n_attributes * n_labels:
        return Layout.full(n_labels, n_attributes, n_edges), weights
    attribute, label = np.divmod(key, n_labels)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(attribute, minlength=n_attributes))]).astype(np.int64)
    return Layout(n_labels, n_attributes, n_edges, offsets, label.astype(np.int32)), weights


# From a model to bytes


class Exported(NamedTuple):
    """The parts of a model that are written."""

    vocabulary: Vocabulary
    labels: list[bytes]
    attributes: list[bytes]
    edge_attributes: list[bytes]
    state: StateWeights  # by attribute and label
    transitions: Floats  # [N, N]
    edges: Floats  # [E, N, N]


def exported(model: Model, program: str, encoding: str) -> Exported:
    """The names and weights of a model; raises where the program has nothing like them."""
    layout, vocabulary = model.layout, model.vocabulary
    if vocabulary is None or vocabulary.attributes is None:
        hashed = vocabulary is not None and vocabulary.hash_bits is not None
        why = "its attributes are hashed" if hashed else "its attributes have no names"
        raise ChainfoldError(f"the model cannot be written for {program}: {why}.")
    if model.first is not None or model.last is not None or not np.isfinite(model.weights).all():
        raise ChainfoldError(
            f"the model cannot be written for {program}, which cannot forbid labels or transitions; train the model "
            f"without constraints."
        )
    state, transitions, edges = np.split(model.weights, [layout.n_state, layout.n_state + layout.n_labels**2])
    square = layout.n_labels, layout.n_labels
    attribute = np.repeat(np.arange(layout.n_attributes), np.diff(layout.features.begin))
    empty = vocabulary.edge_attributes is None
    return Exported(
        vocabulary,
        _encoded(vocabulary.labels, "label", program, encoding),
        _encoded(vocabulary.attributes.to_pylist(), "attribute", program, encoding),
        [] if empty else _encoded(vocabulary.edge_attributes.to_pylist(), "edge attribute", program, encoding),
        StateWeights(attribute, layout.features.label.astype(np.int64), state),
        transitions.reshape(square),
        edges.reshape(-1, *square),
    )


def _encoded(names: Sequence[str], kind: str, program: str, encoding: str) -> list[bytes]:
    found = []
    for name in names:
        try:
            found.append(name.encode(encoding))
        except UnicodeEncodeError:
            raise ChainfoldError(f"{kind} {spelt(name)!r} cannot be written as {encoding}; set `encoding`.") from None
        if b"\0" in found[-1]:
            raise ChainfoldError(f"{kind} {spelt(name)!r} cannot be written for {program}: it contains a NUL.")
    return found


def written_weights(weights: Floats) -> NDArray[np.bool_]:
    """Which weights of pairs need to be written: all but a plain zero, which a missing weight is."""
    bits: NDArray[np.bool_] = np.ascontiguousarray(weights).view(np.int64) != 0
    return bits
