"""Types of the compiled core; `make stub` writes them."""

from typing import overload

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block
from chainfold.core.slots import BlockRows, Emissions, FeatureIndex, Lattice, Moves, RowLayout, Slots
from chainfold.training.perceptron import Learner, Scratch, UpdateRule

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
) -> int:
    """The rows of a block's attributes; returns the room that they need."""

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

def emission_scores(emissions: Emissions, low: int, high: int, out: NDArray[np.float64]) -> None:
    """State scores of positions low … high-1 of dense scores."""

@overload
def emission_edges(
    edges: NDArray[np.float32], rows: NDArray[np.int64], transitions: NDArray[np.float64], out: NDArray[np.float64]
) -> None: ...
@overload
def emission_edges(
    edges: NDArray[np.float64], rows: NDArray[np.int64], transitions: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """Edge scores of positions that have matrices of their own."""

def forward_parts(
    emissions: Emissions,
    moves: Moves,
    cuts: NDArray[np.int64],
    pasts: NDArray[np.float64],
    low: int,
    high: int,
    alpha: NDArray[np.float64],
    log_z: NDArray[np.float64],
    status: NDArray[np.int8],
) -> int:
    """Forward vectors of parts low … high-1 of dense scores, and what each adds to log Z."""

@overload
def backward_parts(
    emissions: Emissions,
    moves: Moves,
    cuts: NDArray[np.int64],
    futures: NDArray[np.float64],
    low: int,
    high: int,
    alpha: NDArray[np.float64],
    factor: NDArray[np.float64],
    gradient: NDArray[np.float32],
    pairs: NDArray[np.float64],
    ends: NDArray[np.float64],
) -> int: ...
@overload
def backward_parts(
    emissions: Emissions,
    moves: Moves,
    cuts: NDArray[np.int64],
    futures: NDArray[np.float64],
    low: int,
    high: int,
    alpha: NDArray[np.float64],
    factor: NDArray[np.float64],
    gradient: NDArray[np.float64],
    pairs: NDArray[np.float64],
    ends: NDArray[np.float64],
) -> int:
    """Add the posteriors of parts low … high-1, times the factor of each, to the gradient of dense scores."""

@overload
def backward_emissions(
    emissions: Emissions,
    lattice: Lattice,
    low: int,
    gamma: NDArray[np.float64],
    factor: float,
    gradient: NDArray[np.float32],
    pairs: NDArray[np.float64],
    ends: NDArray[np.float64],
    edges: NDArray[np.float32],
) -> int: ...
@overload
def backward_emissions(
    emissions: Emissions,
    lattice: Lattice,
    low: int,
    gamma: NDArray[np.float64],
    factor: float,
    gradient: NDArray[np.float64],
    pairs: NDArray[np.float64],
    ends: NDArray[np.float64],
    edges: NDArray[np.float64],
) -> int:
    """Add the posteriors of any lattice, times a factor, to the gradient of dense scores."""

@overload
def score_tags(
    emissions: Emissions,
    cuts: NDArray[np.int64],
    transitions: NDArray[np.float64],
    edges: NDArray[np.float32],
    tags: NDArray[np.int64],
    low: int,
    high: int,
    score: NDArray[np.float64],
) -> None: ...
@overload
def score_tags(
    emissions: Emissions,
    cuts: NDArray[np.int64],
    transitions: NDArray[np.float64],
    edges: NDArray[np.float64],
    tags: NDArray[np.int64],
    low: int,
    high: int,
    score: NDArray[np.float64],
) -> None:
    """The scores of the tags of parts low … high-1."""

@overload
def count_tags(
    emissions: Emissions,
    cuts: NDArray[np.int64],
    tags: NDArray[np.int64],
    low: int,
    high: int,
    factor: NDArray[np.float64],
    gradient: NDArray[np.float32],
    pairs: NDArray[np.float64],
    ends: NDArray[np.float64],
    edges: NDArray[np.float32],
) -> None: ...
@overload
def count_tags(
    emissions: Emissions,
    cuts: NDArray[np.int64],
    tags: NDArray[np.int64],
    low: int,
    high: int,
    factor: NDArray[np.float64],
    gradient: NDArray[np.float64],
    pairs: NDArray[np.float64],
    ends: NDArray[np.float64],
    edges: NDArray[np.float64],
) -> None:
    """Add the counts of the tags of parts low … high-1, times the factor of each."""

def log_total(z: NDArray[np.float64]) -> float:
    """⊕ of the logarithms in a vector."""

def quotients(logs: NDArray[np.float64], signs: NDArray[np.int8], log_z: float, out: NDArray[np.float64]) -> None:
    """Expected counts ∇_m Z / Z; row m of the signed logarithms has ln ∇_m Z as its ⊕."""

def carry_expectations(
    block: Block,
    state: NDArray[np.float64],
    edge: NDArray[np.float64],
    features: FeatureIndex,
    z: NDArray[np.float64],
    h: NDArray[np.float64],
    sign: NDArray[np.int8],
) -> tuple[int, int]:
    """Algorithm 2 over a block, z, h and sign being carried to its end; returns (status, position of the fault)."""

def kernels_and_forward(
    block: Block,
    state: NDArray[np.float64],
    edge: NDArray[np.float64],
    u: NDArray[np.float64],
    entry: NDArray[np.float64],
    alpha: NDArray[np.float64],
) -> tuple[int, int]:
    """Local kernels and forward vectors of a block in logarithms; returns (status, position of the fault)."""

def local_kernels(block: Block, state: NDArray[np.float64], edge: NDArray[np.float64], u: NDArray[np.float64]) -> None:
    """Local kernels of a block in logarithms: u[t, i, j] = u_t(i, j)."""

def backward_vectors(u: NDArray[np.float64], beta: NDArray[np.float64]) -> None:
    """Backward vectors of a block in logarithms from its local kernels; the last row of beta is given."""

def terminate(
    block: Block,
    u: NDArray[np.float64],
    entry: NDArray[np.float64],
    alpha: NDArray[np.float64],
    beta: NDArray[np.float64],
    features: FeatureIndex,
    gradient: NDArray[np.float64],
    sign: NDArray[np.int8],
) -> None:
    """Add a block's share of ln ∇Z: the termination of Algorithm 1."""

PERCEPTRON: int = 0

PASSIVE_AGGRESSIVE: int = 1

AROW: int = 2

def learn_pieces(
    block: Block,
    block_rows: BlockRows,
    begins: NDArray[np.int64],
    order: NDArray[np.int64],
    closed: bool,
    rule: UpdateRule,
    learner: Learner,
    scratch: Scratch,
    seen: int,
) -> tuple[int, int, float]:
    """Train on pieces of a block, in an order; returns (status, the faulty position, the sum of the losses)."""

CHUNK: int = 512

def penalise(
    first: int,
    last: int,
    sums: NDArray[np.float64],
    g: NDArray[np.float64],
    observed: NDArray[np.float64],
    x: NDArray[np.float64],
    c2: float,
) -> None:
    """g ← g - observed + 2 · c2 · x. Sums: x·x, observed·x."""

def step_along(
    first: int,
    last: int,
    sums: NDArray[np.float64],
    trial: NDArray[np.float64],
    x: NDArray[np.float64],
    step: float,
    d: NDArray[np.float64],
) -> None:
    """trial ← x + step · d. No sums."""

def step_within(
    first: int,
    last: int,
    sums: NDArray[np.float64],
    trial: NDArray[np.float64],
    x: NDArray[np.float64],
    step: float,
    d: NDArray[np.float64],
    downhill: NDArray[np.float64],
) -> None:
    """trial ← x + step · d, zero where that leaves the orthant. Sums: (trial - x)·downhill, ‖trial‖₁."""

def keep(
    first: int,
    last: int,
    sums: NDArray[np.float64],
    kept: NDArray[np.float64],
    g: NDArray[np.float64],
    d: NDArray[np.float64],
) -> None:
    """kept ← g. Sum: g·d."""

def arrive(
    first: int,
    last: int,
    sums: NDArray[np.float64],
    x: NDArray[np.float64],
    x_before: NDArray[np.float64],
    g: NDArray[np.float64],
    g_before: NDArray[np.float64],
    c1: float,
    downhill: NDArray[np.float64],
    pairs: NDArray[np.float64],
    new_pair: int,
) -> None:
    """Take in a pair, if it is not -1, and the (pseudo-)gradient. Sums: four, and two for each s and each y."""

def combine(
    first: int,
    last: int,
    sums: NDArray[np.float64],
    d: NDArray[np.float64],
    scale: float,
    downhill: NDArray[np.float64],
    shares: NDArray[np.float64],
    pairs: NDArray[np.float64],
    align: bool,
) -> None:
    """d ← scale · downhill + Σ shares[k] · pairs[:, k], aligned if asked. Sums: d·downhill, d·d."""

def sgd(
    first: int,
    last: int,
    sums: NDArray[np.float64],
    x: NDArray[np.float64],
    g: NDArray[np.float64],
    shrink: float,
    total: NDArray[np.float64],
    rate: float,
    steps: int,
    moments: NDArray[np.float64],
) -> None:
    """x ← x - rate · g, with shrink · x added to g, and g to the total. Sums, before the step: g·g, x·x."""

def adagrad(
    first: int,
    last: int,
    sums: NDArray[np.float64],
    x: NDArray[np.float64],
    g: NDArray[np.float64],
    shrink: float,
    total: NDArray[np.float64],
    rate: float,
    steps: int,
    moments: NDArray[np.float64],
) -> None:
    """`sgd` with q ← q + g² and x ← x - rate · g / (√q + ε)."""

def adam(
    first: int,
    last: int,
    sums: NDArray[np.float64],
    x: NDArray[np.float64],
    g: NDArray[np.float64],
    shrink: float,
    total: NDArray[np.float64],
    rate: float,
    steps: int,
    moments: NDArray[np.float64],
) -> None:
    """`sgd` with p and q the means of g and g², and x ← x - rate · p̂ / (√q̂ + ε)."""

@overload
def viterbi(
    starts: NDArray[np.bool_],
    ends: NDArray[np.bool_],
    scores: NDArray[np.float64],
    edge: NDArray[np.float64],
    delta: NDArray[np.float64],
    total: NDArray[np.float64],
    back: NDArray[np.uint8],
    finals: NDArray[np.int64],
    best: NDArray[np.float64],
) -> tuple[int, int]: ...
@overload
def viterbi(
    starts: NDArray[np.bool_],
    ends: NDArray[np.bool_],
    scores: NDArray[np.float64],
    edge: NDArray[np.float64],
    delta: NDArray[np.float64],
    total: NDArray[np.float64],
    back: NDArray[np.uint16],
    finals: NDArray[np.int64],
    best: NDArray[np.float64],
) -> tuple[int, int]:
    """Viterbi forward over a block; returns (status, position of the fault)."""

@overload
def trace(back: NDArray[np.uint8], label: int, labels: NDArray[np.int32]) -> int: ...
@overload
def trace(back: NDArray[np.uint16], label: int, labels: NDArray[np.int32]) -> int:
    """The labels of a block whose last one is known; returns the one before the block."""

@overload
def coalesce(back: NDArray[np.uint8], heads: NDArray[np.int64]) -> None: ...
@overload
def coalesce(back: NDArray[np.uint16], heads: NDArray[np.int64]) -> None:
    """Labels at the block's end become those before the block on their best paths."""

@overload
def follow(back: NDArray[np.uint8], heads: NDArray[np.int64], origin: NDArray[np.int64]) -> tuple[int, bool]: ...
@overload
def follow(back: NDArray[np.uint16], heads: NDArray[np.int64], origin: NDArray[np.int64]) -> tuple[int, bool]:
    """Carry the origins over further positions; returns (status, whether those of the heads agree)."""

@overload
def coalesced(
    back: NDArray[np.uint8], heads: NDArray[np.int64], origin: NDArray[np.int64], labels: NDArray[np.int32]
) -> tuple[int, int]: ...
@overload
def coalesced(
    back: NDArray[np.uint16], heads: NDArray[np.int64], origin: NDArray[np.int64], labels: NDArray[np.int32]
) -> tuple[int, int]:
    """Label the positions up to the last one on which all best paths agree; returns (status, their number)."""

@overload
def origins(back: NDArray[np.uint8], heads: NDArray[np.int64], origin: NDArray[np.int64]) -> None: ...
@overload
def origins(back: NDArray[np.uint16], heads: NDArray[np.int64], origin: NDArray[np.int64]) -> None:
    """The label of the first position on the best path to each head."""

@overload
def best_probability(
    lattice: Lattice,
    ends: NDArray[np.bool_],
    back: NDArray[np.uint8],
    finals: NDArray[np.int64],
    logs: NDArray[np.float64],
    total: NDArray[np.float64],
    out: NDArray[np.float64],
) -> int: ...
@overload
def best_probability(
    lattice: Lattice,
    ends: NDArray[np.bool_],
    back: NDArray[np.uint16],
    finals: NDArray[np.int64],
    logs: NDArray[np.float64],
    total: NDArray[np.float64],
    out: NDArray[np.float64],
) -> int:
    """Log probability of the best labelling of each sequence."""

@overload
def label_sequence(
    offsets: NDArray[np.int64],
    ids: NDArray[np.int32],
    values: NDArray[np.float64],
    rows: RowLayout,
    weights: Slots,
    blank: NDArray[np.float64],
    most: float,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    edge: NDArray[np.float64],
    back: NDArray[np.uint8],
    labels: NDArray[np.int32],
) -> int: ...
@overload
def label_sequence(
    offsets: NDArray[np.int64],
    ids: NDArray[np.int32],
    values: NDArray[np.float64],
    rows: RowLayout,
    weights: Slots,
    blank: NDArray[np.float64],
    most: float,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    edge: NDArray[np.float64],
    back: NDArray[np.uint16],
    labels: NDArray[np.int32],
) -> int:
    """The best label of each item of one sequence, from the attributes of the items."""

def rank(
    starts: NDArray[np.bool_],
    ends: NDArray[np.bool_],
    scores: NDArray[np.float64],
    edge: NDArray[np.float64],
    ranked: NDArray[np.float64],
    back: NDArray[np.uint32],
    finals: NDArray[np.int64],
    gaps: NDArray[np.float64],
) -> int:
    """The k best scores of each label, forward over a block."""

def trace_ranked(
    ends: NDArray[np.bool_],
    back: NDArray[np.uint32],
    finals: NDArray[np.int64],
    states: NDArray[np.int64],
    labels: NDArray[np.int32],
) -> None:
    """The k best labellings of a block whose last states are known."""

def draw(
    lattice: Lattice, posterior: NDArray[np.float64], uniforms: NDArray[np.float64], labels: NDArray[np.int32]
) -> int:
    """Labellings drawn from their distribution."""

def given_probability(
    lattice: Lattice, ends: NDArray[np.bool_], before: int, total: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """Log probability of the block's own labels, for each sequence."""

def entropy(
    lattice: Lattice,
    ends: NDArray[np.bool_],
    log_edge: NDArray[np.float64],
    given: NDArray[np.float64],
    total: NDArray[np.float64],
    out: NDArray[np.float64],
) -> int:
    """Entropy of the labelling of each sequence."""

def count_pairs(lattice: Lattice, posteriors: NDArray[np.float64], pairs: NDArray[np.float64]) -> int:
    """Expected transitions of a block."""

def score_sequence(
    offsets: NDArray[np.int64],
    ids: NDArray[np.int32],
    values: NDArray[np.float64],
    rows: RowLayout,
    weights: Slots,
    blank: NDArray[np.float64],
    most: float,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    out: NDArray[np.float64],
) -> int:
    """State scores of the items of one sequence."""
