"""The meaning of the numbers of a chain: names of labels and attributes, how often each occurs, with which labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MARKS = 64  # labels in a word of marks
_BITS_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The names of a chain's numbers: `Chain.vocabulary`, `StoredChain.vocabulary` and `Model.vocabulary`.

    It is made while a chain is encoded, and stored with it.

    >>> from chainfold import chain_from_sequences
    >>> chain = chain_from_sequences([[["a"], ["b"]]], [["X", "Y"]])
    >>> chain.vocabulary.labels, chain.vocabulary.attributes.to_pylist()
    (('X', 'Y'), ['a', 'b'])
    """

    labels: tuple[str, ...]
    attributes: Any  # Arrow large_string array by id; None where attributes have no names, because they are hashed
    edge_attributes: Any  # likewise, but empty where there are none
    counts: NDArray[np.int64]  # [n_attributes]: entries of each attribute
    marks: NDArray[np.uint64]  # [n_attributes, words]: bit j % 64 of word j // 64 is set if it occurs with label j
    hash_bits: int | None = None
    min_count: int = 1
    label: str | None = None  # the column that the labels came from
    template: str | None = None  # the template with its fitted numbers, as JSON; None where attributes came as such
    columns: str | None = None  # the columns that all of it came from, as JSON; None where it came from none

    @property
    def kind(self) -> str:
        """The kind of its attributes, in words; two vocabularies of different kinds cannot be compared."""
        if self.hash_bits is not None:
            return f"attributes hashed to {self.hash_bits} bits"
        return "attributes without names" if self.attributes is None else "attributes with names"

    def same_numbers(self, other: Vocabulary) -> bool:
        """Whether both give the same numbers to the same labels and attributes, as far as is known."""
        if self is other:
            return True
        same = (self.labels, self.hash_bits, self.template) == (other.labels, other.hash_bits, other.template)
        return same and all(
            names is others or (names is not None and others is not None and names.equals(others))
            for names, others in (
                (self.attributes, other.attributes),
                (self.edge_attributes, other.edge_attributes),
            )
        )

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The (attribute, label) pairs that occur: labels[offsets[a] : offsets[a + 1]] are those of attribute a."""
        size, words = self.marks.shape
        counts = np.bitwise_count(self.marks).sum(axis=1, dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        labels = np.empty(int(offsets[-1]), np.int32)
        rows = max(1, _BITS_AT_ONCE // (MARKS * max(words, 1)))
        for low in range(0, size, rows):
            marks = np.ascontiguousarray(self.marks[low : low + rows], "<u8")
            bits = np.unpackbits(marks.view(np.uint8), axis=1, bitorder="little")
            labels[offsets[low] : offsets[min(low + rows, size)]] = np.nonzero(bits)[1]
        return offsets, labels


def characters(value: Any) -> Any:
    """The characters of a text, whatever its class, or of bytes; any other value as it is."""
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")
    return str.__str__(value) if isinstance(value, str) else value


def label_name(label: Any) -> str | None:
    """The name of a label; None for None and NaN, which stand for an unknown one."""
    if label is None or (isinstance(label, float) and math.isnan(label)):
        return None
    return str(characters(label))


def label_names(vocabulary: Vocabulary | None, n_labels: int) -> tuple[str, ...]:
    """The names of the labels; their numbers, where there is no vocabulary."""
    return tuple(map(str, range(n_labels))) if vocabulary is None else vocabulary.labels


def names_of(names: Any, numbers: NDArray[Any], kind: str) -> list[str]:
    """The names of some attributes, or words for those that have none."""
    if names is None:
        return [f"{kind} {number}" for number in numbers.tolist()]
    some: list[str] = names.take(numbers).to_pylist()
    return some
