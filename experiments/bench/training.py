"""From a raw file to a trained model, each program in a fresh process: seconds, memory, objective, and quality."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from chainfold.metrics import Count, Scores
from experiments.bench.datasets import READERS, Dataset
from experiments.bench.findings import Cell, ResultTable, SectionResults, Target
from experiments.bench.peers import CRFSUITE, Peer, installed, missing
from experiments.bench.section import Context, Section
from experiments.bench.timing import chainfold, median, ratios, told

OURS = "chainfold"
_FEW = 20  # iterations, where all programs take part

Facts = dict[str, Any]


def train_ours(corpus: Dataset, model: Path, *options: str) -> Facts:
    """From the command line; what was encoded on the way before is not there."""
    return chainfold("train", str(corpus.train), "-o", str(model), *corpus.flags, *options)


def train_peer(peer: Peer, corpus: Dataset, model: Path, iterations: int | None) -> Facts:
    limit = [] if iterations is None else [str(iterations)]
    return told("experiments.bench.peers", peer.package, corpus.kind, str(corpus.train), str(model), *limit)


def scores_of_ours(corpus: Dataset, model: Path) -> tuple[float, float | None]:
    """Accuracy and, where the labels are chunks, F1 of spans, on the test file."""
    scores = chainfold("eval", str(model), str(corpus.test))
    return scores["accuracy"], None if scores["spans"] is None else scores["spans"]["f1"]


def scores_of_peer(peer: Peer, corpus: Dataset, model: Path) -> tuple[float, float | None]:
    items, gold = (list(part) for part in zip(*READERS[corpus.kind](corpus.test), strict=True))
    scores = compared(gold, peer.tagger(model)(items))
    return scores.accuracy, None if scores.spans_overall is None else scores.spans_overall.f1


def compared(gold: Iterable[list[str]], predicted: Iterable[list[str]]) -> Scores:
    pairs = list(zip(gold, predicted, strict=True))
    numbers = {label: k for k, label in enumerate(sorted({label for pair in pairs for part in pair for label in part}))}
    count = Count(list(numbers))
    for pair in pairs:
        truth, found = (np.array([numbers[label] for label in part], np.int32) for part in pair)
        count.add(truth, found, np.arange(truth.size) == 0)
    return count.scores()


def contest(
    context: Context, corpus: Dataset, peers: list[Peer], rounds: int, iterations: int | None
) -> dict[str, list[Facts]]:
    """Facts of each program in each round; the last round has the quality of its model."""
    found: dict[str, list[Facts]] = {name: [] for name in (*(peer.package for peer in peers), OURS)}
    limit = [] if iterations is None else ["--max-iterations", str(iterations)]
    for round_ in range(rounds):
        with TemporaryDirectory(dir=context.folder) as name:
            folder = Path(name)
            if round_ == 0:
                train_ours(corpus, folder / "compiles.model", "--max-iterations", "1")
            for peer in peers:
                context.say(f"{corpus.name}: {peer.package}, round {round_ + 1} of {rounds}")
                found[peer.package].append(train_peer(peer, corpus, folder / peer.package, iterations))
            context.say(f"{corpus.name}: {OURS}, round {round_ + 1} of {rounds}")
            found[OURS].append(train_ours(corpus, folder / OURS, "--c2", "1", *limit))
            if round_ == rounds - 1:
                for peer in peers:
                    found[peer.package][-1]["quality"] = scores_of_peer(peer, corpus, folder / peer.package)
                found[OURS][-1]["quality"] = scores_of_ours(corpus, folder / OURS)
    return found


def run(context: Context) -> SectionResults:
    chunks, xpos = context.corpora.chunks(), context.corpora.tags("xpos")
    peers = installed()
    first = [peer for peer in peers if peer is CRFSUITE]
    until = _FEW if context.quick else None  # converged
    ended = contest(context, chunks, first, context.rounds, until)
    tagged = contest(context, xpos, first, context.fewer(1), until)
    few = contest(context, chunks, peers, context.fewer(2), _FEW)
    contests = {chunks.name: ended, xpos.name: tagged, f"{chunks.name}, {_FEW} iterations": few}
    columns = ["data", "program", "seconds", "peak MB", "iterations", "objective", "accuracy %", "span F1 %"]
    rows = [[data, *_row(name, facts)] for data, found in contests.items() for name, facts in found.items()]
    speeds: list[list[Cell]] = [
        [data, name, _times(found, name)] for data, found in contests.items() for name in found if name != OURS
    ]
    apart = [
        (ours["objective"] - theirs["objective"]) / theirs["objective"]
        for ours, theirs in zip(ended[OURS], ended.get(CRFSUITE.package, []), strict=False)
    ]
    bars = [
        Target(f"{chunks.name}: {CRFSUITE.package}'s time / ours", _times(ended, CRFSUITE.package), 5.0),
        Target(f"{chunks.name}: objective above {CRFSUITE.package}'s, as a share of it", apart, 1e-4, "at most"),
        Target(f"{xpos.name}: {CRFSUITE.package}'s time / ours", _times(tagged, CRFSUITE.package), 5.0),
    ]
    tables = [ResultTable("From the raw file to a model", columns, rows)]
    if speeds:
        tables.append(ResultTable("Time as a multiple of chainfold's", ["data", "program", "times"], speeds))
    return SectionResults(tables, bars, missing())


def _times(found: dict[str, list[Facts]], name: str) -> list[float]:
    return ratios({key: [one["wall"] for one in facts] for key, facts in found.items()}, name, OURS)


def _row(name: str, facts: list[Facts]) -> list[Cell]:
    last = facts[-1]
    accuracy, f1 = last["quality"]
    return [
        name,
        [one["wall"] for one in facts],
        round(median([one["peak_rss_mb"] for one in facts])),
        last["iterations"],
        None if last["objective"] is None else f"{last['objective']:,.2f}",
        *(None if share is None else f"{100 * share:.2f}" for share in (accuracy, f1)),
    ]


SECTION = Section(
    "training",
    "Training",
    "From the compressed text to a model on disk, each run in a fresh process, by the wall clock: start-up, reading, "
    "making attributes, training with c2 = 1 until it converges by CRFsuite's default rules, and writing. The other "
    "programs' attributes are made in plain Python, as their examples do. chainfold runs from the command line on all "
    "cores. The models are then scored on the test file.",
    run,
)
