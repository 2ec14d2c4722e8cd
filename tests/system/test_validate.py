"""States that were forged: their digest fits, and what they say cannot be. Each is refused with one sentence.

`fuzz.states` makes such files at random; here is each kind of failure that was ever found.
"""

from __future__ import annotations

import errno
import json
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chainfold import StreamTagger
from chainfold.errors import BadFile
from chainfold.system.archive import read_sealed, write_sealed
from chainfold.system.validate import spelt
from chainfold.training.online.adagrad import OnlineSettings
from fuzz import states
from fuzz.states import Change, Tensors, Valid, chain_of, make, model_of, more, none, put, say, sealed


def text(change: Callable[[Any], None]) -> Change:
    """Another value in the JSON of the rows that wait."""

    def changed(tensors: Tensors, about: dict[str, Any]) -> None:
        texts = json.loads(tensors["encoder.texts"].tobytes())
        change(texts)
        tensors["encoder.texts"] = np.frombuffer(json.dumps(texts).encode(), np.uint8)

    return changed


def no_columns(tensors: Tensors, about: dict[str, Any]) -> None:
    about["again"], about["meaning"]["columns"] = False, None


def stream(**settings: Any) -> Valid:
    model, chain = model_of(2, edges=True), chain_of(2, 60, edges=True, values=False)
    chain = replace(chain, starts=np.arange(60) == 0)
    tagger = StreamTagger(model, **settings)
    tagger.push(chain.block(0, 40))
    return states._kept(tagger.save, states._use_stream(model, [chain.block(40, 60), chain.block(0, 1)]))


def stream_of_columns() -> Valid:
    model, rows = states.named()
    tagger = StreamTagger(model)
    tagger.push(rows[:2])
    return states._kept(tagger.save, states._use_stream(model, [rows[2:8], rows[8:9]]))


@cache
def valid(kind: str) -> Valid:
    kinds: dict[str, Callable[[], Valid]] = {
        "stream": lambda: stream(marginals=True, quantities=True, max_lag=9, tolerance=1e-14),
        "columns": stream_of_columns,
        "lbfgs": lambda: states._run("lbfgs", {"num_memories": 3}, True),
        "adam": lambda: states._run("adam", {"batch": 8}, False),
        "ap": lambda: states._run("ap", {}, False),
        "online": lambda: states._online(0, OnlineSettings(batch=8), 40),
    }
    return kinds[kind]()


FORGERIES: dict[str, dict[str, Change]] = {
    "stream": {
        "a label that does not exist": put("window.rows.label", 3),
        "a given label that does not exist": put("window.rows.given", 2**30),
        "a back-pointer that does not exist": put("window.rows.back", 200),
        "an origin that does not exist": put("window.origin", 2**40),
        "an origin below zero": put("window.origin", -1),
        "a last row that can have no label": make("window.delta", lambda array: np.full_like(array, -np.inf)),
        "a score that is no number": put("window.delta", np.nan),
        "a forward vector that is no number": put("window.rows.alpha", np.nan, (0, 0)),
        "a forward vector below zero": put("window.rows.predicted", -1.0, (0, 0)),
        "a transition that is infinite": put("window.rows.edge", np.inf, (0, 0)),
        "a belief of nothing": make("window.belief", np.zeros_like),
        "a belief that is too large": put("window.belief", 1e300),
        "a horizon beyond one": put("window.q", 2.0, (0, 0)),
        "more final labels than rows": put("window.counts", 10**6, 1),
        "more final posteriors than rows": put("window.counts", 10**6, 2),
        "rows below zero": put("window.counts", -1),
        "rows that do not wait": put("window.flags", False, 1),
        "wide numbers that are none": put("window.flags", True, 0),
        "more rows than may wait": say(1, "settings", "max_lag"),
        "rows of other lengths": make("window.rows.start", lambda array: array[:-1]),
        "a label before that does not exist": put("window.sums.before", 2**30),
        "sums of other rows": put("window.sums.counts", 7),
        "sums that are infinite": put("window.sums.pairs", np.inf, (0, 0, 0)),
        "sums that nobody asked for": say(False, "settings", "quantities"),
        "posteriors by number": say(1, "settings", "marginals"),
        "memory beyond int64": say(2**70, "settings", "memory"),
        "memory by part": say(0.5, "settings", "memory"),
        "an array that nobody knows": more,
    },
    "columns": {
        "more rows done than there are": put("encoder.done", 10**6),
        "rows done below zero": put("encoder.done", -1),
        "a first row that starts nothing": put("encoder.starts", False),
        "labels that do not exist": make("encoder.labels", lambda array: np.full_like(array, 2**30)),
        "rows that were pushed below zero": put("encoder.pushed", -1),
        "no rows": text(lambda texts: texts["rows"].clear()),
        "rows of fewer columns": text(lambda texts: texts["rows"][0].pop("word")),
        "rows of more columns": text(lambda texts: texts["rows"][0].update(more=[])),
        "columns of different lengths": text(lambda texts: texts["rows"][0]["word"].append("a")),
        "numbers in the place of words": text(lambda texts: texts["rows"][0].update(word=[{}])),
        "a word that cannot be spelt": text(lambda texts: texts["rows"][0]["word"].__setitem__(0, "\ud800")),
        "labels of another model": text(lambda texts: texts.update(labels=["B"])),
        "labels that are numbers": text(lambda texts: texts.update(labels=[1])),
        "a group that is a number": text(lambda texts: texts.update(group=5)),
        "texts that are no JSON": make("encoder.texts", lambda array: array[:-1]),
    },
    "lbfgs": {
        "a next pair that does not exist": put("optimiser.next_pair", 10**6),
        "more pairs than may be": put("optimiser.pairs", 4),
        "pairs without curvature": make("optimiser.curvatures", np.zeros_like),
        "a weight that is no number": put("optimiser.point", np.nan),
        "iterations below zero": put("optimiser.iteration", -1),
        "fewer scores than values": make("scores", lambda array: array[:-1]),
        "a score above one": put("scores", 2.0),
        "a value that is infinite": put("values", np.inf),
        "no best weights": make("best", none),
        "best weights of another model": make("best", lambda array: array[:-1]),
        "an end for no reason": say(["a"], "finished"),
        "no settings": say([], "run"),
        "an array that nobody knows": more,
    },
    "adam": {
        "steps below zero": put("optimiser.steps", -1),
        "squares below zero": put("optimiser.moments", -1.0, (1, 0)),
        "a best without a development set": lambda tensors, about: tensors.update(best=np.zeros(1)),
    },
    "ap": {
        "a block that does not exist": put("optimiser.counters", 10**6, 1),
        "epochs below zero": put("optimiser.counters", -1),
        "a weight that is infinite": put("optimiser.weights", np.inf),
    },
    "online": {
        "an attribute that does not exist": put("weights.ids", 2**30),
        "an attribute twice": make("weights.ids", np.zeros_like),
        "a row's attribute that does not exist": put("held.ids", -1),
        "a row's label that does not exist": put("held.labels", 2**30),
        "a row's label that is unknown": put("held.labels", -1),
        "offsets that fall": put("held.offsets", 2**40, 1),
        "weights that are no numbers": put("weights.transitions", np.nan, (0, 0)),
        "sums below zero": put("weights.sums", -1.0, (0, 0)),
        "stamps after now": put("weights.stamps", 2**40),
        "time below zero": put("weights.time", -1),
        "more rows before than there are": put("counts", 10**6),
        "rows that never came": put("counts", 0, 1),
        "hash bits beyond memory": say(40, "meaning", "hash_bits"),
        "hash bits that are text": say("5", "meaning", "hash_bits"),
        "no hash bits": say(None, "meaning", "hash_bits"),
        "labels that are numbers": say([1, 2, 3], "meaning", "labels"),
        "no labels": say(None, "meaning", "labels"),
        "no columns of a pipe": no_columns,
        "a template that is a number": say(7, "meaning", "template"),
        "again as a number": say(1, "again"),
        "no settings": say(None, "settings"),
        "settings of nothing": say({}, "settings"),
        "fewer labels than rows": make("held.labels", lambda array: array[:-1]),
        "offsets of parts": make("held.offsets", lambda array: array.astype(float)),
        "fewer counts": make("counts", lambda array: array[:3]),
        "fewer counts of intervals": make("prequential.counts", lambda array: array[:1]),
        "labels twice": say(["P", "P", "P"], "meaning", "labels"),
        "too few labels": say(["P"], "meaning", "labels"),
        "a template that is none": say("{", "meaning", "template"),
        "an interval of other positions": put("prequential.counts", 0),
        "a loss that is no number": put("prequential.loss", np.nan),
        "an array that nobody knows": more,
    },
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_what_cannot_be_is_refused_with_a_sentence(kind: str, tmp_path: Path) -> None:
    whole, path = valid(kind), tmp_path / "model.run"
    for name, change in FORGERIES[kind].items():
        tensors, about = dict(whole.tensors), json.loads(json.dumps(whole.about))
        change(tensors, about)
        path.write_bytes(sealed(tensors, about))
        with pytest.raises(BadFile) as refused:
            whole.use(path)
        assert str(path) in str(refused.value), name
        assert path.read_bytes() == sealed(tensors, about), f"{name}: it was refused only after it was opened"


def test_what_was_saved_opens(tmp_path: Path) -> None:
    """All kinds of it; the same states are what `fuzz.states` begins with, and it opens all of them."""
    for kind in FORGERIES:
        whole = valid(kind)
        (tmp_path / "model.run").write_bytes(sealed(whole.tensors, whole.about))
        whole.use(tmp_path / "model.run")


# The file itself


def header_of(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The same file with another header."""
    size = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:size])
    change(header)
    changed = json.dumps(header).encode()
    return struct.pack("<Q", len(changed)) + changed + data[size:]


LIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a shape of eight tebibytes": lambda header: header["a"].update(shape=[2**40]),
    "an array of eight tebibytes": lambda header: header["a"].update(shape=[2**40], data_offsets=[0, 2**43]),
    "a shape whose product wraps": lambda header: header["a"].update(shape=[2**32, 2**32]),
    "a shape below zero": lambda header: header["a"].update(shape=[-3, -1]),
    "a shape by truth": lambda header: header["a"].update(shape=[3, True]),
    "a shape of more dimensions than may be": lambda header: header["a"].update(shape=[3] + [1] * 80),
    "a shape that is a number": lambda header: header["a"].update(shape=3),
    "offsets that are text": lambda header: header["a"].update(data_offsets="ab"),
    "offsets of parts": lambda header: header["a"].update(data_offsets=[0, 24.0]),
    "arrays that overlap": lambda header: header["b"].update(data_offsets=[0, 16]),
    "a gap": lambda header: header["b"].update(data_offsets=[32, 48]),
    "a type that is none": lambda header: header["a"].update(dtype="F17"),
    "a type that is a list": lambda header: header["a"].update(dtype=[]),
    "an array that is missing": lambda header: header.pop("b"),
    "no metadata": lambda header: header.pop("__metadata__"),
    "metadata that are a list": lambda header: header.update(__metadata__=[]),
    "metadata that are no JSON": lambda header: header.update(__metadata__={"chainfold": "{"}),
    "metadata that are deep": lambda header: header.update(__metadata__={"chainfold": "[" * 10**5}),
    "metadata that are a number": lambda header: header.update(__metadata__={"chainfold": "5"}),
}


@pytest.mark.parametrize("name", LIES)
def test_a_header_is_believed_only_as_far_as_the_file_goes(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_sealed(path, "thing", 1, {"a": np.arange(3.0), "b": np.arange(2)}, {})
    path.write_bytes(header_of(path.read_bytes(), LIES[name]))
    with pytest.raises(BadFile, match="this is not a thing written by chainfold, or it is cut short or damaged"):
        read_sealed(path, "thing", 1)


def test_marks_are_yes_or_no(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_sealed(path, "thing", 1, {"a": np.array([2], np.uint8)}, {})
    path.write_bytes(header_of(path.read_bytes(), lambda header: header["a"].update(dtype="BOOL")))
    with pytest.raises(BadFile, match="its marks are not booleans"):
        read_sealed(path, "thing", 1)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO])
def test_what_the_system_refuses_is_no_damage(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sealed(tmp_path / "file", "thing", 1, {}, {})

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(BadFile, match=f"cannot be read: {os.strerror(number)}"):
        read_sealed(tmp_path / "file", "thing", 1)


def test_too_little_memory_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sealed(tmp_path / "file", "thing", 1, {"a": np.arange(3.0)}, {})

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(np, "empty", refuse)
    with pytest.raises(MemoryError):
        read_sealed(tmp_path / "file", "thing", 1)


def test_what_a_file_says_of_itself_is_shown_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_sealed(path, "\x1b[2J\n" * 50, 1, {}, {})
    with pytest.raises(BadFile) as told:
        read_sealed(path, "thing", 1)
    assert str(told.value).isprintable()
    assert len(str(told.value)) < len(str(path)) + 250
    write_sealed(path, "thing", "\n" * 50, {}, {})  # type: ignore[arg-type]
    with pytest.raises(BadFile, match="its version is no number"):
        read_sealed(path, "thing", 1)
    assert spelt("engine") == "engine"


def test_a_header_that_could_not_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chainfold.system.archive._MOST_HEADER", 1000)
    with pytest.raises(BadFile, match="cannot be written"):
        write_sealed(tmp_path / "file", "thing", 1, {}, {"text": "x" * 1000})
    assert not (tmp_path / "file").exists()


# What the checks let through must go on as if nothing had happened.


def test_rows_that_wait_come_back_with_their_values(tmp_path: Path) -> None:
    """Bags with values, numbers in a column of texts, missing values."""
    model, rows = states.items()
    tables = [pa.table({"word": [1.5, None], "size": ["2", None]}), pa.table({"word": ["a"], "size": [-7.0]})]
    columns = states.named()[0]
    for one, parts in ((model, [rows[:2], rows[2:3]]), (columns, tables)):
        outputs = []
        for saved in (False, True):
            tagger = StreamTagger(one, marginals=True)
            found = []
            for part in [*parts, *parts]:
                found.append(tagger.push(part))
                if saved:
                    tagger.save(tmp_path / "stream")
                    tagger = StreamTagger.load(tmp_path / "stream", one)
            found.append(tagger.flush())
            outputs.append([(list(each), each.probabilities.tobytes()) for each in found])
        assert outputs[0] == outputs[1]
