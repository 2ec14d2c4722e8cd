"""What Python callers may give: sequences of odd items, arrays, settings and constraints."""

from __future__ import annotations

import json
import random
import warnings
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from chainfold import CRF, Chain, Constraints, Layout, Model, log_likelihood
from chainfold.features.encode import chain_from_sequences
from chainfold.features.schema import kept_columns
from fuzz.nasty import INTEGERS, REALS, anything, word


class Broken:
    """An object that is of no use."""

    def __str__(self) -> str:
        return "broken"


def _odd(dice: random.Random) -> Any:
    odd: list[Any] = [None, Broken(), b"bytes", "\ud800", (), {1}, Fraction(1, 3), np.float32(1.5), np.int64(3), np.nan]
    odd += [
        np.array([1, 2]),
        np.bool_(True),
        1j,
        float("inf"),
        10**400,
        object,
        lambda: None,
        range(3),
        {"a": {"b": 1}},
    ]
    return dice.choice(odd)


def _item(dice: random.Random) -> Any:
    chance = dice.random()
    if chance < 0.6:
        values = ["x", 1, 2.5, True, False, 0, word(dice), dice.choice(REALS), dice.choice(INTEGERS)]
        item: dict[Any, Any] = {dice.choice(["w", "n", "b", word(dice)]): dice.choice(values) for _ in range(2)}
        if dice.random() < 0.1:
            item[dice.choice([1, None, "w"])] = dice.choice([_odd(dice), ["a", "b"], {"c": 1}])
        return item
    if chance < 0.9:
        return [dice.choice(["a", "b", word(dice)]) for _ in range(dice.randint(0, 3))]
    return dice.choice([_odd(dice), "text", anything(dice)])


def _sequences(dice: random.Random) -> tuple[Any, Any]:
    lengths = [dice.choice([0, 1, 2, 3]) for _ in range(dice.choice([0, 1, 2, 3]))]
    items: Any = [[_item(dice) for _ in range(length)] for length in lengths]
    labels: Any = [[dice.choice(["A", "B", "O", 1, True]) for _ in range(length)] for length in lengths]
    if dice.random() < 0.15 and labels:
        labels[0] = dice.choice([_odd(dice), [_odd(dice)], [], [word(dice)] * 3])
    if dice.random() < 0.1 and items:
        items[0] = _odd(dice)
    if dice.random() < 0.05:
        items = _odd(dice)
    return items, labels


def sequences(dice: random.Random, folder: Path) -> None:
    """`chain_from_sequences`, and a gradient."""
    items, labels = _sequences(dice)
    weights: Any = None if dice.random() < 0.8 else [dice.choice([1, 0.5, *REALS, None, "x"]) for _ in range(3)]
    options: dict[str, Any] = {
        "hash_bits": dice.choice([None, None, None, 3, 0, "x", 99]),
        "min_count": dice.choice([1, 1, 1, 2, 0, "x"]),
    }
    options["min_count"] = 1 if options["hash_bits"] else options["min_count"]
    chain = chain_from_sequences(items, labels if dice.random() < 0.9 else None, weights=weights, **options)
    if chain.n_labels:
        log_likelihood(Model.random(Layout.full(chain.n_labels, chain.n_attributes)), chain)


def estimators(dice: random.Random, folder: Path) -> None:
    """`CRF.fit` and `predict`."""
    items, labels = _sequences(dice)
    settings: dict[str, Any] = {"max_iterations": 2, "threads": 1}
    for name in (
        "c1",
        "c2",
        "min_freq",
        "max_iterations",
        "scheme",
        "forbid",
        "algorithm",
        "hash_bits",
        "epsilon",
        "seed",
        "period",
    ):
        if dice.random() < 0.05:
            settings[name] = dice.choice([0, 1, 0.5, -1, None, "BIO", ["A>B"], "x", "ap", "sgd", [], True])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of data with a single label, for instance
        crf = CRF(**settings).fit(items, labels)
        crf.predict(_sequences(dice)[0])


def arrays(dice: random.Random, folder: Path) -> None:
    """`Chain.from_arrays`, and a gradient."""
    rows = dice.choice([1, 3, 5])
    ends: Any = np.cumsum([0, *(dice.randint(0, 2) for _ in range(rows))])
    given: dict[str, Any] = {"offsets": ends, "ids": np.arange(ends[-1]) % 4, "labels": np.arange(rows) % 2}
    if dice.random() < 0.4:
        given |= {"edge_offsets": ends, "edge_ids": np.arange(ends[-1]) % 3}
    if dice.random() < 0.4:
        given |= {"values": np.ones(ends[-1]), "weights": np.ones(rows), "starts": np.arange(rows) % 2 == 0}
    for _ in range(dice.choice([0, 1, 1, 2])):
        name = dice.choice([*given, "n_labels", "n_attributes", "n_edge_attributes", "starts", "weights"])
        value = given.get(name)
        chance = dice.random()
        if isinstance(value, np.ndarray) and value.ndim == 1 and value.size and chance < 0.6:
            with np.errstate(invalid="ignore"), suppress(OverflowError, ValueError):
                value = value.astype(dice.choice([np.float64, np.int64, np.uint64, object]))
            value[dice.randrange(value.size)] = dice.choice(
                [0, 1, 2, 7, 200, 5000] if value.dtype.kind in "ui" else [*REALS, 2**31]
            )
        elif chance < 0.8:
            value = dice.choice([0, 1, 3, 65536, -1, 2**31, 1.5, None, True, "x"])
        else:
            value = dice.choice(
                [None, [], [1], [[1]], "x", [None], [1.5], np.zeros((2, 2)), np.array(3), np.arange(3)[::-1]]
            )
        given[name] = value
    chain = Chain.from_arrays(**given)
    if chain.n_labels < 9 and chain.n_attributes + chain.n_edge_attributes < 10**5:
        log_likelihood(Model.random(Layout.full(chain.n_labels, chain.n_attributes, chain.n_edge_attributes)), chain)


def constraints(dice: random.Random, folder: Path) -> None:
    """Schemes, and transitions to forbid and to allow."""
    known = ["B-X", "I-X", "O", "E-X", "S-X", "*", "^", "$", ">", "a>b", "", "\\", "I-", "B", "L-X", "U-X"]
    labels = [dice.choice(known) if dice.random() < 0.8 else word(dice) for _ in range(dice.choice([0, 1, 3, 5]))]
    labels = list(dict.fromkeys(labels)) if dice.random() < 0.9 else labels

    def entry() -> Any:
        ends = [dice.choice([*known, *labels]) for _ in range(2)]
        return dice.choice([">".join(ends), ">".join(ends), ">".join(ends), word(dice), ends[0], "\\*>\\^"])

    scheme = dice.choice([None, None, "BIO", "IOBES", "BILOU", "x", ""])
    Constraints.of(
        labels, scheme, [entry() for _ in range(dice.choice([0, 1, 2]))], [entry() for _ in range(dice.choice([0, 1]))]
    )


def columns(dice: random.Random, folder: Path) -> None:
    """What models keep of their columns."""
    about: dict[str, Any] = {"kinds": {"w": "symbol", "n": "number"}, "group": None, "header": True}
    for _ in range(dice.choice([0, 1, 2])):
        about[dice.choice([*about, "weight", "unknown", "one_sequence", "comments", "other"])] = anything(dice)
    kept_columns(json.dumps(about if dice.random() < 0.95 else anything(dice)))


TARGETS = {
    "sequences": sequences,
    "estimators": estimators,
    "flat-arrays": arrays,
    "constraints": constraints,
    "columns": columns,
}
