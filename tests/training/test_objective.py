"""The objective: its value, its gradient, the weights it holds; batches that add up to the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import shapes
from chainfold import Chain, ChainfoldError, Model, log_likelihood
from chainfold.features.encode import chain_from_sequences
from chainfold.model.constraints import Constraints
from chainfold.training.objective import BatchObjective, Objective, WeightSpace, borders
from chainfold.training.passes import LocalPasses
from tolerances import DIFFERENCES

pytestmark = pytest.mark.quick


def made(name: str) -> Chain:
    return shapes.case(name)[1]


def long_chain(positions: int = 5000, starts: float = 0.02, weighted: bool = False) -> Chain:
    random = np.random.default_rng(3)
    begins = random.random(positions) < starts
    begins[0] = True
    return Chain.from_arrays(
        offsets=np.arange(positions + 1) * 3,
        ids=random.integers(0, 20, 3 * positions),
        labels=random.integers(0, 4, positions),
        starts=begins,
        weights=random.uniform(0.0, 2.0, positions)[np.cumsum(begins) - 1] if weighted else None,
    )


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("case", ["3 labels", "edge attributes, start marks", "sparse layout"])
def test_value_and_gradient(case: str, weighted: bool) -> None:
    chain = made(case)
    if weighted:
        weights = np.random.default_rng(1).uniform(0, 2, chain.positions + 1)
        chain = replace(chain, weights=weights[np.cumsum(chain.starts)])
    space = WeightSpace.of(chain)
    objective = Objective(space, c2=0.7)
    point = np.random.default_rng(0).normal(size=space.layout.size)
    value, gradient = objective(point)
    found = log_likelihood(Model(space.layout, point), chain)
    assert found.log_likelihood is not None
    assert value == pytest.approx(0.7 * np.sum(point**2) - found.log_likelihood, rel=1e-12)
    for m in range(space.layout.size):
        step = np.zeros(space.layout.size)
        step[m] = 1e-5
        difference = (objective(point + step)[0] - objective(point - step)[0]) / 2e-5
        assert abs(difference - gradient[m]) <= 100 * DIFFERENCES


def test_transitions_that_never_occur_may_be_held_at_zero() -> None:
    chain = replace(made("3 labels"), labels=np.zeros(7, np.int32))
    space = WeightSpace.of(chain, all_possible_transitions=False)
    gradient = Objective(space)(np.zeros(space.layout.size))[1]
    pairs = gradient[space.layout.n_state :]
    assert pairs[0] != 0.0
    assert not pairs[1:].any()
    assert (Objective(WeightSpace.of(chain))(np.zeros(space.layout.size))[1][space.layout.n_state :] != 0.0).all()


def test_all_states_have_weights_where_asked_for() -> None:
    chain = made("sparse layout")
    assert WeightSpace.of(chain, all_possible_states=True).layout.n_state == chain.n_attributes * chain.n_labels
    assert WeightSpace.of(chain).layout.n_state < chain.n_attributes * chain.n_labels


def test_constraints_are_held_and_forbid() -> None:
    chain = chain_from_sequences([[["a"], ["b"], ["a"]]], [["O", "B-X", "I-X"]])
    assert chain.vocabulary is not None
    space = WeightSpace.of(chain, constraints=Constraints.of(chain.vocabulary.labels, "BIO"))
    value, gradient = Objective(space, c2=1.0)(np.zeros(space.layout.size))
    assert np.isfinite(value)
    assert not gradient[space.forbidden].any()
    model = space.nameless(np.zeros(space.layout.size))
    transitions = model.weights[space.layout.n_state :].reshape(3, 3)
    assert transitions[0, 2] == -np.inf, "O to I-X"
    assert model.first is not None
    assert not model.first[2]


def test_data_that_breaks_the_constraints() -> None:
    chain = chain_from_sequences([[["a"], ["b"]]], [["O", "I-X"]])
    assert chain.vocabulary is not None
    for entry, sentence in (
        ("O>I-X", "position 1 has the transition 'O>I-X', which is forbidden; correct its label, or allow 'O>I-X'"),
        ("^>O", r"position 0 has the transition '\^>O', which is forbidden"),
        ("I-X>$", r"position 1 has the transition 'I-X>\$', which is forbidden"),
    ):
        with pytest.raises(ChainfoldError, match=sentence):
            WeightSpace.of(chain, constraints=Constraints.of(chain.vocabulary.labels, forbid=[entry]))


@pytest.mark.parametrize("mixing", [0.5, 8.0], ids=["forgets", "remembers long"])
def test_a_label_that_may_not_start_a_sequence_may_stand_where_a_halo_begins(mixing: float) -> None:
    """The past of a cut is looked at from somewhere in a sequence, where other labels may stand than at its start."""
    positions = 20_000
    random = np.random.default_rng(2)
    chain = Chain.from_arrays(
        offsets=np.arange(positions + 1),
        ids=random.integers(0, 5, positions),
        labels=np.repeat([0, 1], positions // 2),
        n_labels=2,
        n_attributes=5,
    )
    space = WeightSpace.of(chain, constraints=Constraints.of("ab", forbid=["^>b", "b>a"]))
    point = random.normal(0.0, 0.1, space.layout.size)
    point[space.layout.n_state :] += [mixing, 0.0, 0.0, mixing]
    value, gradient = Objective(replace(space, passes=LocalPasses(chain, engine="fb")))(point)
    again, parallel = Objective(replace(space, passes=LocalPasses(chain, threads=2)))(point)
    assert again == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(parallel, gradient, atol=1e-8 * positions)
    batches = BatchObjective(space, 3000)
    parts = [batches(k, point)[0] for k in range(batches.batches)]
    if mixing < 1.0:
        assert sum(parts) == pytest.approx(value, rel=1e-6)


def test_unknown_labels() -> None:
    with pytest.raises(ChainfoldError, match="needs a label at every position"):
        WeightSpace.of(made("one label unknown"))


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("starts", [0.0, 0.02, 1.0], ids=["one sequence", "several", "single positions"])
@pytest.mark.parametrize("size", [1, 100, 1024, 10_000])
def test_batches_add_up_to_the_whole(size: int, starts: float, weighted: bool) -> None:
    chain = long_chain(600 if size == 1 else 5000, starts, weighted)
    space = WeightSpace.of(chain)
    point = np.random.default_rng(0).normal(0.0, 0.5, size=space.layout.size)
    value, gradient = Objective(space)(point)
    batches = BatchObjective(space, size)
    parts = [batches(k, point) for k in range(batches.batches)]
    assert sum(part[0] for part in parts) == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(np.sum([part[1] for part in parts], axis=0), gradient, rtol=1e-8, atol=1e-7)


def test_borders_are_at_starts_where_there_are_any() -> None:
    chain = long_chain(starts=0.05)
    found = borders(chain, 300)
    assert found[0] == 0
    assert found[-1] == chain.positions
    assert (np.diff(found) <= 300).all()
    assert chain.starts[found[:-1]].all()
    assert borders(long_chain(starts=0.0), 300).tolist() == [*range(0, 5000, 300), 5000]


def test_a_forbidden_transition_is_the_first_of_a_plain_loop() -> None:
    dice = np.random.default_rng(0)
    for _ in range(200):
        size = int(dice.integers(1, 12))
        labels, starts = dice.integers(3, size=size), np.append(True, dice.random(size - 1) < 0.3)
        chain = Chain.from_arrays(labels=labels, starts=starts, offsets=np.zeros(size + 1, int), ids=[], n_labels=3)
        rules = Constraints(*(dice.random(shape) < 0.9 for shape in ((3, 3), 3, 3)))
        expected = plainly_forbidden(labels.tolist(), starts, rules)
        if expected is None:
            WeightSpace.of(chain, constraints=rules, all_possible_states=True)
        else:
            with pytest.raises(ChainfoldError, match=f"position {expected} has the transition"):
                WeightSpace.of(chain, constraints=rules, all_possible_states=True)


def plainly_forbidden(labels: list[int], starts: NDArray[np.bool_], rules: Constraints) -> int | None:
    for t, label in enumerate(labels):
        ends = t + 1 == len(labels) or starts[t + 1]
        entered = rules.first[label] if starts[t] else rules.allowed[labels[t - 1], label]
        if not entered or (ends and not rules.last[label]):
            return t
    return None
