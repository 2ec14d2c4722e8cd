"""The sequences that a Trainer was given, as columns: compact, and independent of the objects that were given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa

from chainfold.chain.chain import Chain, gather
from chainfold.features.encoder import spooled
from chainfold.features.schema import Schema
from chainfold.features.spec import InputSpec
from chainfold.readers.columns import ATTRIBUTES, LABEL, VALUES_SUFFIX, Stretch
from chainfold.readers.sequences import stretches_of

_ROWS = 4096  # a stretch of them takes little longer to encode than one of a single row


class Instances:
    """Labelled sequences in the order in which they were appended."""

    def __init__(self) -> None:
        self._joined: list[Stretch] = []
        self._single: list[Stretch] = []
        self._rows = 0  # in `_single`

    @classmethod
    def of(cls, parts: Iterable[Instances]) -> Self:
        """Join several parts."""
        every = cls()
        every._joined = [stretch for part in parts for stretch in part.stretches()]
        return every

    def append(self, items: Iterable[Any], labels: Iterable[Any]) -> None:
        """Add a sequence. Raises `BadChain` where it is wrong, and then adds nothing."""
        stretches = list(stretches_of([items], [labels]))
        self._single += stretches
        self._rows += sum(stretch.starts.size for stretch in stretches)
        if self._rows >= _ROWS:
            self._join()

    def chain(self, min_count: float) -> Chain:
        """All sequences, encoded. Raises `EmptyChain` where there are none."""
        spec = InputSpec(label=LABEL, labels=True, min_count=max(1, int(np.ceil(min_count))))
        with spooled(self.stretches(), partial(Schema.of, spec)) as source:
            return gather(source)

    def stretches(self) -> Iterator[Stretch]:
        """The columns of all sequences."""
        self._join()
        return iter(self._joined)

    def _join(self) -> None:
        if self._single:
            self._joined.append(_joined(self._single))
            self._single, self._rows = [], 0


def _joined(stretches: list[Stretch]) -> Stretch:
    """Stretches of sequences that follow one another as one."""
    batches, name = [stretch.batch for stretch in stretches], ATTRIBUTES + VALUES_SUFFIX
    columns = {column: pa.concat_arrays([batch.column(column) for batch in batches]) for column in (ATTRIBUTES, LABEL)}
    if any(name in batch.schema.names for batch in batches):
        columns[name] = pa.concat_arrays([_values(batch) for batch in batches])
    starts = np.concatenate([stretch.starts for stretch in stretches])
    batch = pa.RecordBatch.from_pydict(columns)
    return Stretch(batch, starts, np.arange(starts.size, dtype=np.int64), "the sequences", "item")


def _values(batch: pa.RecordBatch) -> Any:
    """The values of attributes, which are all one where a batch has none."""
    if ATTRIBUTES + VALUES_SUFFIX in batch.schema.names:
        return batch.column(ATTRIBUTES + VALUES_SUFFIX)
    bag = batch.column(ATTRIBUTES)
    return pa.LargeListArray.from_arrays(bag.offsets, pa.array(np.ones(len(bag.values))))
