"""Forward-backward with the forward vectors on disk: the paper's Case IV.

Each block's forward vectors, with the one before the block as their first row, go to an unnamed temporary file that the
operating system removes with the process, however it ends. On the way back they are read in reverse.
"""

from __future__ import annotations

from typing import IO

from chainfold.data.chain import Block
from chainfold.engines.base import Cost, Engine, Problem, Report, Settings, Shape, Tally
from chainfold.engines.spilling import read_back, spilling
from chainfold.engines.sweep import Belief, Potentials, Sweep
from chainfold.engines.twice import there_and_back


class Spill:
    """Keeps forward vectors in a file; in memory, two marks a block say whether its numbers are logarithms."""

    def __init__(self, problem: Problem, file: IO[bytes]) -> None:
        self._sweep = Sweep(problem, Potentials.of(problem))
        self._file = file
        self._in_logs: list[tuple[bool, bool]] = []

    def next_sweep(self) -> Sweep:
        return self._sweep

    def push(self, sweep: Sweep) -> None:
        sweep.entry.values.tofile(self._file)
        sweep.alpha.tofile(self._file)
        self._in_logs.append((sweep.entry.in_logs, sweep.in_logs))

    def pop(self, low: int, block: Block) -> Sweep:
        stored = read_back(self._file, (block.labels.size + 1, self._sweep.alpha.shape[1]))
        entry_in_logs, in_logs = self._in_logs.pop()
        self._sweep.restore(low, block, Belief(stored[0], entry_in_logs), stored[1:], in_logs)
        return self._sweep


def run(problem: Problem) -> tuple[Tally, Report]:
    with spilling() as file:
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
