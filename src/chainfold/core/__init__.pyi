"""Types of the compiled core; `make stub` writes them."""

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block
from chainfold.core.slots import BlockRows, Lattice, RowLayout, Slots

LEVEL: str
"""The level that was taken."""

def levels() -> list[str]:
    """Levels that this machine can run, the best first."""

def exp(x: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """e^x of each number, for x <= 709 exact to a rounding."""

def log(x: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Natural logarithm of each number."""

def log1p(x: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """log(1 + x) of each number."""

EDGE_RANGE: float = 150.0

LEAST_ALPHA: float = 1e-150

LN2_HIGH: float = 0.693145751953125

LN2_LOW: float = 1.4286068203094173e-06

NEGLIGIBLE: float = 1e-200

PORTION: int = 2048

def find_rows(
    offsets: NDArray[np.int64], ids: NDArray[np.int32], values: NDArray[np.float64], rows: RowLayout, out: BlockRows
) -> None:
    """Where the row of each attribute of a block begins."""

def state_scores(
    block_rows: BlockRows, rows: RowLayout, weights: Slots, blank: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """State scores of a block: out[t, j] = s_t(j)."""

def edge_scores(block: Block, weights: Slots, out: NDArray[np.float64]) -> None:
    """Edge scores of a block: out[t, i·width + j] = e_t(i, j)."""

def fold(counts: Slots) -> None:
    """Add the recent counts of frequent attributes to their second level."""

def observe(
    block: Block, rows: RowLayout, weights: Slots, previous: int, forbidding: bool, counts: Slots
) -> tuple[int, int]:
    """Count a block's own labels; returns its last label and the first forbidden position."""

def exponentiate_edges(edge: NDArray[np.float64], shift: NDArray[np.float64]) -> float:
    """e_t becomes E_t in place, shift[t] its maximum; returns the widest range of finite scores in a position."""

def forward(
    starts: NDArray[np.bool_],
    alpha: NDArray[np.float64],
    predicted: NDArray[np.float64],
    edge: NDArray[np.float64],
    shift: NDArray[np.float64],
    entry: NDArray[np.float64],
    n_labels: int,
    watch: bool,
) -> tuple[int, tuple[float, float]]:
    """Forward over a block in doubles, state scores becoming forward vectors; returns (status, log scale)."""

def predict(
    starts: NDArray[np.bool_],
    alpha: NDArray[np.float64],
    edge: NDArray[np.float64],
    entry: NDArray[np.float64],
    n_labels: int,
    predicted: NDArray[np.float64],
) -> int:
    """The predictions of a block from its forward vectors."""

def forward_wide(
    starts: NDArray[np.bool_],
    scores: NDArray[np.float64],
    edge: NDArray[np.float64],
    entry: NDArray[np.float64],
    n_labels: int,
    alpha: NDArray[np.float64],
    predicted: NDArray[np.float64],
) -> tuple[int, tuple[float, float], int]:
    """Forward over a block in wide numbers; returns (status, log scale, position of the fault)."""

def backward(
    block_rows: BlockRows,
    lattice: Lattice,
    edge_t: NDArray[np.float64],
    gamma: NDArray[np.float64],
    rows: RowLayout,
    pairs: NDArray[np.float64],
    counts: Slots,
) -> int:
    """Back over a block with one transition matrix, adding expected counts."""

def backward_general(
    block: Block,
    block_rows: BlockRows,
    lattice: Lattice,
    gamma: NDArray[np.float64],
    rows: RowLayout,
    scratch: NDArray[np.float64],
    counts: Slots,
) -> None:
    """Back over a block of wide numbers or with a matrix for each position, adding expected counts."""

def posteriors(
    lattice: Lattice, edge_t: NDArray[np.float64], gamma: NDArray[np.float64], out: NDArray[np.float64]
) -> int:
    """Posteriors of a block from that of its last position."""

def whole_sequences(
    block_rows: BlockRows,
    lattice: Lattice,
    rows: RowLayout,
    weights: Slots,
    blank: NDArray[np.float64],
    edge_t: NDArray[np.float64],
    shift: NDArray[np.float64],
    watch: bool,
    gamma: NDArray[np.float64],
    pairs: NDArray[np.float64],
    counts: Slots,
) -> tuple[int, tuple[float, float]]:
    """There and back over whole sequences; returns (positions done, log scale)."""

def look_ahead(
    lattice: Lattice,
    tolerance: float,
    ignore: NDArray[np.float64],
    q: NDArray[np.float64],
    scratch: NDArray[np.float64],
    gamma: NDArray[np.float64],
) -> tuple[bool, int]:
    """Extend a certificate over a block; returns (certified, positions looked at)."""

def last_certified(
    lattice: Lattice,
    tolerance: float,
    ignore: NDArray[np.float64],
    q: NDArray[np.float64],
    scratch: NDArray[np.float64],
    gamma: NDArray[np.float64],
) -> int:
    """The last certified position of a block, -2 where there is none."""
