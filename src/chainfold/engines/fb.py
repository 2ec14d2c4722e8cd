"""Forward-backward with everything in memory: the paper's Case I, in the scaled domain.

Every forward vector, prediction and, with edge attributes, transition matrix is kept.
"""

from __future__ import annotations

from chainfold.chain.block import Block
from chainfold.engines.block_pass import Potentials, Sweep
from chainfold.engines.keeper import there_and_back
from chainfold.engines.problem import Cost, Engine, Problem, Report, Settings, Shape, Tally

_BLOCK = 65536  # nothing is used again while it is in the cache, so the fewer and larger allocations the better


class Everything:
    """Keeps whole sweeps; the data alone is read again."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._potentials = problem, Potentials.of(problem)
        self._sweeps: list[Sweep] = []

    def next_sweep(self) -> Sweep:
        return Sweep(self._problem, self._potentials)

    def push(self, sweep: Sweep) -> None:
        sweep.release_block()
        self._sweeps.append(sweep)

    def pop(self, low: int, block: Block) -> Sweep:
        sweep = self._sweeps.pop()
        sweep.give(low, block)
        return sweep


def run(problem: Problem) -> tuple[Tally, Report]:
    return there_and_back(problem, Everything(problem), problem.settings.block or _BLOCK)


def cost(shape: Shape, settings: Settings) -> Cost:
    return Cost(shape.positions * shape.sweep_bytes, shape.scoring + shape.messages)


ENGINE = Engine(
    name="fb",
    summary="everything in memory: Case I, scaled",
    keeps="O(NT)",
    time="N²T + NTA",
    reads="twice",
    run=run,
    cost=cost,
)
