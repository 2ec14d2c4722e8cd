"""The scikit-learn estimator: `CRF` fits, predicts and scores as sklearn-crfsuite's estimator of that name does."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from chainfold import pycrfsuite
from chainfold.chain.block import Source, vocabulary_of
from chainfold.chain.vocabulary import Vocabulary, label_names
from chainfold.errors import BadSetting, ChainfoldError, EmptyChain, NoModelFile
from chainfold.exchange.any_model import open_any_model
from chainfold.inference.explanation import Explanation, explanations
from chainfold.inference.tagger import Tagger, Want
from chainfold.model.constraints import Constraints
from chainfold.model.file import model_bytes, save_model
from chainfold.model.layout import Floats
from chainfold.model.model import Model
from chainfold.model.named_weights import attribute_names, state_weights, transition_weights
from chainfold.sklearn.base import BaseEstimator, NotFittedError
from chainfold.sklearn.crf_inputs import (
    Lengths,
    development,
    further,
    in_sequences,
    known,
    label_texts,
    learnable,
    with_labels,
)
from chainfold.sklearn.fit_record import LabelTypes, n_features, recorded, recorded_features, typed_labels
from chainfold.sklearn.log import TrainingLog, log_of, reporter
from chainfold.sklearn.predictions import Objects, Predictions, dicts
from chainfold.system.archive import FileSource
from chainfold.system.machine import cores
from chainfold.training.incremental import IncrementalState, learn, learn_online, online_trainer
from chainfold.training.loop import IterationReport, Training, option_names, train
from chainfold.training.online.trainer import OnlineTrainer
from chainfold.training.perceptron import ALGORITHMS as PERCEPTRONS

_OPTIONS = (
    *("c1", "c2", "max_iterations", "num_memories", "epsilon", "period", "delta", "linesearch", "max_linesearch"),
    *("c", "error_sensitive", "averaging", "variance", "gamma"),
    *("rate", "decay", "batch", "seed"),
)
_OF_PIECES = {"rate", "decay", "batch", "seed"}  # settings that lbfgs itself has no use for
_BY_PIECES = "adagrad"  # replaces lbfgs, which cannot train on pieces

Weights = dict[tuple[Any, Any], float]  # by attribute and label, or by two labels


@dataclass(eq=False, repr=False)
class CRF(BaseEstimator):  # type: ignore[misc]
    """A linear-chain conditional random field, as a scikit-learn estimator.

    X is a list of sequences, each a list of items, each a dict or a list of strings, and y a list of lists of labels;
    iterators are supported. A sequence may also be an array with a row for each position, dense or sparse, or a list of
    tokens; with `lengths`, X is all sequences one after another. X may also be a `pathlib.Path` of a file or a list of
    such, a table (Arrow, pandas, polars), a chain, or a list of dicts with `tokens` and `tags`; these contain their
    labels, and y is left out. Labels that are whole numbers or booleans are returned as such.

    None is CRFsuite's default or, for parameters that CRFsuite does not have, that of the algorithm. Parameters are
    checked by `fit`, which raises `ChainfoldError` for those that are wrong.

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
    scheme, forbid, allow      constraints on labels: BIO, IOB1, IOBES or BILOU; transitions FROM>TO to forbid, to allow
    hash_bits                  hash attributes to this many bits: constant memory, and no names
    forget                     of partial_fit with hash_bits: positions after which a gradient counts half in AdaGrad
    encoding                   options of `encode` for files and tables, for instance {"label": "tag"}
    engine, threads, memory    how gradients are computed; threads default to the number of cores
    verbose                    write the iterations to stderr
    model_filename             a file that each fit writes the model to; where it exists, no fit is needed
    keep_tempfiles             no effect, as there are no temporary files; for programs written for sklearn-crfsuite

    >>> X = [[{"word": "the"}, {"word": "cat"}], [{"word": "a"}, {"word": "dog"}]]
    >>> crf = CRF(max_iterations=20).fit(X, [["DT", "NN"], ["DT", "NN"]])
    >>> crf.predict([[{"word": "the"}, {"word": "dog"}]])[0]
    ['DT', 'NN']
    """

    algorithm: str | None = None
    min_freq: float | None = None
    all_possible_states: bool | None = None
    all_possible_transitions: bool | None = None
    c1: float | None = None
    c2: float | None = None
    max_iterations: int | None = None
    num_memories: int | None = None
    epsilon: float | None = None
    period: int | None = None
    delta: float | None = None
    linesearch: str | None = None
    max_linesearch: int | None = None
    pa_type: int | None = None
    c: float | None = None
    error_sensitive: bool | None = None
    averaging: bool | None = None
    variance: float | None = None
    gamma: float | None = None
    verbose: bool = False
    model_filename: str | Path | None = None
    _: KW_ONLY
    keep_tempfiles: bool = False
    trainer_cls: Any = None
    rate: float | None = None
    decay: float | None = None
    batch: int | None = None
    seed: int | None = None
    patience: int | None = None
    early_stopping: bool = True
    scheme: str | None = None
    forbid: Sequence[str] | None = None
    allow: Sequence[str] | None = None
    hash_bits: int | None = None
    forget: float | None = None
    encoding: Mapping[str, Any] | None = None
    engine: str | None = None
    threads: int | None = None
    memory: int | None = None

    # Learning

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        X_dev: Any = None,  # noqa: N803
        y_dev: Any = None,
        sample_weight: Any = None,
        lengths: Any = None,
    ) -> Self:
        """Train a model, and return the estimator.

        With X_dev, training stops when its score no longer improves, and the best weights are kept, unless
        `early_stopping` is False. Sample weights are one for each sequence. `lengths` are those of the
        sequences where X and y are one long array or list. Data with a single label cause a warning.
        """
        training = self._training_at_once()
        if self.forget is not None:
            raise ChainfoldError("`forget` requires partial_fit with `hash_bits`; leave it out of fit.")
        if X_dev is None and y_dev is not None:
            raise ChainfoldError("`y_dev` requires `X_dev`; give both, or neither.")
        log, encoding, types = TrainingLog(), self._encoding(), LabelTypes()
        inputs, y = in_sequences(X, y, lengths)
        y = types.noting(with_labels(inputs, y, encoding))
        width = n_features(inputs)
        with learnable(inputs, y, sample_weight, encoding) as source:
            model = train(
                source,
                training,
                dev=None if X_dev is None else development(X_dev, y_dev, source, encoding),
                constraints=self._constraints(source),
                engine="parallel" if self.engine is None else self.engine,
                threads=cores() if self.threads is None else self.threads,
                memory=self.memory,
                report=reporter(bool(self.verbose), log),
            )
        log.featgen_num_features = model.layout.size
        model = replace(model, training=recorded(model.training, types.name, width))
        self._keep(in_memory(model), log)
        self._write()
        return self

    def partial_fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        classes: Iterable[Any] | None = None,
        sample_weight: Any = None,
        unfinished: bool = False,
    ) -> Self:
        """Train on one more piece of data, once, and return the estimator; new labels and attributes get weights.

        The algorithm is that of `fit`, or AdaGrad instead of lbfgs. `classes` may announce labels. There is no penalty
        unless c2 is given; it counts in full for each piece.

        With `hash_bits` AdaGrad trains as `chainfold learn` does: in order and in constant memory, where c2 is the
        decay of weights over a million positions. The last sequence of a piece may then be `unfinished`: the first
        sequence of the next piece continues it, and rows are kept until enough of the following ones is known, so that
        the model does not depend on where rows are cut into pieces. A finished piece, also an empty one, ends the
        sequence, and the rows that were kept are trained on.
        """
        training, past = self._training_by_pieces(), self._or_none()
        online = self._learns_online(training, sample_weight)
        if not online:
            self._check_not_online(unfinished)
        before, lengths, trainer = self._learnt(), Lengths(), None
        record = {} if past is None else past.training
        classes, types, width = None if classes is None else list(classes), LabelTypes(), n_features(X)
        y = types.noting(with_labels(X, y, self._encoding()))
        types.note(classes or ())
        vocabulary, piece = None if before is None else _named(before.model), None
        try:
            given = recorded_features(record)
            piece = further(X, lengths.noting(y), sample_weight, vocabulary, self._encoding(), given)
            vocabulary = piece.vocabulary
        except EmptyChain:
            if before is None or not online:
                raise
        assert vocabulary is not None, "pieces are held together by names"
        announced = label_texts(classes or (), vocabulary)
        vocabulary = replace(vocabulary, labels=tuple(dict.fromkeys([*vocabulary.labels, *announced])))
        log = TrainingLog()
        if before is not None and before.passes:
            log = replace(self._log, iterations=[*self._log.iterations])
        begin = time.monotonic() - (log.training_seconds or 0.0)
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
        report = IterationReport(step._replace(iteration=learnt.passes), None, False, time.monotonic() - begin)
        reporter(bool(self.verbose), log)(report)
        log.featgen_num_features = learnt.model.layout.size
        about = recorded(learnt.model.training, types.with_past(record), recorded_features(record) or width)
        learnt = replace(learnt, model=replace(learnt.model, training=about))
        self._keep(learnt.model, log, learnt, trainer)
        self._write()
        return self

    def _learns_online(self, training: Training, weights: Any) -> bool:
        """Whether training is online; not after `fit`, which leaves no sums of gradients to continue."""
        plain = weights is None and self.scheme is None and not self.forbid and not self.allow
        begun = not self.__sklearn_is_fitted__() or self._online is not None
        return self.hash_bits is not None and training.algorithm == _BY_PIECES and plain and begun

    def _check_not_online(self, unfinished: bool) -> None:
        """Raise for parameters that require online training, and for an unfinished sequence."""
        for name, given in (("unfinished", unfinished), ("forget", self.forget is not None)):
            if given:
                raise ChainfoldError(
                    f"`{name}` requires online training: set `hash_bits` and use algorithm='adagrad' without weights "
                    f"or constraints, on an estimator that was neither fitted nor loaded before."
                )
        if self.__sklearn_is_fitted__() and self._online is not None and self._online.rows > self._online.positions:
            raise ChainfoldError(
                "the last sequence is unfinished, and this piece cannot continue it; end it with partial_fit([], [])."
            )

    def _keep(
        self,
        model: Model,
        log: TrainingLog,
        pieces: IncrementalState | None = None,
        online: OnlineTrainer | None = None,
    ) -> None:
        self.model_, self._log, self._pieces, self._online = model, log, pieces, online
        self._tagger: Tagger | None = None
        self._made: dict[Any, Any] = {}

    def _write(self) -> None:
        """Store the model in `model_filename`, if it is given."""
        if self.model_filename is not None:
            self.save(self.model_filename)

    def _learnt(self) -> IncrementalState | None:
        """The state to continue from."""
        model = self._or_none()
        return None if model is None else self._pieces or IncrementalState(model)

    def _options(self) -> dict[str, Any]:
        if self.trainer_cls is not None:
            raise ChainfoldError("`trainer_cls` is not supported; call that subclass of `pycrfsuite.Trainer` itself.")
        given = {name: getattr(self, name) for name in _OPTIONS} | {"type": self.pa_type}
        if given["epsilon"] is None and self._training({}).algorithm in PERCEPTRONS:
            given["epsilon"] = 0.0  # CRFsuite's default; that of `Training` is larger
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
        """A piece is not the whole: no penalty and no falling rate, unless given."""
        options, algorithm = self._options(), self._training({}).algorithm
        if algorithm in PERCEPTRONS:
            return self._training(options)
        if algorithm == "lbfgs":
            algorithm = _BY_PIECES
            options = {name: value for name, value in options.items() if name in option_names(algorithm)}
        return self._training({"c2": 0.0, "decay": 0.0, **options}, algorithm)

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

    def predict(self, X: Any, lengths: Any = None) -> Objects:  # noqa: N803
        """The best labels of each sequence: an array of lists."""
        result = self._predictions(X, Want(), lengths=lengths)
        return result.aligned(result.pieces(result.named(result.each("labels"))), list)

    def predict_single(self, xseq: Iterable[Any]) -> list[str]:
        """The best labels of one sequence."""
        tagger = self._ready_tagger()
        numbers = tagger.sentences.labels(xseq)
        if numbers is None:
            labels: list[str] = self.predict([xseq])[0]
            return labels
        names = _classes(tagger.model)
        return [names[number] for number in numbers.tolist()]

    def predict_marginals(self, X: Any, lengths: Any = None) -> Objects:  # noqa: N803
        """The probability of every label at each position: an array of lists of dicts."""
        result = self._predictions(X, Want(labels=False, posteriors=True), lengths=lengths)
        return result.aligned(result.pieces(dicts(result.names, result.each("posteriors"))), list)

    def predict_marginals_single(self, xseq: Iterable[Any]) -> list[dict[str, float]]:
        """The probability of every label at each position of one sequence."""
        tagger = self._ready_tagger()
        posteriors = tagger.sentences.posteriors(xseq)
        if posteriors is None:
            marginals: list[dict[str, float]] = self.predict_marginals([xseq])[0]
            return marginals
        return dicts(_classes(tagger.model), posteriors)

    def predict_nbest(self, X: Any, k: int = 5, lengths: Any = None) -> Objects:  # noqa: N803
        """The k best labellings of each sequence, best first, with their probabilities: (labels, probability)."""
        if not isinstance(k, int) or k < 1:
            raise BadSetting("k", k, "a whole number, at least 1")
        result = self._predictions(X, Want(labels=False, nbest=k, probability=True), lengths=lengths)
        ranked = [result.pieces(result.named(rank)) for rank in result.each("nbest", axis=1)]
        gaps, firsts = result.whole("gaps").tolist(), result.whole("log_probability").ravel().tolist()
        best = [
            [(ranked[rank][s], math.exp(first + gap)) for rank, gap in enumerate(gaps[s]) if gap > -math.inf]
            for s, first in enumerate(firsts)
        ]
        return result.aligned(best, lambda: [([], 1.0)])

    def explain(self, xseq: Iterable[Any]) -> list[Explanation]:
        """Explain the label of each position of one sequence by an `Explanation`.

        Its terms, of attributes and transitions, add up to the difference between the scores of the best labelling and
        of the best one with another label there.

        >>> crf = CRF().fit([[["w=a"], ["w=b"]]], [["X", "Y"]])
        >>> [(explanation.label, explanation.other) for explanation in crf.explain([["w=a"], ["w=b"]])]
        [('X', 'Y'), ('Y', 'X')]
        """
        model = self._fitted()
        feed = known([xseq], None, model.vocabulary, self._encoding(), recorded_features(model.training))
        return list(explanations(model, (known_block.block for known_block in feed.blocks)))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, lengths: Any = None) -> float:  # noqa: N803
        """The share of positions whose label is right; a sample weight is that of a sequence."""
        result = self._predictions(X, Want(), y, lengths)
        weights = result.weights(sample_weight) * (result.gold >= 0)
        if not weights.sum() > 0.0:
            raise ChainfoldError("there is no position with a label to score.")
        return float(np.sum(weights * (result.each("labels") == result.gold)) / np.sum(weights))

    def entropy(self, X: Any, lengths: Any = None) -> Floats:  # noqa: N803
        """The entropy of the labelling of each sequence, in nats."""
        result = self._predictions(X, Want(labels=False, entropy=True), lengths=lengths)
        return result.aligned(result.whole("entropy"), float).astype(np.float64)

    def log_probability(self, X: Any, y: Any = None, lengths: Any = None) -> Floats:  # noqa: N803
        """The log probability of the labels of each sequence; -inf where a label is impossible or was never seen."""
        result = self._predictions(X, Want(labels=False, given=True), y, lengths)
        unseen = np.array([piece.max() >= len(result.names) for piece in result.pieces(result.gold)], bool)
        return result.aligned(np.where(unseen, -np.inf, result.whole("given")), float).astype(np.float64)

    def _predictions(self, X: Any, want: Want, y: Any = None, lengths: Any = None) -> Predictions:  # noqa: N803
        model = self._fitted()
        inputs, y = in_sequences(X, y, lengths)
        feed = known(inputs, y, model.vocabulary, self._encoding(), recorded_features(model.training))
        tagger = self._ready_tagger()
        gold = [np.empty(0, np.int32)]

        def blocks() -> Iterator[Any]:
            for known_block in feed.blocks:
                gold.append(known_block.gold)
                yield known_block.block

        tagged = list(tagger.run(blocks(), want))
        return Predictions(_classes(model), tagged, np.concatenate(gold), feed.lengths)

    def _ready_tagger(self) -> Tagger:
        """The tagger of the model as it is now, which any number of threads may use."""
        model, tagger = self._fitted(), self._tagger
        if tagger is None or tagger.model is not model:
            tagger = self._tagger = Tagger(model, memory=self.memory)
        return tagger

    # Attributes of a fitted estimator

    def _fitted(self) -> Model:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this CRF is not fitted yet; call fit with sequences and their labels first.")
        if "model_" not in vars(self):
            assert self.model_filename is not None, "that is what it takes to be fitted without a model"
            model = open_any_model(self.model_filename)
            self._keep(model, log_of(model))
        fitted: Model = self.model_
        return fitted

    def _or_none(self) -> Model | None:
        """The model, if there is one."""
        return self._fitted() if self.__sklearn_is_fitted__() else None

    def _of_model(self, make: Callable[[Model], Any]) -> Any:
        """A property of the model; None where there is none."""
        model = self._or_none()
        return None if model is None else make(model)

    def _once(self, make: Callable[[Model], Any]) -> Any:
        """A property of the model that is made when first asked for, and kept as long as the model is."""
        return self._of_model(lambda model: self._made.get(make) or self._made.setdefault(make, make(model)))

    @property
    def classes_(self) -> Any:
        """A list of the labels; None before `fit`, as what follows."""
        return self._of_model(_classes)

    @property
    def attributes_(self) -> Any:
        """A list of the attributes that have a weight."""
        return self._of_model(attribute_names)

    @property
    def num_attributes_(self) -> Any:
        """The number of attributes that have a weight."""
        return self._of_model(lambda model: model.layout.n_attributes)

    @property
    def size_(self) -> Any:
        """Bytes of the model's file."""
        return self._of_model(lambda model: len(model_bytes(model)))

    @property
    def training_log_(self) -> Any:
        """The iterations of training, as `TrainingLog`."""
        return self._of_model(lambda model: self._log)

    @property
    def tagger_(self) -> Any:
        """The model as a `pycrfsuite.Tagger`, whose labels are texts."""
        return self._once(pycrfsuite.Tagger.of)

    @property
    def state_features_(self) -> Any:
        """The weights of attributes with labels that are not zero: {(attribute, label): weight}."""
        return self._once(_state_features)

    @property
    def transition_features_(self) -> Any:
        """The weights of transitions that are not zero, -inf for those forbidden: {(from, to): weight}."""
        return self._once(_transition_features)

    @property
    def n_iter_(self) -> int:
        """Iterations, or passes over the data."""
        training = self._fitted().training
        return int(training.get("iterations", training.get("passes", 0)))

    @property
    def modelfile(self) -> Any:
        """An attribute of sklearn-crfsuite's `CRF`; raises `NoModelFile`."""
        raise NoModelFile

    # Keeping

    def save(self, path: str | Path) -> None:
        """Store the model in a file, for `CRF.load` and for the command line."""
        save_model(path, self._fitted())

    def dumps(self) -> bytes:
        """The bytes of the file that `save` writes, for `CRF.load`."""
        return model_bytes(self._fitted())

    @classmethod
    def load(cls, source: FileSource) -> Self:
        """A fitted estimator, with the settings it was made by.

        source   a file that `save` or `chainfold train` wrote, or a model of CRFsuite, Wapiti or CRF++: its path, its
                 bytes, or the file, open for reading

        Raises `BadFile` where it is no model. The sums of AdaGrad are not in the file: `partial_fit` goes on from the
        weights alone, and not online.
        """
        model = open_any_model(source)
        bits = None if model.vocabulary is None else model.vocabulary.hash_bits
        loaded = cls(**_parameters(model.training), hash_bits=bits)
        loaded._keep(model, log_of(model))
        return loaded

    def __getstate__(self) -> dict[str, Any]:
        """Arrays and names alone, and nothing that can be made of them."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "model_" in state:
            state["_tagger"], state["_made"] = None, {}
            state["model_"] = _plain(state["model_"])
            if state["_pieces"] is not None:
                state["_pieces"] = replace(state["_pieces"], model=state["model_"])
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self) or (self.model_filename is not None and Path(self.model_filename).exists())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        tags.input_tags.string = True
        tags.target_tags.two_d_labels = True
        return tags


def _classes(model: Model) -> list[Any]:
    """The labels, as they were given to `fit`."""
    return typed_labels(label_names(model.vocabulary, model.layout.n_labels), model.training)


def _typed(model: Model) -> dict[str, Any]:
    """The labels as they were given, by their names in the model."""
    return dict(zip(label_names(model.vocabulary, model.layout.n_labels), _classes(model), strict=True))


def _state_features(model: Model) -> Weights:
    typed = _typed(model)
    return {(attribute, typed[label]): weight for (attribute, label), weight in state_weights(model).items()}


def _transition_features(model: Model) -> Weights:
    typed = _typed(model)
    return {(typed[before], typed[after]): weight for (before, after), weight in transition_weights(model).items()}


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


def in_memory(model: Model) -> Model:
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
