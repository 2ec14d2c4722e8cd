"""Rows that come through a pipe: how many a second, and how long each waits for its label."""

from __future__ import annotations

import gzip
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from chainfold import Model, open_model, write_chain
from chainfold.features.for_model import blocks_for_model, gather_blocks
from chainfold.inference.follow import Following
from experiments.bench.datasets import Dataset
from experiments.bench.findings import Cell, ResultTable, SectionResults, Target
from experiments.bench.section import Context, Section
from experiments.bench.timing import Times, interleaved, ratios
from experiments.bench.training import train_ours

_ITERATIONS = 20
_LEAST = 200_000.0  # rows a second, of encoded data
_TEMPLATE, _TEXT, _MARGINALS, _ENCODED = (
    "text, its attributes alone",
    "text to labels",
    "text to labels and marginals",
    "encoded data to labels",
)
_SHARES = (("median", 0.5), ("99 %", 0.99), ("largest", 1.0))


def run(context: Context) -> SectionResults:
    tables: list[ResultTable] = []
    waits: list[list[Cell]] = []
    bars: list[Target] = []
    for corpus in (context.corpora.chunks(), context.corpora.kdd()):
        context.say(f"{corpus.name}: training the model")
        corpus = _run_together(corpus, context.folder)
        path = context.folder / f"{corpus.name}.model".replace("/", "-")
        train_ours(corpus, path, "--max-iterations", str(_ITERATIONS))
        model = open_model(path)
        context.say(f"{corpus.name}: through a pipe")
        times, rows = _times(corpus, model, context)
        columns = ["what", "rows a second", "time as a multiple of the attributes alone"]
        tables.append(
            ResultTable(f"{corpus.name} as one sequence: {rows:,} rows through a pipe", columns, _rows(times, rows))
        )
        bars.append(Target(f"{corpus.name}: encoded rows a second", [rows / one for one in times[_ENCODED]], _LEAST))
        for what, marginals in (("label", False), ("label and marginals", True)):
            context.say(f"{corpus.name}: rows one by one, {what}")
            waits.append([corpus.name, what, *_waits(corpus, model, marginals)])
    columns = ["data", "until all is final", *(name for name, _ in _SHARES), "looked ahead by the template"]
    return SectionResults([*tables, ResultTable("Rows that a row waits for", columns, waits)], bars, [])


def _run_together(corpus: Dataset, folder: Path) -> Dataset:
    """The corpus as one sequence, its test file plain and without blank lines."""
    target = folder / f"{corpus.name}-rows{corpus.test.with_suffix('').suffix}".replace("/", "-")
    with gzip.open(corpus.test, "rb") as file, target.open("wb") as out:
        out.writelines(line for line in file if line.strip())
    return Dataset(corpus.name, corpus.train, target, {**corpus.options, "one_sequence": True}, corpus.kind)


def _times(corpus: Dataset, model: Model, context: Context) -> tuple[Times, int]:
    assert model.vocabulary is not None, "it was trained on a file"
    encoded, vocabulary, layout = context.folder / "rows.chain", model.vocabulary, model.layout
    sizes: Any = SimpleNamespace(
        n_labels=layout.n_labels,
        n_attributes=layout.n_attributes,
        n_edge_attributes=layout.n_edge_attributes,
        vocabulary=vocabulary,
    )
    with encoded.open("wb") as file:  # with the numbers of the model, and its bins
        write_chain(file, gather_blocks(blocks_for_model(corpus.test, vocabulary, labels=False), sizes))
    runs: dict[str, Callable[[], object]] = {
        _TEMPLATE: lambda: [None for _ in blocks_for_model(corpus.test, vocabulary, labels=False)],
        _TEXT: lambda: _follow(corpus.test, model),
        _MARGINALS: lambda: _follow(corpus.test, model, marginals=True),
        _ENCODED: lambda: _follow(encoded, model),
    }
    return interleaved(runs, context.rounds), _follow(corpus.test, model).followed.rows


def _follow(path: Path, model: Model, **options: Any) -> Following:
    """A file through a pipe to nowhere, labelled on the way."""
    with Path(os.devnull).open("wb") as sink, _piped(path) as pipe:
        following = Following(sink, model, piped=True, **options)
        following.run(pipe)
    return following


@contextmanager
def _piped(path: Path) -> Iterator[IO[bytes]]:
    reader, writer = os.pipe()

    def write() -> None:
        with path.open("rb") as file, open(writer, "wb") as pipe:  # noqa: PTH123  (a number, not a path)
            shutil.copyfileobj(file, pipe)

    thread = threading.Thread(target=write)
    thread.start()
    with open(reader, "rb", buffering=0) as pipe:  # noqa: PTH123
        yield pipe
    thread.join()


def _rows(times: Times, rows: int) -> list[list[Cell]]:
    return [[name, [rows / one for one in seconds], ratios(times, name, _TEMPLATE)] for name, seconds in times.items()]


def _waits(corpus: Dataset, model: Model, marginals: bool) -> list[Cell]:
    following = _follow(corpus.test, model, marginals=marginals, lags=True)
    return [*(following.followed.lag_at(share) for _, share in _SHARES), following.right_context]


SECTION = Section(
    "streams",
    "Streams",
    "`tag --follow` without its start: a thread writes the file into a pipe, and what comes out goes nowhere. Beside "
    "it the attributes alone, made by the model's template without a pipe: what text cannot be faster than. Both "
    "corpora are run together into one sequence. How long rows wait is counted on the same file, one row at a time.",
    run,
)
