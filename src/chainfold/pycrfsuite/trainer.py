"""`BaseTrainer` and `Trainer`, with the methods of python-crfsuite's classes of these names."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from chainfold.chain.chain import Chain
from chainfold.errors import BadSetting
from chainfold.features.for_model import ModelBlocks, ModelInput
from chainfold.features.spec import InputSpec
from chainfold.inference.tagger import Tagger as ChainTagger
from chainfold.inference.tagger import blocks_of
from chainfold.metrics import Count, Scores
from chainfold.model.file import save_model
from chainfold.model.model import Model
from chainfold.pycrfsuite import messages
from chainfold.pycrfsuite.instances import Instances
from chainfold.pycrfsuite.log_parser import TrainLogParser
from chainfold.pycrfsuite.parameters import Parameters
from chainfold.readers.columns import Arrived
from chainfold.system.machine import cores
from chainfold.training.loop import Development, IterationReport, train
from chainfold.training.objective import WeightSpace

CRFSUITE_VERSION = "0.12.2"
"""The version of CRFsuite whose parameters, defaults and messages `Trainer` has."""

_HOOKS = ("start", "featgen_end", "prepared", "prepare_error", "optimization_end", "end")  # on_…(log)


class BaseTrainer:
    """Collects labelled sequences, and trains a model on them into a file.

    algorithm   lbfgs, l2sgd (or sgd), ap, pa, arow, adagrad or adam; lbfgs unless given
    params      values of parameters by name; `params()` lists the names
    verbose     print the progress of training

    Messages come in CRFsuite's form to `message`, which prints them unless a subclass overrides it.

    >>> trainer = BaseTrainer("lbfgs", {"c2": 0.1}, verbose=False)
    >>> trainer.append([{"word": "the"}, {"word": "cat"}], ["D", "N"])
    >>> trainer.train("example.model")
    """

    verbose: bool = True
    _parameters: Parameters
    _groups: dict[int, Instances]

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Ready without `__init__`, which subclasses written for python-crfsuite need not call."""
        trainer = super().__new__(cls)
        trainer._parameters, trainer._groups = Parameters("lbfgs"), {}
        return trainer

    def __init__(
        self, algorithm: str | None = None, params: Mapping[str, Any] | None = None, verbose: bool = True
    ) -> None:
        if algorithm is not None:
            self.select(algorithm)
        self.set_params(params or {})
        self.verbose = verbose

    # Data

    def append(self, xseq: Iterable[Any], yseq: Iterable[Any], group: int = 0) -> None:
        """Add a sequence of items, as `ItemSequence` takes them, with their labels.

        group   a number by which `train` can hold sequences out

        Raises `BadChain` where an item is wrong or the lengths differ; nothing is added then.
        """
        self._groups.setdefault(group, Instances()).append(xseq, yseq)

    def clear(self) -> None:
        """Remove all sequences."""
        self._groups = {}

    # Parameters

    def select(self, algorithm: str, type: str = "crf1d") -> None:  # noqa: A002
        """Choose the algorithm; its parameters have their defaults again. Raises `BadSetting` for an unknown one."""
        if type != "crf1d":
            raise BadSetting("type", type, "crf1d, the linear chain")
        self._parameters = Parameters(algorithm)

    def params(self) -> list[str]:
        """The names of the algorithm's parameters."""
        return self._parameters.names

    def get(self, name: str) -> Any:
        """The value of a parameter. Raises `ChainfoldError` where the algorithm has none of that name."""
        return self._parameters[name]

    def get_params(self) -> dict[str, Any]:
        """The values of all parameters by name."""
        return {name: self.get(name) for name in self.params()}

    def set(self, name: str, value: Any) -> None:
        """Set a parameter. Raises `ChainfoldError` for an unknown name, and for a value of another type."""
        self._parameters[name] = value

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set parameters by name."""
        for name, value in params.items():
            self.set(name, value)

    def help(self, name: str) -> str:
        """The description of a parameter. Raises `ChainfoldError` where the algorithm has none of that name."""
        return self._parameters.help(name)

    # Training

    def train(self, model: str | Path, holdout: int = -1) -> None:
        """Train on all sequences, and store the model in chainfold's format.

        model     the file to write; an empty text: none
        holdout   the group of sequences that are not trained on; each iteration is scored on them

        Raises `EmptyChain` where there are no sequences, and `ChainfoldError` where settings are wrong or the file
        cannot be written.
        """
        training, begin = self._parameters.training(), time.monotonic()
        chain = self._trained_on(holdout).chain(self.get("feature.minfreq"))
        held_out = self._held_out(holdout, chain)
        self._say(
            messages.preparing(
                self._parameters.algorithm,
                self.get_params(),
                holdout,
                _features(chain, training),
                time.monotonic() - begin,
            )
        )
        writer = _IterationWriter(self._say)
        trained = train(chain, training, dev=held_out, engine="parallel", threads=cores(), report=writer.write)
        writer.end(None if held_out is None else _scores(trained, held_out))
        self._say(messages.storing(trained, writer.seconds))
        begin = time.monotonic()
        if str(model):
            save_model(model, trained)
        self._say([f"Seconds required: {time.monotonic() - begin:.3f}\n", "\n"])

    def _trained_on(self, holdout: int) -> Instances:
        """The sequences of all groups but one."""
        return Instances.of(instances for group, instances in self._groups.items() if group != holdout)

    def _held_out(self, holdout: int, like: Chain) -> Development | None:
        if holdout not in self._groups:
            return None
        assert like.vocabulary is not None, "sequences have names"
        model_input = ModelInput(like.vocabulary, InputSpec(labels=True, one_sequence=False))
        stretches = self._groups[holdout].stretches()
        blocks = ModelBlocks(model_input, map(Arrived, stretches), ahead=False)
        return replace(Development.of_blocks(blocks, like), unseen=blocks.unseen)

    def message(self, message: str) -> None:
        """Take the next line of the progress of training, and print it if `verbose`."""
        if self.verbose:
            print(message, end="")

    def _say(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.message(line)


class Trainer(BaseTrainer):
    """A `BaseTrainer` that reads its messages.

    `message` calls `on_start`, `on_featgen_progress`, `on_featgen_end`, `on_prepared`, `on_iteration`,
    `on_optimization_end` and `on_end`; these print unless a subclass overrides them. `logparser` has the figures of the
    run.

    >>> trainer = Trainer("lbfgs", {"c2": 0.1}, verbose=False)
    >>> trainer.append([{"word": "the"}, {"word": "cat"}], ["D", "N"])
    >>> trainer.train("example.model")
    >>> trainer.logparser.last_iteration["num"] > 0
    True
    """

    logparser: TrainLogParser | None = None

    def train(self, model: str | Path, holdout: int = -1) -> None:
        """Train as `BaseTrainer` does, and read the messages with a new `logparser`."""
        self.logparser = TrainLogParser()
        super().train(model, holdout)

    def message(self, message: str) -> None:
        """Take the next line of the progress of training; the parts that it completes go to the `on_…` methods."""
        assert self.logparser is not None, "set when training begins"
        event = self.logparser.feed(message)
        if event is None or not self.verbose:
            return
        log = self.logparser.last_log
        if event == "featgen_progress":
            self.on_featgen_progress(log, self.logparser.featgen_percent)
        elif event == "iteration":
            self.on_iteration(log, self.logparser.iterations[-1])
        elif event in _HOOKS:
            getattr(self, f"on_{event}")(log)

    def on_start(self, log: str) -> None:
        """The first line."""
        print(log, end="")

    def on_featgen_progress(self, log: str, percent: int) -> None:
        """A part of the attributes has been read."""
        print(log, end="")

    def on_featgen_end(self, log: str) -> None:
        """The weights are known."""
        print(log, end="")

    def on_prepared(self, log: str) -> None:
        """The settings are known; iterations follow."""
        print(log, end="")

    def on_prepare_error(self, log: str) -> None:
        """Training cannot begin; chainfold raises an error instead."""
        print(log, end="")

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        """An iteration has ended; `info` has its figures."""
        print(log, end="")

    def on_optimization_end(self, log: str) -> None:
        """The last iteration has ended."""
        print(log, end="")

    def on_end(self, log: str) -> None:
        """The model is stored."""
        print(log, end="")


class _IterationWriter:
    """Writes iterations. The last one is left open until the scores on the sequences held out are known."""

    def __init__(self, say: Any) -> None:
        self._say = say
        self._open = False
        self.seconds = 0.0

    def write(self, report: IterationReport) -> None:
        if self._open:
            self._say(["\n"])
        self._say(messages.iteration(report, report.seconds - self.seconds))
        self._open, self.seconds = True, report.seconds

    def end(self, scores: Scores | None) -> None:
        if scores is not None:
            self._say(messages.performance(scores))
        self._say(["\n"])


def _features(chain: Chain, training: Any) -> int:
    """The number of weights that are trained."""
    space = WeightSpace.of(
        chain,
        all_possible_states=training.all_possible_states,
        all_possible_transitions=training.all_possible_transitions,
    )
    return space.layout.size - int(np.count_nonzero(space.held))


def _scores(model: Model, held_out: Development) -> Scores:
    """The scores of a model on the sequences held out."""
    assert model.vocabulary is not None, "sequences have names"
    count = Count([*model.vocabulary.labels, *held_out.unseen])
    for tagged in ChainTagger(model).run(blocks_of(held_out.chain)):
        count.add(held_out.gold[tagged.low : tagged.low + len(tagged)], tagged.labels, tagged.starts)
    return count.scores()
