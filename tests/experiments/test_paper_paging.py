"""A memory limit in user space: what is kept to it comes back whole, from the disk, and the engines notice nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from chainfold import Layout, Model, SyntheticChain, log_likelihood, write_chain
from chainfold.chain.batches import StoredChain
from chainfold.errors import ChainfoldError
from experiments.paper import paging
from experiments.paper.memory_limited import PagedChain, UncachedChain, evaluate_limited
from experiments.paper.paging import Pager, clocks, in_memory, obstacle, traffic
from experiments.paper.prefix import hold

LIMIT, POSITIONS, BLOCK = 2_000_000, 60_000, 512

_reason = obstacle(Path(tempfile.gettempdir()))
needs_paging = pytest.mark.skipif(_reason is not None, reason=f"no memory limit can be kept: {_reason}")


@pytest.fixture
def pager() -> Iterator[Pager]:
    with Pager(LIMIT) as made:
        yield made


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of several megabytes, in small batches."""
    path = tmp_path_factory.mktemp("stored") / "chain"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("chainfold.chain.stored.MOST_ROWS", 4096)
        write_chain(path, SyntheticChain(POSITIONS, 2, 5, 5, seed=3))
    return path


@pytest.fixture
def small_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make what is read beside a batch small beside a chain of megabytes."""
    monkeypatch.setattr("experiments.paper.memory_limited._ENDS", 4096)
    monkeypatch.setattr("experiments.paper.memory_limited._BESIDE", 4096)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(Layout.full(2, 5), SyntheticChain(POSITIONS, 2, 5, 5, seed=3).true_weights())


@needs_paging
def test_pages_leave_and_come_back_from_the_disk(pager: Pager) -> None:
    table, step = pager.table((1_000_000, 2)), 4096
    right = np.random.default_rng(1).random((1_000_000, 2))
    before = traffic()
    for low in range(0, 1_000_000, step):
        table[low : low + step] = right[low : low + step]
        assert sum(map(in_memory, pager._files)) <= LIMIT
    assert traffic().since(before).written >= right.nbytes - LIMIT
    for rows in (range(0, 1_000_000, step), reversed(range(0, 1_000_000, step))):
        before = traffic()
        for low in rows:
            np.testing.assert_array_equal(table[low : low + step], right[low : low + step])
        assert traffic().since(before).read >= right.nbytes - 2 * LIMIT
        assert sum(map(in_memory, pager._files)) <= LIMIT
    pager.check()
    assert 0.8 * LIMIT < pager.peak <= LIMIT
    assert pager.dropped > 2 * right.nbytes


@needs_paging
def test_the_least_recently_used_leaves(pager: Pager) -> None:
    table, chunk = pager.table(8 * LIMIT, np.uint8), pager._chunk
    many = LIMIT // chunk
    for k in range(many):
        table[k * chunk : (k + 1) * chunk] = k
    table.touch(0)
    table[many * chunk] = 1
    assert (0, 0) in pager._recent, "it was used again"
    assert (0, 1) not in pager._recent
    assert list(pager._recent)[-1] == (0, many)


@needs_paging
def test_what_is_not_dropped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_fadvise", lambda *advice: None)
    with Pager(LIMIT) as pager:
        table = pager.table(10 * LIMIT, np.uint8)
        for low in range(0, 10 * LIMIT, 10_000):
            table[low : low + 10_000] = 1
        with pytest.raises(ChainfoldError, match=r"bytes were in memory, and the limit is 2,000,000\."):
            pager.check()


@needs_paging
def test_what_was_never_written_is_not_counted() -> None:
    before = traffic()
    with Pager(LIMIT) as pager:
        table = pager.table(LIMIT // 2, np.uint8)
        table[:] = 1
    assert traffic().since(before).written < LIMIT // 4


def test_a_limit_has_room_for_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ChainfoldError, match="memory_limit is 1000, but must be at least"):
        Pager(1000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nothing"))
    with Pager(LIMIT) as pager, pytest.raises(ChainfoldError, match="cannot hold 800 bytes of tables: No such file"):
        pager.table(100)


def test_where_no_limit_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cannot be paged: No such file" in str(obstacle(tmp_path / "nothing")) or _reason
    monkeypatch.setattr("sys.platform", "darwin")
    assert str(obstacle(tmp_path)).startswith("the system has no way")
    monkeypatch.undo()
    monkeypatch.setattr(paging, "_IO", tmp_path / "nothing")
    assert traffic() == (0, 0)
    assert str(obstacle(tmp_path)).endswith("is not counted when it is read") or _reason


CASES = [
    ("fb-log", "memory", 64 + 33, 2.0),
    ("emp", "memory", 33, 1.0),
    ("fb-log-recompute", "memory", 16 + 33, 2.0),
    ("fb-log-recompute", "disk", 16, 2.0),
    ("fb-log-spill", "disk", 0, 2.0),
    ("emp", "disk", 0, 1.0),
]


@needs_paging
@pytest.mark.usefixtures("small_chains")
@pytest.mark.parametrize(("engine", "held", "kept", "passes"), CASES)
def test_engines_within_a_limit_are_the_same_to_the_bit(
    stored: Path, model: Model, engine: str, held: str, kept: int, passes: float
) -> None:
    right = log_likelihood(model, hold(StoredChain(stored), POSITIONS), engine, block=BLOCK, observe=False)
    source = StoredChain(stored)
    limit = LIMIT if held == "memory" else 1_000_000
    with Pager(limit) as pager:
        used = (PagedChain if held == "memory" else UncachedChain)(source, POSITIONS, pager)
        pager.look()
        before, dropped = traffic(), pager.dropped
        found = evaluate_limited(pager, model, used, engine, BLOCK)
        moved, dropped = traffic().since(before), pager.dropped - dropped
        pager.check()
        peak = pager.peak
    assert found.log_z == right.log_z
    np.testing.assert_array_equal(found.expected, right.expected)
    assert found.report == right.report
    assert found.report.passes == passes
    assert peak <= limit
    if kept * POSITIONS > LIMIT:
        assert dropped > kept * POSITIONS - LIMIT
    if held == "disk":
        assert moved.read > 0.9 * passes * stored.stat().st_size
    if engine == "fb-log":
        assert moved.read > 64 * POSITIONS, "it came back from the disk"
        assert moved.written > 32 * POSITIONS
    if engine == "fb-log-spill":
        assert moved.written > 12 * POSITIONS


def test_the_clock_stands_while_others_have_the_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = tmp_path / "schedstat"
    monkeypatch.setattr(paging, "_QUEUE", queue)
    monkeypatch.setattr("time.perf_counter", lambda: 100.0)
    monkeypatch.setattr("time.process_time", lambda: 40.0)
    assert clocks().tolist() == [100.0, 40.0], "where it is not told, all of it counts"
    queue.write_text("40000000000 7000000000 12\n")
    assert clocks().tolist() == [93.0, 40.0]
