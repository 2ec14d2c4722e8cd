"""A run of online training that can be stopped or killed at any moment, and resumed.

    MODEL        the model at the last save, and at the end
    MODEL.run    the state at the last save: weights, sums, and the rows that are still needed; removed at the end

Both are saved every so many rows, when the run is asked to stop, and at the end. A resumed run over files skips the
rows that the state has and ends with the bytes of an uninterrupted one. A resumed run over a pipe trains on the rows
that come from then on, as a new sequence; rows that the pipe gave after the last save are lost. Their number is known
from `.MODEL.run.rows`, which is rewritten in place after each block: the number of rows that the pipe has given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from chainfold.chain.block import Block
from chainfold.chain.builder import MOST_HASH_BITS
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadFile, ChainfoldError
from chainfold.model.file import check_columns, check_labels, save_model
from chainfold.model.model import Model
from chainfold.system.archive import damage, read_sealed, write_sealed
from chainfold.system.files import hidden
from chainfold.system.machine import OPEN_FLAGS
from chainfold.system.validate import Arrays, is_count, mapping, need, under
from chainfold.training.loop import difference
from chainfold.training.online.adagrad import OnlineSettings
from chainfold.training.online.arriving import Arriving, uncounted
from chainfold.training.online.prequential import Interval, Prequential
from chainfold.training.online.share import NOTHING
from chainfold.training.online.trainer import BatchResult, OnlineTrainer
from chainfold.training.optimisers.base import check_whole

RUN, RUN_VERSION = "online run", 3
SAVED_ROWS = 100_000  # rows after which a run is saved
_MEANING = ("labels", "label", "template", "columns", "hash_bits")
_DIGITS = 18  # of the number of rows that a pipe has given

T = TypeVar("T")


class StopRequested(Exception):
    """Raised to stop the run, also while it waits for rows."""


class Stopped(ChainfoldError):
    """The run was asked to stop, and is saved."""

    def __init__(self, rows: int, saved: Path) -> None:
        super().__init__(f"stopped after row {rows:,}; the state is saved in {saved}; continue with `resume`.")


class OnlineRun:
    """A trainer, and its state in a file."""

    def __init__(
        self,
        output: Path,
        settings: OnlineSettings,
        *,
        save_every: int = SAVED_ROWS,
        tell: Callable[[Interval], None] = lambda interval: None,
        progress: Callable[[BatchResult], None] = lambda batch: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        check_whole("save_every", save_every, 1)
        self._output, self._settings, self._save_every = output, settings, save_every
        self._progress, self._stop = progress, stop
        self.state_path = output.with_name(f"{output.name}.run")
        self.trainer: OnlineTrainer | None = None
        self.vocabulary: Vocabulary | None = None
        self.prequential = Prequential(tell)
        self._again: bool | None = None  # whether the rows can be read again; None before the run has begun
        self._waiting = False  # whether the run waits for rows: it may be left, and nothing is half done
        self._unsaved = 0  # positions since the last save
        self._given = 0  # rows that have come, with those that are in no block yet
        self._given_path = hidden(self.state_path, "rows")

    @property
    def rows(self) -> int:
        """Number of rows in the state."""
        return 0 if self.trainer is None else self.trainer.rows

    @property
    def piped(self) -> Vocabulary | None:
        """The vocabulary of the rows so far, if they came from a pipe."""
        return None if self._again else self.vocabulary

    @property
    def lost(self) -> int | None:
        """Number of rows that a pipe gave after the restored state was saved; None where that is not known."""
        with suppress(OSError):
            given = self._given_path.read_bytes()
            if len(given) == _DIGITS and given.isdigit() and int(given) >= self.rows:
                return int(given) - self.rows
        return None

    def restore(self) -> None:
        """Continue from the saved state."""
        tensors, about = read_sealed(self.state_path, RUN, RUN_VERSION)
        with damage(self.state_path, RUN):
            mapping("parts", about, ("settings", "meaning", "again", "kind", "version"))
            now = asdict(self._settings)
            begun = mapping("settings", about["settings"], tuple(now))
            changed = next((name for name in now if begun[name] != now[name]), None)
            if changed is not None:
                problem = difference(changed, begun[changed], now[changed])
                remedy = "resume with the same settings, or discard the run with `fresh`"
                raise BadFile(self.state_path, f"{problem}; {remedy}.")
            self._again = about["again"]
            self.vocabulary = vocabulary = _vocabulary(mapping("columns", about["meaning"], _MEANING), self._again)
            assert vocabulary.hash_bits is not None, "checked"
            given = Arrays(tensors)
            prequential = given.under("prequential")
            size, labels = 1 << vocabulary.hash_bits, len(vocabulary.labels)
            self.trainer = OnlineTrainer.of_state(given.rest(), size, labels, self._settings)
            self.prequential.restore(prequential, self.trainer.positions)
            self._given = self.rows

    def run(self, arriving: Arriving) -> Model:
        """Train on all rows, and store the model."""
        trainer = self._begin(arriving)
        waiting = NOTHING
        try:
            self._train(trainer)
            for block in self._new_blocks(arriving, trainer.rows if arriving.again else 0):
                trainer.add(block)
                waiting = arriving.waiting()
                trainer.check(waiting)
                self._given = trainer.rows + waiting.labels.size
                if not arriving.again and self.state_path.exists():
                    self._write_given()
                self._train(trainer)
        except StopRequested:
            trainer.add(waiting)
            self._save(trainer)
            raise Stopped(trainer.rows, self.state_path) from None
        if not trainer.rows:
            raise BadFile(self.state_path, "the run has no rows and the input is empty.")
        if not arriving.again:
            self._write_state(trainer)  # while the last sequence is open: a resumed run may add others
        for batch in trainer.learn(ended=True):
            self._count(batch)
        model = self._write_model(trainer)
        self.prequential.close()
        self._remove_state()
        return model

    def leave_if_waiting(self) -> None:
        """Raise `StopRequested` if the run waits for rows."""
        if self._waiting:
            raise StopRequested

    def wait(self, come: Callable[[], T]) -> T:
        """The result of `come`, which waits for rows; raises `StopRequested` if the run is asked to stop."""
        self._waiting = True
        try:
            if self._stop():
                raise StopRequested
            return come()
        finally:
            self._waiting = False

    def _begin(self, arriving: Arriving) -> OnlineTrainer:
        """The trainer: a new one, or that of a restored run if the input fits."""
        meaning = arriving.vocabulary
        assert meaning.hash_bits is not None, "attributes are hashed"
        if self.trainer is None or self.vocabulary is None:
            self.vocabulary, self._again = meaning, arriving.again
            self.trainer = OnlineTrainer(1 << meaning.hash_bits, self._settings)
            self._remove_state()
        elif self._again != arriving.again:
            was, now = ("files", "a pipe") if self._again else ("a pipe", "files")
            raise self._mismatch(f"the run reads {was}, and cannot continue with {now}")
        elif any(getattr(meaning, name) != getattr(self.vocabulary, name) for name in _MEANING[1:]):
            raise self._mismatch("the run has other columns or attributes", "original input and options")
        return self.trainer

    def _new_blocks(self, arriving: Arriving, before: int) -> Iterator[Block]:
        """The blocks without their first `before` rows."""
        skipped, blocks = 0, iter(arriving.blocks)
        while (block := self.wait(lambda: next(blocks, None))) is not None:
            size = block.labels.size
            low = min(size, before - skipped)
            skipped += low
            self._add_labels(arriving.labels)
            yield block.part(low, size)
        if skipped < before:
            raise self._mismatch(f"the run has {before:,} rows, and the input {skipped:,}")

    def _add_labels(self, labels: list[str]) -> None:
        """Extend the names of labels by those that have come."""
        assert self.vocabulary is not None, "the run has begun"
        known = self.vocabulary.labels
        if tuple(labels[: len(known)]) != known[: len(labels)]:
            raise self._mismatch("the run has other labels than the input")
        if len(labels) > len(known):
            self.vocabulary = replace(self.vocabulary, labels=tuple(labels))

    def _mismatch(self, problem: str, original: str = "original input") -> BadFile:
        return BadFile(self.state_path, f"{problem}; resume with the {original}, or discard the run with `fresh`.")

    def _train(self, trainer: OnlineTrainer) -> None:
        """Train on the rows that have come, and save where it is time; raises `StopRequested`."""
        for batch in trainer.learn():
            self._count(batch)
            self._unsaved += batch.positions
            if self._stop():
                raise StopRequested
            if self._unsaved >= self._save_every:
                self._save(trainer)

    def _count(self, batch: BatchResult) -> None:
        self.prequential.add(batch)
        self._progress(batch)

    def _save(self, trainer: OnlineTrainer) -> None:
        """Write the state and then the model, if there is one yet."""
        self._write_state(trainer)
        if trainer.positions:
            self._write_model(trainer)
        self._unsaved = 0

    def _write_state(self, trainer: OnlineTrainer) -> None:
        about = {
            "settings": asdict(self._settings),
            "meaning": {name: getattr(self.vocabulary, name) for name in _MEANING},
            "again": self._again,
        }
        tensors = {**trainer.state(), **under("prequential", self.prequential.state())}
        if not self._again:
            self._write_given()
        write_sealed(self.state_path, RUN, RUN_VERSION, tensors, about)

    def _write_given(self) -> None:
        """Write the number of rows that a pipe has given."""
        with suppress(OSError):  # without it, a resumed run cannot tell how many rows are lost
            file = os.open(self._given_path, os.O_WRONLY | os.O_CREAT | OPEN_FLAGS, 0o666)
            try:
                os.write(file, b"%0*d" % (_DIGITS, self._given))
            finally:
                os.close(file)

    def _remove_state(self) -> None:
        self._given_path.unlink(missing_ok=True)
        self.state_path.unlink(missing_ok=True)

    def _write_model(self, trainer: OnlineTrainer) -> Model:
        assert self.vocabulary is not None, "the run has begun"
        model = trainer.model(self.vocabulary)
        save_model(self._output, model)
        return model


def _vocabulary(meaning: Mapping[str, Any], again: Any) -> Vocabulary:
    """The names and columns of a state, checked; those of a pipe are all that is needed to read further rows."""
    need(type(again) is bool, "it does not say whether rows can be read again")
    need(again or all(type(meaning[name]) is str for name in ("label", "template", "columns")), "it has no columns")
    need(type(meaning["labels"]) is list, "its labels are no list")
    vocabulary = uncounted(**{**meaning, "labels": tuple(meaning["labels"])})
    need(is_count(vocabulary.hash_bits, 1, MOST_HASH_BITS), f"its hash_bits are not from 1 to {MOST_HASH_BITS}")
    check_labels(vocabulary.labels)
    check_columns(vocabulary)
    return vocabulary
