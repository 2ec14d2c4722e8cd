"""Models of CRFsuite, Wapiti and CRF++ that are damaged, or put together wrongly."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path

import chainfold as cf
from chainfold.model import inspection
from foreign_files import crfpp_binary, crfpp_text, crfsuite_file, wapiti_file
from fuzz.nasty import word

LABELS = ["A", "B", "C"]
KEYS = {
    "U0:the": [1.0, -1.0, 0.5],
    "U0:cat": [0.0, 2.0, -0.5],
    "U1:_B-1/D": [0.25, 0.0, -3.0],
    "B": [0.1 * k for k in range(9)],
    "B2:N": [-0.2 * k for k in range(9)],
}
PATTERNS = ["U0:%x[0,0]", "U1:%x[-1,0]/%x[0,1]", "B", "B2:%x[1,1]"]
OBSERVATIONS = {
    "u0:the": [1.0, -1.0, 0.5],
    "u1:x_x-1": [0.0, 2.0, -0.5],
    "*2:true": [0.1 * k for k in range(12)],
    "b": [-0.2 * k for k in range(9)],
}
WAPITI = ["u0:%x[0,0]", 'u1:%m[0,1,"^.?"]%X[-1,0]', '*2:%t[0,0,"^\\a*$"]', "b"]
NUMBERS = [0, 1, 2, 3, 7, 12, 47, 48, 2**7, 2**8, 2**15, 2**16, 2**20, 2**24, 2**31 - 1, 2**31, 2**32 - 1]
TEXTS = [b"0", b"1", b"-1", b"9" * 9, b"9" * 18, b"9" * 400, b"nan", b"inf", b"1e999", b"0x", b"", b" ", b"\n", b"#"]
TEXTS += [b"0x1p+9999", b"0x1.8p-1", b"%x[0,0]", b"%x[-9999,99999]", b"%", b"_", b"\0", b"\xff", b"u", b"*", b"B"]
ROWS = b"the D\ncat N\n\nthe N\n"
LINES = b"A\tx\ty:2\nB\tz\n"


@cache
def crfsuite() -> bytes:
    names = ["x", "y", "z", *(f"long {k}" for k in range(9))]
    state = {(name, label): 0.5 * k for k, name in enumerate(names) for label in LABELS if (k + ord(label)) % 3}
    return crfsuite_file(LABELS, names, state, {("A", "B"): 1.0, ("B", "C"): -1.0, ("C", "C"): 0.5})


@cache
def wapiti() -> bytes:
    return wapiti_file(LABELS, WAPITI, OBSERVATIONS)


@cache
def text() -> bytes:
    return crfpp_text(LABELS, PATTERNS, KEYS)


@cache
def binary() -> bytes:
    return crfpp_binary(LABELS, PATTERNS, KEYS)


def _changed(dice: random.Random, content: bytes, of_text: bool) -> bytes:
    """The file with one thing wrong."""
    at = dice.randrange(len(content) + 1)
    kind = dice.random()
    if kind < 0.1:
        return content[:at]
    if kind < 0.25:
        return content[:at] + dice.randbytes(dice.choice([1, 1, 4, 8])) + content[at + dice.choice([0, 1, 4, 8]) :]
    if kind < 0.35:
        low, high = sorted((at, dice.randrange(len(content) + 1)))
        return content[:low] + content[high:]
    if kind < 0.45:
        low, high = sorted((at, dice.randrange(len(content) + 1)))
        return content[:high] + content[low:high] * dice.choice([1, 1, 5]) + content[high:]
    if of_text:
        lines = content.split(b"\n")
        row = dice.randrange(len(lines))
        if kind < 0.65:
            other = dice.randrange(len(lines))
            lines[row], lines[other] = lines[other], lines[row] if dice.random() < 0.5 else lines[other]
        elif kind < 0.85:
            line = lines[row]
            begin = dice.randrange(len(line) + 1)
            middle = dice.choice([*TEXTS, word(dice).encode("utf-8", "surrogatepass")])
            lines[row] = line[:begin] + middle + line[begin + dice.choice([0, 1, 2, len(line)]) :]
        else:
            lines[row] = dice.choice(TEXTS)
        return b"\n".join(lines)
    if kind < 0.6:
        at = dice.randrange(min(len(content), 48)) // 4 * 4
    at = at // 4 * 4
    number = dice.choice([dice.choice(NUMBERS), dice.randrange(len(content) + 9), dice.getrandbits(32)])
    return content[:at] + struct.pack("<I", number) + content[at + 4 :]


def _target(made: Callable[[], bytes], of_text: bool, rows: bytes, name: str) -> Callable[[random.Random, Path], None]:
    def target(dice: random.Random, folder: Path) -> None:
        content = made()
        for _ in range(dice.choice([1, 1, 1, 2, 3])):
            content = _changed(dice, content, of_text)
        if name == "crfsuite" and dice.random() < 0.8 and len(content) > 8:
            content = content[:4] + struct.pack("<I", len(content)) + content[8:]
        (folder / "foreign").write_bytes(content)
        model = cf.open_any_model(folder / "foreign", dice.choice(["utf-8", "utf-8", "latin-1"]))
        inspection.inspect(model, 3)
        cf.save_model(folder / "model", model)
        cf.export_model(model, folder / "back", name)
        assert cf.open_any_model(folder / "back").layout.n_labels == model.layout.n_labels
        (folder / "rows").write_bytes(rows)
        cf.tag_to(io.BytesIO(), model, [str(folder / "rows")], format="crfsuite" if name == "crfsuite" else "conll")

    return target


TARGETS = {
    "crfsuite-models": _target(crfsuite, False, LINES, "crfsuite"),
    "wapiti-models": _target(wapiti, True, ROWS, "wapiti"),
    "crfpp-texts": _target(text, True, ROWS, "crf++"),
    "crfpp-binaries": _target(binary, False, ROWS, "crf++"),
}
