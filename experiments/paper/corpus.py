"""The data of the experiments: a log of network connections as stored chains, and a model trained on each.

The log is KDD Cup 1999 where there is one, or else invented (`examples.network_log`). It is encoded once for a few
attributes and once for many, under its own labels, and then relabelled: normal against attack, or five classes. Where
an experiment needs more positions than the log has, it is concatenated with itself as one sequence. KDD's 10 % file is
first brought to the length of the full one, by the surrogate: most rows of it were left out of a few kinds of
connections, so each row of these is there ten times in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.batches import StoredChain
from chainfold.chain.block import Block, frozen, join_blocks, vocabulary_of
from chainfold.chain.stored import write_chain
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadFile
from chainfold.features.encode import encode
from chainfold.inference.tagger import blocks_of
from chainfold.inference.whole_chain import tag
from chainfold.model.file import open_model, save_model
from chainfold.system.machine import cores
from chainfold.training.loop import Training, train
from examples import network_log
from experiments.ledger import Result, RunPiece
from experiments.paper.run_plan import MAIN, SETTINGS, RunPlan

NORMAL, ATTACK = "normal", "attack"

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


class Corpus:
    """Chains and models of all settings, made in a folder when they are needed; `data` is a KDD file, None: invent."""

    def __init__(self, plan: RunPlan, folder: Path, data: Path | None) -> None:
        self._plan, self._folder = plan, folder
        self._log = _Invented(plan.rows) if data is None else _Kdd(data)

    def pieces(self) -> list[RunPiece]:
        """One for each setting of the plan, which says what its chains and its model are; and one for the log."""
        made = [
            RunPiece(f"corpus/{name}", f"chains and model: {SETTINGS[name].title}", partial(self._entry, name))
            for name in self._plan.lengths
        ]
        return [*made, RunPiece("corpus", "the data", lambda done: self.about())]

    def about(self) -> Result:
        """Facts of the log."""
        rows, surrogate = self._rows, int(self._repeats.sum()) if self._has_surrogate else None
        return {"title": self._log.title(rows, surrogate), "rows": rows, "surrogate": surrogate}

    def chain(self, setting: str, positions: int) -> Path:
        """A stored chain with at least so many positions, of which the first are meant."""
        return self._base(setting) if positions <= self._rows else self._concatenated(setting)

    def model(self, setting: str) -> Path:
        """The model that was trained on the log itself."""
        path = self._folder / f"{setting}.model"
        if not path.exists():
            how = Training(options={"max_iterations": self._plan.iterations})
            save_model(path, train(StoredChain(self._base(setting)), how, engine="parallel", threads=cores()))
        return path

    def _entry(self, setting: str, done: Mapping[str, Result]) -> Result:
        """Facts of a setting."""
        chain, model = StoredChain(self._base(setting)), open_model(self.model(setting))
        labels = np.concatenate([block.labels for block in blocks_of(chain, _AT_ONCE)])
        return {
            "title": SETTINGS[setting].title,
            "n_labels": chain.n_labels,
            "attributes": chain.n_attributes,
            "described": self._log.described(SETTINGS[setting].many),
            "active": chain.active,
            "weights": model.layout.size,
            "bytes_a_position": round(sum(b.nbytes for b in blocks_of(chain, chain.batch)) / chain.positions, 2),
            "training": {
                "iterations": model.training["iterations"],
                "objective": model.training["objective"][-1],
                "accuracy": float(np.mean(tag(model, chain) == labels)),
            },
        }

    # Files

    def _encoded(self, many: bool) -> StoredChain:
        """The log under its own labels."""
        path = self._folder / f"{'many' if many else 'few'}.chain"
        if not path.exists():
            self._log.encode(path, many)
        return StoredChain(path)

    def _base(self, setting: str) -> Path:
        """The log under the labels of a setting."""
        path = self._folder / f"{setting}.chain"
        if not path.exists():
            encoded = self._encoded(SETTINGS[setting].many)
            classes = [self._log.class_of(label) for label in _vocabulary(encoded).labels]
            if not encoded.labelled:
                raise BadFile(self._log.file, "has rows without a label; give each row its label.")
            names = self._log.classes
            if SETTINGS[setting].n_labels == 2:
                names, classes = (NORMAL, ATTACK), [NORMAL if name == NORMAL else ATTACK for name in classes]
            write_chain(path, Relabelled(encoded, names, [names.index(name) for name in classes]))
        return path

    def _concatenated(self, setting: str) -> Path:
        """The log again and again, the surrogate where there is one, as long as the plan wants it."""
        path = self._folder / f"{setting}-longest.chain"
        if not path.exists():
            base = StoredChain(self._base(setting))
            write_chain(path, Concatenated(base, self._repeats, self._plan.longest(setting)))
        return path

    # Rows

    @cached_property
    def _rows(self) -> int:
        return self._encoded(SETTINGS[MAIN].many).positions

    @cached_property
    def _repeats(self) -> NDArray[np.int64]:
        """Number of times that each row of the log is there, before it is concatenated."""
        if not self._has_surrogate:
            return np.ones(self._rows, np.int64)
        encoded = self._encoded(SETTINGS[MAIN].many)
        names = [label.removesuffix(".") for label in _vocabulary(encoded).labels]
        times = np.array([REPEATS if name in REPEATED else 1 for name in names])
        return np.concatenate([times[block.labels] for block in blocks_of(encoded, _AT_ONCE)])

    @property
    def _has_surrogate(self) -> bool:
        return isinstance(self._log, _Kdd) and self._rows <= _FULL


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


# Logs


class _Kdd:
    """KDD Cup 1999: 41 columns and a label that ends with a full stop."""

    classes = tuple(KDD_CLASSES)
    _few = (
        "scale(count,-1,512) scale(logged_in,-0.1,1) scale(serror_rate,-0.1,1) scale(same_srv_rate,-0.1,1) "
        "scale(dst_host_srv_count,-1,256)"
    )

    def __init__(self, file: Path) -> None:
        self.file = file

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
            if label.removesuffix(".") in labels:
                return name
        raise BadFile(
            self.file,
            f"has the label {label!r}, which is neither normal nor one of the 22 attacks of KDD's training data; give "
            f"kddcup.data.gz or kddcup.data_10_percent.gz.",
        )


class _Invented:
    """The log of `examples/network_log.py`."""

    classes = network_log.LABELS
    file = None
    _few = (
        "scale(log_gap,-0.1,1) scale(log_sent,-1,10) scale(log_received,-1,10) scale(recent,-1,10) scale(errors,-0.1,1)"
    )

    def __init__(self, rows: int) -> None:
        self._rows = rows

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
        table = pa.Table.from_batches(network_log.log_batches(self._rows))
        if not many:
            for name in ("gap", "sent", "received"):
                table = table.append_column(f"log_{name}", pa.array(np.log1p(table.column(name).to_numpy())))
        attributes = network_log.ATTRIBUTES if many else self._few
        encode(table, path, label="label", one_sequence=True, attributes=attributes, border=_BORDER)

    def class_of(self, label: str) -> str:
        return label
