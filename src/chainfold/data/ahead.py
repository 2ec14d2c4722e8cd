"""The next item is made in a thread while this one is used: reading and encoding share two cores."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_END = object()
_PATIENCE = 0.5  # seconds for the thread to notice that nobody wants more; one that waits for a pipe never does


def read_ahead(items: Iterable[T], depth: int = 1) -> Iterator[T]:
    """The same items in the same order, `depth` of them made in advance; what making them raises is raised here."""
    made: queue.Queue[Any] = queue.Queue(depth)
    left = threading.Event()

    def put(item: Any) -> bool:
        while not left.is_set():
            try:
                made.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def make() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
            put((_END, None))
        except BaseException as error:  # handed over, whatever it is
            put((_END, error))

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    try:
        while True:
            item, error = made.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
    finally:
        left.set()
        thread.join(_PATIENCE)
