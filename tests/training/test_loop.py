"""Training: it converges where others do, stops when told, and goes on from where it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import pycrfsuite
from chainfold import Chain, ChainfoldError, Layout, Model, Vocabulary
from chainfold.features.encode import chain_from_sequences
from chainfold.inference.whole_chain import tag
from chainfold.model.constraints import Constraints
from chainfold.model.file import open_model, save_model
from chainfold.training.loop import (
    ALGORITHMS,
    Development,
    Interrupted,
    IterationReport,
    SaveInterval,
    Saving,
    Training,
    train,
)
from chainfold.training.objective import Objective, WeightSpace
from chainfold.training.optimisers.base import Iteration

ONCE: dict[str, dict[str, Any]] = {
    "lbfgs": {"c1": 0.05, "c2": 0.1},
    "sgd": {"c2": 0.1, "max_iterations": 3, "batch": 60},
    "adagrad": {"c2": 0.1, "max_iterations": 3, "batch": 60},
    "adam": {"c2": 0.1, "max_iterations": 3, "batch": 60},
    "ap": {"max_iterations": 4},
    "pa": {"max_iterations": 4},
    "arow": {"max_iterations": 4},
}


def corpus(sequences: int = 60, seed: int = 0, edges: bool = False) -> Chain:
    """Short sequences over 30 words; a word usually has its own label, and labels like to stay."""
    random = np.random.default_rng(seed)
    items, labels = [], []
    for _ in range(sequences):
        length, label = int(random.integers(1, 12)), int(random.integers(3))
        sequence, theirs = [], []
        for _ in range(length):
            label = label if random.random() < 0.6 else int(random.integers(3))
            word = int(random.integers(10)) * 3 + (label if random.random() < 0.8 else int(random.integers(3)))
            sequence.append({"word": f"w{word}", "length": float(word % 4), "upper": word % 5 == 0})
            theirs.append("OBI"[label])
        items.append(sequence)
        labels.append(theirs)
    return chain_from_sequences(items, labels)


def points(sequence: list[IterationReport]) -> list[float]:
    return [progress.step.value for progress in sequence]


@pytest.fixture(scope="module")
def chain() -> Chain:
    return corpus()


def test_lbfgs_ends_where_scipy_does(chain: Chain) -> None:
    space = WeightSpace.of(chain)
    reference = minimize(
        Objective(space, c2=0.3),
        np.zeros(space.layout.size),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-10},
    )
    model = train(chain, Training("lbfgs", {"c2": 0.3, "epsilon": 1e-9, "period": 0}))
    assert model.training["objective"][-1] == pytest.approx(reference.fun, rel=1e-12)
    np.testing.assert_allclose(model.weights, reference.x, atol=1e-6)
    assert model.training["finished"].startswith("converged")


@pytest.mark.parametrize("c1", [0.0, 0.1])
def test_the_objective_is_that_of_crfsuite(c1: float, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c1": c1, "c2": 0.5, "epsilon": 1e-7, "delta": 1e-9, "feature.possible_transitions": True})
    items, labels = [], []
    for _ in range(40):
        size = int(random.integers(1, 9))
        items.append([{"w": str(int(random.integers(12))), "x": float(random.random())} for _ in range(size)])
        labels.append([str(int(random.integers(3))) for _ in range(size)])
        trainer.append(items[-1], labels[-1])
    trainer.train(str(tmp_path / "model"))
    theirs = trainer.logparser.last_iteration["loss"]
    options = {"c1": c1, "c2": 0.5, "epsilon": 1e-7, "delta": 1e-9}
    model = train(chain_from_sequences(items, labels), Training("lbfgs", options))
    assert model.training["objective"][-1] == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_learns(algorithm: str) -> None:
    chain = corpus(200)
    options: dict[str, Any] = {} if algorithm == "lbfgs" else {"max_iterations": 20}
    options |= {"rate": 0.02, "batch": 50} if algorithm == "sgd" else {}
    model = train(chain, Training(algorithm, options))
    assert (tag(model, chain) == chain.labels).mean() > 0.75
    assert model.training["algorithm"] == algorithm
    assert len(model.training["objective"]) == model.training["iterations"] > 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_any_number_of_threads_gives_the_same_bytes(algorithm: str, chain: Chain, tmp_path: Path) -> None:
    for threads in (1, 2):
        save_model(tmp_path / f"{threads}.cf", train(chain, Training(algorithm, ONCE[algorithm]), threads=threads))
    assert (tmp_path / "1.cf").read_bytes() == (tmp_path / "2.cf").read_bytes()


@pytest.mark.parametrize("with_dev", [False, True], ids=["plain", "with a development set"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_interrupted_run_ends_with_the_same_bytes(algorithm: str, with_dev: bool, tmp_path: Path) -> None:
    chain, dev = corpus(), corpus(20, seed=1) if with_dev else None
    training = Training(algorithm, ONCE[algorithm])
    save_model(tmp_path / "whole.cf", train(chain, training, dev=dev))
    state, pieces = tmp_path / "run", 0
    for _ in range(300):
        try:
            model = train(
                chain, training, dev=dev, saving=Saving(state, SaveInterval(10**9), resume=True), stop=lambda: True
            )
            break
        except Interrupted:
            pieces += 1
            assert state.exists()
    else:
        pytest.fail("the run never ends")
    assert pieces > 2
    save_model(tmp_path / "pieces.cf", model)
    assert (tmp_path / "pieces.cf").read_bytes() == (tmp_path / "whole.cf").read_bytes()


def test_a_run_is_not_resumed_with_other_settings(chain: Chain, tmp_path: Path) -> None:
    saving = Saving(tmp_path / "run", SaveInterval(1), resume=True)
    chain = chain.with_vocabulary(_marked(chain))
    with pytest.raises(Interrupted):
        train(chain, Training("lbfgs", {"c2": 1.0}), saving=saving, stop=lambda: True)
    with pytest.raises(
        ChainfoldError, match=r"run: the run was begun with `c2` = 1.0, and now `c2` is 2.0; resume with the same"
    ):
        train(chain, Training("lbfgs", {"c2": 2.0}), saving=saving)
    with pytest.raises(ChainfoldError, match="was begun with a number of positions = "):
        train(corpus(61), Training("lbfgs", {"c2": 1.0}), saving=saving)
    other = replace(chain, labels=np.roll(chain.labels, 1))
    with pytest.raises(ChainfoldError, match="the data differs; resume"):
        train(other.with_vocabulary(_marked(other)), Training("lbfgs", {"c2": 1.0}), saving=saving)
    with pytest.raises(ChainfoldError, match="the development set differs; resume"):
        train(chain, Training("lbfgs", {"c2": 1.0}), dev=chain, saving=saving)


def test_a_run_is_not_resumed_with_other_constraints(tmp_path: Path) -> None:
    chain = chain_from_sequences([[["a"], ["b"], ["c"]]], [["B-X", "I-X", "O"]])
    saving = Saving(tmp_path / "run", SaveInterval(1), resume=True)
    with pytest.raises(Interrupted):
        train(chain, saving=saving, stop=lambda: True)
    with pytest.raises(ChainfoldError, match="the constraints differ; resume"):
        train(chain, constraints=Constraints.of(["B-X", "I-X", "O"], "BIO"), saving=saving)


def _marked(chain: Chain) -> Vocabulary:
    """The vocabulary of a chain as if every attribute occurred with every label."""
    assert chain.vocabulary is not None
    return replace(chain.vocabulary, marks=np.full_like(chain.vocabulary.marks, 7))


@pytest.mark.parametrize("algorithm", ["lbfgs", "adagrad", "ap", "pa", "arow"])
def test_transitions_that_never_occur_may_be_left_out(algorithm: str) -> None:
    items = [[["a"], ["b"], ["c"]], [["c"], ["a"], ["b"]]] * 5
    chain = chain_from_sequences(items, [["x", "y", "z"], ["z", "x", "y"]] * 5)
    held = train(chain, Training(algorithm, all_possible_transitions=False))
    pairs = held.weights[held.layout.n_state :].reshape(3, 3)
    assert (pairs != 0.0).sum() <= 3
    assert not pairs[0, 0]
    assert not pairs[2, 2]


def test_a_damaged_state_is_one_sentence(chain: Chain, tmp_path: Path) -> None:
    saving = Saving(tmp_path / "run", SaveInterval(1), resume=True)
    with pytest.raises(Interrupted):
        train(chain, saving=saving, stop=lambda: True)
    data = saving.path.read_bytes()
    for damaged in (data[:-3], b"", data[:200], data[:500] + b"\x7f" + data[501:]):
        saving.path.write_bytes(damaged)
        with pytest.raises(ChainfoldError, match="this is not a training run written by chainfold"):
            train(chain, saving=saving)


def test_a_development_set_stops_the_run_and_the_best_weights_are_kept(chain: Chain) -> None:
    dev = Development.of(corpus(60, seed=3), chain)
    seen: list[IterationReport] = []
    weak = Training("lbfgs", {"c2": 0.0, "epsilon": 1e-12, "period": 0}, patience=3)
    model = train(chain, weak, dev=dev, report=seen.append)
    scores = model.training["development"]
    best = int(np.argmax(scores))
    assert model.training["finished"] == "stopped: the development score no longer improves"
    assert model.training["best_iteration"] == best + 1
    assert len(scores) == best + 1 + 3
    assert [progress.dev for progress in seen] == scores
    assert (tag(model, dev.chain) == dev.gold).mean() == pytest.approx(scores[best])


SLOW = {"c2": 0.01, "rate": 0.1, "max_iterations": 60}


def test_scores_that_stay_below_those_of_a_model_to_begin_with_end_nothing(chain: Chain) -> None:
    good = train(chain, Training("lbfgs", {"c2": 1e-3}))
    spoilt = Training("sgd", {"rate": 0.5, "max_iterations": 6, "batch": 20, "period": 0}, patience=1)
    model = train(chain, spoilt, start=good, dev=chain)
    assert max(model.training["development"]) < model.training["development_start"]
    assert model.training["iterations"] == 6


class Fixed:
    """An optimiser whose objective is given; it stands still."""

    def __init__(self, values: list[float], size: int) -> None:
        self._values, self._done, self._size = values, 0, size

    @property
    def point(self) -> Any:
        return np.full(self._size, float(self._done))

    @property
    def finished(self) -> str | None:
        return "done" if self._done == len(self._values) else None

    def advance(self) -> Iteration:
        self._done += 1
        return Iteration(self._done, self._values[self._done - 1], 0.0, 0.0, 0.0, 1, 0)


@pytest.mark.parametrize(
    ("scores", "values", "patience", "iterations", "best"),
    [
        ([0.5, 0.5, 0.5], [9, 8, 7], 9, 3, 3),
        ([0.5, 0.5, 0.5], [7, 8, 9], 9, 3, 1),
        ([0.5, 0.5, 0.5], [7, 6, 6], 9, 3, 3),
        ([0.5, 0.7, 0.5, 0.7], [9, 6, 5, 8], 9, 4, 2),
        ([0.0, 0.0, 0.0, 0.3, 0.3, 0.2, 0.2], [9, 8, 7, 6, 5, 4, 3], 2, 6, 5),  # a tie gives no new patience
        ([0.0, 0.0, 0.0, 0.0], [9, 8, 7, 6], 1, 4, 4),
        ([-1.0, -1.0, -1.0, 0.0, 0.0], [9, 8, 7, 6, 5], 1, 5, 5),  # the start is not above itself
    ],
)
def test_ties_go_to_the_better_objective_and_then_to_the_later_iteration(
    scores: list[float],
    values: list[float],
    patience: int,
    iterations: int,
    best: int,
    chain: Chain,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = iter([0.0, *scores])
    monkeypatch.setattr("chainfold.training.loop._Run._score", lambda self, dev, point: next(given))
    monkeypatch.setattr(Training, "optimiser", lambda self, space, start, how: Fixed(values, start.size))
    model = train(chain, Training(patience=patience), dev=chain)
    assert (model.training["iterations"], model.training["best_iteration"]) == (iterations, best)
    assert (model.weights == best).all()


def test_a_development_set_may_only_report(tmp_path: Path) -> None:
    chain, dev = corpus(), corpus(60, seed=3)
    weak: dict[str, Any] = {"c2": 0.0, "epsilon": 1e-12, "period": 0, "max_iterations": 40}
    seen: list[IterationReport] = []
    plain = train(chain, Training("lbfgs", weak))
    model = train(chain, Training("lbfgs", weak, patience=1, early_stopping=False), dev=dev, report=seen.append)
    assert model.weights.tobytes() == plain.weights.tobytes(), "it is as if there were none"
    assert [progress.dev for progress in seen] == model.training["development"]
    assert not any(progress.best for progress in seen)
    assert len(seen) == 40 > int(np.argmax(model.training["development"])) + 1
    assert "best_iteration" not in model.training
    with pytest.raises(ChainfoldError, match="early_stopping is 'no', but must be True or False"):
        Training(early_stopping="no")  # type: ignore[arg-type]
    saving = Saving(tmp_path / "run", SaveInterval(1), resume=True)
    with pytest.raises(Interrupted):
        train(chain, Training("lbfgs", weak), dev=dev, saving=saving, stop=lambda: True)
    with pytest.raises(
        ChainfoldError, match="the run was begun with `early_stopping` = True, and now `early_stopping` is False"
    ):
        train(chain, Training("lbfgs", weak, early_stopping=False), dev=dev, saving=saving)


@pytest.mark.parametrize("early_stopping", [True, False])
def test_patience_survives_an_interruption(early_stopping: bool, tmp_path: Path) -> None:
    chain = corpus()
    training = Training("adagrad", SLOW, patience=2, early_stopping=early_stopping)
    whole = train(chain, training, dev=chain)
    assert (whole.training["iterations"] < 60) == early_stopping
    saving, model = Saving(tmp_path / "run", SaveInterval(10**9), resume=True), None
    for wanted in (1, 4, 20, 30, whole.training["iterations"] - 1, 100):
        steps: list[IterationReport] = []

        def enough(wanted: int = wanted, steps: list[IterationReport] = steps) -> bool:
            return bool(steps) and steps[-1].step.iteration >= wanted

        try:
            model = train(chain, training, dev=chain, saving=saving, report=steps.append, stop=enough)
        except Interrupted:
            assert wanted < 100
    assert model is not None
    for name, one in (("whole", whole), ("pieces", model)):
        save_model(tmp_path / name, one)
    assert (tmp_path / "pieces").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_single_label_is_named(chain: Chain) -> None:
    named = chain_from_sequences([[["a"], ["b"]]], [["O", "O"]])
    with pytest.warns(UserWarning, match=r"^every position has the same label, 'O': the model can give no other\.$"):
        model = train(named)
    assert model.layout.n_labels == 1
    with pytest.warns(UserWarning, match="the same label, 0"):
        train(Chain.from_arrays(offsets=[0, 1], ids=[0], labels=[0], starts=[True], n_labels=1, n_attributes=1))


def test_a_model_to_begin_with(chain: Chain) -> None:
    options = {"c2": 0.1, "epsilon": 1e-6}
    cold: list[IterationReport] = []
    warm: list[IterationReport] = []
    model = train(chain, Training("lbfgs", options), report=cold.append)
    again = train(chain, Training("lbfgs", options), start=model, report=warm.append)
    assert len(warm) < len(cold) / 4
    assert points(warm)[-1] <= points(cold)[-1] * (1 + 1e-9)
    assert again.layout.size == model.layout.size


def test_constraints_are_kept_in_the_model(tmp_path: Path) -> None:
    items = [[["a"], ["b"], ["c"]], [["c"], ["a"], ["b"]]] * 5
    chain = chain_from_sequences(items, [["B-X", "I-X", "O"], ["O", "B-X", "I-X"]] * 5)
    assert chain.vocabulary is not None
    model = train(chain, constraints=Constraints.of(chain.vocabulary.labels, "BIO"))
    save_model(tmp_path / "m.cf", model)
    model = open_model(tmp_path / "m.cf")
    names = np.array(chain.vocabulary.labels)
    unseen = Chain.from_arrays(
        offsets=np.arange(10), ids=[1] * 9, starts=[k in (0, 6) for k in range(9)], n_labels=3, n_attributes=3
    )
    found = names[tag(model, unseen)]
    for k, label in enumerate(found):
        if label == "I-X":
            assert not unseen.starts[k]
            assert found[k - 1] in ("B-X", "I-X")


def test_without_names_a_model_must_fit(chain: Chain) -> None:
    layout = Layout.full(3, 7)
    with pytest.raises(ChainfoldError, match="the chain has"):
        train(chain, start=Model(layout, np.zeros(layout.size)))


def test_labels_of_a_development_set_that_were_never_seen_are_wrong(chain: Chain) -> None:
    gold = np.where(np.arange(chain.positions) % 2, chain.labels, 3).astype(np.int32)
    training = Training("lbfgs", {"max_iterations": 15})
    plain = train(chain, training, dev=chain).training["development"]
    unseen = train(chain, training, dev=Development(chain, gold, ("X",))).training["development"]
    assert max(unseen) < 0.6 < max(plain)
    with pytest.raises(ChainfoldError, match="has no labels"):
        Development(chain, np.full(chain.positions, -1, np.int32))


def test_values_beyond_all_measure_end_in_a_sentence() -> None:
    items = [[{"x": 1e300}, {"x": -1e290}], [{"x": 1e-300}]]
    huge = chain_from_sequences(items, [["a", "b"], ["a"]])
    for algorithm, options in (("lbfgs", {}), ("arow", {}), ("sgd", {"rate": 1e300})):
        with pytest.raises(ChainfoldError):
            train(huge, Training(algorithm, options))


@pytest.mark.parametrize(
    ("algorithm", "options", "sentence"),
    [
        ("newton", {}, "algorithm is 'newton', but must be one of lbfgs"),
        ("ap", {"c2": 1.0}, "`c2` does not apply to algorithm 'ap'"),
        ("l2sgd", {"c1": 1.0}, "`c1` does not apply to algorithm 'l2sgd'"),
        ("lbfgs", {"rate": 1.0}, "`rate` does not apply to algorithm 'lbfgs'"),
        ("lbfgs", {"c1": -1.0}, "c1 is -1.0"),
        ("lbfgs", {"c2": float("nan")}, "c2 is nan"),
        ("adam", {"max_iterations": 0}, "max_iterations is 0"),
        ("lbfgs", {"epsilon": float("inf")}, "epsilon is inf"),
        ("lbfgs", {"max_iterations": 2.5}, "max_iterations is 2.5"),
        ("lbfgs", {"num_memories": 0}, "num_memories is 0"),
        ("lbfgs", {"period": -1}, "period is -1"),
        ("lbfgs", {"max_linesearch": 0}, "max_linesearch is 0"),
        ("lbfgs", {"linesearch": "Newton"}, "linesearch is 'Newton', but must be one of MoreThuente"),
        ("adagrad", {"rate": 0.0}, "rate is 0.0"),
        ("sgd", {"decay": -0.1}, "decay is -0.1"),
        ("sgd", {"batch": 0}, "batch is 0"),
        ("sgd", {"seed": -1}, "seed is -1"),
        ("pa", {"type": 3}, "type is 3"),
        ("pa", {"c": 0.0}, "c is 0.0"),
        ("ap", {"longest": 0}, "longest is 0"),
        ("arow", {"variance": -1.0}, "variance is -1.0"),
        ("arow", {"gamma": float("inf")}, "gamma is inf"),
    ],
)
def test_bad_settings(algorithm: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ChainfoldError, match=sentence):
        Training(algorithm, options)
