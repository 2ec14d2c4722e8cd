"""Pieces that are nearly right, or nowhere right."""

from __future__ import annotations

import random

CHARACTERS = ["\0", "\x1b[31m", "\r", "\t", "\n", "\ufeff", "\u2028", "\x85", "\ud7ff", "é", "漢", "😀", '"', "'", "\\"]
CHARACTERS += [*"#:;, \xa0\u200b%{}[]()*^$>|~"]
WORDS = ["", "a", "B-X", "I-X", "O", "label", "word", "_", "-", "__BOS__", "L0", "nan", "inf", "-inf", "null", "None"]
NUMBERS = ["0", "-0", "1", "-1", "1.5", "1e308", "1e309", "-1e309", "1e-400", "0x10", "1_000", "١"]
NUMBERS += ["9223372036854775807", "9223372036854775808", "2147483647", "2147483648", "1e", "+", ".", "1" * 400]
NUMBERS += ["18446744073709551616"]
INTEGERS = [0, 1, -1, 2, 7, 63, 64, 65, 255, 2**15, 2**16, 2**30, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53, 2**62]
INTEGERS += [2**63 - 1, -(2**63), 2**63, 2**64, 10**30]
REALS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"), 1e300]


def word(dice: random.Random) -> str:
    """A text, mostly short."""
    chance = dice.random()
    if chance < 0.5:
        return dice.choice(WORDS)
    if chance < 0.65:
        return dice.choice(NUMBERS)
    if chance < 0.66:
        return dice.choice(CHARACTERS + WORDS) * dice.choice([100, 5000])
    return "".join(dice.choice(CHARACTERS + WORDS) for _ in range(dice.randint(1, 4)))


def anything(dice: random.Random, depth: int = 2) -> object:
    """A value of Python as JSON may have it."""
    kinds = 8 if depth else 6
    kind = dice.randrange(kinds)
    if kind == 0:
        return dice.choice([None, True, False])
    if kind == 1:
        return dice.choice(INTEGERS)
    if kind == 2:
        return dice.choice(REALS)
    if kind < 6:
        return word(dice)
    if kind == 6:
        return [anything(dice, depth - 1) for _ in range(dice.randint(0, 3))]
    return {word(dice): anything(dice, depth - 1) for _ in range(dice.randint(0, 3))}


def damaged(data: bytes, dice: random.Random) -> bytes:
    """The same with some bytes flipped, overwritten, left out or doubled, or cut short."""
    out = bytearray(data)
    for _ in range(dice.choice([1, 1, 1, 2, 5])):
        if not out:
            break
        at, size = dice.randrange(len(out)), dice.choice([1, 1, 2, 4, 8, 50])
        kind = dice.randrange(7)
        if kind == 0:
            out[at] ^= 1 << dice.randrange(8)
        elif kind == 1:
            out[at : at + size] = dice.randbytes(size)
        elif kind == 2:
            out[at : at + size] = bytes([dice.choice([0, 0xFF, 0x7F, 0x80])]) * size
        elif kind == 3:
            del out[at : at + size]
        elif kind == 4:
            out[at:at] = out[at : at + size]
        elif kind == 5:
            del out[at:]
        else:
            other = dice.randrange(len(out))
            out[at : at + size] = out[other : other + size]
    return bytes(out)
