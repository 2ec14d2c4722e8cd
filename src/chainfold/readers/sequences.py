"""Python's own objects as columns: sequences of items as sklearn-crfsuite takes them.

An item is a dict or a collection of strings. {"word": "the", "upper": False, "length": 3.0} has the attributes
`word:the` with value 1, `upper` with value 0 and `length` with value 3; a list or set under a key has one attribute for
each element, a dict under a key is taken apart in the same way, its names behind `key:`. Sequences come from any
iterable and are never held whole. A sequence may have a weight, which is that of each of its items.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.strings import StringTable
from chainfold.chain.vocabulary import characters, label_name
from chainfold.errors import BadChain
from chainfold.jit.objects import are_readable
from chainfold.readers.columns import ATTRIBUTES, LABEL, NUMBER, SYMBOL, VALUES_SUFFIX, WEIGHT, Stretch
from chainfold.readers.items import ItemReader, ItemTexts
from chainfold.readers.text import counted
from chainfold.system.validate import MOST_WEIGHT

_ROWS, _ENTRIES = 65536, 1 << 20  # of a stretch, at least
_ITEMS, _ATTRIBUTES = 4096, 1 << 17  # that are read at once
_SHOWN = 60  # characters of what is no sequence
KEPT = (list, tuple, np.ndarray)
"""Types that hold their sequences, rather than making them when they are asked for."""


def stretches_of(
    sequences: Iterable[Any], labels: Iterable[Any] | None, weights: Iterable[Any] | None = None
) -> Iterator[Stretch]:
    """Stretches with the columns `attributes`, their values, and `label` and `weight` if there are any."""
    building = _StretchBuilder(labels is not None, weights is not None)
    for part in parts_of(sequences, labels, weights):
        yield from building.add(part)
    yield from building.rest()


class ItemPart(NamedTuple):
    """Consecutive items; their texts are valid until the next part is made."""

    texts: ItemTexts
    starts: NDArray[np.bool_]
    labels: list[str | None]
    weights: NDArray[np.float64]


class _Sequence(NamedTuple):
    """A sequence of items with its number, its labels, None where there are none, and its weight."""

    number: int
    items: Any
    labels: Any
    weight: float


def parts_of(
    sequences: Iterable[Any], labels: Iterable[Any] | None, weights: Iterable[Any] | None = None
) -> Iterator[ItemPart]:
    """The items of all sequences; those of lists and tuples many at a time, if no code runs between them."""
    batch, kept = _Batch(), all(isinstance(each, (*KEPT, type(None))) for each in (sequences, labels, weights))
    try:
        for sequence in _sequences_of(sequences, labels, weights):
            listed = isinstance(sequence.labels, (list, tuple, type(None)))
            if not listed:
                yield from batch.parts()
            with_list = _with_list_of_labels(sequence)
            if not batch.take(with_list):
                yield from batch.parts()
                yield from _parts_one_by_one(with_list)
            elif batch.items >= _ITEMS or not (kept and listed):
                yield from batch.parts()
    except BadChain:
        yield from batch.parts()  # what is wrong in them comes first
        raise
    yield from batch.parts()


class _Batch:
    """Lists and tuples of items that are read together."""

    def __init__(self) -> None:
        self._reader = ItemReader(_ATTRIBUTES) if are_readable() else None
        self._sequences: list[_Sequence] = []
        self.items = 0

    def take(self, sequence: _Sequence) -> bool:
        """Add a sequence; False if its items have to be flattened one by one."""
        _, items, labels, _ = sequence
        if self._reader is None or type(items) not in (list, tuple):
            return False
        if labels is not None and type(labels) not in (list, tuple):
            return False
        held = tuple(items)  # another thread may change a list
        labels = None if labels is None else tuple(labels)
        if labels is not None and len(labels) != len(held):
            return False
        self._sequences.append(sequence._replace(items=held, labels=labels))
        self.items += len(held)
        return True

    def parts(self) -> Iterator[ItemPart]:
        """The items of the sequences, which the batch has no more."""
        sequences, reader, row = self._sequences, self._reader, 0
        self._sequences, self.items = [], 0
        if reader is None or not sequences:
            return
        reader.begin([sequence.items for sequence in sequences])
        starts, labels, weights = _of_each_item(sequences)
        gathered = _Gathered()
        while row < starts.size:
            texts = reader.read()
            if not texts.ends.size:
                number, place = reader.skip()
                gathered.flatten(sequences[number].items[place], sequences[number].number, place)
            elif gathered.items or texts.ends.size < starts.size - row:
                gathered.add(texts)
            high = row + (gathered.items or texts.ends.size)
            if high == starts.size or gathered.attributes >= _ATTRIBUTES:
                texts = gathered.texts() if gathered.items else texts
                yield ItemPart(texts, starts[row:high], labels[row:high], weights[row:high])
                row, gathered = high, _Gathered()


def _of_each_item(sequences: list[_Sequence]) -> tuple[NDArray[np.bool_], list[str | None], NDArray[np.float64]]:
    """Whether a sequence starts with each item, the label of each, and its weight."""
    lengths = np.array([len(sequence.items) for sequence in sequences], np.int64)
    starts = np.zeros(int(lengths.sum()), np.bool_)
    starts[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    labels: list[str | None] = [None] * starts.size
    if sequences[0].labels is not None:
        labels = list(chain.from_iterable(sequence.labels for sequence in sequences))
        if not set(map(type, labels)) <= {str}:
            labels = list(map(label_name, labels))
    return starts, labels, np.repeat(np.array([sequence.weight for sequence in sequences], np.float64), lengths)


def _with_list_of_labels(sequence: _Sequence) -> _Sequence:
    """With an iterator of labels as a list, if there is one for each item."""
    _, items, labels, _ = sequence
    if type(items) not in (list, tuple) or isinstance(labels, (list, tuple, str)) or not isinstance(labels, Iterable):
        return sequence
    each = iter(labels)
    first = list(islice(each, len(items) + 1))
    return sequence._replace(labels=first if len(first) == len(items) else chain(first, each))


def _parts_one_by_one(sequence: _Sequence) -> Iterator[ItemPart]:
    """The items of a sequence, flattened one by one."""
    gathered, labels, first = _Gathered(), list[str | None](), True
    for place, (item, label) in enumerate(_paired_items(sequence.items, sequence.labels, sequence.number)):
        gathered.flatten(item, sequence.number, place)
        labels.append(label_name(label))
        if len(labels) == _ITEMS:
            yield _part_of_one(sequence, gathered, labels, first)
            gathered, labels, first = _Gathered(), [], False
    yield _part_of_one(sequence, gathered, labels, first)


def _part_of_one(sequence: _Sequence, gathered: _Gathered, labels: list[str | None], first: bool) -> ItemPart:
    starts = np.zeros(len(labels), np.bool_)
    starts[:1] = first
    return ItemPart(gathered.texts(), starts, labels, np.full(len(labels), sequence.weight))


_NONE = object()


def _sequences_of(
    sequences: Iterable[Any], labels: Iterable[Any] | None, weights: Iterable[Any] | None
) -> Iterator[_Sequence]:
    each, theirs_each = _iterated(sequences, "the sequences"), _optional(labels, "the labels")
    rows = zip_longest(each, theirs_each, _optional(weights, "the weights"), fillvalue=_NONE)
    for index, (items, theirs, weight) in enumerate(rows):
        if items is _NONE and theirs is _NONE:
            raise BadChain(f"there are more weights than the {index} sequences.")
        if items is _NONE and labels is not None:
            raise BadChain(f"there are more sequences of labels than the {index} sequences of items.")
        if theirs is _NONE and labels is not None:
            raise BadChain(f"there are only {index} sequences of labels, but sequence {index} has items.")
        theirs = None if labels is None else theirs
        yield _Sequence(index, items, theirs, 1.0 if weights is None else _weight(weight, index))


def _weight(weight: Any, index: int) -> float:
    if weight is _NONE:
        raise BadChain(f"there are only {index} weights, but sequence {index} has items.")
    try:
        number = float(weight)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0.0 <= number <= MOST_WEIGHT:
        raise BadChain(f"the weight of sequence {index} is {weight!r}; give a number from 0 to {MOST_WEIGHT}.")
    return number


def _paired_items(items: Any, labels: Any, index: int) -> Iterator[tuple[Any, Any]]:
    """Each item of a sequence with its label, None where it is not known."""
    if isinstance(items, (str, Mapping)):
        raise BadChain(
            f"sequence {index} is {_shown(items)}; give a list of items for each sequence, and for one sequence a list "
            f"with it."
        )
    if isinstance(labels, str):
        raise BadChain(f"the labels of sequence {index} are {labels!r}; give a list of labels for each sequence.")
    each, theirs = _iterated(items, f"sequence {index}"), _optional(labels, f"the labels of sequence {index}")
    for place, (item, label) in enumerate(zip_longest(each, theirs, fillvalue=_NONE)):
        if labels is not None and (item is _NONE or label is _NONE):
            least, more, less = (place, "label", "item") if item is _NONE else (place, "item", "label")
            raise BadChain(f"sequence {index} has {counted(least, less)}, but more {more}s.")
        yield item, None if label is _NONE else label


def _optional(things: Any, what: str) -> Iterator[Any]:
    return iter(()) if things is None else _iterated(things, what)


def _iterated(things: Any, what: str) -> Iterator[Any]:
    if not isinstance(things, Iterable):
        raise BadChain(f"{what} cannot be {_shown(things)}, which is not iterable; give lists of lists.")
    return iter(things)


class _Gathered:
    """The attributes of items, one after another: those that were read, and those that are flattened here."""

    def __init__(self) -> None:
        self._texts: list[bytes] = []
        self._sizes: list[int] = []  # of the texts of attributes
        self._values: list[float] = []
        self._ends: list[int] = []  # the attributes up to each item

    def add(self, texts: ItemTexts) -> None:
        """Items that were read."""
        self._texts.append(texts.text[: texts.offsets[-1]].tobytes())
        self._ends += (texts.ends + self.attributes).tolist()
        self._sizes += np.diff(texts.offsets).tolist()
        self._values += texts.values.tolist()

    def flatten(self, item: Any, index: int, place: int) -> None:
        """An item, which stands at a place in a sequence of this number."""
        try:
            self._flatten("", item, index, place)
        except RecursionError:
            raise BadChain(f"item {place} of sequence {index} is nested too deeply, or contains itself.") from None
        self._ends.append(self.attributes)

    @property
    def items(self) -> int:
        """How many there are."""
        return len(self._ends)

    @property
    def attributes(self) -> int:
        """How many attributes they have."""
        return len(self._values)

    def texts(self) -> ItemTexts:
        """All of them."""
        return ItemTexts(
            np.frombuffer(b"".join(self._texts), np.uint8),
            np.cumsum([0, *self._sizes], dtype=np.int64),
            np.array(self._values, np.float64),
            np.array(self._ends, np.int64),
        )

    def _flatten(self, prefix: str, item: Any, index: int, place: int) -> None:
        if isinstance(item, (str, bytes)) or not isinstance(item, Iterable):
            raise BadChain(f"item {place} of sequence {index} is {item!r}; give a dict, or a list of strings.")
        if not isinstance(item, Mapping):
            for name in map(characters, item):
                if isinstance(name, Mapping):
                    raise BadChain(
                        f"item {place} of sequence {index} is a list of dicts; give a list of items for each sequence, "
                        f"each a dict or a list of strings."
                    )
                if not isinstance(name, str):
                    raise BadChain(f"item {place} of sequence {index} has {name!r}; attributes are strings.")
                self._add(prefix + name, 1.0)
            return
        for key, value in item.items():
            name, value = f"{prefix}{characters(key)}", characters(value)
            if isinstance(value, str):
                self._add(f"{name}:{value}", 1.0)
            elif isinstance(value, Iterable):
                self._flatten(f"{name}:", value, index, place)
            else:
                self._add(name, _number(value, name, index, place))

    def _add(self, text: str, value: float) -> None:
        encoded = _encoded(text)
        self._texts.append(encoded)
        self._sizes.append(len(encoded))
        self._values.append(value)


class _StretchBuilder:
    """Items to stretches: as many parts as have enough rows or attributes."""

    def __init__(self, labelled: bool, weighted: bool) -> None:
        self._labelled, self._weighted = labelled, weighted
        self._before = 0  # items of the stretches before
        self._begin()

    def _begin(self) -> None:
        self._table = StringTable()
        self._codes: list[NDArray[np.int32]] = []
        self._values: list[NDArray[np.float64]] = []
        self._ends = [np.zeros(1, np.int64)]
        self._starts: list[NDArray[np.bool_]] = []
        self._weights: list[NDArray[np.float64]] = []
        self._labels: list[str | None] = []
        self._entries = 0

    def add(self, part: ItemPart) -> Iterator[Stretch]:
        """Add items; gives a stretch if there are enough."""
        text, offsets, values, ends = part.texts
        self._codes.append(self._table.codes(text, offsets[:-1], offsets[1:]))
        self._values.append(values.copy())
        self._ends.append(ends + self._entries)
        self._starts.append(part.starts)
        self._weights.append(part.weights)
        self._labels += part.labels
        self._entries += values.size
        if len(self._labels) >= _ROWS or self._entries >= _ENTRIES:
            yield self._stretch()

    def rest(self) -> Iterator[Stretch]:
        """The items that no stretch had yet."""
        if self._labels:
            yield self._stretch()

    def _stretch(self) -> Stretch:
        """All items since the last one."""
        ends = pa.array(np.concatenate(self._ends))
        names = self._table.strings().cast(pa.string())
        names = pa.DictionaryArray.from_arrays(pa.array(np.concatenate(self._codes)), names)
        columns = {ATTRIBUTES: pa.LargeListArray.from_arrays(ends, names)}
        if self._labelled:
            columns[LABEL] = _symbols(self._labels)
        if self._weighted:
            columns[WEIGHT] = pa.array(np.concatenate(self._weights), NUMBER)
        values = np.concatenate(self._values)
        if (values != 1.0).any():
            columns[ATTRIBUTES + VALUES_SUFFIX] = pa.LargeListArray.from_arrays(ends, pa.array(values))
        starts = np.concatenate(self._starts)
        items = np.arange(self._before, self._before + starts.size, dtype=np.int64)
        self._before += starts.size
        self._begin()
        return Stretch(pa.RecordBatch.from_pydict(columns), starts, items, "the sequences", "item")


def _shown(value: Any) -> str:
    """The beginning of its representation."""
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python prints
        text = object.__repr__(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _symbols(texts: Sequence[str | None]) -> Any:
    try:
        return pa.array(texts, pa.string()).dictionary_encode().cast(SYMBOL)
    except UnicodeEncodeError as error:
        raise _half(error) from None


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _half(error) from None


def _half(error: UnicodeEncodeError) -> BadChain:
    return BadChain(f"the text {error.object!r} contains an unpaired surrogate and cannot be stored.")


def _number(value: Any, name: str, index: int, place: int) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BadChain(
            f"item {place} of sequence {index}: the value of {name!r} is {_shown(value)}; give a string, a finite "
            f"number, a bool, or a collection of these."
        )
    return number
