"""Training on real data to convergence: the objective, the weights, and what the model is worth on the test set.

    python -m benchmarks.training [NAME...] [--peer] [--json FILE]

Each run goes through the command line in a fresh process, from the raw file to the scores of the test set. With --peer
python-crfsuite is trained on the same attributes with the same settings, one after the other.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.encoding import NAMES

DATA = Path(os.environ.get("CHAINFOLD_DATA", Path(__file__).parents[2] / "shared" / "data"))

TAGGING_EXPRESSIONS = " ".join(
    [
        "form",
        "shape(form)",
        *(f"lower(form)[{k}]" for k in (-2, -1, 0, 1, 2)),
        *(f"{kind}(lower(form),{size})" for kind in ("prefix", "suffix") for size in (1, 2, 3, 4)),
    ]
)


@dataclass(frozen=True)
class Job:
    """What to train on what."""

    train: str
    test: str
    options: list[str]
    settings: dict[str, float] = field(default_factory=dict)


CHUNKS = ["--columns", "w,pos,chunk", "--attributes", " ".join(NAMES)]
EWT = "ud_english_ewt/en_ewt-ud-{}.conllu.xz"
JOBS = {
    "conll2000": Job("conll2000/train.txt.gz", "conll2000/test.txt.gz", CHUNKS, {"c2": 1.0}),
    "conll2000-l1": Job("conll2000/train.txt.gz", "conll2000/test.txt.gz", CHUNKS, {"c1": 0.1, "c2": 0.01}),
    "ewt-upos": Job(EWT.format("train"), EWT.format("test"), ["--attributes", TAGGING_EXPRESSIONS], {"c2": 1.0}),
    "ewt-xpos": Job(
        EWT.format("train"), EWT.format("test"), ["--attributes", TAGGING_EXPRESSIONS, "--label", "xpos"], {"c2": 1.0}
    ),
}


def chainfold(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "chainfold", *arguments, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def ours(job: Job, folder: Path) -> dict[str, Any]:
    """From the raw file to scores."""
    model = str(folder / "ours.model")
    settings = [part for name, value in job.settings.items() for part in (f"--{name}", str(value))]
    trained = chainfold("train", str(DATA / job.train), "-o", model, *job.options, *settings)
    scores = chainfold("eval", model, str(DATA / job.test))
    return {
        "objective": trained["objective"],
        "iterations": trained["iterations"],
        "active_weights": trained["active_weights"],
        "seconds": trained["seconds"],
        "peak_rss_mb": trained["peak_rss_mb"],
        "accuracy": scores["accuracy"],
        "span_f1": None if scores["spans"] is None else scores["spans"]["f1"],
    }


def attribute_lines(job: Job, path: str, folder: Path) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Each sequence's attributes and labels, by way of the chain and its text."""
    chain = folder / "peer.chain"
    chainfold("encode", str(DATA / path), "-o", str(chain), *job.options)
    done = subprocess.run(
        [sys.executable, "-m", "chainfold", "data", str(chain), "--decode"], capture_output=True, text=True, check=True
    )
    for sequence in done.stdout.strip("\n").split("\n\n"):
        rows = [line.split("\t") for line in sequence.split("\n")]
        yield (
            [[name.replace("\\:", ":").replace("\\\\", "\\") for name in row[1:]] for row in rows],
            [r[0] for r in rows],
        )


def theirs(job: Job, folder: Path) -> dict[str, Any]:
    """python-crfsuite on the same attributes."""
    import pycrfsuite

    from chainfold.metrics import Count

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({**job.settings, "feature.possible_transitions": True})
    for items, labels in attribute_lines(job, job.train, folder):
        trainer.append(items, labels)
    begin = time.perf_counter()
    trainer.train(str(folder / "theirs.model"))
    seconds = time.perf_counter() - begin
    tagger = pycrfsuite.Tagger()
    tagger.open(str(folder / "theirs.model"))
    numbers: dict[str, int] = {label: k for k, label in enumerate(tagger.labels())}
    pairs = [(labels, tagger.tag(items)) for items, labels in attribute_lines(job, job.test, folder)]
    for labels, _ in pairs:
        for label in labels:
            numbers.setdefault(label, len(numbers))
    import numpy as np

    count = Count(list(numbers))
    for gold, predicted in pairs:
        starts = np.arange(len(gold)) == 0
        codes = np.array([[numbers[label] for label in part] for part in (gold, predicted)], np.int32)
        count.add(codes[0], codes[1], starts)
    scores, last = count.scores(), trainer.logparser.last_iteration
    return {
        "objective": last["loss"],
        "iterations": last["num"],
        "active_weights": last["active_features"],
        "seconds": seconds,
        "peak_rss_mb": None,
        "accuracy": scores.accuracy,
        "span_f1": None if scores.spans_overall is None else scores.spans_overall.f1,
    }


def kdd_files(folder: Path) -> tuple[Path, Path]:
    """KDD by the five classes: the label of each row is that of its attack's class."""
    classes = {"normal": "normal"}
    for line in (DATA / "kddcup99" / "training_attack_types.txt").read_text().splitlines():
        if line.strip():
            attack, kind = line.split()
            classes[attack] = kind
    # attacks that only the test file has, by the class that the contest gave them
    later = {
        "dos": "apache2 mailbomb processtable udpstorm",
        "probe": "mscan saint",
        "r2l": "named sendmail snmpgetattack snmpguess worm xlock xsnoop httptunnel",
        "u2r": "ps sqlattack xterm",
    }
    classes |= {attack: kind for kind, attacks in later.items() for attack in attacks.split()}
    found = []
    for name in ("kddcup.data_10_percent.gz", "corrected.gz"):
        target = folder / f"{name.removesuffix('.gz')}.csv"
        with gzip.open(DATA / "kddcup99" / name, "rt") as file, target.open("w") as out:
            for line in file:
                row, _, label = line.rstrip().rpartition(",")
                out.write(f"{row},{classes[label.rstrip('.')]}\n")
        found.append(target)
    return found[0], found[1]


def kdd(folder: Path) -> dict[str, Any]:
    """One sequence each, 10 % to train on and `corrected` to test on, beside a logistic regression on single rows."""
    train, test = kdd_files(folder)
    result = {}
    for name, options in (("crf", ["--one-sequence"]), ("rows alone", ["--group", "row"])):
        files = (train, test)
        if name == "rows alone":  # every row a sequence of its own: a number that changes at each row
            files = (folder / "train.rows.csv", folder / "test.rows.csv")
            for source, target in zip((train, test), files, strict=True):
                with source.open() as file, target.open("w") as out:
                    out.write(",".join([*(f"c{k}" for k in range(41)), "label", "row"]) + "\n")
                    for k, line in enumerate(file):
                        out.write(f"{line.rstrip()},{k}\n")
        model = str(folder / f"{name.replace(' ', '-')}.model")
        trained = chainfold("train", str(files[0]), "-o", model, *options)
        scores = chainfold("eval", model, str(files[1]))
        result[name] = {"trained": trained, "scores": scores}
    return result


def ecoli(folder: Path, times: int = 1) -> dict[str, Any]:
    """Eight labels, k-mers around each base, one sequence; `times` as long by concatenation."""
    with lzma.open(DATA / "ecoli_k12" / "seq.txt.xz") as file:
        bases = file.read().decode().strip()
    with lzma.open(DATA / "ecoli_k12" / "labels8.u8.xz") as file:
        labels = file.read()
    source = folder / f"ecoli-{times}.txt"
    with source.open("w") as out:
        rows = "".join(f"{base}\t{label}\n" for base, label in zip(bases, labels, strict=True))
        for _ in range(times):
            out.write(rows)
    kmers = ["b", "b[-1]|b", "b|b[1]", "b[-1]|b|b[1]", "b[-2]|b[-1]|b", "b|b[1]|b[2]", "b[-2]|b[-1]|b|b[1]|b[2]"]
    return chainfold(
        "train",
        str(source),
        "-o",
        str(folder / f"ecoli-{times}.model"),
        *("--columns", "b,label", "--attributes", " ".join(kmers), "--one-sequence", "--max-iterations", "10"),
    )


def compare(job: Job, peer: bool) -> Callable[[Path], dict[str, Any]]:
    def run(folder: Path) -> dict[str, Any]:
        found = {"chainfold": ours(job, folder)}
        if peer:
            found["python-crfsuite"] = theirs(job, folder)
        return found

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="conll2000, conll2000-l1, ewt-upos, ewt-xpos, kdd, ecoli, ecoli-10")
    parser.add_argument("--peer", action="store_true", help="train python-crfsuite as well")
    parser.add_argument("--json", type=Path, help="write the results there")
    asked = parser.parse_args()
    if not DATA.exists():
        raise SystemExit(f"the real data sets are not in {DATA}; set CHAINFOLD_DATA.")
    jobs: dict[str, Callable[[Path], dict[str, Any]]] = {
        **{name: compare(job, asked.peer) for name, job in JOBS.items()},
        "kdd": kdd,
        "ecoli": ecoli,
        "ecoli-10": lambda folder: ecoli(folder, 10),
    }
    results = {}
    for name in asked.names or jobs:
        with tempfile.TemporaryDirectory(prefix="chainfold-") as folder:
            results[name] = jobs[name](Path(folder))
        print(name, json.dumps(results[name], indent=1), flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
