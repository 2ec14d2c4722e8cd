"""The data of the experiments: a log of network connections as stored chains, and a model trained on each.

The log is KDD Cup 1999 where there is one, or else invented (`examples.network_log`). It is encoded once for a few
attributes and once for many, under its own labels, and then relabelled: normal against attack, or five classes. Where
an experiment needs more positions than the log has, it is concatenated with itself as one sequence. KDD's 10 % file is
first brought to the length of the full one, by the surrogate: most rows of it were left out of a few kinds of
connections, so each row of these is there ten times in place.

A file is made when it is missing. Its name says what it was made of, so that no other data or plan ever meets it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import chainfold
from chainfold.chain.batches import StoredChain
from chainfold.chain.block import Block, frozen, join_blocks, vocabulary_of
from chainfold.chain.stored import write_chain
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadFile, BadSetting
from chainfold.features.encode import encode
from chainfold.inference.tagger import blocks_of
from chainfold.inference.whole_chain import tag
from chainfold.model.file import open_model, save_model
from chainfold.system.machine import cores
from chainfold.training.loop import Training, train
from examples import network_log
from experiments.ledger import Result
from experiments.paper.run_plan import MAIN, SETTINGS, RunPlan
from experiments.runner import RunPiece

NORMAL, ATTACK = "normal", "attack"

KDD_FILES = ("kddcup.data.gz", "kddcup.data", "kddcup.data_10_percent.gz", "kddcup.data_10_percent")
KDD_FOLDER = "kddcup99"
KDD_COLUMNS = (
    "duration protocol_type service flag src_bytes dst_bytes land wrong_fragment urgent hot num_failed_logins "
    "logged_in num_compromised root_shell su_attempted num_root num_file_creations num_shells num_access_files "
    "num_outbound_cmds is_host_login is_guest_login count srv_count serror_rate srv_serror_rate rerror_rate "
    "srv_rerror_rate same_srv_rate diff_srv_rate srv_diff_host_rate dst_host_count dst_host_srv_count "
    "dst_host_same_srv_rate dst_host_diff_srv_rate dst_host_same_src_port_rate dst_host_srv_diff_host_rate "
    "dst_host_serror_rate dst_host_srv_serror_rate dst_host_rerror_rate dst_host_srv_rerror_rate"
)
KDD_CLASSES = {
    NORMAL: (NORMAL,),
    "dos": ("back", "land", "neptune", "pod", "smurf", "teardrop"),
    "probe": ("ipsweep", "nmap", "portsweep", "satan"),
    "r2l": ("ftp_write", "guess_passwd", "imap", "multihop", "phf", "spy", "warezclient", "warezmaster"),
    "u2r": ("buffer_overflow", "loadmodule", "perl", "rootkit"),
}
REPEATED = ("smurf", "neptune", NORMAL, "satan", "ipsweep", "portsweep", "nmap")  # in the surrogate
REPEATS = 10

_FULL = 1_000_000  # a KDD file with more rows is the full one
_BORDER = "crfpp"  # of expressions: without attributes of their own for the ends of a sequence
_AT_ONCE = 1 << 20  # bytes or positions that are looked at
_MARGIN = 1.02  # of the space on disk


class Corpus:
    """The chains and models of all settings, in a folder; `data` is a KDD file or a folder with one, None: invent."""

    def __init__(self, plan: RunPlan, folder: Path, data: Path | None) -> None:
        self._plan = plan
        self._log: _Log = _Invented(plan.rows) if data is None else _Kdd(_kdd_file(data))
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadFile(folder, f"cannot be made: {error.strerror or error}; name another folder.") from None

    @property
    def identity(self) -> list[Any]:
        """All that decides what the data are."""
        return self._log.identity

    def pieces(self) -> list[RunPiece]:
        """One for each setting of the plan, which makes its chains and its model and says what they are."""
        return [
            RunPiece(
                f"corpus/{setting}",
                f"chains and model: {SETTINGS[setting].title}",
                self._seconds(setting),
                partial(self._entry, setting),
            )
            for setting in self._plan.lengths
        ]

    def about(self) -> Result:
        """What the log is."""
        rows, surrogate = self._rows, int(self._repeats.sum()) if self._has_surrogate else None
        return {
            "kind": self._log.kind(rows),
            "title": self._log.title(rows, surrogate),
            "file": None if self._log.file is None else self._log.file.name,
            "rows": rows,
            "surrogate": surrogate,
        }

    def chain(self, setting: str, positions: int) -> Path:
        """A stored chain with at least so many positions, of which the first are meant."""
        if positions <= self._rows:
            return self._base(setting)
        longest = self._longest(setting)
        if positions > longest:
            raise BadSetting("positions", positions, f"at most {max(longest, self._rows)} in setting {setting}")
        return self._concatenated(setting, longest)

    def model(self, setting: str) -> Path:
        """The model that was trained on the log itself."""
        iterations = 15 if self._plan.quick else 30
        path = self._path(f"{setting}-{iterations}.model")
        if not path.exists():
            how = Training(options={"max_iterations": iterations})
            save_model(path, train(StoredChain(self._base(setting)), how, engine="parallel", threads=cores()))
        return path

    def _entry(self, setting: str, done: Mapping[str, Result]) -> Result:
        """Make everything of a setting; what it is."""
        longest = self._longest(setting)
        self.chain(setting, longest)
        chain, model = StoredChain(self._base(setting)), open_model(self.model(setting))
        labels = np.concatenate([block.labels for block in blocks_of(chain, _AT_ONCE)])
        vocabulary = _vocabulary(chain)
        return {
            "title": SETTINGS[setting].title,
            "n_labels": chain.n_labels,
            "labels": list(vocabulary.labels),
            "attributes": chain.n_attributes,
            "described": self._log.described(SETTINGS[setting].many),
            "active": chain.active,
            "weights": model.layout.size,
            "longest": longest,
            "bytes_a_position": round(sum(b.nbytes for b in blocks_of(chain, chain.batch)) / chain.positions, 2),
            "training": {
                "iterations": model.training["iterations"],
                "objective": model.training["objective"][-1],
                "accuracy": float(np.mean(tag(model, chain) == labels)),
            },
        }

    def _longest(self, setting: str) -> int:
        """The longest chain that the plan asks for."""
        lengths = self._plan.lengths.get(setting, ())
        limited = self._plan.limited.values() if setting == MAIN else ()
        return max(max(some, default=0) for some in (lengths, *limited))

    def _seconds(self, setting: str) -> float:
        rows, longest = self._log.about_rows, self._longest(setting)
        a_row = (3e-5 if SETTINGS[setting].many else 1e-5) * (0.6 if self._plan.quick else 1.0)
        return 3.0 + a_row * rows + (1e-6 * longest if longest > rows else 0.0)

    # Files

    @cached_property
    def _stem(self) -> str:
        """The beginning of all names: which log it is, and a digest of all that is made of it."""
        state = hashlib.sha256(json.dumps([chainfold.__version__, *self._log.identity]).encode())
        return f"{self._log.name}-{state.hexdigest()[:12]}"

    def _path(self, name: str) -> Path:
        return self._folder / f"{self._stem}-{name}"

    def _encoded(self, many: bool) -> StoredChain:
        """The log under its own labels."""
        path = self._path(f"{'many' if many else 'few'}.chain")
        if not path.exists():
            self._log.encode(path, many)
        return StoredChain(path)

    def _base(self, setting: str) -> Path:
        """The log under the labels of a setting."""
        if setting not in SETTINGS:
            raise BadSetting("setting", setting, f"one of {', '.join(SETTINGS)}")
        path = self._path(f"{setting}.chain")
        if not path.exists():
            encoded = self._encoded(SETTINGS[setting].many)
            classes = [self._log.class_of(label) for label in _vocabulary(encoded).labels]
            if not encoded.labelled:
                raise BadFile(self._log.file, "has rows without a label; give each row its label.")
            names = self._log.classes
            if SETTINGS[setting].n_labels == 2:
                names, classes = (NORMAL, ATTACK), [NORMAL if name == NORMAL else ATTACK for name in classes]
            self._write(path, Relabelled(encoded, names, [names.index(name) for name in classes]), encoded)
        return path

    def _concatenated(self, setting: str, positions: int) -> Path:
        """The log again and again, the surrogate where there is one."""
        path = self._path(f"{setting}-{positions}.chain")
        if not path.exists():
            base = StoredChain(self._base(setting))
            self._write(path, Concatenated(base, self._repeats, positions), base)
        return path

    def _write(self, path: Path, source: Relabelled | Concatenated, like: StoredChain) -> None:
        """Store a chain whose positions take as much as those of another, if there is room for it."""
        needed = _MARGIN * Path(like.path).stat().st_size / like.positions * source.positions
        free = shutil.disk_usage(self._folder).free
        if needed > free:
            raise BadFile(
                self._folder,
                f"a chain of {source.positions:,} positions takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are "
                f"free; give a smaller --max-length, or another --out.",
            )
        write_chain(path, source)

    # Rows

    @cached_property
    def _rows(self) -> int:
        return self._encoded(SETTINGS[MAIN].many).positions

    @cached_property
    def _repeats(self) -> NDArray[np.int64]:
        """How often each row of the log is there, before it is concatenated."""
        if not self._has_surrogate:
            return np.ones(self._rows, np.int64)
        encoded = self._encoded(SETTINGS[MAIN].many)
        names = [_plain(label) for label in _vocabulary(encoded).labels]
        times = np.array([REPEATS if name in REPEATED else 1 for name in names])
        return np.concatenate([times[block.labels] for block in blocks_of(encoded, _AT_ONCE)])

    @property
    def _has_surrogate(self) -> bool:
        return self._log.kind(self._rows) == "kdd"


class Relabelled:
    """A stored chain under other labels: `numbers` has the new number of each old one."""

    def __init__(self, base: StoredChain, names: tuple[str, ...], numbers: list[int]) -> None:
        self._base, self._numbers = base, np.array(numbers, np.int32)
        self.positions, self.active, self.labelled = base.positions, base.active, base.labelled
        self.n_labels, self.n_attributes, self.n_edge_attributes = len(names), base.n_attributes, 0
        self.sequences, self.valued = base.sequences, base.valued
        self.vocabulary = _relabelled(_vocabulary(base), names, self._numbers)

    def block(self, low: int, high: int) -> Block:
        block = self._base.block(low, high)
        return block._replace(labels=frozen(self._numbers[block.labels], np.int32))


class Concatenated:
    """A stored chain of one sequence, each position `repeats` times in place, again and again as one sequence.

    Its vocabulary, and so its numbers, are those of the chain. There are no edge attributes and no weights.
    """

    def __init__(self, base: StoredChain, repeats: NDArray[np.int64], positions: int) -> None:
        self._base, self._ends = base, np.cumsum(repeats)
        self.positions, self.active, self.labelled = positions, base.active, base.labelled
        self.n_labels, self.n_attributes, self.n_edge_attributes = base.n_labels, base.n_attributes, 0
        self.vocabulary = _vocabulary(base)

    def block(self, low: int, high: int) -> Block:
        parts = [_taken(self._base, rows) for rows in self._rows(low, high)]
        block = parts[0] if len(parts) == 1 else join_blocks(parts)
        return block._replace(starts=frozen(np.arange(low, high) == 0, np.bool_))

    def _rows(self, low: int, high: int) -> Iterator[NDArray[np.int64]]:
        """The row of the base behind each position, one time round after another."""
        period = int(self._ends[-1])
        while low < high:
            begin = low % period
            end = min(begin + high - low, period)
            yield np.searchsorted(self._ends, np.arange(begin, end), side="right")
            low += end - begin


def _taken(base: StoredChain, rows: NDArray[np.int64]) -> Block:
    """Positions of a chain, ascending, some of them more than once."""
    first = int(rows[0])
    block = base.block(first, int(rows[-1]) + 1)
    rows = rows - first
    begins = block.offsets[rows]
    counts = block.offsets[rows + 1] - begins
    offsets = np.concatenate([[0], np.cumsum(counts)])
    entries = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], counts)
    return block._replace(
        labels=frozen(block.labels[rows], np.int32),
        starts=frozen(block.starts[rows], np.bool_),
        offsets=frozen(offsets, np.int64),
        ids=frozen(block.ids[entries], np.int32),
        values=frozen(block.values[entries], np.float64) if block.values.size else block.values,
    )


def _relabelled(vocabulary: Vocabulary, names: tuple[str, ...], numbers: NDArray[np.int32]) -> Vocabulary:
    offsets, labels = vocabulary.pairs()
    marks = np.zeros((vocabulary.counts.size, 1), np.uint64)
    attributes = np.repeat(np.arange(vocabulary.counts.size), np.diff(offsets))
    np.bitwise_or.at(marks[:, 0], attributes, np.uint64(1) << numbers[labels].astype(np.uint64))
    return replace(vocabulary, labels=names, marks=marks)


def _vocabulary(chain: StoredChain) -> Vocabulary:
    vocabulary = vocabulary_of(chain)
    assert vocabulary is not None, "what was encoded has one"
    return vocabulary


def _plain(label: str) -> str:
    """A label of KDD without its full stop."""
    return label.removesuffix(".")


# Logs


class _Log(ABC):
    """A log of network connections, and what to make of its columns."""

    file: Path | None
    name: str  # in names of files
    classes: tuple[str, ...]  # the five labels
    about_rows: int

    @property
    @abstractmethod
    def identity(self) -> list[Any]:
        """All that decides what is made of it."""

    @abstractmethod
    def kind(self, rows: int) -> str: ...
    @abstractmethod
    def title(self, rows: int, surrogate: int | None) -> str: ...
    @abstractmethod
    def described(self, many: bool) -> str: ...
    @abstractmethod
    def encode(self, path: Path, many: bool) -> None: ...
    @abstractmethod
    def class_of(self, label: str) -> str: ...


class _Kdd(_Log):
    """KDD Cup 1999: 41 columns and a label that ends with a full stop."""

    file: Path
    classes = tuple(KDD_CLASSES)
    _few = (
        "scale(count,-1,512) scale(logged_in,-0.1,1) scale(serror_rate,-0.1,1) scale(same_srv_rate,-0.1,1) "
        "scale(dst_host_srv_count,-1,256)"
    )

    def __init__(self, file: Path) -> None:
        self.file = file
        self._size = _size_of(file)
        self.name = f"{file.name[:60]}-{self._size}"
        self.about_rows = self._size // (4 if file.suffix == ".gz" else 150)

    @property
    def identity(self) -> list[Any]:
        return [self.name, _checksum(self.file), self._few, KDD_COLUMNS, KDD_CLASSES, REPEATED, REPEATS]

    def kind(self, rows: int) -> str:
        return "kdd-full" if rows > _FULL else "kdd"

    def title(self, rows: int, surrogate: int | None) -> str:
        title = f"KDD Cup 1999, {self.file.name}: {rows:,} network connections as one sequence"
        if surrogate is None:
            return f"{title}, concatenated with itself where more are needed."
        return (
            f"{title}; where more are needed, a surrogate of the full file with {surrogate:,} positions, in which each "
            f"row of {', '.join(REPEATED[:-1])} and {REPEATED[-1]} is there {REPEATS} times in place, concatenated "
            f"with itself."
        )

    def described(self, many: bool) -> str:
        if many:
            return "all 41 columns: words as they are, numbers in up to 16 bins of about equal counts"
        return (
            "five columns as positive real values that every position has: (count + 1) / 512, logged_in + 0.1, "
            "serror_rate + 0.1, same_srv_rate + 0.1, (dst_host_srv_count + 1) / 256"
        )

    def encode(self, path: Path, many: bool) -> None:
        encode(
            self.file,
            path,
            format="csv",
            header=False,
            columns=[*KDD_COLUMNS.split(), "label"],
            symbols=("protocol_type", "service", "flag"),
            label="label",
            one_sequence=True,
            attributes=None if many else self._few,
            border=None if many else _BORDER,
        )

    def class_of(self, label: str) -> str:
        for name, labels in KDD_CLASSES.items():
            if _plain(label) in labels:
                return name
        raise BadFile(
            self.file,
            f"has the label {label!r}, which is neither normal nor one of the 22 attacks of KDD's training data; give "
            f"{' or '.join(KDD_FILES[::2])}.",
        )


class _Invented(_Log):
    """The log of `examples/network_log.py`."""

    file = None
    classes = network_log.LABELS
    _few = (
        "scale(log_gap,-0.1,1) scale(log_sent,-1,10) scale(log_received,-1,10) scale(recent,-1,10) scale(errors,-0.1,1)"
    )

    def __init__(self, rows: int) -> None:
        self.name, self.about_rows = f"invented-{rows}", rows

    @property
    def identity(self) -> list[Any]:
        return [self.name, self._few, network_log.ATTRIBUTES]

    def kind(self, rows: int) -> str:
        return "synthetic"

    def title(self, rows: int, surrogate: int | None) -> str:
        return (
            f"An invented log of {rows:,} network connections as one sequence, concatenated with itself where more are "
            f"needed."
        )

    def described(self, many: bool) -> str:
        if many:
            return f"words and bins of numbers: {network_log.ATTRIBUTES}"
        return (
            "five columns as positive real values that every position has: ln(1 + gap) + 0.1, (ln(1 + sent) + 1) / 10, "
            "(ln(1 + received) + 1) / 10, (recent + 1) / 10, errors + 0.1"
        )

    def encode(self, path: Path, many: bool) -> None:
        table = pa.Table.from_batches(network_log.log_batches(self.about_rows))
        if not many:
            for name in ("gap", "sent", "received"):
                table = table.append_column(f"log_{name}", pa.array(np.log1p(table.column(name).to_numpy())))
        attributes = network_log.ATTRIBUTES if many else self._few
        encode(table, path, label="label", one_sequence=True, attributes=attributes, border=_BORDER)

    def class_of(self, label: str) -> str:
        return label


def _kdd_file(data: Path) -> Path:
    """The KDD file that is meant: the full one of a folder before the 10 % one."""
    if not data.exists():
        raise BadFile(data, "there is no such file or folder.")
    if not data.is_dir():
        return data
    for folder in (data, data / KDD_FOLDER):
        for name in KDD_FILES:
            if (folder / name).is_file():
                return folder / name
    raise BadFile(data, f"has none of {', '.join(KDD_FILES)}, nor has {KDD_FOLDER} in it; name a folder that does.")


def _size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError as error:
        raise BadFile(file, f"cannot be read: {error.strerror or error}.") from None


def _checksum(file: Path) -> int:
    total = 0
    try:
        with file.open("rb") as stream:
            while part := stream.read(_AT_ONCE):
                total = zlib.crc32(part, total)
    except OSError as error:
        raise BadFile(file, f"cannot be read: {error.strerror or error}.") from None
    return total
