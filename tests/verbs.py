"""Verbs run in this process as a user would run them, and a small corpus to run them on."""

from __future__ import annotations

import functools
import random
from pathlib import Path

import typer.testing
from typer import Typer
from typer.testing import CliRunner, Result

from chainfold.cli import app

# built anew for each run, the command would take longer than many a verb
typer.testing._get_command = functools.cache(typer.testing._get_command)  # type: ignore[attr-defined]

FOLLOW = {"B-X": ["B-X", "I-X", "O"], "I-X": ["B-X", "I-X", "O"], "O": ["B-X", "O"]}


def run(*arguments: object, given: bytes = b"", program: Typer = app) -> Result:
    return CliRunner().invoke(program, [str(argument) for argument in arguments], input=given)


def succeeded(*arguments: object, given: bytes = b"") -> bytes:
    """What a verb writes to standard output."""
    done = run(*arguments, given=given)
    assert done.exit_code == 0, done.stderr or done.exception
    assert done.stderr == ""
    return done.stdout_bytes


def failed(*arguments: object, given: bytes = b"", program: Typer = app) -> str:
    """The one sentence in which a verb ends."""
    done = run(*arguments, given=given, program=program)
    assert done.exit_code == 2, done.exception
    assert done.stdout == ""
    assert done.stderr.startswith("chainfold: ")
    assert done.stderr.endswith(".\n")
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("chainfold: ").rstrip("\n")


def sentences(count: int, seed: int = 0, noise: float = 0.1) -> list[list[tuple[str, str, str]]]:
    """(word, shape, tag) by sentence: tags are proper BIO, words usually have their own, shapes say little."""
    dice, made = random.Random(seed), []
    for _ in range(count):
        tag, rows = "O", []
        for _ in range(dice.randint(1, 12)):
            tag = dice.choice(FOLLOW[tag])
            likely = tag if dice.random() > noise else dice.choice(list(FOLLOW))
            rows.append((f"{likely[0].lower()}{dice.randrange(30)}", dice.choice("xX"), tag))
        made.append(rows)
    return made


def conll(path: Path, count: int = 40, seed: int = 0, noise: float = 0.1) -> Path:
    """The same in columns."""
    text = "\n".join("".join(f"{' '.join(row)}\n" for row in rows) for rows in sentences(count, seed, noise))
    path.write_text(text)
    return path
