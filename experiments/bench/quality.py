"""Models of real data that take long: sparse ones, universal tags, the log by classes, a genome and ten of them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.bench.datasets import Dataset
from experiments.bench.findings import Cell, ResultTable, SectionResults
from experiments.bench.section import Context, Section
from experiments.bench.timing import chainfold
from experiments.bench.training import train_ours

# attacks by the class that the contest gave them; some are in the test file alone
_CLASSES = {
    "normal": "normal",
    "dos": "back land neptune pod smurf teardrop apache2 mailbomb processtable udpstorm",
    "probe": "ipsweep nmap portsweep satan mscan saint",
    "r2l": "ftp_write guess_passwd imap multihop phf spy warezclient warezmaster named sendmail snmpgetattack "
    "snmpguess worm xlock xsnoop httptunnel",
    "u2r": "buffer_overflow loadmodule perl rootkit ps sqlattack xterm",
}
_CLASS_OF = {attack: kind for kind, attacks in _CLASSES.items() for attack in attacks.split()}


def _scored(corpus: Dataset, folder: Path, *options: str) -> dict[str, Any]:
    model = folder / "scored.model"
    trained = train_ours(corpus, model, *options)
    scores = chainfold("eval", str(model), str(corpus.test))
    return {**trained, "scores": scores}


def _classes(context: Context, rows_alone: bool) -> Dataset:
    """The log by five classes, as one sequence; or every row a sequence of its own, as a logistic regression has it."""
    log = context.corpora.kdd()
    paths = []
    for source in (log.train, log.test):
        paths.append(context.folder / f"{source.name}.{'rows' if rows_alone else 'one'}.csv")
        with gzip.open(source, "rt") as lines, paths[-1].open("w") as out:
            out.write(",".join([*(f"c{k}" for k in range(41)), "label", *(["row"] if rows_alone else [])]) + "\n")
            for number, line in enumerate(lines):
                row, _, label = line.rstrip().rpartition(",")
                kind = _CLASS_OF.get(label.rstrip("."), label)
                out.write(f"{row},{kind}" + (f",{number}" if rows_alone else "") + "\n")
    options: dict[str, Any] = {"group": "row", "label": "label"} if rows_alone else {"one_sequence": True}
    title = "every row alone" if rows_alone else "one sequence"
    return Dataset(f"{log.name} by classes, {title}", paths[0], paths[1], options, made_up=log.made_up)


def _ten_times(context: Context, genome: Dataset) -> Dataset:
    target = context.folder / "ten-genomes.txt"
    with target.open("wb") as out:
        text = gzip.decompress(genome.train.read_bytes()) if genome.made_up else genome.train.read_bytes()
        for _ in range(10):
            out.write(text)
    return Dataset(f"{genome.name}, ten times", target, target, genome.options)


def _trained(context: Context) -> Iterator[tuple[str, dict[str, Any]]]:
    """One after another, each from the raw file in a fresh process."""
    chunks, upos, genome = context.corpora.chunks(), context.corpora.tags("upos"), context.corpora.ecoli()
    limit = ["--max-iterations", "10"]
    jobs = [
        (chunks, ["--c1", "0.1", "--c2", "0.01"]),
        (upos, ["--c2", "1"]),
        (_classes(context, rows_alone=False), []),
        (_classes(context, rows_alone=True), []),
        (genome, limit),
        (_ten_times(context, genome), limit),
    ]
    for corpus, options in jobs:
        context.say(corpus.name)
        with TemporaryDirectory(dir=context.folder) as name:
            if corpus.test == corpus.train:
                yield f"{corpus.name}, 10 iterations", train_ours(corpus, Path(name) / "model", *options)
            else:
                quick = limit if context.quick else []
                told = f", {' '.join(options).replace('--', '')}" if options else ""
                yield f"{corpus.name}{told}", _scored(corpus, Path(name), *options, *quick)


def run(context: Context) -> SectionResults:
    rows: list[list[Cell]] = []
    for name, facts in _trained(context):
        scores = facts.get("scores")
        spans = scores and scores["spans"]
        rows.append(
            [
                name,
                facts["positions"],
                round(facts["wall"], 1),
                round(facts["peak_rss_mb"]),
                facts["iterations"],
                f"{facts['objective']:,.1f}",
                facts["active_weights"],
                f"{100 * scores['accuracy']:.2f}" if scores else None,
                f"{100 * spans['f1']:.2f}" if spans else None,
            ]
        )
    columns = ["data", "positions", "seconds", "peak MB", "iterations", "objective", "weights not zero"]
    return SectionResults([ResultTable("Models of chainfold", [*columns, "accuracy %", "span F1 %"], rows)])


SECTION = Section(
    "quality",
    "Other models",
    "Models of chainfold alone, each trained once from its raw file in a fresh process and scored on its test file.",
    25.0,
    run,
    by_default=False,
)
