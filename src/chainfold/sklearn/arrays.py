"""Arrays of numbers as input: a row for each position, a column for each attribute.

A sequence is a NumPy array of two dimensions or a SciPy sparse matrix. Attributes are the columns, named by their
numbers from 0; entries that are zero are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from chainfold.chain.builder import Census
from chainfold.chain.chain import Chain
from chainfold.chain.matrix import chain_from_matrix
from chainfold.chain.vocabulary import Vocabulary, label_name
from chainfold.errors import BadChain, BadSetting, EmptyChain


def is_list(inputs: Any) -> bool:
    """Whether elements can be looked at before they are read; iterators may give them once."""
    sized = hasattr(inputs, "__len__") and hasattr(inputs, "__getitem__")
    return sized and isinstance(inputs, Iterable) and not isinstance(inputs, (str, bytes, Mapping))


def are_arrays(inputs: Any) -> bool:
    """Whether this is a list of arrays."""
    return is_list(inputs) and _is_array(next(iter(inputs), None))


def _is_array(sequence: Any) -> bool:
    if hasattr(sequence, "tocsr"):
        return True
    return isinstance(sequence, np.ndarray) and sequence.ndim == 2 and sequence.dtype.kind in "iufb"


def cut(values: Any, lengths: Any, name: str) -> list[Any]:
    """One long array or list in sequences of these lengths."""
    sizes = np.asarray(lengths)
    whole = values.tocsr() if hasattr(values, "tocsr") else values
    rows = whole.shape[0] if hasattr(whole, "shape") else len(whole)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any():
        raise BadSetting("lengths", lengths, "a list with the number of rows of each sequence")
    if int(sizes.sum()) != rows:
        raise BadChain(f"the sum of lengths is {int(sizes.sum())}, but {name} has {rows} rows; they have to agree.")
    ends = np.cumsum(sizes).tolist()
    return [whole[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def chain_of_arrays(arrays: Iterable[Any], labels: Iterable[Any] | None, n_features: int | None = None) -> Chain:
    """The arrays as a chain whose attributes are named by the columns.

    labels       a list or an array of labels for each array
    n_features   how many columns there have to be

    Raises `BadChain` where shapes do not fit, and `EmptyChain` where there are no rows.
    """
    sequences = list(arrays)
    for number, sequence in enumerate(sequences):
        if not _is_array(sequence):
            raise BadChain(f"sequence {number} is no array of numbers with two dimensions, but sequence 0 is one.")
    width = sequences[0].shape[1] if n_features is None else n_features
    for number, sequence in enumerate(sequences):
        if sequence.shape[1] != width:
            other = "sequence 0" if n_features is None else "the training data"
            raise BadChain(f"sequence {number} has {sequence.shape[1]} columns, but {other} had {width}.")
    lengths = [sequence.shape[0] for sequence in sequences]
    if not sum(lengths):
        raise EmptyChain
    names, numbers = ((), None) if labels is None else _numbers(labels, lengths)
    starts = np.zeros(sum(lengths), np.bool_)
    starts[[end - length for end, length in zip(np.cumsum(lengths).tolist(), lengths, strict=True) if length]] = True
    chain = chain_from_matrix(_stacked(sequences), numbers, starts=starts, n_labels=max(1, len(names)))
    census = Census()
    census.add(chain.labels, chain.offsets, chain.ids, width, chain.n_labels)
    counts, marks = census.totals(width)
    columns = pa.array(list(map(str, range(width))), pa.large_string())
    return chain.with_vocabulary(Vocabulary(names, columns, pa.array([], pa.large_string()), counts, marks))


def _stacked(sequences: list[Any]) -> Any:
    """All rows in one matrix."""
    if any(hasattr(sequence, "tocsr") for sequence in sequences):
        from scipy import sparse  # whoever has sparse matrices has SciPy

        return sparse.vstack([sparse.csr_matrix(sequence) for sequence in sequences], format="csr")
    return np.concatenate(sequences)


def _numbers(labels: Iterable[Any], lengths: list[int]) -> tuple[tuple[str, ...], Any]:
    """The names of the labels in order of first appearance, and the number of each position's label."""
    given = [sequence.tolist() if isinstance(sequence, np.ndarray) else list(sequence) for sequence in labels]
    if len(given) != len(lengths):
        raise BadChain(f"there are {len(lengths)} sequences, but {len(given)} sequences of labels.")
    for number, (sequence, length) in enumerate(zip(given, lengths, strict=True)):
        if len(sequence) != length:
            raise BadChain(f"sequence {number} has {length} rows, but {len(sequence)} labels.")
    texts = [label_name(label) for sequence in given for label in sequence]
    number_of = {text: number for number, text in enumerate(dict.fromkeys(text for text in texts if text is not None))}
    return tuple(number_of), np.array([-1 if text is None else number_of[text] for text in texts], np.int32)
