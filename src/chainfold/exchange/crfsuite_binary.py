"""CRFsuite's binary models, as python-crfsuite and sklearn-crfsuite write and read them.

All numbers are little-endian; offsets are u32, and count from the beginning of the file:

    lCRF, size, FOMC, 100, 0, labels, attributes, offsets of FEAT, labels, attributes, LFRF and AFRF      the head
    FEAT, size, count, then for each weight: u32 type, u32 source, u32 target, f64 weight
    two CQDBs, of labels and of attributes (see `cqdb`)
    LFRF, AFRF: size, count, an offset for each label (and two more) or attribute, where a count and the numbers of its
    weights stand

A weight of type 0 is that of attribute `source` with label `target`, one of type 1 that of the transition from label
`source` to label `target`. A transition without a weight has weight 0. LFRF and AFRF repeat what FEAT says, for
CRFsuite to find the weights of an attribute; they are written, and not read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from chainfold.errors import ChainfoldError
from chainfold.exchange.cqdb import database_of, read_names
from chainfold.exchange.foreign import StateWeights, decoded, exported, model_of, no_pairs, written_weights
from chainfold.model.model import Model
from chainfold.system.validate import need

PROGRAM, MAGIC = "CRFsuite", b"lCRF"
_TYPE, _VERSION = b"FOMC", 100
_HEAD, _CHUNK = struct.Struct("<4sI4s9I"), struct.Struct("<4s2I")
_FEATURES, _OF_LABELS, _OF_ATTRIBUTES = b"FEAT", b"LFRF", b"AFRF"
_RECORD = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_STATE, _TRANSITION = 0, 1
_MARKS = 2  # entries of LFRF beyond the labels, for the begin and the end of sequences; they have no weights
_MOST = 2**32 - 1  # bytes of a file


def read(content: bytes, encoding: str) -> Model:
    """The model that a file contains."""
    data = memoryview(content)
    need(len(data) >= _HEAD.size, "it is cut short")
    magic, size, kind, version, _, n_labels, n_attributes, *offsets = _HEAD.unpack_from(data)
    need(magic == MAGIC and kind == _TYPE, "it is no first-order model")
    need(version == _VERSION, f"its version is {version}, and only {_VERSION} is known")
    need(size == len(data), f"it has {len(data)} bytes, but should have {size}")
    features = _features(data, offsets[0])
    for at, chunk in zip(offsets[3:], (_OF_LABELS, _OF_ATTRIBUTES), strict=True):
        need(at + _CHUNK.size <= size and data[at : at + 4] == chunk, f"its table {chunk.decode()} is missing")
    labels = decoded(read_names(data, offsets[1], n_labels, "labels"), "label", encoding)
    attributes = decoded(read_names(data, offsets[2], n_attributes, "attributes"), "attribute", encoding)
    state, transition = (features[features["type"] == kind] for kind in (_STATE, _TRANSITION))
    need(state.size + transition.size == features.size, "it has weights of an unknown type")
    for part, sources in ((state, n_attributes), (transition, n_labels)):
        need(part["source"].max(initial=0) < max(sources, 1) or not part.size, "it has weights of unknown attributes")
        need(part["target"].max(initial=0) < n_labels, "it has weights of unknown labels")
    pairs = no_pairs(n_labels, 0, size)
    place = transition["source"].astype(np.int64) * n_labels + transition["target"]
    need(np.unique(place).size == place.size, "a transition has two weights")
    pairs.ravel()[place] = transition["weight"]
    of_attributes = StateWeights(state["source"].astype(np.int64), state["target"].astype(np.int64), state["weight"])
    return model_of(PROGRAM, labels, attributes, [], of_attributes, pairs)


def _features(data: memoryview, at: int) -> NDArray[np.void]:
    need(at + _CHUNK.size <= len(data), "its weights lie beyond its end")
    chunk, _, count = _CHUNK.unpack_from(data, at)
    need(chunk == _FEATURES, "its weights are missing")
    begin = at + _CHUNK.size
    need(begin + count * _RECORD.itemsize <= len(data), "its weights lie beyond its end")
    return np.frombuffer(data, _RECORD, count, begin)


def write(model: Model, encoding: str) -> Iterator[bytes]:
    """The file of a model, in parts."""
    what = exported(model, PROGRAM, encoding)
    if what.edges.size:
        raise ChainfoldError(
            f"the model cannot be written for {PROGRAM}, which has no attributes of pairs of labels; this model has "
            f"{len(what.edges)}."
        )
    n_labels, n_attributes, n_state = len(what.labels), len(what.attributes), what.state.weight.size
    source, target = np.nonzero(written_weights(what.transitions))
    features = np.zeros(n_state + source.size, _RECORD)
    for begin, kind, part in (
        (0, _STATE, what.state),
        (n_state, _TRANSITION, StateWeights(source, target, what.transitions[source, target])),
    ):
        rows = features[begin : begin + part.weight.size]
        rows["type"], rows["source"], rows["target"], rows["weight"] = kind, *part
    weights = _CHUNK.pack(_FEATURES, _CHUNK.size + features.nbytes, features.size) + features.tobytes()
    parts = [weights, database_of(what.labels), database_of(what.attributes)]
    offsets = (_HEAD.size + np.cumsum([0, *map(len, parts)])).tolist()
    parts.append(bytes(-offsets[3] % 4))
    offsets[3] += len(parts[-1])
    per_label = np.bincount(source, minlength=n_labels + _MARKS)
    per_attribute = np.bincount(what.state.attribute, minlength=n_attributes)
    parts.append(_references(_OF_LABELS, offsets[3], per_label, n_state))
    offsets.append(offsets[3] + len(parts[-1]))
    parts.append(_references(_OF_ATTRIBUTES, offsets[4], per_attribute, 0))
    size = _HEAD.size + sum(map(len, parts))
    if size > _MOST:
        raise ChainfoldError(f"the model cannot be written for {PROGRAM}, whose files have at most {_MOST:,} bytes.")
    yield _HEAD.pack(MAGIC, size, _TYPE, _VERSION, 0, n_labels, n_attributes, *offsets)
    yield from parts


def _references(chunk: bytes, at: int, counts: NDArray[np.int64], first: int) -> bytes:
    """For each source of weights how many it has, and their numbers: those after the ones of the source before it."""
    begins = _CHUNK.size + 4 * counts.size + np.concatenate([[0], np.cumsum(4 + 4 * counts)])
    body = np.empty(int(begins[-1] - begins[0]) // 4, "<u4")
    heads = (begins[:-1] - begins[0]) // 4
    numbers = np.ones(body.size, np.bool_)
    numbers[heads] = False
    body[heads], body[numbers] = counts, first + np.arange(int(counts.sum()))
    offsets = at + begins[:-1]
    head = _CHUNK.pack(chunk, min(int(begins[-1]), _MOST), counts.size)
    return b"".join([head, np.minimum(offsets, _MOST).astype("<u4").tobytes(), body.tobytes()])
