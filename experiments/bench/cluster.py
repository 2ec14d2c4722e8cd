"""A cluster of processes on this machine beside threads: gradients and encoding, and what one task costs."""

from __future__ import annotations

import gzip
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chainfold import SyntheticChain, open_chain, write_chain
from chainfold.dask.connection import connected
from chainfold.dask.encoding import encode
from chainfold.dask.passes import ClusterPasses
from chainfold.dask.rounds import Round, Task
from chainfold.features.parts import encode_in_parts
from chainfold.model.layout import Floats
from chainfold.training.objective import Objective, WeightSpace
from chainfold.training.passes import LocalPasses
from experiments.bench.findings import Cell, ResultTable, SectionResults, Target
from experiments.bench.section import Context, Section
from experiments.bench.timing import Run, Times, interleaved, median, ratios

if TYPE_CHECKING:
    from distributed import Client

THREADS, WORKERS = "2 threads", "2 workers"
_MOST_LONG, _MOST_SHORT, _MOST_ENCODING = 1.25, 2.0, 1.3
_POSITIONS, _QUICK_POSITIONS = 5_000_000, 100_000
_LABELS, _ATTRIBUTES, _ACTIVE = 8, 2000, 8
_REPEATED, _PART = 3, 1 << 20  # CoNLL-2000 one after another, to be encoded in parts of so many bytes
_TASKS = 400  # that do nothing
_SIZES = (1 << 14, 1 << 18, 1 << 21)  # of weights that are sent


def _gradients(client: Client, path: Path, rounds: int) -> Times:
    """Seconds of an evaluation on both, which must have the same bits."""
    chain = open_chain(path)
    space = WeightSpace.of(chain)
    one = Objective(replace(space, passes=LocalPasses(chain, threads=2)), c2=1.0, threads=2)
    many = Objective(replace(space, passes=ClusterPasses(client, chain)), c2=1.0, threads=2)
    point = np.random.default_rng(0).normal(0.0, 0.1, space.layout.size)
    (value, gradient), (far_value, far_gradient) = one(point), many(point)
    assert value == far_value
    assert gradient.tobytes() == far_gradient.tobytes()
    return interleaved({THREADS: lambda: one(point), WORKERS: lambda: many(point)}, rounds)


def _long(context: Context) -> Path:
    path = context.folder / "long.chain"
    if not path.exists():
        positions = context.sized(_POSITIONS, _QUICK_POSITIONS)
        write_chain(path, SyntheticChain(positions, _LABELS, _ATTRIBUTES, _ACTIVE, seed=1))
    return path


def _encodings(client: Client, context: Context) -> Times:
    """Seconds of encoding the same file in parts."""
    chunks = context.corpora.chunks()
    path = context.folder / "repeated.txt"
    text = gzip.decompress(chunks.train.read_bytes()).rstrip() + b"\n\n"
    path.write_bytes(text * context.sized(_REPEATED, 1))
    one, many = context.folder / "one.parts", context.folder / "many.parts"

    size = context.sized(_PART, 1 << 18)
    runs = {
        THREADS: lambda: encode_in_parts(path, one, part_size=size, threads=2, **chunks.options),
        WORKERS: lambda: encode(client, path, many, part_size=size, **chunks.options),
    }
    times = interleaved(runs, context.fewer(3))
    names = sorted(file.name for file in one.iterdir())
    assert names == sorted(file.name for file in many.iterdir())
    assert all((one / name).read_bytes() == (many / name).read_bytes() for name in names)
    return times


def _costs(client: Client, rounds: int) -> list[list[Cell]]:
    """Costs of a task, of a round, and of weights that are sent to two workers and back."""

    def empty(tasks: int) -> Run:
        return lambda: Round(client, [Task(abs, (number,), "nothing") for number in range(tasks)]).results()

    times = interleaved({"2": empty(2), "many": empty(_TASKS)}, rounds)
    rows: list[list[Cell]] = [
        ["a round of two tasks, ms", [1e3 * seconds for seconds in times["2"]]],
        ["a further task, ms", [1e3 * (b - a) / (_TASKS - 2) for a, b in zip(times["2"], times["many"], strict=True)]],
    ]
    for size in _SIZES:
        sent = interleaved({"sent": partial(_send, client, np.zeros(size))}, rounds)["sent"]
        what = f"{8 * size / 1e6:,.1f} MB of weights to two workers, and as much back from each, ms"
        rows.append([what, [1e3 * seconds for seconds in sent]])
    return rows


def _send(client: Client, weights: Floats) -> None:
    Round(client, [Task(_returned, (), "weights") for _ in range(2)], (weights,)).results()


def _returned(weights: Floats) -> Floats:
    return weights + 1.0


def _scaling(context: Context) -> list[list[Cell]]:
    """Seconds of an evaluation on 1, 2 and 4 workers; this machine may have fewer cores."""
    rows: list[list[Cell]] = []
    for workers in (1, 2, 4):
        context.say(f"{workers} workers")
        with connected(f"local:{workers}") as client:
            chain = open_chain(_long(context))
            space = WeightSpace.of(chain)
            objective = Objective(replace(space, passes=ClusterPasses(client, chain)))
            point = np.zeros(space.layout.size)
            seconds = interleaved({"run": partial(objective, point)}, context.fewer(5))["run"]
            rows.append([workers, chain.positions, seconds, [chain.positions / one / 1e6 for one in seconds]])
    return rows


def run(context: Context) -> SectionResults:
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    measured: dict[str, Times] = {}
    with connected("local:2") as client:
        context.say("a long chain")
        measured["gradient, one long sequence"] = _gradients(client, _long(context), context.fewer(7))
        chunks = context.corpora.chunks()
        context.say(chunks.name)
        path = Path(context.encoded(chunks).path)
        measured[f"gradient, {chunks.name}"] = _gradients(client, path, 4 * context.rounds)
        context.say("encoding")
        measured[f"encoding, {chunks.name} × {context.sized(_REPEATED, 1)}"] = _encodings(client, context)
        context.say("costs")
        costs = _costs(client, context.rounds)
    bars = [
        Target(f"{name}: time as a multiple of two threads", ratios(times, WORKERS, THREADS), bar, "at most")
        for (name, times), bar in zip(measured.items(), (_MOST_LONG, _MOST_SHORT, _MOST_ENCODING), strict=True)
    ]
    rows: list[list[Cell]] = [
        [name, times[THREADS], times[WORKERS], ratios(times, WORKERS, THREADS)] for name, times in measured.items()
    ]
    scaling = _scaling(context)
    alone = scaling[0][2]
    assert isinstance(alone, list)
    for row in scaling:
        assert isinstance(row[2], list)
        row.append(median(alone) / median(row[2]))
    tables = [
        ResultTable("Seconds on one machine", ["work", THREADS, WORKERS, "ratio"], rows),
        ResultTable("What a round costs", ["cost", "value"], costs),
        ResultTable(
            "The long chain on more workers",
            ["workers", "positions", "seconds", "million positions a second", "times as fast"],
            scaling,
        ),
    ]
    return SectionResults(tables, bars)


SECTION = Section(
    "cluster",
    "A cluster of processes",
    "A scheduler and single-threaded workers on this machine beside as many threads, in turns within a run: the "
    "gradient of a chain that is one sequence, of CoNLL-2000, and encoding into parts. All results have the same bits.",
    run,
)
