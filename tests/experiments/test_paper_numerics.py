"""Plain sums and products out of range: the methods against enumeration, the first break against every length tried."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest

from chainfold import Chain, Layout, Model, log_likelihood
from chainfold.reference import Expectation, Floats, SumProduct, marginals, normalise
from experiments.paper import numerics
from experiments.paper.numerics import (
    ENGINES,
    PLAIN,
    WEIGHTS,
    Answer,
    ExactAnswer,
    expectation,
    first_break,
    kernels,
    pieces,
    reference,
    sum_product,
)
from experiments.paper.run_plan import QUICK
from oracle import enumerate_paths
from paper_results import StubCorpus
from shapes import CASES, plain

ROUNDING = 1e-14  # of a few additions, in doubles or in the oracle's long ones
TINY, HUGE = np.finfo(np.float64).tiny, np.finfo(np.float64).max
FINITE = {
    name: CASES[name]
    for name in ("one position", "one label", "3 labels", "start marks in pairs", "edge attributes, start marks")
}


def stacked(model: Model, chain: Chain) -> tuple[Floats, Floats]:
    u, f = zip(*kernels(model, chain), strict=True)
    return np.stack(u), np.stack(f)


def valued(values: Any, n_labels: int = 2) -> Chain:
    """One attribute at each position."""
    positions = len(values)
    return Chain.from_arrays(
        offsets=np.arange(positions + 1),
        ids=np.zeros(positions, int),
        values=np.asarray(values, float),
        n_labels=n_labels,
        n_attributes=1,
    )


@pytest.mark.parametrize("name", FINITE)
def test_truth_and_plain_methods_are_those_of_all_paths(name: str) -> None:
    model, chain = FINITE[name](np.random.default_rng(7))
    truth, (u, f) = enumerate_paths(model, chain), stacked(model, chain)
    (found,) = reference(model.weights, f, [chain.positions])
    truth.check(float(found.log_z), truth.log_likelihood, np.array(found.counts, float))
    assert abs(float(found.log_z) - truth.log_z) <= ROUNDING * max(1.0, abs(truth.log_z))
    for method in PLAIN.values():
        (answer,) = method(u, f, [chain.positions])
        assert answer.status == "ok"
        truth.check(answer.log_z, truth.log_likelihood, answer.counts)


def series(x: Fraction) -> Fraction:
    """e^x, to far more than fifty digits for a small x."""
    return sum((x**k / math.factorial(k) for k in range(80)), Fraction(0))


def test_truth_has_fifty_digits() -> None:
    """Three positions, each with weight 1 on label 0: Z = (1 + e)³."""
    model = Model(Layout.full(2, 1), np.array([1.0, 0, 0, 0, 0, 0]))
    ((log_z, counts),) = reference(model.weights, stacked(model, valued([1.0, 1.0, 1.0]))[1], [3])
    e = series(Fraction(1))
    assert abs(series(Fraction(log_z)) / (1 + e) ** 3 - 1) < Fraction(1, 10**47)
    assert abs(Fraction(counts[0]) - 3 * e / (1 + e)) < Fraction(1, 10**47)


def test_every_length_is_the_chain_cut_there() -> None:
    model, chain = plain(12, 3)(np.random.default_rng(3))
    u, f = stacked(model, chain)
    lengths = [1, 2, 5, 12]
    truths = reference(model.weights, f, lengths)
    for k, length in enumerate(lengths):
        v, one = marginals(SumProduct(), np.exp(u[:length])), Expectation(f.shape[-1])
        z = v[-1].sum()
        total = normalise(one, one.lift(np.exp(u[:length]), f[:length]))
        for answer in (sum_product(u, f, lengths)[k], expectation(u, f, lengths)[k]):
            assert answer.log_z == pytest.approx(np.log(z), rel=ROUNDING)
            for counts in (np.einsum("tij,tijm->m", v, f[:length]) / z, one.expectation(total)):
                np.testing.assert_allclose(answer.counts, counts, rtol=1e-12, atol=ROUNDING)
        np.testing.assert_allclose(np.array(truths[k].counts, float), answer.counts, rtol=1e-12, atol=ROUNDING)


def broken_at(u: Floats, f: Floats, length: int) -> dict[str, bool]:
    """Whether each method fails at a length, by forward-backward over semirings."""
    with np.errstate(all="ignore"):
        v = marginals(SumProduct(), np.exp(u[:length]))
        gradient = np.where(f[:length] != 0, v[..., None] * f[:length], 0.0).sum(axis=(0, 1, 2))
        one = Expectation(f.shape[-1])
        total = normalise(one, one.lift(np.exp(u[:length]), f[:length]))
        found = {"sum-product FB": np.append(gradient, v[-1].sum()), "expectation semiring": total[::-1]}
        return {name: not np.isfinite(numbers).all() or numbers[-1] < TINY for name, numbers in found.items()}


UP_AND_DOWN = {
    "up": [30.0] * 40,
    "down": [-30.0] * 40,
    "down, then up: only β overflows": [-30.0] * 20 + [40.0] * 30,
    "up, then down: never": [30.0] * 15 + [-30.0] * 25,
    "into subnormal numbers and out again": [-60.0] * 12 + [200.0],
    "to and fro": [30.0, -29.0] * 60,
    "one huge step": [1.0, 1.0, 800.0, 1.0],
}


@pytest.mark.parametrize("name", UP_AND_DOWN)
@pytest.mark.parametrize("lean", [0.0, 0.7])
def test_first_break_is_the_first_of_all_lengths(name: str, lean: float) -> None:
    chain = valued(UP_AND_DOWN[name])
    weights = np.array([1.0, 1.0 - 0.1 * lean, lean, 0.0, -lean, 0.2])
    u, f = stacked(Model(Layout.full(2, 1), weights), chain)
    broken = [broken_at(u, f, length) for length in range(1, len(u) + 1)]
    for method, run in PLAIN.items():
        expected = next((length for length, fails in enumerate(broken, start=1) if fails[method]), None)
        found = first_break(run, u, f)
        assert (found and found["length"]) == expected


@pytest.mark.parametrize(
    ("name", "how"),
    [("up", "overflow"), ("down", "underflow"), ("into subnormal numbers and out again", "underflow")],
)
def test_breaks_say_how(name: str, how: str) -> None:
    u, f = stacked(Model(Layout.full(2, 1), np.array([1.0, 1.0, 0, 0, 0, 0])), valued(UP_AND_DOWN[name]))
    for method in PLAIN.values():
        found = first_break(method, u, f)
        assert found is not None
        assert found["how"] == how


def test_a_backward_vector_overflows_where_nothing_else_does() -> None:
    """Z is in range, and so are the forward vectors: the forward pass alone comes through."""
    u, f = stacked(Model(Layout.full(2, 1), np.array([1.0, 1.0, 0, 0, 0, 0])), valued([-30.0] * 20 + [40.0] * 20))
    back, ahead = (first_break(method, u, f) for method in (sum_product, expectation))
    assert back == {"length": 38, "how": "overflow"}  # β_20 is (2 e^40)^18 there
    assert ahead is None


def test_z_of_an_untrained_model_is_two_to_the_length() -> None:
    """A label is expected T / 2 times: ∇Z = 2^(T-1) T is the first to overflow, nine positions before Z."""
    u, f = stacked(Model(Layout.full(2, 1), np.zeros(6)), valued(np.ones(1100)))
    length = next(t for t in range(1, 1100) if 2 ** (t - 1) * t > int(HUGE))
    assert length == 1015 + 1
    for method in PLAIN.values():
        assert first_break(method, u, f) == {"length": length, "how": "overflow"}


def test_errors_are_relative() -> None:
    true = ExactAnswer(Decimal(-200), [Decimal(4), Decimal(0), Decimal("-0.5")])
    small = ExactAnswer(Decimal("0.25"), true.counts)
    counts = np.array([4.0, 9.0, -0.5])
    answers = [
        Answer(-200.0, counts, "ok"),
        Answer(-201.0, counts * [1.0, 1.0, 1.5], "ok"),
        Answer(0.5, counts * [0.75, 1.0, 1.0], "ok"),
        Answer(np.inf, np.array([np.nan, 0.0, 1.0]), "overflow"),
    ]
    found = numerics._errors(answers, [true, true, small, true])
    assert found["log_z_error"] == [0.0, 0.005, 0.25, None]
    assert found["count_error"] == [0.0, 0.5, 0.25, None]
    assert found["status"] == ["ok", "ok", "ok", "overflow"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    random = np.random.default_rng(1)
    chain = valued(random.uniform(0.5, 1.5, 900))
    model = Model(Layout.full(2, 1), np.array([4.0, 3.0, 0.5, -0.3, 0.1, 0.4]))
    plan = replace(QUICK, numeric_length=800)
    corpus = cast(Any, StubCorpus(tmp_path_factory.mktemp("corpus"), model, chain))
    found = {piece.key: json.loads(json.dumps(piece.run({}), allow_nan=False)) for piece in pieces(plan, corpus)}
    return {"chain": chain, "model": model, **found}


def test_pieces(results: dict[str, Any]) -> None:
    assert [key for key in results if "/" in key] == [f"numerics/{name}" for name in WEIGHTS]
    for name in WEIGHTS:
        found = results[f"numerics/{name}"]
        assert (found["name"], found["labels"], found["weights"]) == (name, 2, 6)
        assert found["lengths"] == [1, 2, 5, 10, 20, 50, 100, 200, 500, 800]
        assert list(found["methods"]) == [*PLAIN, *ENGINES]
        assert "{" not in found["title"]
        for engine in ENGINES:
            method = found["methods"][engine]
            assert method["status"] == ["ok"] * 10
            assert max(method["log_z_error"]) < 1e-11
            assert max(method["count_error"]) < 1e-10


def test_what_leaves_the_range_has_no_error_from_there_on(results: dict[str, Any]) -> None:
    for name, how in (("trained", "overflow"), ("lowered", "underflow")):
        found = results[f"numerics/{name}"]
        for method in PLAIN:
            broken, said = found["breaks"][method], found["methods"][method]
            assert broken["how"] == how
            for length, status, *errors in zip(
                found["lengths"], said["status"], said["log_z_error"], said["count_error"], strict=True
            ):
                if length < broken["length"]:
                    assert status == "ok"
                    assert max(errors) < 1e-12
                else:
                    assert status == how
                    assert errors == [None, None]
    for name in ("untrained", "balanced"):
        assert results[f"numerics/{name}"]["breaks"] == dict.fromkeys(PLAIN)


def test_balanced_and_lowered_weights_keep_every_probability(results: dict[str, Any]) -> None:
    model, chain = results["model"], results["chain"]
    counts = log_likelihood(model, chain, observe=False).expected
    for name, log_z in (("balanced", 0.0), ("lowered", -899.0)):
        other, _ = numerics._weighted(name, model, chain)
        found = log_likelihood(other, chain, observe=False)
        assert found.log_z == pytest.approx(log_z, abs=1e-9)
        np.testing.assert_allclose(found.expected, counts, rtol=1e-10)
    assert not numerics._weighted("untrained", model, chain)[0].weights.any()
