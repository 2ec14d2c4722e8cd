"""The share of some positions in the gradient, from no more of the chain than it takes.

A window is the positions to learn from with some before and some after them, their attributes renumbered by what occurs
in it, under the weights of these alone. Where the chain forgets within the window, the share is that of the whole chain
(`engines.parallel` says why); elsewhere a larger window is needed, and `share_in` says which side of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block, frozen, join_blocks
from chainfold.chain.chain import Chain
from chainfold.engines.block_pass import Belief, Horizon, Potentials, Sweep
from chainfold.engines.problem import Problem, Settings, Tally
from chainfold.engines.stream import Stream
from chainfold.errors import ScoreNotFinite
from chainfold.kernels import decode, messages
from chainfold.kernels.scores import state_scores
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
class Window:
    """Positions with what is around them; those to learn from are low … high-1."""

    block: Block
    low: int
    high: int
    begun: bool  # does a sequence start with the first of its positions?
    ended: bool  # does one end with the last?


class Share(NamedTuple):
    """What the positions to learn from add to the gradient of the negative log likelihood, and what they are worth."""

    loss: float
    ids: NDArray[np.int32]  # their attributes, each once
    rows: Floats  # [ids, N]
    transitions: Floats  # [N, N]
    labels: NDArray[np.int32]  # the best labels of the positions to learn from
    past_known: bool  # nothing before the window could change the share
    future_known: bool  # nothing after it


def share_in(
    window: Window, renumbering: Renumbering, weights: Callable[[NDArray[np.int32]], Floats], transitions: Floats
) -> Share:
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
    problem = Problem(model, chain, Settings())
    potentials, tally = Potentials.of(problem), Tally(problem)
    entry, past_known = _past(problem, potentials, window)
    posterior, future_known = _future(problem, potentials, window, entry)
    Stream(problem, potentials, tally).run(window.low, window.high, entry, posterior)
    assert tally.observed is not None, "positions to learn from are labelled"
    gradient = layout.unpack(tally.expected.result()) - layout.unpack(tally.observed.result())
    occurs = np.zeros(ids.size, np.bool_)
    occurs[local[block.offsets[window.low] : block.offsets[window.high]]] = True
    return Share(
        loss=tally.log_z - tally.score,
        ids=ids[occurs],
        rows=gradient[: layout.n_state].reshape(-1, n_labels)[occurs],
        transitions=gradient[layout.n_state :].reshape(n_labels, n_labels),
        labels=_best(problem, potentials)[window.low : window.high],
        past_known=past_known,
        future_known=future_known,
    )


def _past(problem: Problem, potentials: Potentials, window: Window) -> tuple[Belief | None, bool]:
    """The forward vector before the positions to learn from, None where a sequence starts there; is it known?"""
    if problem.read(window.low, window.low + 1).starts[0]:
        return None, window.begun or window.low > 0
    belief = Sweep(problem, potentials).forward(0, problem.read(0, 1), None)
    if window.low == 1:
        return belief, window.begun
    horizon = Horizon(potentials.width, ignore=np.where(belief.possible(), 0.0, np.inf))
    sweep = Sweep(problem, potentials)
    belief = sweep.forward(1, problem.read(1, window.low), belief)
    if not window.begun:
        sweep.look_ahead(horizon)
    return belief, window.begun or horizon.certified


def _future(
    problem: Problem, potentials: Potentials, window: Window, entry: Belief | None
) -> tuple[Floats | None, bool]:
    """The posterior of the last position to learn from, None where a sequence ends there; is it known?"""
    low, high, end = window.low, window.high, problem.positions
    if high == end:
        return None, window.ended
    if problem.read(high, high + 1).starts[0]:
        return None, True
    belief = Sweep(problem, potentials).forward(low, problem.read(low, high), entry)
    horizon, sweep = Horizon(potentials.width), Sweep(problem, potentials)
    belief = sweep.forward(high, problem.read(high, end), belief)
    sweep.look_ahead(horizon)
    if horizon.certified:
        return horizon.gamma, True
    return horizon.mixed(belief), window.ended


def _best(problem: Problem, potentials: Potentials) -> NDArray[np.int32]:
    """The best labels of all positions."""
    block, layout = problem.read(0, problem.positions), problem.model.layout
    ends = np.append(block.starts[1:], True)
    scores = np.empty((block.labels.size, layout.width))
    state_scores(layout.find_rows(block), layout.rows, problem.weights, layout.blank, scores)
    back = np.empty((block.labels.size, layout.n_labels), np.uint8 if layout.n_labels <= 256 else np.uint16)
    finals, best = np.empty(int(ends.sum()), np.int64), np.empty(int(ends.sum()))
    start, total = np.zeros(layout.width), np.zeros(2)
    status, fault = decode.viterbi(block.starts, ends, scores, potentials.scores, start, total, back, finals, best)
    if status != messages.OK:
        raise ScoreNotFinite(fault)
    labels = np.empty(block.labels.size, np.int32)
    decode.trace(back, finals[-1], labels)
    return labels
