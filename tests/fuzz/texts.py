"""Texts in every format, from a grammar of pieces that readers stumble over; and compressed ones."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from chainfold import Layout, Model, encode, evaluate, tag_to
from chainfold.features.schema import reader_of
from chainfold.features.spec import InputSpec
from chainfold.readers.formats import Format, InputReader
from chainfold.readers.progress import InputProgress
from fuzz.nasty import CHARACTERS, INTEGERS, REALS, anything, damaged, word

GOOD = ["the", "cat", "D", "N", "1", "2.5", "B-X", "I-X", "O", "w[0]=the", "a:2", "b:0.5"]
CONLLU = ["1", "The", "the", "DET", "DT", "Number=Sing|Case=Nom", "2", "det", "2:det", "SpaceAfter=No"]
ENDS = ["\n", "\n", "\n", "\r\n", "\r", "\n\n", "", "\n \n", "\n\t\n", "\0\n", "\u2028", "\x85", "\x0b", "\x0c"]
ENCODINGS = ["utf-8"] * 20 + ["utf-8-sig", "utf-16", "utf-16-le", "latin-1", "utf-32", "cp1252"]


def _field(dice: random.Random, wild: float) -> str:
    return word(dice) if dice.random() < wild else dice.choice(GOOD)


def _quoted(text: str, dice: random.Random) -> str:
    if dice.random() < 0.3:
        return '"' + (text.replace('"', '""') if dice.random() < 0.8 else text) + '"'
    return text


def _lines(dice: random.Random, kind: str) -> str:
    """A text of the kind, nearly."""
    if kind == "jsonl":
        return _objects(dice)
    wild = dice.choice([0.0, 0.05, 0.3])
    width = dice.choice([1, 2, 3, 3, 3, 5])
    separator = {"conll": dice.choice([" ", "\t", "  "]), "csv": ",", "tsv": "\t", "crfsuite": "\t", "conllu": "\t"}[
        kind
    ]
    end = dice.choice(ENDS[:4]) if dice.random() < 0.8 else ""
    lines = []
    if kind in ("csv", "tsv") and dice.random() < 0.7:
        names = ["word", "tag", "label", "n", "word"] if dice.random() < 0.8 else [word(dice) for _ in range(5)]
        lines.append(separator.join(names[:width]))
    for _ in range(dice.choice([0, 1, 3, 3, 6])):
        fields = list(CONLLU) if kind == "conllu" else [_field(dice, wild) for _ in range(width)]
        if kind == "conllu":
            fields[dice.randrange(10)] = dice.choice(["_", "1-2", "1.1", "0", _field(dice, wild)])
        elif kind == "crfsuite" and dice.random() < 0.3:
            fields.append(
                dice.choice(["@edge", "@edge:2", "a:nan", "a:1e309", "a\\:b", "a\\", ":", "::1", "a:-1", "@", "a:1:2"])
            )
        if dice.random() < wild:
            fields = fields[: dice.randint(0, len(fields))] if dice.random() < 0.5 else [*fields, word(dice)]
        if kind in ("csv", "tsv"):
            fields = [_quoted(field, dice) for field in fields]
        lines.append(separator.join(fields))
        if dice.random() < 0.2:
            lines.append(
                dice.choice(["", "", "# a comment", "#", " ", "# newdoc", "-DOCSTART- -X- O", dice.choice(CHARACTERS)])
            )
    return "".join(line + (end or dice.choice(ENDS)) for line in lines)


def _objects(dice: random.Random) -> str:
    """An object a line, nearly: rows, or sequences with lists."""
    wild, listed, nested = dice.choice([0.0, 0.05, 0.3]), dice.random() < 0.4, dice.random() < 0.2
    names = dice.choice([["word", "tag", "label", "n"], ["word", "label", "n", "tag"], ["0", "1", "label", "n"]])[
        : dice.choice([1, 2, 3, 4])
    ]
    if dice.random() < 0.1:
        names = [word(dice) for _ in names]
    kinds = [dice.choice(["text", "text", "number", "whole", "bool"]) for _ in names]
    end = dice.choice(ENDS[:4]) if dice.random() < 0.8 else ""
    text = ""
    for _ in range(dice.choice([0, 1, 3, 3, 6])):
        size = dice.randint(0, 3)
        fields = {
            name: _json_value(dice, kind, wild, size, listed, nested) for name, kind in zip(names, kinds, strict=True)
        }
        if dice.random() < wild:
            fields.pop(dice.choice(names), None)
        if dice.random() < wild:
            fields[word(dice)] = anything(dice)
        line = json.dumps(fields, ensure_ascii=dice.random() < 0.3, separators=dice.choice([None, (",", ":")]))
        if dice.random() < wild:
            line = dice.choice(
                [
                    json.dumps(anything(dice)),
                    line * 2,
                    line[:-1],
                    f"{line[:-1]}, {line[1:]}",
                    f" {line}\t ",
                    "{}",
                    "[" * 2000,
                ]
            )
        if dice.random() < wild:
            line = line.replace(
                "word", dice.choice(["\\ud800", "\\u0000", "\\udc00\\ud800", "\\x", '"', "\x00", "wo\nrd"])
            )
        text += line + (end or dice.choice(ENDS))
        if dice.random() < 0.2:
            text += dice.choice(["\n", "\n", " \n", "# a comment\n", "\r\n", dice.choice(CHARACTERS)])
    return text


def _json_value(dice: random.Random, kind: str, wild: float, size: int, listed: bool, nested: bool) -> Any:
    """A value of a field: mostly of its kind; a list of a size where a line is a sequence."""
    if listed:
        if dice.random() < wild / 3:
            size += 1
        if nested and kind == "text":
            return [
                [_json_value(dice, kind, wild, 0, False, False) for _ in range(dice.randint(0, 2))] for _ in range(size)
            ]
        return [_json_value(dice, kind, wild, 0, False, False) for _ in range(size)]
    if dice.random() < wild / 2:
        return dice.choice([None, anything(dice)])
    if kind == "number":
        return dice.choice(REALS[:5]) if dice.random() > wild else dice.choice(REALS)
    if kind == "whole":
        return dice.randint(-3, 3) if dice.random() > wild else dice.choice(INTEGERS)
    return _field(dice, wild) if kind == "text" else dice.random() < 0.5


def _bytes(dice: random.Random, kind: str) -> bytes:
    data = _lines(dice, kind).encode(dice.choice(ENCODINGS), "replace")
    if dice.random() < 0.1:
        data = damaged(data, dice)
    if dice.random() < 0.1:
        data = (
            dice.choice([b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b"\n", b"\r", b"\x1f\x8b", b"PAR1", b"ARROW1", b"{"])
            + data
        )
    return data


def _options(dice: random.Random, kind: str) -> dict[str, Any]:
    options: dict[str, Any] = {"format": kind if dice.random() < 0.8 else None}
    for name, values in (
        ("labels", [False]),
        ("header", [True, False]),
        ("encoding", ["utf-8", "utf-16", "latin-1", "utf-8-sig", "rot13", "nothing", "idna", ""]),
        ("comments", ["#", "", "-DOCSTART-", "\n", "\0"]),
        ("group", ["word", "0", word(dice)]),
        ("groups_return", [True]),
        ("label", ["tag", "label", "0", word(dice)]),
        ("weight", ["n", "1", word(dice)]),
        ("unknown", ["O", "", "\0"]),
        ("one_sequence", [True]),
        ("numbers", ["real", "log", "symbol", "standard"]),
        ("columns", [["a"], ["a", "b", "label"], ["a", "a"], [], ["a", "b", "c", "d", "e"]]),
        ("min_count", [1, 2, 100]),
        ("hash_bits", [1, 8]),
    ):
        if dice.random() < 0.06:
            options[name] = dice.choice(values)
    return options


def _read(path: Path, dice: random.Random, kind: str, folder: Path) -> None:
    """Read it, and mostly no more: a chain takes longer."""
    options = _options(dice, kind)
    use = dice.random()
    if use < 0.6:
        spec = InputSpec.of(**options)
        for stretch in reader_of(spec).rows(path, spec.encoding, InputProgress()):
            stretch.batch.validate(full=True)
            assert stretch.starts.size == stretch.lines.size == stretch.batch.num_rows
    elif use < 0.8:
        encode(path, folder / "chain", **options)
    elif use < 0.9:
        tag_to(io.BytesIO(), model(), path, format=options["format"])
    else:
        evaluate(model(), path, format=options["format"])


@cache
def model() -> Model:
    """One that knows some words."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        path.write_text("the x D\ncat y N\n")
        chain = encode(path, Path(folder) / "chain")
        layout = Layout.full(chain.n_labels, chain.n_attributes)
        return Model(layout, np.linspace(-1, 1, layout.size), vocabulary=chain.vocabulary)


def _target(kind: str) -> Any:
    def target(dice: random.Random, folder: Path) -> None:
        (folder / "text").write_bytes(_bytes(dice, kind))
        _read(folder / "text", dice, kind, folder)

    target.__doc__ = f"Texts that are nearly {kind}."
    return target


def compressed(dice: random.Random, folder: Path) -> None:
    """Texts in compressed files, whole, damaged, cut, one after another, or much larger than they look."""
    kind = dice.choice(["conll", "csv"])
    packs: list[Callable[[bytes], bytes]] = [gzip.compress, bz2.compress, lzma.compress, _zstd]
    pack = dice.choice(packs)
    data = pack(_bytes(dice, kind))
    chance = dice.random()
    if chance < 0.5:
        data = damaged(data, dice)
    elif chance < 0.6:
        data += dice.choice([data, b"\0" * 10, b"after", pack(b"more rows O\n")])
    elif chance < 0.61:
        data = _bomb(pack)
    elif chance < 0.7:
        data = pack(data)
    path = folder / dice.choice(["text", "text.gz", "text.csv.gz", "text.xz", "text.zst"])
    path.write_bytes(data)
    for _ in InputReader(format=dice.choice([Format(kind), None])).rows(path, None, InputProgress()):
        pass


def _zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, "zstd", asbytes=True)
    return packed


@cache
def _bomb(pack: Any) -> bytes:
    """A line of 8 MB and little else."""
    packed: bytes = pack(b"a" * (1 << 23) + b" O\n")
    return packed


TARGETS = {kind: _target(kind) for kind in ("conll", "conllu", "crfsuite", "csv", "tsv", "jsonl")} | {
    "compressed": compressed
}
