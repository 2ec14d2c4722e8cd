"""The engines against one another: time against the length, against threads, and the paper's algorithm beside ours."""

from __future__ import annotations

from chainfold import Chain, Layout, Model, SyntheticChain, log_likelihood
from chainfold.chain.chain import gather
from experiments.bench.findings import Cell, ResultTable, SectionResults
from experiments.bench.section import Context, Section
from experiments.bench.timing import each, interleaved, ratios, timed

_LENGTH_SHAPE = 5, 100, 8  # labels, attributes, active
_ROUNDS = {10**7: 2, 10**8: 1}  # of the longest chains
_SHAPES = (  # labels, attributes, active, and positions as a share of a million
    (5, 1_000, 10, 1.0),
    (23, 2_000, 41, 1.0),
    (64, 2_000, 20, 0.4),
    (5, 1_000_000, 8, 0.2),  # more weights than positions
)
_ENGINES = {"fb": ("fb", 1), "stream": ("stream", 1), "parallel, 1": ("parallel", 1), "parallel, 2": ("parallel", 2)}
_PAPER = 22, 20_000, 19  # labels, attributes, active
_FEW = 2  # positions for the paper's algorithm, which takes seconds for each


def _synthetic(positions: int, labels: int, attributes: int, active: int) -> tuple[Model, SyntheticChain]:
    source = SyntheticChain(positions, labels, attributes, active, seed=1)
    return Model(Layout.full(labels, attributes), source.true_weights()), source


def _chain_of(positions: int, labels: int, attributes: int, active: int) -> tuple[Model, Chain]:
    model, source = _synthetic(positions, labels, attributes, active)
    return model, gather(source)


def _lengths(context: Context) -> ResultTable:
    """`stream`, on chains made on the fly."""
    rows: list[list[Cell]] = []
    log_likelihood(*_synthetic(1000, *_LENGTH_SHAPE), "stream")
    for power in range(3, context.sized(8, 5) + 1):
        positions = 10**power
        context.say(f"stream: 10^{power} positions")
        model, source = _synthetic(positions, *_LENGTH_SHAPE)
        rounds = context.fewer(_ROUNDS.get(positions, context.rounds))
        seconds = [timed(lambda m=model, s=source: log_likelihood(m, s, "stream")) for _ in range(rounds)]  # type: ignore[misc]
        rows.append([positions, seconds, each(seconds, 1e9 / positions)])
    labels, _, active = _LENGTH_SHAPE
    title = f"`stream` against the length: {labels} labels, {active} attributes a position, made on the fly"
    return ResultTable(title, ["positions", "seconds", "nanoseconds a position"], rows)


def _engines(context: Context) -> ResultTable:
    rows: list[list[Cell]] = []
    for labels, attributes, active, share in _SHAPES:
        positions = int(share * context.sized(1_000_000, 10_000))
        context.say(f"engines: {labels} labels, {positions:,} positions")
        model, chain = _chain_of(positions, labels, attributes, active)
        runs = {
            name: lambda engine=engine, threads=threads: log_likelihood(model, chain, engine, threads=threads)  # noqa: B023
            for name, (engine, threads) in _ENGINES.items()
        }
        times = interleaved(runs, context.rounds)
        rows.append(
            [
                f"{labels} labels, {active} attributes a position, {model.layout.size:,} weights",
                positions,
                *(each(seconds, 1e9 / positions) for seconds in times.values()),
                ratios(times, "stream", "fb"),
                ratios(times, "parallel, 1", "parallel, 2"),
            ]
        )
    named = [f"`{name}`" if "," not in name else f"`parallel` on {name[-1]}" for name in _ENGINES]
    columns = ["chain", "positions", *named, "`stream` / `fb`", "`parallel`, 1 / 2 threads"]
    return ResultTable("Engines on a chain in memory, nanoseconds a position", columns, rows)


def _against_the_paper(context: Context) -> ResultTable:
    """`emp` as published against `stream`."""
    context.say("the paper's algorithm")
    sizes = (5, 2_000, 10) if context.quick else _PAPER
    positions = context.sized(100_000, 5_000)
    model, short = _chain_of(_FEW, *sizes)
    _, long = _chain_of(positions, *sizes)
    runs = {"emp": lambda: log_likelihood(model, short, "emp"), "stream": lambda: log_likelihood(model, long, "stream")}
    times = interleaved(runs, context.fewer(3))
    a_position = {"emp": each(times["emp"], 1 / _FEW), "stream": each(times["stream"], 1 / positions)}
    row: list[Cell] = [
        f"{sizes[0]} labels, {model.layout.size:,} weights",
        *(each(seconds, 1e9) for seconds in a_position.values()),
        ratios(a_position, "emp", "stream"),
    ]
    columns = ["chain", "`emp`", "`stream`", "`emp` / `stream`"]
    return ResultTable("The paper's algorithm as published, nanoseconds a position", columns, [row])


def run(context: Context) -> SectionResults:
    return SectionResults([_lengths(context), _engines(context), _against_the_paper(context)])


SECTION = Section(
    "scaling",
    "Length and threads",
    "log Z, expected and observed counts by the engines of chainfold on synthetic chains. The first table includes "
    "making the chain. How the time grows with the number of labels is under the gradient.",
    run,
)
