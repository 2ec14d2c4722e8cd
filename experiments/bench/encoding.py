"""From text to a chain: beside python-crfsuite's path, rows a second of the KDD file, and memory as files grow."""

from __future__ import annotations

import gzip
from pathlib import Path

from chainfold import encode
from experiments.bench.datasets import READERS, Dataset, opened
from experiments.bench.findings import Cell, ResultTable, SectionResults
from experiments.bench.peers import CRFSUITE, has, missing
from experiments.bench.section import Context, Section
from experiments.bench.timing import Times, chainfold, interleaved, ratios

_REPEATED = {"smurf.", "neptune.", "normal.", "satan.", "ipsweep.", "portsweep.", "nmap."}
_HASHED = ["--hash-bits", "20"]


def _append(corpus: Dataset) -> None:
    """python-crfsuite's path: make the attributes, hand them over."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    for items, labels in READERS[corpus.kind](corpus.train):
        trainer.append(items, labels)


def _speeds(context: Context) -> ResultTable:
    chunks, log = context.corpora.chunks(), context.corpora.kdd()
    rows: list[list[Cell]] = []
    context.say(f"{chunks.name}: encoding")
    runs = {"chainfold": lambda: encode(chunks.train, context.folder / "encoded.chain", **chunks.options)}
    beside = {CRFSUITE.package: lambda: _append(chunks)} if has(CRFSUITE) else {}
    times = interleaved({**beside, **runs}, context.rounds)
    positions = context.encoded(chunks).positions
    rows += [_speed(chunks, name, positions, times) for name in times]
    context.say(f"{log.name}: encoding")
    kept = context.folder / "log.chain"
    times = interleaved({"chainfold": lambda: encode(log.train, kept, **log.options)}, context.rounds)
    rows.append(_speed(log, "chainfold", context.encoded(log).positions, times))
    columns = ["data", "program", "seconds", "positions a second", "time as a multiple of chainfold's"]
    return ResultTable("From compressed text to attributes", columns, rows)


def _speed(corpus: Dataset, program: str, positions: int, times: Times) -> list[Cell]:
    seconds = times[program]
    return [corpus.name, program, seconds, [positions / one for one in seconds], ratios(times, program, "chainfold")]


def _growth(context: Context) -> ResultTable:
    """Files ten times as long, each encoded in a fresh process."""
    chunks, log = context.corpora.chunks(), context.corpora.kdd()
    rows: list[list[Cell]] = []
    path = context.folder / "input"

    def measure(what: str, *options: str) -> None:
        context.say(f"memory: {what}")
        facts = chainfold("encode", str(path), "-o", f"{path}.chain", *options)
        speed = round(facts["positions_per_second"])
        rows.append([what, facts["positions"], facts["attributes"], speed, round(facts["peak_rss_mb"])])

    for times in (1, 10):
        _repeat(chunks.train, path, times)
        measure(f"{chunks.name} × {times}", *chunks.flags)
        measure(f"{chunks.name} × {times}, --hash-bits 20", *chunks.flags, *_HASHED)
    for times in (1, 10):
        _invent_words(path, context.sized(500_000, 5_000) * times)
        measure(f"new words × {times}")
        measure(f"new words × {times}, --hash-bits 20", *_HASHED)
    _lengthen(log.train, path)
    measure(f"{log.name}, common rows ten times in place", *log.flags)
    columns = ["file", "positions", "attributes", "positions a second", "peak MB"]
    return ResultTable("`chainfold encode` as files grow", columns, rows)


def _repeat(source: Path, target: Path, times: int) -> None:
    text = gzip.decompress(source.read_bytes()).rstrip() + b"\n\n"
    with target.open("wb") as out:
        for _ in range(times):
            out.write(text)


def _invent_words(target: Path, rows: int) -> None:
    """A file that never stops inventing words."""
    with target.open("w") as out:
        for t in range(rows):
            out.write(f"word{t} tag{t % 7} {'AB'[t % 2]}\n" + ("\n" if t % 20 == 19 else ""))


def _lengthen(source: Path, target: Path) -> None:
    """A surrogate of KDD's full length: rows of the common labels ten times in place."""
    with target.open("w") as out, opened(source) as lines:
        for line in lines:
            out.write(line * (10 if line[line.rindex(",") + 1 :].strip() in _REPEATED else 1))


def run(context: Context) -> SectionResults:
    return SectionResults([_speeds(context), _growth(context)], notes=[] if has(CRFSUITE) else missing()[:1])


SECTION = Section(
    "encoding",
    "Encoding",
    "Both sides begin with the compressed text of CoNLL-2000 and make CRFsuite's 19 chunking attributes: "
    "python-crfsuite's path ends with `Trainer.append`, chainfold's with a chain on disk. The second table encodes "
    "longer and longer files, each in a fresh process.",
    run,
)
