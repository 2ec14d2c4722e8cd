"""The inputs of an estimator, to train on or to label, as a chain or as blocks.

An input is one of

    sequences   lists of items, as `chain_from_sequences` takes them; any iterable, read once; their labels beside them
    arrays      a NumPy array or a SciPy matrix for each sequence, a row for each position; their labels beside them
    sentences   lists of tokens with their labels beside them, or mappings with a list of tokens and one of labels
    files       a `pathlib.Path` or several, which may be patterns, or open files; or the path of a stored chain
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

from chainfold.chain.any_chain import is_chain, open_chain
from chainfold.chain.block import KnownBlock, Source, checked_weights, vocabulary_of
from chainfold.chain.chain import Chain, gather
from chainfold.chain.renumbered import Renumbered, grown_chain
from chainfold.chain.views import WeightedView
from chainfold.chain.vocabulary import Vocabulary, label_name
from chainfold.errors import ChainfoldError, EmptyChain
from chainfold.features.encode import chain_from_sequences, chain_from_table, encode
from chainfold.features.for_model import blocks_for_model, extended_chain, extended_sequences
from chainfold.features.item_blocks import blocks_of_items, extended_items, lists_of_columns, made_of_columns
from chainfold.features.row_columns import symbols
from chainfold.inference.tagger import BLOCK, blocks_of
from chainfold.readers.sequences import KEPT
from chainfold.readers.tables import is_lazy
from chainfold.sklearn.arrays import are_arrays, chain_of_arrays, cut, is_list
from chainfold.sklearn.sentences import are_sentences, chain_of_sentences, labels_of
from chainfold.system.files import temporary_directory
from chainfold.training.loop import Development

_READING = ("format", "encoding")  # options of `encode` that matter again, and that no vocabulary keeps

_BESIDE = ("sequences", "arrays", "sentences")  # kinds of input with their labels beside them

Encoding = Mapping[str, Any]  # options of `encode`


class Lengths:
    """Counts the items of sequences as they go by, so that empty ones are not lost."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def noting(self, sequences: Any) -> Any:
        """The same sequences."""
        if isinstance(sequences, KEPT) and all(isinstance(items, Sized) for items in sequences):
            self.counts.extend(map(count_of, sequences))
            return sequences
        return self._noting(sequences) if isinstance(sequences, Iterable) else sequences

    def _noting(self, sequences: Iterable[Any]) -> Iterator[Any]:
        for items in sequences:
            self.counts.append(count_of(items) if isinstance(items, Sized) else 0)
            once = isinstance(items, Iterable) and not isinstance(items, Sized)
            yield self._counted(items) if once else items

    def _counted(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self.counts[-1] += 1
            yield item


def count_of(items: Any) -> int:
    """The items of a sequence: the rows of an array or of columns, the elements of anything else."""
    if isinstance(items, Mapping):
        return max(map(len, lists_of_columns(items, 0).values()), default=0)
    return int(items.shape[0]) if hasattr(items, "shape") else len(items)


@dataclass(frozen=True)
class Feed:
    """Blocks with the numbers of a model."""

    blocks: Iterable[KnownBlock]
    lengths: Lengths | None = None  # of sequences, some of which may be empty; None where none can be


def in_sequences(inputs: Any, labels: Any, lengths: Any) -> tuple[Any, Any]:
    """Inputs and labels by sequence, if they are one after another with lengths."""
    if lengths is None:
        return inputs, labels
    return cut(inputs, lengths, "X"), None if labels is None else cut(labels, lengths, "y")


def with_labels(inputs: Any, labels: Any, encoding: Encoding) -> Any:
    """The labels, taken out of sentences that are mappings where none are given."""
    if labels is None and _kind(inputs, None) == "sentences":
        return labels_of(inputs, encoding.get("label"))
    return labels


def label_texts(labels: Iterable[Any], vocabulary: Vocabulary) -> list[str]:
    """The names that labels have in a vocabulary."""
    if not made_of_columns(vocabulary):
        return [name for name in map(label_name, labels) if name is not None]
    spelled: list[str] = symbols(list(labels)).to_pylist()
    return spelled


@contextmanager
def learnable(inputs: Any, labels: Any, weights: Any, encoding: Encoding) -> Iterator[Source]:
    """A source to be read as often as needed, its sequences weighted; files are encoded into a temporary one."""
    kind = _kind(inputs, labels)
    if kind in _BESIDE:
        yield _chain_beside(kind, inputs, labels, weights, encoding)
        return
    with temporary_directory() as folder:
        source: Source | None = _source(inputs, kind)
        if source is None and kind == "files":
            source = encode(inputs, folder / "chain", **encoding)
        elif source is None:
            source = chain_from_table(inputs, **encoding)
        yield source if weights is None else WeightedView(source, _of_positions(weights, lengths_of(source)))


def further(
    inputs: Any,
    labels: Any,
    weights: Any,
    vocabulary: Vocabulary | None,
    encoding: Encoding,
    n_features: int | None = None,
) -> Chain:
    """A chain in memory that continues the numbers of a vocabulary, or has its own where there is none.

    n_features   the columns of the arrays that the model was trained on, if it was
    """
    kind = _kind(inputs, labels)
    if vocabulary is None and kind in _BESIDE:
        return _chain_beside(kind, inputs, labels, weights, encoding)
    if vocabulary is not None and kind == "arrays":
        return _weighted(grown_chain(_array_chain(inputs, _needed(labels), n_features), vocabulary), weights, inputs)
    if vocabulary is not None and kind in _BESIDE:
        if kind == "sequences" and not made_of_columns(vocabulary):
            with extended_sequences(inputs, _needed(labels), vocabulary, weights) as spooled:
                return gather(spooled)
        lengths = Lengths()
        with extended_items(lengths.noting(inputs), _needed(labels), vocabulary) as spooled:
            return _weighted(gather(spooled), weights, lengths)
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


def _weighted(chain: Chain, weights: Any, of: Lengths | Iterable[Any]) -> Chain:
    """The chain of some sequences, which may be empty, with a weight for each."""
    if weights is None:
        return chain
    lengths = of.counts if isinstance(of, Lengths) else list(map(count_of, of))
    return replace(chain, weights=_of_positions(weights, lengths))


def _chain_beside(kind: str, inputs: Any, labels: Any, weights: Any, encoding: Encoding) -> Chain:
    """Sequences, arrays or sentences with their labels beside them, with numbers of their own."""
    if kind == "sentences":
        return _weighted(chain_of_sentences(inputs, _needed(labels), encoding), weights, inputs)
    for name in encoding:
        if kind == "arrays":
            parameter = "min_freq" if name == "min_count" else name
            raise ChainfoldError(f"`{parameter}` does not apply to arrays, whose attributes are their columns.")
        if name not in ("min_count", "hash_bits"):
            raise ChainfoldError(f"`{name}` applies only to files and tables; leave it out for sequences.")
    if kind == "arrays":
        return _weighted(chain_of_arrays(inputs, _needed(labels)), weights, inputs)
    return chain_from_sequences(inputs, _needed(labels), weights=weights, **encoding)


def known(
    inputs: Any, labels: Any, vocabulary: Vocabulary | None, encoding: Encoding, n_features: int | None = None
) -> Feed:
    """Blocks with the numbers of a vocabulary, or with their own where there is none.

    n_features   the columns of the arrays that the model was trained on, if it was
    """
    kind = _kind(inputs, labels)
    source = _source(inputs, kind)
    if source is not None:
        return Feed(_known_source(source, vocabulary))
    if vocabulary is None:
        raise ChainfoldError("the model knows labels and attributes by number alone; give it a chain of such numbers.")
    if kind in ("files", "table"):
        return Feed(blocks_for_model(inputs, vocabulary, **_reading(encoding)))
    lengths = Lengths()
    try:
        if kind == "arrays":
            inputs = list(inputs)
            lengths.counts = list(map(count_of, inputs))
            return Feed(_known_source(_array_chain(inputs, labels, n_features), vocabulary), lengths)
        return Feed(blocks_of_items(lengths.noting(inputs), labels, vocabulary), lengths)
    except EmptyChain:
        return Feed((), lengths)


def _array_chain(arrays: Any, labels: Any, n_features: int | None) -> Chain:
    """Arrays for a model that was trained on such."""
    if n_features is None:
        raise ChainfoldError("the model was not trained on arrays; give it the kind of input that it was trained on.")
    return chain_of_arrays(arrays, labels, n_features)


def development(inputs: Any, labels: Any, like: Source, encoding: Encoding) -> Development:
    """A development set with the numbers of a source, in memory."""
    feed = known(inputs, labels, vocabulary_of(like), encoding, like.n_attributes)
    return Development.of_blocks(feed.blocks, like)


def lengths_of(source: Source) -> list[int]:
    """The lengths of its sequences."""
    low, begins = 0, []
    for block in blocks_of(source):
        begins.append(low + np.flatnonzero(block.starts))
        low += block.labels.size
    lengths: list[int] = np.diff(np.concatenate([*begins, [low]])).tolist()
    return lengths


def _of_positions(weights: ArrayLike, lengths: list[int]) -> NDArray[np.float64]:
    """A weight for each position, that of its sequence."""
    return np.repeat(checked_weights(weights, "sequence", len(lengths)), lengths)


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
    """Sequences, arrays, sentences, or files, a table or a source, which have labels in them."""
    if callable(getattr(inputs, "block", None)):
        kind = "source"
    elif _is_file(inputs) or (isinstance(inputs, (list, tuple)) and inputs and all(map(_is_file, inputs))):
        kind = "files"
    elif _is_table(inputs):
        kind = "table"
    else:
        check_no_text(inputs)
        return "arrays" if are_arrays(inputs) else "sentences" if are_sentences(inputs) else "sequences"
    if labels is not None:
        remedy = ", or give `lengths` if X is the rows of all sequences" if kind == "table" else ""
        raise ChainfoldError(f"files, tables and chains contain their labels; leave out `y`{remedy}.")
    return kind


def check_no_text(inputs: Any) -> None:
    """Raise for a text and for a flat list of texts: neither sequences of items nor paths of files."""
    first = next(iter(inputs), None) if is_list(inputs) else inputs
    if isinstance(first, str):
        raise ChainfoldError(
            'X is a text or a flat list of texts; give a list of sequences, such as [["cat", "abc"]], and files as '
            "pathlib.Path."
        )


def _is_file(one: Any) -> bool:
    return isinstance(one, Path) or callable(getattr(one, "read", None))


def _is_table(inputs: Any) -> bool:
    if isinstance(inputs, np.ndarray):
        first = inputs.flat[0] if inputs.dtype == object and inputs.size else ""
        items = isinstance(first, Iterable) and not isinstance(first, str)
        return inputs.dtype.names is not None or (inputs.ndim == 2 and not items)
    if is_lazy(inputs):
        return True
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
