// Perceptron, passive-aggressive and AROW: the best path of each piece of a block and, where it is wrong, an update.
//
//   ŷ      = argmax_y Σ_t s_t(y_t) + e_t(y_{t-1}, y_t)              Viterbi, ties to the smaller label
//   Δ      = F(x, y) - F(x, ŷ)                                      features of the labels minus those of the path
//   margin = Δ · w                                                  never above zero: ŷ is the best
//   wrong  = the number of positions with y_t ≠ ŷ_t
//
//   perceptron           w += Δ
//   passive-aggressive   w += τ Δ            cost = 1 - margin, or √wrong - margin if sensitive to errors
//                        τ = cost / ‖Δ‖²  |  min(c, cost / ‖Δ‖²)  |  cost / (‖Δ‖² + 1 / 2c)
//   AROW                 w += α Σ Δ          cost = wrong - margin, α = cost / (Δ · Σ Δ + γ), Σ diagonal
//                        Σ  = 1 / (1 / Σ + Δ² / γ)
//
// A piece of a sequence of weight v takes v times the step. The average over all pieces seen is w - u / n, where u
// gathers n times each step and n is one more than the pieces seen before it.
//
// A weight may meet with both signs, so Δ is gathered first, in an array as large as the weights that is zero
// everywhere between two pieces, with the list of the slots touched. Where y and ŷ agree they cancel: nothing is added.
#pragma once

#include "scores.hpp"

namespace core {

enum Algorithm : Int { PERCEPTRON = 0, PASSIVE_AGGRESSIVE = 1, AROW = 2 };

// How far a step goes; `chainfold.training.perceptron.UpdateRule`.
struct UpdateRule {
  Int algorithm;
  Int type;  // of passive-aggressive: 0, 1 or 2
  double c;
  bool error_sensitive;
  bool averaging;
  double gamma;
};

// The weights in training, the model's shape, and the space to work in; `chainfold.training.perceptron.Learner`.
struct Learner {
  RowLayout rows;
  Span<const double> blank;  // [width]  0 for a label, -inf for padding
  Span<const double> first;  // [width]  -inf also for labels that may not begin a sequence
  Span<const double> last;   // [width]  …that may not end one
  Span<const bool> exists;   // [slots]  which slots are weights of the model; the others stay as they are
  Span<double> weights;      // [slots]
  Weights slots;             // the parts of `weights`, in its memory
  Span<double> second;       // [slots]  u where averaged, Σ of AROW, else empty
  Span<double> delta;        // [slots]  Δ while it is gathered, else zero
  Span<double> edge;         // [N · width]  e_t of one position
};

// Space for the longest piece of a block; `chainfold.training.perceptron.Scratch`.
struct Scratch {
  Matrix<double> lattice;  // [longest, width]
  Span<int32_t> path;      // [longest]
  Span<int64_t> touched;   // [twice the features of a path]
  Span<double> amount;     // likewise
};

// Positions on which one update is based; enter and leave: 0 for labels that its first and last position may have.
struct Piece {
  Block block;
  BlockRows rows;
  const double *enter, *leave;

  Int size() const { return block.labels.size; }
  bool has_edges() const { return !block.edge_offsets.empty(); }
};

// Positions low … high-1 of a block.
INLINE Block block_between(const Block& block, Int low, Int high) {
  Block part = block;
  part.labels = {block.labels.data + low, high - low};
  part.starts = {block.starts.data + low, high - low};
  part.offsets = {block.offsets.data + low, high - low + 1};
  if (!block.edge_offsets.empty()) part.edge_offsets = {block.edge_offsets.data + low, high - low + 1};
  if (!block.weights.empty()) part.weights = {block.weights.data + low, high - low};
  return part;
}

// e_t(i, j) at i · width + j: one matrix for all positions, or that of one position in learner.edge.
INLINE const double* edge_of(const Piece& piece, Int t, const Learner& learner) {
  if (!piece.has_edges()) return learner.slots.transition.data;
  edge_scores(block_between(piece.block, t, t + 1), learner.slots, {learner.edge.data, 1, learner.edge.size});
  return learner.edge.data;
}

// None of them is +inf or not a number.
INLINE bool below_infinity(const double* numbers, Int size) {
  bool fine = true;
  for (Int k = 0; k < size; ++k) fine &= numbers[k] < INFINITE;
  return fine;
}

// The first position where every label is forbidden.
inline Int first_impossible(Matrix<const double> lattice, Int positions) {
  for (Int t = 0; t < positions; ++t) {
    Int possible = 0;
    for (Int j = 0; j < lattice.columns; ++j) possible += lattice[t][j] > -INFINITE;
    if (possible == 0) return t;
  }
  return positions - 1;
}

// Best score before each label of a tile, max_i δ(i) + e(i, j); the even and the odd labels need not wait for one
// another, and the maximum of numbers does not depend on their order.
template <int C>
INLINE Vec<C> best_before(const double* delta, const double* edge, Int width, Int n_labels) {
  Vec<C> even = splat<C>(-INFINITE), odd = even;
  Int i = 0;
  for (; i + 1 < n_labels; i += 2, edge += 2 * width) {
    even = maximum(splat<C>(delta[i]) + load<C>(edge), even);
    odd = maximum(splat<C>(delta[i + 1]) + load<C>(edge + width), odd);
  }
  if (i < n_labels) even = maximum(splat<C>(delta[i]) + load<C>(edge), even);
  return maximum(even, odd);
}

// δ_0 = s_0 + enter,  δ_t(j) = s_t(j) + max_i (δ_{t-1}(i) + e_t(i,j)),  the last δ + leave; ŷ into scratch.path.
//
// δ takes the place of the scores. The way back finds the best label before ŷ_t from δ_{t-1} alone, so that no pointers
// are kept. fault: the position where a score is not finite or no label is possible.
template <class Shape>
inline Status best_path(Shape shape, const Piece& piece, const Learner& learner, const Scratch& scratch, Int& fault) {
  constexpr int C = Shape::columns;
  const Int width = shape.width, n_labels = learner.slots.transition.size / width, last = piece.size() - 1;
  const Matrix<double> lattice{scratch.lattice.data, scratch.lattice.rows, width};
  const WeightScores<Shape> source{shape, piece.rows, learner.rows, learner.slots, learner.blank.data};
  source.score(0, last + 1, lattice.data);
  for (fault = 0; fault <= last; ++fault) {
    const Int t = fault;
    double* const row = lattice[t];
    const double* edge = nullptr;
    if (t > 0) {
      edge = edge_of(piece, t, learner);
      if (piece.has_edges() && !below_infinity(edge, learner.edge.size)) return NOT_FINITE;
    }
    for (Int c = 0; c < width; c += C) {
      const auto before = t > 0 ? best_before<C>(row - width, edge + c, width, n_labels) : load<C>(piece.enter + c);
      auto score = load<C>(row + c) + before;  // s_t(j) + max_i (δ_{t-1}(i) + e_t(i,j))
      if (t == last) score = score + load<C>(piece.leave + c);
      store(row + c, score);
    }
    if (!below_infinity(row, width)) return NOT_FINITE;
  }
  int32_t label = 0;
  for (Int j = 1; j < n_labels; ++j) {  // ŷ of the last position: argmax_j δ(j)
    if (lattice[last][j] > lattice[last][label]) label = int32_t(j);
  }
  if (lattice[last][label] == -INFINITE) {
    fault = first_impossible({lattice.data, lattice.rows, width}, last + 1);
    return ZERO;
  }
  for (Int t = last; t > 0; --t) {
    scratch.path[t] = label;
    const double *const edge = edge_of(piece, t, learner) + label, *const before = lattice[t - 1];
    int32_t best = 0;
    double best_score = before[0] + edge[0];
    for (Int i = 1; i < n_labels; ++i) {  // ŷ_{t-1} = argmax_i δ_{t-1}(i) + e_t(i, ŷ_t)
      const double score = before[i] + edge[i * width];
      if (score > best_score) {
        best = int32_t(i);
        best_score = score;
      }
    }
    label = best;
  }
  scratch.path[0] = label;
  fault = 0;
  return OK;
}

// Δ[slot] += amount; false where its weight is forbidden. A slot whose sum has come back to zero may be listed again.
INLINE bool add(Int slot, double amount, const Learner& learner, const Scratch& scratch, Int& count) {
  if (!learner.exists[slot] || amount == 0.0) return true;
  if (learner.weights[slot] == -INFINITE) return false;
  if (learner.delta[slot] == 0.0) scratch.touched[count++] = slot;
  learner.delta[slot] += amount;
  return true;
}

// Δ[a, label] += sign · x_t(a) for each attribute; false where one is forbidden.
inline bool add_state(const Piece& piece, Int t, Int label, double sign, const Learner& learner, const Scratch& scratch,
                      Int& count) {
  const Block& block = piece.block;
  for (Int k = block.offsets[t]; k < block.offsets[t + 1]; ++k) {
    const Int attribute = block.ids[k];
    Int slot = attribute * learner.blank.size + label;
    if (attribute >= learner.rows.dense) {
      slot = sparse_slot(learner.rows, attribute, label);
      if (slot < 0) continue;
      slot += learner.slots.dense.size;
    }
    const double value = block.values.empty() ? 1.0 : block.values[k];
    if (!add(slot, sign * value, learner, scratch, count)) return false;
  }
  return true;
}

// Δ[before, label] += sign for the transition into t, and sign · z_t(b) for each edge attribute with it.
inline bool add_edge(const Piece& piece, Int t, Int before, Int label, double sign, const Learner& learner,
                     const Scratch& scratch, Int& count) {
  const Block& block = piece.block;
  const Int size = learner.slots.transition.size, begin = learner.weights.size - size - learner.slots.edge.size;
  const Int pair = begin + before * learner.blank.size + label;
  if (!add(pair, sign, learner, scratch, count)) return false;
  if (!piece.has_edges()) return true;
  for (Int k = block.edge_offsets[t]; k < block.edge_offsets[t + 1]; ++k) {
    const double value = block.edge_values.empty() ? 1.0 : block.edge_values[k];
    if (!add(pair + (1 + block.edge_ids[k]) * size, sign * value, learner, scratch, count)) return false;
  }
  return true;
}

// Gather Δ: the number of wrong labels, and how many slots are touched. fault: the position of a forbidden label.
//
// A label that is forbidden differs from the path, which is never so; hence it is enough to look where they differ.
inline Status difference(const Piece& piece, const Learner& learner, const Scratch& scratch, Int& wrong, Int& count,
                         Int& fault) {
  const Span<const int32_t> labels = piece.block.labels;
  const Int last = piece.size() - 1;
  wrong = count = 0;
  for (fault = 0; fault <= last; ++fault) {
    const Int t = fault;
    const int32_t label = labels[t], chosen = scratch.path[t];
    const int32_t label_before = t > 0 ? labels[t - 1] : label, chosen_before = t > 0 ? scratch.path[t - 1] : chosen;
    if (label != chosen) {
      ++wrong;
      if (!add_state(piece, t, label, 1.0, learner, scratch, count)) return FORBIDDEN;
      add_state(piece, t, chosen, -1.0, learner, scratch, count);
    }
    if (t > 0 && (label != chosen || label_before != chosen_before)) {
      if (!add_edge(piece, t, label_before, label, 1.0, learner, scratch, count)) return FORBIDDEN;
      add_edge(piece, t, chosen_before, chosen, -1.0, learner, scratch, count);
    }
  }
  fault = 0;
  if (piece.enter[labels[0]] == -INFINITE) return NOT_FIRST;
  fault = last;
  return piece.leave[labels[last]] == -INFINITE ? NOT_LAST : OK;
}

// Take Δ out of its array into (touched, amount), each slot once; returns how many there are.
inline Int settle(const Learner& learner, const Scratch& scratch, Int count) {
  Int kept = 0;
  for (Int k = 0; k < count; ++k) {
    const Int slot = scratch.touched[k];
    if (learner.delta[slot] == 0.0) continue;
    scratch.touched[kept] = slot;
    scratch.amount[kept++] = learner.delta[slot];
    learner.delta[slot] = 0.0;
  }
  return kept;
}

// τ or α; norm: ‖Δ‖², of AROW Δ · Σ Δ
inline double rate_of(const UpdateRule& rule, double cost, double norm) {
  if (rule.algorithm == AROW) return cost / (norm + rule.gamma);
  if (rule.algorithm == PERCEPTRON || norm == 0.0) return 1.0;
  if (rule.type == 0) return cost / norm;
  if (rule.type == 1) return cost / norm < rule.c ? cost / norm : rule.c;
  return cost / (norm + 0.5 / rule.c);
}

// Move the weights by the rule; `number` counts the pieces, this one included. Returns the cost.
inline double step(const UpdateRule& rule, Int wrong, Int count, double weight, Int number, const Learner& learner,
                   const Scratch& scratch) {
  double margin = 0.0, norm = 0.0;
  for (Int k = 0; k < count; ++k) {
    const Int slot = scratch.touched[k];
    const double amount = scratch.amount[k];
    margin += amount * learner.weights[slot];                                         // Δ · w
    norm += amount * amount * (rule.algorithm == AROW ? learner.second[slot] : 1.0);  // Δ · Σ Δ
  }
  double cost = double(wrong) - margin;
  if (rule.algorithm == PASSIVE_AGGRESSIVE) {
    cost = (rule.error_sensitive ? __builtin_sqrt(double(wrong)) : 1.0) - margin;
  }
  const double rate = weight * rate_of(rule, cost, norm);
  for (Int k = 0; k < count; ++k) {
    const Int slot = scratch.touched[k];
    const double amount = scratch.amount[k];
    if (rule.algorithm == AROW) {
      const double variance = learner.second[slot];
      learner.weights[slot] += rate * variance * amount;                                             // w += α Σ Δ
      learner.second[slot] = variance / (1.0 + variance * (weight * amount * amount / rule.gamma));  // 1/(1/Σ + Δ²/γ)
    } else {
      learner.weights[slot] += rate * amount;                                        // w += τ Δ
      if (rule.averaging) learner.second[slot] += double(number) * (rate * amount);  // u += n τ Δ
    }
  }
  return cost;
}

// Train on pieces begins[p] … begins[p+1]-1, p in `order`; `closed` where a sequence ends with the block.
//
// loss: the sum of the losses; a loss is the share of wrong labels for the perceptron, the cost for the others. `seen`:
// pieces trained on before. fault: the faulty position.
template <class Shape>
inline Status learn(Shape shape, const Block& block, const BlockRows& block_rows, Span<const int64_t> begins,
                    Span<const int64_t> order, bool closed, const UpdateRule& rule, const Learner& learner,
                    const Scratch& scratch, Int seen, Int& fault, double& loss) {
  loss = 0.0;
  for (Int number = 0; number < order.size; ++number) {
    const Int low = begins[order[number]], high = begins[order[number] + 1];
    const bool ends = high == block.labels.size ? closed : block.starts[high];
    const Piece piece{block_between(block, low, high), rows_between(block_rows, low, high),
                      block.starts[low] ? learner.first.data : learner.blank.data,
                      ends ? learner.last.data : learner.blank.data};
    Int wrong = 0, count = 0;
    Status status = best_path(shape, piece, learner, scratch, fault);
    if (status == OK) status = difference(piece, learner, scratch, wrong, count, fault);
    if (status != OK) {
      fault += low;
      return status;
    }
    if (wrong == 0) continue;
    const double weight = block.weights.empty() ? 1.0 : block.weights[low];
    const Int kept = settle(learner, scratch, count);
    const double cost = step(rule, wrong, kept, weight, seen + number + 1, learner, scratch);
    loss += weight * (rule.algorithm == PERCEPTRON ? double(wrong) / double(high - low) : cost);
  }
  fault = 0;
  return OK;
}

}  // namespace core
