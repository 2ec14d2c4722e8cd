"""Items made in a thread: the same ones, the same failures, and no thread left behind."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator

import pytest

from chainfold.system.prefetch import made_ahead, read_ahead

pytestmark = pytest.mark.quick


def numbers(count: int, fail: bool = False) -> Iterator[int]:
    yield from range(count)
    if fail:
        raise ZeroDivisionError("at the end")


@pytest.mark.parametrize("depth", [1, 3])
def test_the_same_items_in_the_same_order(depth: int) -> None:
    ahead = read_ahead(numbers(100), depth)
    assert list(ahead) == list(range(100))
    assert next(ahead, None) is None, "and no more, however often one asks"


def test_a_failure_comes_after_what_was_made_before_it() -> None:
    ahead = read_ahead(numbers(5, fail=True))
    assert [next(ahead) for _ in range(5)] == list(range(5))
    with pytest.raises(ZeroDivisionError, match="at the end"):
        next(ahead)


def test_a_thread_ends_when_nobody_wants_more() -> None:
    before = threading.active_count()
    nested = read_ahead(read_ahead(numbers(10**9)))
    assert next(nested) == 0
    assert threading.active_count() > before
    del nested
    assert threading.active_count() == before


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_made_comes_in_the_order_of_the_items(count: int, threads: int) -> None:
    assert list(made_ahead(lambda number: number**2, numbers(count), threads)) == [k**2 for k in range(count)]


def test_no_more_is_made_ahead_than_there_are_threads() -> None:
    taken: list[int] = []
    items = (taken.append(number) or number for number in range(50))  # type: ignore[func-returns-value]
    for number in made_ahead(lambda number: number, items, 2):
        assert len(taken) <= number + 3


def test_a_failure_of_one_comes_in_its_turn() -> None:
    made = made_ahead(lambda number: 1 / (3 - number), numbers(9), 2)
    assert [next(made) for _ in range(3)] == [1 / 3, 1 / 2, 1]
    with pytest.raises(ZeroDivisionError):
        next(made)


def test_one_item_needs_no_thread() -> None:
    assert list(made_ahead(lambda number: threading.current_thread(), numbers(1), 2)) == [threading.current_thread()]
    assert threading.current_thread() not in made_ahead(lambda number: threading.current_thread(), numbers(2), 2)


def test_an_interrupt_before_the_thread_has_started_is_the_only_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    seen: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_ahead(iter([1]))
    gc.collect()
    assert not seen


def test_no_memory_to_begin_is_the_only_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> threading.Event:
        raise MemoryError

    monkeypatch.setattr("chainfold.system.prefetch.threading.Event", fail)
    with pytest.raises(MemoryError):
        read_ahead(numbers(5))
    gc.collect()  # what is left of it is freed without an error, which would be a warning
