"""Inputs of the freeze, and the models that stay as they are.

The fixed models hold no text of the real data: attributes of words are hashed.
"""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from verbs import conll, sentences

ROOT = Path(__file__).parents[2]
EXAMPLES, MODELS = ROOT / "examples", Path(__file__).parent / "models"
DATA = Path(os.environ.get("CHAINFOLD_DATA", ROOT.parent / "shared" / "data"))
REFUSED = b"refused"
TEMPLATE = """# words, their shapes, and pairs of labels by the part of speech
U00:%x[-1,0]
U01:%x[0,0]
U02:%x[1,0]
U03:%x[0,1]/%x[1,1]
U04:%t[0,0,"^[a-z]"]
U05:%m[0,0,"^.?.?"]
B:%x[0,1]
"""
_WORDS = "w[-1] w w[1] w[-1]|w pos[-1] pos pos[1] shape(w) suffix(w,3)"
_TAGS = "pos[-2] pos[-1] pos pos[1] pos[2] pos[-1]|pos pos|pos[1]"
_FORMS = "form shape(form) lower(form)[-1] lower(form)[1] prefix(lower(form),2) suffix(lower(form),3)"
_BASES = "b b[-1]|b b|b[1] b[-1]|b|b[1] b[-2]|b[-1]|b b[-2]|b[-1]|b|b[1]|b[2]"


@dataclass(frozen=True)
class Sample:
    """An input, the options with which it is read, and how its model was trained."""

    name: str
    train: Path
    test: Path
    options: list[str] = field(default_factory=list)  # of the input
    training: list[str] = field(default_factory=list)

    @property
    def model(self) -> Path:
        return MODELS / f"{self.name}.model"


def chainfold(*arguments: object, folder: Path, given: bytes | None = None) -> bytes:
    """The standard output of a verb, run in a process of its own; the word refused where it refuses."""
    command = [sys.executable, "-m", "chainfold", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, input=given, capture_output=True)
    if done.returncode == 2:
        return REFUSED
    done.check_returncode()
    return done.stdout


def made_up(folder: Path) -> Iterator[Sample]:
    """The samples that need no real data."""
    example = ["--columns", "word,pos,chunk", "--attributes", "word[-1] word word[1] pos"]
    yield Sample("examples", EXAMPLES / "train.txt", EXAMPLES / "test.txt", example, ["--scheme", "BIO"])
    train, test = conll(folder / "made.txt", 60, seed=1), conll(folder / "made-test.txt", 40, seed=2)
    yield Sample("made-up", train, test, ["--columns", "word,shape,tag"], ["--c1", "0.1", "--c2", "0.1"])
    template = folder / "made.template"
    template.write_text(TEMPLATE)
    yield Sample("template", train, test, ["--template", str(template)], ["--c2", "0.2"])
    log = folder / "log.csv"
    rows = [row for sentence in sentences(80, seed=3) for row in sentence]
    body = "".join(f"{len(w) * i % 97},{i % 13 * 0.5},{s},{t}\n" for i, (w, s, t) in enumerate(rows))
    log.write_text(f"count,load,kind,label\n{body}")
    yield Sample("log", log, log, ["--one-sequence"], ["--c2", "0.1", "--max-iterations", "30"])


def real(folder: Path) -> Iterator[Sample]:
    """Samples of the real data."""
    conll2000, columns = DATA / "conll2000", ["--columns", "w,pos,chunk", "--comments", ""]
    train, test = conll2000 / "train.txt.gz", conll2000 / "test.txt.gz"
    tags = [*columns, "--attributes", _TAGS]
    yield Sample("conll-tags", train, test, tags, ["--scheme", "BIO", "--c1", "2", "--max-iterations", "40"])
    words = [*columns, "--attributes", _WORDS, "--hash-bits", "13"]
    yield Sample("conll-words", train, test, words, ["--c1", "4", "--c2", "0", "--max-iterations", "40"])
    ewt = DATA / "ud_english_ewt"
    forms = ["--attributes", _FORMS, "--label", "upos", "--hash-bits", "13"]
    dev, unseen = ewt / "en_ewt-ud-dev.conllu.xz", ewt / "en_ewt-ud-test.conllu.xz"
    yield Sample("ud", dev, unseen, forms, ["--c1", "1", "--c2", "0", "--max-iterations", "40"])
    log = folder / "kdd.csv"
    with gzip.open(DATA / "kddcup99" / "kddcup.data_10_percent.gz", "rb") as file:
        log.write_bytes(b"".join(islice(file, 0, None, 8)))
    yield Sample("kdd", log, log, ["--one-sequence"], ["--c1", "2", "--c2", "0", "--max-iterations", "30"])
    bases, columns = folder / "ecoli.txt", ["--columns", "b,label", "--one-sequence"]
    letters = lzma.decompress((DATA / "ecoli_k12" / "seq.txt.xz").read_bytes()).decode().strip()
    labels = lzma.decompress((DATA / "ecoli_k12" / "labels8.u8.xz").read_bytes())
    bases.write_text("".join(f"{base}\t{label}\n" for base, label in zip(letters[:100_000], labels, strict=False)))
    kmers = [*columns, "--attributes", _BASES]
    yield Sample("ecoli", bases, bases, kmers, ["--max-iterations", "25"])
    template = folder / "ecoli.template"
    template.write_text("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]/%x[1,0]\nB0:%x[0,0]\nB1:%x[-1,0]/%x[0,0]\n")
    yield Sample("ecoli-edges", bases, bases, [*columns, "--template", str(template)], ["--max-iterations", "20"])


def write_models(folder: Path, samples: list[Sample]) -> None:
    """Train the fixed models anew."""
    for sample in samples:
        chainfold(
            "train", sample.train, *sample.options, *sample.training, "-o", sample.model, "--fresh", folder=folder
        )
        for beside in MODELS.glob(f"{sample.name}.model.*"):
            beside.unlink()
