"""Models, saved streams, training runs and online runs, changed and sealed again, opened and used.

What is changed is valid: each kind of file is made once, in all its forms. One to three things in it become something
else, an element, a shape, a type, a name or a value of JSON, and the digest is made to fit; some files are damaged
without that, or have a header that lies.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold import Chain, Layout, Model, StreamTagger, Training, encode, save_model, train
from chainfold.chain.block import Block
from chainfold.features.encode import chain_from_sequences
from chainfold.model.file import open_model
from chainfold.training.loop import Development, Interrupted, SaveInterval, Saving, _identity, _Run
from chainfold.training.objective import WeightSpace
from chainfold.training.online.adagrad import OnlineSettings
from chainfold.training.online.run import OnlineRun
from chainfold.training.online.trainer import OnlineTrainer
from chainfold.training.passes import LocalPasses

Tensors = dict[str, NDArray[Any]]
About = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Valid:
    """A file that opens, and what it is opened and used by."""

    tensors: Tensors
    about: About
    use: Callable[[Path], None]


# Files: taken apart and put together by hand, as the library would refuse to write some of them.


def apart(path: Path) -> tuple[Tensors, About]:
    """The arrays and the JSON of a file, without its digest."""
    data = path.read_bytes()
    size = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:size])
    about = json.loads(header.pop("__metadata__")["chainfold"])
    del about["digest"]
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        kind = entry["dtype"]
        dtype = np.dtype("bool") if kind == "BOOL" else np.dtype(f"<{kind[0].lower()}{int(kind[1:]) // 8}")
        tensors[name] = np.frombuffer(data[size + begin : size + end], dtype).reshape(entry["shape"]).copy()
    return tensors, about


def sealed(tensors: Tensors, about: Any, lie: Callable[[dict[str, Any]], None] = lambda header: None) -> bytes:
    """A file with a digest that fits; `lie` may change its header."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode() + array.tobytes())
    if isinstance(about, dict):
        about = {**about, "digest": digest.hexdigest()}
    header: dict[str, Any] = {"__metadata__": {"chainfold": json.dumps(about, sort_keys=True)}}
    end = 0
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        kind = "BOOL" if array.dtype == bool else f"{array.dtype.kind.upper()}{8 * array.itemsize}"
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [begin, end]}
    lie(header)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(array.tobytes() for _, array in ordered)


# Changes by name, for tables of what must be refused

Change = Callable[[Tensors, About], None]


def put(name: str, value: Any, at: int | tuple[int, ...] = 0) -> Change:
    """Another number in an array."""

    def change(tensors: Tensors, about: About) -> None:
        array = tensors[name] = tensors[name].copy()
        array[at if array.ndim else ()] = value

    return change


def make(name: str, of: Callable[[Any], Any]) -> Change:
    """Another array, or none."""

    def change(tensors: Tensors, about: About) -> None:
        found = of(tensors.pop(name))
        if found is not None:
            tensors[name] = found

    return change


def say(value: Any, *path: Any) -> Change:
    """Another value in the JSON."""

    def change(tensors: Tensors, about: About) -> None:
        owner: Any = about
        for key in path[:-1]:
            owner = owner[key]
        owner[path[-1]] = value

    return change


def more(tensors: Tensors, about: About) -> None:
    """An array that nobody knows."""
    tensors["more"] = np.zeros(1)


def none(array: Any) -> None:
    """Nothing in its place."""


# Changes at random

INTEGERS = [0, 1, -1, 2, 3, 5, 7, 64, 255, 256, 4096, 2**30, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-300, 5e-324, 1e10, 1e155, 1e300, 1.7e308, -1e308),
    *(math.nan, math.inf, -math.inf, 2.0**53, 2.0**63, -3.0),
]
DTYPES = ["<f8", "<f4", "<i8", "<i4", "<i2", "<u1", "<u2", "<u8", "bool"]
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 3, 24, 1.0, 0.5, -0.5, math.nan, math.inf, -math.inf, 1e300, 2**31, 2**63, 10**30),
    *("", "a", "O", "7", "\ud800", "\x1b[2J\n", "ä" * 50, [], {}, [0], [[]], ["a"], ["a", "a"], {"a": 1}, [None] * 4),
]


def extreme(dice: random.Random, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return dice.random() < 0.5
    if dtype.kind == "f":
        return dice.choice(FLOATS)
    info = np.iinfo(dtype)
    return min(max(dice.choice(INTEGERS), info.min), info.max)


def element(dice: random.Random, tensors: Tensors, about: About) -> None:
    names = [name for name, array in tensors.items() if array.size]
    if names:
        name = dice.choice(names)
        array = tensors[name] = tensors[name].copy()
        flat = array.reshape(-1)
        for _ in range(dice.choice([1, 1, 1, 2, 5])):
            flat[dice.randrange(flat.size)] = extreme(dice, array.dtype)


def nearby(dice: random.Random, tensors: Tensors, about: About) -> None:
    """A whole number a little larger or smaller, a real one by a factor."""
    names = [name for name, array in tensors.items() if array.size and array.dtype != bool]
    if names:
        name = dice.choice(names)
        array = tensors[name] = tensors[name].copy()
        flat, at = array.reshape(-1), dice.randrange(array.size)
        if array.dtype.kind == "f":
            flat[at] = flat[at] * dice.choice([0.5, 2.0, -1.0, 1e9, 1e-9]) + dice.choice([0.0, 1.0, -1.0])
        else:
            flat[at] += np.array(dice.choice([1, -1, 2, -2, 3])).astype(array.dtype)


def filled(dice: random.Random, tensors: Tensors, about: About) -> None:
    if tensors:
        name = dice.choice(list(tensors))
        array = tensors[name]
        tensors[name] = np.full(array.shape, extreme(dice, array.dtype), array.dtype)


def shaped(dice: random.Random, tensors: Tensors, about: About) -> None:
    """Another shape, or other rows."""
    if not tensors:
        return
    name = dice.choice(list(tensors))
    array = tensors[name]
    how = dice.randrange(8)
    if how == 0:
        array = array.reshape(-1)
    elif how == 1:
        array = array[None]
    elif how == 2:
        array = array.T
    elif how == 3 and array.ndim:
        array = array[: dice.randrange(len(array) + 1)]
    elif how == 4 and array.ndim:
        array = np.concatenate([array, array])
    elif how == 5 and array.ndim:
        array = array[:0]
    elif how == 6 and array.ndim:
        array = np.concatenate([array, array[-1:]])
    elif how == 7 and array.size == 1:
        array = array.reshape(() if array.ndim else (1,))
    tensors[name] = np.ascontiguousarray(array).reshape(array.shape)


def shuffled(dice: random.Random, tensors: Tensors, about: About) -> None:
    names = [name for name, array in tensors.items() if array.ndim and array.size > 1]
    if names:
        name = dice.choice(names)
        order = list(range(len(tensors[name])))
        dice.shuffle(order)
        tensors[name] = tensors[name][order]


def retyped(dice: random.Random, tensors: Tensors, about: About) -> None:
    if tensors:
        name = dice.choice(list(tensors))
        tensors[name] = tensors[name].astype(dice.choice(DTYPES))


def renamed(dice: random.Random, tensors: Tensors, about: About) -> None:
    """Dropped, renamed, doubled or in the place of another."""
    if not tensors:
        return
    name, other = dice.choice(list(tensors)), dice.choice(list(tensors))
    how = dice.randrange(4)
    if how == 0:
        del tensors[name]
    elif how == 1:
        tensors[dice.choice([name + "x", "", name + ".at", "thin", name.rpartition(".")[2]])] = tensors.pop(name)
    elif how == 2:
        tensors[name], tensors[other] = tensors[other], tensors[name]
    else:
        tensors[dice.choice([other, name + ".number", "x\x1b[2J", "ü"])] = tensors[name].copy()


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places in JSON."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in places(one, (*path, key)))]


def change_json(dice: random.Random, value: Any) -> Any:
    """Another value at one place, or one less, or one more."""
    copy = json.loads(json.dumps(value))
    path = dice.choice(places(copy)[1:] or [()])
    if not path:
        return dice.choice(VALUES)
    owner = copy
    for key in path[:-1]:
        owner = owner[key]
    how, key = dice.randrange(6), path[-1]
    if how == 0:
        del owner[key]
    elif how == 1 and isinstance(owner, dict):
        owner["more"] = dice.choice(VALUES)
    elif how == 1:
        owner.append(dice.choice(VALUES))
    elif how == 2 and type(owner[key]) in (int, float):
        owner[key] += dice.choice([1, -1, 0.5, 2**31])
    elif how == 3 and type(owner[key]) is str and owner[key][:1] in ("{", "["):
        owner[key] = json.dumps(change_json(dice, json.loads(owner[key])))
    else:
        owner[key] = dice.choice(VALUES)
    return copy


def json_value(dice: random.Random, tensors: Tensors, about: About) -> None:
    changed = change_json(dice, about)
    if isinstance(changed, dict):
        about.clear()
        about.update(changed)


def json_inside(dice: random.Random, tensors: Tensors, about: About) -> None:
    """JSON that an array has as bytes."""
    names = [name for name in tensors if name.endswith("texts") and tensors[name].dtype == np.uint8]
    for name in names:
        try:
            changed = change_json(dice, json.loads(tensors[name].tobytes()))
        except ValueError:
            return
        tensors[name] = np.frombuffer(json.dumps(changed).encode(), np.uint8).copy()


CHANGES = [
    *(element, element, element, nearby, nearby, nearby, filled, shaped, shaped, shuffled, retyped, renamed, renamed),
    *(json_value, json_value, json_inside, json_inside),
]


def lying(dice: random.Random) -> Callable[[dict[str, Any]], None]:
    """A header that says what is not so."""

    def lie(header: dict[str, Any]) -> None:
        changed = change_json(dice, {name: entry for name, entry in header.items() if name != "__metadata__"})
        kept = header["__metadata__"] if dice.random() < 0.9 else dice.choice(VALUES)
        header.clear()
        header.update({"__metadata__": kept, **(changed if isinstance(changed, dict) else {})})
        if len(header) > 1 and dice.random() < 0.5:
            entry = header[dice.choice([name for name in header if name != "__metadata__"])]
            if isinstance(entry, dict):
                entry["shape"] = dice.choice([[2**40], [2**62], [2**31, 2**31, 4], [0, 2**62], [1] * 65, [-1], [2**64]])

    return lie


def forged(dice: random.Random, valid: Valid) -> bytes:
    """A file that is not quite the valid one."""
    tensors, about = dict(valid.tensors), json.loads(json.dumps(valid.about))
    kind = dice.random()
    if kind < 0.04:
        return sealed(tensors, about, lying(dice))
    if kind < 0.05:
        return sealed(tensors, dice.choice(VALUES))
    if kind < 0.08:
        data = bytearray(sealed(tensors, about))
        for _ in range(dice.choice([1, 1, 4, 50])):
            data[dice.randrange(dice.choice([8, 300, len(data)]))] = dice.randrange(256)
        return bytes(data)
    if kind < 0.09:
        whole = sealed(tensors, about)
        return whole[: dice.randrange(len(whole))] + b"x" * dice.choice([0, 0, 9])
    with np.errstate(all="ignore"):
        for _ in range(dice.choice([1, 1, 1, 1, 2, 3])):
            dice.choice(CHANGES)(dice, tensors, about)
    return sealed(tensors, about)


def target(make: Callable[[], list[Valid]]) -> Callable[[random.Random, Path], None]:
    """Forge one of the files, open it and use it."""

    def run(dice: random.Random, folder: Path) -> None:
        valid = dice.choice(make())
        path = folder / "model.run"
        path.write_bytes(forged(dice, valid))
        valid.use(path)

    return run


# Valid files of each kind


def chain_of(seed: int, positions: int, edges: bool, values: bool, weights: bool = False) -> Chain:
    """Three labels, eleven attributes; starts here and there."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, positions))])
    edge_offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 3, positions))])
    starts = rng.random(positions) < 0.1
    return Chain.from_arrays(
        offsets=offsets,
        ids=rng.integers(0, 11, offsets[-1]),
        values=rng.normal(size=offsets[-1]) if values else None,
        labels=rng.integers(0, 3, positions),
        starts=starts,
        edge_offsets=edge_offsets if edges else None,
        edge_ids=rng.integers(0, 4, edge_offsets[-1]) if edges else None,
        weights=rng.random(positions + 1)[np.cumsum(starts)] if weights else None,
        n_labels=3,
        n_attributes=11,
        n_edge_attributes=4 if edges else None,
    )


def model_of(seed: int, edges: bool, wide: bool = False, masked: bool = False) -> Model:
    """With weights so large that only wide numbers hold their products, or labels that may not begin or end."""
    layout = Layout.full(3, 11, 4 if edges else 0)
    weights = np.random.default_rng(seed).normal(size=layout.size) * (400.0 if wide else 1.0)
    mask = np.array([True, True, False]) if masked else None
    if masked:
        weights[layout.n_state + 1] = -np.inf  # from label 0 to label 1
    return Model(layout, weights, first=mask, last=mask)


def _kept(save: Callable[[Path], Any], use: Callable[[Path], None]) -> Valid:
    """What a file has that was saved, and that can be used as it is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.run"
        save(path)
        valid = Valid(*apart(path), use)
        path.write_bytes(sealed(valid.tensors, valid.about))
        use(path)
    return valid


@cache
def named() -> tuple[Model, list[Any]]:
    """A model of columns whose template looks both ways, and rows for it."""
    rng = random.Random(5)
    rows = [(rng.choice("abcdefg"), rng.choice(["1.5", "2", "-7"]), rng.choice("XYZ")) for _ in range(120)]
    with tempfile.TemporaryDirectory() as folder:
        text = "".join("\t".join(row) + ("\n\n" if k % 9 == 8 else "\n") for k, row in enumerate(rows))
        (Path(folder) / "train.txt").write_text(text)
        options: Any = {"columns": ["word", "size", "tag"], "attributes": "word[-2] word word[1]|word size[1]"}
        chain = encode(Path(folder) / "train.txt", Path(folder) / "train.chain", **options)
        model = train(chain, Training("lbfgs", {"max_iterations": 5}))
    return model, [{"word": word, "size": size} for word, size, _ in rows]


@cache
def items() -> tuple[Model, list[Any]]:
    """A model of items, as sequences have them."""
    rng = random.Random(6)
    rows = [[{rng.choice("abc"): rng.random(), "w": rng.choice("xyz")} for _ in range(8)] for _ in range(12)]
    labels = [[rng.choice("PQ") for _ in row] for row in rows]
    return train(chain_from_sequences(rows, labels), Training("lbfgs", {"max_iterations": 5})), rows[0] + rows[1]


@cache
def streams() -> list[Valid]:
    found = []
    wants: list[dict[str, Any]] = [
        {},
        {"marginals": True},
        {"quantities": True},
        {"marginals": True, "quantities": True, "max_lag": 7},
        {"marginals": True, "memory": 4000, "tolerance": 1e-13},
        {"max_lag": 3},
    ]
    for number, (want, edges, wide) in enumerate(product(wants, (False, True), (False, True))):
        model = model_of(number, edges, wide, masked=number % 5 == 0)
        chain = chain_of(number, 60, edges, number % 2 == 0)
        chain = replace(chain, starts=np.arange(60) == 0)
        tagger = StreamTagger(model, **want)
        tagger.push(chain.block(0, 40))
        found.append(_kept(tagger.save, _use_stream(model, [chain.block(40, 60), chain.block(0, 1)])))
    for model, rows in (named(), items()):
        for want in wants:
            tagger = StreamTagger(model, **want)
            for low in (0, 3, 5, 6):
                tagger.push(rows[low : low + 3])
            found.append(_kept(tagger.save, _use_stream(model, [rows[9:12], rows[12:14]])))
    return found


def _use_stream(model: Model, rows: list[Any]) -> Callable[[Path], None]:
    def use(path: Path) -> None:
        tagger = StreamTagger.load(path, model)
        tagger.push(rows[0])
        tagger.save(path)
        again = StreamTagger.load(path, model)
        for one in (again, tagger):
            if one._settings["quantities"]:
                one.quantities()
            list(one.push(rows[1], end=True))
            list(one.flush())

    return use


ALGORITHMS: list[tuple[str, dict[str, Any]]] = [
    ("lbfgs", {"num_memories": 3}),
    ("lbfgs", {"c1": 0.1}),
    ("sgd", {"batch": 8}),
    ("adagrad", {"batch": 8}),
    ("adam", {"batch": 8}),
    ("ap", {}),
    ("pa", {}),
    ("arow", {}),
]


@cache
def runs() -> list[Valid]:
    return [_run(*one, dev) for one in ALGORITHMS for dev in (False, True)]


def _run(algorithm: str, options: dict[str, Any], dev: bool) -> Valid:
    training = Training(algorithm, {**options, "max_iterations": 6}, patience=2)
    chain = chain_of(3, 40, edges=False, values=True)
    space = WeightSpace.of(chain, passes=LocalPasses(chain, engine="fb"))
    development = Development.of(chain_of(4, 20, edges=False, values=True), chain) if dev else None
    how: dict[str, Any] = {"engine": "fb", "memory": None}
    identity = _identity(space, training, development, None, how)

    def begun() -> _Run:
        return _Run(space, training, training.optimiser(space, np.zeros(space.layout.size)), development, identity)

    def work(run: _Run, path: Path, pieces: int) -> None:
        left = [None] * pieces
        saving = Saving(path, SaveInterval(iterations=10**6))
        run.work(saving, lambda progress: None, lambda: not (left.pop() or left))

    def save(path: Path) -> None:
        run = begun()
        run.begin(np.zeros(space.layout.size))
        with suppress(Interrupted):
            work(run, path, 3)

    def use(path: Path) -> None:
        run = begun()
        run.load(path)
        run.result()
        try:
            work(run, path, 3)
        except Interrupted:
            begun().load(path)
        run.result()

    return _kept(save, use)


@cache
def online() -> list[Valid]:
    found = []
    for number, settings in enumerate([OnlineSettings(batch=8), OnlineSettings(batch=5, forget=100.0, c2=10.0)]):
        found += [_online(number, settings, rows) for rows in (0, 3, 40)]
    return found


def _online(number: int, settings: OnlineSettings, rows: int) -> Valid:
    rng = random.Random(number)
    items = [[{rng.choice("abcdef"), rng.choice("uvw")} for _ in range(6)] for _ in range(12)]
    labels = [[rng.choice("PQR") for _ in row] for row in items]
    chain = chain_from_sequences(items, labels, hash_bits=5)
    vocabulary = chain.vocabulary
    assert vocabulary is not None

    def take(run: OnlineRun, block: Block) -> None:
        assert run.trainer is not None
        run.trainer.add(block)
        run._train(run.trainer)

    def save(path: Path) -> None:
        run = OnlineRun(path.with_suffix(""), settings)
        run.vocabulary, run.trainer = replace(vocabulary, min_count=1), OnlineTrainer(32, settings)
        run._again = True
        if rows:
            take(run, chain.block(0, rows))
        run._save(run.trainer)

    def use(path: Path) -> None:
        run = OnlineRun(path.with_suffix(""), settings)
        run.restore()
        assert run.trainer is not None
        run.trainer.check(chain.block(40, 72))
        if run.trainer.weights.size == 32:
            take(run, chain.block(40, 60))
            run._save(run.trainer)
            OnlineRun(path.with_suffix(""), settings).restore()
            run._add_labels(list(vocabulary.labels))
            run.trainer.add(chain.block(60, 72))
        for batch in run.trainer.learn(ended=True):
            run.prequential.add(batch)
        assert run.vocabulary is not None
        if run.trainer.positions:
            run.trainer.model(run.vocabulary)
        run.prequential.close()

    return _kept(save, use)


@cache
def models() -> list[Valid]:
    found = []
    for number, edges in enumerate((False, True, False)):
        model = model_of(number, edges, masked=number == 2)
        block = chain_of(number, 10, edges, values=True).block(0, 10)
        found.append(_kept(_saver(model), _use_model(block)))
    for model, rows in (named(), items()):
        found.append(_kept(_saver(model), _use_model(rows[:5])))
    rng = random.Random(8)
    hashed = [[{rng.choice("abc"), rng.choice("xyz")} for _ in range(8)] for _ in range(6)]
    labels = [[rng.choice("PQ") for _ in row] for row in hashed]
    model = train(chain_from_sequences(hashed, labels, hash_bits=4), Training("ap", {"max_iterations": 2}))
    found.append(_kept(_saver(model), _use_model(hashed[0])))
    return found


def _saver(model: Model) -> Callable[[Path], None]:
    return lambda path: save_model(path, model)


def _use_model(rows: Any) -> Callable[[Path], None]:
    def use(path: Path) -> None:
        model = open_model(path)
        tagger = StreamTagger(model, marginals=True)
        list(tagger.push(rows))
        list(tagger.flush())
        save_model(path, model)

    return use


TARGETS = {
    "saved stream": target(streams),
    "training run": target(runs),
    "online state": target(online),
    "model": target(models),
}
