"""Chains that were damaged or forged, in files and through pipes, and then used for whatever chains are used for."""

from __future__ import annotations

import copy
import io
import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from chainfold import Chain, Layout, Model, encode, evaluate, log_likelihood, open_chain, tag_to, write_chain
from chainfold.chain import stored as store
from chainfold.cli.data import _facts
from chainfold.readers.chain_text import write_lines
from fuzz.forging import Forgery
from fuzz.nasty import INTEGERS, REALS, anything, damaged, word

ROWS = 4  # in a batch
TEXT = "the D x 1 0.5\ncat N y 2 0.5\nsat V x 3 0.5\n\na D x 4 0\ndog N z 5 0\n\nran V q 6 2\nand C x 7 2\n"
KINDS: dict[str, dict[str, Any]] = {
    "named": {"template": "U00:%x[0,0]\nU01:%x[-1,0]/%x[0,0]\n"},
    "edges": {"template": "U00:%x[0,0]\nB01:%x[0,1]\nB\n"},
    "hashed": {"attributes": "0 1 0[1]", "hash_bits": 4},
    "valued": {"attributes": "0 real(3)"},
    "weighted": {"attributes": "0 2", "weight": "4"},
    "unlabelled": {"labels": False},
    "numbers": {},
}
_MOST_WEIGHTS = 10**6  # of models that are made of what a chain states


@cache
def whole(kind: str) -> tuple[bytes, Forgery]:
    """A small chain of this kind, as a file and in pieces."""
    with tempfile.TemporaryDirectory() as name, mock.patch.object(store, "MOST_ROWS", ROWS):
        folder = Path(name)
        (folder / "rows").write_text(TEXT)
        if kind == "nameless":
            ends = np.arange(7)
            chain = Chain.from_arrays(
                offsets=ends, ids=ends[:-1], edge_offsets=ends, edge_ids=ends[:-1], labels=ends[:-1] % 2
            )
            write_chain(folder / "chain", chain)
        else:
            options = dict(KINDS[kind])
            if "template" in options:
                (folder / "template").write_text(options["template"])
                options["template"] = folder / "template"
            if "weight" not in options:
                options["columns"] = ["0", "1", "2", "3", "label"]
            encode(folder / "rows", folder / "chain", format="conll", **options)
        return (folder / "chain").read_bytes(), Forgery.of(folder / "chain")


@cache
def model_of(kind: str) -> Model:
    """A model for the chains of this kind, as they were."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "chain"
        path.write_bytes(whole(kind)[0])
        chain = open_chain(path)
        layout = Layout.full(chain.n_labels, chain.n_attributes, chain.n_edge_attributes)
        return Model(layout, np.linspace(-1, 1, layout.size), vocabulary=chain.vocabulary)


# How a chain is forged.


def _element(array: Any, dice: random.Random) -> None:
    """One number of an array becomes an extreme one."""
    if isinstance(array, pa.Array) or array.dtype.kind not in "iuf" or not array.size:
        return
    at = dice.randrange(array.size)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # it may have become one of float32
            array.flat[at] = dice.choice(REALS)
        return
    bounds = np.iinfo(array.dtype)
    array.flat[at] = min(
        max(dice.choice([*INTEGERS, int(array.flat[at]) + dice.choice([-1, 1])]), bounds.min), bounds.max
    )


def _array(forgery: Forgery, dice: random.Random) -> None:
    batch = dice.choice(forgery.batches)
    name = dice.choice(list(batch))
    array = batch[name]
    if not name.endswith(":offsets"):
        _element(array, dice)
    elif array.size > 2 and dice.random() < 0.8:
        array[dice.randrange(1, array.size - 1)] = dice.choice([*INTEGERS[:-3], 10**6])
    else:
        array[-1] = abs(int(dice.choice([array[-1] + 1, array[-1] + 10**6, 2**40])))


def _retyped(forgery: Forgery, dice: random.Random) -> None:
    """A column of another type or with nulls, or of another length."""
    for batch in forgery.batches if dice.random() < 0.7 else forgery.batches[-1:]:
        name = dice.choice([name for name in batch if not name.endswith(":offsets")])
        array = batch[name]
        if isinstance(array, pa.Array):
            continue
        kind = dice.randrange(4)
        if kind == 0:
            with np.errstate(over="ignore", invalid="ignore"):
                batch[name] = array.astype(dice.choice([np.int64, np.int8, np.float32, np.float64, np.uint8, np.bool_]))
        elif kind == 1:
            batch[name] = pa.array(array, mask=np.arange(array.size) % 2 == 0)
        elif kind == 2:
            batch[name] = pa.array([str(one) for one in array])
        else:
            batch[name] = array[:-1] if dice.random() < 0.5 else np.concatenate([array, array[:1]])


def _columns(forgery: Forgery, dice: random.Random) -> None:
    """Columns dropped, doubled or exchanged."""
    kind = dice.randrange(3)
    first = forgery.batches[0]
    names = [name for name in first if not name.endswith(":offsets")]
    one, other = dice.choice(names), dice.choice(names)
    for batch in forgery.batches:
        if kind == 0:
            batch.pop(one, None)
            batch.pop(f"{one}:offsets", None)
        elif kind == 1:
            batch["other"] = batch[other]
        elif one in batch and other in batch:
            batch[one], batch[other] = batch[other], batch[one]


def _header(forgery: Forgery, dice: random.Random) -> None:
    name = dice.choice(list(forgery.about))
    value = forgery.about[name]
    chance = dice.random()
    if type(value) is int and chance < 0.6:
        forgery.about[name] = dice.choice([*INTEGERS, value + 1, value - 1, 2 * value])
    elif type(value) is bool and chance < 0.7:
        forgery.about[name] = not value
    elif type(value) is str and chance < 0.5:
        forgery.about[name] = value.replace(dice.choice(["0", "w", '"', "features", "column"]), word(dice))
    elif chance < 0.9:
        forgery.about[name] = anything(dice)
    else:
        del forgery.about[name]
    positions, entries = (forgery.about.get(key) for key in ("positions", "entries"))
    if type(positions) is int and type(entries) is int and positions and dice.random() < 0.9:
        forgery.about["active"] = min(entries, 10**300) / min(positions, 10**300)


def _vocabulary(forgery: Forgery, dice: random.Random) -> None:
    if forgery.counts is None:
        return
    kind = dice.randrange(6)
    if kind == 0:
        _element(forgery.counts, dice)
    elif kind == 1:
        _element(forgery.marks, dice)
    elif kind == 2:
        forgery.counts = forgery.counts[: dice.randint(0, 2)]
    elif kind == 3:
        labels = forgery.about.get("labels")
        if isinstance(labels, list) and labels:
            labels[dice.randrange(len(labels))] = dice.choice([word(dice), labels[0], anything(dice), "\ud800"])
    elif forgery.names:
        prefix = dice.choice(list(forgery.names))
        texts: list[Any] = [f"w{k}" for k in range(len(forgery.names[prefix]))]
        if kind == 4 and texts:
            texts[dice.randrange(len(texts))] = dice.choice([word(dice), texts[0], None])
            forgery.names[prefix] = pa.array(texts, pa.large_string())
        elif dice.random() < 0.5:
            forgery.names[prefix] = pa.array(texts[: dice.randint(0, len(texts))], pa.large_string())
        else:
            data = np.frombuffer(b"\xff\xfe\x80abc" * 9, np.uint8)
            ends = np.minimum(np.arange(len(texts) + 1), 9)
            buffers = [None, pa.py_buffer(ends.astype(np.int64)), pa.py_buffer(data)]
            forgery.names[prefix] = pa.Array.from_buffers(pa.large_string(), len(texts), buffers)


def _batches(forgery: Forgery, dice: random.Random) -> None:
    """Batches dropped, doubled or exchanged."""
    kind = dice.randrange(3)
    if kind == 0:
        del forgery.batches[dice.randrange(len(forgery.batches))]
    elif kind == 1:
        forgery.batches.append(copy.deepcopy(forgery.batches[-1]))
    else:
        dice.shuffle(forgery.batches)


def _around(forgery: Forgery, dice: random.Random) -> None:
    kind = dice.randrange(4)
    if kind == 0:
        forgery.compression = dice.choice(["lz4", "zstd"])
    elif kind == 1:
        forgery.digest = dice.randbytes(dice.choice([0, 32]))
    elif kind == 2:
        forgery.checksum = dice.choice([b"", b"-1", b"9" * 5000, b"x", b"0"])


_CHANGES: list[Callable[[Forgery, random.Random], None]] = [
    _array,
    _retyped,
    _columns,
    _header,
    _vocabulary,
    _batches,
    _around,
]
_OFTEN = [9, 1, 1, 6, 4, 1, 1]


def forged(dice: random.Random) -> tuple[str, Forgery]:
    """A chain of some kind, changed in one way or several."""
    kind = dice.choice([*KINDS, "nameless"])
    forgery = copy.deepcopy(whole(kind)[1])
    for _ in range(dice.choice([0, 1, 1, 1, 2, 3])):
        if forgery.batches:
            dice.choices(_CHANGES, _OFTEN)[0](forgery, dice)
    return kind, forgery


# How it is used.


def _blocks(chain: Any, kind: str, dice: random.Random, folder: Path) -> None:
    for _ in range(4):
        low = dice.randrange(min(chain.positions, 20))
        chain.block(low, dice.choice([low + 1, min(low + 5, chain.positions), chain.positions]))
    _ = chain.vocabulary


def _gradient(chain: Any, kind: str, dice: random.Random, folder: Path) -> None:
    if (
        chain.n_attributes + chain.n_edge_attributes * chain.n_labels + chain.n_labels
    ) * chain.n_labels > _MOST_WEIGHTS:
        return
    layout = Layout.full(chain.n_labels, chain.n_attributes, chain.n_edge_attributes)
    if dice.random() < 0.5:
        layout = Layout.observed(chain)
    log_likelihood(
        Model.random(layout), chain, dice.choice(["stream", "fb", "emp", "parallel"]), block=dice.choice([None, 1, 3])
    )


def _data(chain: Any, kind: str, dice: random.Random, folder: Path) -> None:
    _facts(chain, 3)


def _decode(chain: Any, kind: str, dice: random.Random, folder: Path) -> None:
    write_lines(chain, io.BytesIO())


def _model(chain: Any, kind: str, dice: random.Random, folder: Path) -> None:
    log_likelihood(model_of(kind), chain)


_USES = [_blocks, _gradient, _data, _decode, _model]


def stored(dice: random.Random, folder: Path) -> None:
    """A chain in a file."""
    kind, forgery = forged(dice)
    path, data = folder / "chain", forgery.file()
    path.write_bytes(damaged(data, dice) if dice.random() < 0.2 else data)
    use = dice.choice([*_USES, None])
    if use is not None:
        use(open_chain(path), kind, dice, folder)
    elif kind != "nameless":
        if dice.random() < 0.5:
            tag_to(io.BytesIO(), model_of(kind), path)
        else:
            evaluate(model_of(kind), path)


def piped(dice: random.Random, folder: Path) -> None:
    """A chain that comes through a pipe."""
    kind, forgery = forged(dice)
    data = forgery.stream()
    data = damaged(data, dice) if dice.random() < 0.3 else data
    dice.choice([_gradient, _data, _decode, _model])(open_chain(io.BytesIO(data)), kind, dice, folder)


def appended(dice: random.Random, folder: Path) -> None:
    """Rows behind a forged chain."""
    _, forgery = forged(dice)
    forgery.stored(folder / "chain")
    (folder / "rows").write_text(TEXT)
    encode(folder / "rows", folder / "chain", format="conll", columns=["0", "1", "2", "3", "label"], append=True)


TARGETS = {"stored-chains": stored, "piped-chains": piped, "appended-chains": appended}
