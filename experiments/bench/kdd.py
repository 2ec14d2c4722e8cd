"""One long sequence of 23 labels: `stream` beside `fb`, and both beside CRFsuite."""

from __future__ import annotations

from functools import partial

from benchmarks.gradient import ITERATION, ONE, PEER, TWO, Ours, Sides, beside_crfsuite
from benchmarks.measure import each, ratios, timed
from benchmarks.peers import CRFSUITE, has, missing
from benchmarks.piece import Context, Piece
from benchmarks.results import Bar, Cell, Found, Table

from chainfold.chain.chain import gather
from chainfold.engines.log_likelihood import log_likelihood


def run(context: Context) -> Found:
    corpus = context.corpora.kdd()
    chain = gather(context.encoded(corpus))
    context.say(f"{corpus.name}: {chain.positions:,} positions")
    ours = Ours(chain)
    model = ours.space.model(ours.point)
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
        Bar("stream / fb", ratios(times, "stream", "fb"), 1.05, "at most"),
        Bar(f"{PEER} / stream", ratios(times, PEER, "stream"), 4.0),
    ]
    title = f"{corpus.name} as one sequence: {chain.positions:,} positions, {chain.n_labels} labels"
    columns = ["what", "nanoseconds a position", f"times as fast as {PEER}"]
    return Found([Table(title, columns, rows)], bars, [] if has(CRFSUITE) else missing()[:1])


PIECE = Piece(
    "kdd",
    "One long sequence",
    "The KDD log as one sequence in memory, measured as the gradient above. `stream` reads it once in bounded memory; "
    "`fb` keeps everything. Both count the observed labels too.",
    1.5,
    run,
)
