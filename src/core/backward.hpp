// Back over a block: from the posterior of its last position to that of every position and edge.
//
//   v_t(j) = γ_t(j) / predicted_t(j)      γ_{t-1}(i) = α_{t-1}(i) Σ_j E_t(i,j) v_t(j)      ξ_t(i,j) = α_{t-1}(i) E v_t(j)
//
// `lattice.hpp` has the derivation. What comes back goes to a sink (`sinks.hpp`):
//
//   sink.take(t, γ)         the posterior of position t, times its weight
//   sink.edges(t, ξ, width) that of the edge into t, on the general way; [N, width]
//   sink.portion()          PORTION positions are done
//   Sink::counts_edges      the fast way adds α_{t-1}(i) v_t(j) to pairs
#pragma once

#include "forward.hpp"
#include "scores.hpp"

namespace core {

constexpr Int TILE = 32;  // positions whose edges are counted together, so that a count is loaded once for all of them

template <int G, int C>
INLINE void count_edges_of(const double* alpha, const double* v, Int size, Int stride, double* pairs) {
  Vec<C> sums[G];
  each(std::make_integer_sequence<int, G>{}, [&](auto g) INLINE_LAMBDA { sums[g] = splat<C>(0.0); });
  for (Int t = 0; t < size; ++t, alpha += stride, v += stride) {
    const auto right = load<C>(v);
    each(std::make_integer_sequence<int, G>{},
         [&](auto g) INLINE_LAMBDA { sums[g] = fma(splat<C>(alpha[g]), right, sums[g]); });
  }
  each(std::make_integer_sequence<int, G>{}, [&](auto g) INLINE_LAMBDA {
    double* const row = pairs + g * stride;
    store(row, load<C>(row) + sums[g]);
  });
}

// pairs[i, j] += Σ_t α_{t-1}(i) v_t(j) over `size` positions; some labels i at a time, as the registers allow.
template <class Shape>
INLINE void count_edges(Shape shape, const double* alpha, const double* v, Int size, Int n_labels, double* pairs) {
  constexpr int C = Shape::columns, FREE = REGISTERS - 2, FOUR = 5 * C / WIDEST, TWO = 3 * C / WIDEST;
  constexpr int G = FOUR <= FREE ? 4 : TWO <= FREE ? 2 : 4, K = FOUR <= FREE || TWO <= FREE ? C : 8;
  for (Int c = 0; c < shape.width; c += K) {
    const auto count = [&](auto labels, Int i) INLINE_LAMBDA {
      count_edges_of<labels, K>(alpha + i, v + c, size, shape.width, pairs + i * shape.width + c);
    };
    Int i = 0;
    for (; i + G <= n_labels; i += G) count(std::integral_constant<int, G>{}, i);
    for (; i + 2 <= n_labels; i += 2) count(std::integral_constant<int, 2>{}, i);
    if (i < n_labels) count(std::integral_constant<int, 1>{}, i);
  }
}

// γ / Σ γ times the weight of its sequence; as it is if it adds up to nothing.
INLINE void normalise(double* gamma, Int width, double weight) {
  auto lanes = splat<4>(0.0);
  for (Int c = 0; c < width; c += 4) lanes = lanes + load<4>(gamma + c);
  const double total = sum(lanes);
  if (!(total > 0.0)) return;
  for (Int c = 0; c < width; c += 4) store(gamma + c, splat<4>(weight) * (load<4>(gamma + c) / splat<4>(total)));
}

// The fast way, one transition matrix for all positions: matrix, E transposed; low: of the block among the sink's.
//
// gamma: [width], the posterior of the last position in, of the position before the block out, each times its weight
// where sequences have weights; a sequence that ends before the block has weight one. pairs: [width, width],
// Σ α_{t-1}(i) v_t(j), still to be multiplied by E; predicted becomes v. Both only if the sink counts edges.
template <class Shape, class Sink>
inline void backward(Shape shape, const Lattice& lattice, const ByTiles<Shape>& matrix, double* gamma, double* pairs,
                     double* v_row, const Sink& sink, Int low = 0) {
  constexpr int C = Shape::columns;
  const Int width = shape.width, n_labels = lattice.n_labels, size = lattice.size();
  const bool weighted = !lattice.weights.empty();
  const auto zero = splat<C>(0.0), one = splat<C>(1.0), tiny = splat<C>(TINY);
  auto held = load<C>(gamma);
  Int high = size, since = 0;  // the end of the tile; positions since γ was made to add up
  for (Int t = size - 1; t >= 0; --t) {
    sink.take(low + t, gamma);
    const double* previous = lattice.before(t);
    double* const predicted = lattice.predicted[t];
    double* const v = Sink::counts_edges ? predicted : v_row;
    if (lattice.starts[t]) {
      const double weight = weighted && t > 0 ? lattice.weights[t - 1] : 1.0;
      const double scale = larger(row_sum(previous, n_labels), TINY);  // before the chain the entry is all zeros
      for (Int c = 0; c < width; c += C) {
        if (Sink::counts_edges) store(v + c, zero);
        held = splat<C>(weight) * (load<C>(previous + c) / splat<C>(scale));  // γ = α / Σ α
        store(gamma + c, held);
      }
      since = 0;
    } else {
      for (Int c = 0; c < width; c += C) {
        const auto inverse = one / maximum(load<C>(predicted + c), tiny);  // γ need not be waited for
        if (Shape::tiled) held = load<C>(gamma + c);
        held = held * inverse;  // v = γ / predicted
        store(v + c, held);
      }
      const auto held_v = held;
      for (Int c = 0; c < width; c += C) {  // γ = α · E v
        held = load<C>(previous + c) *
               step_row<C, Shape::tiled>(v, held_v, matrix.tile(c), Shape::tiled ? Int(C) : width, n_labels);
        store(gamma + c, held);
      }
      if (++since == NORMALISED) {
        normalise(gamma, width, weighted && t > 0 ? lattice.weights[t - 1] : 1.0);
        held = load<C>(gamma);
        since = 0;
      }
    }
    if (Sink::counts_edges && t > 0 && (high - t == TILE || t == 1)) {
      count_edges(shape, lattice.alpha[t - 1], predicted, high - t, n_labels, pairs);
      high = t;
    }
    if ((size - t) % PORTION == 0) sink.portion();
  }
  for (Int i = 0; Sink::counts_edges && i < n_labels; ++i) {  // the edge into the first position
    for (Int c = 0; c < width; c += C) {
      double* const at = pairs + i * width + c;
      store(at, fma(splat<C>(lattice.entry[i]), load<C>(lattice.predicted[0] + c), load<C>(at)));
    }
  }
}

// The general way: edges that differ from position to position, or wide numbers. ξ_t(i,j) = Pr(i | j) γ_t(j) is formed
// outright. joint: [N, width], room for it.
template <class Sink>
inline void backward_general(const Lattice& lattice, double* gamma, Int width, double* joint, const Sink& sink) {
  const Int n_labels = lattice.n_labels;
  const bool weighted = !lattice.weights.empty();
  Int since = 0;
  for (Int t = lattice.size() - 1; t >= 0; --t) {
    sink.take(t, gamma);
    const double *previous = lattice.before(t), weight = weighted && t > 0 ? lattice.weights[t - 1] : 1.0;
    if (lattice.starts[t]) {
      end_posterior(previous, lattice.wide, n_labels, width, gamma);
      for (Int i = 0; i < n_labels; ++i) gamma[i] *= weight;
      since = 0;
    } else {
      transfer(previous, lattice.predicted[t], lattice.edge_at(t), lattice.wide, n_labels, width, joint);
      for (Int i = 0; i < n_labels; ++i) {
        for (Int j = 0; j < n_labels; ++j) joint[i * width + j] *= gamma[j];  // ξ = Pr(i | j) γ(j)
      }
      for (Int i = 0; i < n_labels; ++i) gamma[i] = row_sum(joint + i * width, n_labels);  // γ = Σ_j ξ(·, j)
      sink.edges(t, joint, width);
      if (++since == NORMALISED) {
        normalise(gamma, width, weight);
        since = 0;
      }
    }
    if (t % PORTION == 0) sink.portion();
  }
}

}  // namespace core
