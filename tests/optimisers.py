"""Optimisers run to their end."""

from __future__ import annotations

from chainfold.training.optimisers import base


def run(optimiser: base.Optimiser) -> list[base.Iteration]:
    steps = []
    while not optimiser.finished:
        step = optimiser.advance()
        if step is not None:
            steps.append(step)
    return steps
