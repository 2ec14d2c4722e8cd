"""Real sequences: the intrusion log as one chain, and sentences run together, by the engines that would be used."""

from __future__ import annotations

import gzip
import io
import os
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from chainfold import Chain, Layout, Model, Training, encode, evaluate, log_likelihood, open_chain, tag, train
from chainfold.chain.chain import gather
from chainfold.features.encode import encode_to
from chainfold.inference.stream_window import StreamWindow
from rows import CHUNKING_EXPRESSIONS, attributes_of, chunking_attributes
from tolerances import AT_LENGTH, ORACLE

DATA = Path(os.environ.get("CHAINFOLD_DATA", Path(__file__).parents[2] / "shared" / "data"))
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.exists(), reason=f"the real data sets are not in {DATA}; set CHAINFOLD_DATA"),
]


COLUMNS = ["w", "pos", "chunk"]


def kdd(folder: Path, positions: int = 60_000) -> Chain:
    """The beginning of KDD 10 %: one sequence, symbolic fields as they are, numbers in bins."""
    with gzip.open(DATA / "kddcup99" / "kddcup.data_10_percent.gz", "rb") as file:
        rows = io.BytesIO(b"".join(islice(file, positions)))
    return gather(encode(rows, folder / "kdd.chain"))


def conll(folder: Path, run_together: bool) -> Chain:
    path, attributes = DATA / "conll2000" / "train.txt.gz", "w[-1] w w[1] pos[-1] pos pos[1]"
    stored = encode(path, folder / "conll.chain", attributes=attributes, one_sequence=run_together, columns=COLUMNS)
    return gather(stored, 60_000)


def trained(chain: Chain, layout: Layout, iterations: int) -> Model:
    """A few steps of an optimiser, so that the weights are like those of a real model."""

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        found = log_likelihood(Model(layout, weights), chain, "parallel", threads=2)
        assert found.gradient is not None
        assert found.log_likelihood is not None
        return float(weights @ weights - found.log_likelihood), 2.0 * weights - found.gradient

    start = np.zeros(layout.size)
    result = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": iterations})
    assert result.fun < 0.5 * loss(start)[0]
    return Model(layout, result.x)


@pytest.mark.parametrize("name", ["kdd", "conll run together", "conll"])
def test_engines_agree_on_real_data_and_it_forgets(name: str, tmp_path: Path) -> None:
    chain = kdd(tmp_path) if name == "kdd" else conll(tmp_path, run_together=name == "conll run together")
    model = trained(chain, Layout.observed(chain), iterations=15)
    reference = log_likelihood(model, chain, "fb")
    for engine in ("stream", "parallel", "checkpoint"):
        found = log_likelihood(model, chain, engine, threads=2)
        assert abs(found.log_z - reference.log_z) <= AT_LENGTH * abs(reference.log_z)
        np.testing.assert_allclose(found.expected, reference.expected, rtol=AT_LENGTH, atol=1e-12)
        assert found.report.carried_blocks == 0
        assert found.report.in_order == 0
        assert found.report.lookahead_max <= 200
    check_stream(model, chain)


def check_stream(model: Model, chain: Chain) -> None:
    """In pushes of one row, then of any size: the labels of Viterbi, the posteriors of forward-backward."""
    random, window, low, found = np.random.default_rng(1), StreamWindow(model, posteriors=True), 0, []
    while low < chain.positions:
        high = min(low + (1 if low < 2_000 else int(random.integers(1, 20_000))), chain.positions)
        found.append(window.push(chain.block(low, high)))
        low = high
    found.append(window.end())
    np.testing.assert_array_equal(np.concatenate([one.labels for one in found]), tag(model, chain))
    posteriors = np.concatenate([one.posteriors for one in found])
    assert all(one.proven.all() for one in found)
    some = gather(chain, 11_000)
    np.testing.assert_allclose(posteriors[:10_000], forward_backward(model, some)[:10_000], rtol=0, atol=ORACLE)


def forward_backward(model: Model, chain: Chain) -> NDArray[np.float64]:
    """The textbook's, one position after another."""
    layout, n = model.layout, model.layout.n_labels
    begin, label = layout.features.begin, layout.features.label
    states = np.zeros((chain.positions, n))
    for t in range(chain.positions):
        for a in chain.ids[chain.offsets[t] : chain.offsets[t + 1]]:
            states[t, label[begin[a] : begin[a + 1]]] += model.weights[begin[a] : begin[a + 1]]
    states = np.exp(states - states.max(axis=1, keepdims=True))
    edge = np.exp(model.weights[layout.n_state :].reshape(n, n))
    alpha, beta = np.empty_like(states), np.ones_like(states)
    for t in range(chain.positions):
        alpha[t] = states[t] * (1.0 if chain.starts[t] else alpha[t - 1] @ edge)
        alpha[t] /= alpha[t].sum()
    for t in range(chain.positions - 2, -1, -1):
        beta[t] = 1.0 if chain.starts[t + 1] else edge @ (states[t + 1] * beta[t + 1])
        beta[t] /= beta[t].sum()
    found = alpha * beta
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def test_the_chunking_attributes_of_every_position_equal_a_plain_loop(tmp_path: Path) -> None:
    with gzip.open(DATA / "conll2000" / "train.txt.gz", "rt") as file:
        texts = file.read().strip().split("\n\n")[:2_500]
    path = tmp_path / "train.txt"
    path.write_text("\n\n".join(texts) + "\n")
    chain = gather(encode(path, tmp_path / "conll.chain", attributes=CHUNKING_EXPRESSIONS, columns=COLUMNS))
    sentences = [[tuple(line.split(" ")) for line in text.split("\n")] for text in texts]
    assert chain.vocabulary is not None
    found = iter(attributes_of(chain))
    for sentence in sentences:
        for expected in chunking_attributes(sentence):
            here = next(found)
            assert set(here) == expected
            assert len(here) == len(expected)
    assert next(found, None) is None
    labels = [fields[2] for sentence in sentences for fields in sentence]
    assert [chain.vocabulary.labels[label] for label in chain.labels] == labels
    assert np.flatnonzero(chain.starts).tolist() == np.cumsum([0, *map(len, sentences[:-1])]).tolist()


def test_kdd_through_a_pipe_and_from_disk_is_the_same_to_the_bit(tmp_path: Path) -> None:
    path = DATA / "kddcup99" / "kddcup.data_10_percent.gz"
    stored = encode(path, tmp_path / "kdd.chain")
    pipe = io.BytesIO()
    encode_to(pipe, path)
    pipe.seek(0)
    model = Model.random(Layout.observed(stored))
    disk, piped = log_likelihood(model, stored), log_likelihood(model, open_chain(pipe))
    assert piped.report.passes == 1
    assert disk.log_z == piped.log_z
    assert disk.gradient is not None
    assert piped.gradient is not None
    assert disk.gradient.tobytes() == piped.gradient.tobytes()
    with gzip.open(path, "rt") as file:
        first = [line.rstrip().split(",") for line in islice(file, 5)]
    for expected, found in zip(first, attributes_of(gather(stored, 5)), strict=True):
        assert len(found) == 41
        for k, name in enumerate(found):
            column, _, held = name.partition("=")
            assert column == str(k)
            value = expected[k]
            if held.startswith("["):
                low, high = (float(edge) for edge in held[1:-1].split(","))
                assert low <= float(value) < high
            else:
                assert held == value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "objective", "weights", "f1"),
    [({"c2": 1.0}, 13_025.2, 453_094, 0.936), ({"c1": 0.1, "c2": 0.01}, 4_158.6, 36_948, 0.9375)],
    ids=["L2", "L1"],
)
def test_training_ends_where_crfsuite_does(
    tmp_path: Path, settings: dict[str, float], objective: float, weights: int, f1: float
) -> None:
    """CoNLL-2000 with CRFsuite's 19 attributes and all transitions, to convergence."""
    chain = encode(
        DATA / "conll2000" / "train.txt.gz", tmp_path / "chain", columns=COLUMNS, attributes=CHUNKING_EXPRESSIONS
    )
    model = train(chain, Training("lbfgs", settings), threads=2)
    assert model.training["objective"][-1] == pytest.approx(objective, rel=1e-4 if "c1" not in settings else 1e-3)
    assert np.count_nonzero(model.weights) == pytest.approx(weights, rel=0.02)
    found = evaluate(model, DATA / "conll2000" / "test.txt.gz").spans_overall
    assert found is not None
    assert found.f1 == pytest.approx(f1, abs=0.001)
