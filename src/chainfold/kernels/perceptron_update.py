"""Perceptron, passive-aggressive and AROW: the best path of each piece of a block and, where it is wrong, an update.

    ŷ      = argmax_y Σ_t s_t(y_t) + e_t(y_{t-1}, y_t)              Viterbi, ties to the smaller label
    Δ      = F(x, y) - F(x, ŷ)                                      features of the labels minus those of the path
    margin = Δ · w                                                  never above zero: ŷ is the best
    wrong  = the number of positions with y_t ≠ ŷ_t

    perceptron           w += Δ
    passive-aggressive   w += τ Δ            cost = 1 - margin, or √wrong - margin if sensitive to errors
                         τ = cost / ‖Δ‖²  |  min(c, cost / ‖Δ‖²)  |  cost / (‖Δ‖² + 1 / 2c)
    AROW                 w += α Σ Δ          cost = wrong - margin, α = cost / (Δ · Σ Δ + γ), Σ diagonal
                         Σ  = 1 / (1 / Σ + Δ² / γ)

A piece of a sequence of weight v takes v times the step. The average over all pieces seen is w - u / n, where u gathers
n times each step and n is one more than the pieces seen before it.

The same weight may meet with both signs, so Δ is gathered first, in an array as large as the weights that is zero
everywhere between two pieces, with the list of the slots touched. Where y and ŷ agree they cancel: nothing is added.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block
from chainfold.core.faults import FORBIDDEN, NOT_FINITE, NOT_FIRST, NOT_LAST, OK, ZERO
from chainfold.core.slots import WIDTH, RowLayout, Slots
from chainfold.kernels.scores import edge_scores, rows_between, sparse_slot, state_scores
from chainfold.kernels.simd import load, maximum, splat, store
from chainfold.system.jit import STRICT, kernel

PERCEPTRON, PASSIVE_AGGRESSIVE, AROW = 0, 1, 2


class UpdateRule(NamedTuple):
    """How far a step goes."""

    algorithm: int  # PERCEPTRON, PASSIVE_AGGRESSIVE or AROW
    type: int  # of passive-aggressive: 0, 1 or 2
    c: float
    error_sensitive: bool
    averaging: bool
    gamma: float


class Learner(NamedTuple):
    """The weights in training, the model's shape, and the space to work in."""

    rows: RowLayout
    blank: NDArray[np.float64]  # [width]  0 for a label, -inf for padding
    first: NDArray[np.float64]  # [width]  the same, -inf also for labels that may not begin a sequence
    last: NDArray[np.float64]  # [width]  …that may not end one
    exists: NDArray[np.bool_]  # [slots]  which slots are weights of the model; the others stay as they are
    weights: NDArray[np.float64]  # [slots]
    slots: Slots  # the same memory, by parts
    second: NDArray[np.float64]  # [slots]  u where averaged, Σ of AROW, else empty
    delta: NDArray[np.float64]  # [slots]  Δ while it is gathered, else zero
    edge: NDArray[np.float64]  # [N · width]  e_t of one position


class Scratch(NamedTuple):
    """Space for the longest piece of a block."""

    lattice: NDArray[np.float64]  # [longest, width]
    path: NDArray[np.int32]  # [longest]
    touched: NDArray[np.int64]  # [twice the features of a path]
    amount: NDArray[np.float64]  # likewise


@kernel(fastmath=STRICT, inline=True)
def piece_of(block: Any, low: Any, high: Any) -> Any:
    """Positions low … high-1 of a block, on which one update is based."""
    return Block(
        block.labels[low:high],
        block.starts[low:high],
        block.offsets[low : high + 1],
        block.ids,
        block.values,
        block.edge_offsets[low : high + 1],
        block.edge_ids,
        block.edge_values,
        block.weights[low:high],
    )


@kernel(fastmath=STRICT)
def learn(
    block: Any, block_rows: Any, begins: Any, order: Any, closed: Any, rule: Any, learner: Any, scratch: Any, seen: Any
) -> Any:
    """Train on pieces begins[p] … begins[p+1]-1, p in `order`; `closed` where a sequence ends with the block.

    Returns (status, the faulty position, the sum of the losses); a loss is the share of wrong labels for the
    perceptron, the cost for the others. `seen`: pieces trained on before.
    """
    loss = 0.0
    for number in range(order.size):
        low, high = begins[order[number]], begins[order[number] + 1]
        ends = closed if high == block.labels.size else block.starts[high]
        enter = learner.first if block.starts[low] else learner.blank
        leave = learner.last if ends else learner.blank
        piece = piece_of(block, low, high)
        status, fault = best_path(piece, rows_between(block_rows, low, high), enter, leave, learner, scratch)
        if status != OK:
            return status, low + fault, loss
        status, fault, wrong, count = difference(piece, enter, leave, learner, scratch)
        if status != OK:
            return status, low + fault, loss
        if wrong > 0:
            weight = block.weights[low] if block.weights.size else 1.0
            cost = step(rule, wrong, settle(learner, scratch, count), weight, seen + number + 1, learner, scratch)
            loss += weight * (wrong / (high - low) if rule.algorithm == PERCEPTRON else cost)
    return OK, 0, loss


@kernel(fastmath=STRICT)
def best_path(piece: Any, block_rows: Any, enter: Any, leave: Any, learner: Any, scratch: Any) -> Any:
    """δ_0 = s_0 + enter,  δ_t(j) = s_t(j) + max_i (δ_{t-1}(i) + e_t(i,j)),  the last δ + leave; ŷ into scratch.path.

    δ takes the place of the scores. The way back finds the best label before ŷ_t from δ_{t-1} alone, so that no
    pointers are kept. Returns (status, the faulty position).
    """
    lattice, path, width = scratch.lattice, scratch.path, learner.blank.size
    n_labels, positions = learner.slots.transition.size // width, piece.labels.size
    state_scores(block_rows, learner.rows, learner.slots, learner.blank, lattice)
    for t in range(positions):
        edge = learner.slots.transition
        if t > 0 and piece.edge_offsets.size:
            edge = learner.edge
            score_edge(piece, t, learner)
            if not below_infinity(edge):
                return NOT_FINITE, t
        for c in range(0, width, WIDTH):
            here = t * width + c
            best = load(enter, c)
            if t > 0:
                best = splat(-np.inf)
                for i in range(n_labels):
                    best = maximum(splat(lattice[t - 1, i]) + load(edge, i * width + c), best)
            score = load(lattice, here) + best
            if t == positions - 1:
                score = score + load(leave, c)
            store(lattice, here, score)
        if not below_infinity(lattice[t]):
            return NOT_FINITE, t
    label = 0
    for j in range(1, n_labels):
        if lattice[positions - 1, j] > lattice[positions - 1, label]:
            label = j
    if lattice[positions - 1, label] == -np.inf:
        return ZERO, first_impossible(lattice, positions)
    for t in range(positions - 1, 0, -1):
        path[t] = label
        edge = learner.slots.transition
        if piece.edge_offsets.size:
            edge = learner.edge
            score_edge(piece, t, learner)
        best_before, score_before = 0, lattice[t - 1, 0] + edge[label]
        for i in range(1, n_labels):
            score_here = lattice[t - 1, i] + edge[i * width + label]
            if score_here > score_before:
                best_before, score_before = i, score_here
        label = best_before
    path[0] = label
    return OK, 0


@kernel(fastmath=STRICT)
def score_edge(piece: Any, t: Any, learner: Any) -> None:
    """learner.edge[i · width + j] = e_t(i, j) of one position."""
    edge_scores(piece_of(piece, t, t + 1), learner.slots, learner.edge)


@kernel(fastmath=STRICT)
def below_infinity(numbers: Any) -> Any:
    """None of them is +inf or not a number."""
    fine = True
    for number in numbers:
        fine &= number < np.inf
    return fine


@kernel(fastmath=STRICT, inline=True)
def first_impossible(lattice: Any, positions: Any) -> Any:
    """The first position where every label is forbidden."""
    for t in range(positions):
        possible = 0
        for score in lattice[t]:
            possible += score > -np.inf
        if possible == 0:
            return t
    return positions - 1


@kernel(fastmath=STRICT)
def difference(piece: Any, enter: Any, leave: Any, learner: Any, scratch: Any) -> Any:
    """Gather Δ. Returns (status, the faulty position, the number of wrong labels, the number of slots touched).

    A label that is forbidden differs from the path, which is never so; hence it is enough to look where they differ.
    """
    wrong, count, last = 0, np.int64(0), piece.labels.size - 1
    for t in range(last + 1):
        label, chosen = piece.labels[t], scratch.path[t]
        label_before = piece.labels[t - 1] if t > 0 else label
        chosen_before = scratch.path[t - 1] if t > 0 else chosen
        if label != chosen:
            wrong += 1
            count = add_state(piece, t, label, 1.0, learner, scratch, count)
            if count < 0:
                return FORBIDDEN, t, wrong, 0
            count = add_state(piece, t, chosen, -1.0, learner, scratch, count)
        if t > 0 and (label != chosen or label_before != chosen_before):
            count = add_edge(piece, t, label_before, label, 1.0, learner, scratch, count)
            if count < 0:
                return FORBIDDEN, t, wrong, 0
            count = add_edge(piece, t, chosen_before, chosen, -1.0, learner, scratch, count)
    if enter[piece.labels[0]] == -np.inf:
        return NOT_FIRST, 0, wrong, 0
    if leave[piece.labels[last]] == -np.inf:
        return NOT_LAST, last, wrong, 0
    return OK, 0, wrong, count


@kernel(fastmath=STRICT)
def add_state(piece: Any, t: Any, label: Any, sign: Any, learner: Any, scratch: Any, count: Any) -> Any:
    """Δ[a, label] += sign · x_t(a) for each attribute; returns the slots touched so far, -1 where one is forbidden."""
    for k in range(piece.offsets[t], piece.offsets[t + 1]):
        attribute = piece.ids[k]
        slot = np.int64(attribute) * learner.blank.size + label
        if attribute >= learner.rows.dense:
            slot = sparse_slot(learner.rows, attribute, label)
            if slot < 0:
                continue
            slot += learner.slots.dense.size
        value = piece.values[k] if piece.values.size else 1.0
        count = add(slot, sign * value, learner, scratch, count)
        if count < 0:
            break
    return count


@kernel(fastmath=STRICT)
def add_edge(piece: Any, t: Any, before: Any, label: Any, sign: Any, learner: Any, scratch: Any, count: Any) -> Any:
    """The same for the edge into t: its transition, and each edge attribute with it."""
    size = learner.slots.transition.size
    begin = learner.weights.size - size - learner.slots.edge.size
    pair = begin + before * learner.blank.size + label
    count = add(pair, sign, learner, scratch, count)
    if piece.edge_offsets.size:
        for k in range(piece.edge_offsets[t], piece.edge_offsets[t + 1]):
            if count >= 0:
                value = piece.edge_values[k] if piece.edge_values.size else 1.0
                count = add(pair + (1 + np.int64(piece.edge_ids[k])) * size, sign * value, learner, scratch, count)
    return count


@kernel(fastmath=STRICT, inline=True)
def add(slot: Any, amount: Any, learner: Any, scratch: Any, count: Any) -> Any:
    """Δ[slot] += amount; a slot whose sum has come back to zero may be listed again."""
    if learner.exists[slot] and amount != 0.0:
        if learner.weights[slot] == -np.inf:
            return -1
        if learner.delta[slot] == 0.0:
            scratch.touched[count] = slot
            count += 1
        learner.delta[slot] += amount
    return count


@kernel(fastmath=STRICT)
def settle(learner: Any, scratch: Any, count: Any) -> Any:
    """Take Δ out of its array into (touched, amount), each slot once; returns how many there are."""
    kept = 0
    for k in range(count):
        slot = scratch.touched[k]
        if learner.delta[slot] != 0.0:
            scratch.touched[kept], scratch.amount[kept] = slot, learner.delta[slot]
            learner.delta[slot] = 0.0
            kept += 1
    return kept


@kernel(fastmath=STRICT)
def step(rule: Any, wrong: Any, count: Any, weight: Any, number: Any, learner: Any, scratch: Any) -> Any:
    """Move the weights by the rule; `number` counts the pieces, this one included. Returns the cost."""
    margin, norm = 0.0, 0.0
    for k in range(count):
        slot, amount = scratch.touched[k], scratch.amount[k]
        margin += amount * learner.weights[slot]
        norm += amount * amount * (learner.second[slot] if rule.algorithm == AROW else 1.0)
    cost = wrong - margin
    if rule.algorithm == PASSIVE_AGGRESSIVE:
        cost = (math.sqrt(wrong) if rule.error_sensitive else 1.0) - margin
    rate = weight * rate_of(rule, cost, norm)
    for k in range(count):
        slot, amount = scratch.touched[k], scratch.amount[k]
        if rule.algorithm == AROW:
            variance = learner.second[slot]
            learner.weights[slot] += rate * variance * amount
            learner.second[slot] = variance / (1.0 + variance * (weight * amount * amount / rule.gamma))
        else:
            learner.weights[slot] += rate * amount
            if rule.averaging:
                learner.second[slot] += number * (rate * amount)
    return cost


@kernel(fastmath=STRICT, inline=True)
def rate_of(rule: Any, cost: Any, norm: Any) -> Any:
    if rule.algorithm == AROW:
        return cost / (norm + rule.gamma)
    if rule.algorithm == PERCEPTRON or norm == 0.0:
        return 1.0
    if rule.type == 0:
        return cost / norm
    if rule.type == 1:
        return min(rule.c, cost / norm)
    return cost / (norm + 0.5 / rule.c)
