"""A digest of rows, independent of how they are cut into stretches: recognises rows that were appended before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.strings import spans
from chainfold.readers.columns import Stretch


class RowDigest:
    """Digests rows as they are read."""

    def __init__(self) -> None:
        self._states: dict[str, Any] = {}
        self.rows = 0

    def of(self, stretches: Iterable[Stretch]) -> Iterator[Stretch]:
        """Pass the stretches on."""
        for stretch in stretches:
            self._add("starts", stretch.starts)
            for name, column in zip(stretch.batch.schema.names, stretch.batch.columns, strict=True):
                for part, numbers in _parts(f"column {name}", column):
                    self._add(part, numbers)
            self.rows += stretch.starts.size
            yield stretch

    @property
    def text(self) -> str:
        """The digest of all rows so far."""
        whole = hashlib.blake2b(digest_size=16)
        for part, state in sorted(self._states.items()):
            whole.update(part.encode(errors="surrogatepass") + b"\0" + state.digest())
        return whole.hexdigest()

    def _add(self, part: str, numbers: NDArray[Any]) -> None:
        state = self._states.setdefault(part, hashlib.blake2b(digest_size=16))
        if numbers.size:
            state.update(np.ascontiguousarray(numbers).data)


def _parts(name: str, column: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """A column as arrays of numbers, each of which continues in the next stretch."""
    yield f"{name}, known", column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_large_list(column.type):
        yield f"{name}, sizes", np.diff(column.offsets.to_numpy())
        yield from _parts(f"{name}, entries", column.flatten())
    elif pa.types.is_string(column.type):
        if len(column):
            blob, begins, ends = spans(column.fill_null(""))
            yield f"{name}, lengths", ends - begins
            yield f"{name}, letters", blob[begins[0] : ends[-1]]
    else:
        yield f"{name}, numbers", column.fill_null(0.0).to_numpy()
