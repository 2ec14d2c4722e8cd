"""Rows of a matrix as a chain: each column an attribute, each number its value, zeros left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chainfold.chain.block import NO_LABEL
from chainfold.chain.builder import Census
from chainfold.chain.chain import Chain
from chainfold.chain.vocabulary import Vocabulary, label_name
from chainfold.errors import BadChain


def chain_from_matrix(
    rows: Any,
    labels: ArrayLike | None = None,
    *,
    starts: ArrayLike | None = None,
    n_labels: int | None = None,
) -> Chain:
    """A chain from a matrix: a position for each row, an attribute for each column, without zeros.

    rows        a SciPy sparse matrix or a NumPy array of numbers
    labels      [T] numbers, -1 for an unknown one, or texts, None for an unknown one
    starts      the positions at which sequences start, or a mark for each position
    n_labels    the number of labels, where numbers are given

    Returns a `Chain`. Raises `ChainfoldError` where rows, labels or starts do not fit.

    >>> import numpy as np
    >>> chain = chain_from_matrix(np.array([[0.5, 0.0], [1.0, 2.0]]), ["A", "B"])
    >>> chain.ids.tolist(), chain.values.tolist()
    ([0, 0, 1], [0.5, 1.0, 2.0])
    """
    offsets, ids, values = _entries(rows)
    positions, n_attributes = np.shape(rows) if not hasattr(rows, "shape") else rows.shape
    numbers, names = (None, ()) if labels is None else _numbered(np.asarray(labels))
    if names and n_labels not in (None, len(names)):
        raise BadChain(f"there are {len(names)} labels with names, but n_labels is {n_labels}; leave it out.")
    chain = Chain.from_arrays(
        offsets=offsets,
        ids=ids,
        values=values,
        labels=numbers,
        starts=_marks(starts, positions),
        n_labels=len(names) if names else n_labels,
        n_attributes=n_attributes,
    )
    return chain if not names else _with_names(chain, names)


def _entries(rows: Any) -> tuple[Any, Any, Any]:
    """Offsets, ids and values: as they are in a sparse matrix, the numbers that are not zero of a dense one."""
    if hasattr(rows, "tocsr"):
        sparse = rows.tocsr()
        if sparse.dtype.kind not in "iufb":
            raise BadChain(f"the matrix has values of type {sparse.dtype}; give numbers.")
        return sparse.indptr, sparse.indices, sparse.data
    dense = np.asarray(rows)
    if dense.ndim != 2 or dense.dtype.kind not in "iufb":
        raise BadChain("the rows are no matrix of numbers; give a SciPy CSR matrix or a NumPy array of two dimensions.")
    row, column = np.nonzero(dense)
    return np.searchsorted(row, np.arange(len(dense) + 1)), column, dense[row, column]


def _numbered(labels: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Labels that are texts as numbers in order of first appearance, with their names; numbers as they are."""
    if labels.dtype.kind not in "UO":
        return labels, ()
    texts = list(map(label_name, labels.tolist()))
    number = {name: k for k, name in enumerate(dict.fromkeys(name for name in texts if name is not None))}
    return np.array([NO_LABEL if name is None else number[name] for name in texts]), tuple(number)


def _marks(starts: ArrayLike | None, positions: int) -> NDArray[np.bool_] | None:
    """Start marks, given as such or as the positions at which sequences start."""
    given = np.asarray([] if starts is None else starts)
    if starts is None or given.dtype == np.bool_:
        return None if starts is None else given
    if given.dtype.kind not in "iu" or given.ndim != 1 or ((given < 0) | (given >= positions)).any():
        raise BadChain(
            f"sequences start at positions from 0 to {positions - 1}; give those, or a mark for each position."
        )
    if (given[1:] <= given[:-1]).any():
        raise BadChain("the positions at which sequences start do not ascend; give marks as True and False.")
    marks = np.zeros(positions, np.bool_)
    marks[given] = True
    return marks


def _with_names(chain: Chain, names: tuple[str, ...]) -> Chain:
    census = Census()
    census.add(chain.labels, chain.offsets, chain.ids, chain.n_attributes, chain.n_labels)
    counts, marks = census.totals(chain.n_attributes)
    return chain.with_vocabulary(Vocabulary(names, None, None, counts, marks))
