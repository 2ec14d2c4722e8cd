"""The passes over a chain that training makes, on the workers of a cluster: the same bits as in one process.

An evaluation sends the weights to each worker once and one task to each of its threads: a run of the leaves of the
tree of sums (`engines.parallel`). The sums come back as the largest nodes that a run contains, and are joined here; if
there are many, on the workers first.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from chainfold.chain.block import Source
from chainfold.dask.chains import ChainPlace
from chainfold.dask.rounds import TIMEOUT, Round, Task, WorkerSlots
from chainfold.dask.sums_of_runs import tree_of
from chainfold.dask.tasks import Asked, RunSums, count_run, digest_piece, evaluate_run, join_runs
from chainfold.engines.engine import Report
from chainfold.engines.log_likelihood import Evaluation, evaluation
from chainfold.engines.parallel import cut_places
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.sums import StretchSums
from chainfold.model.layout import Floats
from chainfold.model.model import Model
from chainfold.training.passes import digest_of, pieces

if TYPE_CHECKING:
    from distributed import Client

_GRAINS = 8  # in a run, at least, where it is long: its border is moved by a grain
_MOST_LEAVES = 32  # in a task: one that is lost with its worker has taken half a minute or so


class ClusterPasses:
    """Passes over a stored chain; `training.passes.ChainPasses` says which."""

    def __init__(
        self,
        client: Client,
        chain: Source,
        *,
        memory: int | None = None,
        progress: Callable[[int], None] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        """timeout: seconds in which something must be finished"""
        self._client, self._chain, self._place = client, chain, ChainPlace.of(chain)
        self._settings, self._progress = Settings(memory=memory, observe=False), progress
        self._slots, self._timeout = WorkerSlots(client), timeout

    def digest(self) -> str:
        tasks = [
            Task(digest_piece, (self._place, low, high), f"the digest of {spelt(low, high)}")
            for low, high in pieces(self._chain)
        ]
        return digest_of(Round(self._client, tasks, timeout=self._timeout).results())

    def observed(self, model: Model) -> Floats:
        return self._sums(count_run, model, Settings()).expected

    def evaluate(self, model: Model) -> Evaluation:
        sums = self._sums(evaluate_run, model, self._settings, self._progress)
        return evaluation("parallel", model.layout, sums.log_z, None, sums.expected, None, Report())

    def _sums(
        self, work: Callable[..., Any], model: Model, settings: Settings, progress: Callable[[int], None] | None = None
    ) -> StretchSums:
        """The sums over all leaves."""
        leaves = Leaves(self._client, Shape.of(model.layout, self._chain), settings, self._timeout, self._slots)
        runs = leaves.run(work, (model.weights,), (self._asked(model),), progress)
        return tree_of(run.nodes for run in runs).root

    def _asked(self, model: Model) -> Asked:
        first, last = (None if mask is None else mask.tolist() for mask in (model.first, model.last))
        return Asked(self._place, model.layout.row_offsets is None, first, last, self._settings.memory)


class Leaves:
    """The leaves of the tree of sums, divided into runs for the workers that are there."""

    def __init__(
        self, client: Client, shape: Shape, settings: Settings, timeout: float, slots: WorkerSlots | None = None
    ) -> None:
        self._client, self._timeout = client, timeout
        self._borders = [0, *cut_places(shape, settings), shape.positions]
        self._workers = (slots or WorkerSlots(client)).workers()

    def run(
        self,
        work: Callable[..., Any],
        shared: tuple[Any, ...],
        args: tuple[Any, ...],
        progress: Callable[[int], None] | None = None,
    ) -> list[RunSums]:
        """Consecutive runs; work: a task that takes `shared`, `args` and the first and the last leaf of a run."""
        runs = divided(len(self._borders) - 1, len(self._workers))
        tasks = [
            Task(work, (*args, *run), spelt(*self._positions(run)), self._workers[k * len(self._workers) // len(runs)])
            for k, run in enumerate(runs)
        ]

        def done(task: int) -> None:
            low, high = self._positions(runs[task])
            if progress is not None:
                progress(high - low)

        report = None if progress is None else done
        results: list[RunSums] = Round(self._client, tasks, shared, self._timeout, report, join_runs).results()
        return results

    def _positions(self, run: tuple[int, int]) -> tuple[int, int]:
        first, last = run
        return self._borders[first], self._borders[last]


def divided(leaves: int, slots: int) -> list[tuple[int, int]]:
    """Runs of leaves: as many as there are slots, or several times as many where a run would be long.

    Long runs begin at multiples of a power of two, so that they are few nodes of the tree.

    >>> divided(16, 3)
    [(0, 5), (5, 10), (10, 16)]
    """
    turns = -(-leaves // (_MOST_LEAVES * slots))
    count = min(turns * slots, leaves)
    grain = 1 << max((leaves // count // _GRAINS).bit_length() - 1, 0)
    return list(pairwise(leaves * k // count // grain * grain if k < count else leaves for k in range(count + 1)))


def spelt(low: int, high: int) -> str:
    return f"positions {low:,} to {high - 1:,}"
