"""One sentence at a time: labels and bits are those of the tagger of chains, in threads, after a fork, in a copy."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainfold import CRF, ChainfoldError, StreamTagger
from chainfold.features.item_ids import ItemIds
from chainfold.features.row_encoder import RowEncoder
from chainfold.inference.tagger import BLOCK
from chainfold.model.layout import Layout
from chainfold.model.model import Model, vocabulary_of_model
from chainfold.readers.items import ItemReader

pytestmark = pytest.mark.quick

Sentence = list[dict[str, Any]]


def sentences(count: int, seed: int = 0) -> tuple[list[Sentence], list[list[str]]]:
    random = np.random.default_rng(seed)
    xs, y = [], []
    for _ in range(count):
        words = [f"w{random.integers(25)}" for _ in range(random.integers(1, 12))]
        xs.append(
            [
                {"w": w, "n": float(len(w)), "odd": t % 2 == 1, "é": ["p", w[-1:]], "d": {"x": w[-1:], "v": 0.5}}
                for t, w in enumerate(words)
            ]
        )
        y.append([f"{'B' if t % 3 == 0 else 'I'}-{'XY'[int(w[1:]) % 2]}" for t, w in enumerate(words)])
        y[-1] = [y[-1][0].replace("I", "B"), *y[-1][1:]]
    return xs, y


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "hashed": {"hash_bits": 7},
    "rare": {"min_freq": 3, "all_possible_states": True},
    "scheme": {"scheme": "BIO"},
    "forbidden": {"forbid": ["B-X>I-Y"], "all_possible_transitions": True},
}


def fitted(name: str, **more: Any) -> CRF:
    xs, y = sentences(60)
    options: dict[str, Any] = {"max_iterations": 15, "threads": 1, **SETTINGS[name], **more}
    if name in ("scheme", "forbidden"):  # sentences without what is forbidden
        y = [["B-X"] * len(labels) if k % 2 else ["B-Y"] * len(labels) for k, labels in enumerate(y)]
        y[0] = ["B-X", *["I-X"] * (len(y[0]) - 1)]
        y[1] = ["B-Y", *["I-Y"] * (len(y[1]) - 1)]
    return CRF(**options).fit(xs, y)


def in_one_call(crf: CRF, items: Any) -> tuple[bool, Any, Any]:
    """Whether it was done without blocks, and the results."""
    tagger = crf._ready_tagger().sentences
    direct = tagger.labels(items) is not None and tagger.posteriors(items) is not None
    return direct, crf.predict_single(items), crf.predict_marginals_single(items)


def same_bits(crf: CRF, items: Any) -> bool:
    """Assert that the results are those of `predict`; was it done without blocks?"""
    direct, labels, marginals = in_one_call(crf, items)
    assert labels == crf.predict([items])[0]
    expected = crf.predict_marginals([items])[0]
    assert [list(row) for row in marginals] == [list(row) for row in expected]
    ours, theirs = (np.array([list(row.values()) for row in rows]) for rows in (marginals, expected))
    assert ours.tobytes() == theirs.tobytes()
    return direct


@pytest.mark.parametrize("name", SETTINGS)
def test_results_are_those_of_the_tagger(name: str) -> None:
    crf = fitted(name)
    for items in sentences(30, seed=1)[0]:
        assert same_bits(crf, items)
        assert same_bits(crf, tuple(items))
        assert same_bits(crf, [[f"w:{item['w']}", "odd"] for item in items])
    assert same_bits(crf, [{"never": "seen"}, {}, {"w": "w1", "n": -3}])


VALUES = st.one_of(
    st.sampled_from(
        ["w1", "w2", "w3", "", "ü", b"w1", True, False, 0, 3, 2.5, np.float64(2.5), ("p", "q"), {"x": "1"}]
    ),
    st.floats(-5, 5),
)
ITEMS = st.dictionaries(st.sampled_from(["w", "n", "odd", "é", "d", "new"]), VALUES)
HYPOTHESIS_MODELS: dict[str, CRF] = {}


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["plain", "hashed"]), st.lists(ITEMS, max_size=5))
def test_any_items_have_the_same_results(name: str, items: Sentence) -> None:
    crf = HYPOTHESIS_MODELS.get(name) or HYPOTHESIS_MODELS.setdefault(name, fitted(name))
    same_bits(crf, items)


def test_what_it_cannot_take_is_labelled_as_ever() -> None:
    crf = fitted("plain")
    items = sentences(1)[0][0]
    for other in (iter(items), np.array(items, object), [*items, {"w": np.float32(1.0)}], [], [{"w": {"a", "b"}}]):
        again = list(items) if not isinstance(other, (list, np.ndarray)) else other
        assert crf.predict_single(other) == crf.predict([again])[0]
    wrong: Any
    for wrong in ([{"w": None}], ["text"], 7, [{"w": float("inf")}]):
        with pytest.raises(ChainfoldError) as alone:
            crf.predict_single(wrong)
        with pytest.raises(ChainfoldError) as among:
            crf.predict([wrong])
        assert str(alone.value) == str(among.value)


def test_numbers_beyond_doubles_and_scores_that_overflow() -> None:
    crf = fitted("forbidden", c2=1e-6)
    for size in (1e2, 1e3, 1e5):
        items = [{"w": "w1", "n": size * (-1) ** t} for t in range(9)]
        same_bits(crf, items)

    huge = [{"n": 1.7e308, "d": {"v": 1.7e308}}, {"n": -1.7e308}]
    outcomes = []
    for label in (crf.predict_single, lambda items: crf.predict([items])[0]):
        try:
            outcomes.append(str(label(huge)))
        except ChainfoldError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_many_threads_share_an_estimator() -> None:
    crf = fitted("plain")
    xs = sentences(200, seed=2)[0]
    expected = [crf.predict([items])[0] for items in xs]
    marginals = [crf.predict_marginals([items])[0] for items in xs]
    fresh = pickle.loads(pickle.dumps(crf))  # nothing is prepared yet
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert list(pool.map(fresh.predict_single, xs)) == expected
            assert list(pool.map(fresh.predict_marginals_single, xs)) == marginals
        assert [list(found) for found in pool.map(lambda items: fresh.predict([items])[0], xs)] == expected


@pytest.mark.parametrize("change", [lambda items: items.extend(50 * items), lambda items: items.clear()])
def test_a_list_that_another_thread_changes_meanwhile(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    crf, items = fitted("plain"), list(sentences(2, seed=9)[0][0])
    labels, marginals = crf.predict_single(items), crf.predict_marginals_single(items)

    def of_changed(predict: Any) -> Any:
        changed = list(items)

        def after(function: Any) -> Any:
            def changing(reader: Any, given: Any) -> Any:
                done = function(reader, given)
                if given:
                    change(changed)
                return done

            return changing

        with monkeypatch.context() as patch:
            for name in ("begin", "read_whole"):
                patch.setattr(ItemReader, name, after(getattr(ItemReader, name)))
            return predict(changed)

    assert of_changed(crf.predict_single) == labels
    assert of_changed(crf.predict_marginals_single) == marginals
    assert of_changed(lambda changed: crf.predict([changed]))[0] == labels


def test_streams_of_many_threads_share_a_model() -> None:
    model, xs = fitted("plain").model_, sentences(60, seed=7)[0]

    def labelled(part: list[Sentence]) -> list[tuple[str, bytes]]:
        tagger = StreamTagger(model, marginals=True)
        done = [tagger.push(item, start=t == 0) for items in part for t, item in enumerate(items)]
        done.append(tagger.flush())
        return [("".join(tagged), np.asarray(tagged.posteriors).tobytes()) for tagged in done]

    parts = [xs[k::6] for k in range(6)]
    expected = list(map(labelled, parts))
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(labelled, parts)) == expected


def test_other_threads_go_on_while_a_long_sentence_is_labelled() -> None:
    crf = fitted("plain")
    items = [item for sentence in sentences(1200, seed=8)[0] for item in sentence][:BLOCK]
    assert in_one_call(crf, items)[0]
    alone = crf.predict_single(items)
    counts, ready, done = [0], threading.Event(), threading.Event()

    def count() -> None:
        ready.set()
        while not done.is_set():
            counts[0] += 1
            time.sleep(1e-5)  # gives the lock away, and asks for it again

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=count)
    thread.start()
    ready.wait()
    try:
        sys.setswitchinterval(1000.0)  # only a thread that gives the lock away lets others run
        before = counts[0]
        for _ in range(50):  # on a busy machine the other thread may not get a core at once
            assert crf.predict_single(items) == alone
            if counts[0] > before:
                break
        assert counts[0] > before
    finally:
        sys.setswitchinterval(interval)
        done.set()
        thread.join()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_it_works_in_processes_that_are_forked_while_threads_predict() -> None:
    crf = fitted("plain")
    xs = sentences(30, seed=9)[0]
    expected, done = [crf.predict_single(items) for items in xs], threading.Event()
    rows = [crf.predict_marginals_single(items) for items in xs]

    def predict() -> None:
        while not done.is_set():
            crf.predict(xs)
            crf.predict_marginals_single(xs[0])

    threads = [threading.Thread(target=predict) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(crf.predict_single, xs) == expected
            assert pool.map(crf.predict_marginals_single, xs) == rows
            assert [list(found) for found in pool.map(crf.predict, [xs] * 3)] == [expected] * 3
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_a_vocabulary_with_more_names_than_the_model_has_attributes_is_refused() -> None:
    crf = fitted("plain")
    layout = Layout.full(crf.model_.layout.n_labels, 3)
    crf.model_ = Model(layout, np.zeros(layout.size), crf.model_.vocabulary)
    items = sentences(1)[0][0]
    for label in (crf.predict_single, StreamTagger(crf.model_).push):
        with pytest.raises(ChainfoldError, match="an attribute that is not from 0 to 2"):
            label(items)


def test_copies_and_other_models_are_prepared_anew() -> None:
    crf = fitted("plain")
    items = sentences(1, seed=4)[0][0]
    before = crf.predict_single(items)
    for other in (pickle.loads(pickle.dumps(crf)), copy.deepcopy(crf), copy.copy(crf)):
        assert other.predict_single(items) == before
        assert same_bits(other, items)
    crf.fit([items] * 2, [["Z"] * len(items), ["Y"] * len(items)])
    assert set(crf.predict_single(items)) <= {"Y", "Z"}
    assert same_bits(crf, items)
    crf.partial_fit([[{"w": "later"}]], [["W"]])
    assert same_bits(crf, [{"w": "later"}])
    assert set(crf.predict_marginals_single(items)[0]) == {"W", "Y", "Z"}


def test_a_model_of_columns_is_no_model_of_items() -> None:
    table = np.array([["a", "A"], ["b", "B"]] * 4)
    crf = CRF(max_iterations=2, encoding={"columns": ["word", "label"]}).fit(table)
    assert crf._ready_tagger().sentences.labels([{"word": "a"}]) is None
    assert ItemIds.of(crf.model_.vocabulary) is None


@pytest.mark.parametrize("name", ["plain", "hashed"])
def test_rows_pushed_one_by_one_are_the_same_as_through_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    crf = fitted(name)
    vocabulary, xs = vocabulary_of_model(crf.model_), sentences(15, seed=5)[0]
    pushed: list[tuple[Any, bool, bool]] = []
    for k, items in enumerate(xs):
        if k % 3 == 2:
            pushed.append((items, False, True))
        else:
            pushed += [(item, t == 0 and k % 2 == 0, t == len(items) - 1) for t, item in enumerate(items)]
    pushed += [({"w": b"w1"}, False, False), (["w:w1", "odd"], True, False), ({}, False, False)]

    def blocks() -> list[bytes]:
        encoder, made = RowEncoder(vocabulary), []
        for k, (rows, start, end) in enumerate(pushed):
            block = encoder.push(rows, start, end)
            values = block.values if block.values.size else np.ones(block.ids.size)
            made.append(b"|".join(array.tobytes() for array in (*block[:4], values, *block[5:])))
            if k == 7:
                state = encoder.state()
                encoder = RowEncoder(vocabulary)
                encoder.restore(state)
        made.append(repr({key: value.tobytes() for key, value in encoder.state().items()}).encode())
        return made

    found = blocks()
    monkeypatch.setattr(ItemIds, "of", classmethod(lambda cls, vocabulary: None))
    assert found == blocks()


def test_a_wrong_row_changes_nothing_in_a_stream() -> None:
    crf = fitted("plain")
    tagger, items = StreamTagger(crf.model_), sentences(1, seed=6)[0][0]
    done = [tagger.push(items[0], start=True)]
    for wrong in ({"w": None}, {"w": float("nan")}, [{"w": "w1"}, {"w": None}]):
        with pytest.raises(ChainfoldError):
            tagger.push(wrong)
    done += [tagger.push(item) for item in items[1:]] + [tagger.flush()]
    assert [name for part in done for name in part] == crf.predict_single(items)
