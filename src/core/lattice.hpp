// A block of the lattice: what the forward pass leaves, and the probabilities that follow from it.
//
// Forward and back in the scaled real domain. With b_t(j) = exp(s_t(j) - max s_t) and E_t(i,j) = exp(e_t(i,j) -
// max e_t), up to one common factor a position whose logarithm goes into log Z:
//
//   predicted_t(j) = Σ_i α_{t-1}(i) E_t(i,j)                     at a start mark: 1
//   α_t(j)         = b_t(j) · predicted_t(j)
//
//   v_t(j)         = γ_t(j) / predicted_t(j)                     γ_t: the posterior of position t
//   γ_{t-1}(i)     = α_{t-1}(i) · Σ_j E_t(i,j) v_t(j)            before a start mark: α_{t-1}, normalised
//   ξ_t(i,j)       = α_{t-1}(i) · E_t(i,j) · v_t(j)              the posterior of the edge into t
//
// All of it is linear in γ. Where sequences have weights, the way back begins at the end of each sequence with its
// weight times the posterior: γ adds up to w, and so do all counts.
//
// The way back needs α and the predictions alone: no scale, no state score. A posterior is a number in [0, 1], so
// nothing overflows, and a label that cannot be reached has α = 0 and stays out of the way.
//
// α is a product over the whole past and may leave the range of a double. Where every transition is allowed and the
// scores of transitions span at most EDGE_RANGE, one step forward or back changes the odds between two labels by at
// most e^150: a label whose α underflows has a posterior below 1e-150, and nothing is lost. Elsewhere the forward pass
// watches: if a positive number comes near the end of the range, it reports UNSAFE and the block is done again in wide
// numbers, whose range has no end (`wide.hpp`). alpha, predicted and entry then hold wide numbers, and edge the e_t.
//
// Rounding. What is known of γ_t is kept: it adds up to one, or to w, and is made to do so again every few positions.
// Sums over many positions are taken in portions, each of which is added to the next larger one.
#pragma once

#include "shapes.hpp"
#include "wide.hpp"

namespace core {

// Three factors meet in α_t: the last α, an edge and a state potential. While each stays above its bound, a product is
// zero only if a factor is. (α is bounded after scaling; before it, by as much more as scaling may take away.)
constexpr double LEAST_ALPHA = 1e-150, LEAST_STATE_SCORE = -195.0, EDGE_RANGE = 150.0;
constexpr double TINY = 1e-300;   // a divisor that is zero is replaced by it; what it divides is zero too
constexpr Int NORMALISED = 32;    // positions after which a posterior is made to add up to one

// Knuth: total + compensation is the sum so far, as if in twice the precision.
struct TwoSum {
  double total = 0.0, compensation = 0.0;

  INLINE void add(double term) {
    const double s = total + term, virtual_ = s - total;
    compensation = compensation + ((total - (s - virtual_)) + (term - virtual_));
    total = s;
  }
};

// Sums in lanes 0 and 4, for two positions at a time.
struct TwoSums {
  Vec<8> total = splat<8>(0.0), compensation = splat<8>(0.0);

  INLINE void add(const Vec<8>& terms) {
    const auto s = total + terms, virtual_ = s - total;
    compensation = compensation + ((total - (s - virtual_)) + (terms - virtual_));
    total = s;
  }
  void join(TwoSum& sum) const {
    double totals[8], rests[8];
    store(totals, total);
    store(rests, compensation);
    for (const int lane : {0, 4}) {
      sum.add(totals[lane]);
      sum.compensation += rests[lane];
    }
  }
};

INLINE double larger(double a, double b) { return a > b ? a : b; }
INLINE double absolute(double x) { return __builtin_fabs(x); }

// Σ_i row(i), in order
INLINE double row_sum(const double* row, Int n_labels) {
  double total = 0.0;
  for (Int i = 0; i < n_labels; ++i) total += row[i];
  return total;
}
INLINE double row_sum(const double* row, bool wide, Int n_labels, Int width) {
  if (!wide) return row_sum(row, n_labels);
  double total = 0.0;
  for (Int i = 0; i < n_labels; ++i) total += real(row, i, true, width);
  return total;
}

// out[i, j] = α_{t-1}(i) E_t(i,j) / predicted_t(j), in doubles
inline void transfer_real(const double* previous, const double* predicted, const double* edge, Int n_labels, Int width,
                          double* out) {
  for (Int c = 0; c < width; c += 4) {
    const auto inverse = splat<4>(1.0) / maximum(load<4>(predicted + c), splat<4>(TINY));
    for (Int i = 0; i < n_labels; ++i) {
      store(out + i * width + c, splat<4>(previous[i]) * load<4>(edge + i * width + c) * inverse);
    }
  }
}

// out[i, j] = Pr(y_{t-1} = i | y_t = j, x up to t); 0 where j cannot be.
inline void transfer(const double* previous, const double* predicted, const double* edge, bool wide, Int n_labels,
                     Int width, double* out) {
  if (!wide) return transfer_real(previous, predicted, edge, n_labels, width, out);
  for (Int i = 0; i < n_labels; ++i) {
    for (Int j = 0; j < n_labels; ++j) {
      double& share = out[i * width + j];
      share = 0.0;
      if (!(previous[i] > 0.0 && predicted[j] > 0.0)) continue;
      const double k = previous[width + i] - predicted[width + j], score = edge[i * width + j];
      if (absolute(score) < MOST_EXACT) {  // m 2^k e^s = m exp(s + k ln 2)
        share = previous[i] * exp((score + k * LN2_HIGH) + k * LN2_LOW);
      } else {
        const Wide moved = wide_exp(score);
        share = previous[i] * moved.m * power(k + moved.k);
      }
    }
  }
  for (Int j = 0; j < n_labels; ++j) {  // the sum is predicted(j), but for the rounding of k where scores are large
    double total = 0.0;
    for (Int i = 0; i < n_labels; ++i) total += out[i * width + j];
    const double inverse = 1.0 / larger(total, TINY);
    for (Int i = 0; i < n_labels; ++i) out[i * width + j] *= inverse;
  }
}

// log Pr(i | j)
inline double log_conditional(const double* previous, const double* predicted, const double* edge, Int i, Int j,
                              bool wide, Int width) {
  if (previous[i] <= 0.0 || predicted[j] <= 0.0) return -INFINITE;
  if (wide) {
    const Wide moved = wide_exp(edge[i * width + j]);
    const double k = moved.k + (previous[width + i] - predicted[width + j]);
    return moved.m > 0.0 ? k * LN2_HIGH + (k * LN2_LOW + log(previous[i] * moved.m / predicted[j])) : -INFINITE;
  }
  const double joint = previous[i] * edge[i * width + j];
  return joint > 0.0 ? log(joint / predicted[j]) : -INFINITE;
}

// γ of a position where a sequence ends: its α, normalised; zero where there is none.
inline void end_posterior(const double* row, bool wide, Int n_labels, Int width, double* gamma) {
  const double scale = larger(row_sum(row, wide, n_labels, width), TINY);
  for (Int i = 0; i < n_labels; ++i) gamma[i] = real(row, i, wide, width) / scale;
}

}  // namespace core
