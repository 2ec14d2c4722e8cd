// Scores of a block, and what the observed labels score.
//
//   s_t(j)   = Σ_a x_t(a) · W[a, j]                      state scores   [B, width]
//   e_t(i,j) = V[i, j] + Σ_b z_t(b) · U[b, i, j]         edge scores    [B, N, width]
//
// Rows are padded from N labels to `width`. A padded label scores -inf, hence has probability zero everywhere, and no
// kernel needs to know where the labels end.
//
// W is kept in two parts. The first `dense` attributes, which are the frequent ones, have a full padded row each; every
// later one has a short row of (label, weight) entries. They are looked up once for a block: at each position the
// padded rows, then the entries of all short ones, so that a loop over either neither looks anything up nor ends early.
#pragma once

#include "shapes.hpp"

namespace core {

constexpr Int AHEAD = 2;             // positions from the one being worked on to the one whose rows are fetched
constexpr Int ENTRIES_AHEAD = 512;   // of a block: the processor fetches no further than to the end of a page
constexpr Int PORTION = 2048;        // positions after which recent counts are added to the next level
constexpr int32_t NO_LABEL = -1;

INLINE void prefetch(const void* address) { __builtin_prefetch(address, 0, 3); }

// The rows of a block's attributes, in the room of `out`. Returns how many numbers `out.row` needs: where it has room
// for fewer, they are not all there, nor are the values.
inline Int find_rows(Span<const int64_t> offsets, Span<const int32_t> ids, Span<const double> values,
                     const RowLayout& rows, const BlockRowsOut& out) {
  const bool plain = values.empty();
  Int at = 0;
  const auto add = [&](Int row, Int k) INLINE_LAMBDA {
    if (at < out.row.size) {
      out.row[at] = uint32_t(row);
      if (!plain) out.value[at] = values[k];
    }
    ++at;
  };
  for (Int t = 0; t < out.turn.size; ++t) {
    out.begin[t] = at;
    bool all_dense = true;
    for (Int k = offsets[t]; k < offsets[t + 1]; ++k) {
      if (ids[k] >= rows.dense) all_dense = false;
      else if (plain || values[k] != 0.0) add(ids[k], k);
    }
    out.turn[t] = at;
    for (Int k = offsets[t]; !all_dense && k < offsets[t + 1]; ++k) {
      const Int attribute = ids[k] - rows.dense;
      if (attribute < 0 || !(plain || values[k] != 0.0)) continue;
      for (Int entry = rows.begin[attribute]; entry < rows.begin[attribute + 1]; ++entry) add(entry, k);
    }
  }
  out.begin[out.turn.size] = at;
  return at;
}

// Positions low … high-1 of them.
INLINE BlockRows rows_between(const BlockRows& rows, Int low, Int high) {
  return {{rows.begin.data + low, high - low + 1}, {rows.turn.data + low, high - low}, rows.row, rows.value};
}

// The entries of position t, which are scattered over the memory.
INLINE void prefetch_entries(const BlockRows& block, Int t, const double* sparse) {
  for (Int k = block.turn[t]; k < block.begin[t + 1]; ++k) prefetch(sparse + block.row[k]);
}

// The state scores of a block from the weights of its attributes; `blank` is the score of no attribute: 0 for a label,
// -inf for padding. A source: `score(low, high, out)` gives those of positions low … high-1, as does `EmissionScores`.
template <class Shape>
struct WeightScores {
  Shape shape;
  BlockRows block;
  const RowLayout& rows;
  const Weights& weights;
  const double* blank;

  INLINE void score(Int low, Int high, double* out) const {
    const bool plain = block.value.empty();
    const Int last = block.turn.size - 1;
    for (Int t = low; t < high; ++t, out += shape.width) {
      const Int begin = block.begin[t], turn = block.turn[t], end = block.begin[t + 1];
      prefetch_entries(block, t + AHEAD < last ? t + AHEAD : last, weights.sparse.data);
      prefetch(block.row.data + begin + ENTRIES_AHEAD);
      for (Int c = 0; c < shape.width; c += Shape::columns) {
        auto score = load<Shape::columns>(blank + c);
        const double* dense = weights.dense.data + c;
        if (plain) {
#pragma GCC unroll 4
          for (Int k = begin; k < turn; ++k) score = score + load<Shape::columns>(dense + block.row[k] * shape.width);
        } else {
          for (Int k = begin; k < turn; ++k) {  // s += x · W[a, ·]
            const auto row = load<Shape::columns>(dense + block.row[k] * shape.width);
            score = fma(splat<Shape::columns>(block.value[k]), row, score);
          }
        }
        store(out + c, score);
      }
      for (Int k = turn; k < end; ++k) {  // s(j) += x · W[a, j]
        double& score = out[rows.label[block.row[k]]];
        score = Reg<1>::fma(plain ? 1.0 : block.value[k], weights.sparse[block.row[k]], score);
      }
    }
  }
};

// out[t, i·width + j] = e_t(i, j)
inline void edge_scores(const Block& block, const Weights& weights, Matrix<double> out) {
  const Int size = out.columns;
  for (Int t = 0; t < out.rows; ++t) {
    for (Int c = 0; c < size; c += 4) {
      auto score = load<4>(weights.transition.data + c);
      for (Int k = block.edge_offsets[t]; k < block.edge_offsets[t + 1]; ++k) {
        const double value = block.edge_values.empty() ? 1.0 : block.edge_values[k];
        if (value != 0.0) {  // e += z · U[b, ·, ·]
          score = fma(splat<4>(value), load<4>(weights.edge.data + block.edge_ids[k] * size + c), score);
        }
      }
      store(out[t] + c, score);
    }
  }
}

// Add the recent counts of the frequent attributes to their second level. Many small terms that are added to one large
// number are all rounded at its last digit, and often in one direction; added in portions, they lose hardly anything.
inline void fold(const Counts& counts) {
  for (Int k = 0; k < counts.hot.size; k += 4) {
    store(counts.hot.data + k, load<4>(counts.hot.data + k) + load<4>(counts.dense.data + k));
    store(counts.dense.data + k, splat<4>(0.0));
  }
}

// Where the weight of (attribute, label) stands among the sparse ones, -1 if there is none.
INLINE Int sparse_slot(const RowLayout& rows, Int attribute, Int label) {
  Int low = rows.begin[attribute - rows.dense], high = rows.begin[attribute - rows.dense + 1];
  const Int end = high;
  while (low < high) {
    const Int middle = (low + high) / 2;
    if (rows.label[middle] < label) low = middle + 1;
    else high = middle;
  }
  return low < end && rows.label[low] == label ? low : -1;
}

// Add the counts of the block's own labels; `previous` is the label before the block, and becomes its last one.
//
// A sequence counts with its weight. Returns the first position whose label is forbidden, or -1; state weights are only
// looked at where some of them forbid. Positions without a label count nothing, and neither do the edges beside them.
inline Int observe(const Block& block, const RowLayout& rows, const Weights& weights, int32_t& previous,
                   bool forbidding, const Counts& counts) {
  const Int width = rows.width, size = weights.transition.size;
  Int forbidden = -1;
  const auto count = [&](Int t, const Span<double>& sums, const Span<const double>& own, Int slot, double amount,
                         double value, bool look) INLINE_LAMBDA {
    sums[slot] += amount;
    if (look && own[slot] == -INFINITE && value != 0.0 && forbidden < 0) forbidden = t;
  };
  for (Int t = 0; t < block.labels.size; ++t) {
    const int32_t label = block.labels[t];
    const double weight = block.weights.empty() ? 1.0 : block.weights[t];
    if (label == NO_LABEL) {
      previous = label;
      continue;
    }
    for (Int k = block.offsets[t]; k < block.offsets[t + 1]; ++k) {  // state counts: x_t(a)
      const double value = block.values.empty() ? 1.0 : block.values[k];
      const Int attribute = block.ids[k];
      if (attribute < rows.dense) {
        count(t, counts.dense, weights.dense, attribute * width + label, weight * value, value, forbidding);
      } else {
        const Int slot = sparse_slot(rows, attribute, label);
        if (slot >= 0) count(t, counts.sparse, weights.sparse, slot, weight * value, value, forbidding);
      }
    }
    if (previous != NO_LABEL && !block.starts[t]) {  // transitions: 1, edge attributes: z_t(b)
      const Int pair = previous * width + label;
      count(t, counts.transition, weights.transition, pair, weight, 1.0, true);
      for (Int k = block.edge_offsets.empty() ? 0 : block.edge_offsets[t];
           k < (block.edge_offsets.empty() ? 0 : block.edge_offsets[t + 1]); ++k) {
        const double value = block.edge_values.empty() ? 1.0 : block.edge_values[k];
        count(t, counts.edge, weights.edge, block.edge_ids[k] * size + pair, weight * value, value, true);
      }
    }
    previous = label;
    if ((t + 1) % PORTION == 0) fold(counts);
  }
  return forbidden;
}

}  // namespace core
