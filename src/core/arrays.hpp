// What Python hands over: arrays by their first element and sizes, and records of arrays. Nothing here owns memory.
#pragma once

#include <cstdint>
#include <new>

namespace core {

using Int = int64_t;

template <class T>
struct Span {
  T* data = nullptr;
  Int size = 0;
  T& operator[](Int k) const { return data[k]; }
  bool empty() const { return size == 0; }
};

template <class T>
struct Matrix {
  T* data = nullptr;
  Int rows = 0, columns = 0;
  T* operator[](Int row) const { return data + row * columns; }
};

template <class T>
struct Cube {
  T* data = nullptr;
  Int planes = 0, rows = 0, columns = 0;
  T* operator()(Int plane, Int row) const { return data + (plane * rows + row) * columns; }
};

// Positions of a chain; `chainfold.chain.block.Block`.
struct Block {
  Span<const int32_t> labels;   // [B], -1 where unknown
  Span<const bool> starts;      // [B]
  Span<const int64_t> offsets;  // [B + 1]
  Span<const int32_t> ids;      // [entries]
  Span<const double> values;    // [entries], or empty: all ones
  Span<const int64_t> edge_offsets;
  Span<const int32_t> edge_ids;
  Span<const double> edge_values;
  Span<const double> weights;  // [B] of the positions' sequences, or empty: all ones
};

// Where the state weights of attributes are; `chainfold.core.slots.RowLayout`.
struct RowLayout {
  Int dense;                    // attributes 0 … dense-1 have padded rows
  Span<const int64_t> begin;    // [V - dense + 1]  where the entries of each later attribute begin
  Span<const uint16_t> label;   // [entries]  their labels, ascending in each row
  Int width;                    // of a padded row
};

// One number for each weight, padding included: the weights themselves, or counts of the same shape.
template <class T>
struct Slots {
  Span<T> dense;       // [dense · width]
  Span<T> sparse;      // [entries]
  Span<T> transition;  // [N · width]
  Span<T> edge;        // [K · N · width]
  Span<T> hot;         // of counts: what the first of the dense ones had before, a second level
};
using Weights = Slots<const double>;
using Counts = Slots<double>;

// The rows of a block's state attributes, without those of value zero.
template <class I, class R, class D>
struct RowsOf {
  Span<I> begin;  // [B + 1]
  Span<I> turn;   // [B]  where, at each position, the entries of short rows begin
  Span<R> row;    // attributes with padded rows, then entries of short ones
  Span<D> value;  // of each, or empty: all ones
};
using BlockRows = RowsOf<const int64_t, const uint32_t, const double>;
using BlockRowsOut = RowsOf<int64_t, uint32_t, double>;

// The weights in their own order: state rows, transitions, edge attributes; `chainfold.core.slots.FeatureIndex`.
struct Features {
  Span<const int64_t> begin;  // [V + 1]  the weights of attribute a are begin[a] … begin[a+1]-1
  Span<const int32_t> label;  // [state weights]
  Int n_labels;
};

// A block after the forward pass; `chainfold.core.slots.Lattice`.
struct Lattice {
  Span<const bool> starts;      // [B]
  Matrix<double> alpha;         // [B, width], wide: [B, 2 · width]
  Matrix<double> predicted;     // the same
  Matrix<const double> edge;    // [B or 1, N · width]  E_t, wide: e_t
  Span<const double> entry;     // [width], wide: [2 · width]  α of the position before the block
  Span<const int32_t> labels;   // [B]
  Span<const double> weights;   // [B]  the weight of each position's sequence, or empty: all ones
  bool wide;                    // whether alpha, predicted and entry are wide numbers
  Int n_labels;

  Int size() const { return starts.size; }
  const double* before(Int t) const { return t > 0 ? alpha[t - 1] : entry.data; }
  const double* edge_at(Int t) const { return edge[edge.rows > 1 ? t : 0]; }
};

// Room for numbers that a kernel needs beside what it is given, from one allocation; `failed` where there is no memory.
template <class T>
class RoomOf {
 public:
  explicit RoomOf(Int numbers)
      : memory_(static_cast<T*>(::operator new(sizeof(T) * numbers, LINE, std::nothrow))) {
    for (Int k = 0; memory_ && k < numbers; ++k) memory_[k] = T(0);
  }
  ~RoomOf() { ::operator delete(memory_, LINE); }
  RoomOf(const RoomOf&) = delete;
  RoomOf& operator=(const RoomOf&) = delete;
  bool failed() const { return memory_ == nullptr; }
  T* data() const { return memory_; }

 private:
  static constexpr std::align_val_t LINE{64};  // bytes of the cache; a vector across two of them takes two loads
  T* memory_;
};
using Room = RoomOf<double>;

// Statuses; `chainfold.core.faults` has their sentences.
enum Status : int {
  OK = 0,
  UNSAFE = 1,      // numbers came near the end of the range of a double: do it again in wide numbers
  ZERO = 2,        // no label is possible
  NOT_FINITE = 3,  // a score is infinite, or not a number
  FORBIDDEN = 4,   // the observed label has a weight of -inf
  NOT_FIRST = 5,   // the observed label may not start a sequence
  NOT_LAST = 6,    // the observed label may not end one
  NO_MEMORY = 7,
  TOO_LARGE = 8,  // a score may overflow
};

}  // namespace core
