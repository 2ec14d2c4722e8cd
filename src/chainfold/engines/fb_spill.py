"""Forward-backward with the forward vectors on disk: the paper's Case IV.

Each block's forward vectors go to an unnamed temporary file that the operating system removes with the process, however
it ends. On the way back they are read in reverse.
"""

from __future__ import annotations

import numpy as np

from chainfold.chain.block import Block
from chainfold.engines.block_pass import Belief, Potentials, Sweep
from chainfold.engines.keeper import there_and_back
from chainfold.engines.problem import Cost, Engine, Problem, Report, Settings, Shape, Tally
from chainfold.system.spill import SpillFile


class Spill:
    """Keeps forward vectors in a file, unless they are wide; in memory, what is before each block."""

    def __init__(self, problem: Problem, file: SpillFile) -> None:
        self._sweep = Sweep(problem, Potentials.of(problem))
        self._file = file
        self._kept: list[tuple[Belief, bool]] = []

    def next_sweep(self) -> Sweep:
        return self._sweep

    def push(self, sweep: Sweep) -> None:
        if not sweep.wide:
            self._file.append(sweep.alpha)
        self._kept.append((sweep.entry, sweep.wide))

    def pop(self, low: int, block: Block) -> Sweep:
        entry, wide = self._kept.pop()
        rows, width = block.labels.size, self._sweep.width
        alpha = None if wide else self._file.read_back(rows * width).reshape(rows, width)
        self._sweep.restore(low, block, entry, alpha)
        return self._sweep


def run(problem: Problem) -> tuple[Tally, Report]:
    with SpillFile(np.float64) as file:
        return there_and_back(problem, Spill(problem, file))


def cost(shape: Shape, settings: Settings) -> Cost:
    memory = shape.block(settings) * (shape.sweep_bytes + shape.row_bytes)
    disk = 2 * 8 * shape.positions * shape.width  # written and read, at a byte or so in the time of a multiply-add
    return Cost(memory, shape.scoring + shape.messages + shape.recursion + disk)


ENGINE = Engine(
    name="fb-spill",
    summary="forward vectors on disk: Case IV",
    keeps="O(B)",
    time="N²T + NTA",
    reads="twice",
    run=run,
    cost=cost,
)
