"""Results by sequence: marginals as dicts."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

from chainfold.sklearn.estimator import CRF
from chainfold.sklearn.predictions import dicts

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("labels", [["B-é", "I", ""], [0, 7, -1], [True, False], ["only"]])
@pytest.mark.parametrize("rows", [0, 1, 300])
def test_marginals_are_dicts_of_python_numbers(labels: list[Any], rows: int) -> None:
    table = np.random.default_rng(0).random((rows, len(labels) + 2))
    marginals = table[:, : len(labels)]
    found = dicts(labels, marginals)
    assert found == [dict(zip(labels, row, strict=True)) for row in marginals.tolist()]
    assert all(list(row) == labels and set(map(type, row.values())) <= {float} for row in found)
    assert dicts(labels, np.empty(0)) == []


@pytest.mark.parametrize("n_labels", [2, 3, 9])
def test_marginals_of_one_sequence_have_the_bits_of_those_in_a_batch(n_labels: int) -> None:
    random = np.random.default_rng(0)
    X = [[{"w": str(random.integers(20)), "p": str(random.integers(5))} for _ in range(100)] for _ in range(6)]  # noqa: N806
    y = [[str(label) for label in random.integers(0, n_labels, 100)] for _ in X]
    crf = CRF(max_iterations=5).fit(X, y)
    assert [crf.predict_marginals_single(sequence) for sequence in X] == list(crf.predict_marginals(X))


def test_rows_of_marginals_share_nothing_and_are_freed() -> None:
    labels = [f"label {k}" for k in range(30)]
    before = [sys.getrefcount(label) for label in labels]
    found = dicts(labels, np.full((50, 30), 0.25))
    assert len({id(row) for row in found}) == 50
    plain = [dict(zip(labels, row, strict=True)) for row in np.full((50, 30), 0.25).tolist()]
    assert [sys.getrefcount(row) for row in found] == [sys.getrefcount(row) for row in plain]
    assert sys.getrefcount(found[3]["label 5"]) == sys.getrefcount(plain[3]["label 5"])
    found[0]["label 1"] = 1.0
    found[0]["more"] = 2.0
    assert found[1] == dict.fromkeys(labels, 0.25)
    gc.collect()
    assert found[2] == found[1]
    del found, plain
    assert [sys.getrefcount(label) for label in labels] == before


def test_reading_items_keeps_no_reference() -> None:
    from chainfold.readers.items import ItemReader

    key, value, number = "a key".upper(), "a value".upper(), 1234.5
    items = [{key: value, "n": number, "l": [value, "é"], "d": {key: 10**400}}]
    things = (key, value, number, items, items[0], items[0]["l"])
    before = list(map(sys.getrefcount, things))
    reader = ItemReader(2)
    assert reader.read_whole(items) is None
    assert reader.read_whole([{key: value, "l": [value, "é"], "b": True}]) is not None
    assert list(map(sys.getrefcount, things)) == before
