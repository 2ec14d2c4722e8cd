// One sequence of items at a time: its attributes to state scores, and to the best labels, in one call.
//
//   s_t(j) = Σ_a x_t(a) · W[a, j]      over the attributes a of item t that the model knows; -inf for labels that may
//                                      not start the sequence at its first item, or end it at its last
#pragma once

#include "scores.hpp"
#include "viterbi.hpp"

namespace core {

// The attributes of a sequence, by the names that a block has for them.
struct Entries {
  Span<const int64_t> offsets;  // [T + 1]
  Span<const int32_t> ids;
  Span<const double> values;  // or empty: all ones

  Int size() const { return offsets.size - 1; }
};

// The weights of a model, ready to score sequences.
struct SequenceModel {
  const RowLayout& rows;
  const Weights& weights;
  const double* blank;
  double most;  // attributes of an item times the size of their values, beyond which a score may overflow
  Span<const int64_t> first, last;  // labels that may not start or end a sequence
};

// Whether (the most attributes of an item) · (their largest value) leaves a score in the range of a double.
inline bool in_range(const Entries& entries, double most) {
  Int widest = 0;
  double largest = entries.values.empty() ? 1.0 : 0.0;
  for (Int t = 0; t < entries.size(); ++t) {
    const Int count = entries.offsets[t + 1] - entries.offsets[t];
    widest = count > widest ? count : widest;
  }
  for (Int k = 0; k < entries.values.size; ++k) largest = larger(absolute(entries.values[k]), largest);
  return double(widest) * largest < most;
}

// out: [T, width], the state scores
template <class Shape>
inline Status score_sequence(Shape shape, const Entries& entries, const SequenceModel& model, double* out) {
  if (!in_range(entries, model.most)) return TOO_LARGE;
  const Int size = entries.size();
  const RoomOf<int64_t> places(2 * size + 1);
  if (places.failed()) return NO_MEMORY;
  const Span<int64_t> begin{places.data(), size + 1}, turn{places.data() + size + 1, size};
  const Int count = find_rows(entries.offsets, entries.ids, entries.values, model.rows, {begin, turn, {}, {}});
  const Int valued = entries.values.empty() ? 0 : count;
  const RoomOf<uint32_t> rows(count);
  const Room values(valued);
  if (rows.failed() || values.failed()) return NO_MEMORY;
  const BlockRowsOut out_rows{begin, turn, {rows.data(), count}, {values.data(), valued}};
  find_rows(entries.offsets, entries.ids, entries.values, model.rows, out_rows);
  const BlockRows block_rows{{begin.data, size + 1}, {turn.data, size}, {rows.data(), count}, {values.data(), valued}};
  const WeightScores<Shape> source{shape, block_rows, model.rows, model.weights, model.blank};
  source.score(0, size, out);
  for (Int k = 0; k < model.first.size; ++k) out[model.first[k]] = -INFINITE;
  for (Int k = 0; k < model.last.size; ++k) out[(size - 1) * shape.width + model.last[k]] = -INFINITE;
  return OK;
}

// labels: [T], the best one of each item; edge: the scores of transitions; back: [T, N], room for pointers
template <class Shape, class Pointer>
inline Status label_sequence(Shape shape, const Entries& entries, const SequenceModel& model,
                             Matrix<const double> edge, Matrix<Pointer> back, int32_t* labels) {
  const Int size = entries.size(), width = shape.width;
  const Room room((size + 1) * width);
  const RoomOf<bool> marks(2 * size);
  if (room.failed() || marks.failed()) return NO_MEMORY;
  double *const delta = room.data(), *const scores = delta + width;
  const Status scored = score_sequence(shape, entries, model, scores);
  if (scored != OK) return scored;
  bool *const starts = marks.data(), *const ends = starts + size;
  starts[0] = ends[size - 1] = true;
  TwoSum total;
  int64_t label = 0;
  double best = 0.0;
  Int fault = 0;
  const Status status = viterbi(shape, {starts, size}, {ends, size}, scores, edge, delta, total, back, &label, &best,
                                fault);
  if (status == OK) trace(Matrix<const Pointer>{back.data, size, back.columns}, label, labels);
  return status;
}

}  // namespace core
