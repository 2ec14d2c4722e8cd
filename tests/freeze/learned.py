"""Answers of training: the verbs, the estimator, pycrfsuite, rows as they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import chainfold as cf
from chainfold import pycrfsuite
from freeze.answers import CONVERGED, TRAINED, Answers
from freeze.samples import MODELS, Sample, chainfold
from verbs import sentences

_ALGORITHMS = ("lbfgs", "sgd", "adagrad", "adam", "ap", "pa", "arow")


def items(count: int, seed: int) -> tuple[list[list[dict[str, Any]]], list[list[str]]]:
    """Sentences of dicts with texts, numbers, booleans, lists and dicts; and their labels."""
    rows = sentences(count, seed=seed, noise=0.2)
    sequences = [
        [
            {"word": word, "upper": shape == "X", "length": len(word) / 3, "near": [word[0], shape], "in": {"s": shape}}
            for word, shape, _ in sentence
        ]
        for sentence in rows
    ]
    return sequences, [[tag for *_, tag in sentence] for sentence in rows]


def answer(answers: Answers, samples: Mapping[str, Sample], folder: Path) -> None:
    """Add what training gives."""
    for name in ("made-up", "log", "template", "conll-tags"):
        if name in samples:
            _verbs(answers, samples[name], folder)
    for name in ("made-up", "log"):
        _arriving(answers, samples[name], folder)
    _estimator(answers)
    _pycrfsuite(answers, folder)


def _verbs(answers: Answers, sample: Sample, folder: Path) -> None:
    name, model = f"learned/{sample.name}", folder / "trained.model"
    train = ["train", sample.train, *sample.options, "-o", model, "--fresh", "--quiet"]
    few = ["--max-iterations", "5"]
    for algorithm in _ALGORITHMS if sample.name != "conll-tags" else ("lbfgs", "ap", "adagrad"):
        stop = [*few, "--epsilon", "0"]
        chainfold(*train, "--algorithm", algorithm, *stop, folder=folder)
        answers.close(f"{name}/{algorithm}/weights", cf.open_model(model).weights, TRAINED)
    chainfold(*train, "--c1", "0.5", *few, folder=folder)
    answers.close(f"{name}/owlqn/weights", cf.open_model(model).weights, TRAINED)
    if sample.name == "conll-tags":
        return
    for c1 in ("0", "0.3"):
        chainfold(*train, "--c1", c1, "--c2", "0.5", "--delta", "1e-13", "--epsilon", "1e-9", folder=folder)
        opened, chain_file = cf.open_model(model), folder / "trained.chain"
        chainfold("encode", sample.train, *sample.options, "-o", chain_file, folder=folder)
        chain = cf.open_chain(chain_file)
        likelihood = cf.log_likelihood(opened, chain).log_likelihood
        assert likelihood is not None
        weights = opened.weights
        objective = float(c1) * np.abs(weights).sum() + 0.5 * (weights**2).sum() - likelihood
        answers.close(f"{name}/converged-{c1}/objective", objective, CONVERGED)
        answers.exact(f"{name}/converged-{c1}/labels", cf.tag(opened, chain).tolist())


def _arriving(answers: Answers, sample: Sample, folder: Path) -> None:
    """Rows in one pass."""
    name, model, table = f"learned/{sample.name}/learn", folder / "arriving.model", folder / "table.csv"
    chainfold(
        *("learn", sample.train, *sample.options, "-o", model, "--prequential", table, "--fresh", "--quiet"),
        folder=folder,
    )
    answers.close(f"{name}/weights", cf.open_model(model).weights, TRAINED)
    answers.exact(f"{name}/prequential", table.read_bytes())


def _estimator(answers: Answers) -> None:
    x_train, y = items(60, seed=11)
    unseen, gold = items(30, seed=12)
    for algorithm in _ALGORITHMS:
        crf = cf.CRF(algorithm=algorithm, max_iterations=5, threads=2).fit(x_train, y)
        state, transitions = crf.state_features_, crf.transition_features_
        answers.close(f"learned/estimator/{algorithm}/state", [state[key] for key in sorted(state)], TRAINED)
        answers.close(
            f"learned/estimator/{algorithm}/transitions", [transitions[key] for key in sorted(transitions)], TRAINED
        )
        answers.exact(f"learned/estimator/{algorithm}/labels", [list(labels) for labels in crf.predict(unseen)])
    crf = cf.CRF.load(MODELS / "items.model")
    answers.exact("learned/items/labels", [list(labels) for labels in crf.predict(unseen)])
    answers.exact("learned/items/single", [list(crf.predict_single(x)) for x in unseen])
    answers.close("learned/items/marginals", _table(crf.predict_marginals(unseen), crf.classes_))
    single = [crf.predict_marginals_single(x) for x in unseen]
    answers.close("learned/items/marginals/single", _table(single, crf.classes_))
    answers.exact(
        "learned/items/nbest", [[list(labels) for labels, _ in best] for best in crf.predict_nbest(unseen, k=3)]
    )
    answers.close("learned/items/entropy", crf.entropy(unseen))
    answers.close("learned/items/score", crf.score(unseen, gold))
    answers.close("learned/items/log_probability", crf.log_probability(unseen, gold))
    for lag in (None, 1):
        tagger, labels = cf.StreamTagger(MODELS / "items.model", marginals=True, max_lag=lag), []
        for x in unseen:
            for row in x:
                labels += [int(label) for label in tagger.push([row], start=row is x[0]).labels]
        labels += [int(label) for label in tagger.flush().labels]
        answers.exact(f"learned/items/stream/lag-{lag}", [labels, tagger.unproven])
    pieces = cf.CRF(algorithm="adagrad", rate=0.5)
    for low in range(0, 60, 20):
        pieces.partial_fit(x_train[low : low + 20], y[low : low + 20])
    answers.close("learned/estimator/partial_fit", sorted(pieces.state_features_.values()), TRAINED)


def _table(marginals: Any, classes: Any) -> list[float]:
    return [row[label] for sequence in marginals for row in sequence for label in classes]


def _pycrfsuite(answers: Answers, folder: Path) -> None:
    x_train, y = items(40, seed=21)
    trainer = pycrfsuite.Trainer(verbose=False, params={"c1": 0.1, "c2": 0.01, "max_iterations": 5})
    for x, labels in zip(x_train, y, strict=True):
        trainer.append(x, labels)
    model = folder / "pycrfsuite.model"
    trainer.train(str(model))
    assert trainer.logparser is not None
    last = trainer.logparser.last_iteration
    assert last is not None
    answers.close("learned/pycrfsuite/loss", last["loss"], TRAINED)
    answers.close("learned/pycrfsuite/weights", sorted(cf.open_model(model).weights), TRAINED)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(MODELS / "items.crfsuite"))
    unseen, gold = items(20, seed=22)
    answers.exact("learned/crfsuite/labels", [tagger.tag(x) for x in unseen])
    probabilities, marginals = [], []
    for x, labels in zip(unseen, gold, strict=True):
        tagger.set(x)
        probabilities.append(tagger.probability(labels))
        marginals += [tagger.marginal(label, t) for t in range(len(x)) for label in tagger.labels()]
    answers.close("learned/crfsuite/probabilities", probabilities)
    answers.close("learned/crfsuite/marginals", marginals)
    dump = folder / "dump.txt"
    tagger.dump(str(dump))
    answers.exact("learned/crfsuite/dump", dump.read_bytes())


def write_models() -> None:
    """The fixed models of items."""
    x_train, y = items(60, seed=11)
    crf = cf.CRF(c1=0.05, c2=0.05, max_iterations=60).fit(x_train, y)
    crf.save(MODELS / "items.model")
    cf.export_model(cf.open_model(MODELS / "items.model"), MODELS / "items.crfsuite", "crfsuite")
