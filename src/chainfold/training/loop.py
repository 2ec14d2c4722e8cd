"""From a labelled chain to a model: the objective under an optimiser, a development set, runs that survive.

    Training    which algorithm, with which settings
    Saving      where an unfinished run is kept, and how often
    train       the loop: a piece of work, a look at the development set, a saved state

A run that is killed and resumed ends with the same model, to the last byte, as one that was never interrupted: the
optimiser's state is all there is, and a model says nothing of the time that it took.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold import __version__
from chainfold.chain.block import KnownBlock, Source, vocabulary_of
from chainfold.chain.renumbered import Renumbered
from chainfold.chain.vocabulary import Vocabulary, label_names
from chainfold.engines.ranges import Ranges
from chainfold.errors import BadFile, BadSetting, ChainfoldError
from chainfold.features.for_model import gather_blocks
from chainfold.inference.tagger import Tagger, blocks_of
from chainfold.metrics import Count
from chainfold.model.constraints import Constraints
from chainfold.model.layout import Floats
from chainfold.model.model import Model
from chainfold.model.remap import without_zeros
from chainfold.system.archive import Tensors, damage, read_sealed, write_sealed
from chainfold.system.validate import Arrays, below_infinity, finite, mapping, need, spelt, within
from chainfold.training.objective import BatchObjective, Objective, WeightSpace, finite_weights
from chainfold.training.optimisers.base import NO_BETTER_STEP, Iteration, Optimiser, check_not_negative, check_whole
from chainfold.training.optimisers.descent import ALGORITHMS as DESCENT
from chainfold.training.optimisers.descent import Descent, DescentSettings
from chainfold.training.optimisers.lbfgs_owlqn import Lbfgs, LbfgsSettings
from chainfold.training.passes import ChainPasses, LocalPasses, digest_of_arrays
from chainfold.training.perceptron import ALGORITHMS as PERCEPTRONS
from chainfold.training.perceptron import PerceptronSettings, PerceptronTrainer, perceptron_options

ALGORITHMS = {"lbfgs": "L-BFGS, OWL-QN where c1 > 0"} | {
    "sgd": "stochastic gradient descent",
    "adagrad": "descent with a rate for each weight",
    "adam": "descent with momentum and a rate for each weight",
    "ap": "averaged perceptron",
    "pa": "passive-aggressive",
    "arow": "adaptive regularisation of weights",
}
ALIASES = {"l2sgd": "sgd", "perceptron": "ap", "averaged-perceptron": "ap", "passive-aggressive": "pa"}

RUN, RUN_VERSION = "training run", 4
NO_BETTER_SCORE = "stopped: the development score no longer improves"
_BATCH = 256
_PATIENCE = 10
_AT_ONCE = 65536  # positions that are looked at


@dataclass(frozen=True)
class Training:
    """An algorithm and its settings; those not given have CRFsuite's defaults, or the algorithm's own.

    Raises `ChainfoldError` for an unknown algorithm or setting, and for values out of range.

    >>> Training("sgd", {"rate": 0.1, "c2": 0.5}).record()["decay"]
    0.1
    """

    algorithm: str = "lbfgs"
    options: Mapping[str, Any] = field(default_factory=dict)
    all_possible_states: bool = False  # a weight for every attribute with every label, not only those that occur
    all_possible_transitions: bool = True  # a weight for every two labels, not only those that follow one another
    patience: int = _PATIENCE  # iterations without a better score on the development set
    early_stopping: bool = True  # False: the development set is scored, but neither ends training nor chooses weights

    def __post_init__(self) -> None:
        algorithm = ALIASES.get(self.algorithm, self.algorithm) if isinstance(self.algorithm, str) else None
        if algorithm not in ALGORITHMS:
            raise BadSetting("algorithm", self.algorithm, f"one of {', '.join(ALGORITHMS)}")
        known = option_names(algorithm)
        for name in self.options:
            if name not in known:
                raise ChainfoldError(
                    f"`{name}` does not apply to algorithm {self.algorithm!r}, whose settings are "
                    f"{', '.join(f'`{setting}`' for setting in sorted(known))}."
                )
        object.__setattr__(self, "algorithm", algorithm)
        if not isinstance(self.patience, int) or self.patience < 1:
            raise BadSetting("patience", self.patience, "at least 1")
        if not isinstance(self.early_stopping, bool):
            raise BadSetting("early_stopping", self.early_stopping, "True or False")
        if "c2" in known:
            check_not_negative([("c2", self.options.get("c2", 1.0))])
        check_whole("batch", self.options.get("batch"), 1)
        self.settings()

    @property
    def sparse(self) -> bool:
        """Whether many of the weights are zero."""
        return bool(self.options.get("c1")) or self.algorithm in PERCEPTRONS

    @property
    def c2(self) -> float:
        return float(self.options.get("c2", 1.0))

    def settings(self) -> LbfgsSettings | DescentSettings | PerceptronSettings:
        """The settings of the optimiser, checked."""
        options = dict(self.options)
        if self.algorithm == "lbfgs":
            options.pop("c2", None)
            return LbfgsSettings(**options)
        if self.algorithm in DESCENT:
            options.pop("batch", None)
            return DescentSettings(algorithm=self.algorithm, **{**options, "c2": self.c2})
        return PerceptronSettings(algorithm=self.algorithm, **options)

    def record(self) -> dict[str, Any]:
        """All settings, as JSON has them."""
        known = option_names(self.algorithm)
        return {
            "algorithm": self.algorithm,
            **({"c2": self.c2} if "c2" in known else {}),
            **({"batch": int(self.options.get("batch", _BATCH))} if "batch" in known else {}),
            **{name: value for name, value in asdict(self.settings()).items() if name in known},
            "all_possible_states": self.all_possible_states,
            "all_possible_transitions": self.all_possible_transitions,
        }

    def optimiser(self, space: WeightSpace, start: Floats, threads: int = 1) -> Optimiser:
        settings = self.settings()
        if isinstance(settings, LbfgsSettings):
            return Lbfgs(Objective(space, c2=self.c2, threads=threads), start, settings, threads)
        if isinstance(settings, DescentSettings):
            batches = BatchObjective(space, int(self.options.get("batch", _BATCH)))
            return Descent(batches, batches.batches, start, settings, threads)
        return PerceptronTrainer(space.nameless(start), space.source, settings, space.held & ~space.forbidden)


def option_names(algorithm: str) -> set[str]:
    """The settings that mean something to an algorithm."""
    if algorithm in PERCEPTRONS:
        return perceptron_options(algorithm)
    of = LbfgsSettings if algorithm == "lbfgs" else DescentSettings
    names = {one.name for one in fields(of)} - {"algorithm"}
    return names | ({"c2"} if algorithm == "lbfgs" else {"batch"})


class SaveInterval(NamedTuple):
    """Number of iterations, or of seconds, after which to save."""

    iterations: int | None = None
    seconds: float | None = None

    def due(self, iterations: int, seconds: float) -> bool:
        by_count = self.iterations is not None and iterations >= self.iterations
        return by_count or (self.seconds is not None and seconds >= self.seconds)


EVERY_MINUTE = SaveInterval(seconds=60.0)


@dataclass(frozen=True)
class Saving:
    """The file of the state of a run, and how often it is saved; with `resume`, the run continues from it.

    The caller removes the file once the model is stored.

    >>> from chainfold import SyntheticChain
    >>> saving = Saving(Path("example.run"), SaveInterval(iterations=5), resume=True)
    >>> model = train(SyntheticChain(200, 2, 6, 3), Training(options={"max_iterations": 10}), saving=saving)
    >>> saving.path.exists()
    True
    """

    path: Path
    every: SaveInterval = EVERY_MINUTE
    resume: bool = False


@dataclass(frozen=True, eq=False)
class Development:
    """A development set: a chain with the numbers of the training chain, and all its labels.

    Labels that the other chain never saw have numbers after its own, and names; they are always tagged wrong.
    """

    chain: Source
    gold: NDArray[np.int32]  # [T], -1 where unknown
    unseen: tuple[str, ...] = ()

    @classmethod
    def of(cls, chain: Source, like: Source) -> Development:
        """A chain with the names of another or, where one of them has none, with its numbers."""
        own, vocabulary = vocabulary_of(chain), vocabulary_of(like)
        if own is None or vocabulary is None or own.same_numbers(vocabulary):
            return cls(chain, chain.block(0, chain.positions).labels)
        renumbered = Renumbered(chain, vocabulary)
        parts = (renumbered.known(low, high).gold for low, high in Ranges(0, chain.positions, _AT_ONCE))
        return cls(renumbered, np.concatenate(list(parts)), renumbered.unseen)

    @classmethod
    def of_blocks(cls, blocks: Iterable[KnownBlock], like: Source) -> Development:
        """Blocks that already have the numbers of a training chain."""
        blocks = list(blocks)
        if not blocks:
            raise ChainfoldError("the development set has no positions; give it at least one.")
        gold = np.concatenate([known.gold for known in blocks])
        unseen = max(0, int(gold.max()) + 1 - like.n_labels)
        return cls(gather_blocks(blocks, like), gold, tuple(f"(unseen {k + 1})" for k in range(unseen)))

    def __post_init__(self) -> None:
        if not (self.gold >= 0).any():
            raise ChainfoldError("the development set has no labels, so nothing can be scored; give it labels.")


@dataclass(frozen=True)
class IterationReport:
    """An iteration, as `train` reports it."""

    step: Iteration
    dev: float | None  # the score on the development set
    best: bool  # are its weights the best so far? Never where the development set only reports
    seconds: float  # since this process began to train


class Interrupted(ChainfoldError):
    """The run was asked to stop; what it has done is saved, where that was asked for."""

    def __init__(self, iteration: int, saved: Path | None) -> None:
        self.iteration, self.saved = iteration, saved
        kept = "nothing was kept" if saved is None else f"kept in {saved}; continue with `resume`"
        super().__init__(f"training was interrupted after iteration {iteration}: {kept}.")


def train(
    source: Source,
    training: Training | None = None,
    *,
    dev: Source | Development | None = None,
    start: Model | None = None,
    constraints: Constraints | None = None,
    engine: str = "parallel",
    threads: int = 1,
    memory: int | None = None,
    saving: Saving | None = None,
    report: Callable[[IterationReport], None] | None = None,
    stop: Callable[[], bool] | None = None,
    positions: Callable[[int], None] | None = None,
    passes: ChainPasses | None = None,
) -> Model:
    """Train a model on a labelled chain, and return it.

    source       a chain with a label at every position
    training     the algorithm and its settings; L-BFGS unless given

    dev          a chain with the names or, where there are none, the numbers of `source`, scored after each iteration:
                 F1 of spans where the labels are chunk tags, else accuracy. Once a score is above that of the weights
                 to begin with, training stops after `patience` iterations without a higher one. The weights of the
                 highest score are kept; of equal scores, those of the lower objective, then of the later iteration.
                 With `early_stopping=False` in the settings it is scored only
    start        a model whose weights training starts from, where attribute and label have the same names
    constraints  which labels may follow, start and end, in training and in the model
    engine, threads, memory   as for `log_likelihood`, if the algorithm has a gradient; threads change no bit
    saving       save the state of the run in a file, and continue from it
    report       called with an `IterationReport` after each iteration
    stop         called after each step; training ends with `Interrupted` where it returns True
    positions    called with the number of positions that an evaluation has done
    passes       who passes over the whole chain, in place of `engine` in this process (`chainfold.dask` has passes of a
                 cluster, with the same bits as `parallel`)

    Raises `ChainfoldError` where labels are missing, settings are wrong or weights grow out of range. A chain with a
    single label causes a warning.

    >>> from chainfold import SyntheticChain, tag
    >>> chain = SyntheticChain(2000, 3, 20, 4, seed=1)
    >>> model = train(chain, Training(options={"max_iterations": 5}))
    >>> model.training["iterations"], tag(model, chain).size
    (5, 2000)
    """
    training = training or Training()
    passes = passes or LocalPasses(source, engine=engine, threads=threads, memory=memory, progress=positions)
    space = WeightSpace.of(
        source,
        passes=passes,
        constraints=constraints,
        all_possible_states=training.all_possible_states,
        all_possible_transitions=training.all_possible_transitions,
    )
    if source.n_labels == 1:
        warnings.warn(f"{only_label(vocabulary_of(source))}: the model can give no other.", stacklevel=2)
    begin = np.zeros(space.layout.size) if start is None else space.start(start)
    development = dev if dev is None or isinstance(dev, Development) else Development.of(dev, source)
    how = {"engine": engine, "memory": memory}
    identity = {} if saving is None else _identity(space, training, development, start, how)
    optimiser = training.optimiser(space, begin, threads)
    run = _Run(space, training, optimiser, development, identity)
    if saving is not None and saving.resume and saving.path.exists():
        run.load(saving.path)
    else:
        run.begin(begin)
    run.work(saving, report or (lambda progress: None), stop or (lambda: False))
    point, record = run.result()
    del run  # its arrays are freed before a stored chain reads its names again
    model = space.model(point, record)
    return without_zeros(model) if training.sparse else model


def only_label(vocabulary: Vocabulary | None) -> str:
    """A sentence about data with a single label."""
    return f"every position has the same label, {'0' if vocabulary is None else repr(vocabulary.labels[0])}"


def _identity(
    space: WeightSpace, training: Training, dev: Development | None, start: Model | None, how: Mapping[str, Any]
) -> dict[str, Any]:
    """Settings and digests that must be equal for a run to be resumed."""
    masks = [mask for mask in (space.first, space.last) if mask is not None]
    return {
        "version of chainfold": __version__,
        **{name: value for name, value in training.record().items() if name != "max_iterations"},
        **how,
        "number of positions": space.source.positions,
        "number of weights": space.layout.size,
        "constraints": digest_of_arrays([space.held, *masks]),
        "data": space.passes.digest(),
        "development set": None if dev is None else [digest_of_arrays([dev.gold]), LocalPasses(dev.chain).digest()],
        "patience": training.patience if dev is not None else None,
        "early_stopping": training.early_stopping if dev is not None else None,
        "initial model": None if start is None else digest_of_arrays([start.weights]),
    }


_DIFFERENCES = {  # what is compared by its digest
    "constraints": "the constraints differ",
    "data": "the data differs",
    "development set": "the development set differs",
    "initial model": "the initial model differs",
}


def difference(name: str, then: Any, now: Any) -> str:
    """A setting of a saved run that is not that of the present one, in words."""
    shown = f"`{name}`" if name.isidentifier() else f"a {name}"
    return f"the run was begun with {shown} = {spelt(then)}, and now {shown.removeprefix('a ')} is {now}"


class _Run:
    """The loop, and everything that changes in it."""

    def __init__(
        self,
        space: WeightSpace,
        training: Training,
        optimiser: Optimiser,
        dev: Development | None,
        identity: dict[str, Any],
    ) -> None:
        self._space, self._training, self._optimiser, self._dev = space, training, optimiser, dev
        self._identity = json.loads(json.dumps(identity))
        self._values: list[float] = []  # the objective after each iteration
        self._scores: list[float] = []  # on the development set
        self._start = math.nan  # the score of the initial weights
        self._best: Floats | None = None
        self._finished: str | None = None  # by the development set
        self._begin = time.monotonic()

    def begin(self, point: Floats) -> None:
        """Score the initial weights: patience counts once a score is above theirs."""
        if self._dev is not None and self._training.early_stopping:
            self._start = self._score(self._dev, point)

    def work(self, saving: Saving | None, report: Callable[[IterationReport], None], stop: Callable[[], bool]) -> None:
        saved_at, saved_iteration = time.monotonic(), len(self._values)
        while self._optimiser.finished is None and self._finished is None:
            step = self._optimiser.advance()
            if step is not None:
                self._arrive(step, report)
            if stop():
                if saving is not None:
                    self._save(saving.path)
                raise Interrupted(len(self._values), None if saving is None else saving.path)
            since = len(self._values) - saved_iteration
            if saving is not None and saving.every.due(since, time.monotonic() - saved_at):
                self._save(saving.path)
                saved_at, saved_iteration = time.monotonic(), len(self._values)
        if not self._values and self._optimiser.finished == NO_BETTER_STEP:
            raise ChainfoldError(
                "no step from the initial weights improves the objective: the values of attributes are too large "
                "or too different in size; scale them, for instance with `numbers='standard'`."
            )

    def _arrive(self, step: Iteration, report: Callable[[IterationReport], None]) -> None:
        """After an iteration."""
        if not math.isfinite(step.value):
            raise ChainfoldError(
                f"the objective is {step.value} after iteration {step.iteration}: the weights have grown too large; "
                f"take a smaller rate, or more c2."
            )
        self._values.append(step.value)
        score, best = None, False
        if self._dev is not None:
            score = self._score(self._dev, self._optimiser.point)
            self._scores.append(score)
            if self._training.early_stopping:
                best = self._best_iteration() == len(self._scores)
                self._choose(best)
        report(IterationReport(step, score, best, time.monotonic() - self._begin))

    def _choose(self, best: bool) -> None:
        """Keep the weights if they are the best so far; end training where patience is at its end."""
        if best:
            self._best = self._optimiser.point.copy()
        highest = max(self._scores)
        since = len(self._scores) - 1 - self._scores.index(highest)
        if highest > self._start and since >= self._training.patience:
            self._finished = NO_BETTER_SCORE

    def _best_iteration(self) -> int:
        """That of the highest score; of equal ones, that of the lowest objective, then the latest."""
        ranked = zip(self._scores, (-value for value in self._values), range(1, len(self._scores) + 1), strict=True)
        return max(ranked)[-1]

    def _score(self, dev: Development, point: Floats) -> float:
        count = Count(label_names(vocabulary_of(self._space.source), self._space.layout.n_labels))
        count.extend(dev.unseen)
        for tagged in Tagger(self._space.nameless(finite_weights(point))).run(blocks_of(dev.chain)):
            count.add(dev.gold[tagged.low : tagged.low + tagged.labels.size], tagged.labels, tagged.starts)
        scores = count.scores()
        return scores.accuracy if scores.spans_overall is None else scores.spans_overall.f1

    def result(self) -> tuple[Floats, dict[str, Any]]:
        """The weights, and the record of the model."""
        record = {
            "chainfold": __version__,
            **self._training.record(),
            "iterations": len(self._values),
            "finished": self._finished or self._optimiser.finished,
            "objective": self._values,
            "positions": self._space.source.positions,
        }
        if self._scores:
            record |= {"development": self._scores}
        if self._best is not None:
            record |= {"development_start": self._start, "best_iteration": self._best_iteration()}
        return finite_weights(self._optimiser.point if self._best is None else self._best), record

    def _save(self, path: Path) -> None:
        tensors: Tensors = {f"optimiser.{name}": array for name, array in self._optimiser.state().items()}
        tensors |= {
            "values": np.array(self._values),
            "scores": np.array(self._scores),
            "start": np.array([self._start]),
        }
        if self._best is not None:
            tensors["best"] = self._best
        write_sealed(path, RUN, RUN_VERSION, tensors, {"run": self._identity, "finished": self._finished})

    def load(self, path: Path) -> None:
        """Go on from a saved run, if it is this one."""
        tensors, about = read_sealed(path, RUN, RUN_VERSION)
        with damage(path, RUN):
            mapping("parts", about, ("run", "finished", "kind", "version"))
            need(type(about["run"]) is dict, "its settings are no mapping")
            for name, now in self._identity.items():
                then = about["run"].get(name)
                if then != now:
                    problem = _DIFFERENCES.get(name) or difference(name, then, now)
                    raise BadFile(path, f"{problem}; resume with the same settings, or discard the run with `fresh`.")
            given = Arrays(tensors)
            self._optimiser.restore(given.under("optimiser"))
            self._restore(given, about["finished"])
            given.check_empty()

    def _restore(self, given: Arrays, finished: Any) -> None:
        """All but the optimiser."""
        values = given.take("values", np.float64, None)
        scores = given.take("scores", np.float64, 0 if self._dev is None else values.size)
        start = given.take("start", np.float64, 1)
        finite("values", values)
        within("scores", scores, 0.0, 1.0)
        chooses = self._dev is not None and self._training.early_stopping
        if chooses:
            within("start", start, 0.0, 1.0)
        need(chooses or np.isnan(start[0]), "it has an initial score, and no development set")
        need(finished in ((None, NO_BETTER_SCORE) if chooses else (None,)), "its reason for ending is unknown")
        self._best = None
        if chooses and values.size:
            self._best = given.take("best", np.float64, self._space.layout.size)
            below_infinity("best", self._best)
        self._values, self._scores = values.tolist(), scores.tolist()
        self._start, self._finished = float(start[0]), finished
