"""Back over a block: posteriors and expected counts; `kernels.lattice` has the recursion."""

from __future__ import annotations

from typing import Any

from chainfold.jit.decorator import CONTRACT, STRICT, kernel
from chainfold.kernels.forward import by_tiles, step_row
from chainfold.kernels.lattice import TINY, end_posterior, transfer
from chainfold.kernels.scores import AHEAD, PORTION, fold, prefetch_short_rows, short_entries, sizes
from chainfold.kernels.simd import fma, load_tile, maximum, number, place, set_number, splat, store, sum_lanes, zeros

TILE = 32  # positions whose edges are counted together, so that a count is loaded once for all of them


@kernel(fastmath=CONTRACT, inline=True)
def scatter(block_rows: Any, rows: Any, t: Any, gamma: Any, counts: Any) -> None:
    """The expected counts of position t's attributes: counts[a, j] += x_t(a) γ_t(j)."""
    tile, columns, width = sizes(rows.tiles)
    low, turn, high = number(block_rows.begin, t), number(block_rows.turn, t), number(block_rows.begin, t + 1)
    plain = block_rows.value.size == 0
    prefetch_short_rows(block_rows, rows, max(t - AHEAD, 0), counts.sparse)
    for c in range(0, width, columns):
        posterior = load_tile(gamma, c, tile)
        if plain:
            for k in range(low, turn):
                slot = number(block_rows.row, k) + c
                store(counts.dense, slot, load_tile(counts.dense, slot, tile) + posterior)
        else:
            for k in range(low, turn):
                slot = number(block_rows.row, k) + c
                value = splat(number(block_rows.value, k))
                store(counts.dense, slot, fma(value, posterior, load_tile(counts.dense, slot, tile)))
    for k in range(turn, high):
        value = 1.0 if plain else number(block_rows.value, k)
        first, count = short_entries(block_rows, k)
        for entry in range(first, first + count):
            share = value * number(gamma, number(rows.label, entry))
            set_number(counts.sparse, entry, number(counts.sparse, entry) + share)


@kernel(fastmath=CONTRACT, inline=True)
def count_edges(alpha: Any, v: Any, low: Any, high: Any, n_labels: Any, tiles: Any, pairs: Any) -> None:
    """pairs[i, j] += Σ_{low <= t < high} α_{t-1}(i) v_t(j), four labels i at a time or two; low > 0."""
    tile, columns, width = sizes(tiles)
    zero = zeros(tile)
    for c in range(0, width, columns):
        if len(tile) <= 6:
            for i in range(0, n_labels, 4):
                sum0, sum1, sum2, sum3 = zero, zero, zero, zero
                for t in range(low, high):
                    right = load_tile(v, t * width + c, tile)
                    left = (t - 1) * width + i
                    sum0 = fma(splat(number(alpha, left)), right, sum0)
                    sum1 = fma(splat(number(alpha, left + 1)), right, sum1)
                    sum2 = fma(splat(number(alpha, left + 2)), right, sum2)
                    sum3 = fma(splat(number(alpha, left + 3)), right, sum3)
                at = i * width + c
                add_to(pairs, at, sum0, tile)
                add_to(pairs, at + width, sum1, tile)
                add_to(pairs, at + 2 * width, sum2, tile)
                add_to(pairs, at + 3 * width, sum3, tile)
        else:
            for i in range(0, n_labels, 2):
                sum0, sum1 = zero, zero
                for t in range(low, high):
                    right = load_tile(v, t * width + c, tile)
                    left = (t - 1) * width + i
                    sum0 = fma(splat(number(alpha, left)), right, sum0)
                    sum1 = fma(splat(number(alpha, left + 1)), right, sum1)
                at = i * width + c
                add_to(pairs, at, sum0, tile)
                add_to(pairs, at + width, sum1, tile)


@kernel(fastmath=CONTRACT, inline=True)
def add_to(sums: Any, at: Any, terms: Any, tile: Any) -> None:
    store(sums, at, load_tile(sums, at, tile) + terms)


@kernel(fastmath=CONTRACT, inline=True)
def normalise(gamma: Any, tiles: Any) -> None:
    """γ / Σ γ; as it is if it adds up to nothing."""
    tile, columns, width = sizes(tiles)
    lane_sum = zeros(tile)
    for c in range(0, width, columns):
        lane_sum = lane_sum + load_tile(gamma, c, tile)
    total = sum_lanes(lane_sum)
    if total > 0.0:
        for c in range(0, width, columns):
            store(gamma, c, load_tile(gamma, c, tile) / splat(total))


@kernel(fastmath=CONTRACT, inline=True)
def weigh(gamma: Any, weight: Any, tiles: Any) -> None:
    """γ times the weight of its sequence."""
    tile, columns, width = sizes(tiles)
    for c in range(0, width, columns):
        store(gamma, c, splat(weight) * load_tile(gamma, c, tile))


@kernel(fastmath=CONTRACT)
def backward(block_rows: Any, lattice: Any, edge_t: Any, gamma: Any, rows: Any, pairs: Any, counts: Any) -> None:
    """The fast way back, one transition matrix for all positions; edge_t: [N, width], E transposed.

    gamma: [width], the posterior of the last position in, of the position before the block out, each times its weight
    where sequences have weights; a sequence that ends before the block has weight one. predicted becomes v.
    pairs: [width, width], Σ α_{t-1}(i) v_t(j), still to be multiplied by E.
    """
    alpha, predicted, entry, n_labels = lattice.alpha, lattice.predicted, lattice.entry, lattice.n_labels
    tile, columns, width = sizes(rows.tiles)
    weighted, matrix = lattice.weights.size > 0, by_tiles(edge_t, n_labels, rows.tiles)
    high, held = alpha.shape[0], load_tile(gamma, 0, tile)
    for t in range(alpha.shape[0] - 1, -1, -1):
        scatter(block_rows, rows, t, gamma, counts)
        previous = place(alpha, (t - 1) * width) if t > 0 else place(entry, 0)
        if number(lattice.starts, t):
            weight = number(lattice.weights, t - 1) if weighted and t > 0 else 1.0
            scale = 0.0
            for i in range(n_labels):
                scale += number(previous, i)
            scale = max(scale, TINY)  # the entry of a block that begins the chain is all zeros
            for c in range(0, width, columns):
                store(predicted, t * width + c, zeros(tile))
                held = splat(weight) * (load_tile(previous, c, tile) / splat(scale))
                store(gamma, c, held)
        else:
            for c in range(0, width, columns):
                at = t * width + c
                inverse = splat(1.0) / maximum(load_tile(predicted, at, tile), splat(TINY))  # γ need not be waited for
                if columns < width:
                    held = load_tile(gamma, c, tile)
                held = held * inverse
                store(predicted, at, held)
            v, held_v = place(predicted, t * width), held
            for c in range(0, width, columns):
                ahead = step_row(v, held_v, matrix, c * n_labels, columns, n_labels, rows.tiles)
                held = load_tile(previous, c, tile) * ahead
                store(gamma, c, held)
        if t > 0 and (high - t == TILE or t == 1):
            count_edges(alpha, predicted, t, high, n_labels, rows.tiles, pairs)
            high = t
            normalise(gamma, rows.tiles)
            if weighted:
                weigh(gamma, number(lattice.weights, t - 1), rows.tiles)
            held = load_tile(gamma, 0, tile)
            if (alpha.shape[0] - t) % PORTION == 0:
                fold(counts)
    for i in range(n_labels):
        for c in range(0, width, columns):
            at = i * width + c
            store(pairs, at, fma(splat(entry[i]), load_tile(predicted, c, tile), load_tile(pairs, at, tile)))


@kernel(fastmath=STRICT)
def backward_general(
    block: Any, block_rows: Any, lattice: Any, gamma: Any, rows: Any, scratch: Any, counts: Any
) -> None:
    """The way back for edges that differ from position to position, or in wide numbers.

    ξ_t(i,j) = Pr(i | j) γ_t(j) is formed outright and counted for the transition and each edge attribute of t.
    scratch: [2, N, width].
    """
    width, n_labels = scratch.shape[2], lattice.n_labels
    weighted = lattice.weights.size > 0
    joint, pairs = scratch[0], scratch[1]
    pairs[:] = 0.0
    for t in range(lattice.starts.size - 1, -1, -1):
        scatter(block_rows, rows, t, gamma, counts)
        step_back(lattice, t, gamma, joint)
        if t % TILE == 0:
            normalise(gamma, rows.tiles)
            if weighted and t > 0:
                weigh(gamma, lattice.weights[t - 1], rows.tiles)
        if not lattice.starts[t]:
            for i in range(n_labels):
                for j in range(n_labels):
                    pairs[i, j] += joint[i, j]
            if block.edge_offsets.size:
                for k in range(block.edge_offsets[t], block.edge_offsets[t + 1]):
                    value = 1.0 if block.edge_values.size == 0 else block.edge_values[k]
                    base = block.edge_ids[k] * n_labels * width
                    for i in range(n_labels):
                        for j in range(n_labels):
                            counts.edge[base + i * width + j] += value * joint[i, j]
        if t % PORTION == 0:
            fold(counts)
            for i in range(n_labels):
                for j in range(n_labels):
                    counts.transition[i * width + j] += pairs[i, j]
                    pairs[i, j] = 0.0


@kernel(fastmath=STRICT, inline=True)
def step_back(lattice: Any, t: Any, gamma: Any, joint: Any) -> None:
    """γ_t becomes γ_{t-1}; joint: [N, width], ξ_t(i,j) out, not set at a start mark."""
    n_labels, wide = lattice.n_labels, lattice.wide
    edge = lattice.edge[t if lattice.edge.shape[0] > 1 else 0]
    previous = lattice.alpha[t - 1] if t > 0 else lattice.entry
    if lattice.starts[t]:
        end_posterior(previous, wide, n_labels, gamma)
        if lattice.weights.size > 0 and t > 0:
            for i in range(n_labels):
                gamma[i] *= lattice.weights[t - 1]
        return
    transfer(previous, lattice.predicted[t], edge, wide, n_labels, joint)
    for i in range(n_labels):
        for j in range(n_labels):
            joint[i, j] *= gamma[j]
    for i in range(n_labels):
        gamma[i] = 0.0
        for j in range(n_labels):
            gamma[i] += joint[i, j]
