"""A chain made on the fly: every random number is a hash of (seed, position, draw), so any stretch can be made alone.

    starts     a start mark with probability 1 / mean length
    labels     y_t = y_{t-1} + d_t modulo N, with d_t from the distribution of the position's edge attribute
    attributes A a position: attribute k is of rank r with probability (1 - w) p(r) + w p(r - shift(y_t))

The labels are a walk, so the label before a stretch must be known; `walk` finds it without making the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chainfold.jit.decorator import STRICT, kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_START, _STEP, _EDGE, _ATTRIBUTE = 0, 1, 2, 3  # the draws of a position, attributes last

SHARPNESS = 2048
"""How informative attributes are is a multiple of 1 / SHARPNESS: it is decided by the spare bits of a draw."""


class SyntheticRecipe(NamedTuple):
    """What to make."""

    key: Any  # uint64, from the seed
    n_labels: int
    n_attributes: int
    active: int
    start_probability: float
    steps: Any  # float64 [max(K, 1), N]  cumulative distribution of d_t for each edge attribute
    n_edge_attributes: int
    sharpness: int  # w · SHARPNESS
    chance: Any  # float64 [2, ranks]  alias tables of p for the two lengths that slots have
    alias: Any  # int64 [2, ranks]


@kernel(fastmath=STRICT, inline=True)
def bits(recipe: Any, position: Any, draw: Any) -> Any:
    """Sixty-four random bits (the finaliser of splitmix64 on a counter)."""
    counter = np.uint64(position) * np.uint64(recipe.active + _ATTRIBUTE) + np.uint64(draw)
    x = recipe.key + counter * _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@kernel(fastmath=STRICT, inline=True)
def unit(random: Any) -> Any:
    """A number in [0, 1) from the upper 53 bits."""
    return np.float64(random >> np.uint64(11)) * 2.0**-53


@kernel(fastmath=STRICT, inline=True)
def is_start(recipe: Any, position: Any) -> Any:
    return position == 0 or unit(bits(recipe, position, _START)) < recipe.start_probability


@kernel(fastmath=STRICT, inline=True)
def edge_attribute(recipe: Any, position: Any) -> Any:
    if recipe.n_edge_attributes == 0:
        return 0
    return np.int64(bits(recipe, position, _EDGE) % np.uint64(recipe.n_edge_attributes))


@kernel(fastmath=STRICT, inline=True)
def next_label(recipe: Any, position: Any, start: Any, previous: Any) -> Any:
    chance = unit(bits(recipe, position, _STEP))
    if start:
        return min(np.int64(chance * recipe.n_labels), recipe.n_labels - 1)
    steps = recipe.steps[edge_attribute(recipe, position)]
    step = 0
    while step < recipe.n_labels - 1 and chance >= steps[step]:
        step += 1
    return (previous + step) % recipe.n_labels


@kernel(fastmath=STRICT)
def walk(recipe: Any, low: Any, high: Any, label: Any) -> Any:
    """The label of position high - 1, from that of position low - 1."""
    for position in range(low, high):
        label = next_label(recipe, position, is_start(recipe, position), label)
    return label


@kernel(fastmath=STRICT)
def synthesise(recipe: Any, low: Any, label: Any, labels: Any, starts: Any, ids: Any, edge_ids: Any) -> None:
    """Make the positions from `low` on, as many as there is room for; `label` is the one before them."""
    shortest = recipe.n_attributes // max(recipe.active, 1)
    longer = recipe.n_attributes - shortest * recipe.active  # the number of slots with one rank more
    for t in range(labels.size):
        position = low + t
        starts[t] = is_start(recipe, position)
        label = next_label(recipe, position, starts[t], label)
        labels[t] = label
        if recipe.n_edge_attributes:
            edge_ids[t] = edge_attribute(recipe, position)
        shifts = (label * shortest // recipe.n_labels, label * (shortest + 1) // recipe.n_labels)
        for k in range(recipe.active):
            table = 1 if k < longer else 0
            ranks = shortest + table
            random = bits(recipe, position, _ATTRIBUTE + k)
            place = unit(random) * ranks
            drawn = min(np.int64(place), ranks - 1)
            other = recipe.alias[table, drawn]  # read in any case: a choice between numbers is quicker than a jump
            rank = other if place - drawn >= recipe.chance[table, drawn] else drawn
            shifted = rank + (shifts[1] if table else shifts[0])
            shifted = shifted - ranks if shifted >= ranks else shifted
            rank = shifted if np.int64(random % np.uint64(SHARPNESS)) < recipe.sharpness else rank
            ids[t * recipe.active + k] = rank * recipe.active + k
