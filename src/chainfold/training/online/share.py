"""The gradient of a batch as part of its sequence, computed in a window of the chain.

A window has the positions of the batch, and some before and after them. Its attributes are renumbered, so that the cost
does not depend on the size of the model. Where the chain forgets within the window, the gradient is exact
(`engines.stretch`); otherwise a larger window is needed, and `share_in` says on which side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block, frozen, join_blocks
from chainfold.chain.chain import Chain
from chainfold.core import trace
from chainfold.engines.halo import Halo
from chainfold.engines.potentials import Potentials
from chainfold.engines.problem import Problem
from chainfold.engines.settings import Settings
from chainfold.engines.stretch import share
from chainfold.engines.weight_scores import WeightSource
from chainfold.inference.decoder import Decoder, Scorer
from chainfold.model.layout import Floats, Layout
from chainfold.model.model import Model
from chainfold.training.online.adagrad import OnlineWeights

_NO_EDGES = frozen(None, np.int64), frozen(None, np.int32), frozen(None, np.float64)

NOTHING = Block(
    frozen(None, np.int32),
    frozen(None, np.bool_),
    frozen([0], np.int64),
    frozen(None, np.int32),
    frozen(None, np.float64),
    *_NO_EDGES,
)
"""A block without positions."""


@dataclass(frozen=True, eq=False)
class TrainingWindow:
    """A block whose positions low … high-1 are the batch."""

    block: Block
    low: int
    high: int
    begun: bool  # whether a sequence starts with the first position
    ended: bool  # whether a sequence ends with the last


class WindowShare(NamedTuple):
    """The gradient of a batch, and how the batch was tagged before the step."""

    loss: float  # negative log likelihood
    ids: NDArray[np.int32]  # attributes of the batch, each once
    rows: Floats  # [ids, N]
    transitions: Floats  # [N, N]
    labels: NDArray[np.int32]  # best labels of the batch
    past_known: bool  # whether positions before the window cannot change the gradient
    future_known: bool  # whether positions after it cannot


def share_in(window: TrainingWindow, weights: OnlineWeights) -> WindowShare:
    """The gradient of the batch of a window, at the present weights."""
    block = join_blocks([window.block])
    ids, local = np.unique(block.ids, return_inverse=True)
    starts, labels = block.starts.copy(), block.labels.copy()
    starts[0] = True
    labels[window.high :] = 0  # they do not count, and may have no weights yet
    n_labels = weights.n_labels
    chain = Chain(
        *block._replace(labels=frozen(labels, np.int32), starts=frozen(starts, np.bool_), ids=frozen(local, np.int32)),
        n_labels=n_labels,
        n_attributes=ids.size,
        n_edge_attributes=0,
    )
    layout = Layout.full(n_labels, ids.size)
    model = Model(layout, np.concatenate([weights.current(ids).ravel(), weights.transitions.ravel()]))
    problem, whole = Problem(model, chain, Settings()), Halo(chain.positions, chain.positions)
    source = WeightSource(problem)
    tally, past, future = share(source, window.low, window.high, whole)
    assert tally.observed is not None, "the batch is labelled"
    gradient = layout.unpack(tally.expected.result()) - layout.unpack(tally.observed.result())
    occurs = np.zeros(ids.size, np.bool_)
    occurs[local[block.offsets[window.low] : block.offsets[window.high]]] = True
    return WindowShare(
        loss=tally.log_z - tally.score,
        ids=ids[occurs],
        rows=gradient[: layout.n_state].reshape(-1, n_labels)[occurs],
        transitions=gradient[layout.n_state :].reshape(n_labels, n_labels),
        labels=_best(model, source.potentials, chain.block(0, chain.positions))[window.low : window.high],
        past_known=past.certified or window.begun or (past.value is None and window.low > 0),
        future_known=future.certified or window.ended or (future.value is None and window.high < chain.positions),
    )


def _best(model: Model, potentials: Potentials, block: Block) -> NDArray[np.int32]:
    """The best labels of a block that is one sequence or several."""
    scorer = Scorer(model, potentials)
    back, finals, _ = Decoder(scorer).viterbi(0, scorer.score(0, block, True))
    labels = np.empty(block.labels.size, np.int32)
    trace(back, int(finals[-1]), labels)
    return labels
