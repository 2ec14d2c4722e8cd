"""A round of tasks on a cluster, of which each may run anywhere: placed, repeated where needed, and limited in time.

A task that is lost with its worker runs again elsewhere; dask sees to that, as long as what it needs is still
somewhere. What was lost with it is sent again here. A task that takes much longer than the others is begun a second
time on another worker; the first result counts, and all have the same bits. Where nothing is finished for the time
allowed, an error names the worker.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from chainfold.dask.failure import Failure
from chainfold.errors import ChainfoldError

if TYPE_CHECKING:
    from distributed import Client, Future

TIMEOUT = 300.0
"""Seconds in which something must be finished."""

FAN_IN = 8
"""Results that are joined at a time, and the most that the client gathers of those that can be joined."""

_TRIES = 4  # of tasks whose input was lost
_LOOK = 1.0  # seconds between two looks at tasks that are not finished
_SILENT = 5.0  # seconds without a sign of life of a worker, when others give theirs
_SLOW, _LEAST_SLOW = 3.0, 5.0  # times the time of the first half of the tasks, and seconds: a task that takes longer


class Task(NamedTuple):
    """A function with its arguments, a description, and the worker that should run it."""

    work: Callable[..., Any]
    args: tuple[Any, ...]
    subject: str
    worker: str | None = None


class WorkerSlots:
    """The threads of the workers, in an order that changes as little as possible when workers come and go."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._workers: list[str] = []

    def workers(self) -> list[str]:
        """The address of the worker of each slot."""
        free = Counter({address: facts["nthreads"] for address, facts in _workers(self._client).items()})
        count = max(free.total(), 1)
        kept: list[str | None] = []
        for worker in (self._workers + [""] * count)[:count]:
            stays = free[worker] > 0
            free[worker] -= stays
            kept.append(worker if stays else None)
        new = iter(sorted((+free).elements()))
        self._workers = [worker or next(new, "") for worker in kept]
        return self._workers


def _workers(client: Client) -> dict[str, Any]:
    workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return workers


@dataclass
class Round:
    """Tasks, with values that all of them take as their first arguments and that are sent to each worker once."""

    client: Client
    tasks: Sequence[Task]
    shared: tuple[Any, ...] = ()
    timeout: float = TIMEOUT
    done: Callable[[int], None] | None = None  # called once with the number of each task that is done
    join: Callable[..., Any] | None = None  # makes one result of consecutive ones, on a worker
    _copies: list[list[Future[Any]]] = field(default_factory=list)  # of each task
    _sent: list[Future[Any]] = field(default_factory=list)
    _reported: set[int] = field(default_factory=set)  # tasks for which `done` was called

    def results(self) -> list[Any]:
        """The results in the order of the tasks; raises the first failure among them."""
        for turn in range(_TRIES):
            try:
                large = self.join is not None  # direct is faster, but waits long for a worker that has just died
                futures = self._joined(self.futures())
                results: list[Any] = self._limited(partial(self.client.gather, futures, direct=large))
            except (CancelledError, OSError, KeyError):  # a worker died; what only the client has is lost with it
                self._check_scheduler()
                time.sleep(turn * _LOOK)  # until it is known who died
                continue
            except BaseException:
                self.client.cancel([future for copies in self._copies for future in copies])
                raise
            for result in results:
                if isinstance(result, Failure):
                    raise result.error()
            return results
        raise ChainfoldError("the workers of the cluster keep dying; see their logs, and give them more memory.")

    def futures(self) -> list[Future[Any]]:
        """Futures of the tasks, all finished."""
        self._begin()
        begin = last = time.monotonic()
        half: float | None = None
        finished = 0
        while True:
            pending = [k for k, copies in enumerate(self._copies) if not self._settled(copies)]
            now = time.monotonic()
            if len(self.tasks) - len(pending) > finished:
                finished, last = len(self.tasks) - len(pending), now
            if not pending:
                return [self._first(copies) for copies in self._copies]
            if half is None and 2 * len(pending) <= len(self.tasks):
                half = now - begin
            if now - last > self.timeout:
                raise self._late(pending)
            if half is not None and now - begin > max(_LEAST_SLOW, _SLOW * half):
                self._copy(pending)
            self._wait(pending)

    def _joined(self, futures: list[Future[Any]]) -> list[Future[Any]]:
        """Join results on the workers until they are few enough for the client to gather."""
        while self.join is not None and len(futures) > FAN_IN:
            parts = [futures[low : low + FAN_IN] for low in range(0, len(futures), FAN_IN)]
            tasks = [Task(self.join, tuple(part), "the sum of some positions") for part in parts]
            futures = Round(self.client, tasks, timeout=self.timeout).futures()
        return futures

    def _check_scheduler(self) -> None:
        if self.client.status != "running":
            address = self.client.scheduler.address
            raise ChainfoldError(f"the connection to scheduler {address} is lost; start it again, and continue.")

    def _begin(self) -> None:
        if self.shared:
            send = partial(self.client.scatter, list(self.shared), direct=True, broadcast=True, hash=False)
            try:
                self._sent = self._limited(send)
            except ChainfoldError:
                raise
            except ValueError as error:  # in distributed, for a worker that left while it was sent
                raise CancelledError from error
        self._copies = [[self._submit(task, task.worker)] for task in self.tasks]
        if self.done is not None:
            for k, (future,) in enumerate(self._copies):
                future.add_done_callback(partial(self._report, k))

    def _limited(self, call: Callable[..., Any]) -> Any:
        """Call an asynchronous method of the client, for `timeout` seconds at most."""
        begin = time.monotonic()
        try:
            return self.client.sync(partial(call, asynchronous=True), callback_timeout=self.timeout)
        except TimeoutError:
            if time.monotonic() - begin < self.timeout:
                raise
            raise self._silent() from None

    def _silent(self) -> ChainfoldError:
        """An error for workers that do not answer."""
        seen = {address: facts["last_seen"] for address, facts in _workers(self.client).items()}
        latest = max(seen.values(), default=0.0)
        silent = sorted(address for address, then in seen.items() if latest - then > _SILENT)
        who = f"worker {silent[0]} has not answered" if silent else "the workers have not answered"
        return ChainfoldError(f"{who} for {self.timeout:,.0f} seconds; restart it, or allow more time with `timeout`.")

    def _report(self, task: int, future: Future[Any]) -> None:
        if future.status == "finished" and future.type is not Failure and task not in self._reported:
            self._reported.add(task)
            assert self.done is not None, "the callback was added for it"
            self.done(task)

    def _submit(self, task: Task, worker: str | None) -> Future[Any]:
        where = {"workers": [worker], "allow_other_workers": True} if worker else {}
        key = f"chainfold-{task.work.__name__}-{uuid.uuid4().hex}"
        return self.client.submit(task.work, *self._sent, *task.args, key=key, pure=False, **where)

    def _wait(self, pending: list[int]) -> None:
        from distributed import wait

        with self.client.as_current(), suppress(TimeoutError):
            wait([future for k in pending for future in self._copies[k]], timeout=_LOOK)

    def _settled(self, copies: list[Future[Any]]) -> bool:
        """Whether a copy is finished; raises if all have failed."""
        states = [future.status for future in copies]
        if "finished" in states:
            return True
        if all(state in ("cancelled", "lost") for state in states):
            raise CancelledError
        if all(state in ("error", "cancelled", "lost") for state in states):
            failed = copies[states.index("error")]
            raise _died(self._subject(failed), failed.exception())
        return False

    def _first(self, copies: list[Future[Any]]) -> Future[Any]:
        return next(future for future in copies if future.status == "finished")

    def _subject(self, future: Future[Any]) -> str:
        return next(task.subject for task, copies in zip(self.tasks, self._copies, strict=True) if future in copies)

    def _copy(self, pending: list[int]) -> None:
        """Begin slow tasks once more, on other workers."""
        busy = {worker for worker, keys in self.client.processing().items() if keys}
        idle = sorted(set(_workers(self.client)) - busy)
        for k, worker in zip((k for k in pending if len(self._copies[k]) == 1), idle, strict=False):
            self._copies[k].append(self._submit(self.tasks[k], worker))

    def _late(self, pending: list[int]) -> ChainfoldError:
        """An error for tasks that no worker finishes."""
        subject = self.tasks[pending[0]].subject
        keys = {future.key for future in self._copies[pending[0]]}
        if not _workers(self.client):
            return ChainfoldError(
                f"the cluster has had no workers for {self.timeout:,.0f} seconds; start some, and continue."
            )
        at = [worker for worker, held in self.client.processing().items() if keys & set(held)]
        who = f"worker {at[0]} has not finished" if at else "no worker has finished"
        return ChainfoldError(
            f"{who} {subject} within {self.timeout:,.0f} seconds; restart it if it hangs, or allow more time with "
            f"`timeout`."
        )


def _died(subject: str, error: BaseException | None) -> BaseException:
    """A task that could not be done: its workers died, or it met an error that chainfold does not expect."""
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        times = error.allowed_failures + 1
        return ChainfoldError(
            f"{times} workers died while they worked on {subject}, {error.last_worker.address} as the last one; see "
            f"its log, and give workers more memory."
        )
    return error or ChainfoldError(f"{subject} could not be computed.")
