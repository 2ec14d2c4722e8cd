"""A run that learns from what arrives and survives being killed.

    MODEL           a model of all that was learnt when it was last saved, and in the end of all
    MODEL.run       the state at the last save: weights, sums, and the rows that are still needed
    MODEL.journal   the rows that a pipe has given since; files have theirs still

State and journal together give back all but the block that was being read when the run was killed. A run over files
goes on after the rows that it has, and ends with the bytes of one that was never interrupted; one over a pipe goes on
with what comes now, as a new sequence, and ends if nothing does. So rows that wait for others, since the template looks
ahead, are in the journal, and in the state, as the last of their sequence.

Whenever the run is killed, what is on disk is enough to go on:

    a new run    an old state is removed before its journal; there is no new state before there is a row to keep
    rows         are in the journal, with one record, before they are trained on; the first are in the first state
    saving       the state replaces the one before, and then the journal is cleared: rows in both are passed over
    the end      the model is stored, then the state is removed, then the journal
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from chainfold.chain.block import Block, join_blocks
from chainfold.chain.builder import MOST_HASH_BITS
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadFile, ChainfoldError
from chainfold.model.file import check_columns, check_labels, save_model
from chainfold.model.model import Model
from chainfold.readers.text import counted
from chainfold.system.archive import damage, read_sealed, write_sealed
from chainfold.system.validate import Arrays, is_count, mapping, need, spelt, under
from chainfold.training.loop import EVERY_MINUTE, SaveInterval
from chainfold.training.online.adagrad import OnlineSettings
from chainfold.training.online.arriving import Arriving
from chainfold.training.online.journal import Journal, JournalReader, Record
from chainfold.training.online.prequential import Interval, Prequential
from chainfold.training.online.row_arrays import arrays_of, block_of
from chainfold.training.online.share import NOTHING
from chainfold.training.online.trainer import BatchResult, OnlineTrainer

RUN, RUN_VERSION = "online run", 2
_MOST_JOURNAL = 256 << 20  # bytes, after which the state is saved in any case
_MEANING = ("labels", "label", "template", "columns", "hash_bits")


T = TypeVar("T")


class StopRequested(Exception):
    """Raised to stop the run while it waits for rows."""


class Stopped(ChainfoldError):
    """The run was asked to stop, and is saved."""

    def __init__(self, positions: int, waiting: int, saved: Path) -> None:
        super().__init__(
            f"stopped after {positions:,} positions; the state is saved in {saved}, with {counted(waiting, 'row')} "
            f"waiting for later rows; continue with `resume`."
        )


class OnlineRun:
    """A trainer with all that is kept of it on disk."""

    def __init__(
        self,
        output: Path,
        settings: OnlineSettings,
        *,
        every: SaveInterval = EVERY_MINUTE,
        tell: Callable[[Interval], None] = lambda interval: None,
        progress: Callable[[BatchResult], None] = lambda learnt: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._output, self._settings, self._every = output, settings, every
        self._progress, self._stop = progress, stop
        self.state_path, self.journal_path = beside(output, "run"), beside(output, "journal")
        self.trainer: OnlineTrainer | None = None
        self.vocabulary: Vocabulary | None = None
        self.prequential = Prequential(tell)
        self._again: bool | None = None  # would the rows of the run come once more? Not known before it has begun
        self._waiting = False  # for rows; nothing is lost if it is left then
        self._held = NOTHING  # rows of a pipe that wait for what follows them, as they are if nothing does
        self._journaled: JournalReader | None = None  # what a killed run has left, and its state before that
        self._restored = Record(0, [], NOTHING)
        self._saved, self._since = time.monotonic(), 0  # when the state was saved, and batches since then

    def restore(self) -> None:
        """Read the saved state and check the journal, which `run` trains on. No file is changed."""
        tensors, about = read_sealed(self.state_path, RUN, RUN_VERSION)
        with damage(self.state_path, RUN):
            mapping("parts", about, ("settings", "meaning", "again", "counts", "loss", "kind", "version"))
            settings, meaning = about["settings"], mapping("columns", about["meaning"], _MEANING)
            if settings != asdict(self._settings):
                raise BadFile(
                    self.state_path,
                    f"{_difference(settings, asdict(self._settings))}; resume with the same settings, or discard the "
                    f"run with `fresh`.",
                )
            self.vocabulary, self._again = _vocabulary(meaning, about["again"]), about["again"]
            size, names = 1 << meaning["hash_bits"], list(self.vocabulary.labels)
            given = Arrays(tensors)
            held = block_of(given.under("waiting"), size, len(names))
            self.trainer = OnlineTrainer.of_state(given.rest(), size, len(names), self._settings)
            self._restored = Record(self.trainer.rows, names, NOTHING, held)
            self.prequential.restore(about["counts"], about["loss"], self.trainer.positions)
        self._journaled = JournalReader(self.journal_path, size, names)
        for _ in self._to_replay():
            pass
        self._know(self._journaled.labels)

    @property
    def torn(self) -> int:
        """Bytes at the end of the journal that were not written whole."""
        return 0 if self._journaled is None else self._journaled.torn

    @property
    def piped(self) -> Vocabulary | None:
        """What is known of the rows of a run over a pipe that is to go on."""
        return None if self._again else self.vocabulary

    @property
    def learnt(self) -> int:
        """Positions that were trained on so far."""
        return 0 if self.trainer is None else self.trainer.positions

    def run(self, arriving: Arriving) -> Model:
        """Learn from all that arrives, and store the model."""
        trainer = self._begin(arriving)
        with Journal(self.journal_path, 0 if self._journaled is None else self._journaled.whole) as journal:
            self._saved, self._since = time.monotonic(), 0
            for record in self._to_replay():
                self._know(record.labels)
                trainer.add(record.block)
                self._learn(trainer, None)
            try:
                self._learn(trainer, journal)
                for block in self._new_blocks(arriving, trainer):
                    if arriving.again:
                        trainer.add(block)
                    else:
                        self._take(block, arriving.waiting(), trainer, journal)
                    self._learn(trainer, journal)
            except StopRequested:
                self._save(journal)
                raise self._stopped(trainer) from None
            if not trainer.rows:
                raise BadFile(self.state_path, "the run has no rows and the input is empty.")
            self._learn(trainer, journal, ended=True)
        self.prequential.close()
        model = self.model()
        save_model(self._output, model)
        self.state_path.unlink(missing_ok=True)
        self.journal_path.unlink(missing_ok=True)
        return model

    def model(self) -> Model:
        """As it is by now."""
        assert self.trainer is not None, "the run has begun"
        assert self.vocabulary is not None, "the run has begun"
        return self.trainer.model(self.vocabulary)

    def _begin(self, arriving: Arriving) -> OnlineTrainer:
        meaning = arriving.vocabulary
        assert meaning.hash_bits is not None, "attributes are hashed"
        if self.trainer is None or self.vocabulary is None:
            self.vocabulary, self._again = meaning, arriving.again
            self.trainer = OnlineTrainer(1 << meaning.hash_bits, self._settings)
            self.state_path.unlink(missing_ok=True)
            self.journal_path.unlink(missing_ok=True)
        else:
            if self._again != arriving.again:
                was, now = ("files", "a pipe") if self._again else ("a pipe", "files")
                raise BadFile(
                    self.state_path,
                    f"the run reads {was}, and cannot continue with {now}; resume with the original input, or "
                    f"discard the run with `fresh`.",
                )
            same = all(getattr(meaning, name) == getattr(self.vocabulary, name) for name in _MEANING[1:])
            if not same:
                raise BadFile(
                    self.state_path,
                    "the run has other columns or attributes; resume with the original input and options, or discard "
                    "the run with `fresh`.",
                )
        return self.trainer

    def _take(self, block: Block, held: Block, trainer: OnlineTrainer, journal: Journal) -> None:
        """Rows that do not come again, and those after them that wait for what follows."""
        trainer.check(held, after=block.labels.size)
        record = Record(trainer.rows, self._names(), block, held)
        begun = self.state_path.exists()
        if begun:
            journal.append(record)
        trainer.add(block)
        self._held = held
        if not begun and record.end:  # the first rows are in the first state: there is none without rows
            self._write_state()

    def _new_blocks(self, arriving: Arriving, trainer: OnlineTrainer) -> Iterator[Block]:
        """The blocks that were not trained on before."""
        before = trainer.rows if arriving.again else 0
        skipped = 0
        blocks = iter(arriving.blocks)
        while (block := self.wait(lambda: next(blocks, None))) is not None:
            size = block.labels.size
            low = min(size, before - skipped)
            skipped += low
            if low < size or not arriving.again:  # where none can be done as yet, some may have come
                trainer.check(block)
                self._know(arriving.labels)
                yield join_blocks([block.part(low, size)])
        if skipped < before:
            raise BadFile(
                self.state_path,
                f"the run has {before:,} rows, and the input {skipped:,}; resume with the original input, or "
                f"discard the run with `fresh`.",
            )

    def leave_if_waiting(self) -> None:
        """Raise `StopRequested` where it only waits for rows."""
        if self._waiting:
            raise StopRequested

    def wait(self, come: Callable[[], T]) -> T:
        """Whatever it takes time to get; raises `StopRequested` if the run is to stop meanwhile, or was to before."""
        self._waiting = True
        try:
            if self._stop():
                raise StopRequested
            return come()
        finally:
            self._waiting = False

    def _to_replay(self) -> Iterator[Record]:
        """Rows that a killed run has left, but for those in its state; the journal stays as it is."""
        if self._journaled is None:
            return
        state = self._restored
        rows = state.first  # that have come
        for record in self._journaled.records():
            if record.first < state.first and (record.end <= state.first or record.end == state.end):
                continue
            if rows == state.first and record.first == state.end and state.waiting.labels.size:
                yield state._replace(block=state.waiting, waiting=NOTHING)
                rows = state.end
            if record.first != rows:
                raise BadFile(
                    self.journal_path,
                    f"has a record that begins with row {record.first + 1:,}, but {self.state_path} ends with row "
                    f"{rows:,}: they are not of the same run, or one is older; restore them, or discard the "
                    f"run with `fresh`.",
                )
            yield record
            rows = record.end
        if rows == state.first and state.waiting.labels.size:
            yield state._replace(block=state.waiting, waiting=NOTHING)

    def _learn(self, trainer: OnlineTrainer, journal: Journal | None, ended: bool = False) -> None:
        """Learn from what has come, and save now and then; not at the end, as more may come if the run is killed."""
        for learnt in trainer.learn(ended):
            self._count(learnt)
            self._since += 1
            stopped = self._stop()
            due = self._every.due(self._since, time.monotonic() - self._saved)
            due = due or (journal is not None and journal.size > _MOST_JOURNAL)
            if stopped or (due and not ended):
                self._save(journal)
            if stopped:
                raise self._stopped(trainer)

    def _save(self, journal: Journal | None) -> None:
        """The state, so that the journal begins anew, if all of it was taken, and the model."""
        self._write_state()
        if journal is not None:
            journal.clear()
        if self.learnt:
            save_model(self._output, self.model())
        self._saved, self._since = time.monotonic(), 0

    def _stopped(self, trainer: OnlineTrainer) -> Stopped:
        waiting = trainer.rows - trainer.positions + self._held.labels.size
        return Stopped(trainer.positions, waiting, self.state_path)

    def _write_state(self) -> None:
        assert self.trainer is not None, "the run has begun"
        about = {
            "settings": asdict(self._settings),
            "meaning": {name: getattr(self.vocabulary, name) for name in _MEANING},
            "again": self._again,
            "counts": self.prequential.counts,
            "loss": self.prequential.loss,
        }
        held = under("waiting", arrays_of(self._held))
        write_sealed(self.state_path, RUN, RUN_VERSION, {**self.trainer.state(), **held}, about)

    def _count(self, learnt: BatchResult) -> None:
        self.prequential.add(learnt)
        self._progress(learnt)

    def _names(self) -> list[str]:
        assert self.vocabulary is not None, "the run has begun"
        return list(self.vocabulary.labels)

    def _know(self, labels: Sequence[str]) -> None:
        """Labels by their numbers; what was known before stays known."""
        assert self.vocabulary is not None, "the run has begun"
        known, common = self.vocabulary.labels, min(len(labels), len(self.vocabulary.labels))
        if tuple(labels[:common]) != known[:common]:
            raise BadFile(
                self.state_path,
                "the run has other labels than the input; resume with the original input, or discard the run with "
                "`fresh`.",
            )
        if len(labels) > len(known):
            self.vocabulary = replace(self.vocabulary, labels=tuple(labels))


def beside(output: Path, what: str) -> Path:
    return output.with_name(f"{output.name}.{what}")


def _vocabulary(meaning: Mapping[str, Any], again: Any) -> Vocabulary:
    """What attributes and labels stand for, without counts; raises unless it is what a run has.

    Where rows do not come again, all that is needed to read others is there.
    """
    need(type(again) is bool, "it says not whether rows come again")
    need(again or all(type(meaning[name]) is str for name in ("label", "template", "columns")), "it has no columns")
    vocabulary = Vocabulary(
        **{**meaning, "labels": tuple(meaning["labels"])},
        attributes=None,
        edge_attributes=pa.array([], pa.large_string()),
        counts=np.empty(0, np.int64),
        marks=np.empty((0, 1), np.uint64),
    )
    need(type(meaning["labels"]) is list, "its labels are no list")
    need(is_count(vocabulary.hash_bits, 1, MOST_HASH_BITS), f"its hash_bits are not from 1 to {MOST_HASH_BITS}")
    check_labels(vocabulary.labels)
    check_columns(vocabulary)
    return vocabulary


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Which settings of a saved run are not those of now."""
    names = [name for name in now if before.get(name) != now[name]]
    if not names:
        return "the run has settings that are unknown"
    return f"the run was begun {_listed(before, names)}, and is now resumed {_listed(now, names)}"


def _listed(settings: Mapping[str, Any], names: Sequence[str]) -> str:
    """Settings; None stands for one that is not given."""
    given = [f"`{name}` = {spelt(settings[name])}" for name in names if settings.get(name) is not None]
    absent = [f"`{name}`" for name in names if settings.get(name) is None]
    parts = (("with", given), ("without", absent))
    return ", ".join(f"{word} {', '.join(listed)}" for word, listed in parts if listed)
