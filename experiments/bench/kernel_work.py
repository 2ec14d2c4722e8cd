"""What chainfold's production kernels move and do at a position, and how long they take, each on its own."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from chainfold import Layout, Model
from chainfold.chain.block import Source
from chainfold.chain.chain import gather
from chainfold.engines.potentials import Potentials
from chainfold.engines.problem import Problem
from chainfold.engines.settings import Settings
from chainfold.kernels import backward, forward, scores
from chainfold.kernels.lattice import Lattice
from chainfold.kernels.slots import aligned
from chainfold.model.block_rows import find_block_rows

_BLOCK = 1024  # positions: what one kernel leaves for the next stays in the cache
_EXP = 38  # operations of an exponential: thirteen fused products and what is around them
_SCALE = 0.1  # of random weights


class KernelWork(NamedTuple):
    """A kernel: bytes, most of them from one level of memory, and operations a position; nanoseconds, each round."""

    kernel: str
    area: str
    bytes: float
    operations: float
    nanoseconds: list[float]


def kernels_on(source: Source, layout: Layout | None, rounds: int) -> list[KernelWork]:
    layout = layout or Layout.observed(source)
    chain = gather(source)
    model = Model.random(layout, scale=_SCALE)
    problem = Problem(model, chain, Settings(observe=False))
    taken = [_round(problem) for _ in range(rounds + 1)][1:]
    n, width, short = layout.n_labels, layout.width, np.diff(layout.rows.begin)
    ids = chain.block(0, chain.positions).ids
    rare = ids[ids >= layout.dense] - layout.dense
    active, positions = chain.active, chain.positions
    padded = active - rare.size / positions  # rows a position
    entries = float(short[rare].sum()) / positions  # of short rows
    row, matrix = 8.0 * width, 8.0 * n * width
    counted = {
        "find_rows": ("L2", 12 * active + 24 + 16 * rare.size / positions, 0.0),
        "state_scores": ("L2", 8 * active + padded * row + 10 * entries + row, padded * width + entries),
        "forward": ("L1", matrix + 3 * row, (2.0 * n + _EXP) * width),
        "backward": (
            "L2",
            8 * active + 2 * padded * row + 18 * entries + 3 * row,
            (4.0 * n + 4) * width + padded * width + entries,
        ),
    }
    return [
        KernelWork(name, area, size, operations, [one[name] / positions * 1e9 for one in taken])
        for name, (area, size, operations) in counted.items()
    ]


def _round(problem: Problem) -> dict[str, float]:
    """Seconds of each kernel over the whole chain."""
    layout, potentials = problem.model.layout, Potentials.of(problem)
    n, width = layout.n_labels, layout.width
    alphas, predictions, counts = aligned(_BLOCK, width), aligned(_BLOCK, width), layout.view(aligned(layout.slots))
    entry, gamma, pairs = aligned(width), aligned(width), aligned(width, width)
    entry[:n] = 1.0 / n
    seconds: dict[str, float] = defaultdict(float)
    found = None
    for low, high in problem.blocks(_BLOCK):
        block = problem.read(low, high)
        alpha, predicted = alphas[: high - low], predictions[: high - low]
        begin = time.perf_counter()
        found = find_block_rows(layout, block, found)
        begin = _since(begin, "find_rows", seconds)
        scores.state_scores(found, layout.rows, problem.weights, layout.blank, alpha)
        begin = _since(begin, "state_scores", seconds)
        forward.forward(
            block.starts, alpha, predicted, potentials.edge, potentials.shift, entry, n, False, potentials.tiles
        )
        _since(begin, "forward", seconds)
        gamma[:] = alpha[-1] / alpha[-1].sum()
        lattice = Lattice(
            block.starts,
            alpha,
            predicted,
            potentials.edge,
            entry,
            block.labels,
            block.weights,
            False,
            n,
        )
        begin = time.perf_counter()
        backward.backward(found, lattice, potentials.edge_t, gamma, layout.rows, pairs, counts)
        _since(begin, "backward", seconds)
    return seconds


def _since(begin: float, name: str, seconds: dict[str, float]) -> float:
    now = time.perf_counter()
    seconds[name] += now - begin
    return now
