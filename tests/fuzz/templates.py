"""Templates of every dialect, put together from pieces that are nearly right, and used on a few rows."""

from __future__ import annotations

import json
import random
from pathlib import Path

from chainfold import encode
from chainfold.features.template import Template
from fuzz.nasty import NUMBERS, anything, word

ROWS = "the D x 1\ncat N y 2.5\n\nsat V z -3\nNone O x nan\n"
COLUMNS = ["0", "1", "2", "3"]
NAMES = [*COLUMNS, *COLUMNS, *COLUMNS, "4", "-1", "9" * 20, "word", '"0"', "'1'"]
STEPS = ["lower", "shape", "prefix", "suffix", "test", "match", "symbol", "real", "standard", "scale", "quantile"]
STEPS += ["log", "bins", "nothing"]
PATTERNS = ["a*", "(", "[", "^.?.?", "(a+)+$", "\\p{L}", "[[:alpha:]]", "\\1", "x{0,99999}", "(?P<n>a)", "\\"]
PATTERNS += ["((((a)*)*)*)*"]
LONG = "1" * 5000


def _argument(dice: random.Random, step: str) -> str:
    if dice.random() < 0.2:
        return dice.choice([dice.choice(NUMBERS), str(dice.randint(-5, 20)), f'"{word(dice)}"', word(dice), LONG])
    if step in ("test", "match"):
        return f'"{dice.choice(PATTERNS)}"'
    return str(dice.randint(2, 9))


def _factor(dice: random.Random, depth: int = 2) -> str:
    text = dice.choice(NAMES)
    if depth and dice.random() < 0.5:
        step = dice.choice(STEPS)
        count = {"lower": 0, "shape": 0, "symbol": 0, "real": 0, "standard": 0, "scale": 2, "log": 0}.get(step, 1)
        count = count if dice.random() < 0.9 else dice.randint(0, 3)
        text = f"{step}({','.join([_factor(dice, depth - 1), *(_argument(dice, step) for _ in range(count))])})"
    if dice.random() < 0.3:
        wrong = dice.choice(["-10001", "99999999999", "1.5", "", word(dice), LONG])
        text += f"[{dice.choice(['0', '-1', '+2', '1', '-10000', wrong])}]"
    return text


def expressions(dice: random.Random, folder: Path) -> None:
    """`--attributes`."""
    between = "|" if dice.random() < 0.9 else word(dice)
    parts = [between.join(_factor(dice) for _ in range(dice.choice([1, 1, 2])))]
    parts += [_factor(dice) for _ in range(dice.choice([0, 0, 1]))]
    if dice.random() < 0.1:
        parts.append(word(dice))
    border = dice.choice([None, "crfpp", "wapiti", "crfsuite"]) if dice.random() < 0.95 else word(dice)
    _use(folder, attributes=" ".join(parts), border=border)


def files(dice: random.Random, folder: Path) -> None:
    """Files of CRF++ and Wapiti."""

    def macro() -> str:
        offset = dice.choice(["0", "-1", "1", "-2"])
        column = dice.choice(["0", "1", "2"])
        kind = dice.choice(["x", "x", "X", "t", "m", "M", "T"])
        if dice.random() < 0.2:
            offset = dice.choice(["-10001", "9" * 20, "", "x", "@0", "@-1", "01", LONG])
        if dice.random() < 0.1:
            column = dice.choice(["3", "4", "-1", "9" * 20, "", "w", LONG])
        if dice.random() < 0.05:
            kind = dice.choice(["z", "", "é"])
        pattern = f',"{dice.choice([*PATTERNS, word(dice)])}"' if kind in "tmMT" and dice.random() < 0.9 else ""
        return f"%{kind}[{offset},{column}{pattern}]" if dice.random() < 0.95 else f"%{kind}[{offset}"

    def line() -> str:
        head = dice.choice(["U00:", "U01:", "U", "B", "*", "b", "u:w=", "#", "", "B01:"])
        head = head if dice.random() < 0.9 else word(dice)
        return head + "/".join(macro() for _ in range(dice.choice([0, 1, 1, 2])))

    text = dice.choice(["\n", "\r\n", "\n\n"]).join(line() for _ in range(dice.randint(0, 4)))
    (folder / "template").write_bytes(text.encode("utf-8" if dice.random() < 0.95 else "utf-16", "surrogatepass"))
    _use(folder, template=folder / "template")


def stored(dice: random.Random, folder: Path) -> None:
    """A template as JSON, as it is kept beside models."""
    step: dict[str, object] = {
        "name": dice.choice(STEPS),
        "arguments": [dice.choice([anything(dice, 0), dice.randint(0, 9)]) for _ in range(dice.choice([0, 1, 1, 2]))],
    }
    factor: dict[str, object] = {
        "column": dice.choice([*COLUMNS, *COLUMNS, *range(4), word(dice)]),
        "offset": dice.choice([0, 0, -1, 2, -10_000, 10**9]),
        "steps": [step][: dice.choice([0, 0, 1])],
    }
    entry: dict[str, object] = {"pieces": ["w=", ""], "factors": [factor], "edge": dice.choice([True, False])}
    about: dict[str, object] = {"features": [entry], "border": dice.choice(["crfpp", "wapiti", "crfsuite"])}
    for thing in (step, factor, entry, about):
        if dice.random() < 0.1:
            thing[dice.choice(list(thing))] = anything(dice)
    text = json.dumps(about) if dice.random() < 0.95 else json.dumps(anything(dice))
    _use(folder, template=Template.from_json(text))


def _use(folder: Path, **options: object) -> None:
    (folder / "rows").write_text(ROWS)
    encode(folder / "rows", folder / "chain", format="conll", **options)  # type: ignore[arg-type]


TARGETS = {"expressions": expressions, "template-files": files, "template-json": stored}
