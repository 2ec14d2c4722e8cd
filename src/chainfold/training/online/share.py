"""The share of some positions in the gradient, from a window of the chain.

A window has the positions to train on, some before and some after them. Their attributes are renumbered by those that
occur in it, under the weights of these alone. Where the chain forgets within the window, the share is that of the whole
chain (`engines.stretch`); elsewhere a larger window is needed, and `share_in` says on which side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block, frozen, join_blocks
from chainfold.chain.chain import Chain
from chainfold.engines.potentials import Potentials
from chainfold.engines.problem import Problem
from chainfold.engines.settings import Settings
from chainfold.engines.stretch import Halo, share
from chainfold.inference.decoder import Decoder, Scorer
from chainfold.kernels.viterbi import trace
from chainfold.model.layout import Floats, Layout
from chainfold.model.model import Model

_NO_EDGES = frozen(None, np.int64), frozen(None, np.int32), frozen(None, np.float64)

NOTHING = Block(
    frozen(None, np.int32),
    frozen(None, np.bool_),
    frozen([0], np.int64),
    frozen(None, np.int32),
    frozen(None, np.float64),
    *_NO_EDGES,
)
"""No positions."""


class Renumbering:
    """Numbers that some attributes of many have among themselves."""

    def __init__(self, size: int) -> None:
        self._table = np.empty(size, np.int32)

    def __call__(self, ids: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The distinct ids, by their last appearance, and the number of each id among them."""
        order = np.arange(ids.size, dtype=np.int32)
        self._table[ids] = order
        distinct = ids[self._table[ids] == order]
        self._table[distinct] = order[: distinct.size]
        return distinct, self._table[ids]


@dataclass(frozen=True, eq=False)
class TrainingWindow:
    """Positions with what is around them; those to train on are low … high-1."""

    block: Block
    low: int
    high: int
    begun: bool  # does a sequence start with the first of its positions?
    ended: bool  # does one end with the last?


class WindowShare(NamedTuple):
    """What the positions to train on add to the gradient of the negative log likelihood, and what they are worth."""

    loss: float
    ids: NDArray[np.int32]  # their attributes, each once
    rows: Floats  # [ids, N]
    transitions: Floats  # [N, N]
    labels: NDArray[np.int32]  # the best labels of the positions to train on
    past_known: bool  # nothing before the window could change the share
    future_known: bool  # nothing after it


def share_in(
    window: TrainingWindow,
    renumbering: Renumbering,
    weights: Callable[[NDArray[np.int32]], Floats],
    transitions: Floats,
) -> WindowShare:
    """The share of a window's positions; without what is outside, where that is not known to make no difference."""
    block = join_blocks([window.block])
    ids, local = renumbering(block.ids)
    starts, labels = block.starts.copy(), block.labels.copy()
    starts[0] = True  # of the window, if not of a sequence
    labels[window.high :] = 0  # they do not matter, and may have no weights as yet
    n_labels = len(transitions)
    chain = Chain(
        *block._replace(labels=frozen(labels, np.int32), starts=frozen(starts, np.bool_), ids=frozen(local, np.int32)),
        n_labels=n_labels,
        n_attributes=ids.size,
        n_edge_attributes=0,
    )
    layout = Layout.full(n_labels, ids.size)
    model = Model(layout, np.concatenate([weights(ids).ravel(), transitions.ravel()]))
    problem, whole = Problem(model, chain, Settings()), Halo(chain.positions, chain.positions)
    potentials = Potentials.of(problem)
    tally, past, future = share(problem, potentials, window.low, window.high, whole)
    assert tally.observed is not None, "positions to train on are labelled"
    gradient = layout.unpack(tally.expected.result()) - layout.unpack(tally.observed.result())
    occurs = np.zeros(ids.size, np.bool_)
    occurs[local[block.offsets[window.low] : block.offsets[window.high]]] = True
    return WindowShare(
        loss=tally.log_z - tally.score,
        ids=ids[occurs],
        rows=gradient[: layout.n_state].reshape(-1, n_labels)[occurs],
        transitions=gradient[layout.n_state :].reshape(n_labels, n_labels),
        labels=_best(model, potentials, chain.block(0, chain.positions))[window.low : window.high],
        past_known=past.certified or window.begun or (past.value is None and window.low > 0),
        future_known=future.certified or window.ended or (future.value is None and window.high < chain.positions),
    )


def _best(model: Model, potentials: Potentials, block: Block) -> NDArray[np.int32]:
    """The best labels of all positions of a block that begins and ends a sequence."""
    scorer = Scorer(model, potentials)
    back, finals, _ = Decoder(scorer).viterbi(0, scorer.score(0, block, True))
    labels = np.empty(block.labels.size, np.int32)
    trace(back, finals[-1], labels)
    return labels
