"""From text to labels, and from encoded data to labels, beside other programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chainfold import Model, Tagger, open_chain, open_model, tag_to, write_chain
from chainfold.chain.renumbered import Renumbered
from chainfold.features.encode import encode
from chainfold.inference.tagger import blocks_of
from experiments.bench.datasets import READERS, Dataset
from experiments.bench.findings import Cell, ResultTable, SectionResults, Target
from experiments.bench.peers import CRFSUITE, Tag, has, installed, missing
from experiments.bench.section import Context, Section
from experiments.bench.timing import Times, interleaved, ratios
from experiments.bench.training import train_ours

OURS = "chainfold"
_ITERATIONS = 10  # of the models, which have to be of some use but not good
_PREPARED = f"{CRFSUITE.package}, ItemSequence"


def run(context: Context) -> SectionResults:
    corpus = context.corpora.chunks()
    context.say(f"{corpus.name}: training the models")
    train_ours(corpus, context.folder / "tags.model", "--max-iterations", str(_ITERATIONS))
    model = open_model(context.folder / "tags.model")
    taggers: dict[str, Tag] = {}
    if has(CRFSUITE):
        theirs = context.folder / "tags.crfsuite"
        CRFSUITE.train(READERS[corpus.kind](corpus.train), theirs, _ITERATIONS)
        taggers = {peer.package: peer.tagger(theirs) for peer in installed()}  # all read CRFsuite's models
    positions = sum(len(labels) for _, labels in READERS[corpus.kind](corpus.test))
    context.say(f"{corpus.name}: text")
    text = interleaved(_text(context, corpus, model, taggers), context.rounds)
    context.say(f"{corpus.name}: encoded data")
    encoded = interleaved(_encoded(context, corpus, model, taggers), context.rounds)
    bars = [
        Target("text: positions a second, times python-crfsuite's", ratios(text, CRFSUITE.package, OURS), 5.0),
        Target(
            "encoded data: positions a second, times python-crfsuite's", ratios(encoded, CRFSUITE.package, OURS), 10.0
        ),
    ]
    tables = [
        ResultTable(f"{title}: {corpus.name}, test file, {positions:,} positions", _COLUMNS, _rows(times, positions))
        for title, times in (("Text to labels", text), ("Encoded data to labels", encoded))
    ]
    return SectionResults(tables, bars, missing())


def _text(context: Context, corpus: Dataset, model: Model, taggers: dict[str, Tag]) -> dict[str, Callable[[], object]]:
    """The compressed text, its attributes, the labels; ours writes them to a file as well."""

    def ours() -> None:
        with (context.folder / "tagged.txt").open("wb") as sink:
            tag_to(sink, model, str(corpus.test))

    def theirs(tag: Tag) -> Callable[[], object]:
        return lambda: tag([items for items, _ in READERS[corpus.kind](corpus.test)])

    return {**{name: theirs(tag) for name, tag in taggers.items()}, OURS: ours}


def _encoded(
    context: Context, corpus: Dataset, model: Model, taggers: dict[str, Tag]
) -> dict[str, Callable[[], object]]:
    """Attributes that are there already: lists of strings, or a chain with the numbers of the model."""
    chain = _chain(corpus, model, context.folder)
    runs: dict[str, Callable[[], object]] = {}
    prepared = [items for items, _ in READERS[corpus.kind](corpus.test)]
    for name, tag in taggers.items():
        runs[name] = lambda tag=tag: tag(prepared)  # type: ignore[misc]
    if CRFSUITE.package in taggers:
        from pycrfsuite import ItemSequence

        sequences = [ItemSequence(items) for items in prepared]
        runs[_PREPARED] = lambda: taggers[CRFSUITE.package](sequences)
    runs[OURS] = lambda: [tagged.labels for tagged in Tagger(model).run(blocks_of(open_chain(chain)))]
    return runs


def _chain(corpus: Dataset, model: Model, folder: Path) -> Path:
    assert model.vocabulary is not None, "it was trained on a file"
    encode(corpus.test, folder / "test.chain", **corpus.options)
    target = folder / "test-known.chain"
    write_chain(target, Renumbered(open_chain(folder / "test.chain"), model.vocabulary))
    return target


_COLUMNS = ["program", "seconds", "positions a second", "time as a multiple of chainfold's"]


def _rows(times: Times, positions: int) -> list[list[Cell]]:
    return [
        [name, seconds, [positions / one for one in seconds], ratios(times, name, OURS)]
        for name, seconds in times.items()
    ]


SECTION = Section(
    "tagging",
    "Tagging",
    "The models are trained before, for a few iterations, and opened before. From text: read the compressed file, make "
    "the attributes, find the labels; chainfold also writes the file again with a column more. From encoded data: the "
    "other programs have lists of attribute strings in memory (and python-crfsuite, in a line of its own, sequences "
    "prepared in C++), chainfold a chain on disk. sklearn-crfsuite and chaine read python-crfsuite's model.",
    run,
)
