"""The estimator on Python's own objects, beside sklearn-crfsuite: lists of dicts in, lists of labels out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from chainfold import CRF, Model, StreamTagger
from experiments.bench.datasets import word_sequences
from experiments.bench.findings import Cell, ResultTable, SectionResults, Target
from experiments.bench.peers import PEERS, has
from experiments.bench.section import Context, Section
from experiments.bench.timing import Run, Times, each, interleaved, ratios

OURS = {1: "chainfold, 1 thread", 2: "chainfold, 2 threads"}
_PEER = PEERS[1]
_SETTINGS: dict[str, Any] = {"c2": 1.0, "all_possible_transitions": True}
_ITERATIONS = 10  # of the models that label
_SENTENCES = 1500
_LENGTHS = (5, 24, 34)  # positions of a sentence that is labelled alone
_CALLS, _QUICK_CALLS = 200, 2  # in a round of calls that take microseconds
_MILLI = 1e3
_ITEM, _ITEM_MARGINALS = "dict of attributes: labels", "dict of attributes: labels and marginals"


class _Call(NamedTuple):
    """A call of the estimator, and what has to be reached."""

    name: str
    run: Callable[[Any, int], object]  # with an estimator, or what makes one, and the number of threads
    bar: float | None  # times as fast as the other program, on one thread
    aim: float | None = None
    calls: int = 1  # in a round
    trains: bool = False
    long: bool = False  # measured once, after others that have compiled all it needs


def run(context: Context) -> SectionResults:
    data = _data(context)
    calls = [*_training(data), *_labelling(data, context.sized(_CALLS, _QUICK_CALLS))]
    times = measured(calls, data, context)
    context.say("StreamTagger.push")
    return results(data, calls, times, _pushes(data, context.sized(40, 2), context.rounds))


class _Data(NamedTuple):
    """Sentences to train on and to label."""

    name: str
    train: Path
    options: dict[str, Any]  # of `encode`
    items: list[Any]
    labels: list[list[str]]
    test: list[Any]


def _data(context: Context) -> _Data:
    corpus = context.corpora.chunks()
    context.say(f"{corpus.name}: making the dicts")
    items, labels = map(list, zip(*word_sequences(corpus.train), strict=True))
    test = [items for items, _ in word_sequences(corpus.test)][:_SENTENCES]
    return _Data(corpus.name, corpus.train, corpus.options, items, labels, test)


def measured(calls: list[_Call], data: _Data, context: Context) -> list[Times]:
    """Milliseconds of each call in each round, by program and threads."""
    makers, fitted = _estimators(), {}
    if any(not call.trains for call in calls):
        context.say("training the models")
        fitted = {
            name: make(1, max_iterations=_ITERATIONS).fit(data.items, data.labels) for name, make in makers.items()
        }
    found = []
    for call in calls:
        context.say(call.name)
        runs = {
            name: _repeated(call, make if call.trains else fitted[name], 2 if name == OURS[2] else 1)
            for name, make in makers.items()
        }
        seconds = interleaved(runs, 1 if call.long else context.rounds, warm=not call.long)
        found.append({name: each(rounds, _MILLI / call.calls) for name, rounds in seconds.items()})
    return found


def results(data: _Data, calls: list[_Call], times: list[Times], pushes: Times) -> SectionResults:
    rows: list[list[Cell]] = []
    bars = []
    for call, found in zip(calls, times, strict=True):
        faster = {threads: ratios(found, _PEER.package, name) for threads, name in OURS.items()}
        rows.append([call.name, found.get(_PEER.package), *(found[name] for name in OURS.values()), *faster.values()])
        if call.bar is not None:
            bars.append(Target(f"{call.name}: times as fast, 1 thread", faster[1], call.bar, aim=call.aim))
    bars += [
        Target(f"StreamTagger.push of one row, {name}, 1 thread: milliseconds", pushes[name], 0.1, "at most")
        for name in (_ITEM, _ITEM_MARGINALS)
    ]
    positions = sum(map(len, data.items))
    title = f"{data.name}, {positions:,} positions to train on, {len(data.test):,} sentences to label"
    push_rows: list[list[Cell]] = [[name, rounds] for name, rounds in pushes.items()]
    tables = [
        ResultTable(f"Milliseconds a call: {title}", _COLUMNS, rows),
        ResultTable("StreamTagger.push, one row a call, 1 thread", ["row, computed", "milliseconds"], push_rows),
    ]
    return SectionResults(tables, bars, [] if has(_PEER) else [f"{_PEER.package} is not installed, and is left out."])


_COLUMNS = ["call", _PEER.package, *OURS.values(), "times as fast, 1 thread", "times as fast, 2 threads"]


def _estimators() -> dict[str, Any]:
    """Functions that make an estimator, by program and threads."""
    makers: dict[str, Any] = {}
    if has(_PEER):
        from sklearn_crfsuite import CRF as THEIRS

        makers[_PEER.package] = lambda threads, **options: THEIRS(algorithm="lbfgs", **_SETTINGS, **options)
    for name in OURS.values():
        makers[name] = lambda threads, **options: CRF(threads=threads, **_SETTINGS, **options)
    return makers


def _training(data: _Data) -> list[_Call]:
    items, labels = data.items, data.labels
    few = f"fit, to convergence, {min(_SENTENCES, len(items)):,} sentences"
    return [
        _Call(
            "fit, one iteration",
            lambda make, threads: make(threads, max_iterations=1).fit(items, labels),
            3.0,
            5.0,
            trains=True,
        ),
        _Call(few, lambda make, threads: make(threads).fit(items[:_SENTENCES], labels[:_SENTENCES]), None, trains=True),
        _Call(
            "fit, to convergence", lambda make, threads: make(threads).fit(items, labels), 6.0, trains=True, long=True
        ),
    ]


def _labelling(data: _Data, calls: int) -> list[_Call]:
    test = data.test
    singles = [min(test, key=lambda sentence: abs(len(sentence) - length)) for length in _LENGTHS]
    bars = {5: (1.0, 1.0), 24: (1.0, 1.0), 34: (1.5, 2.0)}
    found = []
    for length, sentence in zip(_LENGTHS, singles, strict=True):
        one, marginals = bars[length]
        found += [
            _Call(
                f"predict_single, {len(sentence)} positions",
                lambda crf, threads, sentence=sentence: crf.predict_single(sentence),  # type: ignore[misc]
                one,
                calls=calls,
            ),
            _Call(
                f"predict_marginals_single, {len(sentence)} positions",
                lambda crf, threads, sentence=sentence: crf.predict_marginals_single(sentence),  # type: ignore[misc]
                marginals,
                calls=calls,
            ),
        ]
    return [
        *found,
        _Call(f"predict, {len(test):,} sentences", lambda crf, threads: crf.predict(test), 2.0, 3.0),
        _Call(f"predict_marginals, {len(test):,} sentences", lambda crf, threads: crf.predict_marginals(test), 3.0),
    ]


def _repeated(call: _Call, subject: Any, threads: int) -> Run:
    def repeated() -> None:
        with _on_cores(threads):
            for _ in range(call.calls):
                call.run(subject, threads)

    return repeated


@contextmanager
def _on_cores(count: int) -> Iterator[None]:
    """Keep this thread and those that it starts to so many cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[-count:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _pushes(data: _Data, sentences: int, rounds: int) -> Times:
    """Milliseconds of a push of one row, without and with marginals."""
    test = data.test[:sentences]
    starts = [t == 0 for sentence in test for t in range(len(sentence))]
    items = [item for sentence in test for item in sentence]
    words = [{"w": item["word.lower()"], "pos": item["postag"]} for item in items]
    of_items = CRF(max_iterations=_ITERATIONS, **_SETTINGS).fit(data.items, data.labels).model_
    of_columns = CRF(max_iterations=_ITERATIONS, encoding=data.options, **_SETTINGS).fit(data.train).model_

    def push(model: Model, rows: list[Any], marginals: bool) -> Run:
        tagger = StreamTagger(model, marginals=marginals)

        def pushed() -> None:
            with _on_cores(1):
                for row, start in zip(rows, starts, strict=True):
                    tagger.push(row, start=start)

        return pushed

    runs = {
        _ITEM: push(of_items, items, False),
        _ITEM_MARGINALS: push(of_items, items, True),
        "columns and a template of 19 attributes: labels": push(of_columns, words, False),
        "columns and a template of 19 attributes: labels and marginals": push(of_columns, words, True),
    }
    return {name: each(seconds, _MILLI / len(items)) for name, seconds in interleaved(runs, rounds).items()}


SECTION = Section(
    "doors",
    "The estimator on dicts",
    "`CRF` with lists of dicts beside sklearn-crfsuite, with the attributes of its tutorial: about 19 texts, bools and "
    "numbers a position. Both train with L-BFGS, c2 = 1, a weight for every two labels, and CRFsuite's rules for when "
    "to stop; a fit includes reading the dicts. On one thread the process is kept to one core, on two to two; "
    "sklearn-crfsuite has one thread. Calls that take microseconds are repeated in each round; training on all "
    "sentences to convergence is measured once.",
    run,
)
