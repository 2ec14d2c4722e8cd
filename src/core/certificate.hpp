// The certificate: what the future can still change.
//
// Let Q(i | f) = Pr(y_b = i | y_{b+L} = f, x up to b+L), the posterior of the boundary label i given the label f that
// the future might pin L positions later. It starts as the identity and grows to the right, one position at a time:
//
//   Q'(i | g) = Σ_f Q(i | f) · Pr(y_t = f | y_{t+1} = g, x up to t+1)
//
// Whatever the future holds, the true posterior γ_b is a convex combination of the columns Q(· | f). So once they agree
// to within a relative ε in every row, γ_b is known to within ε before the future is read; each posterior inside the
// block is a combination of the γ_b(i) with non-negative coefficients, and so known to within ε too. At a start mark
// the future is independent of the past, and the combination is known exactly: the weights are α.
//
// The same agreement read the other way says what the past can still change. Start with any α_b that gives each
// possible label i some weight. Pr(f | i) = Q(i | f) α_{b+L}(f) / α_b(i); so where the columns agree in every row, so
// do the rows Pr(· | i), and α_{b+L} is within ε of the forward vector of any past. From there on it stays so.
//
// All numbers are probabilities: nothing overflows, and rounding alone (about L · 1e-16) keeps the columns apart.
#pragma once

#include "lattice.hpp"

namespace core {

constexpr double NEGLIGIBLE = 1e-200;  // a posterior this small for any future is zero: products of it would underflow
constexpr double SUBNORMAL = 1e-290;   // numbers near the end of the range have too few digits left to agree or not

// out = left · right, four rows at a time; left and out: [width, width], right: [N, width].
template <int C>
inline void multiply(const double* left, const double* right, Int n_labels, Int width, double* out) {
  for (Int i = 0; i < n_labels; i += 4) {
    for (Int c = 0; c < width; c += C) {
      Vec<C> sums[4] = {splat<C>(0.0), splat<C>(0.0), splat<C>(0.0), splat<C>(0.0)};
      const double* const at = left + i * width;
      for (Int f = 0; f < n_labels; ++f) {
        const auto row = load<C>(right + f * width + c);
        each(std::make_integer_sequence<int, 4>{},
             [&](auto r) INLINE_LAMBDA { sums[r] = fma(splat<C>(at[r * width + f]), row, sums[r]); });
      }
      each(std::make_integer_sequence<int, 4>{},
           [&](auto r) INLINE_LAMBDA { store(out + (i + r) * width + c, sums[r]); });
    }
  }
}
inline void multiply(const double* left, const double* right, Int n_labels, Int width, double* out) {
  return width % 8 ? multiply<4>(left, right, n_labels, width, out) : multiply<8>(left, right, n_labels, width, out);
}

// What is asked of Q. ignore: [width], for each row how small it must be to count as zero.
struct Agreement {
  double tolerance;
  const double* ignore;
  Int n_labels, width;

  // Do the columns agree in row i, those of impossible labels f left out?
  bool row_agrees(const double* q, Int i, const double* alpha) const {
    double low = INFINITE, high = 0.0;
    for (Int f = 0; f < n_labels; ++f) {
      if (alpha[f] > 0.0) {  // of a wide number the first part: it may matter where a double would underflow
        const double x = q[i * width + f];
        low = low < x ? low : x;
        high = larger(high, x);
      }
    }
    return high < ignore[i] || (low > SUBNORMAL && high - low <= tolerance * low);
  }

  // A row of Q whose columns do not agree, the doubtful one asked first; -1 if there is none.
  Int disagreeing(const double* q, Int doubtful, const double* alpha) const {
    if (!row_agrees(q, doubtful, alpha)) return doubtful;
    for (Int i = 0; i < n_labels; ++i) {
      if (!row_agrees(q, i, alpha)) return i;
    }
    return -1;
  }
};

// gamma(i) = Σ_f Q(i | f) α(f), normalised; zero where all are.
inline void mix(const double* q, const double* alpha, bool wide, Int n_labels, Int width, double* gamma) {
  double total = 0.0;
  for (Int i = 0; i < n_labels; ++i) {
    gamma[i] = 0.0;
    for (Int f = 0; f < n_labels; ++f) gamma[i] += q[i * width + f] * real(alpha, f, wide, width);
    total += gamma[i];
  }
  for (Int i = 0; i < n_labels; ++i) gamma[i] /= total > 0.0 ? total : 1.0;
}

// Grow Q to the right over one block, from the head of what was looked at before. Returns whether it is certified;
// looked: positions looked at. scratch: [2, width, width].
//
// q holds Q on entry and, where the block did not settle it, on return; where it did, gamma is the posterior of the
// boundary.
inline bool look_ahead(const Lattice& lattice, const Agreement& agreement, double* q, double* scratch, double* gamma,
                       Int& looked) {
  const Int n_labels = lattice.n_labels, width = agreement.width, size = width * width;
  double *const joint = scratch, *const product = scratch + size;
  Int doubtful = 0;  // the row that disagreed last is asked first
  for (Int t = 0; t < lattice.size(); ++t) {
    const double* previous = lattice.before(t);
    if (lattice.starts[t]) {
      mix(q, previous, lattice.wide, n_labels, width, gamma);
      looked = t;
      return true;
    }
    transfer(previous, lattice.predicted[t], lattice.edge_at(t), lattice.wide, n_labels, width, joint);
    multiply(q, joint, n_labels, width, product);  // Q' = Q Pr
    for (Int c = 0; c < size; c += 4) store(q + c, load<4>(product + c));
    doubtful = agreement.disagreeing(q, doubtful, lattice.alpha[t]);
    if (doubtful < 0) {
      mix(q, lattice.alpha[t], lattice.wide, n_labels, width, gamma);
      looked = t + 1;
      return true;
    }
  }
  looked = lattice.size();
  return false;
}

// The last position whose posterior is the same, to within the tolerance, for any label pinned at the head.
//
//   Q_t(i | f) = Pr(y_t = i | y_head = f, x) = Σ_k Pr(y_t = i | y_{t+1} = k) Q_{t+1}(k | f)
//
// from the head back. The boundary t = -1 is the entry of the lattice. Returns t, with its posterior in gamma, or -2;
// q is Q_{t+1}, from which the next call continues. Before a start mark the posterior is α.
inline Int last_certified(const Lattice& lattice, const Agreement& agreement, double* q, double* scratch,
                          double* gamma) {
  const Int n_labels = lattice.n_labels, width = agreement.width, size = width * width, head = lattice.size() - 1;
  double *const joint = scratch, *const product = scratch + size;
  Int doubtful = 0;
  for (Int k = 0; k < size; ++k) q[k] = k % (width + 1) == 0 ? 1.0 : 0.0;
  for (Int t = head; t >= 0; --t) {
    const double* previous = lattice.before(t);
    if (lattice.starts[t]) {
      end_posterior(previous, lattice.wide, n_labels, width, gamma);
      return t - 1;
    }
    transfer(previous, lattice.predicted[t], lattice.edge_at(t), lattice.wide, n_labels, width, joint);
    multiply(joint, q, n_labels, width, product);
    doubtful = agreement.disagreeing(product, doubtful, lattice.alpha[head]);
    if (doubtful < 0) {
      mix(product, lattice.alpha[head], lattice.wide, n_labels, width, gamma);
      return t - 1;
    }
    for (Int c = 0; t > 0 && c < size; c += 4) store(q + c, load<4>(product + c));
  }
  return -2;
}

}  // namespace core
