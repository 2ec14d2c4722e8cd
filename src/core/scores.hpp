// Scores of a block, and what the observed labels score.
//
//   s_t(j)   = Σ_a x_t(a) · W[a, j]                      state scores   [B, width]
//   e_t(i,j) = V[i, j] + Σ_b z_t(b) · U[b, i, j]         edge scores    [B, N, width]
//
// Rows are padded from N labels to `width`. A padded label scores -inf, hence has probability zero everywhere, and no
// kernel needs to know where the labels end.
//
// W is kept in two parts. The first `dense` attributes, which are the frequent ones, have a full padded row each; every
// later one has a short row of (label, weight) entries. The rows of a block's attributes are looked up once, padded
// ones first at each position, so that the loops over them neither look anything up nor ask which kind they have.
#pragma once

#include "shapes.hpp"

namespace core {

constexpr Int AHEAD = 2;             // positions from the one being worked on to the one whose rows are fetched
constexpr Int ENTRIES_AHEAD = 512;   // of a block: the processor fetches no further than to the end of a page
constexpr Int PORTION = 2048;        // positions after which recent counts are added to the next level
constexpr int COUNT_BITS = 16;       // of a short row, its first entry and the number of entries in one number
constexpr Int COUNT = (1 << COUNT_BITS) - 1;
constexpr int32_t NO_LABEL = -1;

INLINE void prefetch(const void* address) { __builtin_prefetch(address, 0, 3); }

// The first entry and the number of entries of an attribute without a padded row, in one number.
INLINE Int short_row(const RowLayout& rows, Int attribute) {
  const Int first = rows.begin[attribute - rows.dense], end = rows.begin[attribute - rows.dense + 1];
  return first << COUNT_BITS | (end - first);
}

// Where the row of each attribute begins: padded rows from the front of a position's share, short ones behind.
inline void find_rows(Span<const int64_t> offsets, Span<const int32_t> ids, Span<const double> values,
                      const RowLayout& rows, const BlockRowsOut& out) {
  const Int size = out.turn.size, base = offsets[0], width = rows.width;
  Int at = 0;
  if (values.empty() && rows.begin.size == 1) {
    for (Int t = 0; t < size; ++t) {
      out.begin[t] = offsets[t] - base;
      out.turn[t] = offsets[t + 1] - base;
    }
    at = offsets[size] - base;
    for (Int k = 0; k < at; ++k) out.row[k] = ids[base + k] * width;
  } else if (values.empty()) {
    for (Int t = 0; t < size; ++t) {
      Int back = offsets[t + 1] - base;
      out.begin[t] = at;
      for (Int k = offsets[t]; k < offsets[t + 1]; ++k) {
        const Int attribute = ids[k];
        if (attribute < rows.dense) {
          out.row[at++] = attribute * width;
        } else {
          out.row[--back] = short_row(rows, attribute);
        }
      }
      out.turn[t] = at;
      at = offsets[t + 1] - base;
    }
  } else {
    for (Int t = 0; t < size; ++t) {
      out.begin[t] = at;
      for (const bool dense : {true, false}) {
        for (Int k = offsets[t]; k < offsets[t + 1]; ++k) {
          const Int attribute = ids[k];
          if ((attribute < rows.dense) == dense && values[k] != 0.0) {
            out.row[at] = dense ? attribute * width : short_row(rows, attribute);
            out.value[at++] = values[k];
          }
        }
        if (dense) out.turn[t] = at;
      }
    }
  }
  out.begin[size] = at;
}

// Positions low … high-1 of them.
INLINE BlockRows rows_between(const BlockRows& rows, Int low, Int high) {
  return {{rows.begin.data + low, high - low + 1}, {rows.turn.data + low, high - low}, rows.row, rows.value};
}

// Those of position t, which are scattered over the memory.
INLINE void prefetch_short_rows(const BlockRows& block, const RowLayout& rows, Int t, const double* sparse) {
  for (Int k = block.turn[t]; k < block.begin[t + 1]; ++k) {
    const Int first = block.row[k] >> COUNT_BITS;
    prefetch(sparse + first);
    prefetch(rows.label.data + first);
  }
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
      prefetch_short_rows(block, rows, t + AHEAD < last ? t + AHEAD : last, weights.sparse.data);
      prefetch(block.row.data + begin + ENTRIES_AHEAD);
      for (Int c = 0; c < shape.width; c += Shape::columns) {
        auto score = load<Shape::columns>(blank + c);
        const double* dense = weights.dense.data + c;
        if (plain) {
          for (Int k = begin; k < turn; ++k) score = score + load<Shape::columns>(dense + block.row[k]);
        } else {
          for (Int k = begin; k < turn; ++k) {  // s += x · W[a, ·]
            score = fma(splat<Shape::columns>(block.value[k]), load<Shape::columns>(dense + block.row[k]), score);
          }
        }
        store(out + c, score);
      }
      for (Int k = turn; k < end; ++k) {
        const Int first = block.row[k] >> COUNT_BITS, count = block.row[k] & COUNT;
        const double value = plain ? 1.0 : block.value[k];
        for (Int entry = first; entry < first + count; ++entry) {  // s(j) += x · W[a, j]
          double& score = out[rows.label[entry]];
          score = Reg<1>::fma(value, weights.sparse[entry], score);
        }
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
  for (Int k = 0; k < counts.hot.size; k += 8) {
    store(counts.hot.data + k, load<8>(counts.hot.data + k) + load<8>(counts.dense.data + k));
    store(counts.dense.data + k, splat<8>(0.0));
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
