// The best labelling and the k best labellings, and which labels of a stream are final.
//
//   δ_t(j) = max_i (δ_{t-1}(i) + e_t(i,j)) + (s_t(j) - δ*_{t-1})      δ*_t = max_j δ_t(j)      at a start mark: s_t(j)
//   back_t(j): the smallest i that has the maximum, at a start mark the best last label of the sequence before
//   y_{t-1} = back_t(y_t)
//
// Viterbi goes forward over the blocks and carries the best score of each label; the way back through a block begins
// with the label of its last position. A sequence is from a start mark to an end mark; scores of labels that may not
// start or end one are -inf already. Edge scores are below +inf. What is taken out is the maximum of the position
// before, for which the next step need not wait.
//
// Where the matrix is larger than the cache, labels that can have no maximum are left out before it is read (`Pruned`).
//
// A label is final when the best paths to all labels at the head of the stream go through it. That is asked in two
// steps: `follow` carries the label of the oldest position along,
//
//   origin(j) ← origin(back_t(j))            the label of the oldest position on the best path to label j at the head
//
// at a price that does not depend on how many positions wait. When all origins agree, `coalesced` searches from the
// head for the last position that is final.
#pragma once

#include "forward.hpp"

namespace core {

constexpr Int WIDE_ROW = WIDEST < 8 ? 256 : 112;  // columns of a matrix that takes longer to read than to add

// Columns that are worked on at a time: their sums, maxima and choices are all in registers.
constexpr int at_once(int columns) {
  return 3 * columns / WIDEST + 2 <= REGISTERS ? columns : columns % 16 == 0 ? 16 : 8;
}

// A whole number in every lane, as bits: it is only moved.
template <int N>
INLINE Vec<N> whole(Int k) {
  return splat<N>(bits_as<double>(k));
}

// Some labels with a large δ: of sixteen parts of them, the best of each.
struct Sample {
  static constexpr int SIZE = 16;
  Int labels[SIZE];

  Sample(const double* delta, Int width, Int n_labels) {
    Vec<SIZE> high = load<SIZE>(delta), where = whole<SIZE>(0);
    for (Int i = SIZE; i + SIZE <= width; i += SIZE) {
      const auto next = load<SIZE>(delta + i);
      where = where_greater(next, high, whole<SIZE>(i), where);
      high = maximum(next, high);
    }
    double first[SIZE];
    store(first, where);
    for (int k = 0; k < SIZE; ++k) {
      const Int label = bits_as<Int>(first[k]) + k;
      labels[k] = label < n_labels ? label : 0;
    }
  }
};

// Steps with many labels, most of which can have no maximum in a tile of columns:
//
//   δ(i) + max_j M(i,j) < min_j max_{k in a sample} (δ(k) + M(k,j))
//
// The others are gone through one by one.
template <int K>
class Pruned {
 public:
  Pruned(const double* matrix, Int n_labels, Int width)
      : n_labels_(n_labels), stride_((n_labels + 7) / 8 * 8), room_(width / K * stride_) {
    if (room_.failed()) return;
    for (Int c = 0; c < width; c += K) {  // the largest number of each row in the tile
      double* const most = room_.data() + c / K * stride_;
      for (Int i = 0; i < stride_; ++i) most[i] = i < n_labels ? greatest(load<K>(matrix + i * width + c)) : -INFINITE;
    }
  }
  bool failed() const { return room_.failed(); }

  INLINE void reach(const double* delta, const Sample& sample, const double* tile, Int c, Vec<K>& top,
                    Vec<K>& chosen) const {
    top = splat<K>(-INFINITE);
    chosen = whole<K>(0);
    for (const Int k : sample.labels) top = maximum(splat<K>(delta[k]) + load<K>(tile + k * K), top);
    const auto bound = splat<8>(larger(least(top), -DBL_MAX));
    const double* const most = room_.data() + c / K * stride_;
    top = splat<K>(-INFINITE);
    for (Int low = 0; low < n_labels_; low += 8) {
      const auto reached = load<8>(delta + low) + load<8>(most + low);
      for (uint64_t kept = equal(maximum(reached, bound), reached); kept; kept &= kept - 1) {
        const Int i = low + __builtin_ctzll(kept);
        const auto sum = splat<K>(delta[i]) + load<K>(tile + i * K);
        chosen = where_greater(sum, top, whole<K>(i), chosen);
        top = maximum(sum, top);
      }
    }
  }

 private:
  Int n_labels_, stride_;
  Room room_;
};

// The step from one position to the next: top(j) = max_i δ(i) + e(i,j), chosen(j): the smallest i that has it.
template <class Shape>
class MaxPlus {
 public:
  static constexpr int C = Shape::columns, K = at_once(C), G = C < 8 ? C : 8;

  MaxPlus(Shape shape, Matrix<const double> edge, Int n_labels)
      : edge_(edge),
        width_(shape.width),
        n_labels_(n_labels),
        matrix_(shape, edge.data, edge.rows > 1 ? 0 : n_labels),
        prunes_(Shape::tiled && K == C && edge.rows == 1 && width_ >= WIDE_ROW),
        pruned_(edge.data, prunes_ ? n_labels : 0, width_) {}
  bool failed() const { return matrix_.failed() || pruned_.failed(); }

  // The step to position t, some columns at a time, to take(c, top, chosen).
  template <class Take>
  INLINE void go(Int t, const double* delta, Take take) const {
    if constexpr (Shape::tiled && K == C) {
      if (prunes_) {
        const Sample sample(delta, width_, n_labels_);
        for (Int c = 0; c < width_; c += C) {
          Vec<C> top, chosen;
          pruned_.reach(delta, sample, matrix_.tile(c), c, top, chosen);
          take(c, top, chosen);
        }
        return;
      }
    }
    const bool own = edge_.rows > 1 || !Shape::tiled;
    for (Int c = 0; c < width_; c += C) {
      const double* const tile = own ? edge_[edge_.rows > 1 ? t : 0] + c : matrix_.tile(c);
      for (Int k = 0; k < C; k += K) {
        const double* row = tile + k;
        auto top = splat<K>(-INFINITE), chosen = whole<K>(0);
        for (Int i = 0; i < n_labels_; ++i, row += own ? width_ : C) {
          const auto reached = splat<K>(delta[i]) + load<K>(row);  // δ(i) + e(i, ·)
          chosen = where_greater(reached, top, whole<K>(i), chosen);
          top = maximum(reached, top);
        }
        take(c + k, top, chosen);
      }
    }
  }

 private:
  Matrix<const double> edge_;
  Int width_, n_labels_;
  ByTiles<Shape> matrix_;
  bool prunes_;
  Pruned<C> pruned_;
};

// The first number that is `value`; 0 where there is none. G divides the size.
template <int G>
INLINE Int first_with(const double* numbers, Int size, double value) {
  for (Int c = 0; c < size; c += G) {
    const uint64_t there = equal(load<G>(numbers + c), splat<G>(value));
    if (there) return c + __builtin_ctzll(there);
  }
  return 0;
}

// The largest of the numbers.
template <int G>
INLINE double largest(const double* numbers, Int size) {
  auto high = load<G>(numbers);
  for (Int c = G; c < size; c += G) high = maximum(load<G>(numbers + c), high);
  return greatest(high);
}

// The best scores of a block, and its pointers, back: [B, N].
//
// For each sequence that ends here, finals and best have its last label and its score. Carried are delta, [width], and
// total, the sum of the maxima since the sequence began. fault: the position of one.
template <class Shape, class Pointer>
inline Status viterbi(Shape shape, Span<const bool> starts, Span<const bool> ends, const double* scores,
                      Matrix<const double> edge, double* delta, TwoSum& total, Matrix<Pointer> back, int64_t* finals,
                      double* best, Int& fault) {
  using Step = MaxPlus<Shape>;
  constexpr int K = Step::K, G = Step::G;
  const Int width = shape.width, n_labels = back.columns, size = starts.size;
  const Step step(shape, edge, n_labels);
  const Room room(3 * width);
  if (step.failed() || room.failed()) return NO_MEMORY;
  double *const choice = room.data(), *previous = choice + width, *next = previous + width;
  for (Int c = 0; c < width; c += G) store(previous + c, load<G>(delta + c));
  double peak = largest<G>(delta, width);
  auto taken = splat<K>(absolute(peak) < INFINITE ? peak : 0.0);
  for (fault = 0; fault < size; ++fault) {
    const Int t = fault;
    const bool start = starts[t];
    if (start) taken = splat<K>(0.0);
    auto highest = splat<K>(-INFINITE);
    bool numbers = true;
    const auto take = [&](Int c, const Vec<K>& top, const Vec<K>& chosen) INLINE_LAMBDA {
      store(choice + c, chosen);
      const auto reached = top + (load<K>(scores + t * width + c) - taken);  // δ_t = max (δ + e) + (s - δ*)
      store(next + c, reached);
      highest = maximum(reached, highest);
      numbers = numbers && equal(reached, reached) == ~uint64_t(0) >> (64 - K);
    };
    if (start) {
      const auto label = whole<K>(first_with<G>(previous, width, peak));
      for (Int c = 0; c < width; c += K) take(c, splat<K>(0.0), label);
      total = TwoSum{};
    } else {
      step.go(t, previous, take);
    }
    for (Int j = 0; j < n_labels; ++j) back[t][j] = Pointer(bits_as<Int>(choice[j]));
    taken = greatest_lanes(highest);
    peak = Vec<K>::Register::first(taken.reg[0]);
    if (!numbers || peak == INFINITE) return NOT_FINITE;
    if (peak == -INFINITE) return ZERO;
    total.add(peak);
    double* const free = previous;
    previous = next;
    next = free;
    if (ends[t]) {
      *finals++ = first_with<G>(previous, width, peak);
      *best++ = total.total + total.compensation;
    }
  }
  for (Int c = 0; c < width; c += G) store(delta + c, load<G>(previous + c));
  fault = -1;
  return OK;
}

// The labels of a block whose last one is known, by y_{t-1} = back_t(y_t); returns the one before the block.
template <class Pointer>
inline Int trace(Matrix<const Pointer> back, Int label, int32_t* labels) {
  for (Int t = back.rows - 1; t >= 0; --t) {
    labels[t] = int32_t(label);
    label = back[t][label];
  }
  return label;
}

// Each of the labels at the block's end becomes the label before the block on its best path: y ← back_t(y)
template <class Pointer>
inline void coalesce(Matrix<const Pointer> back, Span<int64_t> heads) {
  bool merged = false;
  for (Int t = back.rows - 1; t >= 0; --t) {
    if (merged) {
      heads[0] = back[t][heads[0]];
      continue;
    }
    merged = true;
    for (Int k = 0; k < heads.size; ++k) {
      heads[k] = back[t][heads[k]];
      merged = merged && heads[k] == heads[0];
    }
  }
  for (Int k = 0; merged && k < heads.size; ++k) heads[k] = heads[0];
}

// Carry the origins over further positions; whether those of all possible labels at the head agree.
template <class Pointer>
inline Status follow(Matrix<const Pointer> back, Span<const int64_t> heads, Span<int64_t> origin, bool& agree) {
  const RoomOf<int64_t> fresh(origin.size);
  if (fresh.failed()) return NO_MEMORY;
  for (Int t = 0; t < back.rows; ++t) {
    for (Int j = 0; j < origin.size; ++j) fresh.data()[j] = origin[back[t][j]];
    for (Int j = 0; j < origin.size; ++j) origin[j] = fresh.data()[j];
  }
  agree = true;
  for (Int k = 1; k < heads.size; ++k) agree = agree && origin[heads[k]] == origin[heads[0]];
  return OK;
}

// count: how many positions there are up to the last one on which the best paths to all possible labels at the head
// agree, labels: theirs. origin: [N], out: the label of the position after them, for each label at the head.
template <class Pointer>
inline Status coalesced(Matrix<const Pointer> back, Span<const int64_t> heads, int64_t* origin, int32_t* labels,
                        Int& count) {
  const RoomOf<int64_t> room(heads.size);
  if (room.failed()) return NO_MEMORY;
  int64_t* const path = room.data();
  for (Int k = 0; k < heads.size; ++k) path[k] = heads[k];
  for (count = back.rows; count > 0; --count) {
    bool same = true;
    for (Int k = 1; k < heads.size; ++k) same = same && path[k] == path[0];
    if (same) {
      trace(Matrix<const Pointer>{back.data, count, back.columns}, path[0], labels);
      return OK;
    }
    for (Int k = 0; k < heads.size; ++k) {
      origin[heads[k]] = path[k];
      path[k] = back[count - 1][path[k]];
    }
  }
  return OK;
}

// origin(j): the label of the first position on the best path to j at the head.
template <class Pointer>
inline void origins(Matrix<const Pointer> back, Span<const int64_t> heads, int64_t* origin) {
  for (Int k = 0; k < heads.size; ++k) {
    Int label = heads[k];
    for (Int t = back.rows - 1; t > 0; --t) label = back[t][label];
    origin[heads[k]] = label;
  }
}

// The largest numbers of several lists, each in descending order: heads[i] is what is left of list i.
struct Merge {
  double* heads;   // [size], padded with -inf to a multiple of 8
  int64_t* taken;  // [size]  how many were taken from each list
  Int size;

  // The list with the largest head, the first of several; -1 if all are -inf. A vector of heads waits for one that was
  // just stored, so a few are compared one by one.
  INLINE Int best() const {
    if (size <= 16) {
      Int where = -1;
      double high = -INFINITE;
      for (Int i = 0; i < size; ++i) {
        where = heads[i] > high ? i : where;
        high = larger(heads[i], high);
      }
      return where;
    }
    const double high = largest<8>(heads, size);
    return high > -INFINITE ? first_with<8>(heads, size, high) : -1;
  }
};

// The k best scores of each label: δ_t(j, ·) = s_t(j) + the k largest of δ_{t-1}(i, q) + e_t(i,j), over i and q.
//
// ranked: [N, k], carried, the best of all taken out. back: [B, N, k], i · k + q. For each sequence that ends here,
// finals: [S, k], its k best last states j · k + r, -1 where there are fewer; gaps: their scores, less the best one.
inline Status rank(Span<const bool> starts, Span<const bool> ends, Matrix<const double> scores,
                   Matrix<const double> edge, Matrix<double> ranked, Cube<uint32_t> back, Matrix<int64_t> finals,
                   Matrix<double> gaps) {
  const Int width = scores.columns, n_labels = ranked.rows, k = ranked.columns, size = (n_labels + 7) / 8 * 8;
  const Room room(size + n_labels * k);
  const RoomOf<int64_t> counts(size);
  if (room.failed() || counts.failed()) return NO_MEMORY;
  const Merge merge{room.data(), counts.data(), size};
  const Matrix<double> fresh{room.data() + size, n_labels, k};
  for (Int i = n_labels; i < size; ++i) merge.heads[i] = -INFINITE;
  Int sequence = 0;
  for (Int t = 0; t < scores.rows; ++t) {
    const double *const e = edge[edge.rows > 1 ? t : 0], *const score = scores[t];
    double peak = -INFINITE;
    for (Int j = 0; j < n_labels; ++j) {
      for (Int i = 0; i < n_labels; ++i) {  // the best of each i; once it is taken, the next best takes its place
        merge.taken[i] = 0;
        merge.heads[i] = starts[t] ? -INFINITE : ranked[i][0] + e[i * width + j];
      }
      for (Int r = 0; r < k; ++r) {
        const Int i = merge.best();
        back(t, j)[r] = i >= 0 ? uint32_t(i * k + merge.taken[i]) : 0;
        fresh[j][r] = i >= 0 ? merge.heads[i] + score[j] : -INFINITE;
        if (i < 0) continue;
        const Int q = ++merge.taken[i];
        merge.heads[i] = q < k ? ranked[i][q] + e[i * width + j] : -INFINITE;
      }
      if (starts[t]) fresh[j][0] = score[j];
      peak = larger(fresh[j][0], peak);
    }
    for (Int s = 0; s < n_labels * k; ++s) ranked.data[s] = fresh.data[s] - peak;
    if (!ends[t]) continue;
    for (Int j = 0; j < n_labels; ++j) {
      merge.taken[j] = 0;
      merge.heads[j] = ranked[j][0];
    }
    for (Int r = 0; r < k; ++r) {
      const Int j = merge.best();
      gaps[sequence][r] = j >= 0 ? merge.heads[j] : -INFINITE;
      finals[sequence][r] = j >= 0 ? j * k + merge.taken[j] : -1;
      if (j < 0) continue;
      const Int q = ++merge.taken[j];
      merge.heads[j] = q < k ? ranked[j][q] : -INFINITE;
    }
    ++sequence;
  }
  return OK;
}

// k paths back through a block, (y, r)_{t-1} = back_t((y, r)_t), each sequence from its own last states.
//
// states: [k], j · k + r or -1, of the last position in, of the position before the block out. labels: [k, B].
inline void trace_ranked(Span<const bool> ends, Cube<const uint32_t> back, Matrix<const int64_t> finals,
                         int64_t* states, Matrix<int32_t> labels) {
  const Int k = back.columns;
  Int sequence = finals.rows;
  for (Int t = back.planes - 1; t >= 0; --t) {
    if (ends[t]) --sequence;
    for (Int r = 0; r < k; ++r) {
      const Int state = ends[t] ? finals[sequence][r] : states[r];
      labels[r][t] = state >= 0 ? int32_t(state / k) : -1;
      states[r] = state >= 0 ? Int(back(t, state / k)[state % k]) : -1;
    }
  }
}

}  // namespace core
