// Dense scores: a number for each position and label, as encoders make them; a source of scores, and a sink for their
// gradient.
//
//   s_t(j)   = emission of row t and label j; + start(j) where a sequence starts; + end(j) where it ends
//   e_t(i,j) = transition(i, j) + edges(t, i, j)
//
//   ∂ log Z / ∂ s_t(j) = γ_t(j)      ∂ log Z / ∂ e_t(i,j) = ξ_t(i,j)
//
// Position t of the chain is row rows[t] of the emissions; starts[t] where a sequence starts. Part k has the positions
// cuts[k] … cuts[k+1]-1: a sequence, or a range of one whose past and future are known. The forward vectors are kept,
// and are all that the way back needs. No part looks at another, so that a sequence has the same bits in any batch.
#pragma once

#include "sinks.hpp"

namespace core {

constexpr Int KEPT_FORWARD = 1024, KEPT_BACK = 128;  // positions whose predictions are kept at a time

// A batch; `chainfold.core.slots.Emissions`.
template <class T>
struct Emissions {
  Matrix<const T> scores;       // [R, N]
  Span<const double> start;     // [N]
  Span<const double> end;       // [N]
  Matrix<const bool> allowed;   // [R, N], or empty: all labels
  Span<const int64_t> rows;     // [P]
  Span<const bool> starts;      // [P]

  INLINE bool ends(Int t) const { return t + 1 == starts.size || starts[t + 1]; }

  // The state scores of positions low … high-1, -inf for padding and labels that are not allowed.
  void score(Int low, Int high, Int width, double* out) const {
    const Int n_labels = start.size;
    for (Int t = low; t < high; ++t, out += width) {
      const T* const row = scores[rows[t]];
      for (Int j = 0; j < n_labels; ++j) out[j] = row[j];
      for (Int j = n_labels; j < width; ++j) out[j] = -INFINITE;
      for (Int j = 0; starts[t] && j < n_labels; ++j) out[j] += start[j];
      for (Int j = 0; ends(t) && j < n_labels; ++j) out[j] += end[j];
      if (allowed.rows == 0) continue;
      const bool* const own = allowed[rows[t]];
      for (Int j = 0; j < n_labels; ++j) out[j] = own[j] ? out[j] : -INFINITE;
    }
  }
};

// out[t, i·width + j] = transition(i, j) + edges(rows[t], i, j); -inf for padding.
template <class T>
inline void score_edges(Cube<const T> edges, Span<const int64_t> rows, const double* transitions, Matrix<double> out) {
  const Int n_labels = edges.rows, width = out.columns / n_labels;
  for (Int t = 0; t < out.rows; ++t) {
    for (Int i = 0; i < n_labels; ++i) {
      const T* const own = edges(rows[t], i);
      double* const to = out[t] + i * width;
      for (Int j = 0; j < n_labels; ++j) to[j] = transitions[i * width + j] + own[j];
      for (Int j = n_labels; j < width; ++j) to[j] = -INFINITE;
    }
  }
}

// The gradient by emissions, and by start and end scores: factor times γ.
template <class T>
struct EmissionSink {
  static constexpr bool counts_edges = true;

  Matrix<T> gradient;         // [R, N]
  Span<const int64_t> rows;   // [P]
  Span<const bool> starts;    // [P]
  double factor;              // of the part
  double* first;              // [N]  by the start scores
  double* pairs = nullptr;    // [N, width]  by the transitions, on the general way
  Cube<T> edges_of{};         // [R, N, N]  by the edges of positions, or empty

  INLINE void take(Int t, const double* gamma) const {
    T* const row = gradient[rows[t]];
    for (Int j = 0; j < gradient.columns; ++j) row[j] += T(factor * gamma[j]);
    for (Int j = 0; starts[t] && j < gradient.columns; ++j) first[j] += factor * gamma[j];
  }
  void edges(Int t, const double* joint, Int width) const {
    const Int n_labels = gradient.columns;
    for (Int i = 0; i < n_labels; ++i) {
      for (Int j = 0; j < n_labels; ++j) pairs[i * width + j] += factor * joint[i * width + j];
      if (edges_of.planes == 0) continue;
      T* const own = edges_of(rows[t], i);
      for (Int j = 0; j < n_labels; ++j) own[j] += T(factor * joint[i * width + j]);
    }
  }
  INLINE void portion() const {}
};

// Transitions that all positions share, as steps take them.
struct Moves {
  Matrix<const double> edge;    // [1, N · width]
  Matrix<const double> edge_t;  // [N, width]
  Span<const double> shift;     // [1]
  bool watch;

  Int n_labels() const { return edge_t.rows; }
  Int width() const { return edge_t.columns; }
};

// Forward vectors of parts low … high-1. alpha: [P, width]; log_z, status: [K], what each adds to log Z.
//
// pasts: [K, width], forward vectors before parts that do not begin a sequence; they sum to one.
template <class Shape, class T>
inline Status forward_parts(Shape shape, const Emissions<T>& source, const Moves& moves, Span<const int64_t> cuts,
                            Matrix<const double> pasts, Int low, Int high, double* alpha, double* log_z,
                            int8_t* status) {
  const Int width = shape.width, n_labels = moves.n_labels();
  const Room predicted(KEPT_FORWARD * width), entry(width);
  if (predicted.failed() || entry.failed()) return NO_MEMORY;
  for (Int k = low; k < high; ++k) {
    const Int first = cuts[k], last = cuts[k + 1];
    TwoSum total;
    status[k] = OK;
    if (first < last && !source.starts[first]) {
      for (Int j = 0; j < width; ++j) entry.data()[j] = pasts[k][j];
    }
    for (Int t = first; t < last && status[k] == OK; t += KEPT_FORWARD) {
      const Int until = t + KEPT_FORWARD < last ? t + KEPT_FORWARD : last;
      if (t > first) end_posterior(alpha + (t - 1) * width, false, n_labels, width, entry.data());
      source.score(t, until, width, alpha + t * width);
      TwoSum scale;
      status[k] = int8_t(forward(shape, {source.starts.data + t, until - t}, alpha + t * width, predicted.data(),
                                 moves.edge, moves.shift.data, entry.data(), n_labels, moves.watch, scale));
      total.add(scale.total);
      total.compensation += scale.compensation;
    }
    log_z[k] = total.total + total.compensation;
  }
  return OK;
}

// Add factor[k] times the posteriors of parts low … high-1 to the gradient, and of their edges to pairs: [N, width].
//
// A part whose first forward vector is not a number is left out. futures: [K, width], the posteriors of the last
// positions of parts that do not end a sequence. ends: [2, width], by the start and the end scores.
template <class Shape, class T>
inline Status backward_parts(Shape shape, const Emissions<T>& source, const Moves& moves, Span<const int64_t> cuts,
                             Matrix<const double> futures, Int low, Int high, double* alpha, const double* factor,
                             Matrix<T> gradient, double* pairs, Matrix<double> ends) {
  const Int width = shape.width, n_labels = moves.n_labels();
  const ByTiles<Shape> ahead(shape, moves.edge[0], n_labels), back(shape, moves.edge_t.data, n_labels);
  const Room predicted(KEPT_BACK * width), counts(width * width), vectors(2 * width);
  if (ahead.failed() || back.failed() || predicted.failed() || counts.failed() || vectors.failed()) return NO_MEMORY;
  double *const gamma = vectors.data(), *const nothing = gamma + width;
  for (Int k = low; k < high; ++k) {
    const Int first = cuts[k], last = cuts[k + 1];
    if (first == last || alpha[first * width] != alpha[first * width]) continue;
    if (!source.ends(last - 1)) {
      for (Int j = 0; j < width; ++j) gamma[j] = futures[k][j];
    } else {
      end_posterior(alpha + (last - 1) * width, false, n_labels, width, gamma);
      for (Int j = 0; j < n_labels; ++j) ends[1][j] += factor[k] * gamma[j];
    }
    const EmissionSink<T> sink{gradient, source.rows, source.starts, factor[k], ends[0]};
    for (Int until = last; until > first; until -= until - first < KEPT_BACK ? until - first : KEPT_BACK) {
      const Int t = until - first < KEPT_BACK ? first : until - KEPT_BACK;
      const double* const entry = source.starts[t] ? nothing : alpha + (t - 1) * width;
      Lattice lattice{};
      lattice.starts = {source.starts.data + t, until - t};
      lattice.alpha = {alpha + t * width, until - t, width};
      lattice.predicted = {predicted.data(), until - t, width};
      lattice.entry = {entry, width};
      lattice.n_labels = n_labels;
      predict(shape, lattice.starts, lattice.alpha.data, entry, moves.edge, ahead, n_labels, predicted.data());
      backward(shape, lattice, back, gamma, counts.data(), nullptr, sink, t);
    }
    for (Int i = 0; i < n_labels; ++i) {
      for (Int j = 0; j < n_labels; ++j) {
        const Int at = i * width + j;
        pairs[at] += factor[k] * counts.data()[at] * moves.edge[0][at];  // ξ = α E v
        counts.data()[at] = 0.0;
      }
    }
  }
  return OK;
}

// The scores of the tags of parts low … high-1: score[k]. transitions: [N · width]; tags: [R]
template <class T>
inline void score_tags(const Emissions<T>& source, Span<const int64_t> cuts, const double* transitions, Int width,
                       Cube<const T> edges, const int64_t* tags, Int low, Int high, double* score) {
  for (Int k = low; k < high; ++k) {
    TwoSum total;
    for (Int t = cuts[k]; t < cuts[k + 1]; ++t) {
      const Int row = source.rows[t], tag = tags[row];
      double term = source.scores[row][tag];
      if (source.starts[t]) {
        term += source.start[tag];
      } else {
        const Int before = tags[source.rows[t - 1]];
        term += transitions[before * width + tag];
        if (edges.planes) term += edges(row, before)[tag];
      }
      if (source.ends(t)) term += source.end[tag];
      if (absolute(term) < INFINITE && absolute(total.total) < INFINITE) total.add(term);
      else total.total += term;
    }
    score[k] = total.total + total.compensation;
  }
}

// Add factor[k] times the counts of the tags.
template <class T>
inline void count_tags(const Emissions<T>& source, Span<const int64_t> cuts, const int64_t* tags, Int low, Int high,
                       const double* factor, Matrix<T> gradient, Matrix<double> pairs, Matrix<double> ends,
                       Cube<T> edges) {
  for (Int k = low; k < high; ++k) {
    for (Int t = cuts[k]; t < cuts[k + 1]; ++t) {
      const Int row = source.rows[t], tag = tags[row];
      gradient[row][tag] += T(factor[k]);
      if (source.starts[t]) {
        ends[0][tag] += factor[k];
      } else {
        const Int before = tags[source.rows[t - 1]];
        pairs[before][tag] += factor[k];
        if (edges.planes) edges(row, before)[tag] += T(factor[k]);
      }
      if (source.ends(t)) ends[1][tag] += factor[k];
    }
  }
}

}  // namespace core
