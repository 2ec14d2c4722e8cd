// Passes over vectors as long as the model: each reads what it needs once and does with it all that there is to do.
//
//   x point   g gradient   d direction   s, y a step and the change of the gradient   p, q moments
//
//   penalise      g ← g - observed + 2 c2 x                          sums: x·x, observed·x
//   step_along    trial ← x + step d
//   step_within   trial ← x + step d, zero outside the orthant       sums: (trial - x)·downhill, ‖trial‖₁
//   keep          kept ← g                                           sum: g·d
//   arrive        s ← x - x_before, y ← g - g_before                 sums: norms, products with the pairs
//   combine       d ← scale · downhill + Σ_k share_k · pair_k        sums: d·downhill, d·d
//   sgd           x ← x - η g                                        sums: g·g, x·x
//   adagrad       q ← q + g²                                         x ← x - η g / (√q + ε)
//   adam          p ← β₁ p + (1 - β₁) g,  q ← β₂ q + (1 - β₂) g²     x ← x - η p̂ / (√q̂ + ε)
//
// Vectors are cut into chunks that stay in the cache from one loop to the next. A pass works on the chunks first …
// last-1 and leaves the sums of each in a row of its own, sums[chunk]: added in the order of the chunks, they do not
// depend on which thread worked on which. Number k of a chunk is added to lane k mod LANES, and the lanes are folded by
// `sum`; what is missing at the end of a vector counts as zeros. A chunk of a pair is as long as a page of memory, to
// whose end alone the processor reads ahead: the next one is fetched meanwhile.
#pragma once

#include "arrays.hpp"
#include "simd.hpp"

namespace core {

constexpr Int CHUNK = 512;  // so few that chunks of all pairs, one after the other in memory, are read without a pause
constexpr int LANES = 8;
constexpr double BETA_1 = 0.9, BETA_2 = 0.999;  // how much of the means of g and g² Adam keeps
constexpr double EPSILON = 1e-8;                // keeps AdaGrad and Adam from dividing by zero

using Lanes = Vec<LANES>;

INLINE Int size_of_chunk(Int chunk, Int size) { return size - chunk * CHUNK < CHUNK ? size - chunk * CHUNK : CHUNK; }

// Numbers k … k+LANES-1 of a chunk.
struct Full {
  Int k;
  INLINE Lanes get(const double* chunk) const { return load<LANES>(chunk + k); }
  INLINE void put(double* chunk, const Lanes& a) const { store(chunk + k, a); }
  INLINE void fetch(const double* chunk) const { __builtin_prefetch(chunk + k, 0, 3); }
};

// The last numbers of a vector, fewer than LANES of them.
struct Rest {
  Int k, count;
  INLINE Lanes get(const double* chunk) const {
    double all[LANES] = {};
    for (Int n = 0; n < count; ++n) all[n] = chunk[k + n];
    return load<LANES>(all);
  }
  INLINE void put(double* chunk, const Lanes& a) const {
    double all[LANES];
    store(all, a);
    for (Int n = 0; n < count; ++n) chunk[k + n] = all[n];
  }
  INLINE void fetch(const double*) const {}
};

// f(at) for all numbers of a chunk, in order.
template <class F>
INLINE void by_lanes(Int size, F f) {
  Int k = 0;
  for (; k + LANES <= size; k += LANES) f(Full{k});
  if (k < size) f(Rest{k, size - k});
}

inline void penalise(Int first, Int last, Matrix<double> sums, Span<double> g, Span<const double> observed,
                     Span<const double> x, double c2) {
  const Lanes zero = splat<LANES>(0.0), twice = splat<LANES>(2.0 * c2);
  for (Int chunk = first; chunk < last; ++chunk) {
    const Int begin = chunk * CHUNK;
    double* const gs = g.data + begin;
    const double *const counts = observed.data + begin, *const xs = x.data + begin;
    Lanes square = zero, score = zero;
    by_lanes(size_of_chunk(chunk, x.size), [&](auto at) INLINE_LAMBDA {
      const Lanes here = at.get(xs), count = at.get(counts);
      square = fma(here, here, square);                  // x·x
      score = fma(count, here, score);                   // observed·x
      at.put(gs, fma(twice, here, at.get(gs) - count));  // g - observed + 2 c2 x
    });
    sums[chunk][0] = sum(square);
    sums[chunk][1] = sum(score);
  }
}

inline void step_along(Int first, Int last, Matrix<double>, Span<double> trial, Span<const double> x, double step,
                       Span<const double> d) {
  const Lanes length = splat<LANES>(step);
  for (Int chunk = first; chunk < last; ++chunk) {
    const Int begin = chunk * CHUNK;
    double* const trials = trial.data + begin;
    const double *const xs = x.data + begin, *const ds = d.data + begin;
    by_lanes(size_of_chunk(chunk, x.size), [&](auto at) INLINE_LAMBDA {
      at.put(trials, fma(length, at.get(ds), at.get(xs)));  // x + step d
    });
  }
}

// The orthant of a weight that is zero is the side on which the objective falls.
inline void step_within(Int first, Int last, Matrix<double> sums, Span<double> trial, Span<const double> x, double step,
                        Span<const double> d, Span<const double> downhill) {
  const Lanes zero = splat<LANES>(0.0), length = splat<LANES>(step);
  for (Int chunk = first; chunk < last; ++chunk) {
    const Int begin = chunk * CHUNK;
    double* const trials = trial.data + begin;
    const double *const xs = x.data + begin, *const ds = d.data + begin, *const downs = downhill.data + begin;
    Lanes promised = zero, norm = zero;
    by_lanes(size_of_chunk(chunk, x.size), [&](auto at) INLINE_LAMBDA {
      const Lanes here = at.get(xs), down = at.get(downs);
      const Lanes side = where_greater(here, zero, here, where_greater(zero, here, here, zero - down));
      const Lanes z = fma(length, at.get(ds), here);                                 // x + step d
      const Lanes above = where_greater(side, zero, maximum(z, zero), zero);         // z where both are above zero
      const Lanes below = where_greater(zero, side, maximum(zero - z, zero), zero);  // -z where both are below
      const Lanes there = above - below;
      at.put(trials, there);
      promised = fma(there - here, down, promised);  // (trial - x)·downhill
      norm = norm + (above + below);                 // ‖trial‖₁
    });
    sums[chunk][0] = sum(promised);
    sums[chunk][1] = sum(norm);
  }
}

inline void keep(Int first, Int last, Matrix<double> sums, Span<double> kept, Span<const double> g,
                 Span<const double> d) {
  for (Int chunk = first; chunk < last; ++chunk) {
    const Int begin = chunk * CHUNK;
    double* const copies = kept.data + begin;
    const double *const gs = g.data + begin, *const ds = d.data + begin;
    Lanes slope = splat<LANES>(0.0);
    by_lanes(size_of_chunk(chunk, g.size), [&](auto at) INLINE_LAMBDA {
      const Lanes here = at.get(gs);
      slope = fma(here, at.get(ds), slope);  // g·d
      at.put(copies, here);
    });
    sums[chunk][0] = sum(slope);
  }
}

// The gradient of f + c1 ‖x‖₁; at x = 0 that of the side where it falls, or zero.
INLINE Lanes pseudo_gradient(const Lanes& x, const Lanes& g, const Lanes& c1) {
  const Lanes zero = splat<LANES>(0.0), low = g - c1, high = g + c1;
  const Lanes at_kink = where_greater(low, zero, low, where_greater(zero, high, high, zero));
  return where_greater(x, zero, high, where_greater(zero, x, low, at_kink));
}

// Pair `new_pair`, unless it is -1, ← x - x_before, g - g_before. Where c1 > 0, downhill ← the pseudo-gradient; else it
// is g.
//
// pairs(chunk, k) holds a chunk of each s, then of each y. Sums: s·s of the new pair, x·x, downhill·downhill, how many
// x are not zero; from 4 on, for each s and each y, its products with the new y and with downhill.
inline void arrive(Int first, Int last, Matrix<double> sums, Span<const double> x, Span<const double> x_before,
                   Span<const double> g, Span<const double> g_before, double c1, Span<double> downhill,
                   Cube<double> pairs, Int new_pair) {
  const Lanes zero = splat<LANES>(0.0), one = splat<LANES>(1.0), kink = splat<LANES>(c1);
  for (Int chunk = first; chunk < last; ++chunk) {
    const Int begin = chunk * CHUNK, size = size_of_chunk(chunk, x.size), of_y = new_pair > 0 ? new_pair : 0;
    const double *const xs = x.data + begin, *const xs_before = x_before.data + begin;
    const double *const gs = g.data + begin, *const gs_before = g_before.data + begin;
    double *const downs = downhill.data + begin, *const y = pairs(chunk, pairs.rows / 2 + of_y);
    double* const out = sums[chunk];
    Lanes square = zero, length = zero, steepness = zero, active = zero;
    if (new_pair >= 0) {
      double* const s = pairs(chunk, new_pair);
      by_lanes(size, [&](auto at) INLINE_LAMBDA {
        const Lanes moved = at.get(xs) - at.get(xs_before);
        at.put(s, moved);                           // s = x - x_before
        at.put(y, at.get(gs) - at.get(gs_before));  // y = g - g_before
        square = fma(moved, moved, square);         // s·s
      });
    }
    by_lanes(size, [&](auto at) INLINE_LAMBDA {
      const Lanes here = at.get(xs);
      Lanes down = at.get(downs);
      if (c1 > 0.0) {
        down = pseudo_gradient(here, at.get(gs), kink);
        at.put(downs, down);
      }
      length = fma(here, here, length);        // x·x
      steepness = fma(down, down, steepness);  // downhill·downhill
      active = active + where_greater(here, zero, one, where_greater(zero, here, one, zero));  // how many x ≠ 0
    });
    out[0] = sum(square);
    out[1] = sum(length);
    out[2] = sum(steepness);
    out[3] = sum(active);
    for (Int k = 0; k < pairs.rows; ++k) {
      const double* const row = pairs(chunk, k);
      Lanes with_y = zero, with_downhill = zero;
      by_lanes(size, [&](auto at) INLINE_LAMBDA {
        at.fetch(row + CHUNK);
        const Lanes here = at.get(row);
        with_y = fma(here, at.get(y), with_y);                    // pair_k · y
        with_downhill = fma(here, at.get(downs), with_downhill);  // pair_k · downhill
      });
      out[4 + 2 * k] = sum(with_y);
      out[5 + 2 * k] = sum(with_downhill);
    }
  }
}

// aligned: d is zero where that is not against downhill.
inline void combine(Int first, Int last, Matrix<double> sums, Span<double> d, double scale, Span<const double> downhill,
                    Span<const double> shares, Cube<const double> pairs, bool align) {
  const Lanes zero = splat<LANES>(0.0), one = splat<LANES>(1.0), times = splat<LANES>(scale);
  for (Int chunk = first; chunk < last; ++chunk) {
    const Int begin = chunk * CHUNK, size = size_of_chunk(chunk, d.size);
    double* const ds = d.data + begin;
    const double* const downs = downhill.data + begin;
    by_lanes(size, [&](auto at) INLINE_LAMBDA { at.put(ds, times * at.get(downs)); });  // scale · downhill
    for (Int k = 0; k < pairs.rows; ++k) {
      if (shares[k] == 0.0) continue;
      const Lanes share = splat<LANES>(shares[k]);
      const double* const row = pairs(chunk, k);
      by_lanes(size, [&](auto at) INLINE_LAMBDA {
        at.fetch(row + CHUNK);
        at.put(ds, fma(share, at.get(row), at.get(ds)));  // + share_k pair_k
      });
    }
    Lanes slope = zero, square = zero;
    by_lanes(size, [&](auto at) INLINE_LAMBDA {
      const Lanes down = at.get(downs);
      Lanes here = at.get(ds);
      if (align) {  // 0 where d · downhill >= 0; what is not a number stays, and shows in the sums
        const Lanes product = here * down;
        here = where_greater(zero, product, here, where_greater(product, zero - one, zero, here));
        at.put(ds, here);
      }
      slope = fma(here, down, slope);    // d·downhill
      square = fma(here, here, square);  // d·d
    });
    sums[chunk][0] = sum(slope);
    sums[chunk][1] = sum(square);
  }
}

// x ← x - move(at, begin of the chunk, g), with shrink · x added to g, and g to the total. Sums, before the step: g·g,
// x·x.
template <class Move>
INLINE void descend(Int first, Int last, Matrix<double> sums, Span<double> x, Span<const double> g, double shrink,
                    Span<double> total, Move move) {
  const Lanes zero = splat<LANES>(0.0), pull = splat<LANES>(shrink);
  for (Int chunk = first; chunk < last; ++chunk) {
    const Int begin = chunk * CHUNK;
    double *const xs = x.data + begin, *const totals = total.data + begin;
    const double* const gs = g.data + begin;
    Lanes square = zero, length = zero;
    by_lanes(size_of_chunk(chunk, x.size), [&](auto at) INLINE_LAMBDA {
      const Lanes here = at.get(xs), slope = at.get(gs);
      square = fma(slope, slope, square);          // g·g
      length = fma(here, here, length);            // x·x
      const Lanes whole = fma(pull, here, slope);  // g + shrink x
      at.put(totals, at.get(totals) + whole);
      at.put(xs, here - move(at, begin, whole));
    });
    sums[chunk][0] = sum(square);
    sums[chunk][1] = sum(length);
  }
}

inline void sgd(Int first, Int last, Matrix<double> sums, Span<double> x, Span<const double> g, double shrink,
                Span<double> total, double rate, Int, Matrix<double>) {
  const Lanes eta = splat<LANES>(rate);
  descend(first, last, sums, x, g, shrink, total,
          [&](auto, Int, const Lanes& whole) INLINE_LAMBDA { return eta * whole; });  // η g
}

inline void adagrad(Int first, Int last, Matrix<double> sums, Span<double> x, Span<const double> g, double shrink,
                    Span<double> total, double rate, Int, Matrix<double> moments) {
  const Lanes eta = splat<LANES>(rate), epsilon = splat<LANES>(EPSILON);
  descend(first, last, sums, x, g, shrink, total, [&](auto at, Int begin, const Lanes& whole) INLINE_LAMBDA {
    double* const qs = moments[0] + begin;
    const Lanes q = fma(whole, whole, at.get(qs));  // q + g²
    at.put(qs, q);
    return eta * whole / (sqrt(q) + epsilon);  // η g / (√q + ε)
  });
}

// x^n for a whole number n >= 0
inline double whole_power(double x, Int n) {
  double result = 1.0;
  for (; n > 0; n /= 2, x *= x) {
    if (n % 2 == 1) result *= x;
  }
  return result;
}

inline void adam(Int first, Int last, Matrix<double> sums, Span<double> x, Span<const double> g, double shrink,
                 Span<double> total, double rate, Int steps, Matrix<double> moments) {
  const Lanes new_p = splat<LANES>(1.0 - BETA_1), new_q = splat<LANES>(1.0 - BETA_2), epsilon = splat<LANES>(EPSILON);
  const Lanes eta = splat<LANES>(rate / (1.0 - whole_power(BETA_1, steps)));     // η p̂ = η p / (1 - β₁^t)
  const Lanes short_q = splat<LANES>(1.0 / (1.0 - whole_power(BETA_2, steps)));  // q̂ = q / (1 - β₂^t)
  const Lanes zero = splat<LANES>(0.0);
  descend(first, last, sums, x, g, shrink, total, [&](auto at, Int begin, const Lanes& whole) INLINE_LAMBDA {
    double *const ps = moments[0] + begin, *const qs = moments[1] + begin;
    const Lanes p_before = at.get(ps), q_before = at.get(qs);
    const Lanes p = fma(new_p, whole - p_before, p_before);                    // p + (1 - β₁)(g - p)
    const Lanes q = fma(new_q, fma(whole, whole, zero - q_before), q_before);  // q + (1 - β₂)(g² - q)
    at.put(ps, p);
    at.put(qs, q);
    return eta * p / (sqrt(short_q * q) + epsilon);  // η p̂ / (√q̂ + ε)
  });
}

}  // namespace core
