"""Encoding against python-crfsuite's path, rows a second of the KDD file, and peak memory as files grow.

    python -m benchmarks.encoding [--rounds 5] [--data FOLDER] [--json FILE] [--memory]

Both sides begin with the compressed text of CoNLL-2000 and make CRFsuite's 19 chunking attributes: python-crfsuite's
path ends with `Trainer.append`, chainfold's with a chain on disk. `--memory` also encodes a surrogate of KDD's full
length and files ten times as long, each in a fresh process.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.engines import interleaved, ratios, summary
from chainfold import encode

CHUNKING = [
    *[[("w", k)] for k in (-2, -1, 0, 1, 2)],
    [("w", -1), ("w", 0)],
    [("w", 0), ("w", 1)],
    *[[("pos", k)] for k in (-2, -1, 0, 1, 2)],
    *[[("pos", k), ("pos", k + 1)] for k in (-2, -1, 0, 1)],
    *[[("pos", k), ("pos", k + 1), ("pos", k + 2)] for k in (-2, -1, 0)],
]
NAMES = ["|".join(f"{name}[{k}]" for name, k in parts) for parts in CHUNKING]
COLUMN = {"w": 0, "pos": 1}
REPEATED = {"smurf.", "neptune.", "normal.", "satan.", "ipsweep.", "portsweep.", "nmap."}


def sentences(path: Path) -> Iterator[list[list[str]]]:
    sentence: list[list[str]] = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            fields = line.split()
            if fields:
                sentence.append(fields)
            elif sentence:
                yield sentence
                sentence = []
    if sentence:
        yield sentence


def items_of(sentence: list[list[str]]) -> list[list[str]]:
    """The attribute strings of a sentence, as CRFsuite's example makes them."""
    items = []
    for t in range(len(sentence)):
        item = []
        for name, parts in zip(NAMES, CHUNKING, strict=True):
            values = [sentence[t + k][COLUMN[c]] for c, k in parts if 0 <= t + k < len(sentence)]
            if len(values) == len(parts):
                item.append(f"{name}={'|'.join(values)}")
        if t == 0:
            item.append("__BOS__")
        if t == len(sentence) - 1:
            item.append("__EOS__")
        items.append(item)
    return items


def crfsuite(path: Path) -> None:
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    for sentence in sentences(path):
        trainer.append(items_of(sentence), [fields[2] for fields in sentence])


def conll(data: Path, folder: Path, rounds: int) -> dict[str, Any]:
    path = data / "conll2000" / "train.txt.gz"
    options: dict[str, Any] = {"columns": ["w", "pos", "chunk"], "attributes": " ".join(NAMES)}
    times = interleaved(
        {
            "python-crfsuite": lambda: crfsuite(path),
            "chainfold": lambda: encode(path, folder / "conll.chain", **options),
        },
        rounds,
    )
    return {
        "what": "CoNLL-2000, 211,727 positions, 19 attributes",
        "seconds": times,
        "python-crfsuite / chainfold": ratios(times, "python-crfsuite", "chainfold"),
    }


def kdd(data: Path, folder: Path, rounds: int) -> dict[str, Any]:
    path = data / "kddcup99" / "kddcup.data_10_percent.gz"
    times = interleaved({"chainfold": lambda: encode(path, folder / "kdd.chain")}, rounds)
    return {
        "what": "KDD 10 %, 494,021 rows, 41 columns, gz",
        "seconds": times,
        "rows a second": [494_021 / seconds for seconds in times["chainfold"]],
    }


def surrogate(data: Path, target: Path) -> None:
    """KDD's full length: rows of the common labels ten times in place."""
    with target.open("w") as out, gzip.open(data / "kddcup99" / "kddcup.data_10_percent.gz", "rt") as lines:
        for line in lines:
            out.write(line * (10 if line[line.rindex(",") + 1 :].strip() in REPEATED else 1))


def repeated(data: Path, target: Path, times: int) -> None:
    text = gzip.decompress((data / "conll2000" / "train.txt.gz").read_bytes())
    with target.open("wb") as out:
        for _ in range(times):
            out.write(text.rstrip() + b"\n\n")


def fresh_words(target: Path, rows: int) -> None:
    """A file that never stops inventing words."""
    with target.open("w") as out:
        for t in range(rows):
            out.write(f"word{t} tag{t % 7} {'AB'[t % 2]}\n" + ("\n" if t % 20 == 19 else ""))


def peak(source: Path, folder: Path, *options: str) -> dict[str, Any]:
    """What `chainfold encode` says of itself in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "chainfold",
        "encode",
        str(source),
        "-o",
        str(folder / "x.chain"),
        "--json",
        *options,
    ]
    facts: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return facts


def memory(data: Path, folder: Path) -> list[dict[str, Any]]:
    chunking = ("--columns", "w,pos,chunk", "--attributes", " ".join(NAMES))
    hashed = ("--hash-bits", "20")
    found = []
    path = folder / "input"
    for times in (1, 10):
        repeated(data, path, times)
        found.append({"what": f"CoNLL-2000 × {times}", **peak(path, folder, *chunking)})
        found.append({"what": f"CoNLL-2000 × {times}, --hash-bits 20", **peak(path, folder, *chunking, *hashed)})
    for times in (1, 10):
        fresh_words(path, 500_000 * times)
        found.append({"what": f"new words × {times}", **peak(path, folder)})
        found.append({"what": f"new words × {times}, --hash-bits 20", **peak(path, folder, *hashed)})
    surrogate(data, path)
    found.append({"what": "KDD surrogate", **peak(path, folder)})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("CHAINFOLD_DATA", "../shared/data")))
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chainfold-") as name:
        folder = Path(name)
        speeds = [conll(arguments.data, folder, arguments.rounds), kdd(arguments.data, folder, arguments.rounds)]
        peaks = memory(arguments.data, folder) if arguments.memory else []
    show(speeds, peaks)
    if arguments.json is not None:
        about = {"date": date.today().isoformat(), "machine": platform.processor(), "cores": os.cpu_count()}
        arguments.json.write_text(json.dumps({**about, "speeds": speeds, "peaks": peaks}, indent=1))


def show(speeds: list[dict[str, Any]], peaks: list[dict[str, Any]]) -> None:
    console = Console(width=130)
    table = Table(title="median (least – most)")
    for heading in ("input", "what", "value"):
        table.add_column(heading, justify="right" if heading == "value" else "left")
    for result in speeds:
        for name, values in result["seconds"].items():
            table.add_row(result["what"], f"{name}, seconds", summary(values))
        for name, values in result.items():
            if isinstance(values, list):
                table.add_row(result["what"], f"[bold]{name}[/bold]", f"[bold]{summary(values)}[/bold]")
    console.print(table)
    if peaks:
        table = Table(title="each in a fresh process")
        for heading in ("input", "positions", "attributes", "positions a second", "peak memory"):
            table.add_column(heading, justify="left" if heading == "input" else "right")
        for facts in peaks:
            table.add_row(
                facts["what"],
                f"{facts['positions']:,}",
                f"{facts['attributes']:,}",
                f"{facts['positions_per_second']:,.0f}",
                f"{facts['peak_rss_mb']:,.0f} MB",
            )
        console.print(table)


if __name__ == "__main__":
    main()
