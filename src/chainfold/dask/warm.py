"""Kernels are compiled by one process of a machine; the others wait, and find them compiled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from chainfold.chain.block import Source
from chainfold.chain.chain import gather
from chainfold.engines.log_likelihood import run_engine
from chainfold.engines.settings import Settings
from chainfold.model.layout import Layout
from chainfold.model.model import Model
from chainfold.system.files import temporary_folder
from chainfold.system.machine import CAN_LOCK, OPEN_FLAGS, lock

_POSITIONS, _BLOCK = 2000, 250  # enough for cuts, certificates and short sequences


def warm_up(source: Source, layout: Layout) -> None:
    """Evaluate the first positions of a chain, with weights of zero."""
    with _alone_on_this_machine():
        beginning = gather(source, _POSITIONS)
        model = Model(layout, np.zeros(layout.size))
        run_engine(model, beginning, "parallel", Settings(block=_BLOCK, observe=False))


@contextmanager
def _alone_on_this_machine() -> Iterator[None]:
    """While other processes of this user wait; without locks, each process compiles."""
    if not CAN_LOCK:
        yield
        return
    path = temporary_folder() / f"chainfold-kernels-{os.getuid()}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o600)
    try:
        lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)
