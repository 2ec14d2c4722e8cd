// The best labellings, and what follows from posteriors.
#include "bind.hpp"
#include "posteriors.hpp"
#include "sentence.hpp"
#include "viterbi.hpp"

namespace nb = nanobind;

namespace core {

namespace {

// A sum that Python carries in two numbers.
class CarriedSum {
 public:
  explicit CarriedSum(Span<double> parts) : sum{parts[0], parts[1]}, parts_(parts) {}
  ~CarriedSum() {
    parts_[0] = sum.total;
    parts_[1] = sum.compensation;
  }
  CarriedSum(const CarriedSum&) = delete;
  CarriedSum& operator=(const CarriedSum&) = delete;

  TwoSum sum;

 private:
  Span<double> parts_;
};

template <class Pointer>
std::pair<int, Int> viterbi_block(Span<const bool> starts, Span<const bool> ends, Matrix<const double> scores,
                                  Matrix<const double> edge, Span<double> delta, Span<double> total,
                                  Matrix<Pointer> back, Span<int64_t> finals, Span<double> best) {
  CarriedSum carried(total);
  Int fault = 0;
  const int status = with_shape(scores.columns, [&](auto shape) -> int {
    return viterbi(shape, starts, ends, scores.data, edge, delta.data, carried.sum, back, finals.data, best.data,
                   fault);
  });
  return {status, fault};
}

template <class Pointer>
Int trace_block(Matrix<const Pointer> back, Int label, Span<int32_t> labels) {
  return trace(back, label, labels.data);
}

template <class Pointer>
void coalesce_block(Matrix<const Pointer> back, Span<int64_t> heads) {
  coalesce(back, heads);
}

template <class Pointer>
std::pair<int, bool> follow_block(Matrix<const Pointer> back, Span<const int64_t> heads, Span<int64_t> origin) {
  bool agree = false;
  const int status = follow(back, heads, origin, agree);
  return {status, agree};
}

template <class Pointer>
std::pair<int, Int> coalesced_block(Matrix<const Pointer> back, Span<const int64_t> heads, Span<int64_t> origin,
                                    Span<int32_t> labels) {
  Int count = 0;
  const int status = coalesced(back, heads, origin.data, labels.data, count);
  return {status, count};
}

template <class Pointer>
void origins_block(Matrix<const Pointer> back, Span<const int64_t> heads, Span<int64_t> origin) {
  origins(back, heads, origin.data);
}

int rank_block(Span<const bool> starts, Span<const bool> ends, Matrix<const double> scores, Matrix<const double> edge,
               Matrix<double> ranked, Cube<uint32_t> back, Matrix<int64_t> finals, Matrix<double> gaps) {
  return rank(starts, ends, scores, edge, ranked, back, finals, gaps);
}

void trace_ranked_block(Span<const bool> ends, Cube<const uint32_t> back, Matrix<const int64_t> finals,
                        Span<int64_t> states, Matrix<int32_t> labels) {
  trace_ranked(ends, back, finals, states.data, labels);
}

int draw_block(const Lattice& lattice, Matrix<const double> posterior, Matrix<const double> uniforms,
               Matrix<int32_t> labels) {
  return draw(lattice, posterior, uniforms, labels);
}

template <class Pointer>
int best_probability_block(const Lattice& lattice, Span<const bool> ends, Matrix<const Pointer> back,
                           Span<const int64_t> finals, Span<double> logs, Span<double> total, Span<double> out) {
  CarriedSum carried(total);
  return best_probability(lattice, ends, back, finals.data, logs.data, carried.sum, out.data);
}

void given_probability_block(const Lattice& lattice, Span<const bool> ends, Int before, Span<double> total,
                             Span<double> out) {
  CarriedSum carried(total);
  given_probability(lattice, ends, before, carried.sum, out.data);
}

int entropy_block(const Lattice& lattice, Span<const bool> ends, Span<const double> log_edge, Span<double> given,
                  Span<double> total, Span<double> out) {
  CarriedSum carried(total);
  return with_shape(given.size, [&](auto shape) -> int {
    return entropy(shape, lattice, ends, log_edge, given.data, carried.sum, out.data);
  });
}

int count_pairs_block(const Lattice& lattice, Matrix<const double> posteriors, Matrix<double> pairs) {
  return with_shape(posteriors.columns,
                    [&](auto shape) -> int { return count_pairs(shape, lattice, posteriors, pairs); });
}

int score_items(Span<const int64_t> offsets, Span<const int32_t> ids, Span<const double> values, const RowLayout& rows,
                const Weights& weights, Span<const double> blank, double most, Span<const int64_t> first,
                Span<const int64_t> last, Matrix<double> out) {
  return with_shape(rows.width, [&](auto shape) -> int {
    return score_sequence(shape, {offsets, ids, values}, {rows, weights, blank.data, most, first, last}, out.data);
  });
}

template <class Pointer>
int label_items(Span<const int64_t> offsets, Span<const int32_t> ids, Span<const double> values, const RowLayout& rows,
                const Weights& weights, Span<const double> blank, double most, Span<const int64_t> first,
                Span<const int64_t> last, Matrix<const double> edge, Matrix<Pointer> back, Span<int32_t> labels) {
  return with_shape(rows.width, [&](auto shape) -> int {
    return label_sequence(shape, {offsets, ids, values}, {rows, weights, blank.data, most, first, last}, edge, back,
                          labels.data);
  });
}

using Free = nb::call_guard<Unlocked>;
using nb::arg;

template <class Pointer>
void bind_pointers(nb::module_& m) {
  m.def("viterbi", &viterbi_block<Pointer>, arg("starts"), arg("ends"), arg("scores"), arg("edge"), arg("delta"),
        arg("total"), arg("back"), arg("finals"), arg("best"), Free(),
        "Viterbi forward over a block; returns (status, position of the fault).");
  m.def("trace", &trace_block<Pointer>, arg("back"), arg("label"), arg("labels"), Free(),
        "The labels of a block whose last one is known; returns the one before the block.");
  m.def("coalesce", &coalesce_block<Pointer>, arg("back"), arg("heads"), Free(),
        "Labels at the block's end become those before the block on their best paths.");
  m.def("follow", &follow_block<Pointer>, arg("back"), arg("heads"), arg("origin"), Free(),
        "Carry the origins over further positions; returns (status, whether those of the heads agree).");
  m.def("coalesced", &coalesced_block<Pointer>, arg("back"), arg("heads"), arg("origin"), arg("labels"), Free(),
        "Label the positions up to the last one on which all best paths agree; returns (status, their number).");
  m.def("origins", &origins_block<Pointer>, arg("back"), arg("heads"), arg("origin"), Free(),
        "The label of the first position on the best path to each head.");
  m.def("best_probability", &best_probability_block<Pointer>, arg("lattice"), arg("ends"), arg("back"), arg("finals"),
        arg("logs"), arg("total"), arg("out"), Free(), "Log probability of the best labelling of each sequence.");
  m.def("label_sequence", &label_items<Pointer>, arg("offsets"), arg("ids"), arg("values"), arg("rows"),
        arg("weights"), arg("blank"), arg("most"), arg("first"), arg("last"), arg("edge"), arg("back"), arg("labels"),
        Free(), "The best label of each item of one sequence, from the attributes of the items.");
}

}  // namespace

void bind_paths(nb::module_& m) {
  bind_pointers<uint8_t>(m);
  bind_pointers<uint16_t>(m);
  m.def("rank", &rank_block, arg("starts"), arg("ends"), arg("scores"), arg("edge"), arg("ranked"), arg("back"),
        arg("finals"), arg("gaps"), Free(), "The k best scores of each label, forward over a block.");
  m.def("trace_ranked", &trace_ranked_block, arg("ends"), arg("back"), arg("finals"), arg("states"), arg("labels"),
        Free(), "The k best labellings of a block whose last states are known.");
  m.def("draw", &draw_block, arg("lattice"), arg("posterior"), arg("uniforms"), arg("labels"), Free(),
        "Labellings drawn from their distribution.");
  m.def("given_probability", &given_probability_block, arg("lattice"), arg("ends"), arg("before"), arg("total"),
        arg("out"), Free(), "Log probability of the block's own labels, for each sequence.");
  m.def("entropy", &entropy_block, arg("lattice"), arg("ends"), arg("log_edge"), arg("given"), arg("total"), arg("out"),
        Free(), "Entropy of the labelling of each sequence.");
  m.def("count_pairs", &count_pairs_block, arg("lattice"), arg("posteriors"), arg("pairs"), Free(),
        "Expected transitions of a block.");
  m.def("score_sequence", &score_items, arg("offsets"), arg("ids"), arg("values"), arg("rows"), arg("weights"),
        arg("blank"), arg("most"), arg("first"), arg("last"), arg("out"), Free(),
        "State scores of the items of one sequence.");
}

}  // namespace core
