// Whole sequences, forward and back a few at a time, so that what is between stays in the cache.
#pragma once

#include "backward.hpp"

namespace core {

// The end of the last whole sequence of one weight among the next positions, `most` at most; `low` if none ends.
inline Int next_end(Span<const bool> starts, Span<const double> weights, Int low, Int most) {
  Int high = low + most < starts.size ? low + most : starts.size;
  if (!weights.empty()) {
    Int end = low + 1;
    while (end < high && weights[end] == weights[low]) ++end;
    high = end;
  }
  while (high > low && high < starts.size && !starts[high]) --high;
  return high;
}

// There and back over the sequences of a block, from a source of scores to a sink.
//
// The block begins and ends with whole sequences; alpha and predicted are the room for a few. Returns the positions
// done: a sequence that is longer than the room, or whose numbers leave the range, ends it. Those that are done
// together have one weight. scale: the logarithm of theirs.
template <class Shape, class Source, class Sink>
inline Int whole_sequences(Shape shape, const Lattice& lattice, const Source& source, const Sink& sink,
                           const ByTiles<Shape>& matrix_t, const double* shift, bool watch, double* gamma,
                           double* pairs, TwoSum& scale) {
  const Span<const bool> starts = lattice.starts;
  const Span<const double> weights = lattice.weights;
  Int low = 0, folded = 0;
  while (low < starts.size) {
    const Int high = next_end(starts, weights, low, lattice.alpha.rows), size = high - low;
    if (size == 0) break;
    Lattice part = lattice;
    part.starts = {starts.data + low, size};
    if (!weights.empty()) part.weights = {weights.data + low, size};
    source.score(low, high, part.alpha.data);
    TwoSum own;
    if (forward(shape, part.starts, part.alpha.data, part.predicted.data, part.edge, shift, part.entry.data,
                part.n_labels, watch, own) != OK) {
      break;
    }
    const double weight = weights.empty() ? 1.0 : weights[low];
    scale.add(weight * own.total);
    scale.compensation += weight * own.compensation;
    const double *const last = part.alpha[size - 1], total = row_sum(last, part.n_labels);
    for (Int j = 0; j < shape.width; ++j) gamma[j] = weight * (last[j] / total);
    backward(shape, part, matrix_t, gamma, pairs, nullptr, sink, low);
    low = high;
    if (low - folded >= PORTION) {
      sink.portion();
      folded = low;
    }
  }
  return low;
}

}  // namespace core
