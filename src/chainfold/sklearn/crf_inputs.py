"""The inputs of an estimator, to train on or to label, as a chain or as blocks.

An input is one of

    sequences   lists of items, as `chain_from_sequences` takes them; any iterable, read once; their labels beside them
    files       paths, globs or open files, as `encode` takes them; or the path of a stored chain
    a table     of Arrow, pandas, polars or NumPy
    a source    a chain in memory, a stored one, or anything else that gives blocks

and is used in one of three ways:

    learnable   a source from which a model is trained
    further     a chain that continues the numbers of a model, so that it can grow
    known       blocks with the numbers of a model, to be labelled
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chainfold.chain.block import KnownBlock, Source, checked_weights, vocabulary_of
from chainfold.chain.chain import Chain, gather
from chainfold.chain.renumbered import Renumbered, grown_chain
from chainfold.chain.stored import is_chain, open_chain
from chainfold.chain.views import WeightedView
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadChain, ChainfoldError, EmptyChain
from chainfold.features.encode import chain_from_sequences, chain_from_table, encode
from chainfold.features.for_model import (
    blocks_for_model,
    extended_chain,
    extended_sequences,
    gather_blocks,
    sequences_for_model,
)
from chainfold.inference.tagger import BLOCK, blocks_of
from chainfold.readers.sequences import KEPT
from chainfold.system.files import temporary_directory
from chainfold.training.loop import Development

_READING = ("format", "encoding")  # options of `encode` that matter again, and that no vocabulary keeps

Encoding = Mapping[str, Any]  # options of `encode`


class Lengths:
    """Counts the items of sequences as they go by, so that empty ones are not lost."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def noting(self, sequences: Any) -> Any:
        """The same sequences."""
        if isinstance(sequences, KEPT) and all(isinstance(items, Sized) for items in sequences):
            self.counts.extend(map(len, sequences))
            return sequences
        return self._noting(sequences) if isinstance(sequences, Iterable) else sequences

    def _noting(self, sequences: Iterable[Any]) -> Iterator[Any]:
        for items in sequences:
            self.counts.append(len(items) if isinstance(items, Sized) else 0)
            once = isinstance(items, Iterable) and not isinstance(items, Sized)
            yield self._counted(items) if once else items

    def _counted(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self.counts[-1] += 1
            yield item


@dataclass(frozen=True)
class Feed:
    """Blocks with the numbers of a model."""

    blocks: Iterable[KnownBlock]
    lengths: Lengths | None = None  # of sequences, some of which may be empty; None where none can be


@contextmanager
def learnable(inputs: Any, labels: Any, weights: Any, encoding: Encoding) -> Iterator[Source]:
    """A source to be read as often as needed; files are encoded into a temporary one.

    Weights are those of the sequences or, where there is a chain already, of the positions.
    """
    kind = _kind(inputs, labels)
    if kind == "sequences":
        yield _chain_of(inputs, labels, weights, encoding)
        return
    with temporary_directory() as folder:
        source: Source | None = _source(inputs, kind)
        if source is None and kind == "files":
            source = encode(inputs, folder / "chain", **encoding)
        elif source is None:
            source = chain_from_table(inputs, **encoding)
        yield source if weights is None else WeightedView(source, _of_positions(weights, lengths_of(source)))


def further(inputs: Any, labels: Any, weights: Any, vocabulary: Vocabulary | None, encoding: Encoding) -> Chain:
    """A chain in memory that continues the numbers of a vocabulary, or has its own where there is none."""
    kind = _kind(inputs, labels)
    if kind == "sequences":
        if vocabulary is None:
            return _chain_of(inputs, labels, weights, encoding)
        with extended_sequences(inputs, _needed(labels), vocabulary, weights) as spooled:
            return gather(spooled)
    source = _source(inputs, kind)
    if source is not None:
        if vocabulary_of(source) is None:
            raise ChainfoldError("a model grows by names, and this chain has none; give sequences, files or a table.")
        chain = gather(source) if vocabulary is None else grown_chain(source, vocabulary)
    elif vocabulary is None:
        chain = chain_from_table(inputs, **encoding)
    else:
        with extended_chain(inputs, vocabulary, labels=True, **_reading(encoding)) as spooled:
            chain = gather(spooled)
    return chain if weights is None else replace(chain, weights=_of_positions(weights, lengths_of(chain)))


def known(inputs: Any, labels: Any, vocabulary: Vocabulary | None, encoding: Encoding) -> Feed:
    """Blocks with the numbers of a vocabulary, or with their own where there is none."""
    kind = _kind(inputs, labels)
    source = _source(inputs, kind)
    if source is not None:
        return Feed(_known_source(source, vocabulary))
    if vocabulary is None:
        raise ChainfoldError("the model knows labels and attributes by number alone; give it a chain of such numbers.")
    if kind != "sequences":
        return Feed(blocks_for_model(inputs, vocabulary, **_reading(encoding)))
    lengths = Lengths()
    try:
        return Feed(sequences_for_model(lengths.noting(inputs), labels, vocabulary), lengths)
    except EmptyChain:
        return Feed((), lengths)


def development(inputs: Any, labels: Any, like: Source, encoding: Encoding) -> Development:
    """A development set with the numbers of a source, in memory."""
    feed = known(inputs, labels, vocabulary_of(like), encoding)
    blocks = list(feed.blocks)
    if not blocks:
        raise ChainfoldError("the development set has no positions; give it at least one.")
    gold = np.concatenate([one.gold for one in blocks])
    unseen = max(0, int(gold.max()) + 1 - like.n_labels)
    return Development(gather_blocks(blocks, like), gold, tuple(f"(unseen {k + 1})" for k in range(unseen)))


def lengths_of(source: Source) -> list[int]:
    """The lengths of its sequences."""
    low, begins = 0, []
    for block in blocks_of(source):
        begins.append(low + np.flatnonzero(block.starts))
        low += block.labels.size
    lengths: list[int] = np.diff(np.concatenate([*begins, [low]])).tolist()
    return lengths


def _of_positions(weights: ArrayLike, lengths: list[int]) -> NDArray[np.float64]:
    """A weight for each position, given one for each or one for each sequence."""
    given, positions = np.asarray(weights), sum(lengths)
    if given.shape not in ((len(lengths),), (positions,)):
        raise BadChain(
            f"there are {given.size} sample weights, but {len(lengths)} sequences with {positions} positions; give one "
            f"for each of either."
        )
    return checked_weights(np.repeat(given, lengths) if given.size == len(lengths) else given, positions)


def _chain_of(sequences: Any, labels: Any, weights: Any, encoding: Encoding) -> Chain:
    for name in encoding.keys() - {"min_count", "hash_bits"}:
        raise ChainfoldError(f"{name} says how files and tables are encoded; it means nothing to sequences of items.")
    min_count, hash_bits = encoding.get("min_count", 1), encoding.get("hash_bits")
    return chain_from_sequences(sequences, _needed(labels), weights=weights, min_count=min_count, hash_bits=hash_bits)


def _needed(labels: Any) -> Any:
    if labels is None:
        raise ChainfoldError("training on sequences requires their labels; give them as y.")
    return labels


def _known_source(source: Source, vocabulary: Vocabulary | None) -> Iterable[KnownBlock]:
    if vocabulary is None or vocabulary_of(source) is None:
        return (KnownBlock(block, block.labels) for block in blocks_of(source))
    same = Renumbered(source, vocabulary)
    return (same.known(low, min(low + BLOCK, same.positions)) for low in range(0, same.positions, BLOCK))


def _reading(encoding: Encoding) -> Any:
    return {name: encoding[name] for name in _READING if name in encoding}


def _kind(inputs: Any, labels: Any) -> str:
    """What an input is: sequences, files, table or source. All but the first have their labels in them."""
    if callable(getattr(inputs, "block", None)):
        kind = "source"
    elif _is_file(inputs) or (isinstance(inputs, (list, tuple)) and inputs and all(map(_is_file, inputs))):
        kind = "files"
    elif _is_table(inputs):
        kind = "table"
    else:
        return "sequences"
    if labels is not None:
        raise ChainfoldError("labels stand in files, tables and chains themselves; leave y out.")
    return kind


def _is_file(one: Any) -> bool:
    return isinstance(one, (str, Path)) or callable(getattr(one, "read", None))


def _is_table(inputs: Any) -> bool:
    if isinstance(inputs, np.ndarray):
        first = inputs.flat[0] if inputs.dtype == object and inputs.size else ""
        items = isinstance(first, Iterable) and not isinstance(first, str)
        return inputs.dtype.names is not None or (inputs.ndim == 2 and not items)
    arrow = hasattr(inputs, "__arrow_c_stream__") or hasattr(inputs, "__arrow_c_array__")
    return arrow and len(getattr(inputs, "shape", (0, 0))) == 2


def _source(inputs: Any, kind: str) -> Source | None:
    """The source that an input is, or the stored chain that it names."""
    if kind == "source":
        source: Source = inputs
        return source
    if kind == "files" and is_chain(inputs):
        return open_chain(inputs[0] if isinstance(inputs, (list, tuple)) else inputs)
    return None
