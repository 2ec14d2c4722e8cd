// Forward, back, scores and certificates.
#include "bind.hpp"
#include "certificate.hpp"
#include "sequences.hpp"
#include "sinks.hpp"

namespace nb = nanobind;

namespace core {

namespace {

using Scale = std::pair<double, double>;
Scale pair_of(const TwoSum& sum) { return {sum.total, sum.compensation}; }

void state_scores(const BlockRows& block_rows, const RowLayout& rows, const Weights& weights, Span<const double> blank,
                  Matrix<double> out) {
  with_shape(rows.width, [&](auto shape) {
    const WeightScores<decltype(shape)> source{shape, block_rows, rows, weights, blank.data};
    source.score(0, block_rows.turn.size, out.data);
  });
}

std::pair<int, Int> observe_block(const Block& block, const RowLayout& rows, const Weights& weights, int previous,
                                  bool forbidding, const Counts& counts) {
  int32_t last = previous;
  const Int forbidden = observe(block, rows, weights, last, forbidding, counts);
  return {last, forbidden};
}

double exponentiate_edges_of(Matrix<double> edge, Span<double> shift) { return exponentiate_edges(edge, shift.data); }

std::pair<int, Scale> forward_block(Span<const bool> starts, Matrix<double> alpha, Matrix<double> predicted,
                                    Matrix<const double> edge, Span<const double> shift, Span<const double> entry,
                                    Int n_labels, bool watch) {
  TwoSum scale;
  const int status = with_shape(alpha.columns, [&](auto shape) {
    return forward(shape, starts, alpha.data, predicted.data, edge, shift.data, entry.data, n_labels, watch, scale);
  });
  return {status, pair_of(scale)};
}

int predict_block(Span<const bool> starts, Matrix<const double> alpha, Matrix<const double> edge,
                  Span<const double> entry, Int n_labels, Matrix<double> predicted) {
  return with_shape(alpha.columns, [&](auto shape) -> int {
    const ByTiles<decltype(shape)> matrix(shape, edge[0], edge.rows > 1 ? 0 : n_labels);
    if (matrix.failed()) return NO_MEMORY;
    predict(shape, starts, alpha.data, entry.data, edge, matrix, n_labels, predicted.data);
    return OK;
  });
}

std::tuple<int, Scale, Int> forward_wide_block(Span<const bool> starts, Matrix<const double> scores,
                                               Matrix<const double> edge, Span<const double> entry, Int n_labels,
                                               Matrix<double> alpha, Matrix<double> predicted) {
  TwoSum scale;
  Int fault = 0;
  const int status = forward_wide(starts, scores, edge, entry.data, n_labels, alpha, predicted, scale, fault);
  return {status, pair_of(scale), fault};
}

int backward_block(const BlockRows& block_rows, const Lattice& lattice, Matrix<const double> edge_t, Span<double> gamma,
                   const RowLayout& rows, Matrix<double> pairs, const Counts& counts) {
  return with_shape(rows.width, [&](auto shape) -> int {
    const ByTiles<decltype(shape)> matrix(shape, edge_t.data, lattice.n_labels);
    if (matrix.failed()) return NO_MEMORY;
    const CountSink<decltype(shape)> sink{shape, block_rows, rows, counts};
    backward(shape, lattice, matrix, gamma.data, pairs.data, nullptr, sink);
    return OK;
  });
}

void backward_general_block(const Block& block, const BlockRows& block_rows, const Lattice& lattice, Span<double> gamma,
                            const RowLayout& rows, Cube<double> scratch, const Counts& counts) {
  for (Int k = 0; k < scratch.rows * scratch.columns; ++k) scratch(1, 0)[k] = 0.0;
  with_shape(rows.width, [&](auto shape) {
    const CountSink<decltype(shape)> sink{shape,  block_rows,    rows,            counts,
                                          &block, scratch(1, 0), lattice.n_labels};
    backward_general(lattice, gamma.data, rows.width, scratch(0, 0), sink);
  });
}

int posteriors(const Lattice& lattice, Matrix<const double> edge_t, Span<double> gamma, Matrix<double> out) {
  const RowSink sink{out};
  const Int width = out.columns, n_labels = lattice.n_labels;
  const bool fast = edge_t.rows > 0;
  const Room room(fast ? width : n_labels * width);
  if (room.failed()) return NO_MEMORY;
  if (!fast) {
    backward_general(lattice, gamma.data, width, room.data(), sink);
    return OK;
  }
  return with_shape(width, [&](auto shape) -> int {
    const ByTiles<decltype(shape)> matrix(shape, edge_t.data, n_labels);
    if (matrix.failed()) return NO_MEMORY;
    backward(shape, lattice, matrix, gamma.data, nullptr, room.data(), sink);
    return OK;
  });
}

std::pair<Int, Scale> sequences_of_block(const BlockRows& block_rows, const Lattice& lattice, const RowLayout& rows,
                                         const Weights& weights, Span<const double> blank, Matrix<const double> edge_t,
                                         Span<const double> shift, bool watch, Span<double> gamma, Matrix<double> pairs,
                                         const Counts& counts) {
  TwoSum scale;
  const Int done = with_shape(rows.width, [&](auto shape) -> Int {
    using Shape = decltype(shape);
    const ByTiles<Shape> matrix(shape, edge_t.data, lattice.n_labels);
    if (matrix.failed()) return 0;
    const WeightScores<Shape> source{shape, block_rows, rows, weights, blank.data};
    const CountSink<Shape> sink{shape, block_rows, rows, counts};
    return whole_sequences(shape, lattice, source, sink, matrix, shift.data, watch, gamma.data, pairs.data, scale);
  });
  return {done, pair_of(scale)};
}

std::pair<bool, Int> look_ahead_block(const Lattice& lattice, double tolerance, Span<const double> ignore,
                                      Matrix<double> q, Cube<double> scratch, Span<double> gamma) {
  const Agreement agreement{tolerance, ignore.data, lattice.n_labels, q.columns};
  Int looked = 0;
  const bool certified = look_ahead(lattice, agreement, q.data, scratch.data, gamma.data, looked);
  return {certified, looked};
}

Int last_certified_position(const Lattice& lattice, double tolerance, Span<const double> ignore, Matrix<double> q,
                            Cube<double> scratch, Span<double> gamma) {
  const Agreement agreement{tolerance, ignore.data, lattice.n_labels, q.columns};
  return last_certified(lattice, agreement, q.data, scratch.data, gamma.data);
}

}  // namespace

void bind_lattice(nb::module_& m) {
  using Free = nb::call_guard<Unlocked>;
  using nb::arg;
  m.attr("EDGE_RANGE") = EDGE_RANGE;
  m.attr("LEAST_ALPHA") = LEAST_ALPHA;
  m.attr("LN2_HIGH") = LN2_HIGH;
  m.attr("LN2_LOW") = LN2_LOW;
  m.attr("NEGLIGIBLE") = NEGLIGIBLE;
  m.attr("PORTION") = PORTION;
  m.def("find_rows", &find_rows, arg("offsets"), arg("ids"), arg("values"), arg("rows"), arg("out"), Free(),
        "The rows of a block's attributes; returns the room that they need.");
  m.def("state_scores", &state_scores, arg("block_rows"), arg("rows"), arg("weights"), arg("blank"), arg("out"), Free(),
        "State scores of a block: out[t, j] = s_t(j).");
  m.def("edge_scores", &edge_scores, arg("block"), arg("weights"), arg("out"), Free(),
        "Edge scores of a block: out[t, i·width + j] = e_t(i, j).");
  m.def("fold", &fold, arg("counts"), Free(), "Add the recent counts of frequent attributes to their second level.");
  m.def("observe", &observe_block, arg("block"), arg("rows"), arg("weights"), arg("previous"), arg("forbidding"),
        arg("counts"), Free(), "Count a block's own labels; returns its last label and the first forbidden position.");
  m.def("exponentiate_edges", &exponentiate_edges_of, arg("edge"), arg("shift"), Free(),
        "e_t becomes E_t in place, shift[t] its maximum; returns the widest range of finite scores in a position.");
  m.def("forward", &forward_block, arg("starts"), arg("alpha"), arg("predicted"), arg("edge"), arg("shift"),
        arg("entry"), arg("n_labels"), arg("watch"), Free(),
        "Forward over a block in doubles, state scores becoming forward vectors; returns (status, log scale).");
  m.def("predict", &predict_block, arg("starts"), arg("alpha"), arg("edge"), arg("entry"), arg("n_labels"),
        arg("predicted"), Free(), "The predictions of a block from its forward vectors.");
  m.def("forward_wide", &forward_wide_block, arg("starts"), arg("scores"), arg("edge"), arg("entry"), arg("n_labels"),
        arg("alpha"), arg("predicted"), Free(),
        "Forward over a block in wide numbers; returns (status, log scale, position of the fault).");
  m.def("backward", &backward_block, arg("block_rows"), arg("lattice"), arg("edge_t"), arg("gamma"), arg("rows"),
        arg("pairs"), arg("counts"), Free(), "Back over a block with one transition matrix, adding expected counts.");
  m.def("backward_general", &backward_general_block, arg("block"), arg("block_rows"), arg("lattice"), arg("gamma"),
        arg("rows"), arg("scratch"), arg("counts"), Free(),
        "Back over a block of wide numbers or with a matrix for each position, adding expected counts.");
  m.def("posteriors", &posteriors, arg("lattice"), arg("edge_t"), arg("gamma"), arg("out"), Free(),
        "Posteriors of a block from that of its last position.");
  m.def("whole_sequences", &sequences_of_block, arg("block_rows"), arg("lattice"), arg("rows"), arg("weights"),
        arg("blank"), arg("edge_t"), arg("shift"), arg("watch"), arg("gamma"), arg("pairs"), arg("counts"), Free(),
        "There and back over whole sequences; returns (positions done, log scale).");
  m.def("look_ahead", &look_ahead_block, arg("lattice"), arg("tolerance"), arg("ignore"), arg("q"), arg("scratch"),
        arg("gamma"), Free(), "Extend a certificate over a block; returns (certified, positions looked at).");
  m.def("last_certified", &last_certified_position, arg("lattice"), arg("tolerance"), arg("ignore"), arg("q"),
        arg("scratch"), arg("gamma"), Free(), "The last certified position of a block, -2 where there is none.");
}

}  // namespace core
