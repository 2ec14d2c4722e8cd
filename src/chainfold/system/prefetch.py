"""Make the next items in threads while one is used: reading, encoding and writing share the cores."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain as chained
from itertools import islice
from typing import Any, TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")

_END = object()
_PATIENCE = 0.5  # seconds for the thread to notice that the consumer has stopped; one that waits for a pipe never does


def read_ahead(items: Iterable[T], depth: int = 1) -> Iterator[T]:
    """Iterate over the items; a thread makes `depth` of them in advance, from now on."""
    return _Ahead(items, depth)


def read_with_pauses(items: Iterable[T], seconds: float) -> Iterator[T | None]:
    """Iterate over the items, which a thread makes, and over a None whenever none has come for so many seconds."""
    return _Ahead(items, 1, seconds)


def made_ahead(make: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """Iterate over the results in the order of the items; the next ones are computed on this many threads.

    A single item needs no thread.
    """
    rest = iter(items)
    first = list(islice(rest, 2))
    if len(first) < 2:
        yield from map(make, first)
        return
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in chained(first, rest):
            waiting.append(pool.submit(make, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class _Ahead(Iterator[T]):
    """Exceptions of the producer are re-raised in the consumer; the thread ends when this object is freed."""

    _thread: threading.Thread | None = None  # until it is started, which may fail

    def __init__(self, items: Iterable[Any], depth: int, pause: float | None = None) -> None:
        self._pause = pause
        self._left = threading.Event()
        self._made: queue.Queue[Any] = queue.Queue(depth)
        self._thread = threading.Thread(target=_make, args=(items, self._made, self._left), daemon=True)
        self._thread.start()

    def __next__(self) -> T:
        if self._left.is_set():
            raise StopIteration
        try:
            item, error = self._made.get(timeout=self._pause)
        except queue.Empty:
            return cast(T, None)  # a pause is wanted
        if error is None and item is not _END:
            made: T = item
            return made
        self._leave()
        raise error or StopIteration

    def __del__(self) -> None:
        if self._thread is not None:
            self._leave()

    def _leave(self) -> None:
        self._left.set()
        thread = self._thread
        if thread is None or thread is threading.current_thread():  # the one that makes may find this to be garbage
            return
        if thread.is_alive():
            thread.join(_PATIENCE)


def _make(items: Iterable[T], made: queue.Queue[Any], left: threading.Event) -> None:
    try:
        for item in items:
            if not _put((item, None), made, left):
                return
        _put((_END, None), made, left)
    except BaseException as error:  # raised in the other thread
        _put((_END, error), made, left)


def _put(item: Any, made: queue.Queue[Any], left: threading.Event) -> bool:
    """Wait for room in the queue; returns False if the consumer has stopped."""
    while not left.is_set():
        try:
            made.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
