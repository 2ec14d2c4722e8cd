"""The monitor of a stream against plain sums over the whole of it, however its rows are cut into blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from chainfold import Chain, ChainfoldError, Layout, Model, SyntheticChain
from chainfold.chain.chain import gather
from chainfold.chain.vocabulary import Vocabulary
from chainfold.inference.monitor import Alarm, Monitor, Status
from chainfold.inference.tagger import Tagger, Want, blocks_of
from tolerances import ORACLE

pytestmark = pytest.mark.quick

LABELS = ("normal", "scan", "a>b", "entropy")
UNSEEN = 4  # a label that the model never saw
ROWS = 700
CUTS = {"one by one": 1, "by sevens": 7, "by hundreds": 100, "all at once": ROWS}
WINDOWS = (1, 64, 500, 10_000)


def named(labels: tuple[str, ...]) -> Vocabulary:
    return Vocabulary(labels, None, None, np.ones(60, np.int64), np.zeros((60, 1), np.uint64))


@dataclass(frozen=True, eq=False)
class Stream:
    """A model, a chain, the labels that its rows come with, and what is true of it."""

    model: Model
    chain: Chain
    gold: NDArray[np.int32]
    labels: NDArray[np.int32]
    posteriors: NDArray[np.float64]

    @property
    def entropy(self) -> NDArray[np.float64]:
        assert (self.posteriors > 0.0).all()
        found: NDArray[np.float64] = -np.sum(self.posteriors * np.log(self.posteriors), axis=1)
        return found

    @property
    def surprise(self) -> NDArray[np.float64]:
        found = []
        for row, gold, label in zip(self.posteriors, self.gold, self.labels, strict=True):
            found.append(-np.log(row[gold if 0 <= gold < UNSEEN else label]))
        return np.array(found)

    def share(self, label: int, window: int) -> NDArray[np.float64]:
        """Of the last window at each row; not a number before there is one."""
        found = np.full(ROWS, np.nan)
        for t in range(window - 1, ROWS):
            found[t] = np.mean(self.labels[t - window + 1 : t + 1] == label)
        return found


@pytest.fixture(scope="module")
def stream() -> Stream:
    source = SyntheticChain(ROWS, 4, 60, 4, sticky=0.9, mean_length=300, seed=11)
    chain = gather(source)
    random = np.random.default_rng(5)
    gold = np.where(random.random(ROWS) < 0.3, -1, chain.labels)
    gold = np.where(random.random(ROWS) < 0.1, UNSEEN, gold).astype(np.int32)
    chain = replace(chain, labels=np.where(gold < UNSEEN, gold, -1).astype(np.int32))
    model = Model(Layout.full(4, 60), source.true_weights(), vocabulary=named(LABELS))
    (found,) = Tagger(model).run(blocks_of(chain), Want(posteriors=True))
    assert found.labels is not None
    assert found.posteriors is not None
    return Stream(model, chain, gold, found.labels, found.posteriors)


def watched(monitor: Monitor, stream: Stream, cut: int) -> Iterator[list[Alarm]]:
    """What is raised or over, block by block and at the end."""
    for low in range(0, ROWS, cut):
        high = min(low + cut, ROWS)
        yield monitor.push(stream.chain.block(low, high))
    yield monitor.end()


def last(stream: Stream, cut: int, **options: Any) -> tuple[Status, list[Alarm]]:
    monitor = Monitor(stream.model, **options)
    alarms = [alarm for some in watched(monitor, stream, cut) for alarm in some]
    return monitor.status(), alarms


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("cut", CUTS)
def test_windows(cut: str, window: int, stream: Stream) -> None:
    seen, monitor = 0, Monitor(stream.model, window=window)
    for k, _ in enumerate(watched(monitor, stream, CUTS[cut])):
        if CUTS[cut] == 1 and k % 13 and k < ROWS:
            continue
        status = monitor.status()
        final = status.quantities.positions - status.waiting
        rows = slice(max(final - window, 0), final)
        assert status.window == rows.stop - rows.start
        if not final:
            assert [means for _, means in status.means.values()] == [[], []]
            continue
        seen += 1
        shares = np.bincount(stream.labels[rows], minlength=4) / status.window
        np.testing.assert_array_equal(status.shares, shares)
        whole = np.arange(final // window * window).reshape(-1, window)[-120:]
        for name, of_rows in (("entropy", stream.entropy), ("surprise", stream.surprise)):
            now, past = status.means[name]
            assert now == pytest.approx(of_rows[rows].mean(), abs=ORACLE)
            np.testing.assert_allclose(past, of_rows[whole].mean(axis=1), rtol=0, atol=ORACLE)
    assert seen
    assert (status.quantities.positions, status.waiting, status.quantities.unproven) == (ROWS, 0, 0)


def test_the_whole_stream(stream: Stream) -> None:
    status, alarms = last(stream, 100)
    assert alarms == []
    assert status.quantities.sequences == np.count_nonzero(stream.chain.starts)
    np.testing.assert_allclose(status.quantities.labels, stream.posteriors.sum(axis=0), atol=ORACLE * ROWS)


RULES = {
    "scan>0.9": lambda stream: stream.posteriors[:, 1] > 0.9,
    "a>b<0.1": lambda stream: stream.posteriors[:, 2] < 0.1,
    " surprise > 0.5": lambda stream: stream.surprise > 0.5,
    "entropy>0.5": lambda stream: stream.posteriors[:, 3] > 0.5,  # a label that is called so comes first
    "share(scan)>0.4": lambda stream: stream.share(1, 100) > 0.4,
    "share(a>b)<2e-1": lambda stream: stream.share(2, 100) < 0.2,
    "surprise>600": lambda stream: stream.surprise > 600.0,
    "scan>-1": lambda stream: stream.posteriors[:, 1] > -1.0,
}
VALUES = {
    "scan>0.9": lambda stream: stream.posteriors[:, 1],
    " surprise > 0.5": lambda stream: stream.surprise,
    "share(scan)>0.4": lambda stream: stream.share(1, 100),
}


def by_hand(stream: Stream, text: str) -> list[tuple[int, int | None]]:
    """For each alarm its first row, and how many rows it lasted: None if it did to the end; row by row."""
    found: list[tuple[int, int | None]] = []
    since = None
    for row, holds in enumerate(RULES[text](stream), 1):
        if holds and since is None:
            since = row
        elif not holds and since is not None:
            found.append((since, row - since))
            since = None
    return found if since is None else [*found, (since, None)]


@pytest.mark.parametrize("cut", CUTS)
def test_alarms(cut: str, stream: Stream) -> None:
    status, alarms = last(stream, CUTS[cut], window=100, alarms=[*RULES, *RULES])
    assert [alarm.at for alarm in alarms] == sorted(alarm.at for alarm in alarms)
    for text in RULES:
        expected = by_hand(stream, text)
        raised = [alarm for alarm in alarms if alarm.rule == text and alarm.rows is None]
        over = [(alarm.row, alarm.rows) for alarm in alarms if alarm.rule == text and alarm.rows is not None]
        assert [alarm.row for alarm in raised] == [row for row, _ in expected]
        assert over == [one for one in expected if one[1] is not None]
        assert [alarm.label for alarm in raised] == [LABELS[stream.labels[row - 1]] for row, _ in expected]
        if text in VALUES:
            values = VALUES[text](stream)[[row - 1 for row, _ in expected]]
            np.testing.assert_allclose([alarm.value for alarm in raised], values, rtol=0, atol=ORACLE)
        assert status.raised[text] == len(expected)
        on = [alarm.row for alarm in status.alarms if alarm.rule == text and alarm.rows is None]
        assert on == [row for row, rows in expected if rows is None]
    assert len({alarm.rule for alarm in alarms}) == len(RULES) - 1, "one of them never holds"
    ended = [alarm for alarm in alarms if alarm.rows is not None]
    assert status.alarms[-6:] == ended[:-7:-1]


def test_an_alarm_can_be_raised_on_the_entropy_of_rows(stream: Stream) -> None:
    names = named(("normal", "scan", "flood", "guess"))
    other = replace(stream, model=replace(stream.model, vocabulary=names))
    _, alarms = last(other, 33, alarms=["entropy>0.3"])
    rows = {alarm.row for alarm in alarms}
    holds = np.append(False, stream.entropy > 0.3)
    assert rows == set(np.flatnonzero(holds[1:] & ~holds[:-1]) + 1)
    assert rows


def test_a_label_that_cannot_be_is_no_endless_surprise(stream: Stream) -> None:
    forbidding = replace(stream.model, first=np.array([False, True, True, True]))
    block = replace(stream.chain, labels=np.zeros(ROWS, np.int32)).block(0, 1)
    monitor = Monitor(forbidding, alarms=["surprise>700"])
    (alarm,) = monitor.push(block) + monitor.end()
    assert 700.0 < alarm.value < 709.0


def test_a_sequence_that_ends_alone(stream: Stream) -> None:
    """Rows that have waited are final with an empty block that ends them."""
    monitor = Monitor(stream.model)
    monitor.push(stream.chain.block(0, 5))
    monitor.push(stream.chain.block(5, 5), ended=True)
    assert monitor.status().waiting == 0
    assert monitor.status().window == 5


def test_rows_that_waited_too_long_are_counted(stream: Stream) -> None:
    monitor = Monitor(stream.model, max_lag=0)
    monitor.push(stream.chain.block(0, 200))
    assert monitor.status().quantities.unproven > 0
    assert monitor.status().waiting == 0


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("scan>2", "the alarm 'scan>2' can never be raised: the probability of a label is between 0 and 1"),
        ("share(scan)<-1", "the alarm 'share(scan)<-1' can never be raised: a share is between 0 and 1"),
        ("scan", "cannot read 'scan' as an alarm; write NAME>NUMBER"),
        ("", "cannot read"),
        (">1", "cannot read"),
        ("scan>", "cannot read"),
        ("scan>=1", "cannot read"),
        ("scan>nan", "cannot read"),
        ("scan>inf", "cannot read"),
        ("flood>1", "there is no 'flood' to raise the alarm 'flood>1'; choose surprise, entropy, or a label"),
        ("share(surprise)>1", "there is no 'share(surprise)'"),
        ("flood>1", "one of normal, scan, a>b, entropy."),
    ],
)
def test_rules_that_cannot_be_read(rule: str, sentence: str, stream: Stream) -> None:
    with pytest.raises(ChainfoldError) as error:
        Monitor(stream.model, alarms=[rule])
    assert sentence in str(error.value)


def test_settings_that_make_no_sense(stream: Stream) -> None:
    with pytest.raises(ChainfoldError, match="window is 0"):
        Monitor(stream.model, window=0)
    with pytest.raises(ChainfoldError, match="no names"):
        Monitor(replace(stream.model, vocabulary=None))
