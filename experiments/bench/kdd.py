"""One long sequence of 23 labels: `stream` beside `fb`, and both beside CRFsuite."""

from __future__ import annotations

from functools import partial

from chainfold.chain.chain import gather
from chainfold.engines.log_likelihood import log_likelihood
from experiments.bench.findings import Cell, ResultTable, SectionResults, Target
from experiments.bench.gradient import ITERATION, ONE, PEER, TWO, Ours, Sides, beside_crfsuite
from experiments.bench.peers import CRFSUITE, has, missing
from experiments.bench.section import Context, Section
from experiments.bench.timing import each, ratios, timed


def run(context: Context) -> SectionResults:
    corpus = context.corpora.kdd()
    chain = gather(context.encoded(corpus))
    context.say(f"{corpus.name}: {chain.positions:,} positions")
    ours = Ours(chain)
    model = ours.space.nameless(ours.point)
    engines = {name: partial(log_likelihood, model, chain, name) for name in ("stream", "fb")}
    for engine in engines.values():
        engine()  # compiles
    sides: Sides = {**ours.sides, **{name: partial(timed, engine) for name, engine in engines.items()}}
    times = beside_crfsuite(chain, sides, context.rounds)
    rows: list[list[Cell]] = [
        [name, each(times[name], 1e9 / chain.positions), ratios(times, PEER, name)]
        for name in (PEER, ONE, TWO, ITERATION, "fb", "stream")
        if name in times
    ]
    bars = [
        Target("stream / fb", ratios(times, "stream", "fb"), 1.05, "at most"),
        Target(f"{PEER} / stream", ratios(times, PEER, "stream"), 4.0),
    ]
    title = f"{corpus.name} as one sequence: {chain.positions:,} positions, {chain.n_labels} labels"
    columns = ["what", "nanoseconds a position", f"times as fast as {PEER}"]
    return SectionResults([ResultTable(title, columns, rows)], bars, [] if has(CRFSUITE) else missing()[:1])


SECTION = Section(
    "kdd",
    "One long sequence",
    "The KDD log as one sequence in memory, measured as the gradient above. `stream` reads it once in bounded memory; "
    "`fb` keeps everything. Both count the observed labels too.",
    run,
)
