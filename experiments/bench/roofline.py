"""The ceilings of this machine, measured by kernels that do nothing else, and how near chainfold's kernels come."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from chainfold import Layout, SyntheticChain
from chainfold.chain.chain import gather
from chainfold.kernels.simd import fma, load, splat, sum_lanes
from chainfold.kernels.slots import WIDTH
from chainfold.system.jit import CONTRACT, kernel
from experiments.bench.findings import Cell, ResultTable, SectionResults
from experiments.bench.kernel_work import KernelWork, kernels_on
from experiments.bench.section import Context, Section
from experiments.bench.timing import interleaved, median

_UNROLLED = 8  # vectors in one step of the loops below
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_SIZES = {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}  # bytes, where the system does not say
_SHARE = 4  # of a cache, one part is read; two threads share L3
_BEYOND = 8  # times L3 is memory
_BYTES, _STEPS = 2 << 30, 50_000_000  # read, or fused products, in one run
_THREADS = (1, 2)
_DENSE = (23, 2_000, 41)  # labels, attributes, attributes a position


@kernel(fastmath=CONTRACT)
def read_through(array: Any, passes: int) -> float:
    """Read an array again and again."""
    a = b = c = d = e = f = g = h = splat(0.0)
    for _ in range(passes):
        for at in range(0, array.size, 64):
            a, b = a + load(array, at), b + load(array, at + 8)
            c, d = c + load(array, at + 16), d + load(array, at + 24)
            e, f = e + load(array, at + 32), f + load(array, at + 40)
            g, h = g + load(array, at + 48), h + load(array, at + 56)
    return float(sum_lanes(((a + b) + (c + d)) + ((e + f) + (g + h))))


@kernel(fastmath=CONTRACT)
def multiply_and_add(steps: int, factor: float) -> float:
    """Eight chains of fused products, of eight doubles each."""
    x, y = splat(factor), splat(1.0)
    a = b = c = d = e = f = g = h = splat(0.0)
    for _ in range(steps):
        a, b, c, d = fma(a, x, y), fma(b, x, y), fma(c, x, y), fma(d, x, y)
        e, f, g, h = fma(e, x, y), fma(f, x, y), fma(g, x, y), fma(h, x, y)
    return float(sum_lanes(((a + b) + (c + d)) + ((e + f) + (g + h))))


def cache_sizes() -> dict[str, int]:
    """Bytes of each level of cache for data."""
    sizes = dict(_SIZES)
    for index in sorted(_CACHES.glob("index*")) if _CACHES.exists() else ():
        level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction" and size.endswith("K") and f"L{level}" in sizes:
            sizes[f"L{level}"] = int(size[:-1]) << 10
    return sizes


def run(context: Context) -> SectionResults:
    sizes = cache_sizes()
    areas = {**{level: size // _SHARE for level, size in sizes.items()}, "memory": _BEYOND * sizes["L3"]}
    total, steps = context.sized(_BYTES, _BYTES >> 5), context.sized(_STEPS, _STEPS >> 6)
    amounts: dict[tuple[str, int], float] = {}
    runs: dict[str, Callable[[], object]] = {}
    with ThreadPoolExecutor(max(_THREADS)) as pool:
        for threads in _THREADS:
            for area, size in areas.items():
                whole = size // (8 * WIDTH * _UNROLLED) * WIDTH * _UNROLLED
                passes = max(1, total // (8 * whole))
                arrays = [np.ones(whole) for _ in range(threads)]
                amounts[area, threads] = 8.0 * whole * passes * threads
                runs[f"{area}, {threads}"] = _together(pool, read_through, [(array, passes) for array in arrays])
            amounts["fused", threads] = 2.0 * WIDTH * _UNROLLED * steps * threads
            runs[f"fused, {threads}"] = _together(pool, multiply_and_add, [(steps, 0.5)] * threads)
        context.say("ceilings")
        times = interleaved(runs, context.rounds)
    rates = {
        (what, threads): [amount / seconds / 1e9 for seconds in times[f"{what}, {threads}"]]
        for (what, threads), amount in amounts.items()
    }
    rows: list[list[Cell]] = [
        [_named(what, areas), *(rates[what, threads] for threads in _THREADS)] for what in (*areas, "fused")
    ]
    tables = [ResultTable("Ceilings", ["what", "1 thread", "2 threads"], rows)]
    ceilings = {what: median(rates[what, 1]) for what in (*areas, "fused")}
    context.say("chainfold's kernels")
    corpus = context.corpora.chunks()
    dense = gather(SyntheticChain(context.sized(200_000, 10_000), *_DENSE, seed=1))
    for name, source, layout in (
        (corpus.name, context.encoded(corpus), None),
        ("padded rows only", dense, Layout.full(dense.n_labels, dense.n_attributes)),
    ):
        tables.append(_compared(name, kernels_on(source, layout, context.rounds), ceilings))
    return SectionResults(tables)


def _together(pool: ThreadPoolExecutor, work: Any, arguments: list[tuple[Any, ...]]) -> Callable[[], object]:
    return lambda: list(pool.map(lambda these: work(*these), arguments))


def _named(what: str, areas: dict[str, int]) -> str:
    if what == "fused":
        return "fused products of doubles, two operations each, billion operations a second"
    return f"reading {areas[what] >> 10:,} KiB, from {what}, GB a second"


def _compared(name: str, work: list[KernelWork], ceilings: dict[str, float]) -> ResultTable:
    """Each kernel with the least time that the ceilings allow, and what share of the time taken that is."""
    rows: list[list[Cell]] = []
    for one in work:
        by_bytes, by_operations = one.bytes / ceilings[one.area], one.operations / ceilings["fused"]
        shares = [100 * max(by_bytes, by_operations) / taken for taken in one.nanoseconds]
        sizes: list[Cell] = [round(one.bytes), one.area, round(one.operations)]
        rows.append([one.kernel, *sizes, by_bytes, by_operations, one.nanoseconds, shares])
    columns = ["kernel", "bytes", "from", "operations", "ns by bytes", "ns by operations", "ns taken", "% of the roof"]
    return ResultTable(f"chainfold's kernels a position, one thread: {name}", columns, rows)


SECTION = Section(
    "roofline",
    "What this machine can do",
    "Small kernels that only read, or only multiply and add, eight doubles at a time: what any program could reach. "
    "Then chainfold's own kernels, with the bytes that they move and the operations that they do at a position, the "
    "least time that either ceiling allows, and the time they take. docs/speed.md says what the rest is.",
    1.0,
    run,
)
