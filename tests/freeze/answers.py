"""Answers: bytes are recorded by their digest, numbers by a sample and by sums with fixed random signs."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

FOLDER = Path(__file__).parent
RECORD, DIFFERENCES = FOLDER / "answers.json", FOLDER / "differences.toml"
FIXED = 1e-12  # of the largest number: what a fixed model gives
TRAINED = 1e-9  # of the largest weight, after five iterations
CONVERGED = 1e-8  # of the objective
_WHOLE, _SAMPLE, _SUMS = 48, 32, 8  # numbers kept of a small array; of a large one, and signed sums of it


class Answers(dict[str, dict[str, Any]]):
    """Answers by their names."""

    def exact(self, name: str, value: bytes | str | list[Any]) -> None:
        """Add an answer of which no byte may change."""
        content = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else None
        content = json.dumps(value).encode() if content is None else content
        self._add(name, {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)})

    def close(self, name: str, value: ArrayLike, tolerance: float = FIXED) -> None:
        """Add numbers, which may change by the tolerance relative to the largest of them."""
        array = np.ascontiguousarray(value, np.float64)
        flat = array.ravel()
        finite = np.where(np.isfinite(flat), flat, 0.0)
        answer: dict[str, Any] = {"tolerance": tolerance, "shape": list(array.shape)}
        answer["largest"] = float(np.abs(finite).max(initial=0.0))
        answer["sha256"] = hashlib.sha256(array.tobytes()).hexdigest()
        if flat.size <= _WHOLE:
            answer["numbers"] = [repr(float(number)) for number in flat]
        else:
            places = np.linspace(0, flat.size - 1, _SAMPLE).astype(int)
            signs = np.random.default_rng(flat.size).choice([-1.0, 1.0], (_SUMS, flat.size))
            answer["numbers"] = [repr(float(number)) for number in flat[places]]
            answer["numbers"] += [repr(float(total)) for total in signs @ finite]
        self._add(name, answer)

    def _add(self, name: str, answer: dict[str, Any]) -> None:
        assert name not in self, f"{name} is answered twice"
        self[name] = answer

    def write(self) -> None:
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(self[name])}" for name in sorted(self))
        RECORD.write_text(f"{{\n{lines}\n}}\n")


def recorded() -> Answers:
    """The answers of `answers.json`."""
    return Answers(json.loads(RECORD.read_text()))


def intended() -> dict[str, str]:
    """Patterns of the names of answers that are meant to differ, and why."""
    return tomllib.loads(DIFFERENCES.read_text())["differences"] if DIFFERENCES.exists() else {}


def differs(new: Mapping[str, Any], old: Mapping[str, Any]) -> str | None:
    """Say in what two answers differ by more than the old one allows; None if they agree."""
    if "bytes" in old:
        same = new.get("sha256") == old["sha256"]
        return None if same else f"other bytes ({old['bytes']} before, {new.get('bytes')} now)"
    if new["shape"] != old["shape"]:
        return f"shape {old['shape']} before, {new['shape']} now"
    before, now = (np.array([float(number) for number in answer["numbers"]]) for answer in (old, new))
    kinds = np.isfinite(before) == np.isfinite(now)
    if not kinds.all() or not (before[~np.isfinite(before)] == now[~np.isfinite(before)]).all():
        return "other infinities"
    finite = np.isfinite(before)
    most = float(np.abs(before - now)[finite].max(initial=0.0))
    allowed = old["tolerance"] * max(old["largest"], np.finfo(float).tiny)
    return None if most <= allowed else f"differs by {most:.3g}, {most / allowed:.3g} times what is allowed"


def compare(new: Answers, old: Answers) -> int:
    """Print how the answers compare; return the number of those that differ and should not."""
    reasons, wrong, same_bits = intended(), 0, 0
    for name in sorted(old.keys() & new.keys()):
        same_bits += new[name]["sha256"] == old[name]["sha256"]
        difference = differs(new[name], old[name])
        if difference is None:
            continue
        reason = next(
            (why for key, why in reasons.items() if name == key or (key[-1] == "*" and name.startswith(key[:-1]))), None
        )
        wrong += reason is None
        print(f"{'DIFFERS' if reason is None else 'intended'}  {name}: {difference}{f' ({reason})' if reason else ''}")
    both = len(old.keys() & new.keys())
    print(f"{both} answers compared: {wrong} differ that should not, {same_bits} have the same bits.")
    for names, words in (
        (old.keys() - new.keys(), "recorded, but not answered"),
        (new.keys() - old.keys(), "not recorded"),
    ):
        if names:
            print(f"{len(names)} {words}: {', '.join(sorted(names)[:5])}{' …' if len(names) > 5 else ''}")
    return wrong
