// Forward vectors of a block, in doubles or in wide numbers.
//
//   predicted_t(j) = Σ_i α_{t-1}(i) E_t(i,j)        α_t(j) = exp(s_t(j) - max s_t) · predicted_t(j)
//
// `lattice.hpp` has the derivation. A pass in doubles reports UNSAFE where numbers come near the end of the range; the
// block is then done again in wide numbers.
#pragma once

#include "lattice.hpp"

namespace core {

constexpr double LEAST_SUM = 1e-20, MOST_SUM = 1e20;  // a forward vector whose sum leaves this range is scaled to one
constexpr Int STEPS_AHEAD = 4;  // from a step to the one whose exponentials are taken meanwhile: they wait for nothing
constexpr int MOST_SPREAD = 24;  // columns of a row that is better spread from a register than read one by one

// e_t becomes E_t in place, shift[t] its maximum; returns the widest range of finite scores in a position.
inline double exponentiate_edges(Matrix<double> edge, double* shift) {
  double widest = 0.0;
  for (Int t = 0; t < edge.rows; ++t) {
    double high = -INFINITE, low = INFINITE;
    double* const row = edge[t];
    for (Int k = 0; k < edge.columns; ++k) {
      if (!(row[k] < INFINITE)) return INFINITE;
      high = row[k] > high ? row[k] : high;
      if (row[k] > -INFINITE) low = row[k] < low ? row[k] : low;
    }
    shift[t] = high > -INFINITE ? high : 0.0;
    widest = larger(widest, high - low);
    for (Int c = 0; c < edge.columns; c += 4) store(row + c, exp(load<4>(row + c) - splat<4>(shift[t])));
  }
  return widest;
}

// The matrix [N, width] with all rows of the first tile first, then those of the next, as steps read it: a matrix that
// is larger than the first cache is read from the next one, up to twice as fast in order. One tile stays as it is.
template <class Shape>
class ByTiles {
 public:
  ByTiles(Shape shape, const double* matrix, Int n_labels)
      : matrix_(matrix), n_labels_(n_labels), room_(Shape::tiled ? n_labels * shape.width : 0) {
    if constexpr (Shape::tiled) {
      if (room_.failed()) return;
      double* out = room_.data();
      for (Int c = 0; c < shape.width; c += Shape::columns) {
        for (Int i = 0; i < n_labels; ++i, out += Shape::columns) {
          store(out, load<Shape::columns>(matrix + i * shape.width + c));
        }
      }
    }
  }
  bool failed() const { return room_.failed(); }
  const double* tile(Int c) const { return Shape::tiled ? room_.data() + c * n_labels_ : matrix_; }

 private:
  const double* matrix_;
  Int n_labels_;
  Room room_;
};

// sums[i % 2] += row(i) M(i, ·) for the i from `begin` on, which are all there below FULL
template <int i, int FULL, int C>
INLINE void spread(const Vec<C>& row, const double* matrix, Int n_labels, Vec<C>* sums) {
  if constexpr (i < C) {
    if (i < FULL || i < n_labels) {
      sums[i % 2] = fma(lane<i, C>(row), load<C>(matrix + i * C), sums[i % 2]);
      spread<i + 1, FULL>(row, matrix, n_labels, sums);
    }
  }
}

// Σ_i vector(i) M(i, ·), a tile of it, whose rows are `stride` apart; the even and the odd labels have sums of their
// own, which need not wait for one another. held: the vector in registers, where it is short.
template <int C, bool TILED>
INLINE Vec<C> step_row(const double* vector, const Vec<C>& held, const double* matrix, Int stride, Int n_labels) {
  if constexpr (!TILED && C <= MOST_SPREAD) {
    if (C == 4 && n_labels <= 2) {  // the columns of padding are zeros, whatever they are multiplied by
      const auto second = n_labels == 2 ? lane_of_two<1>(held) * load<C>(matrix + C) : splat<C>(0.0);
      return fma(lane_of_two<0>(held), load<C>(matrix), second);
    }
    Vec<C> sums[2] = {splat<C>(0.0), splat<C>(0.0)};
    spread<0, C == 4 ? 1 : C - 7>(held, matrix, n_labels, sums);
    return sums[0] + sums[1];
  } else {
    Vec<C> even = splat<C>(0.0), odd = even;
    Int i = 0;
    for (; i + 1 < n_labels; i += 2, matrix += 2 * stride) {
      even = fma(splat<C>(vector[i]), load<C>(matrix), even);
      odd = fma(splat<C>(vector[i + 1]), load<C>(matrix + stride), odd);
    }
    if (i < n_labels) even = fma(splat<C>(vector[i]), load<C>(matrix), even);
    return even + odd;
  }
}

// The least finite s_t - max s_t so far, if watched: score + inf is inf for a finite score and not a number for -inf, a
// true zero.
template <int C>
INLINE Vec<C> least_finite(const Vec<C>& least, const Vec<C>& score) {
  const auto zero = splat<C>(0.0);
  return minimum(least, where_greater(score + splat<C>(INFINITE), zero, score, zero));
}

// Rows whose exponentials are taken together: of half a vector, two.
template <class Shape>
constexpr Int TOGETHER = Shape::columns == 4 ? 2 : 1;

// alpha_t becomes b_t = exp(s_t - max s_t), and max s_t is added to the scale, for the next rows; returns how many.
template <class Shape>
INLINE Int exponentiate(Shape shape, double* row, Int left, bool watch, Vec<Shape::columns>& least, TwoSum& scale,
                        TwoSums& scales) {
  constexpr int C = Shape::columns;
  if constexpr (TOGETHER<Shape> == 2) {
    if (left >= 2) {
      auto top = load<8>(row);
      top = maximum(top, swapped<2>(top));
      top = maximum(top, swapped<1>(top));  // in each half the maximum of its row
      const auto score = load<8>(row) - top;
      store(row, exp(score));
      scales.add(top);
      if (watch) {
        const auto both = least_finite(splat<8>(0.0), score);
        least = minimum(least, minimum(half<0>(both), half<1>(both)));
      }
      return 2;
    }
  }
  auto top = load<C>(row);
  for (Int c = C; c < shape.width; c += C) top = maximum(top, load<C>(row + c));
  const double peak = greatest(top);
  for (Int c = 0; c < shape.width; c += C) {
    const auto score = load<C>(row + c) - splat<C>(peak);
    store(row + c, exp(score));
    if (watch) least = least_finite(least, score);
  }
  scale.add(peak);
  return 1;
}

// The forward pass. alpha: [B, width], state scores in, forward vectors out; edge: [B or 1, N · width] with its shift.
// scale: the logarithm of the scale, that of the last vector's sum included.
template <class Shape>
inline Status forward(Shape shape, Span<const bool> starts, double* alpha, double* predicted, Matrix<const double> edge,
                      const double* shift, const double* entry, Int n_labels, bool watch, TwoSum& scale) {
  constexpr int C = Shape::columns;
  const bool own = edge.rows > 1;
  const Int width = shape.width, size = starts.size;
  const ByTiles<Shape> matrix(shape, edge[0], own ? 0 : n_labels);
  if (matrix.failed()) return NO_MEMORY;
  const auto zero = splat<C>(0.0), one = splat<C>(1.0);
  const double* previous = entry;
  auto held = load<C>(entry), least_alpha = one, least_score = zero;
  TwoSum total;
  TwoSums totals;  // of maxima of rows whose exponentials are taken together: lanes 0 and 4
  Int moves = 0, ready = 0;
  for (Int t = -STEPS_AHEAD; t < size; ++t) {
    if (ready < size && ready <= t + STEPS_AHEAD) {
      ready += exponentiate(shape, alpha + ready * width, size - ready, watch, least_score, total, totals);
    }
    if (t < 0) continue;
    double *const row = alpha + t * width, *const ahead_row = predicted + t * width;
    const bool start = starts[t];
    if (start && t > 0) total.add(log(row_sum(previous, n_labels)));
    if (!start) {
      if (own) total.add(shift[t]);
      else ++moves;
    }
    auto lane_sum = zero, current = zero;
    for (Int c = 0; c < width; c += C) {
      auto ahead = one;  // predicted = α E
      if (!start) {
        const double* tile = own ? edge[t] + c : matrix.tile(c);
        ahead = step_row<C, Shape::tiled>(previous, held, tile, own || !Shape::tiled ? width : C, n_labels);
      }
      store(ahead_row + c, ahead);
      current = load<C>(row + c) * ahead;  // α' = b · predicted
      store(row + c, current);
      lane_sum = lane_sum + current;
      if (watch) least_alpha = minimum(least_alpha, where_greater(current, zero, current, one));
    }
    const double sum_ = sum(lane_sum);
    if (!(sum_ > LEAST_SUM && sum_ < MOST_SUM)) {
      if (!(sum_ > 0.0 && sum_ < INFINITE)) return UNSAFE;
      total.add(log(sum_));
      for (Int c = 0; c < width; c += C) store(row + c, load<C>(row + c) / splat<C>(sum_));
      current = current / splat<C>(sum_);
    }
    previous = row;
    held = current;
  }
  if (watch && (least(least_alpha) < LEAST_ALPHA * MOST_SUM || least(least_score) < LEAST_STATE_SCORE)) return UNSAFE;
  if constexpr (TOGETHER<Shape> == 2) totals.join(total);
  total.add(log(row_sum(previous, n_labels)) + double(moves) * (own ? 0.0 : shift[0]));
  scale = total;
  return absolute(total.total) < INFINITE ? OK : UNSAFE;
}

// The predictions again, from the forward vectors: predicted_t = Σ_i α_{t-1}(i) E_t(i, ·)
template <class Shape>
inline void predict(Shape shape, Span<const bool> starts, const double* alpha, const double* entry,
                    Matrix<const double> edge, const ByTiles<Shape>& matrix, Int n_labels, double* predicted) {
  constexpr int C = Shape::columns;
  const bool own = edge.rows > 1;
  for (Int t = 0; t < starts.size; ++t, predicted += shape.width) {
    const double* previous = t > 0 ? alpha + (t - 1) * shape.width : entry;
    for (Int c = 0; c < shape.width; c += C) {
      auto ahead = splat<C>(1.0);
      if (!starts[t]) {
        const double* tile = own ? edge[t] + c : matrix.tile(c);
        const Int stride = own || !Shape::tiled ? shape.width : C;
        ahead = step_row<C, Shape::tiled>(previous, load<C>(previous), tile, stride, n_labels);
      }
      store(predicted + c, ahead);
    }
  }
}

// Σ_i α(i) E(i,j), at the largest k of its terms; E(i,j) is moves · 2^powers. Where a k overflows, it is inf.
inline Wide predict_wide(const double* previous, const double* moves, const double* powers, Int j, Int n_labels,
                         Int width) {
  double top = -INFINITE, total = 0.0;
  for (Int i = 0; i < n_labels; ++i) {
    if (previous[i] > 0.0 && moves[i * width + j] > 0.0) {
      const double k = previous[width + i] + powers[i * width + j];
      top = larger(top, k > -INFINITE ? k : INFINITE);
    }
  }
  if (top == INFINITE) return {0.5, top};
  if (top > -INFINITE) {
    for (Int i = 0; i < n_labels; ++i) {  // Σ m m' 2^(k + k' - top)
      const double k = previous[width + i] + powers[i * width + j];
      total += previous[i] * moves[i * width + j] * power(k - top);
    }
  }
  return normal(total, top);
}

// The forward pass in wide numbers, the largest k of each α_t being zero. scores: [B, width], edge: e_t.
//
// Each α and prediction is a sum of N products, with a relative error of N + 4 roundings and of what its scores have.
// fault: the position where a score is not finite or no label is possible.
inline Status forward_wide(Span<const bool> starts, Matrix<const double> scores, Matrix<const double> edge,
                           const double* entry, Int n_labels, Matrix<double> alpha, Matrix<double> predicted,
                           TwoSum& scale, Int& fault) {
  const Int width = scores.columns, count = n_labels * width;
  const bool own = edge.rows > 1;
  const Room room(2 * count);
  if (room.failed()) return NO_MEMORY;
  double *const moves = room.data(), *const powers = moves + count;
  const double* previous = entry;
  bool known = false;
  TwoSum total;
  for (fault = 0; fault < scores.rows; ++fault) {
    const Int t = fault;
    double *const ahead = predicted[t], *const row = alpha[t];
    const bool start = starts[t];
    if (start && t > 0) total.add(log(row_sum(previous, true, n_labels, width)));
    if (!(start || known)) {
      const double* e = edge[own ? t : 0];
      for (Int k = 0; k < count; ++k) {
        if (!(e[k] < INFINITE)) return NOT_FINITE;
        const Wide moved = wide_exp(e[k]);
        moves[k] = moved.m;
        powers[k] = moved.k;
      }
      known = !own;
    }
    double top = -INFINITE;
    for (Int j = 0; j < width; ++j) {
      Wide next = {0.0, -INFINITE};
      if (j < n_labels) next = start ? Wide{0.5, 1.0} : predict_wide(previous, moves, powers, j, n_labels, width);
      ahead[j] = next.m;
      ahead[width + j] = next.k;
      const double score = j < n_labels ? scores[t][j] : -INFINITE;
      const Wide b = wide_exp(score), product = normal(next.m * b.m, next.k + b.k);  // α = b · predicted
      row[j] = product.m;
      row[width + j] = product.k;
      if (!(score < INFINITE) || (product.m > 0.0 && !(absolute(product.k) < INFINITE))) return NOT_FINITE;
      top = larger(top, product.k);
    }
    if (top == -INFINITE) return ZERO;
    for (Int j = 0; j < width; ++j) row[width + j] -= top;
    total.add(top * LN2_HIGH);
    total.add(top * LN2_LOW);
    previous = row;
  }
  fault = scores.rows - 1;
  total.add(log(row_sum(previous, true, n_labels, width)));
  scale = total;
  return absolute(total.total) < INFINITE ? OK : NOT_FINITE;
}

}  // namespace core
