"""A synthetic log of network connections: one long labelled sequence with episodes of attack.

An episode is normal traffic, a scan of the network, a flood of requests, password guessing or, only after that, a
takeover. The columns of a connection depend on its label, but weakly: one row seldom shows it, the rows around it do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import ArrayLike, NDArray

LABELS = ("normal", "scan", "flood", "guess", "takeover")
ATTRIBUTES = (
    "protocol service flag service|flag log(gap) log(sent) log(received) quantile(recent,12) quantile(errors,12)"
)

_ROWS = 65536  # of a batch
_EPISODES = 256  # drawn at once

# By label, in the order of LABELS
_LENGTH = (300, 45, 120, 35, 15)  # connections in an episode, on average
_NEXT = (  # probabilities of the next episode
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
_UNANSWERED = (1, 2)  # silent, refused
_GAP = (-1.0, -1.7, -2.4, -0.3, 0.2)  # mean logarithm of the seconds since the connection before
_SENT = (6.0, 5.0, 5.2, 5.3, 7.0)  # mean logarithm of the bytes
_RECEIVED = (7.3, 5.8, 5.6, 6.2, 8.6)
_RECENT = (4.0, 8.0, 14.0, 5.0, 3.0)  # connections to the same host within two seconds
_ERRORS = (0.12, 0.24, 0.27, 0.22, 0.12)  # the share of them that failed


def write_log(path: str | Path, positions: int, seed: int = 0) -> None:
    """Write a log as CSV; the same seed gives the same log."""
    with Path(path).open("wb") as file:
        for k, batch in enumerate(log_batches(positions, seed)):
            if k == 0:
                file.write(",".join(batch.schema.names).encode() + b"\n")
            pa.csv.write_csv(batch, file, pa.csv.WriteOptions(include_header=False, quoting_style="none"))


def log_batches(positions: int, seed: int = 0) -> Iterator[Any]:
    """A log as Arrow record batches: the number of the connection, its columns, and its label."""
    random = np.random.default_rng([seed, 0])
    labels, label = np.empty(0, np.int64), 0
    for low in range(0, positions, _ROWS):
        rows = min(_ROWS, positions - low)
        while labels.size < rows:
            drawn, label = _episodes(label, random)
            labels = np.concatenate([labels, drawn])
        yield _connections(low, labels[:rows], random)
        labels = labels[rows:]


def _episodes(label: int, random: np.random.Generator) -> tuple[NDArray[np.int64], int]:
    """The labels of the next episodes, the first of them with this label; and the label after them."""
    follow, kinds = np.cumsum(_NEXT, axis=1), np.empty(_EPISODES, np.int64)
    for k, chance in enumerate(random.random(_EPISODES)):
        kinds[k] = label
        label = int(np.searchsorted(follow[label], chance, side="right"))
    mean = np.array(_LENGTH)[kinds]
    return np.repeat(kinds, 1 + random.negative_binomial(3, 3 / (2 + mean))), label


def _connections(first: int, labels: NDArray[np.int64], random: np.random.Generator) -> Any:
    """Rows with these labels."""
    flags = _drawn(_FLAGS, labels, random)
    answered = ~np.isin(flags, _UNANSWERED)
    crowd = random.gamma(1.2, np.take(_RECENT, labels) / 1.2)
    errors = np.take(_ERRORS, labels)
    columns = {
        "number": np.arange(first, first + labels.size),
        "gap": np.round(_lognormal(_GAP, 1.3, labels, random), 3),
        "protocol": _named(_PROTOCOLS, _drawn(_PROTOCOLS, labels, random)),
        "service": _named(_SERVICES, _drawn(_SERVICES, labels, random)),
        "flag": _named(_FLAGS, flags),
        "sent": _lognormal(_SENT, 1.5, labels, random).astype(np.int64),
        "received": np.where(answered, _lognormal(_RECEIVED, 2.0, labels, random), 0.0).astype(np.int64),
        "recent": random.poisson(crowd),
        "errors": np.round(random.beta(3 * errors, 3 * (1 - errors)), 2),
        "label": _named(LABELS, labels),
    }
    return pa.RecordBatch.from_pydict(columns)


def _drawn(
    shares: Mapping[str, tuple[float, ...]], labels: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int64]:
    """For each label the number of one of the names."""
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
