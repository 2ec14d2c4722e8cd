"""Random inputs, cut at random places: a chain in parts is the single chain, or both are refused."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from chain.test_stored import contents, meaning
from chainfold import encode, encode_in_parts
from chainfold.errors import ChainfoldError
from chainfold.readers import pieces

KINDS = ("conll", "csv", "tsv", "crfsuite", "conllu", "jsonl")
WORDS = ["a", "b", "1", "2.5", "é", "c"]
BETWEEN = {"csv": ",", "tsv": "\t", "crfsuite": "\t", "conllu": "\t"}
ATTRIBUTES = (
    "symbol(0)[-1] symbol(0) symbol(0)[2]",
    "symbol(word)[-2] symbol(word)[1]",
    "symbol(0)[-3] symbol(1)[3]|symbol(0)",
    "lower(0)[1] symbol(2)[-2]",
)


def row(dice: random.Random, kind: str, group: int, quoted: bool) -> str:
    word, label = dice.choice(WORDS), dice.choice("XYZ")
    if kind == "jsonl":
        return json.dumps({"word": word, "tag": f"g{group}", "n": dice.choice([1, 2.5, None]), "label": label})
    fields = [word, f"g{group}", dice.choice(["1", "2.5"]), label]
    if kind == "crfsuite":
        fields = [label, *(dice.choice(["a", "b:2", "c:0.5", "@edge"]) for _ in range(dice.randrange(4)))]
    if kind == "conllu":
        fields = [dice.choice(["1", "2", "3-4", "5.1"]), word, "_", label, "_", "_", "0", "_", "_", "_"]
    if quoted and dice.random() < 0.4:
        fields[0] = f'"{word}{dice.choice(["", chr(10), chr(34) * 2, ",", chr(10) * 2])}"'
    return BETWEEN.get(kind, " ").join(fields)


def text(dice: random.Random, kind: str, group: int) -> bytes:
    lines, quoted = [], kind == "csv" and dice.random() < 0.5
    if kind in ("csv", "tsv"):
        lines.append(BETWEEN[kind].join(["word", "tag", "n", "label"]))
    for _ in range(dice.randint(1, 30)):
        group += dice.random() < 0.3
        if kind == "conll" and dice.random() < 0.05:
            lines.append(dice.choice(["", "#", "#b"]) + " g1 1 X")
        lines.append(row(dice, kind, group, quoted))
        if dice.random() < 0.15:
            lines += dice.choice([[""], ["", ""], ["", "# one two three four five"] if "conll" in kind else [""]])
    end = dice.choice(["\n", "\n", "\r\n"])
    whole = end.join([*lines, ""]) if dice.random() < 0.9 else end.join(lines)
    mark = "\ufeff" if dice.random() < 0.1 else ""
    return ((mark + whole) * dice.choice([1, 1, 1, 2])).encode()


def options(dice: random.Random, kind: str) -> dict[str, Any]:
    told: dict[str, Any] = {"format": kind}
    for chance, some in (
        (0.3, {"one_sequence": True}),
        (0.2, {"group": "1", "header": False, "groups_return": dice.random() < 0.5}),
        (0.3, {"group": "tag"}),
        (0.4, {"attributes": dice.choice(ATTRIBUTES)}),
        (0.1, {"labels": False}),
        (0.1, {"comments": dice.choice(["", "# ", "#"])}),
        (0.2, {"hash_bits": 6}),
        (0.2, {"numbers": dice.choice(["standard", "log", "real"])}),
    ):
        if dice.random() < chance:
            told |= some
    return told


def check(seed: int, folder: Path) -> None:
    dice = random.Random(seed)
    kind, files = dice.choice(KINDS), []
    for number in range(dice.choice([1, 1, 2, 3])):
        path = folder / f"{number}.{kind}"
        path.write_bytes(text(dice, kind, 100 * number))
        files.append(path)
    told, size = options(dice, kind), dice.choice([20, 60, 200, 1000])
    refused: list[str] = []
    made: list[Any] = []
    ways: list[tuple[Any, dict[str, Any]]] = [(encode, {}), (encode_in_parts, {"part_size": size, "threads": 1})]
    for encoder, more in ways:
        try:
            made.append(encoder(files, folder / encoder.__name__, **told, **more))
        except ChainfoldError as error:
            refused.append(str(error))
    assert len(refused) in (0, 2), refused
    if made:
        single, parts = made
        assert parts.header == single.header
        assert meaning(parts.vocabulary) == meaning(single.vocabulary)
        assert contents(parts.block(0, parts.positions)) == contents(single.block(0, single.positions))


@pytest.fixture(autouse=True)
def _short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_HEAD", 40)
    monkeypatch.setattr(pieces, "_FIRST_LOOK", 8)
    monkeypatch.setattr(pieces, "_LOOK", 30)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # nobody cuts the power


@pytest.mark.parametrize("seed", [*range(25), 5300, 5563])  # the last ones have failed once
def test_some_inputs(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 3000))
def test_many_inputs(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)
