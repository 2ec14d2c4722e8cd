"""The engines against one another: ratios within one run, sides interleaved, medians and spread.

    python -m benchmarks.engines [--rounds 5] [--scale 1.0] [--json FILE]

`--scale 0.1` makes every chain a tenth as long, for a quick look. Times are of `evaluate` on a chain in memory, the
counting of the observed labels included.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from chainfold import Chain, Layout, Model, SyntheticChain, evaluate
from chainfold.data.chain import gather

Run = Callable[[], object]


def interleaved(runs: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    """Seconds of each run in each round; a first round, not counted, compiles and warms."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(rounds + 1):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            if round_:
                times[name].append(time.perf_counter() - begin)
    return times


def ratios(times: dict[str, list[float]], slow: str, fast: str) -> list[float]:
    """How many times as long `slow` takes as `fast`, round by round."""
    return [a / b for a, b in zip(times[slow], times[fast], strict=True)]


def chain_of(positions: int, n_labels: int, n_attributes: int, active: int) -> tuple[Model, Chain]:
    source = SyntheticChain(positions, n_labels, n_attributes, active, seed=1)
    return Model(Layout.full(n_labels, n_attributes), source.true_weights()), gather(source)


def in_memory(n_labels: int, active: int, n_attributes: int, positions: int, rounds: int) -> dict[str, Any]:
    """`stream` against `fb`, and `parallel` on one thread and two."""
    model, chain = chain_of(positions, n_labels, n_attributes, active)
    times = interleaved(
        {
            "fb": lambda: evaluate(model, chain, "fb"),
            "stream": lambda: evaluate(model, chain, "stream"),
            "parallel, 1 thread": lambda: evaluate(model, chain, "parallel", threads=1),
            "parallel, 2 threads": lambda: evaluate(model, chain, "parallel", threads=2),
        },
        rounds,
    )
    return {
        "positions": positions,
        "labels": n_labels,
        "active": active,
        "weights": model.layout.size,
        "nanoseconds": {name: [t / positions * 1e9 for t in values] for name, values in times.items()},
        "stream / fb": ratios(times, "stream", "fb"),
        "parallel, 1 / 2 threads": ratios(times, "parallel, 1 thread", "parallel, 2 threads"),
        "stream / parallel on 2": ratios(times, "stream", "parallel, 2 threads"),
    }


def against_emp(positions: int, rounds: int) -> dict[str, Any]:
    """`emp` as published against `stream`, a position, at N = 22, V = 20,000, A = 19."""
    sizes = (22, 20_000, 19)
    few = 2  # positions; emp takes seconds for each
    model, short = chain_of(few, *sizes)
    _, long = chain_of(positions, *sizes)
    times = interleaved(
        {"emp": lambda: evaluate(model, short, "emp"), "stream": lambda: evaluate(model, long, "stream")}, rounds
    )
    a_position = {
        "emp": [t / few for t in times["emp"]],
        "stream": [t / positions for t in times["stream"]],
    }
    return {
        "labels": sizes[0],
        "weights": model.layout.size,
        "nanoseconds": {name: [t * 1e9 for t in values] for name, values in a_position.items()},
        "emp / stream": ratios(a_position, "emp", "stream"),
    }


def summary(values: list[float]) -> str:
    return f"{statistics.median(values):,.4g}  ({min(values):,.4g} – {max(values):,.4g})"


def show(results: list[dict[str, Any]]) -> None:
    table = Table(title="median (least – most)")
    for heading in ("chain", "what", "value"):
        table.add_column(heading, justify="right" if heading == "value" else "left")
    for result in results:
        about = f"N = {result['labels']}, M = {result['weights']:,}"
        about += f", A = {result['active']}, T = {result['positions']:,}" if "active" in result else ""
        for name, values in result["nanoseconds"].items():
            table.add_row(about, f"{name}, ns a position", summary(values))
        for name, values in result.items():
            if isinstance(values, list):
                table.add_row(about, f"[bold]{name}[/bold]", f"[bold]{summary(values)}[/bold]")
        table.add_section()
    Console(width=130).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    million = int(1_000_000 * arguments.scale)
    results = [
        in_memory(5, 10, 1_000, million, arguments.rounds),
        in_memory(23, 41, 2_000, million, arguments.rounds),
        in_memory(64, 20, 2_000, million, arguments.rounds),
        in_memory(5, 8, 1_000_000, million // 5, arguments.rounds),  # more weights than positions
        against_emp(million // 10, min(arguments.rounds, 3)),
    ]
    show(results)
    if arguments.json is not None:
        about = {"date": date.today().isoformat(), "machine": platform.processor(), "cores": os.cpu_count()}
        arguments.json.write_text(json.dumps({**about, "results": results}, indent=1))


if __name__ == "__main__":
    main()
