// Where the posteriors of positions and edges go: counts of attributes, the gradient of emissions, rows of posteriors.
#pragma once

#include "backward.hpp"

namespace core {

// Expected counts: counts[a, j] += x_t(a) γ_t(j); on the general way also those of transitions and edge attributes.
template <class Shape>
struct CountSink {
  static constexpr bool counts_edges = true;

  Shape shape;
  BlockRows block;
  const RowLayout& rows;
  const Counts& counts;
  const Block* data = nullptr;  // with its edge attributes, on the general way
  double* pairs = nullptr;      // [N, width]  counts of transitions since the last portion
  Int n_labels = 0;

  INLINE void take(Int t, const double* gamma) const {
    constexpr int C = Shape::columns;
    const Int begin = block.begin[t], turn = block.turn[t], end = block.begin[t + 1];
    const bool plain = block.value.empty();
    prefetch_entries(block, t > AHEAD ? t - AHEAD : 0, counts.sparse.data);
    for (Int c = 0; c < shape.width; c += C) {
      const auto posterior = load<C>(gamma + c);
      double* const dense = counts.dense.data + c;
#pragma GCC unroll 4
      for (Int k = begin; k < turn; ++k) {
        double* const at = dense + block.row[k] * shape.width;
        store(at, plain ? load<C>(at) + posterior : fma(splat<C>(block.value[k]), posterior, load<C>(at)));
      }
    }
    for (Int k = turn; k < end; ++k) {
      double& sum = counts.sparse[block.row[k]];
      sum = Reg<1>::fma(plain ? 1.0 : block.value[k], gamma[rows.label[block.row[k]]], sum);
    }
  }

  void edges(Int t, const double* joint, Int) const {
    const Int size = n_labels * shape.width;
    for (Int k = 0; k < size; ++k) pairs[k] += joint[k];
    if (data->edge_offsets.empty()) return;
    for (Int k = data->edge_offsets[t]; k < data->edge_offsets[t + 1]; ++k) {  // counts[b, i, j] += z_t(b) ξ_t(i, j)
      const double value = data->edge_values.empty() ? 1.0 : data->edge_values[k];
      double* const sums = counts.edge.data + data->edge_ids[k] * size;
      for (Int pair = 0; pair < size; ++pair) sums[pair] = Reg<1>::fma(value, joint[pair], sums[pair]);
    }
  }

  INLINE void portion() const {
    fold(counts);
    if (!pairs) return;
    for (Int k = 0; k < n_labels * shape.width; ++k) {
      counts.transition[k] += pairs[k];
      pairs[k] = 0.0;
    }
  }
};

// Rows of posteriors: out[t, ·] = γ_t
struct RowSink {
  static constexpr bool counts_edges = false;

  Matrix<double> out;  // [B, width]

  INLINE void take(Int t, const double* gamma) const {
    for (Int c = 0; c < out.columns; c += 4) store(out[t] + c, load<4>(gamma + c));
  }
  INLINE void edges(Int, const double*, Int) const {}
  INLINE void portion() const {}
};

}  // namespace core
