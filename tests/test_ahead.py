"""Items made in a thread: the same ones, the same failures, and no thread left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from chainfold.data.ahead import read_ahead


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
