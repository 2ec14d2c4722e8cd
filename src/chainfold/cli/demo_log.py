"""A synthetic log of network connections: one long labelled sequence with episodes of attack.

An episode is normal traffic, a scan of the network, a flood of requests, password guessing or, only after that, a
takeover. The columns of a connection depend on its label, but weakly: one row seldom shows it, the rows around it do.

The same seed gives the same log. It is made a batch of rows at a time, and is never in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import ArrayLike, NDArray

from chainfold.errors import BadSetting
from chainfold.system.files import written_whole

LABELS = ("normal", "scan", "flood", "guess", "takeover")

ATTRIBUTES = (
    "protocol service flag service|flag log(gap) log(sent) log(received) quantile(recent,12) quantile(errors,12)"
)
"""The attributes of the columns, for `encode`."""

_ROWS = 65536  # made at once
_EPISODES = 256

# By label, in the order of LABELS
_LENGTH = (300, 45, 120, 35, 15)  # connections in an episode, on average
_NEXT = (  # what follows an episode
    (0.00, 0.60, 0.25, 0.15, 0.00),
    (0.50, 0.00, 0.20, 0.30, 0.00),
    (0.90, 0.10, 0.00, 0.00, 0.00),
    (0.60, 0.10, 0.00, 0.00, 0.30),
    (1.00, 0.00, 0.00, 0.00, 0.00),
)
_PROTOCOLS = {
    "tcp": (0.75, 0.65, 0.60, 0.93, 0.93),
    "udp": (0.19, 0.15, 0.15, 0.05, 0.05),
    "icmp": (0.06, 0.20, 0.25, 0.02, 0.02),
}
_SERVICES = {
    "http": (0.48, 0.28, 0.50, 0.20, 0.22),
    "mail": (0.15, 0.13, 0.09, 0.11, 0.10),
    "dns": (0.19, 0.13, 0.16, 0.05, 0.06),
    "ssh": (0.06, 0.14, 0.05, 0.36, 0.34),
    "ftp": (0.05, 0.13, 0.05, 0.22, 0.20),
    "other": (0.07, 0.19, 0.15, 0.06, 0.08),
}
_FLAGS = {
    "ok": (0.82, 0.52, 0.55, 0.68, 0.76),
    "silent": (0.06, 0.19, 0.30, 0.07, 0.05),
    "refused": (0.06, 0.20, 0.06, 0.09, 0.04),
    "reset": (0.06, 0.09, 0.09, 0.16, 0.15),
}
_UNANSWERED = ("silent", "refused")
_GAP = (-1.0, -1.7, -2.4, -0.3, 0.2)  # seconds since the connection before, as the mean of a logarithm
_SENT = (6.0, 5.0, 5.2, 5.3, 7.0)  # bytes, likewise
_RECEIVED = (7.3, 5.8, 5.6, 6.2, 8.6)
_RECENT = (4.0, 8.0, 14.0, 5.0, 3.0)  # connections to the same host within two seconds
_ERRORS = (0.12, 0.24, 0.27, 0.22, 0.12)  # the share of them that failed


def log_batches(positions: int, seed: int = 0, part: int = 0) -> Iterator[Any]:
    """A log as Arrow record batches, the column `label` last; another part is another log of the same kind."""
    for name, value, least in (("positions", positions, 1), ("seed", seed, 0), ("part", part, 0)):
        if value < least:
            raise BadSetting(name, value, f"at least {least}")
    random = np.random.default_rng([seed, part])
    labels = _Labels(random)
    for low in range(0, positions, _ROWS):
        yield _connections(labels.take(min(_ROWS, positions - low)), random)


def write_log(
    path: str | Path, positions: int, seed: int = 0, part: int = 0, progress: Callable[[int], None] | None = None
) -> None:
    """Write a log as CSV; `progress` gets the number of rows written."""
    with written_whole(path) as file:
        for batch in log_batches(positions, seed, part):
            if not file.tell():
                file.write(",".join(batch.schema.names).encode() + b"\n")
            how = pa.csv.WriteOptions(include_header=False, quoting_style="none")
            pa.csv.write_csv(batch, file, how)
            if progress is not None:
                progress(batch.num_rows)


class _Labels:
    """The labels of one connection after another."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random, self._label = random, 0
        self._waiting = np.empty(0, np.int64)

    def take(self, size: int) -> NDArray[np.int64]:
        """The next ones."""
        parts = [self._waiting]
        while sum(part.size for part in parts) < size:
            parts.append(self._episodes())
        labels = np.concatenate(parts)
        self._waiting = labels[size:]
        return labels[:size]

    def _episodes(self) -> NDArray[np.int64]:
        follow = np.cumsum(_NEXT, axis=1)
        kinds = np.empty(_EPISODES, np.int64)
        for k, chance in enumerate(self._random.random(_EPISODES)):
            kinds[k] = self._label
            self._label = int(np.searchsorted(follow[self._label], chance, side="right"))
        mean = np.array(_LENGTH)[kinds]
        return np.repeat(kinds, 1 + self._random.negative_binomial(3, 3 / (2 + mean)))


def _connections(labels: NDArray[np.int64], random: np.random.Generator) -> Any:
    """Rows with these labels."""
    flags = _chosen(_FLAGS, labels, random)
    answered = ~np.isin(flags, [list(_FLAGS).index(name) for name in _UNANSWERED])
    crowd = random.gamma(1.2, np.take(_RECENT, labels) / 1.2)
    errors = np.take(_ERRORS, labels)
    columns = {
        "gap": np.round(_lognormal(_GAP, 1.3, labels, random), 3),
        "protocol": _named(_PROTOCOLS, _chosen(_PROTOCOLS, labels, random)),
        "service": _named(_SERVICES, _chosen(_SERVICES, labels, random)),
        "flag": _named(_FLAGS, flags),
        "sent": _lognormal(_SENT, 1.5, labels, random).astype(np.int64),
        "received": np.where(answered, _lognormal(_RECEIVED, 2.0, labels, random), 0.0).astype(np.int64),
        "recent": random.poisson(crowd),
        "errors": np.round(random.beta(3 * errors, 3 * (1 - errors)), 2),
        "label": _named(LABELS, labels),
    }
    return pa.RecordBatch.from_pydict(columns)


def _chosen(
    shares: Mapping[str, tuple[float, ...]], labels: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int64]:
    """For each label one of the names, as a number."""
    limits = np.cumsum(list(shares.values()), axis=0)[:-1]  # [names - 1, labels]
    chances = random.random(labels.size)
    numbers: NDArray[np.int64] = np.sum([chances >= limit[labels] for limit in limits], axis=0)
    return numbers


def _named(names: Any, numbers: NDArray[np.int64]) -> Any:
    return pa.array(list(names), pa.string()).take(pa.array(numbers))


def _lognormal(
    means: ArrayLike, deviation: float, labels: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.float64]:
    return np.exp(np.take(means, labels) + deviation * random.standard_normal(labels.size))
