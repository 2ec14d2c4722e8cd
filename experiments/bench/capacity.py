"""A cost model of training on a cluster: seconds of an iteration by positions, weights and workers.

    compute     leaves of the busiest worker · positions of a leaf · seconds a position
    weights     one copy to a worker, then each worker that has them sends them on: 1 + log2 W times 8M bytes
    counts      runs are joined in eights: 8M bytes for each node of a run, seven runs a level; the root to the client
    scheduler   tasks · seconds a task, and the round trips of each round
    optimiser   passes of L-BFGS over vectors of 8M bytes, on the client

`python -m experiments.bench.capacity` prints the tables of docs/cluster.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from chainfold.dask.passes import divided
from chainfold.dask.rounds import FAN_IN
from chainfold.engines.parallel import leaves
from chainfold.engines.settings import Settings, Shape

_VECTORS = 30  # of 8M bytes that an iteration of L-BFGS reads or writes


class Machines(NamedTuple):
    """What the workers, their network and the scheduler do."""

    position: float = 100e-9  # seconds of one thread
    bandwidth: float = 1.25e9  # bytes a second between two machines: 10 Gbit/s
    hop: float = 1e-3  # seconds until a message has come
    task: float = 1e-3  # seconds of the scheduler
    round: float = 10e-3  # seconds of a round of tasks that do nothing
    memory: float = 10e9  # bytes a second of the client


class Work(NamedTuple):
    """The sizes of a training run."""

    positions: float
    weights: float
    workers: int
    labels: int = 8
    dense: float = 1.0  # share of the counts of a run that are not zero


class Iteration(NamedTuple):
    """Seconds of an iteration with one evaluation."""

    compute: float
    weights: float
    counts: float
    scheduler: float
    optimiser: float

    @property
    def seconds(self) -> float:
        return sum(self)

    @property
    def efficiency(self) -> float:
        """The share of the time in which workers compute."""
        return self.compute / self.seconds


def iteration(work: Work, machines: Machines = Machines()) -> Iteration:  # noqa: B008  (it is frozen)
    shape = Shape(int(work.positions), work.labels, int(work.weights), 8.0, 0)
    count = leaves(shape, Settings())
    runs = divided(count, work.workers)
    turns = -(-len(runs) // work.workers)
    longest = max(last - first for first, last in runs)
    vector = 8.0 * work.weights
    levels, left = 0, len(runs)
    while left > FAN_IN:
        levels, left = levels + 1, -(-left // FAN_IN)
    sent = vector * min(1.0, 1.5 * work.dense)  # places and counts where few are not zero
    nodes = max(_nodes(first, last) for first, last in runs)
    joins = levels * ((FAN_IN - 1) * nodes * sent / machines.bandwidth + machines.hop)
    tasks = len(runs) + sum(len(runs) // FAN_IN**level for level in range(1, levels + 1))
    return Iteration(
        compute=turns * longest * work.positions / count * machines.position,
        weights=(1 + math.ceil(math.log2(max(work.workers, 1)))) * (vector / machines.bandwidth + machines.hop),
        counts=joins + left * sent / machines.bandwidth,
        scheduler=tasks * machines.task + (1 + levels) * machines.round,
        optimiser=_VECTORS * vector / machines.memory,
    )


def _nodes(first: int, last: int) -> int:
    """How many nodes of the tree a run of leaves is held as."""
    count = 0
    while first < last:
        size = first & -first or 1 << (last - first).bit_length()
        while size > last - first:
            size //= 2
        first, count = first + size, count + 1
    return count


_ROWS = (
    Work(1e9, 1e6, 1),
    Work(1e9, 1e6, 16),
    Work(1e9, 1e6, 128),
    Work(1e9, 1e7, 128),
    Work(1e11, 1e6, 16),
    Work(1e11, 1e6, 128),
    Work(1e11, 1e6, 1000),
    Work(1e11, 1e6, 1024),
    Work(1e11, 1e7, 1000),
    Work(1e11, 1e8, 1000),
)


def table() -> list[str]:
    """The table of docs/cluster.md."""
    lines = [
        "| positions | weights | workers | compute | weights | counts | scheduler | optimiser | seconds | busy |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for work in _ROWS:
        found = iteration(work)
        sizes = f"10^{math.log10(work.positions):.0f} | 10^{math.log10(work.weights):.0f} | {work.workers:,}"
        seconds = " | ".join(f"{one:,.2f}" for one in (*found, found.seconds))
        lines.append(f"| {sizes} | {seconds} | {found.efficiency:.0%} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
