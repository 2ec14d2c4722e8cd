"""Small tables for tests, and attributes made the plain way: one Python string at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from chainfold.chain.chain import Chain, gather
from chainfold.features.encoder import spooled
from chainfold.features.schema import Schema
from chainfold.features.spec import InputSpec
from chainfold.readers.columns import SYMBOL, Stretch

Sentences = Sequence[Sequence[tuple[str, ...]]]


def stretches(sentences: Sentences, columns: Sequence[str], size: int = 1000) -> Iterator[Stretch]:
    """Sentences of rows of texts, cut into stretches of at most `size` rows."""
    rows = [row for sentence in sentences for row in sentence]
    starts = np.array([place == 0 for sentence in sentences for place in range(len(sentence))])
    for low in range(0, len(rows), size):
        part = rows[low : low + size]
        batch = {
            name: pa.array([row[k] for row in part], pa.string()).dictionary_encode().cast(SYMBOL)
            for k, name in enumerate(columns)
        }
        lines = np.arange(low + 1, low + len(part) + 1)
        yield Stretch(pa.RecordBatch.from_pydict(batch), starts[low : low + size], lines, "rows")


def encoded(sentences: Sentences, columns: Sequence[str], spec: InputSpec, size: int = 1000) -> Chain:
    """The chain of some sentences, in memory."""
    with spooled(stretches(sentences, columns, size), partial(Schema.of, spec)) as source:
        return gather(source)


def attributes_of(chain: Chain, edge: bool = False) -> list[list[str]]:
    """The names of the attributes at each position."""
    assert chain.vocabulary is not None
    names: Any = (chain.vocabulary.edge_attributes if edge else chain.vocabulary.attributes).to_pylist()
    offsets, ids = (chain.edge_offsets, chain.edge_ids) if edge else (chain.offsets, chain.ids)
    return [[names[k] for k in ids[offsets[t] : offsets[t + 1]]] for t in range(chain.positions)]


CHUNKING = [
    *[[("w", k)] for k in (-2, -1, 0, 1, 2)],
    [("w", -1), ("w", 0)],
    [("w", 0), ("w", 1)],
    *[[("pos", k)] for k in (-2, -1, 0, 1, 2)],
    *[[("pos", k), ("pos", k + 1)] for k in (-2, -1, 0, 1)],
    *[[("pos", k), ("pos", k + 1), ("pos", k + 2)] for k in (-2, -1, 0)],
]
"""The 19 attributes of CRFsuite's chunking example."""

CHUNKING_EXPRESSIONS = " ".join("|".join(f"{name}[{k}]" for name, k in parts) for parts in CHUNKING)


def chunking_attributes(sentence: Sequence[tuple[str, ...]]) -> list[set[str]]:
    """The same by a plain loop over one sentence of (word, part of speech, …)."""
    column = {"w": 0, "pos": 1}
    found = []
    for t in range(len(sentence)):
        here = set()
        for parts in CHUNKING:
            if all(0 <= t + k < len(sentence) for _, k in parts):
                name = "|".join(f"{name}[{k}]" for name, k in parts)
                here.add(f"{name}=" + "|".join(sentence[t + k][column[name]] for name, k in parts))
        if t == 0:
            here.add("__BOS__")
        if t == len(sentence) - 1:
            here.add("__EOS__")
        found.append(here)
    return found
