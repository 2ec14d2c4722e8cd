"""The data sets: as files with options for chainfold, as attributes made in plain Python for other programs.

Where the real files are missing, and in quick runs, there are made-up ones of the same form, which say so in their
names. They are drawn from a fixed seed. Other programs run in processes that import this module, so it imports
nothing that costs time or memory.
"""

from __future__ import annotations

import gzip
import lzma
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chainfold.chain.block import Source

Items = list[list[str]]  # the attributes of each position
Sequences = Iterator[tuple[Items, list[str]]]  # of each sequence, with its labels

CHUNKING = [
    *[[("w", k)] for k in (-2, -1, 0, 1, 2)],
    [("w", -1), ("w", 0)],
    [("w", 0), ("w", 1)],
    *[[("pos", k)] for k in (-2, -1, 0, 1, 2)],
    *[[("pos", k), ("pos", k + 1)] for k in (-2, -1, 0, 1)],
    *[[("pos", k), ("pos", k + 1), ("pos", k + 2)] for k in (-2, -1, 0)],
]
"""CRFsuite's attributes for chunking: 19 of words and parts of speech around a position."""

CHUNKING_NAMES = ["|".join(f"{name}[{k}]" for name, k in parts) for parts in CHUNKING]
COLUMN = {"w": 0, "pos": 1}
AROUND = (-2, -1, 0, 1, 2)
AFFIXES = (1, 2, 3, 4)
TAGGING_NAMES = [
    "form",
    "shape(form)",
    *(f"lower(form)[{k}]" for k in AROUND),
    *(f"{kind}(lower(form),{size})" for kind in ("prefix", "suffix") for size in AFFIXES),
]
KMERS = ["b", "b[-1]|b", "b|b[1]", "b[-1]|b|b[1]", "b[-2]|b[-1]|b", "b|b[1]|b[2]", "b[-2]|b[-1]|b|b[1]|b[2]"]

_FOLDERS = "conll2000", "ud_english_ewt", "kddcup99", "ecoli_k12"
_CONLLU = {"upos": 3, "xpos": 4}  # columns
_ROWS, _QUICK_ROWS = 200_000, 8_000  # of a made-up file


@dataclass(frozen=True)
class Dataset:
    """A data set: files, what chainfold makes of them, and how plain Python makes the same attributes."""

    name: str
    train: Path
    test: Path
    options: dict[str, Any]  # of `encode`
    kind: str = ""  # of READERS; empty where only chainfold reads it
    made_up: bool = False

    @property
    def flags(self) -> list[str]:
        """The options for the command line."""
        found = []
        for name, value in self.options.items():
            text = ",".join(value) if isinstance(value, list) else value
            found += [f"--{name.replace('_', '-')}", *([] if value is True else [text])]
        return found


class Datasets:
    """The data sets; made-up ones are written to a folder."""

    def __init__(self, data: Path | None, folder: Path, quick: bool) -> None:
        self._data, self._folder = None if quick else data, folder
        self._rows = _QUICK_ROWS if quick else _ROWS
        self.real = self._data is not None and all((self._data / name).exists() for name in _FOLDERS)

    def chunks(self) -> Dataset:
        """CoNLL-2000, 22 labels."""
        options = {"columns": ["w", "pos", "chunk"], "attributes": " ".join(CHUNKING_NAMES), "comments": ""}
        names = "conll2000/train.txt.gz", "conll2000/test.txt.gz"
        return self._corpus("CoNLL-2000", "chunks", names, options, _made_up_chunks)

    def tags(self, column: str) -> Dataset:
        """UD English EWT, by its 17 universal or 49 Penn tags."""
        name = "ud_english_ewt/en_ewt-ud-{}.conllu.xz"
        options = {"attributes": " ".join(TAGGING_NAMES), "label": column}
        names = name.format("train"), name.format("test")
        return self._corpus(f"UD English EWT, {column.upper()}", column, names, options, _made_up_tags)

    def kdd(self) -> Dataset:
        """KDD Cup 1999, 10 %: one sequence, 23 labels."""
        names = "kddcup99/kddcup.data_10_percent.gz", "kddcup99/corrected.gz"
        return self._corpus("KDD 10 %", "", names, {"one_sequence": True}, _made_up_log)

    def ecoli(self, positions: int | None = None, n_labels: int = 8) -> Dataset:
        """The E. coli genome, one sequence, k-mers around each base; or its beginning.

        n_labels   8: the codon phase on both strands; 4: strands; 2: coding or not, or RNA
        """
        options = {"columns": ["b", "label"], "attributes": " ".join(KMERS), "one_sequence": True}
        source = None if self._data is None else self._data / "ecoli_k12"
        if source is None or not source.exists():
            return self._made_up("E. coli", "", options, _made_up_bases)
        name = "E. coli" if positions is None else f"E. coli, {positions:,} bases"
        if n_labels != 8:
            name += f", {n_labels} labels"
        target = self._folder / f"ecoli-{positions or 'whole'}-{n_labels}.txt"
        if not target.exists():
            bases = lzma.decompress((source / "seq.txt.xz").read_bytes()).decode().strip()[:positions]
            kept = source / ("labels8.u8.xz" if n_labels == 8 else "labels4.u8.xz")
            labels = (min(label, n_labels - 1) for label in lzma.decompress(kept.read_bytes())[:positions])
            target.write_text("".join(f"{base}\t{label}\n" for base, label in zip(bases, labels, strict=True)))
        return Dataset(name, target, target, options)

    def _corpus(
        self,
        name: str,
        kind: str,
        files: tuple[str, str],
        options: dict[str, Any],
        make: Callable[[random.Random, int], Iterator[str]],
    ) -> Dataset:
        if self._data is not None and (self._data / files[0]).exists():
            return Dataset(name, self._data / files[0], self._data / files[1], options, kind)
        return self._made_up(name, kind, options, make)

    def _made_up(
        self, name: str, kind: str, options: dict[str, Any], make: Callable[[random.Random, int], Iterator[str]]
    ) -> Dataset:
        paths = []
        for part, rows in (("train", self._rows), ("test", self._rows // 4)):
            name_of_file = make.__name__.removeprefix("_made_up_")
            paths.append(self._folder / f"{name_of_file}.{part}.{_SUFFIXES[name_of_file]}.gz")
            if not paths[-1].exists():
                with gzip.open(paths[-1], "wt") as out:
                    out.writelines(make(random.Random(part), rows))
        return Dataset(f"made-up file in place of {name}", paths[0], paths[1], options, kind, made_up=True)


_SUFFIXES = {"chunks": "txt", "tags": "conllu", "log": "csv", "bases": "txt"}


def _zipf(draw: random.Random, most: int) -> int:
    """A rank, the first ones often."""
    return int(most ** draw.random()) - 1


def _made_up_chunks(draw: random.Random, rows: int) -> Iterator[str]:
    before = "O"
    for row in range(rows):
        kind = draw.choice(["NP", "NP", "VP", "PP", "O"])
        label = "O" if kind == "O" else f"{'I' if before[2:] == kind else 'B'}-{kind}"
        before = label
        pos = f"P{(_zipf(draw, 8) + 5 * ord(kind[0])) % 40}"
        rank = _zipf(draw, 20_000)
        yield f"{f'w{rank}' if rank else '#'} {pos} {label}\n" + ("\n" if row % 24 == 23 else "")


def _made_up_tags(draw: random.Random, rows: int) -> Iterator[str]:
    for row in range(rows):
        tag = _zipf(draw, 48)
        number = row % 16 + 1
        word = "".join(chr(97 + (tag + _zipf(draw, 26)) % 26) for _ in range(4))
        yield f"{number}\t{word}\t_\tU{tag % 17}\tX{tag}\t_\t0\t_\t_\t_\n" + ("\n" if number == 16 else "")


def _made_up_log(draw: random.Random, rows: int) -> Iterator[str]:
    label = 0
    for _ in range(rows):
        label = draw.randrange(23) if draw.random() < 0.05 else label
        yield ",".join([*(f"v{(label + _zipf(draw, 12)) % 12}" for _ in range(41)), f"L{label}."]) + "\n"


def _made_up_bases(draw: random.Random, rows: int) -> Iterator[str]:
    label = 0
    for _ in range(rows):
        label = draw.randrange(8) if draw.random() < 0.1 else label
        yield f"{'ACGT'[(label + _zipf(draw, 5)) % 4]}\t{label}\n"


def opened(path: Path) -> IO[str]:
    """A text, compressed or not."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt")
    return lzma.open(path, "rt") if path.suffix == ".xz" else path.open()


def _sentences(path: Path) -> Iterator[list[list[str]]]:
    """Rows of columns, cut at blank lines."""
    sentence: list[list[str]] = []
    with opened(path) as lines:
        for line in lines:
            fields = line.split()
            if fields:
                sentence.append(fields)
            elif sentence:
                yield sentence
                sentence = []
    if sentence:
        yield sentence


def chunk_sequences(path: Path) -> Sequences:
    """Sequences with the attributes of CRFsuite's example for chunking."""
    for sentence in _sentences(path):
        items = []
        for t in range(len(sentence)):
            item = []
            for name, parts in zip(CHUNKING_NAMES, CHUNKING, strict=True):
                values = [sentence[t + k][COLUMN[c]] for c, k in parts if 0 <= t + k < len(sentence)]
                if len(values) == len(parts):
                    item.append(f"{name}={'|'.join(values)}")
            items.append(item)
        yield _with_borders(items), [fields[2] for fields in sentence]


def word_sequences(path: Path) -> Iterator[tuple[list[dict[str, Any]], list[str]]]:
    """Sequences with the dicts of sklearn-crfsuite's tutorial on CoNLL-2002: texts, bools and a number."""
    for sentence in _sentences(path):
        words = [_of_word(fields[0], fields[1]) for fields in sentence]
        items = []
        for t, word in enumerate(words):
            item = {"bias": 1.0, **word}
            for name, before, _ in _AROUND_WORD if t else ():
                item[before] = words[t - 1][name]
            for name, _, after in _AROUND_WORD if t + 1 < len(words) else ():
                item[after] = words[t + 1][name]
            item |= {} if t else {"BOS": True}
            items.append(item if t + 1 < len(words) else item | {"EOS": True})
        yield items, [fields[2] for fields in sentence]


_AROUND_WORD = [
    (name, f"-1:{name}", f"+1:{name}")
    for name in ("word.lower()", "word.istitle()", "word.isupper()", "postag", "postag[:2]")
]


def _of_word(word: str, tag: str) -> dict[str, Any]:
    return {
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "word.isdigit()": word.isdigit(),
        "postag": tag,
        "postag[:2]": tag[:2],
    }


def tag_sequences(path: Path, column: str) -> Sequences:
    """Words, shapes, affixes and lower-case neighbours of the words of a CoNLL-U file."""
    for sentence in _sentences(path):
        rows = [fields for fields in sentence if fields[0].isdigit()]  # neither comments nor parts of words
        lower = [fields[1].lower() for fields in rows]
        items = []
        for t, fields in enumerate(rows):
            item = [f"form={fields[1]}", f"shape={_shape(fields[1])}"]
            item += [f"lower[{k}]={lower[t + k]}" for k in AROUND if 0 <= t + k < len(rows)]
            item += [f"prefix{size}={lower[t][:size]}" for size in AFFIXES]
            item += [f"suffix{size}={lower[t][-size:]}" for size in AFFIXES]
            items.append(item)
        yield _with_borders(items), [fields[_CONLLU[column]] for fields in rows]


READERS: dict[str, Callable[[Path], Sequences]] = {
    "chunks": chunk_sequences,
    "upos": partial(tag_sequences, column="upos"),
    "xpos": partial(tag_sequences, column="xpos"),
}


def _with_borders(items: Items) -> Items:
    items[0].append("__BOS__")
    items[-1].append("__EOS__")
    return items


def _shape(word: str) -> str:
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in word)
    return "".join(kind for kind, _ in groupby(kinds))


def sequences_of(source: Source) -> Iterator[tuple[Iterator[list[str]], list[str]]]:
    """The sequences of a chain whose attributes have no values, for other programs."""
    from chainfold.chain.block import vocabulary_of

    vocabulary = vocabulary_of(source)
    names = [f"a{k}" for k in range(source.n_attributes)] if vocabulary is None else vocabulary.attributes.to_pylist()
    labels = [f"L{k}" for k in range(source.n_labels)] if vocabulary is None else vocabulary.labels
    block = source.block(0, source.positions)
    assert not block.values.size, "attributes that occur, not numbers"
    for low, high in pairwise([*block.starts.nonzero()[0].tolist(), source.positions]):
        offsets = block.offsets[low : high + 1].tolist()
        ids = block.ids[offsets[0] : offsets[-1]].tolist()
        items = ([names[i] for i in ids[a - offsets[0] : b - offsets[0]]] for a, b in pairwise(offsets))
        yield items, [labels[label] for label in block.labels[low:high].tolist()]
