"""The scikit-learn face: `CRF` fits, predicts and scores as sklearn-crfsuite's estimator of that name does."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from chainfold.chain.block import Source, checked_weights, vocabulary_of
from chainfold.chain.vocabulary import Vocabulary, label_names
from chainfold.errors import BadSetting, ChainfoldError, EmptyChain
from chainfold.inference.tagger import Tagger, Want
from chainfold.model.constraints import Constraints
from chainfold.model.file import open_model, save_model
from chainfold.model.layout import Floats
from chainfold.model.model import Model
from chainfold.sklearn.log import TrainingLog, watched
from chainfold.sklearn.training_data import Lengths, development, further, known, learnable
from chainfold.system.machine import cores
from chainfold.training.incremental import Learnt, learn, learn_online, online_trainer
from chainfold.training.loop import Progress, Training, option_names, train
from chainfold.training.online.trainer import OnlineTrainer
from chainfold.training.perceptron import ALGORITHMS as MISTAKES

_OPTIONS = (
    *("c1", "c2", "max_iterations", "num_memories", "epsilon", "period", "delta", "linesearch", "max_linesearch"),
    *("c", "error_sensitive", "averaging", "variance", "gamma"),
    *("rate", "decay", "batch", "seed"),
)
_OF_PIECES = {"rate", "decay", "batch", "seed"}  # settings that lbfgs itself has no use for
_BY_PIECES = "adagrad"  # what stands in for lbfgs, which cannot learn from pieces

Objects = NDArray[np.object_]


class CRF(BaseEstimator):  # type: ignore[misc]
    """A linear-chain conditional random field.

    X is a list of sequences, each a list of items, each a dict or a list of strings, and y a list of lists of labels;
    any iterables will do. X may also be a path or a list of paths, a table (Arrow, pandas, polars) or a chain, which
    have their labels in them: then there is no y.

    None stands for CRFsuite's default or, where CRFsuite has no such thing, for that of the algorithm.

    algorithm                  lbfgs, l2sgd (or sgd), adagrad, adam, ap, pa or arow
    min_freq                   attributes that occur less often are left out
    all_possible_states        a weight for every attribute with every label, not only for pairs that occur
    all_possible_transitions   a weight for every two labels, not only for those that follow one another
    c1, c2                     weights of the penalties c1·‖w‖₁ and c2·‖w‖²
    max_iterations, num_memories, epsilon, period, delta, linesearch, max_linesearch   of lbfgs; some of others too
    pa_type, c, error_sensitive, averaging, variance, gamma   of ap, pa and arow
    rate, decay, batch         of sgd, adagrad and adam: learning rate, its decay an epoch, positions in a batch
    seed                       of the order of batches and sequences
    patience                   iterations without a better score on X_dev before fit stops
    early_stopping             False: the scores on X_dev are logged, but neither stop fit nor choose the weights
    scheme, forbid, allow      what may follow what: BIO, IOBES or BILOU; transitions FROM>TO to forbid and to allow
    hash_bits                  hash attributes to so many bits: memory that does not grow, and no names
    forget                     of partial_fit with hash_bits: positions after which a gradient counts half in AdaGrad
    encoding                   options of `encode` for files and tables, for instance {"label": "tag"}
    engine, threads, memory    how gradients are computed: as many threads as there are cores, unless given
    verbose                    show the iterations on standard error
    """

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: float | None = None,
        all_possible_states: bool | None = None,
        all_possible_transitions: bool | None = None,
        c1: float | None = None,
        c2: float | None = None,
        max_iterations: int | None = None,
        num_memories: int | None = None,
        epsilon: float | None = None,
        period: int | None = None,
        delta: float | None = None,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        *,
        rate: float | None = None,
        decay: float | None = None,
        batch: int | None = None,
        seed: int | None = None,
        patience: int | None = None,
        early_stopping: bool = True,
        scheme: str | None = None,
        forbid: Sequence[str] | None = None,
        allow: Sequence[str] | None = None,
        hash_bits: int | None = None,
        forget: float | None = None,
        encoding: Mapping[str, Any] | None = None,
        engine: str | None = None,
        threads: int | None = None,
        memory: int | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.min_freq = min_freq
        self.all_possible_states = all_possible_states
        self.all_possible_transitions = all_possible_transitions
        self.c1 = c1
        self.c2 = c2
        self.max_iterations = max_iterations
        self.num_memories = num_memories
        self.epsilon = epsilon
        self.period = period
        self.delta = delta
        self.linesearch = linesearch
        self.max_linesearch = max_linesearch
        self.pa_type = pa_type
        self.c = c
        self.error_sensitive = error_sensitive
        self.averaging = averaging
        self.variance = variance
        self.gamma = gamma
        self.verbose = verbose
        self.rate = rate
        self.decay = decay
        self.batch = batch
        self.seed = seed
        self.patience = patience
        self.early_stopping = early_stopping
        self.scheme = scheme
        self.forbid = forbid
        self.allow = allow
        self.hash_bits = hash_bits
        self.forget = forget
        self.encoding = encoding
        self.engine = engine
        self.threads = threads
        self.memory = memory

    # Learning

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        X_dev: Any = None,  # noqa: N803
        y_dev: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Train a model.

        With X_dev, training stops when that is labelled no better any more, and the best weights are kept, unless
        `early_stopping` is False. A sample weight is that of a sequence or, where X is no list, of a sequence or a
        position. Labels that are all the same are named in a warning.
        """
        training = self._training_at_once()
        if self.forget is not None:
            raise ChainfoldError("forget means nothing to fit, only to partial_fit with hash_bits; leave it out.")
        if X_dev is None and y_dev is not None:
            raise ChainfoldError("there are labels y_dev, but no X_dev; give both, or neither.")
        log, encoding = TrainingLog(), self._encoding()
        with learnable(X, y, sample_weight, encoding) as source, watched(bool(self.verbose), log) as report:
            model = train(
                source,
                training,
                dev=None if X_dev is None else development(X_dev, y_dev, source, encoding),
                constraints=self._constraints(source),
                engine="parallel" if self.engine is None else self.engine,
                threads=cores() if self.threads is None else self.threads,
                memory=self.memory,
                report=report,
            )
        log.featgen_num_features = model.layout.size
        self._keep(_in_memory(model), log)
        return self

    def partial_fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        classes: Iterable[Any] | None = None,
        sample_weight: Any = None,
        unfinished: bool = False,
    ) -> Self:
        """Go once over a further piece of data, from the weights that there are; what is new in it is added to them.

        The algorithm is that of `fit`, or AdaGrad where that is lbfgs. Labels may be announced as `classes`, and need
        not be. There is no penalty unless c2 is given: it is counted in full for each piece.

        With `hash_bits` AdaGrad learns as `chainfold learn` does: in order, in memory that does not grow, and
        c2 is what that makes of it. Then the last sequence of a piece may be `unfinished`: the first one of the next
        piece goes on with it, and rows are held until enough is known of what follows them. So what is learnt does not
        depend on where rows are cut into pieces. A piece that is not unfinished, be it empty, ends the sequence, and
        all that is held is learnt from.
        """
        training = self._training_by_pieces()
        online = self._learns_online(training, sample_weight)
        if not online:
            self._check_not_online(unfinished)
        before, lengths, trainer = self._learnt(), Lengths(), None
        vocabulary, piece = None if before is None else _named(before.model), None
        try:
            piece = further(X, lengths.noting(y), sample_weight, vocabulary, self._encoding())
            vocabulary = piece.vocabulary
        except EmptyChain:
            if before is None or not online:
                raise
        assert vocabulary is not None, "pieces are held together by names"
        announced = [] if classes is None else [str(label) for label in classes]
        vocabulary = replace(vocabulary, labels=tuple(dict.fromkeys([*vocabulary.labels, *announced])))
        log = TrainingLog()
        if before is not None and before.passes:
            log = replace(self.training_log_, iterations=[*self.training_log_.iterations])
        begin = time.monotonic() - (log.training_seconds or 0.0)
        with watched(bool(self.verbose), log) as report:
            if online:
                trainer = copy.deepcopy(self._online) if before is not None else None
                trainer = trainer or online_trainer(training, vocabulary, self.forget)
                if announced:
                    trainer.weights.grow(len(vocabulary.labels))
                learnt, step = learn_online(piece, vocabulary, trainer, before, lengths.counts, unfinished)
            else:
                assert piece is not None, "an empty one was refused"
                piece = replace(piece, n_labels=len(vocabulary.labels), vocabulary=vocabulary)
                learnt, step = learn(piece, training, before, self._constraints(piece))
            report(Progress(step._replace(iteration=learnt.passes), None, False, time.monotonic() - begin))
        log.featgen_num_features = learnt.model.layout.size
        self._keep(learnt.model, log, learnt, trainer)
        return self

    def _learns_online(self, training: Training, weights: Any) -> bool:
        """In constant memory; not after a fit, whose weights have had no gradients that could be gone on from."""
        plain = weights is None and self.scheme is None and not self.forbid and not self.allow
        begun = not self.__sklearn_is_fitted__() or self._online is not None
        return self.hash_bits is not None and training.algorithm == _BY_PIECES and plain and begun

    def _check_not_online(self, unfinished: bool) -> None:
        """Raise where nothing but learning online would do what is asked, or was begun."""
        for name, given in (("unfinished", unfinished), ("forget", self.forget is not None)):
            if given:
                raise ChainfoldError(
                    f"{name} means nothing to pieces that are not learnt from online: give hash_bits, and neither "
                    f"weights nor rules nor an algorithm but adagrad, to an estimator neither fitted nor loaded before."
                )
        if self.__sklearn_is_fitted__() and self._online is not None and self._online.rows > self._online.positions:
            raise ChainfoldError(
                "the piece before is unfinished, and this one cannot go on with it; end that by partial_fit([], [])."
            )

    def _keep(
        self, model: Model, log: TrainingLog, pieces: Learnt | None = None, online: OnlineTrainer | None = None
    ) -> None:
        self.model_, self.training_log_, self._pieces, self._online = model, log, pieces, online
        self._tagger: Tagger | None = None
        self._features: dict[str, dict[tuple[str, str], float]] = {}

    def _learnt(self) -> Learnt | None:
        """What to go on from."""
        if not self.__sklearn_is_fitted__():
            return None
        return self._pieces or Learnt(self.model_)

    def _options(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in _OPTIONS} | {"type": self.pa_type}
        return {name: value for name, value in given.items() if value is not None}

    def _training(self, options: Mapping[str, Any], algorithm: str | None = None) -> Training:
        patience = {} if self.patience is None else {"patience": self.patience}
        return Training(
            algorithm or self.algorithm or "lbfgs",
            options,
            all_possible_states=bool(self.all_possible_states),
            all_possible_transitions=bool(self.all_possible_transitions),
            early_stopping=bool(self.early_stopping),
            **patience,
        )

    def _training_at_once(self) -> Training:
        options, lbfgs = self._options(), self._training({}).algorithm == "lbfgs"
        return self._training({name: value for name, value in options.items() if not lbfgs or name not in _OF_PIECES})

    def _training_by_pieces(self) -> Training:
        """Pieces are not the whole: no penalty and no falling rate, unless asked for."""
        options = self._options()
        if self._training({}).algorithm == "lbfgs":
            options = {name: value for name, value in options.items() if name in option_names(_BY_PIECES)}
            return self._training({"c2": 0.0, "decay": 0.0, **options}, _BY_PIECES)
        if self._training({}).algorithm in MISTAKES:
            return self._training(options)
        return self._training({"c2": 0.0, "decay": 0.0, **options})

    def _encoding(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self.min_freq is not None:
            if not isinstance(self.min_freq, (int, float, np.integer)) or not math.isfinite(self.min_freq):
                raise BadSetting("min_freq", self.min_freq, "a finite number")
            options["min_count"] = max(1, math.ceil(self.min_freq))
        if self.hash_bits is not None:
            options["hash_bits"] = self.hash_bits
        return {**options, **(self.encoding or {})}

    def _constraints(self, source: Source) -> Constraints | None:
        if self.scheme is None and not self.forbid and not self.allow:
            return None
        labels = label_names(vocabulary_of(source), source.n_labels)
        return Constraints.of(labels, self.scheme, _listed(self.forbid), _listed(self.allow))

    # Labelling

    def predict(self, X: Any) -> Objects:  # noqa: N803
        """The best labels of each sequence: an array of lists."""
        found = self._found(X, Want())
        return found.lists(found.named(found.each("labels")))

    def predict_single(self, xseq: Iterable[Any]) -> list[str]:
        """The best labels of one sequence."""
        labels: list[str] = self.predict([xseq])[0]
        return labels

    def predict_marginals(self, X: Any) -> Objects:  # noqa: N803
        """The probability of every label at each position: an array of lists of dicts."""
        found = self._found(X, Want(labels=False, posteriors=True))
        names = found.names
        return found.lists([dict(zip(names, row, strict=True)) for row in found.each("posteriors").tolist()])

    def predict_marginals_single(self, xseq: Iterable[Any]) -> list[dict[str, float]]:
        """The probability of every label at each position of one sequence."""
        marginals: list[dict[str, float]] = self.predict_marginals([xseq])[0]
        return marginals

    def predict_nbest(self, X: Any, k: int = 5) -> Objects:  # noqa: N803
        """The k best labellings of each sequence, best first, with their probabilities: (labels, probability)."""
        if not isinstance(k, int) or k < 1:
            raise BadSetting("k", k, "a whole number, at least 1")
        found = self._found(X, Want(labels=False, nbest=k, probability=True))
        ranked = [found.pieces(found.named(rank)) for rank in found.each("nbest", axis=1)]
        gaps, log_probability = found.whole("gaps").tolist(), found.whole("log_probability").ravel().tolist()
        best = [
            [(ranked[rank][s], math.exp(first + gap)) for rank, gap in enumerate(gaps[s]) if gap > -math.inf]
            for s, first in enumerate(log_probability)
        ]
        return found.aligned(best, lambda: [([], 1.0)])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: N803
        """The share of positions whose label is right; a sample weight is that of a sequence."""
        found = self._found(X, Want(), y)
        weights = found.weights(sample_weight) * (found.gold >= 0)
        if not weights.sum() > 0.0:
            raise ChainfoldError("there is no position with a label to score.")
        return float(np.sum(weights * (found.each("labels") == found.gold)) / np.sum(weights))

    def entropy(self, X: Any) -> Floats:  # noqa: N803
        """How unsure the labels of each sequence are, in nats."""
        found = self._found(X, Want(labels=False, entropy=True))
        return found.aligned(found.whole("entropy"), float).astype(np.float64)

    def log_probability(self, X: Any, y: Any = None) -> Floats:  # noqa: N803
        """The log probability of the labels of each sequence; -inf where a label is impossible or was never seen."""
        found = self._found(X, Want(labels=False, given=True), y)
        unseen = np.array([piece.max() >= len(found.names) for piece in found.pieces(found.gold)], bool)
        return found.aligned(np.where(unseen, -np.inf, found.whole("given")), float).astype(np.float64)

    def _found(self, X: Any, want: Want, y: Any = None) -> _Found:  # noqa: N803
        model = self._fitted()
        feed = known(X, y, model.vocabulary, self._encoding())
        if self._tagger is None or self._tagger.model is not model:
            self._tagger = Tagger(model, memory=self.memory)
        gold = [np.empty(0, np.int32)]

        def blocks() -> Iterator[Any]:
            for one in feed.blocks:
                gold.append(one.gold)
                yield one.block

        tagged = list(self._tagger.run(blocks(), want))
        return _Found(self.classes_, tagged, np.concatenate(gold), feed.lengths)

    # What was learnt

    def _fitted(self) -> Model:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this CRF is not fitted yet; call fit with sequences and their labels first.")
        model: Model = self.model_
        return model

    @property
    def classes_(self) -> list[str]:
        """The labels."""
        model = self._fitted()
        return list(label_names(model.vocabulary, model.layout.n_labels))

    @property
    def attributes_(self) -> list[str]:
        """The attributes that have a weight."""
        model = self._fitted()
        names = None if model.vocabulary is None else model.vocabulary.attributes
        if names is None:
            return [f"attribute {number}" for number in range(model.layout.n_attributes)]
        listed: list[str] = names.to_pylist()
        return listed

    @property
    def num_attributes_(self) -> int:
        return self._fitted().layout.n_attributes

    @property
    def size_(self) -> int:
        """Bytes of the weights."""
        return self._fitted().weights.nbytes

    @property
    def n_iter_(self) -> int:
        """Iterations, or passes over the data."""
        training = self._fitted().training
        return int(training.get("iterations", training.get("passes", 0)))

    @property
    def state_features_(self) -> dict[tuple[str, str], float]:
        """The weights of attributes with labels that are not zero: {(attribute, label): weight}."""
        return self._once("state", self._state_features)

    def _once(self, kind: str, make: Callable[[], dict[tuple[str, str], float]]) -> dict[tuple[str, str], float]:
        """Made when first asked for, and kept as long as the model is."""
        self._fitted()
        if kind not in self._features:
            self._features[kind] = make()
        return self._features[kind]

    def _state_features(self) -> dict[tuple[str, str], float]:
        layout, labels, attributes = self._fitted().layout, self.classes_, self.attributes_
        weights = self._fitted().weights[: layout.n_state]
        places = np.flatnonzero(weights)
        rows = np.searchsorted(layout.features.begin, places, side="right") - 1
        of = zip(rows.tolist(), layout.features.label[places].tolist(), weights[places].tolist(), strict=True)
        return {(attributes[row], labels[label]): weight for row, label, weight in of}

    @property
    def transition_features_(self) -> dict[tuple[str, str], float]:
        """The weights of transitions that are not zero, -inf for those forbidden: {(from, to): weight}."""
        return self._once("transition", self._transition_features)

    def _transition_features(self) -> dict[tuple[str, str], float]:
        layout, labels = self._fitted().layout, self.classes_
        pairs = self._fitted().weights[layout.n_state :][: layout.n_labels**2].reshape(layout.n_labels, -1)
        rows, columns = np.nonzero(pairs)
        of = zip(rows.tolist(), columns.tolist(), pairs[rows, columns].tolist(), strict=True)
        return {(labels[i], labels[j]): weight for i, j, weight in of}

    # Keeping

    def save(self, path: str | Path) -> None:
        """Store the model in a file, for `CRF.load` and for the command line."""
        save_model(path, self._fitted())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """A fitted estimator, from a file that `save` or `chainfold train` wrote, with the settings it was made by.

        The sums of AdaGrad are not in the file: `partial_fit` goes on from the weights alone, and not online.
        """
        model = open_model(path)
        values = model.training.get("objective", [])
        log = TrainingLog([{"num": k + 1, "loss": value} for k, value in enumerate(values)], model.layout.size)
        bits = None if model.vocabulary is None else model.vocabulary.hash_bits
        loaded = cls(**_parameters(model.training), hash_bits=bits)
        loaded._keep(model, log)
        return loaded

    def __getstate__(self) -> dict[str, Any]:
        """Arrays and names alone, and nothing that can be made of them."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "model_" in state:
            state["_tagger"], state["_features"] = None, {}
            state["model_"] = _plain(state["model_"])
            if state["_pieces"] is not None:
                state["_pieces"] = replace(state["_pieces"], model=state["model_"])
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        tags.input_tags.string = True
        tags.target_tags.two_d_labels = True
        return tags


class _Found:
    """What was found of some sequences, and which of it belongs to which."""

    def __init__(self, names: list[str], tagged: list[Any], gold: NDArray[np.int32], lengths: Lengths | None) -> None:
        self.names, self.gold = names, gold
        self._tagged, self._lengths = tagged, lengths
        self._begins = np.flatnonzero(self.each("starts")).tolist()

    def each(self, name: str, axis: int = 0) -> NDArray[Any]:
        """What was found of the positions."""
        parts = [getattr(one, name) for one in self._tagged]
        return np.concatenate(parts, axis) if parts else np.empty((0,) * (1 + axis), np.int32)

    def whole(self, name: str) -> NDArray[Any]:
        """What was found of the sequences."""
        parts = [getattr(one.sequences, name) for one in self._tagged]
        return np.concatenate(parts) if parts else np.empty((0, 0))

    def named(self, labels: NDArray[np.int32]) -> list[str]:
        named: list[str] = np.array([*self.names, ""], object)[labels].tolist()
        return named

    def pieces(self, values: Any) -> list[Any]:
        """What there is of each position, by sequence."""
        ends = [*self._begins[1:], len(values)]
        return [values[begin:end] for begin, end in zip(self._begins, ends, strict=True)] if self._begins else []

    def lists(self, values: list[Any]) -> Objects:
        return self.aligned(self.pieces(values), list)

    def aligned(self, of_sequences: Iterable[Any], empty: Callable[[], Any]) -> Objects:
        """What there is of each sequence, and something for those without positions."""
        each = iter(of_sequences)
        values = list(each) if self._lengths is None else [next(each) if n else empty() for n in self._lengths.counts]
        array = np.empty(len(values), object)
        for k, value in enumerate(values):
            array[k] = value
        return array

    def weights(self, of_sequences: ArrayLike | None) -> Floats:
        """Of the positions, those of their sequences."""
        lengths = [len(piece) for piece in self.pieces(self.gold)] if self._lengths is None else self._lengths.counts
        if of_sequences is None:
            return np.ones(self.gold.size)
        given = checked_weights(of_sequences, np.size(of_sequences))
        if given.shape != (len(lengths),):
            raise ChainfoldError(
                f"there are {given.size} sample weights, but {len(lengths)} sequences; give one for each."
            )
        return np.repeat(given, lengths)


def _listed(rules: Sequence[str] | None) -> Sequence[str]:
    """Several rules, or one."""
    return [rules] if isinstance(rules, str) else rules or ()


def _parameters(training: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a record of training speaks of."""
    given = {**training, "pa_type": training.get("type")}
    names = {"algorithm", "pa_type", "all_possible_states", "all_possible_transitions", *_OPTIONS}
    return {name: given[name] for name in sorted(names) if given.get(name) is not None}


def _named(model: Model) -> Vocabulary:
    if model.vocabulary is None:
        raise ChainfoldError("a model grows by names, and this one knows labels and attributes by number alone.")
    return model.vocabulary


def _in_memory(model: Model) -> Model:
    """The model with names that no file has to stay for."""
    vocabulary = model.vocabulary
    if vocabulary is None:
        return model
    names = {
        kind: getattr(vocabulary, kind).take(np.arange(len(getattr(vocabulary, kind))))
        for kind in ("attributes", "edge_attributes")
        if getattr(vocabulary, kind) is not None
    }
    return replace(model, vocabulary=replace(vocabulary, **names))


def _plain(model: Model) -> Model:
    """The model without what was derived from its layout."""
    return replace(model, layout=replace(model.layout))
