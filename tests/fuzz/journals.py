"""Journals of online runs: cut, damaged, and forged with right checksums."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from chainfold import Chain
from chainfold.training.online import journal
from fuzz.nasty import anything, damaged

LABELS = ["A", "B"]
N_ATTRIBUTES = 4


def journals(dice: random.Random, folder: Path) -> None:
    path = folder / "journal"
    block = Chain.from_arrays(offsets=[0, 1, 3], ids=[0, 1, 2], labels=[0, 1]).block(0, 2)
    with journal.Journal(path) as file:
        for first in range(0, 6, 2):
            file.append(journal.Record(first, LABELS, block))
    data = path.read_bytes()
    if dice.random() < 0.4:
        data = damaged(data, dice)
    else:
        size = len(data) // 3
        at = size * dice.randrange(3)
        data = data[:at] + _sealed(_forged(data[at : at + size][journal._HEAD :], dice)) + data[at + size :]
    path.write_bytes(data)
    for record in journal.JournalReader(path, N_ATTRIBUTES, LABELS).records():
        assert record.block.labels.max() < len(record.labels)
        assert record.block.ids.max(initial=0) < N_ATTRIBUTES


def _forged(body: bytes, dice: random.Random) -> bytes:
    """The body of a record, changed."""
    if dice.random() < 0.5:
        return damaged(body, dice)
    end = 8 + int.from_bytes(body[:8], "little")
    about: dict[str, Any] = json.loads(body[8:end])
    name = dice.choice(list(about))
    about[name] = anything(dice)
    if dice.random() < 0.5:
        about["sizes"] = [size + dice.choice([-1, 0, 0, 1, 2**40]) for size in (2, 2, 3, 3, 0)]
    text = json.dumps(about).encode()
    return len(text).to_bytes(8, "little") + text + body[end:]


def _sealed(body: bytes) -> bytes:
    head = len(body).to_bytes(8, "little") + journal._digest(body)
    mark: bytes = journal._MARK
    return head + journal._digest(head) + mark + body


TARGETS = {"journals": journals}
