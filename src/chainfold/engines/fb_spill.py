"""Forward-backward with the forward vectors on disk: the paper's Case IV.

Each block's forward vectors go to an unnamed temporary file that the operating system removes with the process, however
it ends. On the way back they are read in reverse.
"""

from __future__ import annotations

import numpy as np

from chainfold.chain.block import Block
from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import BlockPass
from chainfold.engines.engine import Report
from chainfold.engines.keeper import forward_and_back
from chainfold.engines.potentials import Potentials
from chainfold.engines.problem import Problem
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.tally import Tally
from chainfold.system.spill import SpillFile


class VectorFile:
    """Keeps forward vectors in a file, unless they are wide; in memory, what is before each block."""

    def __init__(self, problem: Problem, file: SpillFile) -> None:
        self._pass = BlockPass(problem, Potentials.of(problem))
        self._file = file
        self._kept: list[tuple[Belief, bool]] = []

    def next_pass(self) -> BlockPass:
        return self._pass

    def push(self, block_pass: BlockPass) -> None:
        if not block_pass.passed.wide:
            self._file.append(block_pass.passed.alpha)
        self._kept.append((block_pass.entry, block_pass.passed.wide))

    def pop(self, low: int, block: Block) -> BlockPass:
        entry, wide = self._kept.pop()
        rows, width = block.labels.size, self._pass.width
        alpha = None if wide else self._file.read_back(rows * width).reshape(rows, width)
        self._pass.restore(low, block, entry, alpha)
        return self._pass


def run(problem: Problem) -> tuple[Tally, Report]:
    with SpillFile(np.float64) as file:
        return forward_and_back(problem, VectorFile(problem, file))


def memory(shape: Shape, settings: Settings) -> float:
    return shape.block(settings) * (shape.pass_bytes + shape.row_bytes)
