// Drawn labellings, probabilities and entropy of sequences, and expected transitions.
//
// They are computed from a block after the forward pass, in doubles or in wide numbers (`lattice.hpp`).
//
//   Pr(i | j) = Pr(y_{t-1} = i | y_t = j, x up to t) = α_{t-1}(i) E_t(i,j) / predicted_t(j)
//
// is all that probabilities and entropies need: it is local, so a sequence of any length loses no digits.
#pragma once

#include "backward.hpp"

namespace core {

// Pr(y_t = j | y_{t-1} = i, all x) ∝ E_t(i,j) v_t(j), v_t(j) = γ_t(j) / predicted_t(j); at a start mark γ_t(j).
//
// uniforms: [B, k], one number from [0, 1) for each label. labels: [1 + B, k], those before the block first.
inline Status draw(const Lattice& lattice, Matrix<const double> posterior, Matrix<const double> uniforms,
                   Matrix<int32_t> labels) {
  const Int width = posterior.columns, n_labels = lattice.n_labels;
  const Room room(3 * n_labels);
  if (room.failed()) return NO_MEMORY;
  double *const v = room.data(), *const weight = v + n_labels, *const powers = weight + n_labels;
  for (Int t = 0; t < posterior.rows; ++t) {
    const bool start = lattice.starts[t];
    const double *const predicted = lattice.predicted[t], *const gamma = posterior[t];
    for (Int j = 0; j < n_labels; ++j) v[j] = start ? gamma[j] : gamma[j] / larger(predicted[j], TINY);
    for (Int k = 0; k < labels.columns; ++k) {
      const double* const row = lattice.edge_at(t) + labels[t][k] * width;
      double top = -INFINITE, total = 0.0;
      for (Int j = 0; j < n_labels; ++j) {
        weight[j] = v[j];
        powers[j] = 0.0;
        if (lattice.wide && !start) {  // E v = m m' 2^(k - k')
          const Wide moved = wide_exp(row[j]);
          weight[j] *= moved.m;
          powers[j] = weight[j] > 0.0 ? moved.k - predicted[width + j] : 0.0;
        } else if (!start) {
          weight[j] *= row[j];
        }
        if (weight[j] > 0.0) top = larger(top, powers[j]);
      }
      for (Int j = 0; j < n_labels; ++j) {
        weight[j] = weight[j] > 0.0 ? weight[j] * power(powers[j] - top) : 0.0;
        total += weight[j];
      }
      double rest = uniforms[t][k] * total;
      Int label = 0;
      for (Int j = 0; j < n_labels; ++j) {
        if (weight[j] > 0.0 && rest >= 0.0) {
          label = j;
          rest -= weight[j];
        }
      }
      labels[t + 1][k] = int32_t(label);
    }
  }
  return OK;
}

// log γ(label) of a position where a sequence ends: its α, normalised.
INLINE double log_posterior(const double* alpha, Int label, bool wide, Int n_labels, Int width) {
  return log_share(alpha, label, wide, width, row_sum(alpha, wide, n_labels, width));
}

// The width of a row of labels: wide numbers have two parts.
INLINE Int width_of(const Lattice& lattice) { return lattice.wide ? lattice.alpha.columns / 2 : lattice.alpha.columns; }

// log p of the best labelling: l_t(j) = l_{t-1}(i) + log Pr(i | j) with i = back_t(j); at the end + log γ_T.
//
// logs: [N] and total, what was taken out of them, are carried. out: for each sequence that ends here.
template <class Pointer>
inline Status best_probability(const Lattice& lattice, Span<const bool> ends, Matrix<const Pointer> back,
                               const int64_t* finals, double* logs, TwoSum& total, double* out) {
  const Int n_labels = lattice.n_labels, width = width_of(lattice);
  const Room fresh(n_labels);
  if (fresh.failed()) return NO_MEMORY;
  for (Int t = 0; t < lattice.size(); ++t) {
    if (lattice.starts[t]) {
      for (Int j = 0; j < n_labels; ++j) logs[j] = 0.0;
      total = TwoSum{};
    } else {
      double high = -INFINITE;
      for (Int j = 0; j < n_labels; ++j) {
        const Int i = back[t][j];
        fresh.data()[j] = logs[i] + log_conditional(lattice.before(t), lattice.predicted[t], lattice.edge_at(t), i, j,
                                                    lattice.wide, width);
        high = larger(high, fresh.data()[j]);
      }
      for (Int j = 0; j < n_labels; ++j) logs[j] = fresh.data()[j] - high;
      total.add(high);
    }
    if (!ends[t]) continue;
    const Int label = *finals++;
    const double last = log_posterior(lattice.alpha[t], label, lattice.wide, n_labels, width);
    *out++ = total.total + (total.compensation + logs[label] + last);
  }
  return OK;
}

// log p of the block's own labels: Σ_t log Pr(y_{t-1} | y_t) + log γ_T(y_T); not a number where a label is unknown.
//
// before: the label before the block. total: the sum since the sequence began, carried.
inline void given_probability(const Lattice& lattice, Span<const bool> ends, Int before, TwoSum& total, double* out) {
  const Int n_labels = lattice.n_labels, width = width_of(lattice);
  for (Int t = 0; t < lattice.size(); ++t) {
    const Int label = lattice.labels[t];
    const bool start = lattice.starts[t];
    if (start) total = TwoSum{};
    double term = 0.0;
    if (label < 0 || (before < 0 && !start)) {
      term = NOT_A_NUMBER;
    } else {
      if (!start) {
        term = log_conditional(lattice.before(t), lattice.predicted[t], lattice.edge_at(t), before, label, lattice.wide,
                               width);
      }
      if (ends[t]) term += log_posterior(lattice.alpha[t], label, lattice.wide, n_labels, width);
    }
    if (term > -INFINITE && total.total > -INFINITE) total.add(term);
    else total = {total.total + term, 0.0};
    if (ends[t]) *out++ = total.total + total.compensation;
    before = label;
  }
}

// fresh(j) = Σ_i Pr(i | j) (h(i) - log Pr(i | j)), in wide numbers
inline void entropies_wide(const double* previous, const double* predicted, const double* edge, const double* given,
                           Int n_labels, Int width, double* fresh) {
  for (Int j = 0; j < n_labels; ++j) fresh[j] = 0.0;
  for (Int i = 0; i < n_labels; ++i) {
    for (Int j = 0; j < n_labels; ++j) {
      if (!(previous[i] > 0.0 && predicted[j] > 0.0)) continue;
      const Wide moved = wide_exp(edge[i * width + j]);
      const double ratio = previous[i] * moved.m / predicted[j];  // Pr(i | j) = ratio · 2^k
      const double k = moved.k + (previous[width + i] - predicted[width + j]);
      const double share = ratio * power(k < 1023.0 ? k : 1023.0);
      if (share > 0.0) fresh[j] += share * (given[i] - (k * LN2_HIGH + (k * LN2_LOW + log(ratio))));
    }
  }
}

// The same in doubles: Σ_i Pr(i | j) (h(i) - log α(i) - log E(i,j)) + log predicted(j). log_edge: log E, 0 where E is 0.
// room: [2, width]
template <class Shape>
inline void entropies_real(Shape shape, const double* previous, const double* predicted, const double* edge,
                           const double* log_edge, const double* given, Int n_labels, double* room, double* fresh) {
  constexpr int C = Shape::columns;
  const Int width = shape.width;
  double *const inverse = room, *const own = room + width;
  for (Int j = 0; j < n_labels; ++j) {
    fresh[j] = predicted[j] > 0.0 ? log(predicted[j]) : 0.0;
    inverse[j] = predicted[j] > 0.0 ? 1.0 / predicted[j] : 0.0;
    own[j] = previous[j] > 0.0 ? given[j] - log(previous[j]) : 0.0;
  }
  for (Int i = 0; i < n_labels; ++i) {  // in the order of the matrices, which may be larger than the first cache
    for (Int c = 0; c < width; c += C) {
      const auto share = splat<C>(previous[i]) * load<C>(edge + i * width + c) * load<C>(inverse + c);
      const auto term = share * (splat<C>(own[i]) - load<C>(log_edge + i * width + c));
      store(fresh + c, load<C>(fresh + c) + term);
    }
  }
}

// h_t(j) = Σ_i Pr(i | j) (h_{t-1}(i) - log Pr(i | j)), the entropy of the labels up to t given the last one; at the end
// H = Σ_j γ(j) (h(j) - log γ(j)).
//
// given: [width], h, and total, what was taken out of it, are carried. log_edge: [N · width], log E or 0 where E is
// zero, for a lattice of real numbers with one transition matrix; else empty.
template <class Shape>
inline Status entropy(Shape shape, const Lattice& lattice, Span<const bool> ends, Span<const double> log_edge,
                      double* given, TwoSum& total, double* out) {
  const Int n_labels = lattice.n_labels, width = shape.width, count = n_labels * width;
  const bool wide = lattice.wide, known = wide || !log_edge.empty();
  const Room room(3 * width + (known ? 0 : count));
  if (room.failed()) return NO_MEMORY;
  double *const fresh = room.data(), *const two = fresh + width, *const logs = two + 2 * width;
  for (Int t = 0; t < lattice.size(); ++t) {
    const double *const previous = lattice.before(t), *const predicted = lattice.predicted[t];
    const double* const edge = lattice.edge_at(t);
    if (lattice.starts[t]) {
      for (Int j = 0; j < n_labels; ++j) given[j] = 0.0;
      total = TwoSum{};
    } else {
      if (wide) {
        entropies_wide(previous, predicted, edge, given, n_labels, width, fresh);
      } else {
        for (Int k = 0; !known && k < count; ++k) logs[k] = edge[k] > 0.0 ? log(edge[k]) : 0.0;
        entropies_real(shape, previous, predicted, edge, known ? log_edge.data : logs, given, n_labels, two, fresh);
      }
      double high = -INFINITE;
      for (Int j = 0; j < n_labels; ++j) {
        if (predicted[j] > 0.0) high = larger(high, fresh[j]);
      }
      for (Int j = 0; j < n_labels; ++j) given[j] = predicted[j] > 0.0 ? fresh[j] - high : 0.0;
      total.add(high);
    }
    if (!ends[t]) continue;
    double rest = 0.0;
    for (Int j = 0; j < n_labels; ++j) {
      const double log_gamma = log_posterior(lattice.alpha[t], j, wide, n_labels, width);
      if (log_gamma > -INFINITE) rest += exp(log_gamma) * (given[j] - log_gamma);
    }
    *out++ = larger(total.total + (total.compensation + rest), 0.0);
  }
  return OK;
}

// pairs(i, j) += α_{t-1}(i) E_t(i,j) v_t(j), v_t(j) = γ_t(j) / predicted_t(j), one edge
template <class Shape>
inline void count_pair(Shape shape, const double* previous, const double* predicted, const double* edge,
                       const double* gamma, Int n_labels, Matrix<double> pairs) {
  constexpr int C = Shape::columns;
  for (Int c = 0; c < shape.width; c += C) {
    const auto v = load<C>(gamma + c) / maximum(load<C>(predicted + c), splat<C>(TINY));
    for (Int i = 0; i < n_labels; ++i) {
      const auto joint = splat<C>(previous[i]) * load<C>(edge + i * shape.width + c);
      store(pairs[i] + c, fma(joint, v, load<C>(pairs[i] + c)));
    }
  }
}

// One transition matrix, α and v of positions after the first: pairs(i, j) += E(i,j) Σ_t α_{t-1}(i) v_t(j)
template <class Shape>
inline Status count_pairs_shared(Shape shape, const Lattice& lattice, Matrix<const double> posteriors,
                                 Matrix<double> pairs) {
  constexpr int C = Shape::columns;
  const Int width = shape.width, size = lattice.size();
  const Room room((TILE + width) * width);
  if (room.failed()) return NO_MEMORY;
  double *const v = room.data(), *const sums = v + TILE * width;
  for (Int low = 1; low < size; low += TILE) {
    const Int high = low + TILE < size ? low + TILE : size;
    for (Int t = low; t < high; ++t) {
      for (Int c = 0; c < width; c += C) {  // v = γ / predicted, none at a start mark
        const auto ahead = maximum(load<C>(lattice.predicted[t] + c), splat<C>(TINY));
        store(v + (t - low) * width + c, lattice.starts[t] ? splat<C>(0.0) : load<C>(posteriors[t] + c) / ahead);
      }
    }
    count_edges(shape, lattice.alpha[low - 1], v, high - low, lattice.n_labels, sums);
  }
  for (Int i = 0; i < lattice.n_labels; ++i) {
    for (Int c = 0; c < width; c += C) {
      const auto edge = load<C>(lattice.edge[0] + i * width + c);
      store(pairs[i] + c, fma(edge, load<C>(sums + i * width + c), load<C>(pairs[i] + c)));
    }
  }
  return OK;
}

// pairs(i, j) += Σ_t ξ_t(i, j), ξ_t(i, j) = Pr(y_{t-1} = i | y_t = j) γ_t(j), but at start marks; [N, width]
template <class Shape>
inline Status count_pairs(Shape shape, const Lattice& lattice, Matrix<const double> posteriors, Matrix<double> pairs) {
  const Int width = shape.width, n_labels = lattice.n_labels, size = lattice.size();
  const bool shared = !lattice.wide && lattice.edge.rows == 1 && size >= TILE;
  const Room room(lattice.wide ? n_labels * width : 0);
  if (room.failed()) return NO_MEMORY;
  for (Int t = 0; t < (shared ? 1 : size); ++t) {
    if (lattice.starts[t]) continue;
    const double *const previous = lattice.before(t), *const predicted = lattice.predicted[t];
    if (lattice.wide) {
      transfer(previous, predicted, lattice.edge_at(t), true, n_labels, width, room.data());
      for (Int i = 0; i < n_labels; ++i) {
        for (Int j = 0; j < n_labels; ++j) pairs[i][j] += room.data()[i * width + j] * posteriors[t][j];
      }
    } else {
      count_pair(shape, previous, predicted, lattice.edge_at(t), posteriors[t], n_labels, pairs);
    }
  }
  return shared ? count_pairs_shared(shape, lattice, posteriors, pairs) : OK;
}

}  // namespace core
